"""What sends requests: the two kinds of drivers, and how the synchronous one runs the same code.

All that is decided around a request (hooks, retries, pages, signing in) is written once, in
coroutines. An asynchronous driver waits in the event loop. A synchronous one blocks and never
waits in a loop, so `finish` runs such a coroutine to its end in one step.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from alula.client._abort import Aborted, AbortSignal
from alula.client._codec import Request, Response, told_to_caller
from alula.client._time_limits import TimeLimits
from alula.errors import BadGateway, FrameworkError, Timeout, Unavailable

__all__ = [
    "REPEATABLE",
    "AsyncDriver",
    "Driver",
    "SyncDriver",
    "Wish",
    "connection_failed",
    "finish",
    "given_up",
    "timed_out",
    "too_large",
]

T = TypeVar("T")

REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE"})
"""Verbs that may be carried out twice.

Where a server closes an idle connection just when such a request goes out on it, the drivers send
it once more on a connection of its own, as browsers do.
"""


@dataclass(frozen=True, slots=True)
class Wish:
    """How one request is to be sent.

    Attributes:
        timeout: Seconds for all of it, None for no limit.
        limit: The bytes that an answer may have.
        signal: Gives it up.
        more: Options that go to the library as they are.
    """

    timeout: float | None = None
    limit: int = 0
    signal: AbortSignal | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


class Driver(Protocol):
    """What sends requests."""

    def send(self, request: Request, wish: Wish) -> Coroutine[Any, Any, Response]:
        """Send a request and return the whole answer.

        Raises:
            Unavailable: There was no connection, or it was lost.
            Timeout: It took too long.
            Aborted: It was given up by its signal.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def close(self) -> None:
        """Close what it has opened."""
        ...


class AsyncDriver:
    """A driver in an event loop: limits of time and signals are the same for every library."""

    def __init__(self) -> None:
        self._limits = TimeLimits()

    async def exchange(self, request: Request, wish: Wish) -> Response:
        """Send a request and return the answer; a cancelled call closes its connection."""
        raise NotImplementedError

    def send(self, request: Request, wish: Wish) -> Coroutine[Any, Any, Response]:
        """Send a request and return the whole answer (see `Driver`)."""
        if wish.signal is not None:
            return self._send_until(request, wish, wish.signal)
        return self._send_in_time(request, wish)

    async def _send_in_time(self, request: Request, wish: Wish) -> Response:
        limit = None if wish.timeout is None else self._limits.limit(wish.timeout)
        try:
            with limit or nullcontext():
                return await self.exchange(request, wish)
        except TimeoutError:  # of this limit, or of a library's own
            expired = limit is not None and limit.expired
            failure = timed_out(request, wish.timeout if expired else None)
            raise failure from failure.__cause__

    async def _send_until(self, request: Request, wish: Wish, signal: AbortSignal) -> Response:
        if signal.aborted:
            raise given_up(request)
        loop, cancelled_before = asyncio.get_running_loop(), _times_cancelled()
        sending = loop.create_task(self._send_in_time(request, wish))

        def give_up() -> None:
            with suppress(RuntimeError):  # the loop has ended, and the call with it
                loop.call_soon_threadsafe(sending.cancel)

        forget = signal.listen(give_up)
        try:
            return await sending
        except asyncio.CancelledError:
            sending.cancel()
            if signal.aborted and _times_cancelled() == cancelled_before:  # and not by others, too
                failure = given_up(request)
                raise failure from failure.__cause__
            raise
        finally:
            forget()

    async def sleep(self, seconds: float) -> None:
        """Wait, while others go on."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close what it has opened."""
        self._limits.close()


def _times_cancelled() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


class SyncDriver:
    """A driver that blocks; its coroutines never wait in an event loop."""

    async def send(self, request: Request, wish: Wish) -> Response:
        """Send a request and return the whole answer (see `Driver`)."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: ASYNC251  # blocking is what it is for

    async def close(self) -> None:
        """Close what it has opened."""


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits in an event loop, and return its result.

    Raises:
        RuntimeError: It does wait.
        Exception: Whatever it raises.
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


# Their messages name no address: where such an error escapes from a hook, strangers read it.


def timed_out(request: Request, seconds: float | None) -> FrameworkError:
    """Return the error for a late response, None for a time limit that is not ours."""
    long = "too long" if seconds is None else f"longer than {seconds} seconds"
    error = Timeout(f"the called server took {long}", {"timeout": seconds})
    return told_to_caller(error, request, f"took {long}")


def connection_failed(request: Request, reason: BaseException) -> FrameworkError:
    """Return the error for a connection that could not be made, or broke."""
    error = Unavailable("the called server cannot be reached, or the connection broke")
    what = f"failed: {str(reason) or type(reason).__name__}"
    return told_to_caller(error, request, what, reason=reason)


def too_large(request: Request, limit: int) -> FrameworkError:
    """Return the error for a response over the limit."""
    error = BadGateway("the response of the called server is too large")
    what = f"was answered with a body larger than {limit} bytes; ask for fewer records, or raise"
    return told_to_caller(error, request, f"{what} the option `max_response_size`")


def given_up(request: Request) -> FrameworkError:
    """Return the error for a call that its signal gave up."""
    error = Aborted("the call was given up by its signal")
    return told_to_caller(error, request, "was given up by its signal")
