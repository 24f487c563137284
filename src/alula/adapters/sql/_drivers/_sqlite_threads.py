"""The threads that run SQLite's statements.

What holds in this file:

- What waits when a thread is free goes to it together, and the results come back together: a
  change of threads costs more than a small statement.
- Writes that go together are one transaction. Each of them is one statement, which SQLite undoes
  alone if it is refused, so no savepoints are needed. If the transaction as a whole is lost, each
  statement runs again, alone.
"""

from __future__ import annotations

import math
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final, TypeAlias

from alula.adapters.sql._drivers._sqlite_jobs import TICK_SECONDS, Inbox, Job, Session

__all__ = ["Connect", "Lane"]

Connect: TypeAlias = Callable[[], sqlite3.Connection]

MAX_BATCH: Final = 500
"""How many writes one transaction takes at most."""

_CHECK_SECONDS: Final = 1.0
"""How often a thread that has work looks whether its file is still there."""

_DELIVER_SECONDS: Final = 0.002
"""How long results wait for those of the statements after them."""


class Lane:
    """Jobs that wait, and the threads that take them.

    Args:
        name: Of the threads.
        connect: Opens a connection.
        check: Raises an error if the connections are of no use any more.
        threads: How many.
        together: Whether jobs that wait are run in one transaction; then there is one thread.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        check: Callable[[], None],
        threads: int,
        *,
        together: bool,
    ) -> None:
        self.connect = connect
        self.check_connections = check
        self.together = together
        self.waiting: deque[Job] = deque()
        self.is_closing = False
        self.sessions = 0
        self._mutex = threading.Lock()
        self._idle: list[_Worker] = []
        self._workers = [_Worker(self, f"{name}-{n}") for n in range(threads)]
        for worker in self._workers:
            worker.start()

    def add(self, job: Job) -> None:
        """Have a thread run a job."""
        self.waiting.append(job)
        # One awake thread takes all that waits; `check` wakes another where that one is slow.
        if len(self._idle) + self.sessions >= len(self._workers):
            self._wake()

    def _wake(self) -> None:
        with self._mutex:
            if self._idle:
                self._idle.pop().bell.release()

    def sleep(self, worker: _Worker) -> None:
        """Have a thread wait until there is something to do."""
        with self._mutex:
            # First: `add` looks here after it has appended its job.
            self._idle.append(worker)
            if self.waiting or self.is_closing:
                self._idle.remove(worker)
                return
        worker.bell.acquire()

    def count_sessions(self, change: int) -> None:
        """Note that a thread is busy with a transaction, or no longer."""
        with self._mutex:
            self.sessions += change

    def cancel(self, job: Job) -> None:
        """Stop a statement whose caller has gone, unless others share its transaction."""
        if not self.together:
            self.stop(job)

    def stop(self, job: Job) -> None:
        """Stop a statement if it is running, or whatever a transaction runs."""
        for worker in self._workers:
            worker.interrupt(job)

    def check(self, inbox: Inbox, now: float) -> None:
        """End the jobs of one event loop that are over their time limit.

        Args:
            inbox: That of the running event loop.
            now: The monotonic time.
        """
        for worker in self._workers:
            if now - worker.since < TICK_SECONDS:
                continue
            job = worker.job
            if job is not None and job.inbox is inbox and now > job.deadline:
                job.has_timed_out = True
                worker.interrupt(job)
            self._time_out(worker.batch, job, inbox, now)
            if self.waiting:
                self._wake()
        if self.waiting:
            with suppress(RuntimeError):  # a thread took one meanwhile; the next tick is soon
                self._time_out(self.waiting, None, inbox, now)

    def _time_out(self, jobs: Iterable[Job], running: Job | None, inbox: Inbox, now: float) -> None:
        """Fail the jobs that have waited too long."""
        late = [
            job for job in jobs if now > job.deadline and job.inbox is inbox and job is not running
        ]
        for job in late:
            if not job.future.done():
                job.future.set_exception(
                    TimeoutError(
                        "the statement waited longer than its time limit"
                        + (" for an open transaction" if self.sessions else "")
                    )
                )

    def close(self) -> None:
        """Have the threads end once nothing waits."""
        self.is_closing = True
        for worker in self._workers:
            worker.close_session()
            self._wake()

    def join(self) -> None:
        """Wait until the threads have ended."""
        for worker in self._workers:
            worker.join()


class _Worker(threading.Thread):
    """One thread with its connection.

    Attributes:
        job: The statement that it runs now.
        since: When it began with what it does now, by the monotonic clock.
        batch: The statements that it runs in one transaction.
        bell: Wakes it.
    """

    def __init__(self, lane: Lane, name: str) -> None:
        # A daemon: a program that forgets to close its database must still end.
        super().__init__(name=name, daemon=True)
        self.job: Job | None = None
        self.since = math.inf
        self.batch: Sequence[Job] = ()
        self.bell = threading.Lock()
        self.bell.acquire()
        self._lane = lane
        self._guard = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._session: Session | None = None
        self._next_check = 0.0

    def run(self) -> None:
        lane = self._lane
        while lane.waiting or not lane.is_closing:
            if not lane.waiting:
                self.since = math.inf
                lane.sleep(self)
                continue
            self.since = monotonic()
            connection = self._connection
            if connection is None or self.since > self._next_check:
                connection = self._connected()
            if connection is not None:
                if lane.together:
                    self._write(connection)
                else:
                    self._run_each(connection)
        if self._connection is not None:
            self._connection.close()

    def interrupt(self, job: Job) -> None:
        """Stop the current statement if it is this one, or one of this transaction.

        Event loops call it.
        """
        with self._guard:  # or it might end meanwhile, and the next one be stopped
            current = self.job
            is_of_job = current is job or self._session is job
            if current is not None and is_of_job and self._connection is not None:
                self._connection.interrupt()

    def close_session(self) -> None:
        """Roll back the transaction that this thread has open."""
        session = self._session
        if session is not None:
            session.jobs.put(None)

    def _connected(self) -> sqlite3.Connection | None:
        """Open the connection, or check it.

        If that fails, all that waits fails, and the next job tries anew.
        """
        jobs = self._take(len(self._lane.waiting))
        connection = self._connection
        try:
            if connection is None:
                connection = self._connection = self._lane.connect()
            else:
                self._lane.check_connections()
        except Exception as error:  # noqa: BLE001  # for the callers
            for job in jobs:
                job.error = error
            self._deliver(jobs)
            return None
        self._next_check = self.since + _CHECK_SECONDS
        self._lane.waiting.extendleft(reversed(jobs))
        return connection

    def _take(self, count: int) -> list[Job]:
        """Take jobs whose callers still wait."""
        waiting = self._lane.waiting
        jobs: list[Job] = []
        with suppress(IndexError):  # another thread takes some, too
            for _ in range(count):
                job = waiting.popleft()
                if not job.future.done():
                    jobs.append(job)
        return jobs

    def _deliver(self, jobs: Iterable[Job]) -> None:
        """Hand results to the event loops of their callers."""
        inboxes: set[Inbox] = set()
        for job in jobs:
            job.inbox.done.append(job)
            inboxes.add(job.inbox)
        for inbox in inboxes:
            inbox.notify()

    def _run(self, connection: sqlite3.Connection, job: Job) -> None:
        """Run one statement, which event loops may interrupt."""
        self.since = monotonic()
        self.job = job
        job.run(connection)
        with self._guard:
            self.job = None

    # -- one statement after the other -------------------------------------------------------------

    def _run_each(self, connection: sqlite3.Connection) -> None:
        """Run what waits; results go back together, but no later than necessary."""
        waiting = self._lane.waiting
        inbox: Inbox | None = None
        delivered = self.since
        with suppress(IndexError):  # the other thread was faster
            while waiting:
                job = waiting.popleft()
                session = job if isinstance(job, Session) else None
                is_late = self.since - delivered > _DELIVER_SECONDS
                if inbox is not None and (session or is_late or inbox is not job.inbox):
                    inbox.notify()
                    inbox, delivered = None, self.since
                if job.future.done():
                    continue
                if session is not None:
                    self._serve(connection, session)
                    continue
                self._run_alone(connection, job)
                inbox = job.inbox
                inbox.done.append(job)
        if inbox is not None:
            inbox.notify()

    def _run_alone(self, connection: sqlite3.Connection, job: Job) -> None:
        self._run(connection, job)
        if connection.in_transaction:  # of the application: `begin`
            connection.rollback()
            job.error = RuntimeError(
                "this statement left a transaction open, which was rolled back; use"
                " `async with database.transaction()`"
            )

    # -- writes in one transaction -----------------------------------------------------------------

    def _write(self, connection: sqlite3.Connection) -> None:
        """Run what waits in one transaction, up to the first job that needs its own."""
        waiting = self._lane.waiting
        jobs = self._take(min(len(waiting), MAX_BATCH))
        for position, job in enumerate(jobs):
            if job.answers or isinstance(job, Session):
                # Only this thread takes jobs from here.
                waiting.extendleft(reversed(jobs[max(position, 1) :]))
                del jobs[max(position, 1) :]
                break
        if len(jobs) > 1:
            self.batch = jobs
            self._write_together(connection, jobs)
            self.batch = ()
        elif jobs:
            (job,) = jobs
            if isinstance(job, Session):
                self._serve(connection, job)
                return
            self._run_alone(connection, job)  # its own transaction
        self._deliver(jobs)

    def _write_together(self, connection: sqlite3.Connection, jobs: list[Job]) -> None:
        try:
            connection.execute("begin immediate")
        except sqlite3.Error as error:  # another process writes all the time
            for job in jobs:
                job.error = error
            return
        for job in jobs:
            if not job.future.done():
                self._run(connection, job)
                if not connection.in_transaction:
                    break
        else:
            try:
                self.since = monotonic()
                connection.execute("commit")
            except sqlite3.Error:
                connection.rollback()  # if SQLite has not done that
            else:
                return
        # Nothing of it has taken effect, because of one of them: a full disk, a foreign key that
        # is checked by the commit, a time limit.
        for job in jobs:
            if not job.has_timed_out and not job.future.done():
                self._run_alone(connection, job)

    # -- transactions ------------------------------------------------------------------------------

    def _serve(self, connection: sqlite3.Connection, session: Session) -> None:
        """Run the statements of a transaction until it ends."""
        self._session = session
        self._lane.count_sessions(1)
        try:
            self._run(connection, session)
            self._deliver([session])
            while connection.in_transaction:
                self.since = math.inf
                if self._lane.is_closing:
                    break
                try:
                    job = session.jobs.get(timeout=max(session.deadline - monotonic(), 0))
                except queue.Empty:
                    break
                if job is None:
                    break
                if session.is_abandoned:
                    session.jobs.put(job)  # which is refused below
                    break
                if not job.future.done():
                    self._run(connection, job)
                    self._deliver([job])
        finally:
            session.is_over = True
            connection.rollback()  # if it is still open
            self._session = None
            self._lane.count_sessions(-1)
            session.refuse_the_rest()
