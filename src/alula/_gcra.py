"""The generic cell rate algorithm (GCRA): budgets of tries that refill evenly, and their stores.

Of each budget one time is stored: when it will be whole again. A try moves that time one interval
later, and is refused where it would lie more than a window ahead. A store changes a time only by
compare-and-set, so two processes cannot spend the same try.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from heapq import nlargest
from math import ceil
from operator import itemgetter
from random import uniform
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from alula._service import ServiceHandle
from alula.errors import Conflict, NotFound, TooManyRequests

__all__ = ["Budget", "Cost", "MemoryTimes", "ServiceTimes", "Times", "too_many_requests"]

_KEPT_SHARE: Final = 0.9
_CLOCK_SKEW_MS: Final = 15_000  # by which the clocks of processes may differ
_MAX_CONTENTION_SECONDS: Final = 10.0  # how long a write that others win is tried again
_FIRST_PAUSE_SECONDS: Final = 0.002  # at most, between two such writes; it doubles with each
_MAX_PAUSE_SECONDS: Final = 0.1
_WAIT_AFTER_CONTENTION_MS: Final = 1000


class Budget(NamedTuple):
    """A number of tries per window; both attributes are in milliseconds.

    Attributes:
        window: How long a budget that is spent takes to be whole again.
        interval: How long one try takes to come back.
    """

    window: int
    interval: int

    def spend(self, whole_at: int, now: int) -> tuple[int, int]:
        """Return when the budget is whole again after one more try, and how long to wait for it.

        Args:
            whole_at: When it would be whole again.
            now: The current time.
        """
        # No budget is spent for longer than its window: the clock was set back meanwhile.
        is_spent = now < whole_at <= now + self.window + _CLOCK_SKEW_MS
        later = (whole_at if is_spent else now) + self.interval
        return later, max(0, later - now - self.window)


class Cost(NamedTuple):
    """One try out of a budget.

    Attributes:
        key: The key of the budget.
        budget: Its size.
    """

    key: str
    budget: Budget


class Times(ABC):
    """A store of times by key, in milliseconds since 1970.

    Args:
        now: The clock, in seconds since 1970.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sweep_at = 0
        # By event loop: a lock cannot be shared by several.
        self._locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    @abstractmethod
    async def read(self, key: str) -> int:
        """Return the time of a key, 0 if there is none."""

    @abstractmethod
    async def compare_and_set(self, key: str, old: int, new: int) -> bool:
        """Set the time of a key, unless it is no longer ``old``; return whether it was set."""

    @abstractmethod
    async def sweep(self, now: int) -> None:
        """Remove the times that have passed."""

    @abstractmethod
    async def clear(self) -> None:
        """Remove all times."""

    def milliseconds(self) -> int:
        """Return the current time in milliseconds since 1970."""
        return int(self._now() * 1000)

    async def spend(self, costs: Collection[Cost]) -> int:
        """Take one try out of each of several budgets, or out of none.

        Args:
            costs: The budgets.

        Returns:
            0, or the milliseconds until all of them have a try.
        """
        wait, spent = 0, list[Cost]()
        for cost in costs:
            await self.sweep_once_in(cost.budget.window)
            if refused := await self.take(cost.key, cost.budget):
                wait = max(wait, refused)
            else:
                spent.append(cost)
        if wait:
            await self.refund(spent)
        return wait

    async def refund(self, costs: Iterable[Cost]) -> None:
        """Give tries back.

        Args:
            costs: The budgets that `spend` has taken them from.
        """
        for key, budget in costs:
            await self.add(key, -budget.interval)

    async def sweep_once_in(self, window: int) -> None:
        """Remove the times that have passed, unless that was done within this window."""
        now = self.milliseconds()
        # A clock that was set back must not keep the sweep away.
        if not self._sweep_at - window <= now < self._sweep_at:
            self._sweep_at = now + window
            await self.sweep(now)

    async def take(self, key: str, budget: Budget) -> int:
        """Take one try out of a budget.

        Args:
            key: The key of the budget.
            budget: Its size.

        Returns:
            0, or the milliseconds until there is a try.
        """
        wait = 0

        def spend(whole_at: int) -> int | None:
            nonlocal wait
            # The clock is read after the store: an attempt that began a millisecond before one
            # that overtook it would be refused for that millisecond, though there is a try left.
            later, wait = budget.spend(whole_at, self.milliseconds())
            return None if wait else later

        is_written = await self.update(key, spend)
        return wait if is_written else _WAIT_AFTER_CONTENTION_MS

    async def add(self, key: str, milliseconds: int) -> None:
        """Move a time that is stored; a negative number gives tries back."""
        await self.update(key, lambda stored: stored + milliseconds if stored else None)

    async def put(self, key: str, time: int) -> None:
        """Set a time, whatever is stored."""
        await self.update(key, lambda _: time)

    async def update(self, key: str, change: Callable[[int], int | None]) -> bool:
        """Change a time by compare-and-set, again and again while other processes are faster.

        Args:
            key: The key of the time.
            change: Returns the new time for the stored one, None to leave it.

        Returns:
            False if the time could not be written within `_MAX_CONTENTION_SECONDS`.
        """
        if await self._try(key, change):
            return True
        # After a loss, attempts queue up: so a crowd contends with other processes only. Not before
        # it: a flood of attempts for which no try is left needs no turn, and must not delay others.
        lock = self._locks.setdefault((id(asyncio.get_running_loop()), key), asyncio.Lock())
        deadline = time.monotonic() + _MAX_CONTENTION_SECONDS
        pause = _FIRST_PAUSE_SECONDS
        async with lock:
            while not await self._try(key, change):
                # Each loss is a write of somebody else. A bound on the number of losses would
                # refuse honest sign-ins in a crowd; only a store that is too slow may do that.
                if time.monotonic() > deadline:
                    return False
                # With full jitter: without it, processes would collide again after each pause.
                await asyncio.sleep(uniform(0, pause))  # noqa: S311  # not a secret
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)
        return True

    async def _try(self, key: str, change: Callable[[int], int | None]) -> bool:
        """Change a time once; return False if another process was faster."""
        old = await self.read(key)
        new = change(old)
        return new is None or await self.compare_and_set(key, old, new)


