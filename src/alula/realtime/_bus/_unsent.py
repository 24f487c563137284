"""A mark that stays when a worker is killed: did it have events that no other process got?

Each worker of `alula serve` has a file of one byte, which it locks and maps into its memory. When
the process ends, the lock is released, but the byte stays. The next worker finds it.
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
        # With a number, because a worker may have several applications.
        self._path = directory / f"{worker_id}.{next(_numbers)}{_SUFFIX}"
        new = self._path.with_suffix(".new")
        self._file = new.open("wb+")
        self._file.write(b"\0")
        self._file.flush()
        # This lock belongs to the process, so child processes do not keep it.
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        self._map = mmap.mmap(self._file.fileno(), 1)
        new.rename(self._path)  # only now, so that others never see it unlocked

    def set(self, *, has_unsent: bool) -> None:
        """Write whether events wait for the bus."""
        self._map[0] = has_unsent

    def close(self) -> None:
        """Remove the mark, unless events were left: then the next worker reports the gap."""
        has_unsent = self._map[0]
        self._map.close()
        self._file.close()
        if not has_unsent:
            self._path.unlink(missing_ok=True)


def take_marks_of_dead_workers(directory: Path, worker_id: str) -> bool:
    """Remove the marks of workers that have ended; return whether any of them had unsent events.

    Args:
        directory: The directory of the sockets of all workers.
        worker_id: The name of this worker.
    """
    has_unsent = False
    for path in directory.glob(f"*{_SUFFIX}"):
        if path.name.startswith(f"{worker_id}."):
            continue  # closing a file that this process has locked would release the lock
        try:
            with path.open("rb+") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                has_unsent |= os.pread(file.fileno(), 1, 0) == b"\1"
                path.unlink()
        except OSError:
            continue  # that worker is running, or another one is removing the mark
    return has_unsent
