"""Tools: methods of services with the descriptions and arguments that agents see."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from mcp.types import Tool, ToolAnnotations

from alula._app import App
from alula._declared import Declared
from alula._json_schema import Schema
from alula._service import ServiceHandle, owning_handle
from alula._service_facts import ServiceFacts, facts_of, query_schema_of, schema_of, state_of
from alula.errors import BadRequest, NotFound
from alula.mcp._schemas import inlined, query_words, select_words
from alula.outgoing._text import short_line
from alula.types import ID_METHODS, METHODS_WITHOUT_DATA, UNSET, Id, is_array, is_list, is_mapping

__all__ = ["Arguments", "ServiceTool", "Toolbox", "read_names"]

_NONE: Final = type(None)
_DEFAULT_LIMIT: Final = 20
_MAX_NAME: Final = 64
_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{_MAX_NAME}}}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_SAFE: Final = frozenset({"find", "get"})
_SENTENCES: Final = {
    "find": "Find records of {}.",
    "get": "Get one record of {} by its id.",
    "create": "Create a record of {}.",
    "update": "Replace a record of {} by its id.",
    "patch": "Change properties of a record of {} by its id.",
    "remove": "Remove a record of {} by its id.",
}
"""For methods without a docstring of their own; the braces stand for the title of the records."""


def read_names(services: object) -> dict[str, tuple[str, str]]:
    """Return the path of a service and a method for each tool, by the name of the tool.

    Args:
        services: For each path, names of methods, or a mapping of them to names of tools.

    Raises:
        TypeError: The mapping has another form.
        ValueError: There are no tools, or a name is not valid or given twice.
    """
    if not is_mapping(services):
        raise TypeError(
            f'mcp() takes the methods by service, such as {{"todos": ["find"]}}, not {services!r}'
        )
    named: dict[str, tuple[str, str]] = {}
    for path, methods in services.items():
        plain = str(path).strip("/")
        for method, given in _named_methods(plain, methods):
            if not isinstance(given, str) or not _NAME.fullmatch(given):
                raise ValueError(
                    f"mcp(): the tool for `{method}` of {plain!r} cannot be called {given!r}; a"
                    f" name has 1 to {_MAX_NAME} letters, digits, _ or -; give it another one:"
                    f' {{{plain!r}: {{{method!r}: "name"}}}}'
                )
            if given in named:
                raise ValueError(
                    f"mcp(): two tools are called {given!r}, for {named[given][0]!r} and {plain!r};"
                    f' give one another name: {{{plain!r}: {{{method!r}: "name"}}}}'
                )
            named[given] = plain, method
    if not named:
        raise ValueError('mcp() has no tools; name methods: mcp({"todos": ["find", "get"]})')
    return named


def _named_methods(path: str, methods: Any) -> list[tuple[str, Any]]:
    """Return methods of a service, each with the name of its tool."""
    if is_mapping(methods):
        return [(str(method), given) for method, given in methods.items()]
    if not is_array(methods):
        raise TypeError(f"mcp(): name the methods of {path!r} in a list, not as {methods!r}")
    return [(str(method), _name_of(path, str(method))) for method in methods]


def _name_of(path: str, method: str) -> str:
    """Return the name of a tool: the path without its placeholders, and the method."""
    segments = [segment for segment in path.split("/") if segment and not segment.startswith(":")]
    return _NOT_IN_NAMES.sub("_", "_".join([*segments, method]))


class Arguments(NamedTuple):
    """The arguments of a tool, as a call of a service takes them."""

    id: Id
    data: Any
    query: dict[str, Any]
    route: dict[str, str]


class ServiceTool:
    """A method of a service as a tool.

    Args:
        name: The name of the tool.
        facts: The facts about the service.
        method: The method.

    Attributes:
        handle: The service.
        method: The method.
    """

    def __init__(self, name: str, facts: ServiceFacts, method: str) -> None:
        self.handle = facts.handle
        self.method = method
        self._name = name
        self._facts = facts
        self._declared = facts.declared.get(method) or Declared("")
        self._placeholders = facts.placeholders
        taken = set(self._placeholders)
        has_id = method in ID_METHODS and self._declared.id is not _NONE
        self._id = _free_name("id", taken) if has_id else None
        has_data = method not in METHODS_WITHOUT_DATA and self._declared.data is not _NONE
        self._data = _free_name("data", taken) if has_data else None
        self._query = _free_name("query", taken) if self._takes_query() else None
        self._query_schema: Schema = facts.query.get(method) or {}
        if self._declared.has_query:
            self._query_schema = query_schema_of(self._declared)

    def _takes_query(self) -> bool:
        if self._declared.parameters:
            return False  # each of them is an argument of its own
        if self._declared.has_query or self.method == "find":
            return True
        return self.method == "get" and self._facts.adapter is not None

    # -- what agents see -----------------------------------------------------------------------

    @cached_property
    def description(self) -> Tool:
        """The tool as agents get it."""
        return Tool(
            name=self._name,
            description=self._sentence(),
            input_schema={
                "type": "object",
                "properties": self._properties,
                "required": self._required,
                "additionalProperties": False,
            },
            annotations=ToolAnnotations(read_only_hint=self.method in _SAFE),
        )

    def _sentence(self) -> str:
        service = owning_handle(self.handle).service
        function = getattr(service, self.method, None)
        # The docstrings of Alula's own methods, such as those of adapters, are for developers.
        if not str(getattr(function, "__module__", "")).startswith("alula."):
            text = self._facts.documentation(self.method)
            if text:
                return text
        title = (self._facts.record or {}).get("title")
        name = title if isinstance(title, str) else self.handle.path
        return _SENTENCES.get(self.method, f"Call {self.method} of {{}}.").format(name)

    @cached_property
    def _properties(self) -> dict[str, Any]:
        types = {parameter.name: parameter.type for parameter in self._declared.route}
        properties: dict[str, Any] = {
            name: inlined(schema_of(types[name], is_result=False))
            if name in types
            else {"type": "string"}
            for name in self._placeholders
        }
        if self._id is not None:
            properties[self._id] = self._id_schema()
        if self._data is not None:
            properties[self._data] = self._data_schema()
        if self._declared.parameters:
            properties |= inlined(self._query_schema)["properties"]
        elif self._query is not None:
            properties[self._query] = self._shown_query()
        return properties

    def _data_schema(self) -> Schema:
        schema = inlined(self._facts.data.get(self.method) or {"type": "object"})
        fields: Mapping[str, Any] = schema.get("properties", {})
        # A patch fills no default in, and a hidden value is shown to nobody.
        silent = fields if self.method == "patch" else self._facts.hidden
        kept = {
            name: _without_default(field) if name in silent else field
            for name, field in fields.items()
        }
        return {**schema, "properties": kept} if kept else schema

    def _id_schema(self) -> Schema:
        if self._declared.id is not UNSET:
            return inlined(schema_of(self._declared.id, is_result=False))
        adapter, record = self._facts.adapter, self._facts.record or {}
        if adapter is not None:
            known = record.get("properties", {}).get(adapter.id)
            if is_mapping(known):
                return inlined({**known, "$defs": record.get("$defs", {})})
        return {"type": "string"}

    def _shown_query(self) -> Schema:
        if self._declared.has_query:
            return inlined(self._query_schema)
        shown = {"type": "object"}
        if self.method == "get":
            return {**shown, "description": select_words(self._facts.record)}
        if self._facts.adapter is None and not self._query_schema:
            return shown
        words = query_words(self._query_schema, self._facts.record, self._facts.hidden)
        return {**shown, "description": words}

    @cached_property
    def _required(self) -> list[str]:
        required = [*self._placeholders]
        if self._id is not None:
            required.append(self._id)
        is_known = self.method in ID_METHODS or self.method == "create"
        if self._data is not None and (is_known or self._facts.data.get(self.method)):
            required.append(self._data)
        if self._declared.has_query:
            of_query = self._query_schema.get("required", ())
            required += of_query if self._query is None else [self._query] if of_query else []
        return required

    # -- what they send ------------------------------------------------------------------------

    def read(self, arguments: Mapping[str, Any]) -> Arguments:
        """Return the arguments of a call.

        Raises:
            BadRequest: An argument is missing, unknown, or of a wrong type.
        """
        unknown = [name for name in arguments if name not in self._properties]
        if unknown:
            name, known = short_line(unknown[0]), _listed(self._properties)
            raise BadRequest(f"unknown argument {name!r}; this tool takes {known}")
        missing = [name for name in self._required if name not in arguments]
        if missing:
            raise BadRequest(f"missing: {_listed(missing)}")
        route = {name: str(_scalar(name, arguments[name])) for name in self._placeholders}
        record_id = None if self._id is None else _scalar(self._id, arguments[self._id])
        data: Any = None
        if self._data is not None:
            data = arguments.get(self._data, {})
            if is_list(data) and self._declared.data is UNSET:
                raise BadRequest("This tool takes one record at a time: data has to be an object")
        return Arguments(record_id, data, self._read_query(arguments), route)

    def _read_query(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        names = [parameter.name for parameter in self._declared.parameters]
        if self._query is None:
            return {name: arguments[name] for name in names if name in arguments}
        query = arguments.get(self._query, {})
        if not is_mapping(query):
            raise BadRequest("A query has to be an object")
        if self.method == "find" and not self._declared.has_query and self._has_pages():
            return {"$limit": _DEFAULT_LIMIT, **query}
        return dict(query)

    def _has_pages(self) -> bool:
        """Tell whether `find` knows ``$limit``."""
        return self._facts.adapter is not None or bool(self._query_schema)


def _without_default(field: Any) -> Any:
    """Return the schema of a property without its default."""
    if not is_mapping(field):
        return field
    return {key: value for key, value in field.items() if key != "default"}


def _free_name(name: str, taken: Collection[str]) -> str:
    """Return a name for an argument that no placeholder of the path has."""
    while name in taken:
        name += "_"
    return name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "no arguments"


def _scalar(name: str, value: Any) -> str | int | float:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise BadRequest(f"{name!r} has to be a string or a number")
    return value


class Toolbox:
    """All tools of an application, kept until a service or its hooks change: they are slow to make.

    Args:
        app: The application.
        names: The tools, from `read_names`.
    """

    def __init__(self, app: App, names: Mapping[str, tuple[str, str]]) -> None:
        self._app = app
        self._names = names
        self._paths = list(dict.fromkeys(path for path, _ in names.values()))
        self._state: object = None
        self._tools: dict[str, ServiceTool] = {}

    def tools(self) -> Mapping[str, ServiceTool]:
        """Return the tools by name, without those of services that were removed."""
        handles = {path: self._app.services.get(path) for path in self._paths}
        state = [None if each is None else state_of(each) for each in handles.values()]
        if state != self._state:
            facts = {path: facts_of(each) for path, each in handles.items() if each is not None}
            self._tools = {
                name: ServiceTool(name, facts[path], method)
                for name, (path, method) in self._names.items()
                if path in facts and method in facts[path].handle.methods
            }
            self._state = state
        return self._tools

    def streams(self, name: str) -> bool:
        """Tell whether a tool is for a method that streams; False if there is no such tool."""
        path, method = self._names.get(name, ("", ""))
        handle: ServiceHandle | None = self._app.services.get(path)
        return handle is not None and method in handle.streaming

    def find(self, name: str) -> ServiceTool:
        """Return the tool with a name.

        Raises:
            NotFound: No tool has this name.
        """
        tool = self.tools().get(name)
        if tool is None:
            raise NotFound(f"there is no tool {short_line(name)!r}; tools/list has their names")
        return tool

    def check(self) -> None:
        """Check that each service exists, and is open to clients.

        Raises:
            ValueError: A service is not registered, or clients cannot call the method; or it takes
                files, which tools cannot send.
        """
        for name, (path, method) in self._names.items():
            handle: ServiceHandle | None = self._app.services.get(path)
            if handle is None:
                raise ValueError(
                    f"mcp(): the tool {name!r} is for the service {path!r}, which is not"
                    f" registered; there are {_listed(map(repr, self._app.services))}"
                )
            if method not in handle.methods:
                raise ValueError(
                    f"mcp(): the tool {name!r} is for `{method}` of {path!r}, which clients cannot"
                    f" call; they can call {_listed(handle.methods)}"
                )
            if method == "create" and facts_of(handle).form is not None:
                raise ValueError(
                    f"mcp(): the tool {name!r} is for uploads to {path!r}, and tools cannot send"
                    " files"
                )
