"""Mappings to query strings in bracket notation, as JavaScript clients write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from math import isfinite, isnan
from typing import Any, Final

from alula.outgoing._text import javascript_date
from alula.query._parse import without_surrogates
from alula.types import JSONValue

__all__ = ["stringify"]

_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_ESCAPES: Final = [chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in range(256)]


def stringify(mapping: Mapping[str, Any]) -> str:
    """Return the query string of a mapping, as JavaScript clients write it; `parse` reads it.

    Args:
        mapping: Strings, numbers, booleans, None, datetimes, and lists and mappings of these. A
            datetime without a time zone is in UTC. Empty lists and mappings are left out.

    Returns:
        The percent-encoded string, without a ``?``.

    Raises:
        TypeError: A value or a key that cannot be sent.
        ValueError: A list or mapping that contains itself.

    Examples:
        >>> stringify({"done": False, "$limit": 2})
        'done=false&%24limit=2'
    """
    if not isinstance(mapping, Mapping):
        raise TypeError(f"stringify takes a mapping, not {type(mapping).__name__}.")
    parameters: list[str] = []
    # A loop instead of recursion, since depth is not bounded. By id: the containers around the
    # current value, and what is left to read of each.
    path = {id(mapping): _items(None, mapping)}
    while path:
        for name, value in path[next(reversed(path))]:
            if isinstance(value, Mapping | list | tuple):
                if id(value) in path:
                    raise ValueError(f"'{name}' contains itself, so no query string can hold it.")
                path[id(value)] = _items(name, value)
                break
            parameters.append(f"{_escape(name)}={_escape(_text(name, value))}")
        else:
            path.popitem()
    return "&".join(parameters)


def _items(
    name: str | None, container: Mapping[Any, Any] | list[Any] | tuple[Any, ...]
) -> Iterator[tuple[str, JSONValue]]:
    """Yield the items of a container with their full names, brackets included."""
    if not isinstance(container, Mapping):
        for index, value in enumerate(container):
            yield f"{name}[{index}]", value
        return
    for key, value in container.items():
        if not isinstance(key, str):
            place = "at the top" if name is None else f"in '{name}'"
            raise TypeError(
                f"The key {key!r} {place} is not a string; the names in a query string are strings."
            )
        yield (key if name is None else f"{name}[{key}]"), value


def _text(name: str, value: object) -> str:
    """Return a single value as JavaScript writes it."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # Not str(value): a subclass, such as an enum, may print itself by its name.
        return int.__repr__(value)
    if isinstance(value, datetime):
        return javascript_date(value)
    if isinstance(value, float):
        if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        # Both languages print the shortest digits that read back as the same number. Python writes
        # an exponent from 1e16 on and below 1e-4, JavaScript from 1e21 on and below 1e-6.
        mantissa, _, exponent = float.__repr__(value).partition("e")
        if not exponent:
            return "0" if not value else mantissa.removesuffix(".0")
        whole, _, fraction = mantissa.partition(".")
        power = int(exponent)
        if power >= 21 or power < -6:
            return f"{mantissa}e{power:+}"
        if power > 0:
            return whole + fraction.ljust(power, "0")
        return f"{value:.{len(fraction) - power}f}"
    raise TypeError(
        f"'{name}' is of type {type(value).__name__}, which a query string cannot hold. Use "
        "strings, numbers, booleans, None, datetimes, and lists and mappings of these."
    )


def _escape(text: str) -> str:
    """Return text percent-encoded."""
    if text.isascii() and text.isalnum():
        return text
    return "".join([_ESCAPES[byte] for byte in without_surrogates(text).encode()])
