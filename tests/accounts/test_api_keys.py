"""API keys: their form, what they may do, how they are stored, and when they end."""

from __future__ import annotations

import asyncio
import json
import logging
import re

import pytest
from tests.accounts.building import FROM_AFAR, memory_stores
from tests.accounts.key_building import (
    by_key,
    by_token,
    new_key,
    started_with_keys,
    world_with_keys,
)
from tests.authentication.building import SECRET

from alula import App
from alula.accounts import Accounts, _api_keys, recent
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, authenticate
from alula.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotAuthenticated,
    NotFound,
    TooManyRequests,
)

DAY_MS = 86_400_000
FORM = r"alu_[0-9A-Za-z]{12}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}"
ADA = "ada@example.com"


@pytest.fixture
async def world():
    world = await started_with_keys()
    yield world
    await world.app.teardown()


@pytest.fixture
def later(monkeypatch):
    """Return a function that turns the clock of keys on."""
    now = _api_keys._milliseconds()

    def turn(milliseconds):
        monkeypatch.setattr(_api_keys, "_milliseconds", lambda: now + milliseconds)

    turn(0)
    return turn


def find(world, key, **more):
    return world.app.service("notes").find(by_key(key, **more))


async def is_valid(world, key):
    try:
        await find(world, key)
    except NotAuthenticated:
        return False
    return True


async def refused(call, error=NotAuthenticated):
    with pytest.raises(error) as caught:
        await call
    return caught.value


class TestOnEachStore:
    @pytest.fixture
    async def world(self, stores):
        world = await started_with_keys(stores)
        yield world
        await world.app.teardown()

    async def test_a_key_says_who_calls_and_ends(self, world):
        keys = world.accounts.api_keys
        key, other = await new_key(world), await new_key(world, user_id=2)
        assert re.fullmatch(FORM, key["key"])
        assert await find(world, key["key"]) == [ADA]
        assert await find(world, other["key"]) == ["bob@example.com"]
        await world.accounts.idle()  # the last use is stored
        (listed,) = await keys.find(1)
        assert {**listed, "lastUsedAt": None, "key": key["key"]} == key
        assert (await keys.remove(key["id"]))["id"] == key["id"]
        assert not await is_valid(world, key["key"])
        await refused(keys.remove(key["id"]), NotFound)
        assert await keys.find(1) == []
        assert await is_valid(world, other["key"])

    async def test_the_store_has_a_hash_alone(self, world):
        key = await new_key(world)
        (record,) = await world.app.service("credentials").find(
            query={"userId": "1", "kind": "key"}, paginate=False
        )
        secret = key["key"].split("_")[2]
        assert secret not in json.dumps(record, default=str)
        assert len(record["secret"]) == 64

    async def test_a_rotated_key(self, world, later):
        keys, old = world.accounts.api_keys, await new_key(world)
        later(1000)
        new = await keys.rotate(old["id"])
        assert {**new, "key": "", "expiresAt": 0} == {**old, "key": "", "expiresAt": 0}
        assert new["expiresAt"] == old["expiresAt"] + 1000
        assert [await is_valid(world, key["key"]) for key in (old, new)] == [True, True]
        later(1001 + DAY_MS)
        assert [await is_valid(world, key["key"]) for key in (old, new)] == [False, True]

    async def test_the_last_use_is_stored_every_five_minutes(self, world, later, stores):
        key = await new_key(world)
        assert key["lastUsedAt"] is None
        calls = []
        world.app.service("credentials").hooks(
            before={"patch": [lambda context: calls.append(context.data)]}
        )
        for milliseconds in (0, 0, 299_999, 300_000, 300_001):
            later(milliseconds)
            await asyncio.gather(find(world, key["key"]), find(world, key["key"]))
            await world.accounts.idle()
        assert len(calls) == 2
        (shown,) = await world.accounts.api_keys.find(1)
        assert shown["lastUsedAt"] == calls[1]["usedAt"] == calls[0]["usedAt"] + 300_000

    async def test_the_keys_of_a_removed_user_end_before_the_next_user_gets_the_id(
        self, world, stores
    ):
        key = await new_key(world)
        await world.app.service("users").remove(1)
        assert await world.accounts.api_keys.find(1) == []
        assert not await is_valid(world, key["key"])
        # As SQLite does.
        await world.app.service("users").create(
            {"id": 1, "email": "eve@example.com", "password": "correct horse"}
        )
        assert not await is_valid(world, key["key"])


