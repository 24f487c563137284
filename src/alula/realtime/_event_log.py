"""Recent events, for clients that come back and ask what they have missed.

An event id is a position: a time, and for each process the number of its last event. Processes hear
of each other's events in different orders, so a single number would not say what a client has seen.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from alula._channels import Delivery

__all__ = ["EventLog", "Position", "read_position"]

MAX_ORIGINS: Final = 1_000
"""Processes in a position that a client sends, and idle ones that a log remembers."""

CLOCK_SKEW_SECONDS: Final = 2.0
"""How far the clocks of two machines may differ, and how long a bus may take."""


class Position(NamedTuple):
    """What a client has seen.

    Attributes:
        time: When it got the position, in seconds since 1970.
        sequences: The number of the last event of each process.
    """

    time: float
    sequences: Mapping[str, int]


def read_position(text: str) -> Position | None:
    """Return the position that an event id says, None if it is not one of ours.

    Examples:
        >>> read_position("3e8~w1:57")
        Position(time=1.0, sequences={'w1': 57})
        >>> read_position("5") is None
        True
    """
    milliseconds, *parts = text.split("~")
    if not parts or len(parts) > MAX_ORIGINS:
        return None
    try:
        named = (part.partition(":") for part in parts if part)
        pairs = [(name, int(number)) for name, _, number in named]
        return Position(int(milliseconds, 16) / 1000, dict(pairs))
    except (ValueError, OverflowError):
        return None


class _Entry(NamedTuple):
    time: float
    delivery: Delivery


class _Lost(NamedTuple):
    """Which events of a process the log has no more.

    Attributes:
        sequence: The number of the last one.
        time: When it was published, or found missing.
    """

    sequence: int
    time: float


class EventLog:
    """The last deliveries of one application, in memory.

    Args:
        keep: The largest number of events.
        keep_seconds: How long a client may be away.
        now: Returns the seconds since 1970. Not a monotonic clock: other processes read the ids.
    """

    def __init__(
        self, keep: int, keep_seconds: float, now: Callable[[], float] = time.time
    ) -> None:
        self._keep = keep
        self._keep_seconds = keep_seconds
        self._now = now
        self._entries: deque[_Entry] = deque()
        self._sequences: dict[str, int] = {}
        self._heard: dict[str, float] = {}  # when each process was heard last, oldest first
        self._idle: dict[str, int] = {}  # the last number of processes that are silent for long
        self._lost: dict[str, _Lost] = {}

    def advance(self, origin: str, sequence: int) -> None:
        """Note the number of an event of a process, whoever gets it."""
        now = self._now()
        expected = self._sequences.get(origin, self._idle.pop(origin, 0)) + 1
        if sequence != expected:  # a bus was away, or this process started later
            self._lost[origin] = _Lost(sequence - 1, now)
        self._sequences[origin] = sequence
        self._heard.pop(origin, None)
        self._heard[origin] = now
        # Ids must not grow with every process that ever was. Nobody resumes from an id this old.
        while (first := next(iter(self._heard))) != origin:
            if now - self._heard[first] < 2 * self._keep_seconds:
                break
            del self._heard[first]
            self._idle[first] = self._sequences.pop(first)
            self._lost.pop(first, None)
            if len(self._idle) > MAX_ORIGINS:
                del self._idle[next(iter(self._idle))]

    def record(self, delivery: Delivery) -> None:
        """Keep an event, and give its messages their id."""
        now = self._now()
        position = self.position()
        for _, message in delivery.targets:
            message.id = position
        entries = self._entries
        entries.append(_Entry(now, delivery))
        while len(entries) > self._keep or entries[0].time < now - self._keep_seconds:
            dropped, old = entries.popleft()
            if old.origin in self._sequences:
                self._lost[old.origin] = _Lost(old.sequence, dropped)

    def position(self) -> str:
        """Return the id of what was published so far."""
        numbers = [f"{origin}:{sequence}" for origin, sequence in self._sequences.items()]
        return "~".join([f"{int(self._now() * 1000):x}", *(numbers or [""])])

    def since(self, position: Position) -> list[Delivery] | None:
        """Return the events after a position, None if some of them may be missing.

        Args:
            position: What the client has seen, here or at another process.
        """
        seen = position.sequences
        if position.time < self._now() - self._keep_seconds:
            return None
        if seen.keys() - self._sequences.keys() - self._idle.keys() - {""}:
            return None  # of a process that this one has not heard of
        for origin, lost in self._lost.items():
            # A process that a client has not heard of had published nothing when it left.
            if lost.sequence > seen[origin] if origin in seen else lost.time >= position.time:
                return None
        left = position.time - CLOCK_SKEW_SECONDS
        return [
            entry.delivery
            for entry in self._entries
            if entry.delivery.sequence > seen.get(entry.delivery.origin, 0)
            and (entry.delivery.origin in seen or entry.time > left)
        ]
