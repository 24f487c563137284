"""Sessions end with a change of password, whatever fails around it."""

from __future__ import annotations

import asyncio

import pytest
from tests.authentication.building import add_user, login, make_app

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import hash_password
from alula.errors import Conflict, NotAuthenticated, NotFound

NEW = {"password": "another one"}


class Users(MemoryService):
    """Users, around whose changes something may happen."""

    async def patch(self, id, data, params):
        await self.before(id)
        result = await super().patch(id, data, params)
        await self.after(id)
        return result

    async def before(self, id):
        pass

    async def after(self, id):
        pass


async def started(users=None, hooks=None, **options):
    app = make_app(Users(start_id=1, **options) if users is None else users, sessions="sessions")
    app.use("sessions", MemoryService(), methods=[])
    if hooks is not None:
        app.service("users").hooks(hooks)
    await app.setup()
    await add_user(app)
    return app


async def sign_in(app, **changes):
    return await app.service("authentication").create({**login(), **changes})


async def is_good(app, answer):
    proof = {"strategy": "jwt", "accessToken": answer["accessToken"]}
    try:
        await app.service("authentication").create(proof)
    except NotAuthenticated:
        return False
    return True


async def stored_password(app):
    return app.service("users").service._store["1"]["password"]


def fail(context):
    raise OSError("the mail server is away")


@pytest.mark.parametrize("when", ["before the start", "after the start", "on the application"])
async def test_an_after_hook_that_fails(when):
    hooks = {"after": {"patch": [fail]}}
    app = await started(hooks=hooks if when == "before the start" else None)
    if when == "after the start":
        app.service("users").hooks(hooks)
    elif when == "on the application":
        app.hooks(hooks)
    answer = await sign_in(app)
    with pytest.raises(OSError, match="mail"):
        await app.service("users").patch(1, NEW)
    assert await stored_password(app) == NEW["password"]
    assert not await is_good(app, answer)


@pytest.mark.parametrize("kind", ["around", "error"])
async def test_an_around_hook_that_hides_what_happened(kind):
    async def around(context, next):
        await next()
        context.result = {}

    def error(context):
        pass

    app = await started(hooks={kind: {"patch": [around if kind == "around" else error]}})
    answer = await sign_in(app)
    await app.service("users").patch(1, NEW)
    assert not await is_good(app, answer)


@pytest.mark.parametrize("method", ["patch", "update", "remove"])
async def test_a_store_of_sessions_that_is_away_lets_no_password_change(method):
    app = await started()
    answer = await sign_in(app)
    before = await stored_password(app)
    app.service("sessions").hooks(before={"remove": [fail]})
    arguments = [1] if method == "remove" else [1, {"email": "ada@example.com", **NEW}]
    with pytest.raises(OSError, match="away"):
        await app.service("users").call(method, *arguments)
    assert await stored_password(app) == before
    assert await is_good(app, answer)


async def test_a_store_of_sessions_that_goes_away_meanwhile_has_none_of_the_old_ones():
    app = await started()
    answer = await sign_in(app)

    async def after(id):
        app.service("sessions").hooks(before={"remove": [fail]})

    app.service("users").service.after = after
    with pytest.raises(OSError, match="away"):
        await app.service("users").patch(1, NEW)
    assert await stored_password(app) == NEW["password"]
    assert not await is_good(app, answer)


async def test_a_process_that_ends_behind_the_change():
    app = await started()
    answer = await sign_in(app)

    async def after(id):
        raise asyncio.CancelledError

    app.service("users").service.after = after
    with pytest.raises(asyncio.CancelledError):
        await app.service("users").patch(1, NEW)
    assert not await is_good(app, answer)


async def test_a_session_that_begins_meanwhile():
    app = await started()
    begun = []

    async def before(id):
        begun.append(await sign_in(app))

    app.service("users").service.before = before
    await app.service("users").patch(1, NEW)
    assert not await is_good(app, begun[0])


@pytest.mark.parametrize("method", ["patch", "update", "remove"])
async def test_a_caller_who_may_not_change_a_user_cannot_sign_them_out(method):
    app = await started()
    answer = await sign_in(app)
    arguments = [1] if method == "remove" else [1, {"email": "x", **NEW}]
    with pytest.raises(NotFound):
        await getattr(app.service("users"), method)(*arguments, query={"email": "eve@example.com"})
    with pytest.raises(NotFound):
        await getattr(app.service("users"), method)(99, *arguments[1:])
    assert await is_good(app, answer)


async def test_another_change_ends_nothing():
    app = await started()
    answer = await sign_in(app)
    await app.service("users").patch(1, {"role": "admin"})
    assert await is_good(app, answer)


async def test_a_change_that_the_store_refuses_ends_them_nevertheless():
    app = await started(unique=["email"])
    await add_user(app, "bob@example.com")
    answer = await sign_in(app)
    with pytest.raises(Conflict):
        await app.service("users").patch(1, {**NEW, "email": "bob@example.com"})
    assert not await is_good(app, answer)


@pytest.mark.parametrize("paginate", [None, {"default": 1, "max": 1}])
@pytest.mark.parametrize("method", ["patch", "remove"])
async def test_many_users_at_a_time(method, paginate):
    app = await started(multi=True, paginate=paginate)
    names = ["bob@example.com", "eve@example.com"]
    for name in names:
        await add_user(app, name, group="a")
    ada, *others = [await sign_in(app, email=email) for email in ("ada@example.com", *names)]
    app.service("users").hooks(after={method: [fail]})
    with pytest.raises(OSError, match="away"):
        query = {"group": "a", "$limit": 1, "$select": ["email"]}
        await app.service("users").call(method, None, NEW, query=query)
    assert await is_good(app, ada)
    assert not any([await is_good(app, answer) for answer in others])


async def test_users_of_another_application():
    accounts = App()
    accounts.use("users", Users(start_id=1))
    app = await started(accounts.service("users"))
    for users in (app.service("users"), accounts.service("users")):
        answer = await sign_in(app)
        hashed = app.service("users").service.service._store["1"]["password"]
        await users.patch(1, {"password": hashed})
        assert not await is_good(app, answer)


class PlainUsers:
    """Users in a service of one's own, without coroutines and with pages."""

    id = "id"

    def __init__(self):
        self.records = {}

    def find(self, params):
        return {"total": 1, "limit": 1, "skip": 0, "data": list(self.records.values())}

    def get(self, id, params):
        return self.records[int(id)]

    def create(self, data, params):
        self.records[1] = {"id": 1, **data}
        return self.records[1]

    def patch(self, id, data, params):
        for record in self.records.values():
            record.update(data)
        return self.records[1]


@pytest.mark.parametrize("id", [1, None])
async def test_a_service_of_ones_own(id):
    app = await started(PlainUsers())
    answer = await sign_in(app)
    await app.service("users").patch(id, NEW)
    assert not await is_good(app, answer)


async def test_the_hash_is_made_before_anything_ends():
    app = await started(hooks={"before": {"patch": [hash_password("password")]}})
    answer = await sign_in(app)
    with pytest.raises(Exception, match="password"):
        await app.service("users").patch(1, {"password": ""})
    assert await is_good(app, answer)
