"""Events that wait until they are read, and the places where some are missing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from alula.client._socketio._errors import EventsLost
from alula.errors import FrameworkError, Timeout

__all__ = ["EventBuffer", "EventStream", "ServiceEvent", "ServiceEvents", "SyncEventStream"]

T = TypeVar("T")
StreamT_co = TypeVar("StreamT_co", covariant=True)

MAX_WAITING_EVENTS: Final = 1_000
"""How many events wait in a stream or for listeners before further ones are lost."""


class ServiceEvent(NamedTuple, Generic[T]):
    """An event of a service.

    Attributes:
        path: The path of the service on the server.
        event: The name, such as ``"created"``.
        data: What the server sent: the record of a standard event.
    """

    path: str
    event: str
    data: T


class ServiceEvents(tuple[str, ...], Generic[StreamT_co]):
    """The names of the events of a service; a call listens to them.

    A tuple, as the attribute ``events`` of all services is, since ``service.events("created")`` is
    what the interface calls the stream.
    """

    _listen: Callable[[tuple[str, ...]], Any]

    @classmethod
    def of(
        cls, names: tuple[str, ...], listen: Callable[[tuple[str, ...]], Any]
    ) -> ServiceEvents[StreamT_co]:
        """Return the names with the function that listens."""
        events = cls(names)
        events._listen = listen
        return events

    def __call__(self, *names: str) -> StreamT_co:
        """Return a stream of events with these names, of all events without a name.

        Args:
            names: Such as ``"created"``.

        Raises:
            RuntimeError: The service is not called over socket.io.
            ValueError: A name looks like a typo.
        """
        stream: StreamT_co = self._listen(names)
        return stream


class EventBuffer(Generic[T]):
    """A bounded queue of events. An error stands where events are missing.

    Args:
        size: How many events wait at most.
    """

    def __init__(self, size: int = MAX_WAITING_EVENTS) -> None:
        self._items: deque[T | FrameworkError] = deque()
        self._size = size

    def __len__(self) -> int:
        return len(self._items)

    def put(self, event: T) -> bool:
        """Add an event; tell whether there was room for it."""
        if len(self._items) < self._size:
            self._items.append(event)
            return True
        self.fail(EventsLost(f"over {self._size} events waited to be read; some were dropped"))
        return False

    def fail(self, error: FrameworkError) -> None:
        """Raise an error at this place, once if the same sort of error is there already."""
        if not self._items or type(self._items[-1]) is not type(error):
            self._items.append(error)

    def take(self) -> T:
        """Return the next event.

        Raises:
            IndexError: There is none.
            FrameworkError: That of this place. The next call goes on behind it.
        """
        item = self._items.popleft()
        if isinstance(item, FrameworkError):
            raise item
        return item


class _Stream(Generic[T]):
    """The base of both streams.

    Args:
        names: The names of the events; none for all.
        wake: Wakes the reader.
    """

    def __init__(self, names: tuple[str, ...], wake: Callable[[], object]) -> None:
        self._wake = wake
        self._names = frozenset(names)
        self._buffer: EventBuffer[ServiceEvent[T]] = EventBuffer()
        self._is_closed = False
        self._is_open = False

    def put(self, event: ServiceEvent[T]) -> None:
        """Take an event of the service."""
        if not self._names or event.event in self._names:
            self._buffer.put(event)
            self._wake()

    def fail(self, error: FrameworkError) -> None:
        """Raise an error at this place of the stream."""
        self._buffer.fail(error)
        self._wake()

    def end(self) -> None:
        """End the stream after the events that wait."""
        self._is_closed = True
        self._wake()


class EventStream(_Stream[T]):
    """The events of a service as they arrive, for one reader: ``async for event in stream``.

    Events are kept from its creation on, at most 1,000. It raises `EventsLost` where events are
    missing, because it was read too slowly or the connection broke, and the error if the server
    refuses the connection. Then go on reading the same stream, or make a new one.

    Args:
        names: The names of the events; none for all.
        open: Waits for the connection.
    """

    def __init__(self, names: tuple[str, ...], open: Callable[[], Awaitable[None]]) -> None:
        self._arrived = asyncio.Event()
        super().__init__(names, self._arrived.set)
        self._open = open

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServiceEvent[T]:
        if not self._is_open:
            await self._open()
            self._is_open = True
        while not self._buffer:
            if self._is_closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._buffer.take()

    async def aclose(self) -> None:
        """Stop listening."""
        self.end()
        self._names = frozenset([""])  # the name of no event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class SyncEventStream(_Stream[T]):
    """The events of a service as they arrive: ``for event in stream``. See `EventStream`.

    Args:
        names: The names of the events; none for all.
        open: Waits for the connection.
    """

    def __init__(self, names: tuple[str, ...], open: Callable[[], None]) -> None:
        self._arrived = threading.Condition()
        super().__init__(names, self._arrived.notify)
        self._open = open

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ServiceEvent[T]:
        event = self._next(None)
        if event is None:
            raise StopIteration
        return event

    def get(self, timeout: float | None = None) -> ServiceEvent[T]:
        """Return the next event.

        Args:
            timeout: Seconds to wait for it, None for no limit.

        Raises:
            Timeout: None arrived.
            FrameworkError: As iterating does, and if the stream has ended.
        """
        event = self._next(timeout)
        if event is None:
            raise EventsLost("the stream has ended; its client was closed")
        return event

    def _next(self, timeout: float | None) -> ServiceEvent[T] | None:
        if not self._is_open:
            self._open()
            self._is_open = True
        until = None if timeout is None else time.monotonic() + timeout
        with self._arrived:
            while not self._buffer:
                if self._is_closed:
                    return None
                seconds = None if until is None else until - time.monotonic()
                if seconds is not None and seconds <= 0:
                    raise Timeout(f"no event arrived in {timeout} seconds")
                self._arrived.wait(seconds)
            return self._buffer.take()

    def put(self, event: ServiceEvent[T]) -> None:
        """Take an event of the service, in the thread of the connection."""
        with self._arrived:
            super().put(event)

    def fail(self, error: FrameworkError) -> None:
        """Raise an error at this place of the stream."""
        with self._arrived:
            super().fail(error)

    def end(self) -> None:
        """End the stream after the events that wait."""
        with self._arrived:
            super().end()

    def close(self) -> None:
        """Stop listening."""
        self.end()
        self._names = frozenset([""])  # the name of no event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
