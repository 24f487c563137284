"""`HTTPServer`: serves the connections of one listening socket, and stops gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.util
import inspect
import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from alula._user_code import did_you_mean
from alula.errors import FrameworkError, Unavailable
from alula.express._connection_limits import KEEP_ALIVE_SECONDS, ConnectionLimits, UnreadResponses
from alula.express._http1.protocol import HTTPProtocol

__all__ = ["HTTPServer", "fastest_loop", "http_server"]

GRACE_SECONDS: Final = 30  # how long requests may still take once the server closes
UNWIND_SECONDS: Final = 5  # how long those that were cancelled then may take to clean up

OWN_OPTIONS: Final = ("accept_during_setup", "late_request_seconds")
"""Options of ours, besides the limits."""

_WITHOUT_EFFECT: Final = frozenset(
    {
        "app",
        "host",
        "port",
        "uds",
        "fd",
        "loop",
        "http",
        "ws",
        "lifespan",
        "factory",
        "reload",
        "reload_dirs",
        "reload_delay",
        "reload_includes",
        "reload_excludes",
        "workers",
        "timeout_worker_healthcheck",
        "env_file",
        "callback_notify",
        "timeout_notify",
        "limit_max_requests_jitter",
        "ws_max_queue",
        "h11_max_incomplete_event_size",
        "use_colors",
    }
)
"""Options of uvicorn that its own server and its own protocols read."""

_POLL_SECONDS = 0.02
_TICK_SECONDS = 1
_CALM_TICKS = 5  # a process at its limit has one descriptor now and none in the next second

_log = logging.getLogger("alula.serve")


@dataclass
class ServerState:
    """What the connections of a server share.

    Attributes:
        connections: All that are open, websockets included.
        tasks: Those that run the application.
        default_headers: Headers of each response, such as the date.
        total_requests: The number of responses.
    """

    connections: set[Any] = field(default_factory=set[Any])
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    default_headers: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    total_requests: int = 0


class HTTPServer:
    """Serves an ASGI application; it leaves signals to the program that it runs in.

    Args:
        config: The application and the options of uvicorn, loaded.
        late_request_seconds: How long after `stop` idle connections are still read: a request may
            be on its way on them. Its response closes the connection.

    Attributes:
        is_ssl: Whether connections are encrypted.
        state: What its connections share.
    """

    def __init__(self, config: uvicorn.Config, late_request_seconds: float = 0) -> None:
        self.config = config
        self.is_ssl = config.is_ssl
        self.state = ServerState()
        self._late_request_seconds = late_request_seconds
        self._servers: list[asyncio.Server] = []
        self._stopping = asyncio.Event()
        self._calm_ticks = _CALM_TICKS  # how often in a row there were descriptors

    async def startup(self, sockets: list[socket.socket]) -> None:
        """Begin to accept connections."""
        self._set_default_headers()
        loop = asyncio.get_running_loop()
        for sock in sockets:
            server = await loop.create_server(
                self._new_connection, sock=sock, ssl=self.config.ssl, backlog=self.config.backlog
            )
            self._servers.append(server)

    def stop(self) -> None:
        """Begin to stop; `run_until_stopped` does the rest."""
        self._stopping.set()

    async def run_until_stopped(self, sock: socket.socket) -> None:
        """Serve until `stop`, then serve late requests, end what is under way and close all."""
        state = self.state
        try:
            await self._run()
            if self._late_request_seconds:
                # So clients and proxies send nothing more on these connections.
                state.default_headers = [*state.default_headers, (b"connection", b"close")]
                for connection in state.connections:
                    if isinstance(connection, HTTPProtocol):
                        connection.announce_close()
                await self._accept_backlog(sock)
                clock = asyncio.get_running_loop().time
                end = clock() + self._late_request_seconds
                while state.connections and clock() < end:  # noqa: ASYNC110  # there is no event
                    await asyncio.sleep(_POLL_SECONDS)
        finally:
            await self._shut_down(sock)

    def _new_connection(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class  # a `partial`, where uvicorn declares a class
        protocol: asyncio.Protocol = make(config=self.config, server_state=self.state, app_state={})
        return protocol

    async def _run(self) -> None:
        """Wait until `stop`; each second, renew the date and look at what is left."""
        limit = self.config.limit_max_requests
        while not self._stopping.is_set():
            if limit is not None and self.state.total_requests >= limit:
                return
            self._set_default_headers()
            self._look_at_descriptors()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_SECONDS)

    def _set_default_headers(self) -> None:
        config = self.config
        date = [(b"date", formatdate(time.time(), usegmt=True).encode())]
        self.state.default_headers = [
            *(date if config.date_header else ()),
            *config.encoded_headers,
        ]

    def _look_at_descriptors(self) -> None:
        was_calm = self._calm_ticks >= _CALM_TICKS
        self._calm_ticks = self._calm_ticks + 1 if _has_descriptors() else 0
        # The event loop drops connections silently when there are no descriptors left.
        if was_calm and not self._calm_ticks:
            _log.error(
                "no file descriptors are left (%d connections): new ones are dropped; raise the"
                " limit (ulimit -n, LimitNOFILE= of systemd) or start more workers",
                len(self.state.connections),
            )
        elif self._calm_ticks == _CALM_TICKS and not was_calm:
            _log.warning("there are file descriptors again; connections are accepted")

    async def _shut_down(self, sock: socket.socket) -> None:
        """Stop listening, let requests end, then cancel what takes too long."""
        for server in self._servers:
            server.close()
        sock.close()
        state = self.state
        for connection in tuple(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while state.connections or state.tasks:  # noqa: ASYNC110  # there is no event
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            self._cut_short(Unavailable("The server is stopping, and the request took too long"))
        tasks = {task for task in state.tasks if not task.done()}
        if tasks:
            await asyncio.wait(tasks, timeout=UNWIND_SECONDS)
        for connection in tuple(state.connections):
            connection.transport.abort()

    def _cut_short(self, error: FrameworkError) -> None:
        state = self.state
        _log.error("the server stops, and %d requests took too long", len(state.tasks))
        for connection in tuple(state.connections):
            if isinstance(connection, HTTPProtocol):
                connection.cut_short(error)
        for task in state.tasks:
            task.cancel()

    async def _accept_backlog(self, sock: socket.socket) -> None:
        """Accept the connections in the socket's backlog, and stop listening.

        To their clients they are open, and requests may have been sent on them. There is no await
        between the last `accept` and the end of listening, so no connection is lost in between.
        """
        connections: list[socket.socket] = []
        while True:
            try:
                connections.append(sock.accept()[0])
            except ConnectionAbortedError:
                continue
            except OSError:  # the backlog is empty
                break
        for server in self._servers:
            server.close()
        config = self.config

        async def read(connection: socket.socket) -> None:
            connection.setblocking(False)
            # A client may have gone already, or never complete the TLS handshake.
            with contextlib.suppress(OSError):
                await asyncio.get_running_loop().connect_accepted_socket(
                    self._new_connection,
                    connection,
                    ssl=config.ssl,
                    ssl_handshake_timeout=self._late_request_seconds if config.ssl else None,
                )

        await asyncio.gather(*map(read, connections))


def _has_descriptors() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in {errno.EMFILE, errno.ENFILE}
    return True


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of the fastest event loop, uvloop's; None if that is not installed."""
    try:
        import uvloop  # noqa: PLC0415  # only CPython has it, and not on Windows
    except ImportError:
        return None
    return uvloop.new_event_loop


