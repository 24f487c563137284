"""The description of events says what leaves the server, in AsyncAPI."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from jsonschema import Draft7Validator
from pydantic import BaseModel
from tests.express.asgi_client import call
from tests.openapi.described import Jobs, Person, references, refuse
from tests.requirements import require_node_modules
from typer.testing import CliRunner

from alula import App, Params
from alula._cli import main
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, LocalStrategy
from alula.express import express, not_found, rest
from alula.hooks import annotate_hook
from alula.openapi import describe, describe_events, openapi
from alula.realtime import socketio, sse
from alula.schema import with_schema


class Account(BaseModel):
    name: str
    password: str


class Rooms:
    """Emits the event of its method itself."""

    async def find(self, params):
        return []


def everyone(data, context):
    return context.app.channel("everyone")


def make_app(*transports, **options):
    app = express(App()).configure(rest())
    app.configure(openapi(title="Chat", version="2", **options))
    for transport in transports:
        app.configure(transport)
    app.use("people", with_schema(MemoryService(), Person), events=["waved"])
    app.service("people").publish(everyone)
    app.use("teams/:team/tasks", MemoryService(), methods=["find", "create"])
    app.service("teams/:team/tasks").hooks(
        before={"find": [annotate_hook(refuse, strategies=("jwt",))]}
    )
    app.service("teams/:team/tasks").publish("created", everyone)
    app.use("jobs", Jobs(), methods=["start"], events=["started"])
    app.service("jobs").publish("started", everyone)
    app.use("rooms", Rooms(), events=["created"])
    app.service("rooms").publish(everyone)
    hidden = with_schema(MemoryService(), Account, hidden=["password"])
    app.use("accounts", hidden)
    app.service("accounts").publish("patched", everyone)
    app.use("private", MemoryService())
    users = AuthenticationService(app, secret="s" * 32, strategies=["local"])
    users.register("local", LocalStrategy())
    app.use("users", MemoryService())
    app.use("authentication", users)
    return app.use(not_found())


@pytest.fixture(scope="module")
def document():
    return describe_events(make_app(socketio(), sse()), title="Chat", version="2", description="D")


@pytest.fixture(scope="module")
def errors_of():
    """What the official JSON Schema finds wrong with a document."""
    folder = require_node_modules("@asyncapi/specs")
    schema = json.loads((folder / "@asyncapi/specs/schemas/3.0.0.json").read_text())
    validator = Draft7Validator(schema)

    def check(document):
        return [
            f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(document)
        ]

    return check


@pytest.mark.parametrize(
    "transports",
    [(), ("socketio",), ("sse",), ("socketio", "sse")],
    ids=lambda transports: "+".join(transports) or "none",
)
def test_is_what_the_official_schema_takes(transports, errors_of):
    plugins = {"socketio": socketio(), "sse": sse()}
    assert errors_of(describe_events(make_app(*(plugins[name] for name in transports)))) == []


def test_streams_are_what_the_official_schema_takes(errors_of):
    class Words:
        async def ask(self, data: str, params: Params) -> AsyncIterator[str]:
            yield data

    app = make_app(socketio()).use("words", Words(), methods=["ask"])
    app.use("streams", Words(), methods=["ask"])
    described = describe_events(app)
    assert errors_of(described) == []
    test_every_reference_leads_somewhere(described)


def test_the_official_schema_refuses_something(errors_of, document):
    broken = {**document, "channels": {"people": {"address": 5}}}
    assert "channels" in str(errors_of(broken))


def test_every_reference_leads_somewhere(document):
    assert json.loads(json.dumps(document)) == document
    found = set(references(document))
    assert found
    for reference in found:
        part = document
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]


def test_says_what_it_is(document):
    assert document["asyncapi"] == "3.0.0"
    assert document["info"] == {"title": "Chat", "version": "2", "description": "D"}
    assert describe_events(App())["info"] == {"title": "API", "version": "1.0.0"}


def test_has_the_events_that_leave_and_no_other(document):
    assert list(document["components"]["messages"]) == [
        *(f"people.{event}" for event in ("created", "updated", "patched", "removed", "waved")),
        "teams_team_tasks.created",
        "jobs.started",
        "rooms.created",
        "accounts.patched",
    ]
    message = document["components"]["messages"]["teams_team_tasks.created"]
    assert message["name"] == "teams/:team/tasks created"
    assert message["title"] == "created"


def test_payloads_are_what_clients_may_see(document):
    messages, schemas = document["components"]["messages"], document["components"]["schemas"]
    assert messages["people.patched"]["payload"] == {"$ref": "#/components/schemas/people"}
    assert set(schemas["people"]["properties"]) == {"id", "name", "age", "born", "place"}
    assert "required" not in schemas["people"]  # a call may have selected fields
    assert set(schemas["accounts"]["properties"]) == {"id", "name"}
    assert messages["teams_team_tasks.created"]["payload"] == {"type": "object"}
    assert messages["people.waved"]["payload"] == {}
    assert messages["rooms.created"]["payload"] == {}


class TestLiveLists:
    def describe(self, *transports, publish=False):
        app = express(App()).configure(rest())
        for transport in transports:
            app.configure(transport)
        app.use("people", with_schema(MemoryService(), Person))
        app.service("people").live()
        if publish:
            app.service("people").publish("created", everyone)
        return describe_events(app)

    def test_are_messages_over_a_socket(self, errors_of):
        document = self.describe(socketio(), sse(), publish=True)
        assert errors_of(document) == []
        message = document["components"]["messages"]["people.live"]
        assert message["name"] == "people live"
        assert message["payload"]["properties"]["data"] == {"$ref": "#/components/schemas/people"}
        assert [*document["channels"]["people"]["messages"]] == ["created", "live"]
        assert [*document["channels"]["events"]["messages"]] == ["people.created"]
        names = ["people.live", "people.liveStream", "people.events", "people.stream"]
        assert [name for name in document["operations"] if name.startswith("people")] == names

    def test_are_there_without_a_publisher(self, errors_of):
        document = self.describe(socketio())
        assert errors_of(document) == []
        assert list(document["operations"]) == ["people.live"]
        document = self.describe(sse())
        assert errors_of(document) == []
        assert list(document["operations"]) == ["people.liveStream"]
        assert self.describe()["channels"] == {}

    def test_are_in_the_description_of_the_api(self):
        app = express(App()).configure(rest()).configure(sse())
        app.use("people", MemoryService())
        app.use("others", MemoryService())
        app.service("people").live()

        def kinds(path):
            return describe(app)["paths"][path]["get"]["responses"]["200"]["content"]

        assert "$live=true" in kinds("/people")["text/event-stream"]["schema"]["description"]
        assert "text/event-stream" not in kinds("/others")
        app.service("people").publish("created", everyone)
        assert len(kinds("/people")["text/event-stream"]["schema"]["anyOf"]) == 2


def test_servers_are_the_transports(document):
    assert {
        name: (server["protocol"], server.get("pathname"))
        for name, server in document["servers"].items()
    } == {
        "socketio": ("ws", "/socket.io/"),
        "sse": ("http", None),
    }
    both = make_app(socketio(), socketio("/polling/", transports=["polling"]))
    servers = describe_events(both)["servers"]
    assert [(name, server["protocol"]) for name, server in servers.items()] == [
        ("socketio", "ws"),
        ("socketio2", "http"),
    ]


def test_channels_are_the_services_and_a_stream_of_several(document):
    channels = document["channels"]
    assert {name: channel["address"] for name, channel in channels.items()} == {
        "people": "/people",
        "teams_team_tasks": "/teams/{team}/tasks",
        "jobs": "/jobs",
        "rooms": "/rooms",
        "accounts": "/accounts",
        "events": "/events",
    }
    assert list(channels["teams_team_tasks"]["parameters"]) == ["team"]
    assert channels["jobs"]["servers"] == [{"$ref": "#/servers/socketio"}]  # it has no `find`
    assert channels["events"]["servers"] == [{"$ref": "#/servers/sse"}]
    assert "people.waved" in channels["events"]["messages"]
    assert "jobs.started" not in channels["events"]["messages"]


def test_operations_say_how_to_listen(document):
    operations = document["operations"]
    assert {operation["action"] for operation in operations.values()} == {"send"}
    assert "jobs.events" in operations
    assert "jobs.stream" not in operations
    assert operations["people.stream"]["bindings"]["http"]["method"] == "GET"
    assert "security" not in operations["people.stream"]
    secured = operations["teams_team_tasks.stream"]["security"]
    assert secured == [{"$ref": "#/components/securitySchemes/bearer"}]
    assert operations["events.stream"]["bindings"]["http"]["query"]["required"] == ["services"]


def test_one_transport_alone():
    streams = describe_events(make_app(sse("live")))
    assert streams["channels"]["live"]["address"] == "/live"
    assert "people.events" not in streams["operations"]
    sockets = describe_events(make_app(socketio()))
    assert "people.stream" not in sockets["operations"]
    assert "events" not in sockets["channels"]
    assert "servers" not in sockets["channels"]["jobs"]
    assert "securitySchemes" not in sockets["components"]


def test_services_have_streams_in_openapi():
    content = describe(make_app(sse()))["paths"]["/people"]["get"]["responses"]["200"]["content"]
    assert set(content) == {"application/json", "text/event-stream"}
    for app, path in ((make_app(sse()), "/private"), (make_app(socketio()), "/people")):
        content = describe(app)["paths"][path]["get"]["responses"]["200"]["content"]
        assert set(content) == {"application/json"}


class TestServed:
    async def test_beside_the_description_of_services(self):
        app = make_app(sse())
        answer = await call(app, "GET", "/asyncapi.json")
        assert answer.status == 200
        assert answer.json == describe_events(app, title="Chat", version="2")
        again = await call(
            app, "GET", "/asyncapi.json", headers={"if-none-match": answer.get("etag")}
        )
        assert again.status == 304
        described = (await call(app, "GET", "/openapi.json")).json
        assert described["externalDocs"]["url"] == "asyncapi.json"
        page = await call(app, "GET", "/docs")
        assert '<a href="openapi.json">/openapi.json</a>' in page.text

    async def test_until_a_publisher_changes_it(self, monkeypatch):
        made = []

        def describing(*arguments, **options):
            made.append(1)
            return describe_events(*arguments, **options)

        monkeypatch.setattr("alula.openapi._asyncapi.describe_events", describing)
        app = make_app(sse())
        for _ in range(2):
            before = (await call(app, "GET", "/asyncapi.json")).json
        app.service("private").publish("removed", everyone)
        for _ in range(2):
            after = (await call(app, "GET", "/asyncapi.json")).json
        assert len(made) == 2
        assert "private.removed" not in before["components"]["messages"]
        assert "private.removed" in after["components"]["messages"]

    async def test_only_where_events_reach_clients(self):
        app = make_app()
        assert (await call(app, "GET", "/asyncapi.json")).status == 404
        assert "externalDocs" not in (await call(app, "GET", "/openapi.json")).json

    async def test_elsewhere_or_not_at_all(self):
        app = make_app(sse(), path="/v1/api.json", events="/v1/events.json")
        assert (await call(app, "GET", "/v1/events.json")).status == 200
        described = (await call(app, "GET", "/v1/api.json")).json
        assert described["externalDocs"]["url"] == "../v1/events.json"
        app = make_app(sse(), events=None)
        assert (await call(app, "GET", "/asyncapi.json")).status == 404
        assert "externalDocs" not in (await call(app, "GET", "/openapi.json")).json


def test_the_command_prints_it():
    result = CliRunner().invoke(main, ["asyncapi", "tests.openapi.described:make_app"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["asyncapi"] == "3.0.0"
    assert printed["info"]["title"] == "Everything"
