"""socket.io's connection state recovery: what a client missed while it was away.

Each event has an offset. A client that comes back shows the id of its connection (``pid``) and the
last offset that it received. Its connection has slept meanwhile, in its channels, and its events
were kept: it gets those after the offset, in order, none twice. If an event is gone, the connection
ends, and the client joins as a new one: there is never a silent gap.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, Self, TypeVar

from alula._connection import EventMessage
from alula._json_encoding import dumps_with_attachments
from alula._wire import Frame, Packet, PacketType, encode_packet
from alula.realtime._engine import Scheduler, Timer
from alula.realtime._frames import event_name, log_unencodable

__all__ = [
    "EventWithOffset",
    "MissedEvents",
    "RecoverOptions",
    "SleepingSockets",
    "encode_with_offset",
]

MAX_ASLEEP: Final = 10_000
"""How many connections of one process may sleep."""

_offsets: Final = itertools.count(1)

_OTHER_FRAMES: Final = 2
"""Whoever comes back gets all events at once, behind the answer to its join, perhaps with a ping:
they must not make it a slow reader."""


class EventWithOffset(NamedTuple):
    """An event as it is sent to clients that can recover.

    Attributes:
        offset: Its place among all events of this process.
        frames: What is sent.
        size: The length of the frames.
    """

    offset: str
    frames: list[Frame]
    size: int


def encode_with_offset(message: EventMessage) -> EventWithOffset | None:
    """Encode an event, with its offset as the last argument; None if it has no JSON form."""
    offset = f"{next(_offsets):x}"
    event = [event_name(message), message.data, offset]
    try:
        frames = encode_packet(Packet(PacketType.EVENT, event), dumps_with_attachments)
    except Exception:  # noqa: BLE001  # as in `encode_event`
        log_unencodable(message)
        return None
    return EventWithOffset(offset, frames, sum(map(len, frames)))


@dataclass(frozen=True)
class RecoverOptions:
    """How long, and how much.

    Attributes:
        seconds: How long a client may be away, and how long its events are kept.
        backlog: How many frames may wait for a slow reader; of events some fewer are kept.
        max_bytes: How many bytes they may have together.
    """

    seconds: float
    backlog: int
    max_bytes: int


class MissedEvents:
    """The last events of one connection.

    Also those that were sent: a client may lose what was under way when its network failed.

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
        self._dropped = ""  # the offset of the last event that is not kept any more
        self.wake_up = None

    def keep_for(self, owner: object) -> Self:
        """Drop what is kept if it is another's: one page may have one user after another.

        Args:
            owner: The sign-in of the connection, None for nobody.
        """
        if owner is not self._owner:
            self._owner = owner
            while self._events:
                self._drop()
        return self

    def append(self, event: EventWithOffset) -> bool:
        """Keep an event; return whether none had to be dropped for it, as too many."""
        now = self._scheduler.time()
        events, options = self._events, self._options
        # Whoever has not received such an event is away for too long anyway.
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
    """A connection that sleeps."""

    def end(self) -> None:
        """End it for good; it calls `SleepingSockets.remove`."""
        ...


S = TypeVar("S", bound=Sleeper)


class SleepingSockets(Generic[S]):
    """The connections whose clients are away, by their secrets; when they are too many, some end.

    First those of the client that has most of them: a flood of connections that come and go must
    not end those of others.
    """

    def __init__(self) -> None:
        self._clients: dict[str, Hashable] = {}  # by secret
        self._of_clients: dict[Hashable, dict[str, S]] = {}

    def get(self, secret: str) -> S | None:
        """Return the connection with a secret, None if it does not sleep."""
        if secret not in self._clients:
            return None
        return self._of_clients[self._clients[secret]][secret]

    def add(self, secret: str, socket: S, client: Hashable) -> None:
        """Let a connection sleep.

        Args:
            secret: The id by which its client comes back.
            socket: The connection.
            client: To whom it counts.
        """
        own = self._of_clients.setdefault(client, {})
        own[secret] = socket
        self._clients[secret] = client
        if len(self._clients) > MAX_ASLEEP:
            # The usual case of a flood, without a look at all clients.
            if len(own) * len(self._of_clients) <= len(self._clients):
                own = max(self._of_clients.values(), key=len)
            next(iter(own.values())).end()  # it has slept for longest

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
            for socket in tuple(group.values()):
                socket.end()
