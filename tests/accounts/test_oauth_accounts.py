"""Who is it? Identities, addresses and users, on every adapter, also for many callers at once."""

from __future__ import annotations

import asyncio
import hashlib
import logging

import pytest
from tests.accounts.building import FROM_AFAR, token_of
from tests.accounts.providing import MemoryProvider, error_of, fragment_of, started_site

from alula.authentication import hide_taken
from alula.errors import BadRequest, Conflict, NotAuthenticated

ADA = "ada@example.com"
CROWD = 50


@pytest.fixture
async def site(stores):
    site = await started_site(stores)
    yield site
    await site.world.app.teardown()


def stored_id(record):
    return record["id"] if "id" in record else record["_id"]  # of MongoDB


async def users_of(site):
    return await site.world.app.service("users").find({"query": {"$sort": {"id": 1}}})


async def local_account(site, *, is_verified=True):
    """Sign up with a password, prove the address or not, and return an access token."""
    await site.world.sign_up()
    (mail,) = await site.world.mails("verify")
    if is_verified:
        await site.world.manage("verifySignupLong", token_of(mail))
    return (await site.world.sign_in())["accessToken"]


async def link(site, token, *, provider="idp", browser=None, **person):
    """Link an identity to the user of a token, as a page does; return the last response."""
    browser = browser or site.browser()
    bearer = {"authorization": f"Bearer {token}"}
    answer = await browser.request("POST", f"/oauth/{provider}", {}, **bearer)
    assert answer.status == 303
    values = site.providers[provider].sign_in(answer.get("location"), **person)
    return await browser.finish(values, provider=provider)


# -- new users -------------------------------------------------------------------------------------


async def test_the_first_time_makes_a_user_and_the_next_time_finds_it(site):
    first = await site.user_of(await site.token())
    again = await site.user_of(await site.token(email="new@example.com", name="New"))
    assert first == again
    assert (first["email"], first["name"], first["isVerified"]) == (ADA, "Ada", True)
    (identity,) = await site.identities()
    digest = hashlib.sha256(b"https://idp.example\x001001").hexdigest()
    assert stored_id(identity) == f"identity:{digest}"
    assert identity["userId"] == str(first["id"])
    assert await site.world.mails() == []


async def test_of_many_first_times_one_makes_the_user(site):
    browsers = [site.browser() for _ in range(CROWD)]
    values = [site.idp.sign_in(await browser.start()) for browser in browsers]
    answers = await asyncio.gather(
        *[browser.finish(sent) for browser, sent in zip(browsers, values, strict=True)]
    )
    tokens = [fragment_of(a)["access_token"] for a in answers if "access_token" in fragment_of(a)]
    (user,) = await users_of(site)
    verify = site.world.authentication.verify_access_token
    assert tokens
    assert {verify(token)["sub"] for token in tokens} == {str(user["id"])}
    (identity,) = await site.identities()
    assert identity["userId"] == str(user["id"])


async def test_of_many_first_times_without_an_address_one_user_stays(site):
    browsers = [site.browser() for _ in range(CROWD)]
    values = [site.idp.sign_in(await browser.start(), email=None) for browser in browsers]
    answers = await asyncio.gather(
        *[browser.finish(sent) for browser, sent in zip(browsers, values, strict=True)]
    )
    assert all("access_token" in fragment_of(answer) for answer in answers)
    (user,) = await users_of(site)
    assert user.get("email") is None
    (identity,) = await site.identities()
    assert identity["userId"] == str(user["id"])


async def test_people_without_an_address_do_not_get_in_the_way_of_each_other(site):
    tokens = [await site.token(subject=str(number), email=None) for number in range(3)]
    assert len({(await site.user_of(token))["id"] for token in tokens}) == 3
    assert await site.world.mails() == []
    token = await site.token(subject="odd", email="not an address")
    assert (await site.user_of(token)).get("email") is None


