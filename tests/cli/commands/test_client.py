"""The code that `alula client` writes."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from tests.client.faking import faked
from tests.interop import typed_endpoints
from tests.openapi.described import make_app

from alula._cli.commands.client import client_code
from alula._cli.commands.openapi import describe_as_json
from alula.client import create_sync_client, rest

WRITTEN = Path(__file__).parents[2] / "typing" / "written_client.py"
ENDPOINTS = WRITTEN.with_name("written_endpoints.py")


@pytest.fixture(scope="module")
def code():
    return client_code(json.loads(describe_as_json(make_app())))


def module_of(code):
    module = ModuleType("written")
    exec(compile(code, "written.py", "exec"), module.__dict__)
    return module


def description(schema, *, path="items", **more):
    operation = {
        "operationId": "items.get",
        "tags": [path],
        "responses": {
            "200": {
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/items"}}}
            }
        },
    }
    return {
        "info": {"title": "API"},
        "tags": [{"name": path}],
        "paths": {"/items/{id}": {"parameters": [], "get": operation}},
        "components": {"schemas": {"items": schema, **more}},
    }


class TestTheReferenceDescription:
    def test_the_checked_file_is_current(self, code):
        command = "alula client tests.openapi.described:make_app > tests/typing/written_client.py"
        assert WRITTEN.read_text() == code, f"write it anew: {command}"

    def test_it_has_a_type_and_a_function_for_each_service(self, code):
        assert module_of(code).__all__ == [
            "Authentication",
            "AuthenticationCreate",
            "AuthenticationService",
            "People",
            "PeoplePlace",
            "SyncAuthenticationService",
            "TeamsTeamTasks",
            "authentication",
            "calc",
            "jobs",
            "people",
            "plain",
            "secret",
            "teams_team_tasks",
            "users",
        ]

    def test_they_return_services(self, code):
        module = module_of(code)
        client, _ = faked()
        assert module.people(client) is client.service("people")
        assert module.teams_team_tasks(client).path == "teams/:team/tasks"
        assert "add" in module.calc(client).methods
        sync = create_sync_client().configure(rest("http://here").fetch())
        assert module.jobs(sync) is sync.service("jobs")
        assert module.jobs(sync).start.__name__ == "start"


class TestServicesOfOnesOwn:
    @pytest.fixture
    def code(self):
        return client_code(json.loads(describe_as_json(typed_endpoints.make_app())))

    def test_the_checked_file_is_current(self, code):
        command = "alula client tests.interop.typed_endpoints:make_app"
        assert ENDPOINTS.read_text() == code, f"write it anew: {command} > {ENDPOINTS.name}"

    def test_they_are_called_like_any_service(self, code):
        client, _ = faked()
        found = module_of(code).articles(client)
        assert found is client.service("articles")
        assert found.ping.__name__ == "ping"

    def test_a_live_list_is_no_stream_of_items(self):
        items = {"schema": {"type": "array", "items": {"type": "integer"}}}
        content = {"application/json": items, "text/event-stream": {"schema": {}}}
        find = {
            "operationId": "numbers.find",
            "tags": ["numbers"],
            "responses": {"200": {"content": content}},
        }
        described = {
            "info": {"title": "API"},
            "tags": [{"name": "numbers"}],
            "paths": {"/numbers": {"get": find}},
        }
        assert "-> list[int]: ...\n" in client_code(described)

    def test_of_a_url(self):
        place = {"name": "year", "in": "path", "required": True, "schema": {"type": "integer"}}
        query = {"name": "a-b", "in": "query", "required": True, "schema": {"type": "string"}}
        body = {"content": {"application/json": {"schema": {"type": "array", "items": {}}}}}
        empty = {"204": {"description": "empty"}}
        update = {
            "operationId": "lines.update",
            "tags": ["lines"],
            "parameters": [query],
            "requestBody": body,
            "responses": {"200": body, **empty},
        }
        clear = {"operationId": "lines.clear", "tags": ["lines"], "responses": empty}
        ask = {
            "operationId": "lines.ask",
            "tags": ["lines"],
            "responses": {
                "200": {"content": {"text/event-stream": {"x-itemSchema": {"type": "string"}}}}
            },
        }
        paths = {
            "/{year}/lines": {"parameters": [place], "put": update},
            "/{year}/lines/clear": {"parameters": [place], "post": clear},
            "/{year}/lines/ask": {"parameters": [place], "post": ask},
        }
        described = {
            "info": {"title": "API"},
            "tags": [{"name": "lines"}],
            "paths": paths,
            "components": {"schemas": {}},
        }
        code = client_code(described)
        more = "headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ..."
        route = "route: Mapping[str, Any]"
        assert (
            f"    def update(self, id: None, data: list[Any], *, query: LinesUpdateQuery, {route},"
            f" {more}) -> list[Any] | None: ...\n"
        ) in code
        assert (
            f"    def clear(self, data: None = None, *, query: Mapping[str, Any] = ..., {route},"
            f" {more}) -> None: ...\n"
        ) in code
        start = "ask(self, data: None = None, *, query: Mapping[str, Any] = ..., "
        assert f"    async def {start}{route}, {more}) -> StreamedItems[str]: ...\n" in code
        assert f"    def {start}{route}, {more}) -> SyncItemStream[str]: ...\n" in code
        assert "        'a-b': 'Required[str]',\n" in code


class TestTypes:
    @pytest.mark.parametrize(
        ("schema", "annotation"),
        [
            ({"type": "string", "format": "date-time"}, "str"),
            ({"type": "integer"}, "int"),
            ({"type": "number"}, "float"),
            ({"type": "boolean"}, "bool"),
            ({"type": "null"}, "None"),
            ({"type": "object"}, "dict[str, Any]"),
            ({"type": ["string", "null"]}, "str | None"),
            ({"type": "array", "items": {"type": "integer"}}, "list[int]"),
            ({"type": "array"}, "list[Any]"),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
            ({"oneOf": [{"type": "string"}, {}]}, "Any"),
            ({"anyOf": []}, "Any"),
            ({"enum": ["a", 1, None, True]}, "Literal['a', 1, None, True]"),
            ({"enum": [1.5]}, "Any"),
            ({"const": "a"}, "Literal['a']"),
            ({}, "Any"),
            (True, "Any"),
            ({"$ref": "#/components/schemas/other.Place"}, "OtherPlace"),
            ({"$ref": "#/components/schemas/nowhere"}, "Nowhere"),
            ({"$ref": "#/components/schemas/items"}, "Items"),
        ],
    )
    def test_of_a_property(self, schema, annotation):
        place = {"properties": {"city": {"type": "string"}}}
        record = {"properties": {"value": schema}}
        module = module_of(client_code(description(record, **{"other.Place": place})))
        assert module.Items.__annotations__["value"].__forward_arg__ == annotation

    def test_property_names_that_are_not_identifiers(self):
        record = {"properties": {"a-b": {"type": "string"}, "class": {"type": "integer"}}}
        module = module_of(client_code(description(record)))
        found = {name: each.__forward_arg__ for name, each in module.Items.__annotations__.items()}
        assert found == {"a-b": "str", "class": "int"}

    def test_a_record_without_properties(self):
        assert "\n\nItems = dict[str, Any]\n" in client_code(description({}))


class TestNames:
    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("class", "class_"),
            ("2fa", "_2fa"),
            ("list", "list_"),
            ("a/:b/c-d", "a_b_c_d"),
            ("-", "_"),
        ],
    )
    def test_paths_become_identifiers(self, path, name):
        module = module_of(client_code(description({}, path=path)))
        client, _ = faked()
        assert getattr(module, name)(client).path == path

    def test_names_are_unique(self):
        told = description({}, path="a/b")
        told["tags"].append({"name": "a_b"})
        module = module_of(client_code(told))
        assert {"a_b", "a_b_"} <= set(module.__all__)

    def test_text_of_a_description_never_becomes_code(self):
        evil = 'x"""\nraise SystemExit\n"""'
        record = {"properties": {evil: {"enum": [evil]}, "a": {"$ref": evil}}}
        told = description(record, path=evil)
        told["info"]["title"] = evil
        custom = {"operationId": f"items.{evil}", "tags": [evil]}
        told["paths"][f"/items/{evil}"] = {"post": custom}
        module_of(client_code(told))

    def test_a_declared_result_is_not_the_type_of_all_methods(self):
        told = description({})
        operation = told["paths"]["/items/{id}"]["get"]
        schema = {"$ref": "#/components/schemas/items.getResult"}
        operation["responses"] = {"200": {"content": {"application/json": {"schema": schema}}}}
        assert "TypedDict):" not in client_code(told)


class TestImports:
    def imports(self, schema, **more):
        code = client_code(description(schema, **more))
        return {line for line in code.splitlines() if line.startswith("from ")}

    def test_it_imports_what_it_uses_alone(self):
        assert self.imports({"type": "object", "properties": {"text": {"type": "string"}}}) == {
            "from __future__ import annotations",
            "from typing import Any, TypedDict, overload",
            "from alula.client import Client, SyncClient, TypedService, TypedSyncService",
        }

    def test_types_of_fields_that_no_class_can_have_count(self):
        fields = {"a-b": {"enum": ["Page"]}}
        found = self.imports({"type": "object", "properties": fields})
        assert "from typing import Any, Literal, TypedDict, overload" in found
        assert not any(line.startswith("from alula import") for line in found)
