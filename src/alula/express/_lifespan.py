"""A lifespan shared by several servers, and a gate that holds requests until setup is done."""

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

__all__ = ["Lifespan", "ServerGroup", "SharedLifespan", "StartupGate", "run_asgi_lifespan"]

Lifespan: TypeAlias = Callable[[Server | None], AbstractAsyncContextManager[Mapping[str, Any]]]
"""Makes a context around all requests. It gets the first server, and yields their state."""


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


class SharedLifespan:
    """A context that several servers share: entered for the first, left after the last.

    It is entered and left in a task of its own, because cancel scopes and task groups, which
    people have in their lifespans, must be left in the task that entered them.

    Args:
        lifespan: Makes the context.
    """

    def __init__(self, lifespan: Lifespan) -> None:
        self._lifespan = lifespan
        self._servers = 0
        self._task: asyncio.Task[None] | None = None
        self._entered: asyncio.Future[None]
        self._leaving: asyncio.Event

    async def enter(self, server: Server) -> None:
        """Enter the context if this is the first server; return once it is entered.

        Every `enter` needs a `leave`, also if it raises.

        Raises:
            Exception: What entering the context raises.
        """
        self._servers += 1
        if self._task is None:
            # Variables of their own for each run: a next one may start before this one has ended.
            entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            leaving = asyncio.Event()

            async def run() -> None:
                try:
                    async with self._lifespan(server):
                        entered.set_result(None)
                        await leaving.wait()
                except BaseException as error:
                    if entered.done() or not isinstance(error, Exception):
                        entered.cancel()
                        raise
                    entered.set_exception(error)

            self._entered, self._leaving = entered, leaving
            self._task = asyncio.create_task(run())
        task, entered = self._task, self._entered
        try:
            await asyncio.shield(entered)
        except asyncio.CancelledError:
            if self._servers == 1 and not entered.done():
                task.cancel()  # no other server waits for it
            raise

    async def leave(self) -> None:
        """Leave the context if this was the last server; return once it is left.

        Raises:
            Exception: What leaving the context raises.
        """
        self._servers -= 1
        task = self._task
        if self._servers or task is None:
            return
        self._task = None
        self._leaving.set()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()


class ServerGroup:
    """The running servers of one application, and the lifespan that they share.

    Args:
        lifespan: The lifespan of the application.
        on_stop: Called when a server begins to stop.

    Attributes:
        gate: Holds requests while the application is set up; None when they may pass.
    """

    def __init__(self, lifespan: Lifespan, on_stop: Callable[[], object]) -> None:
        self.gate: StartupGate | None = None
        self._on_stop = on_stop
        self._lifespan = SharedLifespan(lifespan)
        self._servers: list[Server] = []

    async def start_before_setup(self, start: Callable[[], Coroutine[Any, Any, Server]]) -> Server:
        """Start a server, then enter the lifespan; requests that arrive in between wait.

        Raises:
            Exception: What ``start`` or the lifespan raises; the server is closed then.
        """
        gate = self.gate = StartupGate()
        try:
            server = await start()
            server.on_end(self._lifespan.leave)
            server.on_stop(self._on_stop)
            try:
                await self._lifespan.enter(server)
            except BaseException:
                gate.open(admits=self._is_serving())
                await server.close()
                raise
            self._servers.append(server)
            return server
        finally:
            gate.open(admits=self._is_serving())
            if self.gate is gate:
                self.gate = None

    async def start_after_setup(self, server: Server) -> Server:
        """Enter the lifespan, then start a server.

        Raises:
            Exception: What the lifespan or the start raises; the lifespan is left then.
        """
        server.on_end(self._lifespan.leave)
        server.on_stop(self._on_stop)
        try:
            await self._lifespan.enter(server)
            await server.start()
        except BaseException:
            await self._lifespan.leave()
            raise
        self._servers.append(server)
        return server

    async def admits(self, scope: Scope, early_paths: Collection[str]) -> bool:
        """Wait for the gate, unless a request is for one of the early paths, such as a probe."""
        scope_type = scope["type"]
        if scope_type == "lifespan" or (scope_type == "http" and scope["path"] in early_paths):
            return True
        return self.gate is None or await self.gate.admits()

    async def close(self) -> None:
        """Close all servers, one after the other.

        Raises:
            Exception: What leaving the lifespan raises.
        """
        for server in tuple(self._servers):
            await server.close()

    def _is_serving(self) -> bool:
        self._servers = [server for server in self._servers if not server.is_closed()]
        return bool(self._servers)


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
        for number, (handler, of_server) in ours.items():
            if signal.getsignal(number) is handler:  # else the server has put its own back
                signal.signal(number, of_server)


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
