"""`Server`: what `listen` returns; and how scripts run one until a signal comes."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from starlette.types import ASGIApp

from alula._events import loop_is_running
from alula._sockets import ListenError, listen_on_port, url_of

if TYPE_CHECKING:
    from alula.express._http1 import HTTPServer

__all__ = ["Server", "freeze_heap", "prepare_server", "run_until_signal", "start_server"]


class Server:
    """A running HTTP server, which closes at the end of ``async with server:``.

    Attributes:
        host: Address it listens on; the path of a Unix socket.
        port: The real port, also where 0 was asked for; 0 for a Unix socket.
        url: What to open.
    """

    def __init__(self, http_server: HTTPServer, sock: socket.socket) -> None:
        name: tuple[Any, ...] | str = sock.getsockname()
        self.host: str
        self.port: int
        self.host, self.port = name[:2] if isinstance(name, tuple) else (name, 0)
        self.url = url_of("https" if http_server.is_ssl else "http", name)
        self._http_server = http_server
        self._sock = sock
        self._at_end: list[Callable[[], Awaitable[object]]] = []
        self._at_stop: list[Callable[[], object]] = []
        self._ended: asyncio.Task[None]

    def __repr__(self) -> str:
        return f"<Server {self.url}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> Self:
        """Accept connections; only a server of `prepare_server` has not started yet.

        Raises:
            Exception: What keeps the server from starting.
        """
        await self._http_server.startup([self._sock])

        async def run() -> None:
            try:
                await self._http_server.run_until_stopped(self._sock)
            finally:
                for function in self._at_end:
                    await function()

        self._ended = asyncio.create_task(run())
        return self

    def on_end(self, function: Callable[[], Awaitable[object]]) -> None:
        """Call ``function`` once the last request has ended."""
        self._at_end.append(function)

    def on_stop(self, function: Callable[[], object]) -> None:
        """Call ``function`` when the server begins to stop."""
        self._at_stop.append(function)

    def close(self) -> Awaitable[None]:
        """Begin to stop: refuse new requests, let those under way end.

        Returns:
            What `wait_closed` returns, so that ``await server.close()`` does both.
        """
        self._http_server.stop()
        for function in self._at_stop:
            function()
        return self.wait_closed()

    def wait_closed(self) -> Awaitable[None]:
        """Return an awaitable for the end of the server and of the teardown behind it.

        It raises what the teardown raises.
        """
        return _End(self._ended)

    def is_closed(self) -> bool:
        """Tell whether the server has ended, and the teardown behind it."""
        return self._ended.done()


class _End:
    """Waits for a task only if it is awaited itself, and never cancels it."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.shield(self._task).__await__()


async def start_server(app: ASGIApp, port: int, host: str, **options: Any) -> Server:
    """Start a server for an ASGI application.

    Args:
        app: The application.
        port: TCP port, 0 for any that is free.
        host: Address to listen on.
        options: Those of `http_server`.

    Raises:
        OSError: The server cannot listen on the port; the message says which.
        ValueError: ``port`` is not a port, or a limit not a positive number.
        TypeError: An option does not exist, or ``http`` is a class that cannot be guarded.
    """
    http_server = _make_http_server(app, options)
    sock = listen_on_port(host, port)
    server = Server(http_server, sock)
    try:
        return await server.start()
    except BaseException:
        sock.close()
        raise


def prepare_server(
    app: ASGIApp, sock: socket.socket, *, late_request_seconds: float = 0, **options: Any
) -> Server:
    """Return a server for a listening socket, which `Server.start` starts.

    Args:
        app: The application.
        sock: The socket; other processes may share it.
        late_request_seconds: How long after ``close()`` requests are still served that arrive on
            open connections.
        options: As in `start_server`.

    Raises:
        TypeError: An option does not exist.
    """
    return Server(_make_http_server(app, options, late_request_seconds), sock)


def _make_http_server(
    app: ASGIApp, options: dict[str, Any], late_request_seconds: float = 0
) -> HTTPServer:
    # Tests, commands and other servers do not need uvicorn, and it takes 15 % of an import.
    from alula.express._http1 import http_server  # noqa: PLC0415  # when a server starts

    return http_server(app, options, late_request_seconds)


def freeze_heap() -> None:
    """Leave what a process has loaded so far out of its garbage collections.

    For processes that do nothing but serve. A full collection of an application with SQLAlchemy
    takes 45 ms, in which no request is served, and under load there are two in a second: gets on
    SQLite have a p99 of 38 ms with these, and of 15 without.
    """
    gc.collect()
    gc.freeze()


def run_until_signal(listen: Callable[[], Coroutine[Any, Any, Server]]) -> None:
    """Start a server, and return once SIGINT (Ctrl+C) or SIGTERM has stopped it gracefully.

    Args:
        listen: Starts the server.

    Raises:
        RuntimeError: An event loop is running here already.
        SystemExit: The port is not free; a line on the standard error says which.
        KeyboardInterrupt: A second Ctrl+C did not wait for the requests under way.
        Exception: What ``listen`` raises, or the teardown.
    """

    async def serve() -> None:
        server = await listen()
        loop = asyncio.get_running_loop()

        def restore_handlers() -> None:
            for number, handler in handlers.items():
                signal.signal(number, handler)

        def stop(*_: object) -> None:
            # So that a second signal does what it did before: Ctrl+C ends the script at once.
            restore_handlers()
            loop.call_soon_threadsafe(server.close)

        handlers = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            freeze_heap()
            print(f"listening on {server.url}", flush=True)  # noqa: T201  # a script has no log
            await server.wait_closed()
        finally:
            restore_handlers()

    if loop_is_running():
        raise RuntimeError("run() is for scripts; in a running loop write `await app.listen(port)`")
    from alula.express._http1 import fastest_loop  # noqa: PLC0415  # as in `_make_http_server`

    try:
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(serve())
    except ListenError as error:  # a stack would say nothing more to the author of a script
        raise SystemExit(error.strerror) from None
