"""Callers in a line, of which one query after the other takes all that wait.

What holds in this file:

- A question never joins a query that is under way, so its answer is never older than itself.
- Where nothing is under way, a query starts as soon as the current turn of the event loop ends:
  what was asked in that turn goes together, and nobody waits for company.
- Who is alone asks in its own task. A query for several runs in a task and a context of its own:
  neither a cancelled caller nor the context of one caller touches what the others get.
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
"""Seconds after which a query no longer holds up those who come behind it."""


class Line(Generic[Question]):
    """Callers that wait for their share of the next query.

    Args:
        carry: Asks the database for some questions; returns as many answers in the same order,
            of which an exception is raised for its caller. What it raises is raised for all.
        left: Called when the last query has ended and nobody waits.
        at_once: How many queries may be under way side by side, each with its part of those that
            wait: the database works on one while the answers of another are dealt with here.
    """

    __slots__ = (
        *("_at_once", "_carry", "_gathers", "_left"),
        *("_since", "_tasks", "_under_way", "_waiting"),
    )

    def __init__(self, carry: Carry[Question], left: Callable[[], Any], at_once: int = 1) -> None:
        self._carry = carry
        self._left = left
        self._at_once = at_once
        self._waiting: list[tuple[Question, Future]] = []
        self._gathers = False  # somebody waits for the rest of this turn
        self._under_way = 0
        self._since = 0.0
        self._tasks: set[asyncio.Task[None] | None] = set()  # the loop itself keeps none alive

    async def ask(self, question: Question) -> Any:
        """Return the answer to a question, which goes with the next query.

        Raises:
            Exception: What the query raised, or what it answered for this question.
        """
        place = len(self._waiting)
        if self._gathers or self._is_busy():
            return await self._queue(question, place)
        self._under_way += 1
        self._since = time()
        try:
            await self._gather()
            if not self._waiting:
                (answer,) = await self._carry([question])
                return _raised(answer)
            future = self._queue(question, place)
        finally:
            self._go_on()
        return await future

    def _is_busy(self) -> bool:
        return self._under_way >= self._at_once and time() - self._since <= PATIENCE

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

    def _go_on(self) -> None:
        """Leave the line to those who wait by now."""
        if self._waiting:
            task = asyncio.get_running_loop().create_task(self._run(), context=Context())
            self._tasks.add(task)
            return
        self._under_way -= 1
        if not self._under_way:
            self._left()

    async def _run(self) -> None:
        parts = self._under_way  # what an idle line has gathered goes as one
        try:
            while self._waiting:
                size = min(MOST, max(FEW, -(-len(self._waiting) // parts)))
                parts = self._at_once
                batch, self._waiting = self._waiting[:size], self._waiting[size:]
                if self._waiting and self._under_way < self._at_once:
                    self._under_way += 1
                    self._go_on()
                batch = [pair for pair in batch if not pair[1].done()]  # others were cancelled
                if batch:
                    self._since = time()
                    await self._answer(batch)
        finally:
            self._tasks.discard(asyncio.current_task())
            self._go_on()

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