class TestScopes:
    async def test_by_default_they_are_those_of_the_service(self, world):
        key = (await new_key(world, "notes:read"))["key"]
        notes = world.app.service("notes")
        assert await find(world, key) == [ADA]
        for call in (notes.create({}, by_key(key)), notes.tidy({}, by_key(key))):
            error = await refused(call, Forbidden)
            assert error.message == "This key lacks the scope notes:write"
            assert error.data == {"code": "scope", "scope": "notes:write"}
        writing = (await new_key(world, "notes:write"))["key"]
        assert await notes.create({}, by_key(writing)) == [ADA]
        await refused(find(world, writing), Forbidden)

    async def test_a_hook_may_name_another_one(self):
        world = world_with_keys()
        world.app.use("reports", MemoryService())
        world.app.service("reports").hooks(
            before={"find": [authenticate("apiKey", scope="statistics")]}
        )
        await world.app.setup()
        await world.sign_up()
        for scope, passes in (("statistics", True), ("reports:read", False)):
            key = (await new_key(world, scope))["key"]
            call = world.app.service("reports").find(by_key(key))
            if passes:
                assert await call == []
            else:
                await refused(call, Forbidden)

    async def test_own_code_gives_all_of_them(self, world):
        key = (await new_key(world, "*"))["key"]
        assert await world.app.service("notes").create({}, by_key(key)) == [ADA]

    async def test_people_and_own_code_have_all_of_them(self, world):
        signed_in = await world.sign_in()
        assert await world.app.service("notes").create({}, by_token(signed_in)) == [ADA]
        key = (await new_key(world, "other"))["key"]
        inside = {**by_key(key), "provider": None}
        assert await world.app.service("notes").create({}, inside) == [ADA]
        assert await world.app.service("notes").find() == [None]

    async def test_what_hooks_see(self, world):
        key = await new_key(world)
        await find(world, key["key"])
        (params,) = world.app.service("notes").service.params
        assert params.authentication == {
            "strategy": "apiKey",
            "id": key["id"],
            "name": "CI",
            "scopes": ["notes:read"],
            "expiresAt": key["expiresAt"],
        }
        assert "password" not in params.user
        assert key["key"] not in repr(vars(params))

    async def test_where_no_key_counts_it_is_a_403(self, world):
        key = (await new_key(world, "*"))["key"]
        error = await refused(world.app.service("users").find(by_key(key)), Forbidden)
        assert "needs a person" in error.message

    async def test_a_key_is_never_recent(self):
        world = world_with_keys()
        world.app.service("notes").hooks(before={"create": [recent(300)]})
        await world.app.setup()
        await world.sign_up()
        key = (await new_key(world, "*"))["key"]
        error = await refused(world.app.service("notes").create({}, by_key(key)), Forbidden)
        assert "needs a person" in error.message

    async def test_nobody_signs_in_with_a_key(self, world):
        key = (await new_key(world, "*"))["key"]
        credentials = {"strategy": "apiKey", "apiKey": key}
        create = world.app.service("authentication").create
        assert "not allowed" in (await refused(create(credentials, dict(FROM_AFAR)))).message
        assert await world.app.service("sessions").find() == []

    async def test_a_scope_without_effect_ends_the_start(self):
        world = world_with_keys()
        world.app.service("notes").hooks(before=[authenticate("jwt", scope="notes:read")])
        with pytest.raises(ValueError, match="none of these strategies has scopes"):
            await world.app.setup()

    @pytest.mark.parametrize("scope", ["", "a b", "a\n", 1, ["a"], "x" * 201])
    def test_what_is_no_scope(self, scope):
        with pytest.raises(TypeError, match="a scope is a text such as"):
            authenticate("apiKey", scope=scope)


