"""`alula dev`: one worker, and a new one whenever a file has changed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from alula._cli.serving.process import WorkerProcess, ending
from alula._cli.serving.settings import WorkerSettings
from alula._cli.serving.watching import changed, look
from alula._cli.terminal import print_error, print_result, style

__all__ = ["Reloader"]

LOOK_SECONDS: Final = 0.3
"""How often files are looked at."""

PATIENCE_SECONDS: Final = 10.0
"""How long an old worker may take to end before it is killed."""


class Reloader:
    """Keeps one worker that has the code as it is on the disk.

    What the system accepts while there is none waits in the socket.

    Args:
        settings: Of the worker.
        sock: The socket that the workers serve on, one after another.
        places: Folders and files to watch.
    """

    def __init__(
        self, settings: WorkerSettings, sock: socket.socket, places: Sequence[Path]
    ) -> None:
        self._settings = settings
        self._sock = sock
        self._places = places
        self._seen = look(places)
        self._stopped = asyncio.Event()
        self._status = 0
        self._worker: WorkerProcess | None = None

    async def run(self) -> int:
        """Run workers until `stop`; return the exit code."""
        stopped = asyncio.create_task(self._stopped.wait())
        settings = self._settings
        print_result(style(f"  starting {settings.target}", dim=True))
        while not self._stopped.is_set():
            self._worker = worker = await WorkerProcess.start(settings, self._sock, _environment())
            changes = asyncio.create_task(self._changes())
            await asyncio.wait(
                {worker.ended, changes, stopped}, return_when=asyncio.FIRST_COMPLETED
            )
            if worker.ended.done() and not self._stopped.is_set():
                how = ending(worker.ended.result())
                print_error(f"the application {how}; waiting for a file to change")
                await asyncio.wait({changes, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if changes.done():
                print_result(style(f"  changed: {_shown(changes.result())}", dim=True))
            changes.cancel()
            await self._end(worker)
        await stopped
        return self._status

    def stop(self, status: int = 0) -> None:
        """End the worker and what `run` waits for; when called again, at once.

        Args:
            status: The exit code.
        """
        if not self._stopped.is_set():
            self._status = status
            self._stopped.set()
        elif self._worker is not None:
            self._worker.kill()

    def listen_to_signals(self) -> None:
        """Stop on SIGINT and SIGTERM."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, self.stop, 130)

    async def _changes(self) -> list[str]:
        """Return the files that have changed, once there are some."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            seen = await asyncio.to_thread(look, self._places)
            found = changed(self._seen, seen)
            if found:
                self._seen = seen
                return found

    async def _end(self, worker: WorkerProcess) -> None:
        worker.stop()
        await asyncio.wait({worker.ended}, timeout=PATIENCE_SECONDS)
        worker.kill()
        await asyncio.wait({worker.ended})


def _environment() -> dict[str, str]:
    """Return what the worker finds in its environment besides what is there."""
    return {
        "ALULA_DEBUG": os.environ.get("ALULA_DEBUG", "1"),
        # A file that changes twice in a second, and not in its size, is compiled each time.
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _shown(names: Sequence[str]) -> str:
    folder = Path.cwd()
    shown = [
        str(Path(name).relative_to(folder)) if Path(name).is_relative_to(folder) else name
        for name in names[:3]
    ]
    return ", ".join(shown) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
