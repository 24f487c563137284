"""The schemas of what the methods of a service declare by annotations."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from alula._declared import Declared
from alula._json_schema import Schema
from alula._service_facts import query_schema_of, schema_of
from alula.openapi._components import Components
from alula.types import UNSET, Page, is_list, is_mapping

__all__ = [
    "DeclaredSchemas",
    "error_schema",
    "page_of",
    "statuses_of",
]

_NONE: Final = type(None)
_union: Any = Union  # makes a type from values, which type checkers cannot see


class DeclaredSchemas:
    """Adds what is declared to the components of a description.

    Args:
        name: The name of the service, for its components.
        components: Takes the schemas.
    """

    def __init__(self, name: str, components: Components) -> None:
        self._name = name
        self._components = components

    def data(self, method: str, declared: Declared) -> Schema | None:
        """Return the schema of a method's data, None for a method that takes none."""
        if declared.data is _NONE:
            return None
        return self._shown(f"{self._name}.{method}", declared.data, is_result=False)

    def result(self, method: str, declared: Declared | None) -> tuple[Schema | None, bool]:
        """Return the schema of a result, None if it is always empty, and whether it may be so."""
        type_ = UNSET if declared is None else declared.result
        if type_ is UNSET:
            return {}, True
        if type_ is _NONE:
            return None, True
        choices = get_args(type_) if get_origin(type_) in {Union, UnionType} else (type_,)
        some = [each for each in choices if each is not _NONE]
        name = f"{self._name}.{method}Result"
        if not any(get_origin(each) is Page for each in some):
            whole = type_ if len(some) == len(choices) else _union[tuple(some)]
            return self._shown(name, whole, is_result=True), len(some) < len(choices)
        shown = [self._result_or_page(name, each) for each in some]
        return (shown[0] if len(shown) == 1 else {"anyOf": shown}), len(some) < len(choices)

    def item(self, method: str, declared: Declared) -> Schema:
        """Return the schema of an item of a stream."""
        if declared.result is UNSET:
            return {}
        return self._shown(f"{self._name}.{method}Item", declared.result, is_result=True)

    def _result_or_page(self, name: str, type_: Any) -> Schema:
        if get_origin(type_) is not Page:
            return self._shown(name, type_, is_result=True)
        records = _list_of(self._shown(name, get_args(type_)[0], is_result=True))
        return page_of(records)

    def parameters(self, declared: Declared) -> list[dict[str, Any]]:
        """Return the parameters of a declared query."""
        if not declared.has_query:
            return []
        schema = query_schema_of(declared)
        owner = f"{self._name}.Query"
        if "$defs" in schema:  # parameters refer to them
            self._components.add(owner, schema)
        required = schema.get("required", ())
        return [
            self._parameter(name, field, owner, is_required=name in required)
            for name, field in schema.get("properties", {}).items()
        ]

    def _parameter(
        self, name: str, field: Schema, owner: str, *, is_required: bool
    ) -> dict[str, Any]:
        shown = _in_a_query(self._components.shown(field, owner), self._components.schemas)
        parameter: dict[str, Any] = {"name": name, "in": "query"}
        if (about := shown.pop("description", None)) is not None:
            parameter["description"] = about
        if shown.get("type") == "array":
            parameter |= {"style": "form", "explode": True}
        parameter["schema"] = shown
        return {**parameter, "required": True} if is_required else parameter

    def path_parameter(self, name: str, types: list[Any]) -> dict[str, Any]:
        """Return the parameter of a path.

        Args:
            name: Its name.
            types: The types that methods declare for it; if they differ, it is text.
        """
        schema: Schema = {"type": "string"}
        if types and all(each == types[0] for each in types):
            found = schema_of(types[0], is_result=False)
            if "$defs" not in found and found.get("type") in {"string", "integer", "number"}:
                schema = {key: value for key, value in found.items() if key != "title"}
        return {"name": name, "in": "path", "required": True, "schema": schema}

    def _shown(self, name: str, type_: Any, *, is_result: bool) -> Schema:
        """Return a schema: a reference for what has a name, otherwise the schema itself."""
        if get_origin(type_) is list:
            items = self._shown(name, get_args(type_)[0], is_result=is_result)
            return _list_of(items)
        schema = schema_of(type_, is_result=is_result)
        if "$defs" in schema or "properties" in schema:
            return self._components.add(name, schema)
        shown: Schema = self._components.shown(schema, name)
        return shown


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def page_of(records: Schema) -> Schema:
    """Return the schema of a page."""
    sizes = {name: {"type": "integer"} for name in ("total", "limit", "skip")}
    properties = {**sizes, "data": records}
    return {"type": "object", "properties": properties, "required": list(properties)}


def statuses_of(declared: Declared | None) -> list[str]:
    """Return the statuses of the errors that a method declares."""
    errors = () if declared is None else declared.errors
    return sorted({str(error.code) for error in errors})


def error_schema(type_: object) -> Schema:
    """Return the JSON Schema of the bodies of errors.

    Raises:
        TypeError: Pydantic does not know the type, or it has no JSON Schema.
    """
    try:
        schema = schema_of(type_, is_result=True)
    except ValueError as error:  # Pydantic does not know the type
        raise TypeError(f"openapi(error={type_!r}): {error}") from error
    if not schema:
        raise TypeError(f"openapi(error={type_!r}): this type has no JSON Schema")
    return schema


def _in_a_query(field: Any, schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter: null is its absence, and a choice is shown in place."""
    shown: dict[str, Any] = {key: value for key, value in field.items() if key != "title"}
    if shown.get("default", UNSET) is None:
        del shown["default"]
    choices = shown.get("anyOf")
    if is_list(choices):
        rest = [each for each in choices if each != {"type": "null"}]
        if len(rest) == 1 and is_mapping(rest[0]):
            del shown["anyOf"]
            shown = {**rest[0], **shown}
        else:
            shown["anyOf"] = rest
    target = schemas.get(str(shown.get("$ref", "")).rpartition("/")[2])
    if is_mapping(target) and "enum" in target:
        shown = {key: value for key, value in target.items() if key != "title"}
    return shown
