"""Operations on several records that return exactly the records that they changed.

If the server has transactions (a replica set or a sharded cluster), each operation is one: it takes
effect as a whole or not at all, and what it returns is what it changed. On a standalone server it
is a read followed by a write. Then a record that another client changes in between may be patched
or removed although it no longer meets the query, a record that another client removes in between
may be returned by both, and of new records those before the first refused one stay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import bson
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo import ReadPreference
from pymongo.asynchronous.client_session import AsyncClientSession

from alula._events import note_outcome
from alula.adapters.mongodb._model import Collection
from alula.types import Id, Record

__all__ = ["Selection", "create_many", "in_transaction", "patch_many", "remove_many"]

_T = TypeVar("_T")
Session: TypeAlias = AsyncClientSession | None

_MAX_IDS: Final = 50_000
"""How many ids one command has, which keeps it below the limit of 16 MB."""


class Selection(NamedTuple):
    """The records that a call selects in a collection.

    Attributes:
        model: The collection.
        filter: What the records meet.
        sort: Their order.
        projection: The fields to return, None for all.
        session: The session of the caller.
        options: Further options of PyMongo's ``find``.
    """

    model: Collection
    filter: Mapping[str, Any]
    sort: Sequence[tuple[str, int]]
    projection: Mapping[str, Any] | None
    session: Session
    options: Mapping[str, Any]

    async def read(self, projection: Mapping[str, Any] | None, session: Session) -> list[Record]:
        """Return the records that meet the filter now."""
        cursor = self.model.find(
            self.filter, projection, sort=list(self.sort) or None, session=session, **self.options
        )
        return await cursor.to_list()

    def projection_with_id(self) -> Mapping[str, Any] | None:
        """Return the projection with ``_id``, which MongoDB includes unless it is excluded."""
        fields = self.projection or {}
        return {name: fields[name] for name in fields if name != "_id" or fields[name]} or None

    def without_unwanted_id(self, records: list[Record]) -> list[Record]:
        """Return records without ``_id`` if the projection excludes it."""
        if (self.projection or {}).get("_id", True):
            return records
        return [{name: record[name] for name in record if name != "_id"} for record in records]


async def create_many(
    model: Collection, documents: Iterable[bytes], session: Session, options: Mapping[str, Any]
) -> None:
    """Store encoded records, all or none."""
    new: list[Any] = [RawBSONDocument(document) for document in documents]

    async def work(session: Session) -> None:
        await model.insert_many(new, session=session, **options)

    await in_transaction(model, session, work)


async def patch_many(
    selection: Selection,
    changes: Mapping[str, Any],
    options: Mapping[str, Any],
    upsert: Mapping[str, Any] | None = None,
) -> list[Record]:
    """Change the selected records, and return them as they are then, in the order before.

    Args:
        selection: The records.
        changes: The database's update.
        options: Further options of PyMongo's ``update_many``.
        upsert: Options of ``find_one_and_update`` to create a record if none is selected.
    """
    model = selection.model
    is_new = False

    async def work(session: Session) -> list[Record]:
        nonlocal is_new
        ids = [record["_id"] for record in await selection.read({"_id": 1}, session)]
        is_new = upsert is not None and not ids
        if upsert is not None and not ids:
            created: Any = await model.find_one_and_update(
                selection.filter,
                changes,
                selection.projection_with_id(),
                session=session,
                **upsert,
            )
            return [created]
        records: dict[Any, Record] = {}
        for part in _parts(ids):
            by_id = {"_id": {"$in": part}}
            await model.update_many(by_id, changes, session=session, **options)
            cursor = model.find(by_id, selection.projection_with_id(), session=session)
            async for record in cursor:
                records[_key(record["_id"])] = record
        return [records[key] for key in map(_key, ids) if key in records]

    changed = selection.without_unwanted_id(await in_transaction(model, selection.session, work))
    if is_new:
        note_outcome(changed, ["created"])
    return changed


async def remove_many(selection: Selection, options: Mapping[str, Any]) -> list[Record]:
    """Remove the selected records, and return them as they were."""
    model = selection.model

    async def work(session: Session) -> list[Record]:
        records = await selection.read(selection.projection_with_id(), session)
        for part in _parts([record["_id"] for record in records]):
            await model.delete_many({"_id": {"$in": part}}, session=session, **options)
        return records

    return selection.without_unwanted_id(await in_transaction(model, selection.session, work))


async def in_transaction(
    model: Collection, session: Session, work: Callable[[Session], Awaitable[_T]]
) -> _T:
    """Run ``work`` in one transaction: that of the session, or a new one if the server has them.

    A session without a transaction gets one for this work. It has the write concern of the
    collection, and reads from the primary, wherever other reads go. The driver retries the work
    when another write conflicts with it.
    """
    if (session is not None and session.in_transaction) or not await has_transactions(model):
        return await work(session)
    client = model.database.client
    concern = model.write_concern if model.write_concern.acknowledged else None
    async with nullcontext(session) if session else client.start_session() as opened:
        return await opened.with_transaction(
            work, write_concern=concern, read_preference=ReadPreference.PRIMARY
        )


async def has_transactions(model: Collection) -> bool:
    if not _server_types(model):
        await model.database.client.admin.command("ping")  # the driver learns what it talks to
    return bool(_server_types(model) - {"Standalone"})


def _server_types(model: Collection) -> set[str]:
    servers = model.database.client.topology_description.server_descriptions().values()
    return {server.server_type_name for server in servers} - {"Unknown"}


def _parts(ids: list[Id]) -> Iterator[list[Id]]:
    return (ids[start : start + _MAX_IDS] for start in range(0, len(ids), _MAX_IDS))


def _key(id: Id) -> Id:
    """Return a dict key that tells one ``_id`` from another."""
    # Encoded as BSON: an _id may be an object, and 1 == True in Python but not in MongoDB.
    return id if type(id) is ObjectId else bson.encode({"": id})
