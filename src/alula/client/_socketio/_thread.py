"""The connection of a synchronous client: its event loop in a thread, its listeners in another."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from alula.client._socketio._session import Answer, SocketRequest
from alula.client._socketio._streams import EventBuffer
from alula.client._socketio._transport import SocketioTransport
from alula.client._transport import SendOptions, SyncTransport
from alula.errors import FrameworkError

__all__ = ["BlockingSocketioTransport", "ListenerThread"]

T = TypeVar("T")

_log: Final = logging.getLogger("alula.client")


class BlockingSocketioTransport(SyncTransport[SocketRequest, Answer]):
    """Runs a `SocketioTransport` in a thread, so that events arrive while nobody calls.

    Args:
        transport: What it runs.
        listeners: Ends with it.
    """

    # The threads are daemons: a script that forgets to close its client ends all the same.

    def __init__(self, transport: SocketioTransport, listeners: ListenerThread) -> None:
        self.transport = transport
        self._listeners = listeners
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def send(self, request: SocketRequest, options: SendOptions) -> Answer:
        """Send a call and return the answer; time limits and signals work as without a thread."""
        return self._run(self.transport.send(request, options))

    def start(self) -> None:
        """Connect in the background."""

        async def start() -> None:
            self.transport.start()

        self._run(start())

    async def open(self, request: SocketRequest) -> None:
        """Wait until the connection is ready (see `SocketioTransport.open`)."""
        self._run(self.transport.open(request))

    async def close(self) -> None:
        """Close the connection and end the threads."""
        if self._loop is not None and self._thread is not None:
            loop, thread = self._loop, self._thread
            # `is_alive` also finds out that this process is a fork, which has no such thread.
            if thread.is_alive():
                self._run(self.transport.close())
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
            loop.close()
            self._loop = self._thread = None
        self._listeners.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread and wait for it; an interrupt cancels it."""
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="alula-socketio", daemon=True
            )
            self._thread.start()
        running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise


class ListenerThread:
    """Calls listeners one after the other, in a thread that the first event starts.

    Not in the thread of the connection: a listener may call services, and waits for them.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._buffer: EventBuffer[Callable[[], object]] = EventBuffer()
        self._is_running = False
        self._is_closed = False

    def call(self, listener: Callable[[], object]) -> None:
        """Call a listener soon. If too many wait, it is not called, and the log says so."""
        with self._changed:
            self._is_closed = False
            self._buffer.put(listener)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="alula-listeners", daemon=True).start()
            self._changed.notify()

    def close(self) -> None:
        """End the thread after the listeners that wait. Does not wait for it."""
        # Not joined: a listener may be what closes the client.
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._buffer:
                    if self._is_closed:
                        self._is_running = False
                        return
                    self._changed.wait()
                try:
                    listener = self._buffer.take()
                except FrameworkError as error:
                    _log.error("listeners are too slow: %s", error)  # no traceback
                    continue
            try:
                listener()
            except Exception:  # noqa: BLE001  # the next listener must be called all the same
                # Such as a coroutine function, which has no event loop here.
                _log.exception("a listener failed")
