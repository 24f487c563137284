"""uvicorn's HTTP/1 protocols with the limits that uvicorn does not have.

uvicorn reads request heads of any length, waits forever for clients that stall (slow loris), keeps
responses that a client does not read, and sends plain text for what it cannot parse. The guards
here come before uvicorn's protocol classes in the method resolution order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextvars import copy_context
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, requires
from typing import Any, Final, cast

import uvicorn

from alula._json_encoding import dumps
from alula.errors import BadRequest, FrameworkError, Timeout
from alula.express._connection_limits import (
    MAX_HEAD_BYTES,
    ConnectionLimits,
    StallTimeout,
    head_too_large,
)

__all__ = ["HTTPProtocol", "JoinedWrites", "guarded", "guards", "unsupported_uvicorn"]


def unsupported_uvicorn(reason: object) -> ImportError:
    """Return the error for a uvicorn that lacks what is needed of it.

    The versions that work are those that the package of Alula declares.
    """
    try:
        declared = [line.partition(";")[0].strip() for line in requires("alula") or ()]
    except PackageNotFoundError:  # a copy of the source that is not installed
        declared = []
    works = next((line for line in declared if line.startswith("uvicorn")), "alula[server]")
    return ImportError(
        f"alula.express does not work with uvicorn {uvicorn.__version__}: {reason}. The limits for"
        " slow and hostile clients would be gone, so it does not start. Install a version that"
        f" works: pip install '{works}'"
    )


try:
    import h11
    from uvicorn.protocols.http.auto import AutoHTTPProtocol
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise unsupported_uvicorn(error) from error

_PIECE_BYTES: Final = 16 * 1024  # fed to the parser at a time, so that counting can stop it
_MAX_COPIED_BYTES: Final = 64 * 1024  # longer parts of a body are written without a copy
_CHECKS_PER_TIMEOUT: Final = 4  # how often the progress of a connection is checked


def guarded(
    protocol: type[asyncio.Protocol],
    limits: ConnectionLimits | None = None,
    *,
    allow_unguarded: bool = False,
) -> type[asyncio.Protocol]:
    """Return one of uvicorn's HTTP/1 protocols, or a subclass of one, with limits and error JSON.

    Args:
        protocol: The class.
        limits: For the clients of its connections; None for the defaults.
        allow_unguarded: Whether to return a class as it is that cannot be guarded.

    Raises:
        TypeError: The class cannot be guarded, and ``allow_unguarded`` is not set.
    """
    for theirs, guard in guards().items():
        if isinstance(protocol, type) and issubclass(protocol, theirs):
            bases = (protocol,) if issubclass(protocol, guard) else (guard, protocol)
            namespace = {"limits": limits or ConnectionLimits(), "__doc__": guard.__doc__}
            return cast("type[asyncio.Protocol]", type(protocol.__name__, bases, namespace))
    if allow_unguarded:
        return protocol
    raise TypeError(
        f"http={protocol!r} cannot be guarded: it is not one of uvicorn's classes for httptools and"
        " h11, or a subclass of one. Its connections would have no limits (head, timeouts, unread"
        " responses); if it has its own, say so: allow_unguarded_http=True"
    )


class JoinedWrites:
    """The transport of one response: its head waits for the first part of its body.

    uvicorn writes the head by itself, which costs a system call and a packet for each response.
    ASGI asks a server to wait for the body: "the server must not start sending before it has
    received at least one body event".

    Args:
        connection: Has the real transport, and counts what is written.
    """

    __slots__ = ("_began", "_connection", "_head", "_transport")

    def __init__(self, connection: _Guard) -> None:
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


class _Guard(asyncio.Protocol):
    """What all guards have in common.

    Each request gets a copy of the context in which the connection was made. Otherwise, context
    variables that a request sets would leak into the next ones: asyncio reads on, and uvicorn
    starts the next request, in the context of the request before.
    """

    # Objects share the names of 30 attributes at most, and uvicorn has 28: +1.5 KiB without slots.
    __slots__ = ("_budget", "_context", "_next_check", "_reads", "_received", "_writes", "written")

    limits: ConnectionLimits

    # Of uvicorn's protocol.
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    connections: set[Any]
    server_state: Any
    flow: Any
    scope: Any  # of the request whose head is being read, or was read last
    headers: Any  # those of the head that is being read, as pairs of bytes
    cycle: Any  # the last request whose head is complete, and its response
    timeout_keep_alive_task: Any  # set while the connection is idle: uvicorn's own timer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.written = self._received = 0  # bytes of responses, and of requests
        self._budget = _PIECE_BYTES  # bytes that may be fed before they are counted; 0 for no more
        self._context = copy_context()
        super().connection_made(transport)
        limits = self.limits
        self._reads = StallTimeout(limits.read_timeout, limits.read_timeout * limits.min_rate)
        self._writes = StallTimeout(limits.write_timeout, limits.write_timeout * limits.min_rate)
        self._schedule_check()

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_check.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._context.copy().run(self._feed_in_pieces, data)

    def on_response_complete(self) -> None:
        self._context.copy().run(super().on_response_complete)  # type: ignore[misc]  # uvicorn's
        cycle = self.cycle
        if cycle.response_complete:
            # The connection may stay idle for a minute, and the request would take 2 KiB meanwhile.
            cycle.body.clear()
            if self.scope is cycle.scope and not cycle.more_body:
                self.scope = cycle.scope = _SERVED
                self.headers, cycle.message_event = [], _SERVED_EVENT

    def send_400_response(self, msg: str) -> None:
        self.refuse_in_turn(BadRequest(msg))

    def refuse_in_turn(self, error: FrameworkError) -> None:
        """Refuse what is being read, and read no more; responses before it are sent first."""
        cycle, self._budget = self.cycle, 0
        if cycle is None or (cycle.response_complete and not self._is_of(cycle)):
            self.refuse(error)
        elif not self._is_of(cycle):
            cycle.keep_alive = False
            self.flow.pause_reading()
        elif cycle.response_started:
            self.transport.abort()
        else:
            self.refuse(error)

    def _is_of(self, cycle: Any) -> bool:
        """Tell whether what is being read is the rest of this request."""
        return cycle.more_body and cycle.scope is self.scope

    def refuse(self, error: FrameworkError) -> None:
        """Respond with an error, and close the connection."""
        self._budget = 0
        body = dumps(error.to_dict())
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        status = b"HTTP/1.1 %d %s\r\n" % (error.code, HTTPStatus(error.code).phrase.encode())
        lines = b"".join(b"%s: %s\r\n" % pair for pair in headers)
        self.transport.write(status + lines + b"\r\n" + body)
        self.transport.close()

    def cut_short(self, error: FrameworkError) -> None:
        """Respond with an error in place of the response that is about to be cancelled.

        uvicorn would log the cancellation with its whole stack, and send a 500 in plain text.
        """
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return
        cycle.logger = _SILENT
        if not cycle.response_started:
            self.refuse(error)
            cycle.disconnected = True

    def _feed_in_pieces(self, data: bytes) -> None:
        if len(data) <= self._budget:  # nearly always
            self._feed(data)
            return
        at = 0
        while at < len(data) and self._budget > 0 and self in self.connections:
            piece = data[at : at + self._budget]
            at += len(piece)
            self._feed(piece)

    def _feed(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    # -- clients that stall --------------------------------------------------------------------

    def _schedule_check(self) -> None:
        shortest = min(self.limits.read_timeout, self.limits.write_timeout)
        self._next_check = self.loop.call_later(
            shortest / _CHECKS_PER_TIMEOUT, self._check_progress
        )

    def _check_progress(self) -> None:
        """Close the connection if the client stalls. A timer costs nothing per request."""
        if self not in self.connections:  # a WebSocket has taken it over
            return
        now, pending, cycle = self.loop.time(), self.pending_request(), self.cycle
        unread = self.transport.get_write_buffer_size()
        if self._writes.has_passed(self if unread else None, self.written - unread, now):
            self.transport.abort()
        elif not self._reads.has_passed(pending, self._received if pending is cycle else 0, now):
            self._schedule_check()
        elif self._received == 0 or (cycle is not None and cycle.response_started):
            self.transport.abort()
        else:
            self.refuse(Timeout("The request did not arrive in time"))
            # The client may not read this response either.
            self._schedule_check()

    def pending_request(self) -> object:
        """Return the request whose rest the client has not sent yet, None if there is none.

        It is the scope until the head is complete, then the cycle. A body has to arrive at a
        minimum rate, but a head must be complete in time, however many bytes of it arrive.
        """
        scope, cycle = self.scope, self.cycle
        if self.transport.is_closing():
            return None
        if cycle is None:
            return self if scope is None else scope
        if cycle.response_complete:
            if scope is not cycle.scope:
                return scope
            return cycle if self.timeout_keep_alive_task is None else None
        return cycle if cycle.more_body and not self.flow.read_paused else None


class _HttpToolsGuard(_Guard):
    """Guards uvicorn's protocol that parses with httptools, which has no limits."""

    __slots__ = ("_accepts_upgrade", "_bytes_outside_body", "_counted_scope", "_head_bytes")

    parser: Any

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._counted_scope: Any = None  # the head that is being counted, by its scope
        # The latter since the head, or since the last part of the body.
        self._head_bytes = self._bytes_outside_body = 0
        self._accepts_upgrade = True
        super().connection_made(transport)

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers, behind a chunked body, arrive here too. They are not headers of the request:
        # they could name a method, or headers that a proxy in front has removed.
        if self.cycle is None or self.cycle.scope is not self.scope:
            super().on_header(name, value)  # type: ignore[misc]  # of the protocol behind

    def on_headers_complete(self) -> None:
        # For an upgrade, the parser ends the request at its head. Its body would be read as the
        # next request (request smuggling).
        if self.parser.should_upgrade() and any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
            for name, value in self.headers
        ):
            self._accepts_upgrade = False
            raise ValueError(_UPGRADE_WITH_BODY)  # stops the parser; uvicorn then sends a 400
        super().on_headers_complete()  # type: ignore[misc]  # as above
        self._bytes_outside_body = 0
        cycle, scope = self.cycle, self.scope
        # uvicorn writes nothing behind the head of a response to HEAD, so that cannot wait.
        if cycle is not None and cycle.scope is scope and scope["method"] != "HEAD":
            cycle.transport = JoinedWrites(self)

    def on_body(self, body: bytes) -> None:
        self._bytes_outside_body = 0
        super().on_body(body)  # type: ignore[misc]  # as above

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg if self._accepts_upgrade else _UPGRADE_WITH_BODY)

    def _feed(self, data: bytes) -> None:
        super()._feed(data)
        scope, cycle = self.scope, self.cycle
        if not self._budget:
            return
        if cycle is not None and cycle.scope is scope:
            # Behind the head, chunk extensions and trailers count: httptools keeps all of them.
            self._budget = _PIECE_BYTES
            self._bytes_outside_body += len(data)
            if self._bytes_outside_body > MAX_HEAD_BYTES:
                self.refuse_in_turn(head_too_large(_TRAILERS_TOO_LARGE))
        elif scope is not None:
            if scope is self._counted_scope:
                self._head_bytes += len(data)
            else:  # it began in this piece, behind the blank line of the head before
                self._counted_scope = scope
                self._head_bytes = len(data.rpartition(b"\r\n\r\n")[2])
            self._budget = min(_PIECE_BYTES, MAX_HEAD_BYTES - self._head_bytes)
            if not self._budget:
                self.refuse_in_turn(head_too_large(_HEAD_TOO_LARGE))


