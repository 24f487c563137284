"""Patches that share round trips: they do and answer what each of them would alone."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations

import pytest
from bson import CodecOptions, DatetimeMS, Decimal128, Int64, ObjectId
from bson.codec_options import DatetimeConversion
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import AsyncMongoClient, MongoClient, WriteConcern, monitoring
from pymongo.errors import OperationFailure

from alula.adapters.mongodb import MongoDBService, _batches
from alula.adapters.mongodb._model import with_decimals
from alula.adapters.mongodb._options import limited
from alula.errors import BadRequest, Conflict, GeneralError, NotFound, Timeout, Unavailable

DATABASE = "alula_patches"
KEYS = [ObjectId() for _ in range(10)]


class Commands(monitoring.CommandListener):
    """Keeps the names of the commands that a client sends, and does something after a read."""

    def __init__(self, url: str) -> None:
        self.names: list[str] = []
        self.url = url
        self.meanwhile = None

    def started(self, event):
        if event.command_name in ("find", "update", "findAndModify"):
            self.names.append(event.command_name)

    def succeeded(self, event):
        if event.command_name == "find" and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            with MongoClient(self.url) as client:
                meanwhile(client[event.database_name][event.reply["cursor"]["ns"].split(".", 1)[1]])

    def failed(self, event): ...


@pytest.fixture(scope="module")
def commands(mongodb_url):
    return Commands(mongodb_url)


@pytest.fixture(scope="module")
async def watched(mongodb_url, commands):
    async with AsyncMongoClient(mongodb_url, event_listeners=[commands]) as client:
        yield client
        await client.drop_database(DATABASE)


@pytest.fixture
async def model(watched, commands):
    collection = watched[DATABASE][f"c{ObjectId()}"]
    await collection.insert_many([{"_id": key, "n": n, "on": 0} for n, key in enumerate(KEYS)])
    commands.names.clear()
    yield collection
    await collection.drop()


@pytest.fixture
def patch(model):
    """Patches records of the collection side by side: ``(id, data)`` or ``(id, data, params)``."""
    service = MongoDBService(model)

    async def run(*calls):
        return await asyncio.gather(
            *(service.patch(*call) for call in calls), return_exceptions=True
        )

    return run


async def stored(model, *keys):
    return [await model.find_one({"_id": key}) for key in keys]


# -- what is sent ----------------------------------------------------------------------------------


async def test_patches_of_one_turn_take_one_read_and_one_write(model, commands, patch):
    records = await patch(*((key, {"on": n}) for n, key in enumerate(KEYS)))
    assert records == [{"_id": key, "n": n, "on": n} for n, key in enumerate(KEYS)]
    assert commands.names == ["find", "update"]
    assert await model.find().sort("n").to_list() == records


async def test_one_alone_takes_one_command(model, commands, patch):
    assert await patch((KEYS[1], {"on": 5})) == [{"_id": KEYS[1], "n": 1, "on": 5}]
    assert commands.names == ["findAndModify"]


async def test_two_take_a_command_each_and_neither_fails_for_the_other(model, commands, patch):
    await model.create_index("code", unique=True, sparse=True)
    await model.insert_one({"_id": 1, "code": "x"})
    answers = await patch((KEYS[1], {"on": 5}), (KEYS[2], {"code": "x"}))
    assert answers[0] == {"_id": KEYS[1], "n": 1, "on": 5}
    assert isinstance(answers[1], Conflict)
    assert commands.names == ["findAndModify"] * 2


async def test_many_of_one_turn_go_together_too(model, commands, patch):
    keys = list(range(100, 160))
    await model.insert_many([{"_id": key, "n": key} for key in keys])
    commands.names.clear()
    records = await patch(*((key, {"on": True}) for key in keys))
    assert records == [{"_id": key, "n": key, "on": True} for key in keys]
    assert commands.names == ["find", "update"]


@pytest.mark.parametrize("share", [False, {"patch": False}])
async def test_switched_off_each_takes_its_own(model, commands, share):
    service = MongoDBService(model, share=share)
    await asyncio.gather(*(service.patch(key, {"on": 5}) for key in KEYS))
    assert commands.names == ["findAndModify"] * 10


@pytest.mark.parametrize(
    ("data", "params"),
    [
        ({"$inc": {"on": 1}}, {}),
        ({"on": 1, "$inc": {"n": 1}}, {}),
        ({"a.b": 1}, {}),
        ({"on": "x" * 20_000}, {}),
        ({"on": 1}, {"docdb": {}}),
        ({"on": 1}, {"collation": {"locale": "en"}}),
        ({"on": 1}, {"query": {"$select": ["on"]}}),
    ],
    ids=["operator", "operator and field", "path", "large", "docdb", "collation", "select"],
)
async def test_what_the_database_has_to_work_out_goes_alone(commands, patch, data, params):
    answers = await patch(*((key, data, params) for key in KEYS[:4]))
    assert [answer["_id"] for answer in answers] == KEYS[:4]
    assert commands.names == ["findAndModify"] * 4


async def test_ids_that_a_collation_may_take_for_another_go_alone(model, commands):
    await model.insert_many([{"_id": key, "n": 1} for key in "abc"])
    service = MongoDBService(model)
    await asyncio.gather(*(service.patch(key, {"on": 1}) for key in "abc"))
    assert commands.names == ["findAndModify"] * 3
    commands.names.clear()
    by_another = MongoDBService(model, id="n")
    await asyncio.gather(*(by_another.patch(n, {"on": 1}) for n in range(3)))
    assert commands.names == ["findAndModify"] * 3


async def test_no_acknowledgement_is_waited_for_where_none_is_configured(model, commands):
    service = MongoDBService(model.with_options(write_concern=WriteConcern(w=0)))
    patches = [service.patch(key, {"on": 1}) for key in KEYS]
    await asyncio.gather(*patches, return_exceptions=True)
    assert commands.names == ["findAndModify"] * 10


async def test_nothing_is_kept_when_all_have_left(model):
    service = MongoDBService(model)
    await asyncio.gather(*(service.patch(key, {"on": 1}) for key in KEYS))
    await asyncio.gather(*(service.patch(KEYS[1], {"on": n}) for n in range(9)))
    await asyncio.sleep(0)
    assert service._batches._batchers == {}
    assert service._batches._changes._batchers == {}
    assert service._batches._changes._first == {}


# -- what is answered ------------------------------------------------------------------------------

VALUES = [
    {"z": 1, "a": 2, "on": 3, "B": 4},
    {"on": {"x": [1, {"y": None}]}},
    {"on": None},
    {"at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)},
    {"list": (1, 2)},
    {
        "many": Int64(2**40),
        "exact": Decimal128("1.50"),
        "ref": ObjectId("6b0000000000000000000000"),
    },
    {"on": {"$odd": 1, "dotted.name": 2}},
    {"$set": {"on": 9}},
]


@pytest.mark.parametrize("data", VALUES, ids=repr)
async def test_the_answer_is_the_record_as_it_is_then(model, commands, patch, data):
    answers = await patch((KEYS[1], data), (KEYS[2], data), (KEYS[3], data))
    assert commands.names == ["find", "update"]
    for answer, record in zip(answers, await stored(with_decimals(model), *KEYS[1:4]), strict=True):
        assert list(answer.items()) == list(record.items())
    alone = await MongoDBService(model, share=False).patch(KEYS[4], data)
    assert list(alone) == list(answers[0])


names = st.text("abcZ_09é", min_size=1, max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5)
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
fields = st.dictionaries(names, values, max_size=4)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(st.tuples(fields, fields), min_size=2, max_size=6))
async def test_in_company_patches_do_what_they_do_alone(model, records):
    pairs = [(ObjectId(), ObjectId(), *each) for each in records]
    both = [{"_id": key, **before} for *keys, before, _ in pairs for key in keys]
    await model.insert_many(both)
    shared, plain = MongoDBService(model), MongoDBService(model, share=False)
    answers = await asyncio.gather(*(shared.patch(key, changes) for key, _, _, changes in pairs))
    for (key, other, _, changes), answer in zip(pairs, answers, strict=True):
        assert [answer] == await stored(model, key)
        assert {**answer, "_id": other} == await plain.patch(other, changes)
        (then,) = await stored(model, other)
        assert [type(value) for value in answer.values()] == [type(then[name]) for name in answer]


async def test_patches_of_one_record_take_effect_in_turn_in_one_read_and_one_write(
    model, commands, patch
):
    answers = await patch(*((KEYS[1], {f"f{n}": n, "on": n}) for n in range(8)))
    expected = {"_id": KEYS[1], "n": 1}
    for n, answer in enumerate(answers):
        expected |= {f"f{n}": n, "on": n}
        assert answer == expected
    assert commands.names == ["findAndModify", "find", "update"]
    assert await stored(model, KEYS[1]) == [answers[-1]]


async def test_each_patch_of_one_record_meets_the_query_after_the_one_before(
    model, commands, patch
):
    calls = [(KEYS[1], {"on": n}, {"query": {"on": {"$lt": 3}}}) for n in range(6)]
    answers = await patch(*calls)
    assert NotFound in map(type, answers)
    (last,) = await stored(model, KEYS[1])
    assert [answer for answer in answers if isinstance(answer, dict)].count(last) == 1
    assert last["on"] >= 3
    commands.names.clear()
    query = {"n": {"$lt": 5}, "$or": [{"n": 2}, {"other.deep": 1}]}
    answers = await patch(*((KEYS[2], {"on": n}, {"query": query}) for n in range(6)))
    assert [answer["on"] for answer in answers] == [*range(6)]
    assert commands.names == ["findAndModify", "find", "update"]


@pytest.mark.parametrize(
    ("filter", "fields"),
    [
        ({}, set()),
        ({"a.b": 1, "c": {"$gt": 1}}, {"a", "c"}),
        ({"$and": [{"a": 1}, {"$or": [{"b.c": 1}, {"$nor": [{"d": 1}]}]}]}, {"a", "b", "d"}),
        ({"$expr": {"$gt": ["$a", "$b"]}}, None),
        ({"a": 1, "$or": [{"b": 1}, {"$text": {"$search": "x"}}]}, None),
    ],
)
def test_the_fields_that_a_filter_tests(filter, fields):
    assert _batches.fields_tested(filter) == fields


async def test_a_refused_patch_of_one_record_costs_the_others_nothing(model, commands, patch):
    await model.create_index("code", unique=True, sparse=True)
    await model.insert_one({"_id": 1, "code": "x"})
    answers = await patch(*((KEYS[1], {"code": code}) for code in ("a", "b", "x", "c", "d")))
    assert [type(answer) for answer in answers] == [dict, dict, Conflict, dict, dict]
    for code, answer in zip("ab cd", answers, strict=True):
        assert code == " " or answer == {"_id": KEYS[1], "n": 1, "on": 0, "code": code}
    (last,) = await stored(model, KEYS[1])
    assert last["code"] in "cd"


async def test_patches_of_one_record_that_grows_large_go_alone(model, commands, patch):
    answers = await patch(*((KEYS[1], {f"f{n}": "x" * 9_000}) for n in range(5)))
    assert sorted(len(answer) for answer in answers) == [4, 5, 6, 7, 8]
    assert len((await stored(model, KEYS[1]))[0]) == 8


async def test_what_python_cannot_read_of_one_record_goes_alone(watched, commands):
    codec = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS, tz_aware=True)
    model = watched[DATABASE].get_collection(f"c{ObjectId()}", codec)
    await model.insert_one({"_id": 1, "far": DatetimeMS(2**60)})
    service = MongoDBService(model)
    answers = await asyncio.gather(*(service.patch(1, {f"f{n}": n}) for n in range(5)))
    assert sorted(len(answer) for answer in answers) == [3, 4, 5, 6, 7]
    await model.drop()


one_of_a_few = st.tuples(
    st.integers(0, 1),
    st.fixed_dictionaries({}, optional={name: st.integers(0, 2) for name in ("a", "b", "on")}),
    st.sampled_from([{}, {}, {"on": 0}, {"a": {"$ne": 1}}]),
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(calls=st.lists(one_of_a_few, min_size=2, max_size=6))
async def test_in_company_patches_do_what_they_do_in_some_order(model, calls):
    keys = [ObjectId(), ObjectId()]
    await model.insert_many([{"_id": key, "on": 0} for key in keys])
    service = MongoDBService(model)
    answers = await asyncio.gather(
        *(service.patch(keys[at], changes, {"query": query}) for at, changes, query in calls),
        return_exceptions=True,
    )
    for at, key in enumerate(keys):
        own = [n for n, call in enumerate(calls) if call[0] == at]
        (last,) = await stored(model, key)
        assert any(
            one_by_one({"_id": key, "on": 0}, [(*calls[n][1:], answers[n]) for n in order]) == last
            for order in permutations(own)
        )


def one_by_one(record, calls):
    """Return the record after patches in this order; None if one would be answered otherwise."""
    for changes, query, answer in calls:
        is_met = ("on" not in query or record["on"] == 0) and (
            "a" not in query or record.get("a") != 1
        )
        if is_met:
            record = {**record, **changes}
        if answer != record if is_met else not isinstance(answer, NotFound):
            return None
    return record


async def test_of_rivals_for_one_record_one_wins(model, patch):
    """Whoever patches what is free must not be told so when somebody else has it."""
    calls = [(KEYS[1], {"on": n}, {"query": {"on": 0}}) for n in range(1, 9)]
    answers = await patch((KEYS[2], {"on": 1}, {"query": {"on": 0}}), *calls)
    won = [answer for answer in answers[1:] if isinstance(answer, dict)]
    assert [type(answer) for answer in answers[1:]].count(NotFound) == 7
    assert won == await stored(model, KEYS[1])


async def test_a_number_that_compares_as_equal_matches(model, patch):
    await model.insert_many([{"_id": Decimal128("5"), "n": 5}, {"_id": 6.0, "n": 6}])
    answers = await patch((5, {"on": 1}), (6, {"on": 2}), (KEYS[0], {"on": 3}))
    assert [answer["on"] for answer in answers] == [1, 2, 3]
    assert [type(answer["_id"]) for answer in answers[:2]] == [Decimal, float]


@pytest.mark.parametrize(
    "data",
    [
        {"$set": {"$odd": 1}},
        {"on": {"$ref": 1}},
        {"on": {"$id": 1, "$ref": "x"}},
        {"on": {"$db": [{"": 1}]}},
        {"$set": {"on": 1, "on.deep": 2}},
        {"tags": [{"$each": [1]}]},
    ],
    ids=repr,
)
async def test_in_company_the_database_takes_and_refuses_what_it_does_alone(model, patch, data):
    answers = await patch(*((key, data) for key in KEYS[:3]))
    alone = MongoDBService(model, share=False).patch(KEYS[3], data)
    (expected,) = await asyncio.gather(alone, return_exceptions=True)
    for key, answer in zip(KEYS, answers, strict=False):
        assert type(answer) is type(expected)
        assert isinstance(answer, BadRequest) or [answer] == await stored(model, key)


# -- what comes in between -------------------------------------------------------------------------


async def test_a_write_between_read_and_write_is_neither_lost_nor_hidden(model, commands, patch):
    def meanwhile(collection):
        collection.update_one({"_id": KEYS[1]}, {"$set": {"other": 1}})
        collection.delete_one({"_id": KEYS[2]})
        collection.update_one({"_id": KEYS[3]}, {"$set": {"on": 1}})

    commands.meanwhile = meanwhile
    answers = await patch(*((key, {"on": 5}, {"query": {"on": 0}}) for key in KEYS[:5]))
    assert commands.names == ["find", "update", *["findAndModify"] * 3]
    assert answers[1] == {"_id": KEYS[1], "n": 1, "on": 5, "other": 1}
    assert [type(answer) for answer in answers[2:4]] == [NotFound, NotFound]
    assert [answer["on"] for answer in (answers[0], answers[4])] == [5, 5]
    assert await stored(model, *KEYS[1:4]) == [
        answers[1], None, {"_id": KEYS[3], "n": 3, "on": 1}
    ]  # fmt: skip


async def test_a_collation_does_not_hide_that_a_record_has_changed(watched, commands):
    case_blind = {"locale": "en", "strength": 1}
    model = await watched[DATABASE].create_collection(f"c{ObjectId()}", collation=case_blind)
    await model.insert_many([{"_id": key, "name": "ann"} for key in KEYS])
    commands.meanwhile = lambda it: it.update_one({"_id": KEYS[1]}, {"$set": {"name": "ANN"}})
    service = MongoDBService(model)
    answers = await asyncio.gather(*(service.patch(key, {"on": 1}) for key in KEYS[:3]))
    assert [answer["name"] for answer in answers] == ["ann", "ANN", "ann"]
    await model.drop()


async def test_a_record_without_fields_is_not_made_anew_when_it_is_removed(model, commands, patch):
    empty = [ObjectId(), ObjectId(), ObjectId()]
    await model.insert_many([{"_id": key} for key in empty])
    commands.meanwhile = lambda collection: collection.delete_one({"_id": empty[1]})
    answers = await patch(*((key, {"on": 5}) for key in empty))
    assert answers[0] == {"_id": empty[0], "on": 5}
    assert isinstance(answers[1], NotFound)
    assert commands.names == ["find", *["findAndModify"] * 3]
    assert await stored(model, empty[1]) == [None]


async def test_the_collection_is_dropped_in_between(model, commands, patch):
    commands.meanwhile = lambda collection: collection.drop()
    answers = await patch(*((key, {"on": 5}) for key in KEYS[:3]))
    assert [type(answer) for answer in answers] == [NotFound] * 3
    assert await model.count_documents({}) == 0


# -- what concerns one caller ----------------------------------------------------------------------


async def test_what_concerns_one_reaches_its_caller_only(model, commands, patch):
    await model.create_index("code", unique=True, sparse=True)
    await model.insert_one({"_id": 1, "code": "x"})
    answers = await patch(
        (KEYS[0], {"code": "x"}),
        (KEYS[1], {"code": "y"}),
        (ObjectId(), {"on": 1}),
        (KEYS[2], {"on": 2**70}),
        (KEYS[3], {"on": object()}),
        (KEYS[4], {"": 1}),
        (KEYS[5], {"on": 1}, {"query": {"n": 6}}),
        ("none", {"on": 1}),
        (KEYS[6], {}),
    )
    assert [type(answer) for answer in answers] == [
        Conflict, dict, NotFound, BadRequest, BadRequest, BadRequest, NotFound, NotFound, dict
    ]  # fmt: skip
    assert answers[0].errors == {"code": "is taken"}
    assert answers[1]["code"] == "y"


async def test_a_record_that_the_collection_refuses(watched, commands):
    rule = {"on": {"$lt": 10}}
    model = await watched[DATABASE].create_collection(f"c{ObjectId()}", validator=rule)
    await model.insert_many([{"_id": n, "on": n} for n in range(3)])
    service = MongoDBService(model)
    answers = await asyncio.gather(
        *(service.patch(n, {"on": 11 - n}) for n in range(3)), return_exceptions=True
    )
    assert [type(answer) for answer in answers[:2]] == [BadRequest] * 2
    assert answers[2] == {"_id": 2, "on": 9}
    await model.drop()


async def test_records_that_are_large_or_cannot_be_read_go_alone(model, commands, patch):
    await model.insert_one({"_id": 1, "text": "x" * 20_000})
    await model.insert_one({"_id": 2, "far": DatetimeMS(2**60)})
    commands.names.clear()
    unreadable = {"on": DatetimeMS(2**60)}
    data = {1: {"on": 1}, 2: {"on": 1}, KEYS[1]: {"on": 1}, KEYS[2]: unreadable}
    answers = await patch(*data.items())
    assert answers[0]["on"] == answers[2]["on"] == 1
    assert [type(answer) for answer in answers[1::2]] == [GeneralError] * 2
    assert commands.names == ["find", "update", *["findAndModify"] * 3]


async def test_as_deeply_as_the_database_stores_them_records_can_be_patched(model, commands, patch):
    deep = 1
    for _ in range(178):
        deep = {"a": deep}
    await model.insert_one({"_id": 1, "deep": deep})
    commands.names.clear()
    answers = await patch((1, {"on": 1}), (KEYS[1], {"on": 1}), (KEYS[2], {"on": 1}))
    assert [answer["on"] for answer in answers] == [1, 1, 1]
    assert commands.names == ["find", "update"]


async def test_users_whom_a_query_limits_never_mix(model, patch):
    await model.update_many({}, [{"$set": {"owner": {"$mod": ["$n", 3]}}}])
    calls = [(n, user) for n in range(9) for user in range(3)]
    params = [{"query": {"owner": user}} for user in range(3)]
    answers = await patch(*((KEYS[n], {"on": user}, params[user]) for n, user in calls))
    for (n, user), answer in zip(calls, answers, strict=True):
        assert isinstance(answer, dict if n % 3 == user else NotFound)
    records = await model.find({"n": {"$lt": 9}}).to_list()
    assert [record["on"] for record in records] == [record["owner"] for record in records]


async def test_a_cancelled_caller_hurts_no_other(model):
    service = MongoDBService(model)
    tasks = [asyncio.ensure_future(service.patch(key, {"on": 5})) for key in KEYS[:4]]
    await asyncio.sleep(0)
    tasks[0].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert [record["on"] for record in found[1:]] == [5, 5, 5]


# -- what concerns all -----------------------------------------------------------------------------


async def test_a_failed_acknowledgement_reaches_all(model, commands):
    unsafe = model.with_options(write_concern=WriteConcern(w=3, wtimeout=50))
    service = MongoDBService(unsafe)
    answers = await asyncio.gather(
        *(service.patch(key, {"on": 5}) for key in KEYS[:3]),
        service.patch(ObjectId(), {"on": 5}),
        return_exceptions=True,
    )
    assert not any(isinstance(answer, dict) for answer in answers)
    assert commands.names[:2] == ["find", "update"]


async def test_over_time_is_over_time_for_all(model, commands):
    commands.meanwhile = lambda _: time.sleep(0.2)  # on the way back of the read
    service = MongoDBService(model, max_time_ms=100)
    answers = await asyncio.gather(
        *(service.patch(key, {"on": 5}) for key in KEYS[:3]), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [Timeout] * 3


@pytest.mark.parametrize("max_time_ms", [10_000, False])
async def test_one_that_goes_alone_after_its_batch_has_the_time_that_is_left(
    model, commands, monkeypatch, max_time_ms
):
    limits = []

    def kept(seconds):
        limits.append(seconds)
        return limited(seconds)

    monkeypatch.setattr(_batches, "limited", kept)

    def meanwhile(collection):
        collection.update_one({"_id": KEYS[1]}, {"$set": {"other": 1}})
        time.sleep(0.1)

    commands.meanwhile = meanwhile
    service = MongoDBService(model, max_time_ms=max_time_ms)
    answers = await asyncio.gather(*(service.patch(key, {"on": 5}) for key in KEYS[:3]))
    assert [answer["on"] for answer in answers] == [5, 5, 5]
    assert commands.names == ["find", "update", "findAndModify"]
    left = limits[-1]
    assert left < 9.9 if max_time_ms else left is None


async def test_one_that_goes_alone_with_no_time_left_is_over_time(model, commands, monkeypatch):
    def later():
        return time.monotonic() + (10 if len(commands.names) > 1 else 0)

    monkeypatch.setattr(_batches, "time", later)
    commands.meanwhile = lambda it: it.update_one({"_id": KEYS[1]}, {"$set": {"other": 1}})
    service = MongoDBService(model, max_time_ms=2_000)
    answers = await asyncio.gather(
        *(service.patch(key, {"on": 5}) for key in KEYS[:3]), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [dict, Timeout, dict]


async def test_what_cannot_be_reached_is_unavailable_for_all(unreachable):
    service = MongoDBService(unreachable, max_time_ms=False)
    answers = await asyncio.gather(
        *(service.patch(n, {"on": 1}) for n in range(3)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [Unavailable] * 3


@pytest.mark.parametrize(("code", "expected"), [(13, dict), (40324, dict), (8, GeneralError)])
async def test_where_the_database_refuses_the_write_as_such_all_go_alone(
    model, commands, monkeypatch, code, expected
):
    """Somebody may patch but not insert, or the server is one that only looks like MongoDB."""

    async def refuse(*_, **__):
        raise OperationFailure("no", code)

    monkeypatch.setattr(type(model), "bulk_write", refuse)
    service = MongoDBService(model)
    answers = await asyncio.gather(
        *(service.patch(key, {"on": 5}) for key in KEYS[:3]), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [expected] * 3


@pytest.mark.parametrize("done", range(5))
async def test_a_stopped_write_of_one_record_may_have_done_the_first_ones(
    model, commands, monkeypatch, done
):
    bulk_write = type(model).bulk_write

    async def stop(self, statements, **options):
        monkeypatch.undo()
        if done:
            await bulk_write(self, statements[:done], **options)
        raise _batches.WriteStopped

    service = MongoDBService(model)
    monkeypatch.setattr(type(model), "bulk_write", stop)
    names = [f"f{n}" for n in range(5)]
    answers = await asyncio.gather(*(service.patch(KEYS[1], {name: 1}) for name in names))
    assert [list(answer)[3:] for answer in answers[: done + 1]] == [
        names[: n + 1] for n in range(done + 1)
    ]
    (last,) = await stored(model, KEYS[1])
    assert len(last) == 8
    alone = [name for name in commands.names if name == "findAndModify"]
    assert len(alone) == 1 + 4 - done  # the first one, and those that were not done


async def test_a_stopped_write_that_did_nothing_is_sent_again_for_each(model, monkeypatch):
    is_first = True
    bulk_write = type(model).bulk_write

    async def stop(self, *given, **options):
        nonlocal is_first
        if is_first:
            is_first = False
            raise _batches.WriteStopped
        return await bulk_write(self, *given, **options)

    monkeypatch.setattr(type(model), "bulk_write", stop)
    service = MongoDBService(model)
    answers = await asyncio.gather(*(service.patch(key, {"on": 5}) for key in KEYS[:3]))
    assert [answer["on"] for answer in answers] == [5] * 3
    assert not is_first
    assert await model.count_documents({"on": 5}) == 3
