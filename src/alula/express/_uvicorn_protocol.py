"""All that reaches into uvicorn's HTTP/1 protocols: the limits that uvicorn does not have.

uvicorn reads request heads of any length, waits forever for clients that stall, keeps responses
that nobody reads, and answers plain text to what it cannot parse. The guards here come before
uvicorn's protocol classes in the order of method resolution. They depend on private parts of
uvicorn, so `alula.express._server` tries them out at import: where something is missing, importing
`alula.express` fails and names the versions that work. Nothing is served without protection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextvars import Context, copy_context
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, requires
from typing import Any, Final, cast

import uvicorn

from alula.errors import BadRequest, FrameworkError, Timeout
from alula.express._connection_limits import (
    MAX_HEAD_BYTES,
    ConnectionLimits,
    StallTimeout,
    head_too_large,
)
from alula.express._json_encoding import dumps

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
_COPIED_BYTES: Final = 64 * 1024  # longer parts of a body are written by themselves, not copied
_LOOKS_PER_TIMEOUT: Final = 4  # how often the progress of a connection is looked at


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
    """What one response is written to: its head waits for the first part of its body.

    uvicorn writes the head by itself, which costs a system call and a packet for each response.
    ASGI asks a server to wait for the body: "the server must not start sending before it has
    received at least one body event".

    Args:
        connection: Has the transport, and counts what is written.
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
        head = self._head or b""
        if len(data) > _COPIED_BYTES:
            self._transport.write(head)
            self._transport.write(data)
        else:
            self._transport.write(head + data)


class _Guard(asyncio.Protocol):
    """What all guards have in common.

    Requests get a copy each of the context in which the connection was made. Otherwise, what a
    request sets in context variables would reach those behind it: asyncio reads on, and uvicorn
    begins the next request, in the context of the one that was answered.
    """

    limits: ConnectionLimits

    # Of uvicorn's protocol.
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    connections: set[Any]
    server_state: Any
    flow: Any
    scope: Any  # of the request whose head is being read, or was read last
    cycle: Any  # the last request whose head is complete, and its response
    timeout_keep_alive_task: Any  # set while the connection is idle: uvicorn's own timer

    _context: Context
    _next_look: asyncio.TimerHandle
    written = 0  # bytes of responses on this connection
    _received = 0  # bytes of requests
    _room = _PIECE_BYTES  # bytes that may be fed before they are counted; 0 for no more

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._context = copy_context()
        super().connection_made(transport)
        limits = self.limits
        self._reads = StallTimeout(limits.read_timeout, limits.read_timeout * limits.min_rate)
        self._writes = StallTimeout(limits.write_timeout, limits.write_timeout * limits.min_rate)
        self._look_again()

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._context.copy().run(self._feed_in_pieces, data)

    def on_response_complete(self) -> None:
        self._context.copy().run(super().on_response_complete)  # type: ignore[misc]  # uvicorn's
        if self.cycle.response_complete:
            self.cycle.body.clear()  # nobody reads it any more, and the next request may be far

    def send_400_response(self, msg: str) -> None:
        self.refuse_in_turn(BadRequest(msg))

    def refuse_in_turn(self, error: FrameworkError) -> None:
        """Refuse what is being read, and read no more; responses before it go out first."""
        cycle, self._room = self.cycle, 0
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
        """Answer an error, and close the connection."""
        self._room = 0
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
        """Answer an error in place of the response that is about to be cancelled.

        uvicorn would log the cancellation with its whole stack, and answer a 500 in plain text.
        """
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return
        cycle.logger = _SILENT
        if not cycle.response_started:
            self.refuse(error)
            cycle.disconnected = True

    def _feed_in_pieces(self, data: bytes) -> None:
        if len(data) <= self._room:  # nearly always
            self._feed(data)
            return
        at = 0
        while at < len(data) and self._room > 0 and self in self.connections:
            piece = data[at : at + self._room]
            at += len(piece)
            self._feed(piece)

    def _feed(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    # -- clients that stall --------------------------------------------------------------------

    def _look_again(self) -> None:
        shortest = min(self.limits.read_timeout, self.limits.write_timeout)
        self._next_look = self.loop.call_later(shortest / _LOOKS_PER_TIMEOUT, self._look)

    def _look(self) -> None:
        """Look what the client owes; doing so from time to time costs nothing for each request."""
        if self not in self.connections:  # a WebSocket has taken it over
            return
        now, owed, cycle = self.loop.time(), self.owed(), self.cycle
        unread = self.transport.get_write_buffer_size()
        if self._writes.has_passed(self if unread else None, self.written - unread, now):
            self.transport.abort()
        elif not self._reads.has_passed(owed, self._received if owed is cycle else 0, now):
            self._look_again()
        elif self._received == 0 or (cycle is not None and cycle.response_started):
            self.transport.abort()
        else:
            self.refuse(Timeout("The request did not arrive in time"))
            self._look_again()  # the response may stay unread, too

    def owed(self) -> object:
        """Return the request of which the client owes the rest, None where it owes nothing.

        It is the scope while the head is not complete, then the cycle: its body is measured by the
        bytes that come, while a head must be complete in time, however many bytes come of it.
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
    """Comes before uvicorn's protocol that parses with httptools, which has no limits."""

    parser: Any
    headers: Any  # those of the head that is being read, as pairs of bytes
    _counted_scope: Any = None  # the head that is being counted, by its scope
    _head = 0  # bytes of it
    _beside = 0  # bytes that have come since the head, or since the last of the body
    _takes_upgrade = True

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers, behind a body in chunks, come here too. They are not headers of the request:
        # they could name a method or bring what a proxy in front has taken out.
        if self.cycle is None or self.cycle.scope is not self.scope:
            super().on_header(name, value)  # type: ignore[misc]  # of the protocol behind

    def on_headers_complete(self) -> None:
        # Where an upgrade is asked for, the parser ends the request at its head. A body would be
        # lost, and its bytes read as the next request.
        if self.parser.should_upgrade() and any(map(_announces_body, self.headers)):
            self._takes_upgrade = False
            raise ValueError(_UPGRADE_WITH_BODY)  # ends the parsing; uvicorn then answers a 400
        super().on_headers_complete()  # type: ignore[misc]  # as above
        self._beside = 0
        cycle, scope = self.cycle, self.scope
        # Behind the head of a response to HEAD, uvicorn writes nothing that it could wait for.
        if cycle is not None and cycle.scope is scope and scope["method"] != "HEAD":
            cycle.transport = JoinedWrites(self)

    def on_body(self, body: bytes) -> None:
        self._beside = 0
        super().on_body(body)  # type: ignore[misc]  # as above

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg if self._takes_upgrade else _UPGRADE_WITH_BODY)

    def _feed(self, data: bytes) -> None:
        super()._feed(data)
        scope, cycle = self.scope, self.cycle
        if not self._room:
            return
        if cycle is not None and cycle.scope is scope:
            self._room = _PIECE_BYTES
            self._count_beside(len(data))
        elif scope is not None:
            self._count_head(data)

    def _count_head(self, data: bytes) -> None:
        """Count what comes of a head that is not complete yet."""
        if self.scope is self._counted_scope:
            self._head += len(data)
        else:  # it began in this piece, behind the blank line of a head before it
            self._counted_scope = self.scope
            self._head = len(data.rpartition(b"\r\n\r\n")[2])
        self._room = min(_PIECE_BYTES, MAX_HEAD_BYTES - self._head)
        if not self._room:
            self.refuse_in_turn(head_too_large(_HEAD_TOO_LARGE))

    def _count_beside(self, count: int) -> None:
        """Count what comes of a request behind its head and is not its body."""
        self._beside += count
        if self._beside > MAX_HEAD_BYTES:
            self.refuse_in_turn(head_too_large(_TRAILERS_TOO_LARGE))


