"""JSON Schemas as OpenAPI shows them: under names, in words that every client understands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["OBJECT_ID", "Components", "name_of_component", "without_demands"]

OBJECT_ID: Final = {"type": "string", "pattern": "^[0-9a-fA-F]{24}$"}
_DATE: Final = {"type": "string", "format": "date-time"}
# Keywords that convert, and what a client sends where they stand.
_CONVERTED: Final[Mapping[str, Any]] = {"objectid": OBJECT_ID, "date": _DATE}
_DROPPED: Final = frozenset({"$schema", "$id", "$defs", "definitions"})
_AS_DATA: Final = frozenset({"default", "const", "enum", "examples", "example"})
_BY_NAME: Final = frozenset({"properties", "$defs", "definitions"})
_DEMANDS: Final = frozenset({"required", "dependentRequired", "minProperties"})
_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Components:
    """The schemas of one description, by name.

    Attributes:
        schemas: What stands under ``components.schemas``.
    """

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}
        self._names = {"Error"}

    def name_for(self, path: str) -> str:
        """Return a name for what belongs to a service, which no other service gets."""
        name = name_of_component(path.replace("/", "_").replace(":", "")) or "root"
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def add(self, name: str, schema: Any) -> dict[str, str]:
        """Put a schema and its definitions in, and return the reference to it."""
        name = name_of_component(name)
        self.schemas[name] = self.shown(schema, name)
        for key in ("$defs", "definitions"):
            for inner, definition in (schema.get(key) or {}).items():
                self.schemas[name_of_component(f"{name}.{inner}")] = self.shown(definition, name)
        return {"$ref": f"#/components/schemas/{name}"}

    def shown(self, schema: Any, owner: str) -> Any:
        """Return a schema as it is shown, references to definitions of ``owner`` included."""
        if isinstance(schema, list):
            return [self.shown(each, owner) for each in schema]
        if not isinstance(schema, Mapping):
            return schema
        for keyword, plain in _CONVERTED.items():
            if schema.get(keyword) is True:
                rest = {name: value for name, value in schema.items() if name != keyword}
                return {**self.shown(rest, owner), **plain}
        shown = {
            name: value if name in _AS_DATA else self._value(name, value, owner)
            for name, value in schema.items()
            if name not in _DROPPED
        }
        return _simpler(shown)

    def _value(self, name: str, value: Any, owner: str) -> Any:
        if name == "$ref" and isinstance(value, str):
            return _moved(value, owner)
        if name == "properties" and isinstance(value, Mapping):
            return {inner: self.shown(each, owner) for inner, each in value.items()}
        return self.shown(value, owner)


def without_demands(schema: Any) -> Any:
    """Return a schema in which no property has to be there, at any depth: a query selects some."""
    if isinstance(schema, list):
        return [without_demands(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: {inner: without_demands(each) for inner, each in value.items()}
        if name in _BY_NAME and isinstance(value, Mapping)
        else (value if name in _AS_DATA else without_demands(value))
        for name, value in schema.items()
        if name not in _DEMANDS
    }


def name_of_component(text: str) -> str:
    """Return a name that can stand under ``components``."""
    return _NOT_A_NAME.sub("_", text)


def _moved(reference: str, owner: str) -> str:
    for prefix in ("#/$defs/", "#/definitions/"):
        if reference.startswith(prefix):
            inner = reference.removeprefix(prefix).replace("~1", "/").replace("~0", "~")
            return f"#/components/schemas/{name_of_component(f'{owner}.{inner}')}"
    return f"#/components/schemas/{owner}" if reference == "#" else reference


def _simpler(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without choices between the same thing."""
    choices = schema.get("anyOf")
    if not isinstance(choices, list):
        return schema
    different: list[Any] = []
    for choice in choices:
        if choice not in different:
            different.append(choice)
    if len(different) > 1:
        return {**schema, "anyOf": different}
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**different[0], **rest} if isinstance(different[0], dict) else schema
