"""Recent events, for clients that come back and ask what they have missed.

An event id is a position: a time, and for each process the number of its last event. A single
number would not do, because processes get each other's events in different orders.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from alula._channels import Connection, Event, Targets
from alula.realtime._event_ids import MAX_ORIGINS, EventIds, Position
from alula.types import COLLECTION_TYPES, is_mapping

__all__ = ["EventLog", "LoggedEvent"]

_log: Final = logging.getLogger("alula.realtime")

CLOCK_SKEW_SECONDS: Final = 2.0
"""By how much the clocks of two machines may differ, and how long a bus may need."""

RECALL_WAIT_SECONDS: Final = 2.0
"""How long a client waits for a process that has just started, before it is told to reset."""

MAX_COUNTED_BYTES: Final = 8 * 1_048_576
"""The largest size that is counted for one event; counting more would take too long."""

_BYTES_OF_A_VALUE: Final = 50


class LoggedEvent(NamedTuple):
    """An event that the log keeps.

    Attributes:
        time: When it was published, in seconds since 1970.
        targets: Its channels, each with the event as it gets it.
        size: About how many bytes its values take.
    """

    time: float
    targets: Targets
    size: int

    @property
    def origin(self) -> str:
        """The process that published it."""
        return self.targets[0][1].origin

    @property
    def sequence(self) -> int:
        """Its number in that process."""
        return self.targets[0][1].sequence

    def for_connection(self, connection: Connection) -> Event | None:
        """Return the event as a connection gets it: by the first channel that it is in."""
        try:
            found = (event for channel, event in self.targets if connection in channel)
            return next(found, None)
        except Exception:  # noqa: BLE001  # of a filter: as when the event was published
            lost = self.targets[0][1]
            text = "a filter failed; %r misses the event %r of %r"
            _log.exception(text, connection, lost.name, lost.path)
            return None


def estimated_size(value: Any) -> int:
    """Return about how many bytes of memory a record takes."""
    size, values = 0, [value]
    while values and size < MAX_COUNTED_BYTES:  # this also ends for a value that contains itself
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
    """The last event of a process that the log no longer has, or never got.

    Attributes:
        sequence: Its number.
        time: When it was published, or noticed as missing.
    """

    sequence: int
    time: float


class EventLog:
    """The last events of one application, in memory.

    Args:
        keep: The largest number of events.
        keep_seconds: How long a client may be away.
        keep_bytes: About how much memory their records may take.
        ids: Signs the ids of events.
        now: Returns the seconds since 1970. Not a monotonic clock, as other processes read the ids.

    Attributes:
        ids: As given.
        on_gap: Called when events of a process did not arrive, which open streams miss too.
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
        self.on_gap: Callable[[], object] = dict  # does nothing, as there is no stream yet
        self._keep = keep
        self._keep_seconds = keep_seconds
        self._keep_bytes = keep_bytes
        self._bytes = 0
        self._now = now
        # In whole milliseconds, like the times in ids.
        self._complete_since = int(now() * 1000) / 1000
        self._recalled = asyncio.Event()
        self._recalled.set()
        self._entries: deque[LoggedEvent] = deque()
        self._sequences: dict[str, int] = {}
        self._heard: dict[str, float] = {}  # when the last event of each process came, oldest first
        self._idle: dict[str, int] = {}  # the last numbers of processes that are silent for long
        self._lost: dict[str, _Lost] = {}

    @property
    def oldest(self) -> float:
        """The log keeps no events from before that time."""
        return self._now() - self._keep_seconds

    def begin_recall(self) -> None:
        """Expect earlier events from a bus: until `end_recall`, nothing is complete."""
        self._complete_since = math.inf
        self._recalled.clear()

    def end_recall(self, complete_since: float) -> None:
        """Note since when the events of all processes are known."""
        self._complete_since = complete_since
        self._recalled.set()

    async def wait_for_recall(self) -> None:
        """Wait for earlier events from a bus, for some seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RECALL_WAIT_SECONDS):
                await self._recalled.wait()

    def advance(self, origin: str, sequence: int, time: float | None = None) -> None:
        """Count an event of a process, even if no connection gets it.

        Args:
            origin: The process.
            sequence: The number.
            time: When it was published, if it is recalled; None for now.
        """
        now = self._now() if time is None else time
        expected = self._sequences.get(origin, self._idle.pop(origin, 0)) + 1
        if sequence != expected:  # the bus was away, or this process started later
            self._lost[origin] = _Lost(sequence - 1, now)
            if origin in self._sequences:  # else only events from before the start are missing
                self.on_gap()
        self._sequences[origin] = sequence
        self._heard.pop(origin, None)
        self._heard[origin] = now
        # Old processes are left out of ids, which would grow for ever. No client resumes from an
        # id this old.
        while (first := next(iter(self._heard))) != origin:
            if now - self._heard[first] < 2 * self._keep_seconds:
                break
            del self._heard[first]
            self._idle[first] = self._sequences.pop(first)
            self._lost.pop(first, None)
            if len(self._idle) > MAX_ORIGINS:
                del self._idle[next(iter(self._idle))]

    def lose(self) -> None:
        """Note that events of other processes are lost, without knowing of which."""
        self._complete_since = max(self._complete_since, int(self._now() * 1000) / 1000)
        self.on_gap()

    def record(self, targets: Targets, time: float | None = None) -> None:
        """Keep an event, and set its position.

        Args:
            targets: Its channels, each with the event as it gets it.
            time: When it was published, if it is recalled; None for now.
        """
        now = self._now() if time is None else time
        position = self.position(now)
        parts: dict[int, object] = {}  # by identity, since ``data`` often is the record itself
        for _, event in targets:
            event.position = position
            parts |= {id(part): part for part in (event.record, event.data)}
        query = targets[0][1].query
        if query:  # a client chose how large it is
            parts[id(query)] = query
        size = sum(map(estimated_size, parts.values()))
        entries = self._entries
        entries.append(LoggedEvent(now, targets, size))
        self._bytes += size
        while entries and (
            len(entries) > self._keep
            or self._bytes > self._keep_bytes
            or entries[0].time < now - self._keep_seconds
        ):
            dropped = entries.popleft()
            self._bytes -= dropped.size
            if dropped.origin in self._sequences:
                self._lost[dropped.origin] = _Lost(dropped.sequence, dropped.time)

    def position(self, time: float | None = None) -> str:
        """Return the signed position after all events so far; ``time`` is stated in it."""
        now = self._now() if time is None else time
        numbers = [f"{origin}:{sequence}" for origin, sequence in self._sequences.items()]
        return self.ids.sign("~".join([f"{int(now * 1000):x}", *(numbers or [""])]))

    def is_behind(self, seen: Mapping[str, int]) -> bool:
        """Return whether a client has seen events that have not arrived at this process yet."""
        heard = self._sequences
        return any(number > heard.get(origin, number) for origin, number in seen.items())

    def raise_position(self, id: str, seen: Mapping[str, int]) -> str:
        """Return a position that includes what a client has seen at another process.

        Processes whose events never arrived here are left out: with them in its id, a client would
        get `reset` each time it comes back.
        """
        heard_of = {origin: n for origin, n in seen.items() if origin in self._sequences}
        return self.ids.raise_position(id, heard_of)

    def since(self, position: Position) -> list[LoggedEvent] | None:
        """Return the events after a position, None if some of them may be missing.

        Args:
            position: What the client has seen, here or at another process.
        """
        seen, now = position.sequences, self._now()
        # From before that, events may be missing of processes that neither side knows.
        if position.time < max(now - self._keep_seconds, self._complete_since):
            return None
        recent = now - 2 * self._keep_seconds
        if seen.keys() - self._sequences.keys() - self._idle.keys() - {""}:
            return None  # the client has seen events of a process that is unknown here
        for origin, lost in self._lost.items():
            # A position names every process with recent events. So an old loss of another process
            # does not matter.
            if lost.sequence > seen[origin] if origin in seen else lost.time > recent:
                return None
        missed = [entry for entry in self._entries if entry.sequence > seen.get(entry.origin, 0)]
        # If the client knows nothing of a process, that process should have published nothing
        # before the client left. If it had, the bus was late, and other events may be missing too.
        left = position.time - CLOCK_SKEW_SECONDS
        if any(entry.time <= left and entry.origin not in seen for entry in missed):
            return None
        return missed
