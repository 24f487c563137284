"""What the properties of a page load by `get` is loaded in one query."""

from __future__ import annotations

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient, monitoring

from alula import App
from alula.adapters.mongodb import MongoDBService, resolve_object_id
from alula.errors import BadRequest, NotFound
from alula.schema import (
    resolve,
    resolve_data,
    resolve_external,
    resolve_query,
    resolve_result,
    virtual,
)
from alula.types import UNSET

PAGE = 50


class Commands(monitoring.CommandListener):
    """Keeps what a client sends: the command and its collection."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def started(self, event):
        self.sent.append((event.command_name, str(event.command.get(event.command_name))))

    def succeeded(self, event): ...

    def failed(self, event): ...


@pytest.fixture
def commands():
    return Commands()


@pytest.fixture
async def database(mongodb_url, commands):
    async with AsyncMongoClient(mongodb_url, event_listeners=[commands]) as client:
        database = client[f"alula_loading_{ObjectId()}"]
        yield database
        await client.drop_database(database)


async def author(record, context):
    return await context.app.service("users").get(record["userId"])


@pytest.fixture
async def app(database, commands):
    """Messages with their users, of whom each wrote several."""
    users = [{"_id": ObjectId(), "name": f"user {n}", "password": "x"} for n in range(PAGE // 2)]
    await database["users"].insert_many(users)
    messages = [{"n": n, "userId": users[n % len(users)]["_id"]} for n in range(2 * PAGE)]
    await database["messages"].insert_many(messages)
    app = App()
    app.use("users", MongoDBService(database["users"]))
    app.service("users").hooks(around=[resolve_external(resolve({"password": lambda: UNSET}))])
    paginate = {"default": PAGE, "max": PAGE}
    app.use("messages", MongoDBService(database["messages"], paginate=paginate))
    await app.setup()
    commands.sent.clear()
    return app


async def first_page(app, load=author):
    """Return the first page of messages, each with its user."""
    messages = app.service("messages")
    messages.hooks(around=[resolve_result(resolve({"user": virtual(load)}))])
    return await messages.find(query={"$sort": {"n": 1}})


async def test_a_page_and_what_belongs_to_it_cost_two_queries_beside_the_count(app, commands):
    page = await first_page(app)
    assert [message["user"]["name"] for message in page["data"]] == [
        f"user {n % (PAGE // 2)}" for n in range(PAGE)
    ]
    assert page["total"] == 2 * PAGE
    counting = [sent for sent in commands.sent if sent == ("aggregate", "messages")]
    assert sorted(commands.sent) == [*counting, ("find", "users")]
    assert len(counting) == 2  # the page and the count


async def test_messages_that_share_a_user_share_nothing_that_can_change(app):
    page = await first_page(app)
    first, same = page["data"][0]["user"], page["data"][PAGE // 2]["user"]
    assert first == same
    first["name"] = "changed"
    assert same["name"] == "user 0"


async def test_one_that_is_missing_fails_for_its_record_only(app, database):
    async def author_or_none(record, context):
        try:
            return await author(record, context)
        except NotFound:
            return None

    await database["messages"].update_one({"n": 3}, {"$set": {"userId": ObjectId()}})
    page = await first_page(app, author_or_none)
    assert [n for n, message in enumerate(page["data"]) if message["user"] is None] == [3]


async def test_object_ids_are_resolved_in_data_and_queries(database):
    app = App()
    app.use("notes", MongoDBService(database["notes"]))
    owner = resolve({"ownerId": resolve_object_id})
    app.service("notes").hooks(
        around=[resolve_query(owner)],
        before={"create": [resolve_data(owner)], "patch": [resolve_data(owner)]},
    )
    ada = ObjectId()
    note = await app.service("notes").create({"ownerId": str(ada)})
    assert note["ownerId"] == ada
    assert await app.service("notes").find(query={"ownerId": str(ada)}) == [note]
    assert await app.service("notes").patch(note["_id"], {"text": "a"}) == {**note, "text": "a"}
    with pytest.raises(BadRequest) as caught:
        await app.service("notes").create({"ownerId": "abc"})
    assert "object id" in caught.value.data["ownerId"]["message"]
