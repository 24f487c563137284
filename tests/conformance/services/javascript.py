"""What JavaScript makes of a value, where the recorded services rely on it."""

from __future__ import annotations

import math
import re
from typing import Any

_NUMBER = re.compile(r"[+-]?(Infinity|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)|0x[0-9a-f]+", re.IGNORECASE)


def number_of(value: Any) -> float:
    """Return ``Number(value)``; an object has none."""
    if value is None or isinstance(value, bool | int | float):
        return value or 0
    if not isinstance(value, str):
        return math.nan
    text = value.strip()
    if not text:
        return 0
    if not _NUMBER.fullmatch(text):
        return math.nan
    return int(text, 16) if text[:2].lower() == "0x" else whole(float(text))


def whole(number: float) -> float:
    """Return a number as an int where it has no fraction, as JSON shows it."""
    return int(number) if math.isfinite(number) and number == int(number) else number


def truthy(value: Any) -> bool:
    """Tell whether a condition takes a value for true; every list and object is."""
    return bool(value) or isinstance(value, list | dict)


def spread(value: Any) -> dict[str, Any]:
    """Return ``{...value}``."""
    if isinstance(value, list):
        return {str(index): item for index, item in enumerate(value)}
    return dict(value) if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """Return what ``[value].join()`` makes of a value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(text_of, value))
    return "[object Object]" if isinstance(value, dict) else str(value)


def as_list(value: Any) -> list[Any]:
    """Return ``[].concat(value)``."""
    return value if isinstance(value, list) else [value]


def in_property_order(rows: list[Any], key: str) -> list[Any]:
    """Return records in the order in which a JavaScript object lists them by their ids.

    Names that are numbers come first, by size; the recorded store is such an object.
    """

    def place(row: dict[str, Any]) -> float:
        name = str(row.get(key, ""))
        return int(name) if name.isdecimal() else math.inf

    return sorted(rows, key=place)
