"""Where a throttle keeps its times: in memory, or through a service that processes share.

A store knows one time for each key, and changes it only where nobody else has changed it since it
was read. So two processes can not spend the same try.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import nlargest
from operator import itemgetter
from typing import Final

from alula._service import ServiceHandle
from alula.authentication._entities import id_name, remove_before
from alula.errors import Conflict, NotFound

__all__ = ["MemoryTimes", "ServiceTimes", "Times"]

_KEPT: Final = 0.9


class Times(ABC):
    """Milliseconds since 1970 by key."""

    @abstractmethod
    async def read(self, key: str) -> int:
        """Return the time of a key, 0 where there is none."""

    @abstractmethod
    async def swap(self, key: str, old: int, new: int) -> bool:
        """Set the time of a key; False, and nothing is changed, where it is no longer ``old``."""

    @abstractmethod
    async def sweep(self, now: int) -> None:
        """Forget the times that have passed."""

    @abstractmethod
    async def clear(self) -> None:
        """Forget everything."""


class MemoryTimes(Times):
    """Times in the memory of this process.

    Args:
        capacity: How many keys there may be. Where there are more, the earliest times go first:
            those are the least spent, and many new keys do not push out the one under attack.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._times: dict[str, int] = {}

    async def read(self, key: str) -> int:
        """Return the time of a key, 0 where there is none."""
        return self._times.get(key, 0)

    async def swap(self, key: str, old: int, new: int) -> bool:
        """Set the time of a key; False where it is no longer ``old``."""
        if self._times.get(key, 0) != old:
            return False
        self._times[key] = new
        if len(self._times) > self._capacity:
            kept = int(self._capacity * _KEPT)  # not one by one: this reads all of them
            self._times = dict(nlargest(kept, self._times.items(), key=itemgetter(1)))
        return True

    async def sweep(self, now: int) -> None:
        """Forget the times that have passed."""
        self._times = {key: time for key, time in self._times.items() if time > now}

    async def clear(self) -> None:
        """Forget everything."""
        self._times.clear()


class ServiceTimes(Times):
    """Times in a service of the application: records ``{<id>: key, "until": time}``.

    Args:
        handle: The service. Its ids have to take any text.
    """

    def __init__(self, handle: ServiceHandle) -> None:
        self._handle = handle
        self._id = id_name(handle)

    async def read(self, key: str) -> int:
        """Return the time of a key, 0 where there is none."""
        try:
            record = await self._handle.get(key)
        except NotFound:
            return 0
        return int(record["until"])

    async def swap(self, key: str, old: int, new: int) -> bool:
        """Set the time of a key; False where it is no longer ``old``."""
        try:
            if old:
                await self._handle.patch(key, {"until": new}, query={"until": old})
            else:
                await self._handle.create({self._id: key, "until": new})
        except (Conflict, NotFound):
            return False
        return True

    async def sweep(self, now: int) -> None:
        """Forget the times that have passed."""
        await remove_before(self._handle, "until", now)

    async def clear(self) -> None:
        """Forget everything."""
        await self._handle.remove(None, adapter={"multi": ["remove"]}, paginate=False)
