"""`alula serve`: so many workers, whatever happens to one of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, Final

from alula._cli.serving.process import WorkerProcess, ending
from alula._cli.terminal import EXIT_FAILURE, EXIT_USAGE

__all__ = ["Supervisor"]

_log = logging.getLogger("alula.serve")

_STEADY_SECONDS: Final = 10.0
"""A worker that lived so long is replaced at once; before that it may be a loop."""

_LONGEST_PAUSE: Final = 30.0


class Supervisor:
    """Keeps workers running, replaces those that die, and all of them on demand.

    A worker that dies is replaced at once, the next one after a pause that grows. Where one does
    not even start and there is no other, that is the end: it would not start the next time either.

    Args:
        start: Starts a worker; it is told whether there is none yet that takes requests.
        count: How many there are to be.
        patience: Seconds that a worker has to stop before it is killed.
        on_stop: Called once, before those workers are asked to stop that take requests.

    Attributes:
        workers: Those that are running.
    """

    def __init__(
        self,
        start: Callable[[bool], Awaitable[WorkerProcess]],
        count: int,
        patience: float,
        on_stop: Callable[[], Any],
    ) -> None:
        self.workers: set[WorkerProcess] = set()
        self._start = start
        self._count = count
        self._patience = patience
        self._on_stop = on_stop
        self._stopped = asyncio.Event()
        self._status = 0
        self._adding = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._restarts = 0  # how many were asked for and are not done
        self._pause = 0.0

    async def run(self) -> int:
        """Start the workers and return once all have ended, after `stop` or where none starts.

        Returns:
            The exit code.
        """
        self._run(self._begin())
        await self._stopped.wait()
        await self._end_all()
        return self._status

    def stop(self, status: int = 0) -> None:
        """Let the workers end in good order; when called again, at once.

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
        """Replace the workers one after another; each ends once another one takes requests."""
        if not any(worker.is_ready for worker in self.workers):
            return  # they are about to be new
        self._restarts += 1
        if self._restarts == 1:
            self._run(self._replace_all())

    def listen_to_signals(self) -> None:
        """Stop on SIGINT and SIGTERM, restart on SIGHUP."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, self.stop, 130)
        loop.add_signal_handler(signal.SIGHUP, self.restart)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _begin(self) -> None:
        """Start the workers, the first one alone: so a mistake in the application is told once."""
        first = await self._add()
        if first is not None and await first.started():
            for _ in range(self._count - 1):
                await self._add()

    async def _replace_all(self) -> None:
        while self._restarts:
            self._restarts = 1  # those that were asked for meanwhile are one
            _log.info("restarting %d workers, one after another", len(self.workers))
            replaced = [await self._replace(old) for old in tuple(self.workers)]
            self._restarts -= 1
            if all(replaced):
                _log.info("all workers are new")

    async def _replace(self, old: WorkerProcess) -> bool:
        """Put a worker in the place of another one; return False where that did not start."""
        new = await self._add()
        if new is None:
            return False
        new.retiring = True  # where it does not start, no other one is tried
        if not await new.started():
            if not self._stopped.is_set():
                _log.error("worker %d did not start; worker %d stays", new.pid, old.pid)
            return False
        new.retiring = self._stopped.is_set()
        if old not in self.workers:  # it died meanwhile, and has been replaced
            old = new
        old.retire()
        await asyncio.wait({old.ended}, timeout=self._patience)
        old.kill()
        return True

    async def _add(self) -> WorkerProcess | None:
        """Start a worker, and return it; None where all are about to end."""
        async with self._adding:
            if self._stopped.is_set():
                return None
            worker = await self._start(not any(each.is_ready for each in self.workers))
            self.workers.add(worker)
        self._run(self._watch(worker))
        return worker

    async def _end_all(self) -> None:
        """Stop the workers; those last that take connections.

        The last process that closes the socket has to look into it: what waits there is lost then.
        """
        async with self._adding:
            ready = {worker for worker in self.workers if worker.is_ready}
        if ready:
            await self._end(self.workers - ready)
        self._on_stop()
        await self._end(self.workers)
        await asyncio.gather(*self._tasks)

    async def _end(self, workers: Collection[WorkerProcess]) -> None:
        workers = tuple(workers)
        for worker in workers:
            worker.stop()
        if workers:
            await asyncio.wait({worker.ended for worker in workers}, timeout=self._patience)
        for worker in workers:
            if not worker.ended.done():
                _log.error("worker %d did not stop in time and is killed", worker.pid)
                worker.kill()
                await asyncio.wait({worker.ended})

    async def _watch(self, worker: WorkerProcess) -> None:
        """Wait for the end of a worker, and put another one in its place where it was needed."""
        clock = asyncio.get_running_loop().time
        since = clock()
        await asyncio.wait({worker.ended})
        self.workers.discard(worker)
        if self._stopped.is_set() or worker.retiring:
            return
        how = f"worker {worker.pid} {ending(worker.ended.result())}"
        if not worker.is_ready and not any(each.is_ready for each in self.workers):
            _log.error("%s before it could take requests; see above. There is no other", how)
            self.stop(EXIT_USAGE if worker.ended.result() == EXIT_USAGE else EXIT_FAILURE)
            return
        if clock() - since >= _STEADY_SECONDS:
            self._pause = 0
        when = f" in {self._pause:g} seconds" if self._pause else ""
        _log.error("%s; another one takes its place%s", how, when)
        if self._pause:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), self._pause)
        self._pause = min(max(1, self._pause * 2), _LONGEST_PAUSE)
        await self._add()
