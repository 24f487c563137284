"""What is wrong with a value, in the one shape that front ends know, and what a check is.

Every check is a function of a value, the JSON pointer at which it stands and the list of failures
so far. It returns the value to go on with, which is the same object unless something in it was
converted, and it never changes the value that it got.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from alula.errors import BadRequest
from alula.query._budget import MAX_STEPS

__all__ = [
    "MOST_TOLD",
    "Check",
    "Failure",
    "Failures",
    "SchemaError",
    "Work",
    "accept",
    "failure",
    "in_sequence",
    "missing",
    "passes",
    "refusal",
    "work",
]

Failure: TypeAlias = dict[str, Any]
"""``instancePath``, ``schemaPath``, ``keyword``, ``params`` and ``message``, as Ajv has them."""

Failures: TypeAlias = list[Failure]

MOST_TOLD = 1_000
"""How many failures an answer lists: a body of a megabyte could hold hundreds of thousands."""

Check: TypeAlias = Callable[[Any, str, Failures], Any]


_STEPS_OF_A_VISIT = 120


class Work(threading.local):
    """The steps that one check of a value may still take: it waits for nothing, so one a thread.

    What costs a fixed number of steps for each element of a value is not counted: bodies have a
    limit. What can cost the product of two things that clients choose is.

    Attributes:
        left: How many are left; None outside of a check.
    """

    left: int | None = None

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()

    def begin(self) -> int | None:
        """Begin a check, one within another included; returns what `end` takes."""
        before = self.left
        if before is None:
            self.left = MAX_STEPS
        return before

    def end(self, before: int | None) -> None:
        """End it."""
        if before is None:
            self.left = None
            self._seen.clear()

    def visit(self, value: Any, reference: int) -> None:
        """Count that a reference is followed for a value, from the second time on.

        Where several branches lead to one reference, each level of the value doubles the work.

        Raises:
            BadRequest: It is too much.
        """
        if self.left is not None and (type(value) is dict or type(value) is list):
            visit = id(value), reference
            if visit in self._seen:
                self.spend(_STEPS_OF_A_VISIT)
            self._seen.add(visit)

    def spend(self, steps: int) -> None:
        """Count work.

        Raises:
            BadRequest: It is too much.
        """
        if self.left is not None:
            self.left -= steps
            if self.left < 0:
                raise BadRequest("The data takes too long to check; send less at a time")


class SchemaError(ValueError):
    """A schema or a model that can not be used; the text says where in it and why."""


work = Work()
"""The work of the check that runs in this thread."""


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
