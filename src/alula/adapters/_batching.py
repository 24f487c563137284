"""Batches concurrent lookups: while one query runs, new callers queue up; the next serves them all.

What holds in this file (as in DataLoader, but across requests):

- A key never joins a query that is under way, so its result is never older than its request.
- An idle batcher sends as soon as the current turn of the event loop ends: keys of one turn go
  together, and no caller waits for company.
- A single key loads in its caller's task. A batch of several runs in a task and a context of its
  own: neither a cancelled caller nor the context of one caller affects the others.
- One caller never fails another: if a query of several keys fails and `goes_alone` says that it
  may be one key's fault, each caller gets `ALONE` and sends its own query.
- A caller waits only for queries that were under way when it came: when the last of them has
  ended, its key has been sent. It waits no longer than `MAX_WAIT_SECONDS`: then a timer sends its
  key beside them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextvars import Context
from functools import partial
from math import inf
from operator import attrgetter, methodcaller
from time import monotonic as time
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

__all__ = [
    "ALONE",
    "MAX_BATCH",
    "MAX_WAIT_SECONDS",
    "MIN_SPLIT",
    "Batcher",
    "ChangesInTurn",
    "one_for_each",
]

ALONE: Final = object()
"""The result for a caller that has to query the database itself; its key has had no effect."""

Key = TypeVar("Key")
Result = TypeVar("Result")
LoadMany: TypeAlias = Callable[[list[Key]], Awaitable[Sequence[Result | Exception]]]

MAX_BATCH: Final = 500
"""How many keys one query takes at most."""

MIN_SPLIT: Final = 16
"""How many keys are not worth being split between several queries."""

MAX_WAIT_SECONDS: Final = 0.1
"""How long callers wait for a query under way; then theirs is sent beside it."""


class _Slot:
    """The place of one query under way; a query that hangs for `MAX_WAIT_SECONDS` loses it.

    Attributes:
        number: How many queries had been sent with its query; infinite as long as it gathers keys.
        since: When its query was sent.
        size: How many keys its query has; 0 as long as it gathers them.
    """

    __slots__ = ("number", "since", "size")

    def __init__(self) -> None:
        self.number: float = inf
        self.since = time()
        self.size = 0


class _Waiting(NamedTuple, Generic[Key, Result]):
    """A key that waits for the next query.

    Attributes:
        key: The key.
        future: Gets the result.
        sent_before: How many queries had been sent when the caller came.
    """

    key: Key
    future: asyncio.Future[Result]
    sent_before: int


_KEY: Final = attrgetter("key")
_FUTURE: Final = attrgetter("future")
_IS_DONE: Final = methodcaller("done")


class Batcher(Generic[Key, Result]):
    """Loads values by keys, many at once.

    Args:
        load_many: Queries the database for some keys; returns as many results in the same order.
            An exception among them is raised for its caller; for one that it raises, see
            ``goes_alone``.
        on_idle: Called when the last query has ended and no key waits. Queries that hang do not
            count.
        concurrency: How many queries may be under way side by side, each with its part of the
            waiting keys: the database works on one while Python decodes the results of another.
        evenly: Whether a query is sent beside others only with its share of the keys: as many as
            those have on average, if all that may be side by side are under way. Fewer keys wait
            for one of those to end. It is for queries that cost as much as many of their keys.
        goes_alone: Tells of an error of ``load_many`` for several keys whether each caller goes
            alone. It must be False where the query may have had an effect, or where each of many
            queries would fail like this one. Then all callers get the error.
    """

    __slots__ = (
        "_concurrency",
        "_evenly",
        "_gathers",
        "_goes_alone",
        "_load_many",
        "_on_idle",
        "_sent",
        "_slots",
        "_tasks",
        "_timer",
        "_waiting",
    )

    def __init__(
        self,
        load_many: LoadMany[Key, Result],
        on_idle: Callable[[], object],
        concurrency: int = 1,
        *,
        evenly: bool = False,
        goes_alone: Callable[[Exception], bool] = lambda _: False,
    ) -> None:
        self._load_many = load_many
        self._on_idle = on_idle
        self._concurrency = concurrency
        self._evenly = evenly
        self._goes_alone = goes_alone
        self._sent = 0  # how many queries
        self._waiting: list[_Waiting[Key, Result]] = []
        self._gathers = False  # a caller waits for the rest of this turn of the loop
        self._slots: list[_Slot] = []  # of queries that later callers have to wait for
        self._timer: asyncio.TimerHandle | None = None
        # The event loop holds weak references to its tasks only.
        self._tasks: set[asyncio.Task[None] | None] = set()

    def load(self, key: Key) -> Awaitable[Result]:
        """Return an awaitable of the result for a key, which goes with the next query.

        It raises what the query raised, or returned for this key. The result may be `ALONE`.
        """
        # A future alone for most callers under load: a coroutine around it costs as much again.
        if self._gathers:
            return self._enqueue(key, len(self._waiting), self._sent)
        if self._slots and self._is_busy(len(self._waiting) + 1):
            self._start_timer()
            return self._enqueue(key, len(self._waiting), self._sent)
        return self._load_first(key)

    async def _load_first(self, key: Key) -> Result:
        """Return the result for a key whose caller waits for others to bring theirs."""
        # A caller that was awaited earlier already gathers keys, or all round trips are taken.
        if self._gathers or (self._slots and self._is_busy(len(self._waiting) + 1)):
            return await self.load(key)
        place = len(self._waiting), self._sent
        slot = self._take_slot()
        try:
            self._gathers = True
            try:
                await asyncio.sleep(0)  # the rest of this turn: others may bring keys
            finally:
                self._gathers = False
            if not self._waiting and (len(self._slots) == 1 or self._is_share(1, slot)):
                # Run it in the caller's own task: a lone caller then needs no task and no future.
                self._sent += 1
                slot.number, slot.size = self._sent, 1
                (result,) = await self._load_many([key])
                if isinstance(result, Exception):
                    raise result
                return result
            # Its place is in front of all that came later. Those that waited may have been sent.
            position, sent_before = place
            came = bisect_right(self._waiting, sent_before, key=attrgetter("sent_before"))
            future = self._enqueue(key, min(position, came), sent_before)
        finally:
            self._release(slot)
        return await future

    def _take_slot(self) -> _Slot:
        slot = _Slot()
        self._slots.append(slot)
        return slot

    def _is_busy(self, keys: int) -> bool:
        """Return whether a query with so many keys has to wait for one that is under way."""
        if len(self._slots) < self._concurrency and self._is_share(keys):
            return False
        self._forget_hanging()
        return len(self._slots) >= self._concurrency or not self._is_share(keys)

    def _forget_hanging(self) -> None:
        """Take their slots from queries that hang."""
        now = time()
        self._slots = [slot for slot in self._slots if now - slot.since <= MAX_WAIT_SECONDS]

    def _is_share(self, keys: int, own: _Slot | None = None) -> bool:
        """Return whether so many keys are enough for a query beside those of the other slots."""
        if not self._evenly:
            return True
        under_way = sum(slot.size for slot in self._slots if slot is not own)
        return keys * (self._concurrency - 1) >= under_way

    def _due(self, own: _Slot) -> int:
        """Return how many of the waiting keys came before the query of every other slot was sent.

        They have waited long enough.
        """
        first = min((slot.number for slot in self._slots if slot is not own), default=inf)
        return bisect_left(self._waiting, first, key=attrgetter("sent_before"))

    def _may_send(self, own: _Slot) -> bool:
        """Return whether the waiting keys are enough for a query, or have waited long enough."""
        return self._is_share(len(self._waiting), own) or self._due(own) > 0

    def _enqueue(self, key: Key, position: int, sent_before: int) -> asyncio.Future[Result]:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.insert(position, _Waiting(key, future, sent_before))
        return future

    def _start_timer(self) -> None:
        """Make sure that waiting callers overtake a query that hangs."""
        if self._timer is None and self._slots:
            delay = min(slot.since for slot in self._slots) + MAX_WAIT_SECONDS - time()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(delay, 0.0), self._overtake, context=Context())

    def _overtake(self) -> None:
        """Send the waiting keys beside queries that hang."""
        self._timer = None
        if not self._waiting:
            return
        self._forget_hanging()
        if len(self._slots) >= self._concurrency:
            self._start_timer()
            return
        for _ in range(0, len(self._waiting), MAX_BATCH):
            self._start(self._take_slot(), parts=1)

    def _release(self, slot: _Slot) -> None:
        """Hand a slot on to the waiting keys, or give it up."""
        if slot not in self._slots:  # its query hung and was overtaken
            if self._waiting:
                self._start_timer()
            return
        if self._waiting and len(self._slots) <= self._concurrency and self._may_send(slot):
            self._start(slot, parts=len(self._slots))
            return
        self._slots.remove(slot)
        if self._waiting:
            self._start_timer()
        if not self._slots:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._on_idle()

    def _start(self, slot: _Slot, parts: int) -> None:
        task = asyncio.get_running_loop().create_task(self._run(slot, parts), context=Context())
        self._tasks.add(task)

    async def _run(self, slot: _Slot, parts: int) -> None:
        """Send one query after the other as long as keys wait.

        Args:
            slot: The slot of these queries.
            parts: Between how many queries the keys that wait now are split.
        """
        try:
            while self._waiting and slot in self._slots and self._may_send(slot):
                due = self._due(slot)
                dealt = max(MIN_SPLIT, -(-len(self._waiting) // parts))
                has_more_slots = len(self._slots) < self._concurrency
                size = min(MAX_BATCH, dealt if has_more_slots else max(dealt, due))
                parts = self._concurrency
                batch, self._waiting = self._waiting[:size], self._waiting[size:]
                if self._waiting and (has_more_slots or size < due):
                    self._start(self._take_slot(), parts=self._concurrency)
                if any(map(_IS_DONE, map(_FUTURE, batch))):  # some callers were cancelled
                    batch = [caller for caller in batch if not caller.future.done()]
                if batch:
                    self._sent += 1
                    slot.number, slot.since, slot.size = self._sent, time(), len(batch)
                    if self._waiting:
                        self._start_timer()
                    await self._resolve(batch)
                if len(self._slots) > self._concurrency:  # this one overtook others
                    break
        finally:
            self._tasks.discard(asyncio.current_task())
            self._release(slot)

    async def _resolve(self, batch: list[_Waiting[Key, Result]]) -> None:
        results: Sequence[Any]
        try:
            results = await self._load_many(list(map(_KEY, batch)))
        except Exception as error:  # noqa: BLE001  # all of them are for the callers
            is_shared = len(batch) > 1
            results = [ALONE if is_shared and self._goes_alone(error) else error] * len(batch)
        except asyncio.CancelledError:  # the event loop is being closed
            for caller in batch:
                caller.future.cancel()
            raise
        for (_, future, _), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


class ChangesInTurn:
    """Sends changes of the same record one after the other, those that wait in one query.

    Side by side they would wait for each other's lock. So the first change of a record goes with
    changes of other records. Those that come before it has ended follow together, in their order,
    and do not hold up changes of other records.
    """

    def __init__(self) -> None:
        self._first: dict[Hashable, asyncio.Future[None]] = {}
        self._batchers: dict[Hashable, Batcher[Any, Any]] = {}

    async def load(
        self,
        record: Hashable,
        change: Any,
        batcher: Batcher[Any, Any],
        load_in_turn: LoadMany[Any, Any],
        goes_alone: Callable[[Exception], bool],
        alone: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Return the result of a change.

        Args:
            record: The record, with everything else that must be the same for changes of one query.
            change: What the batchers take.
            batcher: Sends changes of several records, each record at most once.
            load_in_turn: Sends changes of this record, which take effect in their order.
            goes_alone: As of a `Batcher`, for ``load_in_turn``.
            alone: Sends this change on its own, after a result `ALONE`.
        """
        following = self._batchers.get(record)
        first = self._first.get(record)
        if following is None and first is None:
            first = self._first[record] = asyncio.get_running_loop().create_future()
            try:
                result = await batcher.load(change)
                return await alone() if result is ALONE else result
            finally:
                del self._first[record]
                first.set_result(None)
        if following is None:
            following = self._batchers[record] = Batcher(
                partial(_load_after, first, load_in_turn),
                # The default is for a caller that is awaited late: its batcher may have gone.
                lambda: self._batchers.pop(record, None),
                goes_alone=goes_alone,
            )
        result = await following.load(change)
        return await alone() if result is ALONE else result


async def _load_after(
    first: asyncio.Future[None] | None, load: LoadMany[Any, Any], changes: list[Any]
) -> Sequence[Any]:
    """Send changes when the first change has ended, or has taken longer than callers wait."""
    if first is not None and not first.done():
        await asyncio.wait({first}, timeout=MAX_WAIT_SECONDS)
    return await load(changes)


def one_for_each(
    keys: Sequence[Key], results: Mapping[Key, Result], copy: Callable[[Result], Result]
) -> list[Result | None]:
    """Return the result for the key of each caller, None where there is none.

    Callers of one key get a copy each, since one of them may change what it gets.

    Args:
        keys: The keys of all callers of a batch.
        results: What the database has returned.
        copy: Copies a result.

    Examples:
        >>> one_for_each(["a", "b", "a"], {"a": [1]}, list)
        [[1], None, [1]]
    """
    if len(set(keys)) == len(keys):  # most batches
        return list(map(results.get, keys))
    handed_out: set[Key] = set()
    given: list[Result | None] = []
    for key in keys:
        result = results.get(key)
        if result is not None and key in handed_out:
            result = copy(result)
        handed_out.add(key)
        given.append(result)
    return given