async def test_an_address_is_proved_only_by_a_provider_that_is_trusted(site):
    user = await site.user_of(await site.token(is_verified=False))
    assert user["isVerified"] is False
    (mail,) = await site.world.mails()
    assert (mail.kind, mail.to) == ("verify", ADA)
    await site.world.manage("verifySignupLong", token_of(mail))
    assert (await site.user_of(await site.token(is_verified=False)))["isVerified"] is True


async def test_an_identity_is_the_issuer_and_the_subject(site):
    first = await site.user_of(await site.token(email=None))
    browser = site.browser()
    other = site.providers["other"]
    values = other.sign_in(await browser.start("", provider="other"), email=None)
    answer = await browser.finish(values, provider="other")
    second = await site.user_of(fragment_of(answer)["access_token"])
    assert first["id"] != second["id"]
    # The name of a provider may change, and its address too.
    site.idp.name, other.url = "renamed", "https://idp.example"
    browser = site.browser()
    values = other.sign_in(await browser.start("", provider="other"), email=None)
    answer = await browser.finish(values, provider="other")
    assert await site.user_of(fragment_of(answer)["access_token"]) == first
    assert await site.token(subject="\ud800", email=None)


# -- an address that somebody has ------------------------------------------------------------------


async def test_the_same_address_proved_at_both_sides_is_the_same_person(site):
    await local_account(site)
    token = await site.token(email=" ADA@Example.com ", name="Other")
    (user,) = await users_of(site)
    assert (await site.user_of(token))["id"] == user["id"]
    assert (user["email"], user.get("name")) == (ADA, None)  # the user's own data stays
    assert [mail.kind for mail in await site.world.mails()] == ["linked"]
    assert await site.world.sign_in()  # and so does the password
    assert await site.token()
    assert await site.world.mails() == []


async def test_many_links_by_address_at_once(site):
    await local_account(site)
    browsers = [site.browser() for _ in range(CROWD)]
    values = [site.idp.sign_in(await browser.start()) for browser in browsers]
    answers = await asyncio.gather(
        *[browser.finish(sent) for browser, sent in zip(browsers, values, strict=True)]
    )
    assert all("access_token" in fragment_of(answer) for answer in answers)
    assert len(await site.identities()) == len(await users_of(site)) == 1
    assert [mail.kind for mail in await site.world.mails()] == ["linked"]


async def test_an_address_that_the_provider_has_not_proved_links_nothing(site):
    await local_account(site)
    answer = await site.come_in(is_verified=False)
    assert error_of(answer) == "account_exists"
    assert await site.identities() == []
    assert len(await users_of(site)) == 1


async def test_a_stranger_who_has_signed_up_before_loses_everything(site):
    """Pre-hijacking: somebody signs up with the address of somebody else, and waits."""
    stranger = await local_account(site, is_verified=False)
    await link(site, stranger, provider="other", email="eve@evil.example", subject="eve")
    await site.world.manage("sendResetPwd", {"email": ADA})
    (mail,) = await site.world.mails("reset")
    owner = await site.token()
    (user,) = await users_of(site)
    assert user["isVerified"] is True
    assert (await site.user_of(owner))["id"] == user["id"]
    with pytest.raises(NotAuthenticated):
        await site.world.sign_in()
    with pytest.raises(NotAuthenticated):
        await site.user_of(stranger)
    reset = {"token": token_of(mail), "password": "battery staple"}
    assert (await site.world.refusal("resetPwdLong", reset)).code == 400
    browser = site.browser()
    values = site.providers["other"].sign_in(
        await browser.start("", provider="other"), subject="eve", email="eve@evil.example"
    )
    answer = await browser.finish(values, provider="other")
    assert (await site.user_of(fragment_of(answer)["access_token"]))["id"] != user["id"]
    (kind,) = {mail.kind for mail in await site.world.mails("linked")}
    assert kind == "linked"


async def test_keys_of_a_stranger_end_too_and_keys_link_nothing():
    site = await started_site(api_keys=True)
    await local_account(site, is_verified=False)
    keys = site.world.accounts.api_keys
    key = (await keys.create(user_id=1, name="CI", scopes=["*"]))["key"]
    bearer = {"authorization": f"ApiKey {key}"}
    assert (await site.browser().request("POST", "/oauth/idp", {}, **bearer)).status == 403
    await site.token()
    assert await keys.find("1") == []


