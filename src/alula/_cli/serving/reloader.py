"""`alula dev`: keeps one worker, and starts a new one when a file of the project changes.

Files are compared by time and size instead of a file watcher of the system: a scan of a project
takes about a millisecond, and needs no package for each operating system.

Most of a start is the import of Alula and its libraries. A spare worker does that in advance, while
the one before serves: it imports those modules of Alula that the application has used, waits, and
imports the application after the change.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

import typer

from alula._cli.serving.listen import open_socket
from alula._cli.serving.worker_process import WorkerProcess, WorkerSettings, describe_exit
from alula._cli.terminal import print_error, print_result, style
from alula._local_process import ServerOwner
from alula._public_error import HINTS

__all__ = ["Reloader", "Snapshot", "changed_files", "scan", "serve_with_reload"]

SCAN_SECONDS: Final = 0.1
"""The interval between two scans."""

STOP_TIMEOUT_SECONDS: Final = 10.0
"""How long an old worker may take to stop before it is killed."""

Snapshot: TypeAlias = Mapping[str, tuple[int, int]]
"""The modification time and the size of each file."""

_WATCHED_SUFFIXES: Final = (".py", ".env", ".toml", ".yaml", ".yml")
_SKIPPED_FOLDERS: Final = frozenset(
    {
        "__pycache__",
        "migrations",  # a running application imports none
        "node_modules",
        "site-packages",
    }
)
_ENVIRONMENT_MARK: Final = "pyvenv.cfg"

_ALULA: Final = Path(__file__).parents[2]


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
        self._spare: WorkerProcess | None = None
        self._servers: ServerOwner | None = None

    async def run(self) -> int:
        """Run workers until `stop`; return the exit code."""
        stopped = asyncio.create_task(self._stopped.wait())
        print_result(style(f"  starting {self._settings.target}", dim=True))
        # A file without a name: nobody else can delete or replace it, and no end leaves it behind.
        with tempfile.TemporaryFile() as modules, ServerOwner() as servers:
            self._servers = servers
            self._settings = replace(self._settings, modules=modules.fileno())
            while not self._stopped.is_set():
                await self._run_worker(stopped)
            await servers.stop()
        await stopped
        return self._status

    async def _run_worker(self, stopped: asyncio.Task[Literal[True]]) -> None:
        """Run one worker until a file changes, with a spare one for the time after that."""
        assert self._servers is not None  # noqa: S101  # for type checkers; `run` sets it
        debug = os.environ.get("ALULA_DEBUG", "1")
        start = partial(
            WorkerProcess.start,
            sock=self._sock,
            environment={"ALULA_DEBUG": debug, HINTS: debug, **self._servers.environment},
            inherited=[self._servers.descriptor],
        )
        if self._spare is None:
            worker = await start(self._settings)
        else:
            worker, self._spare = self._spare, None
            worker.proceed()
        self._worker = worker
        installed = _time_of_packages()

        async def start_spare() -> None:
            if await worker.started():
                self._spare = await start(replace(self._settings, is_spare=True))

        spare_started = asyncio.create_task(start_spare())
        changes = asyncio.create_task(self._wait_for_changes())
        await asyncio.wait({worker.ended, changes, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if worker.ended.done() and not self._stopped.is_set():
            ending = describe_exit(worker.ended.result())
            print_error(f"the application {ending}; waiting for a file to change")
            await asyncio.wait({changes, stopped}, return_when=asyncio.FIRST_COMPLETED)
        changed = changes.result() if changes.done() else []
        if changed:
            print_result(style(f"  changed: {shorten(changed)}", dim=True))
        changes.cancel()
        worker.stop()
        await asyncio.wait({worker.ended}, timeout=STOP_TIMEOUT_SECONDS)
        worker.kill()
        await asyncio.wait({worker.ended, spare_started})
        spare = self._spare
        if spare is not None and (
            self._stopped.is_set()
            or spare.ended.done()
            # What it has imported may be another version by now.
            or installed != _time_of_packages()
            or any(Path(name).is_relative_to(_ALULA) for name in changed)
        ):
            self._spare = None
            spare.kill()
            await asyncio.wait({spare.ended})

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
        """Stop on SIGINT and SIGTERM, and on SIGHUP unless it is ignored, as by ``nohup``."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGHUP, self.stop)
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


def _time_of_packages() -> int:
    """Return when a package was installed or removed last, by the folder of all of them."""
    return Path(typer.__file__).parents[1].stat().st_mtime_ns


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
