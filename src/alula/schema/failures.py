"""What is wrong with a value, in the one shape that front ends know, and what a check is.

Every check is a function of a value, the JSON pointer at which it stands and the list of failures
so far. It returns the value to go on with, which is the same object unless something in it was
converted, and it never changes the value that it got.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from alula.errors import BadRequest

__all__ = [
    "MOST_TOLD",
    "Check",
    "Failure",
    "Failures",
    "SchemaError",
    "accept",
    "failure",
    "in_sequence",
    "missing",
    "passes",
    "refusal",
]

Failure: TypeAlias = dict[str, Any]
"""``instancePath``, ``schemaPath``, ``keyword``, ``params`` and ``message``, as Ajv has them."""

Failures: TypeAlias = list[Failure]

MOST_TOLD = 1_000
"""How many failures an answer lists: a body of a megabyte could hold hundreds of thousands."""

Check: TypeAlias = Callable[[Any, str, Failures], Any]


class SchemaError(ValueError):
    """A schema or a model that can not be used; the text says where in it and why."""


def failure(
    path: str, schema_path: str, keyword: str, params: Mapping[str, Any], message: str
) -> Failure:
    """Return one failure; `params` is the keyword's own and may be shared."""
    return {
        "instancePath": path,
        "schemaPath": schema_path,
        "keyword": keyword,
        "params": params,
        "message": message,
    }


def missing(name: str) -> Failure:
    """Return the failure of a record that lacks a property."""
    message = f"must have required property '{name}'"
    return failure("", "#/required", "required", {"missingProperty": name}, message)


def refusal(failures: Failures) -> BadRequest:
    """Return the error that a caller gets for these failures, `MOST_TOLD` of them at most."""
    return BadRequest("validation failed", failures[:MOST_TOLD])


def accept(value: Any, _path: str, _failures: Failures) -> Any:
    """Find nothing wrong with any value."""
    return value


def passes(check: Check, value: Any, path: str = "") -> bool:
    """Say whether a check finds nothing wrong with a value."""
    failures: Failures = []
    check(value, path, failures)
    return not failures


def in_sequence(checks: Sequence[Check]) -> Check:
    """Return the check that makes all of these, each with what the one before returned."""
    if not checks:
        return accept
    if len(checks) == 1:
        return checks[0]

    def all_of(value: Any, path: str, failures: Failures) -> Any:
        for check in checks:
            value = check(value, path, failures)
        return value

    return all_of
