"""Divides what is limited among clients, so that no single one can use it up."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, Final, TypeVar

__all__ = ["Shares", "Turn", "Turns", "network_of"]

T = TypeVar("T")

_LONG_ROUND: Final = 0.005
"""Seconds after which a client that has begun a call in a round waits for the next round."""

_SHORT_CALL: Final = 0.001
"""Calls that follow each other faster than this need no turns, and are not counted."""


class Shares:
    """A limited amount of something, such as bytes, of which each client may have a share.

    A client may have as much as is left for all others: alone half of it, and less the more the
    others have. So there is always something for a client that has nothing yet.

    Args:
        total: The amount.

    Examples:
        >>> shares = Shares(100)
        >>> shares.take("a", 50), shares.take("a", 1), shares.take("b", 25)
        (True, False, True)
        >>> shares.give_back("a", 50)
        >>> shares.take("b", 12)
        True
    """

    __slots__ = ("_free", "_taken")

    def __init__(self, total: int) -> None:
        self._free = total
        self._taken: dict[Hashable, int] = {}

    def has_room(self, client: Hashable | None, amount: int) -> bool:
        """Tell whether a client may take an amount; None has no share of its own, but the total."""
        left = self._free - amount
        if client is None:
            return left >= 0
        return self._taken.get(client, 0) + amount <= left

    def take(self, client: Hashable | None, amount: int) -> bool:
        """Take an amount if a client may; return whether it may."""
        taken = self._taken.get(client, 0) + amount
        left = self._free - amount
        if left < 0 or (taken > left and client is not None):
            return False
        self._free = left
        self._taken[client] = taken
        return True

    def give_back(self, client: Hashable | None, amount: int) -> None:
        """Give back what a client has taken."""
        self._free += amount
        left = self._taken.get(client, 0) - amount
        if left:
            self._taken[client] = left
        else:
            self._taken.pop(client, None)


class Turn(asyncio.Future[None]):
    """What work waits for before it begins.

    A connection that sees it takes nothing more from its client until the turn comes.
    """


class Turns:
    """Divides the time of an event loop among clients, so that none can hold it up with many calls.

    An event loop works in rounds: all that is ready runs once. So 64 calls of one client that
    arrive together, on one connection or on 64, would all begin in one round, and everybody else
    would wait for the sum of them. Here a client that has begun a call waits for the next round as
    soon as this one has taken some milliseconds. Each round lets one waiting call of each client
    begin, and what others want comes in between. No time is lost: if nobody else wants anything,
    the next call begins at once.

    Args:
        now: Returns the time in seconds.

    Examples:
        >>> import asyncio
        >>> turns = Turns()
        >>> async def find():
        ...     return "found"
        >>> async def main():
        ...     return await turns.take("10.0.0.1", find())
        >>> asyncio.run(main())
        'found'
    """

    __slots__ = ("_began", "_clients", "_last", "_loop", "_now", "_waiting")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last = 0.0  # when the last call began
        self._began: float | None = None  # when the round began, None while nobody counts it
        self._clients: set[Hashable] = set()  # those that have begun a call in this round
        self._waiting: dict[Hashable, deque[Turn]] = {}

    def take(self, address: str | None, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Return the work of a client, so that it begins when it is the client's turn.

        Args:
            address: That of the client; None where it is not known, and then nothing is divided.
            work: What is to be done; it is run at once if nobody has to wait.
        """
        now = self._now()
        since_last, self._last = now - self._last, now
        if (since_last < _SHORT_CALL and not self._waiting) or address is None:
            return work
        client = network_of(address)
        if (loop := asyncio.get_running_loop()) is not self._loop:
            if self._began is not None and self._loop is not None and not self._loop.is_closed():
                return work  # one application in the event loops of several threads
            self._loop = loop
            self._began = None
            self._clients.clear()
            self._waiting.clear()
        if self._began is None:
            self._start_round(now)
        elif client in self._waiting or (
            client in self._clients and now - self._began > _LONG_ROUND
        ):
            turn = Turn(loop=loop)
            self._waiting.setdefault(client, deque()).append(turn)
            return _after(turn, work)
        self._clients.add(client)
        return work

    async def give_way(self, address: str | None) -> None:
        """Let others run in the middle of long work, and wait for the client's next turn."""
        await asyncio.sleep(0)
        await self.take(address, asyncio.sleep(0))

    def _start_round(self, now: float) -> None:
        self._began = now
        asyncio.get_running_loop().call_soon(self._end_round)

    def _end_round(self) -> None:
        self._began = None
        self._clients.clear()
        for client, turns in tuple(self._waiting.items()):
            while turns:
                turn = turns.popleft()
                if not turn.done():  # else its caller has given up
                    turn.set_result(None)
                    self._clients.add(client)
                    break
            if not turns:
                del self._waiting[client]
        if self._clients:  # their calls begin in the next round, in front of its end
            self._start_round(self._now())


async def _after(turn: Turn, work: Coroutine[Any, Any, T]) -> T:
    try:
        await turn
    except BaseException:
        work.close()  # else Python warns that it was never awaited
        raise
    return await work


@lru_cache(maxsize=1024)  # bench common hooks: 4 microseconds for each call of rate_limit
def network_of(address: str | None) -> str | None:
    """Return the part of an address that its owner cannot change: of IPv6 the first 64 bits."""
    if address is None:
        return None
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:  # such as the path of a Unix socket
        return address
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or ip_network((ip, 64), strict=False))
    return str(ip)
