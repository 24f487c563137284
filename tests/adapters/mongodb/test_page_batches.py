"""Concurrent finds share round trips: equal pages, and all pages of few records with the total."""

from __future__ import annotations

import asyncio
import time

import pytest
from bson import ObjectId
from bson.errors import InvalidBSON
from pymongo import AsyncMongoClient, monitoring
from pymongo.errors import (
    AutoReconnect,
    ExecutionTimeout,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
)

from alula._context import Params
from alula.adapters import _totals as totals_module
from alula.adapters.mongodb import MongoDBService
from alula.adapters.mongodb import _batches as batches_module
from alula.adapters.mongodb._batches import Batches
from alula.adapters.mongodb._options import MongoDBOptions, limited
from alula.errors import Unavailable

DATABASE = "alula_page_batches"
CASE_BLIND = {"locale": "en", "strength": 2}


class Commands(monitoring.CommandListener):
    def __init__(self) -> None:
        self.sent: list[dict] = []

    def started(self, event):
        if event.command_name in ("aggregate", "find", "count"):
            self.sent.append(dict(event.command))

    def succeeded(self, event): ...

    def failed(self, event): ...

    def take(self) -> list[dict]:
        sent, self.sent = self.sent, []
        return sent


@pytest.fixture(scope="module")
def commands():
    return Commands()


@pytest.fixture(scope="module")
async def watched(mongodb_url, commands):
    async with AsyncMongoClient(mongodb_url, event_listeners=[commands]) as client:
        yield client
        await client.drop_database(DATABASE)


@pytest.fixture
async def model(watched, commands):
    collection = watched[DATABASE][f"c{ObjectId()}"]
    await collection.insert_many(
        [{"_id": n, "n": n, "owner": n % 3, "inner": {"list": [n]}} for n in range(30)]
    )
    yield collection
    await collection.drop()


@pytest.fixture
def service(model, commands):
    """Makes services that know the totals of some queries already."""

    async def make(*known, **options):
        service = MongoDBService(model, **({"paginate": {"default": 5, "max": 500}} | options))
        for query in known:
            await service.find({"query": query})
        commands.take()
        return service

    return make


async def pages(service, *queries, **params):
    """Find all of them in one turn of the event loop."""
    return await asyncio.gather(*(service.find({"query": query, **params}) for query in queries))


def numbers(page):
    return [record["n"] for record in page["data"]]


# -- pages of few records, with their total --------------------------------------------------------


async def test_pages_of_one_query_come_with_their_total_in_one_round_trip(service, commands):
    query = {"n": {"$gte": 3}, "$sort": {"n": -1}, "$select": ["n"]}
    finds = await service(query)
    found = await pages(
        finds,
        query,
        query | {"$skip": 5},
        query | {"$skip": 22, "$limit": 5},
        query | {"$skip": 500},
        query | {"$limit": 2},
    )
    assert [page["total"] for page in found] == [27] * 5
    assert [page["limit"] for page in found] == [5, 5, 5, 5, 2]
    assert [numbers(page) for page in found] == [
        [29, 28, 27, 26, 25],
        [24, 23, 22, 21, 20],
        [7, 6, 5, 4, 3],
        [],
        [29, 28],
    ]
    assert all(set(record) == {"_id", "n"} for page in found for record in page["data"])
    assert len(commands.take()) == 1


async def test_they_are_what_each_would_be_alone(service, commands):
    query = {"owner": {"$ne": 1}, "$sort": {"owner": 1, "n": -1}}
    queries = [query | {"$skip": skip, "$limit": limit} for skip in range(4) for limit in (1, 7)]
    finds = await service(query)
    together = await pages(finds, *queries)
    assert len(commands.take()) == 1
    assert together == [await finds.find({"query": each}) for each in queries]
    unordered = [{"$skip": skip} for skip in range(3)]
    await finds.find()
    assert await pages(finds, *unordered) == [
        await finds.find({"query": each}) for each in unordered
    ]


async def test_callers_of_one_page_share_nothing_of_it(service):
    finds = await service({})
    first, second = await pages(finds, {}, {})
    first["data"][0]["inner"]["list"].append("mine")
    first["data"].pop()
    assert len(second["data"]) == 5
    assert second["data"][0]["inner"] == {"list": [0]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"owner": 1}, {"owner": 2}),
        ({"owner": 1}, {"owner": 1.0}),
        ({"owner": 1}, {"owner": True}),
        ({"$sort": {"n": 1}}, {"$sort": {"n": -1}}),
        ({"$sort": {"n": 1, "owner": 1}}, {"$sort": {"owner": 1, "n": 1}}),
        ({"$select": ["n"]}, {"$select": ["owner"]}),
        ({"$select": ["n"]}, {}),
    ],
)
async def test_finds_that_differ_never_mix(service, commands, one, other):
    finds = await service(one, other)
    found = await pages(finds, one, other)
    assert len(commands.take()) >= 2
    assert found == [await finds.find({"query": each}) for each in (one, other)]


