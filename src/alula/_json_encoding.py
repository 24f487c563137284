"""JSON: values to the bytes of a body, and back; the same for results and errors.

orjson does the work. What it would refuse, or change silently, is left to the standard library:
integers beyond 64 bits, keys that are not strings, lone surrogates. Dates are written as JavaScript
writes them (UTC, milliseconds, ``Z``), since front ends compare them as text.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import math
import re
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import orjson

from alula.outgoing import HiddenValue, RedactedRecord
from alula.outgoing._encoders import JSON_ENCODERS, dump_model
from alula.outgoing._redaction import HiddenValueError
from alula.outgoing._text import iso_duration, javascript_date
from alula.types import Page, is_dict, is_list, is_mapping

__all__ = ["MAX_CONTAINERS", "MAX_DEPTH", "dumps", "dumps_with_attachments", "loads"]

MAX_DEPTH: Final = 254
"""Levels of lists and objects that `loads` takes: what orjson can write again."""

MAX_CONTAINERS: Final = 50_000
"""How many objects and lists clients may send at once. Each costs the process some microseconds in
checks, copies and the response, so that these take about a quarter of a second."""

MAX_INTEGERS_OF_ONE_HASH: Final = 100
"""How many integers beyond 64 bits with the same hash `loads` takes. In a set or as keys of a dict,
ten thousand of them would block the event loop for seconds (hash flooding)."""

# Dates have a form of ours; a subclass of dict may be a record with hidden fields.
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
# The end of a string is optional, and `*+` never gives back: otherwise, a body of unclosed quotes
# would take time that grows with the square of its length.
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_DIGITS_TO_ZEROS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_MIN_DIGITS_BEYOND_64_BITS: Final = 19
_MIN_DEEP: Final = 2 * MAX_DEPTH + 1  # bytes of a text with more than `MAX_DEPTH` levels, at least
_BEYOND_64_BITS: Final = b"0" * _MIN_DIGITS_BEYOND_64_BITS
# What orjson returns of these is exact: an integer that it cannot hold becomes a float.
_EXACT: Final = frozenset({str, int, bool, type(None)})
_FEW: Final = 50  # of more values, a look at the text takes less time


def loads(raw: bytes, max_containers: int | None = None) -> Any:
    """Return the value of a JSON text; integers of any size stay exact.

    Examples:
        >>> loads(b'{"id": 123456789012345678901234567890}')
        {'id': 123456789012345678901234567890}

    Args:
        raw: The text.
        max_containers: How many objects and lists it may hold, None for any number.

    Raises:
        ValueError: It is not JSON, holds a number that no float can hold or more than
            `MAX_INTEGERS_OF_ONE_HASH` integers of one hash, or has more than `MAX_DEPTH` levels or
            more than ``max_containers`` objects and lists.
    """
    size = len(raw)
    if (
        max_containers is not None
        # Every container has a bracket of its own, so a short text need not be counted
        # (a POST of 3 KB: -4 % instructions).
        and size > max_containers
        and _count_brackets(raw) > max_containers
        and _count_brackets(_STRING.sub(b"", raw)) > max_containers  # not those in strings
    ):
        raise ValueError(f"it has more than {max_containers} objects and lists")
    value: Any = orjson.loads(raw)
    # Most bodies are one flat object, and need no look at their text, which takes more than half of
    # the time for 1 KB.
    if is_dict(value) and len(value) < _FEW and _EXACT.issuperset(map(type, value.values())):
        return value
    if size >= _MIN_DEEP and _count_brackets(raw) > MAX_DEPTH:
        # Much faster than a loop in Python, which a client could keep busy.
        try:
            orjson.dumps(value)
        except TypeError:
            raise ValueError(f"it has more than {MAX_DEPTH} levels") from None
    # orjson turns longer integers into floats. It has made sure that the text is valid.
    # Not `in`: for bytes, it raises and drops an error first (calls: -1 % instructions).
    if (
        size >= _MIN_DIGITS_BEYOND_64_BITS
        and raw.translate(_DIGITS_TO_ZEROS).find(_BEYOND_64_BITS) >= 0
    ):
        # Sets of texts, not of integers: hashes of texts cannot be foreseen by a client.
        texts_by_hash: defaultdict[int, set[str]] = defaultdict(set)

        def parse_int(text: str) -> int:
            number = int(text)
            if len(text) >= _MIN_DIGITS_BEYOND_64_BITS:  # shorter ones have a hash of their own
                texts = texts_by_hash[number % sys.hash_info.modulus]
                texts.add(text)
                if len(texts) > MAX_INTEGERS_OF_ONE_HASH:
                    raise ValueError(
                        f"it has more than {MAX_INTEGERS_OF_ONE_HASH} integers of one hash"
                    )
            return number

        return json.loads(raw, parse_int=parse_int)
    return value


def _count_brackets(raw: bytes) -> int:
    return raw.count(b"[") + raw.count(b"{")


def dumps(value: object) -> bytes:
    """Return a value as JSON.

    Args:
        value: Mappings, lists, scalars; datetimes (ISO 8601 in UTC, or with their offset if UTC
            has no such year; naive ones are taken for UTC), dates, times and durations; UUIDs and
            Decimals (strings); bytes (base64); sets and named tuples (lists); enums; dataclasses;
            objects with ``model_dump`` (their mapping, under the aliases of its fields); and types
            with a registered JSON encoder. NaN and infinities become null.

    Raises:
        TypeError: It holds something else, or itself; the message names type and place.
    """
    try:
        return orjson.dumps(value, _default, _OPTIONS)
    except TypeError:
        pass  # explained below, so that orjson's stack is not shown as the cause
    return _dumps_any(value, _default).encode()


def dumps_with_attachments(value: object, attachments: list[bytes]) -> str:
    """Return a value as JSON, with binary data moved into the attachments of a socket.io packet.

    Official clients disconnect from a server that sends them over `MAX_ATTACHMENTS` attachments, or
    a placeholder that has none. Records come from other clients, so neither may ever be sent: such
    a value has its binary data as `dumps` writes them, in base64.

    Args:
        value: As in `dumps`.
        attachments: Gets the binary data, for which the JSON has placeholders.

    Raises:
        TypeError: As in `dumps`.
    """
    # Only senders of packets need it, and they have loaded it.
    from alula._wire import MAX_ATTACHMENTS, placeholder  # noqa: PLC0415  # 1 % of an import

    # orjson asks for each value that it does not know, so no walk looks for binary data.
    def encode(value: Any) -> object:
        if isinstance(value, bytes | bytearray | memoryview) and not isinstance(value, HiddenValue):
            return placeholder(bytes(value), attachments)  # pyright: ignore[reportUnknownArgumentType]  # a memoryview of anything
        return _default(value)

    before = len(attachments)
    try:
        text = orjson.dumps(value, encode, _OPTIONS).decode()
    except TypeError:
        del attachments[before:]  # as above
        text = _dumps_any(value, encode)
    added = len(attachments) - before
    # In a string its quotes are escaped, so this counts placeholders alone, forged ones included.
    if added and (added > MAX_ATTACHMENTS or text.count('"_placeholder":true') > added):
        del attachments[before:]
        return dumps(value).decode()
    return text


def _base64(value: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(value).decode()


def _refuse(value: HiddenValue) -> object:
    raise HiddenValueError(value.hidden_name)


_ENCODERS: Final[dict[type, Callable[[Any], Any]]] = {
    HiddenValue: _refuse,
    datetime.datetime: javascript_date,
    datetime.date: datetime.date.isoformat,
    datetime.time: datetime.time.isoformat,
    datetime.timedelta: iso_duration,
    decimal.Decimal: str,
    uuid.UUID: str,
    bytes: _base64,
    bytearray: _base64,
    memoryview: _base64,
    set: list,
    frozenset: list,
    tuple: list,
    float: float,
    enum.Enum: lambda member: member.value,
    RedactedRecord: lambda record: record.public,
    dict: dict,
    list: list,
    str: str.__str__,
    int: int.__int__,
}

# Subclasses of these are sent as these, with or without a registered encoder.
_JSON_TYPES: Final = (str, int, float, list, dict)


def _default(value: Any) -> object:
    """Return a value that orjson knows in place of one that it does not know."""
    if type(value) is Page:  # in nearly every response of `find`
        # The fastest way to a plain dict: 2,400 instructions less.
        return dict.copy(value)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # of any records
    if type(value) is datetime.datetime:  # in nearly every record of a database
        return javascript_date(value)
    encoders = {} if issubclass(type(value), _JSON_TYPES) else JSON_ENCODERS
    for base in type(value).__mro__:
        encode = _ENCODERS.get(base) or encoders.get(base)
        if encode is not None:
            return encode(value)
    if isinstance(value, type):
        raise TypeError
    if hasattr(value, "model_dump"):
        return dump_model(value, "json")
    if is_mapping(value):
        return dict(value)
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
        return {name: getattr(value, name) for name in names if not name.startswith("_")}
    raise TypeError


def _dumps_any(value: object, encode: Callable[[Any], object]) -> str:
    """Return what orjson refused as JSON, or say what has no JSON form."""
    try:
        return json.dumps(_plain(value, "value", encode), separators=(",", ":"))
    except RecursionError:
        raise TypeError("a value is nested too deeply for JSON, or holds itself") from None


def _plain(value: Any, place: str, encode: Callable[[Any], object]) -> Any:
    """Return a value that the standard library's encoder takes; ``place`` is for the error."""
    if isinstance(value, HiddenValue):
        raise TypeError(f"{place} cannot be sent: {HiddenValueError(value.hidden_name)}")
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, RedactedRecord):
        return _plain(value.public, place, encode)
    if is_dict(value):
        plain = {
            _key(key, place): _plain(item, f"{place}[{key!r}]", encode)
            for key, item in value.items()
        }
        if len(plain) < len(value):
            raise TypeError(f"{place} has several keys that are the same text in JSON")
        return plain
    if is_list(value):
        return [_plain(item, f"{place}[{at}]", encode) for at, item in enumerate(value)]
    if inspect.iscoroutine(value):
        value.close()  # a warning that it was never awaited would say the same again
        raise TypeError(
            f"{place} is a coroutine of {value.__qualname__}, which was not awaited; write"
            " `await` in front of its call"
        )
    try:
        encoded = encode(value)
    except TypeError as error:
        raise TypeError(
            f"{place} is a {type(value).__module__}.{type(value).__qualname__}, which has no JSON"
            " form; turn it into one before it is sent, for example in an after hook"
        ) from (error if str(error) else None)
    return _plain(encoded, place, encode)


def _key(key: object, place: str) -> str:
    if isinstance(key, str) and not isinstance(key, HiddenValue):
        return key
    plain = _plain(key, f"a key of {place}", _default)
    if isinstance(plain, dict | list):
        raise TypeError(f"{place} has the key {key!r}, which cannot be a key in JSON")
    return plain if isinstance(plain, str) else json.dumps(plain)
