"""Checks of how great a number is, and how long a string, a list or an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from alula.query._values import is_mapping
from alula.schema._failures import Check, Failures, failure
from alula.schema._json_schema.json_types import KINDS, is_array, is_number
from alula.schema._json_schema.location import Schema, Spot

__all__ = ["BOUNDED", "bounded"]


class _Bound(NamedTuple):
    """What a keyword compares.

    Attributes:
        concerns: Whether a value is of the type that the keyword is about.
        measure: What of it is compared.
        passes: Whether that is within the bound.
        message: The message, with ``{}`` for the bound.
        sign: The sign for ``params``, where Ajv has one.
    """

    concerns: Callable[[Any], bool]
    measure: Callable[[Any], Any]
    passes: Callable[[Any, Any], bool]
    message: str
    sign: str | None = None


def _number(sign: str, passes: Callable[[Any, Any], bool]) -> _Bound:
    return _Bound(is_number, lambda value: value, passes, f"must be {sign} {{}}", sign)


def _least(concerns: Callable[[Any], bool], noun: str) -> _Bound:
    return _Bound(concerns, len, ge, f"must NOT have fewer than {{}} {noun}")


def _most(concerns: Callable[[Any], bool], noun: str) -> _Bound:
    return _Bound(concerns, len, le, f"must NOT have more than {{}} {noun}")


_BOUNDS: Mapping[str, _Bound] = {
    "maximum": _number("<=", le),
    "minimum": _number(">=", ge),
    "exclusiveMaximum": _number("<", lt),
    "exclusiveMinimum": _number(">", gt),
    "maxLength": _most(KINDS["string"], "characters"),
    "minLength": _least(KINDS["string"], "characters"),
    "maxItems": _most(is_array, "items"),
    "minItems": _least(is_array, "items"),
    "maxProperties": _most(is_mapping, "properties"),
    "minProperties": _least(is_mapping, "properties"),
}


def bounded(keyword: str, spot: Spot, schema: Schema) -> Check:
    """Return the check of one of these keywords."""
    concerns, measure, passes, message, sign = _BOUNDS[keyword]
    where, bound = spot.at(keyword), schema[keyword]
    params = {"limit": bound} if sign is None else {"comparison": sign, "limit": bound}
    message = message.format(bound)

    def check(value: Any, path: str, failures: Failures) -> Any:
        if concerns(value) and not passes(measure(value), bound):
            failures.append(failure(path, where, keyword, params, message))
        return value

    return check


BOUNDED = {keyword: partial(bounded, keyword) for keyword in _BOUNDS}
"""What makes the check of each keyword."""
