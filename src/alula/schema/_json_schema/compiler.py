"""A schema -> one function that checks and converts a value.

`jsonschema` walks a schema again for every value and can not hand a converted value back, so the
keywords are compiled, once: `MAKERS` lists what makes the check of each, in the order in which
they run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, TypeAlias

from referencing.exceptions import Unresolvable

from alula.schema._failures import Check, Failures, accept, failure, in_sequence, work
from alula.schema._json_schema import applicators, arrays, assertions, branches, unevaluated
from alula.schema._json_schema.bounds import BOUNDED
from alula.schema._json_schema.documents import check_keywords
from alula.schema._json_schema.json_types import coercion, kind_test
from alula.schema._json_schema.location import Schema, Spot
from alula.types import UNSET, SchemaKeyword

__all__ = ["Compiler"]

Maker: TypeAlias = Callable[[Spot, Schema], Check | None]


_NUMBERS = count()
"""Numbers of references, of all compilers."""


class Compiler:
    """Compiles one schema; knows the targets of references that it has met."""

    def __init__(self) -> None:
        self._made: dict[Any, Check] = {}
        references = [([name], partial(self._referred, name)) for name in ("$ref", "$dynamicRef")]
        self._makers: Sequence[tuple[Sequence[str], Maker]] = [*references, *MAKERS]

    def __call__(self, schema: Any, spot: Spot) -> Check:
        """Return the check of a schema that stands at a spot.

        Raises:
            SchemaError: Something in it makes no sense.
        """
        if isinstance(schema, bool):
            return accept if schema else _refuse(spot)
        if spot.settings.strict:
            _look_for_unknown(spot, schema)
        schema = {name: schema[name] for name in schema if name not in spot.ignored}
        return _typed(spot, schema, self._checks(spot, schema), _conversions(spot, schema))

    def _checks(self, spot: Spot, schema: Schema) -> list[Check]:
        wanted = (make for names, make in self._makers if any(name in schema for name in names))
        found = (make(spot, schema) for make in wanted)
        return [check for check in found if check is not None and check is not accept]

    def _referred(self, keyword: str, spot: Spot, schema: Schema) -> Check:
        """Return the check of a reference's target, compiled once for all that lead to it."""
        key, found = _target(spot, keyword, schema[keyword])
        made = self._made
        if key not in made:
            number = next(_NUMBERS)

            def later(value: Any, path: str, failures: Failures) -> Any:
                work.visit(value, number)
                return made[key](value, path, failures)

            made[key] = later  # for references to it from within
            chain = (*spot.chain, key)
            inner = replace(spot, path=schema[keyword], resolver=found.resolver, chain=chain)
            made[key] = self(found.contents, inner)
        return made[key]


MAKERS: Sequence[tuple[Sequence[str], Maker]] = [
    (["const"], assertions.const),
    (["enum"], assertions.enum),
    (["not"], branches.negated),
    (["anyOf"], branches.any_of),
    (["oneOf"], branches.one_of),
    (["allOf"], branches.all_of),
    (["if"], branches.conditional),
    (["properties"], applicators.defaults),
    *(([name], make) for name, make in BOUNDED.items()),
    (["multipleOf"], assertions.multiple_of),
    (["pattern"], assertions.matching),
    (["format"], assertions.formatted),
    (["contains"], arrays.contains),
    (["prefixItems", "items"], arrays.items),
    (["uniqueItems"], arrays.unique_items),
    (["required"], applicators.required),
    (["dependentRequired"], applicators.dependent_required),
    (["propertyNames"], applicators.property_names),
    (["properties", "patternProperties", "additionalProperties"], applicators.members),
    (["dependentSchemas"], applicators.dependent_schemas),
    (["unevaluatedItems"], unevaluated.unevaluated_items),
    (["unevaluatedProperties"], unevaluated.unevaluated_properties),
]
"""What makes a check, and the keywords that call for it. It may find that there is none."""


def _refuse(spot: Spot) -> Check:
    where, message = f"{spot.path}/false schema", "boolean schema is false"

    def check(value: Any, path: str, failures: Failures) -> Any:
        failures.append(failure(path, where, "false schema", {}, message))
        return value

    return check


def _typed(
    spot: Spot, schema: Schema, checks: Sequence[Check], conversions: Sequence[Check]
) -> Check:
    """Return the check of ``type`` and of all others; a value of a wrong type is not converted."""
    every = in_sequence([*checks, *conversions])
    if "type" not in schema:
        return every
    names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    matches, others = kind_test(names), in_sequence(checks)
    coerce = coercion(names) if spot.settings.coerce else None
    where, params = spot.at("type"), {"type": schema["type"]}
    message = f"must be {','.join(names)}"

    def check(value: Any, path: str, failures: Failures) -> Any:
        if not matches(value):
            new = UNSET if coerce is None else coerce(value)
            if new is UNSET:
                failures.append(failure(path, where, "type", params, message))
                return others(value, path, failures)
            value = new
        return value if every is accept else every(value, path, failures)

    return check


def _conversions(spot: Spot, schema: Schema) -> list[Check]:
    """Return the checks of keywords that convert, in the order of the schema."""
    own = spot.settings.keywords
    return [_conversion(spot, own[name], schema[name]) for name in schema if name in own]


def _conversion(spot: Spot, keyword: SchemaKeyword, given: Any) -> Check:
    where, params = spot.at(keyword.name), {"keyword": keyword.name}

    def check(value: Any, path: str, failures: Failures) -> Any:
        try:
            return keyword.convert(value, given)
        except (TypeError, ValueError):
            failures.append(failure(path, where, keyword.name, params, keyword.message))
            return value

    return check


def _target(spot: Spot, keyword: str, ref: str) -> tuple[Any, Any]:
    """Return a key for the target of a reference, and the target."""
    try:
        found = spot.resolver.lookup(ref)
        document = found.resolver.lookup("").contents
    except Unresolvable as error:
        raise spot.error(f"{ref!r} leads nowhere", keyword) from error
    scope = tuple(dict.fromkeys(uri for uri, _ in found.resolver.dynamic_scope()))
    key = id(found.contents), id(document), scope, spot.fills, spot.ignored
    if key in spot.chain:
        raise spot.error(f"{ref!r} leads back to itself without end", keyword)
    return key, found


def _look_for_unknown(spot: Spot, schema: Schema) -> None:
    """Raise for keywords that nobody knows, here and in definitions that nobody may refer to."""
    check_keywords(schema, spot.path, spot.settings.keywords)
    for name, below in schema.get("$defs", {}).items():
        spot.check(below, "$defs", name)
