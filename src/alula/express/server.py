"""uvicorn below `listen`: a socket of our own, no signal handlers, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn

__all__ = ["Server", "start_server"]

GRACE_SECONDS = 30
"""How long requests that are under way may still take once the server closes."""


class Server:
    """A running HTTP server.

    Attributes:
        host: Address it listens on.
        port: The real port, also where 0 was asked for.
        url: What to open.
    """

    def __init__(self, server: _Uvicorn, sock: socket.socket) -> None:
        self.host, self.port = sock.getsockname()[:2]
        scheme = "https" if server.config.is_ssl else "http"
        name = f"[{self.host}]" if ":" in self.host else self.host
        self.url = f"{scheme}://{name}:{self.port}"
        self._server = server
        self._serving = asyncio.ensure_future(server.serve([sock]))
        self._after: list[Callable[[], Awaitable[Any]]] = []
        self._ended: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Server {self.url}>"

    def on_end(self, function: Callable[[], Awaitable[Any]]) -> None:
        """Call ``function`` once the last request has ended."""
        self._after.append(function)

    def close(self) -> Awaitable[None]:
        """Begin to stop: refuse new requests, let those under way end. May be awaited."""
        self._server.should_exit = True
        return self.wait_closed()

    def wait_closed(self) -> Awaitable[None]:
        """Wait until the server has ended and the application is torn down."""
        if self._ended is None:
            self._ended = asyncio.ensure_future(self._end())
        return asyncio.shield(self._ended)

    async def started(self) -> None:
        """Wait until it takes requests."""
        begun = asyncio.ensure_future(self._server.begun.wait())
        await asyncio.wait({begun, self._serving}, return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            begun.cancel()
            await self._serving

    async def _end(self) -> None:
        try:
            await asyncio.shield(self._serving)
        finally:
            for function in self._after:
                await function()


class _Uvicorn(uvicorn.Server):
    """uvicorn's server, which leaves signals to the program it runs in."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()


async def start_server(app: Any, port: int, host: str, **options: Any) -> Server:
    """Start a server for an ASGI application.

    Args:
        app: The application.
        port: TCP port, 0 for any that is free.
        host: Address to listen on.
        options: Further options of ``uvicorn.Config``, such as ``ssl_certfile``.

    Raises:
        OSError: The port can not be had; the message says which.
    """
    settings: dict[str, Any] = {
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": GRACE_SECONDS,
        **options,
    }
    config = uvicorn.Config(app, **settings)
    config.load()
    server = Server(_Uvicorn(config), _bind(host, port))
    await server.started()
    return server


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OSError(
            error.errno, f"can not listen on {host}:{port}: {error.strerror}; choose another port"
        ) from None
    sock.setblocking(False)
    return sock
