"""An address that nobody confirms: its owner links the identity by a link in a mail."""

from __future__ import annotations

import asyncio

import pytest
from tests.accounts.apps import AuthenticatorApp, as_caller
from tests.accounts.building import started, token_of
from tests.accounts.providing import error_of, started_site

from alula.errors import NotAuthenticated

ADA = "ada@example.com"
CROWD = 50


@pytest.fixture
async def site(stores):
    site = await started_site(stores)
    yield site
    await site.world.app.teardown()


async def account(site, *, is_verified=True, **changes):
    """Store a user with a password, and return the id."""
    user = await site.world.sign_up(**changes)
    if is_verified:
        await site.world.app.service("users").patch(user["id"], {"isVerified": True})
    await site.world.mails()
    return user["id"]


async def refused(site, browser, **person):
    """Try to sign in with an identity whose address belongs to somebody; return the mails."""
    answer = await site.come_in(browser, **{"is_verified": False, **person})
    assert error_of(answer) == "account_exists"
    assert await site.identities() == []
    return await site.world.mails()


async def confirm(site, browser, token):
    """Post the token of a mail as the page does, and return the user or the error."""
    data = {"action": "linkIdentity", "value": token}
    answer = await browser.request("POST", "/authManagement", data)
    assert answer.status in {201, 400, 409, 429}, answer.body
    return answer.json


async def test_the_owner_of_the_address_links_the_identity_in_the_same_browser(site):
    user_id, browser = await account(site), site.browser()
    (mail,) = await refused(site, browser, email="ADA@example.com")
    assert (mail.kind, mail.to) == ("link_identity", ADA)
    user = await confirm(site, browser, token_of(mail))
    assert (user["id"], user["email"]) == (user_id, ADA)
    assert "password" not in user
    (identity,) = await site.identities()
    assert identity["userId"] == str(user_id)
    assert [mail.kind for mail in await site.world.mails()] == ["linked"]
    assert (await site.user_of(await site.token(is_verified=False)))["id"] == user_id
    assert await site.world.sign_in()  # the password still works: the address was confirmed
    again = await confirm(site, browser, token_of(mail))
    assert again["errors"] == {"$className": "badParam"}


async def test_the_link_of_somebody_else_lets_nobody_in(site):
    """Mallory has an identity with Ada's address, and Ada clicks the link in the mail."""
    await account(site)
    mallory, ada = site.browser(), site.browser()
    (mail,) = await refused(site, mallory, subject="mallory")
    for browser in (ada, site.browser()):
        assert (await confirm(site, browser, token_of(mail)))["code"] == 400
    assert await site.identities() == []
    for value in (None, {"$ne": ""}, 5):
        data = {"action": "linkIdentity", "value": value}
        answer = await mallory.request("POST", "/authManagement", data)
        assert answer.json["errors"] == {"$className": "badParams"}


async def test_a_link_links_once(site):
    await account(site)
    browser = site.browser()
    (mail,) = await refused(site, browser)
    answers = await asyncio.gather(*[confirm(site, browser, token_of(mail)) for _ in range(CROWD)])
    assert sorted(answer.get("code", 201) for answer in answers) == [201, *[400] * (CROWD - 1)]
    assert len(await site.identities()) == 1
    assert len(await site.world.mails("linked")) == 1


async def test_a_second_try_in_the_same_browser_keeps_the_link(site):
    await account(site)
    browser = site.browser()
    first, second = [(await refused(site, browser))[0] for _ in range(2)]
    assert (await confirm(site, browser, token_of(first)))["code"] == 400  # there is a newer one
    assert (await confirm(site, browser, token_of(second)))["email"] == ADA


async def test_mails_have_budgets_and_the_answer_stays_the_same():
    site = await started_site(throttle=True)
    await account(site)
    browser = site.browser()
    (mail,) = await refused(site, browser)
    assert await refused(site, browser) == []  # one a minute, and the first link goes on
    assert (await confirm(site, browser, token_of(mail)))["email"] == ADA
    for _ in range(31):
        answer = await confirm(site, browser, token_of(mail))
    assert answer["code"] == 429


