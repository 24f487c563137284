"""`transaction`: an around hook that makes a call take effect as a whole, or not at all."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias

from alula._context import HookContext
from alula.adapters._records import IMMUTABLE
from alula.adapters._transactions import RetriedCall
from alula.adapters.sql._database import Database, Transaction
from alula.adapters.sql._errors import is_serialization_failure, translated
from alula.adapters.sql._service import SQLService
from alula.hooks import annotate_hook

__all__ = ["Isolation", "transaction"]

Next: TypeAlias = Callable[[], Awaitable[None]]
AroundHook: TypeAlias = Callable[[HookContext, Next], Awaitable[None]]
Isolation: TypeAlias = Literal["read committed", "repeatable read", "serializable"]

_MIN_SECONDS: Final = 1.0
"""Time for an attempt that begins when the time is nearly over."""


def transaction(
    database: Database | None = None, *, isolation: Isolation | None = None, seconds: float = 30
) -> AroundHook:
    """Return an around hook that runs each call in a transaction.

    It sets ``params.sql["connection"]``. Calls of other services take part with
    ``sql=context.params.sql``, and your own SQL by ``context.params.sql["connection"].fetch()``. A
    call that comes with a transaction joins it, so such hooks may be nested.

    An error in the call rolls the transaction back. One that PostgreSQL ended because of another
    (a serialization failure, a deadlock, a table that was just altered) is retried with the id, the
    data and the params that the call began with, so the hooks within may run several times. The
    events of calls that take part are emitted after the commit, and without one not at all.

    On SQLite a transaction holds the only writer: others wait until it ends.

    Args:
        database: The database. None uses that of the service, which must be a `SQLService` then.
        isolation: The level of PostgreSQL, None for its default; SQLite's are all serializable.
        seconds: How long a transaction may take, and how long after its start it may be retried.

    Raises:
        TypeError: ``database`` is something else.
        RuntimeError: By the hook, if no database is known.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.sql import Database, SQLService, transaction
        >>> app = App()
        >>> app.use("orders", SQLService("orders", Database("sqlite://")))
        >>> app.service("orders").hooks(around={"create": [transaction()]})
    """
    if database is not None and not isinstance(database, Database):
        raise TypeError(f"transaction() takes a Database, not {database!r}")

    async def run(context: HookContext, next: Next) -> None:
        given = context.params.sql or {}
        joined = given.get("connection")
        if isinstance(joined, Transaction) and joined.is_open:
            await next()
            return
        opener, service = database, context.service.service
        if opener is None:
            if not isinstance(service, SQLService):
                raise RuntimeError(
                    f"transaction() around {context.path!r}, which is not a SQLService, needs a"
                    " database: transaction(database)"
                )
            opener = service.database
        call = RetriedCall(context, seconds, IMMUTABLE)
        inside = {name: given[name] for name in given if name != "settings"}
        current: Transaction | None = None

        async def attempt() -> None:
            nonlocal current
            remaining = max(call.deadline - time.monotonic(), _MIN_SECONDS)
            with translated():
                async with opener.begin(
                    isolation=isolation, settings=given.get("settings"), seconds=remaining
                ) as current:
                    context.params.sql = {**inside, "connection": current}
                    try:
                        await next()
                    finally:
                        # Later hooks, and listeners of the events, must not use the transaction.
                        context.params.sql = given or None

        def takes_part(inner: HookContext) -> bool:
            return current is not None and (inner.params.sql or {}).get("connection") is current

        await call.run(attempt, is_serialization_failure, takes_part)

    # The items of a stream would be made after the commit.
    return annotate_hook(run, needs_whole=("all",))
