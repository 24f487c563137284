"""granian's acceptor on our sockets and in our event loop, with a graceful shutdown."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any, Final, cast

from granian import _granian
from granian.http import HTTP1Settings
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from alula._sockets import BACKLOG
from alula._user_code import did_you_mean
from alula.express._connection_limits import (
    KEEP_ALIVE_SECONDS,
    MAX_HEAD_BYTES,
    ConnectionLimits,
)
from alula.express._granian.connections import Connections
from alula.express._granian.guard import GuardedApplication
from alula.express._uvicorn.server import (
    GRACE_SECONDS,
    UNWIND_SECONDS,
    UvicornServer,
    uvicorn_server,
)

__all__ = ["GranianServer", "Options", "granian_server"]

_CHECKS_PER_TIMEOUT: Final = 4  # how often the progress of a connection is checked
_POLL_SECONDS: Final = 0.02
_IDLE_SECONDS: Final = 0.5  # at the end: until a connection is idle, and not between two threads
_END_SECONDS: Final = 2  # for the threads of granian to end, once their work is done
_MOST_CONNECTIONS: Final = 1_000_000
_SPARE_DESCRIPTORS: Final = 100  # for files and databases; without any, granian would spin

_native: Any = _granian  # its stub is not complete

_log = logging.getLogger("alula.serve")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a server; those of uvicorn with the same names mean the same.

    Attributes:
        limits: How slow clients may be.
        timeout_graceful_shutdown: Seconds that requests may take once the server stops.
        timeout_keep_alive: Seconds for an idle connection, and for the head of a request.
        ssl_certfile: A certificate in PEM format, None for HTTP.
        ssl_keyfile: Its private key, None if both are in one file.
        proxy_headers: Whether to trust what a proxy says about clients.
        forwarded_allow_ips: The addresses of trusted proxies.
        ws_max_size: Bytes that a message of a websocket may have.
        ws_ping_interval: None; granian sends no pings.
    """

    limits: ConnectionLimits
    timeout_graceful_shutdown: float = GRACE_SECONDS
    timeout_keep_alive: float = KEEP_ALIVE_SECONDS
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    proxy_headers: bool = False
    forwarded_allow_ips: str | list[str] = "127.0.0.1"
    ws_max_size: int = 16 * 1024 * 1024
    ws_ping_interval: None = None


class GranianServer:
    """granian, which is started and stopped as `alula.express.Server` does with uvicorn.

    Args:
        app: The application.
        options: Its options.
        last: A server of uvicorn with the same options. It takes the connections that come in
            while this one stops: granian would close those whose request has not arrived.
        late_request_seconds: How long after `stop` requests are still served that arrive on open
            connections. Their responses close the connection.
    """

    def __init__(
        self, app: ASGIApp, options: Options, last: UvicornServer, late_request_seconds: float
    ) -> None:
        self.is_ssl = options.ssl_certfile is not None
        self._app: ASGIApp = app
        if options.proxy_headers:
            self._app = cast("ASGIApp", ProxyHeadersMiddleware(app, options.forwarded_allow_ips))  # type: ignore[arg-type]  # ty: ignore[invalid-argument-type]  # uvicorn has types of its own for ASGI
        self._options = options
        self._last = last
        self._late_request_seconds = late_request_seconds
        self._stopping = asyncio.Event()
        self._idle_since: dict[int, float] = {}

    def stop(self) -> None:
        """Begin to stop; `run_until_stopped` does the rest."""
        self._stopping.set()

    async def startup(self, sockets: list[socket.socket]) -> None:
        """Accept connections on a listening socket.

        Raises:
            ValueError: It is a Unix socket.
            OSError: The certificate cannot be used.
        """
        (sock,), options = sockets, self._options
        if sock.family not in {socket.AF_INET, socket.AF_INET6}:
            raise ValueError(
                "granian cannot be guarded on a Unix socket: the system does not tell there what"
                " clients have read; listen on a port of 127.0.0.1, or choose server='uvicorn'"
            )
        if options.ssl_certfile is not None:  # for an error; granian would panic
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, password="")
        # asyncio sets it for each connection; those of granian inherit it from the socket.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections = Connections(sock, options.limits)
        self._guard = GuardedApplication(
            self._app, options.limits, self._connections, options.ws_max_size
        )
        self._acceptor = _Acceptor(sock, self._guard, options)
        _log.info(
            "granian serves: it parses requests and websockets by its own limits, and responds"
            " without error JSON to what it cannot parse"
        )

    async def run_until_stopped(self, sock: socket.socket) -> None:
        """Serve until `stop`, then serve late requests, end what is under way and close all."""
        watching = asyncio.create_task(self._watch())
        last: asyncio.Task[None] | None = None
        try:
            await self._stopping.wait()
            self._guard.is_closing = True
            self._guard.stop_dropping()
            self._acceptor.pause()
            if self._late_request_seconds:
                await asyncio.sleep(_POLL_SECONDS)  # it may be accepting one
                await self._connections.keep_to_these()
                last = asyncio.create_task(self._last.serve_backlog(sock))
                await self._until(self._has_no_connections, self._late_request_seconds)
            else:
                sock.close()
            seconds = self._options.timeout_graceful_shutdown
            # First, since granian does not wait for them.
            await self._guard.close_websockets(seconds)
            self._acceptor.stop()
            if not await self._until(self._has_ended, seconds):
                _log.warning(
                    "requests have not ended %g seconds after the server began to stop;"
                    " they are cancelled",
                    seconds,
                )
        finally:
            watching.cancel()
            self._acceptor.stop()
            tasks = await self._guard.cut_all()
            if tasks:
                await asyncio.wait(tasks, timeout=UNWIND_SECONDS)
                await self._until(self._has_ended, _END_SECONDS)
            for connection in await self._connections.all():
                self._connections.end(connection, reset=True)
            await self._until(self._has_ended, _END_SECONDS)
            if last is None:
                sock.close()
            else:
                await last

    async def _watch(self) -> None:
        limits, loop = self._options.limits, asyncio.get_running_loop()
        while True:
            await asyncio.sleep(
                min(limits.read_timeout, limits.write_timeout) / _CHECKS_PER_TIMEOUT
            )
            try:
                await self._guard.cut_slow_bodies(loop.time())
                before = self._guard.peers()
                self._guard.drop(before - await self._connections.reset_stalled(loop.time()))
            except Exception as error:  # noqa: BLE001  # the next look must come: it is the limit
                # Without descriptors, for example, there is nothing to mend in the code.
                is_mistake = not isinstance(error, OSError)
                _log.error("cannot look for clients that stall: %s", error, exc_info=is_mistake)

    async def _until(self, condition: Callable[[], Awaitable[bool]], seconds: float) -> bool:
        """Wait until a condition holds, for so many seconds at most; tell whether it does."""
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while not await condition():
            if clock() >= end:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    async def _has_no_connections(self) -> bool:
        return not await self._connections.all()

    async def _has_ended(self) -> bool:
        """Tell whether all connections have ended; end those that have been idle for a moment.

        granian closes its idle connections, but not those that it has just accepted.
        """
        if self._acceptor.ended.done():
            return True
        now, before = asyncio.get_running_loop().time(), self._idle_since
        busy = self._guard.peers()
        self._idle_since = {}
        for connection in await self._connections.all():
            if connection.is_flushed and connection.peer not in busy:
                since = before.get(connection.inode, now)
                self._idle_since[connection.inode] = since
                if now - since >= _IDLE_SECONDS:
                    self._connections.end(connection, reset=False)
        return False


