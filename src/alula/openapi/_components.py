"""JSON Schemas as OpenAPI shows them: as components with names."""

from __future__ import annotations

import re
from typing import Any, Final

from alula._json_schema import Schema
from alula._service_facts import SENT_FORMS
from alula.types import is_list, is_mapping

__all__ = [
    "Components",
    "without_defaults",
    "without_required",
]

# Definitions become components. An `$id` would make references lead to another document.
_DROPPED: Final = frozenset({"$schema", "$id", "$defs", "definitions"})
# Values and not schemas: an example may have a key "properties" itself.
_AS_DATA: Final = frozenset({"default", "const", "enum", "examples", "example"})
_BY_NAME: Final = frozenset({"properties", "$defs", "definitions"})
_REQUIRING: Final = frozenset({"required", "dependentRequired", "minProperties"})
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_DEFINITION: Final = re.compile(r"#/(?:\$defs|definitions)/(.*)", re.DOTALL)


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
        for keyword, sent in SENT_FORMS.items():
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
            elif name == "discriminator" and is_mapping(value):
                shown[name] = self._shown_discriminator(value, owner)
            elif name == "properties" and is_mapping(value):
                shown[name] = {inner: self.shown(each, owner) for inner, each in value.items()}
            elif name not in _DROPPED:
                shown[name] = self.shown(value, owner)
        return _without_equal_choices(shown)

    def _shown_discriminator(self, discriminator: Schema, owner: str) -> Any:
        """Return what tells the members of a union apart, with references to components."""
        mapping = discriminator.get("mapping")
        if not is_mapping(mapping):
            return discriminator
        targets = {
            value: self.shown({"$ref": target}, owner)["$ref"] for value, target in mapping.items()
        }
        return {**discriminator, "mapping": targets}


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
