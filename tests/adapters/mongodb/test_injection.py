"""Hostile queries, ids and bodies against a running server.

What holds is seen at the driver: whatever a client sends, the commands that reach the database
have no operator, stage or collection that the service did not open.
"""

from __future__ import annotations

import asyncio
import json
import queue
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, quote_plus

import httpx2
import pytest
from bson import ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import AsyncMongoClient, MongoClient, monitoring
from tests.adapters.mongodb.conftest import DATABASE

from alula import App
from alula.adapters.mongodb import MongoDBService
from alula.errors import BadRequest
from alula.express import error_handler, express, not_found, rest
from alula.express import json as json_body

NOTES = [
    {"_id": "n1", "name": "Ada", "tags": ["a", "b"], "secret": "s1"},
    {"_id": "n2", "name": "Bob", "tags": ["b"], "secret": "s2"},
]
COMMON = {"$eq", "$ne", "$in", "$nin", "$lt", "$lte", "$gt", "$gte", "$or", "$and"}
STAGES = {
    "$bsonSize",
    "$count",
    "$group",
    "$limit",
    "$match",
    "$project",
    "$skip",
    "$sort",
    "$sum",
}
OF_THE_DRIVER = {"$db", "$clusterTime", "$readPreference", "$set"}
COMMANDS = {"find", "aggregate", "findAndModify", "insert", "update", "delete", "commitTransaction"}
SECONDS = 30
SECONDS_TO_START = 30


class Commands(monitoring.CommandListener):
    """Keeps the commands that a client sends."""

    def __init__(self):
        self.sent = []

    def started(self, event):
        # As JSON: what the driver has sent must not change when somebody reads it.
        self.sent.append(json.loads(json.dumps(dict(event.command), default=str)))

    def succeeded(self, event): ...

    def failed(self, event): ...


