"""Functions in Python that statements on SQLite use; every connection registers all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from alula.types import JSONValue, is_dict

__all__ = ["FUNCTIONS", "fold"]


def fold(text: str | None) -> str | None:
    """Return text in the lower case in which PostgreSQL's ``ILIKE`` compares.

    Each character has one in lower case, as PostgreSQL has it: ``str.lower()`` alone takes two for
    the dotted I, and another sigma at the end of a word.
    """
    if text is None or text.isascii():
        return text and text.lower()
    return text.translate(_LOWER).lower()


_LOWER: Final = {
    ord("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}"): "i",
    ord("\N{GREEK CAPITAL LETTER SIGMA}"): "\N{GREEK SMALL LETTER SIGMA}",
}


def _contains(stored: JSONValue, wanted: JSONValue, top: bool = True) -> bool:
    """Return whether a JSON value contains another one, by the rules of PostgreSQL's ``@>``."""
    if isinstance(stored, dict):
        return isinstance(wanted, dict) and all(
            name in stored and _contains(stored[name], value, top=False)
            for name, value in wanted.items()
        )
    if isinstance(stored, list):
        if isinstance(wanted, list):
            return all(
                any(_contains(item, value, top=False) for item in stored) for value in wanted
            )
        # A list contains a plain value itself, but only where the whole values are compared.
        return top and not isinstance(wanted, dict) and any(_same(item, wanted) for item in stored)
    return _same(stored, wanted)


def _same(one: JSONValue, other: JSONValue) -> bool:
    """Return whether JSON values are equal; in Python alone, 1 is equal to True."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(_same(value, other[name]) for name, value in one.items())
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _read(stored: object) -> Any:
    """Return the value of JSON; a column that is not strict may hold what is not JSON."""
    try:
        return json.loads(stored) if isinstance(stored, str) else stored
    except ValueError:
        return stored


def json_equal(stored: str | None, wanted: str) -> bool | None:
    """Return whether JSON is equal to other JSON, in whatever order their properties are."""
    return None if stored is None else _same(_read(stored), json.loads(wanted))


def json_contains(stored: str | None, wanted: str) -> bool | None:
    """Return whether JSON contains other JSON, as PostgreSQL's ``@>`` does."""
    return None if stored is None else _contains(_read(stored), json.loads(wanted))


def json_contains_one(stored: str | None, wanted: str) -> bool | None:
    """Return whether JSON contains one of the values in a list."""
    if stored is None:
        return None
    value = _read(stored)
    return any(_contains(value, item) for item in json.loads(wanted))


def json_overlaps(stored: str | None, wanted: str) -> bool | None:
    """Return whether a list in JSON and another one have a value in common."""
    if stored is None:
        return None
    items: JSONValue = _read(stored)
    return isinstance(items, list) and any(
        _same(item, value) for value in json.loads(wanted) for item in items
    )


def json_concat(items: str | None, more: str) -> str:
    """Return a list in JSON with further values."""
    stored: JSONValue = _read(items or "[]")
    return _text([*(stored if isinstance(stored, list) else [stored]), *json.loads(more)])


def json_merge(stored: str | None, changes: str) -> str:
    """Return an object in JSON with other values for some properties."""
    # json_patch() of SQLite would remove what is set to null.
    root: JSONValue = _read(stored or "{}")
    return _text({**(root if isinstance(root, dict) else {}), **json.loads(changes)})


def json_set(stored: str | None, *changes: str) -> str:
    """Return an object in JSON with other values at some paths, which alternate with the values."""
    root: JSONValue = _read(stored or "{}")
    if not isinstance(root, dict):
        root = {}
    for path, value in zip(changes[::2], changes[1::2], strict=True):
        level: dict[str, Any] = root
        *above, last = json.loads(path)
        for key in above:
            if not is_dict(level.get(key)):
                level[key] = {}
            level = level[key]
        level[last] = json.loads(value)
    return _text(root)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_EXACT: Final = Context(prec=4000, rounding=ROUND_HALF_UP)


def decimal_sum(one: object, other: str, whole: int, scale: int | None) -> str:
    """Return the sum of two decimals; null counts as 0.

    Args:
        one: What is stored.
        other: What is added.
        whole: How many digits there may be before the point.
        scale: To how many digits after the point to round, as PostgreSQL does; None for all.

    Raises:
        OverflowError: There are more digits before the point. SQLite makes an error of it that is
            told from others.
    """
    return _fitted(_EXACT.add(Decimal(str(one or 0)), Decimal(other)), whole, scale)


def decimal_product(one: object, other: str, whole: int, scale: int | None) -> str:
    """Return the product of two decimals; null counts as 0.

    Args:
        one: What is stored.
        other: What it is multiplied by.
        whole: As for a sum.
        scale: As for a sum.

    Raises:
        OverflowError: As for a sum.
    """
    return _fitted(_EXACT.multiply(Decimal(str(one or 0)), Decimal(other)), whole, scale)


def _fitted(number: Decimal, whole: int, scale: int | None) -> str:
    if scale is not None:
        number = _EXACT.quantize(number, Decimal(1).scaleb(-scale))
    if number and number.adjusted() >= whole:
        raise OverflowError
    return format(number or abs(number), "f")


_OF_TEXT: Final[Mapping[str, Callable[[Any], object]]] = {
    "alula_fold": fold,
    "alula_float": lambda text: None if text is None else float(text),
    "alula_bytes": lambda text: None if text is None else bytes.fromhex(text),
}
FUNCTIONS: Final[Mapping[str, tuple[int, Callable[..., Any]]]] = {
    **{name: (1, function) for name, function in _OF_TEXT.items()},
    "alula_json_equal": (2, json_equal),
    "alula_json_contains": (2, json_contains),
    "alula_json_contains_one": (2, json_contains_one),
    "alula_json_overlaps": (2, json_overlaps),
    "alula_json_concat": (2, json_concat),
    "alula_json_set": (-1, json_set),
    "alula_json_merge": (2, json_merge),
    "alula_decimal_sum": (4, decimal_sum),
    "alula_decimal_product": (4, decimal_product),
}
"""By name: the number of arguments (-1 for any), and the function. All are deterministic."""
