"""Statements for SQLite's threads, and how their results come back to the event loop.

The event loop never waits for a thread. While it has calls under way, it looks every `TICK_SECONDS`
for statements over their time limit, for results that a slow statement holds up, and for statements
behind a slow one that a second thread could run.
"""

from __future__ import annotations

import asyncio
import math
import queue
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Final, Protocol

from alula.adapters.sql._drivers._driver import Answer
from alula.adapters.sql._statement import Row

__all__ = ["TICK_SECONDS", "Inbox", "Job", "Runs", "Session", "Watched", "numbered"]

TICK_SECONDS: Final = 0.005

_NUMBERS: Final = tuple(map(str, range(1, 101)))
"""Most statements have no more parameters; making these names takes longer than the rest."""


class Runs(Protocol):
    """Threads that run jobs."""

    def add(self, job: Job) -> None:
        """Have a thread run a job."""
        ...

    def cancel(self, job: Job) -> None:
        """Stop a statement whose caller has gone, unless others share its transaction."""
        ...


class Watched(Runs, Protocol):
    """Threads that look after their jobs when they are told to."""

    def check(self, inbox: Inbox, now: float) -> None:
        """End the jobs of one event loop that are over their time limit."""
        ...


class Inbox:
    """The calls of one event loop: their results, and their time limits.

    Args:
        lanes: Where its calls run.
    """

    def __init__(self, lanes: Iterable[Watched]) -> None:
        self.loop = asyncio.get_running_loop()
        self.done: deque[Job] = deque()
        self._lanes = tuple(lanes)
        self._under_way = 0
        self._ticks = False

    async def run(self, lane: Runs, job: Job) -> Any:
        """Run a job and return its result.

        Raises:
            TimeoutError: It took longer than its time limit.
            sqlite3.Error: SQLite refused it.
        """
        self._under_way += 1
        if not self._ticks:
            self._ticks = True
            self.loop.call_later(TICK_SECONDS, self._tick)
        lane.add(job)
        try:
            return await job.future
        except asyncio.CancelledError:
            lane.cancel(job)
            raise
        finally:
            self._under_way -= 1

    def deliver(self) -> None:
        """Hand out the results that are there."""
        while self.done:
            job = self.done.popleft()
            future, error = job.future, job.error
            if future.done():  # cancelled, or over its time limit
                continue
            if error is None:
                future.set_result(job.result)
            else:
                job.error = None  # else the traceback and the job would refer to each other
                future.set_exception(error)

    def notify(self) -> None:
        """Have the event loop hand out the results; called by the threads."""
        try:
            self.loop.call_soon_threadsafe(self.deliver)
        except RuntimeError:  # the loop was closed: nobody waits any more
            self.done.clear()

    def _tick(self) -> None:
        self.deliver()
        if not self._under_way:
            self._ticks = False
            return
        now = monotonic()
        for lane in self._lanes:
            lane.check(self, now)
        self.loop.call_later(TICK_SECONDS, self._tick)


def numbered(parameters: Sequence[object]) -> dict[str, object]:
    """Return parameters by their numbers, as sqlite3 takes those of ``?1``.

    Examples:
        >>> numbered(["a", "b"])
        {'1': 'a', '2': 'b'}
    """
    if len(parameters) > len(_NUMBERS):
        return {str(number): value for number, value in enumerate(parameters, 1)}
    return dict(zip(_NUMBERS, parameters, strict=False))


class Job:
    """One statement, and the call that waits for it.

    Args:
        inbox: Of the event loop of the call.
        text: The statement.
        parameters: Its parameters.
        seconds: How long it may take, with waiting.
        answers: Whether the result is an `Answer`, as for statements of the application. Such a
            statement may be anything, so it runs alone.
    """

    __slots__ = (
        "answers",
        "deadline",
        "error",
        "future",
        "has_timed_out",
        "inbox",
        "parameters",
        "result",
        "text",
    )

    def __init__(
        self,
        inbox: Inbox,
        text: str,
        parameters: tuple[object, ...],
        seconds: float | None,
        *,
        answers: bool = False,
    ) -> None:
        self.inbox = inbox
        self.text = text
        self.parameters = parameters
        self.deadline = math.inf if seconds is None else monotonic() + seconds
        self.future: asyncio.Future[Any] = inbox.loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self.has_timed_out = False
        self.answers = answers

    def run(self, connection: sqlite3.Connection) -> None:
        """Run the statement and keep its rows or its error."""
        self.error = None
        try:
            # Python 3.12 and later take `?1` for a name, for which a tuple has no value.
            parameters = self.parameters if self.answers else numbered(self.parameters)
            cursor = connection.execute(self.text, parameters)
            rows: list[Row] = cursor.fetchall()
            if self.answers:
                columns = [column[0] for column in cursor.description or ()]
                count = len(rows) if cursor.rowcount < 0 else cursor.rowcount
                self.result = Answer(columns, rows, count)
            else:
                self.result = rows
        except Exception as error:  # noqa: BLE001  # all of them are for the caller
            self.error = (
                TimeoutError("the statement ran longer than its time limit")
                if self.has_timed_out
                else error
            )


class Session(Job):
    """A transaction that has a thread for itself; its statements come one by one.

    Its future gets a result when it has begun.

    Args:
        inbox: Of the event loop of the call.
        begin: The statement that begins it.
        seconds: How long it may take, with waiting.
        stop: Stops a statement that is running.

    Attributes:
        jobs: Statements to run; the last one ends the transaction, and None rolls it back.
        is_abandoned: Whether it is to be rolled back, and what still waits is not to run.
        is_over: Whether no further statement will run.
    """

    __slots__ = ("is_abandoned", "is_over", "jobs", "stop")

    def __init__(
        self, inbox: Inbox, begin: str, seconds: float, stop: Callable[[Job], None]
    ) -> None:
        super().__init__(inbox, begin, (), seconds)
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.is_abandoned = False
        self.is_over = False
        self.stop = stop

    def add(self, job: Job) -> None:
        """Have a statement run in the transaction."""
        self.jobs.put(job)
        if self.is_over:  # only now: the thread looks into the queue after it has set this
            self.refuse_the_rest()

    def cancel(self, job: Job) -> None:
        """Stop a statement whose caller has gone."""
        self.stop(job)

    def abandon(self) -> None:
        """Roll back, without the statement that is under way and those that wait."""
        self.is_abandoned = True
        self.jobs.put(None)
        self.stop(self)

    def refuse_the_rest(self) -> None:
        """Fail the statements that came too late."""
        while True:
            try:
                job = self.jobs.get_nowait()
            except queue.Empty:
                return
            if job is not None:
                job.error = RuntimeError("the database has rolled this transaction back")
                job.inbox.done.append(job)
                job.inbox.notify()
