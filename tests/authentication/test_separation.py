"""Two authentication services for different users do not take each other's tokens."""

from __future__ import annotations

import pytest
from tests.authentication.building import OTHER_SECRET, add_authentication, make_app

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService
from alula.express import express


def make(app=None, **options):
    app = make_app() if app is None else app
    app.use("admins", MemoryService())
    add_authentication(app, "admin-login", **{"service": "admins", **options})
    return app


async def test_the_start_fails_with_advice():
    with pytest.raises(ValueError, match="same id of the other") as caught:
        await make().setup()
    text = str(caught.value)
    for part in ("'authentication'", "'admin-login'", "'users'", "'admins'", "audience='admin-"):
        assert part in text


async def test_one_that_comes_later_is_refused_too():
    app = make_app()
    await app.setup()
    late = make(app).service("admin-login")
    with pytest.raises(ValueError, match="have different users"):
        await late.create({"strategy": "jwt"})


def mounted(how):
    """Return an application with an inner one, which has other users and the same secret."""
    first, second = make_app(), make_app().use("notes", MemoryService())
    if how == "application":
        return first, first.use("admin", second)
    if how == "one service":
        return first, first.use("admin/notes", second.service("notes"))
    if how == "side by side":
        return second, App().use("a", first).use("b", second)
    outer = express(first)
    return outer, outer.use("/admin", express(second))


@pytest.mark.parametrize("how", ["application", "one service", "side by side", "on the web"])
async def test_applications_that_are_mounted_are_separated_as_well(how):
    app, _outer = mounted(how)
    with pytest.raises(ValueError, match="have different users"):
        await app.setup()


async def test_the_advice_says_that_it_is_another_application():
    app, _outer = mounted("on the web")
    with pytest.raises(ValueError, match="'authentication' of another application have different"):
        await app.setup()


async def test_a_mounted_application_without_a_secret_says_so_itself():
    inner = App().use("users", MemoryService()).use("notes", MemoryService())
    inner.use("authentication", AuthenticationService(inner))
    app = make_app().use("notes", inner.service("notes"))
    await app.setup()
    with pytest.raises(ValueError, match="has no secret"):
        await inner.setup()


@pytest.mark.parametrize("issuers", [("a", None), (None, "a")])
async def test_one_direction_is_enough(issuers):
    app = make(make_app(issuer=issuers[0]), issuer=issuers[1])
    with pytest.raises(ValueError, match="have different users"):
        await app.setup()


@pytest.mark.parametrize(
    "options",
    [
        {"audience": "admins"},
        {"secret": OTHER_SECRET},
        {"service": "users"},
        {"service": "/users/"},
        {"entity": None, "strategies": ["jwt"]},
    ],
)
async def test_they_start_where_nobody_is_taken_for_somebody_else(options):
    await make(**options).setup()


async def test_two_that_differ_in_the_issuer_start():
    await make(make_app(issuer="a"), issuer="b").setup()


async def test_users_of_another_application_are_the_same_users():
    inner = make_app()
    app = App()
    app.use("users", inner.service("users"))
    app.use("login", inner.service("authentication"))
    add_authentication(app)
    await app.setup()
