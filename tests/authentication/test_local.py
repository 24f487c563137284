"""Signing in with a user name and a password."""

from __future__ import annotations

import asyncio
import logging

import pytest
from pydantic import BaseModel
from tests.authentication.building import (
    BCRYPT,
    add_user,
    login,
    make_app,
    quick_passwords,
)

from alula import Params
from alula.adapters.memory import MemoryService
from alula.authentication import LocalStrategy, hash_password
from alula.errors import BadRequest, GeneralError, NotAuthenticated
from alula.schema import with_schema

Params.declare("tenant")


@pytest.fixture
async def app():
    app = make_app()
    await add_user(app)
    await app.setup()
    return app


async def sign_in(app, *args, **params):
    return await app.service("authentication").create(login(*args), params)


def stored(app, id=1):
    return app.service("users").service._store[str(id)]


async def test_the_right_password_signs_in(app):
    result = await sign_in(app)
    assert result["user"] == {"id": 1, "email": "ada@example.com"}
    assert result["authentication"]["strategy"] == "local"


REFUSED = {
    "wrong password": ("ada@example.com", "wrong"),
    "unknown user": ("nobody@example.com", "right"),
    "other case": ("ADA@example.com", "right"),
    "spaces": (" ada@example.com", "right"),
    "no email": (None, "right"),
    "no password": ("ada@example.com", None),
    "empty email": ("", "right"),
    "empty password": ("ada@example.com", ""),
    "number": ("ada@example.com", 5),
    "true": ("ada@example.com", True),
    "list": (["ada@example.com"], "right"),
    "list of passwords": ("ada@example.com", ["right"]),
    "$ne": ({"$ne": "x"}, "right"),
    "$gt": ({"$gt": ""}, "right"),
    "$regex": ({"$regex": "."}, "right"),
    "operator as password": ("ada@example.com", {"$ne": ""}),
    "long password": ("ada@example.com", "x" * 1_000_000),
    "long email": ("x" * 1_000_000, "right"),
    "surrogate": ("ada@example.com", "\ud800"),
}


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
async def test_all_that_fails_gets_the_same_answer(app, given):
    with pytest.raises(NotAuthenticated) as caught:
        await sign_in(app, *given)
    error = caught.value
    assert (error.message, error.data, error.__cause__) == ("Invalid login", None, None)


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
async def test_all_that_fails_waits_for_the_floor(app, given):
    strategy = app.service("authentication").service.strategy("local")
    waited = []

    async def until_floor(started):
        waited.append(started)

    strategy.passwords.until_floor = until_floor
    with pytest.raises(NotAuthenticated):
        await sign_in(app, *given)
    assert len(waited) == 1


async def test_an_unknown_user_costs_a_check_as_well(app):
    passwords = app.service("authentication").service.strategy("local").passwords
    checked = []
    check = passwords._matches
    passwords._matches = lambda *args: checked.append(args[0]) or check(*args)
    with pytest.raises(NotAuthenticated):
        await sign_in(app, "nobody@example.com", "a")
    app.service("users").service._store["1"] = {"id": 1, "email": "ada@example.com"}
    with pytest.raises(NotAuthenticated):
        await sign_in(app, "ada@example.com", "b")
    assert checked == ["a", "b"]


@pytest.mark.parametrize("hashed", [None, 5, "", "right", {"a": 1}])
async def test_a_user_without_a_hash_cannot_sign_in(app, hashed):
    app.service("users").service._store["1"] = {
        **stored(app), "password": hashed
    }  # fmt: skip
    for password in ("right", "", "None"):
        with pytest.raises(NotAuthenticated, match="Invalid login"):
            await sign_in(app, "ada@example.com", password)


class Listed:
    """A service of users that answers a list of objects, as one's own may."""

    id = "id"

    def __init__(self, found):
        self.found = found
        self.params = None

    async def find(self, params):
        self.params = params
        return self.found

    async def get(self, id, params):
        return {"id": id}


@pytest.mark.parametrize("found", [[], {"data": [], "total": 0}, [object()], [None]])
async def test_users_of_a_service_of_ones_own(found):
    app = make_app(Listed(found))
    await app.setup()
    with pytest.raises(NotAuthenticated, match="Invalid login"):
        await sign_in(app)


async def test_the_look_for_a_user_is_an_internal_call():
    users = Listed([])
    app = make_app(users)
    with pytest.raises(NotAuthenticated):
        await sign_in(
            app, provider="rest", query={"$select": ["email"], "role": "x"}, tenant="acme",
            authentication={"strategy": "jwt"}, adapter={"multi": True}, pipeline=[1],
            docdb={"a": 1}, collation={"locale": "en"}, headers={"a": "b"},
        )  # fmt: skip
    assert users.params.query == {"$limit": 1, "email": "ada@example.com"}
    assert users.params.provider is None
    assert users.params.authentication is None
    assert (users.params.tenant, users.params.headers) == ("acme", {"a": "b"})
    assert users.params.paginate is False
    for name in ("adapter", "pipeline", "docdb", "collation"):
        assert name not in users.params


