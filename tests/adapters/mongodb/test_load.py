"""What strangers can make the database do, and what a killed process leaves behind."""

from __future__ import annotations

import asyncio
import json as json_module
import signal
import subprocess
import sys
import time
from urllib.parse import urlencode

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient
from tests.express.asgi_client import call
from tests.requirements import require_mongod

from alula import App
from alula.adapters.mongodb import MongoDBService
from alula.errors import BadRequest, Timeout, Unavailable
from alula.express import error_handler, express, json, rest
from alula.local_mongodb import LocalServer
from alula.local_mongodb._mongod import TRANSACTION_SECONDS

pytestmark = pytest.mark.slow

LOCK = """
import sys
from bson import ObjectId
from pymongo import MongoClient

client = MongoClient(sys.argv[1])
session = client.start_session()
session.start_transaction()
key = {"_id": ObjectId(sys.argv[3])}
client["alula_adapter"][sys.argv[2]].update_one(key, {"$set": {"n": 2}}, session=session)
print("locked", flush=True)
sys.stdin.read()
"""


def served(service):
    app = express(App())
    app.use(json())
    app.configure(rest())
    app.use("records", service)
    app.use(error_handler(logger=False))
    return app


def sleeping(milliseconds):
    body = f"function () {{ sleep({milliseconds}) }}"
    return {"$expr": {"$function": {"body": body, "args": [], "lang": "js"}}}


def conditions(number):
    return {f"$or[{n}][n][$gt]": f"value {n:06}" for n in range(number)}


async def test_a_long_query_of_a_stranger_is_refused_before_it_reaches_the_database(offline):
    app = served(MongoDBService(offline, multi=True))
    for method, url, body in (
        ("GET", "/records", None),
        ("GET", "/records/1", None),
        ("PUT", "/records/1", {"n": 1}),
        ("PATCH", "/records", {"n": 1}),
        ("DELETE", "/records", None),
    ):
        query = urlencode(conditions(600))
        assert len(query) > 20_000
        typed = {"content-type": "application/json"} if body else {}
        sent = None if body is None else json_module.dumps(body).encode()
        answer = await call(app, method, f"{url}?{query}", sent, typed)
        assert answer.status == 400
        assert answer.json["message"] == (
            "The query has 600 conditions, and 100 are allowed; compare one field with many values"
            " by $in"
        )


async def test_max_conditions_can_be_raised(collection):
    await collection.insert_one({"n": "value 000150!"})
    query = {"$or": [{"n": {"$gt": f"value {n:06}"}} for n in range(150)]}
    service = MongoDBService(collection)
    with pytest.raises(BadRequest, match=r"150 conditions.*100 are allowed"):
        await service.find({"query": query})
    assert len(await service.find({"query": query, "adapter": {"max_conditions": 150}})) == 1
    assert len(await MongoDBService(collection, max_conditions=150).find({"query": query})) == 1
    assert len(await MongoDBService(collection, max_conditions=False).find({"query": query})) == 1


async def test_an_operation_that_takes_too_long_is_a_408_and_a_line_in_the_log(collection, caplog):
    await collection.insert_many([{"n": n} for n in range(20)])
    app = served(MongoDBService(collection, max_time_ms=200, paginate={"default": 5}))

    async def slow_down(context):
        context.params.pipeline = [{"$match": sleeping(500)}]

    app.service("records").hooks(before={"find": [slow_down]})
    began = time.monotonic()
    answer = await call(app, "GET", "/records")
    assert (answer.status, answer.json["name"]) == (408, "Timeout")
    assert time.monotonic() - began < 8  # of 10 seconds
    assert "longer than its time limit (max_time_ms)" in caplog.text


async def test_slow_queries_take_all_connections_no_longer_than_their_limit(mongodb_url):
    async with AsyncMongoClient(mongodb_url, maxPoolSize=5) as client:
        collection = client["alula_adapter"][f"c{ObjectId()}"]
        key = (await collection.insert_one({"n": 1})).inserted_id
        service = MongoDBService(collection, max_time_ms=800)
        pipeline = [{"$match": sleeping(5_000)}]
        calls = [service.find({"pipeline": pipeline}) for _ in range(8)]
        slow = [asyncio.create_task(call) for call in calls]
        await asyncio.sleep(0.3)
        began = time.monotonic()
        assert (await MongoDBService(collection).get(key))["n"] == 1
        assert time.monotonic() - began < 4
        for error in await asyncio.gather(*slow, return_exceptions=True):
            assert isinstance(error, Timeout | Unavailable)
        assert time.monotonic() - began < 4.5
        await collection.drop()


async def test_a_transaction_of_a_killed_process_holds_writes_up_no_longer_than_their_limit():
    require_mongod()
    async with LocalServer() as server, AsyncMongoClient(server.url) as client:
        await client.admin.command("setParameter", transactionLifetimeLimitSeconds=5)
        key, collection = ObjectId(), client["alula_adapter"]["locked"]
        await collection.insert_one({"_id": key, "n": 1})
        await asyncio.to_thread(lock_and_die, server.url, collection.name, str(key))
        began = time.monotonic()
        with pytest.raises(Timeout):
            await MongoDBService(collection, max_time_ms=500).patch(key, {"n": 3})
        assert 0.4 < time.monotonic() - began < 4.5
        assert (await MongoDBService(collection).get(key))["n"] == 1  # reads are not held up
        patient = MongoDBService(collection, max_time_ms=60_000)
        assert (await patient.patch(key, {"n": 3}))["n"] == 3
        assert time.monotonic() - began < 1.5 * TRANSACTION_SECONDS


async def test_a_database_that_is_gone_is_a_503_for_all_methods_when_the_limit_is_over():
    require_mongod()
    async with LocalServer() as server, AsyncMongoClient(server.url) as client:
        service = MongoDBService(client["alula_adapter"]["gone"], max_time_ms=700, multi=True)
        await service.create({"_id": "one"})
        server._process.kill()  # the driver has not noticed yet that it has no primary
        query = {"query": {"n": 1}}
        began = time.monotonic()
        errors = await asyncio.gather(
            service.find(),
            service.get("one"),
            service.update("one", {}),
            service.create({}),
            service.patch("one", {"n": 1}),
            service.remove("one"),
            service.create([{}, {}]),
            service.patch(None, {"n": 1}, query),
            service.remove(None, query),
            return_exceptions=True,
        )
        assert [type(error) for error in errors] == [Unavailable] * 9
        assert 0.6 < time.monotonic() - began < 20


async def test_the_limit_takes_the_place_of_that_for_finding_a_server():
    url = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS="
    for selection_ms, limit in ((50, 500), (60_000, 500), (500, False)):
        async with AsyncMongoClient(f"{url}{selection_ms}") as client:
            began = time.monotonic()
            with pytest.raises(Unavailable):
                await MongoDBService(client["away"]["away"], max_time_ms=limit).get("one")
            assert 0.4 < time.monotonic() - began < 20


def lock_and_die(*arguments):
    command = [sys.executable, "-c", LOCK, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout.readline() == b"locked\n"
        worker.send_signal(signal.SIGKILL)


async def test_the_local_server_ends_transactions_that_nobody_ends(client):
    found = await client.admin.command("getParameter", transactionLifetimeLimitSeconds=1)
    assert found["transactionLifetimeLimitSeconds"] == TRANSACTION_SECONDS
