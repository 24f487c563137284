"""Changes of a collection reach clients, whoever made them, by a real change stream."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest
from pymongo.errors import OperationFailure
from tests.waiting import eventually

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService, _changes, publish_changes
from alula.authentication import protect
from alula.errors import Forbidden
from alula.schema import hidden, resolve, resolve_external
from alula.testing import RealtimeClient


class Link:
    """A connection that keeps what it gets."""

    queued = 0

    def __init__(self):
        self.got = []

    def deliver(self, message):
        self.got.append((message.name, message.data))

    async def close(self, reason="", *, reconnect=True):
        """Nothing to close."""


def make_app(collection, link=None, publisher=None, **options):
    """An application with a connection in the channel `everyone`."""
    from alula.realtime import Connection

    app = App().use("messages", MongoDBService(collection, multi=True, **options))
    app.configure(publish_changes("messages"))
    app.service("messages").publish(publisher or (lambda data, context: app.channel("everyone")))
    if link is not None:
        connection = Connection(link, provider="test", headers={}, ip=None)
        app.add_connection(connection)
        app.channel("everyone").join(connection)
    return app


@asynccontextmanager
async def running(app):
    await app.setup()
    try:
        yield app
    finally:
        await app.teardown()


@pytest.fixture
def link():
    return Link()


async def test_changes_of_other_programs_are_published(collection, link):
    async with running(make_app(collection, link)):
        await collection.insert_one({"_id": 1, "text": "a"})
        await eventually(lambda: len(link.got) == 1)
        await collection.update_one({"_id": 1}, {"$set": {"text": "b"}})
        await eventually(lambda: len(link.got) == 2)
        await collection.replace_one({"_id": 1}, {"text": "c"})
        await eventually(lambda: len(link.got) == 3)
        await collection.delete_one({"_id": 1})
        await eventually(lambda: len(link.got) == 4)
    assert link.got == [
        ("created", {"_id": 1, "text": "a"}),
        ("patched", {"_id": 1, "text": "b"}),
        ("updated", {"_id": 1, "text": "c"}),
        ("removed", {"_id": 1}),
    ]
    await collection.insert_one({"_id": 2})
    await asyncio.sleep(0.01)
    assert len(link.got) == 4


async def test_changes_of_calls_are_published_once_in_each_process(collection):
    links = [Link(), Link()]
    first, second = (make_app(collection, link) for link in links)
    heard = []
    first.service("messages").on("created", lambda data, context: heard.append(data["n"]))
    async with running(first), running(second):
        await first.service("messages").create([{"n": 1}, {"n": 2}])
        record = await second.service("messages").create({"n": 3})
        await first.service("messages").patch(record["_id"], {"n": 4})
        await collection.insert_one({"_id": "last", "n": 5})
        for link in links:
            await eventually(lambda link=link: link.got and link.got[-1][1]["n"] == 5)
            assert [event for event, _ in link.got] == [*["created"] * 3, "patched", "created"]
            assert [data["n"] for _, data in link.got][:2] == [1, 2]
            assert [data["n"] for _, data in link.got][3:] == [4, 5]
    assert heard == [1, 2]


async def test_custom_events_are_published_by_the_service(collection, link):
    from alula.realtime import Connection

    app = App().use("messages", MongoDBService(collection, events=["typing"]))
    app.configure(publish_changes("messages"))
    app.service("messages").publish(lambda data, context: app.channel("everyone"))
    connection = Connection(link, provider="test", headers={}, ip=None)
    app.add_connection(connection)
    app.channel("everyone").join(connection)
    app.service("messages").emit("typing", {"who": 1})
    assert link.got == [("typing", {"who": 1})]


async def test_what_clients_may_not_see_stays(collection, link):
    seen = []

    def publisher(data, context):
        seen.append((data["secret"], context.method, context.event, context.params.get("user")))
        return context.app.channel("everyone")

    app = make_app(collection, link, publisher)
    app.service("messages").hooks(
        around=[resolve_external(resolve({"hash": hidden}))], after=[protect("secret")]
    )
    async with running(app):
        await collection.insert_one({"_id": 1, "hash": "x", "secret": "y", "text": "a"})
        await eventually(lambda: link.got)
    assert link.got == [("created", {"_id": 1, "text": "a"})]
    assert seen == [("y", "", "created", None)]


async def test_dispatch_of_a_hook_is_sent(collection, link):
    app = make_app(collection, link)

    def only_length(context):
        context.dispatch = {"length": len(context.result["text"])}

    app.service("messages").hooks(after={"get": [only_length]})
    async with running(app):
        await collection.insert_one({"_id": 1, "text": "abc"})
        await eventually(lambda: link.got)
    assert link.got == [("created", {"length": 3})]


async def test_records_have_the_id_of_the_service(collection, link):
    async with running(make_app(collection, link, id="number")):
        await collection.insert_one({"_id": 1, "number": "n1"})
        await eventually(lambda: len(link.got) == 1)
        await collection.update_one({"_id": 1}, {"$set": {"text": "b"}})
        await eventually(lambda: len(link.got) == 2)
        await collection.insert_one({"_id": 2})  # without the id: nobody can get it
        await collection.delete_one({"_id": 1})
        await eventually(lambda: len(link.got) == 3)
    assert [data["number"] for _, data in link.got[:2]] == ["n1", "n1"]
    assert link.got[2] == ("removed", {"_id": 1})


async def test_a_removed_record_has_its_id_if_the_database_keeps_it(collection, link):
    await collection.database.create_collection(
        collection.name, changeStreamPreAndPostImages={"enabled": True}
    )
    async with running(make_app(collection, link, id="number")):
        await collection.insert_one({"_id": 1, "number": "n1", "text": "a"})
        await eventually(lambda: len(link.got) == 1)
        await collection.delete_one({"_id": 1})
        await eventually(lambda: len(link.got) == 2)
    assert link.got[1] == ("removed", {"_id": 1, "number": "n1"})


async def test_a_record_that_is_gone_by_now_is_left_out(collection, link):
    app = make_app(collection, link)

    async def remove_first(context):
        await collection.delete_one({"_id": context.id})

    app.service("messages").hooks(before={"get": [remove_first]})
    async with running(app):
        await collection.insert_one({"_id": 1})
        await eventually(lambda: link.got)
    assert link.got == [("removed", {"_id": 1})]


async def test_a_hook_that_fails_costs_one_event(collection, link, caplog):
    app = make_app(collection, link)

    def refuse(context):
        if context.id == 1:
            raise Forbidden("No")

    app.service("messages").hooks(before={"get": [refuse]})
    async with running(app):
        await collection.insert_many([{"_id": 1}, {"_id": 2}])
        await eventually(lambda: link.got)
    assert link.got == [("created", {"_id": 2})]
    assert "nobody gets 'created' of 'messages': `get` failed" in caplog.text


async def test_nothing_is_read_for_nobody(collection, monkeypatch):
    read, arrived = [], []
    publish = _changes._Changes.publish

    async def publish_and_tell(changes, change):
        await publish(changes, change)
        arrived.append(change["operationType"])

    monkeypatch.setattr(_changes._Changes, "publish", publish_and_tell)
    app = make_app(collection)
    app.service("messages").hooks(before={"get": [lambda context: read.append(1)]})
    async with running(app):
        await collection.insert_one({"_id": 1})
        await eventually(lambda: arrived)
    assert arrived == ["insert"]
    assert read == []


async def test_a_dropped_collection_is_a_gap(collection, link, monkeypatch):
    monkeypatch.setattr(_changes, "_FIRST_PAUSE_SECONDS", 0.001)
    app, gaps = make_app(collection, link), []
    app.channel_registry.on_gap(lambda: gaps.append(1))
    async with running(app):
        await collection.insert_one({"_id": 1})
        await eventually(lambda: len(link.got) == 1)
        await collection.drop()
        await eventually(lambda: gaps)
        await collection.insert_one({"_id": 2})
        await eventually(lambda: len(link.got) == 2)
    assert link.got[1] == ("created", {"_id": 2})


class Failing:
    """A model whose first collections have a change stream that fails."""

    def __init__(self, collection, *errors):
        self.collection, self.errors = collection, [*errors]

    async def watch(self, **options):
        if self.errors:
            raise self.errors.pop(0)
        return await self.collection.watch(**options)


@pytest.fixture
def failing(collection, monkeypatch):
    """Let the next change streams fail with these errors."""
    monkeypatch.setattr(_changes, "_FIRST_PAUSE_SECONDS", 0.001)

    def fail(app, *errors):
        model = Failing(collection, *errors)

        async def get_model(params=None):
            return model

        monkeypatch.setattr(app.service("messages").service, "get_model", get_model)

    return fail


async def test_it_goes_on_when_the_database_is_back(collection, link, failing, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(_changes, "_AWAIT_MS", 10)
    app, gaps = make_app(collection, link), []
    app.channel_registry.on_gap(lambda: gaps.append(1))
    failing(app, OSError("away"), OSError("away"), OperationFailure("old", 286), OSError("away"))
    async with running(app):
        await eventually(lambda: "are followed again" in caplog.text)
        await collection.insert_one({"_id": 1})
        await eventually(lambda: link.got)
    assert gaps == [1]  # nobody knows what happened before the first stream
    assert caplog.text.count("cannot be followed now, and are tried again: away") == 1
    assert "changes of 'messages' were missed: old" in caplog.text


async def test_the_setup_does_not_wait_for_the_database(collection, link, monkeypatch, caplog):
    monkeypatch.setattr(_changes, "_START_SECONDS", 0.001)
    app = make_app(collection, link)
    service = app.service("messages").service
    get_model, calls = service.get_model, []

    async def slow_at_first():
        calls.append(1)
        if len(calls) == 1:
            await asyncio.Event().wait()
        return await get_model()

    monkeypatch.setattr(service, "get_model", slow_at_first)
    async with running(app):
        assert "tried again: TimeoutError" in caplog.text
    await _changes._Changes(app.channel_registry, app.service("messages"), service).stop()


async def test_another_error_of_the_database_is_tried_again(collection, link, failing, caplog):
    app = make_app(collection, link)
    failing(app, OperationFailure("not now", 1))
    async with running(app):
        while not link.got:
            await collection.insert_one({})
            await asyncio.sleep(0.005)
    assert "tried again: not now" in caplog.text


async def test_it_goes_on_where_it_was(collection, link, failing, monkeypatch):
    app, gaps = make_app(collection, link), []
    app.channel_registry.on_gap(lambda: gaps.append(1))
    async with running(app):
        await collection.insert_one({"_id": 1})
        await eventually(lambda: link.got)
        receive, failures = app.channel_registry.receive, [OSError("away")]

        def fails_once(publication):
            if failures:
                raise failures.pop()
            receive(publication)

        monkeypatch.setattr(app.channel_registry, "receive", fails_once)
        monkeypatch.setattr(_changes, "_FIRST_PAUSE_SECONDS", 0.001)
        await collection.insert_many([{"_id": 2}, {"_id": 3}])
        await eventually(lambda: len(link.got) == 3)
    assert gaps == []
    assert [data["_id"] for _, data in link.got] == [1, 2, 3]


async def test_a_server_without_change_streams_is_refused(collection, failing):
    app = make_app(collection)
    failing(app, OperationFailure("no", 40573))
    with pytest.raises(RuntimeError, match=r"publish_changes\('messages'\) needs a replica set"):
        await app.setup()
    await app.teardown()


async def test_the_service_must_be_one_of_mongodb(collection):
    inner = App().use("messages", MongoDBService(collection))
    app = App().use("memory", MemoryService()).use("inner", inner)
    with pytest.raises(TypeError, match=r"publish_changes\('memory'\) needs a MongoDBService, not"):
        app.configure(publish_changes("memory"))
    with pytest.raises(TypeError, match="needs a MongoDBService, not service 'messages'"):
        app.configure(publish_changes("inner/messages"))
    with pytest.raises(LookupError):
        app.configure(publish_changes("nowhere"))
    app.use("teams/:team/tasks", MongoDBService(collection))
    with pytest.raises(ValueError, match="a change has no values for placeholders"):
        app.configure(publish_changes("teams/:team/tasks"))


async def test_clients_of_a_transport_get_them(collection):
    from alula.express import express, json, rest
    from alula.realtime import socketio

    app = express(App()).use(json()).configure(rest()).configure(socketio())
    app.use("messages", MongoDBService(collection)).configure(publish_changes("messages"))
    app.on("connection", lambda connection: app.channel("everyone").join(connection))
    app.service("messages").publish(lambda data, context: app.channel("everyone"))
    await app.setup()
    async with RealtimeClient(app) as client:
        await collection.insert_one({"_id": 1, "text": "Hi"})
        event = await client.next_event("messages created")
        assert event.data == {"_id": 1, "text": "Hi"}
        await client.call("create", "messages", {"text": "Ho"})
        event = await client.next_event("messages created")
        assert event.data["text"] == "Ho"
    await app.teardown()


@pytest.mark.parametrize("id_name", ["_id", "number"])
async def test_live_lists_follow_what_other_programs_write(collection, link, id_name):
    """Calls tell them nothing: the database does, once in each process."""
    from alula._live import LiveList, live_lists_of
    from alula.realtime import Connection

    app = make_app(collection, publisher=lambda data, context: None, id=id_name)
    messages = app.service("messages").live(pause=0.001)
    lists = live_lists_of(app)
    kinds = []

    def take(told):
        kinds.extend(message.kind for message in told)

    async with running(app):
        connection = Connection(link, provider="test", headers={}, ip=None)
        await lists.open(LiveList(messages, connection, {}, {"text": "a"}, take))
        await collection.insert_one({"_id": 1, "number": 1, "text": "a"})
        await eventually(lambda: kinds == ["snapshot", "entered"])
        await messages.create({"_id": 2, "number": 2, "text": "a"})
        await eventually(lambda: kinds == ["snapshot", "entered", "entered"])
        await collection.update_one({"_id": 2}, {"$set": {"text": "b"}})
        await eventually(lambda: kinds[3:] == ["left"])
        await collection.delete_one({"_id": 1})
        await eventually(lambda: kinds[3:] == ["left", "left"])
