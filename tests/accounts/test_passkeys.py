"""Passkeys: added by somebody who has just signed in, and enough to sign in with."""

from __future__ import annotations

import asyncio
import logging
import time
from types import SimpleNamespace

import cbor2
import pytest
from tests.accounts.apps import as_caller, refused
from tests.accounts.authenticators import (
    AT,
    BE,
    BS,
    ORIGIN,
    UP,
    UV,
    Authenticator,
    add_passkey,
    new_passkey,
    options_for,
    sign_in_with,
    signed,
    started_with_passkeys,
    to_bytes,
    to_text,
)
from tests.accounts.building import FROM_AFAR, memory_stores, started
from tests.accounts.key_building import by_key, new_key
from tests.express.asgi_client import call

from alula import Params
from alula.accounts import _guards, _passkey_services
from alula.authentication import _sealed
from alula.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    TooManyRequests,
)
from alula.express import express, json, rest

BOB = {"email": "bob@example.com"}


def passkeys_of(world):
    return world.app.service("account/passkeys")


async def bob_in(world):
    """Sign a second user up, and return the params of their calls."""
    await world.sign_up(**BOB)
    return as_caller(await world.sign_in(**BOB))


def overtake(world, method, action):
    """Run something once just before a method of the store."""
    done = []

    async def once(context):
        if not done:
            done.append(True)
            await action()

    world.app.service("credentials").hooks(before={method: [once]})


def let_tokens_expire(monkeypatch):
    later = time.time() + 301
    monkeypatch.setattr(_sealed, "time", SimpleNamespace(time=lambda: later))


async def wrong(world, credentials):
    """Return what the response to a wrong sign-in says; it is the same for all."""
    with pytest.raises(NotAuthenticated) as error:
        await world.app.service("authentication").create(credentials, dict(FROM_AFAR))
    return error.value.message, error.value.data


INVALID = ("Invalid login", None)


# -- from the first to the last use ----------------------------------------------------------------


async def test_add_sign_in_rename_and_remove(stores):
    world, me = await started_with_passkeys(stores)
    device, passkeys = Authenticator(), passkeys_of(world)
    added = await add_passkey(world, me, device)
    assert set(added) == {"id", "name", "createdAt", "lastUsedAt", "backedUp"}
    assert (added["id"], added["lastUsedAt"]) == (to_text(device.id), None)
    result = await sign_in_with(world, device)
    assert result["user"]["email"] == "ada@example.com"
    assert "password" not in result["user"]
    assert result["authentication"]["strategy"] == "passkey"
    assert result["authentication"]["payload"]["amr"] == ["hwk", "user"]
    me = as_caller(result)  # it is a recent sign-in
    assert (await passkeys.patch(added["id"], {"name": "Laptop"}, me))["name"] == "Laptop"
    await add_passkey(world, me, Authenticator())
    (found,) = [one for one in await passkeys.find(me) if one["id"] == added["id"]]
    assert found == {**added, "name": "Laptop", "lastUsedAt": found["lastUsedAt"]}
    assert found["lastUsedAt"] >= found["createdAt"]
    assert (await passkeys.remove(added["id"], me))["id"] == added["id"]
    assert await wrong(world, await signed(world, device)) == INVALID
    assert len(await passkeys.find(me)) == 1
    kinds = [mail.kind for mail in await world.mails()]
    assert kinds == ["passkey_added", "passkey_added", "passkey_removed"]
    await world.app.teardown()


async def test_over_rest():
    world, _ = await started_with_passkeys()
    web = express(world.app).use(json()).configure(rest())
    kind = {"content-type": "application/json"}
    body = b'{"purpose": "get", "email": "ada@example.com"}'
    answer = await call(web, "POST", "/account/passkey-options", body, kind)
    assert (answer.status, answer.get("cache-control")) == (201, "no-store")
    assert answer.json["expiresIn"] == 300
    assert answer.json["options"] == {
        "challenge": answer.json["options"]["challenge"],
        "rpId": "app.example",
        "allowCredentials": [],
        "userVerification": "required",
        "timeout": 300000,
    }
    for path, status in (("passkey-options", 401), ("passkeys", 401)):
        body = b'{"purpose": "create"}'
        assert (await call(web, "POST", f"/account/{path}", body, kind)).status == status


