"""Publications as bytes: JSON, with the types of Python that publishers compare.

A publisher in another process decides by the record who gets an event. So dates, ids and bytes
arrive there as what they were, and redacted records stay redacted.
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

from alula._channels import Publication
from alula.outgoing import HiddenValue, RedactedRecord
from alula.outgoing._encoders import as_mapping, json_encoder_of
from alula.outgoing._redaction import hidden_value, shown_value
from alula.types import COLLECTION_TYPES, SCALAR_TYPES, is_list, is_mapping

__all__ = ["EncodedEvent", "decode_publication", "encode_publication", "read_header"]

_VERSION: Final = 2

_NONE, _WHOLE, _OTHER = range(3)
"""Whether the public part is the record itself, that of a redacted record, or something else."""

# The key that marks values of other types than JSON's. It is secret: clients choose the keys of
# records, and must not be able to send a redacted record, or an id that equals another user's.
_TAG: Final = secrets.token_hex(16)

# Made once: json.dumps with separators makes an encoder for each call.
_dumps: Final = json.JSONEncoder(separators=(",", ":")).encode


class EncodedEvent(NamedTuple):
    """The first line of an encoded publication, which tells whether the rest is worth reading.

    Attributes:
        origin: The process that has published it.
        sequence: Its number there.
        time: When it was published, in seconds since 1970.
        tag: The key that marks values of other types than JSON's.
        body: The rest.
    """

    origin: str
    sequence: int
    time: float
    tag: str
    body: bytes


def encode_publication(publication: Publication) -> bytes:
    """Return a publication as bytes.

    Raises:
        TypeError: It holds a value that has no JSON form.
        ValueError: It holds itself.
        RecursionError: It holds itself, or too many levels.
    """
    data, public = publication.data, publication.public
    # Most records are sent as they are, or redacted as a whole: then nothing travels twice.
    redaction = _OTHER
    if public is data:
        redaction = _NONE
    elif isinstance(data, RedactedRecord) and public is data.public:
        redaction = _WHOLE
    body = [
        publication.path,
        publication.event,
        _to_json(data),
        redaction,
        _to_json(public) if redaction == _OTHER else None,
        publication.method,
        _to_json(publication.id),
        _to_json(publication.query),
        publication.provider,
        _to_json(publication.user),
    ]
    body += [publication.origin, publication.sequence, _to_json(publication.route)]
    now = round(time.time(), 3)
    header = [_VERSION, publication.origin, publication.sequence, now, _TAG]
    return f"{_dumps(header)}\n{_dumps(body)}".encode()


def read_header(event: bytes) -> EncodedEvent:
    """Read the first line of an encoded publication.

    Raises:
        ValueError: It is not one, or of another version of Alula.
    """
    line, _, body = event.partition(b"\n")
    header = json.loads(line)
    if not is_list(header) or len(header) != 5 or header[0] != _VERSION:
        raise ValueError(f"not an event of this version: {line[:100]!r}")
    return EncodedEvent(str(header[1]), int(header[2]), float(header[3]), str(header[4]), body)


def decode_publication(event: EncodedEvent) -> Publication:
    """Return the publication that `encode_publication` has encoded.

    Raises:
        ValueError: It is not one.
    """

    def revive(value: dict[str, Any]) -> Any:
        tagged = value.get(event.tag)
        if tagged is None:
            return value
        return _DECODERS[tagged[0]](*tagged[1:])

    is_tagged = event.tag.encode() in event.body  # the hook is called for each object
    body = json.loads(event.body, object_hook=revive if is_tagged else None)
    path, name, data, redaction, public, *more = body
    if redaction != _OTHER:
        public = data.public if redaction == _WHOLE else data
    return Publication(path, name, data, public, *more)


def _to_json(value: Any) -> Any:
    """Return a value with everything in it that is not of JSON's types tagged."""
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
    """Return the JSON form of a type of the application, or of a subclass of JSON's types."""
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
