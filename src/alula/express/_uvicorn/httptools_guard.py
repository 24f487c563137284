"""Guards uvicorn's protocol that parses with httptools, which has no limits.

What runs for every request takes the place of uvicorn's: `Cycle`, and one timer for a connection
that is kept in place of one for each request. Few requests may wait for their turn, and what ends a
connection ends the request that runs, not the last one that was read. What is rare is uvicorn's:
upgrades and the shutdown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, ClassVar, Final, cast

import httptools
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, service_unavailable
from uvicorn.protocols.utils import get_client_addr, get_path_with_query_string

from alula._json_encoding import dumps
from alula._routes import percent_decoded
from alula.errors import FrameworkError
from alula.express._connection_limits import MAX_HEAD_BYTES, head_too_large
from alula.express._uvicorn.cycle import Cycle
from alula.express._uvicorn.guard import (
    HEAD_TOO_LARGE,
    PIECE_BYTES,
    TRAILERS_TOO_LARGE,
    Guard,
)

__all__ = ["HttpToolsGuard"]

_UPGRADE_WITH_BODY: Final = "A request with a body cannot ask for an upgrade; send it without one"
_INVALID: Final = "Invalid HTTP request received."
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_MAX_WAITING: Final = 32
"""Requests of a connection that may wait for the responses before theirs (pipelining)."""


class HttpToolsGuard(Guard):
    """The guard, and the short way of a request."""

    replaces: ClassVar = frozenset(
        {
            "on_message_begin",
            "on_url",
            "on_header",
            "on_headers_complete",
            "on_body",
            "on_message_complete",
            "on_response_complete",
            "_start_asgi_task",
            "_unset_keepalive_if_required",
        }
    )

    __slots__ = (
        "_accepts_upgrade",
        "_bytes_outside_body",
        "_first",
        "_has_task_factory",
        "_head_bytes",
        "_idle_since",
        "_in_head",
    )

    # Of uvicorn's protocol.
    parser: Any
    url: bytes
    app: ASGIApp
    app_state: dict[str, Any]
    asgi_version: str
    logger: Any
    pipeline: Any
    root_path: str
    limit_concurrency: int | None
    tasks: set[asyncio.Task[None]]
    timeout_keep_alive: float
    access_logger: Any
    _should_upgrade: Callable[[], bool]
    _unsupported_upgrade_warning: Callable[[], None]

    config: Any
    server: tuple[str, int | None] | None
    client: tuple[str, int] | None
    scheme: str

    # The end of a head makes all ready for the next one, at once. None, and the parser calls none.
    on_message_begin: ClassVar = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._in_head = False  # whether a part of the target has arrived, and not the whole head
        self._idle_since: float | None = None
        self._head_bytes = 0  # of the head that is being read; 0 until they are counted
        self._bytes_outside_body = 0  # since the head, or since the last part of the body
        self._accepts_upgrade = True
        self._has_task_factory = self.loop.get_task_factory() is not None
        self._first: Any = None  # the cycle that runs, while others wait behind it
        self.url, self.headers = b"", []  # ty: ignore[missing-slot]  # uvicorn's class has a dictionary
        super().connection_made(transport)
        if self.config.reset_contextvars:
            self._context = Context()

    # -- bytes ---------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent."""
        if len(data) > self._budget:
            self._feed_in_pieces(data)
            return
        self._idle_since = None
        self._received += len(data)
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserUpgrade, httptools.HttpParserError) as error:
            self._handle(error, data)
        if not self._budget:
            return
        if not self._in_head:
            # Behind the head, chunk extensions and trailers count: httptools keeps all of them.
            self._budget = PIECE_BYTES
            self._bytes_outside_body += len(data)
            if self._bytes_outside_body > MAX_HEAD_BYTES and self.cycle is not None:
                self.refuse_in_turn(head_too_large(TRAILERS_TOO_LARGE))
        else:
            if self._head_bytes:
                self._head_bytes += len(data)
            else:  # it began in this piece, behind the blank line of the head before
                self._head_bytes = len(data.rpartition(b"\r\n\r\n")[2])
            self._budget = min(PIECE_BYTES, MAX_HEAD_BYTES - self._head_bytes)
            if not self._budget:
                self.refuse_in_turn(head_too_large(HEAD_TOO_LARGE))

    _feed = data_received  # with pieces within the budget

    def _handle(self, error: Exception, data: bytes) -> None:
        """Handle what the parser raises for some bytes: an upgrade, or something invalid."""
        while isinstance(error, httptools.HttpParserUpgrade) and not self._should_upgrade():
            self._unsupported_upgrade_warning()
            data = data[error.args[0] :]  # the wish is ignored
            try:
                self.parser.feed_data(data)
            except (httptools.HttpParserUpgrade, httptools.HttpParserError) as following:
                error = following
            else:
                return
        if isinstance(error, httptools.HttpParserUpgrade):
            self.handle_websocket_upgrade()
        else:
            self.logger.warning(_INVALID)
            self.send_400_response(_INVALID)

    @property
    def head(self) -> object:
        return self.headers if self._in_head else None

    def refuse_in_turn(self, error: FrameworkError) -> None:
        cycle = self.cycle
        if self.pipeline and self._is_of(cycle):
            # A part of its body is wrong, and it waits: the error is its response, at its turn.
            self._budget, cycle.keep_alive = 0, False
            self.pipeline[0] = (cycle, _refusing(error))
            self.flow.pause_reading()
        else:
            super().refuse_in_turn(error)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, as JSON."""
        super().send_400_response(msg if self._accepts_upgrade else _UPGRADE_WITH_BODY)

    # -- what the parser calls -----------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        """Take a part of the target of a request."""
        self.url += url  # ty: ignore[missing-slot]  # uvicorn's class has a dictionary
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header of a request."""
        # Trailers, behind a chunked body, arrive here too. They are not headers of the request:
        # they could name a method, or headers that a proxy in front has removed.
        if self._in_head:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Make a cycle of a head, and start it.

        Raises:
            ValueError: It asks for an upgrade, and has a body, or is not the first one; its version
                is unknown; or too many requests wait. The parser makes an error of it.
        """
        parser, headers = self.parser, self.headers
        version = parser.get_http_version()
        if version not in _VERSIONS:
            raise ValueError(_INVALID)
        before = self.cycle
        if parser.should_upgrade() and self._upgrades():
            return
        url = httptools.parse_url(self.url)
        raw_path = url.path
        path = raw_path.decode("ascii")
        if "%" in path:
            path = percent_decoded(path).decode(errors="replace")
        root = self.root_path
        if root:
            path, raw_path = root + path, root.encode("ascii") + raw_path
        scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": parser.get_method().decode("ascii"),
            "root_path": root,
            "path": path,
            "raw_path": raw_path,
            "query_string": url.query or b"",
            "headers": headers,
            "state": self.app_state.copy(),
        }
        self.url, self.headers = b"", []  # ty: ignore[missing-slot]  # uvicorn's class has a dictionary
        self._in_head, self._head_bytes, self._bytes_outside_body = False, 0, 0
        app = self.app
        limit = self.limit_concurrency
        if limit is not None and max(len(self.connections), len(self.tasks)) >= limit:
            self.logger.warning("Exceeded concurrency limit.")
            app = cast("ASGIApp", service_unavailable)
        cycle = Cycle(self, scope, version == "1.1" and parser.should_keep_alive())
        if before is None or before.response_complete:
            self.cycle = cycle
            if self._has_task_factory:
                self._start_asgi_task(cycle, app)
                return
            # As the loop does, which would number the tasks for their names: that takes 2 % of the
            # processor time of a get.
            cycle.task = asyncio.Task(
                cycle.run(app), loop=self.loop, name="request", context=self._context.copy()
            )
            self.tasks.add(cycle.task)
        else:
            self._wait(cycle, app)

    def _upgrades(self) -> bool:
        """Tell whether a request that asks for an upgrade gets it.

        Raises:
            ValueError: It must not ask for it.
        """
        # For an upgrade, the parser ends the request at its head. Its body would be read as the
        # next request (request smuggling).
        if any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
            for name, value in self.headers
        ):
            self._accepts_upgrade = False
            raise ValueError(_UPGRADE_WITH_BODY)  # stops the parser
        if not self._should_upgrade():
            return False
        # What hands the connection over reads these.
        self.scope = {"method": self.parser.get_method().decode("ascii"), "headers": self.headers}
        if self.cycle is not None and not self.cycle.response_complete:
            raise ValueError(_INVALID)  # its protocol would write before the response is complete
        return True

    def _wait(self, cycle: Cycle, app: ASGIApp) -> None:
        """Have a request wait that was sent before the response to the one before.

        Raises:
            ValueError: Too many wait; what was read at once may have thousands.
        """
        self.flow.pause_reading()
        if len(self.pipeline) >= _MAX_WAITING:
            raise ValueError(_INVALID)
        if not self.pipeline:
            self._first = self.cycle
        self.cycle = cycle
        self.pipeline.appendleft((cycle, app))

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._bytes_outside_body = 0
        cycle = self.cycle
        if not (self._in_head or cycle.response_complete):
            if not cycle.body:  # most bodies arrive as one part, which is not copied
                cycle.body = body
            else:
                cycle.body = bytearray(cycle.body) if type(cycle.body) is bytes else cycle.body
                cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.has_news = True
            if cycle.event is not None:
                cycle.event.set()

    def on_message_complete(self) -> None:
        """Take note that a request is complete."""
        if not self._in_head:  # of an upgrade, which has no cycle
            cycle = self.cycle
            if cycle.response_complete:
                # What comes next belongs to no request. An error for trailers that have ended would
                # be taken for the response to the next one.
                self._bytes_outside_body = 0
            cycle.more_body, cycle.has_news = False, True
            if cycle.event is not None:
                cycle.event.set()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the protocol of websockets."""
        self._context.copy().run(super().handle_websocket_upgrade)  # type: ignore[misc]  # ty: ignore[missing-attribute]  # uvicorn's

    @property
    def running(self) -> Any:
        return self._first if self.pipeline else self.cycle

    # -- what a cycle calls --------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Cycle, app: ASGIApp) -> None:
        cycle.task = self.loop.create_task(cycle.run(app), context=self._context.copy())
        # `Cycle.run` takes it out: a callback would be a turn of the loop.
        self.tasks.add(cycle.task)

    def on_response_complete(self) -> None:
        """Go on with the next request of a pipeline, or be idle."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._first, app = self.pipeline.pop()
            self._start_asgi_task(self._first, app)
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._close_later(self.timeout_keep_alive)

    def on_last_response(self, cycle: Cycle) -> None:
        """Close the connection behind the response of a request."""
        self.server_state.total_requests += 1
        if cycle.more_body:
            self.close_after_the_rest()
        else:
            self.transport.close()

    def log_response(self, scope: Any, status: int) -> None:
        """Log as uvicorn does, where its option ``access_log`` is set."""
        self.access_logger.info(
            '%s - "%s %s HTTP/%s" %d',
            get_client_addr(scope),
            scope["method"],
            get_path_with_query_string(scope),
            scope["http_version"],
            status,
        )

    def guards_response(self) -> bool:
        """Tell whether the response to the last request is written by `Cycle`."""
        return isinstance(self.cycle, Cycle)

    # -- idle connections ----------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether the connection waits for a request."""
        return self._idle_since is not None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        running = self.running
        super().connection_lost(exc)
        if running is not self.cycle:  # which uvicorn has told
            running.disconnected = running.has_news = True
            if running.event is not None:
                running.event.set()
        self._first = None
        self.pipeline.clear()

    def _unset_keepalive_if_required(self) -> None:
        """Leave the timer: a new one for each request would cost more than all the rest here."""

    def _close_later(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self._close_if_idle, context=self._context
        )

    def _close_if_idle(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_since is not None:  # else the end of the next response begins anew
            left = self._idle_since + self.timeout_keep_alive - self.loop.time()
            if left > 0:
                self._close_later(left)
            else:
                self.transport.close()


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
