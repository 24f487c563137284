"""Work of many small steps, a slice at a time, so that the event loop is never held for long."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["Slices"]

SECONDS: Final = 0.001
"""How long one slice takes; one step is a few microseconds."""

MAX_WAITING: Final = 1_000
"""Of more changes than that, nobody looks any more at which lists they concern."""


class Slices:
    """Does pieces of work one after the other. A short one is done at once.

    Args:
        overflow: Called in place of all work that waits, if it is too much.
    """

    def __init__(self, overflow: Callable[[], Iterator[object]]) -> None:
        self._overflow = overflow
        self._work: deque[Iterator[object]] = deque()
        self._waiting: list[asyncio.Future[None]] = []

    def add(self, steps: Iterator[object]) -> None:
        """Do the steps of an iterator, behind the work that waits."""
        if self._work:
            if len(self._work) >= MAX_WAITING:
                self._work.clear()
                steps = self._overflow()
            self._work.append(steps)
        elif not _is_done(steps, time.perf_counter() + SECONDS):
            self._work.append(steps)
            asyncio.get_running_loop().call_soon(self._go_on)

    async def wait(self) -> None:
        """Wait until nothing is left to do."""
        if self._work:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(done)
            await done

    def stop(self) -> None:
        """Leave the rest undone."""
        self._work.clear()
        self._tell()

    def _go_on(self) -> None:
        end = time.perf_counter() + SECONDS
        while self._work:
            if not _is_done(self._work[0], end):
                asyncio.get_running_loop().call_soon(self._go_on)
                return
            self._work.popleft()
        self._tell()

    def _tell(self) -> None:
        for done in self._waiting:
            if not done.done():
                done.set_result(None)
        self._waiting.clear()


def _is_done(steps: Iterator[object], end: float) -> bool:
    """Do steps until a time; tell whether none is left."""
    return all(time.perf_counter() < end for _ in steps)
