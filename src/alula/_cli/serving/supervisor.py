"""`alula serve`: keeps a number of workers running, whatever happens to one of them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, Final

from alula._cli.serving.listen import check_certificate, open_socket
from alula._cli.serving.worker_process import WorkerProcess, WorkerSettings, describe_exit
from alula._cli.terminal import EXIT_FAILURE, EXIT_USAGE
from alula._hub import Hub, WorkerDirectory
from alula._sockets import refuse_connections, url_of
from alula.logs import configure_logging

__all__ = ["Supervisor", "serve_with_workers"]

_STEADY_SECONDS: Final = 10.0
"""A worker that has run for so long is replaced at once; an earlier end may be a crash loop."""

_LONGEST_PAUSE_SECONDS: Final = 30.0
"""The longest pause before a worker that keeps dying is replaced."""

_CLEANUP_SECONDS: Final = 15
"""How long a worker may take after its last request, for its teardown, before it is killed."""

# As in `alula.configuration`, whose import would cost this process Pydantic.
_ENVIRONMENT: Final = "ALULA_ENV"

_log = logging.getLogger("alula.serve")


def serve_with_workers(settings: WorkerSettings, *, host: str, port: int, path: str | None) -> int:
    """Serve an application with worker processes until a signal stops it.

    Args:
        settings: The settings of every worker, and how many there are.
        host: The address to listen on.
        port: The TCP port, 0 for any free one.
        path: The path of a Unix socket to listen on instead, None for the port.

    Returns:
        The exit code.

    Raises:
        UsageError: The port, the path or the certificate cannot be used.
    """
    check_certificate(settings.ssl_certfile, settings.ssl_keyfile)
    configure_logging()
    sock = open_socket(host, port, path)
    url = url_of("https" if settings.ssl_certfile else "http", sock.getsockname())
    directory = WorkerDirectory.make() if settings.workers > 1 else None

    def start(is_only_worker: bool) -> Awaitable[WorkerProcess]:
        return WorkerProcess.start(
            dataclasses.replace(settings, accept_during_setup=is_only_worker),
            sock,
            directory.next_environment() if directory else None,
        )

    def close_socket() -> None:
        refuse_connections(sock)
        sock.close()

    async def run() -> int:
        supervisor = Supervisor(
            start,
            settings.workers,
            settings.drain
            + settings.late_request_seconds
            + settings.graceful_timeout
            + _CLEANUP_SECONDS,
            close_socket,
            settings.drain,
            lambda: _log.info("listening on %s", url),
        )
        supervisor.listen_to_signals()
        _log.info("starting %s for %s", settings.target, url)
        if not os.environ.get(_ENVIRONMENT):
            _log.warning(
                "%s is not set, so settings of development count; set it, such as to production",
                _ENVIRONMENT,
            )
        async with Hub(directory.hub) if directory else contextlib.nullcontext():
            return await supervisor.run()

    with contextlib.closing(directory) if directory else contextlib.nullcontext():
        return asyncio.run(run())


class Supervisor:
    """Keeps workers running, replaces those that die, and replaces all of them on request.

    A worker that dies is replaced at once, the next one after a pause that doubles each time. The
    same holds for a replacement that dies before it is ready: the cause may be the memory of the
    machine, or a database that is away for a while. Only if the first worker does not start does
    the supervisor stop, because that is a mistake in the application or its settings. If the system
    cannot start a process now, it is asked again after such pauses.

    Args:
        start: Starts a worker; its argument is whether no worker accepts requests yet.
        count: How many workers to run.
        stop_timeout: Seconds that a worker may take to stop before it is killed.
        on_stop: Called once, before the workers that accept requests begin to end.
        drain: Seconds that workers accept requests after they were told to stop.
        on_ready: Called once, when the first worker accepts requests.

    Attributes:
        workers: The running workers.
    """

    def __init__(
        self,
        start: Callable[[bool], Awaitable[WorkerProcess]],
        count: int,
        stop_timeout: float,
        on_stop: Callable[[], object],
        drain: float = 0,
        on_ready: Callable[[], object] = bool,
    ) -> None:
        self.workers: set[WorkerProcess] = set()
        self._start = start
        self._count = count
        self._stop_timeout = stop_timeout
        self._on_stop = on_stop
        self._drain = drain
        self._on_ready = on_ready
        self._stopped = asyncio.Event()
        self._status = 0
        # Held while a worker starts, so that `run` does not miss it when it stops all of them.
        self._adding = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending_restarts = 0
        self._pause = 0.0
        # Whether a worker has been ready: the application can start.
        self._has_served = False

    async def run(self) -> int:
        """Start the workers and return once all have ended, after `stop` or if none starts.

        Returns:
            The exit code.
        """

        async def start_all() -> None:
            # The first worker starts alone, so that an error of the application is printed once.
            first = await self._add()
            if first is not None and await first.started():
                self._has_served = True
                self._on_ready()
                for _ in range(self._count - 1):
                    if await self._add() is None:
                        self._spawn(self._add_in_the_end())
            elif first is None:
                self.stop(EXIT_FAILURE)

        self._spawn(start_all())
        await self._stopped.wait()
        async with self._adding:
            ready = {worker for worker in self.workers if worker.is_ready}
        # Workers that accept requests close the socket last: they take what still waits in it.
        # Connections that wait when the last process closes the socket are reset.
        if ready:
            await self._stop(self.workers - ready)
        await asyncio.gather(self._close_after_drain(), self._stop(self.workers))
        await asyncio.gather(*self._tasks)
        return self._status

    def stop(self, status: int = 0) -> None:
        """Stop all workers gracefully; kill them at the second call.

        Args:
            status: The exit code.
        """
        if self._stopped.is_set():
            for worker in self.workers:
                worker.kill()
        else:
            self._status = status
            self._stopped.set()

    def restart(self) -> None:
        """Replace the workers one after another; each stops once its successor is ready."""
        if not any(worker.is_ready for worker in self.workers):
            return  # they are starting now, with the current code
        self._pending_restarts += 1
        if self._pending_restarts == 1:
            self._spawn(self._replace_all())

    def listen_to_signals(self) -> None:
        """Stop on SIGINT and SIGTERM, restart on SIGHUP."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        # Shells report the end by a signal as 128 plus its number.
        loop.add_signal_handler(signal.SIGINT, self.stop, 130)
        loop.add_signal_handler(signal.SIGHUP, self.restart)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)  # the event loop holds only a weak reference
        task.add_done_callback(self._tasks.discard)

    async def _replace_all(self) -> None:
        while self._pending_restarts:
            self._pending_restarts = 1  # requests that came in during a restart count as one
            _log.info("restarting %d workers, one after another", len(self.workers))
            replaced = [await self._replace(worker) for worker in tuple(self.workers)]
            self._pending_restarts -= 1
            if all(replaced):
                _log.info("all workers are new")

    async def _replace(self, old: WorkerProcess) -> bool:
        """Start a worker, then stop an old one; return False if the new one does not start."""
        new = await self._add()
        if new is None:
            return False
        new.retiring = True  # if it does not start, `_watch` must not replace it
        if not await new.started():
            if not self._stopped.is_set():
                _log.error("worker %d did not start; worker %d stays", new.pid, old.pid)
            return False
        new.retiring = self._stopped.is_set()
        if old not in self.workers:  # it has died meanwhile, so `_watch` has replaced it already
            old = new
        old.retire()
        await asyncio.wait({old.ended}, timeout=self._stop_timeout)
        old.kill()
        return True

    async def _add(self) -> WorkerProcess | None:
        """Start a worker and return it; None if all are about to stop, or none can be started."""
        async with self._adding:
            if self._stopped.is_set():
                return None
            try:
                worker = await self._start(not any(worker.is_ready for worker in self.workers))
            except (OSError, RuntimeError) as error:  # the latter without a thread for its end
                _log.error("cannot start a worker: %s", error)
                return None
            self.workers.add(worker)
        self._spawn(self._watch(worker))
        return worker

    async def _add_in_the_end(self) -> None:
        """Start a worker after the pause that is due, and again until one can be started.

        The system may lack memory, processes or file descriptors for a while.
        """
        while not self._stopped.is_set():
            if self._pause:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), self._pause)
            self._pause = min(max(1, self._pause * 2), _LONGEST_PAUSE_SECONDS)
            if await self._add() is not None:
                return

    async def _close_after_drain(self) -> None:
        ended = {worker.ended for worker in self.workers}
        if self._drain and ended:  # at 0, before `_stop` tells the workers
            await asyncio.wait(ended, timeout=self._drain)
        self._on_stop()

    async def _stop(self, workers: Collection[WorkerProcess]) -> None:
        workers = tuple(workers)
        for worker in workers:
            worker.stop()
        if workers:
            await asyncio.wait({worker.ended for worker in workers}, timeout=self._stop_timeout)
        for worker in workers:
            if not worker.ended.done():
                _log.error("worker %d did not stop in time and is killed", worker.pid)
                worker.kill()
                await asyncio.wait({worker.ended})

    async def _watch(self, worker: WorkerProcess) -> None:
        """Wait for the end of a worker, and replace it unless its end was intended."""
        clock = asyncio.get_running_loop().time
        started = clock()
        await asyncio.wait({worker.ended})
        self.workers.discard(worker)
        self._has_served |= worker.is_ready
        if self._stopped.is_set() or worker.retiring:
            return
        status = worker.ended.result()
        ending = f"worker {worker.pid} {describe_exit(status)}"
        if not worker.is_ready:
            ending += " before it could accept requests"
            if not self._has_served:
                _log.error("%s; see above", ending)
                self.stop(EXIT_USAGE if status == EXIT_USAGE else EXIT_FAILURE)
                return
        # A start that fails may take long, such as when it waits for a database.
        elif clock() - started >= _STEADY_SECONDS:
            self._pause = 0
        when = f" in {self._pause:g} seconds" if self._pause else ""
        _log.error("%s; another one replaces it%s", ending, when)
        await self._add_in_the_end()
