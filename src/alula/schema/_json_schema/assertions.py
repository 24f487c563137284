"""Keywords that assert something about a value: equality, bounds, patterns, formats, presence.

Messages and ``params`` are those of Ajv.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from operator import ge, gt, le, lt
from typing import Any, Final

from alula.schema._failures import Failures, failure, missing
from alula.schema._json_schema.compiler import Check, Maker, Schema, SchemaLocation
from alula.schema._json_schema.formats import pattern_of
from alula.schema._json_schema.json_types import TYPE_TESTS, is_number, key_of
from alula.types import JSONValue, is_array, is_mapping

__all__ = [
    "BOUNDS",
    "const",
    "dependent_required",
    "enum",
    "formatted",
    "matching",
    "multiple_of",
    "required",
    "unique_items",
]

_DIGITS: Final = Context(prec=1000)
"""Enough digits for the remainder of one float by another."""


def const(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``const``."""
    params = {"allowedValue": schema["const"]}
    message = "must be equal to constant"
    return _equal_to_any(location, "const", [schema["const"]], params, message)


def enum(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``enum``."""
    params = {"allowedValues": schema["enum"]}
    message = "must be equal to one of the allowed values"
    return _equal_to_any(location, "enum", schema["enum"], params, message)


def _equal_to_any(
    location: SchemaLocation,
    keyword: str,
    allowed: Sequence[Any],
    params: Mapping[str, object],
    message: str,
) -> Check:
    where = location.path_to(keyword)
    keys = frozenset(map(key_of, allowed))
    # Most values are plain, and found without making a key.
    # By exact type: in Python `True` equals 1, in JSON it does not.
    plain = frozenset(value for value in allowed if type(value) in (str, int))

    def check(value: JSONValue, path: str, failures: Failures) -> object:
        if (type(value) not in (str, int) or value not in plain) and key_of(value) not in keys:
            failures.append(failure(path, where, keyword, params, message))
        return value

    return check


def _bound(
    keyword: str,
    applies: Callable[[Any], bool],
    compare: Callable[[Any, Any], bool],
    message: str,
    sign: str | None = None,
) -> Maker:
    """Return what makes the check of a bound of numbers (with a sign) or of sizes."""

    def make(location: SchemaLocation, schema: Schema) -> Check:
        where, bound = location.path_to(keyword), schema[keyword]
        params = {"limit": bound} if sign is None else {"comparison": sign, "limit": bound}
        text = message.format(bound)

        def check(value: Any, path: str, failures: Failures) -> object:
            if applies(value) and not compare(len(value) if sign is None else value, bound):
                failures.append(failure(path, where, keyword, params, text))
            return value

        return check

    return make


_MORE, _FEWER = "must NOT have more than {} ", "must NOT have fewer than {} "

BOUNDS: Final[Mapping[str, Maker]] = {
    "maximum": _bound("maximum", is_number, le, "must be <= {}", "<="),
    "minimum": _bound("minimum", is_number, ge, "must be >= {}", ">="),
    "exclusiveMaximum": _bound("exclusiveMaximum", is_number, lt, "must be < {}", "<"),
    "exclusiveMinimum": _bound("exclusiveMinimum", is_number, gt, "must be > {}", ">"),
    # Python counts code points, as Ajv does; the length of a JavaScript string counts UTF-16 units.
    "maxLength": _bound("maxLength", TYPE_TESTS["string"], le, _MORE + "characters"),
    "minLength": _bound("minLength", TYPE_TESTS["string"], ge, _FEWER + "characters"),
    "maxItems": _bound("maxItems", is_array, le, _MORE + "items"),
    "minItems": _bound("minItems", is_array, ge, _FEWER + "items"),
    "maxProperties": _bound("maxProperties", is_mapping, le, _MORE + "properties"),
    "minProperties": _bound("minProperties", is_mapping, ge, _FEWER + "properties"),
}
"""What makes the check of each bound."""


def multiple_of(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``multipleOf``, which counts in decimal digits as people do."""
    step = schema["multipleOf"]
    where, params = location.path_to("multipleOf"), {"multipleOf": step}
    message = f"must be multiple of {step}"
    decimal, whole = Decimal(str(step)), type(step) is int

    def remainder(value: float | Decimal) -> object:
        if whole and type(value) is int:
            return value % step
        # Binary fractions would make 0.3 no multiple of 0.1.
        try:
            return _DIGITS.remainder(Decimal(repr(value)), decimal)
        except (InvalidOperation, ValueError):  # too many digits
            return Fraction(str(value)) % Fraction(str(step))

    def check(value: object, path: str, failures: Failures) -> object:
        if is_number(value) and remainder(value):
            failures.append(failure(path, where, "multipleOf", params, message))
        return value

    return check


def matching(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``pattern``."""
    pattern = schema["pattern"]
    # JSON Schema does not anchor patterns, so that this is not `fullmatch`.
    search = pattern_of(location, pattern, "pattern").search
    where, params = location.path_to("pattern"), {"pattern": pattern}
    message = f'must match pattern "{pattern}"'

    def check(value: object, path: str, failures: Failures) -> object:
        if isinstance(value, str) and search(value) is None:
            failures.append(failure(path, where, "pattern", params, message))
        return value

    return check


def formatted(location: SchemaLocation, schema: Schema) -> Check | None:
    """Return the check of ``format``, None where formats are annotations."""
    name, formats = schema["format"], location.settings.formats
    if formats is None:
        return None
    test = formats.get(name)
    if test is None:
        # Ajv refuses unknown formats, too: a misspelled one would accept every value.
        names = ", ".join(sorted(formats))
        raise location.error(f"unknown format {name!r}; known are {names}", "format")
    where, params = location.path_to("format"), {"format": name}
    message = f'must match format "{name}"'

    def check(value: object, path: str, failures: Failures) -> object:
        if not test(value):
            failures.append(failure(path, where, "format", params, message))
        return value

    return check


def required(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``required``."""
    where, names = location.path_to("required"), tuple(schema["required"])

    def check(value: object, path: str, failures: Failures) -> object:
        if is_mapping(value):
            failures += [missing(name, path, where) for name in names if name not in value]
        return value

    return check


def dependent_required(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``dependentRequired``."""
    where, dependencies = location.path_to("dependentRequired"), schema["dependentRequired"]

    def check(value: object, path: str, failures: Failures) -> object:
        if not is_mapping(value):
            return value
        for name, names in dependencies.items():
            for other in names if name in value else ():
                if other in value:
                    continue
                noun, listed = "property" if len(names) == 1 else "properties", ", ".join(names)
                message = f"must have {noun} {listed} when property {name} is present"
                params = {
                    "property": name,
                    "missingProperty": other,
                    "depsCount": len(names),
                    "deps": listed,
                }
                failures.append(failure(path, where, "dependentRequired", params, message))
        return value

    return check


def unique_items(location: SchemaLocation, schema: Schema) -> Check | None:
    """Return the check of ``uniqueItems``."""
    where = location.path_to("uniqueItems")

    def check(value: object, path: str, failures: Failures) -> object:
        if not is_array(value):
            return value
        seen: dict[Any, int] = {}
        pair = None
        # By keys, in linear time: comparing each item with all others is quadratic in the body's
        # size.
        for index, key in enumerate(map(key_of, value)):
            if key in seen:
                pair = index, seen[key]
            seen[key] = index
        if pair is not None:
            i, j = pair  # the last index whose item was there before, and the index before it
            message = f"must NOT have duplicate items (items ## {j} and {i} are identical)"
            failures.append(failure(path, where, "uniqueItems", {"i": i, "j": j}, message))
        return value

    return check if schema["uniqueItems"] else None
