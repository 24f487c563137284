"""Deliveries: events with the channels that publishers returned for them."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple, Protocol

from alula._channels._channel import Channel, channels_in
from alula._channels._publishers import Publication, Publisher
from alula._connection import Connection, EventMessage
from alula._user_code import name_of
from alula.outgoing import public_part

__all__ = ["Delivery", "EventRecorder", "delivery_of"]

_log: Final = logging.getLogger("alula.events")


class Delivery(NamedTuple):
    """An event with the channels that a publisher returned for it.

    Attributes:
        targets: Channels, with the message for each.
        origin: The process where the event was published.
        sequence: Its number there.
    """

    targets: tuple[tuple[Channel, EventMessage], ...]
    origin: str
    sequence: int

    def message_for(self, connection: Connection) -> EventMessage | None:
        """Return what a connection gets: the message of the first channel that it is in."""
        try:
            found = (message for channel, message in self.targets if connection in channel)
            return next(found, None)
        except Exception:  # noqa: BLE001  # of a filter: as when the event was published
            lost = self.targets[0][1]
            text = "a filter failed; %r misses the event %r of %r"
            _log.exception(text, connection, lost.event, lost.path)
            return None


def delivery_of(event: Publication, publisher: Publisher, returned: object) -> Delivery | None:
    """Return the delivery of an event, None if it is for nobody.

    Args:
        event: The event.
        publisher: Its publisher, to name it in the log.
        returned: What that has returned; if it is not right, the log says so.
    """
    try:
        channels = channels_in(returned)
    except TypeError as error:
        text = "the publisher %s %s; nobody gets the event %r of %r"
        _log.error(text, name_of(publisher), error, event.event, event.path)  # no stack of ours
        return None
    if not channels:
        return None
    plain = EventMessage(
        event.path,
        event.event,
        event.public,
        event.data,
        event.route,
        origin=event.origin,
        sequence=event.sequence,
    )
    targets = tuple(
        (c, plain if c.data is None else plain.with_data(public_part(c.data))) for c in channels
    )
    return Delivery(targets, event.origin, event.sequence)


class EventRecorder(Protocol):
    """An event log as channels and a bus know it."""

    @property
    def oldest(self) -> float:
        """Events from before that time are not kept."""
        ...

    def advance(self, origin: str, sequence: int, time: float | None = None) -> None:
        """Note the number of an event of a process, whoever gets it; called in their order."""
        ...

    def record(self, delivery: Delivery, time: float | None = None) -> None:
        """Keep an event, and give its messages their id, before they are sent."""
        ...

    def begin_recall(self) -> None:
        """Note that events from before are about to be recalled from a bus."""
        ...

    def end_recall(self, complete_since: float) -> None:
        """Note from when on the events of all processes are known."""
        ...
