"""Translates data into documents and updates, and checks what clients may write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from collections.abc import Collection as Names
from typing import Any, Final

import bson
from bson import ObjectId
from bson.errors import InvalidBSON, InvalidDocument
from pymongo import ReadPreference, ReturnDocument

from alula._events import note_outcome
from alula.adapters._records import check_new_id
from alula.adapters.mongodb._bson_types import to_object_id
from alula.adapters.mongodb._model import Collection
from alula.adapters.mongodb._options import MongoDBOptions
from alula.errors import BadRequest, shown_name
from alula.types import JSONValue, Record

__all__ = [
    "are_operators",
    "changed_or_created",
    "check_from_client",
    "encoded",
    "read_back",
    "update_of",
    "with_id_on_insert",
    "with_ids",
]

_WITH_MODIFIERS: Final = frozenset({"$addToSet", "$currentDate", "$push"})
_MODIFIERS: Final = frozenset({"$each", "$position", "$slice", "$sort", "$type"})


def with_ids(record: Record, options: MongoDBOptions) -> Record:
    """Return a new record with its ``_id`` in front, and generated ids if it has none.

    An id property other than ``_id`` gets the digits of an object id.

    Raises:
        BadRequest: The ``_id`` beside another id property is not an id.
    """
    key = record.pop("_id", None)
    if options.objectify:
        key = to_object_id(key)
    if key is None or key == "":
        key = ObjectId()
    if options.id == "_id":
        return {"_id": key, **record}
    check_new_id("_id", key)
    generated = {} if options.id in record else {options.id: str(ObjectId())}
    return {"_id": key, **generated, **record}


def with_id_on_insert(
    changes: dict[str, Any], filter: Mapping[str, Any], options: MongoDBOptions
) -> dict[str, Any]:
    """Return changes that set an id property other than ``_id`` if they create the record."""
    if options.id == "_id" or "$eq" in filter.get(options.id, {}):
        return changes
    on_insert = {options.id: str(ObjectId()), **changes.get("$setOnInsert", {})}
    return {**changes, "$setOnInsert": on_insert}


def encoded(record: Record, model: Collection) -> bytes:
    """Return the BSON of a record.

    Records are encoded before they join a batch: one that cannot be stored fails for its caller
    only.

    Raises:
        Exception: What the driver says about a value that it cannot encode.
    """
    return bson.encode(record, codec_options=model.codec_options)


def read_back(document: bytes, model: Collection) -> Record:
    """Return the record as a read would return it; it shares nothing with the caller's data.

    Raises:
        InvalidDocument: It could be stored, but never be read again.
    """
    try:
        return bson.decode(document, codec_options=model.codec_options)  # pyright: ignore[reportUnknownMemberType]  # its stub names an array of unknown items
    except InvalidBSON as error:
        raise InvalidDocument(str(error)) from error


async def changed_or_created(
    model: Collection,
    change: Callable[..., Awaitable[Record | None]],
    by_id: Mapping[str, Any],
    options: Mapping[str, Any],
    event: str,
) -> Record | None:
    """Change a record and return it as it is then; an upsert notes whether it has created it.

    Args:
        model: The collection.
        change: PyMongo's ``find_one_and_update`` or ``find_one_and_replace``, with a filter and
            what to change.
        by_id: The filter for the record by its id alone.
        options: Further options of ``change``.
        event: The event of a change.
    """
    if not options.get("upsert"):
        return await change(return_document=ReturnDocument.AFTER, **options)
    changing = {**options, "upsert": False}
    record = await change(return_document=ReturnDocument.AFTER, **changing)
    if record is None:
        # Another client may create it just now: only the record before tells who has.
        before = await change(return_document=ReturnDocument.BEFORE, **options)
        event = event if before is not None else "created"
        reading = {name: options[name] for name in ("projection", "session") if name in options}
        primary = model.with_options(read_preference=ReadPreference.PRIMARY)
        record = await primary.find_one(by_id, **reading)
    note_outcome([record], [event])
    return record


def are_operators(data: Mapping[str, Any]) -> bool:
    """Return whether the data of an update consists of operators such as ``$inc``.

    Raises:
        BadRequest: It has both operators and fields.
    """
    operators = sum(name[:1] == "$" for name in data)
    if operators and operators < len(data):
        raise BadRequest("The data of update has operators and fields: give one or the other")
    return operators > 0


def update_of(data: Mapping[str, Any], id: str) -> dict[str, dict[str, Any]]:
    """Return the database's update for data of patch, or for operators of update.

    Operators stay as they are, everything else becomes part of ``$set``. Ids are left out.

    Raises:
        BadRequest: An operator has no object of fields, or something changes the id.
    """
    changes: dict[str, dict[str, Any]] = {}
    fields: dict[str, Any] = {}
    value: JSONValue
    for name, value in data.items():
        if name[:1] != "$":
            if "." in name and _is_part(name, id):
                raise BadRequest(
                    f"Invalid key {shown_name(name)} in the data: '{id}' cannot change"
                )
            fields[name] = value
        elif not isinstance(value, Mapping):
            raise BadRequest(f"Invalid value for {shown_name(name)}: expected an object of fields")
        else:
            # $setOnInsert may set the _id: the record does not exist yet.
            ids = {id} if name == "$setOnInsert" else {id, "_id"}
            renamed = value.values() if name == "$rename" else ()
            paths = [path for path in (*value, *renamed) if isinstance(path, str)]
            for fixed in ids:
                if any(_is_part(path, fixed) for path in paths):
                    raise BadRequest(
                        f"Invalid value for {shown_name(name)}: '{fixed}' cannot change"
                    )
            changes[name] = dict(value)
    fields.pop("_id", None)
    if fields:
        changes["$set"] = {**changes.get("$set", {}), **fields}
    return changes


def _is_part(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.")


def check_from_client(data: Mapping[str, Any], opened: Names[str]) -> None:
    """Refuse data from a client that has an operator anywhere but at the top level.

    Paths must not contain positional operators either, such as ``tags.$[]``.

    Args:
        data: Data of patch or update. Its names that begin with ``$`` have been checked.
        opened: The operators that the service opens.

    Raises:
        BadRequest: There is an operator; the message names it.
    """
    value: JSONValue
    operand: JSONValue
    for name, value in data.items():
        if name[:1] != "$":
            _check_path(name)
            if opened:
                _check_stored(value)
        elif isinstance(value, Mapping):
            for path, operand in value.items():
                _check_path(path)
                if name == "$rename" and isinstance(operand, str):
                    _check_path(operand)
                elif name in _WITH_MODIFIERS and isinstance(operand, Mapping):
                    for key, item in operand.items():
                        _check_stored(item if key in _MODIFIERS else {key: item})
                elif name != "$pull":  # its operand is a condition, which is never stored
                    _check_stored(operand)


def _check_path(path: str) -> None:
    if path[:1] == "$" or ".$" in path:
        raise BadRequest(
            f"Invalid key {shown_name(path)} in the data: no part may begin with '$' here"
        )


def _check_stored(value: JSONValue) -> None:
    for name in _names(value):
        if name[:1] == "$":
            raise BadRequest(
                f"Invalid key {shown_name(name)} in the data: keys cannot begin with '$' here"
            )


def _names(value: JSONValue) -> Iterator[str]:
    """Yield the names in a value at every level."""
    # The recursion is bounded: check_data() has refused data of more than MAX_DEPTH levels.
    if isinstance(value, Mapping):
        yield from value
        inside: Iterable[Any] = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    else:
        return
    for inner in inside:
        yield from _names(inner)
