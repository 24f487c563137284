"""Live lists of a client: the rows, the changes that wait to be read, and their readers.

A `ListState` applies messages to rows, without I/O. A `ListFeed` brings the messages over a
connection, in an event loop, and opens the list again when the connection breaks. `LiveList` and
`SyncLiveList` are what users read.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from alula.client._codec import Response, Sendable, error_of_json
from alula.errors import BadGateway, FrameworkError, NotFound, Timeout

__all__ = [
    "ListFeed",
    "ListSink",
    "ListState",
    "LiveChange",
    "LiveList",
    "SyncLiveList",
    "closed_error",
    "is_final",
]

T = TypeVar("T")

MAX_WAITING_CHANGES: Final = 1_000
"""How many changes wait to be read before one ``reset`` takes their place."""

_TRANSIENT: Final = frozenset({408, 409, 425, 429})
"""Errors below 500 after which a list that was open is opened again."""


class LiveChange(NamedTuple, Generic[T]):
    """One change of a live list.

    Attributes:
        kind: ``"entered"``, ``"changed"``, ``"left"``, or ``"reset"`` if the whole list may differ.
        id: The id of the record; None for a reset.
        at: The index of the record, None for one that has left, and for a reset.
        record: The record, None for one that has left, and for a reset.
    """

    kind: str
    id: Any
    at: int | None
    record: T | None


class Batch(NamedTuple, Generic[T]):
    """Changes that belong together, and the rows behind them."""

    changes: Sequence[LiveChange[T]]
    rows: list[T]
    number: int


class ListState(Generic[T]):
    """The rows of a list, by the messages of the server.

    Args:
        id_name: The name of the property with the id; None for ``id`` or ``_id``.

    Attributes:
        rows: The rows behind the last whole batch; a new list for each.
        have: What the server is shown when the list is opened again.
        is_open: Whether the first page has arrived.
    """

    def __init__(self, id_name: str | None = None) -> None:
        self.rows: list[T] = []
        self.have: str | None = None
        self.is_open = False
        self._id_name = id_name
        self._next: list[T] = []
        self._changes: list[LiveChange[T]] = []
        self._number = 0

    def take(self, kind: str, body: Mapping[str, Any]) -> Batch[T] | None:
        """Apply a message; return the batch that it completes.

        Args:
            kind: ``"snapshot"``, ``"unchanged"``, ``"entered"``, ``"changed"``, ``"left"`` or
                ``"reset"``.
            body: What came with it.

        Returns:
            None if more messages of the batch follow, or for the first page.

        Raises:
            BadGateway: It is not a message of a list.
        """
        self.have = body.get("have", self.have)
        if kind == "unchanged":
            return None
        try:
            change = self._apply(kind, body)
        except (KeyError, IndexError, TypeError, AttributeError):
            raise BadGateway("the response of the called server is not a live list") from None
        self._changes.append(change)
        if body.get("more"):
            return None
        self.rows, changes, self._changes = [*self._next], self._changes, []
        is_first, self.is_open = not self.is_open, True
        self._number += 1
        return None if is_first else Batch(changes, self.rows, self._number)

    def begin(self) -> None:
        """Forget half a batch: the list is opened again."""
        self._next, self._changes = [*self.rows], []

    def _apply(self, kind: str, body: Mapping[str, Any]) -> LiveChange[T]:
        if kind in {"snapshot", "reset"}:
            self._next = [*body["rows"]]
            self._changes = []  # they are in the page
            return LiveChange("reset", None, None, None)
        if kind == "left":
            self._remove(body["id"])
            return LiveChange(kind, body["id"], None, None)
        at, record = body["at"], body["data"]
        record_id = self._id_of(record)
        if kind == "changed":
            self._remove(record_id)
        elif kind != "entered":
            raise KeyError(kind)
        if not 0 <= at <= len(self._next):
            raise IndexError(at)
        self._next.insert(at, record)
        return LiveChange(kind, record_id, at, record)

    def _remove(self, record_id: object) -> None:
        self._next = [row for row in self._next if self._id_of(row) != record_id]

    def _id_of(self, row: Any) -> object:
        if self._id_name is not None:
            return row[self._id_name]
        return row["id"] if "id" in row else row["_id"]


def is_final(error: FrameworkError) -> bool:
    """Tell whether an error ends a list that was open, as another attempt would fail, too."""
    return error.code < 500 and error.code not in _TRANSIENT


def closed_error(request: Sendable, body: Mapping[str, Any]) -> FrameworkError:
    """Return the error in the message ``closed``.

    Args:
        request: What opened the list.
        body: What came with the message.
    """
    return error_of_json(request, body.get("error"), Response(403, {}, b""))


class ListFeed(Protocol):
    """Brings the messages of a list, and opens it again after a break. It runs in an event loop."""

    async def open(self) -> None:
        """Open the list; its first page is there when this returns.

        Raises:
            FrameworkError: The server refuses it, or cannot be reached.
        """
        ...

    async def settled(self) -> None:
        """Wait until the list has what was written before this call."""
        ...

    async def close(self) -> None:
        """Close the list."""
        ...


class ListSink:
    """Where a feed puts what arrives, in the thread of its event loop.

    Args:
        id_name: As for `ListState`.
        wake: Wakes the reader.

    Attributes:
        state: The rows, and what is shown to the server.
    """

    def __init__(self, id_name: str | None, wake: Callable[[], object]) -> None:
        self.state: ListState[Any] = ListState(id_name)
        self._wake = wake
        self._waiting: deque[Batch[Any]] = deque()
        self._count = 0
        self._error: Exception | None = None
        self._has_ended = False
        self._shown: Batch[Any] | None = None  # the last batch that was read

    @property
    def error(self) -> Exception | None:
        """Why the list has ended, None if it has not failed."""
        return self._error

    def take(self, kind: str, body: Mapping[str, Any]) -> None:
        """Take a message of the server."""
        batch = self.state.take(kind, body)
        if batch is None or self._has_ended:
            return
        self._waiting.append(batch)
        self._count += len(batch.changes)
        if self._count > MAX_WAITING_CHANGES:
            self._waiting.clear()
            reset: LiveChange[Any] = LiveChange("reset", None, None, None)
            self._waiting.append(Batch([reset], batch.rows, batch.number))
            self._count = 1
        self._wake()

    def fail(self, error: Exception) -> None:
        """End the list with an error, behind the changes that wait."""
        if not self._has_ended:
            self._error, self._has_ended = error, True
            self.state.rows = []
            self._shown = None
            self._wake()

    def end(self) -> None:
        """End the list, without the changes that wait."""
        self._has_ended = True
        self._waiting.clear()
        self._wake()

    # -- for the reader ------------------------------------------------------------------------

    @property
    def rows(self) -> list[Any]:
        """The rows behind the last batch that was read; all that arrived if nothing is read."""
        return self.state.rows if self._shown is None else self._shown.rows

    def is_ready(self) -> bool:
        """Tell whether there is a batch, or the end."""
        return bool(self._waiting) or self._has_ended

    def next(self) -> Batch[Any] | None:
        """Return the next batch, None at the end.

        Raises:
            Exception: Why the list has ended.
        """
        if not self._waiting:
            if self._error is not None:
                raise self._error
            return None
        batch = self._waiting.popleft()
        self._count -= len(batch.changes)
        if self._error is None and (self._shown is None or batch.number > self._shown.number):
            self._shown = batch
        return batch

    def show_all(self) -> None:
        """Show all rows that have arrived, though their changes wait to be read."""
        if self._shown is not None and self._waiting:
            self._shown = self._waiting[-1]


class LiveList(Generic[T]):
    """A list that stays what `find` would return: ``async with service.live(query) as open_list``.

    Iterating yields each change until the list is closed. It raises the server's error if the
    caller may not find the list any more. After a break the list opens itself again, and yields a
    ``reset`` if it differs. A reader that is slow gets one ``reset`` instead of over 1,000 changes.

    Args:
        id_name: The name of the property with the id; None for ``id`` or ``_id``.
        feed: Returns what brings the messages to a sink.

    Examples:
        ```python
        from alula.client import create_client, socketio


        async def watch():
            async with create_client().configure(socketio("http://localhost:3030")) as client:
                todos = client.service("todos")
                async with todos.live({"done": False, "$sort": {"id": -1}}) as open_todos:
                    print(len(open_todos.rows))
                    async for change in open_todos:
                        print(change.kind, change.id, len(open_todos.rows))
        ```
    """

    def __init__(self, id_name: str | None, feed: Callable[[ListSink], ListFeed]) -> None:
        self._arrived = asyncio.Event()
        self._sink = ListSink(id_name, self._arrived.set)
        self._feed = feed(self._sink)
        self._pending: deque[LiveChange[T]] = deque()

    @property
    def rows(self) -> list[T]:
        """The rows behind the change that was read last, or all that have arrived without one."""
        return self._sink.rows

    async def open(self) -> None:
        """Open the list, and wait for its rows; ``async with`` does this.

        Raises:
            FrameworkError: The server refuses it, or cannot be reached.
        """
        await self._feed.open()

    async def aclose(self) -> None:
        """Close the list; iterating ends."""
        self._sink.end()
        self._pending.clear()
        await self._feed.close()

    async def settled(self) -> None:
        """Wait until ``rows`` have what this client wrote before.

        Raises:
            FrameworkError: The list has ended.
        """
        await self._feed.settled()
        self._sink.show_all()

    async def batches(self) -> AsyncIterator[list[LiveChange[T]]]:
        """Yield changes that belong together; show the rows behind each."""
        while (batch := await self._next()) is not None:
            yield [*batch.changes]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LiveChange[T]:
        if not self._pending:
            batch = await self._next()
            if batch is None:
                raise StopAsyncIteration
            self._pending.extend(batch.changes)
        return self._pending.popleft()

    async def _next(self) -> Batch[T] | None:
        while not self._sink.is_ready():
            self._arrived.clear()
            await self._arrived.wait()
        return self._sink.next()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
"""Runs a coroutine in the event loop of a synchronous client, and waits for its end."""


class SyncLiveList(Generic[T]):
    """The `LiveList` of a synchronous client: ``with service.live(query) as open_list``.

    Args:
        id_name: The name of the property with the id; None for ``id`` or ``_id``.
        feed: Returns what brings the messages to a sink.
        run: Runs a coroutine in the event loop of the client.
    """

    def __init__(self, id_name: str | None, feed: Callable[[ListSink], ListFeed], run: Run) -> None:
        self._changed = threading.Condition()
        self._sink = _LockedSink(id_name, self._changed)
        self._feed = feed(self._sink)
        self._run = run
        self._pending: deque[LiveChange[T]] = deque()

    @property
    def rows(self) -> list[T]:
        """The rows behind the change that was read last, or all that have arrived without one."""
        return self._sink.rows

    def open(self) -> None:
        """Open the list, and wait for its rows; ``with`` does this.

        Raises:
            FrameworkError: The server refuses it, or cannot be reached.
        """
        self._run(self._feed.open)

    def close(self) -> None:
        """Close the list; iterating ends."""
        self._sink.end()
        self._pending.clear()
        self._run(self._feed.close)

    def settled(self) -> None:
        """Wait until ``rows`` have what this client wrote before.

        Raises:
            FrameworkError: The list has ended.
        """
        self._run(self._feed.settled)
        with self._changed:
            self._sink.show_all()

    def batches(self) -> Iterator[list[LiveChange[T]]]:
        """Yield changes that belong together; show the rows behind each."""
        while (batch := self._next(None)) is not None:
            yield [*batch.changes]

    def get(self, timeout: float | None = None) -> LiveChange[T]:
        """Return the next change.

        Args:
            timeout: Seconds to wait for it, None for no limit.

        Raises:
            Timeout: None arrived.
            NotFound: The list was closed.
            FrameworkError: The list has ended by an error of the server.
        """
        if not self._pending:
            batch = self._next(timeout)
            if batch is None:
                raise NotFound("the list was closed")
            self._pending.extend(batch.changes)
        return self._pending.popleft()

    def __iter__(self) -> Iterator[LiveChange[T]]:
        while True:
            if not self._pending:
                batch = self._next(None)
                if batch is None:
                    return
                self._pending.extend(batch.changes)
            yield self._pending.popleft()

    def _next(self, timeout: float | None) -> Batch[T] | None:
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._sink.is_ready():
                seconds = None if until is None else until - time.monotonic()
                if seconds is not None and seconds <= 0:
                    raise Timeout(f"no change arrived in {timeout} seconds")
                self._changed.wait(seconds)
            return self._sink.next()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _LockedSink(ListSink):
    """A sink whose reader is in another thread."""

    def __init__(self, id_name: str | None, changed: threading.Condition) -> None:
        super().__init__(id_name, changed.notify_all)
        self._changed = changed

    def take(self, kind: str, body: Mapping[str, Any]) -> None:
        """Take a message of the server."""
        with self._changed:
            super().take(kind, body)

    def fail(self, error: Exception) -> None:
        """End the list with an error, behind the changes that wait."""
        with self._changed:
            super().fail(error)

    def end(self) -> None:
        """End the list."""
        with self._changed:
            super().end()
