"""Transports: what sends a request and returns its response, with time limits and abort signals.

Hooks, retries, pages and signing in are written once, in coroutines. An asynchronous transport
waits in the event loop. The transport of a synchronous client blocks, so `run_sync` runs the same
coroutines to their end in one step. Most libraries are asynchronous: `Portal` runs their transport
in an event loop of its own thread, and blocks for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

from alula.client._abort import Aborted, AbortSignal
from alula.client._codec import Sendable, with_request_error
from alula.errors import BadGateway, FrameworkError, Timeout, Unavailable

__all__ = [
    "READS",
    "REPEATABLE",
    "AsyncTransport",
    "BlockingTransport",
    "SendOptions",
    "Transport",
    "aborted_error",
    "connection_failed",
    "run_sync",
    "timed_out",
    "too_large",
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


@dataclass(frozen=True, slots=True)
class SendOptions:
    """How one request is sent.

    Attributes:
        timeout: Seconds for the whole exchange, None for no limit.
        max_size: The largest body that a response may have, in bytes.
        signal: Aborts the request.
        extra: Options that go to the HTTP library unchanged.
    """

    timeout: float | None = None
    max_size: int = 0
    signal: AbortSignal | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Transport(Protocol[Sent_contra, Received_co]):
    """What a connection sends its requests with."""

    def send(self, request: Sent_contra, options: SendOptions) -> Coroutine[Any, Any, Received_co]:
        """Send a request and return the whole response.

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

    async def exchange(self, request: SentT, options: SendOptions) -> ReceivedT:
        """Send a request and return the response; cancelling it closes its connection."""
        raise NotImplementedError

    async def stream(
        self,
        request: SentT,
        options: SendOptions,  # noqa: ARG002  # of the interface
        take: Callable[[bytes], object],  # noqa: ARG002  # of the interface
    ) -> ReceivedT:
        """Send a request, and pass the parts of its response on as they arrive.

        Args:
            request: The request.
            options: How it is sent; its time limit does not hold here.
            take: Called with each part of a response with status 200. Any other one is returned
                whole.

        Raises:
            Unavailable: No connection could be made, or it broke.
            TypeError: The library returns whole responses alone.
        """
        raise TypeError(
            f"{request.method} {request.url.partition('?')[0]}: this connection returns whole"
            " responses alone, so it has no live lists; use socketio(url), or rest(url) with"
            " httpx(), aiohttp() or fetch() without a function"
        )

    def late(self, request: SentT, seconds: float | None) -> FrameworkError:
        """Return the error for a late response (see `timed_out`)."""
        return timed_out(request, seconds)

    def send(self, request: SentT, options: SendOptions) -> Coroutine[Any, Any, ReceivedT]:
        """Send a request and return the whole response (see `Transport`)."""
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
            return await sending
        except asyncio.CancelledError:
            sending.cancel()
            # A caller that cancels this task as well must see its cancellation, not our error.
            if signal.aborted and _cancel_requests() == cancelled_before:
                failure = aborted_error(request)
                raise failure from failure.__cause__
            raise
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


# The messages of these errors name no address: if one escapes from a hook of a server, that
# server's clients read it. `RequestError`, their cause, has the details.


def timed_out(request: Sendable, seconds: float | None) -> FrameworkError:
    """Return the error for a late response; None means a time limit of the library's own."""
    long = "too long" if seconds is None else f"longer than {seconds} seconds"
    error = Timeout(f"the called server took {long}", {"timeout": seconds})
    return with_request_error(error, request, f"took {long}")


def connection_failed(request: Sendable, reason: BaseException) -> FrameworkError:
    """Return the error for a connection that could not be made, or broke."""
    error = Unavailable("the called server cannot be reached, or the connection broke")
    what = f"failed: {str(reason) or type(reason).__name__}"
    return with_request_error(error, request, what, reason=reason)


def too_large(request: Sendable, limit: int) -> FrameworkError:
    """Return the error for a response over the limit."""
    error = BadGateway("the response of the called server is too large")
    what = (
        f"got a response larger than {limit} bytes; ask for fewer records, or raise the option"
        " `max_response_size`"
    )
    return with_request_error(error, request, what)


def aborted_error(request: Sendable) -> FrameworkError:
    """Return the error for a request that its signal aborted."""
    error = Aborted("the call was aborted by its signal")
    return with_request_error(error, request, "was aborted by its signal")
