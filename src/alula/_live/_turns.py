"""Which list is read next: a few at once, and at most half of them for one client."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Final

from alula._live._groups import Group

__all__ = ["ReadTurns"]

READS_AT_ONCE: Final = 4
"""How many lists of a process are read at once."""

READS_OF_CLIENT: Final = READS_AT_ONCE // 2


class ReadTurns:
    """Reads groups that are marked, each when it is its turn.

    Clients take turns, so one with many lists holds up its own. Each read is a task of its own, and
    the next one begins in the next round of the event loop.

    Args:
        read: Reads a group once.
    """

    def __init__(self, read: Callable[[Group], Coroutine[Any, Any, None]]) -> None:
        self._read = read
        self._ready: dict[Hashable, deque[Group]] = {}
        self._reads_of: Counter[Hashable] = Counter()
        self._running = 0

    def mark(self, group: Group) -> None:
        """Have a group read; while it is being read, once more."""
        group.is_marked = True
        if group.is_waiting or group.task is not None:
            return
        group.is_waiting = True
        pause = group.not_before - time.monotonic()
        if pause > 0:
            group.timer = asyncio.get_running_loop().call_later(pause, self._is_due, group)
        else:
            self._is_due(group)

    def forget(self, group: Group) -> None:
        """Read a group no more. Its own task goes on to its end."""
        group.is_marked = False
        if group.timer is not None:
            group.timer.cancel()
            group.timer = None
        if group.task is not None and group.task is not asyncio.current_task():
            group.task.cancel()

    def _is_due(self, group: Group) -> None:
        group.timer = None
        self._ready.setdefault(group.client, deque()).append(group)
        self._begin()

    def _begin(self) -> None:
        while self._running < READS_AT_ONCE and (group := self._next()) is not None:
            self._running += 1
            self._reads_of[group.client] += 1
            task = asyncio.get_running_loop().create_task(self._read(group), name="a live list")
            group.task = task
            task.add_done_callback(partial(self._end, group))

    def _next(self) -> Group | None:
        """Return the next group whose client has not half of the reads already."""
        for client in [*self._ready]:
            if self._reads_of[client] >= READS_OF_CLIENT:
                continue
            waiting = self._ready.pop(client)
            while waiting:
                group = waiting.popleft()
                group.is_waiting = False
                if group.is_marked:  # else nobody has this list any more
                    if waiting:
                        self._ready[client] = waiting  # behind the others
                    return group
        return None

    def _end(self, group: Group, _: asyncio.Task[None]) -> None:
        group.task = None
        self._running -= 1
        self._reads_of[group.client] -= 1
        if not self._reads_of[group.client]:
            del self._reads_of[group.client]
        if group.is_marked:
            self.mark(group)
        else:
            group.tell_rest()
        self._begin()
