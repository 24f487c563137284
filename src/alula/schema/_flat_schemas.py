"""Flat JSON Schemas: what a schema says about a value itself, without references and choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Final

from alula.types import is_mapping

__all__ = ["alternatives", "index_of", "types_of"]

_IN_PLACE: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
_MOST_ALTERNATIVES: Final = 32
_HIGHEST: Final = frozenset({"minimum", "exclusiveMinimum", "minItems"})
_LOWEST: Final = frozenset({"maximum", "exclusiveMaximum", "maxItems"})


def index_of(name: str) -> int | None:
    """Return the index that a part of a path means, None for other names."""
    is_index = name.isdecimal() and name.isascii() and len(name) <= 9  # int() of more takes long
    return int(name) if is_index and str(int(name)) == name else None


def types_of(schema: Mapping[str, Any], otherwise: Sequence[str]) -> Sequence[str]:
    """Return the types that a schema names."""
    named = schema.get("type", otherwise)
    return (named,) if isinstance(named, str) else tuple(named)


def alternatives(schema: Any, subschema: Callable[[str], Any]) -> list[Mapping[str, Any]]:
    """Return flat schemas without ``$ref``, ``allOf``, ``anyOf`` and ``oneOf``: a value meets one.

    They say what update operators need to know: types and limits. A schema with very many, or one
    that refers to itself, counts as one that says nothing.

    Args:
        schema: The schema.
        subschema: Returns what a JSON pointer leads to.
    """
    try:
        return _flattened(schema, subschema)
    except (OverflowError, RecursionError):
        return [{}]


def _flattened(schema: Any, subschema: Callable[[str], Any]) -> list[Mapping[str, Any]]:
    if not is_mapping(schema):
        return [] if schema is False else [{}]
    groups: list[list[Mapping[str, Any]]] = [
        [{name: value for name, value in schema.items() if name not in _IN_PLACE}]
    ]
    if "$ref" in schema:
        reference = str(schema["$ref"])
        target = subschema(reference) if reference.startswith("#") else True
        groups.append(_flattened(target, subschema))
    groups += [_flattened(part, subschema) for part in schema.get("allOf", ())]
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            branches = (_flattened(branch, subschema) for branch in schema[keyword])
            groups.append([flat for branch in branches for flat in branch])
    flat: list[Mapping[str, Any]] = [{}]
    for group in groups:
        if len(flat) * len(group) > _MOST_ALTERNATIVES:
            raise OverflowError
        flat = [_both(*pair) for pair in product(flat, group)]
    return flat


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a flat schema that says what two say."""
    both = {**one, **other}
    for name in one.keys() & other.keys():
        if name in _HIGHEST:
            both[name] = max(one[name], other[name])
        elif name in _LOWEST:
            both[name] = min(one[name], other[name])
        elif name == "required":
            both[name] = [*one[name], *other[name]]
        elif name == "type":
            both[name] = [type_ for type_ in types_of(one, ()) if type_ in types_of(other, ())]
    return both
