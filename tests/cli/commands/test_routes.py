"""`alula routes`."""

from __future__ import annotations

import json

import pytest
from tests.cli.applications import folder_with

from alula import App
from alula._cli.commands.routes import short_hook_name
from alula._cli.service_listing import HookListing, list_services
from alula.adapters.memory import MemoryService


@pytest.fixture
def run(tmp_path):
    with folder_with(tmp_path) as run:
        yield run


def rows_of(result):
    assert result.exit_code == 0, result.output
    return [line.split(None, 2) for line in result.stdout.splitlines()]


def test_a_table(run):
    lines = run("routes").stdout.splitlines()
    assert lines[0].split() == ["SERVICE", "METHOD", "REQUEST", "HOOKS"]
    create = next(line for line in lines if line.startswith("notes") and " create " in line)
    where = "POST   /notes"
    assert where in create
    hooks = "around log_call; before check, check; error note_error"
    assert create.endswith(hooks)
    assert lines[0].index("REQUEST") == create.index(where)
    assert lines[0].index("HOOKS") == create.index(hooks)
    assert not [line for line in lines if line != line.rstrip()]


def test_requests_of_every_kind(run):
    found = {tuple(row[:2]): row[2] for row in rows_of(run("routes"))[1:]}
    expected = {
        ("notes", "find"): "GET    /notes ",
        ("notes", "get"): "GET    /notes/:id ",
        ("notes", "update"): "PUT    /notes/:id ",
        ("notes", "patch"): "PATCH  /notes/:id ",
        ("notes", "remove"): "DELETE /notes/:id ",
        ("teams/:team/counter", "count"): "POST   /teams/:team/counter/count ",
        ("teams/:team/counter", "remove"): "(internal) ",
        ("closed", "find"): "(internal) ",
    }
    for key, request in expected.items():
        assert found[key].startswith(request), found[key]


def test_a_custom_method_at_the_path_of_another_service_needs_the_header(tmp_path):
    code = """
from alula import App
from alula.adapters.memory import MemoryService
from alula.express import express, rest
class Jobs:
    async def start(self, data, params): ...
app = express(App()).configure(rest())
app.use("jobs", Jobs(), methods=["start"])
app.use("jobs/start", MemoryService())
"""
    with folder_with(tmp_path, code) as run:
        assert rows_of(run("routes"))[1][2] == "POST   /jobs (X-Service-Method: start)"


def test_real_time_is_listed(tmp_path):
    code = """
from alula import App
from alula.adapters.memory import MemoryService
from alula.express import express, rest
from alula.realtime import socketio, sse
app = express(App()).configure(rest()).configure(socketio()).configure(sse())
app.use("notes", MemoryService())
"""
    with folder_with(tmp_path, code) as run:
        assert run("routes").stdout.splitlines()[-3:] == [
            "",
            "/socket.io/  socket.io",
            "/events      server-sent events; each service has a stream, too",
        ]
        assert [service["path"] for service in json.loads(run("routes", "--json").stdout)] == [
            "notes"
        ]


def test_open_methods_come_first(run):
    names = [row[1] for row in rows_of(run("routes")) if row[0].startswith("teams")]
    assert names == ["get", "count", "remove"]


def test_json_for_programs(run):
    found = {each["path"]: each["methods"] for each in json.loads(run("routes", "--json").stdout)}
    assert list(found) == ["notes", "teams/:team/counter", "hidden", "closed"]
    assert found["closed"][0]["verb"] is None
    count = next(each for each in found["teams/:team/counter"] if each["name"] == "count")
    assert count == {
        "name": "count",
        "verb": "POST",
        "path": "/teams/:team/counter/count",
        "header": None,
        "hooks": [
            {"kind": "around", "level": "app", "name": "app.log_call"},
            {"kind": "error", "level": "app", "name": "app.note_error"},
        ],
        "scopes": [],
    }


def test_the_scopes_of_keys(tmp_path):
    code = """
from alula import App
from alula.accounts import Accounts
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, authenticate
app = App().use("users", MemoryService(), methods=[])
app.use("authentication", AuthenticationService(app, secret="s" * 32, sessions="sessions"))
app.configure(Accounts(store="credentials", api_keys=True))
app.use("notes", MemoryService(), methods=["find", "remove"])
app.service("notes").hooks(around=[authenticate("jwt", "apiKey")])
"""
    with folder_with(tmp_path, code) as run:
        lines = run("routes").stdout.splitlines()
        assert lines[0].split() == ["SERVICE", "METHOD", "REQUEST", "SCOPE", "HOOKS"]
        notes = [line.split() for line in lines if line.startswith("notes")]
        assert notes[0] == [
            "notes",
            "find",
            "GET",
            "/notes",
            "notes:read",
            "around",
            "authenticate",
        ]
        assert notes[1][4:] == ["notes:write", "around", "authenticate"]
        created = next(line for line in lines if "account/api-keys" in line and " create " in line)
        assert created.endswith("around authenticate; before forbid_caching, recent")
        found = {
            each["path"]: each["methods"] for each in json.loads(run("routes", "--json").stdout)
        }
        assert [method["scopes"] for method in found["notes"][:2]] == [
            ["notes:read"],
            ["notes:write"],
        ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("check", "check"),
        ("services.notes.hooks.check", "check"),
        ("alula.authentication._hooks.authenticate.<locals>.check_caller", "authenticate"),
        ("alula.schema._service_schema._check_query.<locals>.check_query", "check_query"),
        ("alula.schema.hooks._data_hooks.<locals>._resolve_again", "resolve_again"),
        ("app._check", "_check"),
        ("app.<lambda>", "<lambda>"),
    ],
)
def test_names_of_hooks_are_short(name, shown):
    assert short_hook_name(name) == shown


def test_no_services(run, tmp_path):
    (tmp_path / "bare.py").write_text("from alula import App\napp = App()")
    assert run("routes", "bare:app").stdout == "the application has no services\n"
    assert json.loads(run("routes", "bare:app", "--json").stdout) == []


def test_an_application_that_is_not_there(run):
    result = run("routes", "shop:app")
    assert result.exit_code == 2
    assert "cannot find the module 'shop' in" in result.stderr


def test_hooks_of_an_application_behind_this_one_run_within():
    def named(name):
        def hook(*_):
            pass

        hook.__name__ = hook.__qualname__ = name
        return hook

    inner, outer = App(), App()
    inner.use("items", MemoryService())
    outer.use("inner", inner)
    for level, target in (
        ("inner app", inner),
        ("inner service", inner.service("items")),
        ("app", outer),
        ("service", outer.service("inner/items")),
    ):
        kinds = ("around", "before", "after", "error")
        target.hooks(**{kind: [named(f"{level} {kind}")] for kind in kinds})
    (service,) = list_services(outer.services)
    hooks = service.methods[0].hooks
    assert [hook.name.rpartition(".")[2] for hook in hooks] == [
        "app around",
        "app before",
        "service around",
        "service before",
        "inner app around",
        "inner app before",
        "inner service around",
        "inner service before",
        "inner service after",
        "inner app after",
        "inner service error",
        "inner app error",
        "service after",
        "app after",
        "service error",
        "app error",
    ]
    assert hooks[0] == HookListing("around", "app", hooks[0].name)
