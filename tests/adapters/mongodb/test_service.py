"""The service on a real server, beyond what every adapter does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from bson import DatetimeMS, ObjectId
from pymongo import AsyncMongoClient, monitoring
from pymongo.errors import OperationFailure
from tests.adapters.caller import names_of_caller
from tests.adapters.mongodb.conftest import DATABASE

from alula._context import Params
from alula.adapters._result_bounds import MAX_RESULT
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.errors import BadRequest, Conflict, NotFound, Unavailable
from alula.query import EMPTY_QUERY

HEX = "64b0000000000000000000d1"
ID = ObjectId(HEX)
CASE_BLIND = {"locale": "en", "strength": 2}
PEOPLE = [
    {"_id": 1, "name": "Ada", "age": 36, "tags": ["a", "b"], "home": {"town": "Rome"}},
    {"_id": 2, "name": "bela", "age": 25, "tags": ["b"]},
    {"_id": 3, "name": "Cleo", "age": 19, "tags": []},
    {"_id": 4, "name": "ada", "age": 52, "tags": ["a", "b", "c"]},
]


@pytest.fixture
async def people(collection):
    await collection.insert_many([dict(each) for each in PEOPLE])
    return MongoDBService(collection, multi=True)


def keys(records):
    return [record["_id"] for record in records]


class Commands(monitoring.CommandListener):
    """Keeps the names of the commands that a client sends."""

    def __init__(self):
        self.sent = []

    def started(self, event):
        self.sent.append(event.command_name)

    def succeeded(self, event): ...

    def failed(self, event): ...


@pytest.fixture
async def watched(mongodb_url):
    """A service with the commands that it sends."""
    commands = Commands()
    async with AsyncMongoClient(mongodb_url, event_listeners=[commands]) as client:
        collection = client[DATABASE][f"c{ObjectId()}"]
        await collection.insert_many([dict(each) for each in PEOPLE])
        commands.sent.clear()
        yield MongoDBService(collection, multi=True), commands.sent
        await collection.drop()


# -- one round trip --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "arguments", "command"),
    [
        ("get", (1,), "find"),
        ("create", ({"name": "x"},), "insert"),
        ("update", (1, {"name": "x"}), "findAndModify"),
        ("update", (1, {"$inc": {"age": 1}}), "findAndModify"),
        ("patch", (1, {"name": "x"}), "findAndModify"),
        ("remove", (1,), "findAndModify"),
        ("find", (), "aggregate"),
        ("find", ({"docdb": {"comment": "c"}},), "find"),
    ],
)
async def test_one_record_takes_one_round_trip(watched, method, arguments, command):
    service, sent = watched
    await getattr(service, method)(*arguments)
    assert sent == [command]


async def test_a_patch_of_nothing_writes_nothing(watched):
    service, sent = watched
    assert (await service.patch(1, {"_id": 9}))["name"] == "Ada"
    assert keys(await service.patch(None, {}, {"query": {"age": {"$lt": 30}}})) == [2, 3]
    assert set(sent) == {"find"}


@pytest.mark.parametrize(("method", "data"), [("patch", [{"seen": 1}]), ("remove", [])])
async def test_several_records_change_in_one_transaction(watched, method, data):
    service, sent = watched
    await getattr(service, method)(None, *data)
    assert sent[-1] == "commitTransaction"


# -- ids -------------------------------------------------------------------------------------------


async def test_digits_stand_for_an_object_id(people, collection):
    assert (await people.create({"_id": HEX}))["_id"] == ID
    for each in (HEX, HEX.upper(), ID):
        assert (await people.get(each))["_id"] == ID
    assert keys(await people.find({"query": {"_id": {"$in": [HEX, 2]}}})) == [2, ID]
    assert keys(await people.find({"query": {"$or": [{"_id": HEX}]}})) == [ID]
    assert (await people.patch(HEX, {"a": 1}))["_id"] == ID
    assert (await people.update(HEX, {"a": 2}))["_id"] == ID
    assert (await people.remove(HEX))["_id"] == ID


async def test_ids_may_stay_text(service):
    slugs = service(disable_objectify=True)
    assert (await slugs.create({"_id": HEX}))["_id"] == HEX
    assert (await slugs.get(HEX))["_id"] == HEX
    assert await slugs.find({"query": {"_id": HEX}}) == [{"_id": HEX}]
    assert type((await slugs.create({}))["_id"]) is ObjectId


async def test_an_own_id_is_text_and_never_an_object_id(service, collection):
    named = service(id="key")
    made = await named.create({"name": "Ada"})
    assert ObjectId.is_valid(made["key"])
    assert type(made["key"]) is str
    assert type(made["_id"]) is ObjectId
    assert await named.get(made["key"]) == made
    assert list(made) == ["_id", "key", "name"]
    assert (await collection.find_one())["key"] == made["key"]
    brought = await named.create({"_id": HEX, "key": HEX})
    assert brought == {"_id": ID, "key": HEX}
    assert (await named.update(HEX, {"a": 1, "_id": 5})) == {"_id": ID, "key": HEX, "a": 1}
    assert await named.find({"query": {"_id": HEX, "$select": ["a"]}}) == [{"key": HEX, "a": 1}]
    assert await named.patch(HEX, {"_id": 7}) == {"_id": ID, "key": HEX, "a": 1}


@pytest.mark.parametrize("id", ["\ud800", 2**70, -(2**70)])
@pytest.mark.parametrize("method", ["get", "update", "patch", "remove"])
async def test_an_impossible_id_is_not_found(people, method, id):
    data = [{"a": 1}] if method in {"update", "patch"} else []
    with pytest.raises(NotFound):
        await getattr(people, method)(id, *data)


async def test_several_new_records_get_ids_of_their_own(people):
    made = await people.create([{"name": "x"}, {"_id": "own"}, {"_id": ""}, {"_id": None}])
    assert made[1]["_id"] == "own"
    assert len({type(made[index]["_id"]) for index in (0, 2, 3)}) == 1
    assert len(set(keys(made))) == 4


async def test_what_is_created_is_what_is_stored(people, collection):
    date = datetime(2024, 1, 1, 0, 0, 0, 123_456, UTC)
    made = await people.create({"at": date, "pair": (1, 2)})
    assert made == await collection.find_one({"_id": made["_id"]})
    assert made["pair"] == [1, 2]


async def test_what_could_never_be_read_is_not_stored(people):
    with pytest.raises(BadRequest, match="cannot store"):
        await people.create({"at": DatetimeMS(2**60)})
    assert await people.find() == PEOPLE


# -- queries ---------------------------------------------------------------------------------------


async def test_operators_of_the_database_are_closed(people):
    for query in ({"name": {"$regex": "a"}}, {"$text": {"$search": "a"}}, {"a": {"$exists": 1}}):
        with pytest.raises(BadRequest, match="Invalid"):
            await people.find({"query": query})


async def test_opened_operators_reach_the_database(people, service):
    opened = service(operators=["$regex", "$options", "$exists", "$size", "$elemMatch", "$type"])

    async def found(query):
        return keys(await opened.find({"query": query}))

    assert await found({"name": {"$regex": "^ad", "$options": "i"}}) == [1, 4]
    assert await found({"home": {"$exists": "true"}}) == [1]
    assert await found({"home": {"$exists": "0"}, "age": {"$lt": 30}}) == [2, 3]
    assert await found({"tags": {"$size": "1"}}) == [2]
    assert await found({"tags": {"$elemMatch": {"$gt": "b"}}}) == [4]
    assert await found({"home": {"$type": "object"}}) == [1]


async def test_full_text_search(people, service, collection):
    await collection.create_index([("name", "text")])
    long = service(filters={"$text": True})
    short = service(filters={"$search": True}, paginate={"default": 1})
    assert sorted(keys(await long.find({"query": {"$text": {"$search": "ADA"}}}))) == [1, 4]
    page = await short.find({"query": {"$search": "ada cleo", "age": {"$lt": 50}}})
    assert page["total"] == 2
    with pytest.raises(NotFound):
        await short.get(3, {"query": {"$search": "ada"}})
    assert (await short.get(3, {"query": {"$search": "cleo"}}))["_id"] == 3


async def test_a_collation_holds_for_find_patch_and_remove(people):
    params = {"query": {"name": "ADA", "$sort": {"_id": 1}}, "collation": CASE_BLIND}
    assert keys(await people.find(params)) == [1, 4]
    assert await people.find({"query": {"name": "ADA"}}) == []
    assert keys(await people.patch(None, {"seen": True}, params)) == [1, 4]
    assert (await people.patch(1, {"seen": 2}, params))["seen"] == 2
    assert keys(await people.remove(None, params)) == [1, 4]
    names = {"query": {"$sort": {"name": 1}}, "collation": CASE_BLIND}
    assert keys(await people.find(names)) == [2, 3]


async def test_a_collation_counts_in_the_total(people, service):
    paged = service(paginate={"default": 1})
    page = await paged.find({"query": {"name": "ADA"}, "collation": CASE_BLIND})
    assert (page["total"], len(page["data"])) == (2, 1)


async def test_a_collation_does_not_apply_to_the_id_alone(service):
    slugs = service()
    await slugs.create({"_id": "abc"})
    with pytest.raises(NotFound):
        await slugs.remove("ABC", {"collation": CASE_BLIND})
    with pytest.raises(NotFound):
        await slugs.get("ABC", {"collation": CASE_BLIND})


# -- options of the driver -------------------------------------------------------------------------


async def test_options_of_the_driver_reach_it(people, collection):
    await collection.create_index("age", name="by_age")
    for docdb in ({"hint": "by_age"}, {"projection": ["name"]}, {"projection": {"tags": 0}}):
        records = await people.find({"docdb": docdb, "query": {"$limit": 1, "$select": ["age"]}})
        assert len(records) == 1
        if "projection" in docdb:
            assert "tags" not in records[0]
            assert "name" in records[0]
    with pytest.raises(BadRequest):
        await people.find({"docdb": {"hint": "by_nothing"}})
    with pytest.raises(ValueError, match=r"params\.docdb has 'upsrt'"):
        await people.patch(9, {"name": "new"}, {"docdb": {"upsrt": True}})


@pytest.mark.parametrize("method", ["patch", "update"])
async def test_an_upsert_makes_the_record(people, method):
    record = await getattr(people, method)(9, {"name": "new"}, {"docdb": {"upsert": True}})
    assert record == {"_id": 9, "name": "new"}
    assert await people.get(9) == record


async def test_array_filters_choose_elements(people):
    data = {"$set": {"tags.$[t]": "z"}}
    docdb = {"array_filters": [{"t": "b"}]}
    assert (await people.patch(1, data, {"docdb": docdb}))["tags"] == ["a", "z"]
    changed = await people.patch(None, data, {"docdb": docdb, "query": {"_id": {"$in": [2, 4]}}})
    assert [record["tags"] for record in changed] == [["z"], ["a", "z", "c"]]


async def test_a_projection_of_the_driver_holds_for_answers_of_writes(people):
    params = {"docdb": {"projection": {"name": 1, "_id": 0}}}
    assert await people.patch(1, {"age": 1}, params) == {"name": "Ada"}
    assert await people.patch(None, {"age": 1}, {**params, "query": {"name": "Ada"}}) == [
        {"name": "Ada"}
    ]
    assert await people.remove(None, {**params, "query": {"name": "Ada"}}) == [{"name": "Ada"}]
    assert await people.remove(2, params) == {"name": "bela"}


async def test_a_session_takes_part_in_every_method(people, client):
    async with client.start_session() as session, await session.start_transaction():
        docdb = {"docdb": {"session": session}}
        made = await people.create({"name": "new"}, docdb)
        await people.create([{"_id": 10}, {"_id": 11}], docdb)
        await people.patch(made["_id"], {"age": 1}, docdb)
        await people.patch(None, {"seen": 1}, {**docdb, "query": {"name": "Ada"}})
        await people.update(10, {"name": "ten"}, docdb)
        await people.remove(11, docdb)
        await people.remove(None, {**docdb, "query": {"name": "bela"}})
        assert (await people.get(made["_id"], docdb))["age"] == 1
        inside = await people.find({**docdb, "query": {"$sort": {"name": 1}}})
        page = await people.find({**docdb, "paginate": {"default": 1}})
        assert [record["name"] for record in inside] == ["Ada", "Cleo", "ada", "new", "ten"]
        assert page["total"] == 5
        assert keys(await people.find()) == [1, 2, 3, 4]
        await session.abort_transaction()
    assert await people.find() == PEOPLE


# -- pipelines -------------------------------------------------------------------------------------

UNWIND = {"$unwind": "$tags"}
MARKER = {"$framework": {}}


async def test_stages_follow_those_of_the_query(people):
    params = {"query": {"age": {"$gt": 20}, "$sort": {"age": 1}}, "pipeline": [UNWIND]}
    assert [(each["_id"], each["tags"]) for each in await people.find(params)] == [
        (2, "b"), (1, "a"), (1, "b"), (4, "a"), (4, "b"), (4, "c"),
    ]  # fmt: skip


async def test_the_marker_puts_the_query_behind_stages(people):
    pipeline = [UNWIND, MARKER, {"$project": {"tags": 1}}]
    params = {"query": {"tags": "b", "$limit": 2}, "pipeline": pipeline}
    assert await people.find(params) == [{"_id": 1, "tags": "b"}, {"_id": 2, "tags": "b"}]


@pytest.mark.parametrize(
    ("pipeline", "total"),
    [
        ([UNWIND], 6),
        ([UNWIND, MARKER], 6),
        ([{"$match": {"name": "Ada"}}], 1),
        ([{"$match": {"name": "nobody"}}], 0),
        ([MARKER, {"$addFields": {"x": 1}}], 4),
        ([], 4),
    ],
)
@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_the_total_is_right_with_stages_that_filter_or_unwind(
    people, service, pipeline, total, limit
):
    paged = service(paginate={"default": 2})
    page = await paged.find({"query": {"$limit": limit}, "pipeline": pipeline})
    assert page["total"] == total
    assert page["limit"] == limit


async def test_stages_and_options_of_the_driver_go_together(people):
    params = {"pipeline": [UNWIND], "docdb": {"comment": "c", "projection": ["tags"]}}
    assert (await people.find(params))[0] == {"_id": 1, "tags": "a"}


async def test_get_has_stages_too(people):
    pipeline = [{"$addFields": {"town": "$home.town"}}]
    record = await people.get(1, {"pipeline": pipeline, "query": {"$select": ["home"]}})
    assert record == {"_id": 1, "home": {"town": "Rome"}, "town": "Rome"}
    for key, params in (
        (9, {"pipeline": pipeline}),
        (1, {"pipeline": [{"$match": {"name": "x"}}]}),
        (1, {"pipeline": pipeline, "query": {"name": "bela"}}),
    ):  # fmt: skip
        with pytest.raises(NotFound):
            await people.get(key, params)


# -- raw access ------------------------------------------------------------------------------------


def test_the_stages_of_a_query(service):
    query = {"name": "Ada", "_id": HEX, "$limit": "5", "$select": ["name"]}
    stages = [
        {"$match": {"name": {"$eq": "Ada"}, "_id": {"$eq": ID}}},
        {"$limit": 5},
        {"$project": {"name": 1, "_id": 1}},
    ]
    params = {"query": query, "pipeline": [UNWIND]}
    assert service().make_framework_pipeline(params) == stages
    assert service().make_framework_pipeline(Params(params)) == stages
    assert service().make_framework_pipeline() == []


def test_the_sizes_of_pages_hold_for_raw_access(service):
    paged = service(paginate={"default": 2, "max": 3})
    assert paged.make_framework_pipeline() == [{"$limit": 2}]
    assert paged.make_framework_pipeline({"query": {"$limit": 9}}) == [{"$limit": 3}]
    assert paged.make_framework_pipeline({"paginate": False}) == []


async def test_raw_cursors(people):
    params = {"query": {"age": {"$lt": 30}, "$sort": {"age": 1}}, "pipeline": [UNWIND]}
    assert [each["_id"] async for each in await people.aggregate_raw(params)] == [2]
    assert [each["_id"] async for each in await people.find_raw(params)] == [3, 2]
    assert keys(await (await people.aggregate_raw()).to_list()) == [1, 2, 3, 4]
    assert keys(await (await people.find_raw()).to_list()) == [1, 2, 3, 4]


async def test_a_limit_of_0_gives_nothing_there_either(people):
    params = {"query": {"$limit": 0}}
    assert await (await people.aggregate_raw(params)).to_list() == []
    assert await (await people.find_raw(params)).to_list() == []


async def test_a_call_may_take_another_collection(people, collection):
    other = collection.database[f"{collection.name}_other"]
    params = {"adapter": {"model": other}}
    made = await people.create({"name": "elsewhere"}, params)
    assert await people.find(params) == [made]
    assert await people.get(made["_id"], params) == made
    assert len(await people.find()) == len(PEOPLE)
    await other.drop()


# -- writes ----------------------------------------------------------------------------------------


async def test_update_operators_work_from_inside(people):
    assert (await people.update(1, {"$inc": {"age": 1}}))["age"] == 37
    assert (await people.patch(1, {"$push": {"tags": "x"}, "age": 1}))["tags"] == ["a", "b", "x"]
    with pytest.raises(BadRequest, match="operators and fields"):
        await people.update(1, {"$inc": {"age": 1}, "name": "x"})


async def test_update_operators_are_opened_by_name(people, service):
    opened = service(update_operators=["$inc"])
    outside = {"provider": "rest"}
    assert (await opened.patch(1, {"$inc": {"age": 1}}, outside))["age"] == 37
    assert (await opened.update(1, {"$inc": {"age": 1}}, outside))["age"] == 38
    with pytest.raises(BadRequest, match=r"\$push"):
        await opened.patch(1, {"$push": {"tags": "x"}}, outside)


async def test_positional_paths_are_for_calls_from_inside(people):
    assert (await people.patch(1, {"tags.$[]": "z"}))["tags"] == ["z", "z"]
    with pytest.raises(BadRequest, match="Invalid key"):
        await people.patch(1, {"tags.$[]": "y"}, {"provider": "rest"})


async def test_names_with_dots_are_for_calls_from_inside(people, collection):
    assert (await people.patch(1, {"home.town": "Oslo"}))["home"] == {"town": "Oslo"}
    outside = {"provider": "rest", "adapter": {"multi": True}}
    for which in (1, None):
        with pytest.raises(BadRequest, match="name with dots"):
            await people.patch(which, {"home.town": "Rome"}, outside)
    assert (await people.get(1))["home"] == {"town": "Oslo"}
    opened = {**outside, "adapter": {"update_operators": ["$set"]}}
    assert (await people.patch(1, {"$set": {"home.town": "Rome"}}, opened))["home"] == {
        "town": "Rome"
    }
    opened = {**outside, "adapter": {"dotted_names": True}}
    assert (await people.patch(1, {"home.town": "Bern"}, opened))["home"] == {"town": "Bern"}


async def test_names_with_dots_are_opened_by_name(people, service):
    opened = service(dotted_names=True)
    outside = {"provider": "rest"}
    assert (await opened.patch(1, {"home.town": "Bern"}, outside))["home"] == {"town": "Bern"}


async def test_a_taken_key_is_a_conflict_that_names_it(people, collection):
    await collection.create_index("name", unique=True)
    for call in (
        people.create({"name": "Ada"}),
        people.create([{"name": "x"}, {"name": "Ada"}]),
        people.patch(2, {"name": "Ada"}),
        people.update(2, {"name": "Ada"}),
        people.patch(None, {"name": "Ada"}),
    ):
        with pytest.raises(Conflict) as caught:
            await call
        assert caught.value.errors == {"name": "is taken"}
        assert "Ada" not in str(caught.value.to_dict())
    assert await people.find() == PEOPLE


@pytest.mark.parametrize(
    "data",
    [
        {"a": "\ud800"},
        {"\ud800": 1},
        {"a": 2**63},
        {"a\0b": 1},
        {"a": {"b": "x" * 17_000_000}},
        {"a": [{1, 2}]},
    ],
    ids=["surrogate", "key", "number", "nul", "size", "set"],
)
async def test_what_cannot_be_stored_is_a_bad_request(people, data):
    for call in (
        people.create(data),
        people.create([{"_id": 9}, data]),
        people.patch(1, data),
        people.patch(None, data),
        people.update(1, data),
    ):
        with pytest.raises(BadRequest):
            await call
    assert await people.find() == PEOPLE


@pytest.mark.parametrize(
    "query",
    [{"name": "\ud800"}, {"name": 2**63}, {"name": {"$in": ["x" * 1_000_000] * 17}}],
    ids=["surrogate", "number", "size"],
)
async def test_what_cannot_be_sent_is_a_bad_request(people, service, query):
    paged = service(paginate={"default": 1})
    for call in (
        people.find({"query": query}),
        paged.find({"query": query}),
        people.get(1, {"query": query}),
        people.patch(1, {"a": 1}, {"query": query}),
        people.patch(None, {"a": 1}, {"query": query}),
        people.remove(1, {"query": query}),
        people.remove(None, {"query": query}),
    ):
        with pytest.raises(BadRequest):
            await call


@pytest.mark.parametrize("path", ["name.first", "a..b", "", "tags.9999999"])
async def test_a_path_that_leads_nowhere_is_a_bad_request(people, path):
    with pytest.raises(BadRequest, match="The database refuses"):
        await people.patch(1, {path: 1})


async def test_a_database_that_is_away_is_unavailable(unreachable):
    away = MongoDBService(unreachable, max_time_ms=False, multi=True, paginate={"default": 1})
    for call in (away.find(), away.get(1), away.create({}), away.remove(None)):
        with pytest.raises(Unavailable) as caught:
            await call
        assert "127.0.0.1" not in caught.value.message


async def test_a_model_that_cannot_be_reached_is_unavailable(unreachable):
    async def model():
        await unreachable.create_index("name")

    with pytest.raises(Unavailable):
        await MongoDBService(model).get(1)


async def test_many_writers_at_once_lose_nothing(people):
    """Single and multiple patches meet in the same records."""
    await asyncio.gather(
        *(people.patch(1, {"$inc": {"age": 1}}) for _ in range(5)),
        *(people.patch(None, {"$inc": {"age": 1}}) for _ in range(3)),
    )
    assert (await people.get(1))["age"] == 36 + 8


SELECTED = ["tags", "items", "tags.0", "tags.1", "items.x", "items.1", "items.1.x", "map.0", "_id"]


@pytest.mark.parametrize("options", [{}, {"paginate": {"default": 9}}, {"docdb": {}}], ids=str)
@pytest.mark.parametrize("field", ["tags.0", "items.1.x", "items.x", "tags", "map.0"])
async def test_the_order_by_an_element_holds_whatever_is_selected(collection, options, field):
    documents = [
        {
            "_id": number,
            "tags": [number * 7 % 5, 9 - number],
            "items": [{"x": number * 3 % 7}, {"x": -number}],
            "map": {"0": number * 3 % 5},
        }
        for number in range(5)
    ]
    await collection.insert_many(documents)
    service = MongoDBService(collection)
    same = MemoryService(documents, id="_id")
    for name in SELECTED:
        query = {"$sort": {field: -1}, "$select": [name], "_id": {"$gte": 0}}
        found = await service.find({"query": query, **options})
        if "paginate" in options:
            assert found["total"] == 5
            found = found["data"]
        assert found == await same.find({"query": query}), name


async def test_who_is_calling_makes_no_difference_for_a_get(people):
    assert await names_of_caller(people, 1) == set()


# -- pages of records that are equal in all fields of `$sort` --------------------------------------

WAYS_TO_PAGE = {
    "with totals": {"paginate": {"default": 10, "max": 50}},
    "without totals": {"paginate": {"default": 10, "count": "none"}},
    "without pages": {},
    "by another id": {"paginate": {"default": 10}, "id": "n"},
    "each alone": {"paginate": {"default": 10}, "share": False},
}


@pytest.mark.parametrize("options", WAYS_TO_PAGE.values(), ids=WAYS_TO_PAGE)
@pytest.mark.parametrize("index", [None, [("kind", 1)], [("kind", 1), ("_id", 1)]], ids=repr)
@pytest.mark.parametrize("direction", [1, -1])
async def test_pages_of_equal_records_lose_and_repeat_none(collection, options, index, direction):
    await collection.insert_many([{"n": n, "kind": n % 2, "on": n % 3} for n in range(100)])
    if index is not None:
        await collection.create_index(index)
    service = MongoDBService(collection, **options)
    found = []
    for skip in range(0, 100, 10):
        query = {"$sort": {"kind": direction}, "$limit": 10, "$skip": skip}
        page = await service.find({"query": query})
        found += page["data"] if "paginate" in options else page
    assert sorted(record["n"] for record in found) == list(range(100))
    kinds = [record["kind"] for record in found]
    assert kinds == sorted(kinds, reverse=direction < 0)


def test_where_a_sort_gets_the_id():
    service = MongoDBService(lambda: None, paginate={"default": 10}, id="n")

    def sort_of(query, **params):
        stages = service.make_framework_pipeline(query=query, **params)
        return next((stage["$sort"] for stage in stages if "$sort" in stage), None)

    assert sort_of({"$sort": {"a": 1, "b": -1}}) == {"a": 1, "b": -1, "_id": -1}
    assert sort_of({"$sort": {"a": 1}, "$skip": 3}, paginate=False) == {"a": 1, "_id": 1}
    for unchanged in ({"a": 1, "n": 1}, {"_id": -1, "a": 1}):
        assert sort_of({"$sort": unchanged}) == unchanged
    assert sort_of({"$sort": {"a": 1}}, paginate=False) == {"a": 1}
    assert sort_of({"$sort": {"a": 1}}, paginate=False, docdb={"limit": 5}) == {"a": 1, "_id": 1}
    assert sort_of({}, docdb={"sort": [("a", 1)]}) == {"a": 1}
    assert sort_of({}) is None


@pytest.mark.parametrize("direction", [1, -1])
async def test_an_index_that_ends_with_the_id_serves_a_page(collection, direction):
    await collection.insert_many([{"kind": n % 2} for n in range(50)])
    await collection.create_index([("kind", 1), ("_id", 1)])
    service = MongoDBService(collection, paginate={"default": 5})
    cursor = await service.find_raw(query={"$sort": {"kind": direction}})
    plan = repr((await cursor.explain())["queryPlanner"]["winningPlan"])
    assert "IXSCAN" in plan
    assert "SORT" not in plan


@pytest.mark.parametrize("code", [11601, 13436])
async def test_a_size_that_an_outage_keeps_from_being_measured_is_an_error(
    people, collection, monkeypatch, code
):
    """Only where the database refuses the aggregation are the records read in its place."""

    async def fail(*_, **__):
        raise OperationFailure("not now", code)

    monkeypatch.setattr(type(collection), "aggregate", fail)
    with pytest.raises(Unavailable):
        await people._measure(EMPTY_QUERY, Params(), people.options, MAX_RESULT)


async def test_services_on_one_collection_have_one_store(collection, mongodb_url):
    store = MongoDBService(collection).store()
    assert MongoDBService(collection, multi=True).store() == store
    async with AsyncMongoClient(mongodb_url) as client:
        others = [
            MongoDBService(collection["other"]),
            MongoDBService(client[DATABASE][collection.name]),
            MongoDBService(lambda: collection),  # nobody has called it yet
            MongoDBService(lambda: collection),
        ]
        assert len({store, *(other.store() for other in others)}) == 5
