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

__all__ = ["Server", "start_server", "url_of"]

GRACE_SECONDS = 30
"""How long requests that are under way may still take once the server closes."""

UNWIND_SECONDS = 5
"""How long requests that were cancelled after that may take to clean up."""

_REACHABLE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # every address -> one to open


class Server:
    """A running HTTP server, which closes at the end of ``async with server:``.

    Attributes:
        host: Address it listens on.
        port: The real port, also where 0 was asked for.
        url: What to open.
    """

    def __init__(self, running: _Uvicorn, sock: socket.socket) -> None:
        self.host: str
        self.port: int
        self.host, self.port = sock.getsockname()[:2]
        self.url = url_of("https" if running.config.is_ssl else "http", self.host, self.port)
        self._running = running
        self._after: list[Callable[[], Awaitable[Any]]] = []
        self._ended = asyncio.create_task(self._run(sock))

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

    async def _run(self, sock: socket.socket) -> None:
        try:
            await self._running.run_until_stopped(sock)
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
    """uvicorn's server, which leaves signals to the program it runs in and stops at once."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.lifespan = config.lifespan_class(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def run_until_stopped(self, sock: socket.socket) -> None:
        try:
            await self.main_loop()
        finally:
            await self.shutdown([sock])
            await self._cut_off()

    async def main_loop(self) -> None:
        # Every second it renews the header Date, and counts requests where a limit is set.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), 1)

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
    running = _Uvicorn(config)
    sock = _bind(host, port)
    try:
        await running.startup([sock])
    except BaseException:
        sock.close()
        raise
    return Server(running, sock)


def url_of(scheme: str, host: str, port: int) -> str:
    """Return the URL to open for a server that listens on an address."""
    host = _REACHABLE.get(host, host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _bind(host: str, port: int) -> socket.socket:
    if not isinstance(port, int) or not 0 <= port <= 65535:
        raise ValueError(f"can not listen on the port {port!r}; a port is a number up to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sends each part at once; otherwise the second part of an
    # answer waits some 40 ms for the first to be acknowledged.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen()
    except OSError as error:
        sock.close()
        raise OSError(
            error.errno, f"can not listen on {host}:{port}: {error.strerror}; choose another port"
        ) from None
    sock.setblocking(False)
    return sock
