"""The hub of `alula serve`: passes real-time events between the workers of one machine.

The supervisor runs the hub on a Unix socket in a directory that only its user may enter. Workers
find it by an environment variable. The hub keeps the latest events, so that a worker that
reconnects gets those that it missed, and a worker that stalls costs no memory of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

__all__ = [
    "ACKNOWLEDGEMENT",
    "MAX_FRAME_BYTES",
    "FrameReader",
    "Hub",
    "UnixServer",
    "WorkerDirectory",
    "WorkerPlace",
    "current_worker",
    "frame",
    "started_at",
    "write_frame",
]

MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
"""The largest frame that is read."""

ACKNOWLEDGEMENT: Final = b"\x06"
"""What the hub sends for each event that it has taken."""

_VARIABLE: Final = "ALULA_WORKER"
_HUB_SOCKET: Final = "hub.sock"
_KEY_FILE: Final = "shared-key"
_SECRET_BYTES: Final = 32
_MAX_SOCKET_PATH_BYTES: Final = 100  # the kernels' limits: 104 (BSD, macOS) and 108 (Linux)
_LONGEST_SOCKET_NAME: Final = "w999999999-999.sock"
_FRAMES_AT_ONCE: Final = 64
_BACKLOG: Final = 4096

_log: Final = logging.getLogger("alula.serve")


class WorkerPlace(NamedTuple):
    """Where a worker of `alula serve` finds the hub and the other workers.

    Attributes:
        directory: The directory of all sockets.
        worker_id: The name of this worker, such as ``w3``; no other worker ever has it.
    """

    directory: Path
    worker_id: str

    @property
    def is_first(self) -> bool:
        """Whether this worker was started first: what holds for all is logged by it alone."""
        return self.worker_id == "w1"

    @property
    def hub(self) -> Path:
        """The socket of the hub."""
        return self.directory / _HUB_SOCKET

    def read_secret(self) -> bytes:
        """Return random bytes that all workers share and nobody else knows.

        Raises:
            OSError: They are not there, or not those that the directory was made with.
        """
        with (self.directory / _KEY_FILE).open("rb") as file:
            secret, owner = file.read(), os.fstat(file.fileno()).st_uid
        if len(secret) != _SECRET_BYTES or owner != os.geteuid():
            raise OSError(f"{file.name} is not the secret of these workers; start the server again")
        return secret


def current_worker(environment: Mapping[str, str] = os.environ) -> WorkerPlace | None:
    """Return the place of this process among the workers of `alula serve`; None if it is none."""
    parent, _, rest = environment.get(_VARIABLE, "").partition(":")
    # Programs that a worker starts inherit the variable, but are not the worker.
    if parent != str(os.getppid()):
        return None
    worker_id, _, directory = rest.partition(":")
    return WorkerPlace(Path(directory), worker_id)


class WorkerDirectory:
    """A private directory for the sockets of the hub and the workers; removed by `close`.

    Raises:
        OSError: No directory can be made.
    """

    @classmethod
    def make(cls) -> Self | None:
        """Make a directory; return None, and log why, if none can be made."""
        try:
            return cls()
        except OSError as error:  # a file system that cannot be written, without a /tmp
            _log.warning(
                "no directory for the sockets of the workers: %s. Real-time events reach only the"
                " connections of the same worker, and clients must not begin with polling; set"
                " TMPDIR to a directory that can be written",
                error,
            )
            return None

    def __init__(self) -> None:
        path = Path(tempfile.mkdtemp(prefix="alula-"))  # with the mode 0700
        if len(os.fsencode(path / _LONGEST_SOCKET_NAME)) > _MAX_SOCKET_PATH_BYTES:
            path.rmdir()
            path = Path(tempfile.mkdtemp(prefix="alula-", dir="/tmp"))  # made private
        self.path = path
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        (path / _KEY_FILE).write_bytes(self._secret)
        self._numbers = itertools.count(1)

    @property
    def hub(self) -> Path:
        """The socket of the hub."""
        return self.path / _HUB_SOCKET

    def next_environment(self) -> dict[str, str]:
        """Return the environment variables by which the next worker finds its place."""
        # Systems remove files that are days old from their temporary directories.
        key = self.path / _KEY_FILE
        with contextlib.suppress(OSError):
            # The directory itself may be gone, and another user may have made one of its name.
            if self.path.lstat().st_uid == os.geteuid() and not key.exists():
                key.write_bytes(self._secret)
        return {_VARIABLE: f"{os.getpid()}:w{next(self._numbers)}:{self.path}"}

    def close(self) -> None:
        """Remove the directory with all sockets in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def started_at(epoch: str) -> float:
    """Return when the hub started whose positions begin with an epoch, in seconds since 1970."""
    return int(epoch.partition(".")[0], 16) / 1000