class TestWrongKeys:
    async def test_a_typing_error_reads_nothing_and_costs_nothing(self):
        world = await started_with_keys(throttle={})
        key, reads = (await new_key(world))["key"], []
        world.app.service("credentials").hooks(
            before={"get": [lambda context: reads.append(context.id)]}
        )
        wrong = [
            key[:-1] + ("a" if key[-1] != "a" else "b"),
            key.replace("alu", "ala"),
            f"{key}x",
            key.lower(),
            "",
            None,
            7,
            {"$ne": ""},
        ]
        for text in wrong:
            assert (await refused(find(world, text))).message == "Invalid API key"
        for _ in range(300):
            await refused(find(world, wrong[0]))
        assert reads == []

    async def test_others_are_paid_for(self, monkeypatch):
        monkeypatch.setattr("alula.accounts._api_key_strategy._WRONG_KEYS_AN_HOUR", 2)
        world = await started_with_keys(throttle={})
        key = await new_key(world)
        await world.accounts.api_keys.remove(key["id"])
        valid = (await new_key(world))["key"]
        for _ in range(2):
            assert (await refused(find(world, key["key"]))).message == "Invalid API key"
        error = await refused(find(world, key["key"]), TooManyRequests)
        assert 0 < int(error.headers["Retry-After"]) <= 1800
        assert await is_valid(world, valid)
        await refused(find(world, key["key"], ip="198.51.100.7"))

    async def test_the_id_of_another_key(self, world):
        """The checksum is right, so the secret is compared."""
        one, two = await new_key(world), await new_key(world)
        forged = world.accounts.api_keys._text_of(one["id"], two["key"].split("_")[2])
        assert (await refused(find(world, forged))).message == "Invalid API key"

    async def test_a_user_who_is_gone(self, world):
        key = await new_key(world)
        await world.app.service("users").service.remove(1)  # past the hooks
        assert not await is_valid(world, key["key"])


class TestCreate:
    async def test_for_how_long(self, world, later):
        day, never = await new_key(world, expires_in="1d"), await new_key(world, expires_in=None)
        usual = await new_key(world)
        assert usual["expiresAt"] == usual["createdAt"] + 90 * DAY_MS
        assert never["expiresAt"] is None
        later(DAY_MS)
        keys = [await is_valid(world, key["key"]) for key in (day, never, usual)]
        assert keys == [False, True, True]
        assert {key["id"] for key in await world.accounts.api_keys.find(1)} == {
            never["id"],
            usual["id"],
        }
        again = await world.accounts.api_keys.rotate(never["id"], overlap=0)
        assert again["expiresAt"] is None
        assert not await is_valid(world, never["key"])

    async def test_what_has_expired_is_swept(self, world, later):
        await new_key(world, expires_in=1)
        never = await new_key(world, expires_in=None)
        later(3_600_001)
        key = await new_key(world)
        stored = await world.app.service("credentials").find(query={"kind": "key"})
        assert {record["id"] for record in stored} == {f"key:{never['id']}", f"key:{key['id']}"}

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"name": ""}, "the name of a key"),
            ({"name": "a\n"}, "the name of a key"),
            ({"name": "x" * 101}, "the name of a key"),
            ({"name": None}, "the name of a key"),
            ({"scopes": []}, "scopes is a list"),
            ({"scopes": "notes:read"}, "scopes is a list"),
            ({"scopes": ["a b"]}, "scopes is a list"),
            ({"scopes": ["a"] * 101}, "scopes is a list"),
            ({"expires_in": "soon"}, "expires_in: 'soon' is not a duration"),
            ({"expires_in": 10**13}, "expires_in is too long"),
        ],
    )
    async def test_what_is_not_valid(self, world, changes, text):
        with pytest.raises(ValueError, match=text):
            await world.accounts.api_keys.create(
                **{"user_id": 1, "name": "CI", "scopes": ["notes:read"], **changes}
            )

    async def test_for_nobody(self, world):
        error = await refused(new_key(world, user_id=9), NotFound)
        assert error.message == "There is no user 9"

    async def test_for_a_user_who_is_removed_meanwhile(self, world):
        async def remove_user(context):
            await world.app.service("users").remove(1)

        world.app.service("credentials").hooks(after={"create": [remove_user]})
        await refused(new_key(world), NotFound)
        assert await world.app.service("credentials").find(query={"kind": "key"}) == []

    async def test_a_store_that_does_not_fit(self):
        stores = memory_stores()
        world = await started_with_keys(stores)

        async def refuse(context):
            raise BadRequest("no usedAt")

        world.app.service("credentials").hooks(before={"create": [refuse]})
        with pytest.raises(RuntimeError, match=r"cannot store credentials: no usedAt.*usedAt"):
            await new_key(world)


