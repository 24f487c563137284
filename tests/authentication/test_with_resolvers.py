"""Users whose passwords are hashed and hidden by resolvers instead of hooks."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field, SecretStr
from tests.authentication.building import BCRYPT, login, make_app

from alula import UNSET
from alula.adapters.memory import MemoryService
from alula.authentication import HashedPassword, authenticate, password_hash
from alula.errors import BadRequest
from alula.schema import resolve, resolve_data, resolve_external, with_schema


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


class Person(BaseModel):
    email: str
    password: SecretStr = Field(min_length=3, max_length=20)


class Plain(BaseModel):
    email: str
    password: str = Field(max_length=20)


TEXTS = {"email": {"type": "string"}, "password": {"type": "string", "maxLength": 20}}


@pytest.mark.parametrize(
    "model", [Person, Plain, {"properties": TEXTS}], ids=["secret", "text", "schema"]
)
class TestBehindASchema:
    """A schema says which passwords clients may choose. A hash is none of them."""

    @pytest.fixture
    async def app(self, model):
        ada = {"id": 1, "email": "ada@example.com", "password": BCRYPT}
        users = MemoryService([ada], multi=True)
        hashing = resolve({"password": password_hash("local")})
        app = make_app(with_schema(users, model, data=hashing))
        await app.setup()
        return app

    async def test_hashes_of_other_applications_are_renewed_once(self, app):
        for _ in range(3):
            await app.service("authentication").create(login(), provider="rest")
        assert stored(app)["password"].startswith("$argon2id$")

    async def test_own_code_stores_a_hash(self, app):
        await app.service("users").patch(1, {"password": HashedPassword(BCRYPT), "email": "b"})
        assert stored(app) == {"id": 1, "email": "b", "password": BCRYPT}

    async def test_the_rest_of_such_a_change_is_checked(self, app):
        with pytest.raises(BadRequest, match="/email"):
            await app.service("users").patch(1, {"password": HashedPassword(BCRYPT), "email": 5})

    @pytest.mark.parametrize("provider", [None, "rest"])
    async def test_passwords_of_clients_and_of_own_code_are_checked(self, app, provider):
        with pytest.raises(BadRequest, match="/password"):
            await app.service("users").patch(1, {"password": "x" * 21}, provider=provider)
        await app.service("users").patch(1, {"password": "right"}, provider=provider)
        await app.service("authentication").create(login(), provider="rest")

    async def test_a_whole_record_is_checked_with_its_hash(self, app):
        with pytest.raises(BadRequest, match="/password"):
            await app.service("users").create({"email": "c", "password": HashedPassword(BCRYPT)})
        short = HashedPassword("$2b$04$short")
        made = await app.service("users").create([{"email": "c", "password": short}])
        assert [str(user["password"]) for user in made] == ["$2b$04$short"]
