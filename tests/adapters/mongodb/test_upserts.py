"""What an upsert has done: its event is that of a creation or of a change."""

from __future__ import annotations

import asyncio

import pytest
from bson import ObjectId

from alula import App
from alula.adapters.mongodb import MongoDBService

UPSERT = {"upsert": True}
ID = ObjectId()


@pytest.fixture
def app(collection):
    app = App()
    app.use("notes", MongoDBService(collection, multi=True))
    app.use("numbered", MongoDBService(collection, multi=True, id="n"))
    return app


@pytest.fixture
def service(app):
    return app.service("notes")


@pytest.fixture
def seen(app):
    seen = []
    for path in ("notes", "numbered"):
        for event in ("created", "patched", "updated"):
            app.service(path).on(event, lambda _, context: seen.append(context.event))
    return seen


CALLS = {
    "patch": (lambda service, **more: service.patch(ID, {"a": 1}, **more), "patched"),
    "an operator": (
        lambda service, **more: service.patch(ID, {"$inc": {"a": 1}}, **more),
        "patched",
    ),
    "update": (lambda service, **more: service.update(ID, {"a": 1}, **more), "updated"),
    "update by operators": (
        lambda service, **more: service.update(ID, {"$set": {"a": 1}}, **more),
        "updated",
    ),
}


@pytest.mark.parametrize(("call", "event"), CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("query", [{}, {"$select": ["a"]}])
async def test_by_id(service, seen, call, event, query):
    assert await call(service, docdb=UPSERT, query=query) == {"_id": ID, "a": 1}
    record = await call(service, docdb=UPSERT, query=query)
    assert record == {"_id": ID, "a": record["a"]}
    assert seen == ["created", event]


async def test_by_another_id(app, seen):
    service = app.service("numbered")
    for call in (
        lambda: service.patch("five", {"a": 1}, docdb=UPSERT),
        lambda: service.update("six", {"a": 1}, docdb={**UPSERT, "projection": ["n", "a"]}),
    ):
        first, second = await call(), await call()
        assert first == second
        assert first["a"] == 1
        assert first["n"] in {"five", "six"}
    assert seen == ["created", "patched", "created", "updated"]


@pytest.mark.parametrize("query", [{}, {"$select": ["kind"]}])
async def test_by_a_query(app, service, seen, query):
    for _ in range(2):
        await service.patch(None, {"a": 1}, docdb=UPSERT, query={"kind": "x", **query})
    assert seen == ["created", "patched"]
    projected = {**UPSERT, "projection": {"_id": 0}}
    assert await service.patch(None, {"a": 1}, docdb=projected, query={"kind": "y"}) == [
        {"kind": "y", "a": 1}
    ]
    assert seen[2:] == ["created"]


async def test_in_a_session(app, service, seen, collection):
    client = collection.database.client
    async with client.start_session() as session, await session.start_transaction():
        docdb = {**UPSERT, "session": session}
        for _ in range(2):
            assert await service.patch(ID, {"a": 1}, docdb=docdb) == {"_id": ID, "a": 1}
    assert seen == ["created", "patched"]


async def test_of_upserts_at_the_same_time_one_creates(service, seen):
    calls = (service.patch(ID, {"$inc": {"a": 1}}, docdb=UPSERT) for _ in range(10))
    await asyncio.gather(*calls)
    assert sorted(seen) == ["created"] + ["patched"] * 9
    assert (await service.get(ID))["a"] == 10


async def test_another_client_may_create_it_between_two_looks(
    service, seen, collection, monkeypatch
):
    change = type(collection).find_one_and_update

    async def late(self, *arguments, **options):
        record = await change(self, *arguments, **options)
        if record is None:
            monkeypatch.undo()
            await collection.insert_one({"_id": ID, "b": 2})
        return record

    monkeypatch.setattr(type(collection), "find_one_and_update", late)
    assert await service.patch(ID, {"a": 1}, docdb=UPSERT) == {"_id": ID, "a": 1, "b": 2}
    assert seen == ["patched"]
