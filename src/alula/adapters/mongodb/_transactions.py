"""`transaction`: an around hook that makes a call take effect as a whole, or not at all."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeAlias

from pymongo import AsyncMongoClient, ReadPreference
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.client_session import TransactionOptions  # type: ignore[attr-defined]  # public, not in `__all__`
from pymongo.errors import OperationFailure, PyMongoError

from alula._context import HookContext
from alula.adapters._transactions import FIRST_PAUSE_SECONDS, RetriedCall
from alula.adapters.mongodb._bson_types import BSON_IMMUTABLE
from alula.adapters.mongodb._errors import translated
from alula.adapters.mongodb._options import limited
from alula.adapters.mongodb._service import MongoDBService
from alula.hooks import annotate_hook

__all__ = ["transaction"]

_log = logging.getLogger("alula.mongodb")

Client: TypeAlias = AsyncMongoClient[Any]
Next: TypeAlias = Callable[[], Awaitable[None]]
AroundHook: TypeAlias = Callable[[HookContext, Next], Awaitable[None]]

_TRANSIENT: Final = "TransientTransactionError"
_UNKNOWN: Final = "UnknownTransactionCommitResult"
_MAX_TIME_EXPIRED: Final = 50
_ILLEGAL_OPERATION: Final = 20

_MIN_SECONDS_TO_END: Final = 1.0
"""Time for an abort or a commit, even if the time of the transaction is over."""


def transaction(client: Client | None = None, *, seconds: float = 30, **options: Any) -> AroundHook:
    """Return an around hook that runs each call in a transaction.

    It sets ``params.docdb["session"]``. Operations that get this session take part: calls of other
    services with ``docdb=context.params.docdb``, and PyMongo's own with ``session=``. A call that
    comes with a session in a transaction joins it, so such hooks may be nested.

    An error in the call aborts the transaction. A transaction that conflicts with another, or whose
    server went away, is retried with the id, the data and the params that the call began with; a
    commit whose outcome is unknown is repeated. So the hooks within may run several times. The
    events of calls that take part are emitted after the commit, and without one not at all. Commit
    and abort may take as long as an operation of the service, or if that has no limit, what remains
    of ``seconds``.

    Args:
        client: The client to open sessions on. None uses that of the service, which must be a
            `MongoDBService` then.
        seconds: How long after its start a transaction may be retried.
        options: ``read_concern``, ``write_concern``, ``read_preference``, ``max_commit_time_ms``,
            as in PyMongo's ``start_transaction``.

    Raises:
        TypeError: An option does not exist or is not valid.
        RuntimeError: By the hook, if the server has no transactions, or no client is known.

    Examples:
        >>> from alula import App
        >>> app = App()
        >>> app.use("orders", MongoDBService(lambda: database["orders"]))
        >>> app.service("orders").hooks(around={"create": [transaction()]})
    """
    if client is not None and not isinstance(client, AsyncMongoClient):
        raise TypeError(f"transaction() takes an AsyncMongoClient, not {client!r}")
    # Transactions must read from the primary, whatever the client prefers.
    options = {"read_preference": ReadPreference.PRIMARY, **options}
    TransactionOptions(**options)

    async def run(context: HookContext, next: Next) -> None:
        session: AsyncClientSession | None = (context.params.docdb or {}).get("session")
        if session is not None and session.in_transaction:
            await next()
            return
        if session is not None:
            await _Transaction(context, session, options, seconds).run(next)
            return
        opener, service = client, context.service.service
        if opener is None:
            if not isinstance(service, MongoDBService):
                raise RuntimeError(
                    f"transaction() around {context.path!r}, which is not a MongoDBService, needs a"
                    " client: transaction(client)"
                )
            with translated:
                opener = (await service.get_model(context.params)).database.client
        async with opener.start_session() as opened:
            await _Transaction(context, opened, options, seconds).run(next)

    # The items of a stream would be made after the commit.
    return annotate_hook(run, needs_whole=("all",))


class _Transaction:
    """The transaction of one call, with its retries on the same session.

    PyMongo's ``with_transaction`` does not fit. It retries for 120 seconds unless all operations
    get a common deadline. It sees only errors of its own, but hooks raise those of `alula.errors`,
    with the driver's as their cause. Its abort has no time limit.
    """

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
        self._call = RetriedCall(context, seconds, BSON_IMMUTABLE)
        service = context.service.service
        is_mongodb = isinstance(service, MongoDBService)
        self._limit = service.options_for(context.params).seconds if is_mongodb else None
        self._docdb = context.params.docdb

    async def run(self, next: Next) -> None:
        def takes_part(call: HookContext) -> bool:
            return (call.params.docdb or {}).get("session") is self._session

        def is_transient(error: Exception) -> bool:
            return _has_label(_driver_error(error), _TRANSIENT)

        await self._call.run(partial(self._attempt, next), is_transient, takes_part)

    async def _attempt(self, next: Next) -> None:
        """Run the call in a transaction, and commit it."""
        session = self._session
        self._context.params.docdb = {**(self._docdb or {}), "session": session}
        try:
            await session.start_transaction(**self._options)
            try:
                await next()
            except BaseException:
                if session.in_transaction:
                    # If the abort fails, the error of the call still counts.
                    try:
                        with limited(self._seconds_to_end()):
                            await session.abort_transaction()
                    except Exception:  # noqa: BLE001  # whatever it is: the server aborts it later
                        _log.warning(
                            "a transaction could not be aborted; the server will", exc_info=True
                        )
                raise
            if session.in_transaction:
                await self._commit()
        except Exception as error:
            cause = _driver_error(error)
            if _has_code(cause, _ILLEGAL_OPERATION) and "Transaction numbers" in str(cause):
                raise RuntimeError(
                    "this MongoDB has no transactions, which need a replica set; a single server"
                    " can be one: start it with --replSet and call rs.initiate() once"
                ) from error
            raise
        finally:
            # Later hooks, and listeners of the events, must not use the session.
            self._context.params.docdb = self._docdb

    def _seconds_to_end(self) -> float:
        remaining = max(self._call.deadline - time.monotonic(), _MIN_SECONDS_TO_END)
        return remaining if self._limit is None else min(remaining, self._limit)

    async def _commit(self) -> None:
        """Commit the transaction, again as long as the outcome is unknown."""
        # The driver ignores its own option where there is a time limit.
        max_commit_ms = self._options.get("max_commit_time_ms") or math.inf
        seconds = min(self._seconds_to_end(), max_commit_ms / 1000)
        deadline = min(self._call.deadline, time.monotonic() + seconds)
        with translated, limited(seconds):
            while True:
                try:
                    await self._session.commit_transaction()
                except PyMongoError as error:
                    is_final = _has_code(error, _MAX_TIME_EXPIRED)
                    if is_final or not _has_label(error, _UNKNOWN) or time.monotonic() > deadline:
                        raise
                    await asyncio.sleep(FIRST_PAUSE_SECONDS)
                else:
                    return


def _driver_error(error: BaseException | None) -> PyMongoError | None:
    """Return the driver's error behind another one that hooks raised because of it."""
    while error is not None and not isinstance(error, PyMongoError):
        error = error.__cause__ or error.__context__
    return error


def _has_code(error: PyMongoError | None, code: int) -> bool:
    return isinstance(error, OperationFailure) and error.code == code


def _has_label(error: PyMongoError | None, label: str) -> bool:
    return error is not None and error.has_error_label(label)
