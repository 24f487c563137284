"""Hashes, passwords and tokens must not be told: not in answers, events, errors or the log."""

from __future__ import annotations

import logging

import pytest
from tests.authentication.attacks.target import BCRYPT_OF_RIGHT, Target

PASSWORD = "a password that is easy to find again"


@pytest.fixture
def everything_logged(caplog):
    caplog.set_level(logging.DEBUG)
    return caplog


async def use(target):
    """Do all that users, administrators and attackers do; return the tokens that were issued."""
    ask, tokens = target.ask, []
    await ask("POST", "/users", {"email": "new@example.com", "password": PASSWORD})
    await ask("POST", "/users", {"email": "new@example.com"})
    await ask("POST", "/users", [{"email": "a", "password": PASSWORD}])
    for email, password in [
        ("ada@example.com", "right"),
        ("bob@example.com", "right"),
        ("new@example.com", PASSWORD),
        ("new@example.com", PASSWORD + "!"),
        ("nobody@example.com", PASSWORD),
        ({"$ne": PASSWORD}, PASSWORD),
    ]:
        answer = await target.sign_in(email, password)
        if answer.status == 201:
            tokens.append(answer.json["accessToken"])
    bearer = {"Authorization": f"Bearer {tokens[-1]}"}
    for url in (
        "/users",
        "/users/3",
        "/users/3?$select[]=password",
        "/users?$select[]=password",
        "/users?$sort[password]=1",
        "/users?password[$gt]=$",
        "/users?password[$foo]=$",
        "/users?$limit=0",
        "/users/99",
        "/nowhere",
    ):
        await ask("GET", url, headers=bearer)
    await ask("PATCH", "/users/3", {"password": PASSWORD, "name": "New"}, bearer)
    await ask("PATCH", "/users/3?$select[]=password", {"name": "New"}, bearer)
    await ask("PATCH", "/users/99", {"password": PASSWORD}, bearer)
    await ask("PATCH", "/users", {"password": PASSWORD}, bearer)
    await ask("PUT", "/users/3", {"email": "new@example.com", "password": PASSWORD}, bearer)
    await ask("POST", "/authentication", {"strategy": "jwt", "accessToken": tokens[-1]})
    await target.opens(f"Bearer {tokens[-1]}x")
    await ask("DELETE", "/authentication", headers=bearer)
    await ask("DELETE", "/users/3", headers=bearer)
    await target.opens(f"Bearer {tokens[-1]}")
    return tokens


async def test_no_hash_and_no_password_leaks(everything_logged):
    target = await Target().start()
    users = target.app.service("users").service
    hashes = [(await users.get(number, {}))["password"] for number in (1, 2)]
    assert hashes[1] == BCRYPT_OF_RIGHT
    seen = []

    def note(context):
        if isinstance(context.data, dict) and "password" in context.data:
            seen.append(context.data["password"])

    target.app.service("users").hooks(
        after={name: [note] for name in ("create", "update", "patch")}
    )
    tokens = await use(target)
    hashes += seen
    assert len(hashes) > 4  # those at the start, a renewed one, and what was set
    assert all(str(each).startswith("$") for each in hashes)
    said, logged = "\n".join(target.said), everything_logged.text
    assert len(target.said) > 30
    for text in (said, logged):
        for hashed in hashes:
            assert hashed not in text
        assert PASSWORD not in text
        assert "$argon2" not in text
        assert "$2b$" not in text
    for token in tokens:
        assert token not in logged
        assert token.rpartition(".")[2] not in logged


async def test_refresh_tokens_and_accounts_are_not_logged(everything_logged):
    from alula.adapters.memory import MemoryService

    target = Target(sessions="sessions", throttle={"tries": 3})
    target.app.use("sessions", MemoryService(), methods=[])
    await target.start()
    first = (await target.sign_in()).json
    renewal = {"strategy": "refresh", "refreshToken": first["refreshToken"]}
    second = (await target.ask("POST", "/authentication", renewal)).json
    assert (await target.ask("POST", "/authentication", renewal)).status == 401
    statuses = [(await target.sign_in(password=PASSWORD)).status for _ in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    logged = everything_logged.text
    assert "used twice" in logged
    for answer in (first, second):
        for name in ("accessToken", "refreshToken"):
            assert answer[name] not in logged
    assert "ada@example.com" not in logged
    assert PASSWORD not in logged


async def test_a_server_that_fails_tells_no_password(everything_logged):
    target = await Target().start()

    def fail(context):
        raise RuntimeError(f"can not look for {sorted(context.params.query)}")

    target.app.service("users").hooks(before={"find": [fail]})
    answer = await target.sign_in(password=PASSWORD)
    assert answer.status == 500
    assert PASSWORD not in answer.text
    assert PASSWORD not in everything_logged.text


async def test_what_params_and_contexts_show_of_themselves_has_no_token():
    target = await Target().start()
    token, shown = await target.token(), []

    def note(context):
        shown.append(f"{context!r} {context.params!r} {context.app!r} {context.service!r}")

    target.app.service("secrets").hooks(before=[note])
    assert (await target.opens(f"Bearer {token}")).status == 200
    assert len(shown) == 1
    assert token not in shown[0]
    assert "$argon2" not in shown[0]


async def test_the_user_in_params_has_no_password():
    target, users = await Target().start(), []
    target.app.service("secrets").hooks(before=[lambda context: users.append(context.params.user)])
    for email in ("ada@example.com", "bob@example.com"):
        await target.opens(f"Bearer {await target.token(email)}")
    assert [sorted(user) for user in users] == [["email", "id", "role"], ["email", "id"]]
