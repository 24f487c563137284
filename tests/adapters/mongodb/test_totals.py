from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient, monitoring
from pymongo.errors import OperationFailure

from alula import App, Params
from alula.adapters import _totals as totals_module
from alula.adapters._options import Pagination
from alula.adapters._totals import Totals
from alula.adapters.mongodb import MongoDBService
from alula.adapters.mongodb._options import MongoDBOptions
from alula.errors import GeneralError, Timeout
from alula.query import Grammar

GRAMMAR = Grammar()


class Collection:
    """A page and a count that say when they begin, and wait until they may end."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.begun: list[str] = []
        self.together = 0
        self.most_together = 0

    async def _work(self, name: str) -> None:
        self.begun.append(name)
        self.together += 1
        self.most_together = max(self.most_together, self.together)
        await asyncio.sleep(0)
        self.together -= 1

    async def find(self, totals: Totals, **options) -> tuple[int, int]:
        """Return the number of records and the total of a find; note what it asked for."""
        names = {"limit": "$limit", "skip": "$skip"}
        query = GRAMMAR.read(
            {names[name]: options.pop(name) for name in names if name in options}
            | options.pop("criteria", {})
        )

        async def page():
            await self._work("page")
            return [{}] * max(0, min(query.limit, self.total - query.skip))

        async def count():
            await self._work("count")
            return self.total

        self.begun, self.most_together = [], 0
        records, total = await totals.with_page(query, page, count, **options)
        return len(records), total


# -- the option ------------------------------------------------------------------------------------


def test_the_way_to_count_stands_with_the_page_sizes():
    assert MongoDBOptions().counting == "exact"
    assert MongoDBOptions(pagination=Pagination(10), estimates=True).counting == "estimated"
    for way in ("exact", "estimated", "none"):
        pagination = Pagination(10, None, {"count": way})
        assert MongoDBOptions(pagination=pagination).counting == way


@pytest.mark.parametrize("way", ["some", None, True, ["exact"]])
def test_another_way_is_refused(way):
    with pytest.raises(ValueError, match=r"^paginate: 'count' is .*'exact', 'estimated'"):
        MongoDBOptions().changed(
            {"paginate": {"max": 10, "count": way}}, MongoDBService.paginate_options
        )


# -- what the page tells ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "skip", "limit", "counted"),
    [
        (0, 0, 10, False),
        (5, 0, 10, False),
        (10, 0, 10, True),
        (11, 0, 10, True),
        (15, 10, 10, False),
        (20, 10, 10, True),
        (10, 10, 10, True),
        (5, 10, 10, True),
    ],
)
async def test_only_a_page_that_is_full_or_beyond_the_end_costs_a_count(
    total, skip, limit, counted
):
    collection = Collection(total)
    found = await collection.find(Totals(), skip=skip, limit=limit)
    assert found == (max(0, min(limit, total - skip)), total)
    assert collection.begun == (["page", "count"] if counted else ["page"])


async def test_where_a_page_was_full_before_the_next_is_counted_beside_it():
    totals, collection = Totals(), Collection(100)
    assert await collection.find(totals, limit=10) == (10, 100)
    assert collection.most_together == 1
    assert await collection.find(totals, limit=10, skip=50) == (10, 100)
    assert collection.most_together == 2
    assert await collection.find(totals, limit=10, skip=95) == (5, 100)
    assert collection.begun == ["page"]
    assert await collection.find(totals, limit=10, skip=100) == (0, 100)
    assert collection.most_together == 2


async def test_an_empty_collection_is_not_counted_on_the_first_page():
    totals, collection = Totals(), Collection(0)
    for _ in range(2):
        assert await collection.find(totals, limit=10) == (0, 0)
        assert collection.begun == ["page"]


async def test_the_page_is_believed_where_it_came_before_the_count():
    totals, collection = Totals(), Collection(100)
    await collection.find(totals, limit=10)
    collection.total = 3
    assert await collection.find(totals, limit=10) == (3, 3)
    assert collection.begun == ["page", "count"]
    collection.total = 30
    assert await collection.find(totals, limit=10) == (10, 30)
    assert collection.most_together == 1


async def test_hints_are_kept_for_each_criteria():
    totals, many, few = Totals(), Collection(100), Collection(3)
    await many.find(totals, limit=10, criteria={"a": 1})
    await few.find(totals, limit=10, criteria={"a": 2})
    await many.find(totals, limit=10, criteria={"a": 1})
    assert many.most_together == 2
    await few.find(totals, limit=10, criteria={"a": 2})
    assert few.begun == ["page"]


async def test_criteria_with_lists_work_too():
    totals, collection = Totals(), Collection(100)
    for _ in range(2):
        found = await collection.find(totals, limit=10, criteria={"a": {"$in": [1, 2]}})
        assert found == (10, 100)
    assert collection.most_together == 2


async def test_hints_do_not_grow_without_end(monkeypatch):
    monkeypatch.setattr(totals_module, "_MAX_HINTS", 3)
    totals = Totals()
    for n in range(10):
        await Collection(5).find(totals, limit=10, criteria={"a": n})
    assert len(totals._last) <= 3


async def test_a_page_followed_by_other_stages_gives_no_total():
    collection = Collection(3)
    assert await collection.find(Totals(), limit=10, short_page_is_total=False) == (3, 3)
    assert collection.begun == ["page", "count"]
    assert collection.most_together == 2


def both_at_once(collection, error=None):
    """Return what gives page and total of 10 together, and notes that it was asked."""

    async def at_once():
        collection.begun.append("at once")
        if error:
            raise error
        return [{}] * min(10, collection.total), collection.total

    return at_once


async def test_where_few_records_match_page_and_total_come_in_one_round_trip():
    totals, collection = Totals(), Collection(totals_module.MAX_COMBINED)
    at_once = both_at_once(collection)
    assert await collection.find(totals, limit=10, combined=at_once) == (10, 200)
    assert collection.begun == ["page", "count"]
    assert await collection.find(totals, limit=10, combined=at_once, concurrent=False) == (10, 200)
    assert collection.begun == ["at once"]
    collection.total += 1
    assert await collection.find(totals, limit=10, combined=at_once) == (10, 201)
    assert collection.begun == ["at once"]
    assert await collection.find(totals, limit=10, combined=at_once) == (10, 201)
    assert collection.begun == ["page", "count"]


async def test_a_short_page_gives_the_total_without_a_count():
    totals, collection = Totals(), Collection(5)
    for _ in range(2):
        found = await collection.find(totals, limit=10, combined=both_at_once(collection))
        assert found == (5, 5)
        assert collection.begun == ["page"]


async def test_where_both_at_once_did_not_work_each_is_queried_by_itself():
    totals, collection = Totals(), Collection(50)
    await collection.find(totals, limit=10)

    async def fails():
        collection.begun.append("at once")

    assert await collection.find(totals, limit=10, combined=fails) == (10, 50)
    assert collection.begun == ["at once", "page", "count"]


async def test_any_failure_of_both_at_once_is_one():
    totals, collection = Totals(), Collection(50)
    await collection.find(totals, limit=10)
    at_once = both_at_once(collection, OperationFailure("no", 2))
    with pytest.raises(OperationFailure, match="no"):
        await collection.find(totals, limit=10, combined=at_once)


@pytest.mark.parametrize("telling", [True, False])
async def test_in_a_session_one_comes_after_the_other(telling):
    totals, collection = Totals(), Collection(100)
    for _ in range(2):
        await collection.find(totals, limit=10, short_page_is_total=telling, concurrent=False)
        assert collection.begun == ["page", "count"]
        assert collection.most_together == 1


@pytest.mark.parametrize("failing", ["page", "count"])
async def test_where_one_fails_the_other_has_ended_too(failing):
    ended = []

    async def work(name):
        if name == failing:
            raise OSError(name)
        await asyncio.sleep(0.01)
        ended.append(name)

    query = GRAMMAR.read({"$limit": 1})
    with pytest.raises(OSError, match=failing):
        await Totals().with_page(
            query, lambda: work("page"), lambda: work("count"), short_page_is_total=False
        )
    assert len(ended) == 1


# -- through the service ---------------------------------------------------------------------------


class Commands(monitoring.CommandListener):
    def __init__(self) -> None:
        self.sent: list[dict] = []

    def started(self, event):
        self.sent.append(dict(event.command))

    def succeeded(self, event): ...

    def failed(self, event): ...

    def take(self) -> list[dict]:
        names = {"aggregate", "count", "find", "insert", "update", "delete", "findAndModify"}
        sent, self.sent = [each for each in self.sent if next(iter(each)) in names], []
        return sent


@pytest.fixture(scope="module")
def commands():
    return Commands()


@pytest.fixture(scope="module")
async def watched(mongodb_url, commands):
    async with AsyncMongoClient(mongodb_url, event_listeners=[commands]) as client:
        yield client
        await client.drop_database("alula_totals")


@pytest.fixture
async def model(watched, commands):
    collection = watched["alula_totals"][f"c{ObjectId()}"]
    await collection.insert_many([{"n": n} for n in range(25)])
    commands.take()
    yield collection
    await collection.drop()


def counts(sent: list[dict]) -> int:
    return sum("$count" in str(each) or "count" in each for each in sent)


async def test_a_page_that_is_not_full_costs_no_count(model, commands):
    service = MongoDBService(model, paginate={"default": 10})
    for _ in range(2):
        page = await service.find({"query": {"$skip": 20}})
        assert (page["total"], len(page["data"])) == (25, 5)
        assert counts(commands.take()) == 0
    page = await service.find({"query": {"n": {"$gte": 5}}})
    assert (page["total"], len(page["data"])) == (20, 10)
    assert counts(commands.take()) == 1


async def test_few_matching_records_come_with_their_total_in_one_round_trip(model, commands):
    service = MongoDBService(model, paginate={"default": 5})
    query = {"n": {"$gte": 3}, "$sort": {"n": 1}, "$select": ["n"]}
    expected = await service.find({"query": query | {"$skip": 5}})
    assert len(commands.take()) == 2
    page = await service.find({"query": query | {"$skip": 5}})
    assert len(commands.take()) == 1
    assert page == expected
    assert page["total"] == 22
    assert [record["n"] for record in page["data"]] == [8, 9, 10, 11, 12]
    assert set(page["data"][0]) == {"_id", "n"}
    beyond = await service.find({"query": query | {"$skip": 500}})
    assert (beyond["total"], beyond["data"]) == (22, [])
    assert len(commands.take()) == 1
    everything = [await service.find({"query": {"$sort": {"n": -1}}}) for _ in range(2)]
    assert everything[0] == everything[1]
    assert everything[1]["data"][0]["n"] == 24
    assert len(commands.take()) == 3


async def test_where_all_were_removed_one_round_trip_is_enough(model, commands):
    service = MongoDBService(model, paginate={"default": 5})
    await service.find({"query": {"n": {"$gte": 3}}})
    await model.delete_many({})
    page = await service.find({"query": {"n": {"$gte": 3}}})
    assert (page["total"], page["data"]) == (0, [])


async def test_large_records_come_without_their_total_in_the_same_reply(model, commands):
    await model.insert_many([{"large": "x" * 3_000_000} for _ in range(7)])
    service = MongoDBService(model, paginate={"default": 6})
    for _ in range(2):
        page = await service.find({"query": {"large": {"$ne": None}}})
        assert (page["total"], len(page["data"])) == (7, 6)


def refuse_facets(model, monkeypatch, code):
    """Let the database refuse a page with its total."""
    aggregate = type(model).aggregate

    async def refuse(self, stages, **options):
        if any("$facet" in stage for stage in stages):
            raise OperationFailure("no", code)
        return await aggregate(self, stages, **options)

    monkeypatch.setattr(type(model), "aggregate", refuse)


@pytest.mark.parametrize("code", [10334, 17419, 17420])
async def test_a_page_too_large_for_one_document_is_queried_by_itself(model, monkeypatch, code):
    refuse_facets(model, monkeypatch, code)
    service = MongoDBService(model, paginate={"default": 5})
    for _ in range(2):
        page = await service.find({"query": {"n": {"$gte": 3}}})
        assert (page["total"], len(page["data"])) == (22, 5)


async def test_where_a_page_with_its_total_is_refused_they_are_queried_apart(model, monkeypatch):
    refuse_facets(model, monkeypatch, 13548)
    service = MongoDBService(model, paginate={"default": 5})
    for _ in range(2):
        page = await service.find({"query": {"n": {"$gte": 3}}})
        assert (page["total"], len(page["data"])) == (22, 5)


async def test_another_failure_of_a_page_with_its_total_is_one(model, monkeypatch):
    refuse_facets(model, monkeypatch, 8)
    service = MongoDBService(model, paginate={"default": 5})
    assert (await service.find({"query": {"n": {"$gte": 3}}}))["total"] == 22
    with pytest.raises(GeneralError):
        await service.find({"query": {"n": {"$gte": 3}}})


async def test_pages_of_one_filter_share_their_counts(model, commands, monkeypatch):
    monkeypatch.setattr(totals_module, "MAX_COMBINED", 20)
    service = MongoDBService(model, paginate={"default": 5})
    await service.find()
    commands.take()
    pages = await asyncio.gather(
        *(service.find({"query": {"$skip": skip, "$sort": {"n": 1}}}) for skip in (0, 5, 10))
    )
    assert [page["data"][0]["n"] for page in pages] == [0, 5, 10]
    assert [page["total"] for page in pages] == [25] * 3
    assert counts(commands.take()) == 1


async def test_a_limit_of_0_counts_only(model, commands):
    service = MongoDBService(model, paginate={"default": 5})
    page = await service.find({"query": {"$limit": 0, "n": {"$lt": 3}}})
    assert page == {"total": 3, "limit": 0, "skip": 0, "data": []}
    assert len(commands.take()) == 1


@pytest.mark.parametrize("limit", [0, 5])
async def test_where_nobody_wants_a_total_there_is_none(model, commands, limit):
    service = MongoDBService(model, paginate={"default": 5, "count": "none"})
    page = await service.find({"query": {"$limit": limit}})
    assert page["total"] is None
    assert len(page["data"]) == limit
    assert counts(commands.take()) == 0


async def test_an_estimate_is_taken_where_a_query_has_no_criteria(model, commands):
    for service in (
        MongoDBService(model, paginate={"default": 5, "count": "estimated"}),
        MongoDBService(model, paginate={"default": 5}, use_estimated_document_count=True),
    ):
        assert (await service.find())["total"] == 25
        assert "count" in commands.take()[-1]
        assert (await service.find({"query": {"n": {"$lt": 12}}}))["total"] == 12
        assert "aggregate" in commands.take()[-1]


async def test_what_the_page_sizes_say_counts_more_than_the_option(model, commands):
    pages = {"default": 5, "count": "exact"}
    service = MongoDBService(model, paginate=pages, use_estimated_document_count=True)
    assert (await service.find())["total"] == 25
    assert "aggregate" in commands.take()[-1]
    page = await service.find(Params(paginate={"default": 5, "count": "none"}))
    assert page["total"] is None


def test_a_way_that_there_is_not_is_refused_when_the_service_is_made():
    with pytest.raises(ValueError, match="'count' is 'fast'"):
        MongoDBService(lambda: None, paginate={"default": 5, "count": "fast"})


# -- time ------------------------------------------------------------------------------------------

SLEEP = {"body": "function () { sleep(400); return true }", "args": [], "lang": "js"}
SLOW = {"$expr": {"$function": SLEEP}}


async def every_method(service):
    new = await service.create({"n": 1})
    key = new["_id"]
    await service.create([{"n": 1}, {"n": 2}])
    await service.find()
    await service.get(key)
    await service.update(key, {"n": 3})
    await service.patch(key, {"n": 4})
    await service.patch(None, {"n": 4}, {"query": {"n": 2}})
    await service.remove(key)
    await service.remove(None, {"query": {"n": 4}})


async def test_every_operation_has_the_time_of_the_option(model, commands):
    service = MongoDBService(model, paginate={"default": 5}, multi=True, max_time_ms=90_000)
    await every_method(service)
    sent = commands.take()
    names = {next(iter(each)) for each in sent}
    assert names == {"insert", "aggregate", "find", "findAndModify", "update", "delete"}
    assert [each for each in sent if not 50_000 < each.get("maxTimeMS", 0) <= 90_000] == []


@pytest.mark.parametrize(
    "params",
    [Params(docdb={"max_time_ms": 40_000}), Params(adapter={"max_time_ms": 40_000})],
    ids=["docdb", "adapter"],
)
async def test_params_bring_another_time_for_one_call(model, commands, params):
    service = MongoDBService(model, max_time_ms=90_000)
    key = (await service.create({"n": 1}, params))["_id"]
    await service.get(key, params)
    await service.find(params)
    await service.patch(key, {"n": 2}, params)
    assert [each for each in commands.take() if not 10_000 < each["maxTimeMS"] <= 40_000] == []


async def test_without_one_ten_seconds_hold(model, commands):
    await every_method(MongoDBService(model, paginate={"default": 5}, multi=True))
    sent = commands.take()
    assert len(sent) > 8
    assert [each for each in sent if not 5000 < each.get("maxTimeMS", 0) <= 10_000] == []


async def test_a_limit_can_be_switched_off(model, commands):
    app = App()
    app.set("mongodb_max_time_ms", 7000)
    service = MongoDBService(model, paginate={"default": 5}, multi=True, max_time_ms=False)
    app.use("unlimited", service)
    await app.setup()
    await every_method(service)
    assert [each for each in commands.take() if "maxTimeMS" in each] == []
    limited = MongoDBService(model)
    await limited.find(Params(adapter={"max_time_ms": False}))
    (sent,) = commands.take()
    assert "maxTimeMS" not in sent
    with pytest.raises(ValueError, match=r"for no limit say adapter=\{"):
        await limited.find(Params(docdb={"max_time_ms": False}))
    app.set("mongodb_max_time_ms", False)
    await limited.setup(app, "records")
    await limited.find()
    assert "maxTimeMS" not in commands.take()[0]


async def test_the_setting_of_the_application_holds_where_the_service_has_none(model, commands):
    app = App()
    app.set("mongodb_max_time_ms", 40_000)
    app.use("own", MongoDBService(model, max_time_ms=90_000))
    app.use("other", MongoDBService(model))
    await app.setup()
    for name, most in (("own", 90_000), ("other", 40_000)):
        await app.service(name).find()
        (sent,) = commands.take()
        assert most - 30_000 < sent["maxTimeMS"] <= most


@pytest.mark.parametrize("value", [0, "5", 1.5])
async def test_a_time_that_makes_no_sense_is_refused_by_its_name(model, value):
    with pytest.raises(ValueError, match=r"^max_time_ms is"):
        MongoDBService(model, max_time_ms=value)
    service = MongoDBService(model)
    with pytest.raises(ValueError, match=r"^max_time_ms is"):
        await service.get(ObjectId(), Params(adapter={"max_time_ms": value}))
    app = App()
    app.set("mongodb_max_time_ms", value)
    with pytest.raises(ValueError, match=r"^the setting 'mongodb_max_time_ms' is"):
        await service.setup(app, "records")


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("method", ["find", "get", "patch", "create"])
async def test_over_time_is_a_408(model, share, method):
    service = MongoDBService(model, paginate={"default": 5}, max_time_ms=100, share=share)
    service._translator.filter = lambda query: SLOW
    key = (await model.find_one())["_id"]
    arguments = {"find": (), "get": (key,), "patch": (key, {"n": 1}), "create": ({},)}
    if method == "create":
        service.options = replace(service.options, seconds=1e-9)
    with pytest.raises(Timeout):
        await getattr(service, method)(*arguments[method], {"query": {"n": 1}})


async def test_a_sort_by_the_index_of_a_list_is_right_the_second_time_too(mongodb_url):
    """MongoDB drops what such a sort needs where fields are selected within a ``$facet``."""
    async with AsyncMongoClient(mongodb_url) as client:
        collection = client["alula_adapter"][f"c{ObjectId()}"]
        records = [{"_id": number, "tags": [None, 5 - number]} for number in range(5)]
        await collection.insert_many(records)
        service = MongoDBService(collection, paginate={"default": 2})
        query = {"$sort": {"tags.1": 1}, "$select": ["_id"]}
        for _ in range(3):
            page = await service.find({"query": query})
            assert [record["_id"] for record in page["data"]] == [4, 3]
        await collection.drop()
