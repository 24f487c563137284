"""`HTTPProtocol`: HTTP/1 with limits for slow and hostile clients.

httptools parses, `HTTPProtocol` decides what a client may do, and `Exchange` writes a response:

- A head has `MAX_HEAD_BYTES` at most, and so have trailers and chunk extensions.
- A head has to be complete in time, a body has to arrive and a response to be read at a minimum
  rate (`ConnectionLimits`).
- 32 requests may wait for the responses before theirs. Then nothing more is read.
- What is not HTTP gets a 400 as JSON, in its turn, and ends the connection without a reset.

uvicorn takes the class by its setting ``http``, and calls it with its configuration and its state.
Of both, only attributes without an underscore are used.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from http import HTTPStatus
from typing import Any, Final

import httptools
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alula._http import EXCHANGE_EXTENSION
from alula._json_encoding import dumps
from alula._routes import percent_decoded
from alula.errors import BadRequest, FrameworkError, Timeout, Unavailable
from alula.express._connection_limits import (
    MAX_HEAD_BYTES,
    SECONDS_FOR_THE_REST,
    SECONDS_OF_SILENCE,
    ConnectionLimits,
    StallTimeout,
    UnreadResponses,
    head_too_large,
)
from alula.express._stream import StreamCutError

__all__ = ["Exchange", "HTTPProtocol", "address_of", "status_line"]

_PIECE_BYTES: Final = 16 * 1024  # fed to the parser at a time, so that counting can stop it
_MAX_BUFFERED_BYTES: Final = 64 * 1024  # of a body that the application does not receive
_MAX_WAITING: Final = 32  # requests that may wait for the responses before theirs (pipelining)
_CHECKS_PER_TIMEOUT: Final = 4  # how often the progress of a connection is checked

_HEAD_TOO_LARGE: Final = f"The head of the request has over {MAX_HEAD_BYTES} bytes"
_TRAILERS_TOO_LARGE: Final = f"The trailers of the request have over {MAX_HEAD_BYTES} bytes"
_UPGRADE_WITH_BODY: Final = "A request with a body cannot ask for an upgrade; send it without one"
_INVALID: Final = "Invalid HTTP request received."
_VERSIONS: Final = frozenset({"1.0", "1.1"})
# RFC 3986: a name, an address, or an IPv6 address in brackets, and a port. Without the comma, which
# RFC 3986 allows in names: a proxy that joins two headers would write it.
_HOST: Final = re.compile(
    rb"(?:\[[0-9A-Za-z:.%_~-]+\]|(?:[\w.~!$&'()*+;=-]|%[0-9A-Fa-f]{2})*)(?::\d*)?"
)

_MAX_COPIED_BYTES: Final = 64 * 1024  # longer parts of a body are written without a copy
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_WITHOUT_BODY: Final = frozenset({204, 304})
_ERROR: Final = b"Internal Server Error"
_PLAIN_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")

_UNREAD: Final = UnreadResponses(ConnectionLimits().max_unread_bytes)

_NO_SCOPE: Final[Scope] = {}
"""The scope of an exchange that has ended. Its connection may stay idle for a minute, and the scope
would take 2 KiB of memory meanwhile."""

_SILENT: Final = logging.Logger("alula.silent")
_SILENT.disabled = True

_RAW_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2
_NOT_IN_VALUES: Final = bytes({*range(0x20), 0x7F} - {ord("\t")})
_MAX_NAMES: Final = 1000

LINE_BEGINNINGS: Final[dict[bytes, bytes]] = {}
"""What `line_beginning` has returned: most responses share their names."""


class HTTPProtocol(asyncio.Protocol):
    """One connection of a client.

    ``uvicorn app:app --http alula.express:HTTPProtocol`` protects as `listen` and `alula serve` do.

    Each request gets a copy of the context in which the connection was made. Otherwise, context
    variables that a request sets would leak into the next ones, because asyncio goes on reading in
    the context of the request before.

    Args:
        config: A ``uvicorn.Config``.
        server_state: What the connections of a server share: ``connections``, ``tasks``,
            ``default_headers`` and ``total_requests``.
        app_state: The state of the lifespan, copied into the scope of each request.
        limits: How slow clients may be; None for the defaults.
        unread: The responses of the server that wait for their clients; None for those of all
            servers of the process without their own.
    """

    # A connection that waits should be small: without slots, it has 1.5 KiB more.
    __slots__ = (
        "__weakref__",
        "_app",
        "_app_state",
        "_asgi_version",
        "_budget",
        "_bytes_outside_body",
        "_closes_at",
        "_config",
        "_context",
        "_drained",
        "_dropped",
        "_exchange",
        "_first",
        "_has_task_factory",
        "_head_bytes",
        "_headers",
        "_idle_check",
        "_idle_since",
        "_in_head",
        "_limit_concurrency",
        "_limits",
        "_loop",
        "_next_check",
        "_parser",
        "_read_by_client",
        "_reading_paused",
        "_reads",
        "_received",
        "_refusal",
        "_root_path",
        "_state",
        "_target",
        "_unread",
        "_waiting",
        "_writes",
        "access_log",
        "client",
        "logger",
        "scheme",
        "server",
        "tasks",
        "transport",
        "written",
    )

    transport: asyncio.Transport
    _next_check: asyncio.TimerHandle

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: Mapping[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ConnectionLimits | None = None,
        unread: UnreadResponses | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self._config, self._state, self._app_state = config, server_state, app_state
        self._app: ASGIApp = config.loaded_app
        self._root_path: str = config.root_path
        self._asgi_version: str = config.asgi_version
        self._limit_concurrency: int | None = config.limit_concurrency
        self._loop = _loop or asyncio.get_running_loop()
        self._has_task_factory = self._loop.get_task_factory() is not None
        self._limits = limits or ConnectionLimits()
        self._unread = unread or _UNREAD
        self.tasks: set[asyncio.Task[None]] = server_state.tasks
        self.logger = logging.getLogger("uvicorn.error")
        # uvicorn's option access_log takes the handlers away.
        self.access_log = logging.getLogger("uvicorn.access").hasHandlers()

        # Set to None when the connection ends: parser and protocol refer to each other.
        self._parser: Any = httptools.HttpRequestParser(self)
        # A request after one with "Connection: close" is ignored. By default it would be a 400.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        # The head that is being read: whether a part of it has arrived, and what.
        self._in_head = False
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0  # 0 until they are counted
        self._bytes_outside_body = 0  # since the head, or since the last part of the body
        self._refusal: str | None = None  # what to tell the client of a head that is refused

        # The last request whose head is complete. While others wait (the first one is the last to
        # run), `_first` is the one that runs.
        self._exchange: Exchange | None = None
        self._first: Exchange | None = None
        self._waiting: deque[tuple[Exchange, ASGIApp]] = deque()

        self._reading_paused = False
        self._drained: asyncio.Future[None] | None = None  # while the client reads too slowly
        self.written = self._received = 0  # bytes of responses, and of requests
        self._read_by_client = 0  # bytes of responses, at the last check
        self._budget = _PIECE_BYTES  # bytes that may be fed before they are counted; 0: no more
        self._closes_at: float | None = None  # when nobody waits for its client any more
        self._dropped: int | None = None  # bytes received until the last check, where that counts
        self._idle_since: float | None = None
        self._idle_check: asyncio.TimerHandle | None = None

    # -- the connection ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, and add the connection to those of the server."""
        self.transport = transport  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]  # of a stream, it is a `Transport`
        self._state.connections.add(self)
        self.server = address_of(transport, "sockname")
        self.client = address_of(transport, "peername")
        self.scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        # uvicorn's option, since 0.54, to hide from requests what the lifespan has set.
        hides = getattr(self._config, "reset_contextvars", False)
        self._context = Context() if hides else copy_context()
        limits = self._limits
        self._reads = StallTimeout(limits.read_timeout, limits.read_timeout * limits.min_rate)
        self._writes = StallTimeout(limits.write_timeout, limits.write_timeout * limits.min_rate)
        self._schedule_check()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio gives it
        """End, and tell the applications whose requests are under way."""
        self._state.connections.discard(self)
        self._next_check.cancel()
        if self._idle_check is not None:
            self._idle_check.cancel()
        for exchange in (self._first, self._exchange):
            if exchange is not None and not exchange.response_complete:
                exchange.disconnect()
        self._first = None
        self._waiting.clear()
        self.resume_writing()
        self.transport.close()
        self._parser = None

    def shutdown(self) -> None:
        """End the connection after the response that is under way: the server stops."""
        exchange = self._running
        if self.lingers or exchange is None or exchange.response_complete:
            self.transport.close()
        else:
            exchange.keep_alive = False

    def cut_short(self, error: FrameworkError) -> None:
        """Respond with an error instead of the response whose task is about to be cancelled."""
        exchange = self._running
        if exchange is None or exchange.response_complete:
            return
        exchange.silence()
        if not exchange.response_started:
            self._refuse(error)
            exchange.disconnected = True

    def announce_close(self) -> None:
        """Have the response that is under way say that the connection ends with it."""
        exchange = self._running
        if exchange is not None and not exchange.response_complete:
            exchange.keep_alive = False

    # -- flow control --------------------------------------------------------------------------

    @property
    def write_paused(self) -> bool:
        """Whether the client does not read what was written."""
        return self._drained is not None

    def pause_writing(self) -> None:
        """Let responses wait: too many bytes are in the buffer of the transport."""
        self._drained = self._loop.create_future()
        self._unread.wait(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Let responses go on."""
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
            self._unread.end(self)

    async def drain(self) -> None:
        """Wait until the client reads again, or has gone."""
        while self._drained is not None:
            await asyncio.shield(self._drained)

    def resume_reading(self) -> None:
        """Read on, if that was paused."""
        if self._reading_paused:
            self._reading_paused = False
            self.transport.resume_reading()

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()

    # -- bytes ---------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent."""
        if self.lingers:
            self._received += len(data)
        elif len(data) <= self._budget:  # nearly always
            self._feed(data)
        else:
            at = 0
            # A websocket that takes over is no connection of this protocol any more.
            while at < len(data) and self._budget > 0 and self in self._state.connections:
                piece = data[at : at + self._budget]
                at += len(piece)
                self._feed(piece)

    def eof_received(self) -> None:
        """Close the connection: the client sends nothing more."""

    def _feed(self, data: bytes) -> None:
        self._idle_since = None
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserUpgrade, httptools.HttpParserError) as error:
            self._handle(error, data)
        if not self._budget:
            return
        if not self._in_head:
            # After the head, count chunk extensions and trailers: httptools keeps all of them.
            self._budget = _PIECE_BYTES
            self._bytes_outside_body += len(data)
            if self._bytes_outside_body > MAX_HEAD_BYTES and self._exchange is not None:
                self._refuse_in_turn(head_too_large(_TRAILERS_TOO_LARGE))
            return
        if self._head_bytes:
            self._head_bytes += len(data)
        else:  # it began in this piece, behind the blank line of the head before
            self._head_bytes = len(data.rpartition(b"\r\n\r\n")[2])
        self._budget = min(_PIECE_BYTES, MAX_HEAD_BYTES - self._head_bytes)
        if not self._budget:
            self._refuse_in_turn(head_too_large(_HEAD_TOO_LARGE))

    def _handle(self, error: Exception, data: bytes) -> None:
        """Handle what the parser raises for some bytes: an upgrade, or something invalid."""
        while isinstance(error, httptools.HttpParserUpgrade) and not self._wants_websocket():
            self.logger.warning("Unsupported upgrade request.")
            data = data[error.args[0] :]  # the request to upgrade is ignored
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserUpgrade, httptools.HttpParserError) as following:
                error = following
            else:
                return
        if isinstance(error, httptools.HttpParserUpgrade):
            self._context.copy().run(self._become_websocket)
        else:
            self.logger.warning(_INVALID)
            self._refuse_in_turn(BadRequest(self._refusal or _INVALID))

    # -- what the parser calls -----------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        """Take a part of the target of a request."""
        self._target += url
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header of a request."""
        # Trailers, behind a chunked body, arrive here too. They are not headers of the request:
        # they could name a method, or headers that a proxy in front has removed.
        if self._in_head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Make an exchange of a head, and start it.

        Raises:
            ValueError: The request asks for an upgrade and has a body, or is not the first one; its
                version is unknown; its Host is missing or invalid; or too many requests wait. The
                parser makes an error of it.
        """
        parser = self._parser
        version = parser.get_http_version()
        if version not in _VERSIONS:
            raise ValueError(_INVALID)
        self._refusal = _fault_of_head(version, self._headers)
        if self._refusal is not None:
            raise ValueError(self._refusal)
        if parser.should_upgrade() and self._upgrades():
            return
        scope = self._scope_of(httptools.parse_url(self._target), version)
        self._target, self._headers = b"", []
        self._in_head, self._head_bytes, self._bytes_outside_body = False, 0, 0
        app = self._app
        limit = self._limit_concurrency
        if limit is not None and max(len(self._state.connections), len(self.tasks)) >= limit:
            self.logger.warning("Exceeded concurrency limit.")
            app = _refusing(Unavailable("The server has too many connections"))
        keep_alive = version == "1.1" and parser.should_keep_alive()
        exchange, before = Exchange(self, scope, keep_alive=keep_alive), self._exchange
        if before is None or before.response_complete:
            self._exchange = exchange
            self._start(exchange, app)
            return
        # The client sent it before it had the response to the last request.
        self._pause_reading()
        if len(self._waiting) >= _MAX_WAITING:  # what was read at once may have thousands
            raise ValueError(_INVALID)
        if not self._waiting:
            self._first = before
        self._exchange = exchange
        self._waiting.append((exchange, app))

    def _scope_of(self, url: Any, version: str) -> dict[str, Any]:
        raw_path: bytes = url.path
        path = raw_path.decode("ascii")
        if "%" in path:
            path = percent_decoded(path).decode(errors="replace")
        root = self._root_path
        if root:
            path, raw_path = root + path, root.encode("ascii") + raw_path
        return {
            "type": "http",
            "asgi": {"version": self._asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": self._parser.get_method().decode("ascii"),
            "root_path": root,
            "path": path,
            "raw_path": raw_path,
            "query_string": url.query or b"",
            "headers": self._headers,
            "state": dict(self._app_state),
        }

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._bytes_outside_body = 0
        exchange = self._exchange
        if (
            exchange is not None
            and not (self._in_head or exchange.response_complete)
            and exchange.add_body(body) > _MAX_BUFFERED_BYTES
        ):
            self._pause_reading()

    def on_message_complete(self) -> None:
        """Take note that a request is complete."""
        exchange = self._exchange
        if exchange is None or self._in_head:  # an upgrade, which has no exchange
            return
        if exchange.response_complete:
            # What comes next belongs to no request. An error for trailers that have ended would be
            # taken for the response to the next one.
            self._bytes_outside_body = 0
        exchange.more_body = False
        exchange.notify()

    # -- upgrades ------------------------------------------------------------------------------

    def _wants_websocket(self) -> bool:
        """Tell whether the head asks for a websocket, and the server has some."""
        if self._config.ws_protocol_class is None:
            return False
        connection: list[bytes] = []
        upgrade = b""
        for name, value in self._headers:
            if name == b"connection":
                connection = [token.strip() for token in value.lower().split(b",")]
            elif name == b"upgrade":
                upgrade = value.lower()
        return b"upgrade" in connection and upgrade == b"websocket"

    def _upgrades(self) -> bool:
        """Tell whether a request that asks for an upgrade gets it.

        Raises:
            ValueError: It must not ask for it.
        """
        # The parser ends a request for an upgrade at its head, so its body would be read as the
        # next request (request smuggling).
        if any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
            for name, value in self._headers
        ):
            self._refusal = _UPGRADE_WITH_BODY
            raise ValueError(self._refusal)  # stops the parser
        if not self._wants_websocket():
            return False
        if self._exchange is not None and not self._exchange.response_complete:
            raise ValueError(_INVALID)  # a websocket would write before the response is complete
        return True

    def _become_websocket(self) -> None:
        """Hand the connection over to the protocol of websockets, with the head that was read."""
        lines = [b"%b %b HTTP/1.1\r\n" % (self._parser.get_method(), self._target)]
        lines += [b"%b: %b\r\n" % header for header in self._headers]
        protocol = self._config.ws_protocol_class(
            config=self._config, server_state=self._state, app_state=self._app_state
        )
        self._state.connections.discard(self)
        self._next_check.cancel()
        protocol.connection_made(self.transport)
        protocol.data_received(b"".join((*lines, b"\r\n")))
        self.transport.set_protocol(protocol)

    # -- exchanges -----------------------------------------------------------------------------

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that the server adds to each response, such as the date."""
        headers: list[tuple[bytes, bytes]] = self._state.default_headers
        return headers

    @property
    def _running(self) -> Exchange | None:
        """The exchange whose application runs, or ran last; others may wait behind it."""
        return self._first if self._waiting else self._exchange

    def _start(self, exchange: Exchange, app: ASGIApp) -> None:
        context = self._context.copy()
        if self._has_task_factory:
            exchange.task = self._loop.create_task(exchange.run(app, self), context=context)
        else:
            # As `loop.create_task` does, but with a fixed name: to number the tasks takes 2 % of
            # the processor time of a get.
            exchange.task = asyncio.Task(
                exchange.run(app, self), loop=self._loop, name="request", context=context
            )
        # `Exchange.run` takes it out: a callback would be a turn of the loop.
        self.tasks.add(exchange.task)

    def on_response_complete(self, exchange: Exchange) -> None:
        """Go on with the next request, be idle, or close the connection: a response is written."""
        self._state.total_requests += 1
        if not exchange.keep_alive:
            if exchange.more_body:
                self._close_after_the_rest()
            else:
                self.transport.close()
        elif self.transport.is_closing():
            pass
        elif self._waiting:
            self._first, app = self._waiting.popleft()
            self._start(self._first, app)
        else:
            self.resume_reading()
            self._idle_since = self._loop.time()
            if self._idle_check is None:
                self._close_idle_after(self._config.timeout_keep_alive)

    def log_response(self, scope: Scope, status: int) -> None:
        """Log as uvicorn does, where its option ``access_log`` is set."""
        client, query = scope["client"], scope["query_string"].decode("latin-1")
        logging.getLogger("uvicorn.access").info(
            '%s - "%s %s HTTP/%s" %d',
            f"{client[0]}:{client[1]}" if client else "",
            scope["method"],
            scope["raw_path"].decode("latin-1") + (f"?{query}" if query else ""),
            scope["http_version"],
            status,
        )

    # -- refusals ------------------------------------------------------------------------------

    @property
    def lingers(self) -> bool:
        """Whether all responses are sent, and what the client still sends is dropped."""
        return self._closes_at is not None

    def _refuse_in_turn(self, error: FrameworkError) -> None:
        """Refuse what is being read, and read no more; responses before it are sent first."""
        exchange, self._budget = self._exchange, 0
        if exchange is None:
            self._refuse(error)
            return
        is_its_body = exchange.more_body and not self._in_head
        if self._waiting and is_its_body:
            # A part of its body is wrong, and it waits: the error is its response, at its turn.
            exchange.keep_alive = False
            self._waiting[-1] = exchange, _refusing(error)
            self._pause_reading()
        elif exchange.response_complete and not is_its_body:
            self._refuse(error)
        elif not is_its_body:
            exchange.keep_alive = False
            self._pause_reading()
        elif exchange.response_started:
            self.transport.abort()
        else:
            self._refuse(error)

    def _refuse(self, error: FrameworkError) -> None:
        """Respond with an error, and close the connection."""
        self._budget = 0
        body = dumps(error.to_dict())
        headers = [
            *self.default_headers,
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
        self.transport.write(status_line(error.code) + lines + b"\r\n" + body)
        running = self._running
        is_running = running is not None and not running.response_complete
        # A client that has stalled sends nothing, so no reset can destroy the response. And an
        # application that runs has to hear that the connection is gone.
        if is_running or isinstance(error, Timeout):
            self.transport.close()
        else:
            self._close_after_the_rest()

    def _close_after_the_rest(self) -> None:
        """Close the connection while the client may still be sending, without a reset.

        A reset destroys what the client has not read, the response among it. So the end is sent
        first, and what still arrives is dropped until the client closes too, or has had its time
        (RFC 9112, 9.6).
        """
        self._budget = 0
        self._closes_at = self._loop.time() + SECONDS_FOR_THE_REST
        try:
            # uvloop raises another error where it is closing already.
            if self.transport.can_write_eof() and not self.transport.is_closing():
                self.transport.write_eof()
            else:  # with TLS
                self._dropped = self._received
        except OSError:  # the client has gone meanwhile
            self.transport.abort()
            return
        self.resume_reading()
        self._next_check.cancel()
        self._schedule_check()

    # -- clients that stall --------------------------------------------------------------------

    def _schedule_check(self) -> None:
        limits = self._limits
        seconds = min(limits.read_timeout, limits.write_timeout) / _CHECKS_PER_TIMEOUT
        if self.lingers:
            is_told = self._dropped is None
            seconds = min(seconds, SECONDS_FOR_THE_REST if is_told else SECONDS_OF_SILENCE)
        self._next_check = self._loop.call_later(seconds, self._check_progress)

    def _check_progress(self) -> None:
        """Close the connection if the client stalls. A timer costs nothing per request."""
        now, pending = self._loop.time(), self._pending_request()
        unread = self.transport.get_write_buffer_size()
        if self._closes_at is not None and not unread:
            is_silent = self._dropped == self._received
            if self._dropped is not None:
                self._dropped = self._received
            if is_silent or now >= self._closes_at:
                self.transport.close()
                return
        before, self._read_by_client = self._read_by_client, self.written - unread
        if self._writes.has_passed(self if unread else None, self._read_by_client, now):
            self.transport.abort()
            return
        if self.write_paused and self._read_by_client > before:
            self._unread.wait(self, unread)
        received = self._received if pending is self._exchange else 0
        if not self._reads.has_passed(pending, received, now):
            self._schedule_check()
        elif self._received == 0:
            self.transport.abort()
        else:
            self._refuse_in_turn(Timeout("The request did not arrive in time"))
            # The client may not read this response either.
            self._schedule_check()

    def _pending_request(self) -> object:
        """Return the request whose rest the client has not sent yet, None if there is none.

        That is the list of headers until the head is complete, then the exchange. A body has to
        arrive at a minimum rate, but a head must be complete in time, however many bytes of it
        arrive.
        """
        if self.lingers or self.transport.is_closing():
            return None
        exchange = self._exchange
        if exchange is None:
            return self._headers if self._in_head else self
        if exchange.response_complete:
            if self._in_head:
                return self._headers
            return None if self._idle_since is not None else exchange
        return exchange if exchange.more_body and not self._reading_paused else None

    # -- idle connections ----------------------------------------------------------------------

    def _close_idle_after(self, seconds: float) -> None:
        # One timer is kept: a new one for each request would cost more than all the rest here.
        self._idle_check = self._loop.call_later(
            seconds, self._close_if_idle, context=self._context
        )

    def _close_if_idle(self) -> None:
        self._idle_check = None
        if self._idle_since is not None:  # else the next response starts the timer again
            left = self._idle_since + self._config.timeout_keep_alive - self._loop.time()
            if left > 0:
                self._close_idle_after(left)
            else:
                self.transport.close()


class Exchange:
    """A request, and its response: the two functions that an ASGI application gets.

    The head of a response is checked as a whole, and written together with the first part of the
    body. ASGI asks for the second: "the server must not start sending before it has received at
    least one body event".

    The protocol adds what arrives of the body, and calls `notify`. It reads what became of the
    response.

    Args:
        connection: The connection.
        scope: The ASGI scope.
        keep_alive: Whether the connection stays open after the response.

    Attributes:
        body: What has arrived of the body and was not received by the application yet.
        more_body: Whether more of the body is to come.
        disconnected: Whether the client has gone.
        task: The task that runs the application.
    """

    __slots__ = (
        "_chunked",
        "_connection",
        "_event",
        "_has_news",
        "_head",
        "_is_silent",
        "_left",
        "_was_received",
        "body",
        "disconnected",
        "keep_alive",
        "more_body",
        "response_complete",
        "response_started",
        "scope",
        "task",
    )

    task: asyncio.Task[None]
    _chunked: bool
    _left: int | None  # bytes of the body that are to come; None until the connection ends

    def __init__(self, connection: HTTPProtocol, scope: Scope, *, keep_alive: bool) -> None:
        self._connection: HTTPProtocol | None = connection
        self.scope = scope
        scope["extensions"] = {EXCHANGE_EXTENSION: self}
        self.keep_alive = keep_alive
        self.disconnected = False
        self.body: bytes | bytearray = b""
        self.more_body = True
        self.response_started = self.response_complete = False
        self._was_received = self._is_silent = False
        # Whether there is something new for `receive`, and what a waiting `receive` waits for.
        self._has_news = False
        self._event: asyncio.Event | None = None
        self._head: list[bytes] | None = None  # waits for the first part of the body

    def notify(self) -> None:
        """Wake the application if it waits in `receive`."""
        self._has_news = True
        if self._event is not None:
            self._event.set()

    def add_body(self, part: bytes) -> int:
        """Add a part of the body, and return how many bytes wait for the application."""
        if not self.body:  # most bodies arrive as one part, which is not copied
            self.body = part
        else:
            if type(self.body) is bytes:
                self.body = bytearray(self.body)
            self.body += part
        self.notify()
        return len(self.body)

    def disconnect(self) -> None:
        """Tell the application that the client has gone."""
        self.disconnected = True
        self.notify()

    def silence(self) -> None:
        """Do not log how the application ends: it is about to be cancelled."""
        self._is_silent = True

    # -- the application -----------------------------------------------------------------------

    async def run(self, app: ASGIApp, connection: HTTPProtocol) -> None:
        """Run the application. If the response is not complete then, close the connection."""
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001  # a cancellation too: it has to respond
            self._fail(connection, "Exception in ASGI application\n", error)
        else:
            if not self.response_complete and not self.disconnected:
                missing = "completing" if self.response_started else "starting"
                self._fail(connection, f"ASGI callable returned without {missing} response.")
        finally:
            connection.tasks.discard(self.task)
            # References in a circle would keep the memory until the next garbage collection.
            self._connection = None
            del self.task
            self.scope = _NO_SCOPE

    def _fail(
        self, connection: HTTPProtocol, message: str, error: BaseException | None = None
    ) -> None:
        is_silent = self._is_silent or isinstance(error, StreamCutError)
        logger = _SILENT if is_silent else connection.logger
        logger.error(message, exc_info=error)
        if self.disconnected:
            return
        if not self.response_complete and (self._head is not None or not self.response_started):
            self.keep_alive = False
            self.response_started = True
            length = (b"content-length", b"%d" % len(_ERROR))
            self._head = self._head_of(connection, 500, (_PLAIN_TEXT, length))
            self._write_part(connection, _ERROR, more=False)
        elif not connection.lingers:
            connection.transport.close()

    async def receive(self) -> Message:
        """Return the next part of the body, or that the client has gone: ASGI's ``receive``."""
        waits, self._was_received = self._waits_for_100(), True
        connection = self._connection
        if connection is not None and not self.disconnected and not self.response_complete:
            if waits and not connection.transport.is_closing():
                connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.resume_reading()
            if not self._has_news:
                if self._event is None:  # few applications wait for anything
                    self._event = asyncio.Event()
                self._event.clear()
                await self._event.wait()
            self._has_news = False
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), b""
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Message) -> None:
        """Send the head, or a part of the body: ASGI's ``send``.

        Raises:
            RuntimeError: The message is out of turn, the length of the body is not the announced
                one, or a header cannot be sent.
        """
        connection, kind = self._connection, message["type"]
        if self.response_complete:
            raise RuntimeError(
                f"Unexpected ASGI message '{kind}' sent, after response already completed."
            )
        if connection is not None and connection.write_paused:
            await connection.drain()
        if self.disconnected or connection is None:
            return
        if not self.response_started:
            if kind != "http.response.start":
                raise RuntimeError(
                    f"Expected ASGI message 'http.response.start', but got '{kind}'."
                )
            if self._waits_for_100():
                self.keep_alive = False
            status, headers = message["status"], message.get("headers", ())
            self._head = self._head_of(connection, status, headers)
            self.response_started = True
        elif kind == "http.response.body":
            body, more = message.get("body", b""), message.get("more_body", False)
            self._write_part(connection, body, more=more)
        else:
            raise RuntimeError(f"Expected ASGI message 'http.response.body', but got '{kind}'.")

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole response, as `ExchangeExtension` says.

        Raises:
            RuntimeError: A header cannot be sent.
        """
        connection = self._connection
        if (
            connection is None
            or self.response_started
            or self.disconnected
            or connection.write_paused
        ):
            return False
        if self._waits_for_100():
            self.keep_alive = False
        if status not in _WITHOUT_BODY:
            headers = (*headers, (b"content-length", b"%d" % len(body)))
        self._head = self._head_of(connection, status, headers)
        self.response_started = True
        self._write_part(connection, body, more=False)
        return True

    # -- the response --------------------------------------------------------------------------

    def _waits_for_100(self) -> bool:
        """Tell whether the client waits for a 100 before it sends its body.

        If it gets a response instead, it may keep the body or send it: nobody knows whether what
        comes next is the body or the next request, so the connection has to end.
        """
        # RFC 9110, 10.1.1: the expectation of a client of HTTP/1.0 is ignored.
        return (
            self.more_body
            and not self._was_received
            and self.scope.get("http_version") == "1.1"
            and any(
                name == b"expect" and value.lower() == b"100-continue"
                for name, value in self.scope["headers"]
            )
        )

    def _head_of(
        self, connection: HTTPProtocol, status: int, headers: Sequence[tuple[bytes, bytes]]
    ) -> list[bytes]:
        if not 200 <= status <= 999:  # a lower one does not end a request
            raise RuntimeError(f"The status {status} cannot be sent; it must be 200 to 999.")
        head = [status_line(status)]
        values: list[bytes] = []
        closes, length = False, None
        for name, value in (*connection.default_headers, *headers):
            begin = LINE_BEGINNINGS.get(name) or line_beginning(name)
            if begin == b"content-length: ":
                if not value.isdigit() or length not in {None, int(value)}:
                    raise RuntimeError(f"{value!r} is not the length of a body, or is a second.")
                if length is not None:
                    continue
                length = int(value)
            elif begin == b"transfer-encoding: ":
                continue  # ASGI: the server chooses it
            elif begin == b"connection: ":
                closes = closes or b"close" in map(bytes.strip, value.lower().split(b","))
            head += (begin, value, b"\r\n")
            values.append(value)
        # One look at all of them. A line break would end the header, and begin another.
        check_value(b" ".join(values))
        if closes:
            self.keep_alive = False
        elif not self.keep_alive:
            head.append(b"connection: close\r\n")
        has_body = self.scope["method"] != "HEAD" and status not in _WITHOUT_BODY
        # RFC 9112, 6.1: clients of HTTP/1.0 know no chunks.
        self._chunked = has_body and length is None and self.scope["http_version"] != "1.0"
        if self._chunked:
            head.append(b"transfer-encoding: chunked\r\n")
        self._left = length if has_body else 0
        head.append(b"\r\n")
        if connection.access_log:
            connection.log_response(self.scope, status)
        return head

    def _write_part(self, connection: HTTPProtocol, body: bytes, *, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            body, self._left = b"", 0
        elif self._chunked:
            end = b"" if more else b"0\r\n\r\n"
            body = b"%x\r\n%b\r\n%b" % (len(body), body, end) if body else end
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0:
                raise RuntimeError("Response content longer than Content-Length")
            if self._left and not more:
                raise RuntimeError("Response content shorter than Content-Length")
        head, self._head = self._head, None
        if head is not None:
            _write(connection, b"".join(head), body)
        elif body:
            _write(connection, b"", body)
        if not more:
            self.response_complete = True
            self.body = b""  # nobody reads it any more, and the connection may stay idle
            self.notify()
            connection.on_response_complete(self)


def _write(connection: HTTPProtocol, head: bytes, body: bytes) -> None:
    connection.written += len(head) + len(body)
    if len(body) > _MAX_COPIED_BYTES:
        if head:
            connection.transport.write(head)
        connection.transport.write(body)
    else:
        connection.transport.write(head + body)


def status_line(status: int) -> bytes:
    """Return the first line of a response, with its line break."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def line_beginning(name: bytes) -> bytes:
    """Return the name of a header with its colon, in lower case, and remember it.

    Raises:
        RuntimeError: It is not the name of a header.
    """
    if not _RAW_NAME.fullmatch(name):
        raise RuntimeError("Invalid HTTP header name.")
    beginning = name.lower() + b": "
    if len(LINE_BEGINNINGS) < _MAX_NAMES:
        LINE_BEGINNINGS[name] = beginning
    return beginning


