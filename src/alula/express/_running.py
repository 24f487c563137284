"""`app.run`: a server for as long as a script runs, with signals to end it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from alula._events import loop_is_running
from alula._sockets import ListenError
from alula.express._server import Server, quickest_loop

__all__ = ["run_until_signal"]


def run_until_signal(listen: Callable[[], Coroutine[Any, Any, Server]]) -> None:
    """Start a server, and return once SIGINT (Ctrl+C) or SIGTERM has ended it in an orderly way.

    Args:
        listen: Starts the server.

    Raises:
        RuntimeError: An event loop is running here already.
        SystemExit: The port is not free; a line on the standard error says which.
        KeyboardInterrupt: A second Ctrl+C did not wait for the requests under way.
        Exception: Whatever ``listen`` raises, or the teardown.
    """

    async def serve() -> None:
        server = await listen()
        with _on_signals(server.close):
            print(f"listening on {server.url}", flush=True)  # noqa: T201  # a script has no log
            await server.wait_closed()

    if loop_is_running():
        raise RuntimeError("run() is for scripts; in a running loop write `await app.listen(port)`")
    try:
        with asyncio.Runner(loop_factory=quickest_loop()) as runner:
            runner.run(serve())
    except ListenError as error:  # a stack would say nothing more to the author of a script
        raise SystemExit(error.strerror) from None


@contextmanager
def _on_signals(close: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """Call ``close`` on the first signal to end; the second does what it did before."""
    loop = asyncio.get_running_loop()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(*_: Any) -> None:
        restore()
        loop.call_soon_threadsafe(close)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        restore()