class MemoryTimes(Times):
    """Times in the memory of this process.

    Args:
        capacity: How many keys are kept at most. The earliest times are removed first: they are
            the least spent, so a flood of new keys does not remove the one under attack.
        now: The clock, in seconds since 1970.
    """

    def __init__(self, capacity: int, now: Callable[[], float] = time.time) -> None:
        super().__init__(now)
        self._capacity = capacity
        self._times: dict[str, int] = {}

    async def read(self, key: str) -> int:
        """Return the time of a key, 0 if there is none."""
        return self._times.get(key, 0)

    async def compare_and_set(self, key: str, old: int, new: int) -> bool:
        """Set the time of a key, unless it is no longer ``old``; return whether it was set."""
        if self._times.get(key, 0) != old:
            return False
        self.set(key, new)
        return True

    async def take(self, key: str, budget: Budget) -> int:
        """Take one try out of a budget; see `Times.take`."""
        # Nothing else runs between the two: a third of the time of compare-and-set.
        later, wait = budget.spend(self._times.get(key, 0), self.milliseconds())
        if not wait:
            self.set(key, later)
        return wait

    def set(self, key: str, new: int) -> None:
        """Set the time of a key."""
        self._times[key] = new
        if len(self._times) > self._capacity:
            # A tenth at once and not one by one, since this reads all of them.
            kept = int(self._capacity * _KEPT_SHARE)
            self._times = dict(nlargest(kept, self._times.items(), key=itemgetter(1)))

    async def sweep(self, now: int) -> None:
        """Remove the times that have passed."""
        self._times = {key: stored for key, stored in self._times.items() if stored > now}

    async def clear(self) -> None:
        """Remove all times."""
        self._times.clear()


class ServiceTimes(Times):
    """Times in a service of the application, as records ``{<id>: key, "until": time}``.

    Args:
        handle: The service. It must accept any text as an id.
        now: The clock, in seconds since 1970.
    """

    def __init__(self, handle: ServiceHandle, now: Callable[[], float] = time.time) -> None:
        super().__init__(now)
        self._handle = handle
        id_name = getattr(handle.service, "id", None)
        self._id = id_name if isinstance(id_name, str) else "id"

    async def read(self, key: str) -> int:
        """Return the time of a key, 0 if there is none."""
        try:
            record = await self._handle.get(key)
        except NotFound:
            return 0
        return int(record["until"])

    async def compare_and_set(self, key: str, old: int, new: int) -> bool:
        """Set the time of a key, unless it is no longer ``old``; return whether it was set."""
        try:
            if old:
                await self._handle.patch(key, {"until": new}, query={"until": old})
            else:
                await self._handle.create({self._id: key, "until": new})
        except (Conflict, NotFound):
            return False
        return True

    async def sweep(self, now: int) -> None:
        """Remove the times that have passed."""
        await self._remove({"until": {"$lte": now}})

    async def clear(self) -> None:
        """Remove all times."""
        await self._remove({})

    async def _remove(self, query: dict[str, object]) -> None:
        await self._handle.remove(None, query=query, adapter={"multi": ["remove"]}, paginate=False)


def too_many_requests(what: str, wait: int) -> TooManyRequests:
    """Return the error for a budget that is spent, with ``Retry-After``.

    Args:
        what: What there is too much of, for the message.
        wait: The milliseconds until there is a try.
    """
    seconds = ceil(wait / 1000)
    error = TooManyRequests(f"{what}; try again in {seconds} second{'s' * (seconds != 1)}")
    error.headers = {"Retry-After": str(seconds)}
    return error
