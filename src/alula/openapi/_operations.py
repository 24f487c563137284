"""The operations of one service: what each request to it takes and answers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final

from alula.openapi._components import Components, without_demands
from alula.openapi._facts import Facts
from alula.openapi._parameters import open_parameters, query_parameters
from alula.types import ID_METHODS, STANDARD_METHODS

__all__ = ["ServiceOperations"]

_PLACEHOLDER: Final = re.compile(r"(?<![^/]):([^/]+)")  # a whole segment; "a:b" is plain text
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
_TOKEN: Final = {"create": "issued", "remove": "revoked"}
_ERROR: Final = {"$ref": "#/components/responses/Error"}


class ServiceOperations:
    """Builds the path items of one service.

    Args:
        facts: What is known of the service.
        components: Takes the schemas of the service.
    """

    def __init__(self, facts: Facts, components: Components) -> None:
        self._facts = facts
        self._components = components
        handle = facts.handle
        self._summaries = _SIGN_IN_SUMMARIES if facts.signs_in else _SUMMARIES
        self._methods = tuple(name for name in STANDARD_METHODS if name in handle.methods)
        self._custom = tuple(name for name in handle.methods if name not in STANDARD_METHODS)
        self._name = components.name_for(handle.path)
        self._placeholders = _PLACEHOLDER.findall(handle.path)
        # A placeholder of the path may have taken the name.
        self._key = next(name for name in _KEYS if name not in self._placeholders)
        self._record = self._add_record()
        self._queries = {
            method: (f"{self._name}.Query", schema) for method, schema in facts.query.items()
        }
        for name, schema in dict(self._queries.values()).items():
            components.add(name, schema)

    def paths(self) -> dict[str, Any]:
        """Return the path items by path."""
        base = "/" + _PLACEHOLDER.sub(r"{\1}", self._facts.handle.path)
        route = [_path_parameter(name) for name in self._placeholders]
        key = _path_parameter(self._key)
        member = f"{base.rstrip('/')}/{{{self._key}}}"
        found = {base: self._collection(), member: self._member()}
        return {
            path: {"parameters": [*route, *([key] if path != base else [])], **operations}
            for path, operations in found.items()
            if operations
        }

    def _collection(self) -> dict[str, Any]:
        operations = {}
        if "find" in self._methods:
            operations["get"] = self._operation("find", 200, self._page())
        if "create" in self._methods or self._custom:
            operations["post"] = self._post()
        for method in ("update", "patch", "remove"):
            several = method != "update" or self._facts.adapter is None
            if self._facts.signs_in and method == "remove":
                operations["delete"] = self._operation(method, 200, self._one())
            elif method in self._methods and several and self._facts.takes_several(method):
                answer = _list_of(self._record) if self._facts.adapter else {}
                operation = self._operation(method, 200, answer, several=True)
                operations[_VERBS[method]] = operation
        return operations

    def _member(self) -> dict[str, Any]:
        return {
            _VERBS[method]: self._operation(method, 200, self._one(), member=True)
            for method in self._methods
            # A token must not be in a path, which ends up in logs: the bearer signs out.
            if method in ID_METHODS and not (self._facts.signs_in and method == "remove")
        }

    def _operation(
        self,
        method: str,
        status: int,
        answer: Any,
        *,
        member: bool = False,
        several: bool = False,
    ) -> dict[str, Any]:
        name = f"{method}Several" if several else method
        operation = {
            "operationId": f"{self._name}.{name}",
            "tags": [self._facts.tag],
            "summary": self._summaries[method] + (", several at once" if several else ""),
            "parameters": self._parameters(method, member),
            "responses": self._responses(method, {status: answer}, member),
            **self._security((method,)),
            **self._token(method),
        }
        if method in {"update", "patch"}:
            operation["requestBody"] = _body(self._data(method))
        return operation

    def _post(self) -> dict[str, Any]:
        """Return what a POST does: create, and by a header the custom methods."""
        creates = "create" in self._methods
        methods = (*(("create",) if creates else ()), *self._custom)
        summary = self._summaries["create"] if creates else "Call a method"
        lines = [summary] if creates else []
        parameters = self._parameters("create", member=True) if creates else []
        bodies, answers = ([self._new()], {201: self._created()}) if creates else ([], {})
        for name in self._custom:
            lines.append(f"`{name}`: {_words_about(self._facts.handle.service, name)}")
            bodies.append(self._data(name))
            answers[200] = {}
        if self._custom:
            parameters = [*parameters, _method_header(self._custom, required=not creates)]
        responses = self._responses("create", answers, member=False)
        if creates and self._facts.adapter is not None:
            responses["201"]["links"] = self._links(self._facts.adapter.id)
        return {
            "operationId": f"{self._name}.{'create' if creates else 'call'}",
            "tags": [self._facts.tag],
            "summary": summary,
            "description": "\n\n".join(lines),
            "parameters": parameters,
            "requestBody": _body(bodies[0] if len(bodies) == 1 else {"anyOf": bodies}),
            "responses": responses,
            **self._security(methods),
            **self._token("create"),
        }

    def _links(self, key: str) -> dict[str, Any]:
        """Return what can be done with a new record."""
        return {
            method: {
                "operationId": f"{self._name}.{method}",
                "parameters": {self._key: f"$response.body#/{key}"},
            }
            for method in self._methods
            if method in ID_METHODS
        }

    # -- parts ---------------------------------------------------------------------------------

    def _parameters(self, method: str, member: bool) -> list[dict[str, Any]]:
        if self._facts.signs_in:
            return []
        if (known := self._queries.get(method)) is not None:
            only = ("$select",) if member else ()
            return query_parameters(known[1], known[0], self._components, only=only)
        return open_parameters(paging=self._facts.adapter is not None, find=not member)

    def _responses(self, method: str, answers: Mapping[int, Any], member: bool) -> dict[str, Any]:
        responses: dict[str, Any] = {
            str(status): {"description": "The result", "content": _json(schema)}
            for status, schema in answers.items()
        }
        signs_in = self._facts.signs_in
        if (self._facts.adapter is None and not signs_in) or self._custom:
            responses["204"] = {"description": "The result is empty"}
        errors = ["400"]
        if method in self._facts.secured or (signs_in and method == "create"):
            errors.append("401")
        if signs_in and method == "create":
            errors.append("429")
        if member:
            errors.append("404")
        return {**responses, **{status: dict(_ERROR) for status in (*errors, "default")}}

    def _security(self, methods: tuple[str, ...]) -> dict[str, Any]:
        secured = self._facts.secured.intersection(methods)
        open_too: list[dict[str, Any]] = [] if secured.issuperset(methods) else [{}]
        return {"security": [{"bearer": []}, *open_too]} if secured else {}

    def _token(self, method: str) -> dict[str, str]:
        """Return what a method does with an access token, for pages that keep one."""
        known = self._facts.signs_in and method in _TOKEN
        return {"x-alula-token": _TOKEN[method]} if known else {}

    def _add_record(self) -> dict[str, Any]:
        schema = self._facts.record
        if not isinstance(schema, Mapping):
            return {"type": "object"} if self._facts.adapter is not None else {}
        free = without_demands(schema)
        free.pop("additionalProperties", None)  # a resolver may add some
        return self._components.add(self._name, free)

    def _data(self, method: str) -> Any:
        schema = self._facts.data.get(method)
        if schema is None:
            return {"type": "object"}
        return self._components.add(f"{self._name}.{method}", schema)

    def _new(self) -> Any:
        data = self._data("create")
        return _one_or_list(data) if self._creates_several() else data

    def _one(self) -> Any:
        known = self._facts.adapter is not None or self._facts.signs_in
        return self._record if known else {}

    def _created(self) -> Any:
        return _one_or_list(self._record) if self._creates_several() else self._one()

    def _creates_several(self) -> bool:
        return self._facts.adapter is not None and self._facts.takes_several("create")

    def _page(self) -> Any:
        if self._facts.adapter is None:
            return {}
        records = _list_of(self._record)
        return _page_of(records) if self._facts.paginated else records


def _list_of(schema: Any) -> dict[str, Any]:
    return {"type": "array", "items": schema}


def _one_or_list(schema: Any) -> dict[str, Any]:
    return {"anyOf": [schema, _list_of(schema)]}


def _page_of(records: Any) -> dict[str, Any]:
    sizes: dict[str, Any] = {name: {"type": "integer"} for name in ("total", "limit", "skip")}
    properties = {**sizes, "data": records}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _body(schema: Any) -> dict[str, Any]:
    return {"required": True, "content": _json(schema)}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _method_header(names: tuple[str, ...], *, required: bool) -> dict[str, Any]:
    return {
        "name": "X-Service-Method",
        "in": "header",
        "required": required,
        "description": "The custom method to call.",
        "schema": {"type": "string", "enum": list(names)},
    }


def _words_about(service: Any, method: str) -> str:
    words = inspect.getdoc(getattr(service, method, None)) or "a method of this service."
    return words.partition("\n\n")[0].replace("\n", " ")
