"""The stream of a method that yields: one task runs the generator, and closes it.

A generator may use ``async with``, time limits and task groups. The task that enters one of these
also has to leave it. So one task runs the generator from its first item to its end, no matter who
reads the items. It produces an item only when a reader waits for one. Closing the stream cancels
that task, which works wherever the generator waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeAlias
from weakref import finalize, ref

__all__ = ["ItemStream", "change_each", "close_all", "is_stream", "stream_of"]

Change: TypeAlias = Callable[[Any], Any]
"""Takes an item and returns what takes its place, or an awaitable of it."""

CLOSE_SECONDS: Final = 5.0
"""How long the ``finally`` of a generator may wait when its stream is closed."""

_NOTHING: Final = object()

_log: Final = logging.getLogger("alula")


def is_stream(value: object) -> bool:
    """Tell whether a value is an asynchronous iterator or iterable."""
    # Not isinstance with the ABC, which is slow.
    return hasattr(type(value), "__aiter__")


class _Changes(list[Change]):
    """Functions that are run for each item, in their order. A weak reference can lead to it."""


class _Source:
    """The iterator, and the task that runs it.

    It has no reference to its `ItemStream`, so that a stream that nobody reads any more is found
    and closed. Changes have one, by the context of the call, so it does not keep them.

    Args:
        items: What yields.
        name: What it is, for the log.
        changes: Those of the `ItemStream`.
    """

    def __init__(self, items: AsyncIterable[Any], name: str, changes: _Changes) -> None:
        self._items = items
        self._name = name
        self._changes = ref(changes)
        self.item: Any = _NOTHING
        self.error: Exception | None = None
        self.wanted = asyncio.Event()
        self.is_ready = False
        """Whether there is an item or an error, or the end was reached."""
        self.waiter: asyncio.Future[None] | None = None
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self.task = self._loop.create_task(self._run(), name=name)
        # Also of a task that is cancelled before its first step.
        self.task.add_done_callback(lambda _: self._announce())

    async def _run(self) -> None:
        iterator = aiter(self._items)
        close: Any = getattr(iterator, "aclose", None)
        try:
            try:
                async for item in iterator:
                    new = await changed(item, self._changes() or ())
                    if self._is_closed:  # the generator has caught the cancellation and goes on
                        break
                    self.item = new
                    self._announce()
                    await self.wanted.wait()
                    self.wanted.clear()
            finally:
                if close is not None:
                    await _without_exit(close())
        except asyncio.CancelledError as error:
            if not self._is_closed:
                # As a cancellation, it would look as if the reader were cancelled.
                self.error = RuntimeError(f"{self._name} was cancelled from within")
                self.error.__cause__ = error
        except Exception as error:  # noqa: BLE001  # the reader gets it
            self.error = error
        if self._is_closed:
            self._log_error()

    def _announce(self) -> None:
        self.is_ready = True
        self.wake()

    def wake(self) -> None:
        """Wake the reader, if it waits."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def close(self) -> None:
        """Cancel the task, and once more if it takes long to end; do not wait for it."""
        if self._is_closed:
            return
        self._is_closed = True
        self._log_error()  # the reader left before it got this one
        if not self.task.done():
            timer = self._loop.call_later(CLOSE_SECONDS, self._insist)
            self.task.add_done_callback(lambda _: timer.cancel())
            self.task.cancel()

    def _insist(self) -> None:
        _log.warning(
            "%s takes more than %d seconds to close; it is cancelled once more",
            self._name,
            CLOSE_SECONDS,
        )
        self.task.cancel()

    def _log_error(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            _log.error("%s failed while it was closed", self._name, exc_info=error)


class ItemStream(AsyncIterator[Any]):
    """The items of a stream, one at a time. It closes when it is garbage-collected.

    Args:
        items: What yields.
        name: What it is, for the log: the method and its service.
        changes: Run for each item, in their order.
    """

    def __init__(
        self, items: AsyncIterable[Any], name: str, changes: Iterable[Change] = ()
    ) -> None:
        self.name = name
        self._changes = _Changes(changes)
        self._source = _Source(items, name, self._changes)
        self._error_listeners: list[Callable[[Exception], object]] = []
        self._is_asked = True  # the first item is made without being asked for
        self._forget = finalize(self, _close_soon, self._source, asyncio.get_running_loop())
        self._forget.atexit = False

    def __repr__(self) -> str:
        return f"<stream of {self.name}>"

    async def begin(self) -> None:
        """Wait for the first item, or the end. Nothing is lost if this is cancelled.

        Raises:
            Exception: What the stream raises before its first item.
        """
        await self.wait(None)
        self._raise_error()

    async def change(self, function: Change) -> None:
        """Replace each item from now on by what a function returns, the first one at once.

        Raises:
            Exception: What the function raises for the first item.
        """
        await self.begin()
        source = self._source
        if source.item is not _NOTHING:
            source.item = await changed(source.item, [function])
        self._changes.append(function)

    def on_error(self, listener: Callable[[Exception], object]) -> None:
        """Call a function with the error that ends it, if there is one."""
        self._error_listeners.append(listener)

    def change_at_once(self, function: Change) -> None:
        """Do the same as `change`, for a plain function, without waiting for the first item."""
        source = self._source
        if source.item is not _NOTHING:
            source.item = function(source.item)
        self._changes.append(function)

    async def wait(self, seconds: float | None) -> bool:
        """Wait until an item, an error or the end is there; tell whether it is.

        Args:
            seconds: How long to wait at most. None waits for any time.

        Raises:
            RuntimeError: Another task waits for the next item.
        """
        source = self._source
        if source.is_ready or source.task.done():
            return True
        if source.waiter is not None:
            raise RuntimeError(f"{self!r} is read by two tasks; read a stream in one task")
        if not self._is_asked:
            self._is_asked = True
            source.wanted.set()
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, source.wake)
        source.waiter = loop.create_future()
        try:
            await source.waiter
        finally:
            source.waiter = None
            if timer is not None:
                timer.cancel()
        return source.is_ready

    async def __anext__(self) -> Any:
        await self.wait(None)
        self._raise_error()
        source = self._source
        item, source.item = source.item, _NOTHING
        if item is _NOTHING:
            raise StopAsyncIteration
        source.is_ready = self._is_asked = False
        return item

    def close(self) -> None:
        """End the stream, and do not wait until it has cleaned up."""
        self._source.item = _NOTHING
        self._source.close()

    async def aclose(self) -> None:
        """End the stream, and wait until it has cleaned up."""
        self.close()
        task = self._source.task
        if not task.done():
            # What ignores both cancellations must not hold up its reader for ever.
            await asyncio.wait([task], timeout=2 * CLOSE_SECONDS)

    def _raise_error(self) -> None:
        source = self._source
        if source.error is not None:
            error, source.error = source.error, None
            for listener in self._error_listeners:
                listener(error)
            raise error