def http_server(
    app: ASGIApp, options: dict[str, Any], late_request_seconds: float = 0
) -> HTTPServer:
    """Return a server for an ASGI application.

    Args:
        app: The application.
        options: Those of `ConnectionLimits` and of ``uvicorn.Config``, such as ``ssl_certfile``.
        late_request_seconds: As in `HTTPServer`.

    Raises:
        ValueError: A limit is not a positive number.
        TypeError: An option does not exist.
    """
    names = [name for name in ConnectionLimits.__dataclass_fields__ if name in options]
    limits = ConnectionLimits(**{name: options.pop(name) for name in names})
    known = inspect.signature(uvicorn.Config).parameters.keys() - _WITHOUT_EFFECT
    for name in options.keys() - known:
        candidates = {"host", "port", *known, *ConnectionLimits.__dataclass_fields__, *OWN_OPTIONS}
        raise TypeError(f"a server has no option {name!r}{did_you_mean(name, candidates)}")
    settings: dict[str, Any] = {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        # X-Forwarded-For is whatever a client sends, unless a proxy in front sets it.
        "proxy_headers": False,
        "timeout_graceful_shutdown": GRACE_SECONDS,
        "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        # 60 KiB a connection instead of 20, and browsers ask for it.
        "ws_per_message_deflate": False,
        **options,
        "http": partial(
            HTTPProtocol, limits=limits, unread=UnreadResponses(limits.max_unread_bytes)
        ),
        "ws": _websockets(),
        "lifespan": "off",  # the application runs its own, after the server has started
    }
    config = uvicorn.Config(app, **settings)
    config.load()
    return HTTPServer(config, late_request_seconds)


def _websockets() -> Any:
    """Return the protocol of websockets, or what says that there is none without its library."""
    if importlib.util.find_spec("websockets") is None:
        return "none"
    from alula.express._http1.websocket import (  # noqa: PLC0415  # it needs the library
        WebSocketProtocol,
    )

    return WebSocketProtocol
