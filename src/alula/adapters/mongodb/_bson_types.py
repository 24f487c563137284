"""BSON types: object ids from text and back, in schemas and resolvers, and everything as JSON.

An object id is written as 24 hexadecimal digits. A schema with the keyword ``objectid`` converts
them; the resolvers do it where there is no such schema. Importing this registers the JSON encoders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from bson import (
    Binary,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from bson.binary import UUID_SUBTYPE
from bson.errors import InvalidBSON, InvalidId

from alula.adapters._records import IMMUTABLE
from alula.errors import BadRequest
from alula.outgoing import register_json_encoder
from alula.types import UNSET, SchemaKeyword, is_array, is_mapping

__all__ = [
    "BSON_IMMUTABLE",
    "JSON_ENCODERS",
    "ObjectIdSchema",
    "keyword_object_id",
    "number_in",
    "resolve_object_id",
    "resolve_query_object_id",
    "to_object_id",
]

BSON_IMMUTABLE: Final = IMMUTABLE | {ObjectId, Decimal128, Int64}
"""Types of values in documents that need no copy."""

_DIGITS: Final = 24
_NUMBER: Final = re.compile("0|-?[1-9][0-9]*")
_MOST_DIGITS: Final = 18
"""How many digits no number beyond 64 bits has."""

_MESSAGE: Final = "must be an object id"
_NOT_IDS: Final = frozenset({"$exists", "$options", "$regex", "$search", "$size", "$text", "$type"})
"""Operators whose values are never ids, even if they look like one."""


# -- object ids ------------------------------------------------------------------------------------


def to_object_id(value: object) -> Any:
    """Return the ObjectId for 24 hexadecimal digits, and every other value as it is."""
    if type(value) is str and len(value) == _DIGITS:
        try:
            return ObjectId(value)
        except InvalidId:
            return value
    return value


def number_in(id: object) -> int | None:
    """Return the whole number that an id of a path can mean, None if it is none.

    A path has text only. So the record with the id 5 is looked for where none has the id "5".
    """
    if type(id) is str and len(id) <= _MOST_DIGITS and _NUMBER.fullmatch(id):
        return int(id)
    return None


def resolve_object_id(value: object, record: object = None, context: object = None) -> Any:
    """Return the ObjectId for a value; use it as the resolver of a property, or call it.

    Args:
        value: An ObjectId, its 24 digits, or None or UNSET, which stay as they are.
        record: The record of the property, ignored.
        context: The hook context, ignored.

    Raises:
        BadRequest: The value is something else.

    Examples:
        >>> resolve_object_id("64b0000000000000000000d1")
        ObjectId('64b0000000000000000000d1')
    """
    del record, context  # the signature of a resolver
    object_id = to_object_id(value)
    if object_id is not None and object_id is not UNSET and not isinstance(object_id, ObjectId):
        raise BadRequest(f"Invalid object id: {_MESSAGE}, which has {_DIGITS} hexadecimal digits")
    return object_id


def resolve_query_object_id(value: object, record: object = None, context: object = None) -> Any:
    """Return the conditions of a query on a property, with ObjectIds for their digits.

    Args:
        value: A value, an object of operators (``{"$in": [...]}``), or a list, at any depth. Text
            that is not an object id stays as it is: no such id equals it.
        record: The query, ignored.
        context: The hook context, ignored.
    """
    if is_mapping(value):
        return {
            name: inner if name in _NOT_IDS else resolve_query_object_id(inner, record, context)
            for name, inner in value.items()
        }
    if is_array(value):
        return [resolve_query_object_id(item, record, context) for item in value]
    return to_object_id(value)


# -- schemas ---------------------------------------------------------------------------------------


def _validated(value: object, wanted: object) -> object:
    """Return the ObjectId for a value.

    Raises:
        ValueError: It is not an object id. Clients are shown the text.
    """
    object_id = to_object_id(value)
    if wanted and not isinstance(object_id, ObjectId):
        raise ValueError(_MESSAGE)
    return object_id if wanted else value


keyword_object_id: Final = SchemaKeyword(
    "objectid", _validated, 'must pass "objectid" keyword validation'
)
"""The keyword of schemas that accepts an object id or its 24 digits, and returns an ObjectId."""


class _ObjectIdSchema(dict[str, Any]):
    """The schema of an object id; calling it returns a copy, which may be changed.

    In a Pydantic model write ``Annotated[ObjectId, ObjectIdSchema]``. Pydantic reads schemas from
    plain data, so nothing of it has to be imported.
    """

    def __call__(self, **more: Any) -> _ObjectIdSchema:
        """Return a copy with further keywords, such as ``description``."""
        return _ObjectIdSchema({**deepcopy(dict(self)), **more})

    def __hash__(self) -> int:  # type: ignore[override]  # for Annotated[...] | None
        return hash(type(self))

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> dict[str, Any]:
        """Return how Pydantic validates an object id and writes it as JSON."""
        del source, handler  # the value becomes an ObjectId, whatever the annotated type is
        validate: Callable[[object], object] = lambda value: _validated(value, True)  # noqa: E731  # with the type of its parameter
        return {
            "type": "function-plain",
            "function": {"type": "no-info", "function": validate},
            "serialization": {"type": "to-string", "when_used": "json-unless-none"},
        }

    def __get_pydantic_json_schema__(self, core_schema: object, handler: object) -> dict[str, Any]:
        """Return this schema."""
        del core_schema, handler
        return dict(self())


ObjectIdSchema: Final = _ObjectIdSchema(
    anyOf=[{"type": "string", "objectid": True}, {"objectid": True}]
)
"""The schema of an object id or its digits: ``ObjectIdSchema``, or ``ObjectIdSchema()`` for a copy.

It needs a validator that knows the keyword ``objectid``: `keyword_object_id`.
"""


# -- JSON ------------------------------------------------------------------------------------------


def encode_binary(value: Binary) -> UUID | bytes:
    """Return a UUID, which BSON stores as binary, as a UUID, and everything else as bytes."""
    # A Binary of this subtype may have any length: clients of other languages write what they like.
    if value.subtype == UUID_SUBTYPE and len(value) == 16:
        return value.as_uuid()
    return bytes(value)


def encode_date(value: DatetimeMS) -> datetime | int:
    """Return a date as such, and its milliseconds if it lies beyond Python's calendar."""
    try:
        return value.as_datetime()
    except (InvalidBSON, OverflowError, ValueError):
        return int(value)


_FLAGS: Final = {"i": 2, "m": 8, "s": 16, "x": 64}
"""Letters and bits of the flags that MongoDB and Python's ``re`` have in common."""


def encode_regex(value: Regex[Any]) -> str:
    """Return ``/pattern/flags``."""
    flags = "".join(letter for letter, flag in _FLAGS.items() if value.flags & flag)
    pattern = value.pattern
    return f"/{pattern if isinstance(pattern, str) else pattern.decode(errors='replace')}/{flags}"


JSON_ENCODERS: Final[Mapping[type, Callable[[Any], Any]]] = {
    ObjectId: str,
    Decimal128: str,
    Binary: encode_binary,
    DatetimeMS: encode_date,
    DBRef: lambda value: value.as_doc(),
    MaxKey: lambda _: "MaxKey",
    MinKey: lambda _: "MinKey",
    Regex: encode_regex,
    Timestamp: lambda value: {"t": value.time, "i": value.inc},
}
"""The JSON form of each BSON type; dates, UUIDs and bytes look as they do everywhere."""

for _type, _encoder in JSON_ENCODERS.items():
    register_json_encoder(_type, _encoder)
