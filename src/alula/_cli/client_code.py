"""What ``alula client`` writes: the records of an API as types, and its services as functions."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

__all__ = ["client_code"]

Schema = Mapping[str, Any]

_HEAD: Final = '''"""The services of {title}, with the types of their records.

Written by `alula client`; write it anew where the services have changed.
"""
# ruff: noqa
# fmt: off

from __future__ import annotations

from typing import Any, Literal, TypedDict, overload

from alula.client import (
    Client,
    ClientService,
    SyncClient,
    SyncService,
    TypedService,
    TypedSyncService,
)

__all__ = [
{names}]
'''
_SERVICE: Final = '''

@overload
def {name}(client: Client) -> {waiting}: ...
@overload
def {name}(client: SyncClient) -> {blocking}: ...
def {name}(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service({arguments})
'''
_TYPES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}
_TAKEN: Final = frozenset(
    {"Any", "Client", "ClientService", "Literal", "SyncClient", "SyncService", "TypedDict"}
    | {"TypedService", "TypedSyncService", "bool", "dict", "float", "int", "list", "overload"}
    | {"annotations", "str"}
)
_REFERENCE: Final = "#/components/schemas/"


def client_code(description: Schema) -> str:
    """Return a Python module with a function for each service that an OpenAPI description has.

    Args:
        description: As Alula makes it. A service is a tag; its record is what ``get`` or ``find``
            answers.
    """
    records = _Records(description.get("components", {}).get("schemas", {}))
    services = [_service(tag["name"], description, records) for tag in description["tags"]]
    names = sorted(records.taken - _TAKEN)
    listed = "".join(f'    "{name}",\n' for name in names)
    title = re.sub(r"[^\w .,:/-]", " ", description["info"]["title"])  # it comes into a text
    return "".join([_HEAD.format(title=title, names=listed), *records.code(), *services])


def _service(path: str, description: Schema, records: _Records) -> str:
    """Return the code of a service's function."""
    operations = [
        operation
        for item in description["paths"].values()
        for operation in item.values()
        if isinstance(operation, Mapping) and path in operation.get("tags", ())
    ]
    name = records.free_name("_".join(re.findall(r"\w+", path)).lower())
    record = next(filter(None, map(_record_of, operations)), None)
    methods = tuple(method for each in operations for method in _custom_methods(each))
    arguments = [repr(path)]
    waiting, blocking = "ClientService", "SyncService"
    if record is not None:
        arguments.append(records.name_of(record))
        waiting, blocking = f"TypedService[{arguments[1]}]", f"TypedSyncService[{arguments[1]}]"
    if methods:
        arguments.append(f"methods={methods!r}")
    return _SERVICE.format(
        name=name, waiting=waiting, blocking=blocking, arguments=", ".join(arguments)
    )


def _record_of(operation: Schema) -> str | None:
    """Return the name of the schema that a ``get`` or ``find`` answers records of."""
    if not operation.get("operationId", "").endswith((".get", ".find")):
        return None
    answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
    schema = answer.get("schema", {})
    schema = schema.get("properties", {}).get("data", schema)
    reference = schema.get("items", schema).get("$ref", "")
    return reference.removeprefix(_REFERENCE) or None


def _custom_methods(operation: Schema) -> Iterable[str]:
    """Return the custom methods that a POST may name in its header."""
    for parameter in operation.get("parameters", ()):
        if parameter.get("name") == "X-Service-Method":
            names: Iterable[str] = parameter["schema"].get("enum", ())
            return names
    return ()


class _Records:
    """The types of the records that services answer, and of what is nested in them.

    Attributes:
        taken: Names that mean something already.
    """

    def __init__(self, schemas: Schema) -> None:
        self.taken = set(_TAKEN)
        self._names: dict[str, str] = {}
        self._schemas = schemas
        self._code: dict[str, str] = {}

    def name_of(self, schema: str) -> str:
        """Return the name of the type of a schema, and take note of its code."""
        if schema not in self._names:
            words = re.findall(r"[^\W_]+", schema)
            name = self.free_name("".join(word[:1].upper() + word[1:] for word in words))
            self._names[schema] = name
            self._code[name] = "".join(self._lines(name, self._schemas.get(schema, {})))
        return self._names[schema]

    def free_name(self, wanted: str) -> str:
        """Return a name that nothing has yet, and take it."""
        name = _identifier(wanted)
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def code(self) -> Iterator[str]:
        """Return the code of each type."""
        return iter(self._code.values())

    def _lines(self, name: str, schema: Schema) -> Iterator[str]:
        properties = {key: self._type(each) for key, each in schema.get("properties", {}).items()}
        if not properties:
            yield f"\n\n{name} = dict[str, Any]\n"
        elif all(key.isidentifier() and not keyword.iskeyword(key) for key in properties):
            yield f"\n\nclass {name}(TypedDict):\n"
            yield from (f"    {key}: {each}\n" for key, each in properties.items())
        else:
            yield f"\n\n{name} = TypedDict(\n    {name!r},\n    {{\n"
            yield from (f"        {key!r}: {each!r},\n" for key, each in properties.items())
            yield "    },\n)\n"

    def _type(self, schema: Any) -> str:
        """Return the annotation for a schema; ``Any`` where it says nothing that a type can."""
        if not isinstance(schema, Mapping):
            return "Any"
        if "$ref" in schema:
            return self.name_of(schema["$ref"].removeprefix(_REFERENCE))
        if "const" in schema or "enum" in schema:
            return _literal(schema.get("enum", [schema.get("const")]))
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return _union(map(self._type, schema[word]))
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return _union(self._single(kind, schema) for kind in kinds)

    def _single(self, kind: Any, schema: Schema) -> str:
        if kind == "array":
            return f"list[{self._type(schema.get('items'))}]"
        return _TYPES.get(kind, "Any")


def _union(types: Iterable[str]) -> str:
    found = list(dict.fromkeys(types))
    return "Any" if "Any" in found or not found else " | ".join(found)


def _literal(values: list[Any]) -> str:
    if not all(value is None or isinstance(value, str | int) for value in values):
        return "Any"
    return f"Literal[{', '.join(map(repr, values))}]"


def _identifier(text: str) -> str:
    """Return text as a name: words of the language get an underscore, digits are not the first."""
    name = re.sub(r"\W", "_", text) or "_"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name
