"""Related records in every result."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Integer, MetaData, Table
from tests.common_hooks.conftest import ADA

from alula import App, Page, Params
from alula.adapters import _related
from alula.adapters.memory import MemoryService
from alula.adapters.relations import belongs_to, has_many
from alula.adapters.sql import Database, SQLService
from alula.authentication import protect
from alula.common_hooks import only_own, populate
from alula.errors import BadRequest, Forbidden, GeneralError
from alula.outgoing import public_part
from alula.schema import with_schema

USERS = [{"id": 7, "name": "Ada", "hash": "x"}, {"id": 8, "name": "Bob", "hash": "y"}]
POSTS = [
    {"id": 1, "userId": 7},
    {"id": 2, "userId": 8},
    {"id": 3, "userId": 7},
    {"id": 4, "userId": 99},
    {"id": 5},
    {"id": 6, "userId": [7]},
]
COMMENTS = [{"id": n, "postId": 1, "userId": 7 + n % 2} for n in range(4)]
AUTHOR = {"author": belongs_to("users", "userId")}


class Counting(MemoryService):
    """Counts the calls of `find`."""

    calls = 0

    async def find(self, params=None):
        type(self).calls += 1
        return await super().find(params)


@pytest.fixture
def app():
    Counting.calls = 0
    app = App().use("users", Counting(USERS)).use("comments", MemoryService(COMMENTS))
    return app.use("posts", MemoryService(POSTS, paginate={"default": 10}, multi=True))


async def test_one_call_finds_those_of_a_page(app):
    posts = app.service("posts").hooks(after=[populate(AUTHOR)])
    page = await posts.find()
    assert type(page) is Page
    names = [post["author"] and post["author"]["name"] for post in page["data"]]
    assert names == ["Ada", "Bob", "Ada", None, None, None]
    assert Counting.calls == 1
    assert (await posts.get(2))["author"]["name"] == "Bob"
    assert "author" not in (await posts.service.get(2))
    assert len(await posts.find(paginate=False)) == 6


async def test_a_key_that_equals_an_id_only_in_python_takes_no_record_away(app):
    users, posts = app.service("users"), app.service("posts").hooks(after=[populate(AUTHOR)])
    await users.create(
        [{"id": 1, "name": "Cleo"}, {"id": "True", "name": "Dan"}], adapter={"multi": True}
    )
    await posts.service.create(
        [{"id": n, "userId": key} for n, key in enumerate([True, 1, "True"], 20)]
    )
    found = await posts.find(query={"id": {"$gte": 20}}, paginate=False)
    assert [post["author"] and post["author"]["name"] for post in found] == [None, "Cleo", "Dan"]


USER_SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
USER_TABLE = Table("users", MetaData(), Column("id", Integer, primary_key=True))


@pytest.mark.parametrize("refuses", ["a schema", "a table"])
async def test_a_key_that_can_be_no_id_keeps_no_others_away(app, refuses):
    if refuses == "a schema":
        people: object = with_schema(MemoryService(multi=True), USER_SCHEMA)
    else:
        database = Database("sqlite://")
        people = SQLService(USER_TABLE, database, multi=True)
        await database.create(people)
    app.use("people", people)
    await app.setup()
    await app.service("people").create([{"id": 7}, {"id": 8}])
    posts = app.service("posts").hooks(after=[populate({"who": belongs_to("people", "userId")})])
    keys = [7, "nobody", 8, {"id": 7}, "7x"]
    await posts.service.create([{"id": n, "userId": key} for n, key in enumerate(keys, 20)])
    for provider in ({}, {"provider": "rest"}):
        found = await posts.find(query={"id": {"$gte": 20}}, paginate=False, **provider)
        ids = [post["who"] and post["who"]["id"] for post in found]
        assert ids == [7, None, 8, None, None]
        assert (await posts.get(21, **provider))["who"] is None
    await app.teardown()


@pytest.mark.parametrize(
    "error",
    [
        BadRequest("no"),
        BadRequest("no", errors={"name": "is missing"}),
        BadRequest("no", data=["id", {"instancePath": "/name"}]),
    ],
)
async def test_what_else_is_not_valid_is_a_fault_of_the_server(app, error):
    def refuse(_):
        raise error

    app.service("users").hooks(before=[refuse])
    with pytest.raises(
        GeneralError, match="'author' could not be read from service 'users'"
    ) as caught:
        await app.service("posts").hooks(after=[populate(AUTHOR)]).find(provider="rest")
    assert (caught.value.data, caught.value.errors, caught.value.__cause__) == (None, None, error)


async def test_a_service_that_hides_its_id_is_a_fault_of_the_server(app):
    schema = {"properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    app.use("hidden", with_schema(MemoryService(USERS), schema, hidden=["id"]))
    author = {"author": belongs_to("hidden", "userId")}
    posts = app.service("posts").hooks(after=[populate(author)])
    with pytest.raises(GeneralError, match=r"'author' could not be read from .*hidden"):
        await posts.find(provider="rest")
    assert (await posts.get(2))["author"]["name"] == "Bob"


async def test_other_methods_add_nothing(app):
    posts = app.service("posts").hooks(after=[populate(AUTHOR)])
    assert "author" not in await posts.create({"userId": 7})
    assert "author" not in await posts.patch(1, {"text": "x"})
    assert Counting.calls == 0


async def test_the_hooks_of_the_other_service_decide(app):
    app.service("users").hooks(around=[protect("hash")], before=[only_own("id")])
    posts = app.service("posts").hooks(after=[populate(AUTHOR)])
    page = await posts.find(ADA)
    authors = [post["author"] for post in page["data"]]
    seen = {"id": 7, "name": "Ada"}
    assert public_part(authors) == [seen, None, seen, None, None, None]
    page = await posts.find(provider="rest")
    assert [post["author"] for post in page["data"]] == [None] * 6
    inside = await posts.get(2)
    assert inside["author"]["hash"] == "y"
    assert public_part(inside) == {"id": 2, "userId": 8, "author": {"id": 8, "name": "Bob"}}


async def test_who_may_find_none_gets_none(app):
    def refuse(context):
        raise Forbidden("no")

    app.service("users").hooks(before={"find": [refuse]})
    posts = app.service("posts").hooks(after=[populate(AUTHOR)])
    assert [post["author"] for post in (await posts.find())["data"]] == [None] * 6


async def test_several_relations(app):
    relations = {**AUTHOR, "comments": has_many("comments", "postId", limit=3, sort={"id": -1})}
    posts = app.service("posts").hooks(after={"all": [populate(relations)]})
    first, second = (await posts.find(query={"id": {"$lt": 3}}))["data"]
    assert [comment["id"] for comment in first["comments"]] == [3, 2, 1]
    assert (second["comments"], second["author"]["name"]) == ([], "Bob")


async def test_redacted_records_stay_redacted(app):
    posts = app.service("posts").hooks(after=[protect("userId"), populate(AUTHOR)])
    inside = await posts.get(1)
    assert (inside["userId"], inside["author"]["name"]) == (7, "Ada")
    assert "userId" not in public_part(inside)
    assert public_part(inside)["author"]["name"] == "Ada"
    outside = await posts.find(provider="rest")
    assert public_part(outside["data"][1]) == {"id": 2, "author": USERS[1]}


async def test_records_are_never_those_of_others(app):
    def hide_first(context):
        context.dispatch = context.result["data"][1:]

    posts = app.service("posts").hooks(after=[hide_first, populate(AUTHOR)])
    with pytest.raises(RuntimeError, match="register it before that hook"):
        await posts.find(provider="rest")


async def test_before_protect_clients_get_them(app):
    posts = app.service("posts").hooks(after=[populate(AUTHOR), protect("userId")])
    page = await posts.find(provider="rest")
    assert public_part(page["data"][1]) == {"id": 2, "author": USERS[1]}


async def test_clients_cannot_cause_any_number_of_calls(app, monkeypatch):
    monkeypatch.setattr(_related, "_MAX_CALLS", 2)
    posts = app.service("posts").hooks(after=[populate(AUTHOR)])
    with pytest.raises(BadRequest, match="too many records"):
        await posts.find(provider="rest")
    assert len((await posts.find())["data"]) == 6


async def test_many_are_found_in_several_calls(app, monkeypatch):
    monkeypatch.setattr(_related, "MAX_BATCH", 1)
    posts = app.service("posts").hooks(after=[populate(AUTHOR)])
    page = await posts.find()
    assert page["data"][1]["author"]["name"] == "Bob"
    assert Counting.calls == 3


async def test_for_services_of_ones_own():
    class Own:
        def id(self):
            """Is not the name of a property."""

        async def get(self, id, params):
            return [{"userId": "7"}, None, "text"][id]

        async def find(self, params):
            return params.get("found")

    Params.declare("found")

    class Users:
        async def find(self, params):
            assert params.query["$limit"] == len(params.query["id"]["$in"])
            return [{"id": 7, "name": "Ada"}]

    app = App().use("users", Users()).use("own", Own())
    own = app.service("own").hooks(after=[populate(AUTHOR)])
    assert (await own.get(0))["author"]["name"] == "Ada"  # by its text
    assert [await own.get(1), await own.get(2)] == [None, "text"]
    added = {"userId": 7, "author": {"id": 7, "name": "Ada"}}
    page = {"total": 1, "limit": 5, "skip": 0}
    for found, expected in (
        (({"userId": 7}, 5), [added, 5]),
        (Page(total=1, limit=5, skip=0, data=[{"userId": 7}]), {**page, "data": [added]}),
        # A record that looks like a page is none.
        ({**page, "data": [{"userId": 7}]}, {**page, "data": [{"userId": 7}]}),
        ("text", "text"),
        ({"more": 1}, {"more": 1}),
    ):
        assert await own.find(Params({"found": found}, query={})) == expected


@pytest.mark.parametrize("relations", [None, ["author"], {"author": "users"}])
def test_it_takes_relations(relations):
    with pytest.raises(TypeError, match="populate takes relations by name"):
        populate(relations)


def test_names_and_keys_are_checked():
    with pytest.raises(ValueError, match="cannot be the name of a property"):
        populate({"a.b": belongs_to("users", "userId")})
    with pytest.raises(ValueError, match=r"'author' has no key; name the property: belongs_to\("):
        populate({"author": belongs_to("users")})
