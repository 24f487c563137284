"""Keywords that apply subschemas: to the same value, to properties, to items.

Two rules hold here:

- A branch that fails converts nothing: the next one gets the value as it was before.
- An object is a mapping. Other values of the type ``object``, such as object ids, have nothing in
  them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeAlias

from alula.schema._failures import MOST_LISTED, Failures, failure, pointer
from alula.schema._json_schema.compiler import (
    Check,
    Schema,
    SchemaLocation,
    accept,
    in_sequence,
    passes,
)
from alula.schema._json_schema.formats import pattern_of
from alula.types import is_array, is_mapping

__all__ = [
    "all_of",
    "any_of",
    "conditional",
    "contains",
    "defaults",
    "dependent_schemas",
    "items",
    "members",
    "negated",
    "one_of",
    "property_names",
]

# -- to the same value ---------------------------------------------------------------------------


def all_of(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``allOf``."""
    # In sequence, and not as branches: all of them apply. What one coerces, the next one sees, and
    # their defaults are filled in, as in Ajv.
    subschemas = enumerate(schema["allOf"])
    return in_sequence([location.compile(below, "allOf", index) for index, below in subschemas])


def any_of(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``anyOf``: the first branch that the value passes converts it."""
    branches = _branches(location, schema, "anyOf")
    where, message = location.path_to("anyOf"), "must match a schema in anyOf"

    def check(value: object, path: str, failures: Failures) -> object:
        tried: Failures = []
        for branch in branches:
            # A list for each branch: in a full one, it would end early and seem to pass.
            of_branch: Failures = []
            new = branch(value, path, of_branch)
            if not of_branch:
                return new
            tried += of_branch[: MOST_LISTED - len(tried)]
        failures += [*tried, failure(path, where, "anyOf", {}, message)]
        return value

    return check


def one_of(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``oneOf``."""
    branches = _branches(location, schema, "oneOf")
    where, message = location.path_to("oneOf"), "must match exactly one schema in oneOf"

    def check(value: object, path: str, failures: Failures) -> object:
        tried: Failures = []
        passed: list[tuple[int, object]] = []
        for index, branch in enumerate(branches):
            of_branch: Failures = []  # as in `any_of`
            new = branch(value, path, of_branch)
            if of_branch:
                tried += of_branch[: MOST_LISTED - len(tried)]
            else:
                passed.append((index, new))
        if len(passed) == 1:
            return passed[0][1]
        # Ajv names the first two that pass, however many there are.
        params = {"passingSchemas": [index for index, _ in passed[:2]] or None}
        failures += [*tried, failure(path, where, "oneOf", params, message)]
        return value

    return check


def _branches(location: SchemaLocation, schema: Schema, keyword: str) -> list[Check]:
    return [
        # As in Ajv, defaults in a branch that may not apply are ignored.
        location.compile(below, keyword, index, branch=True)
        for index, below in enumerate(schema[keyword])
    ]


def negated(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``not``."""
    one, where = location.compile(schema["not"], "not", branch=True), location.path_to("not")

    def check(value: object, path: str, failures: Failures) -> object:
        if passes(one, value, path):
            failures.append(failure(path, where, "not", {}, "must NOT be valid"))
        return value

    return check


def conditional(location: SchemaLocation, schema: Schema) -> Check | None:
    """Return the check of ``if`` with ``then`` and ``else``, None where neither is there."""
    condition = location.compile(schema["if"], "if", branch=True)
    where = location.path_to("if")
    then, otherwise = (
        location.compile(schema[keyword], keyword, branch=True) if keyword in schema else accept
        for keyword in ("then", "else")
    )

    def check(value: object, path: str, failures: Failures) -> object:
        # A condition that is not met only chooses the branch: the value may still be valid.
        unmet: Failures = []
        new = condition(value, path, unmet)
        keyword, branch, value = ("else", otherwise, value) if unmet else ("then", then, new)
        before = len(failures)
        new = branch(value, path, failures)
        if len(failures) > before:
            params, message = {"failingKeyword": keyword}, f'must match "{keyword}" schema'
            failures.append(failure(path, where, "if", params, message))
        return new

    return check if "then" in schema or "else" in schema else None


def dependent_schemas(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``dependentSchemas``."""
    checks = {
        name: location.compile(below, "dependentSchemas", name, branch=True)
        for name, below in schema["dependentSchemas"].items()
    }

    def check(value: object, path: str, failures: Failures) -> object:
        if is_mapping(value):
            present = [one for name, one in checks.items() if name in value]
            return in_sequence(present)(value, path, failures)
        return value

    return check


# -- to properties -------------------------------------------------------------------------------


def defaults(location: SchemaLocation, schema: Schema) -> Check | None:
    """Return what fills in the defaults of absent properties, None where there are none."""
    given = {
        name: below["default"]
        for name, below in schema["properties"].items()
        if is_mapping(below) and "default" in below
    }
    if not (given and location.fills_defaults and location.settings.defaults):
        return None

    def fill(value: object, _path: str, _failures: Failures) -> object:
        if not is_mapping(value):
            return value
        # A copy for each record: a hook may change a list that is a default.
        absent = {name: deepcopy(given[name]) for name in given if name not in value}
        return {**value, **absent} if absent else value

    return fill


PropertyCheck: TypeAlias = Callable[[str, Any, str, Failures], Any]
"""Checks a property that the schema does not name: the name, the value, the object's path."""


def members(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``properties``, ``patternProperties`` and ``additionalProperties``."""
    patterns = [
        (
            pattern_of(location, text, "patternProperties", text).search,
            location.compile(below, "patternProperties", text),
        )
        for text, below in schema.get("patternProperties", {}).items()
    ]
    known: dict[str, tuple[str, Check]] = {}
    for name, below in schema.get("properties", {}).items():
        matching = [one for search, one in patterns if search(name)]
        # Patterns are matched against declared names now, not for each value.
        declared = location.compile(below, "properties", name)
        known[name] = pointer(name), in_sequence([declared, *matching])
    additional = _additional(location, schema.get("additionalProperties", True))

    def by_pattern(name: str, item: object, path: str, failures: Failures) -> object:
        matching = [one for search, one in patterns if search(name)]
        # A property that a pattern matches is not an additional one.
        if not matching:
            return additional(name, item, path, failures)
        return in_sequence(matching)(item, path + pointer(name), failures)

    unknown = by_pattern if patterns else additional

    def check(value: object, path: str, failures: Failures) -> object:
        if not is_mapping(value):
            return value
        changed: dict[str, Any] | None = None  # most values need no copy
        for name, item in value.items():
            entry = known.get(name)
            if entry is not None:
                below, one = entry
                new = one(item, path + below, failures)
            else:
                new = unknown(name, item, path, failures)
            if failures and len(failures) > MOST_LISTED:
                break  # the response does not list more
            if new is not item:
                changed = dict(value) if changed is None else changed
                changed[name] = new
        return value if changed is None else changed

    return check


def _additional(location: SchemaLocation, additional: Any) -> PropertyCheck:
    if additional is True:
        return lambda _name, item, _path, _failures: item
    if additional is not False:
        one = location.compile(additional, "additionalProperties")
        return lambda name, item, path, failures: one(item, path + pointer(name), failures)
    where = location.path_to("additionalProperties")
    message = "must NOT have additional properties"

    def refuse(name: str, item: object, path: str, failures: Failures) -> object:
        params = {"additionalProperty": name}
        failures.append(failure(path, where, "additionalProperties", params, message))
        return item

    return refuse


def property_names(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``propertyNames``."""
    one = location.compile(schema["propertyNames"], "propertyNames", branch=True)
    where, message = location.path_to("propertyNames"), "property name must be valid"

    def check(value: object, path: str, failures: Failures) -> object:
        for name in value if is_mapping(value) else ():
            if len(failures) > MOST_LISTED:
                break  # the response does not list more
            of_name: Failures = []
            one(name, path, of_name)
            if of_name:
                params = {"propertyName": name}
                failures += [
                    *({**inner, "propertyName": name} for inner in of_name),
                    failure(path, where, "propertyNames", params, message),
                ]
        return value

    return check


# -- to items ------------------------------------------------------------------------------------


def items(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``prefixItems`` and ``items`` together."""
    first = [
        location.compile(below, "prefixItems", index)
        for index, below in enumerate(schema.get("prefixItems", ()))
    ]
    rest, most = schema.get("items", True), len(first)
    closed = rest is False and bool(first)
    other = None if rest is True or closed else location.compile(rest, "items")
    where, message = location.path_to("items"), f"must NOT have more than {most} items"

    def check(value: object, path: str, failures: Failures) -> object:
        if not is_array(value):
            return value
        # As in Ajv: one failure with the limit, not one for each further item.
        if closed and len(value) > most:
            failures.append(failure(path, where, "items", {"limit": most}, message))
        changed: list[Any] | None = None
        for index, item in enumerate(value):
            one = first[index] if index < most else other
            # Neither this item nor those behind it have a schema.
            if one is None:
                break
            new = one(item, f"{path}/{index}", failures)
            if len(failures) > MOST_LISTED:
                break  # the response does not list more
            if new is not item:
                changed = list(value) if changed is None else changed
                changed[index] = new
        return value if changed is None else changed

    return check


def contains(location: SchemaLocation, schema: Schema) -> Check:
    """Return the check of ``contains``; the items that match are converted."""
    one = location.compile(schema["contains"], "contains", branch=True)
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    where, params = location.path_to("contains"), {"minContains": least}
    message = f"must contain at least {least} valid item(s)"
    if most is not None:
        params["maxContains"] = most
        message = f"must contain at least {least} and no more than {most} valid item(s)"

    def check(value: object, path: str, failures: Failures) -> object:
        if not is_array(value):
            return value
        new, matches = list(value), 0
        tried: Failures = []
        for index, item in enumerate(value):
            of_item: Failures = []
            converted = one(item, f"{path}/{index}", of_item)
            if of_item:
                # A body of 1 MB can have hundreds of thousands of wrong items.
                tried += of_item[: MOST_LISTED - len(tried)]
            else:
                new[index] = converted
                matches += 1
        if matches < least or (most is not None and matches > most):
            failures += [*tried, failure(path, where, "contains", params, message)]
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new

    return check