class TestChanges:
    @pytest.mark.parametrize("overtaking", ["rename", "rotate"])
    async def test_changes_at_once_do_not_undo_each_other(self, world, overtaking):
        keys, key = world.accounts.api_keys, await new_key(world)
        made = []

        async def overtake(context):
            if not made:
                made.append(None)
                made[0] = await (
                    keys.rename(key["id"], "Deploy")
                    if overtaking == "rename"
                    else keys.rotate(key["id"])
                )

        # The change below has read the key by then.
        world.app.service("credentials").hooks(before={"patch": [overtake]})
        last = await keys.rotate(key["id"])
        (shown,) = await keys.find(1)
        assert await is_valid(world, last["key"])
        if overtaking == "rename":
            assert shown["name"] == "Deploy"
            assert await is_valid(world, key["key"])
        else:  # the one before the last is valid, too, and no older one
            assert await is_valid(world, made[0]["key"])
            assert not await is_valid(world, key["key"])

    async def test_a_key_that_changes_again_and_again(self, world):
        keys, key = world.accounts.api_keys, await new_key(world)

        async def lose(context):
            raise NotFound("somebody was faster")

        world.app.service("credentials").hooks(before={"patch": [lose]})
        await refused(keys.rename(key["id"], "Deploy"), Conflict)

    async def test_only_keys_and_only_those_of_the_user(self, world, later):
        keys, key = world.accounts.api_keys, await new_key(world)
        for call in (
            keys.rename(key["id"], "Mine", user_id=2),
            keys.rotate(key["id"], user_id=2),
            keys.remove(key["id"], user_id=2),
            keys.rename("unknown", "Mine"),
        ):
            await refused(call, NotFound)
        assert (await keys.rename(key["id"], "Mine", user_id=1))["name"] == "Mine"
        later(90 * DAY_MS)
        await refused(keys.rotate(key["id"]), NotFound)

    async def test_a_proof_ends_the_keys_of_a_stranger(self):
        """Somebody else has made the account, and keys; then the owner proves the address."""
        world = await started_with_keys(magic_link="anywhere")
        await world.mails()
        key = await new_key(world)
        await world.manage("sendResetPwd", {"email": ADA})
        value = {"token": await world.token("reset"), "password": "battery staple"}
        await world.manage("resetPwdLong", value)
        assert not await is_valid(world, key["key"])
        # From now on the address is proved, and a new password ends no key.
        kept = await new_key(world)
        await world.mails()
        await world.manage("sendResetPwd", {"email": ADA})
        value = {"token": await world.token("reset"), "password": "correct horse"}
        await world.manage("resetPwdLong", value)
        assert await is_valid(world, kept["key"])
        bobs = await new_key(world, user_id=2)
        await world.manage("sendMagicLink", {"email": "bob@example.com"})
        link = {"strategy": "link", "token": await world.token("link")}
        await world.app.service("authentication").create(link, dict(FROM_AFAR))
        assert not await is_valid(world, bobs["key"])

    async def test_an_undone_change_of_the_address_ends_the_keys_of_a_thief(self):
        world = await started_with_keys()
        await world.manage("verifySignupLong", await token_for(world, ADA))
        key = await new_key(world)
        change = {
            "user": {"email": ADA},
            "password": "correct horse",
            "changes": {"email": "new@example.com"},
        }
        await world.manage("identityChange", change)
        mails = {mail.kind: mail for mail in await world.mails()}
        undo = mails["undo"].link.partition("#token=")[2]
        await world.manage("verifySignupLong", undo)
        assert not await is_valid(world, key["key"])


async def token_for(world, address):
    (mail,) = [mail for mail in await world.mails("verify") if mail.to == address]
    return mail.link.partition("#token=")[2]


