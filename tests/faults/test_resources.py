"""Cursors that die, pools that are exhausted, and what is left of it: nothing."""

from __future__ import annotations

import asyncio

import pytest
from pymongo import MongoClient
from pymongo.monitoring import CommandListener
from tests.faults.serving import DATABASE, Site, site_on

TAKE_A_SECOND = "function() { sleep(1000); return true }"
SLOWLY = {"$function": {"body": TAKE_A_SECOND, "args": [], "lang": "js"}}


class KillsCursors(CommandListener):
    """Ends each cursor on the server as soon as its first batch has come."""

    def __init__(self, url: str) -> None:
        self.url, self.killed, self.awake = url, 0, True

    def succeeded(self, event):
        cursor = event.reply.get("cursor", {})
        if self.awake and event.command_name in {"find", "aggregate"} and cursor.get("id"):
            database, _, collection = cursor["ns"].partition(".")
            with MongoClient(self.url) as client:
                client[database].command("killCursors", collection, cursors=[cursor["id"]])
            self.killed += 1

    def started(self, event):
        """Of no interest."""

    failed = started


@pytest.mark.parametrize("docdb", [None, {"batch_size": 20}], ids=["aggregation", "plain find"])
async def test_a_cursor_that_dies_is_an_error_and_the_next_call_works(mongodb_url, docdb):
    killer = KillsCursors(mongodb_url)

    def use_docdb(context):
        context.params.docdb = docdb

    async with site_on(mongodb_url, 10, [killer]) as site:
        await site.records.insert_many([{"_id": n} for n in range(300)])
        site.app.service("records").hooks(before={"find": [use_docdb]})
        for expected in (1, 2):
            answer = await site.send("GET", "/records")
            assert (answer.status_code, killer.killed) == (503, expected)
        killer.awake = False
        answer = await site.send("GET", "/records?$select[]=_id")
        assert answer.json() == [{"_id": n} for n in range(300)]
        assert await open_cursors(site) == 0


async def open_cursors(site: Site) -> int:
    ours = {"type": "idleCursor", "ns": {"$regex": f"^{DATABASE}\\."}}
    stages = [{"$currentOp": {"idleCursors": True}}, {"$match": ours}]
    return len(await (await site.mongo.admin.aggregate(stages)).to_list())


# -- the pool -------------------------------------------------------------------------------------


def read_slowly(context):
    context.params.pipeline = [{"$match": {"$expr": SLOWLY}}]


async def test_a_pool_that_is_exhausted_is_an_error_and_recovers(mongodb_url):
    no_limit = {"mongodb_max_time_ms": False}  # within one, waitQueueTimeoutMS does not count
    pool = {"maxPoolSize": 2, "waitQueueTimeoutMS": 200}
    async with site_on(mongodb_url, 10, settings=no_limit, **pool) as site:
        await site.records.insert_one({"_id": 1})
        site.app.service("records").hooks(before={"find": [read_slowly]})
        for _ in range(2):
            answers = await asyncio.gather(*(site.send("GET", "/records") for _ in range(10)))
            statuses = [answer.status_code for answer in answers]
            assert set(statuses) == {200, 503}
            assert 2 <= statuses.count(200) <= 5  # a late one may find a connection free again
            for _ in range(5):
                assert (await site.send("POST", "/records", json={})).status_code == 201
            await site.records.delete_many({"_id": {"$ne": 1}})


async def test_no_connection_within_the_time_limit_is_an_error_and_recovers(mongodb_url):
    def is_a_report(context):
        read_slowly(context)
        context.params.adapter = {"max_time_ms": 8_000}

    limit = {"mongodb_max_time_ms": 300}
    async with site_on(mongodb_url, 10, settings=limit, maxPoolSize=2) as site:
        await site.records.insert_many([{"_id": "one"}, {"_id": "two"}])  # a second each
        site.app.service("records").hooks(before={"find": [is_a_report]})
        for _ in range(2):
            reports = [asyncio.ensure_future(site.send("GET", "/records")) for _ in range(2)]
            for _ in range(3_000):
                await asyncio.sleep(0.01)
                if site.watch.in_use == 2:
                    break
            assert site.watch.in_use == 2
            calls = [site.send("GET", "/records/one") for _ in range(5)]
            calls += [site.send("POST", "/records", json={}) for _ in range(5)]
            assert [answer.status_code for answer in await asyncio.gather(*calls)] == [503] * 10
            assert [answer.status_code for answer in await asyncio.gather(*reports)] == [200] * 2
            assert (await site.send("GET", "/records/one")).json() == {"_id": "one"}
            assert await site.records.count_documents({}) == 2, "a refused write took effect"


async def test_requests_that_have_to_wait_for_a_connection_get_one_in_turn(mongodb_url):
    async with site_on(mongodb_url, 20, maxPoolSize=1, waitQueueTimeoutMS=10_000) as site:
        made = [site.send("POST", "/orders", json={"n": n}) for n in range(20)]
        assert {answer.status_code for answer in await asyncio.gather(*made)} == {201}
        found = (await site.send("GET", "/orders")).json()
        assert sorted(order["n"] for order in found) == list(range(20))


async def test_a_call_that_is_given_up_gives_its_connection_back(mongodb_url):
    async with site_on(mongodb_url, 10, maxPoolSize=1, waitQueueTimeoutMS=5_000) as site:
        await site.records.insert_one({"_id": "one"})
        slow = {"pipeline": [{"$match": {"$expr": SLOWLY}}]}
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(site.app.service("records").find(slow), 0.1)
        assert (await site.send("GET", "/records/one")).json() == {"_id": "one"}


# -- sessions -------------------------------------------------------------------------------------


async def test_sessions_are_used_again(mongodb_url):
    async with site_on(mongodb_url, 10) as site:
        for turn in range(10):
            calls = [site.send("POST", "/orders", json={"turn": turn}) for _ in range(4)]
            calls += [site.send("GET", "/records/none"), site.send("GET", "/orders")]
            await asyncio.gather(*calls)
            if turn == 0:
                site.watch.sessions.clear()
        assert 0 < len(site.watch.sessions) <= 12  # of 60 calls, six at a time
        status = await site.mongo.admin.command("serverStatus")
        assert status["transactions"]["currentOpen"] == 0
        assert await site.mongo[DATABASE].orders.count_documents({}) == 40
