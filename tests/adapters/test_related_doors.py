"""Related records are what `find` of the other service gives the caller, through every door."""

from __future__ import annotations

import httpx2
import pytest

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.relations import belongs_to, has_many
from alula.common_hooks import populate
from alula.errors import Forbidden
from alula.express import express, rest
from alula.realtime import socketio
from alula.testing import RealtimeClient

USERS = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob", "isPrivate": True}]
POSTS = [{"id": 1, "userId": 1}, {"id": 2, "userId": 2}]
COMMENTS = [
    {"id": 1, "postId": 1, "isPrivate": True},
    {"id": 2, "postId": 1},
    {"id": 3, "postId": 2, "isPrivate": True},
]
RELATIONS = {
    "user": belongs_to("users", "userId"),
    "comments": has_many("comments", "postId", sort={"id": 1}),
}


async def without_private(context):
    """Keep private records from clients."""
    if context.params.provider is not None:
        context.params.query["isPrivate"] = {"$ne": True}


async def refuse(context):
    raise Forbidden("get decides nothing about related records")


@pytest.fixture(params=["$include", "populate"])
async def web(request):
    """Runs an application whose posts have related records by both ways."""
    app = express(App())
    app.configure(rest())
    app.configure(socketio())
    for path, records in (("users", USERS), ("comments", COMMENTS)):
        app.use(path, MemoryService(records))
        app.service(path).hooks(before={"find": [without_private], "get": [refuse]})
    app.use("posts", MemoryService(POSTS, relations=RELATIONS))
    app.query = {"$include": [*RELATIONS]} if request.param == "$include" else {}
    if request.param == "populate":
        app.service("posts").hooks(after=[populate(RELATIONS)])
    await app.setup()
    return app


def related(posts):
    return [
        (post["user"] and post["user"]["name"], [comment["id"] for comment in post["comments"]])
        for post in posts
    ]


SEEN = [("Ada", [2]), (None, [])]
EVERYTHING = [("Ada", [1, 2]), ("Bob", [3])]


async def test_over_rest(web):
    transport = httpx2.ASGITransport(web)
    query = {"$include[]": [*RELATIONS]} if web.query else {}
    async with httpx2.AsyncClient(transport=transport, base_url="http://a") as client:
        assert related((await client.get("/posts", params=query)).json()) == SEEN
        assert related([(await client.get("/posts/2", params=query)).json()]) == SEEN[1:]


async def test_over_sockets(web):
    async with RealtimeClient(web) as client:
        assert related(await client.call("find", "posts", web.query)) == SEEN
        assert related([await client.call("get", "posts", 2, web.query)]) == SEEN[1:]


async def test_in_calls_of_the_application(web):
    posts = web.service("posts")
    assert related(await posts.find(query=web.query)) == EVERYTHING
    assert related([await posts.get(2, query=web.query)]) == EVERYTHING[1:]
    assert related(await posts.find(query=web.query, provider="rest")) == SEEN


async def test_events_have_no_related_records(web):
    web.service("posts").publish(lambda *_: web.channel("all"))
    web.on("connection", lambda connection: web.channel("all").join(connection))
    async with RealtimeClient(web) as client:
        await client.call("create", "posts", {"userId": 2})
        event = await client.next_event("posts created")
        assert event.data == {"id": 0, "userId": 2}
