"""`RedisBus`: several machines share their events through a stream of Redis or Valkey."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self, cast
from urllib.parse import urlsplit

from alula.realtime._bus._bus import Bus, BusEvent, RecentEvents

__all__ = ["RedisBus"]

_FIELD: Final = b"event"
_FIRST_POSITION: Final = b"first"  # the field of an event that is published again
_EVENTS_AT_ONCE: Final = 256
_RECENT_EVENTS: Final = 1_000
_RECENT_BYTES: Final = 32 * 1024 * 1024
"""How many of its own events a process keeps in memory, to publish them again."""

_REWIND_MS: Final = 10_000
"""How far a reader goes back after a failover, as the clock of the new server may be behind."""


class RedisBus(Bus):
    """Carries events through a stream, from which a process that was away can catch up.

    Redis needs no configuration. If it loses data in a restart, each process publishes its latest
    events again. So a Redis without persistence is enough.

    Args:
        url: ``redis://host:port/database``, ``rediss://`` with TLS, or ``unix://``; with a user
            and a password if Redis needs them.
        stream: The key of the stream. Each application that shares a Redis needs its own.
        keep: How many events the stream keeps, approximately.
        timeout: Seconds that Redis may take to respond.

    Raises:
        ImportError: The extra ``redis`` is not installed.
        ValueError: It is not a URL of Redis.

    Examples:
        >>> bus = RedisBus("redis://localhost:6379", stream="shop:events")
    """

    def __init__(
        self, url: str, *, stream: str = "alula:events", keep: int = 10_000, timeout: float = 5.0
    ) -> None:
        self._url = url
        self._stream = stream
        self._keep = keep
        self._timeout = timeout
        self._connect(timeout)  # does not connect yet, but raises for a wrong URL
        self._publisher: _RedisClient | None = None
        self._lock = asyncio.Lock()
        self._first_position = "0-0"
        self._begun = 0.0  # when this process began to listen
        self._begun_at = (0, 0)  # that time as a position
        # The last events of this process, and the id of the server's run that has them.
        self._recent: deque[_Published] = deque()
        self._recent_bytes = 0
        self._run_id: object = None
        self._may_have_restarted = True
        self._may_connect = True

    def __repr__(self) -> str:
        parts = urlsplit(self._url)  # without the password, because this gets into the log
        where = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
        return f"RedisBus({where!r})"

    async def publish(self, event: bytes) -> None:
        """Add an event to the stream."""
        await self.publish_many([event])

    async def publish_many(self, events: Sequence[bytes]) -> None:
        """Add events to the stream, in one round trip."""
        async with self._lock:
            if self._publisher is None:
                self._publisher = self._connect(self._timeout, self._check_reconnect)
            try:
                self._may_connect = True
                await self._restore_lost_events(self._publisher)
                self._may_connect = False
                positions = await self._add(self._publisher, [{_FIELD: event} for event in events])
            except BaseException:
                self._may_have_restarted = True
                raise
            added = zip(positions, events, positions, strict=True)
            self._recent.extend(_Published(*each) for each in added)
            self._recent_bytes += sum(map(len, events))
            while len(self._recent) > _RECENT_EVENTS or self._recent_bytes > _RECENT_BYTES:
                self._recent_bytes -= len(self._recent.popleft().event)

    async def events(self, after: str | None = None) -> AsyncGenerator[BusEvent, None]:
        """Yield the events that are added to the stream after a position."""
        if self._begun == 0:
            self._begun = time.monotonic()
        is_behind_gap = False
        async with self._connect(None) as client:
            async with asyncio.timeout(self._timeout):
                if after is None:
                    newest = await client.xrevrange(self._stream, count=1)
                    after = newest[0][0].decode() if newest else "0-0"
                    # Redis may start long after this process, and others may publish before it
                    # listens.
                    # Measured before Redis is asked: a late response must not move the start back,
                    # to events from before it.
                    waited = (time.monotonic() - self._begun) * 1000
                    seconds, microseconds = await client.time()
                    begun = f"{seconds * 1000 + microseconds // 1000 - int(waited)}-0"
                    self._begun_at = _numbers_of(begun)
                    after = self._first_position = min(after, begun, key=_numbers_of)
                else:
                    oldest = await client.xrange(self._stream, count=1)
                    # Only if events were trimmed. After a restart, they are published again.
                    is_behind_gap = (
                        bool(oldest)
                        and _numbers_of(oldest[0][0].decode()) > _numbers_of(after)
                        and await client.xlen(self._stream) >= self._keep
                    )
                    after = await self._where_to_go_on(client, after)
                    async with self._lock:
                        self._may_have_restarted = True
                        await self._restore_lost_events(client)
            yield BusEvent(after, b"", is_behind_gap)
            while True:
                # With a limit, to notice a network that drops all packets.
                async with asyncio.timeout(2 * self._timeout):
                    streams = await client.xread(
                        {self._stream: after},
                        count=_EVENTS_AT_ONCE,
                        block=int(self._timeout * 1000),
                    )
                for position, fields in streams[0][1] if streams else ():
                    after = position.decode()
                    is_old = _first_position_of(fields) < self._begun_at
                    yield BusEvent(after, b"" if is_old else fields.get(_FIELD, b""))

    async def _where_to_go_on(self, client: _RedisClient, after: str) -> str:
        """Return a position to continue from without missing events. The relay drops old ones."""
        newest = await client.xrevrange(self._stream, count=1)
        last = _numbers_of(newest[0][0].decode()) if newest else (0, 0)
        if last < _numbers_of(after):
            # Redis has lost events, and its clock may be far behind the numbers that they had.
            return self._first_position if _numbers_of(self._first_position) <= last else "0-0"
        rewound = f"{max(0, _numbers_of(after)[0] - _REWIND_MS)}-0"
        return max(rewound, self._first_position, key=_numbers_of)

    async def recent_events(self, before: str) -> RecentEvents:
        """Return the events that are in the stream up to a position."""
        recent: list[bytes] = []
        size, oldest = 0, time.time()
        at: str | None = before
        async with self._connect(self._timeout) as client:
            while at is not None and size <= self.max_recent_bytes and len(recent) < self._keep:
                entries = await client.xrevrange(self._stream, max=at, count=_EVENTS_AT_ONCE)
                events = [fields.get(_FIELD, b"") for _, fields in entries]
                recent += events
                size += sum(map(len, events))
                at = None
                if entries:
                    first = entries[-1][0].decode()
                    at, oldest = _position_before(first), _numbers_of(first)[0] / 1000
            uptime = (await client.info("server"))["uptime_in_seconds"]
        if at is not None:
            return RecentEvents(recent[::-1], _numbers_of(at)[0] / 1000)
        # An untrimmed stream has all events since the start of the server, which is known to the
        # second. Events lost in that second are noticed by the gap in their numbers.
        return RecentEvents(recent[::-1], min(oldest, time.time() - int(str(uptime)) - 1))

    async def close(self) -> None:
        """Close the connection for publishing."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            await publisher.aclose()

    async def _check_reconnect(self, connection: _RedisConnection) -> None:
        """Prevent a silent reconnect: lost events must be published again first."""
        if not self._may_connect:
            from redis.exceptions import ConnectionError as Ended  # noqa: PLC0415  # an extra

            # An error of redis itself: after any other, the client keeps the half-open connection.
            raise Ended("the connection has ended")
        await connection.on_connect()

    def _connect(
        self,
        socket_timeout: float | None,
        on_connect: Callable[[_RedisConnection], Awaitable[None]] | None = None,
    ) -> _RedisClient:
        try:
            from redis.asyncio import Redis  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise ImportError(
                "RedisBus needs redis, which is not installed; install it with:"
                " pip install 'alula[redis]'"
            ) from error
        options: dict[str, Any] = {
            "protocol": 2,  # protocol 3 has other forms of responses
            "retry": None,  # the relay does that
            "socket_timeout": socket_timeout,
            "socket_connect_timeout": self._timeout,
            "redis_connect_func": on_connect,
        }
        return cast("_RedisClient", Redis.from_url(self._url, **options))  # pyright: ignore[reportUnknownMemberType]  # its keywords have no types

    async def _add(
        self, client: _RedisClient, entries: Sequence[Mapping[bytes, bytes]]
    ) -> list[bytes]:
        pipeline = client.pipeline(transaction=False)
        for entry in entries:
            pipeline.xadd(self._stream, entry, maxlen=self._keep, approximate=True)
        return await pipeline.execute()

    async def _restore_lost_events(self, client: _RedisClient) -> None:
        """Publish events again that were lost in a restart or a failover.

        Call it under the lock, before newer events are added, to keep the order.
        """
        if not self._may_have_restarted:
            return
        run_id = (await client.info("server")).get("run_id")
        if self._recent and run_id != self._run_id:
            pipeline = client.pipeline(transaction=False)
            for each in self._recent:  # not as a range, which may have many events of others
                pipeline.xrange(self._stream, min=each.at, max=each.at)
            kept = {at for entries in await pipeline.execute() for at, _ in entries}
            renewed = [each for each in self._recent if each.at in kept]
            lost = [each for each in self._recent if each.at not in kept]
            for start in range(0, len(lost), _EVENTS_AT_ONCE):
                some = lost[start : start + _EVENTS_AT_ONCE]
                # With the first position, so that processes which began later ignore them.
                entries = [{_FIELD: each.event, _FIRST_POSITION: each.first} for each in some]
                positions = await self._add(client, entries)
                renewed += [e._replace(at=at) for e, at in zip(some, positions, strict=True)]
            self._recent = deque(renewed)
        self._run_id, self._may_have_restarted = run_id, False


