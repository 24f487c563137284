"""A second factor by an app: set up, asked for after every way to sign in, counted once."""

from __future__ import annotations

import re
import sys
import time
from importlib import reload
from types import SimpleNamespace

import pytest
from tests.accounts.apps import (
    AuthenticatorApp,
    as_caller,
    ask,
    by_code,
    by_recovery_code,
    enter,
    refused,
)
from tests.accounts.building import ADA, FROM_AFAR, LINKS, make_world, memory_stores, started
from tests.accounts.providing import fragment_of, started_site
from tests.express.asgi_client import call

from alula import Params
from alula.accounts import Accounts, MemoryMailer
from alula.authentication import Attempt, AuthenticationStrategy, TokenCookie, _sealed
from alula.errors import BadRequest, Conflict, NotAuthenticated, NotFound, TooManyRequests
from alula.express import error_handler, express, json, rest

USER = {"email": "ada@example.com"}
BOB = {"email": "bob@example.com"}


@pytest.fixture
def phone(monkeypatch):
    return AuthenticatorApp(monkeypatch)


async def world_with_factor(phone, *arguments, **options):
    """Return an application whose first user has a second factor."""
    world = await started(*arguments, **{"totp": True, **options})
    await world.app.service("users").create({**ADA, "isVerified": True})
    me = as_caller(await world.sign_in())
    await phone.set_up(world, me)
    await world.mails()
    return world, me


async def wrong_codes(world, credentials, count):
    return [await refused(world, {**credentials, "code": "abc"}) for _ in range(count)]


# -- set up ----------------------------------------------------------------------------------------


async def test_set_up_sign_in_and_remove(stores, phone):
    world = await started(stores, totp=True)
    await world.sign_up()
    me, factor = as_caller(await world.sign_in()), world.app.service("account/second-factor")
    assert await factor.find(me) == {"totp": False, "recoveryCodesLeft": 0}
    begun = await phone.begin(world, me)
    assert begun["uri"].startswith("otpauth://totp/app.example:ada%40example.com?secret=")
    assert await world.sign_in()  # not confirmed, so nothing is asked
    confirmed = await factor.patch(None, {"code": phone.code()}, me)
    assert (confirmed["enabled"], len(confirmed["recoveryCodes"])) == (True, 10)
    assert await factor.find(me) == {"totp": True, "recoveryCodesLeft": 10}

    asked = await ask(world)
    assert set(asked) == {"code", "ticket", "methods", "expiresIn"}
    assert (asked["methods"], asked["expiresIn"]) == (["totp", "recovery"], 300)
    credentials = {"strategy": "totp", "ticket": asked["ticket"], "code": phone.code()}
    assert await refused(world, credentials) == "invalid"  # the code has confirmed the set-up
    phone.wait()
    result = await enter(world, {**credentials, "code": phone.code()})
    assert result["authentication"]["payload"]["amr"] == ["pwd", "otp"]
    assert "password" not in result["user"]
    renewed = await enter(world, {"strategy": "refresh", "refreshToken": result["refreshToken"]})
    assert renewed["authentication"]["payload"]["amr"] == ["pwd", "otp"]
    assert await enter(world, {"strategy": "jwt", "accessToken": renewed["accessToken"]})

    assert await factor.remove(None, me) == {"enabled": False}
    assert await factor.remove(None, me) == {"enabled": False}
    assert await world.sign_in()
    kinds = [mail.kind for mail in await world.mails()]
    assert kinds == ["verify", "factor_added", "factor_removed"]
    await world.app.teardown()


async def test_a_new_set_up_replaces_one_that_is_not_confirmed_only(phone):
    world = await started(totp=True)
    await world.sign_up()
    me, factor = as_caller(await world.sign_in()), world.app.service("account/second-factor")
    await phone.begin(world, me)
    old = phone.code()
    await phone.begin(world, me)
    with pytest.raises(NotAuthenticated) as error:
        await factor.patch(None, {"code": old}, me)
    assert error.value.data == {"code": "invalid"}
    await factor.patch(None, {"code": phone.code()}, me)
    with pytest.raises(Conflict):
        await factor.create({}, me)
    with pytest.raises(NotFound):
        await factor.patch(None, {"code": phone.code()}, me)


async def test_a_set_up_expires(phone):
    world = await started(totp=True)
    await world.sign_up()
    me = as_caller(await world.sign_in())
    await phone.begin(world, me)
    phone.now += 3601
    with pytest.raises(NotFound, match="begin one"):
        await world.app.service("account/second-factor").patch(None, {"code": phone.code()}, me)
    await phone.set_up(world, me)
    assert await ask(world)


async def test_a_set_up_that_another_call_replaces_meanwhile(phone):
    world = await started(totp=True)
    await world.sign_up()
    me, factor = as_caller(await world.sign_in()), world.app.service("account/second-factor")
    await phone.begin(world, me)
    code, replaced = phone.code(), []

    async def replace(context):
        if not replaced:
            replaced.append(True)
            await factor.create({}, me)

    world.app.service("credentials").hooks(before={"patch": [replace]})
    with pytest.raises(NotFound):
        await factor.patch(None, {"code": code}, me)
    assert (await factor.find(me))["totp"] is False


async def test_what_the_service_refuses(phone):
    world = await started(totp=True)
    await world.sign_up()
    me, factor = as_caller(await world.sign_in()), world.app.service("account/second-factor")
    for data in (None, {}, {"code": 123456}, {"code": "123456", "secret": "A"}, ["123456"]):
        with pytest.raises(BadRequest):
            await factor.patch(None, data, me)
    with pytest.raises(NotFound, match="begin one"):
        await factor.patch(None, {"code": "123456"}, me)
    with pytest.raises(NotFound, match="leave the id out"):
        await factor.remove("totp:1", me)
    for call_by in (factor.find(), factor.create({}), factor.remove(None)):
        with pytest.raises(BadRequest, match="signed-in caller"):
            await call_by
    with pytest.raises(NotAuthenticated):
        await factor.find(dict(FROM_AFAR))


async def test_changes_need_a_recent_sign_in(phone, monkeypatch):
    world = await started(totp=True)
    await world.sign_up()
    me, factor = as_caller(await world.sign_in()), world.app.service("account/second-factor")
    later = time.time() + 301
    monkeypatch.setattr("alula.accounts._guards.time", SimpleNamespace(time=lambda: later))
    for refused_call in (
        factor.create({}, me),
        factor.patch(None, {"code": "123456"}, me),
        factor.remove(None, me),
        world.app.service("account/recovery-codes").create({}, me),
    ):
        with pytest.raises(NotAuthenticated) as error:
            await refused_call
        assert error.value.data["code"] == "not_recent"
    assert (await factor.find(me))["totp"] is False


async def test_over_rest(phone):
    world = await started(totp=True, issuer="My app")
    web = express(world.app)
    web.use(json())
    web.configure(rest()).use(error_handler())
    await world.sign_up()
    bearer = f"Bearer {(await world.sign_in())['accessToken']}"
    headers = {"authorization": bearer, "content-type": "application/json"}
    path = "/account/second-factor"
    begun = await call(web, "POST", path, b"{}", headers)
    assert (begun.status, begun.get("cache-control")) == (201, "no-store")
    assert begun.json["uri"].endswith(f"?secret={begun.json['secret']}&issuer=My%20app")
    assert (await call(web, "GET", path, headers={"authorization": bearer})).json == {
        "totp": False,
        "recoveryCodesLeft": 0,
    }
    wrong = await call(web, "PATCH", path, b'{"code": "abc"}', headers)
    assert (wrong.status, wrong.json["data"]) == (401, {"code": "invalid"})


async def test_an_account_without_an_address_has_its_id_in_the_app(phone):
    world = await started(totp=True)
    await world.sign_up()
    me = as_caller(await world.sign_in())
    await world.app.service("users").service.patch(1, {"email": None}, Params())
    assert "/app.example:1?" in (await phone.begin(world, me))["uri"]
    await phone.set_up(world, me)
    await world.mails()
    with pytest.raises(NotAuthenticated) as error:
        await world.authentication.sign_in({"id": 1}, Params(FROM_AFAR))
    credentials = {"strategy": "totp", "ticket": error.value.data["ticket"], "code": phone.code()}
    assert await enter(world, credentials)


# -- the second step -------------------------------------------------------------------------------


async def test_only_the_right_password_tells_that_there_is_a_factor(phone):
    world, _ = await world_with_factor(phone)
    for changes in ({"password": "wrong"}, {"email": "eve@example.com"}):
        with pytest.raises(NotAuthenticated) as error:
            await world.sign_in(**changes)
        assert (error.value.message, error.value.data) == ("Invalid login", None)


async def test_a_code_counts_once_and_so_does_an_older_one(phone):
    world, _ = await world_with_factor(phone)
    used, older = phone.code(), phone.code(steps=-1)
    assert await enter(world, await by_code(world, used))
    for code in (used, older, "000000", 492039, None, "49203", "492 039"):
        assert await refused(world, await by_code(world, code)) == "invalid"
    assert await enter(world, await by_code(world, phone.code(steps=1)))
    phone.wait()
    assert await refused(world, await by_code(world, phone.code())) == "invalid"


async def test_a_ticket_has_five_tries(phone):
    world, _ = await world_with_factor(phone)
    credentials = await by_code(world, "abc")
    assert await wrong_codes(world, credentials, 6) == ["invalid"] * 5 + ["expired"]
    assert await refused(world, {**credentials, "code": phone.code()}) == "expired"
    assert await enter(world, await by_code(world, phone.code()))


async def test_a_ticket_counts_once_and_wastes_no_code_after_that(phone):
    world, _ = await world_with_factor(phone)
    credentials = await by_code(world, phone.code())
    assert await enter(world, credentials)
    phone.wait()
    assert await refused(world, {**credentials, "code": phone.code()}) == "expired"
    assert await enter(world, await by_code(world, phone.code()))


async def test_two_right_codes_for_one_ticket_at_once(phone, monkeypatch):
    world, _ = await world_with_factor(phone)
    credentials = await by_code(world, phone.code(steps=-1))
    # Between the code and the ticket of this call, another one has used the ticket up.
    factors = world.accounts._second.factors
    use_code = factors.use_code

    async def slow(user_id, code):
        monkeypatch.setattr(factors, "use_code", use_code)
        await enter(world, {**credentials, "code": phone.code()})
        return True

    monkeypatch.setattr(factors, "use_code", slow)
    assert await refused(world, credentials) == "expired"


async def test_a_ticket_counts_for_its_user_its_network_and_its_time(phone, monkeypatch):
    world, _ = await world_with_factor(phone)
    await world.sign_up(**BOB)
    credentials = await by_code(world, phone.code())
    for ticket in (None, "", "made up", 5, {"$ne": ""}, credentials["ticket"][:-1]):
        assert await refused(world, {**credentials, "ticket": ticket}) == "expired"
    for ip in ("198.51.100.7", None):
        assert await refused(world, credentials, ip=ip) == "expired"
    other = await world.app.service("users").create({**ADA, "email": "eve@example.com"})
    theirs = AuthenticatorApp(monkeypatch)
    theirs.now = phone.now
    await theirs.set_up(world, as_caller(await world.sign_in(email="eve@example.com")))
    wrong = await by_code(world, phone.code(), email="eve@example.com")
    assert await refused(world, wrong) == "invalid"
    await world.app.service("users").remove(other["id"])
    assert await refused(world, {**wrong, "code": theirs.code()}) == "expired"
    later = time.time() + 301
    with monkeypatch.context() as patched:
        patched.setattr(_sealed, "time", SimpleNamespace(time=lambda: later))
        assert await refused(world, credentials) == "expired"
    assert await enter(world, credentials)


async def test_a_new_password_ends_tickets(phone):
    world, _ = await world_with_factor(phone)
    credentials = await by_code(world, phone.code())
    await world.app.service("users").patch(1, {"password": "battery staple"})
    assert await refused(world, credentials) == "expired"


async def test_a_password_that_changes_during_the_second_step(phone):
    world, _ = await world_with_factor(phone)
    credentials = await by_code(world, phone.code())

    async def change(context):
        await world.app.service("users").patch(1, {"password": "battery staple"})

    world.app.service("sessions").hooks(before={"create": [change]})
    with pytest.raises(NotAuthenticated, match="Invalid login"):
        await enter(world, credentials)


async def test_a_password_that_changes_during_the_first_step(phone):
    world, _ = await world_with_factor(phone)

    async def change(context):
        if context.id == "totp:1":
            await world.app.service("users").patch(1, {"password": "battery staple"})

    world.app.service("credentials").hooks(before={"get": [change]})
    with pytest.raises(NotAuthenticated, match="Invalid login") as error:
        await world.sign_in()
    assert error.value.data is None


async def test_a_factor_that_is_removed_between_the_steps(phone):
    world, me = await world_with_factor(phone)
    credentials = await by_code(world, phone.code())
    await world.app.service("account/second-factor").remove(None, me)
    assert await refused(world, credentials) == "invalid"
    assert await world.sign_in()


async def test_tries_of_an_account_are_counted_over_all_tickets(phone):
    limits = {"tries": 1000, "per_address": 1000, "per_account": 1000}
    world, _ = await world_with_factor(phone, throttle=limits)
    for _ in range(25):  # right codes give their try back
        assert await enter(world, await by_code(world, phone.code()))
        phone.wait()
    for _ in range(4):
        credentials = await by_code(world, "abc")
        assert await wrong_codes(world, credentials, 5) == ["invalid"] * 5
    assert await world.mails() == []
    for _ in range(2):
        assert await refused(world, await by_code(world, phone.code())) == "invalid"
    (mail,) = await world.mails()
    assert (mail.kind, mail.to) == ("factor_guessed", "ada@example.com")


async def test_the_throttle_counts_for_the_account_and_the_network(phone):
    world, _ = await world_with_factor(phone, throttle={"tries": 4})
    for _ in range(9):  # a sign-in that has passed both steps costs nothing
        assert await enter(world, await by_code(world, phone.code()))
        phone.wait()
    credentials = await by_code(world, "abc")
    assert await wrong_codes(world, credentials, 3) == ["invalid"] * 3
    with pytest.raises(TooManyRequests):
        await enter(world, credentials)
    with pytest.raises(TooManyRequests):
        await world.sign_in()


async def test_codes_say_who_somebody_is_outside_a_sign_in_too(phone):
    world, _ = await world_with_factor(phone)
    credentials = await by_code(world, phone.code())
    result = await world.authentication.authenticate(credentials, Params(FROM_AFAR), "totp")
    assert result["user"]["id"] == 1


# -- recovery codes --------------------------------------------------------------------------------


async def test_recovery_codes(stores, phone):
    world = await started(stores, totp=True)
    await world.sign_up()
    me, factor = as_caller(await world.sign_in()), world.app.service("account/second-factor")
    renewal = world.app.service("account/recovery-codes")
    with pytest.raises(NotFound):
        await renewal.create({}, me)
    codes = (await phone.set_up(world, me))["recoveryCodes"]
    await world.mails()
    assert len(set(codes)) == 10
    assert all(re.fullmatch(r"([A-Z2-7]{4}-){5}[A-Z2-7]{4}", code) for code in codes)
    typed = [codes[0], codes[1].lower(), codes[2].replace("-", ""), f" {codes[3]}\n"]
    for left, code in zip((9, 8, 7, 6), typed, strict=True):
        result = await enter(world, await by_recovery_code(world, code))
        assert result["authentication"]["payload"]["amr"] == ["pwd", "otp"]
        (mail,) = await world.mails()
        assert (mail.kind, mail.codes_left) == ("recovery_used", left)
        assert f"Recovery codes left: {left}." in mail.text
        assert await refused(world, await by_recovery_code(world, code)) == "invalid"
    assert await factor.find(me) == {"totp": True, "recoveryCodesLeft": 6}

    renewed = (await renewal.create({}, me))["recoveryCodes"]
    assert [mail.kind for mail in await world.mails()] == ["recovery_renewed"]
    assert len({*codes, *renewed}) == 20
    assert await refused(world, await by_recovery_code(world, codes[9])) == "invalid"
    assert await enter(world, await by_recovery_code(world, renewed[0]))
    assert await factor.find(me) == {"totp": True, "recoveryCodesLeft": 9}
    stored_now = await world.app.service("credentials").find(query={"userId": "1"})
    assert renewed[1].replace("-", "") not in str(stored_now).upper()

    credentials = await by_recovery_code(world, renewed[1])
    await factor.remove(None, me)
    assert await refused(world, credentials) == "invalid"
    await phone.set_up(world, me)
    assert await refused(world, await by_recovery_code(world, renewed[1])) == "invalid"
    await world.app.teardown()


async def test_two_renewals_of_recovery_codes_at_once(phone):
    world, me = await world_with_factor(phone)
    renewal, others = world.app.service("account/recovery-codes"), []

    async def be_faster(context):
        if not others:
            others.append(None)
            others[0] = await renewal.create({}, me)

    world.app.service("credentials").hooks(before={"patch": [be_faster]})
    with pytest.raises(Conflict, match="have just changed"):
        await renewal.create({}, me)
    assert len(await world.app.service("credentials").find(query={"kind": "recovery"})) == 10
    code = others[0]["recoveryCodes"][0]
    assert await enter(world, await by_recovery_code(world, code))


async def test_recovery_codes_of_others_and_what_is_none(phone, monkeypatch):
    world, _ = await world_with_factor(phone)
    await world.app.service("users").create({**ADA, **BOB})
    theirs = AuthenticatorApp(monkeypatch)
    bob = as_caller(await world.sign_in(**BOB))
    code = (await theirs.set_up(world, bob))["recoveryCodes"][0]
    for wrong in (code, None, 5, [code], "", code[:-1], "x" * 101, "0" * 24):
        assert await refused(world, await by_recovery_code(world, wrong)) == "invalid"
    assert await enter(world, await by_recovery_code(world, code, **BOB))


async def test_recovery_codes_count_when_codes_of_the_app_do_not(phone):
    limits = {"tries": 1000, "per_address": 1000, "per_account": 1000}
    world, me = await world_with_factor(phone, throttle=limits)
    (code, *_) = (await world.app.service("account/recovery-codes").create({}, me))["recoveryCodes"]
    for _ in range(4):
        assert await wrong_codes(world, await by_code(world, "abc"), 5) == ["invalid"] * 5
    assert await refused(world, await by_code(world, phone.code())) == "invalid"
    assert await enter(world, await by_recovery_code(world, code))


# -- after every way to sign in --------------------------------------------------------------------


async def test_a_link_asks_for_the_factor(phone):
    world, _ = await world_with_factor(phone, magic_link="anywhere")
    await world.manage("sendMagicLink", USER)
    link = {"strategy": "link", "token": await world.token("link")}
    with pytest.raises(NotAuthenticated) as error:
        await enter(world, link)
    credentials = {"strategy": "totp", "ticket": error.value.data["ticket"], "code": phone.code()}
    result = await enter(world, credentials)
    assert result["authentication"]["payload"]["amr"] == ["link", "otp"]


async def test_a_provider_does_not_go_around_the_factor(phone):
    site = await started_site(totp=True)
    await phone.set_up(site.world, as_caller({"accessToken": await site.token()}))
    asked = fragment_of(await site.come_in())
    assert asked["error_code"] == "second_factor"
    credentials = {"strategy": "totp", "ticket": asked["ticket"], "code": phone.code()}
    answer = await site.browser().request("POST", "/authentication", credentials)
    assert answer.json["authentication"]["payload"]["amr"] == ["fed", "otp"]


async def test_a_provider_a_factor_and_a_key_of_one_user_with_cookies(phone):
    cookie = TokenCookie(tokens_in_body=False)
    site = await started_site(totp=True, api_keys=True, authentication={"cookie": cookie})
    world = site.world
    assert fragment_of(await site.come_in()) == {}
    payload = (await world.app.service("sessions").find())[0]
    claims = {"sid": payload["id"], "auth_time": payload["createdAt"] // 1000}
    token = world.authentication.create_access_token(claims, "1")
    me = as_caller({"accessToken": token})
    await phone.set_up(world, me)
    data = {"name": "CI", "scopes": ["users:read"]}
    key = await world.app.service("account/api-keys").create(data, me)
    # A provider alone sets no cookie of a sign-in; the code does.
    browser = site.browser()
    asked = fragment_of(await site.come_in(browser))
    assert (asked["error_code"], browser.cookies) == ("second_factor", {})
    credentials = {"strategy": "totp", "ticket": asked["ticket"], "code": phone.code()}
    page = {"origin": "https://api.example", "host": "api.example"}
    answer = await browser.request("POST", "/authentication", credentials, **page)
    assert answer.status == 201
    assert "accessToken" not in answer.json
    assert browser.cookies
    csrf = {"x_csrf_token": answer.json["csrfToken"]}
    answer = await browser.request("POST", "/account/recovery-codes", {}, **page, **csrf)
    assert (answer.status, len(answer.json["recoveryCodes"])) == (201, 10)  # it is recent
    assert (await world.accounts.api_keys.check(key["key"])).user_id == "1"
    kinds = {one["kind"] for one in await world.app.service("credentials").find()}
    assert {"identity", "key", "recovery", "totp"} <= kinds
    await world.app.service("users").remove(1)
    await world.accounts.idle()
    assert await world.app.service("credentials").find() == []
    assert await world.app.service("sessions").find() == []


async def test_own_code_that_signs_in_asks_for_the_factor_and_a_passkey_does_not(phone):
    world, _ = await world_with_factor(phone)
    for methods in ((), ["fed"], ["otp"]):
        with pytest.raises(NotAuthenticated) as error:
            await world.authentication.sign_in({"id": 1}, Params(FROM_AFAR), methods=methods)
        assert error.value.data["code"] == "second_factor"
    passkey = ["hwk", "user"]
    assert await world.authentication.sign_in({"id": 1}, Params(FROM_AFAR), methods=passkey)


class Door(AuthenticationStrategy):
    """Lets everybody in, as a strategy of an owner that nothing has to confirm."""

    async def authenticate(self, authentication, params):
        user = await self.app.service("users").get(1)
        return {"authentication": {"strategy": self.name}, "user": user}


async def test_a_strategy_of_the_owner_asks_for_the_factor(phone):
    world, _ = await world_with_factor(phone)
    world.authentication.offer("door", Door(), parses=False, signs_in=True)
    assert await refused(world, {"strategy": "door"}) == "second_factor"


async def test_attempts_without_a_user_pass(phone):
    world, _ = await world_with_factor(phone)
    assert await world.accounts._second.second_step(Attempt({}, Params())) is None


async def test_a_reset_does_not_go_around_the_factor(phone):
    world, _ = await world_with_factor(phone)
    await world.manage("sendResetPwd", USER)
    value = {"token": await world.token("reset"), "password": "battery staple"}
    await world.manage("resetPwdLong", value)
    assert await ask(world, password="battery staple")


async def test_the_first_proof_of_an_address_keeps_the_factor_unless_a_provider_gives_it(phone):
    world = await started(totp=True, magic_link="anywhere")
    await world.sign_up()
    await phone.set_up(world, as_caller(await world.sign_in()))
    await world.mails()
    await world.manage("sendResetPwd", USER)
    value = {"token": await world.token("reset"), "password": "battery staple"}
    assert (await world.manage("resetPwdLong", value))["isVerified"] is True
    assert await ask(world, password="battery staple")
    await world.app.service("users").patch(1, {"isVerified": False})
    await world.manage("sendMagicLink", USER)
    link = {"strategy": "link", "token": await world.token("link")}
    assert await refused(world, link) == "second_factor"
    await world.app.service("users").patch(1, {"isVerified": False})
    await world.app.service("authManagement").service.take_over(1, "oauth")
    assert await world.app.service("credentials").find() == []


async def test_a_password_is_changed_after_a_sign_in_with_the_factor(phone, monkeypatch):
    world, _ = await world_with_factor(phone)
    change = {"user": USER, "oldPassword": "correct horse", "password": "battery staple"}
    error = await world.refusal("passwordChange", change)
    assert error.data["code"] == "second_factor"
    credentials = {"strategy": "totp", "ticket": error.data["ticket"], "code": phone.code()}
    me = as_caller(await enter(world, credentials))
    later = time.time() + 301
    with monkeypatch.context() as patched:
        patched.setattr("alula.accounts._guards.time", SimpleNamespace(time=lambda: later))
        error = await world.refusal("passwordChange", change, by=me)
        assert error.data["code"] == "second_factor"
    assert await world.manage("passwordChange", change, by=me)


# -- with the rest of accounts ---------------------------------------------------------------------


async def test_the_factor_of_a_removed_user_is_removed(phone):
    world, _ = await world_with_factor(phone)
    await world.app.service("users").remove(1)
    assert await world.app.service("credentials").find() == []


async def test_taking_an_address_back_keeps_the_factor(phone):
    world, me = await world_with_factor(phone)
    change = {"user": USER, "password": "correct horse", "changes": {"email": "eve@example.com"}}
    await world.manage("identityChange", change, by=me)
    await world.manage("verifySignupLong", await world.token("undo"))
    new = {"token": await world.token("restored"), "password": "correct horse"}
    await world.manage("resetPwdLong", new)
    assert await ask(world)


async def test_an_administrator_removes_a_lost_factor(phone):
    world, _ = await world_with_factor(phone)
    assert await world.accounts.remove_factors(1) is True
    assert await world.accounts.remove_factors("1") is False
    assert [mail.kind for mail in await world.mails()] == ["factor_removed"]
    assert await world.sign_in()
    with pytest.raises(NotAuthenticated):
        await world.accounts.remove_factors(99)


async def test_mails_are_written_in_german(phone):
    world, _ = await world_with_factor(phone, locale="de")
    await world.accounts.remove_factors(1)
    (mail,) = await world.mails()
    assert mail.subject == "Zum Anmelden gehört kein Code mehr"


# -- what is stored --------------------------------------------------------------------------------


async def stored(world):
    (record,) = await world.app.service("credentials").find(query={"kind": "totp"})
    return record


async def test_the_store_does_not_have_the_secret(phone):
    world, _ = await world_with_factor(phone)
    record = await stored(world)
    for text in (phone.secret.hex(), phone.secret.decode("latin-1")):
        assert text not in str(record)
    # Nor does a record get the secret of another one.
    await world.app.service("users").create({**ADA, "email": "bob@example.com"})
    copied = {**record, "id": "totp:2", "userId": "2"}
    await world.app.service("credentials").create(copied)
    with pytest.raises(RuntimeError, match="'totp:2' was encrypted with another key"):
        await enter(world, await by_code(world, phone.code(), email="bob@example.com"))


async def test_keys_are_rotated(phone):
    stores, first, second = memory_stores(), "a" * 32, "b" * 32
    world, me = await world_with_factor(phone, stores)
    codes = (await world.app.service("account/recovery-codes").create({}, me))["recoveryCodes"]
    by_secret = (await stored(world))["secret"]
    recovery_codes = iter(codes)
    for keys in ([first], [second, first], [second]):
        world = await started(stores, totp=True, encryption_keys=keys)
        assert await enter(world, await by_code(world, phone.code()))
        assert await enter(world, await by_recovery_code(world, next(recovery_codes)))
        phone.wait()
        stored_now = (await stored(world))["secret"]
        assert stored_now != by_secret
    world = await started(stores, totp=True, encryption_keys=[first])
    with pytest.raises(RuntimeError, match="encryption_keys"):
        await enter(world, await by_code(world, phone.code()))


async def test_a_store_that_refuses_the_record(phone):
    world = await started(totp=True)
    await world.sign_up()
    me = as_caller(await world.sign_in())
    await world.accounts.idle()

    async def refuse(context):
        raise BadRequest("no column kind")

    world.app.service("credentials").hooks(before={"create": [refuse]})
    with pytest.raises(RuntimeError, match="'credentials' cannot store credentials: no column"):
        await world.app.service("account/second-factor").create({}, me)


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"totp": "yes"}, "totp is 'yes'; write True or False"),
        ({"issuer": "My app"}, "issuer has no effect without totp=True"),
        ({"encryption_keys": ["a" * 32]}, "encryption_keys has no effect without totp=True"),
        ({"totp": True, "issuer": ""}, "issuer is ''; write a name"),
        ({"totp": True, "issuer": "a:b"}, "issuer is 'a:b'; write a name"),
        ({"totp": True, "encryption_keys": ["short"]}, "encryption_keys is a list of keys"),
        ({"totp": True, "encryption_keys": "a" * 32}, "encryption_keys is a list of keys"),
    ],
)
def test_options_that_are_wrong(options, text):
    with pytest.raises(ValueError, match=f"^{text}"):
        make_world(**options)


async def test_without_the_option_there_is_nothing(phone):
    world = make_world()
    assert "account/second-factor" not in world.app.services
    with pytest.raises(ValueError, match="totp has no effect without mailer="):
        Accounts(store="credentials", totp=True)
    with pytest.raises(RuntimeError, match="totp=True"):
        await world.accounts.remove_factors(1)
    secret = "a key that is a secret, 32 bytes"
    accounts = Accounts(
        store="credentials",
        mailer=MemoryMailer(),
        sender="no-reply@app.example",
        links=LINKS,
        totp=True,
        encryption_keys=[secret],
    )
    assert secret not in repr(accounts)


def test_the_error_of_a_missing_package_names_the_extra(monkeypatch):
    from alula.accounts import _encryption

    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    text = r"needs cryptography.exceptions, .*pip install 'alula\[totp\]'"
    with pytest.raises(ImportError, match=text):
        reload(_encryption)
