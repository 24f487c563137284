from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import bson
import pytest
from bson import DBRef, Decimal128, ObjectId
from bson.errors import InvalidBSON
from pymongo import AsyncMongoClient, WriteConcern, errors, monitoring

from alula import App
from alula._events import HeldEvents
from alula.adapters import _batching as batching
from alula.adapters._batching import ALONE
from alula.adapters.mongodb import MongoDBService, transaction
from alula.adapters.mongodb import _batches as batches
from alula.adapters.mongodb._batches import Batches, Patience, WriteStopped
from alula.adapters.mongodb._options import MongoDBOptions, limited
from alula.errors import BadRequest, Conflict, NotFound, Timeout, Unavailable

CASE_BLIND = {"locale": "en", "strength": 2}


class Commands(monitoring.CommandListener):
    """Keeps the commands that a client sends."""

    def __init__(self) -> None:
        self.sent: list[dict] = []
        self.any = asyncio.Event()

    def started(self, event):
        if event.command_name in ("find", "insert", "aggregate", "count"):
            self.sent.append(dict(event.command))
            self.any.set()

    def succeeded(self, event): ...

    def failed(self, event): ...

    @property
    def names(self) -> list[str]:
        return [next(iter(command)) for command in self.sent]


@pytest.fixture(scope="module")
def commands():
    return Commands()


@pytest.fixture(scope="module")
async def watched(mongodb_url, commands):
    async with AsyncMongoClient(mongodb_url, event_listeners=[commands]) as client:
        yield client
        await client.drop_database("alula_sharing")


@pytest.fixture
async def model(watched, commands):
    collection = watched["alula_sharing"][f"c{ObjectId()}"]
    await collection.insert_many([{"_id": n, "n": n, "tags": ["a"]} for n in range(10)])
    await collection.insert_one({"_id": "abc", "text": "small"})
    commands.sent.clear()
    yield collection
    await collection.drop()


def options_with(share, seconds=None):
    return MongoDBOptions(seconds=seconds).changed({"share": share}, ())


def shared_by(share):
    return options_with(share).shared


class Shared:
    """The batches of a service with an option ``share``, called within its time limit."""

    def __init__(self, share=True):
        self.batches, self.share = Batches(), share

    async def get(self, model, id, filter, seconds, **options):
        with limited(seconds):
            given = options_with(self.share, seconds)
            return await self.batches.get(model, id, filter, given, options)

    async def create(self, model, document, seconds):
        await self.batches.create(model, document, options_with(self.share, seconds), None)

    async def count(self, model, stages, seconds, **options):
        with limited(seconds):
            return await self.batches.count(
                model, stages, options_with(self.share, seconds), options
            )


def get(sharing, model, id, filter=None, seconds=None, **options):
    return sharing.get(model, id, filter or {}, seconds, **options)


async def create(sharing, model, record, seconds):
    record.setdefault("_id", ObjectId())
    await sharing.create(model, bson.encode(record, codec_options=model.codec_options), seconds)


# -- the option ------------------------------------------------------------------------------------


def test_all_is_shared_unless_it_is_switched_off():
    every = {"find", "get", "create", "patch", "count"}
    assert shared_by(None) == shared_by(True) == shared_by({}) == every
    assert shared_by(False) == set()
    assert shared_by({"get": False}) == {"find", "create", "patch", "count"}
    assert shared_by({"find": False, "get": True, "count": False}) == {"get", "create", "patch"}


@pytest.mark.parametrize("value", [1, "get", ["get"], {"remove": False}, {"get": 1}])
def test_an_option_that_makes_no_sense_is_refused(value):
    with pytest.raises(ValueError, match=r"^share "):
        shared_by(value)


# -- get -------------------------------------------------------------------------------------------


async def test_gets_of_one_turn_take_one_query(model, commands):
    sharing = Shared()
    records = await asyncio.gather(*(get(sharing, model, n) for n in range(10)))
    assert records == [{"_id": n, "n": n, "tags": ["a"]} for n in range(10)]
    assert commands.names == ["find"]
    assert commands.sent[0]["filter"] == {"_id": {"$in": list(range(10))}}


async def test_gets_that_come_while_one_is_under_way_take_the_next_query(model, commands):
    sharing = Shared()
    first = asyncio.ensure_future(get(sharing, model, 0))
    commands.any.clear()
    await commands.any.wait()
    rest = await asyncio.gather(*(get(sharing, model, n) for n in (1, 2, 3)))
    assert [record["n"] for record in [await first, *rest]] == [0, 1, 2, 3]
    assert commands.names == ["find", "find"]


