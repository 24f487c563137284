"""Places in a record that a path such as ``items.0.price`` leads to, by the record's JSON Schema.

There are as many places as subschemas, however long the path of a client is: a reference leads to
the place of its target, and all items of a list are one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from alula.schema._flat_schemas import alternatives, index_of, types_of
from alula.schema._json_schema.compiler import path_part
from alula.schema._json_schema.formats import python_pattern
from alula.types import is_array, is_mapping

__all__ = ["RECORD_URI", "JsonPlace", "JsonPlaces"]

_Node: TypeAlias = tuple[Any, ...]
"""``("$ref", pointer)``, or ``("allOf", *nodes)`` or ``("anyOf", *nodes)``."""

_Compile: TypeAlias = Callable[[Mapping[str, Any]], Callable[[Any], Any]]

_OPEN: Final[_Node] = ("allOf",)
_ANY_INDEX: Final = "999999999"

RECORD_URI: Final = "urn:alula:record"
"""The name of the record's schema in references from others."""


class JsonPlaces:
    """Finds places in the records that a JSON Schema describes.

    Args:
        schema: The schema of data, made of dicts and lists.
        compile: Makes the function that validates by a schema, which refers to `RECORD_URI`.
    """

    def __init__(self, schema: Mapping[str, Any], compile: _Compile) -> None:
        self._schema = schema
        self.compile = compile
        self._places: dict[_Node, JsonPlace] = {}

    @property
    def root(self) -> JsonPlace:
        """The place of the record itself."""
        return self.place(("$ref", "#"))

    def place(self, node: _Node) -> JsonPlace:
        """Return the place of a node."""
        place = self._places.get(node)
        if place is None:
            place = self._places[node] = JsonPlace(self, node)
        return place

    def subschema(self, pointer: str) -> Any:
        """Return what a JSON pointer leads to, False if it leads nowhere."""
        found: Any = self._schema
        for part in pointer.removeprefix("#").split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if is_array(found):
                found = found[int(name)] if name.isdecimal() and int(name) < len(found) else False
            else:
                found = found.get(name, False) if is_mapping(found) else False
        return found

    def below(self, node: _Node, name: str) -> _Node | None:
        """Return what a node says of a property or an item; None if there must be none."""
        kind, *parts = node
        if kind == "$ref":
            return self._below_pointer(parts[0], name)
        if kind == "allOf":
            return _all(self.below(part, name) for part in parts)
        return _any(self.below(part, name) for part in parts)

    def _below_pointer(self, pointer: str, name: str) -> _Node | None:
        schema = self.subschema(pointer)
        if not is_mapping(schema):
            return _OPEN if schema is True else None
        steps = _steps(schema, name)
        if steps is None:
            return None
        found: list[_Node | None] = [("$ref", f"{pointer}/{step}") for step in steps]
        if (reference := schema.get("$ref")) is not None:
            is_local = str(reference).startswith("#")
            found.append(self._below_pointer(reference, name) if is_local else None)
        parts = range(len(schema.get("allOf", ())))
        found += [self._below_pointer(f"{pointer}/allOf/{at}", name) for at in parts]
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                branches = range(len(schema[keyword]))
                found.append(
                    _any(self._below_pointer(f"{pointer}/{keyword}/{at}", name) for at in branches)
                )
        return _all(found)


class JsonPlace:
    """A place in a record; see `alula.schema._changes.Place`."""

    def __init__(self, places: JsonPlaces, node: _Node) -> None:
        self._places = places
        self._node = node
        self._validate: Callable[[Any], Any] | None = None
        self.alternatives = alternatives(_schema_of(node, ""), places.subschema)

    def validate(self, value: object) -> Any:
        """Return a value of this place with all conversions made.

        Raises:
            BadRequest: It is not valid.
        """
        if self._validate is None:
            self._validate = self._places.compile(_schema_of(self._node, RECORD_URI))
        return self._validate(value)

    def below(self, name: str) -> tuple[str, JsonPlace] | None:
        """Return the stored name and the place of a property or an item, None if there is none."""
        node = self._places.below(self._node, name)
        return None if node is None else (name, self._places.place(node))

    def has_to_have(self, name: str) -> bool:
        """Tell whether every value of this place has a property."""
        objects = [each for each in self.alternatives if "object" in types_of(each, ("object",))]
        return all(name in each.get("required", ()) for each in objects)

    def item(self) -> JsonPlace | None:
        """Return the place of new items, None if values of this place are not lists."""
        is_list = any("array" in types_of(each, ("array",)) for each in self.alternatives)
        below = self.below(_ANY_INDEX) if is_list else None
        return None if below is None else below[1]


def _all(nodes: Iterable[_Node | None]) -> _Node | None:
    parts: list[_Node] = []
    for node in nodes:
        if node is None:
            return None
        if node != _OPEN and node not in parts:
            parts.append(node)
    return parts[0] if len(parts) == 1 else ("allOf", *parts)


def _any(nodes: Iterable[_Node | None]) -> _Node | None:
    parts = list(dict.fromkeys(node for node in nodes if node is not None))
    if not parts:
        return None
    if _OPEN in parts:
        return _OPEN
    return parts[0] if len(parts) == 1 else ("anyOf", *parts)


def _schema_of(node: _Node, uri: str) -> dict[str, Any]:
    kind, *parts = node
    if kind == "$ref":
        return {"$ref": f"{uri}{parts[0]}"}
    return {kind: [_schema_of(part, uri) for part in parts]} if parts else {}


def _steps(schema: Mapping[str, Any], name: str) -> list[str] | None:
    """Return the steps to what an object or a list says of an entry, None if it cannot have it."""
    types = types_of(schema, ("array", "object"))
    index = index_of(name)
    if "array" in types and index is not None and "properties" not in schema:
        if index < len(schema.get("prefixItems", ())):
            return [f"prefixItems/{index}"]
        if "items" not in schema:
            return []
        return None if schema["items"] is False else ["items"]
    if "object" not in types:
        return None
    steps = [f"properties/{path_part(name)}"] if name in schema.get("properties", {}) else []
    steps += [
        f"patternProperties/{path_part(pattern)}"
        for pattern in schema.get("patternProperties", {})
        if re.search(python_pattern(pattern), name)
    ]
    if steps or "additionalProperties" not in schema:
        return steps
    return None if schema["additionalProperties"] is False else ["additionalProperties"]
