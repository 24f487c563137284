"""Values that a forked process must not share with its parent: threads, locks, connections."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["PerProcess"]

T = TypeVar("T")


class PerProcess(Generic[T]):
    """One value for each process.

    A process that is forked gets another one. That of its parent stays in memory, untouched: a lock
    may be locked for ever, connections belong to the parent, and to close its event loop would
    deafen the parent's, since both share one epoll.

    Args:
        make: Returns a new value.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: dict[int, T] = {}

    def get(self) -> T:
        """Return the value of this process."""
        process = os.getpid()
        if process not in self._values:
            self._values.setdefault(process, self._make())  # another thread may be faster
        return self._values[process]

    def pop(self) -> T | None:
        """Forget the value of this process; return it, None if there is none yet."""
        return self._values.pop(os.getpid(), None)
