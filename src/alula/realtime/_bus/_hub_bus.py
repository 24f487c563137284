"""`HubBus`: the workers of `alula serve` share their events by its hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from alula._hub import ACKNOWLEDGEMENT, FrameReader, frame, write_frame
from alula.realtime._bus._bus import Bus, BusEvent

__all__ = ["HubBus"]


class HubBus(Bus):
    """Carries events between the workers of one machine.

    Args:
        path: The socket of the hub.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def __repr__(self) -> str:
        return "the hub of alula serve"

    async def publish(self, event: bytes) -> None:
        """Pass an event to the hub."""
        await self.publish_many([event])

    async def publish_many(self, events: Sequence[bytes]) -> None:
        """Pass events to the hub, and wait until it has taken all of them."""
        streams, self._streams = self._streams, None
        if streams is None:
            streams = await asyncio.open_unix_connection(self._path)
            write_frame(streams[1], b"publish")
        reader, writer = streams
        try:
            # All at once: the hub acknowledges one by one, and need not be waited for in between.
            writer.writelines([frame(event) for event in events])
            await writer.drain()
            await reader.readexactly(len(ACKNOWLEDGEMENT) * len(events))
        except BaseException:
            # Also if cancelled: acknowledgements that come late would be taken for later ones.
            writer.close()
            raise
        self._streams = streams

    async def events(self, after: str | None = None) -> AsyncGenerator[BusEvent, None]:
        """Yield the events that the hub has taken."""
        reader, writer = await asyncio.open_unix_connection(self._path)
        try:
            write_frame(writer, b"events " + (after or "").encode())
            frames = FrameReader(reader)
            while True:
                position, _, event = (await frames.read()).partition(b" ")
                yield BusEvent(position.decode(), event)
        finally:
            writer.close()

    async def close(self) -> None:
        """Close the connection for publishing."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
