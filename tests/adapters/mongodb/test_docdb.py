"""Each option of `params.docdb`, as it arrives at a real server."""

from __future__ import annotations

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient, CursorType, ReadPreference, WriteConcern, monitoring
from pymongo.read_concern import ReadConcern

from alula import App
from alula._context import Params
from alula.adapters.mongodb import MongoDBService, transaction
from alula.errors import BadRequest

DATABASE = "alula_docdb"
COLLATION = {"locale": "en", "strength": 2}
BY_AGE = [("age", 1)]
AFRESH = WriteConcern("majority", wtimeout=5000)


class Commands(monitoring.CommandListener):
    """Keeps the commands that a client sends."""

    def __init__(self) -> None:
        self.sent: list[dict] = []

    def started(self, event):
        self.sent.append(dict(event.command))

    def succeeded(self, event): ...

    failed = succeeded


@pytest.fixture(scope="module")
def commands():
    return Commands()


@pytest.fixture(scope="module")
async def watched(mongodb_url, commands):
    async with AsyncMongoClient(mongodb_url, event_listeners=[commands]) as client:
        yield client
        await client.drop_database(DATABASE)


@pytest.fixture
async def people(watched, commands):
    collection = watched[DATABASE][f"c{ObjectId()}"]
    await collection.create_index(BY_AGE)
    await collection.insert_many([{"_id": n, "age": 30 + n, "tags": ["a", "b"]} for n in range(5)])
    commands.sent.clear()
    # Within a time limit the driver leaves out `wtimeout`.
    yield MongoDBService(collection, multi=True, max_time_ms=False)
    await collection.drop()


def find(people, docdb, **params):
    return people.find({"docdb": docdb, "query": {"age": {"$gt": 31}}, **params})


def count(people, docdb):
    return people.find({"docdb": docdb, "query": {"$limit": 0}, "paginate": {"default": 2}})


def aggregate(people, docdb):
    return find(people, docdb, pipeline=[{"$match": {"age": {"$gt": 32}}}])


CALLS = {
    "find": find,
    "aggregate": aggregate,
    "count": count,
    "get": lambda people, docdb: people.get(1, {"docdb": docdb}),
    "create": lambda people, docdb: people.create({"age": 1}, {"docdb": docdb}),
    "create all": lambda people, docdb: people.create([{"age": 1}, {}], {"docdb": docdb}),
    "update": lambda people, docdb: people.update(1, {"age": 1}, {"docdb": docdb}),
    "patch": lambda people, docdb: people.patch(1, {"age": 1}, {"docdb": docdb}),
    "remove": lambda people, docdb: people.remove(1, {"docdb": docdb}),
    "patch all": lambda people, docdb: people.patch(None, {"seen": 1}, {"docdb": docdb}),
    "remove all": lambda people, docdb: people.remove(None, {"docdb": docdb}),
}
READS = ("find", "aggregate", "count", "get")
SINGLE = ("update", "patch", "remove")
SEVERAL = ("create all", "patch all", "remove all")

OPTIONS = [
    (CALLS, {"comment": "c"}, {"comment": "c"}),
    ((*READS, *SINGLE, "patch all", "remove all"), {"let": {"x": 1}}, {"let": {"x": 1}}),
    ((*READS, *SINGLE), {"hint": {"_id": 1}}, {"hint": {"_id": 1}}),
    (("find", "aggregate", "count"), {"hint": BY_AGE}, {"hint": {"age": 1}}),
    (("find", "aggregate", "count"), {"collation": COLLATION}, {"collation": COLLATION}),
    (("patch all", "remove all"), {"collation": COLLATION}, {"collation": COLLATION}),
    (("find", "get"), {"projection": ["age"]}, {"projection": {"age": 1}}),
    (SINGLE, {"projection": {"tags": 0}}, {"fields": {"tags": 0}}),
    # A record that exists is changed without it, so that its event says what happened.
    (("update", "patch"), {"upsert": True}, {"upsert": False}),
    (("find",), {"batch_size": 3}, {"batchSize": 3}),
    (("aggregate",), {"batch_size": 3}, {"cursor": {"batchSize": 3}}),
    (("find", "aggregate", "count"), {"allow_disk_use": True}, {"allowDiskUse": True}),
    (("create", "create all", "patch"), {"bypass_document_validation": True},
     {"bypassDocumentValidation": True}),
    (("find",), {"min": [("age", 31)], "max": [("age", 34)], "hint": BY_AGE},
     {"min": {"age": 31}, "max": {"age": 34}}),
    (("find",), {"no_cursor_timeout": True}, {"noCursorTimeout": True}),
    (("find",), {"allow_partial_results": True}, {"allowPartialResults": True}),
    (("find",), {"show_record_id": True}, {"showRecordId": True}),
    (("find",), {"return_key": True}, {"returnKey": True}),
    (("find",), {"oplog_replay": True}, {"oplogReplay": True}),
    (("find",), {"cursor_type": CursorType.NON_TAILABLE}, {}),
    (("find",), {"sort": [("age", -1)], "skip": 1, "limit": 2},
     {"sort": {"age": -1}, "skip": 1, "limit": 2}),
    (READS, {"read_concern": ReadConcern("majority")}, {"readConcern": {"level": "majority"}}),
    (READS, {"read_preference": ReadPreference.NEAREST}, {"$readPreference": {"mode": "nearest"}}),
    (("create", *SINGLE, *SEVERAL), {"write_concern": AFRESH}, {"writeConcern": AFRESH.document}),
]  # fmt: skip


