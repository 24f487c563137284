"""The streams of one client over socket.io. Items go out as far as the client asks for them.

The acknowledgement of a call that streams is ``{"$stream": "k3"}``. After it, the client gets
events ``stream`` with ``("k3", [items])``, and at the end ``("k3", null)`` or
``("k3", null, error)``. It sends ``["stream:more", "k3", n]`` when it has read ``n`` items, and
``["stream:end", "k3"]`` to leave. `alula.realtime._calls` makes the calls and says what an error
tells. Services are unknown here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from math import inf
from secrets import token_urlsafe
from typing import Any, Final

from alula._item_stream import ItemStream
from alula._json_encoding import dumps_with_attachments
from alula._stream_limits import StreamLimits, items_in_time
from alula._wire import MESSAGE, Frame, PacketType, encode_text
from alula.errors import Timeout
from alula.realtime._engine import EngineSession

__all__ = ["STREAM_SIGNALS", "SocketStream", "SocketStreams", "encode_end", "encode_item"]

_MORE: Final = "stream:more"
_END: Final = "stream:end"
STREAM_SIGNALS: Final = (_MORE, _END)
"""The events of clients about their streams. A tuple, as the name of an event may be anything."""

CREDIT: Final = 32
CREDIT_BYTES: Final = 256 * 1024
"""How many items, and how many bytes, a client gets without asking for more."""

MAX_CREDIT: Final = 1024
"""How many items it can ask for in advance."""

_EVENT: Final = PacketType.EVENT
_EVENT_HEAD: Final = f"{MESSAGE}{_EVENT:d}"


class SocketStream:
    """One stream, and what its client takes of it.

    Args:
        name: Its name for the client.
        session: Reaches the client.
        limits: Its time limits.

    Attributes:
        name: As given.
        task: Runs the call, and sends the items.
        changed: Set when the client may take more than before.
    """

    __slots__ = ("_bytes", "_credit", "_limits", "_session", "_sizes", "changed", "name", "task")
    task: asyncio.Task[None]

    def __init__(self, name: str, session: EngineSession, limits: StreamLimits) -> None:
        self.name = name
        self._session = session
        self._limits = limits
        self._credit = CREDIT
        self._sizes: deque[int] = deque()  # of the items that the client may not have read
        self._bytes = 0
        self.changed = asyncio.Event()

    def read(self, count: int) -> None:
        """Learn how many items the client has read, or asks for."""
        self._credit = min(self._credit + count, MAX_CREDIT)
        for _ in range(min(count, len(self._sizes))):
            self._bytes -= self._sizes.popleft()
        self.changed.set()

    async def send(self, stream: ItemStream, check: Callable[[], None]) -> None:
        """Send the items, each when the client takes it, and wait until it may get the end.

        Args:
            stream: The items, after `encode_item`.
            check: Called before each item; what it raises ends the stream.

        Raises:
            Unavailable: The next item, or the whole stream, takes too long.
            Timeout: The client takes no more.
            Exception: The stream has failed.
        """
        duration, now = self._limits.duration, asyncio.get_running_loop().time
        end = now() + (duration or inf)
        async with aclosing(items_in_time(stream, self._limits)) as items:
            async for text, attachments in items:
                await self._wait(end, for_credit=True)
                check()
                frames = _event(f'["stream","{self.name}",[{text}]]', attachments)
                size = sum(map(len, frames))
                self._credit -= 1
                self._sizes.append(size)
                self._bytes += size
                for frame in frames:
                    self._session.send(frame)
        # The end needs no credit, but behind a large item it might be too much for the queue.
        await self._wait(end, for_credit=False)

    def _may_send(self, *, for_credit: bool) -> bool:
        has_credit = self._credit > 0 and self._bytes < CREDIT_BYTES
        return self._session.has_room and (has_credit or not for_credit)

    async def _wait(self, end: float, *, for_credit: bool) -> None:
        """Wait until the client reads what was sent, and takes more.

        Raises:
            Timeout: It does not in time.
        """
        if self._may_send(for_credit=for_credit):  # nearly always
            return
        until = min(end, asyncio.get_running_loop().time() + (self._limits.timeout or inf))
        try:
            async with asyncio.timeout_at(None if until == inf else until):
                while not self._may_send(for_credit=for_credit):
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise Timeout("The client has asked for no more items of the stream in time") from None


class SocketStreams:
    """The streams of one session.

    Args:
        session: Reaches the client.
        limits: The time limits of each stream.
        tasks: Gets the tasks that run, for which a server that stops has to wait.
    """

    __slots__ = ("_limits", "_open", "_session", "_tasks")

    def __init__(
        self, session: EngineSession, limits: StreamLimits, tasks: set[asyncio.Task[None]]
    ) -> None:
        self._session = session
        self._limits = limits
        self._tasks = tasks
        self._open: dict[str, SocketStream] = {}

    def begin(
        self,
        work: Callable[[SocketStream], Coroutine[Any, Any, None]],
        ended: Callable[[], object],
    ) -> None:
        """Begin a call that streams, in a task that is cancelled when the client leaves.

        Args:
            work: Makes the call, and sends the items by the stream that it gets.
            ended: Called in any case when the task has ended.
        """
        name = new_name()
        stream = self._open[name] = SocketStream(name, self._session, self._limits)
        stream.task = asyncio.get_running_loop().create_task(work(stream), name=f"stream {name}")
        self._tasks.add(stream.task)

        def forget(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._open.pop(name, None)
            ended()

        stream.task.add_done_callback(forget)

    def signal(self, event: Sequence[Any]) -> None:
        """Take an event of the client about a stream. What has no meaning is ignored.

        A stream may have ended before its client knows, so its name may be unknown.

        Args:
            event: One of `STREAM_SIGNALS`, and arguments.
        """
        signal, name, count = [*event, None, None][:3]
        if not isinstance(name, str) or name not in self._open:
            return
        if signal == _END:
            # Once: a second cancellation would interrupt what cleans up.
            self._open.pop(name).task.cancel()
        elif type(count) is int and count > 0:
            self._open[name].read(count)

    def drained(self) -> None:
        """Learn that the client has read all frames that waited."""
        for stream in self._open.values():
            stream.changed.set()

    def close(self) -> None:
        """End all streams: the client has left, or the server stops."""
        streams, self._open = self._open, {}
        for stream in streams.values():
            stream.task.cancel()


def new_name() -> str:
    """Return a name that nobody can guess: a record may look like the name of a stream."""
    return f"k{token_urlsafe(16)}"


def encode_item(item: Any) -> tuple[str, list[bytes]]:
    """Return an item as JSON, and its attachments.

    Raises:
        TypeError: It has no JSON form.
    """
    attachments: list[bytes] = []
    return dumps_with_attachments(item, attachments), attachments


def encode_end(name: str, error: object) -> list[Frame]:
    """Return the frames of the event at the end of a stream.

    Args:
        name: The name of the stream.
        error: What the client gets to know of the error that ended it, None for no error.

    Raises:
        TypeError: The error has no JSON form.
    """
    attachments: list[bytes] = []
    arguments = ["stream", name, None, *([] if error is None else [error])]
    return _event(dumps_with_attachments(arguments, attachments), attachments)


def _event(text: str, attachments: list[bytes]) -> list[Frame]:
    return encode_text(_EVENT, text, attachments) if attachments else [_EVENT_HEAD + text]
