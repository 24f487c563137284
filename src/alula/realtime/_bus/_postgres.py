"""`PostgresBus`: several machines share their events by a table of PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from alula.realtime._bus._bus import Bus, BusEvent, RecentEvents

if TYPE_CHECKING:
    from asyncpg import Connection

__all__ = ["PostgresBus"]

_EVENTS_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 1024 * 1024
"""A process reads so much at a time; one event may be larger."""

_SECONDS_TO_CONNECT: Final = 1.0

_log: Final = logging.getLogger("alula.realtime.bus")

# Events have numbers without a gap, in the order in which they can be seen: the row with the last
# number stays locked until the transaction that took numbers has ended. So a reader that has seen
# number 7 goes on with 8, and whoever finds 12 instead knows that events were removed.
_CREATE: Final = """
create table if not exists {table}_last (
    last bigint not null, made uuid not null default gen_random_uuid()
);
create table if not exists {table} (
    number bigint primary key,
    event bytea not null,
    at timestamptz not null default clock_timestamp()
);
create index if not exists {table}_at on {table} (at);
insert into {table}_last (last) select 0 where not exists (select from {table}_last);
"""
_PUBLISH: Final = """
with taken as (
    update {table}_last set last = last + cardinality($1::bytea[]) returning last
), added as (
    insert into {table} (number, event)
    select last - cardinality($1) + position, event
    from taken, unnest($1) with ordinality as events (event, position)
)
select pg_notify('{table}', '') from taken
"""
_REMOVE: Final = "delete from {table} where at < clock_timestamp() - $1::float8 * interval '1 s'"
_READ: Final = """
select number, event from (
    select number, event, sum(length(event)) over (order by number) - length(event) as before
    from (
        select number, event from {table} where number > $1 order by number limit $2
    ) as next
) as summed
where before <= $3 order by number
"""
_LAST: Final = "select last, made::text from {table}_last"
_LAST_BEFORE: Final = """
select coalesce(
    (
        select min(number) - 1 from {table}
        where at > clock_timestamp() - $1::float8 * interval '1 s'
    ),
    (select last from {table}_last)
)
"""
_OLDEST: Final = "select min(number) from {table}"
_RECENT: Final = """
select event, extract(epoch from at)::float8 as at from (
    select number, event, at,
        sum(length(event)) over (order by number desc) - length(event) as later
    from (
        select number, event, at from {table} where number <= $1 order by number desc limit $2
    ) as latest
) as summed
where later <= $3 order by number desc
"""
_MAX_RECENT_EVENTS: Final = 10_000


class PostgresBus(Bus):
    """Carries events by a table, for those who have PostgreSQL and want no further server.

    A writer wakes the readers by ``NOTIFY``; they read what is new from the table, so an event may
    be large, and a process that was away catches up. Two tables are made with the first event:
    ``alula_events``, and ``alula_events_last`` with the number of the last event.

    Args:
        url: ``postgresql://user:password@host:port/database``. Of PostgreSQL itself: a pooler such
            as pgbouncer in its usual mode passes no ``NOTIFY`` on.
        table: The name of the table, in small letters. Applications that share a database need
            tables of their own.
        keep_seconds: How long events stay in the table.
        timeout: Seconds that PostgreSQL may take to answer.

    Raises:
        ImportError: The extra ``postgresql`` is not installed.
        ValueError: It is not a URL of PostgreSQL, or not such a name.

    Examples:
        >>> bus = PostgresBus("postgresql://localhost/shop")
    """

    def __init__(
        self,
        url: str,
        *,
        table: str = "alula_events",
        keep_seconds: float = 600,
        timeout: float = 5.0,
    ) -> None:
        try:
            import asyncpg  # noqa: F401, PLC0415  # an extra
        except ImportError as error:
            raise ImportError(
                "PostgresBus needs asyncpg, which is not installed; install it with:"
                " pip install 'alula[postgresql]'"
            ) from error
        if urlsplit(url).scheme not in {"postgresql", "postgres"}:
            raise ValueError("PostgresBus takes a URL that begins with postgresql://")
        if not re.fullmatch("[a-z_][a-z0-9_]{0,55}", table):
            raise ValueError(
                f"table={table!r} is not a name of small letters, digits and _, of 56 at most"
            )
        self._url = url
        self._table = table
        self._keep_seconds = keep_seconds
        self._timeout = timeout
        self._publisher: Connection[Any] | None = None
        self._lock = asyncio.Lock()
        self._next_removal = 0.0
        self._begun = 0.0  # when this process began to listen

    def __repr__(self) -> str:
        parts = urlsplit(self._url)  # without a password: this is written to the log
        where = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
        return f"PostgresBus({where!r})"

    async def publish(self, event: bytes) -> None:
        """Add an event to the table."""
        await self.publish_many([event])

    async def publish_many(self, events: Sequence[bytes]) -> None:
        """Add events to the table, in one round trip."""
        async with self._lock:
            if self._publisher is None or self._publisher.is_closed():
                self._publisher = await self._connect()
            try:
                if await self._publisher.fetchrow(self._sql(_PUBLISH), list(events)) is None:
                    raise self._is_empty()
                if time.monotonic() > self._next_removal:
                    self._next_removal = time.monotonic() + self._keep_seconds / 10
                    await self._publisher.execute(self._sql(_REMOVE), float(self._keep_seconds))
            except BaseException:
                # Nobody knows what the connection is in the middle of.
                self._publisher.terminate()
                raise

    async def events(self, after: str | None = None) -> AsyncGenerator[BusEvent, None]:
        """Yield the events that are added after a position: a number, and which table it is of.

        Raises:
            ConnectionError: Somebody has replaced the table meanwhile.
        """
        self._begun = self._begun or time.monotonic()
        added = asyncio.Event()

        def wake(*_: object) -> None:
            added.set()

        connection = await self._connect()
        try:
            connection.add_termination_listener(wake)
            # Before the first look at the table: nothing is added unheard.
            await connection.add_listener(self._table, wake)
            last, made = await self._last(connection)
            at, is_behind_gap = await self._where_to_begin(connection, after, last, made)
            yield BusEvent(f"{at} {made}", b"", is_behind_gap)
            read = await connection.prepare(self._sql(_READ))
            is_woken = False
            while True:
                added.clear()
                rows = await read.fetch(at, _EVENTS_AT_ONCE, _BYTES_AT_ONCE)
                for number, event in rows:
                    yield BusEvent(f"{number} {made}", event, number > at + 1)
                    at = number
                if rows:
                    is_woken = False
                    continue
                if is_woken:  # by nothing that is new: has somebody replaced the table?
                    last, made_now = await self._last(connection)
                    if made_now != made or last < at:
                        raise ConnectionError("its table was replaced")
                # Not for ever: a network that drops packets would never be noticed.
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._timeout):
                        await added.wait()
                is_woken = True
        finally:
            connection.terminate()

    async def _last(self, connection: Connection[Any]) -> tuple[int, str]:
        """Return the number of the last event, and the id of the table."""
        row = await connection.fetchrow(self._sql(_LAST))
        if row is None:
            raise self._is_empty()
        return row["last"], row["made"]

    def _is_empty(self) -> ConnectionError:
        return ConnectionError(f"the table {self._table}_last is empty; drop it to have it made")

    async def _where_to_begin(
        self, connection: Connection[Any], after: str | None, last: int, made: str
    ) -> tuple[int, bool]:
        """Return the number to begin after, and whether events behind ``after`` are gone."""
        if after is None:
            waited = time.monotonic() - self._begun
            if waited < _SECONDS_TO_CONNECT:
                return last, False
            # PostgreSQL came long after this process: others have published meanwhile.
            before: int = await connection.fetchval(self._sql(_LAST_BEFORE), waited)
            return before, False
        number, made_before = after.split()
        at = int(number)
        oldest: int | None = await connection.fetchval(self._sql(_OLDEST))
        first = last + 1 if oldest is None else oldest
        if made == made_before and first - 1 <= at <= last:
            return at, False
        _log.warning("%r was away for too long, or lost its table; events were missed", self)
        return first - 1, True  # what has arrived before is dropped

    async def recent_events(self, before: str) -> RecentEvents:
        """Return the events that are in the table up to a position."""
        complete_since = time.time() - self._keep_seconds
        at = int(before.split(maxsplit=1)[0])
        connection = await self._connect()
        try:
            rows = await connection.fetch(
                self._sql(_RECENT),
                at,
                _MAX_RECENT_EVENTS,
                self.max_recent_bytes,
            )
            oldest = await connection.fetchval(self._sql(_OLDEST))
        finally:
            connection.terminate()
        events = [row["event"] for row in reversed(rows)]
        if rows and at - len(rows) + 1 > oldest:  # there are more
            complete_since = max(complete_since, rows[-1]["at"])
        return RecentEvents(events, complete_since)

    async def close(self) -> None:
        """Close the connection for publishing."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            await publisher.close(timeout=self._timeout)

    def _sql(self, statement: str) -> str:
        return statement.format(table=self._table)

    async def _connect(self) -> Connection[Any]:
        """Open a connection, and make the tables if they are missing."""
        import asyncpg  # noqa: PLC0415  # an extra

        connection: Connection[Any] = await asyncpg.connect(
            self._url,
            timeout=self._timeout,
            command_timeout=self._timeout,
            # At another level, two processes that publish at once would get an error.
            server_settings={"default_transaction_isolation": "read committed"},
        )
        try:
            if await connection.fetchval("select to_regclass($1)", f"{self._table}_last") is None:
                # One process at a time: two that make the same table would disturb each other.
                async with connection.transaction():
                    await connection.execute(f"select pg_advisory_xact_lock({_LOCK})")
                    await connection.execute(self._sql(_CREATE))
        except BaseException:
            connection.terminate()
            raise
        return connection


_LOCK: Final = 7_205_759
"""Of the processes that make the tables; any number that nobody else takes."""