# PyMongo 4.13 warns of no_cursor_timeout without a session.
@pytest.mark.filterwarnings("ignore:use an explicit session with no_cursor_timeout")
@pytest.mark.parametrize(
    ("call", "docdb", "wanted"),
    [
        pytest.param(call, docdb, wanted, id=f"{call}: {', '.join(docdb)}")
        for calls, docdb, wanted in OPTIONS
        for call in calls
    ],
)
async def test_it_arrives(people, commands, call, docdb, wanted):
    await CALLS[call](people, docdb)
    assert any(wanted.items() <= command.items() for command in commands.sent), commands.sent


@pytest.mark.parametrize("call", [call for call in CALLS if call not in ("create", "create all")])
async def test_a_limit_of_time_arrives(people, commands, call):
    await CALLS[call](people, {"max_time_ms": 20_000})
    assert all(0 < command["maxTimeMS"] <= 20_000 for command in commands.sent[:1])


@pytest.mark.parametrize("call", CALLS)
async def test_what_no_call_knows_is_refused(people, commands, call):
    for name in ("return_document", "ordered", "nonsense"):
        with pytest.raises(ValueError, match=rf"params\.docdb has '{name}'"):
            await CALLS[call](people, {name: 1})
    assert [command for command in commands.sent if "lsid" not in command] == []
    assert (await people.find())[1] == {"_id": 1, "age": 31, "tags": ["a", "b"]}


async def test_fields_of_lists_are_chosen_by_filters(people):
    data, docdb = {"$set": {"tags.$[t]": "z"}}, {"array_filters": [{"t": "b"}]}
    assert (await people.patch(1, data, {"docdb": docdb}))["tags"] == ["a", "z"]
    assert (await people.patch(None, data, {"docdb": docdb}))[0]["tags"] == ["a", "z"]
    with pytest.raises(BadRequest):
        await people.patch(1, data, {"docdb": {"array_filters": [{"x": "b"}]}})


async def test_concerns_hold_for_the_collection_that_is_handed_out(people):
    model = await people.get_model(Params(docdb={"comment": "c"}))
    own = await people.get_model(Params(docdb={"write_concern": AFRESH}))
    assert model is await people.get_model()
    assert (own.name, own.write_concern) == (model.name, AFRESH)
    assert own.read_preference == model.read_preference
    other = {"model": model.database["other"]}
    own = await people.get_model(Params(adapter=other, docdb={"write_concern": AFRESH}))
    assert (own.name, own.write_concern) == ("other", AFRESH)


@pytest.fixture
async def from_secondaries(mongodb_url):
    url = f"{mongodb_url}{'&' if '?' in mongodb_url else '?'}readPreference=secondaryPreferred"
    async with AsyncMongoClient(url) as client:
        collection = client[DATABASE][f"c{ObjectId()}"]
        await collection.insert_many([{"_id": n} for n in range(3)])
        yield collection
        await collection.drop()


async def test_where_reads_go_elsewhere_transactions_read_from_the_primary(from_secondaries):
    app = App().use("people", MongoDBService(from_secondaries, multi=True))
    people = app.service("people")
    assert len(await people.patch(None, {"seen": 1})) == 3
    assert len(await people.remove(None, query={"_id": {"$gt": 1}})) == 1
    people.hooks(around={"all": [transaction()]})
    assert len(await people.find()) == 2
    assert len(await people.patch(None, {"seen": 2})) == 2
    async with from_secondaries.database.client.start_session() as session:
        docdb = {"session": session}
        assert len(await people.service.remove(None, {"docdb": docdb})) == 2


async def test_what_sorts_by_distance_works_in_a_plain_find_without_a_total(people):
    model = await people.get_model()
    await model.create_index([("at", "2dsphere")])
    await model.insert_many([{"_id": f"p{n}", "at": [n, 0]} for n in (2, 0, 1)])
    places = MongoDBService(model, operators=["$near", "$geometry", "$maxDistance"])
    near = {"at": {"$near": {"$geometry": {"type": "Point", "coordinates": [0, 0]}}}}
    nearest = ["p0", "p1", "p2"]
    found = await places.find({"query": near, "docdb": {}})
    assert [record["_id"] for record in found] == nearest
    pages = {"default": 2, "count": "none"}
    page = await places.find({"query": near, "docdb": {}, "paginate": pages})
    assert [record["_id"] for record in page["data"]] == nearest[:2]
    for refused in ({}, {"docdb": {}, "paginate": {"default": 2}}):
        with pytest.raises(BadRequest, match=r"\$near and \$nearSphere sort .* \$geoWithin"):
            await places.find({"query": near, **refused})
