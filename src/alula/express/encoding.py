"""Values -> the bytes of a JSON body, the same for results and errors.

orjson does the work. Two things it refuses are sent all the same: integers beyond 64 bits and
keys that are no strings. Dates are written as JavaScript writes them (UTC, milliseconds, ``Z``),
since front ends compare them as text.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import orjson

__all__ = ["dumps", "loads"]

loads = orjson.loads


def dumps(value: Any) -> bytes:
    """Return a value as JSON.

    Args:
        value: Mappings, lists, scalars, and beside them: datetimes and dates (ISO 8601, UTC),
            UUIDs and Decimals (strings), bytes (base64), sets (lists), enums, dataclasses, and
            objects with ``model_dump`` (their mapping). NaN and infinities become null.

    Raises:
        TypeError: It holds something else; the message names the type.
    """
    try:
        return orjson.dumps(value, _default, orjson.OPT_PASSTHROUGH_DATETIME)
    except TypeError:
        text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def _iso(value: datetime.datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC)
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    datetime.datetime: _iso,
    datetime.date: datetime.date.isoformat,
    datetime.time: datetime.time.isoformat,
    decimal.Decimal: str,
    bytes: lambda value: base64.b64encode(value).decode(),
    bytearray: lambda value: base64.b64encode(value).decode(),
    memoryview: lambda value: base64.b64encode(value).decode(),
    set: list,
    frozenset: list,
}


def _default(value: Any) -> Any:
    for kind in type(value).__mro__:
        encode = _ENCODERS.get(kind)
        if encode is not None:
            return encode(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(
        f"a result holds a value of the type {type(value).__module__}.{type(value).__qualname__},"
        " which has no JSON form; turn it into one in an after hook"
    )


def _plain(value: Any) -> Any:
    """Turn a value into what the standard library's encoder takes."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    try:
        return orjson.loads(orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATETIME))
    except TypeError:
        return _plain(_default(value))


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    plain = _plain(key)
    return plain if isinstance(plain, str) else json.dumps(plain)
