"""`describe`: the OpenAPI description of all services, with the operations of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from alula._declared import Declared
from alula._identity import find_authentication
from alula._json_schema import Schema
from alula._service import ServiceHandle
from alula._service_facts import BINARY, ServiceFacts, facts_of
from alula.openapi._components import (
    Components,
    without_defaults,
)
from alula.openapi._declared_schemas import DeclaredSchemas, error_schema, page_of, statuses_of
from alula.openapi._query_parameters import open_parameters, query_parameters
from alula.types import ID_METHODS, STANDARD_METHODS, UNSET

if TYPE_CHECKING:
    from alula._app import App
    from alula.authentication._token_cookies import TokenCookies
    from alula.express import ExpressApplication

__all__ = ["describe"]

Part: TypeAlias = dict[str, Any]
"""A part of a description: what it holds is up to OpenAPI."""

_NONE: Final = type(None)
_ERROR_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "message": {"type": "string"},
        "code": {"type": "integer"},
        "className": {"type": "string"},
        "data": {},
        "errors": {},
    },
    "required": ["name", "message", "code", "className"],
}
BEARER: Final = {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
_ERROR: Final = {"$ref": "#/components/responses/Error"}

_RANGE: Final = {
    "name": "Range",
    "in": "header",
    "schema": {"type": "string"},
    "description": "One range of bytes, such as `bytes=0-99`.",
}
_STREAM_TYPES: Final = ("text/event-stream", "application/jsonl")
_SAFE: Final = frozenset({"find", "get"})
_STREAM_SCHEMA: Final = {
    "type": "string",
    "description": "Server-sent events for records that match the query; there are no pages.",
}
_LIST_SCHEMA: Final = {
    "type": "string",
    "description": "With `$live=true`, server-sent events with the page and all its changes.",
}
_KEYS: Final = ("id", "recordId", "record_id")
_VERBS: Final = {"find": "get", "get": "get", "update": "put", "patch": "patch", "remove": "delete"}
_SUMMARIES: Final = {
    "find": "Find records",
    "get": "Get a record",
    "create": "Create a record",
    "update": "Replace a record",
    "patch": "Change a record",
    "remove": "Remove a record",
}
_SIGN_IN_SUMMARIES: Final = {**_SUMMARIES, "create": "Sign in", "remove": "Sign out"}
_TOKEN_CHANGES: Final = {"create": "issued", "remove": "revoked"}


def describe(
    app: App | ExpressApplication,
    *,
    title: str = "API",
    version: str = "1.0.0",
    description: str | None = None,
    server: str | None = None,
    error: object = None,
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of all services of an application.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App()
        >>> _ = app.use("messages", MemoryService())
        >>> list(describe(app, title="Chat")["paths"])
        ['/messages', '/messages/{id}']

    Args:
        app: The application, an `App` or what ``express`` returns.
        title: The name of the API.
        version: The version of the API.
        description: What it is about, in Markdown.
        server: The URL of the application, in full or relative to that of the description. None
            says nothing, which clients take for the root of the host.
        error: The type of the bodies of errors, None for the errors of Alula. See `openapi`.
    """
    components = Components()
    components.add("Error", _ERROR_SCHEMA if error is None else error_schema(error))
    paths: Part = {}
    tags: list[Part] = []
    secured = False
    key_schemes: Part = {}
    cookies: TokenCookies | None = getattr(find_authentication(app), "token_cookies", None)
    # A plain application has no routes for files; its web application has.
    file_routes: Mapping[str, bool] = getattr(app, "file_routes", {})
    streams = any(server.transport == "sse" for server in app.channel_registry.servers)
    for handle in app.services.values():
        if not handle.methods:
            continue
        facts = facts_of(handle, max_files=_mark_of_middleware(app, handle, "max_files"))
        secured = secured or facts.signs_in or bool(facts.secured)
        for access in facts.keys.values():
            key_schemes |= access.schemes
        paths |= _ServiceOperations(
            facts,
            components,
            streams=streams,
            has_cookie=cookies is not None,
            signed_urls=file_routes.get(handle.path),
            file_types=_mark_of_middleware(app, handle, "file_types") or (),
            is_free=lambda path: app.routes.find_plain(path) is None,
        ).paths()
        tags.append({"name": facts.tag})
    body = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    parts: Part = {
        "schemas": components.schemas,
        "responses": {"Error": {"description": "Error", "content": body}},
    }
    schemes: Part = _sign_in_schemes(cookies) if secured else {}
    schemes |= key_schemes
    if any(file_routes.values()):
        # Signed by the server; it comes with the URL.
        schemes["signature"] = {"type": "apiKey", "in": "query", "name": "signature"}
    if schemes:
        parts["securitySchemes"] = schemes
    info = {"title": title, "version": version}
    return {
        "openapi": "3.1.0",
        "info": info if description is None else {**info, "description": description},
        **({} if server is None else {"servers": [{"url": server}]}),
        "tags": tags,
        "paths": paths,
        "components": parts,
    }


