"""`MongoBus` on a real MongoDB: order, catching up, and what happens when it goes away."""

from __future__ import annotations

import logging
import secrets
import time

import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import OperationFailure
from pymongo.write_concern import WriteConcern
from tests.realtime.processes import processes
from tests.requirements import require_mongod
from tests.waiting import eventually

from alula.local_mongodb import Mongod, form_replica_set
from alula.realtime._bus import MongoBus


@pytest.fixture
async def collection(mongodb_url):
    async with AsyncMongoClient(mongodb_url) as client:
        database = client[f"bus_{secrets.token_hex(4)}"]
        yield database["events"]
        await client.drop_database(database.name)


async def test_events_reach_all_other_processes_in_order(collection):
    buses = [MongoBus(collection) for _ in range(3)]
    async with processes(*buses) as (first, second, third):
        first.publish(*range(500))
        second.publish("a", "b")
        await eventually(lambda: len(third.received) == 502)
        assert [n for n in third.received if isinstance(n, int)] == list(range(500))
        await eventually(lambda: first.received == ["a", "b"])


async def test_old_events_are_removed_by_an_index(collection):
    bus = MongoBus(collection, keep_seconds=60)
    await bus.publish(b"one")
    assert (await collection.index_information())["at_1"]["expireAfterSeconds"] == 60
    await bus.close()


async def test_tells_what_the_collection_keeps(collection):
    bus = MongoBus(collection, keep_seconds=60)
    assert (await bus.recent_events("")).events == []
    await bus.publish_many([f"{n}".encode() for n in range(100)])
    await bus.publish(b"100")
    recent = await bus.recent_events("")
    assert [int(event) for event in recent.events] == [*range(101)]
    assert time.time() - 70 < recent.complete_since < time.time() - 50
    bus.max_recent_bytes = 20
    recent = await bus.recent_events("")
    assert 0 < len(recent.events) < 20
    assert recent.complete_since > time.time() - 10
    await bus.close()


async def test_goes_on_where_it_was(collection):
    bus = MongoBus(collection)
    await bus.publish(b"before")
    events = bus.events()
    position, event, _ = await anext(events)
    assert event == b""
    await events.aclose()
    await bus.publish_many([b"one", b"two"])
    events = bus.events(position)
    try:
        seen = []
        while len(seen) < 2:
            seen += filter(None, [(await anext(events)).event])
        assert seen == [b"one", b"two"]
    finally:
        await events.aclose()


async def test_a_late_server_gives_what_others_have_published_meanwhile(collection):
    bus, other = MongoBus(collection), MongoBus(collection)
    bus._begun = time.monotonic() - 2  # as if it had tried for two seconds
    await other.publish(b"one")
    events = bus.events()
    try:
        seen = []
        while not seen:
            seen += filter(None, [(await anext(events)).event])
        assert seen == [b"one"]
    finally:
        await events.aclose()


async def test_goes_on_after_the_collection_was_dropped(collection):
    async with processes(MongoBus(collection), MongoBus(collection)) as (first, second):
        first.publish(1)
        await eventually(lambda: second.received == [1])
        await collection.drop()
        await eventually(lambda: second.relay.state() == "away")
        first.publish(2)
        await eventually(lambda: second.received == [1, 2])


async def test_begins_anew_where_the_oplog_has_forgotten_its_position(collection, caplog):
    bus = MongoBus(collection)
    lost = OperationFailure("the oplog begins later", 286)
    watch, given = collection.watch, []

    class Forgetful:
        full_name = "shop.events"

        async def watch(self, *arguments, **options):
            given.append(options.get("start_after"))
            if len(given) == 1:
                raise lost
            return await watch(*arguments, **options)

    bus._collection = Forgetful()
    events = bus.events("an old position")
    assert (await anext(events))[1:] == (b"", True)
    await events.aclose()
    assert given == [{"_data": "an old position"}, None]
    assert "events were missed" in caplog.text
    lost.__init__("not allowed", 13)
    given.clear()
    with pytest.raises(OperationFailure, match="not allowed"):
        await anext(bus.events("an old position"))


async def test_nothing_is_lost_or_sent_twice_when_mongodb_is_killed(tmp_path, caplog):
    require_mongod()
    caplog.set_level(logging.INFO, "alula.realtime.bus")
    server = Mongod(tmp_path, replica_set="bus")
    await server.start()
    try:
        await form_replica_set([server], {"electionTimeoutMillis": 300})
        url = f"mongodb://{server.address}/?replicaSet=bus&serverSelectionTimeoutMS=300"
        async with AsyncMongoClient(url) as client:
            collection = client["bus"].get_collection("events", write_concern=WriteConcern(j=True))
            async with processes(MongoBus(collection), MongoBus(collection)) as (first, second):
                first.publish(*range(100))
                server.kill()
                first.publish(*range(100, 200))
                await eventually(lambda: first.relay.state() == "away")
                await server.start()
                await eventually(lambda: len(second.received) >= 200)
                assert second.received == list(range(200))
                await eventually(lambda: first.relay.state() == "ok")
    finally:
        server.kill()


def test_a_collection_of_the_other_client_is_refused(mongodb_url):
    with (
        MongoClient(mongodb_url) as client,
        pytest.raises(TypeError, match=r"pymongo\.AsyncMongoClient"),
    ):
        MongoBus(client["bus"]["events"])
