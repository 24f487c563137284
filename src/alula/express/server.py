"""uvicorn below `listen`: a socket of our own, no signal handlers, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Self

import uvicorn

from alula.express.head_limits import guarded
from alula.listening import listen_at_port, url_of

__all__ = ["Server", "prepare_server", "start_server"]

GRACE_SECONDS = 30
"""How long requests that are under way may still take once the server closes."""

UNWIND_SECONDS = 5
"""How long requests that were cancelled after that may take to clean up."""

_LOOK_SECONDS = 0.02


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
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), 1)

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


async def start_server(app: Any, port: int, host: str, **options: Any) -> Server:
    """Start a server for an ASGI application.

    Args:
        app: The application.
        port: TCP port, 0 for any that is free.
        host: Address to listen on.
        options: Further options of ``uvicorn.Config``, such as ``ssl_certfile``.

    Raises:
        OSError: The port can not be had; the message says which.
        ValueError: ``port`` is no port.
        TypeError: An option does not exist.
    """
    running = _configured(app, options)
    sock = listen_at_port(host, port)
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


def _configured(app: Any, options: dict[str, Any], linger: float = 0) -> _Uvicorn:
    settings: dict[str, Any] = {
        "lifespan": "off",  # the application runs its own, after the server has started
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,  # X-Forwarded-For says what a client likes, unless a proxy sets it
        "timeout_graceful_shutdown": GRACE_SECONDS,
        **options,
    }
    config = uvicorn.Config(app, **settings)
    config.load()
    config.http_protocol_class = guarded(config.http_protocol_class)
    return _Uvicorn(config, linger)