def _sign_in_schemes(cookies: TokenCookies | None) -> Part:
    """Return how clients say who they are: by a token, or by cookies."""
    if cookies is None:
        return {"bearer": BEARER}
    options = cookies.options
    return {
        "bearer": BEARER,
        "cookie": {"type": "apiKey", "in": "cookie", "name": options.name},
        "csrf": {
            "type": "apiKey",
            "in": "header",
            "name": "X-CSRF-Token",
            "description": f"The value of the cookie {options.csrf_name}.",
        },
    }


def _mark_of_middleware(app: Any, handle: ServiceHandle, name: str) -> Any:
    """Return what the middleware in front of a service says of its uploads, None for nothing.

    Args:
        app: The application.
        handle: The service.
        name: The attribute that the middleware may have.
    """
    front: Any = app
    around = getattr(front, "service_middleware", {}).get(handle)
    functions = [
        *getattr(front, "middleware_functions", ()),
        *(step.function for step in (around.before if around is not None else ())),
    ]
    marks = [mark for mark in (getattr(each, name, None) for each in functions) if mark]
    return marks[-1] if marks else None  # the limits of the last one count


class _ServiceOperations:
    """The operations of one service: what each request to it takes and returns.

    Args:
        facts: The facts about the service.
        components: Takes the schemas of the service.
        streams: Whether there are server-sent events.
        has_cookie: Whether a cookie signs requests in, too.
        signed_urls: Whether signed URLs open its files; None if these have no route.
        file_types: The content types of bodies that are files.
        is_free: Tells whether no service is registered at a path.
    """

    def __init__(
        self,
        facts: ServiceFacts,
        components: Components,
        *,
        streams: bool,
        has_cookie: bool,
        signed_urls: bool | None,
        file_types: Sequence[str],
        is_free: Callable[[str], bool],
    ) -> None:
        self._facts = facts
        self._streams = streams
        self._has_cookie = has_cookie
        self._signed_urls = signed_urls
        self._file_types = file_types
        self._is_free = is_free
        self._components = components
        handle = facts.handle
        self._summaries = _SIGN_IN_SUMMARIES if facts.signs_in else _SUMMARIES
        self._methods = tuple(name for name in STANDARD_METHODS if name in handle.methods)
        self._custom = tuple(name for name in handle.methods if name not in STANDARD_METHODS)
        self._name = components.name_for(handle.path)
        self._placeholders = facts.placeholders
        # A placeholder of the path may have taken the name.
        self._key = next(name for name in _KEYS if name not in self._placeholders)
        self._schemas = DeclaredSchemas(self._name, components)
        # Without types, it is not known what the methods of a service of one's own return.
        is_upload = facts.form is not None
        is_known = facts.adapter is not None or is_upload or facts.record is not None
        self._record: Schema = {"type": "object"} if facts.adapter is not None else {}
        if isinstance(facts.record, Mapping):
            self._record = components.add_record(self._name, facts.record)
        self._one: Schema = self._record if is_known else {}
        self._queries = {
            method: (f"{self._name}.Query", schema) for method, schema in facts.query.items()
        }
        for name, schema in dict(self._queries.values()).items():
            components.add(name, schema)

    def paths(self) -> Part:
        """Return the path items by path."""
        base = self._facts.address
        member = f"{base.rstrip('/')}/{{{self._key}}}"
        keys = [*self._placeholders, self._key]
        items = {
            base: (self._placeholders, self.collection()),
            member: (keys, self.member()),
            f"{member}/content": (keys, self.content()),
        }
        for name in self._custom:
            path = f"{base.rstrip('/')}/{name}"
            # A service that is registered there comes first; a header names the method then.
            if self._is_free(path.strip("/")):
                items[path] = (self._placeholders, {"post": self.custom(name)})
        return {
            path: {"parameters": list(map(self._path_parameter, names)), **operations}
            for path, (names, operations) in items.items()
            if operations
        }

    def _path_parameter(self, name: str) -> Part:
        declared = self._facts.declared.values()
        types: list[Any] = [each.type for of in declared for each in of.route if each.name == name]
        if name == self._key:
            types = [of.id for of in declared if of.id is not UNSET and of.id is not _NONE]
        return self._schemas.path_parameter(name, types)

    def collection(self) -> Part:
        """Return the operations on all records, by verb."""
        facts = self._facts
        operations: Part = {}
        if "find" in self._methods:
            schema = _list_of(self._record)
            if facts.paginated:
                schema = page_of(schema)
            is_known = facts.adapter is not None or facts.record is not None
            operations["get"] = self._operation("find", schema if is_known else {})
            is_live = facts.handle.live_options is not None
            kinds = [_STREAM_SCHEMA] * bool(facts.published_events) + [_LIST_SCHEMA] * is_live
            if self._streams and kinds and "find" not in facts.handle.streaming:
                streamed = {"anyOf": kinds} if len(kinds) > 1 else kinds[0]
                responses = operations["get"]["responses"]
                found = responses.setdefault("200", {"description": "The result"})
                live = {"x-alula-live": True} if is_live else {}
                content = {"schema": streamed, **live}
                found.setdefault("content", {})["text/event-stream"] = content
        if "create" in self._methods:
            operations["post"] = self.create()
        for method in ("update", "patch", "remove"):
            if facts.signs_in and method == "remove":
                operations["delete"] = self._operation(method, self._one)
            elif method in self._methods and self._takes_several(method):
                records: Schema = _list_of(self._record) if facts.adapter else {}
                # Without an id, a service of the application's own has one thing alone.
                is_one = self._id_type(method) is _NONE
                operations[_VERBS[method]] = self._operation(method, records, several=not is_one)
        return operations

    def _id_type(self, method: str) -> Any:
        declared = self._facts.declared.get(method)
        return UNSET if declared is None else declared.id

    def _takes_several(self, method: str) -> bool:
        """Return whether a method may be called without an id."""
        facts, type_ = self._facts, self._id_type(method)
        if type_ is not UNSET:
            return type_ is _NONE or _NONE in get_args(type_)
        # No adapter updates several records; a service of the application's own may.
        several = method != "update" or facts.adapter is None
        return several and facts.takes_several(method)

    def member(self) -> Part:
        """Return the operations on one record, by verb."""
        return {
            _VERBS[method]: self._operation(method, self._one, member=True)
            for method in self._methods
            # A token must not be in a path, which ends up in logs: the bearer signs out.
            if method in ID_METHODS
            and not (self._facts.signs_in and method == "remove")
            and self._id_type(method) is not _NONE
        }

    def content(self) -> Part:
        """Return the operation on the bytes of a file, if they have a route."""
        offered = "get" in self._methods
        if self._signed_urls is None or not (self._signed_urls or offered):
            return {}
        body = {"*/*": {"schema": BINARY}}
        security = self._security("get")
        if self._signed_urls and (security or not offered):
            signature: Part = {"signature": []}
            security = {"security": [*security.get("security", ()), signature]}
        operation: dict[str, Any] = {
            "operationId": f"{self._name}.content",
            "tags": [self._facts.tag],
            "summary": "Get the bytes of a file",
            "parameters": [_RANGE],
            "responses": {
                "200": {"description": "The file", "content": body},
                "206": {"description": "The part that Range names", "content": body},
                "304": {"description": "The client has it already (If-None-Match)"},
                **{status: dict(_ERROR) for status in ("404", "416", "default")},
            },
            **security,
        }
        if "get" in self._facts.secured:
            operation["responses"]["401"] = dict(_ERROR)
        return {"get": operation}

    def _operation(
        self, method: str, result: Schema, *, member: bool = False, several: bool = False
    ) -> Part:
        name = f"{method}Several" if several else method
        operation = {
            "operationId": f"{self._name}.{name}",
            "tags": [self._facts.tag],
            "summary": self._summary(method) + (", several at once" if several else ""),
            **self._parameters(method, member),
            "responses": self._responses(method, result, member),
            **self._security(method),
            **self._token_change(method),
        }
        if method in {"update", "patch"}:
            operation |= self._body(self._data(method))
        return operation

    def create(self) -> Part:
        """Return what a POST does."""
        facts, declared = self._facts, self._facts.declared.get("create")
        several = facts.form is not None or (
            facts.adapter is not None and facts.takes_several("create")
        )
        result: Schema = self._one
        if several:
            result = {"anyOf": [result, _list_of(result)]}
        if facts.form is not None:
            schema = self._components.add(f"{self._name}.create", facts.form)
            body: Part = {"multipart/form-data": {"schema": schema}}
            body |= {content_type: {"schema": BINARY} for content_type in self._file_types}
            request: Part = {"requestBody": {"required": True, "content": body}}
        else:
            data = self._data("create")
            if several and data is not None and (declared is None or declared.data is UNSET):
                data = {"anyOf": [data, _list_of(data)]}
            request = self._body(data)
        responses = self._responses("create", result, member=False)
        if facts.form is not None:
            responses |= {status: dict(_ERROR) for status in ("413", "415")}
        if facts.adapter is not None and "201" in responses:
            responses["201"]["links"] = {  # what can be done with a new record
                method: {
                    "operationId": f"{self._name}.{method}",
                    "parameters": {self._key: f"$response.body#/{facts.adapter.id}"},
                }
                for method in self._methods
                if method in ID_METHODS
            }
        return {
            "operationId": f"{self._name}.create",
            "tags": [facts.tag],
            "summary": self._summary("create"),
            **self._parameters("create", member=True),
            **request,
            "responses": responses,
            **self._security("create"),
            **self._token_change("create"),
        }

    def custom(self, method: str) -> Part:
        """Return the operation of a custom method."""
        return {
            "operationId": f"{self._name}.{method}",
            "tags": [self._facts.tag],
            "summary": self._summary(method),
            **self._parameters(method, member=False, is_custom=True),
            **self._body(self._data(method)),
            "responses": self._responses(method, {}, member=False),
            **self._security(method),
        }

    # -- parts ---------------------------------------------------------------------------------

    def _summary(self, method: str) -> str:
        usual = self._summaries.get(method, method)
        is_own = method in self._facts.declared or method not in STANDARD_METHODS
        return (self._facts.documentation(method) if is_own else "") or usual

    def _body(self, data: Schema | None) -> Part:
        """Return the request body of a method, nothing if it takes no data."""
        if data is None:
            return {}
        return {"requestBody": {"required": True, "content": _json(data)}}

    def _parameters(self, method: str, member: bool, *, is_custom: bool = False) -> Part:
        declared = self._facts.declared.get(method)
        if declared is not None and (declared.has_query or method not in self._queries):
            parameters = self._schemas.parameters(declared)
            return {"parameters": parameters} if parameters else {}
        if self._facts.signs_in or is_custom:
            return {"parameters": []}
        if (known := self._queries.get(method)) is not None:
            only = ("$select",) if member else ()
            parameters = query_parameters(known[1], known[0], self._components, only=only)
            return {"parameters": parameters}
        is_adapter = self._facts.adapter is not None
        return {"parameters": open_parameters(paging=is_adapter, find=not member)}

    def _responses(self, method: str, result: Schema, member: bool) -> Part:
        """Return the responses of a method; ``result`` counts where it declares none."""
        facts = self._facts
        declared = facts.declared.get(method)
        if declared is not None and declared.streams:
            responses = self._items(method, declared)
        else:
            responses = self._results(method, declared, result)
        errors = [] if self._is_unchecked(method) else ["400"]
        if method in facts.secured or (facts.signs_in and method == "create"):
            errors.append("401")
        if method in facts.keys:
            errors.append("403")
        if facts.signs_in and method == "create":
            errors.append("429")
        if member or (declared is not None and declared.route):
            errors.append("404")
        errors += statuses_of(declared)
        return {**responses, **{status: dict(_ERROR) for status in (*errors, "default")}}

    def _results(self, method: str, declared: Declared | None, result: Schema) -> Part:
        """Return the responses with a result, or an empty one."""
        facts = self._facts
        shown: Schema | None = result
        may_be_empty = facts.adapter is None and not facts.signs_in
        if declared is not None and (declared.result is not UNSET or result == {}):
            shown, may_be_empty = self._schemas.result(method, declared)
        elif facts.record is not None and result != {}:
            may_be_empty = False
        status = 201 if method == "create" else 200
        if declared is not None and declared.status is not None:
            status = declared.status
        responses: Part = {}
        if shown is not None:
            responses[str(status)] = {"description": "The result", "content": _json(shown)}
        if may_be_empty:
            empty = 204 if shown is not None or declared is None else declared.status or 204
            responses[str(empty)] = {"description": "The result is empty"}
        return responses

    def _items(self, method: str, declared: Declared) -> Part:
        """Return the response with the items of a stream."""
        # OpenAPI has `itemSchema` since 3.2 alone; a document of 3.1 with it is not valid.
        item = self._schemas.item(method, declared)
        content = {"schema": {"type": "string"}, "x-itemSchema": item}
        return {
            str(declared.status or 200): {
                "description": "The items, while they are made",
                "content": dict.fromkeys(_STREAM_TYPES, content),
            }
        }

    def _is_unchecked(self, method: str) -> bool:
        """Return whether a method declares something, but nothing that a request could miss."""
        declared = self._facts.declared.get(method)
        if declared is None or method in self._queries or method in self._facts.data:
            return False
        return declared.data is UNSET and not declared.has_query

    def _security(self, method: str) -> Part:
        facts = self._facts
        if method not in facts.secured:
            return {}
        # `{}` means that no credentials are needed.
        open_too: list[Part] = [{}] if method in facts.optional else []
        # The browser adds the cookie by itself, so whatever may change something needs more.
        cookie: Part = {"cookie": []} if method in _SAFE else {"cookie": [], "csrf": []}
        people: list[Part] = [{"bearer": []}, *([cookie] if self._has_cookie else [])]
        keys: list[Part] = []
        if (access := facts.keys.get(method)) is not None:
            people = [] if access.is_only_way else people
            keys = [{name: [*access.scopes[name]]} for name in access.schemes]
        return {"security": [*open_too, *people, *keys]}

    def _token_change(self, method: str) -> Part:
        """Return what a method does with an access token, for pages that keep one."""
        changes = self._facts.signs_in and method in _TOKEN_CHANGES
        return {"x-alula-token": _TOKEN_CHANGES[method]} if changes else {}

    def _data(self, method: str) -> Schema | None:
        declared = self._facts.declared.get(method)
        if declared is not None and declared.data is not UNSET:
            return self._schemas.data(method, declared)
        schema = self._facts.data.get(method)
        if schema is None:
            return {"type": "object"}
        shown = without_defaults(schema, all_of_them=method == "patch")
        return self._components.add(f"{self._name}.{method}", shown)


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _json(schema: Schema) -> Part:
    return {"application/json": {"schema": schema}}
