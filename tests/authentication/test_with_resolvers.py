"""Users whose passwords are hashed and hidden by resolvers instead of hooks."""

from __future__ import annotations

import pytest
from tests.authentication.building import login, make_app

from alula import UNSET
from alula.authentication import authenticate, password_hash
from alula.errors import BadRequest
from alula.schema import resolve, resolve_data, resolve_external


@pytest.fixture
async def app():
    app = make_app()
    hashing = [resolve_data(resolve({"password": password_hash("local")}))]
    app.service("users").hooks(
        around=[resolve_external(resolve({"password": lambda: UNSET, "salt": lambda: UNSET}))],
        before={"create": hashing, "patch": hashing},
    )
    await app.service("users").create(
        {"email": "ada@example.com", "password": "right", "salt": "s"}, provider="rest"
    )
    await app.setup()
    return app


def stored(app):
    return app.service("users").service._store["1"]


SHOWN = {"id": 1, "email": "ada@example.com"}


async def test_passwords_are_hashed(app):
    assert stored(app)["password"].startswith("$argon2id$")
    await app.service("users").patch(1, {"email": "ada@example.com"})
    assert stored(app)["password"].startswith("$argon2id$")


@pytest.mark.parametrize("password", ["", None, 5, ["x"]])
async def test_what_can_be_no_password_is_refused(app, password):
    with pytest.raises(BadRequest) as caught:
        await app.service("users").patch(1, {"password": password})
    assert "A password has to be a text" in str(caught.value.to_dict())


@pytest.mark.parametrize("provider", [None, "rest"])
async def test_a_sign_in_answers_what_may_leave(app, provider):
    result = await app.service("authentication").create(login(), provider=provider)
    assert result["user"] == SHOWN


async def test_what_is_hidden_does_not_leave_with_the_user_of_a_call(app):
    class Me:
        async def find(self, params):
            return {"me": params.user}

    app.use("me", Me())
    app.service("me").hooks(before=[authenticate("jwt")])
    token = (await app.service("authentication").create(login()))["accessToken"]
    proof = {"strategy": "jwt", "accessToken": token}
    found = await app.service("me").find(provider="rest", authentication=proof)
    assert found["me"] == {**SHOWN, "salt": "s"}
    assert found["me"].public == SHOWN


async def test_hashes_are_renewed_without_being_hashed_again(app):
    from tests.authentication.building import BCRYPT

    app.service("users").service._store["1"] = {**stored(app), "password": BCRYPT}
    for _ in range(2):
        assert await app.service("authentication").create(login())
    assert stored(app)["password"].startswith("$argon2id$")
    assert type(stored(app)["password"]) is str
