"""`WebSocketProtocol`: websockets with limits, and with a short way for whole messages.

The sans-IO protocol of `websockets` does the handshake, fragments, control frames and the end. Its
parser and its queues take half of the processor time of an event, so whole messages are read and
written here (`make bench only=realtime`: events +54 %). A connection whose client does not read
after the end of its websocket is aborted.

The scope's ``extensions`` have the `WebSocketProtocol` itself. An application may `attach` a
function that takes messages before ASGI's queue, so that no task has to wake up for each of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, cast

from starlette.types import ASGIApp, Message, Scope
from websockets.datastructures import Headers
from websockets.exceptions import InvalidState
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import (  # type: ignore[attr-defined]  # `apply_mask`, as below
    Close,
    Opcode,
    apply_mask,  # pyright: ignore[reportPrivateImportUsage]  # it is in C if that is built
)
from websockets.frames import (
    Frame as WebSocketFrame,
)
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from alula._routes import percent_decoded
from alula._wire import MESSAGES_EXTENSION, Frame
from alula.express._http1.protocol import address_of

__all__ = ["CLOSE_SECONDS", "ClientDisconnected", "WebSocketProtocol"]

CLOSE_SECONDS: Final = 20.0
"""How long a client may take to read the rest, after the end of its websocket."""

_REPLY_SECONDS: Final = 10.0
"""How long a client may take to reply to the server's close frame."""

_MAX_FRAGMENTS: Final = 1000  # of a message; empty ones have no part in its size
_MAX_TAKEN: Final = 64
"""How many messages of one read are taken at once, before all others have their turn."""
_MAX_QUEUED: Final = 16
_MAX_QUEUED_BYTES: Final = 64 * 1024
_INVALID: Final = -1
_TEXT, _BINARY = 0x81, 0x82  # the first byte of whole messages, not compressed
_WHOLE: Final = frozenset((_TEXT, _BINARY))
_SHORT_HEAD, _LONG_HEAD = 6, 8  # bytes before messages of clients: up to 125 bytes, 64 KiB
_SHORT_HEADS: Final = {
    first: [bytes((first, size)) for size in range(126)] for first in (_TEXT, _BINARY)
}

# `websockets` logs headers and messages at lower levels, and these may have tokens.
_log: Final = logging.getLogger("uvicorn.error.websockets")
_log.setLevel(logging.WARNING)


class ClientDisconnected(OSError):
    """The application sends to a client that has gone; ASGI wants an `OSError` there."""


class _LastText:
    """The frame of the last text, since an event is the same text for all connections.

    These are no attributes of the protocol's class: when one changes, Python forgets all look-ups
    that it has cached for the class (8 % of the instructions of a call).
    """

    __slots__ = ("frame", "text")

    def __init__(self) -> None:
        self.text, self.frame = "", b"\x81\x00"


_LAST: Final = _LastText()