async def test_options_for_a_new_passkey():
    world, me = await started_with_passkeys()
    first = (await options_for(world, "create", me))["options"]
    assert first["rp"] == {"id": "app.example", "name": "app.example"}
    assert first["user"]["name"] == first["user"]["displayName"] == "ada@example.com"
    assert len(to_bytes(first["user"]["id"])) == len(to_bytes(first["challenge"])) == 32
    assert [each["alg"] for each in first["pubKeyCredParams"]] == [-7, -8, -257]
    assert first["authenticatorSelection"]["userVerification"] == "required"
    assert first["authenticatorSelection"]["residentKey"] == "required"
    assert (first["attestation"], first["excludeCredentials"]) == ("none", [])
    device = Authenticator()
    added = await add_passkey(world, me, device)
    second = (await options_for(world, "create", me))["options"]
    assert second["excludeCredentials"] == [{"type": "public-key", "id": added["id"]}]
    assert second["challenge"] != first["challenge"]
    assert to_bytes(second["user"]["id"]) == device.handle  # all passkeys of a user have one
    theirs = (await options_for(world, "create", await bob_in(world)))["options"]
    assert theirs["user"]["id"] != second["user"]["id"]
    for data in ({}, {"purpose": "both"}, {"purpose": ["get"]}, "get"):
        with pytest.raises(BadRequest):
            await world.app.service("account/passkey-options").create(data, dict(FROM_AFAR))


@pytest.mark.parametrize("changes", [{"algorithm": -8}, {"algorithm": -257}, {"form": "packed"}])
async def test_other_keys_and_an_attestation_by_the_key_itself(changes):
    world, me = await started_with_passkeys()
    device = Authenticator(**changes)
    await add_passkey(world, me, device)
    assert await sign_in_with(world, device)


# -- signing in ------------------------------------------------------------------------------------


