"""`Bus`: what carries events between processes, to derive from."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

__all__ = ["Bus", "BusEvent", "RecentEvents"]


class BusEvent(NamedTuple):
    """An event as it comes from a bus.

    Attributes:
        position: Where the bus is after this event: what `Bus.events` takes as ``after``.
        event: What `Bus.publish` was given. Empty, it only tells the position.
        is_behind_gap: Whether events before this one are gone, such as after too long an absence.
            Clients that count on getting all events are then told to fetch their records anew.
    """

    position: str
    event: bytes
    is_behind_gap: bool = False


class RecentEvents(NamedTuple):
    """What a bus still keeps.

    Attributes:
        events: What `Bus.publish` was given, in its order.
        complete_since: From when on these are all events, in seconds since 1970. None if that is
            not known: then from the time of the first of them on.
    """

    events: Sequence[bytes] = ()
    complete_since: float | None = None


class Bus:
    """Carries the events of each process to all others; derive from it for another engine.

    A bus may raise anything at any time: Alula logs it once, keeps the events that wait, tries
    again with growing pauses, and drops what arrives twice. So neither method needs to retry.

    Examples:
        >>> class BusOfOneProcess(Bus):
        ...     def __init__(self):
        ...         self.queue = asyncio.Queue()
        ...     async def publish(self, event):
        ...         await self.queue.put(event)
        ...     async def events(self, after=None):
        ...         yield BusEvent("0", b"")
        ...         while True:
        ...             yield BusEvent("0", await self.queue.get())

    Attributes:
        max_event_bytes: Larger events are not published; the log says which.
        max_recent_bytes: How many bytes of events from before the start of a process are read.
    """

    max_event_bytes: int = 8 * 1024 * 1024
    max_recent_bytes: int = 32 * 1024 * 1024

    async def publish(self, event: bytes) -> None:
        """Pass an event to all processes, this one included.

        Raises:
            Exception: It may not have been passed on; it is published again.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define publish(event)")

    async def publish_many(self, events: Sequence[bytes]) -> None:
        """Pass several events to all processes, in this order.

        Raises:
            Exception: Some may not have been passed on; all are published again.
        """
        for event in events:
            await self.publish(event)

    def events(self, after: str | None = None) -> AsyncGenerator[BusEvent, None]:
        """Yield the events of all processes, in the order in which each has published them.

        An asynchronous generator. Yield an empty event as soon as it listens: Alula then knows
        that the bus is there, and where to go on if it goes away.

        Args:
            after: The last position that was seen; None begins with the next event.

        Raises:
            Exception: The bus is away; this is called again with the last position.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define events(after)")

    async def recent_events(self, before: str) -> RecentEvents:  # noqa: ARG002  # for others
        """Return the events that the bus still keeps.

        Alula asks for them once, when it listens. Override it if the engine keeps events: then
        clients of server-sent events can come back to a process that has just started. Without it,
        they are told to load their data again.

        Args:
            before: The first position that `events` has yielded; later events need not be among
                them.

        Raises:
            Exception: They cannot be read; Alula goes on without them.
        """
        return RecentEvents()

    async def close(self) -> None:
        """Close connections, after the last call of the other methods."""