class WebSocketProtocol(asyncio.Protocol):
    """One websocket; `HTTPProtocol` hands its connection over, and the head of its request.

    Args:
        config: A ``uvicorn.Config``.
        server_state: What the connections of a server share, as for `HTTPProtocol`.
        app_state: The state of the lifespan.
    """

    # Most connections wait: what they do not need meanwhile is None.
    __slots__ = (
        "__weakref__",
        "_abort",
        "_app",
        "_app_state",
        "_arrival",
        "_close_sent",
        "_config",
        "_conn",
        "_denial",
        "_disconnected",
        "_drained",
        "_fragments",
        "_has_started",
        "_inbox",
        "_is_fragmented",
        "_is_open",
        "_is_plain",
        "_late_pong",
        "_loop",
        "_message_opcode",
        "_on_writable",
        "_ping_payload",
        "_ping_timer",
        "_reading_paused",
        "_reply_timer",
        "_response",
        "_rest",
        "_rest_end",
        "_state",
        "_take",
        "_task",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: Mapping[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._config, self._state, self._app_state = config, server_state, app_state
        self._app: ASGIApp = config.loaded_app
        self._loop = _loop or asyncio.get_running_loop()
        # 12 bits: 60 KiB of memory for a connection, and not several times as much.
        deflate = ServerPerMessageDeflateFactory(
            server_max_window_bits=12,
            client_max_window_bits=12,
            compress_settings={"memLevel": 5},
        )
        self._conn = ServerProtocol(
            extensions=[deflate] if config.ws_per_message_deflate else [],
            max_size=config.ws_max_size,
            logger=_log,
        )
        self._task: asyncio.Task[None] | None = None
        self._response: Response | None = None  # accepts the handshake; None when it is sent
        self._denial: tuple[int, list[tuple[str, str]], bytearray] | None = None
        self._has_started = False  # whether the head of the request is complete
        self._is_open = False  # whether the handshake is accepted
        self._close_sent = self._disconnected = False

        self._inbox: deque[Message] | None = None  # what the application has not received
        self._arrival: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None  # while the client reads too slowly
        self._reading_paused = False
        self._late_pong = b""  # waits until the client reads

        # Whether frames are read here; None before the handshake.
        self._is_plain: bool | None = None
        self._is_fragmented = False  # whether the rest of a message is to come
        self._rest: bytearray | None = None  # the beginning of a frame
        self._rest_end = 0  # how many bytes of it are needed, at least
        self._fragments: list[bytes] = []  # of a message that `websockets` reads
        self._message_opcode = Opcode.TEXT
        self._take: Callable[[Frame], bool] | None = None
        self._on_writable: Callable[[], None] | None = None

        self._abort: asyncio.TimerHandle | None = None
        self._reply_timer: asyncio.TimerHandle | None = None
        self._ping_timer: asyncio.TimerHandle | None = None
        self._ping_payload: bytes | None = None  # while its pong is missing

    # -- the connection ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, and add the connection to those of the server."""
        self.transport = transport  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]  # of a stream, it is a `Transport`
        self._state.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio gives it
        """End."""
        self._state.connections.discard(self)
        self._put({"type": "websocket.disconnect", "code": 1005 if self._is_open else 1006})
        self._disconnected = True
        self._stop_pings()
        for timer in (self._abort, self._reply_timer):
            if timer is not None:
                timer.cancel()
        self._take = self._on_writable = None  # they refer to this object
        self._resume_senders()
        self.transport.close()

    def eof_received(self) -> None:
        """Close the connection: the client sends nothing more."""

    def shutdown(self) -> None:
        """End the websocket: the server stops."""
        self._stop_pings()
        if self._is_open and not self._close_sent and not self.transport.is_closing():
            self._put({"type": "websocket.disconnect", "code": 1012})
            self._conn.send_close(1012)
            self._flush()
        elif not self._is_open:
            self._respond_500()
        self.transport.close()

    def pause_writing(self) -> None:
        """Let messages wait: too many bytes are in the buffer of the transport."""
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        """Go on, now that the client reads."""
        pong, self._late_pong = self._late_pong, b""
        if pong and not self.transport.is_closing():
            self.transport.write(pong)
        self._resume_senders()
        if self._on_writable is not None:
            self._on_writable()

    def _resume_senders(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    def _flush(self) -> None:
        self.transport.write(b"".join(self._conn.data_to_send()))

    # -- from the client -----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent."""
        size, take = len(data), self._take
        # Nearly always one whole text, to be taken at once (-5 % instructions of a call).
        if (
            take is not None
            and self._rest is None
            and self._is_plain
            and not self._is_fragmented
            and size > _SHORT_HEAD
            and data[0] == _TEXT
            and not self._close_sent
            and self._inbox is None
        ):
            head = _SHORT_HEAD if size < _SHORT_HEAD + 126 else _LONG_HEAD
            is_whole = (
                data[1] == 0x80 | (size - head)
                if head == _SHORT_HEAD
                else data[1] == 0x80 | 126 and (data[2] << 8 | data[3]) == size - head
            )
            if is_whole and size - head <= self._config.ws_max_size:
                try:
                    text = apply_mask(data[head:], data[head - 4 : head]).decode()
                except UnicodeDecodeError:
                    pass  # refused below
                else:
                    if take(text):
                        return
                    take = None  # not offered again
        if self._is_plain is None and self._has_started:
            # A client that does not wait for the response to its head gets no short way.
            self._is_plain = self._is_open and not self._conn.extensions
        if self._is_plain:
            self._read_frames(data, take)
            return
        self._feed(data)
        if not self._has_started:  # a whole head arrives at once, so `websockets` refused it
            self._refuse_head()

    def _read_frames(self, data: bytes, take: Callable[[Frame], bool] | None) -> None:
        if self._rest is not None:
            # Into a buffer that grows: a client that sends a large frame byte by byte would have
            # all of it copied for each.
            self._rest += data
            if len(self._rest) < self._rest_end:
                return
            data, self._rest = bytes(self._rest), None
        at, end, size, count = 0, 0, len(data), 0
        # Most data are one frame: the first condition saves a call that finds no second one.
        while at < size and (end := self._end_of_frame(data, at)) <= size:
            if end == _INVALID:
                self._is_plain = False
                self._feed(data[at:])
                return
            self._read_frame(data[at:end], take if count < _MAX_TAKEN else None)
            at = end
            count += 1
        if at < size:
            self._rest, self._rest_end = bytearray(data[at:]), end - at

    def _end_of_frame(self, data: bytes, at: int) -> int:
        """Return where the frame ends that begins at an index, or its head if that is incomplete.

        A frame that is too large, or not masked, is `_INVALID`: `websockets` tells the client why.
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
        if size > self._config.ws_max_size or second < 0x80:
            return _INVALID
        return at + head + 4 + size

    def _read_frame(self, frame: bytes, take: Callable[[Frame], bool] | None) -> None:
        first, size = frame[0], frame[1] & 0x7F
        if first not in _WHOLE or self._is_fragmented or self._close_sent:
            if first & 0x0F <= 2:  # text, bytes, or their continuation
                self._is_fragmented = not first & 0x80
            self._feed(frame)
            return
        head = 2 if size < 126 else 4 if size == 126 else 10
        payload = apply_mask(frame[head + 4 :], frame[head : head + 4])
        try:
            message: Frame = payload.decode() if first == _TEXT else payload
        except UnicodeDecodeError:
            self._feed(frame)
            return
        # What is in the inbox comes first.
        if take is not None and self._inbox is None and take(message):
            return
        kind = "text" if first == _TEXT else "bytes"
        self._put({"type": "websocket.receive", kind: message}, len(payload))

    def _feed(self, data: bytes) -> None:
        """Let `websockets` read: the handshake, and every frame that is not a whole message."""
        conn = self._conn
        conn.receive_data(data)
        if conn.parser_exc is not None:
            self._end_by_error()
            return
        for event in conn.events_received():
            if isinstance(event, Request):
                self._begin(event)
            else:
                self._take_frame(cast("WebSocketFrame", event))  # a server gets no responses

    def _take_frame(self, frame: WebSocketFrame) -> None:
        match frame.opcode:
            case Opcode.TEXT | Opcode.BINARY | Opcode.CONT:
                self._take_fragment(frame)
            case Opcode.PING:
                if self._drained is None:
                    self._flush()
                else:  # RFC 6455, 5.5.3 allows to answer the last ping only
                    self._late_pong = b"".join(self._conn.data_to_send()) or self._late_pong
            case Opcode.PONG:
                if self._ping_payload is not None and bytes(frame.data) == self._ping_payload:
                    self._ping_payload = None
            case _:
                self._take_close()

    def _take_fragment(self, frame: WebSocketFrame) -> None:
        if frame.opcode is not Opcode.CONT:
            self._message_opcode, self._fragments = frame.opcode, []
        self._fragments.append(bytes(frame.data))
        if len(self._fragments) > _MAX_FRAGMENTS and not self.transport.is_closing():
            self._conn.fail(1009, "too many fragments")
            self._end_by_error()
            return
        if not frame.fin:
            return
        payload, self._fragments = b"".join(self._fragments), []
        if self._close_sent:  # only the client's reply to the close frame counts
            return
        if self._message_opcode is Opcode.BINARY:
            self._put({"type": "websocket.receive", "bytes": payload}, len(payload))
            return
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            self._conn.fail(1007, "a text that is not UTF-8")
            self._end_by_error()
        else:
            self._put({"type": "websocket.receive", "text": text}, len(payload))

    def _take_close(self) -> None:
        if self._close_sent:  # the client's reply: the closing handshake is complete
            self.transport.close()
            return
        self._stop_pings()
        received = cast("Close", self._conn.close_rcvd)
        message = {"type": "websocket.disconnect", "code": received.code}
        self._put({**message, "reason": received.reason})
        self._flush()
        self.transport.close()

    def _end_by_error(self) -> None:
        """Tell both sides that the client broke the protocol, as `websockets` has found."""
        self._stop_pings()
        sent = self._conn.close_sent
        code, reason = (1006, "") if sent is None else (sent.code, sent.reason)
        self._put({"type": "websocket.disconnect", "code": code, "reason": reason})
        self._flush()
        self._close_sent = True
        self.transport.close()

    # -- the application -----------------------------------------------------------------------

    def _begin(self, request: Request) -> None:
        """Start the application with the request of a handshake, unless it is refused."""
        self._has_started = True
        limit = self._config.limit_concurrency
        if limit is not None and len(self._state.connections) > limit:
            self._deny(self._conn.reject(503, "Too many connections\n"))
            return
        response = self._conn.accept(request)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._deny(response)
            return
        self._response = response
        self._put({"type": "websocket.connect"})
        self._task = self._loop.create_task(self._run(self._scope_of(request)))
        self._state.tasks.add(self._task)

    def _scope_of(self, request: Request) -> Scope:
        root: str = self._config.root_path
        raw_path, _, query = request.path.partition("?")
        path = percent_decoded(raw_path).decode(errors="replace") if "%" in raw_path else raw_path
        protocols = request.headers.get_all("Sec-WebSocket-Protocol")
        extensions: dict[str, Any] = {"websocket.http.response": {}}
        if not self._conn.extensions:  # those compress
            extensions[MESSAGES_EXTENSION] = self
        return {
            "type": "websocket",
            "asgi": {"version": self._config.asgi_version, "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "wss" if self.transport.get_extra_info("sslcontext") else "ws",
            "server": address_of(self.transport, "sockname"),
            "client": address_of(self.transport, "peername"),
            "root_path": root,
            "path": root + path,
            "raw_path": (root + raw_path).encode("ascii"),
            "query_string": query.encode("ascii"),
            "headers": [
                (name.lower().encode("ascii"), value.encode("latin-1", "surrogateescape"))
                for name, value in request.headers.raw_items()
            ],
            "subprotocols": [name.strip() for each in protocols for name in each.split(",")],
            "state": dict(self._app_state),
            "extensions": extensions,
        }

    async def _run(self, scope: Scope) -> None:
        try:
            await self._app(scope, self.receive, self.send)
        except ClientDisconnected:
            pass
        except BaseException:  # noqa: BLE001  # a cancellation too: it has to respond
            _log.exception("Exception in ASGI application\n")
            self._respond_500()
        else:
            if not self._is_open and not self._close_sent:
                _log.error("ASGI callable returned without completing handshake.")
                self._respond_500()
        finally:
            self._state.tasks.discard(self._task)
            self._task = None
            if self._reply_timer is None:
                self.transport.close()
            if not self._disconnected:
                # The client has some time to read the rest.
                self._abort = self._loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def _put(self, message: Message, size: int = 0) -> None:
        """Add a message for the application; read no more while too much waits."""
        if self._inbox is None:
            self._inbox = deque()
        self._inbox.append(message)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
        if not self._reading_paused and (
            len(self._inbox) >= _MAX_QUEUED or size > _MAX_QUEUED_BYTES
        ):
            self._reading_paused = True
            self.transport.pause_reading()

    async def receive(self) -> Message:
        """Return the next message for the application."""
        while self._inbox is None:
            if self._arrival is None or self._arrival.done():
                self._arrival = self._loop.create_future()
            # Several tasks may wait, and the end of one must not end the others.
            await asyncio.shield(self._arrival)
        message = self._inbox.popleft()
        if not self._inbox:
            self._inbox = None
            self._resume_reading()
        return message

    def _resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self.transport.resume_reading()

    async def send(self, message: Message) -> None:
        """Take a message of the application.

        Raises:
            ClientDisconnected: The client has gone.
            RuntimeError: The message is out of turn.
        """
        while self._drained is not None:
            await asyncio.shield(self._drained)
        if self._disconnected:
            raise ClientDisconnected("The client has gone")
        kind = message["type"]
        if self._close_sent:
            raise RuntimeError(f"Unexpected ASGI message '{kind}', after the end of the websocket.")
        if self._denial is not None:
            self._send_denial(message, *self._denial)
        elif not self._is_open:
            self._respond(message)
        elif kind == "websocket.send":
            text = message.get("text")
            self._send(message["bytes"] if text is None else text)
        elif kind == "websocket.close":
            self._close(message.get("code", 1000), message.get("reason", "") or "")
        else:
            raise RuntimeError(
                f"Expected ASGI message 'websocket.send' or 'websocket.close', but got '{kind}'."
            )

    def _respond(self, message: Message) -> None:
        """Accept or deny the handshake."""
        kind = message["type"]
        if kind == "websocket.accept" and self._response is not None:
            headers = [
                (name.decode("latin-1").lower(), value.decode("latin-1"))
                for name, value in (*self._state.default_headers, *message.get("headers", ()))
            ]
            if message.get("subprotocol"):
                headers.append(("Sec-WebSocket-Protocol", message["subprotocol"]))
            response, self._response = self._response, None
            del response.headers["Date"]  # the server has its own
            response.headers.update(headers)
            self._is_open = True
            self._conn.send_response(response)
            self._flush()
            self._ping_later()
        elif kind == "websocket.close":
            self._put({"type": "websocket.disconnect", "code": 1006})
            self._deny(self._conn.reject(HTTPStatus.FORBIDDEN, ""))
        elif kind == "websocket.http.response.start":
            status = message["status"]
            if not 100 <= status < 600:
                raise RuntimeError(f"The status {status} cannot be sent; it must be 100 to 599.")
            headers = [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
            self._denial = status, headers, bytearray()
        else:
            raise RuntimeError(
                "Expected ASGI message 'websocket.accept', 'websocket.close' or"
                f" 'websocket.http.response.start', but got '{kind}'."
            )

    def _send_denial(
        self, message: Message, status: int, given: list[tuple[str, str]], body: bytearray
    ) -> None:
        """Take the body of a response that denies the handshake."""
        kind = message["type"]
        if kind != "websocket.http.response.body":
            raise RuntimeError(
                f"Expected ASGI message 'websocket.http.response.body', but got '{kind}'."
            )
        body += message.get("body", b"")
        if message.get("more_body", False):
            return
        headers = Headers(given)
        for name, value in {
            "Date": formatdate(usegmt=True),
            "Connection": "close",
            "Content-Length": str(len(body)),
            "Content-Type": "text/plain; charset=utf-8",
        }.items():
            headers.setdefault(name, value)
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = ""
        self._put({"type": "websocket.disconnect", "code": 1006})
        self._deny(Response(status, phrase, headers, bytes(body)))

    def _deny(self, response: Response) -> None:
        self._close_sent = True
        self._conn.send_response(response)
        self._flush()
        self.transport.close()

    def _respond_500(self) -> None:
        if not (self._is_open or self._close_sent or self._disconnected):
            self._deny(self._conn.reject(500, "Internal Server Error"))

    def _refuse_head(self) -> None:
        # `websockets` takes fewer headers than `HTTPProtocol`, and shorter ones.
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
            b"content-length: 0\r\nconnection: close\r\n\r\n"
        )
        self.transport.close()

    def _send(self, frame: Frame) -> None:
        if not self._conn.extensions:
            self.write(frame)
            return
        # If the websocket has just ended, the next `send` says that the client has gone.
        with suppress(InvalidState):
            if isinstance(frame, bytes):
                self._conn.send_binary(frame)
            else:
                self._conn.send_text(frame.encode())
            self._flush()

    def _close(self, code: int, reason: str) -> None:
        if self.transport.is_closing():  # the server stops, and has told both sides
            return
        self._stop_pings()
        self._put({"type": "websocket.disconnect", "code": code, "reason": reason})
        self._conn.send_close(code, reason)
        self._flush()
        self._close_sent = True
        self._resume_reading()  # the client's reply has to be read
        self._reply_timer = self._loop.call_later(_REPLY_SECONDS, self.transport.close)

    # -- pings ---------------------------------------------------------------------------------

    def _ping_later(self) -> None:
        interval = self._config.ws_ping_interval
        if interval:
            self._ping_timer = self._loop.call_later(interval, self._ping)

    def _stop_pings(self) -> None:
        if self._ping_timer is not None:
            self._ping_timer.cancel()

    def _ping(self) -> None:
        self._ping_payload = os.urandom(4)
        self._conn.send_ping(self._ping_payload)
        self._flush()
        timeout = self._config.ws_ping_timeout
        if timeout is None:
            self._ping_later()
        else:
            self._ping_timer = self._loop.call_later(timeout, self._check_pong)

    def _check_pong(self) -> None:
        if self._ping_payload is None:
            self._ping_later()
        else:
            self._conn.fail(1011, "keepalive ping timeout")
            self._flush()
            self._close_sent = True
            self.transport.close()

    # -- messages without ASGI's queue -----------------------------------------------------------

    def attach(self, take: Callable[[Frame], bool], on_writable: Callable[[], None]) -> None:
        """Offer each message to a function first. `receive` returns the others in their order.

        Args:
            take: Returns whether it has taken the message; must not raise. It is not called while
                other messages wait for `receive`.
            on_writable: Called when the client reads again; must not raise.
        """
        self._take, self._on_writable = take, on_writable

    def write(self, frame: Frame) -> bool:
        """Write a message; return False if the connection has ended, or the client does not read.

        If the client does not read, the message is written, but the next one has to wait for
        ``on_writable``.
        """
        transport = self.transport
        if not self._is_open or self._close_sent or self._disconnected or transport.is_closing():
            return False
        if isinstance(frame, bytes):
            transport.write(_frame(_BINARY, frame))
        else:
            last = _LAST
            if frame is not last.text:
                last.text, last.frame = frame, _frame(_TEXT, frame.encode())
            transport.write(last.frame)
        return self._drained is None

    def wake(self) -> None:
        """Wake up the task that waits in `receive`, by a message of the extension's name."""
        self._put({"type": MESSAGES_EXTENSION})


def _frame(first: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return _SHORT_HEADS[first][size] + payload
    if size < 0x10000:
        return bytes((first, 126)) + size.to_bytes(2, "big") + payload
    return bytes((first, 127)) + size.to_bytes(8, "big") + payload
