"""The types of an application's own services, in the Python client that `alula client` writes.

Each method has the types of its operation: data, query, result. Each such service has two classes,
for asynchronous and for synchronous clients, because no common base class fits all its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from alula.types import is_mapping

__all__ = ["Operation", "OwnService", "Types", "own_service"]

JsonObject: TypeAlias = Mapping[str, Any]

_ID: Final = "{id}"
_ITEM: Final = "x-itemSchema"
_MORE: Final = (
    "headers: Mapping[str, str] = ...",
    "connection: Mapping[str, Any] = ...",
)


class Types(Protocol):
    """Turns schemas into Python types, and defines those that have a name."""

    def annotation(self, schema: object, *, is_sent: bool = False) -> str:
        """Return the annotation of a schema."""
        ...

    def define(self, wanted: str, properties: Mapping[str, str], *, is_total: bool = True) -> str:
        """Define a `TypedDict` with these properties, and return its name."""
        ...


@dataclass(frozen=True)
class Operation:
    """An operation of a description.

    Attributes:
        method: The name of the method.
        address: The path of its requests.
        item: The path item, whose parameters count for all its operations.
        operation: The operation.
    """

    method: str
    address: str
    item: JsonObject
    operation: JsonObject

    def parameters(self, place: str) -> Iterator[JsonObject]:
        """Yield the parameters in a place: ``path`` or ``query``."""
        for given in (self.item, self.operation):
            for each in given.get("parameters", ()):
                if each.get("in") == place:
                    yield each

    @property
    def data(self) -> object:
        """The schema of its data, None if it takes none."""
        body = self.operation.get("requestBody")
        return _json_schema(body) if is_mapping(body) else None

    def results(self) -> Iterator[object]:
        """Yield the schemas of its results, None for an empty one; of a stream, of its items."""
        for status, response in self.operation["responses"].items():
            if status.startswith("2"):
                items = _items_of(response)
                yield _json_schema(response) if items is None else items[_ITEM]

    @property
    def streams(self) -> bool:
        """Whether it sends its result item by item."""
        responses = self.operation["responses"].values()
        return any(_items_of(response) is not None for response in responses)


class OwnService:
    """The code of the classes of a service.

    Args:
        name: The name of the class for asynchronous clients, without the ending ``Service``.
        operations: Its operations.
        types: The types of the module.
    """

    def __init__(self, name: str, operations: list[Operation], types: Types) -> None:
        self._types = types
        self._name = name
        self._methods = [
            (self._head(each), self._result(each), each.streams) for each in operations
        ]

    def classes(self, reserve: Callable[[str], str]) -> tuple[str, str, str]:
        """Return the names of both classes, and their code.

        Args:
            reserve: Returns a name that is free in the module.
        """
        names = reserve(f"{self._name}Service"), reserve(f"Sync{self._name}Service")
        code = self._code(names[0], "async def", "StreamedItems")
        return *names, code + self._code(names[1], "def", "SyncItemStream")

    def _code(self, name: str, start: Literal["async def", "def"], stream: str) -> str:
        methods = "\n".join(
            f"    {start} {head} -> {f'{stream}[{result}]' if streams else result}: ...\n"
            for head, result, streams in self._methods
        )
        return f"\n\nclass {name}(Protocol):\n{methods}"

    def _head(self, operation: Operation) -> str:
        """Return the code of a method between its ``def`` and its result."""
        given = ["self"]
        if _ID in operation.address:
            schemas = [
                each.get("schema") for each in operation.parameters("path") if each["name"] == "id"
            ]
            schema = schemas[0] if schemas else None
            given.append(f"id: {self._types.annotation(schema)}")
        elif operation.method in {"get", "update", "patch", "remove"}:
            given.append("id: None")
        if operation.data is not None:
            given.append(f"data: {self._types.annotation(operation.data, is_sent=True)}")
        elif operation.method not in {"find", "get", "remove"}:
            given.append("data: None = None")
        given += ["*", self._query(operation), self._route(operation), *_MORE]
        arguments = ", ".join(filter(None, given))
        return f"{operation.method}({arguments})"

    def _query(self, operation: Operation) -> str:
        parameters = [*operation.parameters("query")]
        if not parameters:
            return "query: Mapping[str, Any] = ..."
        properties = {each["name"]: self._types.annotation(each["schema"]) for each in parameters}
        needed = [each["name"] for each in parameters if each.get("required")]
        for name in needed:
            properties[name] = f"Required[{properties[name]}]"
        method = operation.method.title().replace("_", "")
        name = self._types.define(f"{self._name}{method}Query", properties, is_total=False)
        return f"query: {name}" if needed else f"query: {name} = ..."

    def _route(self, operation: Operation) -> str:
        names = [each["name"] for each in operation.parameters("path") if each["name"] != "id"]
        return "route: Mapping[str, Any]" if names else ""

    def _result(self, operation: Operation) -> str:
        found = [
            "None" if schema is None else self._types.annotation(schema)
            for schema in operation.results()
        ]
        unique = list(dict.fromkeys(found))
        return "Any" if "Any" in unique or not unique else " | ".join(unique)


def own_service(name: str, operations: list[Operation], types: Types) -> OwnService | None:
    """Return a service whose methods declare their types, None for others.

    A service whose queries have the syntax of adapters, such as ``$limit``, belongs to an adapter.
    """
    names = [each["name"] for one in operations for each in one.parameters("query")]
    is_typed = any(schema for each in operations for schema in each.results())
    if not is_typed or any(name.startswith("$") for name in names):
        return None
    return OwnService(name, operations, types)


def _json_schema(described: JsonObject) -> object:
    """Return the schema of the JSON of a body or response, None if it has none."""
    content = described.get("content", {}).get("application/json")
    return content.get("schema", {}) if is_mapping(content) else None


def _items_of(described: JsonObject) -> JsonObject | None:
    """Return the stream of items of a response; a live list is a stream of events, without it."""
    stream = described.get("content", {}).get("text/event-stream", {})
    return stream if _ITEM in stream else None