class _H11Guard(_Guard):
    """Comes before uvicorn's protocol that parses with h11, which counts by itself when told to."""

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
    """A connection of h11 that takes no ambiguous requests, and no long heads.

    Attributes:
        refusal: Why a request is refused, where h11 has not found out by itself.
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
        if isinstance(event, h11.Request | h11.EndOfMessage):  # not for each of many small chunks
            came, self._unparsed = self._unparsed, len(self.trailing_data[0])
            if isinstance(event, h11.Request):
                self._check(event, came - self._unparsed)
        return event

    def _check(self, request: h11.Request, size: int) -> None:
        names = {name for name, _ in request.headers}
        if size > MAX_HEAD_BYTES:
            self.refusal = head_too_large(_HEAD_TOO_LARGE)
        elif {b"content-length", b"transfer-encoding"} <= names:
            # A proxy in front may go by the other one, and see another request in the body.
            self.refusal = BadRequest(
                "A request cannot have both Content-Length and Transfer-Encoding"
            )
        if self.refusal is not None:
            raise h11.RemoteProtocolError(str(self.refusal))


_HEAD_TOO_LARGE: Final = f"The head of the request has over {MAX_HEAD_BYTES} bytes"
_UPGRADE_WITH_BODY: Final = "A request with a body cannot ask for an upgrade; send it without one"
_TRAILERS_TOO_LARGE: Final = f"The trailers of the request have over {MAX_HEAD_BYTES} bytes"

_SILENT: Final = logging.Logger("alula.silent")
_SILENT.disabled = True


def _announces_body(header: tuple[bytes, bytes]) -> bool:
    name, value = header
    return name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")


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
