"""Queries as parameters: whatever a query may ask is one, named as it stands in a URL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from alula.openapi._components import Components

__all__ = ["open_parameters", "query_parameters"]


_SIZE: Final = {"type": "integer", "minimum": 0}

_WORDS: Final = {
    "$limit": "How many records at most.",
    "$skip": "How many records to pass over.",
    "$select": "The fields to answer; the id is always among them.",
}


def query_parameters(
    schema: Mapping[str, Any], owner: str, components: Components, *, only: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Return the parameters for a query whose schema is known.

    ``$or`` and ``$and`` are left out: OpenAPI has no words for them.

    Args:
        schema: The schema of queries.
        owner: The component that this schema is.
        components: For references.
        only: Names that are wanted, all where there are none.
    """
    parameters = []
    for name, each in schema.get("properties", {}).items():
        if name in {"$or", "$and"} or (only and name not in only):
            continue
        if name == "$sort":
            found = [(f"$sort[{field}]", order) for field, order in _orders(each, schema)]
        elif name[:1] == "$":
            found = [(name, each)]
        else:
            found = list(_asked(name, each, schema))
        parameters += [
            _parameter(spelled, components.shown(value, owner)) for spelled, value in found
        ]
    return parameters


def open_parameters(*, paging: bool, find: bool) -> list[dict[str, Any]]:
    """Return the parameters for a query of which nothing is known.

    Args:
        paging: Whether an adapter reads it, which knows the query syntax.
        find: Whether it is for `find`; other methods read ``$select`` only.
    """
    select = _parameter("$select", {"type": "array", "items": {"type": "string"}})
    if paging and not find:
        return [select]
    some = {"type": "object", "additionalProperties": {"type": "string"}}
    free = {
        "name": "query",
        "in": "query",
        "description": "Any field, and in brackets an operator: name=Ada, age[$gt]=18.",
        "style": "form",
        "explode": True,
        "schema": some,
    }
    if not paging:
        return [free]
    order = {"type": "object", "additionalProperties": {"type": "integer", "enum": [1, -1]}}
    return [
        _parameter("$limit", _SIZE),
        _parameter("$skip", _SIZE),
        select,
        {"name": "$sort", "in": "query", "style": "deepObject", "explode": True, "schema": order},
        free,
    ]


def _parameter(name: str, schema: Any) -> dict[str, Any]:
    parameter: dict[str, Any] = {"name": name, "in": "query", "schema": schema}
    if name in _WORDS:
        parameter["description"] = _WORDS[name]
    if isinstance(schema, Mapping) and "array" in _types(schema):
        parameter |= {"style": "form", "explode": True, "schema": {"minItems": 1, **schema}}
    return parameter


def _orders(schema: Any, whole: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Return the fields by which a query may sort, each with its directions."""
    sort = _resolved(schema, whole)
    if "properties" in sort:
        found: Mapping[str, Any] = sort["properties"]
        return found.items()
    names = sort.get("propertyNames", {}).get("enum", ())
    return [(name, sort.get("additionalProperties", {})) for name in names]


def _asked(name: str, schema: Any, whole: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what may be asked of a field: a value, and operators."""
    values, operators = [], {}
    for choice in _choices(schema, whole):
        asked = {each: of for each, of in choice.get("properties", {}).items() if each[:1] == "$"}
        operators.update(asked)
        types = _types(choice)
        if not asked and (not types or types - {"object", "array", "null"}):
            values.append(choice)
    if values:
        yield name, values[0] if len(values) == 1 else {"anyOf": values}
    for operator, each in operators.items():
        if _fits_a_url(each, whole):
            yield f"{name}[{operator}]", each


def _fits_a_url(schema: Any, whole: Mapping[str, Any]) -> bool:
    """Tell whether a value, or the items of a list, can be written as text."""
    return any(
        _fits_a_url(choice.get("items", {}), whole)
        if "array" in _types(choice)
        else "object" not in _types(choice)
        for choice in _choices(schema, whole)
    )


def _choices(schema: Any, whole: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas between which a schema leaves the choice."""
    resolved = _resolved(schema, whole)
    inner = resolved.get("anyOf") or resolved.get("oneOf")
    if isinstance(inner, list):
        for each in inner:
            yield from _choices(each, whole)
    else:
        yield resolved


def _resolved(schema: Any, whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a reference to a definition leads to, or the schema itself."""
    seen = 0
    while isinstance(schema, Mapping) and seen < 10:
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
            return schema
        name = reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
        schema = whole.get("$defs", {}).get(name)
        seen += 1
    return {}


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a schema names, which are one or a list."""
    named = schema.get("type", ())
    return {named} if isinstance(named, str) else set(named)
