"""Limits of time for many calls at once, with one timer of the event loop for all of them.

``asyncio.timeout`` puts a timer for each call on the loop's heap, which costs a tenth of a call
through aiohttp. Calls with the same limit end in the order in which they began, so here they wait
in a line, and only the first of it needs a timer.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

__all__ = ["TimeLimit", "TimeLimits"]

_FEW: Final = 32


class TimeLimits:
    """The limits of the calls of one driver."""

    def __init__(self) -> None:
        self._lines: dict[float, _Line] = {}
        self._many = _FEW

    def limit(self, seconds: float) -> TimeLimit:
        """Return a limit for what the current task does next: ``with limits.limit(5.0): ...``."""
        loop = asyncio.get_running_loop()
        line = self._lines.get(seconds)
        if line is None or line.loop is not loop:  # a client may outlive an event loop
            if len(self._lines) >= self._many:  # as of calls that each have what is left of a time
                self.close()
                self._many = _FEW + 2 * len(self._lines)
            line = self._lines[seconds] = _Line(loop, seconds, self._lines)
        return TimeLimit(line)

    def close(self) -> None:
        """Cancel the timers that no call needs any more."""
        for line in list(self._lines.values()):
            line.end_if_empty()


class TimeLimit:
    """Like ``asyncio.timeout``: cancels the task when time is over, and tells it by `TimeoutError`.

    Attributes:
        expired: Whether time was over before the block was.
    """

    __slots__ = ("_cancelling", "_line", "_task", "expired")

    def __init__(self, line: _Line) -> None:
        self._line = line
        self.expired = False

    def __enter__(self) -> None:
        if (task := asyncio.current_task()) is None:
            raise RuntimeError("a call has to be awaited in a task")
        self._task, self._cancelling = task, task.cancelling()
        self._line.join(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._line.waiting.pop(self, None)
        # Where somebody else has cancelled the task as well, it stays cancelled.
        mine = self.expired and self._task.uncancel() <= self._cancelling
        if mine and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        """Cancel the task."""
        self.expired = True
        self._task.cancel()


class _Line:
    """Calls with the same limit, the oldest first, each with its deadline by the loop's clock."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, lines: dict[float, _Line]
    ) -> None:
        self.loop = loop
        self.waiting: dict[TimeLimit, float] = {}
        self._seconds = seconds
        self._lines = lines
        self._timer: asyncio.TimerHandle | None = None

    def join(self, limit: TimeLimit) -> None:
        """Put a call at the end."""
        self.waiting[limit] = self.loop.time() + self._seconds
        if self._timer is None:
            self._timer = self.loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        """Expire what is over, and look again when the next may be."""
        now = self.loop.time()
        while self.waiting:
            limit, deadline = next(iter(self.waiting.items()))
            if deadline > now:
                # Not `call_at`: by then it may be due, which Pyodide's loop takes for a mistake.
                self._timer = self.loop.call_later(deadline - now, self._look)
                return
            del self.waiting[limit]
            limit.expire()
        self.end_if_empty()

    def end_if_empty(self) -> None:
        """Leave the lines, unless somebody waits."""
        if not self.waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if self._lines.get(self._seconds) is self:
                del self._lines[self._seconds]
