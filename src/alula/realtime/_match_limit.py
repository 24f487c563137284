"""How much work matching events with the queries of one client may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Final

from alula.errors import TooManyRequests

__all__ = ["MatchLimit", "MatchLimits"]

STEPS_A_SECOND: Final = 100_000
"""Steps of one client over time. A step takes about 0.25 µs, so that is 2.5 % of the time."""

MAX_STEPS: Final = 1_000_000
"""Steps that it may take at once, after it has taken none for some seconds."""

MAX_CLIENTS: Final = 10_000


class MatchLimit:
    """The steps of all streams of one client, also of those that have ended.

    Queries with few conditions, for records without long lists, take none.

    Args:
        now: Returns the time in seconds.
    """

    __slots__ = ("_left", "_now", "_since")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._left: float = MAX_STEPS
        self._since = now()

    def spend(self, steps: float) -> None:
        """Count steps.

        Raises:
            TooManyRequests: The client has taken too many.
        """
        now = self._now()
        self._left = min(MAX_STEPS, self._left + (now - self._since) * STEPS_A_SECOND)
        self._since = now
        if self._left <= 0:
            raise TooManyRequests(
                "The query of the stream takes too much work for these events; send fewer"
                " conditions, or open fewer streams with them"
            )
        self._left -= steps


class MatchLimits:
    """The limits of clients. One that opens its stream again goes on with what it had left."""

    def __init__(self) -> None:
        self._limits: dict[Hashable, MatchLimit] = {}

    def of_client(self, client: Hashable | None) -> MatchLimit:
        """Return the limit of a client; one that is not known has a limit for each stream."""
        if client is None:
            return MatchLimit()
        limit = self._limits.pop(client, None) or MatchLimit()
        self._limits[client] = limit  # behind all others
        if len(self._limits) > MAX_CLIENTS:
            del self._limits[next(iter(self._limits))]
        return limit