async def test_one_alone_goes_as_a_plain_find_one(model, commands):
    assert await get(Shared(), model, 3) == {"_id": 3, "n": 3, "tags": ["a"]}
    assert commands.sent[0]["filter"] == {"_id": 3}
    assert commands.sent[0]["limit"] == 1
    assert commands.sent[0]["singleBatch"] is True


async def test_switched_off_each_takes_its_own(model, commands):
    sharing = Shared({"get": False})
    await asyncio.gather(*(get(sharing, model, n) for n in range(4)))
    assert len(commands.sent) == 4


async def test_a_missing_record_concerns_its_own_caller_only(model, commands):
    sharing = Shared()
    found = await asyncio.gather(*(get(sharing, model, key) for key in (ObjectId(), 1, 99, "x")))
    assert [record and record["n"] for record in found] == [None, 1, None, None]


async def test_object_ids_that_are_missing_are_not_asked_for_again(model, commands):
    sharing = Shared()
    assert await asyncio.gather(*(get(sharing, model, ObjectId()) for _ in range(5))) == [None] * 5
    assert commands.names == ["find"]


async def test_only_the_same_criteria_go_together(model, commands):
    sharing = Shared()
    await model.insert_one({"_id": "one", "n": 1, "mine": 1})
    await model.insert_one({"_id": "yes", "n": 2, "mine": True})
    commands.sent.clear()
    found = await asyncio.gather(
        *(get(sharing, model, key, {"mine": mine}) for mine in (1, True) for key in ("one", "yes"))
    )
    assert [record and record["_id"] for record in found] == ["one", None, None, "yes"]
    filters = [command["filter"] for command in commands.sent if "$and" in command["filter"]]
    shared = [each for each in filters if "$in" in str(each)]
    assert [repr(each["$and"][1]) for each in shared] == ["{'mine': 1}", "{'mine': True}"]


@pytest.mark.parametrize(
    "options", [{"projection": {"n": 1}}, {"collation": CASE_BLIND}, {"seconds": 5.0}]
)
async def test_only_the_same_options_go_together(model, commands, options):
    sharing = Shared()
    plain, other = await asyncio.gather(get(sharing, model, 1), get(sharing, model, 2, **options))
    assert plain["n"] == 1
    assert other["n"] == 2
    assert ("tags" in other) is ("projection" not in options)
    assert len(commands.sent) == 2


async def test_collections_never_mix(model, commands):
    sharing = Shared()
    twin = model.with_options(write_concern=WriteConcern(w=1))  # equal to it for Python
    other = model["others"]
    await other.insert_one({"_id": 1, "n": "other"})
    commands.sent.clear()
    found = await asyncio.gather(*(get(sharing, each, 1) for each in (model, twin, other)))
    assert [record["n"] for record in found] == [1, 1, "other"]
    assert len(commands.sent) == 3


async def test_callers_of_one_record_share_nothing_of_it(model, commands):
    sharing = Shared()
    first, second, third = await asyncio.gather(*(get(sharing, model, 1) for _ in range(3)))
    assert first == second == third
    first["tags"].append("b")
    second["n"] = 7
    assert third == {"_id": 1, "n": 1, "tags": ["a"]}
    assert second["tags"] == ["a"]


async def test_an_id_that_a_collation_equates_is_found_in_batches_too(model):
    sharing = Shared()
    ids = ["abc", "ABC", "Abc", "x"]
    found = await asyncio.gather(*(get(sharing, model, key, collation=CASE_BLIND) for key in ids))
    assert [record and record["_id"] for record in found] == ["abc", "abc", "abc", None]


async def test_a_default_collation_mixes_up_no_callers(watched, commands):
    database = watched["alula_sharing"]
    model = await database.create_collection(f"c{ObjectId()}", collation=CASE_BLIND)
    await model.insert_many([{"_id": "ann", "tags": []}, {"_id": "bob"}])
    sharing = Shared()
    for ids, wanted in (
        (["bob", "ANN", ObjectId()], ["bob", "ann", None]),
        (["bob", "ANN", "ANN"], ["bob", "ann", "ann"]),
        (["ann", "ANN", "Ann"], ["ann", "ann", "ann"]),
    ):
        found = await asyncio.gather(*(get(sharing, model, key) for key in ids))
        assert [record and record["_id"] for record in found] == wanted
        assert len({id(record) for record in found}) == len(ids)
    found[0]["tags"].append("mine")
    assert found[1]["tags"] == found[2]["tags"] == []
    await model.drop()


