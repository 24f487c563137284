"""Checks that are made of other checks: all, any, one, none of them, or one by a condition.

A branch that fails converts nothing: the next one gets the value as it was before.
"""

from __future__ import annotations

from typing import Any

from alula.schema._failures import Check, Failures, accept, failure, in_sequence, passes
from alula.schema._json_schema.location import Schema, Spot

__all__ = ["all_of", "any_of", "conditional", "negated", "one_of"]


def all_of(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``allOf``."""
    return in_sequence(
        [spot.check(each, "allOf", index) for index, each in enumerate(schema["allOf"])]
    )


def any_of(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``anyOf``: the first branch that the value passes converts it."""
    branches = _branches(spot, schema, "anyOf")
    where, message = spot.at("anyOf"), "must match a schema in anyOf"

    def check(value: Any, path: str, failures: Failures) -> Any:
        tried: Failures = []
        for branch in branches:
            before = len(tried)
            new = branch(value, path, tried)
            if len(tried) == before:
                return new
        failures += [*tried, failure(path, where, "anyOf", {}, message)]
        return value

    return check


def one_of(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``oneOf``."""
    branches = _branches(spot, schema, "oneOf")
    where, message = spot.at("oneOf"), "must match exactly one schema in oneOf"

    def check(value: Any, path: str, failures: Failures) -> Any:
        tried: Failures = []
        passed: list[tuple[int, Any]] = []
        for index, branch in enumerate(branches):
            before = len(tried)
            new = branch(value, path, tried)
            if len(tried) == before:
                passed.append((index, new))
        if len(passed) == 1:
            return passed[0][1]
        params = {"passingSchemas": [index for index, _ in passed[:2]] or None}
        failures += [*tried, failure(path, where, "oneOf", params, message)]
        return value

    return check


def _branches(spot: Spot, schema: Schema, keyword: str) -> list[Check]:
    return [
        spot.check(each, keyword, index, branch=True) for index, each in enumerate(schema[keyword])
    ]


def negated(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``not``."""
    one, where = spot.check(schema["not"], "not", branch=True), spot.at("not")

    def check(value: Any, path: str, failures: Failures) -> Any:
        if passes(one, value, path):
            failures.append(failure(path, where, "not", {}, "must NOT be valid"))
        return value

    return check


def conditional(spot: Spot, schema: Schema) -> Check | None:
    """Return the check of ``if`` with ``then`` and ``else``, None where neither is there."""
    condition = spot.check(schema["if"], "if", branch=True)
    then, otherwise = (_consequence(spot, schema, keyword) for keyword in ("then", "else"))

    def check(value: Any, path: str, failures: Failures) -> Any:
        own: Failures = []
        new = condition(value, path, own)
        return otherwise(value, path, failures) if own else then(new, path, failures)

    return check if "then" in schema or "else" in schema else None


def _consequence(spot: Spot, schema: Schema, keyword: str) -> Check:
    if keyword not in schema:
        return accept
    one, where = spot.check(schema[keyword], keyword, branch=True), spot.at("if")
    params, message = {"failingKeyword": keyword}, f'must match "{keyword}" schema'

    def check(value: Any, path: str, failures: Failures) -> Any:
        before = len(failures)
        new = one(value, path, failures)
        if len(failures) > before:
            failures.append(failure(path, where, "if", params, message))
        return new

    return check
