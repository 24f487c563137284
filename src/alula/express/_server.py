"""uvicorn below `listen`: a socket of our own, no signal handlers, an orderly end.

What it needs of uvicorn is held at import: see `check_uvicorn`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Generator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import uvicorn
from uvicorn.server import ServerState

from alula._sockets import listen_on_port, url_of
from alula.errors import Unavailable
from alula.express._connection_limits import KEEP_ALIVE_SECONDS, ConnectionLimits
from alula.express._uvicorn_protocol import JoinedWrites, guarded, guards, unsupported_uvicorn

__all__ = ["Server", "check_uvicorn", "prepare_server", "quickest_loop", "start_server"]

GRACE_SECONDS = 30  # how long requests may still take once the server closes
UNWIND_SECONDS = 5  # how long those that were cancelled then may take to clean up

_LOOK_SECONDS = 0.02
_TICK_SECONDS = 1

_log = logging.getLogger("alula.serve")


class Server:
    """A running HTTP server, which closes at the end of ``async with server:``.

    Attributes:
        host: Address it listens on; the path of a Unix socket.
        port: The real port, also where 0 was asked for; 0 for a Unix socket.
        url: What to open.
    """

    def __init__(self, running: _Uvicorn, sock: socket.socket) -> None:
        name = sock.getsockname()
        self.host: str
        self.port: int
        self.host, self.port = name[:2] if isinstance(name, tuple) else (name, 0)
        self.url = url_of("https" if running.config.is_ssl else "http", name)
        self._running = running
        self._sock = sock
        self._after: list[Callable[[], Awaitable[Any]]] = []
        self._ended: asyncio.Task[None]

    def __repr__(self) -> str:
        return f"<Server {self.url}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> Self:
        """Begin to take connections; `prepare_server` leaves that to whoever calls it.

        Raises:
            Exception: Whatever keeps the server from starting.
        """
        await self._running.startup([self._sock])
        self._ended = asyncio.create_task(self._run())
        return self

    def on_end(self, function: Callable[[], Awaitable[Any]]) -> None:
        """Call ``function`` once the last request has ended."""
        self._after.append(function)

    def close(self) -> Awaitable[None]:
        """Begin to stop: refuse new requests, let those under way end.

        Returns:
            What `wait_closed` returns, so that ``await server.close()`` does both.
        """
        self._running.stop()
        return self.wait_closed()

    def wait_closed(self) -> Awaitable[None]:
        """Return what can be awaited for the end of the server and the teardown behind it.

        It raises what the teardown raises.
        """
        return _End(self._ended)

    def is_closed(self) -> bool:
        """Tell whether the server has ended, and all that was to be done then."""
        return self._ended.done()

    async def _run(self) -> None:
        try:
            await self._running.run_until_stopped(self._sock)
        finally:
            for function in self._after:
                await function()


class _End:
    """Waits for a task only where it is awaited itself, and never cancels it."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.shield(self._task).__await__()


