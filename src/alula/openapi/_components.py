"""JSON Schemas as OpenAPI shows them: as components with names, and as parameters of queries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from alula.types import is_list, is_mapping

__all__ = [
    "OBJECT_ID",
    "Components",
    "Schema",
    "open_parameters",
    "query_parameters",
    "without_defaults",
    "without_required",
]

Schema: TypeAlias = Mapping[str, Any]

OBJECT_ID: Final = {"type": "string", "pattern": "^[0-9a-fA-F]{24}$"}
_DATE: Final = {"type": "string", "format": "date-time"}
# Keywords that convert, and what a client sends for them.
_CONVERTED: Final[Mapping[str, Schema]] = {"objectid": OBJECT_ID, "date": _DATE}
# Definitions become components. An `$id` would make references lead to another document.
_DROPPED: Final = frozenset({"$schema", "$id", "$defs", "definitions"})
# Values and not schemas: an example may have a key "properties" itself.
_AS_DATA: Final = frozenset({"default", "const", "enum", "examples", "example"})
_BY_NAME: Final = frozenset({"properties", "$defs", "definitions"})
_REQUIRING: Final = frozenset({"required", "dependentRequired", "minProperties"})
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_DEFINITION: Final = re.compile(r"#/(?:\$defs|definitions)/(.*)", re.DOTALL)
_LONGEST_CHAIN: Final = 10

_SIZE: Final = {"type": "integer", "minimum": 0}
_DESCRIPTIONS: Final = {
    "$limit": "How many records at most.",
    "$skip": "How many records to skip.",
    "$select": "The fields to return; the id is always among them.",
}


class Components:
    """The schemas of one description, by name.

    Attributes:
        schemas: The entries of ``components.schemas``.
    """

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}
        self._names = {"Error"}

    def name_for(self, path: str) -> str:
        """Return a name for the components of a service; each service gets another one."""
        name = _component_name(path.replace("/", "_").replace(":", "")) or "root"
        # The paths "a/b" and "a_b" must not share their schemas.
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def add(self, name: str, schema: Schema) -> dict[str, str]:
        """Add a schema and its definitions, and return the reference to it."""
        name = _component_name(name)
        self._show(name, schema, name)
        for key in ("$defs", "definitions"):
            definitions: Schema = schema.get(key) or {}
            for inner, definition in definitions.items():
                self._show(_component_name(f"{name}.{inner}"), definition, name)
        return {"$ref": f"#/components/schemas/{name}"}

    def add_record(self, name: str, schema: Schema) -> dict[str, str]:
        """Add the schema of the records of a service, of which clients may get a part.

        Args:
            name: The name of the service, from `name_for`.
            schema: As the service gives it.
        """
        shown = without_required(schema)  # `$select` leaves some out
        shown.pop("additionalProperties", None)  # a resolver may add some
        return self.add(name, shown)

    def _show(self, name: str, schema: object, owner: str) -> None:
        shown = self.shown(schema, owner)
        if is_mapping(shown):
            # Generators of clients call a type by its title if there is one. The record and the
            # data of a service have the same title, so the second one would be left out.
            shown = {keyword: value for keyword, value in shown.items() if keyword != "title"}
        self.schemas[name] = shown

    def shown(self, schema: object, owner: str) -> Any:
        """Return a schema as clients see it. Its references lead to definitions of ``owner``."""
        if is_list(schema):
            return [self.shown(item, owner) for item in schema]
        if not is_mapping(schema):
            return schema
        for keyword, sent in _CONVERTED.items():
            if schema.get(keyword) is True:
                rest = {name: value for name, value in schema.items() if name != keyword}
                return {**self.shown(rest, owner), **sent}
        shown: dict[str, Any] = {}
        for name, value in schema.items():
            if name in _AS_DATA:
                shown[name] = value
            elif name == "$ref" and isinstance(value, str):
                # Definitions are components, under the name of the schema that has them.
                definition = _DEFINITION.fullmatch(value)
                if definition is not None:
                    inner = definition[1].replace("~1", "/").replace("~0", "~")
                    value = f"#/components/schemas/{_component_name(f'{owner}.{inner}')}"  # noqa: PLW2901  # shown below
                shown[name] = f"#/components/schemas/{owner}" if value == "#" else value
            elif name == "properties" and is_mapping(value):
                shown[name] = {inner: self.shown(each, owner) for inner, each in value.items()}
            elif name not in _DROPPED:
                shown[name] = self.shown(value, owner)
        return _without_equal_choices(shown)


def _without_equal_choices(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without equal alternatives: a date and its text are the same to clients."""
    choices = schema.get("anyOf")
    if not is_list(choices):
        return schema
    # Compared one by one: schemas are dicts, which a set cannot hold.
    different = [each for index, each in enumerate(choices) if each not in choices[:index]]
    if len(different) > 1:
        return {**schema, "anyOf": different}
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**different[0], **rest} if isinstance(different[0], dict) else schema


def _component_name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)


def without_defaults(schema: Schema, *, all_of_them: bool) -> Schema:
    """Return the schema of data without defaults of its properties that mislead clients.

    Generators of clients take a property with a default for one that is always there.

    Args:
        schema: The schema.
        all_of_them: Whether no default has an effect, as in a patch. Otherwise only ``null`` goes,
            which says nothing else than that the property is optional.
    """
    properties = schema.get("properties")
    if not is_mapping(properties):
        return schema
    kept = {
        name: {key: value for key, value in field.items() if key != "default"}
        if is_mapping(field) and (all_of_them or field.get("default", 0) is None)
        else field
        for name, field in properties.items()
    }
    return {**schema, "properties": kept}


def without_required(schema: Any) -> Any:
    """Return a schema in which no property is required, at any depth: ``$select`` leaves some out.

    Args:
        schema: A schema, or a part of one.
    """
    if is_list(schema):
        return [without_required(item) for item in schema]
    if not is_mapping(schema):
        return schema
    return {
        name: {inner: without_required(each) for inner, each in value.items()}
        if name in _BY_NAME and is_mapping(value)
        else (value if name in _AS_DATA else without_required(value))
        for name, value in schema.items()
        if name not in _REQUIRING
    }


# -- parameters ----------------------------------------------------------------------------------


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
            sort = _resolved(field, schema)
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
    for choice in _choices(schema, whole):
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
        for choice in _choices(schema, whole)
    )


def _choices(schema: object, whole: Schema) -> Iterator[Schema]:
    """Yield the alternatives that a schema allows."""
    resolved = _resolved(schema, whole)
    inner = resolved.get("anyOf") or resolved.get("oneOf")
    if is_list(inner):
        for alternative in inner:
            yield from _choices(alternative, whole)
    else:
        yield resolved


def _resolved(schema: object, whole: Schema) -> Schema:
    """Return the target of a reference to a definition, or the schema itself."""
    for _ in range(_LONGEST_CHAIN):  # a reference may lead back to itself
        reference = schema.get("$ref") if is_mapping(schema) else None
        if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
            return schema if is_mapping(schema) else {}
        name = reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
        schema = whole.get("$defs", {}).get(name)
    return {}


def _types(schema: Schema) -> set[str]:
    """Return the types that a schema names: one, or a list."""
    named = schema.get("type", ())
    return {named} if isinstance(named, str) else set(named)
