"""What is wrong with a value, in the one form that front ends know: that of Ajv.

Pydantic's errors take the same form by one table, `TABLE`. It names for each type of error the
keyword, the entries of ``params`` and the message. An error that is not in the table keeps
Pydantic's type and message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails, PydanticUndefined

from alula.errors import BadRequest
from alula.types import is_array, is_mapping

__all__ = [
    "MOST_COUNTED",
    "MOST_LISTED",
    "Failure",
    "Failures",
    "SchemaError",
    "check_id_default",
    "failure",
    "failures_of_model",
    "missing",
    "moved",
    "pointer",
    "refusal",
    "without_prefix",
]

Failure: TypeAlias = dict[str, Any]
"""``instancePath``, ``schemaPath``, ``keyword``, ``params`` and ``message``, as Ajv has them."""

Failures: TypeAlias = list[Failure]

MOST_LISTED: Final = 1_000
"""How many failures a response lists: a body of 1 MB could have hundreds of thousands."""

MOST_COUNTED: Final = 20_000
"""How many failures of one value Pydantic is asked for. It makes all or none of them, and 400,000,
which a body of 1 MB can have, take it two seconds."""


class SchemaError(ValueError):
    """A schema or a model that cannot be used; the text says where the mistake is, and why."""


def check_id_default(name: str, default: object) -> None:
    """Refuse a default that would give all new records one id.

    Raises:
        SchemaError: It is a value; None stands for an id that is made later.
    """
    if default is not None and default is not PydanticUndefined:
        raise SchemaError(
            f"{name!r} has the default {default!r}, so every new record would have this id; leave"
            " the default out, or make it None or a default_factory"
        )


def failure(
    path: str, schema_path: str, keyword: str, params: Mapping[str, Any], message: str
) -> Failure:
    """Return one failure; `params` is not copied and may be shared."""
    return {
        "instancePath": path,
        "schemaPath": schema_path,
        "keyword": keyword,
        "params": params,
        "message": message,
    }


def missing(name: str, path: str = "", schema_path: str = "#/required") -> Failure:
    """Return the failure of an object that lacks a property."""
    message = f"must have required property '{name}'"
    return failure(path, schema_path, "required", {"missingProperty": name}, message)


def refusal(failures: Sequence[Failure]) -> BadRequest:
    """Return the error for these failures; it lists `MOST_LISTED` of them at most."""
    return BadRequest("validation failed", list(failures[:MOST_LISTED]))


def pointer(name: object) -> str:
    """Return a name as one part of an ``instancePath``, with the slash before it."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


def moved(failures: Sequence[Failure], prefix: str) -> Failures:
    """Return the failures of a value that is itself at a place in the data."""
    return [{**each, "instancePath": f"{prefix}{each['instancePath']}"} for each in failures]


def without_prefix(error: BadRequest, prefix: str) -> BadRequest:
    """Return the error about a value that was put at a place only to validate it.

    Args:
        error: The error. One that lists no failures stays as it is.
        prefix: The place, as the beginning of an ``instancePath``.
    """
    if not is_array(error.data):
        return error
    return refusal(
        [{**each, "instancePath": each["instancePath"].removeprefix(prefix)} for each in error.data]
    )


class _Entry(NamedTuple):
    """The form that an error of Pydantic takes.

    Attributes:
        keyword: The keyword of JSON Schema.
        message: The message, with ``{}`` for the value in the error's context.
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


def _type(name: str) -> _Entry:
    return _Entry("type", f"must be {name}", "type", fixed=name)


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
"""By the beginning of the type, for all types that `TABLE` does not name."""

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
"""Errors about a property whose place is the object that lacks or has it."""

_OF_TEXT = {"too_short": "string_too_short", "too_long": "string_too_long"}
"""Pydantic has one type for the lengths of lists and of secret texts."""


def failures_of_model(error: ValidationError, value: object) -> Failures:
    """Return the failures that an error of Pydantic means.

    Args:
        error: The error.
        value: What was validated. The way to each failure is followed in it, since Pydantic names
            the members of a union among the properties.

    Raises:
        BadRequest: There are more than `MOST_COUNTED`.
    """
    if error.error_count() > MOST_COUNTED:
        raise BadRequest("The data has too many failures to list them; send less at a time")
    # Without the URLs of Pydantic's pages: they take time to make, and failures do not have them.
    details = error.errors(include_url=False)[:MOST_LISTED]
    return [_failure_of(detail, value) for detail in details]


def _failure_of(detail: ErrorDetails, value: object) -> Failure:
    type_, loc = detail["type"], detail["loc"]
    if type_ in _OF_TEXT and isinstance(detail["input"], str | SecretStr):
        type_ = _OF_TEXT[type_]
    # Pydantic's mark for a key of a dict that is not valid: in Ajv, a name that is not allowed.
    if loc and loc[-1] == "[key]":
        type_, loc = "extra_forbidden", loc[:-1]
    entry = TABLE.get(type_) or next(
        (entry for prefix, entry in _PREFIXES.items() if type_.startswith(prefix)), None
    )
    name: object = None
    if type_ in _OF_THE_HOLDER:
        *holder, name = loc
        loc = tuple(holder)
    path = ""
    for step in loc:
        # Pydantic names the members of unions, too: what does not exist in the value is left out.
        if is_array(value):
            exists = isinstance(step, int) and step < len(value)
        else:
            exists = is_mapping(value) and step in value
        if exists:
            value = cast(Any, value)[step]
            path += pointer(step)
    if entry is None:
        # Pydantic puts these before the message of an application's validator.
        message = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        return failure(path, f"#{path}/{type_}", type_, {}, message)
    context = detail.get("ctx", {})
    argument = name if type_ in _OF_THE_HOLDER else context.get(str(entry.context), entry.fixed)
    params = {entry.param: argument}
    if entry.comparison is not None:
        params["comparison"] = entry.comparison
    message = entry.message.format(argument)
    return failure(path, f"#{path}/{entry.keyword}", entry.keyword, params, message)