async def test_a_reset_and_a_link_that_prove_an_address_end_identities_too(stores):
    site = await started_site(stores, magic_link="anywhere")
    for action in ("sendResetPwd", "sendMagicLink"):
        await site.world.app.service("users").remove(None, adapter={"multi": ["remove"]})
        stranger = await local_account(site, is_verified=False)
        await link(site, stranger, email=None)
        await site.world.manage(action, {"email": ADA})
        (mail,) = await site.world.mails("reset", "link")
        if action == "sendResetPwd":
            reset = {"token": token_of(mail), "password": "battery staple"}
            await site.world.manage("resetPwdLong", reset)
        else:
            data = {"strategy": "link", "token": token_of(mail)}
            await site.world.app.service("authentication").create(data, dict(FROM_AFAR))
        assert await site.identities() == []
    await site.world.app.teardown()


async def test_a_later_reset_keeps_identities_and_an_undone_change_ends_them(site):
    token = await local_account(site)
    await link(site, token)
    await site.world.manage("sendResetPwd", {"email": ADA})
    (mail,) = await site.world.mails("reset")
    reset = {"token": token_of(mail), "password": "battery staple"}
    await site.world.manage("resetPwdLong", reset)
    assert len(await site.identities()) == 1
    change = {"user": {"email": ADA}, "password": "battery staple", "changes": {"email": "x@y.zz"}}
    await site.world.manage("identityChange", change)
    (undo,) = await site.world.mails("undo")
    await site.world.manage("verifySignupLong", token_of(undo))
    assert await site.identities() == []  # a thief may have linked it


async def test_an_address_that_its_owner_may_take_back_is_not_free(site):
    await local_account(site)
    change = {"user": {"email": ADA}, "password": "correct horse", "changes": {"email": "x@y.zz"}}
    await site.world.manage("identityChange", change)
    mails = {mail.kind: mail for mail in await site.world.mails()}
    await site.world.manage("verifySignupLong", token_of(mails["change"]))
    assert error_of(await site.come_in()) == "account_exists"
    assert await site.identities() == []


async def test_addresses_may_link_nothing():
    site = await started_site(link_by_email="never")
    await local_account(site)
    assert error_of(await site.come_in()) == "account_exists"
    assert await site.token(email=None)


# -- while signed in -------------------------------------------------------------------------------


async def test_a_signed_in_user_links_an_identity_in_the_same_session(site):
    token = await local_account(site)
    answer = await link(site, token, email="other@example.com", name="Other")
    linked = fragment_of(answer)["access_token"]
    verify = site.world.authentication.verify_access_token
    before, after = verify(token), verify(linked)
    assert {n: before[n] for n in ("sid", "sub", "auth_time", "amr")} == {
        n: after[n] for n in ("sid", "sub", "auth_time", "amr")
    }
    (user,) = await users_of(site)
    assert (user["email"], user.get("name")) == (ADA, None)
    assert len(await site.world.app.service("sessions").find()) == 1
    assert [mail.kind for mail in await site.world.mails()] == ["linked"]
    assert (await site.user_of(await site.token()))["id"] == user["id"]
    assert "access_token" in fragment_of(await link(site, token))  # once more changes nothing
    assert await site.world.mails() == []


async def test_the_token_in_the_url_of_feathersjs(site):
    token = await local_account(site)
    browser = site.browser()
    page = {"referer": "https://app.example/app/settings"}
    values = site.idp.sign_in(await browser.start(f"?feathers_token={token}", **page))
    assert "access_token" in fragment_of(await browser.finish(values))
    assert len(await users_of(site)) == len(await site.identities()) == 1


async def test_an_identity_of_somebody_else_stays_theirs(site):
    first = await site.user_of(await site.token())
    await site.world.sign_up(email="bob@example.com")
    bob = (await site.world.sign_in(email="bob@example.com"))["accessToken"]
    assert error_of(await link(site, bob)) == "already_linked"
    assert (await site.user_of(await site.token()))["id"] == first["id"]
    (identity,) = await site.identities()
    assert identity["userId"] == str(first["id"])


