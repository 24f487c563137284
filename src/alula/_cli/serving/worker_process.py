"""A worker process as its parent sees it: how it is started, watched and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from typing import Final, Self

__all__ = [
    "HEARTBEAT",
    "HEARTBEAT_SECONDS",
    "PROCEED",
    "READY",
    "SIGNALS_OF_PARENT",
    "WorkerProcess",
    "WorkerSettings",
    "describe_exit",
]

SIGNALS_OF_PARENT: Final = frozenset({signal.SIGINT, signal.SIGHUP})
"""What the parent alone reacts to. A worker begins with these blocked."""

READY: Final = b"1"
"""What a worker sends over its control connection once it accepts requests."""

PROCEED: Final = b"+"
"""What a spare worker waits for."""

HEARTBEAT: Final = b"."
"""What it sends from then on, as long as its event loop runs."""

HEARTBEAT_SECONDS: Final = 1.0
"""The interval between two heartbeats."""

_STACK_SECONDS: Final = 2.0
"""How long a worker that hangs may take to write its stack before it is killed."""

_WORKER_CODE: Final = "from alula._cli.serving.worker import main; main()"

_log = logging.getLogger("alula.serve")


@dataclasses.dataclass(frozen=True)
class WorkerSettings:
    """The settings of one worker, passed to its process as text.

    Attributes:
        target: The application, as ``module:name``.
        socket: The descriptor of the socket to serve on.
        control: The descriptor of the connection to the parent process.
        accept_during_setup: As in `WebApplication.serve`.
        drain: Seconds during which readiness is denied, and requests are still served, before the
            worker stops.
        late_request_seconds: As in `WebApplication.serve`.
        graceful_timeout: Seconds that running requests may take once the worker stops.
        keep_alive: Seconds to keep idle connections open.
        read_timeout: As in `WebApplication.listen`.
        write_timeout: As in `WebApplication.listen`.
        min_rate: As in `WebApplication.listen`.
        max_unread_bytes: As in `WebApplication.listen`.
        worker_timeout: Seconds after which a worker that hangs is replaced; 0 disables this.
        access_log: Whether to log every request.
        proxy_headers: Whether to trust what a proxy says about clients.
        forwarded_allow_ips: The addresses of trusted proxies.
        ssl_certfile: A certificate to serve HTTPS with, None for HTTP.
        ssl_keyfile: Its private key, None if both are in one file.
        development: Whether to show errors in responses, and to serve the error of a failed start.
        announce: Whether to print the URL and the services once the application has started.
        workers: How many workers serve the application.
        watch_loop: Log code that blocks the event loop for more seconds than this; 0 disables it.
        modules: The descriptor of a file in which a worker writes the names of Alula's modules
            that it has loaded, once it is ready; -1 for none.
        is_spare: Whether it imports the modules that this file names, and then waits for
            `WorkerProcess.proceed` before it imports the application.
    """

    target: str
    socket: int = -1
    control: int = -1
    accept_during_setup: bool = False
    drain: float = 0
    late_request_seconds: float = 0
    graceful_timeout: float = 30
    keep_alive: int = 75
    read_timeout: float = 20
    write_timeout: float = 20
    min_rate: float = 500
    max_unread_bytes: int = 256 * 1024 * 1024
    worker_timeout: float = 0
    access_log: bool = True
    proxy_headers: bool = False
    forwarded_allow_ips: str = "127.0.0.1"
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    development: bool = False
    announce: bool = False
    workers: int = 1
    watch_loop: float = 0
    modules: int = -1
    is_spare: bool = False

    def to_text(self) -> str:
        """Return the settings as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the settings that `to_text` has written."""
        return cls(**json.loads(text))


class WorkerProcess:
    """A running worker.

    Attributes:
        pid: The id of its process.
        retiring: Whether its end is intended; set by the one who stops or replaces it.
        ended: A task with its exit code, negative for the signal that ended it.
    """

    def __init__(self, process: Process, control: socket.socket, timeout: float = 0) -> None:
        self.pid = process.pid
        self.retiring = False
        self._process = process
        self._control = control
        loop = asyncio.get_running_loop()
        self._readiness = loop.create_task(self._receive_readiness())
        self._watching = loop.create_task(self._kill_if_hanging(timeout))
        self.ended = loop.create_task(self._wait())

    @classmethod
    async def start(
        cls,
        settings: WorkerSettings,
        sock: socket.socket,
        environment: Mapping[str, str] | None = None,
        inherited: Sequence[int] = (),
    ) -> Self:
        """Start a worker in a new interpreter, which imports the application as it is now.

        Args:
            settings: The settings; both descriptors are filled in.
            sock: The socket to serve on.
            environment: Variables in addition to those of this process.
            inherited: Further descriptors that the worker inherits.

        Raises:
            OSError: The system cannot start a process, or has no file descriptors left.
            RuntimeError: It cannot start a thread, by which Python 3.11 waits for the process.
        """
        parent_end, worker_end = socket.socketpair()
        parent_end.setblocking(False)
        descriptors = [sock.fileno(), worker_end.fileno(), *inherited]
        settings = dataclasses.replace(settings, socket=descriptors[0], control=descriptors[1])
        if settings.modules >= 0:
            descriptors.append(settings.modules)
        with worker_end:
            # -P: a file of the current folder, such as json.py, must not replace a module that
            # Alula imports.
            # The command line is visible to other users: settings must not contain secrets.
            # The terminal sends these to all processes. A worker ignores them, but cannot say so
            # before it has imported Alula: until then, they wait.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS_OF_PARENT)
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",
                    "-c",
                    _WORKER_CODE,
                    settings.to_text(),
                    pass_fds=descriptors,
                    env={**os.environ, **(environment or {})},
                )
            except BaseException:
                parent_end.close()  # if the process has begun nevertheless, it ends by that
                raise
            finally:  # another start, at the same time, may have blocked them before
                signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS_OF_PARENT - before)
        return cls(process, parent_end, settings.worker_timeout)

    @property
    def is_ready(self) -> bool:
        """Whether it accepts requests."""
        return self._readiness.done() and self._readiness.result()

    async def started(self) -> bool:
        """Wait until it accepts requests; return False if it ends before."""
        await asyncio.wait({self._readiness})
        return self.is_ready

    def proceed(self) -> None:
        """Let a spare worker import and serve the application."""
        with contextlib.suppress(OSError):  # it has ended, which `ended` tells
            self._control.send(PROCEED)

    def stop(self) -> None:
        """Stop it gracefully."""
        self.retiring = True
        self._send(signal.SIGTERM)

    def retire(self) -> None:
        """Stop it gracefully without turning readiness off: other workers go on."""
        self.retiring = True
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """End it at once."""
        self.retiring = True
        self._send(signal.SIGKILL)

    async def _receive_readiness(self) -> bool:
        """Return True once it accepts requests, and False if it ends before."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.sock_recv(self._control, len(READY)) == READY
        except ConnectionResetError:  # it had not read `PROCEED`, so this is no end of file
            return False

    async def _wait(self) -> int:
        status = await self._process.wait()
        self._watching.cancel()
        # The process has closed its end, so a pending receive of either task returns.
        await asyncio.wait({self._readiness, self._watching})
        self._control.close()
        return status

    async def _kill_if_hanging(self, allowed_seconds: float) -> None:
        """Kill the worker if its heartbeats stop for too long, so that it is replaced.

        Missed heartbeats are counted instead of seconds: after the machine has been suspended,
        the clock has advanced although the worker has missed nothing.
        """
        await asyncio.wait({self._readiness})
        if not allowed_seconds or not self.is_ready:
            return
        loop, missed = asyncio.get_running_loop(), 0
        # A worker that is stopping may block in a teardown; its parent limits that time.
        while missed * HEARTBEAT_SECONDS < allowed_seconds or self.retiring:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    # More than one byte: heartbeats may have piled up.
                    await loop.sock_recv(self._control, 4096)
            except TimeoutError:
                missed += 1
            else:
                missed = 0
                await asyncio.sleep(HEARTBEAT_SECONDS / 2)
        _log.error(
            "worker %d hangs: its event loop has not run for %g seconds; it is killed after it has"
            " tried to write its stack",
            self.pid,
            allowed_seconds,
        )
        self._send(signal.SIGABRT)
        await asyncio.sleep(_STACK_SECONDS)
        self._send(signal.SIGKILL)

    def _send(self, signal_number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal_number)


def describe_exit(status: int) -> str:
    """Return in words how a process with this exit status has ended."""
    if status >= 0:
        return f"ended with the exit code {status}"
    return f"was ended by {signal.Signals(-status).name}"
