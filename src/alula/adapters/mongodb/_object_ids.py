"""The database's own ids: from text, in schemas, and as resolvers.

An object id is written as 24 hexadecimal digits. Where ids are known to be object ids, a schema
with the keyword ``objectid`` converts them; the resolvers serve where there is no such schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from bson import ObjectId
from bson.errors import InvalidId

from alula.errors import BadRequest
from alula.types import UNSET, SchemaKeyword

__all__ = [
    "ObjectIdSchema",
    "keyword_object_id",
    "resolve_object_id",
    "resolve_query_object_id",
    "to_object_id",
]

_DIGITS: Final = 24
_MESSAGE: Final = "must be an object id"
_NO_IDS: Final = frozenset({"$exists", "$options", "$regex", "$search", "$size", "$text", "$type"})
"""Operators whose values are no ids, whatever they look like."""


def to_object_id(value: Any) -> Any:
    """Return an ObjectId for its 24 hexadecimal digits, and every other value as it is."""
    if type(value) is str and len(value) == _DIGITS:
        try:
            return ObjectId(value)
        except InvalidId:
            return value
    return value


# The signature of a resolver of a property.
def resolve_object_id(value: Any, record: Any = None, context: Any = None) -> Any:  # noqa: ARG001
    """Return the ObjectId that a value stands for; a resolver of a property, or a plain call.

    Args:
        value: An ObjectId, its 24 digits, or None or UNSET, which stay as they are.
        record: What the property belongs to; it is not looked at.
        context: The hook context; it is not looked at.

    Raises:
        BadRequest: It is something else.
    """
    found = to_object_id(value)
    if found is not None and found is not UNSET and not isinstance(found, ObjectId):
        raise BadRequest(f"Invalid object id: {_MESSAGE}, which has {_DIGITS} hexadecimal digits")
    return found


def resolve_query_object_id(value: Any, record: Any = None, context: Any = None) -> Any:
    """Return what a query asks of a property, with ObjectIds for their digits at any depth.

    Args:
        value: A value, an object of operators (``{"$in": [...]}``), or a list. Text that is no
            object id stays as it is: no such id equals it.
        record: The query; it is not looked at.
        context: The hook context; it is not looked at.
    """
    if isinstance(value, Mapping):
        return {
            name: inner if name in _NO_IDS else resolve_query_object_id(inner, record, context)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [resolve_query_object_id(item, record, context) for item in value]
    return to_object_id(value)


def _convert(value: Any, wanted: Any) -> Any:
    """Return the ObjectId for a value.

    Raises:
        ValueError: It is none; the text is what a front end is shown.
    """
    found = to_object_id(value)
    if wanted and not isinstance(found, ObjectId):
        raise ValueError(_MESSAGE)
    return found if wanted else value


keyword_object_id: Final = SchemaKeyword(
    "objectid", _convert, 'must pass "objectid" keyword validation'
)
"""The keyword of schemas that takes an object id or its 24 digits, and makes an ObjectId of it."""


class _ObjectIdSchema(dict[str, Any]):
    """The schema of an object id; a call returns a copy, which may be changed.

    In a Pydantic model it stands in ``Annotated[ObjectId, ObjectIdSchema]``. Pydantic reads
    schemas of plain data, so that nothing of it has to be imported.
    """

    def __call__(self, **more: Any) -> _ObjectIdSchema:
        """Return a copy with further keywords, such as ``description``."""
        return _ObjectIdSchema({**deepcopy(dict(self)), **more})

    def __hash__(self) -> int:  # type: ignore[override]  # for Annotated[...] | None
        return hash(type(self))

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> dict[str, Any]:
        """Return how Pydantic validates an object id, and writes one as JSON."""
        del source, handler  # whatever the type is called, the value becomes an ObjectId
        return {
            "type": "function-plain",
            "function": {"type": "no-info", "function": lambda value: _convert(value, True)},
            "serialization": {"type": "to-string", "when_used": "json-unless-none"},
        }

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Return this schema."""
        del core_schema, handler
        return dict(self())


ObjectIdSchema: Final = _ObjectIdSchema(
    anyOf=[{"type": "string", "objectid": True}, {"objectid": True}]
)
"""The schema of an object id or its digits: ``ObjectIdSchema``, or ``ObjectIdSchema()`` for a copy.

It works where the keyword ``objectid`` is known: `keyword_object_id`.
"""
