"""Pydantic's errors -> failures as Ajv has them, by one table.

The table names for each type of error the keyword, what Ajv writes into ``params``, and the
message; ``{}`` in a message stands for the value in the error's context. An error that is not in
it keeps Pydantic's own type and message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import SecretStr, ValidationError

from alula.errors import BadRequest
from alula.query._values import is_mapping
from alula.schema._failures import MOST_TOLD, Failure, failure
from alula.schema._json_schema.applicators import pointer

__all__ = ["failures_of"]


MOST_LISTED: Final = 20_000
"""How many failures of one value Pydantic is asked for. It makes all or none, and 400,000 of them,
which is what a body of a megabyte can have, take it two seconds."""


class _Entry(NamedTuple):
    """What stands for an error of Pydantic.

    Attributes:
        keyword: The keyword of JSON Schema.
        message: The message, with ``{}`` for the value in the context.
        param: The name of the parameter.
        context: The name of the value in the error's context; without one, `fixed` is the value.
        fixed: The parameter's value.
        comparison: The sign of a limit.
    """

    keyword: str
    message: str
    param: str
    context: str | None = None
    fixed: Any = None
    comparison: str | None = None


def _type(kind: str) -> _Entry:
    return _Entry("type", f"must be {kind}", "type", fixed=kind)


def _format(name: str) -> _Entry:
    return _Entry("format", f'must match format "{name}"', "format", fixed=name)


def _limit(keyword: str, sign: str, context: str) -> _Entry:
    return _Entry(keyword, f"must be {sign} {{}}", "limit", context, comparison=sign)


def _size(keyword: str, noun: str, context: str) -> _Entry:
    word = "fewer" if keyword.startswith("min") else "more"
    return _Entry(keyword, f"must NOT have {word} than {{}} {noun}", "limit", context)


_ENUM = ("enum", "must be equal to one of the allowed values", "allowedValues", "expected")
_PREFIXES: Mapping[str, _Entry] = {
    "string_": _type("string"),
    "int_": _type("integer"),
    "float_": _type("number"),
    "decimal_": _type("number"),
    "bool_": _type("boolean"),
    "none_": _type("null"),
    "list_": _type("array"),
    "tuple_": _type("array"),
    "set_": _type("array"),
    "frozen_set_": _type("array"),
    "iterable_": _type("array"),
    "dict_": _type("object"),
    "mapping_": _type("object"),
    "model_": _type("object"),
    "dataclass_": _type("object"),
    "datetime_": _format("date-time"),
    "timezone_": _format("date-time"),
    "date_": _format("date"),
    "time_delta_": _format("duration"),
    "time_": _format("time"),
    "uuid_": _format("uuid"),
    "url_": _format("uri"),
}
"""By the beginning of the type, for all that the next table does not name."""

TABLE: Mapping[str, _Entry] = {
    "missing": _Entry("required", "must have required property '{}'", "missingProperty"),
    "extra_forbidden": _Entry(
        "additionalProperties", "must NOT have additional properties", "additionalProperty"
    ),
    "enum": _Entry(*_ENUM),
    "literal_error": _Entry(*_ENUM),
    "finite_number": _type("number"),
    "greater_than": _limit("exclusiveMinimum", ">", "gt"),
    "greater_than_equal": _limit("minimum", ">=", "ge"),
    "less_than": _limit("exclusiveMaximum", "<", "lt"),
    "less_than_equal": _limit("maximum", "<=", "le"),
    "multiple_of": _Entry("multipleOf", "must be multiple of {}", "multipleOf", "multiple_of"),
    "string_too_short": _size("minLength", "characters", "min_length"),
    "string_too_long": _size("maxLength", "characters", "max_length"),
    "string_pattern_mismatch": _Entry("pattern", 'must match pattern "{}"', "pattern", "pattern"),
    "too_short": _size("minItems", "items", "min_length"),
    "too_long": _size("maxItems", "items", "max_length"),
}

_OF_THE_HOLDER = frozenset({"missing", "extra_forbidden"})
"""Errors about a property that stand at the object which lacks or has it."""


_OF_TEXT = {"too_short": "string_too_short", "too_long": "string_too_long"}
"""What Pydantic says of the length of a secret text as of that of a list."""


def failures_of(error: ValidationError, value: Any) -> list[Failure]:
    """Return the failures for an error.

    Args:
        error: What Pydantic raised.
        value: What was validated: the way to the error is followed in it, since Pydantic names
            the members of a union among the properties.

    Raises:
        BadRequest: There are more than `MOST_LISTED`.
    """
    if error.error_count() > MOST_LISTED:
        raise BadRequest("The data has too many failures to list them; send less at a time")
    details = error.errors(include_url=False)[:MOST_TOLD]
    return [_failure(each, value) for each in details]


def _failure(details: Any, value: Any) -> Failure:
    kind, loc = details["type"], details["loc"]
    if kind in _OF_TEXT and isinstance(details["input"], str | SecretStr):
        kind = _OF_TEXT[kind]
    if loc and loc[-1] == "[key]":
        kind, loc = "extra_forbidden", loc[:-1]
    entry = TABLE.get(kind) or next(
        (found for start, found in _PREFIXES.items() if kind.startswith(start)), None
    )
    name: Any = None
    if kind in _OF_THE_HOLDER:
        *loc, name = loc
    path = "".join(map(pointer, _place(loc, value)))
    if entry is None:
        message = details["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        return failure(path, f"#{path}/{kind}", kind, {}, message)
    context = details.get("ctx", {})
    told = name if kind in _OF_THE_HOLDER else context.get(entry.context, entry.fixed)
    params = {entry.param: told}
    if entry.comparison is not None:
        params["comparison"] = entry.comparison
    message = entry.message.format(told)
    return failure(path, f"#{path}/{entry.keyword}", entry.keyword, params, message)


def _place(loc: Sequence[Any], value: Any) -> list[Any]:
    """Return the names and indexes of a way that are there in the value, without union members."""
    place = []
    for step in loc:
        if _is_in(step, value):
            value = value[step]
            place.append(step)
    return place


def _is_in(step: Any, value: Any) -> bool:
    if isinstance(value, list | tuple):
        return isinstance(step, int) and step < len(value)
    return is_mapping(value) and step in value
