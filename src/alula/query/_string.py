"""Query strings in bracket notation: ``a[b]=1`` to ``{"a": {"b": "1"}}`` and back.

What holds here:

- `parse` gives what the npm package ``qs`` gives, also for shapes that contradict each other; it
  refuses what ``qs`` cuts off (too many parameters, too many levels).
- Nothing is recursive, and the time grows no faster than the length of the string.
- A result holds only dict, list and str, and every str can be encoded as UTF-8.

This module reads and writes the text; `brackets` makes lists and mappings of the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from math import isfinite, isnan
from typing import Any

from alula.errors import BadRequest
from alula.outgoing import javascript_date
from alula.query._brackets import by_index, read_keys

__all__ = ["parse", "stringify"]

_HEX = "0123456789abcdefABCDEF"
_CHARACTERS = {a + b: chr(int(a + b, 16)) for a in _HEX for b in _HEX}

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_ESCAPES = [chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in range(256)]

_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def parse(
    querystring: str, *, array_limit: int = 20, depth: int = 5, parameter_limit: int = 1000
) -> dict[str, Any]:
    """Return the mapping that a query string in bracket notation stands for.

    Args:
        querystring: What follows the ``?`` of a URL, still percent-encoded.
        array_limit: Lists have at most this many items, and indexes below it. What has more
            becomes a mapping with the indexes as keys.
        depth: How many pairs of brackets a key may have.
        parameter_limit: How many parameters there may be. What stands between two ``&`` is one,
            even where it is empty.

    Returns:
        A new dict of dicts, lists and strings.

    Raises:
        BadRequest: More parameters than ``parameter_limit``, or a key deeper than ``depth``.
    """
    if not querystring:
        return {}
    # Counted before anything is read, so that a flood costs nothing.
    count = querystring.count("&") + 1
    if count > parameter_limit:
        raise BadRequest(
            f"The query string has {count} parameters; at most {parameter_limit} are allowed. "
            "Send fewer, or raise parameter_limit in the server's query parser."
        )
    text = querystring if querystring.isascii() else _without_surrogates(querystring)
    text = text.replace("+", " ")
    if "%" in text:
        text = _with_plain_brackets(text)
    values = _read_values(text, array_limit)
    return read_keys(values, array_limit, depth) if "[" in text else values


def _without_surrogates(text: str) -> str:
    """Return text with U+FFFD for each surrogate, which no encoding can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.translate(_SURROGATES)
    return text


def _with_plain_brackets(text: str) -> str:
    """Return text with its encoded brackets decoded, for they mean what plain ones mean."""
    text = text.replace("%5B", "[").replace("%5D", "]")
    # Clients encode the "$" of filters too. Where no other escape is left, that was all.
    decoded = text.replace("%24", "$")
    return text.replace("%5b", "[").replace("%5d", "]") if "%" in decoded else decoded


def _decode(text: str) -> str:
    """Return text with its percent escapes decoded, or as it is where one of them is broken."""
    if "%" not in text:
        return text
    start, *rest = text.encode().decode("latin-1").split("%")
    try:
        decoded = start + "".join([_CHARACTERS[part[:2]] + part[2:] for part in rest])
        return decoded.encode("latin-1").decode()
    except (KeyError, UnicodeDecodeError):
        return text


def _read_values(text: str, limit: int) -> dict[str, Any]:
    """Return the value of each key as it is written, all its values where it is repeated."""
    values: dict[str, Any] = {}
    repeated: dict[str, list[str]] = {}
    for part in text.split("&"):
        key, _, value = part.partition("=")
        if "]=" in value:
            # The first "]=" ends the key, for a name in brackets may contain "=".
            key, _, value = part.partition("]=")
            key += "]"
        if "%" in part:
            key, value = _decode(key), _decode(value)
        if key not in values:
            values[key] = value
        elif key in repeated:
            repeated[key].append(value)
        else:
            values[key] = repeated[key] = [values[key], value]
    for key, several in repeated.items():
        if len(several) > limit:
            values[key] = by_index(several)
    values.pop("", None)
    return values


def stringify(mapping: Mapping[str, Any]) -> str:
    """Return the query string that `parse` reads as the mapping, as JavaScript clients write it.

    Args:
        mapping: Strings, numbers, booleans, None, datetimes, and lists and mappings of these. A
            datetime without a time zone is taken for UTC. An empty list or mapping can not be
            written, and is left out.

    Returns:
        The percent-encoded string, without a ``?``.

    Raises:
        TypeError: A value or a key that can not be sent.
        ValueError: A list or mapping that contains itself.
    """
    if not isinstance(mapping, Mapping):
        raise TypeError(f"stringify takes a mapping, not {type(mapping).__name__}.")
    parameters: list[str] = []
    # The containers on the way to the present value: by id, what is still to be read of each.
    way = {id(mapping): _items(None, mapping)}
    while way:
        for name, value in way[next(reversed(way))]:
            if isinstance(value, Mapping | list | tuple):
                if id(value) in way:
                    raise ValueError(f"'{name}' contains itself, so no query string can hold it.")
                way[id(value)] = _items(name, value)
                break
            parameters.append(f"{_escape(name)}={_escape(_text(name, value))}")
        else:
            way.popitem()
    return "&".join(parameters)


def _items(
    name: str | None, container: Mapping[Any, Any] | list[Any] | tuple[Any, ...]
) -> Iterator[tuple[str, Any]]:
    """Yield what a container holds, each item with its whole name, brackets included."""
    if not isinstance(container, Mapping):
        for index, value in enumerate(container):
            yield f"{name}[{index}]", value
        return
    for key, value in container.items():
        if not isinstance(key, str):
            place = "at the top" if name is None else f"in '{name}'"
            raise TypeError(f"The key {key!r} {place} is no string. Query strings have only names.")
        yield (key if name is None else f"{name}[{key}]"), value


def _text(name: str, value: Any) -> str:
    """Return a single value as JavaScript writes it."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, datetime):
        return javascript_date(value)
    raise TypeError(
        f"'{name}' is of type {type(value).__name__}, which has no form in a query string. Use "
        "strings, numbers, booleans, None, datetimes, and lists and mappings of these."
    )


def _number(value: float) -> str:
    """Return a float as JavaScript prints it: the same digits, but another taste in exponents."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    mantissa, _, exponent = float.__repr__(value).partition("e")
    if not exponent:
        return "0" if not value else mantissa.removesuffix(".0")
    whole, _, fraction = mantissa.partition(".")
    power = int(exponent)
    if power >= 21 or power < -6:
        return f"{mantissa}e{power:+}"
    return whole + fraction.ljust(power, "0") if power > 0 else f"{value:.{len(fraction) - power}f}"


def _escape(text: str) -> str:
    """Return text percent-encoded."""
    if text.isascii() and text.isalnum():
        return text
    return "".join([_ESCAPES[byte] for byte in _without_surrogates(text).encode()])
