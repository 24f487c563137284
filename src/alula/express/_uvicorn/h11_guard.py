"""Guards uvicorn's protocol that parses with h11; loaded where h11 is used."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11

from alula.errors import BadRequest, FrameworkError
from alula.express._connection_limits import MAX_HEAD_BYTES, head_too_large
from alula.express._uvicorn.guard import HEAD_TOO_LARGE, SERVED, TRAILERS_TOO_LARGE, Guard

__all__ = ["H11Guard", "JoinedWrites"]

_SERVED_EVENT: Final = asyncio.Event()  # of all requests that have their response
_MAX_COPIED_BYTES: Final = 64 * 1024  # longer parts of a body are written without a copy


class H11Guard(Guard):
    """Guards uvicorn's protocol that parses with h11, which can limit heads by itself.

    Each request gets a copy of the context in which the connection was made. Otherwise, context
    variables that a request sets would leak into the next ones: asyncio reads on, and uvicorn
    starts the next request, in the context of the request before.
    """

    conn: _StrictConnection

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = _StrictConnection()

    def data_received(self, data: bytes) -> None:
        self._context.copy().run(self._feed_in_pieces, data)

    def on_response_complete(self) -> None:
        """Let go of the request, and start the next one in a context of its own."""
        self._context.copy().run(super().on_response_complete)  # type: ignore[misc]  # ty: ignore[missing-attribute]  # uvicorn's
        cycle = self.cycle
        if self.lingers and self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        if cycle.response_complete:
            cycle.body.clear()
            if self.scope is cycle.scope and not cycle.more_body:
                self.scope = cycle.scope = SERVED
                self.headers, cycle.message_event = [], _SERVED_EVENT

    def handle_events(self) -> None:
        """Handle what h11 has parsed; a new request is responded to by `JoinedWrites`."""
        before = self.cycle
        super().handle_events()  # type: ignore[misc]  # ty: ignore[missing-attribute]  # of the protocol behind
        cycle = self.cycle
        if cycle is not before:
            cycle.transport = JoinedWrites(self)

    def guards_response(self) -> bool:
        """Tell whether the response to the last request is written by `JoinedWrites`."""
        return isinstance(self.cycle.transport, JoinedWrites)

    def send_400_response(self, msg: str) -> None:
        self.refuse_in_turn(self.conn.refusal or BadRequest(msg))


class _StrictConnection(h11.Connection):
    """A connection of h11 that refuses ambiguous requests and long heads.

    It closes behind a response to a client that waits for a 100, which may keep its body then. The
    next request would be taken for that.

    Attributes:
        refusal: Why a request is refused, if h11 has not noticed by itself.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEAD_BYTES)
        self.refusal: FrameworkError | None = None
        self._unparsed = 0

    def receive_data(self, data: bytes) -> None:
        self._unparsed += len(data)
        super().receive_data(data)

    def send_with_data_passthrough(self, event: h11.Event) -> list[bytes] | None:
        if isinstance(event, h11.Response) and self.they_are_waiting_for_100_continue:
            headers = [pair for pair in event.headers if pair[0] != b"connection"]
            event = h11.Response(
                status_code=event.status_code,
                headers=[*headers, (b"connection", b"close")],
                reason=event.reason,
            )
        return super().send_with_data_passthrough(event)

    def next_event(self) -> Any:
        before = self.their_state
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == 431:
                is_head = before is h11.IDLE
                text = HEAD_TOO_LARGE if is_head else TRAILERS_TOO_LARGE
                self.refusal = head_too_large(text)
            raise
        # Not for other events: `trailing_data` copies, and there may be many small chunks.
        if isinstance(event, h11.Request | h11.EndOfMessage):
            unparsed, self._unparsed = self._unparsed, len(self.trailing_data[0])
            if isinstance(event, h11.Request):
                if unparsed - self._unparsed > MAX_HEAD_BYTES:
                    self.refusal = head_too_large(HEAD_TOO_LARGE)
                # A proxy in front may go by the other header, and see another request in the body
                # (request smuggling).
                elif {b"content-length", b"transfer-encoding"} <= {
                    name for name, _ in event.headers
                }:
                    self.refusal = BadRequest(
                        "A request cannot have both Content-Length and Transfer-Encoding"
                    )
                if self.refusal is not None:
                    raise h11.RemoteProtocolError(str(self.refusal))
        return event


class JoinedWrites:
    """The transport of one response: its head waits for the first part of its body.

    uvicorn writes the head by itself, which costs a system call and a packet for each response.
    ASGI asks a server to wait for the body: "the server must not start sending before it has
    received at least one body event".

    Args:
        connection: Has the real transport, and counts what is written.
    """

    __slots__ = ("_began", "_connection", "_head", "_transport")

    def __init__(self, connection: Guard) -> None:
        self._connection = connection
        self._transport = connection.transport
        self._head: bytes | None = None
        self._began = False

    def write(self, data: bytes) -> None:
        """Write a head, or a part of the body."""
        self._connection.written += len(data)
        if self._began:
            self._transport.write(data)
        elif self._head is not None:
            self._begin(data)
        elif data.startswith(b"HTTP/1.1 100"):  # the client waits for it to send its body
            self._transport.write(data)
        else:
            self._head = data

    def close(self) -> None:
        """Close the connection once all is written."""
        if self._head is not None and not self._began:
            self._begin(b"")
        if self._connection.cycle.more_body and self._connection.cycle.response_complete:
            self._connection.close_after_the_rest()
        else:
            self._transport.close()

    def is_closing(self) -> bool:
        """Tell whether the connection is closed or about to be."""
        return self._transport.is_closing()

    def _begin(self, data: bytes) -> None:
        self._began = True
        head, self._head = self._head or b"", None
        if len(data) > _MAX_COPIED_BYTES:
            self._transport.write(head)
            self._transport.write(data)
        else:
            self._transport.write(head + data)
