"""Guards uvicorn's protocol that parses with httptools, which has no limits.

What runs for every request takes the place of uvicorn's: `Cycle`, and one timer for a connection
that is kept in place of one for each request. What is rare is uvicorn's: the parser and its errors,
upgrades, pipelines and the shutdown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, ClassVar, Final, cast
from urllib.parse import unquote

import httptools
from starlette.types import ASGIApp
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, service_unavailable
from uvicorn.protocols.utils import get_client_addr, get_path_with_query_string

from alula.express._connection_limits import MAX_HEAD_BYTES, head_too_large
from alula.express._uvicorn.cycle import Cycle
from alula.express._uvicorn.guard import (
    HEAD_TOO_LARGE,
    PIECE_BYTES,
    SERVED,
    TRAILERS_TOO_LARGE,
    Guard,
)

__all__ = ["HttpToolsGuard"]

_UPGRADE_WITH_BODY: Final = "A request with a body cannot ask for an upgrade; send it without one"


class HttpToolsGuard(Guard):
    """The guard, and the short way of a request."""

    replaces: ClassVar = frozenset(
        {
            *("on_header", "on_headers_complete", "on_body", "on_message_complete"),
            *("on_response_complete", "_start_asgi_task", "_unset_keepalive_if_required"),
        }
    )

    __slots__ = (
        *("_accepts_upgrade", "_bytes_outside_body", "_counted_scope", "_head_bytes"),
        *("_idle_since", "_in_head"),
    )

    # Of uvicorn's protocol.
    parser: Any
    url: bytes
    expect_100_continue: bool
    app: ASGIApp
    logger: Any
    pipeline: Any
    root_path: str
    limit_concurrency: int | None
    tasks: set[asyncio.Task[None]]
    timeout_keep_alive: float
    access_logger: Any
    _should_upgrade: Callable[[], bool]

    config: Any

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._in_head = False
        self._idle_since: float | None = None
        self._counted_scope: Any = None  # the head that is being counted, by its scope
        # The latter since the head, or since the last part of the body.
        self._head_bytes = self._bytes_outside_body = 0
        self._accepts_upgrade = True
        super().connection_made(transport)
        if self.config.reset_contextvars:
            self._context = Context()

    # -- bytes ---------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent."""
        self._idle_since = None
        if len(data) <= self._budget:  # nearly always
            self._feed(data)
        else:
            self._feed_in_pieces(data)

    def _feed(self, data: bytes) -> None:
        self._received += len(data)
        super(Guard, self).data_received(data)  # uvicorn's
        scope, cycle = self.scope, self.cycle
        if not self._budget:
            return
        if cycle is not None and cycle.scope is scope:
            # Behind the head, chunk extensions and trailers count: httptools keeps all of them.
            self._budget = PIECE_BYTES
            self._bytes_outside_body += len(data)
            if self._bytes_outside_body > MAX_HEAD_BYTES:
                self.refuse_in_turn(head_too_large(TRAILERS_TOO_LARGE))
        elif scope is not None:
            if scope is self._counted_scope:
                self._head_bytes += len(data)
            else:  # it began in this piece, behind the blank line of the head before
                self._counted_scope = scope
                self._head_bytes = len(data.rpartition(b"\r\n\r\n")[2])
            self._budget = min(PIECE_BYTES, MAX_HEAD_BYTES - self._head_bytes)
            if not self._budget:
                self.refuse_in_turn(head_too_large(HEAD_TOO_LARGE))

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
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True  # ty: ignore[missing-slot]  # as above
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Make a cycle of a head, and start it.

        Raises:
            ValueError: It asks for an upgrade, and has a body. The parser makes an error of it.
        """
        parser, scope = self.parser, self.scope
        scope["method"] = parser.get_method().decode("ascii")
        version = parser.get_http_version()
        if version != "1.1":
            scope["http_version"] = version
        if parser.should_upgrade():
            # For an upgrade, the parser ends the request at its head. Its body would be read as
            # the next request (request smuggling).
            if any(
                name == b"transfer-encoding"
                or (name == b"content-length" and value.strip() != b"0")
                for name, value in self.headers
            ):
                self._accepts_upgrade = False
                raise ValueError(_UPGRADE_WITH_BODY)  # stops the parser; uvicorn then sends a 400
            if self._should_upgrade():
                return
        url = httptools.parse_url(self.url)
        raw_path = url.path
        path = raw_path.decode("ascii")
        if "%" in path:
            path = unquote(path)
        if root := self.root_path:
            path, raw_path = root + path, root.encode("ascii") + raw_path
        scope["path"], scope["raw_path"] = path, raw_path
        scope["query_string"] = url.query or b""
        self._in_head, self._bytes_outside_body = False, 0
        app = self.app
        limit = self.limit_concurrency
        if limit is not None and max(len(self.connections), len(self.tasks)) >= limit:
            self.logger.warning("Exceeded concurrency limit.")
            app = cast("ASGIApp", service_unavailable)
        before = self.cycle
        self.cycle = cycle = Cycle(
            self,
            scope,
            version != "1.0" and parser.should_keep_alive(),
            self.expect_100_continue,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, app)
        else:  # it was sent before the response to the one before
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._bytes_outside_body = 0
        cycle = self.cycle
        if not (self._in_head or cycle.response_complete):
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.has_news = True
            if cycle.event is not None:
                cycle.event.set()

    def on_message_complete(self) -> None:
        """Take note that a request is complete."""
        cycle = self.cycle
        if not (self._in_head or cycle.response_complete):
            cycle.more_body, cycle.has_news = False, True
            if cycle.event is not None:
                cycle.event.set()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the protocol of websockets."""
        self._context.copy().run(super().handle_websocket_upgrade)  # type: ignore[misc]  # ty: ignore[missing-attribute]  # uvicorn's

    # -- what a cycle calls --------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Cycle, app: ASGIApp) -> None:
        task = self.loop.create_task(cycle.run(app), context=self._context.copy())
        cycle.task = task
        self.tasks.add(task)  # `Cycle.run` takes it out: a callback would be a turn of the loop

    def on_response_complete(self) -> None:
        """Go on with the next request of a pipeline, or be idle."""
        cycle = self.cycle  # not always the one that has ended: others may wait behind it
        if cycle.response_complete and self.scope is cycle.scope and not cycle.more_body:
            self.scope = cycle.scope = SERVED
            self.headers = []
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._close_later(self.timeout_keep_alive)

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
        super().connection_lost(exc)

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
