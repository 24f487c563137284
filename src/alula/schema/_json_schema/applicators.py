"""Checks of objects and of what is in them.

An object is a mapping here: the other values that count as objects, such as object ids, have
nothing in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from alula.query._values import is_mapping
from alula.schema._failures import MOST_TOLD, Check, Failures, failure, in_sequence
from alula.schema._json_schema.location import Schema, Spot
from alula.schema._json_schema.patterns import pattern_of

__all__ = [
    "defaults",
    "dependent_required",
    "dependent_schemas",
    "members",
    "property_names",
    "required",
]


def pointer(name: object) -> str:
    """Return a name as one part of an ``instancePath``, with the slash before it."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


def defaults(spot: Spot, schema: Schema) -> Check | None:
    """Return what puts the defaults of absent properties in, None where there are none."""
    given = {
        name: below["default"]
        for name, below in schema["properties"].items()
        if isinstance(below, Mapping) and "default" in below
    }
    if not (given and spot.fills and spot.settings.defaults):
        return None

    def fill(value: Any, _path: str, _failures: Failures) -> Any:
        if not is_mapping(value):
            return value
        absent = {name: deepcopy(given[name]) for name in given if name not in value}
        return {**value, **absent} if absent else value

    return fill


def required(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``required``."""
    where, names = spot.at("required"), tuple(schema["required"])

    def check(value: Any, path: str, failures: Failures) -> Any:
        if is_mapping(value):
            for name in names:
                if name not in value:
                    params = {"missingProperty": name}
                    message = f"must have required property '{name}'"
                    failures.append(failure(path, where, "required", params, message))
        return value

    return check


def dependent_required(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``dependentRequired``."""
    where, needs = spot.at("dependentRequired"), schema["dependentRequired"]

    def check(value: Any, path: str, failures: Failures) -> Any:
        if is_mapping(value):
            for name, wanted in needs.items():
                for missing in wanted if name in value else ():
                    if missing not in value:
                        failures.append(_unmet(path, where, name, wanted, missing))
        return value

    return check


def _unmet(path: str, where: str, name: str, wanted: list[str], missing: str) -> dict[str, Any]:
    listed = ", ".join(wanted)
    params = {
        "property": name,
        "missingProperty": missing,
        "depsCount": len(wanted),
        "deps": listed,
    }
    noun = "property" if len(wanted) == 1 else "properties"
    message = f"must have {noun} {listed} when property {name} is present"
    return failure(path, where, "dependentRequired", params, message)


def dependent_schemas(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``dependentSchemas``."""
    checks = {
        name: spot.check(below, "dependentSchemas", name, branch=True)
        for name, below in schema["dependentSchemas"].items()
    }

    def check(value: Any, path: str, failures: Failures) -> Any:
        if is_mapping(value):
            for name, one in checks.items():
                if name in value:
                    value = one(value, path, failures)
        return value

    return check


def property_names(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``propertyNames``."""
    one = spot.check(schema["propertyNames"], "propertyNames", branch=True)
    where = spot.at("propertyNames")

    def check(value: Any, path: str, failures: Failures) -> Any:
        for name in value if is_mapping(value) else ():
            if len(failures) > MOST_TOLD:
                break  # nobody is told of more
            own: Failures = []
            one(name, path, own)
            if own:
                params = {"propertyName": name}
                message = "property name must be valid"
                failures += [
                    *({**each, "propertyName": name} for each in own),
                    failure(path, where, "propertyNames", params, message),
                ]
        return value

    return check


Unknown = Callable[[str, Any, str, Failures], Any]
"""Checks a property that the schema does not name: the name, the value, the object's path."""


def members(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``properties``, ``patternProperties`` and ``additionalProperties``."""
    patterns = [
        (
            pattern_of(spot, text, "patternProperties", text).search,
            spot.check(below, "patternProperties", text),
        )
        for text, below in schema.get("patternProperties", {}).items()
    ]
    known: dict[str, tuple[str, Check]] = {}
    for name, below in schema.get("properties", {}).items():
        matching = [one for search, one in patterns if search(name)]
        own = spot.check(below, "properties", name)
        known[name] = pointer(name), in_sequence([own, *matching])
    unknown = _unknown(spot, schema.get("additionalProperties", True), patterns)

    def check(value: Any, path: str, failures: Failures) -> Any:
        if not is_mapping(value):
            return value
        changed: dict[str, Any] | None = None
        for name, item in value.items():
            entry = known.get(name)
            if entry is not None:
                new = entry[1](item, path + entry[0], failures)
            else:
                new = unknown(name, item, path, failures)
            if len(failures) > MOST_TOLD:
                break  # nobody is told of more
            if new is not item:
                changed = dict(value) if changed is None else changed
                changed[name] = new
        return value if changed is None else changed

    return check


def _unknown(
    spot: Spot, additional: Any, patterns: Sequence[tuple[Callable[[str], Any], Check]]
) -> Unknown:
    """Return the check of properties that are not named, by pattern or as additional ones."""
    other = _additional(spot, additional)
    if not patterns:
        return other

    def check(name: str, item: Any, path: str, failures: Failures) -> Any:
        matching = [one for search, one in patterns if search(name)]
        if not matching:
            return other(name, item, path, failures)
        return in_sequence(matching)(item, path + pointer(name), failures)

    return check


def _additional(spot: Spot, additional: Any) -> Unknown:
    if additional is True:
        return lambda _name, item, _path, _failures: item
    where, message = spot.at("additionalProperties"), "must NOT have additional properties"
    if additional is not False:
        one = spot.check(additional, "additionalProperties")
        return lambda name, item, path, failures: one(item, path + pointer(name), failures)

    def refuse(name: str, item: Any, path: str, failures: Failures) -> Any:
        params = {"additionalProperty": name}
        failures.append(failure(path, where, "additionalProperties", params, message))
        return item

    return refuse
