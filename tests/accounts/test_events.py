"""Own code gets to know what has happened to accounts."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.accounts.apps import AuthenticatorApp, as_caller, ask, enter
from tests.accounts.building import ADA, FROM_AFAR, make_world, started
from tests.accounts.providing import started_site
from tests.authentication.building import BCRYPT

from alula._events import HeldEvents
from alula.accounts import AccountEvent, Accounts
from alula.errors import BadRequest, Conflict

ALL = (
    *("signed_up", "verified", "password_changed", "address_changed", "removed"),
    *("factor_added", "factor_removed", "recovery_used"),
)
USER = {"email": "ada@example.com"}


async def listening(**options):
    """Return an application, and a function that returns the new events as texts."""
    world = await started(**options)
    heard = []

    def add(event):
        heard.append(f"{event.name} {event.user_id}")

    for name in ALL if options.get("totp") else ALL[:5]:
        assert world.accounts.on(name)(add) is add

    async def events():
        await world.accounts.idle()
        new = heard.copy()
        heard.clear()
        return new

    return world, events


async def test_the_life_of_an_account(monkeypatch):
    world, events = await listening(totp=True)
    await world.sign_up()
    verify = await world.token("verify")
    assert await events() == ["signed_up 1"]
    await world.manage("verifySignupLong", verify)
    assert await events() == ["verified 1"]
    change = {"user": USER, "password": "correct horse", "changes": {"email": "a@example.com"}}
    await world.manage("identityChange", change)
    (undo, confirm) = await world.mails("undo", "change")
    assert await events() == []
    await world.manage("verifySignupLong", confirm.link.partition("#token=")[2])
    assert await events() == ["address_changed 1"]
    await world.manage("verifySignupLong", undo.link.partition("#token=")[2])
    assert await events() == ["address_changed 1", "password_changed 1"]
    new = {"token": await world.token("restored"), "password": "correct horse"}
    await world.manage("resetPwdLong", new)
    assert await events() == ["password_changed 1"]
    me = as_caller(await world.sign_in())
    phone = AuthenticatorApp(monkeypatch)
    codes = (await phone.set_up(world, me))["recoveryCodes"]
    assert await events() == ["factor_added 1"]
    ticket = (await ask(world))["ticket"]
    assert await enter(world, {"strategy": "recovery", "ticket": ticket, "code": codes[0]})
    assert await events() == ["recovery_used 1"]
    await world.app.service("account/second-factor").remove(None, me)
    assert await events() == ["factor_removed 1"]
    change = {"user": USER, "oldPassword": "correct horse", "password": "battery staple"}
    await world.manage("passwordChange", change, by=me)
    assert await events() == ["password_changed 1"]
    await world.app.service("users").remove(1)
    assert await events() == ["removed 1"]


async def test_a_reset_proves_the_address_once():
    world, events = await listening()
    await world.sign_up()
    for expected in (["verified 1", "password_changed 1"], ["password_changed 1"]):
        await world.manage("sendResetPwd", USER)
        token = await world.token("reset")
        await events()
        await world.manage("resetPwdLong", {"token": token, "password": "battery staple"})
        assert sorted(await events()) == sorted(expected)


async def test_what_the_application_does_itself():
    world, events = await listening()
    users = world.app.service("users")
    await users.create([{**ADA}, {**ADA, "email": "bob@example.com"}], adapter={"multi": True})
    assert await events() == []  # nobody has signed up
    await users.patch(1, {"name": "Ada", "isVerified": True})
    assert await events() == []
    await users.patch(1, {"password": "battery staple"})
    assert await events() == ["password_changed 1"]
    await users.service.patch(1, {"password": BCRYPT}, None)
    assert await world.sign_in("right")  # stores a new hash of the same password
    assert (await world.user())["password"] != BCRYPT
    assert await events() == []
    await users.remove(None, adapter={"multi": True})
    assert sorted(await events()) == ["removed 1", "removed 2"]


async def test_a_sign_up_by_a_provider():
    site, heard = await started_site(), []
    site.world.accounts.on("signed_up")(heard.append)
    await site.token()
    await site.token()
    await site.world.accounts.idle()
    assert heard == [AccountEvent("signed_up", 1)]


async def test_identities_that_come_and_go():
    site, heard = await started_site(), []
    for name in ("linked", "unlinked"):
        site.world.accounts.on(name)(heard.append)

    async def events():
        await site.world.accounts.idle()
        names, heard[:] = [(event.name, event.user_id) for event in heard], []
        return names

    token = await site.token()
    assert await events() == []  # a new user has signed up
    me = {**FROM_AFAR, "authentication": {"strategy": "jwt", "accessToken": token}}
    bearer = {"authorization": f"Bearer {token}"}
    browser = site.browser()
    answer = await browser.request("POST", "/oauth/other", {}, **bearer)
    values = site.providers["other"].sign_in(answer.get("location"))
    await browser.finish(values, provider="other")
    assert await events() == [("linked", 1)]
    identities = site.world.app.service("account/identities")
    first, last = await identities.find(me)
    await identities.remove(first["id"], me)
    assert await events() == [("unlinked", 1)]
    with pytest.raises(Conflict):
        await identities.remove(last["id"], me)
    assert await events() == []
    await site.token(subject="another", name="by the address")
    assert await events() == [("linked", 1)]


async def test_a_key_that_a_person_creates():
    """Also without mails; the functions of the events end before the application does."""
    world, heard = await started(has_mails=False, api_keys=True), []

    @world.accounts.on("key_created")
    async def hear(event):
        await asyncio.sleep(0.01)
        heard.append(event)

    await world.app.service("users").create({**ADA, "isVerified": True})
    me = as_caller(await world.sign_in())
    keys = world.app.service("account/api-keys")
    with pytest.raises(BadRequest):
        await keys.create({"name": "", "scopes": ["notes:read"]}, me)
    await keys.create({"name": "CI", "scopes": ["notes:read"]}, me)
    await world.app.teardown()
    assert heard == [AccountEvent("key_created", 1)]


async def test_events_of_a_transaction_wait_for_its_end():
    world, events = await listening()
    for is_kept in (False, True):
        with HeldEvents(lambda context: True) as held:
            await world.app.service("users").create(
                {**ADA, "email": f"{is_kept}@x.example"}, dict(FROM_AFAR)
            )
            assert await events() == []
        if is_kept:
            held.release()
    assert await events() == ["signed_up 2"]


async def test_handlers_may_be_asynchronous_and_fail(caplog):
    world, heard = await started(), []

    @world.accounts.on("signed_up")
    def fail(event):
        raise LookupError("ada@example.com")

    @world.accounts.on("signed_up")
    async def hear(event: AccountEvent) -> None:
        heard.append(event)

    with caplog.at_level(logging.ERROR):
        await world.sign_up()
        await world.accounts.idle()
    assert heard == [AccountEvent("signed_up", 1)]
    assert "a job of accounts failed: LookupError" in caplog.text
    assert "ada@example.com" not in caplog.text


def test_what_is_no_event():
    accounts = make_world().accounts
    with pytest.raises(ValueError, match="there is no event 'merged'; the events are signed_up,"):
        accounts.on("merged")
    for name, needed in (
        ("factor_added", "totp=True"),
        ("unlinked", "sign_in="),
        ("key_created", "api_keys=True"),
    ):
        with pytest.raises(ValueError, match=f"{name!r} never happens without {needed}"):
            accounts.on(name)
    with pytest.raises(TypeError, match=r"accounts.on\('removed'\) decorates a function, not 5"):
        accounts.on("removed")(5)
    without_mails = Accounts(store="credentials", api_keys=True)
    with pytest.raises(ValueError, match="'removed' never happens without a mailer"):
        without_mails.on("removed")
    assert make_world(totp=True).accounts.on("factor_added")
