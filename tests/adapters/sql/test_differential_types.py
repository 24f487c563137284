"""The rarer types of columns: memory, SQLite and PostgreSQL give the same answers.

Known differences, which the generators leave out:

- Lists have equality as a whole and tests of their elements, but no ranges and no order.
- Enums have no ranges.
- Binary data has the order of its bytes; in memory, as in MongoDB, shorter data comes first.
- A date is compared with moments as its midnight in UTC.
"""

import os
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    Column,
    Date,
    DateTime,
    Enum,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    SmallInteger,
    String,
    Table,
    Text,
    Time,
    Uuid,
)

from alula.adapters.memory import MemoryService
from alula.adapters.sql import Database, SQLService
from alula.errors import FrameworkError

# The other tests of SQL try the versions of packages.
pytestmark = pytest.mark.slow

given_calls = int(os.environ.get("ALULA_DIFFERENTIAL", "0"))
examples = settings(max_examples=given_calls // 10) if given_calls else lambda test: test

MODEL = Table(
    "differential_types",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("price", Numeric(12, 2)),
    Column("exact", Numeric),
    Column("short", SmallInteger),
    Column("single", REAL),
    Column("code", String(4)),
    Column("day", Date),
    Column("at", DateTime),
    Column("clock", Time),
    Column("lasts", Interval),
    Column("key", Uuid),
    Column("kind", Enum("a", "b", "B", "c d", native_enum=False)),
    Column("picture", LargeBinary),
    Column("numbers", ARRAY(BigInteger)),
    Column("words", ARRAY(Text)),
    Column("days", ARRAY(Date)),
    Column("prices", ARRAY(Numeric(12, 2))),
)
LISTS = ["numbers", "words", "days", "prices"]
WITHOUT_RANGES = [*LISTS, "kind", "picture"]


def single(number):
    """Return a number near by that comes back from a column of single precision as it is."""
    rounded = struct.unpack("f", struct.pack("f", number))[0]
    return rounded if rounded.is_integer() else float(f"{rounded:.6g}")


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)
cents = st.integers(-(10**11), 10**11) | st.integers(-300, 300)
prices = cents.map(lambda value: Decimal(value).scaleb(-2))
days = st.dates(date(1, 1, 2), date(9999, 12, 30)) | st.dates(date(2024, 2, 27), date(2024, 3, 2))
numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)
stored = {
    "price": prices,
    "exact": st.decimals(-(10**30), 10**30, allow_nan=False, places=10) | prices,
    "short": st.integers(-(2**15), 2**15 - 1) | st.integers(-2, 2),
    "single": st.integers(-8, 8).map(float) | st.floats(-1e30, 1e30).map(single),
    "code": texts,
    "day": days,
    "at": st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
    "clock": st.times(),
    "lasts": st.timedeltas(timedelta(-10_000), timedelta(10_000)),
    "key": st.uuids(),
    "kind": st.sampled_from(["a", "b", "B", "c d"]),
    "picture": st.binary(max_size=3),
    "numbers": st.lists(numbers, max_size=3),
    "words": st.lists(texts | st.none(), max_size=3),
    "days": st.lists(days, max_size=2),
    "prices": st.lists(prices, max_size=2),
}
asked = {
    **stored,
    "price": prices | st.integers(-3, 3) | st.decimals(-10, 10, places=4),
    "exact": prices | st.integers(-(10**20), 10**20),
    "short": stored["short"] | st.integers(-(10**6), 10**6) | st.decimals(-3, 3, places=1),
    "day": days | st.datetimes(datetime(2024, 2, 27), datetime(2024, 3, 2), timezones=st.just(UTC)),
    "kind": stored["kind"] | st.sampled_from(["", "A", "d"]),
    "numbers": numbers | stored["numbers"],
    "words": texts | stored["words"],
    "days": days | stored["days"],
    "prices": prices | stored["prices"],
}


def query_of(field):
    """Return the strategy of queries with one criterion."""
    value = asked[field] | st.none()
    ranges = st.sampled_from(["$lt", "$lte", "$gt", "$gte"])
    names = st.sampled_from(["$ne", "$eq"])
    if field not in WITHOUT_RANGES:
        names |= ranges
    tests = st.dictionaries(names, value, min_size=1, max_size=2)
    among = st.builds(
        lambda name, values: {name: values},
        st.sampled_from(["$in", "$nin"]),
        st.lists(value, max_size=3),
    )
    return st.one_of(value, tests, among).map(lambda test: {field: test})


criteria = st.sampled_from(sorted(stored)).flatmap(query_of)
sortable = [name for name in stored if name not in {*LISTS, "picture"}]
orders = st.dictionaries(st.sampled_from(sortable), st.sampled_from([1, -1]), max_size=2).map(
    lambda sort: {"$sort": {**sort, "id": 1}}
)
queries = st.builds(lambda *parts: {k: v for p in parts for k, v in p.items()}, criteria, orders)
new = st.fixed_dictionaries({}, optional={name: st.none() | of for name, of in stored.items()})
collections = st.lists(new, min_size=1, max_size=6)


@pytest.fixture(scope="module")
async def services(postgresql_url):
    databases = [Database("sqlite://"), Database(postgresql_url, pool=2)]
    found = []
    for database in databases:
        await database.open()
        await database.execute(f"drop table if exists {MODEL.name}")
        found.append(SQLService(MODEL, database, multi=True, operators=["$eq"]))
        await database.create(found[-1])
    yield found
    for database in databases:
        await database.execute(f"drop table {MODEL.name}")
        await database.close()


async def answer(service, query):
    """Return the records that meet a query, with the types of their values."""
    try:
        found = await service.find({"query": query})
    except FrameworkError as error:
        return type(error).__name__
    return [
        [(name, kind(record.get(name)), record.get(name)) for name in MODEL.columns.keys()]  # noqa: SIM118  # columns of SQLAlchemy are iterated, not their names
        for record in found
    ]


def kind(value):
    # asyncpg has its own subclass of UUID.
    return next((class_ for class_ in KINDS if isinstance(value, class_)), type(value))


KINDS = [datetime, date, time, Decimal, UUID]


@examples
@given(collections, st.lists(queries, min_size=1, max_size=8))
async def test_all_give_the_same_answers(services, records, queries):
    memory = MemoryService(start_id=1, multi=True, operators=["$eq"])
    records = [{"id": n, **record} for n, record in enumerate(records, 1)]
    await memory.create([{**dict.fromkeys(stored), **record} for record in records])
    for service in services:
        await service.remove(None, {})
        await service.create(records)
    for query in [{"$sort": {"id": 1}}, *queries]:
        expected = await answer(memory, query)
        for service in services:
            assert await answer(service, query) == expected, (service.database.dialect, query)