class _Acceptor:
    """A thread of granian that accepts the connections of a socket and serves them.

    Args:
        sock: The socket; granian gets a descriptor of its own.
        app: The application.
        options: Its options.

    Attributes:
        ended: Done when it accepts no connections, and those that it had are closed.
    """

    def __init__(self, sock: socket.socket, app: GuardedApplication, options: Options) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._descriptor = os.dup(sock.fileno())
        self._has_signal = False
        self._signal = _native.WorkerSignal()
        self._signal.add_cb(lambda: loop.call_soon_threadsafe(self.ended.set_result, None))

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = _MOST_CONNECTIONS if files == resource.RLIM_INFINITY else files - _SPARE_DESCRIPTORS
        certificate = options.ssl_certfile
        worker = _native.ASGIWorker(
            1,
            (None, _native.SocketHolder(self._descriptor, False, BACKLOG)),
            ipc=None,
            backpressure=max(1, most),
            http_mode="1",
            http1_opts=HTTP1Settings(
                header_read_timeout=round(options.timeout_keep_alive * 1000),
                max_buffer_size=MAX_HEAD_BYTES,
            ),
            websockets_enabled=True,
            ssl_enabled=certificate is not None,
            ssl_cert=certificate,
            ssl_key=options.ssl_keyfile or certificate,
            ssl_protocol_min="tls1.2",
        )
        begin, context = app.begin, copy_context()

        # A function of Python, in which threads give up the GIL when others wait for it. Where
        # granian's threads called the loop by a `partial`, they starved it (a p99 of 160 ms).
        def schedule(watcher: Any) -> None:
            loop.call_soon_threadsafe(
                begin, watcher, context=context
            )  # pragma: no cover  # coverage does not trace threads of granian's

        scheduler = _native.CallbackScheduler(loop, begin, None, None, None)
        scheduler._schedule_fn = schedule  # noqa: SLF001  # granian's own schedulers set it, too
        worker.serve_async(scheduler, loop, self._signal)

    def stop(self) -> None:
        """Accept no more connections, and close those that are idle, or will be."""
        if not self._has_signal:  # a second one would wait for ever
            self._has_signal = True
            self._signal.set()

    def pause(self) -> None:
        """Accept no more connections, but serve those that are open."""
        # granian has no such thing: its descriptor becomes that of a socket to which nobody
        # connects. What waits in the backlog stays there, for others to accept. A socket of TCP,
        # since granian's thread may still be about to ask for its address.
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.setblocking(False)
            os.dup2(silent.fileno(), self._descriptor, inheritable=False)


def granian_server(
    app: ASGIApp, options: dict[str, Any], late_request_seconds: float = 0
) -> GranianServer:
    """Return a server for an ASGI application, with limits around granian.

    Args:
        app: The application.
        options: Those of `ConnectionLimits` and `Options`.
        late_request_seconds: As in `GranianServer`.

    Raises:
        ValueError: A limit is not a positive number.
        TypeError: An option does not exist, or only with uvicorn.
    """
    limits = ConnectionLimits.__dataclass_fields__.keys()
    known = limits | Options.__dataclass_fields__.keys() - {"limits"}
    for name in options.keys() - known:
        raise TypeError(
            f"server='granian' has no option {name!r}{did_you_mean(name, known)}; it has"
            f" {', '.join(sorted(known))}"
        )
    of_limits = {name: options[name] for name in options.keys() & limits}
    others = {name: options[name] for name in options.keys() - limits}
    parsed = Options(limits=ConnectionLimits(**of_limits), **others)
    last = uvicorn_server(app, dict(options), late_request_seconds)
    return GranianServer(app, parsed, last, late_request_seconds)
