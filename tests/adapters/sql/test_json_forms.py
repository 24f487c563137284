"""What clients get for the values of each type of column: the same text from both databases."""

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
import sqlalchemy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql

from alula._json_encoding import dumps, loads
from alula.adapters.sql import Database, SQLService
from alula.errors import BadRequest

NOON = datetime(2024, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)

# By name: the type, a value in data, and its JSON.
FORMS = {
    "bigint": (sqlalchemy.BigInteger(), 2**63 - 1, "9223372036854775807"),
    "double": (sqlalchemy.Double(), 12.5, "12.5"),
    "numeric": (sqlalchemy.Numeric(10, 2), 12.5, '"12.50"'),
    "numeric without a scale": (sqlalchemy.Numeric(), Decimal("0.10"), '"0.10"'),
    "boolean": (sqlalchemy.Boolean(), True, "true"),
    "text": (sqlalchemy.Text(), 'é"', '"é\\""'),
    "timestamptz": (sqlalchemy.DateTime(timezone=True), NOON, '"2024-03-01T12:00:00.123Z"'),
    "timestamp": (sqlalchemy.DateTime(), NOON, '"2024-03-01T12:00:00.123Z"'),
    "date": (sqlalchemy.Date(), date(2024, 3, 1), '"2024-03-01"'),
    "time": (sqlalchemy.Time(), time(12), '"12:00:00"'),
    "interval": (sqlalchemy.Interval(), timedelta(1, 7200), '"P1DT2H"'),
    "uuid": (sqlalchemy.Uuid(), UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    "enum": (sqlalchemy.Enum("a", "b", name="letters"), "a", '"a"'),
    "json": (sqlalchemy.JSON(), {"a": [1.5, None]}, '{"a":[1.5,null]}'),
    "array": (sqlalchemy.ARRAY(sqlalchemy.Date), [date(2024, 3, 1)], '["2024-03-01"]'),
    "bytes": (sqlalchemy.LargeBinary(), b"\x00\xff", '"AP8="'),
    "char": (sqlalchemy.CHAR(5), "ab", '"ab"'),
    "money": (postgresql.MONEY(), "5", '"5.00"'),
}


@pytest.mark.parametrize("name", ["value", "key", "id_", "Type", "path"])
async def test_elements_of_lists_are_found_whatever_the_column_is_called(sql_url, name):
    table = sqlalchemy.Table(
        "things",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column(name, sqlalchemy.ARRAY(sqlalchemy.Date)),
    )
    database = Database(sql_url)
    service = SQLService(table, database, multi=True)
    await database.create(service)
    await service.setup(None, "things")
    records = [{name: [date(2024, 3, 1), None]}, {name: [date(2024, 3, 1)]}, {name: None}, {}]
    await service.create(records)
    for query, ids in ((None, [1, 3, 4]), ("2024-03-01", [1, 2]), ({"$ne": None}, [2])):
        assert [record["id"] for record in await service.find({"query": {name: query}})] == ids
    changed = await service.patch(None, {name: []}, {"query": {name: "2024-03-01"}})
    assert [record["id"] for record in changed] == [1, 2]
    await service.teardown(None, "things")


@pytest.mark.parametrize(("type_", "value", "text"), FORMS.values(), ids=FORMS)
async def test_both_databases_answer_the_same_json(sql_url, type_, value, text):
    table = sqlalchemy.Table(
        "things",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("value", type_),
    )
    database = Database(sql_url)
    service = SQLService(table, database, multi=True)
    await database.create(service)
    await service.setup(None, "things")
    record = await service.create({"value": value})
    assert dumps(record).decode() == f'{{"id":1,"value":{text}}}'
    # What a client has read, it can send back; and null is null everywhere.
    sent = loads(dumps(record))
    assert (
        dumps(await service.update(1, {"value": sent["value"]})).decode() == dumps(record).decode()
    )
    created = await service.create([{"value": sent["value"]}, {"value": None}, {}])
    values = [dumps(item["value"]).decode() for item in created]
    assert values == [text, "null", "null"]
    found = await service.find({"query": {"value": None, "$sort": {"id": 1}}})
    assert [item["id"] for item in found] == [3, 4]
    assert (
        dumps(await service.patch(3, {"value": sent["value"]})).decode()
        == dumps({"id": 3, "value": record["value"]}).decode()
    )
    with pytest.raises(BadRequest, match="value"):
        await service.create({"value": object()})
    await service.teardown(None, "things")


@settings(max_examples=100)
@given(
    st.recursive(
        st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.floats(1e15, 1e24)
        | st.text('1e+3"\\ .x', max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "1e+300"]), inner)
        ),
    )
)
@example(1e300)
@example(-1.5e300)
@example(1e16)
@example(10**300)
@example(2**63)
@example(5e-324)
@example({'"1e+300': ["1e+300\\", 1e300, '\\"', 1e22]})
def collect(values, value):
    values.append(value)


def in_order(value):
    """Return JSON that tells 1 from 1.0; jsonb has neither an order of names nor -0.0."""
    return json.dumps(value, sort_keys=True).replace("-0.0", "0.0")


async def test_json_comes_back_as_it_went_in(sql_url):
    table = sqlalchemy.Table(
        "things",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("value", sqlalchemy.JSON),
        sqlalchemy.Column("binary", sqlalchemy.JSON().with_variant(postgresql.JSONB, "postgresql")),
        sqlalchemy.Column("more", sqlalchemy.JSON),
    )
    values = []
    collect(values)
    database = Database(sql_url)
    service = SQLService(table, database, multi=True, extra="more", paths={"value.path": float})
    await database.create(service)
    stored = await service.create(
        [{"value": value, "binary": value, "other": value} for value in values]
    )
    for record, value in zip(stored, values, strict=True):
        for name in ("value", "binary", "other"):
            assert in_order(record[name]) == in_order(value)
    for value in (1e300, -1.5e16, 2**70):
        changed = await service.patch(stored[0]["id"], {"other": value, "value.path": float(value)})
        assert in_order(changed["other"]) == in_order(value)
        assert in_order(changed["value"]["path"]) == in_order(float(value))
    await database.close()


async def test_values_read_as_text_are_sorted_as_what_they_are(postgresql_schema):
    table = sqlalchemy.Table(
        "things",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("c2", postgresql.INET, nullable=False),
        sqlalchemy.Column("c1", sqlalchemy.DateTime(timezone=True), nullable=False),
    )
    database = Database(postgresql_schema)
    addresses, days = ["9.0.0.0", "10.0.0.0"], ["12000-01-01 00:00:00+00", "2024-03-01"]
    for paginate in (None, {"default": 10}):
        service = SQLService(table, database, multi=True, paginate=paginate)
        await database.create(service)
        await service.setup(None, "things")
        await service.remove(None)
        new = [{"c2": address, "c1": day} for address, day in zip(addresses, days, strict=True)]
        first, second = [record["id"] for record in await service.create(new)]
        for field, order in (("c2", [first, second]), ("c1", [second, first])):
            found = await service.find({"query": {"$sort": {field: 1}}})
            records = found if paginate is None else found["data"]
            assert [record["id"] for record in records] == order
        await service.teardown(None, "things")
