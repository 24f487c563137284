"""`MongoBus`: several machines share their events through the change stream of a collection."""

from __future__ import annotations

import datetime
import logging
import math
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from alula.realtime._bus._bus import Bus, BusEvent, RecentEvents

if TYPE_CHECKING:
    from pymongo.asynchronous.collection import AsyncCollection

__all__ = ["MongoBus"]

_HISTORY_LOST: Final = frozenset({136, 280, 286})
"""Error codes of a change stream whose position is no longer in the oplog."""

_AWAIT_MS: Final = 1_000
_MAX_RECENT_EVENTS: Final = 10_000
_SECONDS_TO_CONNECT: Final = 1.0

_log: Final = logging.getLogger("alula.realtime.bus")


class MongoBus(Bus):
    """Carries events through the change stream of a collection, for users of a replica set.

    Events take some milliseconds longer than with `RedisBus`, but no other server is needed. The
    bus creates the collection, with an index that removes old events.

    Args:
        collection: An empty collection of PyMongo's asynchronous client, only for events. The
            server must be a member of a replica set; a single member is enough.
        keep_seconds: How long events stay in the collection. Processes that were away catch up
            from the oplog, independently of this.

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
        self._begun = 0.0  # when this process began to listen

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

    async def recent_events(self, before: str) -> RecentEvents:  # noqa: ARG002  # a token
        """Return the events that are in the collection, also some that were inserted later."""
        recent: list[Mapping[str, Any]] = []
        size = 0
        complete_since = time.time() - self._keep_seconds
        cursor = self._collection.find().sort("at", -1).limit(_MAX_RECENT_EVENTS)
        async with cursor:
            async for document in cursor:
                recent.append(document)
                size += len(document["event"])
                if size > self.max_recent_bytes:
                    break
        # By ids as well, because a process may publish several in the same millisecond.
        recent.sort(key=lambda document: (document["at"], document["_id"]))
        if len(recent) == _MAX_RECENT_EVENTS or size > self.max_recent_bytes:
            oldest = recent[0]["at"].replace(tzinfo=datetime.UTC).timestamp()
            complete_since = max(complete_since, oldest)
        return RecentEvents([document["event"] for document in recent], complete_since)

    async def events(self, after: str | None = None) -> AsyncGenerator[BusEvent, None]:
        """Yield the events that are inserted after a position, which is a resume token."""
        watch = partial(
            self._collection.watch,
            [{"$match": {"operationType": "insert"}}],
            max_await_time_ms=_AWAIT_MS,
        )
        loop_time = time.monotonic()
        self._begun = self._begun or loop_time
        is_behind_gap = False
        start: dict[str, Any] = {"start_after": {"_data": after}} if after else {}
        if not after and loop_time - self._begun > _SECONDS_TO_CONNECT:
            # The server started long after this process, so others may have published meanwhile.
            reply = await self._collection.database.client.admin.command("ping")
            seconds = reply["operationTime"].time - math.ceil(loop_time - self._begun)
            start = {"start_at_operation_time": type(reply["operationTime"])(seconds, 1)}
        try:
            # Not with resume_after, which fails after the collection was dropped.
            stream = await watch(**start)
        except Exception as error:
            # An error of PyMongo, which is an extra: not imported only for its class.
            if getattr(error, "code", None) not in _HISTORY_LOST:
                raise
            _log.warning("%r was away for too long; events were missed: %s", self, error)
            is_behind_gap = True
            stream = await watch()
        async with stream:
            # A new position, also without an event: an old one may have left the oplog.
            yield BusEvent(_position(stream.resume_token), b"", is_behind_gap)
            while stream.alive:
                change: dict[str, Any] | None = await stream.try_next()
                event: bytes = (change or {}).get("fullDocument", {}).get("event", b"")
                yield BusEvent(_position(stream.resume_token), event)


def _position(token: Mapping[str, Any] | None) -> str:
    return str(token["_data"]) if token else ""