def names_in(value):
    """Yield every name in a command that begins with $, or has a part that does."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name[:1] == "$" or ".$" in name:
                yield name
            yield from names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names_in(inner)


def assert_harmless(commands, collection, opened=()):
    allowed = COMMON | STAGES | OF_THE_DRIVER | set(opened)
    for command in commands.sent:
        kind = next(iter(command))
        assert kind in COMMANDS | {"abortTransaction"}
        if "Transaction" not in kind:
            assert command[kind] == collection.name
        assert set(names_in(command)) <= allowed, command


async def serve(url, commands, name, started):
    """Serve a service that opens nothing and one that opens little, until told to stop."""
    async with AsyncMongoClient(url, event_listeners=[commands]) as driver:
        collection = driver[DATABASE][name]
        opened = MongoDBService(
            collection,
            multi=True,
            operators=["$regex", "$options"],
            update_operators=["$push"],
            max_time_ms=3_000,
        )
        paginate = {"default": 5, "max": 10}
        app = express(App())
        app.use(json_body())
        app.configure(rest())
        app.use("notes", MongoDBService(collection, multi=True, paginate=paginate))
        app.use("opened", opened)
        app.use(not_found())
        app.use(error_handler(logger=False))
        server = await app.listen(0)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        started.put((server.url, lambda: loop.call_soon_threadsafe(stop.set)))
        await stop.wait()
        await server.close()


@pytest.fixture(scope="module")
def target(mongodb_url):
    """A client of the application, its collection by a client of its own, what is sent to it."""
    commands, started = Commands(), queue.Queue()
    with MongoClient(mongodb_url) as own, ThreadPoolExecutor(1) as thread:
        collection = own[DATABASE][f"c{ObjectId()}"]
        served = thread.submit(asyncio.run, serve(mongodb_url, commands, collection.name, started))
        url, stop = started.get(timeout=SECONDS_TO_START)
        with httpx2.Client(base_url=url, trust_env=False) as client:
            yield client, collection, commands
        stop()
        served.result()
        collection.drop()


@pytest.fixture
def attacked(target):
    """The same, with the records that every test begins with."""
    client, collection, commands = target
    if stored(collection) != NOTES:
        collection.drop()
        collection.insert_many([dict(each) for each in NOTES])
    commands.sent.clear()
    return client, collection, commands


def stored(collection):
    return list(collection.find().sort("_id"))


QUERIES = [
    "$where=1",
    "$where=function(){return true}",
    "name[$where]=1",
    "name[$ne]=x&$where=sleep(1000)",
    "$or[0][$where]=1",
    "$or[0][name]=x&$or[1][$or][0][$where]=1",
    "$and[0][$and][0][$or][0][name][$where]=1",
    "$or[0][name][$function][body]=1",
    "$expr[$function][body]=function(){return true}",
    "$and[0][$expr][$eq][]=1",
    "name[$expr]=1",
    "name[$not][$where]=1",
    "name[$elemMatch][$where]=1",
    "name[$in][0][$where]=1",
    "name[$in][0][$ne]=1",
    "name[$ne][$where]=1",
    "name[$eq]=Ada",
    "name[$regex]=.*",
    "name[x][$where]=1",
    "name[x][y][$function][body]=1",
    "a.$where=1",
    "a.b.$function=1",
    "__proto__[$where]=1",
    "constructor[prototype][$where]=1",
    "$text[$search]=a",
    "$search=a",
    "$jsonSchema[required][]=x",
    "$comment=x",
    "$nor[0][name]=x",
    "$natural=1",
    "$lookup[from]=users",
    "$out=users",
    "$merge[into]=users",
    "$unionWith=users",
    "$framework=1",
    "$select[x][$function][body]=1",
    "$select[0][$function][body]=1",
    "$select[]=$where",
    "$select[]=a.$slice",
    "$select[secret]=1",
    "$sort[$where]=1",
    "$sort[name][$meta]=textScore",
    "$sort[a.$b]=1",
    "$sort[]=name",
    "$limit[$gt]=0",
    "$limit[]=1&$limit[]=2",
    "$limit=-1",
    "$limit=1e3",
    "$skip[$function]=1",
    "$skip=99999999999999999999",
    "$OR[0][name]=x",
    "%24where=1",
    "name%5B%24where%5D=1",
    "a%00b=1",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_is_not_open_is_refused(attacked, query):
    client, collection, commands = attacked
    for method, path in (
        ("GET", "/notes"), ("GET", "/notes/n1"), ("PATCH", "/notes"), ("DELETE", "/notes"),
        ("PUT", "/notes/n1"), ("DELETE", "/notes/n1"),
    ):  # fmt: skip
        body = {"json": {"name": "x"}} if method in {"PATCH", "PUT"} else {}
        reply = client.request(method, f"{path}?{query}", **body)
        # A limit means nothing to a method that has one record; all else is the same for all.
        assert reply.status_code in {400, 404}, (method, path, reply.text)
        assert "$function" not in reply.json().get("message", "") or "Invalid" in reply.text
    assert [name for name in map(next, map(iter, commands.sent)) if name != "find"] == []
    assert stored(collection) == NOTES
    assert_harmless(commands, collection)


PARAMS = [
    "pipeline[0][$out]=users",
    "docdb[upsert]=true",
    "adapter[multi]=true",
    "collation[locale]=en",
    "provider=",
    "user[admin]=true",
    "paginate=false",
]


@pytest.mark.parametrize("query", PARAMS)
def test_params_do_not_come_with_the_query(attacked, query):
    client, collection, commands = attacked
    reply = client.get(f"/notes?{query}")
    if reply.status_code == 200:
        assert reply.json() == {"total": 0, "limit": 5, "skip": 0, "data": []}
    assert_harmless(commands, collection)
    assert stored(collection) == NOTES


IDS = [
    '{"$ne":null}',
    '{"$gt":""}',
    "[$ne]=1",
    "$where",
    "1' || '1'=='1",
    "1;return true",
    "a\0b",
    "\u2028",
    "[object Object]",
    "true",
    "null",
    "x" * 5_000,
]


@pytest.mark.parametrize("id", IDS)
def test_an_id_is_a_value_and_nothing_else(attacked, id):
    client, collection, commands = attacked
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        body = {"json": {"name": "x"}} if method in {"PATCH", "PUT"} else {}
        reply = client.request(method, f"/notes/{quote(id, safe='')}", **body)
        assert reply.status_code == 404, (method, reply.text)
    assert stored(collection) == NOTES
    assert_harmless(commands, collection)


BODIES = [
    {"$set": {"name": "x"}},
    {"$where": "1"},
    {"$rename": {"secret": "public"}},
    {"$unset": {"secret": ""}},
    {"$currentDate": {"name": True}},
    {"name": "x", "$set": {"secret": "x"}},
    {"name": {"$function": {"body": "1"}}},
    {"name": {"a": [{"b": {"$where": "1"}}]}},
    {"list": [[[{"$inc": 1}]]]},
    {"$": 1},
    {"$$ROOT": 1},
]


@pytest.mark.parametrize("body", BODIES, ids=json.dumps)
def test_a_body_with_operators_is_refused(attacked, body):
    client, collection, commands = attacked
    for method, path in (
        ("POST", "/notes"), ("PUT", "/notes/n1"), ("PATCH", "/notes/n1"), ("PATCH", "/notes"),
        ("PATCH", "/opened/n1"), ("PUT", "/opened/n1"),
    ):  # fmt: skip
        reply = client.request(method, path, json=body)
        assert reply.status_code == 400, (method, path, reply.text)
        assert "Invalid key $" in reply.json()["message"]
    reply = client.post("/notes", json=[{"name": "fine"}, body])
    assert reply.status_code == 400
    assert commands.sent == []
    assert stored(collection) == NOTES


@pytest.mark.parametrize(
    "path", ["tags.$", "tags.$[]", "tags.$[x]", "a.$where", "a..b", ".a", "a.", "", "_id.x"]
)
def test_a_dotted_key_leads_to_a_field_or_nowhere(attacked, path):
    client, collection, commands = attacked
    for target in ("/notes/n1", "/notes"):
        reply = client.patch(target, json={path: "x"})
        assert reply.status_code == 400, reply.text
    assert stored(collection) == NOTES
    assert_harmless(commands, collection)


def test_the_id_does_not_change(attacked):
    client, collection, _ = attacked
    for body in ({"_id": 9}, {"_id": {"$ne": 1}}, {"_id": None, "name": "Ada"}):
        reply = client.patch("/opened/n1", json=body)
        assert reply.status_code in {200, 400}
    reply = client.patch("/opened/n1", json={"$push": {"_id": 1}})
    assert reply.status_code == 400
    assert stored(collection) == NOTES


@pytest.mark.parametrize("id", [{"$ne": 1}, {"a": 1}, [1], True])
def test_a_new_id_holds_nothing_else(attacked, id):
    client, collection, commands = attacked
    reply = client.post("/notes", json={"_id": id})
    assert reply.status_code == 400
    assert commands.sent == []
    assert stored(collection) == NOTES


def test_an_opened_operator_opens_nothing_else(attacked):
    client, collection, commands = attacked
    reply = client.get("/opened?name[$regex]=^a&name[$options]=i")
    assert [each["name"] for each in reply.json()] == ["Ada"]
    for query in ("name[$regex][$where]=1", "name[$regex]=a&name[$where]=1", "$regex=a"):
        assert (client.get(f"/opened?{query}")).status_code == 400
    for body in ({"$push": {"tags": {"$each": [1]}}}, {"$push": {"tags": 1}, "$set": {"a": 1}}):
        assert (client.patch("/opened/n1", json=body)).status_code == 400
    assert_harmless(commands, collection, ["$regex", "$options"])
    assert stored(collection) == NOTES


@pytest.mark.parametrize("text", ["[", "(?<", "*", "a{99999}", "(" * 300, "(?R)" * 50])
def test_a_broken_expression_is_a_bad_request(attacked, text):
    client, *_ = attacked
    reply = client.get(f"/opened?name[$regex]={quote_plus(text)}")
    assert reply.status_code == 400
    assert reply.json()["message"].startswith("The database refuses")
    assert (client.get("/opened?name[$regex]=a&name[$options]=q")).status_code == 400


def test_a_catastrophic_expression_ends_in_time(attacked):
    client, collection, _ = attacked
    collection.insert_many([{"name": "a" * 50 + "!"} for _ in range(3_000)])
    start = time.perf_counter()
    reply = client.get(f"/opened?name[$regex]={quote_plus('^(a|a|aa)+$')}")
    assert reply.status_code in {400, 408}
    assert reply.json()["name"] in {"BadRequest", "Timeout"}
    assert time.perf_counter() - start < SECONDS


def test_a_long_list_is_answered_and_an_endless_one_refused(attacked):
    client, collection, commands = attacked
    start = time.perf_counter()
    many = "&".join(f"name[$in][]={number}" for number in range(900))
    assert (client.get(f"/notes?{many}&name[$in][]=Ada")).json()["total"] == 1
    nested = "&".join(f"$or[{number}][name]=x" for number in range(900))
    assert (
        (client.get(f"/notes?{nested}"))
        .json()["message"]
        .startswith("The query has 900 conditions, and 100 are allowed")
    )
    endless = "&".join("name[$in][]=x" for _ in range(1_100))
    assert (client.get(f"/notes?{endless}")).status_code == 400
    selected = "&".join(f"$select[]=f{number}.a.b" for number in range(900))
    assert (client.get(f"/notes?{selected}")).json()["total"] == 2
    assert time.perf_counter() - start < SECONDS
    assert_harmless(commands, collection)


def test_errors_tell_nothing_of_other_records(attacked):
    client, collection, _ = attacked
    collection.create_index("secret", unique=True)
    reply = client.patch("/notes/n1", json={"secret": "s2"})
    assert reply.status_code == 409
    assert reply.json()["errors"] == {"secret": "is taken"}
    for told in ("s2", "E11000", collection.name, "dup key", "127.0.0.1"):
        assert told not in reply.text


# -- generated -------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    [
        "name", "tags", "a.b", "_id", "$where", "$expr", "$function", "$or", "$and", "$nor", "$not",
        "$in", "$ne", "$gt", "$eq", "$regex", "$elemMatch", "$select", "$sort", "$limit", "$skip",
        "$lookup", "$out", "$text", "a.$b", "__proto__", "",
    ]
)  # fmt: skip
VALUES = st.recursive(
    st.sampled_from(["1", "x", 1, None, True, "$where", "64b0000000000000000000d1", 2**64, 1.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(query=st.dictionaries(NAMES, VALUES, max_size=4))
def test_no_query_brings_anything_through(query):
    """Whatever the grammar lets pass becomes stages that are made of common operators only."""
    service = MongoDBService(AsyncMongoClient(connect=False)["a"]["b"])
    try:
        stages = service.make_framework_pipeline({"query": query, "provider": "rest"})
    except BadRequest:
        return
    sent = json.loads(json.dumps(stages, default=str))
    assert set(names_in(sent)) <= COMMON | STAGES, stages