async def test_a_link_expires(monkeypatch):
    site = await started_site()
    await account(site)
    browser = site.browser()
    (mail,) = await refused(site, browser)
    now = mail.expires.timestamp()
    monkeypatch.setattr("alula.accounts._proofs.time.time", lambda: now + 1)
    assert (await confirm(site, browser, token_of(mail)))["code"] == 400
    assert await site.identities() == []


@pytest.mark.parametrize("change", ["address", "password", "removed"])
async def test_a_link_ends_with_what_it_is_for(site, change):
    user_id = await account(site)
    browser = site.browser()
    (mail,) = await refused(site, browser)
    users = site.world.app.service("users")
    if change == "address":
        await users.patch(user_id, {"email": "new@example.com"})
    elif change == "removed":
        await users.remove(user_id)
    else:
        change = {"user": {"email": ADA}, "oldPassword": "correct horse"}
        await site.world.manage("passwordChange", {**change, "password": "battery staple"})
    assert (await confirm(site, browser, token_of(mail)))["code"] == 400
    assert await site.identities() == []


async def test_an_identity_that_somebody_else_has_linked_meanwhile_stays_theirs(site):
    await account(site)
    browser = site.browser()
    (mail,) = await refused(site, browser)
    other = await site.user_of(await site.token(email="new@example.com"))  # the same subject
    answer = await confirm(site, browser, token_of(mail))
    assert (answer["code"], answer["data"]) == (409, {"code": "already_linked"})
    (identity,) = await site.identities()
    assert identity["userId"] == str(other["id"])


@pytest.mark.parametrize("event", ["linked", "removed"])
async def test_something_happens_during_the_link(event):
    site = await started_site()
    user_id, browser = await account(site), site.browser()
    (mail,) = await refused(site, browser)
    app, done = site.world.app, []

    async def interfere(context):
        if context.data["kind"] == "identity" and not done:
            done.append(True)
            if event == "linked":
                await site.token(email="new@example.com")
            else:
                await app.service("users").remove(user_id)

    when = "before" if event == "linked" else "after"
    app.service("credentials").hooks(**{when: {"create": [interfere]}})
    assert (await confirm(site, browser, token_of(mail)))["code"] == 409
    assert [i["userId"] for i in await site.identities()] == (["2"] if event == "linked" else [])


async def test_a_link_of_an_identity_that_is_linked_already(site):
    user_id, browser = await account(site), site.browser()
    (mail,) = await refused(site, browser)
    assert await site.token()  # this time, the provider confirms the address
    await site.world.mails()
    assert (await confirm(site, browser, token_of(mail)))["id"] == user_id
    assert len(await site.identities()) == 1
    assert await site.world.mails() == []


@pytest.mark.parametrize("is_verified", [True, False])
async def test_ask_always_asks_and_a_stranger_loses_everything(monkeypatch, is_verified):
    """Somebody has signed up with the address of Ada, and waits with a second factor."""
    site = await started_site(link_by_email="ask", totp=True, api_keys=True)
    user_id = await account(site, is_verified=False)
    stranger = as_caller(await site.world.sign_in())
    await site.world.accounts.api_keys.create(user_id=user_id, name="CI", scopes=["*"])
    await AuthenticatorApp(monkeypatch).set_up(site.world, stranger)
    await site.world.mails()
    browser = site.browser()
    (mail,) = await refused(site, browser, is_verified=is_verified)
    user = await confirm(site, browser, token_of(mail))
    assert user["isVerified"] is True
    assert await site.world.accounts.api_keys.find(str(user_id)) == []
    assert await site.world.app.service("sessions").find() == []
    with pytest.raises(NotAuthenticated, match="Invalid login"):
        await site.world.sign_in()
    answer = await site.come_in()
    # A mail alone does not remove a second factor; a provider that confirms the address does.
    assert ("error_code=second_factor" in answer.get("location")) is not is_verified


async def test_without_links_by_mail_there_is_no_action():
    for world in (await started(), (await started_site(link_by_email="never")).world):
        error = await world.refusal("linkIdentity", "x" * 59)
        assert "does not exist" in error.message
    site = await started_site(link_by_email="never")
    await account(site)
    browser = site.browser()
    assert await refused(site, browser, is_verified=True) == []
    assert browser.cookies == {}