def check_value(value: bytes) -> None:
    """Check that the value of a header can be sent.

    Raises:
        RuntimeError: It has control characters.
    """
    if len(value.translate(None, _NOT_IN_VALUES)) < len(value):
        raise RuntimeError("Invalid HTTP header value.")


def address_of(transport: asyncio.BaseTransport, side: str) -> tuple[str, int] | None:
    """Return one end of a connection as ASGI has it, None where it has no port (a Unix socket).

    Args:
        transport: The transport.
        side: ``"sockname"`` for the server's end, ``"peername"`` for the client's.
    """
    info: tuple[str, int] | str | None = transport.get_extra_info(side)
    return (info[0], info[1]) if isinstance(info, tuple) else None


def _fault_of_head(version: str, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return why a request must be refused by its head, None if it need not be.

    A proxy in front may read such a head in another way, and send the request to another host, or
    see another request in the body.

    Args:
        version: ``"1.0"`` or ``"1.1"``.
        headers: Names in lower case, and values.
    """
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version != "1.0"):
        return "A request needs one header Host, and no second one"  # RFC 9112, 3.2
    if hosts and not _HOST.fullmatch(hosts[0]):
        return "The header Host is not valid; send a name or an address, and a port if needed"
    if version == "1.0" and any(name == b"transfer-encoding" for name, _ in headers):
        return "A request of HTTP/1.0 cannot have Transfer-Encoding"  # RFC 9112, 6.1
    return None


def _refusing(error: FrameworkError) -> ASGIApp:
    """Return an application that responds with an error."""

    async def refuse(_scope: Scope, _receive: Receive, send: Send) -> None:
        body = dumps(error.to_dict())
        headers = [
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
        ]
        await send({"type": "http.response.start", "status": error.code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return refuse
