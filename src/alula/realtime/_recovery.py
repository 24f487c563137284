"""socket.io's connection state recovery: what a client missed while it was away.

Each event has an offset. A client that comes back sends the id of its connection (``pid``) and the
last offset that it received. Its connection has slept meanwhile: it stayed in its channels, and its
events were kept. The client gets the events after the offset, in order, each once. If one of them
is gone, the connection ends, and the client joins as a new one. So it never misses an event without
knowing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, Self, TypeVar

from alula._wire import Frame
from alula.realtime._engine import Scheduler, Timer

__all__ = [
    "EventWithOffset",
    "MissedEvents",
    "RecoverOptions",
    "SleepingLinks",
]

MAX_ASLEEP: Final = 10_000
"""How many connections of one process may sleep."""

_OTHER_FRAMES: Final = 2
"""A client that comes back gets all its events at once, after the answer to its join and perhaps a
ping. All of these together must fit into its queue."""


class EventWithOffset(NamedTuple):
    """An event in the form that clients with recovery get.

    Attributes:
        offset: Its number among all events of this process.
        frames: Its frames.
        size: Their length together.
    """

    offset: str
    frames: list[Frame]
    size: int


@dataclass(frozen=True)
class RecoverOptions:
    """How long and how many events are kept for a client.

    Attributes:
        seconds: How long a client may be away, and how long its events are kept.
        backlog: How many frames may wait for a slow reader. Slightly fewer are kept of events.
        max_bytes: How many bytes they may have together.
    """

    seconds: float
    backlog: int
    max_bytes: int


class MissedEvents:
    """The last events of one connection.

    Events that were sent are kept as well: they may have been lost when the network failed.

    Args:
        options: How many are kept.
        scheduler: Gives the time.
    """

    __slots__ = (
        "_bytes",
        "_dropped",
        "_events",
        "_frames",
        "_options",
        "_owner",
        "_scheduler",
        "wake_up",
    )
    wake_up: Timer | None
    """While the connection sleeps: ends it when the time is over."""

    def __init__(self, options: RecoverOptions, scheduler: Scheduler) -> None:
        self._options = options
        self._scheduler = scheduler
        self._events: deque[tuple[float, EventWithOffset]] = deque()
        self._bytes = self._frames = 0
        self._owner: object = None
        self._dropped = ""  # the offset of the last event that was dropped
        self.wake_up = None

    def keep_for(self, owner: object) -> Self:
        """Drop the kept events if another user has signed in on the connection.

        Args:
            owner: The sign-in of the connection, None for nobody.
        """
        if owner is not self._owner:
            self._owner = owner
            while self._events:
                self._drop()
        return self

    def append(self, event: EventWithOffset) -> bool:
        """Keep an event; return False if older ones had to be dropped, because of the limits."""
        now = self._scheduler.time()
        events, options = self._events, self._options
        # A client that missed such an event has been gone for too long to resume.
        while events and events[0][0] < now - options.seconds:
            self._drop()
        events.append((now, event))
        self._bytes += event.size
        self._frames += len(event.frames)
        is_full = False
        max_frames = max(0, options.backlog - _OTHER_FRAMES)
        while self._frames > max_frames or self._bytes > options.max_bytes:
            self._drop()
            is_full = True
        return not is_full

    def after(self, offset: str) -> Iterable[EventWithOffset] | None:
        """Return the events after an offset, None if some of them are gone.

        Args:
            offset: The last one that the client received, empty if it received none.
        """
        events = [event for _, event in self._events]
        if offset == self._dropped:
            return events
        for at in range(len(events) - 1, -1, -1):
            if events[at].offset == offset:
                return events[at + 1 :]
        return None

    def _drop(self) -> None:
        _, event = self._events.popleft()
        self._bytes -= event.size
        self._frames -= len(event.frames)
        self._dropped = event.offset


class Sleeper(Protocol):
    """The link of a connection that can sleep."""

    def end(self) -> None:
        """End the connection for good; this calls `SleepingLinks.remove`."""
        ...


S = TypeVar("S", bound=Sleeper)


class SleepingLinks(Generic[S]):
    """The links of connections whose clients are away, by their secrets.

    If there are too many, connections of the client with the most of them end first. So a flood of
    connections from one client does not end those of others.
    """

    def __init__(self) -> None:
        self._clients: dict[str, Hashable] = {}  # by secret
        self._of_clients: dict[Hashable, dict[str, S]] = {}

    def get(self, secret: str) -> S | None:
        """Return the link with a secret, None if it does not sleep."""
        if secret not in self._clients:
            return None
        return self._of_clients[self._clients[secret]][secret]

    def add(self, secret: str, link: S, client: Hashable) -> None:
        """Let a connection sleep.

        Args:
            secret: The id by which its client comes back.
            link: Its link.
            client: The client that it counts for.
        """
        own = self._of_clients.setdefault(client, {})
        own[secret] = link
        self._clients[secret] = client
        if len(self._clients) > MAX_ASLEEP:
            # Only if this client cannot be the one with the most, look at all of them.
            if len(own) * len(self._of_clients) <= len(self._clients):
                own = max(self._of_clients.values(), key=len)
            next(iter(own.values())).end()  # the one that has slept longest

    def remove(self, secret: str) -> None:
        """Forget a connection; does nothing if it does not sleep."""
        if secret in self._clients:
            client = self._clients.pop(secret)
            del self._of_clients[client][secret]
            if not self._of_clients[client]:
                del self._of_clients[client]

    def end_all(self) -> None:
        """End all."""
        for group in tuple(self._of_clients.values()):
            for link in tuple(group.values()):
                link.end()