async def test_an_id_of_another_type_beside_missing_ones(model):
    await model.insert_one({"_id": Decimal128("25")})
    sharing = Shared()
    for ids in ([25, ObjectId()], [27, 25, ObjectId()], [25, 25, ObjectId()]):
        found = await asyncio.gather(*(get(sharing, model, key) for key in ids))
        keys = [record and record["_id"] for record in found]
        assert keys == [Decimal128("25") if key == 25 else None for key in ids]


async def test_numbers_of_other_types_match_as_in_the_database(model):
    await model.insert_many([{"_id": 20.0}, {"_id": Decimal128("21")}, {"_id": {"a": 1}}])
    sharing = Shared()
    found = await asyncio.gather(*(get(sharing, model, key) for key in (20, 21, 1)))
    assert [record["_id"] for record in found] == [20.0, Decimal128("21"), 1]


async def test_true_is_not_one(model):
    await model.insert_one({"_id": True})
    sharing = Shared()
    found = await asyncio.gather(get(sharing, model, 1), get(sharing, model, True))
    assert [type(record["_id"]) for record in found] == [int, bool]


@pytest.mark.parametrize("id", [2**70, "\ud800"])
async def test_an_id_that_cannot_be_sent_fails_for_its_own_caller(model, id):
    sharing = Shared()
    good, bad = await asyncio.gather(
        get(sharing, model, 1), get(sharing, model, id), return_exceptions=True
    )
    assert good["n"] == 1
    assert isinstance(bad, (OverflowError, UnicodeEncodeError, bson.errors.BSONError))


async def test_a_record_that_cannot_be_read_fails_for_its_own_caller(model):
    await model.insert_one({"_id": "far", "at": bson.datetime_ms.DatetimeMS(2**60)})
    sharing = Shared()
    good, bad = await asyncio.gather(
        get(sharing, model, 1), get(sharing, model, "far"), return_exceptions=True
    )
    assert good["n"] == 1
    assert isinstance(bad, InvalidBSON)