async def test_collations_never_mix(service, model, commands):
    await model.insert_many([{"_id": "A", "name": "ann"}, {"_id": "B", "name": "ANN"}])
    finds = await service({"name": "ann"})
    query = {"name": "ann", "$limit": 1}
    plain, blind = await asyncio.gather(
        finds.find({"query": query}), finds.find({"query": query, "collation": CASE_BLIND})
    )
    assert (plain["total"], blind["total"]) == (1, 2)
    assert len(commands.take()) == 2


async def test_users_whom_a_query_limits_see_their_own_records(service, commands):
    finds = await service(*({"owner": user} for user in range(3)))
    calls = [(user, skip) for skip in (0, 5) for user in range(3)]
    found = await pages(finds, *({"owner": user, "$skip": skip} for user, skip in calls))
    for (user, _), page in zip(calls, found, strict=True):
        assert {record["owner"] for record in page["data"]} == {user}
    assert len(commands.take()) == 3


async def test_many_different_pages_take_several_round_trips(service, commands):
    finds = await service({})
    queries = [{"$sort": {"n": 1}, "$skip": skip, "$limit": 1} for skip in range(30)]
    found = await pages(finds, *queries, *queries)
    assert [numbers(page) for page in found] == [[n] for n in range(30)] * 2
    assert [len(each["pipeline"][-1]["$facet"]) for each in commands.take()] == [21, 11]


@pytest.mark.parametrize(
    "error",
    [
        OperationFailure("BufBuilder attempted to grow()", 13548),
        OperationFailure("interrupted", 11601),
        ExecutionTimeout("too late", 50),
        NetworkTimeout("too late"),
        InvalidBSON("a date beyond the year 9999"),
        MemoryError(),
    ],
    ids=repr,
)
async def test_where_a_shared_one_fails_each_is_queried_alone(service, model, monkeypatch, error):
    finds = await service({})
    aggregate, ended = type(model).aggregate, []

    async def fail(self, stages, **options):
        if "$facet" in stages[-1] and len(stages[-1]["$facet"]) > 2:
            raise error
        ended.append(await aggregate(self, stages, **options))
        return ended[-1]

    monkeypatch.setattr(type(model), "aggregate", fail)
    found = await pages(finds, *({"$sort": {"n": 1}, "$skip": n, "$limit": 1} for n in range(25)))
    assert [numbers(page) for page in found] == [[n] for n in range(25)]
    assert len(ended) == 25


async def test_where_the_database_is_gone_all_of_them_fail(service, model, monkeypatch):
    finds = await service({})
    tried = []

    async def fail(self, stages, **options):
        tried.append(stages)
        raise AutoReconnect("no")

    monkeypatch.setattr(type(model), "aggregate", fail)
    calls = [finds.find({"query": {"$skip": skip, "$limit": 1}}) for skip in range(5)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in found] == [Unavailable] * 5
    assert len(tried) == 1


@pytest.mark.parametrize("with_total", [True, False])
async def test_pages_of_ten_megabytes_that_are_read_at_once(service, model, with_total):
    await model.insert_many([{"large": "x" * 1_000_000, "n": n} for n in range(80)])
    large = {"large": {"$ne": None}, "$sort": {"n": 1}, "$limit": 10}
    finds = await service(large)
    params = {} if with_total else {"paginate": False}
    found = await pages(finds, *(large | {"$skip": 10 * n} for n in range(8)), **params)
    records = [page["data"] if with_total else page for page in found]
    assert [page[0]["n"] for page in records] == list(range(0, 80, 10))
    assert all(len(page) == 10 for page in records)


@pytest.mark.parametrize("code", [146, 292, 10334])
async def test_what_does_not_fit_into_one_document_is_queried_page_by_page(
    service, model, monkeypatch, code
):
    finds = await service({})
    aggregate = type(model).aggregate

    async def refuse(self, stages, **options):
        if "$facet" in stages[-1]:
            raise OperationFailure("no", code)
        return await aggregate(self, stages, **options)

    monkeypatch.setattr(type(model), "aggregate", refuse)
    queries = [{"$sort": {"n": 1}, "$skip": skip} for skip in (0, 5, 5)]
    found = await pages(finds, *queries)
    assert [(page["total"], numbers(page)[0]) for page in found] == [(30, 0), (30, 5), (30, 5)]


async def test_large_records_of_several_pages_do_not_fit_into_one_document(service, model):
    await model.insert_many([{"large": "x" * 3_000_000, "n": n} for n in range(7)])
    large = {"large": {"$ne": None}, "$limit": 4, "$sort": {"n": 1}}
    finds = await service(large)
    found = await pages(finds, large, large | {"$skip": 3}, large | {"$skip": 1})
    assert [(page["total"], numbers(page)[0]) for page in found] == [(7, 0), (7, 3), (7, 1)]