async def test_many_links_of_one_identity_at_once(site):
    people = [f"person{number}@example.com" for number in range(5)]
    tokens = []
    for email in people:
        await site.world.sign_up(email=email)
        tokens.append((await site.world.sign_in(email=email))["accessToken"])
    answers = await asyncio.gather(*[link(site, token) for token in tokens * 4])
    winners = [fragment_of(a)["access_token"] for a in answers if "access_token" in fragment_of(a)]
    verify = site.world.authentication.verify_access_token
    (identity,) = await site.identities()
    assert {verify(token)["sub"] for token in winners} == {identity["userId"]}
    assert len(winners) == 4
    lost = [fragment_of(a).get("error_code") for a in answers]
    assert set(lost) == {None, "already_linked"}


async def test_a_session_that_has_ended_links_nothing(site):
    token = await local_account(site)
    browser = site.browser()
    bearer = {"authorization": f"Bearer {token}"}
    answer = await browser.request("POST", "/oauth/idp", {}, **bearer)
    sessions = site.world.authentication.sessions
    await sessions.end_all(site.world.authentication.verify_access_token(token)["sub"])
    assert error_of(await browser.finish(site.idp.sign_in(answer.get("location")))) == "expired"
    assert await site.identities() == []


async def test_a_session_that_ends_during_the_link_links_nothing(site):
    token = await local_account(site)

    async def end(context):
        await site.world.authentication.sessions.end_all(context.data["userId"])

    site.world.app.service("credentials").hooks(after={"create": [end]})
    assert error_of(await link(site, token)) == "expired"
    assert await site.identities() == []


# -- what happens at the same time -----------------------------------------------------------------


async def test_a_user_who_is_removed_takes_the_identities_along(site):
    user = await site.user_of(await site.token())
    await site.world.app.service("users").remove(user["id"])
    assert await site.identities() == []
    assert await site.token()


async def test_a_user_who_is_removed_during_the_link_gets_none(site):
    await local_account(site)
    removed = []

    async def remove(context):
        if context.data["kind"] == "identity" and not removed:
            removed.append(context.data["userId"])
            await site.world.app.service("users").remove(context.data["userId"])

    site.world.app.service("credentials").hooks(after={"create": [remove]})
    token = await site.token()  # a new user: the old one is gone
    (identity,) = await site.identities()
    assert site.world.authentication.verify_access_token(token)["sub"] == identity["userId"]


@pytest.mark.parametrize("somebody_else_has_it", [False, True])
async def test_an_identity_that_is_removed_during_the_sign_in_does_not_sign_in(
    site, somebody_else_has_it
):
    await site.token()
    sessions = len(await site.world.app.service("sessions").find())

    async def remove(context):
        for identity in await site.identities():
            await site.world.app.service("credentials").remove(stored_id(identity))
            if somebody_else_has_it:
                await site.world.app.service("credentials").create({**identity, "userId": "77"})

    site.world.app.service("sessions").hooks(before={"create": [remove]})
    assert error_of(await site.come_in()) == "expired"
    assert len(await site.world.app.service("sessions").find()) == sessions


async def test_an_identity_whose_user_is_gone_is_forgotten(site):
    # A leftover of a user whom somebody has removed in the database itself.
    record = {"kind": "identity", "userId": "77", "secret": "", "count": 0}
    digest = hashlib.sha256(b"https://idp.example\x001001").hexdigest()
    store = site.world.app.service("credentials")
    id_name = getattr(store.service, "id", "id")
    data = '{"provider": "idp", "email": null, "lastUsedAt": 1}'
    times = {"createdAt": 1, "expiresAt": 9_000_000_000_000}
    await store.create({id_name: f"identity:{digest}", "data": data, **record, **times})
    token = await site.token()
    (identity,) = await site.identities()
    assert site.world.authentication.verify_access_token(token)["sub"] == identity["userId"]


