"""The lifespan around the server of an application; a gate holds requests until setup is done."""

from __future__ import annotations

import asyncio
import signal
import threading
import traceback
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from types import FrameType
from typing import Any, TypeAlias

from starlette.types import Receive, Scope, Send

from alula.express._server import Server

__all__ = ["Lifespan", "LifespanTask", "ServerSlot", "StartupGate", "run_asgi_lifespan"]

Lifespan: TypeAlias = Callable[[Server | None], AbstractAsyncContextManager[Mapping[str, Any]]]
"""Makes a context around all requests. It gets the server, and yields the state of requests."""


class StartupGate:
    """Holds requests while an application is set up."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self._admits = False

    def open(self, *, admits: bool) -> None:
        """Admit or refuse the requests that wait, and all that follow; the first call decides."""
        if not self._opened.is_set():
            self._admits = admits
            self._opened.set()

    async def admits(self) -> bool:
        """Wait until the gate is open, and tell whether requests may pass."""
        await self._opened.wait()
        return self._admits


class LifespanTask:
    """A lifespan in a task of its own.

    Cancel scopes and task groups, which people have in their lifespans, must be left in the task
    that entered them.

    Args:
        lifespan: Makes the context.
        server: Gets passed to it.
    """

    def __init__(self, lifespan: Lifespan, server: Server) -> None:
        self._context = lifespan(server)
        self._leaving = asyncio.Event()
        self._entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run())

    async def enter(self) -> None:
        """Return once the context is entered.

        Raises:
            Exception: What entering the context raises.
        """
        try:
            await asyncio.shield(self._entered)
        except asyncio.CancelledError:
            if not self._entered.done():
                self._task.cancel()
            raise

    async def leave(self) -> None:
        """Leave the context, if it was entered; return once it is left.

        Raises:
            Exception: What leaving the context raises.
        """
        self._leaving.set()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    async def _run(self) -> None:
        entered = self._entered
        try:
            async with self._context:
                entered.set_result(None)
                await self._leaving.wait()
        except BaseException as error:
            if entered.done() or not isinstance(error, Exception):
                entered.cancel()
                raise
            entered.set_exception(error)


class ServerSlot:
    """The one server that an application may have at a time, and the lifespan around it.

    Args:
        lifespan: The lifespan of the application.
        on_stop: Called when the server begins to stop.

    Attributes:
        gate: Holds requests while the application is set up; None when they may pass.
    """

    def __init__(self, lifespan: Lifespan, on_stop: Callable[[], object]) -> None:
        self.gate: StartupGate | None = None
        self._on_stop = on_stop
        self._lifespan = lifespan
        self._server: Server | None = None
        self._is_starting = False

    async def start_before_setup(self, start: Callable[[], Coroutine[Any, Any, Server]]) -> Server:
        """Start a server, then enter the lifespan; requests that arrive in between wait.

        Raises:
            RuntimeError: The application has a server already.
            Exception: What ``start`` or the lifespan raises; the server is closed then.
        """
        with self._starting():
            gate = self.gate = StartupGate()
            try:
                server = await start()
                lifespan = self._add_lifespan(server)
                try:
                    await lifespan.enter()
                except BaseException:
                    gate.open(admits=False)
                    await server.close()
                    raise
                self._server = server
                gate.open(admits=True)
                return server
            finally:
                gate.open(admits=False)  # only if it is not open yet
                self.gate = None

    async def start_after_setup(self, server: Server) -> Server:
        """Enter the lifespan, then start a server.

        Raises:
            RuntimeError: The application has a server already.
            Exception: What the lifespan or the start raises; the lifespan is left then.
        """
        with self._starting():
            lifespan = self._add_lifespan(server)
            try:
                await lifespan.enter()
                await server.start()
            except BaseException:
                await lifespan.leave()
                raise
            self._server = server
            return server

    async def admits(self, scope: Scope, early_paths: Collection[str]) -> bool:
        """Wait for the gate, unless a request is for one of the early paths, such as a probe."""
        scope_type = scope["type"]
        if scope_type == "lifespan" or (scope_type == "http" and scope["path"] in early_paths):
            return True
        return self.gate is None or await self.gate.admits()

    async def close(self) -> None:
        """Close the server, if there is one.

        Raises:
            Exception: What leaving the lifespan raises.
        """
        if self._server is not None:
            await self._server.close()

    @contextmanager
    def _starting(self) -> Generator[None]:
        server = self._server
        if self._is_starting or (server is not None and not server.is_closed()):
            place = "is starting one" if server is None else f"listens on {server.url}"
            raise RuntimeError(
                f"an application has one server at a time, and this one {place} already; close"
                " that server first (await server.close()), or make a second application"
            )
        self._server, self._is_starting = None, True
        try:
            yield
        finally:
            self._is_starting = False

    def _add_lifespan(self, server: Server) -> LifespanTask:
        lifespan = LifespanTask(self._lifespan, server)
        server.on_end(lifespan.leave)
        server.on_stop(self._on_stop)
        return lifespan


@contextmanager
def told_of_signals(on_stop: Callable[[], object]) -> Generator[None]:
    """Call a function when a signal tells a foreign server to stop, until the end of the block.

    Such a server waits for its open responses before it says by the lifespan that it stops, so an
    event stream would keep it running. Its own handler of the signal runs afterwards. A process
    without such a handler ends by the signal, so nothing changes there.
    """
    loop = asyncio.get_running_loop()
    ours: dict[int, tuple[Callable[[int, FrameType | None], None], Any]] = {}
    # Python allows signal handlers in the main thread alone.
    is_main = threading.current_thread() is threading.main_thread()
    for number in (signal.SIGINT, signal.SIGTERM) if is_main else ():
        of_server = signal.getsignal(number)
        if not callable(of_server) or of_server is signal.default_int_handler:
            continue

        def handle(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(on_stop)
            ours[number][1](number, frame)

        ours[number] = handle, of_server
        signal.signal(number, handle)
    try:
        yield
    finally:
        for caught, (handler, of_server) in ours.items():
            if signal.getsignal(caught) is handler:  # else the server has restored its own
                signal.signal(caught, of_server)


async def run_asgi_lifespan(
    lifespan: Lifespan,
    scope: Scope,
    receive: Receive,
    send: Send,
    on_stop: Callable[[], object],
) -> None:
    """Run a lifespan for a server that speaks ASGI's lifespan protocol.

    Args:
        lifespan: The lifespan.
        scope: Of the protocol.
        receive: Of the protocol.
        send: Of the protocol.
        on_stop: Called when a signal tells the server to stop, before the lifespan ends.

    Raises:
        Exception: What the lifespan raises; the server gets its stack before.
    """
    stage = "startup"
    await receive()
    try:
        async with lifespan(None) as state:
            if state and "state" in scope:
                scope["state"].update(state)
            with told_of_signals(on_stop):
                await send({"type": "lifespan.startup.complete"})
                stage = "shutdown"
                await receive()
    except Exception:
        message = traceback.format_exc()
        await send({"type": f"lifespan.{stage}.failed", "message": message})
        raise
    await send({"type": "lifespan.shutdown.complete"})
