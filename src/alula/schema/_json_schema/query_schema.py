"""The JSON Schema of the queries for records, made from the JSON Schema of a record.

Also which operators and filters a query's schema opens: the grammar of the adapters opens the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from alula.query._grammar import COMMON_FILTERS, COMMON_OPERATORS, Operand, operand_types
from alula.schema._failures import SchemaError
from alula.types import is_array, is_list, is_mapping

__all__ = [
    "LEVELS",
    "NOTHING_OPENED",
    "Extensions",
    "Opened",
    "beside_the_common",
    "check_extensions",
    "names_opened",
    "query_schema",
]

Extensions: TypeAlias = Mapping[str, Mapping[str, Any]]

LEVELS: Final = 4
"""How many parts a dotted name may have."""
_TYPE_NAMES: Final[Mapping[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}
_OPERANDS: Final[Mapping[Operand, Any]] = {
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "count": {"type": "integer", "minimum": 0},
    "any": True,
}
_DIRECTION: Final = {"type": "integer", "enum": [1, -1]}
_CRITERIA: Final = "QueryCriteria"
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf")
_COMMON: Final = COMMON_FILTERS | COMMON_OPERATORS


class Opened(NamedTuple):
    """What a service opens for its queries by options of its own.

    Attributes:
        operators: The operators beside the common ones.
        filters: The filters beside the common ones.
        paths: Paths into properties without a schema, with the type of their values.
    """

    operators: frozenset[str] = frozenset()
    filters: frozenset[str] = frozenset()
    paths: tuple[tuple[str, type], ...] = ()


NOTHING_OPENED: Final = Opened()


def query_schema(
    described: Mapping[str, Any], extensions: Extensions, opened: Opened = NOTHING_OPENED
) -> dict[str, Any]:
    """Return the schema of queries. It is closed: it names all that a query may have.

    Args:
        described: The properties of a record, or the schema of a record (of type ``object``).
        extensions: As `query_syntax` takes them.
        opened: What the service itself opens.

    Raises:
        SchemaError: The schema has no properties, or an extension is for a property that it lacks.
    """
    whole = described.get("type") == "object"
    properties = described.get("properties") if whole else described
    if not is_mapping(properties):
        raise SchemaError("query_syntax: there are no properties; give those of a record")
    for name, field in properties.items():
        if not isinstance(field, Mapping | bool):
            raise SchemaError(f"query_syntax: the property {name!r} is {field!r}, not a schema")
        # In a query it could not be distinguished from an operator.
        if not name or name[0] == "$":
            raise SchemaError(f"query_syntax: a property cannot be called {name!r}")
    definitions: Mapping[str, Any] = described.get("$defs", {}) if whole else {}
    fields = dict(_flat(properties, definitions))
    for path, type_ in opened.paths:
        if path.partition(".")[0] in fields:
            fields.setdefault(path, {"type": _TYPE_NAMES[type_]})
    filters = {**dict.fromkeys(opened.filters, True), **check_extensions(extensions, fields)}
    criteria: dict[str, Any] = {
        name: _criterion(field, extensions.get(name, {}), definitions, opened.operators)
        for name, field in fields.items()
    }
    # MongoDB refuses an empty `$or`.
    branches = {"type": "array", "minItems": 1, "items": {"$ref": f"#/$defs/{_CRITERIA}"}}
    criteria |= {"$or": branches, "$and": branches}
    return {
        **_closed(
            {
                "$limit": {"type": "integer", "minimum": 0},
                "$skip": {"type": "integer", "minimum": 0},
                "$sort": _closed(dict.fromkeys(fields, _DIRECTION)),
                "$select": _listed({"type": "string", "enum": list(fields)}),
                **filters,
                **criteria,
            }
        ),
        "$defs": {**definitions, _CRITERIA: _closed(criteria)},
    }


def check_extensions(extensions: Extensions, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extensions that are filters.

    Raises:
        SchemaError: One is for an unknown property, or has a name that is not an operator.
    """
    filters: dict[str, Any] = {}
    for name, extension in extensions.items():
        if name[:1] == "$":
            filters[name] = extension
        elif name not in fields:
            raise SchemaError(
                f"extensions: {name!r} is not a property; there are {', '.join(fields)}"
            )
        else:
            for operator in extension:
                if operator[:1] != "$":
                    raise SchemaError(
                        f"extensions of {name!r}: {operator!r} is not an operator;"
                        " they begin with '$'"
                    )
    return filters


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
        # A record may contain itself, so that its dotted names would have no end.
        if level < LEVELS:
            yield from _flat(
                inner.get("properties", {}), definitions, f"{before}{name}.", level + 1
            )


def _resolved(schema: object, definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that a property has by a reference to a definition, or itself."""
    ref = schema.get("$ref") if is_mapping(schema) else None
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        schema = definitions.get(ref.removeprefix("#/$defs/"))
    return schema if is_mapping(schema) else {}


def _criterion(
    schema: object,
    extension: Mapping[str, Any],
    definitions: Mapping[str, Any],
    opened: Collection[str],
) -> dict[str, Any]:
    """Return the schema of the condition on one property: a value, or operators."""
    value: object = schema
    inner = _resolved(schema, definitions)
    if "array" in _types(inner) and "items" in inner:
        # In a query, a list matches by one of its elements, too.
        value = {"anyOf": [inner["items"], schema]}
    kinds: dict[Operand, Any] = {**_OPERANDS, "value": value, "list": _listed(value)}
    tests: dict[str, Any] = operand_types(kinds, opened)
    if "$not" in opened:
        tests["$not"] = _closed({name: test for name, test in tests.items() if name != "$not"})
    operators = _closed({**tests, **extension})
    # Where a value may be any object, operators come first: else they would pass as a value.
    types = _types(inner)
    scalar = types and not types & {"array", "object"}
    return {"anyOf": [value, operators] if scalar else [operators, value]}


def _listed(item: object) -> dict[str, Any]:
    """Return the schema of a list of items, which a query string may send as its only item."""
    return {"type": "array", "items": item, "x-list-of-one": True}


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a schema names: one, or a list."""
    named = schema.get("type")
    names = named if is_array(named) else (named,)
    return {name for name in names if isinstance(name, str)}  # the compiler refuses others


def names_opened(schema: object) -> tuple[frozenset[str], frozenset[str]]:
    """Return the operators and the filters that a query's schema names beside the common ones.

    A property whose name begins with ``$`` is a filter in the schema of the query itself, and an
    operator anywhere below.
    """
    operators: set[str] = set()
    filters: set[str] = set()
    waiting: list[tuple[Any, bool]] = [(schema, True)]
    while waiting:
        part, is_query = waiting.pop()
        if is_list(part):
            waiting += [(item, False) for item in part]
        if not is_mapping(part):
            continue
        properties = part.get("properties")
        if is_mapping(properties):
            names = filters if is_query else operators
            names.update(name for name in properties if name[:1] == "$")
        for keyword, below in part.items():
            if is_query and keyword in _IN_PLACE:
                waiting += [(branch, True) for branch in below]
            elif is_query and keyword == "properties":
                waiting += [(inner, False) for inner in below.values()]
            else:
                waiting.append((below, False))
    return beside_the_common(operators), beside_the_common(filters)


def beside_the_common(names: Iterable[str]) -> frozenset[str]:
    """Return the names that are not in the common query syntax."""
    return frozenset(names) - _COMMON