async def meanwhile(site, path, method, action):
    """Let something happen once, behind the next call of a method."""
    done = []

    async def hook(context):
        if not done:
            done.append(True)
            await action(context)

    site.world.app.service(path).hooks(after={method: [hook]})


async def test_somebody_else_is_faster_with_the_identity_of_a_new_user():
    site = await started_site()
    tokens = []

    async def overtake(context):
        tokens.append(await site.token(email=None))

    await meanwhile(site, "users", "create", overtake)
    tokens.append(await site.token(email=None))
    assert len(await users_of(site)) == len(await site.identities()) == 1
    assert len({(await site.user_of(token))["id"] for token in tokens}) == 1


async def test_the_user_who_lost_the_identity_may_be_removed_already():
    site = await started_site()

    async def overtake(context):
        await site.token(email=None)
        await site.world.app.service("users").remove(context.result["id"])

    await meanwhile(site, "users", "create", overtake)
    assert await site.token(email=None)
    assert len(await users_of(site)) == 1


async def test_somebody_else_is_faster_with_the_identity_of_an_address():
    site = await started_site()
    await local_account(site, is_verified=False)

    async def overtake(context):
        await site.token()

    await meanwhile(site, "users", "patch", overtake)
    assert await site.token()
    assert len(await users_of(site)) == len(await site.identities()) == 1


async def test_another_tab_is_faster_with_a_link():
    site = await started_site()
    token = await local_account(site)
    overtaken = []

    async def overtake(context):
        if context.data["kind"] == "identity" and not overtaken:
            overtaken.append(True)
            assert "access_token" in fragment_of(await link(site, token))

    site.world.app.service("credentials").hooks(before={"create": [overtake]})
    assert "access_token" in fragment_of(await link(site, token))
    assert overtaken
    assert len(await site.identities()) == 1


# -- the users' service ----------------------------------------------------------------------------


async def test_a_profile_of_your_own():
    providers = [MemoryProvider()]
    providers[0].profile = lambda claims: {"email": "else@example.com", "nick": claims.name}
    site = await started_site(providers=providers)
    user = await site.user_of(await site.token())
    # The provider has proved another address.
    assert (user["email"], user["nick"], user["isVerified"]) == ("else@example.com", "Ada", False)
    providers[0].profile = lambda claims: {"nick": claims.name}
    user = await site.user_of(await site.token(subject="2", email="bob@example.com"))
    assert (user.get("email"), user["isVerified"]) == (None, False)


async def test_a_service_that_refuses_new_users(caplog):
    async def refuse(context):
        raise BadRequest("name is too short")

    site = await started_site(hooks={"before": {"create": [refuse]}})
    assert error_of(await site.come_in()) == "unavailable"
    assert "'users' refuses a new user from the provider 'idp': 'name is too short'" in caplog.text


async def test_a_service_that_finds_a_conflict_each_time():
    async def refuse(context):
        raise Conflict("The name is taken")

    site = await started_site(hooks={"before": {"create": [refuse]}})
    assert error_of(await site.come_in()) == "account_exists"


async def test_a_hook_that_hides_taken_addresses_is_for_clients_only():
    site = await started_site(hooks={"around": {"create": [hide_taken("email")]}})
    assert await site.token()


async def test_a_store_that_cannot_keep_identities_leaves_no_user_behind(caplog):
    site = await started_site()

    async def refuse(context):
        raise BadRequest("no such column")

    site.world.app.service("credentials").hooks(before={"create": [refuse]})
    answer = await site.come_in()
    assert answer.status == 500
    assert "cannot store credentials: no such column" in caplog.text
    assert await users_of(site) == []


async def test_no_mails_where_addresses_are_not_proved():
    site = await started_site(verify_email="off")
    assert await site.token(is_verified=False)
    assert await site.world.mails() == []


async def test_the_mail_to_somebody_who_is_gone(caplog):
    caplog.set_level(logging.ERROR)
    site = await started_site()
    messages = site.world.app.service("authManagement").service._messages
    messages.linked(77)
    token = await site.token(email=None)
    await link(site, token, provider="other", email=None)
    assert await site.world.mails() == []
    assert caplog.text == ""
