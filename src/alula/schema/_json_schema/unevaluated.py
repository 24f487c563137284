"""``unevaluatedProperties`` and ``unevaluatedItems``: what no other keyword has looked at.

What the keywords of a schema look at is found by functions of their own, which are made only where
one of the two is used: they take a value that the schema accepts, and return names or indexes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from functools import reduce
from operator import getitem
from typing import Any, TypeAlias

from alula.query._values import is_mapping
from alula.schema._failures import Check, Failures, failure, passes
from alula.schema._json_schema.applicators import pointer
from alula.schema._json_schema.json_types import is_array
from alula.schema._json_schema.location import Schema, Spot
from alula.schema._json_schema.patterns import pattern_of

__all__ = ["unevaluated_items", "unevaluated_properties"]

Seen: TypeAlias = Callable[[Any], Set[Any]]
OwnParts: TypeAlias = Callable[[Spot, Schema], Iterator[Seen]]
"""What the keywords of a schema itself look at, without the schemas that apply in place."""


def unevaluated_properties(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``unevaluatedProperties``."""
    keyword = "unevaluatedProperties"
    seen, below = _rest(spot, schema, keyword, _names), schema[keyword]
    where, message = spot.at(keyword), "must NOT have unevaluated properties"
    one = spot.check(below, keyword)

    def check(value: Any, path: str, failures: Failures) -> Any:
        if not is_mapping(value):
            return value
        known = seen(value)
        changed = {}
        for name in [name for name in value if name not in known]:
            if below is False:
                params = {"unevaluatedProperty": name}
                failures.append(failure(path, where, keyword, params, message))
            else:
                changed[name] = one(value[name], path + pointer(name), failures)
        return {**value, **changed} if changed else value

    return check


def unevaluated_items(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``unevaluatedItems``."""
    keyword = "unevaluatedItems"
    seen, below = _rest(spot, schema, keyword, _indexes), schema[keyword]
    where, one = spot.at(keyword), spot.check(below, keyword)

    def check(value: Any, path: str, failures: Failures) -> Any:
        if not is_array(value):
            return value
        known = seen(value)
        left = [index for index in range(len(value)) if index not in known]
        if left and below is False:
            message = f"must NOT have more than {left[0]} items"
            failures.append(failure(path, where, keyword, {"limit": left[0]}, message))
            return value
        new = list(value)
        for index in left:
            new[index] = one(value[index], f"{path}/{index}", failures)
        return new if left else value

    return check


def _rest(spot: Spot, schema: Schema, keyword: str, own: OwnParts) -> Seen:
    return _seen(spot, {name: schema[name] for name in schema if name != keyword}, own)


def _seen(spot: Spot, schema: Any, own: OwnParts) -> Seen:
    """Return what finds all that a schema looks at."""
    if isinstance(schema, bool):
        return lambda _value: frozenset()
    parts = [*own(spot, schema), *_in_place(spot, schema, own)]
    return lambda value: frozenset().union(*(part(value) for part in parts))


def _in_place(spot: Spot, schema: Schema, own: OwnParts) -> Iterator[Seen]:
    """Yield what the schemas that apply to the same value look at."""

    def below(*names: Any) -> Seen:
        inner: Any = reduce(getitem, names, schema)
        spot_of_it = spot.below(inner, *names, branch=True)
        return _where_valid(spot.compile(inner, spot_of_it), _seen(spot_of_it, inner, own))

    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from (below(keyword, index) for index in range(len(schema.get(keyword, ()))))
    for name in schema.get("dependentSchemas", ()):
        yield _where_present(name, below("dependentSchemas", name))
    if "if" in schema:
        yield from _by_condition(spot, schema, below)
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            yield _referred(spot, schema[keyword], own)


def _where_valid(check: Check, seen: Seen) -> Seen:
    return lambda value: seen(value) if passes(check, value) else frozenset()


def _where_present(name: str, seen: Seen) -> Seen:
    return lambda value: seen(value) if is_mapping(value) and name in value else frozenset()


def _by_condition(spot: Spot, schema: Schema, below: Callable[..., Seen]) -> Iterator[Seen]:
    yield below("if")
    if "then" in schema:
        yield _where_valid(spot.check(schema["if"], "if", branch=True), below("then"))
    if "else" in schema:
        negation = spot.check({"not": schema["if"]}, "if", branch=True)
        yield _where_valid(negation, below("else"))


def _referred(spot: Spot, ref: str, own: OwnParts) -> Seen:
    """Return what the target of a reference looks at; one that led back has been refused."""
    found = spot.resolver.lookup(ref)
    return _seen(replace(spot, resolver=found.resolver), found.contents, own)


def _names(spot: Spot, schema: Schema) -> Iterator[Seen]:
    """Yield what finds the names that a schema's own keywords look at."""
    if "properties" in schema:
        yield frozenset(schema["properties"]).intersection
    for text in schema.get("patternProperties", ()):
        yield _names_like(pattern_of(spot, text, "patternProperties", text))
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        yield frozenset


def _names_like(pattern: re.Pattern[str]) -> Seen:
    return lambda value: frozenset(filter(pattern.search, value))


def _indexes(spot: Spot, schema: Schema) -> Iterator[Seen]:
    """Yield what finds the indexes that a schema's own keywords look at."""
    first = frozenset(range(len(schema.get("prefixItems", ()))))
    yield lambda _value: first
    if "items" in schema or "unevaluatedItems" in schema:
        yield lambda value: frozenset(range(len(value)))
    if "contains" in schema:
        yield _indexes_of(spot.check(schema["contains"], "contains", branch=True))


def _indexes_of(check: Check) -> Seen:
    return lambda value: frozenset(index for index, item in enumerate(value) if passes(check, item))
