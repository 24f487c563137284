"""Passkeys with the rest of accounts: second factors, other ways in, and the end of an account."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib import reload

import pytest
from tests.accounts.apps import AuthenticatorApp, as_caller, ask, enter, refused
from tests.accounts.authenticators import (
    ORIGIN,
    Authenticator,
    add_passkey,
    sign_in_with,
    signed,
    started_with_passkeys,
)
from tests.accounts.building import ADA, FROM_AFAR, make_world, memory_stores
from tests.accounts.providing import PAGE, make_site, started_site

from alula.accounts import Accounts
from alula.errors import Conflict, NotAuthenticated

USER = {"email": "ada@example.com"}


@pytest.fixture
def phone(monkeypatch):
    return AuthenticatorApp(monkeypatch)


async def stored(world):
    return await world.app.service("credentials").find(query={"kind": "passkey"})


# -- the second factor -----------------------------------------------------------------------------


async def with_both(phone, **options):
    """Return an application whose first user has a second factor and a passkey."""
    world, me = await started_with_passkeys(totp=True, **options)
    await phone.set_up(world, me)
    assert (await ask(world))["methods"] == ["totp", "recovery"]
    device = Authenticator()
    await add_passkey(world, me, device)
    return world, device


async def test_a_passkey_is_enough_without_a_code(phone):
    world, device = await with_both(phone)
    assert (await sign_in_with(world, device))["accessToken"]


async def test_a_passkey_is_a_second_factor(phone):
    world, device = await with_both(phone)
    asked = await ask(world)
    assert asked["methods"] == ["totp", "recovery", "passkey"]
    credentials = await signed(world, device, ticket=asked["ticket"])
    result = await enter(world, credentials)
    assert result["authentication"]["payload"]["amr"] == ["pwd", "hwk", "user"]
    again = await signed(world, device, ticket=asked["ticket"])
    assert await refused(world, again) == "expired"
    by_code = {"strategy": "totp", "ticket": asked["ticket"], "code": phone.code()}
    assert await refused(world, by_code) == "expired"


async def test_tickets_that_do_not_count_for_a_passkey(phone, monkeypatch):
    world, device = await with_both(phone)
    ticket = (await ask(world))["ticket"]
    for wrong in (None, "x.y", 5):
        assert await refused(world, await signed(world, device, ticket=wrong)) == "expired"
    elsewhere = await signed(world, device, ticket=ticket)
    assert await refused(world, elsewhere, ip="203.0.113.9") == "expired"
    wrong_code = {"strategy": "totp", "ticket": ticket, "code": "abc"}
    for _ in range(5):
        assert await refused(world, wrong_code) == "invalid"
    assert await refused(world, await signed(world, device, ticket=ticket)) == "expired"
    await world.sign_up(email="bob@example.com")
    bob = as_caller(await world.sign_in(email="bob@example.com"))
    await AuthenticatorApp(monkeypatch).set_up(world, bob)
    theirs = (await ask(world, email="bob@example.com"))["ticket"]
    assert await refused(world, await signed(world, device, ticket=theirs)) == "expired"


async def test_two_uses_of_a_ticket_at_once(phone):
    world, device = await with_both(phone)
    ticket = (await ask(world))["ticket"]
    credentials = [await signed(world, device, ticket=ticket) for _ in range(2)]
    calls = [enter(world, each) for each in credentials]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(result, NotAuthenticated) for result in results].count(True) == 1


async def test_a_ticket_where_there_are_no_second_factors():
    world, me = await started_with_passkeys()
    device = Authenticator()
    await add_passkey(world, me, device)
    with pytest.raises(NotAuthenticated, match="Invalid login"):
        await enter(world, await signed(world, device, ticket="x.y"))


# -- other ways in ---------------------------------------------------------------------------------


async def site_with_passkey():
    """Return a site whose user has an identity and a passkey, but no password."""
    site = await started_site(passkeys=True, pages=[PAGE])
    me = as_caller({"accessToken": await site.token(email=None)})
    device = Authenticator()
    added = await add_passkey(site.world, me, device)
    (identity,) = await site.world.app.service("account/identities").find(me)
    return site, me, device, {"passkeys": added["id"], "identities": identity["id"]}


@pytest.mark.parametrize("kept", ["passkeys", "identities"])
async def test_the_last_way_in_stays(kept):
    site, me, device, ids = await site_with_passkey()
    (removed,) = set(ids) - {kept}
    last = site.world.app.service(f"account/{kept}")
    await site.world.app.service(f"account/{removed}").remove(ids[removed], me)
    with pytest.raises(Conflict, match="last way"):
        await last.remove(ids[kept], me)
    if kept == "passkeys":
        assert await sign_in_with(site.world, device)
    await site.world.app.service("users").patch(1, ADA)
    again = as_caller(
        await sign_in_with(site.world, device)
        if kept == "passkeys"
        else {"accessToken": await site.token(email=None)}
    )
    assert await last.remove(ids[kept], again)


async def test_two_removals_at_once_leave_a_way_in():
    site, me, _, ids = await site_with_passkey()
    calls = [site.world.app.service(f"account/{kind}").remove(ids[kind], me) for kind in ids]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(result, Conflict) for result in results)
    left = await stored(site.world) + await site.identities()
    assert left != []


async def test_a_passkey_that_is_restored_as_the_last_way():
    site, me, device, ids = await site_with_passkey()
    await sign_in_with(site.world, device)
    before, once = await stored(site.world), []

    async def remove_the_other(context):
        if not once:
            once.append(True)
            await site.world.app.service("credentials").remove(f"identity:{ids['identities']}")

    site.world.app.service("credentials").hooks(before={"remove": [remove_the_other]})
    with pytest.raises(Conflict, match="last way"):
        await site.world.app.service("account/passkeys").remove(ids["passkeys"], me)
    assert await stored(site.world) == before
    assert await sign_in_with(site.world, device)


# -- the end ---------------------------------------------------------------------------------------


async def test_the_passkeys_of_a_removed_user_are_removed():
    world, me = await started_with_passkeys()
    device = Authenticator()
    await add_passkey(world, me, device)
    await world.app.service("users").remove(1)
    assert await stored(world) == []
    with pytest.raises(NotAuthenticated, match="Invalid login"):
        await sign_in_with(world, device)


async def take_over_by_reset(world):
    await world.manage("sendResetPwd", USER)
    value = {"token": await world.token("reset"), "password": "battery staple"}
    await world.manage("resetPwdLong", value)


async def take_over_by_link(world):
    await world.manage("sendMagicLink", USER)
    await enter(world, {"strategy": "link", "token": await world.token("link")})


async def take_over_by_provider(world):
    await world.app.service("authManagement").service.take_over("1", "oauth")


@pytest.mark.parametrize(
    "take_over", [take_over_by_reset, take_over_by_link, take_over_by_provider]
)
async def test_the_owner_of_an_address_ends_the_passkeys_of_a_stranger(take_over):
    world, me = await started_with_passkeys(magic_link="anywhere")
    device = Authenticator()
    await add_passkey(world, me, device)
    await world.mails()
    await take_over(world)
    assert await stored(world) == []


async def test_a_new_password_keeps_the_passkeys_of_somebody_known():
    world, me = await started_with_passkeys()
    await world.app.service("users").patch(1, {"isVerified": True})
    device = Authenticator()
    await add_passkey(world, me, device)
    await world.mails()
    await take_over_by_reset(world)
    assert await sign_in_with(world, device)


async def test_taking_an_address_back_ends_the_passkeys_of_the_thief():
    world, me = await started_with_passkeys()
    await world.app.service("users").patch(1, {"isVerified": True})
    change = {"user": USER, "password": "correct horse", "changes": {"email": "eve@example.com"}}
    await world.manage("identityChange", change, by=me)
    undo = await world.token("undo")
    await add_passkey(world, me, Authenticator())
    await world.manage("verifySignupLong", undo)
    assert await stored(world) == []


# -- options ---------------------------------------------------------------------------------------

ON = {"passkeys": True, "origins": [ORIGIN]}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"passkeys": "yes"}, "passkeys is 'yes'; write True or False"),
        ({"rp_id": "app.example"}, "rp_id has no effect without passkeys=True"),
        ({"origins": [ORIGIN]}, "origins has no effect without passkeys=True"),
        ({"passkeys": True}, "passkeys=True needs the origins"),
        ({**ON, "rp_id": "other.example"}, "rp_id is 'other.example', but the host of the origin"),
        ({**ON, "rp_id": "pp.example"}, "rp_id is 'pp.example', but the host of the origin"),
        ({**ON, "origins": [ORIGIN, "https://b.example"]}, "rp_id is 'app.example', but"),
        (
            {**ON, "rp_id": "localhost", "origins": ["http://a.localhost"]},
            "rp_id is 'localhost', but",
        ),
        ({**ON, "rp_id": "example"}, "rp_id is 'example'; write a domain"),
        ({**ON, "rp_id": "APP.example"}, "rp_id is 'APP.example'; write a domain"),
        ({**ON, "origins": ["http://127.0.0.1:3000"]}, "rp_id is '127.0.0.1'; write a domain"),
        ({**ON, "origins": ["http://app.example"]}, "origins has 'http://app.example'"),
        ({**ON, "origins": [f"{ORIGIN}/"]}, "origins has 'https://app.example/'"),
        ({**ON, "origins": ["https://app.example:443"]}, "origins has 'https://app.example:443'"),
        ({**ON, "origins": ["nonsense"]}, "origins has 'nonsense'"),
    ],
)
def test_options_that_are_wrong(options, text):
    with pytest.raises(ValueError, match=f"^{text}"):
        make_world(**options)


def test_origins_are_a_list():
    with pytest.raises(TypeError, match="origins is a list"):
        make_world(passkeys=True, origins=ORIGIN)


@pytest.mark.parametrize(
    ("rp_id", "origins"),
    [
        ("app.example", ["https://app.example", "https://eu.app.example:8443"]),
        (None, ["http://localhost:3000", "http://localhost"]),
    ],
)
def test_options_that_are_right(rp_id, origins):
    assert make_world(passkeys=True, rp_id=rp_id, origins=origins)


async def test_origins_are_those_of_the_pages_unless_they_are_named():
    site, _, device, _ = await site_with_passkey()  # with one page
    assert await sign_in_with(site.world, device)
    with pytest.raises(ValueError, match="'http://localhost:3000' is not that domain"):
        make_site(passkeys=True)  # with a page for development
    assert make_site(passkeys=True, origins=["https://other.example"])


async def test_without_the_option_there_is_nothing():
    stores = memory_stores()
    world, me = await started_with_passkeys(stores)
    device = Authenticator()
    await add_passkey(world, me, device)
    credentials = await signed(world, device)
    off = make_world(stores)
    await off.app.setup()
    assert not {"account/passkeys", "account/passkey-options"}.intersection(off.app.services)
    with pytest.raises(NotAuthenticated):
        await off.app.service("authentication").create(credentials, dict(FROM_AFAR))
    with pytest.raises(ValueError, match="passkeys has no effect without mailer="):
        Accounts(store="credentials", **ON)


def test_without_the_option_the_library_is_not_imported():
    code = (
        "import sys\n"
        "from tests.accounts.building import make_world\n"
        "make_world(totp=True, api_keys=True)\n"
        "assert 'webauthn' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_error_of_a_missing_package_names_the_extra(monkeypatch):
    from alula.accounts import _webauthn

    monkeypatch.setitem(sys.modules, "webauthn", None)
    text = r"needs webauthn, .*pip install 'alula\[passkeys\]'"
    with pytest.raises(ImportError, match=text):
        reload(_webauthn)
