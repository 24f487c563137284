"""API keys in the descriptions: how clients send them, and the scopes of each operation."""

from __future__ import annotations

import pytest

from alula import App
from alula._identity import key_access
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, AuthenticationStrategy, authenticate
from alula.express import express, rest
from alula.openapi import describe, describe_events
from alula.realtime import sse

SCHEME = {"type": "apiKey", "in": "header", "name": "X-Key"}


class Keys(AuthenticationStrategy):
    has_scopes = True
    security_scheme = SCHEME


class HiddenKeys(AuthenticationStrategy):
    has_scopes = True


def make_app(**hooks):
    """Return an application with a service for each set of hooks."""
    app = App().use("users", MemoryService())
    service = AuthenticationService(app, secret="s" * 32)
    service.offer("key", Keys())
    service.offer("hidden", HiddenKeys())
    app.use("authentication", service)
    for path, each in hooks.items():
        app.use(path, MemoryService())
        app.service(path).hooks(around=each)
    return app


BOTH = [authenticate("jwt", "key")]


def security(app, path, verb):
    return describe(app)["paths"][path][verb]["security"]


def test_the_scopes_of_each_operation():
    app = make_app(notes=BOTH)
    assert security(app, "/notes", "get") == [{"bearer": []}, {"key": ["notes:read"]}]
    assert security(app, "/notes/{id}", "get") == [{"bearer": []}, {"key": ["notes:read"]}]
    for path, verb in (("/notes", "post"), ("/notes/{id}", "patch"), ("/notes/{id}", "delete")):
        assert security(app, path, verb) == [{"bearer": []}, {"key": ["notes:write"]}]
    operation = describe(app)["paths"]["/notes"]["post"]
    assert {"401", "403"} <= operation["responses"].keys()
    schemes = describe(app)["components"]["securitySchemes"]
    assert schemes["key"] == SCHEME
    assert list(schemes) == ["bearer", "key"]


@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        ([authenticate("key", scope="all")], [{"key": ["all"]}]),
        (
            [authenticate("jwt", "key", optional=True)],
            [{}, {"bearer": []}, {"key": ["notes:read"]}],
        ),
        ([authenticate("jwt", "hidden")], [{"bearer": []}]),
        ([authenticate("jwt"), *BOTH], [{"bearer": []}]),
        ([*BOTH, authenticate("jwt")], [{"bearer": []}]),
        (
            [*BOTH, authenticate("jwt", "key", scope="all")],
            [{"bearer": []}, {"key": ["notes:read", "all"]}],
        ),
    ],
)
def test_hooks(hooks, expected):
    assert security(make_app(notes=hooks), "/notes", "get") == expected


def test_an_application_behind_this_one():
    outer = App().use("inner", make_app(notes=BOTH))
    handle = outer.service("inner/notes")
    assert key_access(handle, "find").scopes == {"key": ("notes:read",)}
    assert key_access(outer.service("inner/users"), "find") == ({}, {}, False)
    assert security(outer, "/inner/notes", "get") == [{"bearer": []}, {"key": ["notes:read"]}]
    assert describe(outer)["components"]["securitySchemes"]["key"] == SCHEME


def test_streams():
    app = make_app(notes=BOTH, machines=[authenticate("key")])
    web = express(app).configure(rest()).configure(sse())
    for path in ("notes", "machines"):
        web.service(path).publish(lambda *_: [])
    described = describe_events(web)
    schemes = "#/components/securitySchemes"
    operations = described["operations"]
    bearer, key = {"$ref": f"{schemes}/bearer"}, {"$ref": f"{schemes}/key"}
    assert operations["notes.stream"]["security"] == [bearer, key]
    assert operations["machines.stream"]["security"] == [key]
    assert described["components"]["securitySchemes"]["key"] == {**SCHEME, "type": "httpApiKey"}