class _H11Guard(_Guard):
    """Guards uvicorn's protocol that parses with h11, which can limit heads by itself."""

    conn: _StrictConnection

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = _StrictConnection()

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()  # type: ignore[misc]  # of the protocol behind
        cycle = self.cycle
        if cycle is not before:
            cycle.transport = JoinedWrites(self)

    def send_400_response(self, msg: str) -> None:
        self.refuse_in_turn(self.conn.refusal or BadRequest(msg))


class _StrictConnection(h11.Connection):
    """A connection of h11 that refuses ambiguous requests and long heads.

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

    def next_event(self) -> Any:
        before = self.their_state
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == 431:
                is_head = before is h11.IDLE
                text = _HEAD_TOO_LARGE if is_head else _TRAILERS_TOO_LARGE
                self.refusal = head_too_large(text)
            raise
        # Not for other events: `trailing_data` copies, and there may be many small chunks.
        if isinstance(event, h11.Request | h11.EndOfMessage):
            unparsed, self._unparsed = self._unparsed, len(self.trailing_data[0])
            if isinstance(event, h11.Request):
                if unparsed - self._unparsed > MAX_HEAD_BYTES:
                    self.refusal = head_too_large(_HEAD_TOO_LARGE)
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


_HEAD_TOO_LARGE: Final = f"The head of the request has over {MAX_HEAD_BYTES} bytes"
_UPGRADE_WITH_BODY: Final = "A request with a body cannot ask for an upgrade; send it without one"
_TRAILERS_TOO_LARGE: Final = f"The trailers of the request have over {MAX_HEAD_BYTES} bytes"

_SERVED: Final[Mapping[str, Any]] = {}  # the scope of all requests that have their response
_SERVED_EVENT: Final = asyncio.Event()  # and their event
_SILENT: Final = logging.Logger("alula.silent")
_SILENT.disabled = True


def guards() -> Mapping[type[asyncio.Protocol], type[asyncio.Protocol]]:
    """Return the guard for each protocol of uvicorn that can be guarded."""
    guards: dict[type[asyncio.Protocol], type[asyncio.Protocol]] = {H11Protocol: _H11Guard}
    if AutoHTTPProtocol is not H11Protocol:  # httptools is installed
        guards[AutoHTTPProtocol] = _HttpToolsGuard
    return guards


HTTPProtocol = guarded(AutoHTTPProtocol)
"""uvicorn's protocol with the default limits, for other ways to start uvicorn.

``uvicorn app:app --http alula.express:HTTPProtocol`` protects as `listen` does.
"""