async def test_pages_are_read_too():
    page = {
        "total": 1,
        "limit": 1,
        "skip": 0,
        "data": [{"id": 3, "email": "a", "password": BCRYPT}],
    }
    app = make_app(Listed(page))
    assert (await sign_in(app))["authentication"]["payload"]["sub"] == "3"


async def test_names_and_fields_are_settings():
    app = make_app()
    strategy = LocalStrategy(
        username_field="login", password_field="secret", entity_username_field="name",
        entity_password_field="hash", error_message="No", passwords=quick_passwords(),
    )  # fmt: skip
    app.service("authentication").service.register("local", strategy)
    hashed = str(await quick_passwords().hash("right"))
    await app.service("users").create({"name": "ada", "hash": hashed})
    data = {"strategy": "local", "login": "ada", "secret": "right"}
    result = await app.service("authentication").create(data)
    assert result["user"] == {"id": 1, "name": "ada"}
    with pytest.raises(NotAuthenticated, match=r"^No$"):
        await app.service("authentication").create({**data, "secret": "wrong"})
    assert strategy.account_of(data) == "ada"


@pytest.mark.parametrize("data", [{}, {"email": ""}, {"email": 5}, {"email": {"$ne": 1}}])
def test_an_account_that_is_none(data):
    assert LocalStrategy(passwords=quick_passwords()).account_of(data) is None


async def test_needs_users():
    app = make_app(entity=None)
    with pytest.raises(ValueError, match="'local' needs a service of users"):
        await app.setup()


async def test_measures_at_the_start():
    app = make_app()
    await app.setup()
    assert app.service("authentication").service.strategy("local").passwords._costs


class TestHashes:
    async def test_new_passwords(self):
        strategy = LocalStrategy(passwords=quick_passwords())
        assert await strategy.passwords.check("x", await strategy.hash_password("x"))

    @pytest.mark.parametrize("password", ["", None, 5, ["x"], {"a": 1}, "x" * 4097, "\ud800", True])
    async def test_what_can_be_no_password(self, password):
        with pytest.raises(BadRequest, match="password has to be a text") as caught:
            await LocalStrategy(passwords=quick_passwords()).hash_password(password)
        assert caught.value.data is None


class TestRenewal:
    @pytest.fixture
    async def users(self, app):
        app.service("users").service._store["1"] = {**stored(app), "password": BCRYPT}
        return app.service("users")

    async def test_bcrypt_becomes_argon2id_at_a_sign_in(self, app, users):
        await sign_in(app)
        renewed = stored(app)["password"]
        assert renewed.startswith("$argon2id$")
        await sign_in(app)
        assert stored(app)["password"] == renewed

    async def test_other_parameters_are_renewed_too(self, app):
        old = str(await quick_passwords(time_cost=2).hash("right"))
        app.service("users").service._store["1"] = {**stored(app), "password": old}
        await sign_in(app)
        assert "t=1" in stored(app)["password"]

    async def test_not_where_the_password_is_wrong(self, app, users):
        with pytest.raises(NotAuthenticated):
            await sign_in(app, "ada@example.com", "wrong")
        assert stored(app)["password"] == BCRYPT

    async def test_hooks_do_not_hash_the_hash(self, app, users):
        users.hooks(before={"patch": [hash_password("password")]})
        await sign_in(app)
        await sign_in(app)
        assert stored(app)["password"].startswith("$argon2id$")
        assert type(stored(app)["password"]) is str

    async def test_hooks_see_that_the_password_is_the_same(self, app, users):
        told = []
        users.hooks(before={"patch": [lambda context: told.append(context.params)]})
        await sign_in(app, provider="rest")
        assert [(params.renews_password, params.provider) for params in told] == [(True, None)]

    async def test_never_over_a_password_that_was_changed_meanwhile(self, app, users):
        other = str(await quick_passwords().hash("other"))

        def change(context):
            app.service("users").service._store["1"] = {**stored(app), "password": other}

        users.hooks(before={"patch": [change]})
        assert await sign_in(app)
        assert stored(app)["password"] == other

    async def test_where_queries_may_not_name_the_password(self, app, users):
        def refuse(context):
            if "password" in context.params.query:
                raise BadRequest("validation failed")

        users.hooks(before={"patch": [refuse]})
        await sign_in(app)
        assert stored(app)["password"].startswith("$argon2id$")

    async def test_where_queries_may_not_name_it_and_it_was_changed(self, app, users):
        other = str(await quick_passwords().hash("other"))

        def change(context):
            app.service("users").service._store["1"] = {**stored(app), "password": other}
            raise BadRequest("validation failed")

        users.hooks(before={"patch": [change]})
        await sign_in(app)
        assert stored(app)["password"] == other

    async def test_a_failure_is_logged_and_the_sign_in_succeeds(self, app, users, caplog):
        def fail(context):
            raise GeneralError("the disk is full")

        users.hooks(before={"patch": [fail]})
        with caplog.at_level(logging.ERROR, "alula.authentication"):
            assert await sign_in(app)
        assert "could not be renewed in 'users'" in caplog.text
        for secret in ("right", BCRYPT, "$argon2"):
            assert secret not in caplog.text

    async def test_a_user_who_goes_away_meanwhile_is_no_failure_of_it(self, app, users, caplog):
        def remove(context):
            app.service("users").service._store.pop("1", None)

        users.hooks(before={"patch": [remove]})
        with pytest.raises(NotAuthenticated):
            await sign_in(app)
        assert caplog.text == ""


