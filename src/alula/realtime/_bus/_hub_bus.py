"""`HubBus`: the workers of `alula serve` share their events through its hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final

from alula._hub import ACKNOWLEDGEMENT, FrameReader, frame, started_at, write_frame
from alula.realtime._bus._bus import Bus, BusEvent, RecentEvents

__all__ = ["HubBus"]

_ALL_KEPT: Final = b"all-0"
"""A position that no hub has. For it, a hub sends all events that it keeps."""


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
            # All together, without waiting for the acknowledgement of each.
            writer.writelines([frame(event) for event in events])
            await writer.drain()
            await reader.readexactly(len(ACKNOWLEDGEMENT) * len(events))
        except BaseException:
            # Also if cancelled: a late acknowledgement would be taken for that of a later event.
            writer.close()
            raise
        self._streams = streams

    async def events(self, after: str | None = None) -> AsyncGenerator[BusEvent, None]:
        """Yield the events that the hub has taken."""
        reader, writer = await asyncio.open_unix_connection(self._path)
        try:
            write_frame(writer, b"events " + (after or "").encode())
            frames = FrameReader(reader)
            last_epoch, _, last_number = (after or "").partition("-")
            while True:
                position, _, event = (await frames.read()).partition(b" ")
                epoch, _, number = position.decode().partition("-")
                # The hub drops events if this worker does not read for long.
                is_behind_gap = epoch == last_epoch and int(number) > int(last_number) + bool(event)
                last_epoch, last_number = epoch, number
                yield BusEvent(position.decode(), event, is_behind_gap)
        finally:
            writer.close()

    async def recent_events(self, before: str) -> RecentEvents:
        """Return the events that the hub still keeps."""
        epoch, _, number_before = before.partition("-")
        last, first = int(number_before), 0
        recent: list[bytes] = []
        reader, writer = await asyncio.open_unix_connection(self._path)
        try:
            write_frame(writer, b"events " + _ALL_KEPT)
            frames = FrameReader(reader)
            while True:
                position, _, event = (await frames.read()).partition(b" ")
                number = int(position.partition(b"-")[2])
                if event and number <= last:
                    first = first or number
                    recent.append(event)
                if number >= last:
                    break
        finally:
            writer.close()
        # If it has the first event, it has kept all since its start.
        return RecentEvents(recent, started_at(epoch) if first <= 1 else None)

    async def close(self) -> None:
        """Close the connection for publishing."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
