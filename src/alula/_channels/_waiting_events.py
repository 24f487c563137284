"""Events that wait for asynchronous publishers."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final, NamedTuple

from alula._channels._publishers import Publication, Publisher
from alula._shares import Shares

__all__ = ["WaitingEvent", "WaitingEvents"]

MAX_WAITING: Final = 10_000
"""How many events of one process may wait; one client may have half of them."""


class WaitingEvent(NamedTuple):
    """An event whose turn comes after those before it.

    Attributes:
        event: The event.
        publisher: Its publisher.
        returned: What that has returned, or will return.
        client: Who caused the event, None for the server itself.
        is_counted: Whether it is part of the client's share.
    """

    event: Publication
    publisher: Publisher
    returned: object
    client: Hashable | None
    is_counted: bool


class WaitingEvents:
    """Events of one process that wait for an asynchronous publisher, their own or an earlier one.

    Each client has a share of the room, so that a flood of one does not drop the events of others.
    """

    def __init__(self) -> None:
        self._events: deque[WaitingEvent] = deque()
        self._shares = Shares(MAX_WAITING)

    def __len__(self) -> int:
        return len(self._events)

    def has_room(self, client: Hashable | None) -> bool:
        """Tell whether a further event of a client may wait."""
        return self._shares.has_room(client, 1)

    def append(
        self, event: Publication, publisher: Publisher, returned: object, client: Hashable | None
    ) -> None:
        """Add an event behind all others."""
        # Not always: a publisher that is a plain function may have published further events.
        is_counted = self._shares.take(client, 1)
        self._events.append(WaitingEvent(event, publisher, returned, client, is_counted))

    @property
    def first(self) -> WaitingEvent:
        """The event whose turn is next."""
        return self._events[0]

    def pop(self) -> None:
        """Remove the first event."""
        removed = self._events.popleft()
        if removed.is_counted:
            self._shares.give_back(removed.client, 1)
