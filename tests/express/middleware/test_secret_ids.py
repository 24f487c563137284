"""Ids that are secrets, such as the tokens of `DELETE /authentication/<token>`, get into no log."""

from __future__ import annotations

import logging

import pytest
from tests.express.asgi_client import call
from tests.express.middleware.test_access_log import lines

from alula import App, HookContext, Params
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService
from alula.errors import NotFound
from alula.express import access_log, error_handler, express, json, not_found, rest

__all__ = ["lines"]

TOKEN = "eyJhbGciOi.x7%2Fx8.y7%20y8"
PARTS = ("eyJhbGciOi", "x7", "x8", "y7", "y8")


class Invitations:
    """Whoever knows the id of an invitation may accept it."""

    secret_ids = True

    async def find(self, params):
        return []

    async def get(self, id, params):
        return {"ok": True}

    async def remove(self, id, params):
        raise NotFound(f"No record found for id '{id}'")


def make(*, logs=True):
    app = express(App())
    if logs:
        app.use(access_log())
    app.use(json())
    app.configure(rest())
    app.use("invitations", Invitations())
    app.use("deep/:tenant/invitations", Invitations())
    app.use("notes", MemoryService([{"id": "ada"}]))
    app.use("authentication", AuthenticationService(app, secret="x" * 32, service="notes"))
    app.use(not_found(), error_handler())
    return app


@pytest.fixture
def log(caplog):
    """Everything that is logged, formatted."""
    with caplog.at_level(logging.DEBUG):
        yield lambda: "\n".join(
            f"{record.getMessage()} {record.__dict__.get('path')}" for record in caplog.records
        )


@pytest.mark.parametrize(
    ("verb", "url", "status", "logged"),
    [
        ("DELETE", f"/authentication/{TOKEN}", 401, "/authentication/..."),
        ("DELETE", f"/authentication/{TOKEN}/", 401, "/authentication/..."),
        ("DELETE", f"//authentication/{TOKEN}?a=b", 401, "authentication/..."),
        ("POST", f"/authentication/{TOKEN}", 401, "/authentication/..."),
        ("PATCH", f"/authentication/{TOKEN}", 405, "/authentication/..."),
        ("GET", f"/authentication/{TOKEN}", 405, "/authentication/..."),
        ("GET", f"/invitations/{TOKEN}", 200, "/invitations/..."),
        ("DELETE", f"/invitations/{TOKEN}", 404, "/invitations/..."),
        ("GET", f"/deep/ab/invitations/{TOKEN}", 200, "/deep/ab/invitations/..."),
        ("GET", "/invitations", 200, "/invitations"),
        ("GET", "/notes/ada", 200, "/notes/ada"),
    ],
)
async def test_a_secret_id_is_in_no_line(log, lines, verb, url, status, logged):
    answer = await call(make(), verb, url)
    assert answer.status == status
    assert lines[0].path.endswith(logged)
    if logged.endswith("..."):
        assert not any(part in log() for part in PARTS)


async def test_a_body_that_is_broken_shows_none_either(log, lines):
    headers = [("content-type", "application/json")]
    answer = await call(make(), "DELETE", f"/authentication/{TOKEN}", b"{", headers)
    assert answer.status == 400
    assert lines[0].path == "/authentication/..."
    assert not any(part in log() for part in PARTS)


@pytest.mark.parametrize("body", [None, b"{"])
async def test_below_a_mount(log, lines, body):
    outer = express()
    outer.use(access_log())
    outer.use("/api", make(logs=False))
    headers = [("content-type", "application/json")]
    answer = await call(outer, "DELETE", f"/api/authentication/{TOKEN}", body, headers)
    assert answer.status in {400, 401}
    assert lines[0].path == "/api/authentication/..."
    assert not any(part in log() for part in PARTS)


@pytest.mark.parametrize("verb", ["DELETE", "POST"])
async def test_below_a_mount_whose_errors_the_outer_application_logs(log, lines, verb):
    inner = express(App()).configure(rest()).use("invitations", Invitations())
    outer = express().use(access_log()).use("/api", inner).use(error_handler())
    await call(outer, verb, f"/api/invitations/{TOKEN}")
    assert lines[0].path == "/api/invitations/..."
    assert "/api/invitations/...: " in log()
    assert not any(part in log() for part in PARTS)


@pytest.mark.parametrize("verb", ["DELETE", "PATCH", "GET"])
async def test_below_a_mount_whose_errors_nobody_logs(caplog, lines, verb):
    caplog.set_level(logging.ERROR, logger="alula.express")
    outer = express()
    outer.use(access_log())
    outer.use("/api", make(logs=False))
    for service, logged in (("authentication", "..."), ("invitations", "..."), ("none", TOKEN)):
        await call(outer, verb, f"/api/{service}/{TOKEN}")
        assert lines[-1].path == f"/api/{service}/{logged}"


async def test_the_reprs_of_request_and_call_show_none():
    seen = []
    app = make()
    app.service("invitations").hooks(before=[lambda context: seen.append(repr(context))])
    await call(app, "GET", f"/invitations/{TOKEN}")
    assert seen == ["<HookContext before invitations.get id=...>"]
    notes = app.service("notes")
    assert "id='ada'" in repr(HookContext(app, notes, "get", Params(), "ada"))
    invitations = app.service("invitations")
    assert "id=None" in repr(HookContext(app, invitations, "find", Params()))


async def test_a_service_of_another_application_says_so_too(lines):
    inner, outer = App(), express(App())
    inner.use("invitations", Invitations())
    outer.use(access_log())
    outer.configure(rest())
    outer.use("inner", inner)
    await call(outer, "GET", f"/inner/invitations/{TOKEN}")
    assert lines[0].path == "/inner/invitations/..."
