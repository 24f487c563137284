"""`alula dev`: keeps one worker, and starts a new one when a file of the project changes.

Files are compared by time and size instead of a file watcher of the system: a scan of a project
takes about a millisecond, and needs no package for each operating system.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from alula._cli.serving.listen import open_socket
from alula._cli.serving.worker_process import WorkerProcess, WorkerSettings, describe_exit
from alula._cli.terminal import print_error, print_result, style

__all__ = ["Reloader", "Snapshot", "changed_files", "scan", "serve_with_reload"]

SCAN_SECONDS: Final = 0.1
"""The interval between two scans."""

STOP_TIMEOUT_SECONDS: Final = 10.0
"""How long an old worker may take to stop before it is killed."""

Snapshot: TypeAlias = Mapping[str, tuple[int, int]]
"""The modification time and the size of each file."""

_WATCHED_SUFFIXES: Final = (".py", ".env", ".toml", ".yaml", ".yml")
_SKIPPED_FOLDERS: Final = frozenset({"__pycache__", "node_modules", "site-packages"})
_ENVIRONMENT_MARK: Final = "pyvenv.cfg"


def serve_with_reload(
    settings: WorkerSettings, host: str, port: int, watched: Sequence[Path]
) -> int:
    """Serve an application until a signal stops it, with a new worker whenever a file changes.

    Args:
        settings: The settings of the worker.
        host: The address to listen on.
        port: The TCP port, 0 for any free one.
        watched: Files and folders to watch in addition to the current folder.

    Returns:
        The exit code.

    Raises:
        UsageError: The port is not available.
    """
    sock = open_socket(host, port)

    async def run() -> int:
        reloader = Reloader(settings, sock, [Path.cwd(), *watched])
        reloader.listen_to_signals()
        return await reloader.run()

    with sock:
        return asyncio.run(run())


class Reloader:
    """Keeps one worker, which runs the code as it is on the disk.

    Connections that the system accepts between two workers wait in the socket.

    Args:
        settings: The settings of the worker.
        sock: The socket that the workers serve on, one after another.
        paths: Files and folders to watch.
    """

    def __init__(
        self, settings: WorkerSettings, sock: socket.socket, paths: Sequence[Path]
    ) -> None:
        self._settings = settings
        self._sock = sock
        self._paths = paths
        # Before the first worker starts: a change while it imports the code restarts it.
        self._snapshot = scan(paths)
        self._stopped = asyncio.Event()
        self._status = 0
        self._worker: WorkerProcess | None = None

    async def run(self) -> int:
        """Run workers until `stop`; return the exit code."""
        stopped = asyncio.create_task(self._stopped.wait())
        environment = {
            "ALULA_DEBUG": os.environ.get("ALULA_DEBUG", "1"),
            # Python compares the time of compiled files in whole seconds: two changes within a
            # second that keep the size would run the old code.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        print_result(style(f"  starting {self._settings.target}", dim=True))
        while not self._stopped.is_set():
            worker = await WorkerProcess.start(self._settings, self._sock, environment)
            self._worker = worker
            changes = asyncio.create_task(self._wait_for_changes())
            await asyncio.wait(
                {worker.ended, changes, stopped}, return_when=asyncio.FIRST_COMPLETED
            )
            if worker.ended.done() and not self._stopped.is_set():
                ending = describe_exit(worker.ended.result())
                print_error(f"the application {ending}; waiting for a file to change")
                await asyncio.wait({changes, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if changes.done():
                print_result(style(f"  changed: {shorten(changes.result())}", dim=True))
            changes.cancel()
            worker.stop()
            await asyncio.wait({worker.ended}, timeout=STOP_TIMEOUT_SECONDS)
            worker.kill()
            await asyncio.wait({worker.ended})
        await stopped
        return self._status

    def stop(self, status: int = 0) -> None:
        """Stop the worker and end `run`; kill the worker at the second call.

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
        # Shells report the end by a signal as 128 plus its number.
        loop.add_signal_handler(signal.SIGINT, self.stop, 130)

    async def _wait_for_changes(self) -> list[str]:
        while True:
            await asyncio.sleep(SCAN_SECONDS)
            # Network drives and mounts of containers can be slow; signals are handled meanwhile.
            snapshot = await asyncio.to_thread(scan, self._paths)
            changed = changed_files(self._snapshot, snapshot)
            if changed:
                self._snapshot = snapshot
                return changed


def scan(paths: Iterable[Path]) -> Snapshot:
    """Return the state of the files of an application.

    Hidden folders, Python environments, installed packages and files with other suffixes are left
    out. A path that names a file is included, whatever its suffix.
    """
    snapshot: dict[str, tuple[int, int]] = {}
    for path in paths:
        for name in _files_below(str(path)):
            try:
                status = os.stat(name)  # noqa: PTH116  # a Path for each file costs more than that
            except OSError:
                continue  # it was deleted during the scan
            snapshot[name] = status.st_mtime_ns, status.st_size
    return snapshot


def changed_files(before: Snapshot, after: Snapshot) -> list[str]:
    """Return the names of files that were added, deleted or modified."""
    names = before.keys() | after.keys()
    return sorted(name for name in names if before.get(name) != after.get(name))


def shorten(names: Sequence[str]) -> str:
    """Return the first three names, relative to the current folder."""
    folder = Path.cwd()
    short_names = [
        str(Path(name).relative_to(folder)) if Path(name).is_relative_to(folder) else name
        for name in names[:3]
    ]
    return ", ".join(short_names) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _files_below(path: str) -> Iterator[str]:
    if not os.path.isdir(path):  # noqa: PTH112  # as in `scan`
        yield path
        return
    try:
        with os.scandir(path) as entries:
            children = list(entries)
    except OSError:
        return  # it was deleted, or belongs to another user
    if any(entry.name == _ENVIRONMENT_MARK for entry in children):
        return
    for entry in children:
        if entry.is_dir(follow_symlinks=False):  # a link could lead back to a folder above
            if not entry.name.startswith(".") and entry.name not in _SKIPPED_FOLDERS:
                yield from _files_below(entry.path)
        elif entry.name.endswith(_WATCHED_SUFFIXES):
            yield entry.path
