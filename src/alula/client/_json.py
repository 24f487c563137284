"""Writing JSON with the standard library: data of calls, with what `alula.outgoing` encodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

from alula.outgoing._encoders import json_encoder_of
from alula.outgoing._text import javascript_date

__all__ = ["body_of", "to_json"]


def body_of(data: object) -> bytes:
    """Return data as JSON, in UTF-8 (see `to_json`)."""
    try:
        return to_json(data).encode()
    # A lone surrogate, half of a character in UTF-16: UTF-8 has no form for it, JSON an escape.
    except UnicodeEncodeError:
        return to_json(data, ensure_ascii=True).encode()


def to_json(
    data: object,
    *,
    ensure_ascii: bool = False,
    encode_bytes: Callable[[bytes], object] | None = None,
) -> str:
    """Return data as JSON.

    Args:
        data: The data.
        ensure_ascii: Whether to escape all characters beyond ASCII.
        encode_bytes: Returns what stands for binary data, which JSON lacks. None refuses them.

    Raises:
        TypeError: A value has no JSON form.
        ValueError: A number is not finite, or data contain themselves.
    """

    def encode(value: object) -> object:
        if isinstance(value, datetime):
            return javascript_date(value)
        if encode_bytes is not None and isinstance(value, bytes | bytearray | memoryview):
            return encode_bytes(bytes(value))  # pyright: ignore[reportUnknownArgumentType]  # a memoryview of anything
        if (encoder := json_encoder_of(type(value))) is not None:
            return encoder(value)
        raise TypeError(
            f"{value!r} is of type {type(value).__name__}, which has no form in JSON; use strings,"
            " numbers, booleans, None, datetimes, and lists and dicts of these"
        )

    return json.dumps(
        data,
        ensure_ascii=ensure_ascii,
        separators=(",", ":"),
        allow_nan=False,
        default=encode,
    )