async def test_a_signature_counts_once(stores):
    world, me = await started_with_passkeys(stores)
    device = Authenticator()
    await add_passkey(world, me, device)
    credentials = await signed(world, device)
    sign_in = world.app.service("authentication").create
    calls = [sign_in(credentials, dict(FROM_AFAR)) for _ in range(4)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(isinstance(result, NotAuthenticated) for result in results) == [
        False,
        True,
        True,
        True,
    ]
    assert await wrong(world, credentials) == INVALID
    assert len(await world.app.service("sessions").find()) == 2  # with that by the password
    await world.app.teardown()


WRONG_DEVICES = {
    "no verification": {"flags": UP},
    "no presence": {"flags": UV},
    "another origin": {"changes": {"origin": "https://evil.example"}},
    "a similar origin": {"changes": {"origin": f"{ORIGIN}/"}},
    "an embedded page": {"changes": {"crossOrigin": True}},
    "another type": {"changes": {"type": "webauthn.create"}},
    "another challenge": {"changes": {"challenge": to_text(bytes(32))}},
    "another domain": {"rp_id": "evil.example"},
    "the handle of somebody else": {"handle": bytes(32)},
    "no handle": {"handle": b""},
    "a passkey that could suddenly be backed up": {"flags": UP | UV | BE},
    "a backup of a passkey that has none": {"flags": UP | UV | BS},
    "broken data": {"flags": UP | UV | AT},
}


@pytest.mark.parametrize("reason", WRONG_DEVICES)
async def test_what_an_authenticator_may_not_say(reason):
    world, me = await started_with_passkeys()
    device = Authenticator()
    await add_passkey(world, me, device)
    right = {name: getattr(device, name) for name in WRONG_DEVICES[reason]}
    for name, value in WRONG_DEVICES[reason].items():
        setattr(device, name, value)
    assert await wrong(world, await signed(world, device)) == INVALID
    for name, value in right.items():
        setattr(device, name, value)
    assert await sign_in_with(world, device)


async def test_credentials_in_another_form():
    world, me = await started_with_passkeys()
    device = Authenticator()
    await add_passkey(world, me, device)
    response = (await signed(world, device))["credential"]["response"]
    other = Authenticator()
    other.handle = device.handle
    for changes in (
        None,
        {"id": 5},
        {"id": "ä"},
        {"id": "A" * 1365},
        {"id": to_text(other.id)},
        {"rawId": to_text(other.id)},
        {"type": "password"},
        {"response": None},
        {"response": {**response, "signature": "x" * 32769}},
        {"response": {**response, "signature": to_text(bytes(70))}},
        {"response": {**response, "clientDataJSON": "!"}},
        {"response": {**response, "authenticatorData": None}},
    ):
        credentials = await signed(world, device)
        credential = None if changes is None else {**credentials["credential"], **changes}
        assert await wrong(world, {**credentials, "credential": credential}) == INVALID
    assert await sign_in_with(world, device)


async def test_a_token_counts_for_its_purpose_and_its_time(monkeypatch):
    world, me = await started_with_passkeys()
    device = Authenticator()
    await add_passkey(world, me, device)
    credentials = await signed(world, device)
    registration = await options_for(world, "create", me)
    options = {**registration["options"], "rpId": "app.example"}
    mixed = {"token": registration["token"], "credential": device.get(options)}
    assert await wrong(world, {**credentials, **mixed}) == INVALID
    for token in (None, 5, "", "x.y"):
        assert await wrong(world, {**credentials, "token": token}) == INVALID
    assert await world.app.service("authentication").create(credentials, dict(FROM_AFAR))
    credentials = await signed(world, device)
    let_tokens_expire(monkeypatch)
    assert await wrong(world, credentials) == INVALID


async def test_a_counter_that_does_not_rise_is_refused_and_the_owner_is_told(caplog):
    world, me = await started_with_passkeys(throttle={})
    device = Authenticator()
    await add_passkey(world, me, device)
    await sign_in_with(world, device)
    await world.mails()
    for count in (0, 1):  # one less, and the same
        device.sign_count = count
        assert await wrong(world, await signed(world, device)) == INVALID
    assert [mail.kind for mail in await world.mails()] == ["passkey_copied"]  # once a day
    assert "passkey of the user '1' may have been copied: its counter is 1 after 2" in caplog.text
    device.counts, device.sign_count = False, 0  # a copy that does not count at all
    assert await wrong(world, await signed(world, device)) == INVALID
    device.counts, device.sign_count = True, 2
    assert await sign_in_with(world, device)


async def test_nobody_is_told_without_a_right_signature():
    world, me = await started_with_passkeys()
    device = Authenticator()
    await add_passkey(world, me, device)
    await world.mails()
    device.sign_count, device.key = -1, Authenticator().key
    assert await wrong(world, await signed(world, device)) == INVALID
    assert await world.mails() == []


async def test_synced_passkeys_do_not_count():
    world, me = await started_with_passkeys()
    device = Authenticator(counts=False, flags=UP | UV | BE)
    assert (await add_passkey(world, me, device))["backedUp"] is False
    await sign_in_with(world, device)
    (found,) = await passkeys_of(world).find(me)
    device.flags |= BS
    await sign_in_with(world, device)
    (backed_up,) = await passkeys_of(world).find(me)
    assert (found["backedUp"], backed_up["backedUp"]) == (False, True)
    assert backed_up["lastUsedAt"] >= found["lastUsedAt"] > 0


async def test_two_sign_ins_at_once_do_not_fail_each_other(stores):
    world, me = await started_with_passkeys(stores)
    device, sign_in = Authenticator(), world.app.service("authentication").create
    await add_passkey(world, me, device)
    first, second = await signed(world, device), await signed(world, device)
    results = []

    async def be_faster():
        results.append(await sign_in(second, dict(FROM_AFAR)))

    overtake(world, "patch", be_faster)
    results.append(await sign_in(first, dict(FROM_AFAR)))
    assert all(result["accessToken"] for result in results)
    (record,) = await world.app.service("credentials").find(query={"kind": "passkey"})
    assert (len(results), record["count"]) == (2, 3)
    await world.app.teardown()


async def test_a_passkey_that_is_removed_while_it_signs_in():
    world, me = await started_with_passkeys()
    device = Authenticator()
    added = await add_passkey(world, me, device)
    overtake(world, "patch", lambda: passkeys_of(world).remove(added["id"], me))
    assert await wrong(world, await signed(world, device)) == INVALID


async def test_a_passkey_of_a_user_who_does_not_exist():
    world, me = await started_with_passkeys()
    device = Authenticator()
    added = await add_passkey(world, me, device)
    await world.app.service("credentials").patch(f"passkey:{added['id']}", {"userId": "99"})
    assert await wrong(world, await signed(world, device)) == INVALID


async def test_a_passkey_that_comes_with_a_call_of_own_code():
    world, me = await started_with_passkeys()
    device = Authenticator()
    await add_passkey(world, me, device)
    check = world.authentication.authenticate
    result = await check(await signed(world, device), Params(FROM_AFAR), "passkey")
    assert result["user"]["id"] == 1


async def test_an_address_that_has_to_be_confirmed_first():
    stores, device = memory_stores(), Authenticator()
    world, me = await started_with_passkeys(stores)
    await add_passkey(world, me, device)
    strict = await started(stores, passkeys=True, origins=[ORIGIN], verify_email="required")
    assert await refused(strict, await signed(strict, device)) == "not_verified"


async def test_the_network_has_a_budget_for_options():
    world, me = await started_with_passkeys(throttle={})
    for _ in range(119):
        await options_for(world, "get", dict(FROM_AFAR))
    await options_for(world, "create", me)
    with pytest.raises(TooManyRequests):
        await options_for(world, "get", dict(FROM_AFAR))
    assert await options_for(world, "get", {**FROM_AFAR, "ip": "198.51.100.1"})


# -- a new passkey ---------------------------------------------------------------------------------


async def code_of_refused(world, me, data):
    with pytest.raises(NotAuthenticated) as error:
        await passkeys_of(world).create(data, me)
    return error.value.data["code"]


BAD_POINT = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: bytes(31) + b"\1", -3: bytes(31) + b"\1"})
BIG_KEY = cbor2.dumps({1: 3, 3: -257, -1: b"\xff" * 2048, -2: b"\1\0\1"})
ONLY_LATER = ("a passkey that could suddenly be backed up", "broken data")
NEW_AND_WRONG = {
    **{name: changes for name, changes in WRONG_DEVICES.items() if "handle" not in changes},
    "another type": {"changes": {"type": "webauthn.get"}},
    "certificates of strangers": {"form": "tpm"},
    "an id that is too long": {"id": bytes(1024)},
    "a key that is no point": {"public_key": lambda: BAD_POINT},
    "a key that is too long": {"public_key": lambda: BIG_KEY},
}
for name in ONLY_LATER:
    del NEW_AND_WRONG[name]


