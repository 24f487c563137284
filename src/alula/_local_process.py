"""A database server as a child of this process: start it, stop it, explain its failures.

It listens on the loopback interface only. It ends with the process that started it, even when that
process is killed: a watcher holds one end of a pipe and stops the server when the other end closes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

__all__ = [
    "HOST",
    "SECONDS_TO_END",
    "SECONDS_TO_START",
    "FolderInUse",
    "LocalProcess",
    "LocalServerError",
    "PortInUse",
    "ProgramMissing",
    "ServerOwner",
    "free_port",
    "make_executable",
    "owner_of_servers",
]

HOST: Final = "127.0.0.1"

SECONDS_TO_START = 60.0
SECONDS_TO_END = 20.0
SECONDS_FOR_FOLDER = 3.0
"""How long to wait for a server that is shutting down to release the data folder."""

_PAUSE = 0.02
_LONGEST_LOG_BYTES = 10_000_000

_OWNER: Final = "ALULA_LOCAL_SERVER_OWNER"
"""The variable with the descriptor of a `ServerOwner`."""

_left_running: Final[list[subprocess.Popen[bytes]]] = []

# Reads until its input closes, then stops process $0: signal $2, and SIGKILL after $1 seconds. A
# pipe and no atexit hook, because a parent killed by SIGKILL runs no code of its own any more.
# PR_SET_PDEATHSIG would do it when the thread ends that started the server, not the process.
_WATCHER = (
    'read -r _; kill -"$2" "$0" 2>/dev/null || exit 0; i=0;'
    ' while kill -0 "$0" 2>/dev/null && [ $i -lt "$1" ]; do sleep 1; i=$((i + 1)); done;'
    ' kill -KILL "$0" 2>/dev/null'
)


class LocalServerError(RuntimeError):
    """The server did not start; the message says why and how to fix it."""


class ProgramMissing(LocalServerError):
    """No server is installed, or it cannot run on this machine."""


class FolderInUse(LocalServerError):
    """Another server uses the data folder."""


class PortInUse(LocalServerError):
    """Another process listens on the port."""


def free_port() -> int:
    """Return an unused port of the loopback interface."""
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def make_executable(program: Path, missing: type[ProgramMissing]) -> None:
    """Set the executable bit of a program in a wheel, which installers may drop.

    Raises:
        ProgramMissing: It is not there, or the bit cannot be set.
    """
    try:
        mode = program.stat().st_mode
        if not mode & 0o100:
            program.chmod(mode | 0o111)
    except OSError as error:
        raise missing(f"{program} cannot be run: {error.strerror}; chmod +x it") from None


class ServerOwner:
    """Keeps servers running that other processes have started, until its own process ends.

    `alula dev` is one: its workers share a server of development, and each of them ends with the
    next change of a file.

    Attributes:
        descriptor: A descriptor that these processes must inherit.
        environment: Variables that they must have.
    """

    def __init__(self) -> None:
        # Watchers read from the second end. Once all of them have ended, nobody holds it any more.
        self._own_end, self._shared_end = socket.socketpair()
        self._own_end.setblocking(False)
        self.descriptor = self._shared_end.fileno()
        self.environment = {_OWNER: str(self.descriptor)}

    def __enter__(self) -> ServerOwner:
        return self

    def __exit__(self, *_: object) -> None:
        self._own_end.close()
        self._shared_end.close()

    async def stop(self) -> None:
        """Stop the servers, and wait for their end."""
        self._shared_end.close()
        self._own_end.shutdown(socket.SHUT_WR)
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(SECONDS_TO_END):
                await asyncio.get_running_loop().sock_recv(self._own_end, 1)


def owner_of_servers() -> int | None:
    """Return the descriptor of a `ServerOwner` that this process was given, None without one."""
    # A child of the process that was given it may have the variable alone.
    with suppress(ValueError, OSError):
        descriptor = int(os.environ.get(_OWNER, ""))
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return descriptor
    return None


class LocalProcess(ABC):
    """A server process on a data folder; it can be stopped and started again.

    Args:
        folder: The data folder, created if it is missing.
        port: TCP port; 0 picks a free one, which is kept after the first start.

    Attributes:
        folder: The data folder.
        port: The TCP port; 0 until the first start if none was given.
        owner: The descriptor of the `ServerOwner` with which it ends, None for this process.
    """

    name: ClassVar[str]
    ready: ClassVar[str]
    """What it logs, in lower case, when it accepts connections."""
    end: ClassVar[signal.Signals] = signal.SIGTERM
    missing: ClassVar[type[ProgramMissing]]
    user: int | None = None
    """The id of the user to run as, None for this one."""

    def __init__(self, folder: Path | str, *, port: int = 0) -> None:
        self.folder = Path(folder).absolute()
        self.port = port
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self.owner: int | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address} in {self.folder}>"

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        """The log file."""
        return self.folder / f"{self.name}.log"

    def is_running(self) -> bool:
        """Return whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start the process and wait until it listens. Does nothing if it is running.

        Raises:
            ProgramMissing: No server is installed, or it cannot run here.
            FolderInUse: Another server uses the data folder.
            LocalServerError: It exited, or did not listen within `SECONDS_TO_START`.
        """
        if self.is_running():
            return
        program, wanted_port = self._find(), self.port
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
        """Stop it gracefully, and with SIGKILL after ``grace`` seconds."""
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(self.end)
            if not await _until(lambda: process.poll() is not None, grace):
                process.kill()
        self._reap()

    def leave(self) -> None:
        """Let it run on for its owner."""
        # Popen warns of processes that nobody waits for, unless somebody still has the object.
        _left_running.extend(filter(None, (self._process, self._watcher)))
        self._process = self._watcher = None

    def kill(self) -> None:
        """Stop it at once with SIGKILL, like a power failure."""
        if self._process is not None:
            self._process.kill()
        self._reap()

    @abstractmethod
    def _find(self) -> Path:
        """Return the path of the program.

        Raises:
            ProgramMissing: There is none.
        """

    async def _prepare(self, program: Path) -> None:
        """Make sure that the data folder has what the server needs."""
        del program

    @abstractmethod
    def _command(self, program: Path, port: int) -> Sequence[str]:
        """Return the command line."""

    @abstractmethod
    def _exit_error(self, status: int, output: str) -> LocalServerError:
        """Return the error for a server that exited before it listened."""

    async def _start(self, program: Path, port: int) -> None:
        await self._prepare(program)
        process = self._spawn(program, port)

        def listens() -> bool:
            status = process.poll()  # first: what it has written until its end is in the log then
            with self.log.open("rb") as log:
                log.seek(self._log_start)
                output = log.read().decode(errors="replace")
            if status is None:
                return self.ready in output.lower()
            raise self._exit_error(status, output)

        try:
            arguments = [str(process.pid), str(int(SECONDS_TO_END)), str(int(self.end))]
            self._watcher = _child(
                ["/bin/sh", "-c", _WATCHER, *arguments],
                stdin=subprocess.PIPE if self.owner is None else self.owner,
                output=subprocess.DEVNULL,
            )
            if not await _until(listens, SECONDS_TO_START):
                raise LocalServerError(f"{self.name} does not respond; see {self.log}")
        except BaseException:
            self.kill()
            raise
        self.port = port

    def _spawn(self, program: Path, port: int) -> subprocess.Popen[bytes]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Append: another server may still be writing to the same file.
            with self.log.open("ab") as log:
                if log.tell() > _LONGEST_LOG_BYTES:
                    log.truncate(0)
                self._log_start = log.seek(0, os.SEEK_END)
                command = self._command(program, port)
                process = _child(
                    command, stdin=subprocess.DEVNULL, output=log.fileno(), user=self.user
                )
        except OSError as error:
            if error.filename is not None and Path(error.filename) == program:
                raise self.missing(f"{program} cannot be run: {error.strerror}") from None
            raise LocalServerError(
                f"{self.name} has no data folder: {error.strerror}: {error.filename}"
            ) from None
        self._process = process
        return process

    def _reap(self) -> None:
        """Wait for both processes, which have ended or were killed."""
        if self._watcher is not None:
            # First: after the server is reaped, its process id may be given to another process.
            self._watcher.kill()
            self._watcher.communicate()
        if self._process is not None:
            self._process.wait()
        self._watcher = self._process = None


def _child(
    command: Sequence[str], *, stdin: int, output: int, user: int | None = None
) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl+C in the terminal would end it before the programs that use it.
    return subprocess.Popen(  # noqa: S603  # a program of this machine, and no shell
        command,
        stdin=stdin,
        stdout=output,
        stderr=output,
        start_new_session=True,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )


async def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition is true; return whether it became true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(_PAUSE)
    return True
