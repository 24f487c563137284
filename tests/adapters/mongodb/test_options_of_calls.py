"""What a call brings along: options of the service, of the driver, and raw access."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from bson import Decimal128, ObjectId
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import AsyncMongoClient, monitoring
from tests.adapters.mongodb.conftest import DATABASE

from alula.adapters.mongodb import MongoDBService
from alula.errors import BadRequest, GeneralError, NotFound

HEX = "64b0000000000000000000d1"
CASE_BLIND = {"locale": "en", "strength": 1}
OUTSIDE = {"provider": "rest"}


@pytest.fixture
async def people(collection):
    await collection.insert_many([{"_id": n, "n": n, "kind": "ab"[n % 2]} for n in range(6)])
    return MongoDBService(collection, multi=True, paginate={"default": 4})


def keys(records):
    return [record["_id"] for record in records]


class Sent(monitoring.CommandListener):
    """Keeps the commands that a client sends."""

    def __init__(self):
        self.commands = []

    def started(self, event):
        self.commands.append(dict(event.command))

    def succeeded(self, event): ...

    def failed(self, event): ...

    def values(self, name):
        return [command.get(name) for command in self.commands]


@pytest.fixture
async def watched(mongodb_url, collection):
    """The collection by a client whose commands are kept."""
    sent = Sent()
    async with AsyncMongoClient(mongodb_url, event_listeners=[sent]) as client:
        yield client[DATABASE][collection.name], sent


# -- options of the service ------------------------------------------------------------------------


async def test_a_call_may_have_another_id_property(service):
    named = service(id="name")
    await named.create({"name": "ada", "_id": 5})
    adapter = {"adapter": {"id": "_id"}}
    assert (await named.get(5, adapter))["name"] == "ada"
    assert (await named.patch(5, {"n": 1}, adapter))["n"] == 1
    assert (await named.update(5, {"name": "bea"}, adapter)) == {"_id": 5, "name": "bea"}
    assert (await named.create({"_id": 6}, adapter)) == {"_id": 6}
    assert (await named.remove(5, adapter))["name"] == "bea"
    assert named.id == "name"
    with pytest.raises(NotFound):
        await named.get(6)


async def test_a_call_may_leave_ids_as_they_are(service):
    slugs = service()
    adapter = {"adapter": {"disable_objectify": True}}
    assert (await slugs.create({"_id": HEX}, adapter))["_id"] == HEX
    assert (await slugs.get(HEX, adapter))["_id"] == HEX
    assert keys(await slugs.find({"query": {"_id": HEX}, **adapter})) == [HEX]
    with pytest.raises(NotFound):
        await slugs.get(HEX)


async def test_a_call_may_open_operators_and_filters(people):
    query = {"query": {"kind": {"$regex": "a"}, "$comment": "c"}}
    adapter = {"adapter": {"operators": ["$regex"], "filters": {"$comment": True}}}
    assert keys((await people.find({**query, **adapter}))["data"]) == [0, 2, 4]
    with pytest.raises(BadRequest):
        await people.find(query)
    with pytest.raises(BadRequest):
        await people.find({**query, "adapter": {"operators": ["$regex"]}})


async def test_a_call_keeps_what_it_does_not_name(service, people):
    open_one = service(operators=["$regex"], paginate={"default": 1}, multi=["create"])
    params = {"query": {"kind": {"$regex": "a"}}, "adapter": {"filters": {"$comment": True}}}
    page = await open_one.find(params)
    assert (page["total"], page["limit"]) == (3, 1)
    assert len(await open_one.create([{}, {}], {"adapter": {"share": False}})) == 2


async def test_a_call_may_open_update_operators(people):
    adapter = {"adapter": {"update_operators": ["$inc"]}, **OUTSIDE}
    assert (await people.patch(1, {"$inc": {"n": 4}}, adapter))["n"] == 5
    with pytest.raises(BadRequest):
        await people.patch(1, {"$inc": {"n": 4}}, OUTSIDE)


async def test_a_call_may_take_the_estimated_total(people, watched):
    model, sent = watched
    paged = MongoDBService(model, paginate={"default": 2})
    for adapter in ({"use_estimated_document_count": True}, {"multi": True}):
        sent.commands.clear()
        assert (await paged.find({"adapter": adapter}))["total"] == 6
        assert any("count" in each for each in sent.commands) is ("multi" not in adapter)


async def test_a_call_may_go_alone(people, watched):
    model, sent = watched
    alone = MongoDBService(model)
    params = {"adapter": {"share": False}}
    await asyncio.gather(*(alone.get(n, params) for n in range(3)))
    assert len(sent.commands) == 3
    sent.commands.clear()
    await asyncio.gather(*(alone.get(n, {"adapter": {"multi": True}}) for n in range(3)))
    assert len(sent.commands) == 1


@pytest.mark.parametrize(
    ("adapter", "text"),
    [({"id": ""}, "^id is"), ({"share": 5}, "^share is"), ({"operators": ["regex"]}, "regex")],
)
async def test_an_option_that_makes_no_sense_is_refused(people, adapter, text):
    with pytest.raises(ValueError, match=text):
        await people.get(1, {"adapter": adapter})


async def test_what_a_subclass_does_around_a_call_is_done_once(collection):
    calls = []

    class Watching(MongoDBService):
        async def get(self, id, params=None):
            calls.append(id)
            return await super().get(id, params)

    await collection.insert_one({"_id": 1})
    assert await Watching(collection).get(1, {"adapter": {"id": "_id"}}) == {"_id": 1}
    assert calls == [1]


# -- options of the driver -------------------------------------------------------------------------


async def test_order_and_range_of_the_driver_hold_where_the_query_says_nothing(people):
    docdb = {"docdb": {"sort": [("n", -1)], "limit": 3, "skip": 1}}
    page = await people.find(docdb)
    assert keys(page["data"]) == [4, 3, 2]
    assert page["total"] == 6
    assert keys((await people.find({**docdb, "query": {"$sort": {"n": 1}}}))["data"]) == [1, 2, 3]
    assert keys((await people.find({**docdb, "query": {"$limit": 1}}))["data"]) == [4]
    assert keys(await people.find({**docdb, "paginate": False})) == [4, 3, 2]
    assert keys(await (await people.find_raw(docdb)).to_list()) == [4, 3, 2]
    assert keys(await people.patch(None, {"seen": 1}, docdb)) == [5, 4, 3, 2, 1, 0]


async def test_an_index_may_be_named_by_its_fields_whatever_way_a_page_goes(people):
    for query in ({}, {"$limit": 1}, {"$limit": 0}):
        page = await people.find({"docdb": {"hint": [("_id", 1)]}, "query": query})
        assert page["total"] == 6
    hint = {"docdb": {"hint": [("_id", 1)]}}
    assert (await people.patch(1, {"seen": 1}, hint))["seen"] == 1
    assert len(await people.patch(None, {"seen": 1}, hint)) == 6
    assert len(await people.find({**hint, "pipeline": [{"$limit": 2}], "paginate": False})) == 2


async def test_an_upsert_without_an_id_makes_a_record_where_none_matches(people):
    upsert = {"docdb": {"upsert": True}}
    params = {**upsert, "query": {"kind": "new", "n": {"$gt": 1}}}
    (made,) = await people.patch(None, {"$inc": {"n": 1}}, params)
    assert made == {"_id": made["_id"], "kind": "new", "n": 1}
    assert await people.get(made["_id"]) == made
    found = await people.patch(None, {"n": 2}, {**upsert, "query": {"kind": "a"}})
    assert keys(found) == [0, 2, 4]
    params = {**upsert, "query": {"kind": "nothing", "$select": ["n"]}}
    (made,) = await people.patch(None, {}, params)
    assert set(made) == {"_id"}
    assert (await people.get(made["_id"]))["kind"] == "nothing"


async def test_an_upsert_of_nothing_makes_the_record(people):
    upsert = {"docdb": {"upsert": True}}
    assert await people.patch("new", {}, upsert) == {"_id": "new"}
    assert await people.get("new") == {"_id": "new"}
    assert await people.patch(1, {}, upsert) == {"_id": 1, "n": 1, "kind": "b"}


async def test_an_upsert_gives_an_own_id(service):
    keyed = service(id="key", multi=True)
    params = {"docdb": {"upsert": True}, "query": {"kind": "a"}}
    (made,) = await keyed.patch(None, {"n": 1}, params)
    assert ObjectId.is_valid(made["key"])
    assert (await keyed.get(made["key"]))["n"] == 1
    (named,) = await keyed.patch(None, {"n": 1}, {**params, "query": {"key": "mine"}})
    assert named["key"] == "mine"


# -- a collation -----------------------------------------------------------------------------------


async def test_an_id_is_compared_exactly_in_spite_of_a_collation(collection, service):
    await collection.insert_many([{"_id": "ann", "n": "X"}, {"_id": "a.n", "n": "X"}])
    slugs = service()
    params = {"query": {"n": "x"}, "collation": CASE_BLIND}
    stages = {"pipeline": [{"$set": {"seen": 1}}], **params}
    for key in ("ANN", "Ann", "ann\n", "a.N", "a*n", "xann"):
        for call in (slugs.remove(key, params), slugs.patch(key, {"n": 2}, params)):
            with pytest.raises(NotFound):
                await call
        with pytest.raises(NotFound):
            await slugs.patch(key, {}, params)
        with pytest.raises(NotFound):
            await slugs.get(key, stages)
    assert (await slugs.get("a.n", stages))["seen"] == 1
    assert (await slugs.patch("ann", {"m": 1}, params))["m"] == 1
    assert (await slugs.remove("a.n", params))["_id"] == "a.n"
    made = {"docdb": {"upsert": True, "collation": CASE_BLIND}}
    assert await slugs.update("ANN", {"n": 3}, made) == {"_id": "ANN", "n": 3}
    assert (await slugs.get("ann"))["m"] == 1


# -- raw access ------------------------------------------------------------------------------------


async def test_raw_access_takes_keywords(people):
    query = {"kind": "a", "$sort": {"n": -1}}
    assert keys(await (await people.find_raw(query=query)).to_list()) == [4, 2, 0]
    assert keys(await (await people.aggregate_raw({"query": {}}, query=query)).to_list()) == [
        4, 2, 0,
    ]  # fmt: skip
    assert people.make_framework_pipeline(query={"$skip": 1}) == [{"$skip": 1}, {"$limit": 4}]


async def test_raw_access_takes_options_of_the_service_for_a_call(people):
    params = {"query": {"kind": {"$regex": "a"}}, "adapter": {"operators": ["$regex"]}}
    assert keys(await (await people.find_raw(params)).to_list()) == [0, 2, 4]
    assert keys(await (await people.aggregate_raw(params)).to_list()) == [0, 2, 4]
    stages = [{"$match": {"kind": {"$regex": "a"}}}, {"$limit": 4}]
    assert people.make_framework_pipeline(params) == stages


async def test_raw_access_is_bounded_in_time(watched):
    model, sent = watched
    bounded = MongoDBService(model, max_time_ms=70_000)
    for params, most in (({}, 70_000), ({"adapter": {"max_time_ms": 9_000}}, 9_000)):
        sent.commands.clear()
        await (await bounded.find_raw(params)).to_list()
        await (await bounded.aggregate_raw(params)).to_list()
        find, aggregate = sent.values("maxTimeMS")
        assert find == most
        assert 0 < aggregate <= most
    sent.commands.clear()
    free = MongoDBService(model, max_time_ms=False)
    await (await free.find_raw()).to_list()
    await (await free.aggregate_raw()).to_list()
    assert sent.values("maxTimeMS") == [None, None]


# -- data from outside -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["patch", "update"])
@pytest.mark.parametrize(
    "data",
    [
        {"a": {"$inc": 1}},
        {"$inc": {"list.$[]": 1}},
        {"$rename": {"n": "_id"}},
        {"$rename": {"n": "key"}},
        {"$push": {"list": {"$inc": 5}}},
    ],
)
async def test_operators_stay_where_they_belong(collection, service, method, data):
    keyed = service(id="key", update_operators=["$inc", "$push", "$rename"])
    stored = {"_id": 1, "key": "a", "n": 1, "list": [1, 2]}
    await collection.insert_one(dict(stored))
    with pytest.raises(BadRequest, match="Invalid"):
        await getattr(keyed, method)("a", data, OUTSIDE)
    assert await keyed.get("a") == stored


async def test_the_id_of_the_database_beside_another_is_an_id(service):
    keyed = service(id="key")
    for wrong in (True, [1], {"a": 1}):
        with pytest.raises(BadRequest, match="'_id' is"):
            await keyed.create({"key": "a", "_id": wrong}, OUTSIDE)
    assert await keyed.find() == []


# -- values of the driver --------------------------------------------------------------------------


@pytest.fixture
async def far(collection):
    """A collection with a date beyond the year 9999."""
    stage = {"$set": {"at": {"$toDate": {"$toLong": "400000000000000"}}}}
    await collection.insert_one({"_id": "far", "n": Decimal128("1")})
    await collection.update_one({"_id": "far"}, [stage])
    return collection


@pytest.mark.parametrize("method", ["get", "remove"])
async def test_a_date_that_python_does_not_know_is_an_error_with_a_name(far, method):
    with pytest.raises(GeneralError, match="beyond the year 9999"):
        await getattr(MongoDBService(far), method)("far")


@pytest.mark.parametrize("method", ["get", "remove"])
async def test_a_client_with_that_option_reads_such_a_date(far, method):
    codec = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
    record = await getattr(MongoDBService(far.with_options(codec)), method)("far")
    assert int(record["at"]) == 400_000_000_000_000


async def test_a_uuid_takes_a_client_that_knows_its_form(service, collection, mongodb_url):
    value = uuid.UUID(int=5)
    with pytest.raises(BadRequest):
        await service().create({"of": value})
    with pytest.raises(BadRequest):
        await service().patch(1, {"of": value})
    async with AsyncMongoClient(mongodb_url, uuidRepresentation="standard") as client:
        told = MongoDBService(client[DATABASE][collection.name])
        made = await told.create({"of": value})
        assert (await told.get(made["_id"]))["of"] == value


async def test_lists_side_by_side_in_one_index_are_a_bad_request(collection, service):
    await collection.create_index([("a", 1), ("b", 1)])
    with pytest.raises(BadRequest):
        await service().create({"a": [1], "b": [1]})