async def test_a_failed_round_trip_fails_for_all_that_shared_it(model):
    sharing = Shared()
    answers = await asyncio.gather(
        *(get(sharing, model, n, {"n": {"$nonsense": 1}}) for n in range(3)),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [errors.OperationFailure] * 3


async def test_criteria_that_cannot_be_sent_fail_in_a_query_of_their_own(model):
    with pytest.raises(bson.errors.InvalidDocument):
        await get(Shared(), model, 1, {"n": object()})


async def test_a_record_with_unusual_ids(model, commands):
    sharing = Shared()
    key = Decimal128("21")
    await model.insert_one({"_id": key})
    commands.sent.clear()
    assert (
        await asyncio.gather(get(sharing, model, key), get(sharing, model, key))
        == [{"_id": key}] * 2
    )
    assert len(commands.sent) == 2


async def test_many_records_arrive_in_one_reply(model, commands):
    await model.insert_many([{"_id": f"r{n}"} for n in range(300)])
    commands.sent.clear()
    sharing = Shared()
    found = await asyncio.gather(*(get(sharing, model, f"r{n}") for n in range(300)))
    assert [record["_id"] for record in found] == [f"r{n}" for n in range(300)]
    assert commands.names == ["find"]


async def test_who_asks_after_a_write_sees_it_whatever_is_under_way(model):
    sharing = Shared()
    for n in range(30):
        under_way = [asyncio.ensure_future(get(sharing, model, key)) for key in range(5)]
        await asyncio.sleep(0.0002 * (n % 5))
        await model.update_one({"_id": 1}, {"$set": {"n": n}})
        assert (await get(sharing, model, 1))["n"] == n
        await asyncio.gather(*under_way)


async def test_a_cancelled_caller_hurts_no_other(model):
    sharing = Shared()
    tasks = [asyncio.ensure_future(get(sharing, model, n)) for n in range(4)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert [record["n"] for record in found[1:]] == [1, 2, 3]


async def test_nothing_is_kept_when_all_have_left(model):
    sharing = Shared()
    await asyncio.gather(*(get(sharing, model, 1, {"n": n}) for n in range(5)))
    await create(sharing, model, {}, None)
    await sharing.count(model, None, None)
    await asyncio.sleep(0)
    assert sharing.batches._batchers == {}


async def test_over_time_is_over_time_for_all_that_shared_it(model):
    sharing = Shared()
    slow = {"$where": "sleep(300) || true"}
    answers = await asyncio.gather(
        *(get(sharing, model, n, slow, 0.1) for n in range(3)), return_exceptions=True
    )
    assert all(isinstance(answer, errors.PyMongoError) and answer.timeout for answer in answers)
    assert (await get(sharing, model, 1))["n"] == 1


# -- create ----------------------------------------------------------------------------------------


async def test_creates_of_one_turn_take_one_command(model, commands):
    sharing = Shared()
    records = [{"n": n, "at": datetime(2026, 1, 1, tzinfo=UTC)} for n in range(100, 120)]
    await asyncio.gather(*(create(sharing, model, record, None) for record in records))
    assert commands.names == ["insert"]
    assert commands.sent[0]["ordered"] is False
    stored = await model.find({"n": {"$gte": 100}}).to_list()
    assert {record["_id"]: record["n"] for record in stored} == {
        record["_id"]: record["n"] for record in records
    }


async def test_one_alone_goes_as_a_plain_insert(model, commands):
    record = {"n": 100}
    await create(Shared(), model, record, None)
    assert commands.names == ["insert"]
    assert await model.find_one({"n": 100}) == record
    assert isinstance(record["_id"], ObjectId)


async def test_switched_off_each_creates_its_own(model, commands):
    sharing = Shared({"create": False})
    await asyncio.gather(*(create(sharing, model, {"n": n}, None) for n in range(3)))
    assert commands.names == ["insert"] * 3
    assert await model.count_documents({}) == 14


async def test_a_taken_key_concerns_its_own_caller_only(model):
    sharing = Shared()
    await model.create_index("code", unique=True, sparse=True)
    ids = (50, 1, 51, 51, 52, 53)
    records = [{"_id": key} for key in ids]
    records[4]["code"] = records[5]["code"] = "x"
    answers = await asyncio.gather(
        *(create(sharing, model, record, None) for record in records), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [
        type(None),
        errors.DuplicateKeyError,
        type(None),
        errors.DuplicateKeyError,
        type(None),
        errors.DuplicateKeyError,
    ]
    assert answers[1].details["keyPattern"] == {"_id": 1}
    assert answers[5].details["keyPattern"] == {"code": 1}
    assert await model.count_documents({"_id": {"$in": [50, 51, 52, 53]}}) == 3


async def test_a_record_that_the_collection_refuses_concerns_its_own_caller_only(model):
    rule = {"n": {"$lt": 1000}}
    await model.database.command("collMod", model.name, validator=rule)
    sharing = Shared()
    answers = await asyncio.gather(
        *(create(sharing, model, {"n": n}, None) for n in (500, 5000)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [type(None), errors.WriteError]
    assert answers[1].code == 121


@pytest.mark.parametrize("value", [object(), 2**70, "\ud800", datetime])
async def test_a_value_that_cannot_be_stored_concerns_its_own_caller_only(model, value):
    sharing = Shared()
    answers = await asyncio.gather(
        *(create(sharing, model, {"n": each}, None) for each in (500, value)),
        return_exceptions=True,
    )
    assert answers[0] is None
    assert isinstance(answers[1], Exception)
    assert await model.count_documents({"n": 500}) == 1


async def test_values_are_stored_as_the_driver_stores_them(model):
    record = {
        "ref": DBRef("records", 1), "text": "\u00e9\0", "list": [{"a": [None]}], "big": 2**40,
        "a.b": 1, "$c": {"$d": 1},
    }  # fmt: skip
    sharing = Shared()
    await asyncio.gather(*(create(sharing, model, record | {"_id": key}, None) for key in "ab"))
    assert await model.find_one({"_id": "a"}) == record | {"_id": "a"}


async def test_a_large_record_goes_on_its_own(model, commands):
    sharing = Shared()
    records = [{"text": "x" * size} for size in (300_000, 1, 1)]
    await asyncio.gather(*(create(sharing, model, record, None) for record in records))
    assert sorted(len(command["documents"]) for command in commands.sent) == [1, 2]
    assert await model.count_documents({"text": {"$exists": True}}) == 4


async def test_a_record_that_is_too_large_concerns_its_own_caller_only(model):
    sharing = Shared()
    answers = await asyncio.gather(
        *(create(sharing, model, {"text": "x" * size}, None) for size in (17_000_000, 1)),
        return_exceptions=True,
    )
    assert isinstance(answers[0], errors.DocumentTooLarge)
    assert answers[1] is None


async def test_a_failed_acknowledgement_reaches_all_but_those_with_an_error_of_their_own(model):
    unsafe = model.with_options(write_concern=WriteConcern(w=3, wtimeout=50))
    sharing = Shared()
    answers = await asyncio.gather(
        *(create(sharing, unsafe, {"_id": key}, None) for key in (1, 60, 61)),
        return_exceptions=True,
    )
    assert isinstance(answers[0], errors.DuplicateKeyError)
    assert all(isinstance(answer, errors.WriteConcernError) for answer in answers[1:])
    assert await model.count_documents({"_id": {"$in": [60, 61]}}) == 2


async def test_no_acknowledgement_is_waited_for_where_none_is_configured(model, commands):
    silent = model.with_options(write_concern=WriteConcern(w=0))
    sharing = Shared()
    await asyncio.gather(*(create(sharing, silent, {"_id": key}, None) for key in (1, 60, 61)))
    assert commands.sent[-1]["writeConcern"] == {"w": 0}


@pytest.mark.parametrize("share", [True, False])
async def test_a_create_that_cannot_end_in_time_fails(model, share):
    sharing = Shared(share)
    answers = await asyncio.gather(
        *(create(sharing, model, {"n": 500}, 1e-9) for _ in range(2)), return_exceptions=True
    )
    assert all(isinstance(answer, errors.PyMongoError) and answer.timeout for answer in answers)


# -- count -----------------------------------------------------------------------------------------

LARGE = [{"$match": {"n": {"$gte": 5}}}, {"$count": "total"}]
NONE = [{"$match": {"n": 77}}, {"$count": "total"}]


async def test_equal_counts_of_one_turn_take_one_query(model, commands):
    sharing = Shared()
    assert await asyncio.gather(*(sharing.count(model, LARGE, None) for _ in range(5))) == [5] * 5
    assert commands.names == ["aggregate"]


async def test_counts_that_differ_do_not_mix(model, commands):
    sharing = Shared()
    totals = await asyncio.gather(
        sharing.count(model, LARGE, None),
        sharing.count(model, NONE, None),
        sharing.count(model, None, None),
        sharing.count(model, LARGE, None, collation=CASE_BLIND),
    )
    assert totals == [5, 0, 11, 5]
    assert sorted(commands.names) == ["aggregate", "aggregate", "aggregate", "count"]


async def test_who_counts_after_a_write_counts_it(model):
    sharing = Shared()
    for n in range(20):
        under_way = [asyncio.ensure_future(sharing.count(model, LARGE, None)) for _ in range(3)]
        await asyncio.sleep(0.0002 * (n % 5))
        await model.insert_one({"n": 100 + n})
        assert await sharing.count(model, LARGE, None) == 6 + n
        await asyncio.gather(*under_way)


async def test_switched_off_each_counts_for_itself(model, commands):
    sharing = Shared({"count": False})
    await asyncio.gather(*(sharing.count(model, LARGE, None) for _ in range(3)))
    assert commands.names == ["aggregate"] * 3


async def test_counts_in_a_session_are_not_shared(model, commands):
    sharing = Shared()
    async with model.database.client.start_session() as session:
        assert await sharing.count(model, LARGE, None, session=session) == 5
        assert sharing.batches._batchers == {}
        assert commands.sent[-1]["lsid"] == session.session_id


# -- through the service ---------------------------------------------------------------------------


async def test_each_caller_of_a_service_gets_its_own_error(model, commands):
    await model.create_index("code", unique=True, sparse=True)
    service = MongoDBService(model)
    commands.sent.clear()
    answers = await asyncio.gather(
        service.create({"_id": "new", "code": "x"}),
        service.create({"_id": "other", "code": "x"}),
        service.create({"_id": 1}),
        service.create({"n": 2**70}),
        service.get("abc"),
        service.get(str(ObjectId())),
        service.get(5, {"query": {"n": 6}}),
        return_exceptions=True,
    )
    assert answers[0] == {"_id": "new", "code": "x"}
    assert [type(answer) for answer in answers[1:4]] == [Conflict, Conflict, BadRequest]
    assert (answers[1].errors, answers[2].errors) == ({"code": "is taken"}, {"_id": "is taken"})
    assert answers[4] == {"_id": "abc", "text": "small"}
    assert [type(answer) for answer in answers[5:]] == [NotFound, NotFound]
    assert commands.names.count("insert") == 1


async def test_calls_of_several_users_whom_a_query_limits_never_mix(model, commands):
    service = MongoDBService(model)
    await model.update_many({}, [{"$set": {"owner": {"$mod": ["$n", 3]}}}])
    commands.sent.clear()
    calls = [(n, user) for n in range(9) for user in range(3)]
    answers = await asyncio.gather(
        *(service.get(n, {"query": {"owner": user}}) for n, user in calls), return_exceptions=True
    )
    for (n, user), answer in zip(calls, answers, strict=True):
        if n % 3 == user:
            assert (answer["_id"], answer["owner"]) == (n, user)
        else:
            assert isinstance(answer, NotFound)
    shared = [command for command in commands.sent if "$in" in str(command["filter"])]
    assert len(shared) == 3


async def test_nothing_is_shared_in_a_transaction(model, commands):
    service = MongoDBService(model)
    async with (
        model.database.client.start_session() as session,
        await session.start_transaction(),
    ):
        inside = {"docdb": {"session": session}}
        await service.create({"_id": "inside"}, inside)
        outside = await asyncio.gather(
            service.get("inside"), service.get("abc"), return_exceptions=True
        )
        assert (await service.get("inside", inside))["_id"] == "inside"
        assert isinstance(outside[0], NotFound)
        assert outside[1]["text"] == "small"
        own = [command for command in commands.sent if command["lsid"] == session.session_id]
    assert (await service.get("inside"))["_id"] == "inside"
    assert [next(iter(command)) for command in own] == ["insert", "find"]


async def test_options_of_a_call_are_the_call_s_own(model, commands):
    service = MongoDBService(model)
    await asyncio.gather(
        service.get(1), service.get(2), service.get(3, {"docdb": {"comment": "mine"}})
    )
    assert sorted(command.get("comment", "") for command in commands.sent) == ["", "mine"]


async def test_another_model_for_one_call_shares_with_no_other(model, commands):
    other = model["others"]
    await other.insert_one({"_id": 1, "n": "other"})
    service = MongoDBService(model)
    here, there = await asyncio.gather(
        service.get(1), service.get(1, {"adapter": {"model": other}})
    )
    assert (here["n"], there["n"]) == (1, "other")


async def test_a_service_by_another_id_finds_it_alone(model, commands):
    service = MongoDBService(model, id="n")
    found = await asyncio.gather(service.get(1), service.get(2))
    assert [record["n"] for record in found] == [1, 2]
    assert [command["filter"] for command in commands.sent] == [{"n": 1}, {"n": 2}]


# -- the wait for a round trip ---------------------------------------------------------------------


async def test_beside_two_patches_that_are_held_up_a_third_goes_at_once(
    watched, model, monkeypatch
):
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", 1000)
    service = MongoDBService(model)
    async with watched.start_session() as session, await session.start_transaction():
        await model.update_many({"_id": {"$in": [0, 1]}}, {"$set": {"n": -1}}, session=session)
        locked = []
        for n in (0, 1):
            locked.append(asyncio.create_task(service.patch(n, {"n": 100})))
            await asyncio.sleep(0.02)
        async with asyncio.timeout(30):
            assert (await service.patch(2, {"n": 102}))["n"] == 102
        assert not any(task.done() for task in locked)
        await session.abort_transaction()
    assert [record["n"] for record in await asyncio.gather(*locked)] == [100] * 2


async def test_writes_that_a_transaction_holds_up_hold_up_nobody_else(watched, model):
    service = MongoDBService(model)
    async with watched.start_session() as session, await session.start_transaction():
        await model.update_many({"_id": {"$in": [0, 1, 3]}}, {"$set": {"n": -1}}, session=session)
        locked = []
        for n in (0, 1, 3):  # as many as may be under way side by side
            locked.append(asyncio.create_task(service.patch(n, {"n": 100})))
            await asyncio.sleep(0.02)
        began = time.monotonic()
        assert (await service.patch(2, {"n": 102}))["n"] == 102  # and nobody comes behind it
        assert time.monotonic() - began < 8
        assert not any(task.done() for task in locked)
        await session.abort_transaction()
    assert [record["n"] for record in await asyncio.gather(*locked)] == [100] * 3


# -- what a transaction has locked -----------------------------------------------------------------

FREE = [ObjectId() for _ in range(20)]
CALLS = {
    "patches": lambda service, n: service.patch(FREE[n], {"on": 1}),
    "patches of a unique key": lambda service, n: service.patch(FREE[n], {"key": n}),
    "creates": lambda service, n: service.create({"key": n, "on": 1}),
    "creates with ids": lambda service, n: service.create({"_id": f"new {n}", "key": n, "on": 1}),
}


@pytest.fixture
async def locked(watched, model):
    """Return a session whose transaction has locked a record, and the unique key 3."""
    await model.create_index("key", unique=True, sparse=True)
    await model.insert_many([{"_id": key, "n": n} for n, key in enumerate(FREE)])
    async with watched.start_session() as session, await session.start_transaction():
        await model.update_one({"_id": FREE[3]}, {"$set": {"n": -1}}, session=session)
        await model.insert_one({"_id": "locked", "key": 3}, session=session)
        yield session


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_what_a_transaction_has_locked_holds_up_its_own_caller_only(model, locked, call):
    service = MongoDBService(model)
    began = time.monotonic()
    calls = [asyncio.ensure_future(call(service, n)) for n in range(20)]
    free = await asyncio.gather(*calls[:3], *calls[4:])
    assert time.monotonic() - began < 5  # 10 is the time limit
    assert all("on" in record or "key" in record for record in free)
    assert not calls[3].done()
    await locked.abort_transaction()
    record = await calls[3]
    assert record.get("key", record.get("on")) in {1, 3}
    stored = [await model.find_one({"_id": record["_id"]}) for record in [*free, record]]
    assert stored == [*free, record]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_server_without_killing_lets_the_write_go_on(model, locked, call, monkeypatch):
    database = type(model.database)
    monkeypatch.setattr(database, "command", refuse)
    service = MongoDBService(model)
    calls = [asyncio.ensure_future(call(service, n)) for n in range(20)]
    await asyncio.sleep(0.3)
    await locked.abort_transaction()
    assert len(await asyncio.gather(*calls)) == 20


async def refuse(*_, **__):
    raise errors.OperationFailure("no such command", 59)


async def test_a_stopped_write_that_is_not_acknowledged_is_an_error(model, locked):
    unsafe = model.with_options(write_concern=WriteConcern(w=3, wtimeout=50))
    service = MongoDBService(unsafe)
    calls = [asyncio.ensure_future(service.patch(key, {"on": 1})) for key in FREE[:6]]
    results = await asyncio.gather(*calls[:3], return_exceptions=True)
    assert not any(isinstance(result, dict) for result in results)
    await locked.abort_transaction()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_busy_server_has_more_time(model, monkeypatch):
    patience = Patience()
    killed = []

    async def kill(*arguments, **_):
        killed.append(arguments)

    def taking(seconds):
        return lambda _: asyncio.sleep(seconds)

    monkeypatch.setattr(type(model.database), "command", kill)
    for seconds in (0.05, 0.3, 0.5, 1):
        await patience.write(model, [], taking(seconds))
        assert len(killed) == 0
    await patience.write(model, [], taking(2.2))  # not for ever
    assert len(killed) == 1
    await Patience().write(model, [], taking(0.3))
    assert len(killed) == 2


@pytest.fixture
def stopped_while_waiting(model, monkeypatch):
    """Return a function: shared writes are done, and stopped while they wait, with this code."""

    def stop(code):
        is_stopped = asyncio.Event()

        async def kill(*_, **__):
            is_stopped.set()

        def interrupted(write):
            async def send(*arguments, **options):
                failures = []
                try:
                    await write(*arguments, **options)
                except errors.BulkWriteError as error:
                    failures = error.details["writeErrors"]
                await is_stopped.wait()
                wait = {"code": code, "errmsg": "operation was interrupted"}
                raise errors.BulkWriteError({"writeErrors": failures, "writeConcernErrors": [wait]})

            return send

        monkeypatch.setattr(type(model.database), "command", kill)
        for name in ("insert_many", "bulk_write"):
            monkeypatch.setattr(type(model), name, interrupted(getattr(type(model), name)))

    return stop


INTERRUPTED = 11601


@pytest.mark.parametrize("taken", [(), (3,), range(6)], ids=["none", "one", "all"])
async def test_creates_that_are_stopped_while_they_wait_are_done(
    model, stopped_while_waiting, monkeypatch, taken
):
    acknowledged = []

    async def acknowledge(_, id):
        acknowledged.append(id)

    monkeypatch.setattr(batches, "acknowledge", acknowledge)
    await model.insert_many([{"_id": f"new {n}"} for n in taken] or [{"_id": "other"}])
    stopped_while_waiting(INTERRUPTED)
    service = MongoDBService(model)
    calls = [service.create({"_id": f"new {n}", "on": n}) for n in range(6)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    for n, result in enumerate(results):
        if n in taken:
            assert isinstance(result, Conflict)
        else:
            assert result == {"_id": f"new {n}", "on": n}
            assert await model.find_one({"_id": f"new {n}"}) == result
    assert acknowledged == ([] if len(taken) == 6 else ["new 0"])


async def test_patches_that_are_stopped_while_they_wait_are_done(model, stopped_while_waiting):
    await model.insert_many([{"_id": key, "n": n} for n, key in enumerate(FREE)])
    stopped_while_waiting(INTERRUPTED)
    service = MongoDBService(model)
    results = await asyncio.gather(*(service.patch(key, {"on": 1}) for key in FREE))
    assert results == [{"_id": key, "n": n, "on": 1} for n, key in enumerate(FREE)]


async def test_a_stopped_write_whose_acknowledgement_fails_is_an_error(
    model, stopped_while_waiting
):
    stopped_while_waiting(64)
    service = MongoDBService(model)
    calls = [service.create({"_id": f"new {n}"}) for n in range(6)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(result, Timeout | Unavailable) for result in results)


async def test_who_is_cancelled_cancels_the_write(model):
    ended = []

    async def write(session):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    task = asyncio.ensure_future(Patience().write(model, [], write))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert ended == [True]


@pytest.mark.parametrize(
    ("is_stored", "result", "ids"),
    [(True, None, ["new 0"]), (False, ALONE, [])],
    ids=["stored", "not stored"],
)
async def test_what_a_stopped_command_has_stored_is_looked_up(
    model, monkeypatch, is_stored, result, ids
):
    acknowledged = []

    async def acknowledge(_, id):
        acknowledged.append(id)

    class Stopping:
        async def write(self, model, ids, write):
            if is_stored:
                await write()
            raise WriteStopped

    monkeypatch.setattr(batches, "acknowledge", acknowledge)
    records = [bson.encode({"_id": f"new {n}"}) for n in range(2)]
    assert await batches.insert_batch(model, Stopping(), records) == [result] * 2
    assert acknowledged == ids


async def test_equal_records_with_one_id_are_stored_once(model, locked):
    service = MongoDBService(model)
    data = [{"_id": f"n{n % 3}", "key": n % 3 + 10} for n in range(6)]
    calls = [asyncio.ensure_future(service.create(record)) for record in data]
    calls.append(asyncio.ensure_future(service.create({"key": 3})))
    results = await asyncio.gather(*calls[:6], return_exceptions=True)
    assert [type(result) for result in results] == [dict] * 3 + [Conflict] * 3
    await locked.abort_transaction()
    await calls[6]


@pytest.mark.parametrize("way", ["in a transaction", "outside"])
async def test_a_call_within_a_transaction_is_not_shared(model, commands, way):
    service = MongoDBService(model)
    calls = [service.get(1), service.get(2)]
    if way == "outside":
        await asyncio.gather(*calls)
    else:
        with HeldEvents(lambda _: False):
            await asyncio.gather(*calls, service.find(), service.patch(1, {"n": 5}))
            await service.create({"n": 1})
    assert commands.names[:2] == (["find"] if way == "outside" else ["find", "find"])


async def test_a_hook_in_a_transaction_does_not_wait_for_itself(watched, model):
    app = App()
    app.use("notes", MongoDBService(model, paginate={"default": 2}))
    notes = app.service("notes")
    await model.insert_many([{"_id": key, "n": n} for n, key in enumerate(FREE)])
    others = []

    class Jobs:
        async def create(self, data, params=None):
            await notes.patch(FREE[0], {"n": 100}, docdb=params.docdb)
            others.extend(asyncio.ensure_future(notes.patch(key, {"n": -1})) for key in FREE[:4])
            # Beside others of which one waits for the transaction.
            await asyncio.gather(*(notes.patch(key, {"n": 200}) for key in FREE[4:8]))
            return {}

    app.use("jobs", Jobs())
    app.service("jobs").hooks(around={"create": [transaction(watched)]})
    async with asyncio.timeout(8):  # 10 is the time limit
        await app.service("jobs").create({})
        assert [record["n"] for record in await asyncio.gather(*others)] == [-1] * 4


async def test_where_the_server_is_gone_all_wait_equally_long():
    url = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=3000"
    async with AsyncMongoClient(url) as client:
        # Without a limit of the service, that of the client holds.
        service = MongoDBService(client["alula_sharing"]["gone"], max_time_ms=False)
        began = time.monotonic()
        calls = []
        for n in range(3):
            calls += [asyncio.create_task(service.get(n)), asyncio.create_task(service.get(n))]
            await asyncio.sleep(0.02)
        ended = await asyncio.gather(*calls, return_exceptions=True)
        took = time.monotonic() - began
    assert {type(error) for error in ended} == {Unavailable}
    assert took < 5.5
