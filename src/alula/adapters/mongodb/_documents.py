"""Data -> what the database stores, and what changes in it."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Iterator, Mapping
from typing import Any, Final

import bson
from bson.errors import InvalidBSON, InvalidDocument

from alula.adapters.mongodb._model import Collection
from alula.errors import BadRequest
from alula.types import Record

__all__ = ["are_operators", "check_outside", "encoded", "read_back", "update_of"]

_MODIFIED: Final = frozenset({"$addToSet", "$currentDate", "$push"})
_MODIFIERS: Final = frozenset({"$each", "$position", "$slice", "$sort", "$type"})


def encoded(record: Record, model: Collection) -> bytes:
    """Return the BSON of a record.

    Encoded before it is sent, a record that can not be stored concerns nobody but its caller.

    Raises:
        Exception: What the driver says about a value that it can not encode.
    """
    return bson.encode(record, codec_options=model.codec_options)


def read_back(document: bytes, model: Collection) -> Record:
    """Return the record as a read would return it; nothing of it belongs to the caller's data.

    Raises:
        InvalidDocument: It could be stored, but never read again.
    """
    try:
        return bson.decode(document, codec_options=model.codec_options)
    except InvalidBSON as error:
        raise InvalidDocument(str(error)) from error


def are_operators(data: Mapping[str, Any]) -> bool:
    """Say whether the data of an update consists of operators such as ``$inc``.

    Raises:
        BadRequest: It has operators and fields.
    """
    operators = sum(name[:1] == "$" for name in data)
    if operators and operators < len(data):
        raise BadRequest("The data of update has operators and fields: give one or the other")
    return operators > 0


def update_of(data: Mapping[str, Any], id: str) -> dict[str, dict[str, Any]]:
    """Return the database's update for data of patch, or for operators of update.

    Operators stay as they are, everything else becomes part of ``$set``. The ids stay out of it.

    Raises:
        BadRequest: An operator has no object of fields, or something changes the id.
    """
    changes: dict[str, dict[str, Any]] = {}
    fields = {}
    for name, value in data.items():
        if name[:1] != "$":
            if "." in name and _is_part(name, id):
                raise BadRequest(f"Invalid key {name} in the data: '{id}' can not change")
            fields[name] = value
        elif not isinstance(value, Mapping):
            raise BadRequest(f"Invalid value for {name}: expected an object of fields")
        elif (fixed := _fixed(name, value, id)) is not None:
            raise BadRequest(f"Invalid value for {name}: '{fixed}' can not change")
        else:
            changes[name] = dict(value)
    fields.pop("_id", None)
    if fields:
        changes["$set"] = {**changes.get("$set", {}), **fields}
    return changes


def _fixed(operator: str, value: Mapping[str, Any], id: str) -> str | None:
    """Return the id property that an operator would change, None where it changes none."""
    ids = {id} if operator == "$setOnInsert" else {id, "_id"}
    renamed = value.values() if operator == "$rename" else ()
    paths = [path for path in (*value, *renamed) if isinstance(path, str)]
    return next((each for each in ids if any(_is_part(path, each) for path in paths)), None)


def _is_part(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.")


def check_outside(data: Mapping[str, Any], opened: Names[str]) -> None:
    """Raise where data from outside has an operator in a place where it is none.

    Operators count at the top level, and paths have none in them, such as ``tags.$[]``.

    Args:
        data: Of patch or update; names in it that begin with ``$`` are opened ones.
        opened: The names that the service opened.

    Raises:
        BadRequest: There is one; the message names it.
    """
    for name, value in data.items():
        if name[:1] != "$":
            _check_path(name)
            if opened:
                _check_stored(value)
        elif isinstance(value, Mapping):
            for path, operand in value.items():
                _check_path(path)
                _check_operand(name, operand)


def _check_path(path: str) -> None:
    if path[:1] == "$" or ".$" in path:
        raise BadRequest(f"Invalid key {path} in the data: no part can begin with '$' here")


def _check_operand(operator: str, operand: Any) -> None:
    if operator == "$rename" and isinstance(operand, str):
        _check_path(operand)
    elif operator in _MODIFIED and isinstance(operand, Mapping):
        for name, value in operand.items():
            _check_stored(value if name in _MODIFIERS else {name: value})
    elif operator != "$pull":  # which has conditions, and stores none of them
        _check_stored(operand)


def _check_stored(value: Any) -> None:
    for name in _names(value):
        if name[:1] == "$":
            raise BadRequest(f"Invalid key {name} in the data: keys can not begin with '$' here")


def _names(value: Any) -> Iterator[str]:
    """Yield the names in a value at any depth, which is bounded."""
    if isinstance(value, Mapping):
        yield from value
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for inner in value:
        yield from _names(inner)