async def _without_exit(closing: Awaitable[object]) -> None:
    """Close a generator. A task group around its ``yield`` raises the exit in a group."""
    try:
        await closing
    except* GeneratorExit:
        pass


async def changed(item: Any, changes: Iterable[Change]) -> Any:
    """Return an item after some changes."""
    for change in changes:
        item = change(item)
        if hasattr(item, "__await__"):
            item = await item
    return item


def _close_soon(source: _Source, loop: asyncio.AbstractEventLoop) -> None:
    """Close a stream that nobody reads any more, from any thread."""
    with suppress(RuntimeError):  # the loop has ended, and the task with it
        loop.call_soon_threadsafe(source.close)


def stream_of(call: Any) -> ItemStream:
    """Return the result of a call, which is a stream, as an `ItemStream`; the call keeps it."""
    result = call.result
    if not isinstance(result, ItemStream):  # a hook has wrapped it
        result = call.result = ItemStream(result, f"`{call.method}` of {call.service!r}")
        call.streams = (*call.streams, result)
    return result


async def change_each(call: Any, function: Change) -> None:
    """Have each item of a call's result replaced.

    Args:
        call: The context of the call. Its result is a stream, and becomes an `ItemStream`.
        function: Gets an item and returns the new item, or an awaitable of it.

    Raises:
        Exception: What the stream or the function raises for the first item.
    """
    await stream_of(call).change(function)


async def close_all(streams: Iterable[ItemStream]) -> None:
    """Close the streams of a call, the outermost first."""
    outermost_first = [*reversed([*streams])]
    for stream in outermost_first:  # all of them, also if the wait below is cancelled
        stream.close()
    for stream in outermost_first:
        await stream.aclose()