@pytest.mark.parametrize("reason", NEW_AND_WRONG)
async def test_a_new_passkey_that_is_not_valid(reason, caplog):
    caplog.set_level(logging.INFO, logger="alula.accounts")
    world, me = await started_with_passkeys()
    device = Authenticator()
    for name, value in NEW_AND_WRONG[reason].items():
        setattr(device, name, value)
    assert await code_of_refused(world, me, await new_passkey(world, me, device)) == "invalid"
    assert await passkeys_of(world).find(me) == []
    assert "a passkey was refused: " in caplog.text  # for owners, who may have a wrong setting


async def test_a_new_passkey_in_another_form():
    world, me = await started_with_passkeys()
    device, passkeys = Authenticator(), passkeys_of(world)
    data = await new_passkey(world, me, device)
    for changes in (
        {"name": ""},
        {"name": "x" * 101},
        {"name": "a\nb"},
        {"name": 5},
        {"credential": None},
        {"credential": "{}"},
        {"more": 1},
    ):
        with pytest.raises(BadRequest):
            await passkeys.create({**data, **changes}, me)
    with pytest.raises(BadRequest):
        await passkeys.create({"token": data["token"]}, me)
    assert await passkeys.create(data, me)  # none of them has cost the token
    other = await new_passkey(world, me, Authenticator())
    other_id = {"id": data["credential"]["id"], "rawId": data["credential"]["rawId"]}
    other["credential"].update(other_id)
    assert await code_of_refused(world, me, other) == "invalid"


async def test_the_token_of_a_new_passkey(monkeypatch):
    world, me = await started_with_passkeys()
    bob, device = await bob_in(world), Authenticator()
    data = await new_passkey(world, me, device)
    assert await code_of_refused(world, bob, data) == "expired"
    calls = [passkeys_of(world).create(data, me) for _ in range(3)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(result, NotAuthenticated) for result in results) == 2
    sign_in = await options_for(world, "get", dict(FROM_AFAR))
    for token in (data["token"], sign_in["token"], None, "x.y"):
        assert await code_of_refused(world, me, {**data, "token": token}) == "expired"
    data = await new_passkey(world, me, Authenticator())
    let_tokens_expire(monkeypatch)
    assert await code_of_refused(world, me, data) == "expired"


async def test_a_passkey_is_registered_once():
    world, me = await started_with_passkeys()
    bob, device = await bob_in(world), Authenticator()
    await add_passkey(world, me, device)
    for caller in (me, bob):
        with pytest.raises(Conflict, match="registered already"):
            await add_passkey(world, caller, device)
    assert await passkeys_of(world).find(bob) == []


async def test_a_user_has_so_many_passkeys_only(monkeypatch):
    monkeypatch.setattr(_passkey_services, "_MOST_PASSKEYS", 2)
    world, me = await started_with_passkeys()
    await add_passkey(world, me, Authenticator())
    overtake(world, "create", lambda: add_passkey(world, me, Authenticator()))
    with pytest.raises(Conflict, match="You have 2 passkeys"):
        await add_passkey(world, me, Authenticator())
    with pytest.raises(Conflict, match="You have 2 passkeys"):
        await add_passkey(world, me, Authenticator())
    assert len(await passkeys_of(world).find(me)) == 2


