"""How the database's own values look in JSON. Importing this is what registers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bson import Binary, DatetimeMS, DBRef, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.binary import UUID_SUBTYPE
from bson.errors import InvalidBSON

from alula.outgoing import register_json_encoder

__all__ = ["JSON_FORMS"]

_UUID_BYTES: Final = 16


def _binary(value: Binary) -> Any:
    """Return a UUID as such, since it is kept as binary, and everything else as its bytes."""
    if value.subtype == UUID_SUBTYPE and len(value) == _UUID_BYTES:
        return value.as_uuid()
    return bytes(value)


def _date(value: DatetimeMS) -> Any:
    """Return a date as such, and the milliseconds where it is beyond the calendar of Python."""
    try:
        return value.as_datetime()
    except (InvalidBSON, OverflowError, ValueError):
        return int(value)


def _regex(value: Regex[Any]) -> str:
    """Return ``/pattern/flags``."""
    flags = "".join(letter for letter, flag in _FLAGS.items() if value.flags & flag)
    pattern = value.pattern
    return f"/{pattern if isinstance(pattern, str) else pattern.decode(errors='replace')}/{flags}"


_FLAGS: Final = {"i": 2, "m": 8, "s": 16, "x": 64}
"""Letters and bits of the flags that both MongoDB and Python's ``re`` know."""

JSON_FORMS: Final[Mapping[type, Callable[[Any], Any]]] = {
    ObjectId: str,
    Decimal128: str,
    Binary: _binary,
    DatetimeMS: _date,
    DBRef: lambda value: value.as_doc(),
    MaxKey: lambda _: "MaxKey",
    MinKey: lambda _: "MinKey",
    Regex: _regex,
    Timestamp: lambda value: {"t": value.time, "i": value.inc},
}
"""The form of each type. Dates, UUIDs and bytes have the form that they have everywhere."""

for _kind, _form in JSON_FORMS.items():
    register_json_encoder(_kind, _form)
