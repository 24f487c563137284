"""Two authentication services for different users do not take each other's tokens."""

from __future__ import annotations

import pytest
from tests.authentication.building import OTHER_SECRET, add_authentication, make_app

from alula import App
from alula.adapters.memory import MemoryService


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