class _Uvicorn(uvicorn.Server):
    """uvicorn's server, which leaves signals to the program it runs in and stops at once.

    Args:
        config: Its options.
        linger: For how many seconds of its end connections are still read that owe nothing: a
            request may be on its way on them, and gets an answer that closes the connection.
    """

    def __init__(self, config: uvicorn.Config, linger: float) -> None:
        super().__init__(config)
        self.lifespan = config.lifespan_class(config)
        self._linger = linger
        self._stopping = asyncio.Event()
        self._has_descriptors = True

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def run_until_stopped(self, sock: socket.socket) -> None:
        try:
            await self.main_loop()
            if self._linger:
                self._announce_the_end()
                await self._accept_the_last(sock)
                await self._serve_the_last()
        finally:
            await self.shutdown([sock])
            await self._cut_off()

    async def main_loop(self) -> None:
        # Every second it renews the header Date, and counts requests where a limit is set.
        while not await self.on_tick(0):
            self._look_for_descriptors()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_SECONDS)

    async def _wait_tasks_to_complete(self) -> None:
        try:
            await super()._wait_tasks_to_complete()
        except asyncio.CancelledError:  # the time is up, and uvicorn is about to cancel requests
            stopping = Unavailable("The server is stopping, and the request took too long")
            for connection in tuple[Any, ...](self.server_state.connections):
                if hasattr(connection, "cut_short"):  # a WebSocket has none
                    connection.cut_short(stopping)
            raise

    def _look_for_descriptors(self) -> None:
        """Log when there are no descriptors left: the event loop drops connections in silence."""
        had, self._has_descriptors = self._has_descriptors, _has_descriptors()
        if had and not self._has_descriptors:
            _log.error(
                "no file descriptors are left (%d connections): new ones are dropped; raise the"
                " limit (ulimit -n, LimitNOFILE= of systemd) or start more workers",
                len(self.server_state.connections),
            )
        elif self._has_descriptors and not had:
            _log.warning("there are file descriptors again; connections are taken")

    def _announce_the_end(self) -> None:
        """Have every answer from here on close its connection, and say so."""
        state = self.server_state
        state.default_headers = [*state.default_headers, (b"connection", b"close")]
        for connection in state.connections:
            cycle: Any = getattr(connection, "cycle", None)
            if cycle is not None and not cycle.response_complete:
                cycle.keep_alive = False

    async def _accept_the_last(self, sock: socket.socket) -> None:
        """Take the connections that the system has accepted, and no more.

        To their clients they are open, and requests may have been sent on them. Between the look
        that finds no more and the end of listening nothing else runs here.
        """
        waiting = []
        while True:
            try:
                waiting.append(sock.accept()[0])
            except ConnectionAbortedError:
                continue
            except OSError:  # there are no more
                break
        for server in self.servers:
            server.close()
        await asyncio.gather(*map(self._take, waiting))

    async def _take(self, connection: socket.socket) -> None:
        """Read a connection that is accepted; one that does not get to a handshake is dropped."""
        tls = self.config.ssl
        connection.setblocking(False)
        with contextlib.suppress(OSError):  # its client is gone already, or silent
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                connection,
                ssl=tls,
                ssl_handshake_timeout=self._linger if tls else None,
            )

    async def _serve_the_last(self) -> None:
        """Answer what comes in on connections that are open, for as long as there are some."""
        clock = asyncio.get_running_loop().time
        until = clock() + self._linger
        while self.server_state.connections and clock() < until:  # noqa: ASYNC110  # none tells
            await asyncio.sleep(_LOOK_SECONDS)

    def _protocol(self) -> Any:
        config: Any = self.config
        return config.http_protocol_class(
            config=config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def _cut_off(self) -> None:
        """End what did not end in time: uvicorn has cancelled those requests."""
        tasks = {task for task in self.server_state.tasks if not task.done()}
        if tasks:
            await asyncio.wait(tasks, timeout=UNWIND_SECONDS)
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()


def _has_descriptors() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in {errno.EMFILE, errno.ENFILE}
    return True


async def start_server(app: Any, port: int, host: str, **options: Any) -> Server:
    """Start a server for an ASGI application.

    Args:
        app: The application.
        port: TCP port, 0 for any that is free.
        host: Address to listen on.
        options: Those of `ConnectionLimits`, ``allow_unguarded_http``, and of ``uvicorn.Config``,
            such as ``ssl_certfile``.

    Raises:
        OSError: The port cannot be had; the message says which.
        ValueError: ``port`` is not a port, or a limit not a positive number.
        TypeError: An option does not exist, or ``http`` is a class that cannot be guarded.
    """
    running = _configured(app, options)
    sock = listen_on_port(host, port)
    server = Server(running, sock)
    try:
        return await server.start()
    except BaseException:
        sock.close()
        raise


def prepare_server(app: Any, sock: socket.socket, *, linger: float = 0, **options: Any) -> Server:
    """Return a server for a socket that listens already, which `Server.start` starts.

    Args:
        app: The application.
        sock: The socket; other processes may share it.
        linger: For how many seconds, once it closes, requests are still answered that arrive on
            connections which are open.
        options: As in `start_server`.

    Raises:
        TypeError: An option does not exist.
    """
    return Server(_configured(app, options, linger), sock)


def quickest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of the quickest event loop here: uvloop where it is installed."""
    return uvicorn.Config("", log_config=None).get_loop_factory()


def _configured(app: Any, options: dict[str, Any], linger: float = 0) -> _Uvicorn:
    names = [name for name in ConnectionLimits.__dataclass_fields__ if name in options]
    limits = ConnectionLimits(**{name: options.pop(name) for name in names})
    allow_unguarded = options.pop("allow_unguarded_http", False)
    settings: dict[str, Any] = {
        "lifespan": "off",  # the application runs its own, after the server has started
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,  # X-Forwarded-For says what a client likes, unless a proxy sets it
        "timeout_graceful_shutdown": GRACE_SECONDS,
        "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        **options,
    }
    config = uvicorn.Config(app, **settings)
    config.load()
    config.http_protocol_class = guarded(
        config.http_protocol_class, limits, allow_unguarded=allow_unguarded
    )
    return _Uvicorn(config, linger)


# -- what is needed of uvicorn ---------------------------------------------------------------------

_METHODS: Final = {
    "Server": {
        "startup": "self sockets",
        "main_loop": "self",
        "on_tick": "self counter",
        "shutdown": "self sockets",
        "_wait_tasks_to_complete": "self",
    },
    "HttpToolsProtocol": {
        "on_header": "self name value",
        "on_headers_complete": "self",
        "on_body": "self body",
    },
    "H11Protocol": {"handle_events": "self"},
}
"""Methods of uvicorn's classes that are called or overridden, with their parameters."""

_METHODS_OF_PROTOCOLS: Final = {
    "__init__": "self config server_state app_state _loop",
    "connection_made": "self transport",
    "connection_lost": "self exc",
    "data_received": "self data",
    "on_response_complete": "self",
    "send_400_response": "self msg",
}
"""As `_METHODS`, of each protocol."""

_ATTRIBUTES: Final = {
    "connections": "",
    "flow": "read_paused write_paused",
    "cycle": "scope transport body more_body keep_alive disconnected logger response_started"
    " response_complete",
    "scope": "",
    "server_state": "connections tasks default_headers",
    "timeout_keep_alive_task": "",
}
"""What each connection has, and what that has."""


def check_uvicorn() -> None:
    """Hold that uvicorn has what is needed of it, and that the guards work in its protocols.

    Raises:
        ImportError: Something is missing; the text names it, and the versions that work.
    """
    try:
        _check_methods(uvicorn.Server, _METHODS["Server"])
        for protocol in guards():
            _check_methods(protocol, {**_METHODS[protocol.__name__], **_METHODS_OF_PROTOCOLS})
            _try_out(protocol)
    except Exception as error:
        raise unsupported_uvicorn(error) from error


def _check_methods(owner: type, methods: Mapping[str, str]) -> None:
    for name, parameters in methods.items():
        method = getattr(owner, name, None)
        if method is None or method is getattr(asyncio.Protocol, name, None):
            raise LookupError(f"{owner.__name__} has no method {name}")
        found = " ".join(inspect.signature(method).parameters)
        if found != parameters:
            raise LookupError(f"{owner.__name__}.{name} takes ({found}), not ({parameters})")


def _try_out(protocol: type[asyncio.Protocol]) -> None:
    """Send requests to a guarded protocol, without a socket, and look whether the guard sees them.

    Raises:
        LookupError: It does not, or an attribute is missing.
    """
    probe = _Probe(protocol)
    connection = probe.connection
    connection.data_received(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{")
    for name, inner in _ATTRIBUTES.items():
        for attribute in inner.split():
            if not hasattr(getattr(connection, name), attribute):
                raise LookupError(f"{protocol.__name__}.{name} has no attribute {attribute}")
    other = _Probe(protocol)
    other.connection.data_received(b"this is not HTTP\r\n\r\n")
    seen = {
        "its connections": connection in connection.connections,
        "its timers": probe.timers == 1,
        "the head of a request": isinstance(connection.cycle.transport, JoinedWrites),
        "the body of a request": connection.owed() is connection.cycle,
        "what it refuses": b'"code":400' in other.written and other.is_closed,
    }
    for name, is_seen in seen.items():
        if not is_seen:
            raise LookupError(f"{protocol.__name__} does not show {name} to its guard")


class _Probe:
    """A connection without a socket; its event loop, tasks and transport are this object."""

    def __init__(self, protocol: type[asyncio.Protocol]) -> None:
        self.timers = 0
        self.written = b""
        self.is_closed = False
        settings: Any = {"ws": "none", "lifespan": "off", "log_config": None}
        config = uvicorn.Config(_Probe, http=protocol, proxy_headers=False, **settings)
        config.load()
        made: Any = guarded(protocol)
        self.connection: Any = made(config, ServerState(), {}, self)
        self.connection.logger = logging.Logger("silent", logging.CRITICAL)
        self.connection.connection_made(self)

    def call_later(self, *_: Any) -> Any:
        self.timers += 1
        return self

    def create_task(self, coroutine: Any, **_: Any) -> Any:
        coroutine.close()
        return self

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_: None

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True


check_uvicorn()