async def test_the_loop_goes_on_while_passwords_are_checked():
    app = make_app()
    slow = LocalStrategy(passwords=quick_passwords(time_cost=3, memory_cost=32768))
    app.service("authentication").service.register("local", slow)
    await add_user(app)
    await slow.passwords.prepare()
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await slow.authenticate(login(), Params())
    ticking.cancel()
    assert ticks > 20


def test_is_seen_to_be_guessable():
    assert LocalStrategy(passwords=quick_passwords()).can_be_guessed


def test_a_password_lies_in_a_property_of_its_own():
    service = make_app().service("authentication").service
    with pytest.raises(ValueError, match=r"'local': 'account.password' is inside"):
        service.register("local", LocalStrategy(entity_password_field="account.password"))


class TestUsersWithASchema:
    """A schema that refuses a look-up says no more than a wrong password does."""

    @pytest.fixture
    def app(self, app):
        def refuse(context):
            if "@" not in context.params.query.get("email", "@"):
                raise BadRequest("validation failed", {"email": "must match ^.+@.+$\nforged line"})

        app.service("users").hooks(before={"find": [refuse]})
        return app

    async def test_refuses_like_everything(self, app):
        with pytest.raises(NotAuthenticated) as caught:
            await sign_in(app, "nobody")
        error = caught.value
        assert (error.message, error.data, error.__cause__) == ("Invalid login", None, None)
        assert error.__context__ is None
        assert (await sign_in(app))["user"]["id"] == 1

    async def test_takes_the_time_of_a_check(self, app, monkeypatch):
        passwords = app.service("authentication").service.strategy("local").passwords
        seen = []

        async def check_nothing(password, **options):
            seen.append(password)

        monkeypatch.setattr(passwords, "check_nothing", check_nothing)
        monkeypatch.setattr(passwords, "until_floor", check_nothing)
        with pytest.raises(NotAuthenticated):
            await sign_in(app, "nobody")
        assert seen[0] == "right"
        assert len(seen) == 2

    @pytest.mark.parametrize(
        ("data", "errors"),
        [
            ([{"instancePath": "/email", "message": "must match a pattern"}], None),
            ({"email": "must match a pattern"}, None),
            (None, {"email": "must be text without the character NUL"}),
        ],
    )
    async def test_whatever_the_refusal_of_a_name_looks_like(self, app, data, errors):
        def refuse(context):
            raise BadRequest("not valid", data, errors=errors)

        app.service("users").hooks(before={"find": [refuse]})
        with pytest.raises(NotAuthenticated, match="Invalid login"):
            await sign_in(app)

    async def test_tells_the_log_why(self, app, caplog):
        with caplog.at_level(logging.INFO, "alula.authentication"), pytest.raises(NotAuthenticated):
            await sign_in(app, "nobody")
        (text,) = caplog.messages
        assert text == "'users' refused a look-up: 'validation failed'"


class TestUsersThatCannotBeLookedUp:
    """That is a fault of the server, and must not look like a wrong password."""

    @pytest.mark.parametrize(
        ("data", "errors"),
        [
            ([{"instancePath": "", "message": "must NOT have additional properties"}], None),
            (["email"], None),
            ({"$limit": 1}, {"name": "is not known"}),
            (None, None),
        ],
    )
    async def test_names_the_service(self, app, data, errors):
        def refuse(context):
            raise BadRequest("no such query", data, errors=errors)

        app.service("users").hooks(before={"find": [refuse]})
        with pytest.raises(GeneralError, match="refuses to read a user") as caught:
            await sign_in(app)
        assert caught.value.__notes__ == ["'users' says: no such query"]

    async def test_without_a_field_of_that_name(self, app):
        class User(BaseModel):
            id: int | None = None
            password: str

        app = make_app(with_schema(MemoryService(), User))
        with pytest.raises(GeneralError) as caught:
            await sign_in(app)
        assert caught.value.__notes__ == ["'users' says: validation failed"]
