"""The memory adapter and a real MongoDB answer the same queries with the same records."""

from __future__ import annotations

from datetime import datetime, timedelta

import bson
import pytest
from bson import ObjectId
from hypothesis import event, given
from hypothesis import strategies as st
from pymongo import AsyncMongoClient

from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.errors import BadRequest

pytestmark = pytest.mark.slow

NAMES = ["a", "b", "c"]
DEEP = [*NAMES, "0", "1"]
EDGES = [
    None,
    True,
    False,
    0,
    1,
    2,
    -1,
    1.0,
    1.5,
    -0.0,
    2**31,
    2**53 + 1,
    2.0**53,
    -(2**63),
    float("nan"),
    float("inf"),
    float("-inf"),
    2**63 - 1,
    2.0**63,
    1e300,
    5e-324,
    "",
    "a",
    "b",
    "A",
    "aa",
    "1",
    "0",
    "\u00e9",
    "e\u0301",
    "\U0001f600",
    "\uffff",
    "a\0b",
    "null",
    b"",
    b"a",
    b"ab",
    b"\xff",
    datetime(1970, 1, 1),
    datetime(1969, 12, 31),
    datetime(2020, 1, 1),
    ObjectId("64b0000000000000000000d0"),
    ObjectId("64b0000000000000000000d1"),
]
UNSORTABLE = ["cannot sort with keys that are parallel arrays", "Ambiguous field name"]
FREQUENT = [None, 0, 1, 2, "a", "b", True, "1"]

moments = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(
    lambda moment: moment - timedelta(microseconds=moment.microsecond % 1000)
)
scalars = st.one_of(
    st.sampled_from(FREQUENT),
    st.sampled_from(EDGES),
    st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=3) | moments,
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(DEEP), inner, max_size=3)
    ),
    max_leaves=6,
)
records = st.dictionaries(st.sampled_from(NAMES), values, max_size=3)
collections = st.lists(records, min_size=1, max_size=10)
paths = st.builds(
    lambda first, rest: ".".join([first, *rest]),
    st.sampled_from(NAMES),
    st.just([]) | st.lists(st.sampled_from(DEEP), max_size=2),
)
plain = values.filter(lambda value: not isinstance(value, dict))
tests = st.one_of(
    values.map(lambda value: {"$ne": value}),
    st.dictionaries(
        st.sampled_from(["$lt", "$lte", "$gt", "$gte", "$ne"]), values, min_size=1, max_size=2
    ),
    st.dictionaries(st.sampled_from(["$in", "$nin"]), st.lists(values, max_size=3), min_size=1),
)
fields = st.dictionaries(paths, values | tests, min_size=1, max_size=2)
criteria = st.recursive(
    fields,
    lambda inner: st.dictionaries(
        st.sampled_from(["$or", "$and"]), st.lists(inner, min_size=1, max_size=3), min_size=1
    ),
    max_leaves=4,
)
pages = st.fixed_dictionaries(
    {},
    optional={
        "$limit": st.integers(0, 5),
        "$skip": st.integers(0, 5),
        "$sort": st.dictionaries(paths, st.sampled_from([1, -1]), max_size=3),
        "$select": st.lists(paths, max_size=3),
    },
)
queries = st.builds(lambda criteria, page: criteria | page, st.just({}) | criteria, pages)


@pytest.fixture(scope="module")
async def model(mongodb_url):
    async with AsyncMongoClient(mongodb_url) as client:
        collection = client[f"alula_differential_{ObjectId()}"]["records"]
        yield collection
        await client.drop_database(collection.database)


async def answer(service, query):
    """Return what a service answers in the bytes of BSON, which tell 1 from 1.0 and true."""
    if "$sort" in query:  # MongoDB leaves open in which order equal records come
        query = query | {"$sort": query["$sort"] | {"_id": 1}}
    try:
        page = await service.find({"query": query})
    except BadRequest as error:
        return error
    return page["total"], [bson.encode(in_one_order(record)) for record in page["data"]]


def in_one_order(value):
    """Return the value with the names of its objects in order: ``$select`` leaves that open."""
    if isinstance(value, dict):
        return {name: in_one_order(value[name]) for name in sorted(value)}
    return [in_one_order(inner) for inner in value] if isinstance(value, list) else value


@given(collections, st.lists(queries, min_size=1, max_size=10))
async def test_both_answer_the_same_records_in_the_same_order(model, records, queries):
    records = [{"_id": number, **record} for number, record in enumerate(records)]
    memory = MemoryService(records, id="_id", paginate={"default": 8})
    await model.drop()
    await model.insert_many([dict(record) for record in records])
    mongodb = MongoDBService(model, paginate={"default": 8})
    for query in queries:
        expected, found = await answer(mongodb, query), await answer(memory, query)
        if isinstance(expected, BadRequest) and "$sort" in query:
            assert any(reason in str(expected.__cause__) for reason in UNSORTABLE), query
            event("a sort that MongoDB refuses")
            continue
        assert found == expected, query
