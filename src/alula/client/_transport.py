"""Transports: what sends a request and returns its response, with time limits and abort signals.

Hooks, retries, pages and signing in are written once, in coroutines. An asynchronous transport
waits in the event loop. The transport of a synchronous client blocks, so `run_sync` runs the same
coroutines to their end in one step. Most libraries are asynchronous: `Portal` runs their transport
in an event loop of its own thread, and blocks for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from alula.client._abort import AbortSignal
from alula.client._codec import Sendable
from alula.client._failures import aborted_error, connection_failed, timed_out
from alula.client._response_stream import AsyncResponseStream
from alula.client._send_options import SendOptions
from alula.errors import FrameworkError

__all__ = [
    "READS",
    "REPEATABLE",
    "AsyncTransport",
    "BlockingTransport",
    "Transport",
    "run_sync",
]

T = TypeVar("T")
SentT = TypeVar("SentT", bound=Sendable)
ReceivedT = TypeVar("ReceivedT")
Sent_contra = TypeVar("Sent_contra", contravariant=True)
Received_co = TypeVar("Received_co", covariant=True)

REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE"})
"""HTTP methods that are idempotent (RFC 9110, 9.2.2): the option ``retries`` sends them again."""
READS: Final = frozenset({"GET"})
"""HTTP methods that change nothing.

If a server closes an idle connection just when such a request goes out on it, the transports send
it once more on a new connection, as browsers do. They never do so for others: the server may have
carried out the first request, and a second ``remove`` would find nothing.
"""


class Transport(Protocol[Sent_contra, Received_co]):
    """What a connection sends its requests with."""

    def send(self, request: Sent_contra, options: SendOptions) -> Coroutine[Any, Any, Received_co]:
        """Send a request and return the whole response, or a `ResponseStream`.

        Raises:
            Unavailable: No connection could be made, or it broke.
            Timeout: It took too long.
            Aborted: Its signal aborted it.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def close(self) -> None:
        """Close what it has opened."""
        ...


class AsyncTransport(Generic[SentT, ReceivedT]):
    """A transport in an event loop: timeouts and signals are the same for every library."""

    _streams: set[AsyncResponseStream] | None = None  # those that are open

    async def exchange(self, request: SentT, options: SendOptions) -> ReceivedT:
        """Send a request and return the response; cancelling it closes its connection.

        Of a stream, only the head has arrived then; see `AsyncResponseStream`.
        """
        raise NotImplementedError

    def watch(self, stream: AsyncResponseStream) -> AsyncResponseStream:
        """Return a stream, which `end_streams` then ends."""
        if self._streams is None:
            self._streams = set()
        self._streams.add(stream)
        stream.on_close.append(partial(self._streams.discard, stream))
        return stream

    async def end_streams(self) -> None:
        """End the streams that are open, because the client is closed."""
        for stream in [*(self._streams or ())]:
            reason = ConnectionError("the client was closed")
            await stream.end(connection_failed(stream.request, reason))

    def late(self, request: SentT, seconds: float | None) -> FrameworkError:
        """Return the error for a late response (see `timed_out`)."""
        return timed_out(request, seconds)

    def send(self, request: SentT, options: SendOptions) -> Coroutine[Any, Any, ReceivedT]:
        """Send a request and return the response (see `Transport`)."""
        if options.signal is not None:
            return self._send_with_signal(request, options, options.signal)
        return self._send_in_time(request, options)

    async def _send_in_time(self, request: SentT, options: SendOptions) -> ReceivedT:
        limit = asyncio.timeout(options.timeout)
        try:
            async with limit:
                return await self.exchange(request, options)
        except TimeoutError:  # of this limit, or of a library's own
            failure = self.late(request, options.timeout if limit.expired() else None)
            raise failure from failure.__cause__

    async def _send_with_signal(
        self, request: SentT, options: SendOptions, signal: AbortSignal
    ) -> ReceivedT:
        if signal.aborted:
            raise aborted_error(request)
        loop, cancelled_before = asyncio.get_running_loop(), _cancel_requests()
        sending = loop.create_task(self._send_in_time(request, options))

        def abort() -> None:
            # The loop may have ended, and the request with it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(sending.cancel)

        forget = signal.listen(abort)
        try:
            response = await sending
            if isinstance(response, AsyncResponseStream):
                response.abort_by(signal)
        except asyncio.CancelledError:
            sending.cancel()
            # A caller that cancels this task as well must see its cancellation, not our error.
            if signal.aborted and _cancel_requests() == cancelled_before:
                failure = aborted_error(request)
                raise failure from failure.__cause__
            raise
        else:
            return response
        finally:
            forget()

    async def sleep(self, seconds: float) -> None:
        """Wait in the event loop."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close what it has opened."""


def _cancel_requests() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


class BlockingTransport(Generic[SentT, ReceivedT]):
    """A transport that blocks the thread that calls; its coroutines never wait in an event loop."""

    async def send(self, request: SentT, options: SendOptions) -> ReceivedT:
        """Send a request and return the whole response (see `Transport`)."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        """Block the thread."""
        time.sleep(seconds)  # noqa: ASYNC251  # a synchronous client has no loop to wait in

    async def close(self) -> None:
        """Close what it has opened."""


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits in an event loop, and return its result.

    Raises:
        RuntimeError: It waits for something.
        Exception: Any error that the coroutine raises.
    """
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    coroutine.close()
    raise RuntimeError(
        "something in a call of a synchronous client waits for an event loop; write its hooks as"
        " plain functions, or use create_client()"
    )
