"""Responses that are read part by part, as they arrive: those of streams of events."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from alula.client._abort import AbortSignal
from alula.client._codec import Response, Sendable
from alula.client._failures import aborted_error, timed_out
from alula.client._send_options import SendOptions

__all__ = [
    "AsyncResponseStream",
    "BlockingResponseStream",
    "Received",
    "ResponseStream",
    "is_event_stream",
]

_SUCCESS: Final = range(200, 300)


def is_event_stream(status: int, headers: Mapping[str, str]) -> bool:
    """Tell whether a response is a stream of server-sent events, to be read as it arrives."""
    return status in _SUCCESS and headers.get("content-type", "").startswith("text/event-stream")


class ResponseStream(ABC):
    """A response whose body is read part by part: as bytes, or over a socket as lists of items.

    Whoever gets it closes it. It closes itself at its end, and if reading fails.

    Attributes:
        status: The HTTP status.
        headers: The headers, as those of a `Response`.
        max_size: The largest event that it may have, in bytes.
        is_closed: Whether it has ended, or was closed.
        on_close: Called when it closes.
    """

    def __init__(self, status: int, headers: Mapping[str, str], max_size: int) -> None:
        self.status = status
        self.headers = headers
        self.max_size = max_size
        self.is_closed = False
        self.on_close: list[Callable[[], object]] = []

    @abstractmethod
    async def read(self) -> Any:
        """Return the next part; an empty one at the end, or if it was closed.

        Raises:
            FrameworkError: The connection broke, the next part takes too long, or the call was
                aborted.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """End the request."""

    @abstractmethod
    def close_soon(self) -> None:
        """End the request, from any thread and without waiting."""

    def _has_closed(self) -> bool:
        """Note that it is closed; tell whether it was closed before."""
        if self.is_closed:
            return True
        self.is_closed = True
        for listener in self.on_close:
            listener()
        return False


Received: TypeAlias = Response | ResponseStream
"""A whole response, or one that is read part by part."""


class AsyncResponseStream(ResponseStream):
    """A response in an event loop: its time limit and its ends are the same for every library.

    Args:
        request: The request, for errors.
        status: The HTTP status.
        headers: The headers.
        options: How it was sent.
        read: Returns the next part, an empty one at the end.
        close: Closes the connection, unless the whole body was read.

    Attributes:
        request: The request.
    """

    def __init__(
        self,
        request: Sendable,
        status: int,
        headers: Mapping[str, str],
        options: SendOptions,
        read: Callable[[], Awaitable[Any]],
        close: Callable[[], Awaitable[object]],
    ) -> None:
        super().__init__(status, headers, options.max_size)
        self.request = request
        self._seconds = options.silence
        self._read = read
        self._close = close
        self._loop = asyncio.get_running_loop()
        self._limit: asyncio.Timeout | None = None  # while somebody reads
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._error: Exception | None = None
        self._ending: asyncio.Task[None] | None = None

    async def read(self) -> Any:
        """Return the next part (see `ResponseStream`)."""
        if self.is_closed:
            if self._error is not None:
                raise self._error
            return b""
        limit = self._limit = asyncio.timeout(self._seconds)
        self._is_idle.clear()
        try:
            async with limit:
                part = await self._read()
        except BaseException as error:
            await self.aclose()
            if isinstance(error, TimeoutError):  # of this limit, or of a library's own
                seconds = self._seconds if limit.expired() else None
                failure = self._error or timed_out(self.request, seconds)
                raise failure from failure.__cause__
            raise
        finally:
            self._limit = None
            self._is_idle.set()
        if not part:
            await self.aclose()
        return part

    async def end(self, error: Exception) -> None:
        """End the request. A reader that waits gets the error."""
        self._error = error
        if self._limit is None:
            await self.aclose()
            return
        self._limit.reschedule(self._loop.time())
        await self._is_idle.wait()

    def abort_by(self, signal: AbortSignal) -> None:
        """End the request when a signal aborts it."""

        def end() -> None:
            self._ending = self._loop.create_task(self.end(aborted_error(self.request)))

        def abort() -> None:
            with suppress(RuntimeError):  # the loop has ended, and the request with it
                self._loop.call_soon_threadsafe(end)

        self.on_close.append(signal.listen(abort))

    async def aclose(self) -> None:
        """End the request."""
        if not self._has_closed():
            await self._close()

    def close_soon(self) -> None:
        """End the request, from any thread and without waiting."""

        def close() -> None:
            self._ending = self._loop.create_task(self.aclose())

        if not self.is_closed:
            with suppress(RuntimeError):  # the loop has ended, and the request with it
                self._loop.call_soon_threadsafe(close)


class BlockingResponseStream(ResponseStream):
    """A response that is read in the thread that calls.

    Args:
        status: The HTTP status.
        headers: The headers.
        options: How it was sent.
        read: Returns the next part, an empty one at the end.
        close: Closes the connection, unless the whole body was read.
    """

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        options: SendOptions,
        read: Callable[[], bytes],
        close: Callable[[], object],
    ) -> None:
        super().__init__(status, headers, options.max_size)
        self._read = read
        self._close = close

    async def read(self) -> bytes:
        """Return the next part (see `ResponseStream`)."""
        if self.is_closed:
            return b""
        try:
            part = self._read()
        except BaseException:
            self.close_soon()
            raise
        if not part:
            self.close_soon()
        return part

    async def aclose(self) -> None:
        """End the request."""
        self.close_soon()

    def close_soon(self) -> None:
        """End the request, which does not wait."""
        if not self._has_closed():
            self._close()
