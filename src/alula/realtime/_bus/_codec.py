"""Events as bytes: JSON, with the types of Python that publishers compare.

A publisher in another process looks at the record to decide who gets an event. So dates, ids and
bytes arrive there with their types, and redacted records stay redacted.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import json
import secrets
import time
import uuid
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from alula._channels import Event
from alula.outgoing import HiddenValue, RedactedRecord
from alula.outgoing._encoders import as_mapping, json_encoder_of
from alula.outgoing._redaction import hidden_value, shown_value
from alula.types import COLLECTION_TYPES, SCALAR_TYPES, is_list, is_mapping

__all__ = ["EncodedEvent", "decode_event", "encode_event", "read_header"]

_VERSION: Final = 3

_NONE, _WHOLE, _OTHER = range(3)
"""What clients get: the record itself, the public part of a redacted record, or something else."""

# This key marks values with types that JSON does not have. It is secret, because clients choose the
# keys of records: they must not be able to send a redacted record, or the id of another user.
_TAG: Final = secrets.token_hex(16)

# Made once, because `json.dumps` with separators makes an encoder for each call.
_dumps: Final = json.JSONEncoder(separators=(",", ":")).encode


class EncodedEvent(NamedTuple):
    """An encoded event of which only the first line is decoded: many are not new.

    Attributes:
        origin: The process that published it.
        sequence: Its number there.
        time: When it was published, in seconds since 1970.
        tag: The key that marks values with types that JSON does not have.
        body: The other lines.
    """

    origin: str
    sequence: int
    time: float
    tag: str
    body: bytes


def encode_event(event: Event) -> bytes:
    """Return an event as bytes.

    Raises:
        TypeError: It contains a value that has no JSON form.
        ValueError: A value contains itself.
        RecursionError: A value contains itself, or has too many levels.
    """
    record, data = event.record, event.data
    # Most records are sent unchanged, or with their public part. Then nothing is sent twice.
    redaction = _OTHER
    if data is record:
        redaction = _NONE
    elif isinstance(record, RedactedRecord) and data is record.public:
        redaction = _WHOLE
    body = [
        event.path,
        event.name,
        _to_json(record),
        redaction,
        _to_json(data) if redaction == _OTHER else None,
        event.method,
        _to_json(event.id),
        _to_json(event.query),
        event.provider,
        _to_json(event.user),
        _to_json(event.route),
    ]
    now = round(time.time(), 3)
    header = [_VERSION, event.origin, event.sequence, now, _TAG]
    return f"{_dumps(header)}\n{_dumps(body)}".encode()


def read_header(event: bytes) -> EncodedEvent:
    """Read the first line of an encoded event.

    Raises:
        ValueError: It is not one, or of another version of Alula.
    """
    line, _, body = event.partition(b"\n")
    header = json.loads(line)
    if not is_list(header) or len(header) != 5 or header[0] != _VERSION:
        raise ValueError(f"not an event of this version: {line[:100]!r}")
    return EncodedEvent(str(header[1]), int(header[2]), float(header[3]), str(header[4]), body)


def decode_event(encoded: EncodedEvent) -> Event:
    """Return the event that `encode_event` has encoded.

    Raises:
        ValueError: It is not one.
    """

    def revive(value: dict[str, Any]) -> Any:
        tagged = value.get(encoded.tag)
        if tagged is None:
            return value
        return _DECODERS[tagged[0]](*tagged[1:])

    # The hook is called for each object, so only if there are such values.
    is_tagged = encoded.tag.encode() in encoded.body
    body = json.loads(encoded.body, object_hook=revive if is_tagged else None)
    path, name, record, redaction, data, method, id_, query, provider, user, route = body
    if redaction != _OTHER:
        data = record.public if redaction == _WHOLE else record
    return Event(
        path,
        name,
        record,
        data,
        origin=encoded.origin,
        sequence=encoded.sequence,
        route=route,
        method=method,
        id=id_,
        query=query,
        provider=provider,
        user=user,
    )


def _to_json(value: Any) -> Any:
    """Return a value as JSON's types; values of other types become tagged objects."""
    type_ = type(value)  # pyright: ignore[reportUnknownVariableType]  # it calls the class of Any unknown
    if type_ in SCALAR_TYPES:
        return value
    if type_ is dict:
        return {key: _to_json(inner) for key, inner in value.items()}
    if isinstance(value, RedactedRecord):
        return {_TAG: ["redacted", _to_json(dict(value)), _to_json(value.public)]}
    if isinstance(value, HiddenValue):
        return {_TAG: ["hidden", value.hidden_name, _to_json(shown_value(value))]}
    if isinstance(value, enum.Enum):
        return _to_json(value.value)
    if isinstance(value, COLLECTION_TYPES):
        return [_to_json(inner) for inner in value]
    for known, name, encode in _ENCODERS:
        if isinstance(value, known):
            return {_TAG: [name, encode(value)]}
    if type_.__module__ == "bson.objectid":
        return {_TAG: ["objectid", str(value)]}
    return _of_other_type(value)


def _of_other_type(value: object) -> object:
    """Return the JSON form of a value whose type is the application's own."""
    if isinstance(value, str | int | float):
        return value
    encoder = json_encoder_of(type(value))
    form = as_mapping(value) if encoder is None else encoder(value)
    if is_mapping(form):
        return {key: _to_json(inner) for key, inner in form.items()}
    if form is value:
        raise TypeError(f"a value of the type {type(value).__qualname__} has no JSON form")
    return _to_json(form)


_MICROSECOND: Final = datetime.timedelta(microseconds=1)

_ENCODERS: Final[tuple[tuple[type, str, Callable[[Any], object]], ...]] = (
    (datetime.datetime, "datetime", datetime.datetime.isoformat),  # also a date: so it is first
    (datetime.date, "date", datetime.date.isoformat),
    (datetime.time, "time", datetime.time.isoformat),
    (datetime.timedelta, "duration", lambda value: value // _MICROSECOND),
    (bytes, "bytes", lambda value: base64.b64encode(value).decode()),
    (bytearray, "bytes", lambda value: base64.b64encode(value).decode()),
    (memoryview, "bytes", lambda value: base64.b64encode(value).decode()),
    (uuid.UUID, "uuid", str),
    (decimal.Decimal, "decimal", str),
)


def _object_id(text: str) -> Any:
    return import_module("bson").ObjectId(text)  # imported only where MongoDB is used


_DECODERS: Final[dict[str, Callable[..., Any]]] = {
    "hidden": hidden_value,
    "redacted": RedactedRecord,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "duration": partial(datetime.timedelta, 0, 0),
    "bytes": base64.b64decode,
    "uuid": uuid.UUID,
    "decimal": decimal.Decimal,
    "objectid": _object_id,
}