def frame(payload: bytes) -> bytes:
    """Return a payload with its length in front."""
    return len(payload).to_bytes(4) + payload


def write_frame(writer: asyncio.StreamWriter, payload: bytes) -> None:
    """Write a payload with its length in front.

    Raises:
        ConnectionError: The connection is closed.
    """
    try:
        writer.write(frame(payload))
    except RuntimeError as error:  # of uvloop; asyncio would drop what is written then
        raise ConnectionError("the connection is closed") from error


class FrameReader:
    """Reads the frames of a connection.

    Args:
        reader: The connection.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._size: int | None = None

    async def read(self) -> bytes:
        """Return the payload of the next frame; a call that is cancelled loses nothing.

        Raises:
            ConnectionError: The connection has ended, or what arrived is not a frame.
        """
        try:
            if self._size is None:  # otherwise the call before this one was cancelled behind it
                self._size = int.from_bytes(await self._reader.readexactly(4))
            if self._size > MAX_FRAME_BYTES:
                raise ConnectionError(f"a frame of {self._size} bytes is over {MAX_FRAME_BYTES}")
            payload = await self._reader.readexactly(self._size)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the connection has ended") from error
        self._size = None
        return payload


class UnixServer:
    """A server on a Unix socket whose `stop` closes the open connections as well.

    Args:
        path: The path of the socket; an older socket there is replaced.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, reader: FrameReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; `ConnectionError` ends it."""
        raise NotImplementedError

    async def start(self) -> None:
        """Listen."""

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # A plain callback: asyncio would log each coroutine that is cancelled.
            task = asyncio.get_running_loop().create_task(self._run(reader, writer))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(accept, self.path, backlog=_BACKLOG)

    async def stop(self) -> None:
        """Close the socket and all connections, and remove the socket's path."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        self.path.unlink(missing_ok=True)

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                await self.serve(FrameReader(reader), writer)
            writer.close()
        finally:
            if not writer.is_closing():  # cancelled: a peer that reads nothing must not hold it up
                writer.transport.abort()


class Hub(UnixServer):
    """Passes every event to all workers, in one order, and keeps the latest for a while.

    A connection begins with one frame: ``publish``, then a frame for each event, or ``events``
    and a position, which gets a frame for each event after that position. Positions have the form
    ``epoch-number``; a hub that starts again has a new epoch, which says when it started.

    Args:
        path: The path of its socket.
        max_events: How many events to keep.
        max_bytes: The size of the events to keep.
    """

    def __init__(
        self, path: Path, *, max_events: int = 10_000, max_bytes: int = 32 * 1024 * 1024
    ) -> None:
        super().__init__(path)
        self._epoch = f"{int(time.time() * 1000):x}.{secrets.token_hex(2)}"
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._events: deque[bytes] = deque()
        self._bytes = 0
        self._next = 0  # the number of the next event
        self._wake_readers: set[Callable[[], None]] = set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def serve(self, reader: FrameReader, writer: asyncio.StreamWriter) -> None:
        """Take or send events."""
        purpose, _, position = (await reader.read()).partition(b" ")
        if purpose == b"publish":
            while True:
                event = await reader.read()
                self._events.append(event)
                self._bytes += len(event)
                self._next += 1
                while len(self._events) > self._max_events or (
                    self._bytes > self._max_bytes and len(self._events) > 1
                ):
                    self._bytes -= len(self._events.popleft())
                for wake in self._wake_readers:
                    wake()
                writer.write(ACKNOWLEDGEMENT)
                await writer.drain()
        if purpose == b"events":
            await self._send_events(writer, position.decode())

    async def _send_events(self, writer: asyncio.StreamWriter, after: str) -> None:
        epoch, _, number = after.partition("-")
        cursor = self._next
        if epoch == self._epoch:
            cursor = int(number)
        elif epoch:  # of a hub before this one: everything here is new
            cursor = 0
        # Tells the position, so that a worker which reconnects before its first event misses none.
        write_frame(writer, f"{self._epoch}-{cursor} ".encode())
        added = asyncio.Event()
        self._wake_readers.add(added.set)
        try:
            while True:
                added.clear()
                # What is no longer kept is skipped; readers see that by the numbers of publishers.
                cursor = max(cursor, self._next - len(self._events))
                # From the right: a reader that keeps up has few events to go back.
                behind = list(itertools.islice(reversed(self._events), self._next - cursor))
                for event in itertools.islice(reversed(behind), _FRAMES_AT_ONCE):
                    cursor += 1
                    write_frame(writer, f"{self._epoch}-{cursor} ".encode() + event)
                await writer.drain()  # a worker that stalls waits here, and only its cursor is kept
                if cursor == self._next:
                    await added.wait()
        finally:
            self._wake_readers.discard(added.set)
