"""Related documents: one query for those of a page, with every kind of id and key."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient, monitoring

from alula import App
from alula.adapters import _related
from alula.adapters.mongodb import MongoDBService, transaction
from alula.adapters.relations import belongs_to, has_many

PAGE = 50


class Queries(monitoring.CommandListener):
    """Keeps which collections a client queries."""

    def __init__(self):
        self.of: list[str] = []

    def started(self, event):
        if event.command_name in ("find", "aggregate", "count"):
            self.of.append(event.command[event.command_name])

    def succeeded(self, event): ...

    def failed(self, event): ...


@pytest.fixture
async def queries():
    return Queries()


@pytest.fixture
async def app(mongodb_url, queries):
    async with AsyncMongoClient(mongodb_url, event_listeners=[queries]) as client:
        database = client[f"alula_relations_{ObjectId()}"]
        users = [{"_id": ObjectId(), "name": f"user {n}"} for n in range(10)]
        posts = [{"_id": ObjectId(), "n": n, "author": users[n % 10]["_id"]} for n in range(PAGE)]
        comments = [
            {"n": n, "post": posts[n * n % PAGE]["_id"], "rank": n % 3} for n in range(3 * PAGE)
        ]
        await database["users"].insert_many(users)
        await database["posts"].insert_many(posts)
        await database["comments"].insert_many(comments)
        app = App()
        relations = {
            "user": belongs_to("users", "author", filter=["name"]),
            "comments": has_many("comments", "post", limit=12, sort={"rank": -1, "n": 1}),
        }
        app.use("users", MongoDBService(database["users"]))
        app.use("posts", MongoDBService(database["posts"], multi=True, relations=relations))
        app.use("comments", MongoDBService(database["comments"], multi=True))
        await app.setup()
        yield app
        await client.drop_database(database)


async def comments_of(app, **query):
    posts = await app.service("posts").find(query={"$include": ["comments"], **query})
    return [[comment["n"] for comment in post["comments"]] for post in posts]


async def test_a_page_takes_two_queries(app, queries):
    found = await comments_of(app)
    assert queries.of == ["posts", "comments"]
    with patch.object(_related, "_MAX_PARENTS", 1):
        assert await comments_of(app) == found
    assert len(queries.of) == 2 + 1 + PAGE
    queries.of.clear()
    posts = await app.service("posts").find(query={"$include": ["user"]})
    assert [post["user"]["name"] for post in posts] == [f"user {n % 10}" for n in range(PAGE)]
    assert queries.of == ["posts", "users"]


async def test_a_page_in_the_order_of_other_records_takes_three_queries(app, queries):
    query = {"$sort": {"user.name": -1, "n": 1}, "$limit": 7, "$skip": 2, "n": {"$gt": 9}}
    posts = await app.service("posts").find(query=query)
    assert [post["n"] for post in posts] == [39, 49, 18, 28, 38, 48, 17]
    assert queries.of == ["posts", "users", "posts"]
    page = await app.service("posts").find(query=query, paginate={"default": 3})
    assert (page["total"], page["limit"], len(page["data"])) == (40, 7, 7)


async def test_posts_with_more_comments_than_are_added(app, queries):
    popular = (await app.service("posts").find(query={"n": 7}))[0]["_id"]
    await app.service("comments").create(
        [{"n": n, "post": popular, "rank": 9} for n in range(1000)]
    )
    queries.of.clear()
    found = await comments_of(app)
    assert found[7] == [*range(12)]
    assert queries.of == ["posts", "comments", "comments"]
    with patch.object(_related, "_MAX_PARENTS", 1):
        assert await comments_of(app) == found


async def test_keys_that_are_lists(app, queries):
    posts = await app.service("posts").find()
    tagged = [{"n": n, "post": [posts[0]["_id"], posts[n]["_id"]]} for n in (1, 49)]
    await app.service("comments").remove(None)
    await app.service("comments").create(tagged)
    queries.of.clear()
    found = await comments_of(app, **{"$limit": 40})
    assert found[:3] == [[1, 49], [1], []]
    assert queries.of == ["posts", "comments"]


@pytest.mark.parametrize("key", ["1", 1.0, True, None])
async def test_values_that_python_compares_in_another_way(app, key, queries):
    for name in ("posts", "comments"):
        await app.service(name).remove(None)
    await app.service("posts").create([{"_id": n} for n in range(3)])
    await app.service("comments").create([{"n": 7, "post": key}, {"n": 8, "post": [2, key]}])
    found = await comments_of(app)
    with patch.object(_related, "_MAX_PARENTS", 1):
        assert await comments_of(app) == found
    assert found == [[], [7, 8] if key == 1.0 and key is not True else [], [8]]


async def test_a_hook_that_limits_by_the_driver(app):
    async def limit(context):
        context.params.docdb = {"limit": 1}

    app.service("comments").hooks(before=[limit])
    assert {len(comments) for comments in await comments_of(app)} == {0, 1}


async def test_a_batch_is_part_of_a_transaction(app, queries):
    async def write(context, next):
        post = await app.service("posts").create({"n": 99}, docdb=context.params.docdb)
        data = {"post": post["_id"], "n": 999}
        await app.service("comments").create(data, docdb=context.params.docdb)
        await next()

    app.service("posts").hooks(around={"find": [transaction(), write]})
    found = await comments_of(app, n={"$gt": 47})
    assert found[-1] == [999]
    assert queries.of[-2:] == ["posts", "comments"]
