"""Sign in with others in an application that sends no mails."""

from __future__ import annotations

import pytest
from tests.accounts.building import FROM_AFAR
from tests.accounts.providing import error_of, started_site

from alula.errors import BadRequest, NotAuthenticated


@pytest.fixture
async def site(stores):
    site = await started_site(stores, has_mails=False, min_password=9)
    yield site
    await site.world.app.teardown()


async def test_people_sign_in_and_an_address_that_nobody_confirms_links_nothing(site):
    heard = []
    for name in ("signed_up", "linked", "verified"):
        site.world.accounts.on(name)(lambda event: heard.append(f"{event.name} {event.user_id}"))
    first = await site.user_of(await site.token(is_verified=False))
    assert first["isVerified"] is False
    browser = site.browser()
    answer = await site.come_in(browser, subject="2", is_verified=False)
    assert error_of(answer) == "account_exists"
    assert browser.cookies == {}
    owner = await site.user_of(await site.token(subject="2"))  # the provider confirms the address
    assert (owner["id"], owner["isVerified"]) == (first["id"], True)
    assert [identity["userId"] for identity in await site.identities()] == [str(first["id"])]
    await site.world.accounts.idle()
    assert sorted(heard) == ["linked 1", "signed_up 1", "verified 1"]


async def test_users_are_protected_as_with_mails(site):
    users = site.world.app.service("users")
    with pytest.raises(BadRequest, match="at least 9 characters"):
        await site.world.sign_up(password="12345678")
    user = await site.world.sign_up(isVerified=True)
    assert user["isVerified"] is False  # clients cannot say so
    credentials = {"strategy": "jwt", "accessToken": (await site.world.sign_in())["accessToken"]}
    me = {**FROM_AFAR, "authentication": credentials}
    with pytest.raises(BadRequest, match=r"email cannot be changed here$"):
        await users.patch(1, {"email": "b@example.com"}, me)
    data = {"action": "sendResetPwd", "value": {"email": "ada@example.com"}}
    answer = await site.browser().request("POST", "/authManagement", data)
    assert answer.status == 405
    await site.token()  # a stranger may have signed up: the password ends
    with pytest.raises(NotAuthenticated):
        await site.world.sign_in()
    await users.remove(1)
    assert await site.identities() == []
