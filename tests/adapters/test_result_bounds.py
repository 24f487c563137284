"""How much one call may return: the option, who is bound, and what is measured."""

from __future__ import annotations

import pytest
from sqlalchemy import JSON, Column, Integer, LargeBinary, MetaData, Numeric, Table, Text

from alula import App, Params
from alula.adapters import _result_bounds as bounds
from alula.adapters.base import AdapterService
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.adapters.sql import Database, SQLService
from alula.errors import BadRequest
from alula.query import EMPTY_QUERY, Query

notes = Table(
    "notes",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("n", Integer),
    Column("text", Text),
    Column("data", JSON),
    Column("raw", LargeBinary),
    Column("price", Numeric(10, 2)),
)


class Plain(AdapterService):
    """An adapter of somebody else, which cannot measure."""

    def __init__(self, **options):
        super().__init__(**options)
        self.memory = MemoryService()
        for name in ("_find", "_get", "_create", "_update", "_patch", "_remove"):
            setattr(self, name, getattr(self.memory, name))

    _find = _get = _create = _update = _patch = _remove = None


@pytest.fixture(params=["memory", "another adapter", "sqlite", "postgresql", "mongodb"])
async def make(request, tmp_path):
    opened = []

    async def make(**options):
        options = {"multi": True, **options}
        if request.param == "memory":
            return MemoryService(**options)
        if request.param == "another adapter":
            return Plain(**options)
        if request.param == "mongodb":
            from bson import ObjectId
            from pymongo import AsyncMongoClient

            client = AsyncMongoClient(request.getfixturevalue("mongodb_url"))
            collection = client["alula_bounds"][f"c{ObjectId()}"]
            opened.extend((collection.drop, client.close))
            return MongoDBService(collection, id="id", **options)
        url = f"sqlite:///{tmp_path / 'test.sqlite'}"
        if request.param == "postgresql":
            url = request.getfixturevalue("postgresql_schema")
        database = Database(url)
        opened.append(database.close)
        service = SQLService(notes, database, **options)
        await database.create(service)
        return service

    yield make
    for close in opened:
        await close()


CLIENT = {"provider": "rest"}
TEXT = "x" * 1_000


async def filled(make, number=10, **options):
    service = await make(**options)
    await service.create([{"n": n, "text": TEXT} for n in range(number)])
    return service


async def test_a_patch_that_would_return_too_much_changes_nothing(make):
    service = await filled(make, max_result={"bytes": 100_000})
    for data in ({"text": "y" * 20_000}, {"text": "y" * 200_000}):
        with pytest.raises(BadRequest, match="more than 100000 bytes; narrow the query"):
            await service.patch(None, data, CLIENT)
    assert {record["text"] for record in await service.find()} == {TEXT}
    # One record, fewer records, fewer fields, and the application's own code.
    one = (await service.find({"query": {"n": 1}}))[0]["id"]
    assert (await service.patch(one, {"text": "y" * 200_000}, CLIENT))["n"] == 1
    query = {"n": {"$gt": 7}}
    assert len(await service.patch(None, {"text": "y" * 20_000}, {**CLIENT, "query": query})) == 2
    query = {"n": {"$gt": 1}, "$select": ["n"]}
    assert len(await service.patch(None, {"text": "y" * 20_000}, {**CLIENT, "query": query})) == 8
    assert len(await service.patch(None, {"text": "z" * 20_000})) == 10


@pytest.mark.parametrize("method", ["find", "remove", "patch"])
async def test_what_is_stored_counts(make, method):
    service = await filled(make, max_result={"bytes": 5_000})

    async def call(query, **params):
        params = {**params, "query": query}
        if method == "find":
            return await service.find(params)
        if method == "patch":
            return await service.patch(None, {"price": "1.50"}, params)
        return await service.remove(None, params)

    with pytest.raises(BadRequest, match="more than 5000 bytes"):
        await call({}, **CLIENT)
    assert len(await service.find()) == 10
    assert len(await call({"n": {"$lt": 3}}, **CLIENT)) == 3
    assert len(await call({"n": {"$gt": 2}, "$select": ["n"]}, **CLIENT)) == 7
    left = len(await service.find())
    assert len(await call({})) == left


async def test_large_pages_are_measured_and_small_ones_are_not(make):
    service = await filled(make, 120, max_result={"bytes": 110_000}, paginate={"default": 100})
    assert len((await service.find(CLIENT))["data"]) == 100
    with pytest.raises(BadRequest, match="bytes"):
        await service.find({**CLIENT, "query": {"$limit": 120}})
    for query in ({"$limit": 120, "$skip": 30}, {"$limit": 101, "$sort": {"n": -1}}):
        page = await service.find({**CLIENT, "query": query})
        assert len(page["data"]) in {90, 101}


async def test_lists_of_new_records_are_counted(make):
    service = await make(max_result={"records": 3})
    with pytest.raises(BadRequest, match="more than 3 records"):
        await service.create([{"n": n} for n in range(4)], CLIENT)
    assert len(await service.create([{"n": n} for n in range(4)])) == 4
    assert len(await service.create([{"n": n} for n in range(3)], CLIENT)) == 3


async def test_there_may_be_no_bound(make):
    service = await filled(make, max_result=False)
    assert len(await service.find(CLIENT)) == 10
    assert len(await service.patch(None, {"n": 1}, CLIENT)) == 10


async def test_a_call_may_have_a_bound_of_its_own(make):
    service = await filled(make, max_result={"records": 5})
    bound = {"adapter": {"max_result": {"records": 3}}}
    for params in (bound, {**CLIENT, **bound}):
        with pytest.raises(BadRequest, match="more than 3 records"):
            await service.find(params)
    free = {"adapter": {"max_result": False}}
    assert len(await service.find({**CLIENT, **free})) == 10
    assert len(await service.find()) == 10


async def test_relations_that_sort(make):
    app = App()
    service = await filled(make)
    app.use("notes", service)
    await app.setup()
    page = await app.service("notes").find({"query": {"$sort": {"n": -1}, "$limit": 200}, **CLIENT})
    assert [record["n"] for record in page] == [*range(9, -1, -1)]
    await app.teardown()


@pytest.mark.parametrize(
    "value", [True, 5, {"record": 5}, {"bytes": 0}, {"records": "5"}, {"bytes": True}]
)
def test_an_option_that_is_not_valid(value):
    with pytest.raises(ValueError, match="max_result"):
        MemoryService(max_result=value)


def test_a_part_of_the_option_keeps_the_rest():
    service = MemoryService(max_result={"bytes": 5})
    assert service.options.max_result == (50_000, 5)
    free = MemoryService(max_result=False).options.changed({"max_result": {"records": 7}}, ())
    assert free.max_result == (7, 64_000_000)


async def test_other_columns_of_sql(make):
    service = await make()
    if not isinstance(service, SQLService):
        pytest.skip("has columns")
    await service.create({"data": {"a": "x" * 500}, "raw": b"y" * 700, "price": "12.50"})
    await service.create({})
    for query, low, high in ((EMPTY_QUERY, 1_200, 1_400), (Query(select=("price",)), 16, 40)):
        params, bound = Params(), bounds.MAX_RESULT
        number, size = await service._measure(query, params, service.options, bound)
        assert number == 2
        assert low < size < high
