"""Writes of several records, with transactions and on a server that has none."""

from __future__ import annotations

import asyncio

import pytest
from bson import ObjectId
from pymongo.asynchronous.client_session import AsyncClientSession

from alula.adapters.mongodb import MongoDBService
from alula.adapters.mongodb import _multi as multi
from alula.errors import Conflict


@pytest.fixture
async def people(collection):
    await collection.insert_many([{"_id": n, "n": n, "kind": "ab"[n % 2]} for n in range(6)])
    return MongoDBService(collection, multi=True)


@pytest.fixture(params=["replica set", "standalone"])
def server(request, monkeypatch):
    """The kind of server that the driver tells of."""
    if request.param == "standalone":
        monkeypatch.setattr(multi, "_server_types", lambda model: {"Standalone"})
    return request.param


def numbers(records):
    return [record["n"] for record in records]


async def test_a_patch_answers_what_it_changed_in_the_order_of_the_query(people, server):
    params = {"query": {"kind": "a", "$sort": {"n": -1}}}
    changed = await people.patch(None, {"kind": "c"}, params)
    assert changed == [{"_id": n, "n": n, "kind": "c"} for n in (4, 2, 0)]
    assert numbers(await people.find({"query": {"kind": "c"}})) == [0, 2, 4]


async def test_a_remove_answers_what_it_removed_in_the_order_of_the_query(people, server):
    params = {"query": {"kind": "a", "$sort": {"n": -1}, "$select": ["n"]}}
    assert await people.remove(None, params) == [{"_id": n, "n": n} for n in (4, 2, 0)]
    assert numbers(await people.find()) == [1, 3, 5]


async def test_where_nothing_matches_nothing_is_done(people, server):
    params = {"query": {"kind": "x"}}
    assert await people.patch(None, {"kind": "c"}, params) == []
    assert await people.remove(None, params) == []
    assert len(await people.find()) == 6


async def test_an_own_id_is_answered_without_that_of_the_database(people, collection, server):
    named = MongoDBService(collection, id="n", multi=True)
    params = {"query": {"kind": "a", "$select": ["kind"]}}
    wanted = [{"n": n, "kind": "a"} for n in (0, 2, 4)]
    assert await named.patch(None, {"seen": 1}, params) == wanted
    assert await named.remove(None, params) == wanted


async def test_ids_of_others_may_be_objects(people, collection, server):
    await collection.insert_many([{"_id": {"a": 1}, "n": 9}, {"_id": True, "n": 8}])
    changed = await people.patch(None, {"seen": 1}, {"query": {"n": {"$in": [1, 8, 9]}}})
    assert sorted(numbers(changed)) == [1, 8, 9]
    assert [record["_id"] for record in changed if record["n"] == 8] == [True]


async def test_many_ids_take_several_commands(people, server, monkeypatch):
    monkeypatch.setattr(multi, "_MAX_IDS", 4)
    assert numbers(await people.patch(None, {"seen": 1})) == [0, 1, 2, 3, 4, 5]
    assert numbers(await people.remove(None)) == [0, 1, 2, 3, 4, 5]
    assert await people.find() == []


async def test_new_records_are_stored_all_or_none(people):
    with pytest.raises(Conflict):
        await people.create([{"_id": 10}, {"_id": 1}, {"_id": 11}])
    assert len(await people.find()) == 6


async def test_without_transactions_those_before_the_first_refused_one_stay(people, monkeypatch):
    monkeypatch.setattr(multi, "_server_types", lambda model: {"Standalone"})
    with pytest.raises(Conflict):
        await people.create([{"_id": 10}, {"_id": 1}, {"_id": 11}])
    assert [each["_id"] for each in await people.find()] == [0, 1, 2, 3, 4, 5, 10]


async def test_a_failure_half_way_changes_nothing(people, collection):
    await collection.create_index("rank", unique=True, sparse=True)
    with pytest.raises(Conflict):
        await people.patch(None, {"rank": 1})
    assert await people.find({"query": {"rank": 1}}) == []


@pytest.mark.parametrize("method", ["create", "patch", "remove"])
async def test_a_session_without_a_transaction_gets_one(people, collection, client, method):
    sent = []
    real = AsyncClientSession.with_transaction

    async def spy(session, work, **options):
        sent.append(session)
        return await real(session, work, **options)

    async with client.start_session() as session:
        params = {"docdb": {"session": session}}
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(AsyncClientSession, "with_transaction", spy)
            if method == "create":
                with pytest.raises(Conflict):
                    await people.create([{"_id": 10}, {"_id": 1}], params)
            else:
                data = [{"seen": 1}] if method == "patch" else []
                query = {"query": {"kind": "a"}}
                assert len(await getattr(people, method)(None, *data, {**params, **query})) == 3
        assert sent == [session]
        assert not session.in_transaction
    assert len(await people.find()) == (3 if method == "remove" else 6)


async def test_a_patch_that_meets_another_write_begins_anew(people, collection):
    """What the other write did is part of what the patch sees then."""
    entered = asyncio.Event()
    read = multi.Selection.read
    attempts = []

    async def slow(self, projection, session):
        found = await read(self, projection, session)
        attempts.append(len(found))
        if len(attempts) == 1:
            await collection.update_one({"_id": 0}, {"$set": {"kind": "b"}})
        entered.set()
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(multi.Selection, "read", slow)
        changed = await people.patch(None, {"seen": 1}, {"query": {"kind": "a"}})
    assert attempts == [3, 2]
    assert numbers(changed) == [2, 4]
    assert numbers(await people.find({"query": {"seen": 1}})) == [2, 4]


async def test_asks_a_server_that_it_does_not_know_yet(mongodb_url):
    from pymongo import AsyncMongoClient

    async with AsyncMongoClient(mongodb_url) as client:
        collection = client["alula_adapter"][f"c{ObjectId()}"]
        assert multi._server_types(collection) == set()
        people = MongoDBService(collection, multi=True)
        assert len(await people.create([{"n": 1}, {"n": 2}])) == 2
        assert multi._server_types(collection) >= {"RSPrimary"}
        await collection.drop()


@pytest.mark.parametrize(
    ("kind", "has"), [("Standalone", False), ("RSPrimary", True), ("Mongos", True)]
)
async def test_which_servers_have_transactions(offline, kind, has, monkeypatch):
    monkeypatch.setattr(multi, "_server_types", lambda model: {kind})
    assert await multi.has_transactions(offline) is has