_Entries = list[tuple[bytes, dict[bytes, bytes]]]


class _Published(NamedTuple):
    """An event that this process has published.

    Attributes:
        at: Its position.
        event: The event.
        first: Its position when it was published for the first time.
    """

    at: bytes
    event: bytes
    first: bytes


class _RedisPipeline(Protocol):
    """Commands that are sent together."""

    def xadd(
        self, name: str, fields: Mapping[bytes, bytes], *, maxlen: int, approximate: bool
    ) -> object: ...

    def xrange(self, name: str, *, min: bytes, max: bytes) -> object: ...

    async def execute(self) -> list[Any]: ...


class _RedisConnection(Protocol):
    """A connection of the client."""

    async def on_connect(self) -> None: ...


class _RedisClient(Protocol):
    """The part of ``redis.asyncio.Redis`` that is used here; its types differ between versions."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...

    async def aclose(self) -> None: ...

    def pipeline(self, *, transaction: bool) -> _RedisPipeline: ...

    async def info(self, section: str) -> dict[str, object]: ...

    async def time(self) -> tuple[int, int]: ...

    async def xlen(self, name: str) -> int: ...

    async def xrange(self, name: str, *, count: int) -> _Entries: ...

    async def xrevrange(self, name: str, max: str = "+", *, count: int) -> _Entries: ...

    async def xread(
        self, streams: Mapping[str, str], *, count: int, block: int
    ) -> list[tuple[bytes, _Entries]]: ...


def _numbers_of(position: str) -> tuple[int, int]:
    milliseconds, _, number = position.partition("-")
    return int(milliseconds or 0), int(number or 0)


def _first_position_of(fields: Mapping[bytes, bytes]) -> tuple[float, int]:
    """Return the first position of an event that was published again, else one after all others."""
    first = fields.get(_FIRST_POSITION)
    try:
        return (math.inf, 0) if first is None else _numbers_of(first.decode())
    except ValueError:  # another program may have written it
        return math.inf, 0


def _position_before(position: str) -> str | None:
    """Return the largest position before another, as older servers have no open ranges."""
    milliseconds, number = _numbers_of(position)
    if number:
        return f"{milliseconds}-{number - 1}"
    return str(milliseconds - 1) if milliseconds else None
