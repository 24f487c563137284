"""The types of JSON Schema: which Python values they mean, and what coercion makes of text.

Coercion follows Ajv's ``coerceTypes``, with two differences: a number is written in decimal
digits (no hexadecimal, no surrounding blanks, no ``Infinity``), and an object whose keys are the
indexes of a list stands for that list, which is how a query string carries more items than its
array limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from alula.query._values import as_list, is_mapping
from alula.types import UNSET

__all__ = ["KINDS", "coercion", "is_array", "is_number", "kind_test"]

_NUMBERS = (int, float, Decimal)
_ARRAYS = (list, tuple)
_SCALARS = (str, int, float, Decimal, type(None))
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 400
_INT64 = 2**63
_TEXTS = {None: "", True: "true", False: "false"}
_WORDS = {"true": True, "false": False}
_DIGITS = {1: True, 0: False}

Convert = Callable[[Any], Any]


def is_number(value: Any) -> bool:
    """Say whether this is a finite number; booleans are none."""
    kind = type(value)
    if kind is int:
        return True
    return isinstance(value, _NUMBERS) and kind is not bool and isfinite(value)


def _is_integer(value: Any) -> bool:
    return type(value) is int or (is_number(value) and value % 1 == 0)


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_boolean(value: Any) -> bool:
    return value is True or value is False


def _is_null(value: Any) -> bool:
    return value is None


def is_array(value: Any) -> bool:
    """Say whether this is a list."""
    return isinstance(value, _ARRAYS)


def _is_object(value: Any) -> bool:
    """Say whether this is an object: a mapping, or a value that JSON has no other type for.

    Object ids and dates are such values; in JavaScript they are objects, too.
    """
    return type(value) is dict or not isinstance(value, _SCALARS + _ARRAYS)


KINDS: Mapping[str, Callable[[Any], bool]] = {
    "string": _is_string,
    "number": is_number,
    "integer": _is_integer,
    "boolean": _is_boolean,
    "null": _is_null,
    "array": is_array,
    "object": _is_object,
}
"""The test of each type."""


def kind_test(names: Sequence[str]) -> Callable[[Any], bool]:
    """Return the test for any of these types."""
    tests = [KINDS[name] for name in names]
    if len(tests) == 1:
        return tests[0]
    return lambda value: any(test(value) for test in tests)


def coercion(names: Sequence[str]) -> Convert | None:
    """Return what makes the first of these types out of a value that has none of them.

    The function returns `UNSET` where the value stands for none of them. There is none where no
    value could.
    """
    converts = [_COERCIONS[name] for name in names if name in _COERCIONS]

    def coerce(value: Any) -> Any:
        tried = (convert(value) for convert in converts)
        return next((found for found in tried if found is not UNSET), UNSET)

    return converts[0] if len(converts) == 1 else coerce if converts else None


def _to_string(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return _TEXTS[value]
    return _number_text(value) if is_number(value) else UNSET


def _number_text(value: Any) -> str:
    """Return a number as JavaScript writes it."""
    if abs(value) < 10**21 and value % 1 == 0:
        return str(int(value))
    if isinstance(value, float) and 1e-6 <= abs(value) < 1e-4:
        return format(Decimal(repr(value)), "f")
    return re.sub(r"e([+-])0", r"e\1", repr(float(value)))


def _to_number(value: Any) -> Any:
    if isinstance(value, str):
        return _number_of(value)
    return int(value or 0) if value is None or isinstance(value, bool) else UNSET


def _number_of(text: str) -> Any:
    if len(text) > _LONGEST_NUMBER or _DECIMAL.fullmatch(text) is None:
        return UNSET
    number = float(text)
    if not isfinite(number):
        return UNSET
    if number % 1 or not -_INT64 <= number < _INT64:
        return number
    # Whole numbers are exact, also where JavaScript's are not.
    return int(text) if text.lstrip("+-").isdigit() else int(number)


def _to_integer(value: Any) -> Any:
    number = _to_number(value)
    return UNSET if number is UNSET or number % 1 else number


def _to_boolean(value: Any) -> Any:
    if isinstance(value, str):
        return _WORDS.get(value, UNSET)
    numeric = value is None or is_number(value)
    return _DIGITS.get(value or 0, UNSET) if numeric else UNSET


def _to_null(value: Any) -> Any:
    empty = (
        value in ("", False) if isinstance(value, str | bool) else is_number(value) and not value
    )
    return None if empty else UNSET


def _to_array(value: Any) -> Any:
    items = as_list(value) if is_mapping(value) and value else None
    return UNSET if items is None else items


_COERCIONS: Mapping[str, Convert] = {
    "string": _to_string,
    "number": _to_number,
    "integer": _to_integer,
    "boolean": _to_boolean,
    "null": _to_null,
    "array": _to_array,
}