class TestOptions:
    async def test_without_mails(self):
        """Neither a mailer nor passwords are needed, and nothing of mails is registered."""
        accounts = Accounts(store="credentials", api_keys=True, key_prefix="acme")
        app = App()
        app.use("users", MemoryService([{"id": 1}]))
        app.use("sessions", MemoryService(), methods=[])
        app.use("credentials", MemoryService(), methods=[])
        service = AuthenticationService(app, secret=SECRET, sessions="sessions", strategies=["jwt"])
        app.use("authentication", service)
        app.use("notes", MemoryService())
        app.service("notes").hooks(before=[authenticate("apiKey")])
        app.configure(accounts)
        assert "authManagement" not in app.services
        await app.setup()
        key = await accounts.api_keys.create(user_id=1, name="CI", scopes=["notes:read"])
        assert key["key"].startswith(f"acme_{key['id']}_")
        assert key["prefix"] == f"acme_{key['id']}"
        assert await app.service("notes").find(by_key(key["key"])) == []
        await app.service("users").remove(1)
        await refused(app.service("notes").find(by_key(key["key"])))
        await app.teardown()
        await app.setup()  # a second time changes nothing
        await app.teardown()

    async def test_without_keys(self):
        world = world_with_keys(api_keys=False)
        assert "account/api-keys" not in world.app.services
        assert repr(world.accounts.api_keys) == "ApiKeys(is_on=False)"
        with pytest.raises(RuntimeError, match="api_keys=True"):
            await new_key(world)

    async def test_before_the_setup(self):
        with pytest.raises(RuntimeError, match="after the setup"):
            await new_key(world_with_keys())

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"api_keys": 1}, "api_keys is 1; write True or False"),
            ({"api_keys": True, "key_prefix": "A"}, "key_prefix is 'A'"),
            ({"api_keys": True, "header": "X API"}, "header is 'X API'"),
            ({"api_keys": True, "header": "authorization"}, "name another header"),
            ({"api_keys": True, "bearer": 1}, "bearer is 1"),
            ({"bearer": True}, "bearer has no effect without api_keys=True"),
            ({"header": "X-Key"}, "header has no effect without api_keys=True"),
            ({"api_keys": True, "codes": True}, "codes has no effect without mailer"),
            ({"links": {"reset": "x"}}, "links has no effect without mailer"),
            ({"verify_email": "soft"}, "verify_email has no effect without mailer"),
            ({"min_password": 9}, r"min_password has no effect without mailer.* or sign_in=\["),
        ],
    )
    def test_wrong_options(self, options, text):
        with pytest.raises(ValueError, match=text):
            Accounts(store="credentials", **options)

    def test_an_application_without_both(self):
        accounts = Accounts(store="credentials", verify_email="off")
        assert "ApiKeys(is_on=False)" in repr(accounts)
        app = App().use("users", MemoryService())
        app.use("authentication", AuthenticationService(app, secret=SECRET, sessions="sessions"))
        app.configure(accounts)
        assert [*app.services] == ["users", "authentication", "account/sessions"]


async def test_a_use_that_cannot_be_stored_is_logged(world, caplog):
    key = await new_key(world)

    async def fail(context):
        raise OSError("the disk is full")

    world.app.service("credentials").hooks(before={"patch": [fail]})
    with caplog.at_level(logging.ERROR, "alula.accounts"):
        assert await find(world, key["key"]) == [ADA]
        await world.accounts.idle()
    assert "the last use of an API key was not stored" in caplog.text
    assert key["key"] not in caplog.text
    assert key["key"].split("_")[2] not in caplog.text


async def test_idle_waits_for_a_use_that_is_being_stored(world):
    goes_on = asyncio.Event()
    world.app.service("credentials").hooks(before={"patch": [lambda context: goes_on.wait()]})
    key = await new_key(world)
    for _ in range(2):  # the second call starts no second write
        assert await find(world, key["key"]) == [ADA]
    idle = asyncio.ensure_future(world.accounts.idle())
    await asyncio.sleep(0)
    assert not idle.done()
    goes_on.set()
    await idle
    (shown,) = await world.accounts.api_keys.find(1)
    assert shown["lastUsedAt"]


async def test_another_process_has_stored_the_use(world):
    key = await new_key(world)

    async def lose(context):
        raise NotFound("another process was faster")

    world.app.service("credentials").hooks(before={"patch": [lose]})
    assert await find(world, key["key"]) == [ADA]
    await world.accounts.idle()
