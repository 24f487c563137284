"""What clients were promised and what they got; a broken promise is a line that says which."""

from __future__ import annotations

import time
from collections import Counter, defaultdict

Stream = tuple[int, str]
"""The process and the room of a message: their numbers have no gaps."""

MAX_BROKEN = 20


class Journal:
    """Of all clients together.

    Attributes:
        broken: What was promised and did not hold.
        counts: How often what has happened.
        slowest: Seconds of the slowest call that was acknowledged.
    """

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.counts: Counter[str] = Counter()
        self.slowest = 0.0
        self._acknowledged: dict[Stream, list[tuple[int, float]]] = defaultdict(list)

    def break_promise(self, text: str) -> None:
        self.counts["broken"] += 1
        if len(self.broken) < MAX_BROKEN:
            self.broken.append(text)

    def acknowledge(self, record: dict[str, object], begun: float) -> None:
        """Note that the caller was told of a message."""
        self.counts["acknowledged"] += 1
        self.slowest = max(self.slowest, time.monotonic() - begun)
        self._acknowledged[record["pid"], record["room"]].append((record["n"], begun))

    def owed(self, room: str, since: float) -> dict[Stream, tuple[int, int]]:
        """Return the first and the last number that a client in a room must get, by stream.

        Args:
            room: The room.
            since: When the client was told that it is there: calls that began later count.
        """
        owed = {}
        for stream, messages in self._acknowledged.items():
            if stream[1] == room:
                numbers = [number for number, begun in messages if begun > since]
                if numbers:
                    owed[stream] = (min(numbers), max(numbers))
        return owed


class Inbox:
    """What one client got, from one fresh start to the next.

    A fresh start is what tells a client to fetch its records anew: a join that is not recovered, or
    the event ``reset`` of a stream.
    """

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal = journal
        self.name = name
        self._since: dict[str, float] = {}  # by room that the client may be in
        self._first: dict[Stream, int] = {}
        self._last: dict[Stream, int] = {}
        self._history: list[str] = []

    def note(self, text: str) -> None:
        """Remember what happened, to be shown with a promise that was broken."""
        self._history = [*self._history[-14:], f"{time.monotonic():.3f} {text}"]

    def start_anew(self, room: str) -> None:
        """Be told to fetch anew, in a room."""
        self._since = {room: time.monotonic()}
        self._first.clear()
        self._last.clear()
        self._journal.counts["fresh starts"] += 1
        self.note(f"starts anew in {room}")

    def may_be_in(self, room: str) -> None:
        """Be about to enter another room; nothing of it is owed yet."""
        self._since.setdefault(room, float("inf"))

    def entered(self, room: str) -> None:
        """Be told to have entered a room, and so to have left the other one."""
        since = self._since.get(room, float("inf"))
        self._since = {room: min(since, time.monotonic())}
        for streams in (self._first, self._last):
            for stream in [stream for stream in streams if stream[1] != room]:
                del streams[stream]
        self.note(f"entered {room}")

    def take(self, record: dict[str, object]) -> None:
        """Take an event; the numbers of each stream must go on without gap or repetition."""
        journal = self._journal
        journal.counts["events"] += 1
        room, number = record["room"], record["n"]
        if room not in self._since:
            self._break(f"got an event of {room!r}, where it is not: {record}")
        if "secret" in record:
            self._break(f"got what is hidden: {record}")
        stream = record["pid"], room
        last = self._last.get(stream)
        if last is None:
            self._first[stream] = number
        elif number != last + 1:
            what = "a gap" if number > last else "again, or out of order"
            self._break(f"{what}: {number} of {stream} after {last}")
        self._last[stream] = number

    def lacks(self) -> list[str]:
        """Return what is owed and did not come."""
        lacking = []
        for room, since in self._since.items():
            for stream, (first, last) in self._journal.owed(room, since).items():
                if self._last.get(stream, 0) < last or self._first[stream] > first:
                    got = (self._first.get(stream), self._last.get(stream))
                    lacking.append(
                        f"{self.name} lacks of {stream}: {first}..{last}, got {got}\n"
                        f"    {self.history}"
                    )
        return lacking

    @property
    def history(self) -> str:
        return "; ".join(self._history)

    def _break(self, text: str) -> None:
        self._journal.break_promise(f"{self.name}: {text}\n    {self.history}")
