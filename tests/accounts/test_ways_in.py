"""Signing up and in at once, signing in by a link, and addresses that have to be proved."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.accounts.building import ADA, FROM_AFAR, started, token_of

from alula import App, HookContext, Params
from alula.accounts import recent, verified
from alula.adapters.memory import MemoryService
from alula.authentication import Attempt, authenticate, hide_taken
from alula.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    MethodNotAllowed,
    NotAuthenticated,
    TooManyRequests,
)

USER = {"email": "ada@example.com"}
REGISTER = {"strategy": "register", **ADA}


async def enter(world, credentials, **params):
    return await world.app.service("authentication").create(credentials, {**FROM_AFAR, **params})


async def ask_for_link(world):
    """Ask for a link; return its token, and the cookie of the browser."""
    app = world.app
    handle = app.service("authManagement")
    data = {"action": "sendMagicLink", "value": USER}
    context = HookContext(app, handle, "create", Params(FROM_AFAR), data=data)
    await handle.run(context)
    cookie = context.http["headers"]["Set-Cookie"]
    assert cookie.startswith("__Host-link=")
    assert "HttpOnly" in cookie
    return await world.token("link"), {"headers": {"cookie": cookie.partition(";")[0]}}


# -- the users' service ----------------------------------------------------------------------------


async def test_clients_cannot_say_that_an_address_is_proved():
    world = await started()
    user = await world.sign_up(isVerified=True, email=" ADA@Example.com ")
    assert (user["isVerified"], user["email"]) == (False, "ada@example.com")
    token = (await world.sign_in())["accessToken"]
    me = {**FROM_AFAR, "authentication": {"strategy": "jwt", "accessToken": token}}
    users = world.app.service("users")
    for data in (
        {"isVerified": True},
        {"email": "new@example.com"},
        {"$set": {"email": "new@example.com"}},
        {"$rename": {"name": "email"}},
        {"email.x": 1},
    ):
        with pytest.raises(BadRequest, match="identityChange"):
            await users.patch(1, data, me)
    with pytest.raises(MethodNotAllowed):
        await users.update(1, {"email": "new@example.com"}, me)
    assert (await users.patch(1, {"name": "Ada"}, me))["name"] == "Ada"
    assert (await world.user())["email"] == "ada@example.com"


async def test_the_application_may_do_what_clients_may_not():
    world = await started()
    users = world.app.service("users")
    user = await users.create({**ADA, "isVerified": True})
    assert user["isVerified"] is True
    assert await world.mails() == []
    assert await users.update(1, {**ADA, "email": "Ada@example.com"})
    assert (await users.get(1))["email"] == "ada@example.com"


@pytest.mark.parametrize(
    "address",
    [
        None,
        5,
        {"$ne": ""},
        "",
        "ada",
        "@example.com",
        "ada@",
        "a@b@example.com",
        "ada@example",
        "ada@example..com",
        "ada lovelace@example.com",
        "ada@example.com\nBcc: eve@example.com",
        "ada,eve@example.com",
        "<ada@example.com>",
        '"ada"@example.com',
        "\ud800@example.com",
        "x" * 65 + "@example.com",
        "ada@" + "x" * 250 + ".com",
        "ada@" + "x" * 70 + ".com",
    ],
)
async def test_what_is_no_address(address):
    world = await started()
    with pytest.raises(BadRequest) as error:
        await world.sign_up(email=address)
    assert set(error.value.errors) == {"email"}


async def test_addresses_of_this_machine_and_with_other_letters():
    world = await started()
    for address in ("ada@localhost", "j\u00f6rg@b\u00fccher.example", "ada+tag@example.com"):
        assert (await world.sign_up(email=address))["email"] == address


async def test_several_users_at_once():
    world = await started()
    users = world.app.service("users")
    data = [{**ADA, "email": f"{name}@example.com"} for name in ("ada", "bob")]
    await users.create(data, adapter={"multi": ["create"]}, **FROM_AFAR)
    assert sorted(mail.to for mail in await world.mails()) == ["ada@example.com", "bob@example.com"]
    with pytest.raises(BadRequest):
        await users.create("ada", dict(FROM_AFAR))
    await users.remove(None, adapter={"multi": ["remove"]})
    assert await world.app.service("credentials").find() == []


async def test_the_owner_of_a_taken_address_gets_a_mail_and_the_client_learns_nothing():
    world = await started(hooks={"around": {"create": [hide_taken("email")]}})
    first = await world.app.service("users").create(dict(ADA), dict(FROM_AFAR))
    assert first["email"] == "ada@example.com"
    assert [mail.kind for mail in await world.mails()] == ["verify"]
    await world.app.service("users").create(dict(ADA), dict(FROM_AFAR))
    (mail,) = await world.mails()
    assert (mail.kind, mail.to) == ("taken", "ada@example.com")


async def test_an_address_that_the_application_sets_twice_is_a_conflict_without_a_mail():
    world = await started()
    await world.sign_up()
    await world.sign_up(email="bob@example.com")
    await world.mails()
    with pytest.raises(Conflict):
        await world.app.service("users").patch(1, {"email": "bob@example.com"})
    assert await world.mails() == []


async def test_off_asks_nobody():
    world = await started(verify_email="off")
    await world.sign_up()
    assert await world.mails() == []
    await world.manage("resendVerifySignup", USER)
    assert [mail.kind for mail in await world.mails()] == ["verify"]


# -- register --------------------------------------------------------------------------------------


async def test_register_answers_with_tokens_and_sends_one_mail():
    world = await started(register=True)
    result = await enter(world, {**REGISTER, "isVerified": True})
    assert {"accessToken", "refreshToken", "user"} <= set(result)
    assert result["user"] == {"id": 1, "email": "ada@example.com", "isVerified": False}
    assert [mail.kind for mail in await world.mails()] == ["verify"]
    with pytest.raises(Conflict):
        await enter(world, REGISTER)


async def test_register_tells_a_taken_address_also_where_the_users_hide_it():
    hooks = {"around": {"create": [hide_taken("email")]}}
    world = await started(register=True, hooks=hooks)
    assert await enter(world, REGISTER)
    with pytest.raises(Conflict):
        await enter(world, REGISTER)


async def test_register_is_off_by_default():
    world = await started()
    with pytest.raises(NotAuthenticated):
        await enter(world, REGISTER)
    assert await world.app.service("users").find() == []


# -- proved addresses ------------------------------------------------------------------------------


async def test_required_refuses_the_right_password_until_the_address_is_proved():
    world = await started(verify_email="required", register=True)
    with pytest.raises(NotAuthenticated) as error:
        await enter(world, REGISTER)
    assert error.value.data == {"code": "not_verified"}
    (mail,) = await world.mails()
    with pytest.raises(NotAuthenticated) as error:
        await world.sign_in()
    assert error.value.data == {"code": "not_verified"}
    (mail,) = await world.mails()
    with pytest.raises(NotAuthenticated) as error:
        await world.sign_in("wrong")
    assert error.value.data is None
    change = {"user": USER, "oldPassword": "correct horse", "password": "battery staple"}
    assert (await world.refusal("passwordChange", change)).data == {"code": "not_verified"}
    await world.manage("verifySignupLong", token_of(mail))
    assert await world.sign_in()


async def test_required_leaves_tokens_without_a_user_alone():
    world = await started(verify_email="required")
    (guard,) = [e for e in world.authentication.extensions if type(e).__name__ == "ProvedAddresses"]
    assert await guard.second_step(Attempt({}, Params())) is None


# -- links -----------------------------------------------------------------------------------------


async def test_a_link_signs_in_once_in_the_browser_that_asked():
    world = await started(magic_link=True)
    await world.sign_up()
    await world.manage("verifySignupLong", await world.token("verify"))
    token, browser = await ask_for_link(world)
    credentials = {"strategy": "link", "token": token}
    other = {"headers": {"cookie": "__Host-link=other"}}
    for params in ({}, other):
        with pytest.raises(NotAuthenticated):
            await enter(world, credentials, **params)
    result = await enter(world, credentials, **browser)
    assert result["authentication"]["payload"]["amr"] == ["link"]
    with pytest.raises(NotAuthenticated):
        await enter(world, credentials, **browser)
    for token in (None, {"$ne": ""}, "nonsense"):
        with pytest.raises(NotAuthenticated):
            await enter(world, {"strategy": "link", "token": token}, **browser)
    assert await world.sign_in()


async def test_a_link_needs_http_for_its_cookie():
    world = await started(magic_link=True)
    for by in ({"provider": "socketio"}, {"provider": None}):
        error = await world.refusal("sendMagicLink", USER, by=by)
        assert error.errors == {"$className": "badParams"}
    assert await world.manage("sendResetPwd", USER) == USER


async def test_the_first_proof_by_a_link_ends_the_password_of_a_stranger():
    world = await started(magic_link="anywhere")
    await world.sign_up()
    await world.mails()
    stranger = (await world.sign_in())["accessToken"]
    await world.manage("sendMagicLink", USER)
    result = await enter(world, {"strategy": "link", "token": await world.token("link")})
    assert result["user"]["isVerified"] is True
    with pytest.raises(NotAuthenticated):
        await world.sign_in()
    bearer = {"authentication": {"strategy": "jwt", "accessToken": stranger}}
    with pytest.raises(NotAuthenticated):
        await world.app.service("users").get(1, {**FROM_AFAR, **bearer})


async def test_a_link_proves_who_somebody_is_outside_a_sign_in_too():
    world = await started(magic_link="anywhere")
    await world.app.service("users").create({**ADA, "isVerified": True})
    await world.manage("sendMagicLink", USER)
    credentials = {"strategy": "link", "token": await world.token("link")}
    result = await world.authentication.authenticate(credentials, Params(), "link")
    assert result["user"]["id"] == 1


async def test_too_many_wrong_links():
    world = await started(magic_link="anywhere", throttle=True)
    with pytest.raises(TooManyRequests):
        for _ in range(31):
            with pytest.raises(NotAuthenticated):
                await enter(world, {"strategy": "link", "token": "nonsense"})


async def test_a_password_that_changes_during_a_sign_in_by_link_ends_it():
    world = await started(magic_link="anywhere")
    await world.sign_up()
    await world.manage("verifySignupLong", await world.token("verify"))
    await world.manage("sendMagicLink", USER)
    token = await world.token("link")

    async def change(context):
        await world.app.service("users").patch(1, {"password": "battery staple"})

    world.app.service("sessions").hooks(before={"create": [change]})
    with pytest.raises(NotAuthenticated):
        await enter(world, {"strategy": "link", "token": token})
    assert await world.app.service("sessions").find() == []


# -- guards ----------------------------------------------------------------------------------------


@pytest.fixture
async def guarded():
    world = await started()
    for path, hook in (("orders", verified()), ("payments", recent(300))):
        world.app.use(path, MemoryService())
        world.app.service(path).hooks(before={"create": [authenticate("jwt"), hook]})
    await world.sign_up()
    return world


def as_user(token):
    return {**FROM_AFAR, "authentication": {"strategy": "jwt", "accessToken": token}}


async def test_verified_asks_for_a_proved_address(guarded):
    orders, token = guarded.app.service("orders"), (await guarded.sign_in())["accessToken"]
    with pytest.raises(Forbidden) as error:
        await orders.create({}, as_user(token))
    assert error.value.data == {"code": "not_verified"}
    with pytest.raises(NotAuthenticated):
        await orders.create({}, dict(FROM_AFAR))
    assert await orders.create({}) == {"id": 0}
    await guarded.manage("verifySignupLong", await guarded.token("verify"))
    assert await orders.create({}, as_user(token)) == {"id": 1}


async def test_recent_asks_for_a_new_sign_in_and_not_for_a_renewal(guarded, monkeypatch):
    payments, signed_in = guarded.app.service("payments"), await guarded.sign_in()
    assert await payments.create({}, as_user(signed_in["accessToken"]))
    now = time.time()
    monkeypatch.setattr("alula.accounts._guards.time.time", lambda: now + 301)
    renewal = {"strategy": "refresh", "refreshToken": signed_in["refreshToken"]}
    renewed = await enter(guarded, renewal)
    with pytest.raises(NotAuthenticated) as error:
        await payments.create({}, as_user(renewed["accessToken"]))
    assert error.value.data == {"code": "not_recent", "maxAge": 300}
    assert 'max_age="300"' in error.value.headers["WWW-Authenticate"]
    assert await payments.create({})


async def test_a_new_password_needs_a_recent_sign_in(monkeypatch):
    world = await started()
    await world.sign_up()
    me = as_user((await world.sign_in())["accessToken"])
    users, later = world.app.service("users"), time.time() + 301
    with monkeypatch.context() as patched:
        patched.setattr("alula.accounts._guards.time.time", lambda: later)
        for data in ({"password": "another horse"}, {"name": "Ada", "password": "another horse"}):
            with pytest.raises(NotAuthenticated) as error:
                await users.patch(1, data, dict(me))
            assert error.value.data["code"] == "not_recent"
        assert await users.patch(1, {"name": "Ada"}, dict(me))
        assert await users.patch(1, {"password": ADA["password"]})  # own code
    me = as_user((await world.sign_in())["accessToken"])
    assert await users.patch(1, {"password": "another horse"}, dict(me))
    assert len(await world.mails("password_changed")) == 1


async def test_nobody_is_told_of_the_password_of_a_removed_user():
    world = await started()
    await world.sign_up()
    await world.mails()
    me = as_user((await world.sign_in())["accessToken"])
    users = world.app.service("users")

    async def remove(context):
        await users.remove(1)

    users.hooks(after={"patch": [remove]})
    await users.patch(1, {"password": "another horse"}, dict(me))
    assert await world.mails() == []


async def test_guards_without_a_user():
    app = App().use("orders", MemoryService())
    for hook in (verified(), recent(60)):
        context = HookContext(app, app.service("orders"), "create", Params(FROM_AFAR))
        with pytest.raises(NotAuthenticated):
            await hook(context)
    with pytest.raises(TypeError, match="authenticate"):
        app.service("orders").hooks(before=[verified(), authenticate("jwt")])
    for seconds in (0, 1.5, True, "300"):
        with pytest.raises(ValueError, match="recent"):
            recent(seconds)


async def test_guards_as_around_hooks():
    world = await started()
    world.app.use("orders", MemoryService())
    around = {"create": [authenticate("jwt"), verified(), recent(60)]}
    world.app.service("orders").hooks(around=around)
    await world.app.service("users").create({**ADA, "isVerified": True})
    token = (await world.sign_in())["accessToken"]
    assert await asyncio.wait_for(world.app.service("orders").create({}, as_user(token)), 5)
