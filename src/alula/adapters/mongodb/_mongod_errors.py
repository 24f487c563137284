"""Why a mongod did not start: what it said, as an error that says what to do about it."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Final

__all__ = [
    "FolderInUse",
    "LocalServerError",
    "MongodMissing",
    "PortInUse",
    "ended",
    "not_started",
]


class LocalServerError(RuntimeError):
    """The server did not start; the message says why, and what to do about it."""


class MongodMissing(LocalServerError):
    """There is no mongod here that can run."""


class FolderInUse(LocalServerError):
    """Another mongod works in the data folder."""


class PortInUse(LocalServerError):
    """Somebody else listens on the port."""


def not_started(program: Path, error: OSError) -> LocalServerError:
    """Return the error for what kept the process from coming into being."""
    if error.filename is not None and Path(error.filename) == program:
        return MongodMissing(f"{program} can not be run: {error.strerror}")
    return LocalServerError(f"mongod has no data folder: {error.strerror}: {error.filename}")


_LIBRARY: Final = re.compile(r"error while loading shared libraries: ([^\s:]+)")


def ended(log: Path, status: int, said: str) -> LocalServerError:
    """Return the error for a mongod that ended before it listened."""
    library = _LIBRARY.search(said)
    if library is not None:
        return MongodMissing(
            f"mongod lacks the library {library[1]}; on Debian and Ubuntu:"
            " apt-get install libcurl4 libssl3"
        )
    if status == -signal.SIGILL:
        return MongodMissing(
            "mongod can not run on this processor (MongoDB 5 and later need AVX); install a"
            " MongoDB 4.4 on the PATH"
        )
    if "DBPathInUse" in said:
        folder = log.parent
        return FolderInUse(
            f"another mongod works in {folder}{_owner(folder)}; stop it, or choose another folder"
        )
    if "SocketException" in said or "Address already in use" in said:
        return PortInUse("mongod can not listen on its port on 127.0.0.1; choose another port")
    last = "".join(said.strip().splitlines()[-1:])
    return LocalServerError(f"mongod ended with {status}; see {log}: {last[:300]}")


def _owner(folder: Path) -> str:
    try:
        return f" (process {int((folder / 'mongod.lock').read_text())})"
    except (OSError, ValueError):
        return ""
