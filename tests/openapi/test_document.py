"""The description says what there is."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from pydantic import BaseModel
from tests.openapi.described import Jobs, make_app, references, refuse

from alula import App
from alula._service_facts import facts_of
from alula.adapters.memory import MemoryService
from alula.authentication import (
    AuthenticationService,
    AuthenticationStrategy,
    LocalStrategy,
    authenticate,
)
from alula.common_hooks import timestamps
from alula.hooks import annotate_hook
from alula.openapi import describe
from alula.schema import validate_data, validate_query, with_schema


@pytest.fixture(scope="module")
def document():
    return describe(make_app(), title="Everything", version="2.1", description="All kinds.")


def operations(document):
    for path, item in document["paths"].items():
        for verb, operation in item.items():
            if verb != "parameters":
                yield path, verb, operation, [*item["parameters"], *operation["parameters"]]


def test_says_what_it_is(document):
    assert document["openapi"] == "3.1.0"
    assert document["info"] == {
        "title": "Everything",
        "version": "2.1",
        "description": "All kinds.",
    }
    assert describe(App())["info"] == {"title": "API", "version": "1.0.0"}
    assert describe(App())["paths"] == {}
    assert "securitySchemes" not in describe(App())["components"]


def test_is_plain_json(document):
    assert json.loads(json.dumps(document)) == document


def test_has_every_open_method_and_no_other(document):
    assert {
        path: sorted(set(item) - {"parameters"}) for path, item in document["paths"].items()
    } == {
        "/people": ["get", "post"],
        "/people/{id}": ["delete", "get", "patch", "put"],
        "/teams/{team}/tasks": ["delete", "get", "patch", "post"],
        "/teams/{team}/tasks/{id}": ["delete", "get", "patch", "put"],
        "/plain": ["get", "post"],
        "/plain/{id}": ["get"],
        "/calc": ["delete", "get"],
        "/calc/add": ["post"],
        "/calc/{id}": ["delete", "get"],
        "/jobs/start": ["post"],
        "/secret": ["get", "post"],
        "/secret/{id}": ["delete", "get", "patch", "put"],
        "/users": ["post"],
        "/authentication": ["delete", "post"],
    }
    assert [tag["name"] for tag in document["tags"]] == [
        "people",
        "teams/:team/tasks",
        "plain",
        "calc",
        "jobs",
        "secret",
        "users",
        "authentication",
    ]


def test_every_reference_leads_somewhere(document):
    for reference in set(references(document)):
        target = document
        for name in reference.removeprefix("#/").split("/"):
            target = target[name]


def test_names_are_unique_and_parameters_are_in_their_paths(document):
    names = Counter(operation["operationId"] for _, _, operation, _ in operations(document))
    assert max(names.values()) == 1
    for path, _, _, parameters in operations(document):
        assert (
            max(Counter((each["name"], each["in"]) for each in parameters).values(), default=1) == 1
        )
        in_path = {each["name"] for each in parameters if each["in"] == "path"}
        assert in_path == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_services_of_similar_names_stay_apart():
    app = App()
    shape = {"type": "object", "properties": {"a": {"type": "string"}}}
    other = {"type": "object", "properties": {"b": {"type": "string"}}}
    for path, schema in (("a/b", shape), ("a_b", other), ("a b", other), ("Error", other)):
        app.use(path, with_schema(MemoryService(), schema))
    document = describe(app)
    ids = Counter(operation["operationId"] for _, _, operation, _ in operations(document))
    assert set(ids.values()) == {1}
    schemas = document["components"]["schemas"]
    assert "a" in schemas["a_b"]["properties"]
    assert "b" in schemas["a_b_"]["properties"]
    assert "className" in schemas["Error"]["properties"]


def test_a_service_at_the_root():
    document = describe(App().use("/", MemoryService()))
    assert list(document["paths"]) == ["/", "/{id}"]
    assert document["tags"] == [{"name": "/"}]
    found = document["paths"]["/{id}"]["get"]
    assert (found["operationId"], found["tags"]) == ("root.get", ["/"])


def test_a_colon_within_a_segment_is_no_placeholder():
    paths = describe(App().use("v1/notes:all", MemoryService()))["paths"]
    assert list(paths) == ["/v1/notes:all", "/v1/notes:all/{id}"]
    assert paths["/v1/notes:all"]["parameters"] == []


def test_a_placeholder_may_be_called_id():
    app = App()
    app.use("users/:id/posts", MemoryService())
    paths = describe(app)["paths"]
    assert set(paths) == {"/users/{id}/posts", "/users/{id}/posts/{recordId}"}
    named = [each["name"] for each in paths["/users/{id}/posts/{recordId}"]["parameters"]]
    assert named == ["id", "recordId"]
    links = paths["/users/{id}/posts"]["post"]["responses"]["201"]["links"]
    assert links["get"]["parameters"] == {"recordId": "$response.body#/id"}


def of(document, path, verb):
    return document["paths"][path][verb]


def content(part):
    return part["content"]["application/json"]["schema"]


def test_pages_lists_and_records(document):
    page = content(of(document, "/people", "get")["responses"]["200"])
    person = {"$ref": "#/components/schemas/people"}
    assert page["required"] == ["total", "limit", "skip", "data"]
    assert page["properties"]["data"] == {"type": "array", "items": person}
    assert content(of(document, "/people/{id}", "patch")["responses"]["200"]) == person
    tasks = content(of(document, "/teams/{team}/tasks", "delete")["responses"]["200"])
    assert tasks == {"type": "array", "items": {"$ref": "#/components/schemas/teams_team_tasks"}}
    assert content(of(document, "/plain/{id}", "get")["responses"]["200"]) == {"type": "object"}
    shown = document["components"]["schemas"]["people"]
    assert set(shown["properties"]) == {"id", "name", "age", "born", "place", "size"}
    assert "required" not in shown


def test_bodies(document):
    body = of(document, "/people", "post")["requestBody"]
    assert body["required"] is True
    data = document["components"]["schemas"][content(body)["$ref"].rpartition("/")[2]]
    assert data["required"] == ["name"]
    part = content(of(document, "/people/{id}", "patch")["requestBody"])["$ref"].rpartition("/")[2]
    assert "required" not in document["components"]["schemas"][part]
    several = content(of(document, "/teams/{team}/tasks", "post")["requestBody"])["anyOf"]
    assert several[1] == {"type": "array", "items": several[0]}
    assert content(of(document, "/plain", "post")["requestBody"]) == {"type": "object"}
    assert "requestBody" not in of(document, "/people/{id}", "delete")


def names_of(operation):
    return {each["name"] for each in operation["parameters"]}


def test_queries(document):
    find = names_of(of(document, "/people", "get"))
    assert {"$limit", "$select[]", "$sort[age]", "age[$gt]", "place.city", "name"} <= find
    assert names_of(of(document, "/people/{id}", "get")) == {"$select[]"}
    assert names_of(of(document, "/people", "post")) == {"$select[]"}
    assert "done" in names_of(of(document, "/teams/{team}/tasks", "patch"))
    assert names_of(of(document, "/plain", "get")) == {
        "$limit",
        "$skip",
        "$select[]",
        "$sort",
        "query",
    }
    assert names_of(of(document, "/plain/{id}", "get")) == {"$select[]"}
    assert names_of(of(document, "/calc/{id}", "get")) == {"query"}


def test_custom_methods(document):
    post = of(document, "/calc/add", "post")
    assert (post["operationId"], post["tags"]) == ("calc.add", ["calc"])
    assert post["summary"] == "Add the numbers `a` and `b`."
    assert of(document, "/jobs/start", "post")["summary"] == "start"
    assert set(post["responses"]) == {"200", "204", "400", "default"}


def test_a_service_may_create_and_have_custom_methods():
    class Both(MemoryService):
        start = Jobs.start

    app = App()
    app.use("both", Both(), methods=["create", "start"])
    paths = describe(app)["paths"]
    assert paths["/both"]["post"]["operationId"] == "both.create"
    assert paths["/both/start"]["post"]["operationId"] == "both.start"


def test_a_service_may_be_at_the_address_of_a_custom_method():
    app = App().use("jobs", Jobs(), methods=["start"]).use("jobs/start", MemoryService())
    assert describe(app)["paths"]["/jobs/start"]["post"]["operationId"] == "jobs_start.create"


def test_answers(document):
    assert set(of(document, "/people/{id}", "get")["responses"]) == {"200", "400", "404", "default"}
    assert set(of(document, "/people", "post")["responses"]) == {"201", "400", "default"}
    assert "204" in of(document, "/calc/{id}", "get")["responses"]
    assert "Error" in document["components"]["responses"]


def test_a_new_record_leads_to_what_can_be_done_with_it(document):
    links = of(document, "/people", "post")["responses"]["201"]["links"]
    assert set(links) == {"get", "update", "patch", "remove"}
    link = {"operationId": "people.get", "parameters": {"id": "$response.body#/id"}}
    assert links["get"] == link
    assert "links" not in of(document, "/calc/add", "post")["responses"]["200"]


def test_what_needs_a_token_says_so(document):
    remove = of(document, "/secret/{id}", "delete")
    assert remove["security"] == [{"bearer": []}]
    assert "401" in remove["responses"]
    assert "security" not in of(document, "/secret/{id}", "get")
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_some_methods_may_need_a_token():
    class Both(MemoryService):
        start = Jobs.start

    app = App()
    app.use("both", Both(), methods=["create", "start"])
    app.service("both").hooks(before={"start": [annotate_hook(refuse, strategies=("jwt",))]})
    paths = describe(app)["paths"]
    assert paths["/both/start"]["post"]["security"] == [{"bearer": []}]
    assert "security" not in paths["/both"]["post"]


def test_a_token_may_be_optional():
    app = App().use("notes", MemoryService())
    optional, needed = authenticate("jwt", optional=True), authenticate("jwt")
    app.service("notes").hooks(before={"find": [optional], "get": [optional, needed]})
    document = describe(app)
    find = of(document, "/notes", "get")
    assert find["security"] == [{}, {"bearer": []}]
    assert "401" in find["responses"]
    assert of(document, "/notes/{id}", "get")["security"] == [{"bearer": []}]


def test_hooks_are_read_wherever_they_are():
    query = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "additionalProperties": False,
    }
    inner, outer = App(), App()
    inner.use("notes", MemoryService(multi=True))
    inner.hooks(around=[validate_query(query)])
    inner.service("notes").hooks(before={"create": [validate_data({"create": query})]})
    outer.use("inner", inner)
    outer.hooks(before=[annotate_hook(lambda context: None, strategies=("jwt",))])
    document = describe(outer)
    assert [each["name"] for each in of(document, "/inner/notes", "get")["parameters"]] == ["a"]
    assert "inner_notes.create" in document["components"]["schemas"]
    assert of(document, "/inner/notes/{id}", "patch")["security"] == [{"bearer": []}]


def test_a_checker_without_a_description_is_open():
    class Checker:
        operators = filters = frozenset()

        def validate(self, value):
            return value

    app = App()
    app.use("notes", MemoryService())
    app.service("notes").hooks(around=[validate_query(Checker())])
    assert of(describe(app), "/notes", "get")["parameters"] == []


def test_a_service_may_be_read_only():
    app = App()
    app.use("notes", MemoryService(), methods=["get"])
    assert list(describe(app)["paths"]) == ["/notes/{id}"]
    app.use("more", MemoryService(), methods=["find"])
    assert list(describe(app)["paths"]["/more"]) == ["parameters", "get"]


def test_what_is_registered_later_is_there():
    app = make_app()
    app.use("late", MemoryService())
    assert "/late" in describe(app)["paths"]


class Chip(AuthenticationStrategy):
    """A strategy that says nothing about its fields."""


def sign_ins(**options):
    app = App()
    app.use("users", MemoryService())
    service = AuthenticationService(app, secret="s" * 32, **options)
    app.use("authentication", service)
    return app, service


def proofs(document):
    schema = document["components"]["schemas"]["authentication.create"]
    return [
        (each["properties"].pop("strategy")["const"], each["properties"], each["required"])
        for each in schema.get("anyOf", [schema])
    ]


def test_a_sign_in_says_what_each_strategy_takes():
    app, service = sign_ins(sessions="sessions", strategies=["jwt", "local", "chip", "later"])
    service.register("local", LocalStrategy(username_field="name"))
    service.register("chip", Chip())
    text = {"type": "string"}
    assert proofs(describe(app)) == [
        ("local", {"name": text, "password": text}, ["strategy", "name", "password"]),
        ("jwt", {"accessToken": text}, ["strategy", "accessToken"]),
        ("chip", {}, ["strategy"]),
        ("later", {}, ["strategy"]),
        ("refresh", {"refreshToken": text}, ["strategy", "refreshToken"]),
    ]


def test_a_sign_in_by_one_strategy_is_plain():
    document = describe(sign_ins(strategies=["local"])[0])
    assert document["components"]["schemas"]["authentication.create"]["type"] == "object"
    assert [name for name, _, _ in proofs(document)] == ["local"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, {"accessToken", "authentication", "user"}),
        ({"sessions": "sessions"}, {"accessToken", "refreshToken", "authentication", "user"}),
        ({"entity": None, "strategies": ["jwt"]}, {"accessToken", "authentication"}),
    ],
)
def test_a_sign_in_says_what_it_answers(options, names):
    document = describe(sign_ins(**options)[0])
    answer = content(of(document, "/authentication", "post")["responses"]["201"])
    assert answer == {"$ref": "#/components/schemas/authentication"}
    assert set(document["components"]["schemas"]["authentication"]["properties"]) == names


def test_signing_in_and_out_are_called_so():
    app, _ = sign_ins()
    app.use("plain", MemoryService())
    document = describe(app)
    sign_in = of(document, "/authentication", "post")
    sign_out = of(document, "/authentication", "delete")
    assert (sign_in["summary"], sign_in["x-alula-token"]) == ("Sign in", "issued")
    assert (sign_out["summary"], sign_out["x-alula-token"]) == ("Sign out", "revoked")
    assert "/authentication/{id}" not in document["paths"]  # a path ends up in logs
    assert sign_in["parameters"] == []
    assert set(sign_in["responses"]) == {"201", "400", "401", "429", "default"}
    assert set(sign_out["responses"]) == {"200", "400", "401", "default"}
    create = of(document, "/plain", "post")
    assert create["summary"] == "Create a record"
    assert "x-alula-token" not in create


def test_signing_out_needs_the_token():
    document = describe(sign_ins()[0])
    assert of(document, "/authentication", "delete")["security"] == [{"bearer": []}]
    assert "security" not in of(document, "/authentication", "post")
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_without_the_room_of_sign_ins_no_service_is_one(monkeypatch):
    app, _ = sign_ins()
    monkeypatch.delitem(sys.modules, "alula.authentication")
    assert "authentication" not in describe(app)["components"]["schemas"]


def test_a_model_without_a_schema_is_open():
    class Tool(BaseModel):
        use: Callable[[int], int]

    app = App()
    app.use("tools", MemoryService())
    app.service("tools").hooks(before={"create": [validate_data(Tool)]})
    data = of(describe(app), "/tools", "post")["requestBody"]
    assert content(data) == {"$ref": "#/components/schemas/tools.create"}
    assert describe(app)["components"]["schemas"]["tools.create"] == {}


def test_what_is_hidden_cannot_be_asked_for():
    class User(BaseModel):
        email: str
        password: str

    app = App()
    app.use("users", with_schema(MemoryService(), User, hidden=["password"]))
    document = describe(app)
    asked = names_of(of(document, "/users", "get"))
    assert "email[$gt]" in asked
    assert not [name for name in asked if "password" in name]
    assert set(document["components"]["schemas"]["users"]["properties"]) == {"id", "email"}
    new = document["components"]["schemas"]["users.create"]
    assert set(new["properties"]) == {"email", "password"}


def test_clients_need_not_send_what_hooks_set():
    schema = {
        "properties": {"text": {"type": "string"}, "at": {"type": "integer"}},
        "required": ["text", "at"],
    }
    app = App().use("notes", with_schema(MemoryService(), schema))
    app.use("times", with_schema(MemoryService(), {**schema, "required": ["at"]}))
    app.hooks(around=[timestamps("at", None)])
    data = {path: facts_of(app.service(path)).data["create"] for path in ("notes", "times")}
    assert data["notes"]["required"] == ["text"]
    assert "required" not in data["times"]
    assert data["notes"]["properties"] == schema["properties"]
    app.use("plain", MemoryService())
    assert facts_of(app.service("plain")).data == {}
    # A before hook runs behind the check, which needs the property.
    late = App().use("notes", with_schema(MemoryService(), schema))
    late.service("notes").hooks(before=[timestamps("at", None)])
    assert facts_of(late.service("notes")).data["create"]["required"] == ["text", "at"]