async def test_a_session_that_ends_before_the_passkey_is_stored():
    world, me = await started_with_passkeys()
    overtake(world, "create", lambda: world.authentication.sessions.end_all("1"))
    with pytest.raises(NotAuthenticated):
        await add_passkey(world, me, Authenticator())
    assert await world.app.service("credentials").find(query={"kind": "passkey"}) == []


async def test_a_store_that_refuses_the_record():
    world, me = await started_with_passkeys()

    async def refuse(context):
        raise BadRequest("no column kind")

    world.app.service("credentials").hooks(before={"create": [refuse]})
    with pytest.raises(RuntimeError, match="'credentials' cannot store credentials: no column"):
        await add_passkey(world, me, Authenticator())


# -- who may do what -------------------------------------------------------------------------------


async def test_passkeys_of_others_do_not_exist():
    world, me = await started_with_passkeys()
    bob, passkeys = await bob_in(world), passkeys_of(world)
    theirs = (await add_passkey(world, bob, Authenticator()))["id"]
    for wrong_id in (theirs, f"passkey:{theirs}", "", "ä"):
        with pytest.raises(NotFound):
            await passkeys.patch(wrong_id, {"name": "Mine"}, me)
        with pytest.raises(NotFound):
            await passkeys.remove(wrong_id, me)
    for call_all in (passkeys.patch(None, {"name": "All"}, me), passkeys.remove(None, me)):
        with pytest.raises(MethodNotAllowed):
            await call_all
    assert await passkeys.find(me) == []
    with pytest.raises(NotAuthenticated):
        await passkeys.find(dict(FROM_AFAR))
    with pytest.raises(BadRequest):
        await passkeys.patch(theirs, {"name": "Mine", "userId": 1}, bob)
    with pytest.raises(BadRequest):
        await passkeys.patch(theirs, {"name": ""}, bob)


async def test_a_recent_sign_in_is_needed(monkeypatch):
    world, me = await started_with_passkeys()
    added = await add_passkey(world, me, Authenticator())
    data, passkeys = await new_passkey(world, me, Authenticator()), passkeys_of(world)
    later = time.time() + 301
    monkeypatch.setattr(_guards, "time", SimpleNamespace(time=lambda: later))
    for refused_call in (
        passkeys.create(data, me),
        options_for(world, "create", me),
        passkeys.remove(added["id"], me),
    ):
        with pytest.raises(NotAuthenticated) as error:
            await refused_call
        assert error.value.data["code"] == "not_recent"
    assert await passkeys.patch(added["id"], {"name": "Old"}, me)
    assert await passkeys.find(me)


async def test_keys_are_refused():
    world, me = await started_with_passkeys(api_keys=True)
    added = await add_passkey(world, me, Authenticator())
    data, passkeys = await new_passkey(world, me, Authenticator()), passkeys_of(world)
    key = by_key((await new_key(world, "*"))["key"])
    for refused_call in (
        passkeys.find(key),
        passkeys.create(data, key),
        passkeys.patch(added["id"], {"name": "Key"}, key),
        passkeys.remove(added["id"], key),
        options_for(world, "create", key),
    ):
        with pytest.raises(Forbidden):
            await refused_call


async def test_a_passkey_that_others_rename_at_the_same_time():
    world, me = await started_with_passkeys()
    passkeys, own = passkeys_of(world), (await add_passkey(world, me, Authenticator()))["id"]
    overtake(world, "patch", lambda: passkeys.patch(own, {"name": "Theirs"}, me))
    assert (await passkeys.patch(own, {"name": "Mine"}, me))["name"] == "Mine"
    overtake(world, "patch", lambda: passkeys.remove(own, me))
    with pytest.raises(NotFound):
        await passkeys.patch(own, {"name": "Gone"}, me)


async def test_a_passkey_that_changes_all_the_time():
    world, me = await started_with_passkeys()
    passkeys, own = passkeys_of(world), (await add_passkey(world, me, Authenticator()))["id"]

    async def lose(context):
        raise NotFound("changed")

    world.app.service("credentials").hooks(before={"patch": [lose]})
    with pytest.raises(Conflict, match="try again"):
        await passkeys.patch(own, {"name": "Mine"}, me)


async def test_two_that_remove_one_passkey():
    world, me = await started_with_passkeys()
    passkeys, own = passkeys_of(world), (await add_passkey(world, me, Authenticator()))["id"]
    overtake(world, "remove", lambda: passkeys.remove(own, me))
    with pytest.raises(NotFound):
        await passkeys.remove(own, me)
