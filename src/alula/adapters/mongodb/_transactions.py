"""`transaction`: an around hook by which a call takes effect as a whole, or not at all."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from pymongo import AsyncMongoClient, ReadPreference
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.client_session import TransactionOptions  # type: ignore[attr-defined]
from pymongo.errors import OperationFailure, PyMongoError

from alula._context import HookContext, Params
from alula._events import HeldEvents
from alula.adapters._records import copied
from alula.adapters.mongodb._failures import translated
from alula.adapters.mongodb._service import MongoDBService
from alula.adapters.mongodb._time_limit import limited
from alula.types import Id

__all__ = ["transaction"]

_log = logging.getLogger("alula.mongodb")

Client: TypeAlias = AsyncMongoClient[Any]
AroundHook: TypeAlias = Callable[[HookContext, Callable[[], Awaitable[None]]], Awaitable[None]]

_TRANSIENT: Final = "TransientTransactionError"
_UNKNOWN: Final = "UnknownTransactionCommitResult"
_TOO_LATE: Final = 50
_NO_TRANSACTIONS: Final = 20

_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.5
_LEAST_TO_END: Final = 1.0
"""Seconds that an abort or a commit gets, however late it is."""


def transaction(client: Client | None = None, *, seconds: float = 30, **options: Any) -> AroundHook:
    """Return an around hook that runs each call in a transaction of its own.

    It puts a session into ``params.docdb["session"]``. Whoever passes that on takes part: calls of
    other services with ``docdb=context.params.docdb``, and the driver's own with ``session=``. A
    call that comes with a session in a transaction joins it, so that hooks may be nested.

    What the call raises ends the transaction without a trace. A transaction that lost against
    another, or whose server went away, begins anew with the id, the data and the params that it
    began with; a commit whose outcome is unknown is repeated. So the hooks within may run several
    times. The events of calls that take part come after the commit, and without one not at all. The
    commit and the abort may take as long as an operation of the service, and where it has no limit,
    the time that is left of ``seconds``.

    Args:
        client: The client to open sessions on, None for that of the service, which has to be a
            `MongoDBService` then.
        seconds: How long after its beginning a transaction may still begin anew.
        options: ``read_concern``, ``write_concern``, ``read_preference``, ``max_commit_time_ms``,
            as in PyMongo's ``start_transaction``.

    Raises:
        TypeError: An option does not exist or is not in order.
        RuntimeError: By the hook, where the server has no transactions, or no client is known.
    """
    if client is not None and not isinstance(client, AsyncMongoClient):
        raise TypeError(f"transaction() takes an AsyncMongoClient, not {client!r}")
    options = {"read_preference": ReadPreference.PRIMARY, **options}  # whatever the client prefers
    TransactionOptions(**options)

    async def run(context: HookContext, next: Callable[[], Awaitable[None]]) -> None:
        session: AsyncClientSession | None = (context.params.docdb or {}).get("session")
        if session is not None and session.in_transaction:
            await next()
        elif session is not None:
            await _Attempts(context, session, options, seconds).run(next)
        else:
            opener = client or await _client_of(context)
            async with opener.start_session() as own:
                await _Attempts(context, own, options, seconds).run(next)

    return run


class _Attempts:
    """The attempts of one call: each a transaction on the same session."""

    def __init__(
        self,
        context: HookContext,
        session: AsyncClientSession,
        options: dict[str, Any],
        seconds: float,
    ) -> None:
        self._context = context
        self._session = session
        self._options = options
        self._until = time.monotonic() + seconds
        service = context.service.service
        self._limit = (
            service.seconds_for(context.params) if isinstance(service, MongoDBService) else None
        )
        self._docdb = context.params.docdb
        self._params = _unshared(context.params)
        self._id: Id = context.id
        self._data = copied(context.data)
        self._event = context.event
        self._http = dict(context.http)

    async def run(self, next: Callable[[], Awaitable[None]]) -> None:
        tried = 0
        try:
            with HeldEvents(self._takes_part) as held:
                while not await self._succeeds(next, tried):
                    held.drop()
                    tried += 1
                    self._restore()
        finally:
            self._context.params.docdb = self._docdb  # others must not use the session any more
        held.release()

    def _takes_part(self, context: HookContext) -> bool:
        docdb = context.params.docdb
        return (docdb or {}).get("session") is self._session

    async def _succeeds(self, next: Callable[[], Awaitable[None]], tried: int) -> bool:
        """Make one attempt; return False where it failed and another one is due."""
        self._context.params.docdb = {**(self._docdb or {}), "session": self._session}
        try:
            await self._once(next)
        except Exception as error:
            cause = _of_driver(error)
            if _has_code(cause, _NO_TRANSACTIONS) and "Transaction numbers" in str(cause):
                raise RuntimeError(
                    "this MongoDB has no transactions, which take a replica set; one server can be"
                    " a set of its own: start it with --replSet and call rs.initiate() once"
                ) from error
            pause = _pause(tried)
            if not _is_labelled(cause, _TRANSIENT) or time.monotonic() + pause > self._until:
                raise
            await asyncio.sleep(pause)
            return False
        return True

    async def _once(self, next: Callable[[], Awaitable[None]]) -> None:
        session = self._session
        await session.start_transaction(**self._options)
        try:
            await next()
        except BaseException:
            if session.in_transaction:
                await self._abort()
            raise
        if session.in_transaction:
            # The driver leaves its own option out where there is a limit.
            most = self._options.get("max_commit_time_ms") or math.inf
            seconds = min(self._seconds_to_end(), most / 1000)
            with translated, limited(seconds):
                await self._commit(min(self._until, time.monotonic() + seconds))

    def _seconds_to_end(self) -> float:
        left = max(self._until - time.monotonic(), _LEAST_TO_END)
        return left if self._limit is None else min(left, self._limit)

    async def _abort(self) -> None:
        """Abort; where that fails, the server will do it, and the error of the call counts."""
        try:
            with limited(self._seconds_to_end()):
                await self._session.abort_transaction()
        except Exception:  # noqa: BLE001  # whatever it is comes second
            _log.warning("a transaction could not be aborted; the server will", exc_info=True)

    async def _commit(self, until: float) -> None:
        while True:
            try:
                await self._session.commit_transaction()
            except PyMongoError as error:
                late = _has_code(error, _TOO_LATE)
                if late or not _is_labelled(error, _UNKNOWN) or time.monotonic() > until:
                    raise
                await asyncio.sleep(_FIRST_PAUSE)
            else:
                return

    def _restore(self) -> None:
        """Let the call begin anew with what it began with; ``next`` looks after the result."""
        context = self._context
        context.params = _unshared(self._params)
        context.id, context.data = self._id, copied(self._data)
        context.event, context.http = self._event, dict(self._http)


def _unshared(params: Params) -> Params:
    """Return params with a query of their own; one that a schema has checked stays one."""
    found = params.copy()
    found.query = copied(found.query)
    return found


def _pause(tried: int) -> float:
    """Return how long to wait after so many attempts more than one, by chance up to a bound."""
    # Chance that spreads load, no secret.
    return random.random() * min(_FIRST_PAUSE * 1.5**tried, _LONGEST_PAUSE)  # noqa: S311


async def _client_of(context: HookContext) -> Client:
    service = context.service.service
    if not isinstance(service, MongoDBService):
        raise RuntimeError(
            f"transaction() around {context.path!r}, which is no MongoDBService, needs to know the"
            " client: transaction(client)"
        )
    with translated:
        return (await service.get_model(context.params)).database.client


def _of_driver(error: BaseException | None) -> PyMongoError | None:
    """Return what the driver raised, which may have become another error on its way."""
    while error is not None and not isinstance(error, PyMongoError):
        error = error.__cause__ or error.__context__
    return error


def _has_code(error: PyMongoError | None, code: int) -> bool:
    return isinstance(error, OperationFailure) and error.code == code


def _is_labelled(error: PyMongoError | None, label: str) -> bool:
    return error is not None and error.has_error_label(label)
