"""Callers in a line, of which one query after the other takes all that wait.

What holds in this file:

- A question never joins a query that is under way, so its answer is never older than itself.
- Where nothing is under way, a query starts as soon as the current turn of the event loop ends:
  what was asked in that turn goes together, and nobody waits for company.
- Who is alone asks in its own task. A query for several runs in a task and a context of its own:
  neither a cancelled caller nor the context of one caller touches what the others get.
- Nobody waits for a query longer than `PATIENCE`: a timer sends what waits past one that hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from time import monotonic as time
from typing import Any, Final, Generic, TypeAlias, TypeVar

__all__ = ["FEW", "MOST", "PATIENCE", "Line"]

Question = TypeVar("Question")
Future: TypeAlias = "asyncio.Future[Any]"
Carry: TypeAlias = Callable[[list[Question]], Awaitable[Sequence[Any]]]

MOST: Final = 500
"""How many questions one query takes at most."""

FEW: Final = 16
"""How many questions are not worth being dealt out to several queries."""

PATIENCE: Final = 0.1
"""Seconds that callers wait for a query under way; then theirs is sent beside it."""


class _Slot:
    """The place of one query under way. One that has hung for `PATIENCE` seconds loses it.

    Attributes:
        since: When its query was sent.
    """

    __slots__ = ("since",)

    def __init__(self) -> None:
        self.since = time()


class Line(Generic[Question]):
    """Callers that wait for their share of the next query.

    Args:
        carry: Asks the database for some questions; returns as many answers in the same order,
            of which an exception is raised for its caller. What it raises is raised for all.
        left: Called when the last query has ended and nobody waits; queries that hang do not
            count.
        at_once: How many queries may be under way side by side, each with its part of those that
            wait: the database works on one while the answers of another are dealt with here.
    """

    __slots__ = (
        *("_at_once", "_carry", "_gathers", "_left"),
        *("_slots", "_tasks", "_timer", "_waiting"),
    )

    def __init__(self, carry: Carry[Question], left: Callable[[], Any], at_once: int = 1) -> None:
        self._carry = carry
        self._left = left
        self._at_once = at_once
        self._waiting: list[tuple[Question, Future]] = []
        self._gathers = False  # somebody waits for the rest of this turn
        self._slots: list[_Slot] = []  # of queries that hold up who comes behind them
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None] | None] = set()  # the loop itself keeps none alive

    async def ask(self, question: Question) -> Any:
        """Return the answer to a question, which goes with the next query.

        Raises:
            Exception: What the query raised, or what it answered for this question.
        """
        place = len(self._waiting)
        if self._gathers:
            return await self._queue(question, place)
        if self._is_busy():
            self._watch()
            return await self._queue(question, place)
        slot = self._take_slot()
        try:
            await self._gather()
            if not self._waiting:
                (answer,) = await self._carry([question])
                return _raised(answer)
            future = self._queue(question, place)
        finally:
            self._go_on(slot)
        return await future

    def _take_slot(self) -> _Slot:
        slot = _Slot()
        self._slots.append(slot)
        return slot

    def _is_busy(self) -> bool:
        if len(self._slots) < self._at_once:
            return False
        now = time()
        self._slots = [slot for slot in self._slots if now - slot.since <= PATIENCE]
        return len(self._slots) >= self._at_once

    async def _gather(self) -> None:
        """Wait for the rest of this turn of the loop."""
        self._gathers = True
        try:
            await asyncio.sleep(0)
        finally:
            self._gathers = False

    def _queue(self, question: Question, place: int) -> Future:
        future: Future = asyncio.get_running_loop().create_future()
        self._waiting.insert(place, (question, future))
        return future

    def _watch(self) -> None:
        """See to it that those who wait do so no longer than they may."""
        if self._timer is None and self._slots:
            delay = min(slot.since for slot in self._slots) + PATIENCE - time()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(delay, 0.0), self._overtake, context=Context())

    def _overtake(self) -> None:
        """Send what waits, past queries that hang."""
        self._timer = None
        if not self._waiting:
            return
        if self._is_busy():
            self._watch()
            return
        for _ in range(0, len(self._waiting), MOST):
            self._start(self._take_slot(), parts=1)

    def _go_on(self, slot: _Slot) -> None:
        """Leave a place to those who wait by now; it is gone where its query hung."""
        if slot not in self._slots:
            if self._waiting:
                self._watch()
            return
        if self._waiting and len(self._slots) <= self._at_once:
            self._start(slot, parts=len(self._slots))
            return
        self._slots.remove(slot)
        if not self._slots:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._left()

    def _start(self, slot: _Slot, parts: int) -> None:
        task = asyncio.get_running_loop().create_task(self._run(slot, parts), context=Context())
        self._tasks.add(task)

    async def _run(self, slot: _Slot, parts: int) -> None:
        """Send queries one after the other, as long as somebody waits.

        Args:
            slot: The place of these queries.
            parts: Into how many queries those who wait now are dealt out.
        """
        try:
            while self._waiting and slot in self._slots:
                size = min(MOST, max(FEW, -(-len(self._waiting) // parts)))
                parts = self._at_once
                batch, self._waiting = self._waiting[:size], self._waiting[size:]
                if self._waiting and len(self._slots) < self._at_once:
                    self._start(self._take_slot(), parts=self._at_once)
                batch = [pair for pair in batch if not pair[1].done()]  # others were cancelled
                if batch:
                    slot.since = time()
                    if self._waiting:
                        self._watch()
                    await self._answer(batch)
                if len(self._slots) > self._at_once:  # one that was sent past others
                    break
        finally:
            self._tasks.discard(asyncio.current_task())
            self._go_on(slot)

    async def _answer(self, batch: list[tuple[Question, Future]]) -> None:
        try:
            answers = await self._carry([question for question, _ in batch])
        except Exception as error:  # noqa: BLE001  # whatever it is belongs to the callers
            answers = [error] * len(batch)
        except asyncio.CancelledError:  # somebody closes the loop
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


def _raised(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer
