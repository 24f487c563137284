"""What counts once counts once, however many calls arrive at the same time, on every adapter."""

from __future__ import annotations

import asyncio

import pytest
from tests.accounts.apps import AuthenticatorApp, as_caller, by_code, enter
from tests.accounts.building import started, token_of

from alula.errors import Conflict, FrameworkError, NotAuthenticated, NotFound

USER = {"email": "ada@example.com"}
CROWD = 50


async def outcomes(calls):
    """Return the results of the calls that succeeded; all others were refused with a 400."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            assert isinstance(result, FrameworkError), result
            assert result.code == 400, result
    return [result for result in results if not isinstance(result, BaseException)]


@pytest.fixture
async def world(stores):
    world = await started(stores, codes=True, magic_link="anywhere")
    await world.sign_up()
    yield world
    await world.app.teardown()


async def test_a_link_is_used_once(world):
    (mail,) = await world.mails()
    calls = [world.manage("verifySignupLong", token_of(mail)) for _ in range(CROWD)]
    assert len(await outcomes(calls)) == 1
    assert (await world.user())["isVerified"] is True


async def test_codes_of_an_app_and_recovery_codes_count_once(stores, monkeypatch):
    phone, world = AuthenticatorApp(monkeypatch), await started(stores, totp=True)
    await world.sign_up()
    me, app = as_caller(await world.sign_in()), world.app

    async def crowd(call, size=CROWD):
        results = await asyncio.gather(*[call() for _ in range(size)], return_exceptions=True)
        refusals = (Conflict, NotAuthenticated, NotFound)
        return [result for result in results if not isinstance(result, refusals)]

    await phone.begin(world, me)
    code = {"code": phone.code()}
    (confirmed,) = await crowd(lambda: app.service("account/second-factor").patch(None, code, me))
    factors, phone.now = world.accounts._second.factors, phone.now + 30
    assert (await crowd(lambda: factors.use_code(1, phone.code()))).count(True) == 1
    recovery_code = confirmed["recoveryCodes"][0]
    left = await crowd(lambda: factors.use_recovery_code(1, recovery_code))
    assert sorted(left, key=str) == [9, *[None] * (CROWD - 1)]

    phone.wait()
    credentials = await by_code(world, phone.code())
    (result,) = await crowd(lambda: enter(world, credentials))
    assert result["user"]["email"] == "ada@example.com"

    renewed = await crowd(lambda: app.service("account/recovery-codes").create({}, me), 8)
    assert len(await app.service("credentials").find(query={"kind": "recovery"})) == 10
    codes = [code for new in renewed for code in new["recoveryCodes"]]
    left = [await factors.use_recovery_code(1, code) for code in codes]
    assert len([number for number in left if number is not None]) == 10
    assert (await crowd(lambda: world.accounts.remove_factors(1))).count(True) == 1
    await app.teardown()


async def test_keys_that_are_created_at_once_are_not_more_than_the_limit(stores):
    world = await started(stores, api_keys=True)
    await world.sign_up()
    me, service = as_caller(await world.sign_in()), world.app.service("account/api-keys")
    data = {"name": "CI", "scopes": ["notes:read"]}
    for _ in range(17):
        await service.create(data, me)
    calls = [service.create(data, me) for _ in range(CROWD)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    made = [result for result in results if not isinstance(result, Conflict)]
    kept = {key["id"] for key in await service.find(me)}
    assert len(kept) == 17 + len(made) <= 20
    assert kept.issuperset(key["id"] for key in made)
    await world.app.teardown()


async def test_a_session_that_ends_meanwhile_creates_no_key(stores):
    world = await started(stores, api_keys=True)
    await world.sign_up()
    me, keys = as_caller(await world.sign_in()), world.accounts.api_keys

    async def take_over(context):
        await world.authentication.sessions.end_all(1)
        await keys.forget(1)

    # It has authenticated the caller by then, and stores the key after the others have ended.
    world.app.service("credentials").hooks(before={"create": [take_over]})
    with pytest.raises(NotAuthenticated):
        data = {"name": "CI", "scopes": ["notes:read"]}
        await world.app.service("account/api-keys").create(data, me)
    assert await keys.find(1) == []
    await world.app.teardown()


async def test_two_resets_at_once(world):
    await world.mails()
    await world.manage("sendResetPwd", USER)
    (mail,) = await world.mails()
    value = {"token": token_of(mail)}
    by_code = {"token": mail.code, "user": USER}
    passwords = [f"password {number}" for number in range(8)]
    calls = [world.manage("resetPwdLong", {**value, "password": p}) for p in passwords[:4]]
    calls += [world.manage("resetPwdShort", {**by_code, "password": p}) for p in passwords[4:]]
    results = await asyncio.gather(*calls, return_exceptions=True)
    (winner,) = [n for n, result in enumerate(results) if not isinstance(result, Exception)]
    assert await world.sign_in(passwords[winner])


async def test_a_link_signs_in_once(world):
    await world.manage("verifySignupLong", await world.token("verify"))
    await world.manage("sendMagicLink", USER)
    token = await world.token("link")
    handle = world.app.service("authentication")
    credentials = {"strategy": "link", "token": token}
    calls = [handle.create(credentials, provider="rest") for _ in range(CROWD)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert len([result for result in results if not isinstance(result, Exception)]) == 1


async def test_guesses_at_once_get_no_further_than_one_after_the_other(world, monkeypatch):
    (mail,) = await world.mails()
    compared = []
    proofs = world.app.service("authManagement").service._proofs
    tag_of = proofs._code_tag

    def counted(secret, code):
        compared.append(code)
        return tag_of(secret, code)

    monkeypatch.setattr(proofs, "_code_tag", counted)
    guesses = [f"{number:06}" for number in range(CROWD) if f"{number:06}" != mail.code]
    calls = [proofs.find_by_code(("verify",), 1, code) for code in guesses]
    assert set(await asyncio.gather(*calls)) == {None}
    assert len(compared) == 5
    assert await proofs.find_by_code(("verify",), 1, mail.code) is None


async def test_of_many_new_links_one_counts(world):
    await world.mails()
    proofs = world.app.service("authManagement").service._proofs
    calls = [proofs.issue("reset", 1, USER) for _ in range(CROWD)]
    issued = await asyncio.gather(*calls)
    found = [await proofs.find(("reset",), proof.token) for proof in issued]
    assert len([proof for proof in found if proof is not None]) == 1


async def test_a_link_that_is_used_up_while_a_new_one_is_made(world):
    proofs = world.app.service("authManagement").service._proofs
    handle, patch = world.app.service("credentials"), world.app.service("credentials").patch

    async def lost(*arguments, **values):
        await handle.remove(arguments[0])
        return await patch(*arguments, **values)

    class Lossy:
        create, get, remove = handle.create, handle.get, handle.remove
        patch = staticmethod(lost)

    await world.accounts.idle()
    proofs._handle = Lossy
    assert await proofs.issue("verify", 1, {"address": "ada@example.com"})


async def test_a_store_that_finds_a_record_neither_missing_nor_present(world):
    from alula.errors import BadRequest, Conflict

    proofs = world.app.service("authManagement").service._proofs
    await world.accounts.idle()

    class Broken:
        error = Conflict("taken")

        async def create(self, record):
            raise self.error

        async def patch(self, *arguments, **values):
            raise NotFound("missing")

    proofs._handle = Broken()
    with pytest.raises(RuntimeError, match="neither missing nor present"):
        await proofs.issue("verify", 1, {"address": "ada@example.com"})
    Broken.error = BadRequest("no column kind")
    with pytest.raises(RuntimeError, match="'credentials' cannot store credentials"):
        await proofs.issue("verify", 1, {"address": "ada@example.com"})
