"""A mark that stays when a worker is killed: did it have events that no other process got?

Each worker of `alula serve` has a file of one byte, which it locks and maps into its memory. When
the process ends, the lock is released, but the byte stays. The next worker finds it.

A worker may also be killed between the commit of a write and the moment at which it tells of it.
Live lists promise to follow each write, so with them the byte says as long as the worker runs that
it may have written something.
"""

from __future__ import annotations

import fcntl
import itertools
import mmap
import os
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Left", "UnsentMark", "take_marks_of_dead_workers"]

_SUFFIX: Final = ".unsent"

_EVENTS: Final = 1
_WRITES: Final = 2

_numbers: Final = itertools.count()


class Left(NamedTuple):
    """What workers that have ended may not have told others.

    Attributes:
        events: Events that waited for the bus.
        writes: Writes that live lists follow.
    """

    events: bool
    writes: bool


class UnsentMark:
    """The mark of this worker.

    Args:
        directory: The directory of the sockets of all workers.
        worker_id: The name of this worker.
        has_lists: Whether live lists follow what it writes.

    Raises:
        OSError: The file cannot be made.
    """

    def __init__(self, directory: Path, worker_id: str, *, has_lists: bool = False) -> None:
        self._otherwise = _WRITES if has_lists else 0
        # With a number, because a worker may have several applications.
        self._path = directory / f"{worker_id}.{next(_numbers)}{_SUFFIX}"
        new = self._path.with_suffix(".new")
        self._file = new.open("wb+")
        self._file.write(b"\0")
        self._file.flush()
        # This lock belongs to the process, so child processes do not keep it.
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        self._map = mmap.mmap(self._file.fileno(), 1)
        self.set(has_unsent=False)
        new.rename(self._path)  # only now, so that others never see it unlocked

    def set(self, *, has_unsent: bool) -> None:
        """Write whether events wait for the bus."""
        self._map[0] = _EVENTS if has_unsent else self._otherwise

    def close(self) -> None:
        """Remove the mark, unless events were left: then the next worker reports the gap."""
        has_unsent = self._map[0] == _EVENTS
        self._map.close()
        self._file.close()
        if not has_unsent:
            self._path.unlink(missing_ok=True)


def take_marks_of_dead_workers(directory: Path, worker_id: str) -> Left:
    """Remove the marks of workers that have ended; return what others may not know of them.

    Args:
        directory: The directory of the sockets of all workers.
        worker_id: The name of this worker.
    """
    found: set[int] = set()
    for path in directory.glob(f"*{_SUFFIX}"):
        if path.name.startswith(f"{worker_id}."):
            continue  # closing a file that this process has locked would release the lock
        try:
            with path.open("rb+") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.update(os.pread(file.fileno(), 1, 0))
                path.unlink()
        except OSError:
            continue  # that worker is running, or another one is removing the mark
    return Left(_EVENTS in found, _WRITES in found)
