"""`MongoBus`: several machines share their events by a collection and its change stream."""

from __future__ import annotations

import datetime
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from alula.realtime._bus._bus import Bus, BusEvent

if TYPE_CHECKING:
    from pymongo.asynchronous.collection import AsyncCollection

__all__ = ["MongoBus"]

_HISTORY_LOST: Final = frozenset({136, 280, 286})
"""Codes of a change stream that cannot go on: its position is no longer in the oplog."""

_AWAIT_MS: Final = 1_000

_log: Final = logging.getLogger("alula.realtime.bus")


class MongoBus(Bus):
    """Carries events by the change stream of a collection, for those who have a replica set.

    Events take some milliseconds more than with `RedisBus`, and there is no further server. The
    collection is created, with an index that removes old events.

    Args:
        collection: An empty collection for the events alone, of PyMongo's asynchronous client.
            The server must be a member of a replica set; a single member is enough.
        keep_seconds: How long events stay in the collection. Processes that were away catch up
            from the oplog, whatever this is.

    Raises:
        TypeError: It is not a collection of the asynchronous client.

    Examples:
        >>> from pymongo import AsyncMongoClient
        >>> bus = MongoBus(AsyncMongoClient()["shop"]["events"])
    """

    def __init__(self, collection: AsyncCollection[Any], *, keep_seconds: float = 600) -> None:
        from pymongo.asynchronous.collection import AsyncCollection  # noqa: PLC0415  # an extra

        if not isinstance(collection, AsyncCollection):
            raise TypeError(
                f"MongoBus takes a collection of pymongo.AsyncMongoClient, not {collection!r}"
            )
        self._collection = collection
        self._keep_seconds = keep_seconds
        self._has_index = False

    def __repr__(self) -> str:
        return f"MongoBus({self._collection.full_name!r})"

    async def publish(self, event: bytes) -> None:
        """Insert an event."""
        await self.publish_many([event])

    async def publish_many(self, events: Sequence[bytes]) -> None:
        """Insert events, in one round trip."""
        if not self._has_index:
            await self._collection.create_index("at", expireAfterSeconds=self._keep_seconds)
            self._has_index = True
        now = datetime.datetime.now(datetime.UTC)
        await self._collection.insert_many([{"event": event, "at": now} for event in events])

    async def events(self, after: str | None = None) -> AsyncGenerator[BusEvent, None]:
        """Yield the events that are inserted after a position, a resume token."""
        watch = partial(
            self._collection.watch,
            [{"$match": {"operationType": "insert"}}],
            max_await_time_ms=_AWAIT_MS,
        )
        try:
            # Not resume_after: that cannot go on after the collection was dropped.
            stream = await watch(start_after={"_data": after} if after else None)
        except Exception as error:
            # Of PyMongo, an extra that is not imported for this alone.
            if getattr(error, "code", None) not in _HISTORY_LOST:
                raise
            _log.warning("%r was away for too long; events were missed: %s", self, error)
            stream = await watch()
        async with stream:
            # Also without an event: an old token may no longer be in the oplog.
            yield BusEvent(_position(stream.resume_token), b"")
            while stream.alive:
                change = await stream.try_next()
                event = (change or {}).get("fullDocument", {}).get("event", b"")
                yield BusEvent(_position(stream.resume_token), event)


def _position(token: Mapping[str, Any] | None) -> str:
    return str(token["_data"]) if token else ""
