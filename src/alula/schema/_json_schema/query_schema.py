"""The JSON Schema of the common query syntax for the records that a schema describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from alula.schema._failures import SchemaError

__all__ = ["LEVELS", "LISTED", "ORDERED", "check_extensions", "query_schema"]

Extensions: TypeAlias = Mapping[str, Mapping[str, Any]]

ORDERED = ("$gt", "$gte", "$lt", "$lte", "$ne")
"""The common operators that take a value of the property's type."""
LISTED = ("$in", "$nin")
"""The common operators that take a list of these."""
LEVELS = 4
"""How many parts a dotted name may have."""
_DIRECTION = {"type": "integer", "enum": [1, -1]}
_CRITERIA = "QueryCriteria"


def query_schema(described: Mapping[str, Any], extensions: Extensions) -> dict[str, Any]:
    """Return the schema of queries.

    Args:
        described: The properties of a record, or the schema of a record (of type ``object``).
        extensions: As `query_syntax` takes them.

    Raises:
        SchemaError: The schema does not say its properties, or an extension is for none of them.
    """
    properties, definitions = _parts(described)
    fields = dict(_flat(properties, definitions))
    filters = check_extensions(extensions, fields)
    criteria: dict[str, Any] = {
        name: _field(each, extensions.get(name, {}), definitions) for name, each in fields.items()
    }
    branches = {"type": "array", "minItems": 1, "items": {"$ref": f"#/$defs/{_CRITERIA}"}}
    criteria |= {"$or": branches, "$and": branches}
    return {
        **_closed(
            {
                "$limit": {"type": "integer", "minimum": 0},
                "$skip": {"type": "integer", "minimum": 0},
                "$sort": _closed(dict.fromkeys(fields, _DIRECTION)),
                "$select": {"type": "array", "items": {"type": "string", "enum": list(fields)}},
                **filters,
                **criteria,
            }
        ),
        "$defs": {**definitions, _CRITERIA: _closed(criteria)},
    }


def check_extensions(extensions: Extensions, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return those extensions that are filters.

    Raises:
        SchemaError: One is for no property, or names no operator.
    """
    filters = {}
    for name, extension in extensions.items():
        if name[:1] == "$":
            filters[name] = extension
        elif name not in fields:
            raise SchemaError(f"extensions: {name!r} is no property; there are {', '.join(fields)}")
        else:
            for operator in extension:
                if operator[:1] != "$":
                    raise SchemaError(
                        f"extensions of {name!r}: {operator!r} is no operator; they begin with '$'"
                    )
    return filters


def _parts(described: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the properties and the definitions of what describes a record."""
    whole = described.get("type") == "object"
    properties = described.get("properties") if whole else described
    if not isinstance(properties, Mapping):
        raise SchemaError("query_syntax: there are no properties; give those of a record")
    for name, each in properties.items():
        if not isinstance(each, Mapping | bool):
            raise SchemaError(f"query_syntax: the property {name!r} is {each!r} and no schema")
        if not name or name[0] == "$":
            raise SchemaError(f"query_syntax: a property can not be called {name!r}")
    return properties, described.get("$defs", {}) if whole else {}


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}


def _flat(
    properties: Mapping[str, Any], definitions: Mapping[str, Any], before: str = "", level: int = 1
) -> Iterator[tuple[str, Any]]:
    """Yield each property with its schema, and those inside objects and lists by dotted names."""
    for name, schema in properties.items():
        yield before + name, schema
        inner = _resolved(schema, definitions)
        if "array" in _types(inner):
            inner = _resolved(inner.get("items", {}), definitions)
        if level < LEVELS:
            yield from _flat(
                inner.get("properties", {}), definitions, f"{before}{name}.", level + 1
            )


def _resolved(schema: Any, definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that a property has by a reference to a definition, or itself."""
    ref = schema.get("$ref") if isinstance(schema, Mapping) else None
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        schema = definitions.get(ref.removeprefix("#/$defs/"))
    return schema if isinstance(schema, Mapping) else {}


def _field(
    schema: Any, extension: Mapping[str, Any], definitions: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the schema of what a query may ask of one property."""
    value = schema
    inner = _resolved(schema, definitions)
    if "array" in _types(inner) and "items" in inner:
        value = {"anyOf": [inner["items"], schema]}  # a list matches by one of its elements, too
    operators = _closed(
        {
            **dict.fromkeys(ORDERED, value),
            **{name: {"type": "array", "items": value} for name in LISTED},
            **extension,
        }
    )
    # What may be any object is asked last, so that operators are never taken for a value.
    types = _types(inner)
    scalar = types and not types & {"array", "object"}
    return {"anyOf": [value, operators] if scalar else [operators, value]}


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a schema names, which are one or a list."""
    named = schema.get("type")
    several = named if isinstance(named, list | tuple) else (named,)
    return {each for each in several if isinstance(each, str)}  # others are told by the compiler
