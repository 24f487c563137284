"""uvicorn's server with our sockets, without signal handlers, and with a graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.util
import inspect
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from alula._user_code import did_you_mean
from alula.errors import Unavailable
from alula.express._connection_limits import KEEP_ALIVE_SECONDS, ConnectionLimits
from alula.express._uvicorn.check import check_uvicorn, check_websockets
from alula.express._uvicorn.protocol import AutoHTTPProtocol, guarded

__all__ = ["UvicornServer", "fastest_loop", "uvicorn_server"]

GRACE_SECONDS: Final = 30  # how long requests may still take once the server closes
UNWIND_SECONDS: Final = 5  # how long those that were cancelled then may take to clean up

OWN_OPTIONS: Final = ("accept_during_setup", "allow_unguarded_http", "late_request_seconds")
"""Options of ours, besides the limits."""

_POLL_SECONDS = 0.02
_TICK_SECONDS = 1
_CALM_TICKS = 5  # a process at its limit has one descriptor now and none in the next second

_log = logging.getLogger("alula.serve")


class UvicornServer(uvicorn.Server):
    """uvicorn's server, which leaves signals to the program it runs in and stops at once.

    Args:
        config: Its options.
        late_request_seconds: How long after `stop` idle connections are still read: a request may
            be on its way on them. Its response closes the connection.
    """

    def __init__(self, config: uvicorn.Config, late_request_seconds: float) -> None:
        super().__init__(config)
        self.is_ssl = config.is_ssl
        self.lifespan = config.lifespan_class(config)
        self._late_request_seconds = late_request_seconds
        self._stopping = asyncio.Event()
        self._calm_ticks = _CALM_TICKS  # how often in a row there were descriptors

    def stop(self) -> None:
        """Begin to stop; `run_until_stopped` does the rest."""
        self.should_exit = True
        self._stopping.set()

    async def serve_backlog(self, sock: socket.socket) -> None:
        """Serve the connections that wait in a socket, which is closed, and end as after `stop`."""
        await self.startup([])
        self.stop()
        await self.run_until_stopped(sock)

    async def run_until_stopped(self, sock: socket.socket) -> None:
        """Serve until `stop`, then serve late requests, end what is under way and close all."""
        state = self.server_state
        try:
            await self.main_loop()
            if self._late_request_seconds:
                # So clients and proxies send nothing more on these connections.
                state.default_headers = [*state.default_headers, (b"connection", b"close")]
                for connection in state.connections:
                    cycle: Any = getattr(connection, "cycle", None)
                    if cycle is not None and not cycle.response_complete:
                        cycle.keep_alive = False
                await self._accept_backlog(sock)
                clock = asyncio.get_running_loop().time
                end = clock() + self._late_request_seconds
                while state.connections and clock() < end:  # noqa: ASYNC110  # uvicorn has no event
                    await asyncio.sleep(_POLL_SECONDS)
        finally:
            await self.shutdown([sock])
            # uvicorn has cancelled the requests that took too long, and does not wait for them.
            tasks = {task for task in state.tasks if not task.done()}
            if tasks:
                await asyncio.wait(tasks, timeout=UNWIND_SECONDS)
            for connection in tuple(state.connections):
                connection.transport.abort()

    async def main_loop(self) -> None:
        """Wait until `stop`, with uvicorn's work of every second: the header Date, its limits."""
        while not await self.on_tick(0):
            self._look_at_descriptors()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_SECONDS)

    def _look_at_descriptors(self) -> None:
        was_calm = self._calm_ticks >= _CALM_TICKS
        self._calm_ticks = self._calm_ticks + 1 if _has_descriptors() else 0
        # The event loop drops connections silently when there are no descriptors left.
        if was_calm and not self._calm_ticks:
            _log.error(
                "no file descriptors are left (%d connections): new ones are dropped; raise the"
                " limit (ulimit -n, LimitNOFILE= of systemd) or start more workers",
                len(self.server_state.connections),
            )
        elif self._calm_ticks == _CALM_TICKS and not was_calm:
            _log.warning("there are file descriptors again; connections are accepted")

    async def _wait_tasks_to_complete(self) -> None:
        try:
            await super()._wait_tasks_to_complete()
        except asyncio.CancelledError:  # the time is up, and uvicorn is about to cancel requests
            stopping = Unavailable("The server is stopping, and the request took too long")
            for connection in tuple[Any, ...](self.server_state.connections):
                if hasattr(connection, "cut_short"):  # a WebSocket has none
                    connection.cut_short(stopping)
            raise

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
        for server in self.servers:
            server.close()
        if not self.servers:
            sock.close()
        config: Any = self.config
        protocol = partial(
            config.http_protocol_class,
            config=config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

        async def read(connection: socket.socket) -> None:
            connection.setblocking(False)
            # A client may have gone already, or never complete the TLS handshake.
            with contextlib.suppress(OSError):
                await asyncio.get_running_loop().connect_accepted_socket(
                    protocol,
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
    """Return the factory of the fastest event loop: uvloop if it is installed."""
    return uvicorn.Config("", log_config=None).get_loop_factory()


def uvicorn_server(
    app: ASGIApp, options: dict[str, Any], late_request_seconds: float = 0
) -> UvicornServer:
    """Return uvicorn's server for an ASGI application, with guards in its HTTP protocol.

    Args:
        app: The application.
        options: Those of `ConnectionLimits`, ``allow_unguarded_http``, and of ``uvicorn.Config``,
            such as ``ssl_certfile``.
        late_request_seconds: As in `UvicornServer`.

    Raises:
        ValueError: A limit is not a positive number.
        TypeError: An option does not exist, or ``http`` is a class that cannot be guarded.
        ImportError: ``http`` is a class of uvicorn whose guard does not work.
    """
    names = [name for name in ConnectionLimits.__dataclass_fields__ if name in options]
    limits = ConnectionLimits(**{name: options.pop(name) for name in names})
    allow_unguarded = options.pop("allow_unguarded_http", False)
    settings: dict[str, Any] = {
        "lifespan": "off",  # the application runs its own, after the server has started
        "log_config": None,
        "access_log": False,
        "server_header": False,
        # Without a proxy that sets it, X-Forwarded-For is whatever a client sends.
        "proxy_headers": False,
        "timeout_graceful_shutdown": GRACE_SECONDS,
        "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        # 60 KiB a connection in place of 20, and browsers ask for it.
        "ws_per_message_deflate": False,
        **options,
    }
    of_uvicorn = inspect.signature(uvicorn.Config).parameters.keys()
    for name in options.keys() - of_uvicorn:
        known = {*of_uvicorn, *ConnectionLimits.__dataclass_fields__, *OWN_OPTIONS}
        raise TypeError(f"a server has no option {name!r}{did_you_mean(name, known)}")
    config = uvicorn.Config(app, **settings)
    config.load()
    if config.http_protocol_class is not AutoHTTPProtocol:
        check_uvicorn()  # the check at the import has not seen h11 if it was loaded since
    config.http_protocol_class = guarded(
        config.http_protocol_class, limits, allow_unguarded=allow_unguarded
    )
    config.ws_protocol_class = guarded_websockets(config.ws_protocol_class)
    return UvicornServer(config, late_request_seconds)


def guarded_websockets(protocol: Any) -> Any:
    """Return the protocol of websockets with limits, if it is uvicorn's own for `websockets`."""
    if importlib.util.find_spec("websockets") is None:  # then it is another, or none
        return protocol
    from alula.express._uvicorn.websockets import (  # noqa: PLC0415  # it needs the library
        WebSocketProtocol,
    )

    theirs: Any = WebSocketProtocol.__base__
    if protocol is not theirs:
        return protocol
    check_websockets(WebSocketProtocol, theirs)
    return WebSocketProtocol
