"""Recent events, for clients that come back and ask what they have missed.

An event id is a position: a time, and for each process the number of its last event. Processes hear
of each other's events in different orders, so a single number would not say what a client has seen.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from alula._channels import Delivery
from alula.realtime._event_ids import MAX_ORIGINS, EventIds, Position
from alula.types import COLLECTION_TYPES, is_mapping

__all__ = ["EventLog"]

CLOCK_SKEW_SECONDS: Final = 2.0
"""How far the clocks of two machines may differ, and how long a bus may take."""

RECALL_WAIT_SECONDS: Final = 2.0
"""How long a client waits for a process that has just started, before it is told to reset."""


MAX_COUNTED_BYTES: Final = 8 * 1_048_576
"""What one event counts at most: how large it is, is not worth more time."""

_BYTES_OF_A_VALUE: Final = 50


class _Entry(NamedTuple):
    time: float
    delivery: Delivery
    size: int


def estimated_size(value: Any) -> int:
    """Return about how many bytes of memory a record takes."""
    size, values = 0, [value]
    while values and size < MAX_COUNTED_BYTES:  # a value may contain itself
        item = values.pop()
        size += _BYTES_OF_A_VALUE
        if isinstance(item, str | bytes):
            size += len(item)
        elif is_mapping(item):
            values.extend(item.values())
        elif isinstance(item, COLLECTION_TYPES):
            values.extend(item)
    return min(size, MAX_COUNTED_BYTES)


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
        keep_bytes: About how much memory their records may take.
        ids: Signs the ids of events.
        now: Returns the seconds since 1970. Not a monotonic clock: other processes read the ids.

    Attributes:
        ids: As given.
        on_gap: Called when events of a process are found missing, which open streams miss too.
    """

    def __init__(
        self,
        keep: int,
        keep_seconds: float,
        keep_bytes: int,
        ids: EventIds,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.ids = ids
        self.on_gap: Callable[[], object] = dict  # there is no stream yet
        self._keep = keep
        self._keep_seconds = keep_seconds
        self._keep_bytes = keep_bytes
        self._bytes = 0
        self._now = now
        # Ids have whole milliseconds.
        self._complete_since = int(now() * 1000) / 1000
        self._recalled = asyncio.Event()
        self._recalled.set()
        self._entries: deque[_Entry] = deque()
        self._sequences: dict[str, int] = {}
        self._heard: dict[str, float] = {}  # when each process was heard last, oldest first
        self._idle: dict[str, int] = {}  # the last number of processes that are silent for long
        self._lost: dict[str, _Lost] = {}

    @property
    def oldest(self) -> float:
        """Events from before that time are not kept."""
        return self._now() - self._keep_seconds

    def begin_recall(self) -> None:
        """Note that events from before are about to be recalled from a bus."""
        self._complete_since = math.inf
        self._recalled.clear()

    def end_recall(self, complete_since: float) -> None:
        """Note from when on the events of all processes are known."""
        self._complete_since = complete_since
        self._recalled.set()

    async def wait_for_recall(self) -> None:
        """Wait until events from before are recalled, for some seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RECALL_WAIT_SECONDS):
                await self._recalled.wait()

    def advance(self, origin: str, sequence: int, time: float | None = None) -> None:
        """Note the number of an event of a process, whoever gets it.

        Args:
            origin: The process.
            sequence: The number.
            time: When it was published, if it is recalled; None for now.
        """
        now = self._now() if time is None else time
        expected = self._sequences.get(origin, self._idle.pop(origin, 0)) + 1
        if sequence != expected:  # a bus was away, or this process started later
            self._lost[origin] = _Lost(sequence - 1, now)
            if origin in self._sequences:  # otherwise what is missing is from before
                self.on_gap()
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

    def lose(self) -> None:
        """Note that events of other processes are lost, nobody knows of which."""
        self._complete_since = max(self._complete_since, int(self._now() * 1000) / 1000)
        self.on_gap()

    def record(self, delivery: Delivery, time: float | None = None) -> None:
        """Keep an event, and give its messages their id.

        Args:
            delivery: The event with its channels.
            time: When it was published, if it is recalled; None for now.
        """
        now = self._now() if time is None else time
        position = self.position(now)
        for _, message in delivery.targets:
            message.id = position
        # Each object once: most messages have the record itself.
        parts = {id(part): part for _, m in delivery.targets for part in (m.data, m.record)}
        size = sum(map(estimated_size, parts.values()))
        entries = self._entries
        entries.append(_Entry(now, delivery, size))
        self._bytes += size
        while entries and (
            len(entries) > self._keep
            or self._bytes > self._keep_bytes
            or entries[0].time < now - self._keep_seconds
        ):
            dropped, old, size = entries.popleft()
            self._bytes -= size
            if old.origin in self._sequences:
                self._lost[old.origin] = _Lost(old.sequence, dropped)

    def position(self, time: float | None = None) -> str:
        """Return the signed position of what was published so far, or until then."""
        now = self._now() if time is None else time
        numbers = [f"{origin}:{sequence}" for origin, sequence in self._sequences.items()]
        return self.ids.sign("~".join([f"{int(now * 1000):x}", *(numbers or [""])]))

    def is_behind(self, seen: Mapping[str, int]) -> bool:
        """Return whether a client has seen more of a process than this one has heard of."""
        heard = self._sequences
        return any(number > heard.get(origin, number) for origin, number in seen.items())

    def raise_position(self, id: str, seen: Mapping[str, int]) -> str:
        """Return an id that is not from before what a client has seen at another process.

        Processes that this one has not heard of are left out. A client that names them would get
        `reset` each time it comes back.
        """
        heard_of = {origin: n for origin, n in seen.items() if origin in self._sequences}
        return self.ids.raise_position(id, heard_of)

    def since(self, position: Position) -> list[Delivery] | None:
        """Return the events after a position, None if some of them may be missing.

        Args:
            position: What the client has seen, here or at another process.
        """
        seen, now = position.sequences, self._now()
        # Before it was complete, also of processes that neither side has heard of.
        if position.time < max(now - self._keep_seconds, self._complete_since):
            return None
        recent = now - 2 * self._keep_seconds
        if seen.keys() - self._sequences.keys() - self._idle.keys() - {""}:
            return None  # of a process that this one has not heard of
        for origin, lost in self._lost.items():
            # A position has all processes that were heard of lately, as this log has.
            if lost.sequence > seen[origin] if origin in seen else lost.time > recent:
                return None
        missed = [
            entry
            for entry in self._entries
            if entry.delivery.sequence > seen.get(entry.delivery.origin, 0)
        ]
        # A process that the client has not heard of had published nothing when it left. Otherwise
        # the bus was late at the process that it left, which may have missed others, too.
        left = position.time - CLOCK_SKEW_SECONDS
        if any(entry.time <= left and entry.delivery.origin not in seen for entry in missed):
            return None
        return [entry.delivery for entry in missed]
