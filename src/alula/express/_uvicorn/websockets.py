"""uvicorn's websocket protocol with limits, and with a short way for plain messages.

uvicorn and `websockets` take every frame through a parser and a queue of outgoing parts, and stop
reading after each message. Here, whole messages are read and written directly (`make bench
only=realtime`: events +54 %); all other frames go to uvicorn. A connection whose client reads
nothing after its end is aborted, and heads that `websockets` refuses get a response.

An application may take messages without ASGI's queue, see `alula._wire.MessagesExtension`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import apply_mask  # type: ignore[attr-defined]  # in C if it is built

from alula._wire import MESSAGES_EXTENSION, Frame

__all__ = ["CLOSE_SECONDS", "WebSocketProtocol"]

CLOSE_SECONDS: Final = 20.0
"""How long a client may take to read the rest, after the end of its websocket."""

_MAX_FRAGMENTS: Final = 1000  # of a message; empty ones have no part in its size
_MAX_TAKEN: Final = 64
"""How many messages of one read are taken at once, before all others have their turn."""
_MAX_QUEUED: Final = 16
_MAX_QUEUED_BYTES: Final = 64 * 1024
_REFUSED: Final = -1
_TEXT, _BINARY = 0x81, 0x82  # whole messages, not compressed
_WHOLE: Final = frozenset((_TEXT, _BINARY))
_SHORT_HEAD, _LONG_HEAD = 6, 8  # bytes before messages of clients: up to 125 bytes, 64 KiB
_SHORT_HEADS: Final = {
    first: [bytes((first, size)) for size in range(126)] for first in (_TEXT, _BINARY)
}


class _Gate:
    """What uvicorn uses of an `asyncio.Event`, in a tenth of its memory."""

    __slots__ = ("_is_set", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, *, is_set: bool) -> None:
        self._loop = loop
        self._is_set = is_set
        self._waiting: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> None:
        while not self._is_set:  # another that waited may have cleared it again
            future = self._loop.create_future()
            self._waiting.append(future)
            try:
                await future
            finally:
                self._waiting.remove(future)


class _Messages(_Gate):
    """What uvicorn uses of an `asyncio.Queue`: of its 3 KiB a connection, most waits empty."""

    __slots__ = ("_first", "_others")
    _others: deque[Any] | None  # None while there is one message at most

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, is_set=False)
        self._first: Any = None
        self._others = None

    def qsize(self) -> int:
        return self._is_set + len(self._others or ())

    def put_nowait(self, message: Any) -> None:
        if not self._is_set:
            self._first = message
            self.set()
        elif self._others is None:
            self._others = deque((message,))
        else:
            self._others.append(message)

    def get_nowait(self) -> Any:
        """Return the first message; there is one if `is_set`."""
        message = self._first
        if self._others is None:
            self._first, self._is_set = None, False
        else:
            self._first = self._others.popleft()
            if not self._others:
                self._others = None
        return message


class _Reading:
    """How far the frames of a client are read; a dict of so many names would be slow and large.

    Attributes:
        is_plain: Whether frames are read here; None before the first.
        is_fragmented: Whether the rest of a message is to come.
        rest: The beginning of a frame, None without one.
        rest_end: How many bytes of it are needed, at least.
        take: Is offered each message before it is queued.
    """

    __slots__ = ("is_fragmented", "is_plain", "rest", "rest_end", "take")
    is_plain: bool | None
    rest: bytearray | None
    take: Callable[[Frame], bool] | None

    def __init__(self) -> None:
        self.is_plain = self.rest = self.take = None
        self.is_fragmented = False
        self.rest_end = 0


class _LastText:
    """The frame of the last text, since an event is the same text for all connections.

    These are no attributes of the protocol's class: when one changes, Python forgets all look-ups
    that it has cached for the class (8 % of the instructions of a call).
    """

    __slots__ = ("frame", "text")

    def __init__(self) -> None:
        self.text, self.frame = "", b"\x81\x00"


_LAST: Final = _LastText()

# uvicorn logs each websocket with its query, which may hold tokens, and `websockets` logs headers
# and messages.
_log: Final = logging.getLogger("uvicorn.error.websockets")
_log.setLevel(logging.WARNING)


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One websocket."""

    # All are uvicorn's. Objects share the names of 30 attributes at most; uvicorn has 37, for
    # which each connection would take 1.2 KiB more.
    __slots__ = (
        "close_timeout",
        "curr_msg_data_type",
        "frames",
        "last_ping_rtt",
        "pending_ping_payload",
        "ping_interval",
        "ping_sent_at",
        "ping_timeout",
        "ping_timer",
        "pong_timer",
        "queue",
        "read_paused",
        "writable",
    )

    _abort: asyncio.TimerHandle | None = None
    _late_pong = b""  # waits until the client reads
    _on_writable: Callable[[], None] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = self.conn.logger = _log
        self.conn.debug = False
        self.queue: Any = _Messages(self.loop)
        self.writable: Any = _Gate(self.loop, is_set=True)
        self._reading = _Reading()

    # -- from the client -----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent."""
        reading = self._reading
        size, take = len(data), reading.take
        # Nearly always one whole text, to be taken at once (-5 % instructions of a call).
        if (
            take is not None
            and reading.rest is None
            and reading.is_plain
            and not reading.is_fragmented
            and size > _SHORT_HEAD
            and data[0] == _TEXT
            and not self.close_sent
            and not self.queue._is_set  # noqa: SLF001  # its method costs more than the look
        ):
            head = _SHORT_HEAD if size < _SHORT_HEAD + 126 else _LONG_HEAD
            is_whole = (
                data[1] == 0x80 | (size - head)
                if head == _SHORT_HEAD
                else data[1] == 0x80 | 126 and (data[2] << 8 | data[3]) == size - head
            )
            if is_whole and size - head <= self.config.ws_max_size:
                try:
                    text = apply_mask(data[head:], data[head - 4 : head]).decode()
                except UnicodeDecodeError:
                    pass  # refused below
                else:
                    if take(text):
                        return
                    take = None  # not offered again
        if reading.is_plain is None and self.handshake_initiated:
            # A client that does not wait for the response to its head gets no short way.
            reading.is_plain = self.handshake_complete and not self.conn.extensions
        if reading.is_plain:
            self._read_frames(data, reading, take)
            return
        super().data_received(data)
        if not self.handshake_initiated:  # uvicorn passes a whole head: it was refused
            self._refuse_head()

    def _read_frames(
        self, data: bytes, reading: _Reading, take: Callable[[Frame], bool] | None
    ) -> None:
        if reading.rest is not None:
            # Into a buffer that grows: a client that sends a large frame byte by byte would have
            # all of it copied for each.
            reading.rest += data
            if len(reading.rest) < reading.rest_end:
                return
            data, reading.rest = bytes(reading.rest), None
        at, end, size, count = 0, 0, len(data), 0
        # Most data are one frame: the first condition saves a call that finds no second one.
        while at < size and (end := self._end_of_frame(data, at)) <= size:
            if end == _REFUSED:
                reading.is_plain = False
                super().data_received(data[at:])
                return
            self._read_frame(data[at:end], reading, take if count < _MAX_TAKEN else None)
            at = end
            count += 1
        if at < size:
            reading.rest, reading.rest_end = bytearray(data[at:]), end - at

    def _end_of_frame(self, data: bytes, at: int) -> int:
        """Return where the frame ends that begins at an index, or its head if that is incomplete.

        A frame that is too large, or not masked, is `_REFUSED`: uvicorn says why.
        """
        if len(data) < at + 2:
            return at + 2
        second = data[at + 1]
        size, head = second & 0x7F, 2
        if size >= 126:
            head = 4 if size == 126 else 10
            if len(data) < at + head:
                return at + head
            size = int.from_bytes(data[at + 2 : at + head], "big")
        if size > self.config.ws_max_size or second < 0x80:
            return _REFUSED
        return at + head + 4 + size

    def _read_frame(
        self, frame: bytes, reading: _Reading, take: Callable[[Frame], bool] | None
    ) -> None:
        first, size = frame[0], frame[1] & 0x7F
        if first not in _WHOLE or reading.is_fragmented or self.close_sent:
            if first & 0x0F <= 2:  # text, bytes, or their continuation
                reading.is_fragmented = not first & 0x80
            super().data_received(frame)
            return
        head = 2 if size < 126 else 4 if size == 126 else 10
        payload = apply_mask(frame[head + 4 :], frame[head : head + 4])
        try:
            message: Frame = payload.decode() if first == _TEXT else payload
        except UnicodeDecodeError:
            super().data_received(frame)
            return
        queue = self.queue
        # What is in the queue comes first.
        if take is not None and not queue._is_set and take(message):  # noqa: SLF001  # as above
            return
        kind = "text" if first == _TEXT else "bytes"
        queue.put_nowait({"type": "websocket.receive", kind: message})
        if not self.read_paused and (
            queue.qsize() >= _MAX_QUEUED or len(payload) > _MAX_QUEUED_BYTES
        ):
            self.read_paused = True
            self.transport.pause_reading()

    async def receive(self) -> Any:
        """Return the next message for the application."""
        queue = self.queue
        if not queue.is_set():
            await queue.wait()
        message = queue.get_nowait()
        if self.read_paused and not queue.is_set():
            self.read_paused = False
            self.transport.resume_reading()
        return message

    def handle_ping(self) -> None:
        """Send a pong; to a client that does not read, later, and for its last ping only."""
        if self.writable.is_set():
            super().handle_ping()
        else:  # RFC 6455, 5.5.3 allows it; all pongs would fill the memory
            self._late_pong = b"".join(self.conn.data_to_send()) or self._late_pong

    def handle_cont(self, event: Any) -> None:
        """Take a further fragment of a message."""
        super().handle_cont(event)
        if len(self.frames) > _MAX_FRAGMENTS and not self.transport.is_closing():
            self.conn.fail(1009, "too many fragments")
            self.handle_parser_exception()

    # -- to the client -------------------------------------------------------------------------

    async def send(self, message: Any) -> None:
        """Take a message of the application."""
        if (
            message["type"] != "websocket.send"
            or not self._is_open()
            or not self.writable.is_set()
            or self.conn.extensions
        ):
            await super().send(message)
            if message["type"] == "websocket.accept":
                # uvicorn needs them no more, and would keep them as long as the connection.
                self.request = self.response = self.scope = None  # type: ignore[assignment]  # ty: ignore[invalid-assignment]  # of no use now
            return
        text = message.get("text")
        self.write(message["bytes"] if text is None else text)

    def resume_writing(self) -> None:
        """Go on, now that the client reads."""
        pong, self._late_pong = self._late_pong, b""
        if pong and not self.transport.is_closing():
            self.transport.write(pong)
        super().resume_writing()
        if self._on_writable is not None:
            self._on_writable()

    def _is_open(self) -> bool:
        return (
            self.handshake_complete
            and not self.close_sent
            and not self.disconnected
            and not self.transport.is_closing()
        )

    # -- the extension of ASGI, see `MessagesExtension` ------------------------------------------

    def attach(self, take: Callable[[Frame], bool], on_writable: Callable[[], None]) -> None:
        """Offer each message to a function first."""
        self._reading.take, self._on_writable = take, on_writable

    def write(self, frame: Frame) -> bool:
        """Write a message; return whether the next one may follow."""
        transport = self.transport
        # As `_is_open`, without its call.
        if (
            not self.handshake_complete
            or self.close_sent
            or self.disconnected
            or transport.is_closing()
        ):
            return False
        if isinstance(frame, bytes):
            transport.write(_frame(_BINARY, frame))
        else:
            last = _LAST
            if frame is not last.text:
                last.text, last.frame = frame, _frame(_TEXT, frame.encode())
            transport.write(last.frame)
        is_writable: bool = self.writable._is_set  # noqa: SLF001  # as above
        return is_writable

    def wake(self) -> None:
        """Let the task go on that waits in `receive`."""
        self.queue.put_nowait({"type": MESSAGES_EXTENSION})

    # -- limits --------------------------------------------------------------------------------

    def handle_connect(self, event: Any) -> None:
        """Start the application, unless there are too many connections."""
        limit = self.config.limit_concurrency
        if limit is None or len(self.connections) <= limit:
            super().handle_connect(event)
            is_refused = self.handshake_complete
            if not is_refused and not self.conn.extensions:  # those compress
                scope: Any = self.scope
                scope["extensions"][MESSAGES_EXTENSION] = self
            return
        self.request, self.handshake_initiated = event, True
        self.handshake_complete = self.close_sent = True
        self.conn.send_response(self.conn.reject(503, "Too many connections\n"))
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()

    def _refuse_head(self) -> None:
        # `websockets` takes fewer headers than uvicorn, and shorter ones.
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
            b"content-length: 0\r\nconnection: close\r\n\r\n"
        )
        self.transport.close()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Give the client some time to read the rest, now that the application has ended."""
        super().on_task_complete(task)
        if not self.disconnected:
            self._abort = self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._abort is not None:
            self._abort.cancel()
        self._reading.take = self._on_writable = None  # they refer to this object
        super().connection_lost(exc)


def _frame(first: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return _SHORT_HEADS[first][size] + payload
    if size < 0x10000:
        return bytes((first, 126)) + size.to_bytes(2, "big") + payload
    return bytes((first, 127)) + size.to_bytes(8, "big") + payload
