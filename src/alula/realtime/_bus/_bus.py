"""`Bus`: what carries events between processes, to derive from."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

__all__ = ["Bus", "BusEvent"]


class BusEvent(NamedTuple):
    """An event as it comes from a bus.

    Attributes:
        position: Where the bus is after this event: what `Bus.events` takes as ``after``.
        event: What `Bus.publish` was given. Empty, it only tells the position.
    """

    position: str
    event: bytes


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
    """

    max_event_bytes: int = 8 * 1024 * 1024

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

    async def close(self) -> None:
        """Close connections, after the last call of the other methods."""
