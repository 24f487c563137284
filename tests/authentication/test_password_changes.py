"""A password that is changed while somebody signs in with the old one."""

from __future__ import annotations

import pytest
from tests.authentication.building import BCRYPT, add_user, login, make_app, quick_passwords

from alula.adapters.memory import MemoryService
from alula.authentication import LocalStrategy, hash_password
from alula.errors import NotAuthenticated


@pytest.fixture
async def app():
    app = make_app(sessions="sessions")
    app.use("sessions", MemoryService(), methods=[])
    app.service("users").hooks(before={"patch": [hash_password("password")]})
    await app.setup()
    await add_user(app)
    return app


def meanwhile(app, change):
    """Let something happen between the check of a password and the start of the session."""
    done = []

    async def once(context):
        if not done:
            done.append(context)
            await change()

    app.service("sessions").hooks(before={"create": [once]})


async def sign_in(app, **params):
    return await app.service("authentication").create(login(), params)


async def set_password(app, password):
    await app.service("users").patch(1, {"password": password})


async def refused(app):
    with pytest.raises(NotAuthenticated) as caught:
        await sign_in(app)
    assert (caught.value.message, caught.value.data) == ("Invalid login", None)
    assert await app.service("sessions").find() == []


async def test_the_old_password_begins_no_session(app):
    meanwhile(app, lambda: set_password(app, "new"))
    await refused(app)


async def test_the_refusal_waits_like_every_other(app, monkeypatch):
    waited = []

    async def until_floor(started):
        waited.append(started)

    strategy = app.service("authentication").service.strategy("local")
    monkeypatch.setattr(strategy.passwords, "until_floor", until_floor)
    meanwhile(app, lambda: set_password(app, "new"))
    await refused(app)
    assert len(waited) == 1


async def test_a_user_who_is_removed_gets_the_same_refusal(app):
    meanwhile(app, lambda: app.service("users").remove(1))
    await refused(app)


async def test_another_hash_of_the_same_password_is_no_change(app):
    meanwhile(app, lambda: set_password(app, "right"))
    assert (await sign_in(app))["user"]["id"] == 1
    assert len(await app.service("sessions").find()) == 1


async def test_a_hash_that_this_sign_in_renews_is_no_change(app):
    app.service("users").service._store["1"]["password"] = BCRYPT
    assert (await sign_in(app))["refreshToken"]
    assert app.service("users").service._store["1"]["password"] != BCRYPT


async def test_a_look_that_fails_leaves_no_session(app):
    def fail(context):
        if context.method == "get" and context.params.get("authenticated") is None and begun:
            raise OSError("the database is away")

    begun = []

    async def begin():
        begun.append(True)

    app.service("users").hooks(before={"get": [fail]})
    meanwhile(app, begin)
    with pytest.raises(OSError, match="away"):
        await sign_in(app)
    assert await app.service("sessions").find() == []


async def test_the_password_is_checked_once_where_nothing_has_changed(app):
    checked = []
    passwords = quick_passwords()
    check = passwords.check

    async def counted(*args, **options):
        checked.append(args)
        return await check(*args)

    passwords.check = counted
    app.service("authentication").service.register("local", LocalStrategy(passwords=passwords))
    await sign_in(app)
    assert len(checked) == 1
