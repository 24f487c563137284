"""Checks of what a value is equal to, a multiple of, like, or of what format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final

from alula.schema._failures import Check, Failures, failure
from alula.schema._json_schema.equality import key_of
from alula.schema._json_schema.json_types import is_number
from alula.schema._json_schema.location import Schema, Spot
from alula.schema._json_schema.patterns import pattern_of

__all__ = ["const", "enum", "formatted", "matching", "multiple_of"]

_DIGITS: Final = Context(prec=1000)
"""Enough digits for what one float leaves of another."""


def const(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``const``."""
    wanted = schema["const"]
    return _equal_to_one_of(
        spot.at("const"), "const", [wanted], {"allowedValue": wanted}, "must be equal to constant"
    )


def enum(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``enum``."""
    return _equal_to_one_of(
        spot.at("enum"),
        "enum",
        schema["enum"],
        {"allowedValues": schema["enum"]},
        "must be equal to one of the allowed values",
    )


def _equal_to_one_of(
    where: str, keyword: str, allowed: list[Any], params: Mapping[str, Any], message: str
) -> Check:
    keys = frozenset(map(key_of, allowed))
    plain = frozenset(each for each in allowed if type(each) in (str, int))

    def check(value: Any, path: str, failures: Failures) -> Any:
        # Most values are plain ones, and found without a key.
        if (type(value) not in (str, int) or value not in plain) and key_of(value) not in keys:
            failures.append(failure(path, where, keyword, params, message))
        return value

    return check


def multiple_of(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``multipleOf``, which counts in decimal digits as people do."""
    step = schema["multipleOf"]
    where, params, message = (
        spot.at("multipleOf"),
        {"multipleOf": step},
        f"must be multiple of {step}",
    )
    rest = _remainder_by(step)

    def check(value: Any, path: str, failures: Failures) -> Any:
        if is_number(value) and rest(value):
            failures.append(failure(path, where, "multipleOf", params, message))
        return value

    return check


def _remainder_by(step: Any) -> Callable[[Any], Any]:
    """Return what gives the remainder of a number; an exact fraction only where it must be."""
    exact, decimal, whole = Fraction(str(step)), Decimal(str(step)), type(step) is int

    def rest(value: Any) -> Any:
        if whole and type(value) is int:
            return value % step
        try:
            return _DIGITS.remainder(Decimal(repr(value)), decimal)
        except (InvalidOperation, ValueError):  # too many digits
            return Fraction(str(value)) % exact

    return rest


def matching(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``pattern``."""
    given = schema["pattern"]
    search = pattern_of(spot, given, "pattern").search
    where, params = spot.at("pattern"), {"pattern": given}
    message = f'must match pattern "{given}"'

    def check(value: Any, path: str, failures: Failures) -> Any:
        if isinstance(value, str) and search(value) is None:
            failures.append(failure(path, where, "pattern", params, message))
        return value

    return check


def formatted(spot: Spot, schema: Schema) -> Check | None:
    """Return the check of ``format``, None where formats are mere remarks."""
    name, formats = schema["format"], spot.settings.formats
    if formats is None:
        return None
    test = formats.get(name)
    if test is None:
        known = ", ".join(sorted(formats))
        raise spot.error(f"unknown format {name!r}; known are {known}", "format")
    where, params, message = spot.at("format"), {"format": name}, f'must match format "{name}"'

    def check(value: Any, path: str, failures: Failures) -> Any:
        if not test(value):
            failures.append(failure(path, where, "format", params, message))
        return value

    return check
