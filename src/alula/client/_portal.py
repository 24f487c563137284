"""How a synchronous client uses an asynchronous library: in an event loop, in a thread of its own.

Only the exchange with the server happens there. Hooks and listeners run in the thread that calls,
so they may block, and may call services themselves.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from alula.client._failures import connection_failed
from alula.client._per_process import PerProcess
from alula.client._response_stream import AsyncResponseStream, ResponseStream
from alula.client._send_options import SendOptions
from alula.client._transport import AsyncTransport, BlockingTransport, Transport

__all__ = ["Portal", "transport_for"]

T = TypeVar("T")
TransportT = TypeVar("TransportT", bound=AsyncTransport[Any, Any])


class Portal(BlockingTransport[Any, Any], Generic[TransportT]):
    """The transport of a synchronous client: it runs an asynchronous one, and blocks.

    Any number of threads may call at the same time.

    Args:
        make_transport: Returns the asynchronous transport; a forked process makes another one.
    """

    def __init__(self, make_transport: Callable[[], TransportT]) -> None:
        self._here = PerProcess(lambda: _ProcessPortal(make_transport()))
        self._here.get()  # it tells now what is wrong with the transport

    @property
    def transport(self) -> TransportT:
        """The asynchronous transport of this process."""
        return self._here.get().transport

    async def send(self, request: Any, options: SendOptions) -> Any:
        """Send a request and return the response; an interrupt cancels it.

        A stream is read in the event loop, too.

        Raises:
            FrameworkError: As `Transport.send`; `Unavailable` if another thread closes the client.
            RuntimeError: It is called in the event loop of this client.
        """
        response = self.run_for(request, lambda transport: transport.send(request, options))
        if isinstance(response, AsyncResponseStream):
            return _PortalStream(self, response)
        return response

    def run_for(self, request: Any, call: Callable[[TransportT], Coroutine[Any, Any, T]]) -> T:
        """Do the same as `run`, for a request.

        Raises:
            Unavailable: Another thread closes the client.
        """
        try:
            return self.run(call)
        except concurrent.futures.CancelledError:
            failure = connection_failed(request, ConnectionError("the client was closed"))
            raise failure from failure.__cause__

    def run(self, call: Callable[[TransportT], Coroutine[Any, Any, T]]) -> T:
        """Call the transport in its event loop and wait for the result; an interrupt cancels it."""
        return self._here.get().run(call)

    async def close(self) -> None:
        """Close the transport and end the thread; the next call starts another one."""
        self._here.get().close()


def transport_for(
    make: Callable[[], AsyncTransport[Any, Any]], *, synchronous: bool
) -> Transport[Any, Any]:
    """Return what an asynchronous or a synchronous client sends with."""
    return Portal(make) if synchronous else make()


class _PortalStream(ResponseStream):
    """A response that is read in the event loop of a portal.

    Args:
        portal: The portal.
        stream: The response there.
    """

    def __init__(self, portal: Portal[Any], stream: AsyncResponseStream) -> None:
        super().__init__(stream.status, stream.headers, stream.max_size)
        self._portal = portal
        self._stream = stream

    async def read(self) -> Any:
        """Return the next part (see `ResponseStream`)."""
        stream = self._stream
        if stream.is_closed:  # that waits for nothing, and its event loop may have ended
            return await stream.read()
        return self._portal.run_for(stream.request, lambda _: stream.read())

    async def aclose(self) -> None:
        """End the request."""
        if not self._stream.is_closed:
            self._portal.run(lambda _: self._stream.aclose())

    def close_soon(self) -> None:
        """End the request, from any thread and without waiting."""
        self._stream.close_soon()


class _ProcessPortal(Generic[TransportT]):
    """What a portal has in one process."""

    def __init__(self, transport: TransportT) -> None:
        self.transport = transport
        self._lock = threading.Lock()
        self._thread: _LoopThread | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None

    def run(self, call: Callable[[TransportT], Coroutine[Any, Any, T]]) -> T:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._forget_thread()
                self._thread = _LoopThread(self.transport)
                # A client that nobody closes, and that nobody has any more, leaves no thread.
                self._finalizer = weakref.finalize(self, self._thread.end)
                self._finalizer.atexit = False
            if threading.current_thread() is self._thread:
                raise RuntimeError(
                    "a synchronous client was called in its own event loop, which would wait for"
                    " itself for ever; await an asynchronous client there"
                )
            loop = self._thread.loop
        interruptible = _Interruptible(call, self.transport)
        try:
            return asyncio.run_coroutine_threadsafe(interruptible.run(), loop).result()
        except BaseException:
            # Not by the future of the call: an interrupt may come before it is returned.
            with suppress(RuntimeError):  # the loop has ended, and so has the call
                loop.call_soon_threadsafe(interruptible.cancel)
            raise

    def close(self) -> None:
        with self._lock:
            thread = self._forget_thread()
        if thread is not None:
            thread.close()

    def _forget_thread(self) -> _LoopThread | None:
        if self._finalizer is not None:
            self._finalizer.detach()
        thread, self._thread = self._thread, None
        return thread


class _Interruptible(Generic[TransportT, T]):
    """A call of the transport that can be cancelled before it has begun, too."""

    def __init__(
        self, call: Callable[[TransportT], Coroutine[Any, Any, T]], transport: TransportT
    ) -> None:
        self._call = call
        self._transport = transport
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False

    async def run(self) -> T:
        """Call the transport."""
        if self._is_cancelled:
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        return await self._call(self._transport)

    def cancel(self) -> None:
        """End the call; in the event loop."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()


class _LoopThread(threading.Thread):
    """An event loop in a thread, for one transport.

    It is a daemon: a script that forgets to close its client ends all the same.
    """

    def __init__(self, transport: AsyncTransport[Any, Any]) -> None:
        super().__init__(name="alula-client", daemon=True)
        self.loop = asyncio.new_event_loop()
        self._transport = transport
        self._ended = asyncio.Event()
        self.start()

    def run(self) -> None:
        # At its end a runner cancels the calls that are under way, so nobody waits for ever. An
        # exit in the user's own code ends it as well; the caller gets that exception, too.
        with (
            suppress(KeyboardInterrupt, SystemExit),
            asyncio.Runner(loop_factory=lambda: self.loop) as runner,
        ):
            runner.run(self._ended.wait())

    def end(self) -> concurrent.futures.Future[None] | None:
        """Begin to close the transport and then the event loop, unless that has ended."""
        if self.loop.is_closed():
            return None
        return asyncio.run_coroutine_threadsafe(self._close_transport(), self.loop)

    async def _close_transport(self) -> None:
        try:
            await self._transport.close()
        finally:
            self._ended.set()

    def close(self) -> None:
        """Close the transport and the event loop, and wait for it."""
        try:
            ended = self.end()
            if ended is not None:
                ended.result()
        finally:
            # An interrupt may have ended the wait, or come before it.
            with suppress(RuntimeError):  # the loop has ended
                self.loop.call_soon_threadsafe(self._ended.set)
            self.join()
