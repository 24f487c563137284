"""A worker, as the process sees it that looks after it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from typing import Final, Self

from alula._cli.serving.settings import HEARTBEAT_SECONDS, READY, WorkerSettings

__all__ = ["WorkerProcess", "ending"]

_log = logging.getLogger("alula.serve")

_STACK_SECONDS: Final = 2.0
"""How long a worker that hangs may take to write its stack before it is killed."""

_CODE: Final = "from alula._cli.serving.worker import main; main()"


class WorkerProcess:
    """A running worker.

    Attributes:
        pid: Its process.
        retiring: Whether its end is wanted; whoever wants it says so.
        ended: Its exit code once it has ended, below zero for the signal that ended it.
    """

    def __init__(self, process: Process, control: socket.socket, timeout: float = 0) -> None:
        self.pid = process.pid
        self.retiring = False
        self._process = process
        self._control = control
        loop = asyncio.get_running_loop()
        self._told = loop.create_task(loop.sock_recv(control, len(READY)))
        self._watching = loop.create_task(self._watch(timeout))
        self.ended = loop.create_task(self._wait())

    @classmethod
    async def start(
        cls,
        settings: WorkerSettings,
        sock: socket.socket,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Start a worker in an interpreter of its own, so that it loads the code as it is now.

        Args:
            settings: What it is told.
            sock: The socket that it serves on.
            environment: Variables in addition to those of this process.
        """
        here, there = socket.socketpair()
        here.setblocking(False)
        descriptors = (sock.fileno(), there.fileno())
        told = settings.changed(socket=descriptors[0], control=descriptors[1])
        with there:
            # -P: files in this folder must not come in the place of modules that Alula needs.
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-c", _CODE, told.to_text()),
                pass_fds=descriptors,
                env={**os.environ, **(environment or {})},
            )
        return cls(process, here, settings.worker_timeout)

    @property
    def is_ready(self) -> bool:
        """Whether it has told that it takes requests."""
        return self._told.done() and self._told.result() == READY

    async def started(self) -> bool:
        """Wait until it takes requests; return False where it ends before."""
        await asyncio.wait({self._told})
        return self.is_ready

    def stop(self) -> None:
        """Ask it to end in good order."""
        self.retiring = True
        self._send(signal.SIGTERM)

    def retire(self) -> None:
        """Ask it to end in good order while others go on: it does not deny that all are ready."""
        self.retiring = True
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """End it at once."""
        self.retiring = True
        self._send(signal.SIGKILL)

    async def _wait(self) -> int:
        status = await self._process.wait()
        self._watching.cancel()
        await asyncio.wait({self._told, self._watching})  # both ends are closed now, as it seems
        self._control.close()
        return status

    async def _watch(self, allowed: float) -> None:
        """End a worker that gives no sign of life, so that another one takes its place.

        Looks are counted, not seconds: where the machine has slept, nobody has missed anything.
        """
        await asyncio.wait({self._told})
        if not allowed or not self.is_ready:
            return
        loop, missed = asyncio.get_running_loop(), 0
        while missed * HEARTBEAT_SECONDS < allowed or self.retiring:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await loop.sock_recv(self._control, 4096)
            except TimeoutError:
                missed += 1
            else:
                missed = 0
                await asyncio.sleep(HEARTBEAT_SECONDS / 2)
        _log.error(
            "worker %d hangs: its event loop has not run for %g seconds; it is killed, and writes"
            " its stack where it can",
            self.pid,
            allowed,
        )
        self._send(signal.SIGABRT)
        await asyncio.sleep(_STACK_SECONDS)
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


def ending(status: int) -> str:
    """Return in words how a process has ended."""
    if status >= 0:
        return f"ended with the exit code {status}"
    return f"was ended by {signal.Signals(-status).name}"
