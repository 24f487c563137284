"""The parameters of a query, as OpenAPI shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from alula._json_schema import Schema, choices_of, resolved
from alula.openapi._components import Components
from alula.types import is_mapping

__all__ = ["open_parameters", "query_parameters"]

_SIZE: Final = {"type": "integer", "minimum": 0}
_DESCRIPTIONS: Final = {
    "$limit": "How many records at most.",
    "$skip": "How many records to skip.",
    "$select": "The fields to return; the id is always among them.",
}


def query_parameters(
    schema: Schema, owner: str, components: Components, *, only: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the parameters for a query whose schema is known.

    ``$or`` and ``$and`` are left out: OpenAPI cannot express them.

    Args:
        schema: The schema of queries.
        owner: The component that this schema is.
        components: For references.
        only: The names that are wanted; all if there are none.
    """
    schemas: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        if name in {"$or", "$and"} or (only and name not in only):
            continue
        if name == "$sort":
            sort = resolved(field, schema)
            # The query schema of a JSON Schema lists properties, that of a Pydantic model names.
            directions = sort.get("properties") or dict.fromkeys(
                sort.get("propertyNames", {}).get("enum", ()), sort.get("additionalProperties", {})
            )
            schemas |= {f"$sort[{key}]": direction for key, direction in directions.items()}
        elif name[:1] == "$":
            schemas[name] = field
        else:
            schemas |= _conditions(name, field, schema)
    return [_parameter(name, components.shown(field, owner)) for name, field in schemas.items()]


def open_parameters(*, paging: bool, find: bool) -> list[dict[str, Any]]:
    """Return the parameters for a query whose schema is not known.

    Args:
        paging: Whether an adapter reads it, which knows the query syntax.
        find: Whether it is for `find`; other methods read ``$select`` only.
    """
    select = _parameter("$select", {"type": "array", "items": {"type": "string"}})
    if paging and not find:
        return [select]
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    # In this style each key of the object is a parameter of its own.
    free = {
        "name": "query",
        "in": "query",
        "description": "Any field, and in brackets an operator: name=Ada, age[$gt]=18.",
        "style": "form",
        "explode": True,
        "schema": texts,
    }
    if not paging:
        return [free]
    order = {"type": "object", "additionalProperties": {"type": "integer", "enum": [1, -1]}}
    return [
        _parameter("$limit", _SIZE),
        _parameter("$skip", _SIZE),
        select,
        # OpenAPI's name for brackets: $sort[name]=1.
        {"name": "$sort", "in": "query", "style": "deepObject", "explode": True, "schema": order},
        free,
    ]


def _parameter(name: str, schema: object) -> dict[str, Any]:
    parameter: dict[str, Any] = {"name": name, "in": "query", "schema": schema}
    if name in _DESCRIPTIONS:
        parameter["description"] = _DESCRIPTIONS[name]
    if is_mapping(schema) and "array" in _types(schema):
        # An empty list has no form in a query string, and a list of one value needs the brackets:
        # `$select=name` is a text.
        listed = {"minItems": 1, **schema}
        parameter |= {"name": f"{name}[]", "style": "form", "explode": True, "schema": listed}
    return parameter


def _conditions(name: str, schema: object, whole: Schema) -> dict[str, Any]:
    """Return the parameters for one field with their schemas: a value, and operators."""
    values: list[Schema] = []
    operators: dict[str, Any] = {}
    for choice in choices_of(schema, whole):
        named = {key: of for key, of in choice.get("properties", {}).items() if key[:1] == "$"}
        operators |= named
        types = _types(choice)
        if not named and (not types or types - {"object", "array", "null"}):
            values.append(choice)
    conditions: dict[str, Any] = {}
    if values:
        conditions[name] = values[0] if len(values) == 1 else {"anyOf": values}
    for operator, argument in operators.items():
        if _fits_a_url(argument, whole):
            conditions[f"{name}[{operator}]"] = argument
    return conditions


def _fits_a_url(schema: object, whole: Schema) -> bool:
    """Return whether a value, or the items of a list, can be written as text."""
    return any(
        _fits_a_url(choice.get("items", {}), whole)
        if "array" in _types(choice)
        else "object" not in _types(choice)
        for choice in choices_of(schema, whole)
    )


def _types(schema: Schema) -> set[str]:
    """Return the types that a schema names: one, or a list."""
    named = schema.get("type", ())
    return {named} if isinstance(named, str) else set(named)