async def test_a_page_that_is_expected_to_be_short_needs_no_total(service, commands):
    finds = await service({})
    full, short = await pages(finds, {}, {"$skip": 27})
    assert (full["total"], short["total"]) == (30, 30)
    assert sum("$facet" in each["pipeline"][-1] for each in commands.take()) == 1


# -- pages without a total, or of many records -----------------------------------------------------


async def test_equal_pages_of_many_records_take_one_query(service, commands, monkeypatch):
    monkeypatch.setattr(totals_module, "MAX_COMBINED", 20)
    query = {"$sort": {"n": 1}}
    finds = await service(query)
    found = await pages(finds, query, query, query | {"$skip": 5}, query | {"$skip": 5})
    assert [numbers(page)[0] for page in found] == [0, 0, 5, 5]
    assert [page["total"] for page in found] == [30] * 4
    assert len(commands.take()) == 3  # two pages and one count
    found[0]["data"][0]["inner"]["list"].append("mine")
    assert found[1]["data"][0]["inner"] == {"list": [0]}


async def test_pages_that_nobody_counts_are_shared_too(service, commands):
    finds = await service(paginate={"default": 5, "count": "none"})
    first, second = await pages(finds, {}, {})
    assert first == second
    lists = await pages(finds, {"$limit": 3}, {"$limit": 3}, paginate=False)
    assert [len(records) for records in lists] == [3, 3]
    assert len(commands.take()) == 2


@pytest.mark.parametrize("query", [{}, {"$limit": 101}])
async def test_large_pages_go_alone(service, commands, query):
    finds = await service()
    await asyncio.gather(*(finds.find(Params(query=query, paginate=False)) for _ in range(3)))
    assert len(commands.take()) == 3


async def test_large_pages_with_their_total_go_alone(service, commands, monkeypatch):
    monkeypatch.setattr(batches_module, "_MAX_PAGE", 4)
    finds = await service({})
    found = await pages(finds, {}, {}, {"$limit": 4}, {"$limit": 4})
    assert [(page["total"], len(page["data"])) for page in found] == [
        (30, 5),
        (30, 5),
        (30, 4),
        (30, 4),
    ]
    assert len(commands.take()) == 3


# -- what is never shared --------------------------------------------------------------------------


async def test_switched_off_each_takes_its_own(service, commands):
    finds = await service({}, share={"find": False})
    await pages(finds, {}, {})
    assert len(commands.take()) == 2


@pytest.mark.parametrize(
    "params", [{"docdb": {}}, {"docdb": {"comment": "mine"}}, {"pipeline": [{"$match": {}}]}]
)
async def test_finds_with_options_or_stages_of_their_own_go_alone(service, commands, params):
    finds = await service(paginate={"default": 5, "count": "none"})
    await pages(finds, {}, {}, **params)
    assert len(commands.take()) == 2


async def test_nothing_is_shared_in_a_session(service, model, commands):
    finds = await service({})
    async with model.database.client.start_session() as session:
        inside = {"docdb": {"session": session}}
        await asyncio.gather(finds.find(), finds.find(), finds.find(inside))
        own = [each for each in commands.take() if each["lsid"] == session.session_id]
    assert [next(iter(each)) for each in own] == ["find", "aggregate"]


# -- as for all batches ----------------------------------------------------------------------------


async def test_who_finds_after_a_write_finds_it(service, model):
    query = {"n": {"$gte": 20}, "$sort": {"n": -1}, "$limit": 1}
    finds = await service(query)
    for n in range(20):
        under_way = [asyncio.ensure_future(finds.find({"query": query})) for _ in range(3)]
        await asyncio.sleep(0.0002 * (n % 5))
        await model.insert_one({"n": 100 + n})
        page = await finds.find({"query": query})
        assert (numbers(page), page["total"]) == ([100 + n], 11 + n)
        await asyncio.gather(*under_way)


async def test_a_cancelled_caller_hurts_no_other(service):
    finds = await service({})
    first, second, third = (asyncio.ensure_future(finds.find()) for _ in range(3))
    await asyncio.sleep(0)
    second.cancel()
    assert (await first)["total"] == (await third)["total"] == 30
    assert finds._batches._batchers == {}


@pytest.mark.parametrize("share", [True, False])
async def test_over_time_is_over_time_for_all_that_shared_it(model, share):
    sleep = {"body": "function () { sleep(500); return true }", "args": [], "lang": "js"}
    slow = [{"$match": {"$expr": {"$function": sleep}}}]
    batches = Batches()
    options = MongoDBOptions(seconds=0.2).changed({"share": share}, ())
    began = time.monotonic()
    with limited(options.seconds):
        results = await asyncio.gather(
            *(batches.page_and_total(model, slow, (0, 5), options, {}) for _ in range(3)),
            *(batches.page(model, slow, 5, options, {}) for _ in range(3)),
            return_exceptions=True,
        )
    assert time.monotonic() - began < 10
    assert all(isinstance(result, PyMongoError) and result.timeout for result in results)
    assert batches._batchers == {}
