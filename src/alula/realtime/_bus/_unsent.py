"""A mark that outlives a killed worker: whether it had events that no other process has.

Each worker of `alula serve` has a file of one byte, mapped into its memory and locked. The lock
ends with the process, the byte does not: the worker that replaces a killed one finds it.
"""

from __future__ import annotations

import fcntl
import itertools
import mmap
import os
from pathlib import Path
from typing import Final

__all__ = ["UnsentMark", "take_marks_of_dead_workers"]

_SUFFIX: Final = ".unsent"

_numbers: Final = itertools.count()


class UnsentMark:
    """The mark of this worker.

    Args:
        directory: The directory of the sockets of all workers.
        worker_id: The name of this worker.

    Raises:
        OSError: The file cannot be made.
    """

    def __init__(self, directory: Path, worker_id: str) -> None:
        # Several applications of one worker have a mark each.
        self._path = directory / f"{worker_id}.{next(_numbers)}{_SUFFIX}"
        new = self._path.with_suffix(".new")
        self._file = new.open("wb+")
        self._file.write(b"\0")
        self._file.flush()
        # Of the process, not of the file: child processes do not hold it.
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        self._map = mmap.mmap(self._file.fileno(), 1)
        new.rename(self._path)  # now, so that others see it locked

    def set(self, *, has_unsent: bool) -> None:
        """Note whether events wait for the bus."""
        self._map[0] = has_unsent

    def close(self) -> None:
        """Remove the mark, unless events were left: the next worker tells of them."""
        has_unsent = self._map[0]
        self._map.close()
        self._file.close()
        if not has_unsent:
            self._path.unlink(missing_ok=True)


def take_marks_of_dead_workers(directory: Path, worker_id: str) -> bool:
    """Remove the marks of workers that have ended; return whether one of them had unsent events.

    Args:
        directory: The directory of the sockets of all workers.
        worker_id: The name of this worker.
    """
    has_unsent = False
    for path in directory.glob(f"*{_SUFFIX}"):
        if path.name.startswith(f"{worker_id}."):
            continue  # to open and close a file of this process would unlock it
        try:
            with path.open("rb+") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                has_unsent |= os.pread(file.fileno(), 1, 0) == b"\1"
                path.unlink()
        except OSError:
            continue  # that worker runs, or another one has taken the mark
    return has_unsent
