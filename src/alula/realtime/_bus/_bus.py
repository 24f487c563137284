"""`Bus`: the base class of everything that carries events between processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

__all__ = ["Bus", "BusEvent", "RecentEvents"]


class BusEvent(NamedTuple):
    """An event that comes from a bus.

    Attributes:
        position: The position after this event, which `Bus.events` gets as ``after``.
        event: The bytes that `Bus.publish` got. Empty if there is only a new position.
        is_behind_gap: Whether events before this one are gone, such as after a long absence. Then
            clients that must not miss events are told to fetch their records again.
    """

    position: str
    event: bytes
    is_behind_gap: bool = False


class RecentEvents(NamedTuple):
    """The events that a bus still keeps.

    Attributes:
        events: The bytes that `Bus.publish` got, in their order.
        complete_since: The time since which no event is missing, in seconds since 1970. None means
            the time of the first of these events.
    """

    events: Sequence[bytes] = ()
    complete_since: float | None = None


class Bus:
    """Carries the events of each process to all others. Subclasses use one engine each.

    A bus may raise any exception at any time: Alula logs it once, keeps the events that wait, tries
    again with growing pauses, and drops events that arrive twice. So a bus need not retry.

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
        max_event_bytes: Larger events are not published, and the log names them.
        max_recent_bytes: How many bytes of earlier events a process reads when it starts.
    """

    max_event_bytes: int = 8 * 1024 * 1024
    max_recent_bytes: int = 32 * 1024 * 1024

    async def publish(self, event: bytes) -> None:
        """Pass an event to all processes, including this one.

        Raises:
            Exception: It may not have been passed. Alula publishes it again.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define publish(event)")

    async def publish_many(self, events: Sequence[bytes]) -> None:
        """Pass several events to all processes, in this order.

        Raises:
            Exception: Some may not have been passed. Alula publishes all of them again.
        """
        for event in events:
            await self.publish(event)

    def events(self, after: str | None = None) -> AsyncGenerator[BusEvent, None]:
        """Yield the events of all processes, those of each process in its order.

        This is an asynchronous generator. Yield an empty event as soon as it listens: then Alula
        knows that the bus works, and from where to continue after a failure.

        Args:
            after: The last position that was yielded, None to begin with the next event.

        Raises:
            Exception: The bus is away. Alula calls this again with the last position.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define events(after)")

    async def recent_events(self, before: str) -> RecentEvents:  # noqa: ARG002  # for subclasses
        """Return the events that the bus still keeps.

        Alula calls this once, when it begins to listen. Override it if the engine keeps events:
        then clients of server-sent events can resume at a process that has just started. Otherwise
        they are told to load their data again.

        Args:
            before: The first position that `events` has yielded. Later events may be missing.

        Raises:
            Exception: They cannot be read. Alula continues without them.
        """
        return RecentEvents()

    async def close(self) -> None:
        """Close all connections. Alula calls no other method after this."""
