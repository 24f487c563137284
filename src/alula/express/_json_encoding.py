"""Values -> the bytes of a JSON body, and back; the same for results and errors.

orjson does the work. What it would refuse or change without a word is done by the standard
library: integers beyond 64 bits, keys that are no strings, lone surrogates. Dates are written as
JavaScript writes them (UTC, milliseconds, ``Z``), since front ends compare them as text.
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
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from alula.outgoing import JSON_ENCODERS, RedactedRecord, dump_model, javascript_date
from alula.types import Page

__all__ = ["MAX_DEPTH", "dumps", "loads"]

MAX_DEPTH: Final = 254
"""Levels of lists and objects that `loads` takes: what orjson can write again."""

# Dates have a form of ours; a subclass of dict may be a record of which not all may leave.
_PASSED_ON: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
# One that never ends is one to the end: else each quote in it would be tried anew.
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_DIGITS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_LONGEST_OF_ITS_HASH: Final = 18  # an integer of so many characters has a hash of its own
_LONG_NUMBER: Final = b"0" * 19  # the shortest that may not fit into 64 bits

MOST_OF_ONE_HASH: Final = 100
"""How many integers beyond 64 bits `loads` takes that have the same hash. Python looks through all
of them for each that is put into a set, so that some ten thousand hold a process for seconds."""


def loads(raw: bytes, max_containers: int | None = None) -> Any:
    """Return the value of a JSON text; integers of any size stay exact.

    Args:
        raw: The text.
        max_containers: How many objects and lists it may hold, None for any number.

    Raises:
        ValueError: It is no JSON, holds a number that no float can hold or more than
            `MOST_OF_ONE_HASH` integers of one hash, or has more than `MAX_DEPTH` levels or more
            objects and lists than it may have.
    """
    if (
        max_containers is not None
        and _brackets_in(raw) > max_containers
        and _brackets_in(_STRING.sub(b"", raw)) > max_containers  # not those in strings
    ):
        raise ValueError(f"it has more than {max_containers} objects and lists")
    value = orjson.loads(raw)
    if len(raw) > 2 * MAX_DEPTH and _brackets_in(raw) > MAX_DEPTH:
        # Much faster than a loop in Python, which somebody could keep busy.
        try:
            orjson.dumps(value)
        except TypeError:
            raise ValueError(f"it has more than {MAX_DEPTH} levels") from None
    # orjson turns longer integers into floats. That the text is valid is known by now.
    if _LONG_NUMBER in raw.translate(_DIGITS):
        return json.loads(raw, parse_int=_integers())
    return value


def _brackets_in(raw: bytes) -> int:
    return raw.count(b"[") + raw.count(b"{")


def _integers() -> Callable[[str], int]:
    """Return what reads the integers of one text, and refuses too many that have one hash."""
    same: defaultdict[int, set[str]] = defaultdict(set)  # hashes of strings cannot be foreseen

    def read(text: str) -> int:
        number = int(text)
        if len(text) > _LONGEST_OF_ITS_HASH:
            texts = same[number % sys.hash_info.modulus]
            texts.add(text)
            if len(texts) > MOST_OF_ONE_HASH:
                raise ValueError(f"it has more than {MOST_OF_ONE_HASH} integers of one hash")
        return number

    return read


def dumps(value: Any) -> bytes:
    """Return a value as JSON.

    Args:
        value: Mappings, lists, scalars, and beside them: datetimes (ISO 8601 in UTC, or with
            their offset where UTC has no such year; naive ones are taken for UTC), dates and times,
            UUIDs and Decimals (strings), bytes (base64), sets and named tuples (lists), enums,
            dataclasses, objects with ``model_dump`` (their mapping,
            under the aliases of its fields), and what `register_json_encoder`
            was told of. NaN and infinities become null.

    Raises:
        TypeError: It holds something else, or itself; the message names type and place.
    """
    try:
        return orjson.dumps(value, _default, _PASSED_ON)
    except TypeError:
        pass  # explained below, where its own stack is not in the way
    try:
        return json.dumps(_plain(value, "value"), separators=(",", ":")).encode()
    except RecursionError:
        raise TypeError("a value is nested too deeply for JSON, or holds itself") from None


def _base64(value: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(value).decode()


_ENCODERS: Final[dict[type, Callable[[Any], Any]]] = {
    datetime.datetime: javascript_date,
    datetime.date: datetime.date.isoformat,
    datetime.time: datetime.time.isoformat,
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

# Subclasses of these are sent as them, whatever form was registered.
_AS_THEY_ARE: Final = (str, int, float, list, dict)


def _default(value: Any) -> Any:
    """Return what stands for a value that orjson does not know by itself."""
    if type(value) is Page:  # in nearly every response of `find`
        return dict(value.items())
    forms = {} if issubclass(type(value), _AS_THEY_ARE) else JSON_ENCODERS
    for kind in type(value).__mro__:
        encode = _ENCODERS.get(kind) or forms.get(kind)
        if encode is not None:
            return encode(value)
    if isinstance(value, type):
        raise TypeError
    if hasattr(value, "model_dump"):
        return dump_model(value, "json")
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
        return {name: getattr(value, name) for name in names if not name.startswith("_")}
    raise TypeError


def _plain(value: Any, place: str) -> Any:
    """Return what the standard library's encoder takes; ``place`` is for the error."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, RedactedRecord):
        return _plain(value.public, place)
    if isinstance(value, dict):
        plain = {_key(key, place): _plain(item, f"{place}[{key!r}]") for key, item in value.items()}
        if len(plain) < len(value):
            raise TypeError(f"{place} has several keys that are the same text in JSON")
        return plain
    if isinstance(value, list):
        return [_plain(item, f"{place}[{at}]") for at, item in enumerate(value)]
    if inspect.iscoroutine(value):
        value.close()  # a warning that it was never awaited would say the same again
        raise TypeError(
            f"{place} is a coroutine of {value.__qualname__}, which nobody waited for; write"
            f" `await` in front of its call"
        )
    try:
        known = _default(value)
    except TypeError as error:
        raise TypeError(
            f"{place} is a {type(value).__module__}.{type(value).__qualname__}, which has no JSON"
            " form; turn it into one before it is sent, for example in an after hook"
        ) from (error if str(error) else None)
    return _plain(known, place)


def _key(key: Any, place: str) -> str:
    if isinstance(key, str):
        return key
    plain = _plain(key, f"a key of {place}")
    if isinstance(plain, dict | list):
        raise TypeError(f"{place} has the key {key!r}, which can be no key in JSON")
    return plain if isinstance(plain, str) else json.dumps(plain)
