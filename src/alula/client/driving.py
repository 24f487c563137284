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

from alula.client.abort import Aborted, AbortSignal
from alula.client.codec import Request, Response
from alula.client.time_limits import TimeLimits
from alula.errors import BadGateway, Timeout, Unavailable

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
            raise timed_out(request, wish.timeout if expired else None) from None

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
                raise given_up(request) from None
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


def timed_out(request: Request, seconds: float | None) -> Timeout:
    """Return the error for an answer that did not come in time, None for a limit not of ours."""
    long = "too long" if seconds is None else f"longer than {seconds} seconds"
    return Timeout(f"{request.method} {request.url} took {long}", {"timeout": seconds})


def connection_failed(request: Request, reason: object) -> Unavailable:
    """Return the error for a connection that could not be made, or broke."""
    text = str(reason) or type(reason).__name__
    return Unavailable(f"{request.method} {request.url} failed: {text}", {"reason": text})


def too_large(request: Request, limit: int) -> BadGateway:
    """Return the error for an answer over the limit."""
    return BadGateway(
        f"the answer to {request.method} {request.url} is larger than {limit} bytes; ask for fewer"
        " records, or raise the option `max_response_size`"
    )


def given_up(request: Request) -> Aborted:
    """Return the error for a call that its signal gave up."""
    return Aborted(f"{request.method} {request.url} was given up by its signal")
