"""People see with whom they can sign in, and remove that, but never their last way to sign in."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.accounts.building import ADA, FROM_AFAR
from tests.accounts.providing import error_of, started_site

from alula.errors import BadRequest, Conflict, FrameworkError, NotAuthenticated, NotFound


@pytest.fixture
async def site(stores):
    site = await started_site(stores)
    yield site
    await site.world.app.teardown()


def caller(token, **params):
    credentials = {"strategy": "jwt", "accessToken": token}
    return {**FROM_AFAR, "authentication": credentials, **params}


def listing(site):
    return site.world.app.service("account/identities")


async def two_identities(site):
    """Sign in without an address, link a second identity, and return the token and both ids."""
    token = await site.token(email=None)
    browser = site.browser()
    bearer = {"authorization": f"Bearer {token}"}
    answer = await browser.request("POST", "/oauth/other", {}, **bearer)
    values = site.providers["other"].sign_in(answer.get("location"), email="o@example.com")
    await browser.finish(values, provider="other")
    found = await listing(site).find(caller(token))
    return token, {identity["provider"]: identity["id"] for identity in found}


async def test_the_list_has_the_identities_of_the_caller(site, monkeypatch):
    now = time.time()
    token, ids = await two_identities(site)
    await site.token(subject="bob", email=None)
    monkeypatch.setattr(time, "time", lambda: now + 60)
    await site.token(email=None)
    found = {one["provider"]: one for one in await listing(site).find(caller(token))}
    assert set(found) == {"idp", "other"}
    assert found["other"]["id"] == ids["other"]
    assert found["other"]["email"] == "o@example.com"
    assert found["idp"]["linkedAt"] < found["idp"]["lastUsedAt"] == int((now + 60) * 1000)
    assert set(found["idp"]) == {"id", "provider", "email", "linkedAt", "lastUsedAt"}


async def test_an_identity_that_is_removed_does_not_sign_in_any_more(site):
    token, ids = await two_identities(site)
    removed = await listing(site).remove(ids["other"], caller(token))
    assert (removed["provider"], removed["email"]) == ("other", "o@example.com")
    assert [one["provider"] for one in await listing(site).find(caller(token))] == ["idp"]
    with pytest.raises(NotFound):
        await listing(site).remove(ids["other"], caller(token))


async def test_the_last_way_to_sign_in_stays(site):
    token, ids = await two_identities(site)
    await listing(site).remove(ids["other"], caller(token))
    with pytest.raises(Conflict, match="last way"):
        await listing(site).remove(ids["idp"], caller(token))
    users = site.world.app.service("users")
    await users.patch(1, {"password": ADA["password"]})
    with pytest.raises(Conflict, match="last way"):  # nobody signs in without an address
        await listing(site).remove(ids["idp"], caller(await site.token(email=None)))
    await users.patch(1, ADA)
    again = await site.token(email=None)  # the new password has ended the session
    assert await listing(site).remove(ids["idp"], caller(again))
    assert await listing(site).find(caller(again)) == []


async def test_two_removals_at_once_leave_one_way(site):
    token, ids = await two_identities(site)
    calls = [listing(site).remove(each, caller(token)) for each in ids.values()]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(result, Conflict) for result in results)
    assert await listing(site).find(caller(token)) != []


async def test_two_removals_that_overtake_each_other_leave_one_way():
    site = await started_site()
    token, ids = await two_identities(site)
    outcomes = []

    async def overtake(context):
        if not outcomes:
            outcomes.append(None)
            try:
                await site.world.app.service("credentials").remove(f"identity:{ids['other']}")
            except FrameworkError as error:
                outcomes.append(error)

    site.world.app.service("credentials").hooks(before={"remove": [overtake]})
    with pytest.raises(Conflict):
        await listing(site).remove(ids["idp"], caller(token))
    (left,) = await listing(site).find(caller(token))
    assert (left["id"], outcomes) == (ids["idp"], [None])


async def test_an_identity_that_two_calls_remove():
    site = await started_site()
    token, ids = await two_identities(site)
    overtaken = []

    async def overtake(context):
        if not overtaken:
            overtaken.append(True)
            await site.world.app.service("credentials").remove(context.id)

    site.world.app.service("credentials").hooks(before={"remove": [overtake]})
    with pytest.raises(NotFound):
        await listing(site).remove(ids["idp"], caller(token))


async def test_identities_of_others_do_not_exist(site):
    token, _ = await two_identities(site)
    bob = await site.token(subject="bob", email=None)
    (identity,) = await listing(site).find(caller(bob))
    for each in (identity["id"], f"identity:{identity['id']}", "", None, 5):
        with pytest.raises(NotFound):
            await listing(site).remove(each, caller(token))
    for method in (listing(site).find(dict(FROM_AFAR)), listing(site).remove("x", FROM_AFAR)):
        with pytest.raises(NotAuthenticated):
            await method
    with pytest.raises(BadRequest):
        await listing(site).find()


async def test_a_removal_needs_a_recent_sign_in(site, monkeypatch):
    token, ids = await two_identities(site)
    now = time.time()
    monkeypatch.setattr("alula.accounts._guards.time.time", lambda: now + 301)
    with pytest.raises(NotAuthenticated) as error:
        await listing(site).remove(ids["other"], caller(token))
    assert error.value.data["code"] == "not_recent"


async def test_a_link_in_a_mail_is_another_way():
    for is_verified in (True, False):
        site = await started_site(magic_link="anywhere")
        token = await site.token(is_verified=is_verified)
        (identity,) = await listing(site).find(caller(token))
        if is_verified:
            assert await listing(site).remove(identity["id"], caller(token))
        else:
            with pytest.raises(Conflict):
                await listing(site).remove(identity["id"], caller(token))


async def test_over_rest(site):
    token, ids = await two_identities(site)
    browser, bearer = site.browser(), {"authorization": f"Bearer {token}"}
    answer = await browser.request("GET", "/account/identities", **bearer)
    assert (answer.status, answer.get("cache-control")) == (200, "no-store")
    assert {one["id"] for one in answer.json} == set(ids.values())
    answer = await browser.request("DELETE", f"/account/identities/{ids['other']}", **bearer)
    assert answer.status == 200
    assert (await browser.request("GET", "/account/identities")).status == 401
    browser = site.browser()
    values = site.providers["other"].sign_in(
        await browser.start("", provider="other"), email="o@example.com", is_verified=False
    )
    answer = await browser.finish(values, provider="other")
    assert "error_code" not in answer.get("location")  # somebody new
    with pytest.raises(KeyError):
        error_of(answer)
