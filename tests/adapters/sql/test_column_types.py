"""The values of columns on both databases, against the comparisons of records in memory."""

import math
import random
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest
import sqlalchemy
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from tests.adapters.sql.statements import created, ids_where, insert, read, records, selected

from alula.adapters.sql._columns._number_types import compare_decimals, read_single
from alula.adapters.sql._columns._sqlalchemy_types import column_type, driver_value
from alula.adapters.sql._database import Database
from alula.errors import BadRequest
from alula.query import Grammar, predicate

OPERATORS = ["$eq", "$ne", "$lt", "$lte", "$gt", "$gte"]
DIALECTS = ["postgresql", "sqlite"]
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


class Color(Enum):
    RED = 1
    CRIMSON = 1  # noqa: PIE796  # an alias
    BLUE = 2


class Trimmed(sqlalchemy.TypeDecorator):
    impl = sqlalchemy.Text
    cache_ok = True

    def process_bind_param(self, value, dialect):
        return value.strip()


class Aware(sqlalchemy.TypeDecorator):
    impl = sqlalchemy.DateTime
    cache_ok = True

    def process_bind_param(self, value, dialect):
        return value.astimezone(UTC)


class Shouted(sqlalchemy.TypeDecorator):
    impl = sqlalchemy.DateTime
    cache_ok = True

    def process_result_value(self, value, dialect):
        return f"{value:%Y}!"


async def one_column(database, type_):
    table = sqlalchemy.Table(
        "values",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("value", type_),
    )
    return (await created(database, table))[0]


def criteria(operator, value):
    query = {"value": value if operator == "$eq" else {operator: value}}
    return Grammar().read(query).criteria


# By name: the type, a value in data, and the value of the record.
ROUND_TRIPS = {
    "smallint": (sqlalchemy.SmallInteger(), -(2**15), -(2**15)),
    "integer": (sqlalchemy.Integer(), 2**31 - 1, 2**31 - 1),
    "bigint": (sqlalchemy.BigInteger(), 2**63 - 1, 2**63 - 1),
    "whole float in an integer": (sqlalchemy.Integer(), 5.0, 5),
    "double": (sqlalchemy.Double(), 0.1, 0.1),
    "whole number in a double": (sqlalchemy.Double(), 5, 5.0),
    "decimal in a double": (sqlalchemy.Double(), Decimal("0.5"), 0.5),
    "real": (sqlalchemy.REAL(), 3.1, 3.1),
    "long real": (sqlalchemy.REAL(), 1 / 3, 0.33333334),
    "longest real": (sqlalchemy.REAL(), 16777219.5, 16777220.0),
    "whole real": (sqlalchemy.REAL(), 58459032, 58459032.0),
    "real of nine digits": (sqlalchemy.REAL(), 11.6885605, 11.6885605),
    "float of few digits": (sqlalchemy.Float(5), 0.5, 0.5),
    "numeric with scale": (sqlalchemy.Numeric(10, 2), "12.5", Decimal("12.50")),
    "float in a numeric": (sqlalchemy.Numeric(10, 2), 0.1, Decimal("0.10")),
    "numeric": (sqlalchemy.Numeric(), "-1e3", Decimal(-1000)),
    "minus zero": (sqlalchemy.Numeric(), Decimal("-0.0"), Decimal("0.0")),
    "precision alone": (sqlalchemy.Numeric(3), 999, Decimal(999)),
    "money": (postgresql.MONEY(), "12.5", Decimal("12.50")),
    "varchar": (sqlalchemy.String(3), "🐢ü'", "🐢ü'"),
    "text": (sqlalchemy.Text(), "a\\\"\n", "a\\\"\n"),
    "char": (sqlalchemy.CHAR(5), "ab", "ab"),
    "boolean": (sqlalchemy.Boolean(), True, True),
    "false": (sqlalchemy.Boolean(), False, False),
    "timestamptz": (sqlalchemy.DateTime(timezone=True), "2024-03-01T13:00:00.5+01:00",
                    datetime(2024, 3, 1, 12, 0, 0, 500000, tzinfo=UTC)),
    "date as a timestamptz": (sqlalchemy.DateTime(timezone=True), date(2024, 3, 1),
                              datetime(2024, 3, 1, tzinfo=UTC)),
    "year 1": (sqlalchemy.DateTime(timezone=True), "0001-01-01T00:00:00Z",
               datetime(1, 1, 1, tzinfo=UTC)),
    "year 9999": (sqlalchemy.DateTime(timezone=True), datetime.max.replace(tzinfo=UTC),
                  datetime.max.replace(tzinfo=UTC)),
    "timestamp": (sqlalchemy.DateTime(), "2024-03-01T13:00:00+01:00", datetime(2024, 3, 1, 12)),
    "naive timestamp": (sqlalchemy.DateTime(), datetime(2024, 3, 1, 12), datetime(2024, 3, 1, 12)),
    "date": (sqlalchemy.Date(), "2024-03-01", date(2024, 3, 1)),
    "midnight as a date": (sqlalchemy.Date(), "2024-03-01T00:00:00.000Z", date(2024, 3, 1)),
    "time": (sqlalchemy.Time(), "12:30", time(12, 30)),
    "interval": (sqlalchemy.Interval(), "P1DT2H0.5S", timedelta(1, 7200, 500000)),
    "negative interval": (postgresql.INTERVAL(), timedelta(-3, 5), timedelta(-3, 5)),
    "signed interval": (sqlalchemy.Interval(), "-P1W", timedelta(-7)),
    "uuid": (sqlalchemy.Uuid(), "01900000-0000-7000-8000-000000000001",
             UUID("01900000-0000-7000-8000-000000000001")),
    "uuid as text": (postgresql.UUID(as_uuid=False), UUID(int=1), str(UUID(int=1))),
    "enum": (sqlalchemy.Enum(Mood), Mood.BAD, "BAD"),
    "enum with an alias": (sqlalchemy.Enum(Color), Color.CRIMSON, "RED"),
    "alias of an enum": (sqlalchemy.Enum(Color, omit_aliases=False), Color.BLUE, "BLUE"),
    "label of an enum": (sqlalchemy.Enum("a", "b'%:x", name="labels"), "b'%:x", "b'%:x"),
    "enum by a check": (sqlalchemy.Enum("a", "b", native_enum=False), "b", "b"),
    "json": (
        sqlalchemy.JSON(),
        {"b": [1, None, "ü"], "a": 2**70},
        {"b": [1, None, "ü"], "a": 2**70},
    ),
    "jsonb": (postgresql.JSONB(), [1.5, "\\u0000", True], [1.5, "\\u0000", True]),
    "json by dialect": (sqlalchemy.JSON().with_variant(postgresql.JSONB(), "postgresql"), "a", "a"),
    "json of other values": (
        sqlalchemy.JSON(),
        [NOON, date(2024, 3, 1), timedelta(1), Decimal("1.50"), UUID(int=1), b"\1", Mood.BAD, {1}],
        ["2024-03-01T12:00:00.000Z", "2024-03-01", "P1D", "1.50", str(UUID(int=1)), "AQ==", "bad",
         [1]],
    ),
    "bytes": (sqlalchemy.LargeBinary(), b"\x00\xff", b"\x00\xff"),
    "bytes as base64": (sqlalchemy.LargeBinary(), "AP8=", b"\x00\xff"),
    "text[]": (sqlalchemy.ARRAY(sqlalchemy.Text), ["a", None, '"{},\\'], ["a", None, '"{},\\']),
    "varchar[]": (sqlalchemy.ARRAY(sqlalchemy.String(3)), ("a",), ["a"]),
    "integer[]": (sqlalchemy.ARRAY(sqlalchemy.Integer), [1, 2], [1, 2]),
    "empty array": (sqlalchemy.ARRAY(sqlalchemy.Integer), [], []),
    "timestamptz[]": (sqlalchemy.ARRAY(sqlalchemy.DateTime(timezone=True)), [NOON, None],
                      [NOON, None]),
    "numeric[]": (sqlalchemy.ARRAY(sqlalchemy.Numeric(4, 1)), ["1"], [Decimal("1.0")]),
    "boolean[]": (sqlalchemy.ARRAY(sqlalchemy.Boolean), [True, False], [True, False]),
    "bytea[]": (sqlalchemy.ARRAY(sqlalchemy.LargeBinary), [b"\1"], [b"\1"]),
    "integer[][]": (sqlalchemy.ARRAY(sqlalchemy.Integer, dimensions=2), [[1, 2], [3, None]],
                    [[1, 2], [3, None]]),
    "enum[]": (sqlalchemy.ARRAY(sqlalchemy.Enum("a", "b", name="letters")), ["b"], ["b"]),
    "decorated": (Trimmed(), " a ", "a"),
    "decorated timestamp": (Aware(), "2024-03-01T12:00:00Z", datetime(2024, 3, 1, 12)),
    "numeric as a float": (sqlalchemy.Numeric(5, 2, asdecimal=False), "1.50", 1.5),
    "decorated result": (Shouted(), NOON, "2024!"),
}  # fmt: skip


@pytest.mark.parametrize(("type_", "given", "stored"), ROUND_TRIPS.values(), ids=ROUND_TRIPS)
async def test_values_come_back_the_same_from_both_databases(database, type_, given, stored):
    table = await one_column(database, type_)
    record = await insert(database, table, {"id": 1, "value": given})
    assert record == {"id": 1, "value": stored}
    assert isinstance(record["value"], type(stored))
    if table.columns["value"].type.name != "json" and not isinstance(type_, Shouted):
        assert await ids_where(database, table, "value", "$eq", given) == {1}
        assert await ids_where(database, table, "value", "$ne", given) == set()
    assert await records(database, table, "value") == [record]


# By name: the type, values that are stored, values that are compared with them.
COMPARED = {
    "smallint": (sqlalchemy.SmallInteger(), [-3, 0, 1, 5, 32767], [0, 1.5, -0.5, 2**15, -(10**20)]),
    "bigint": (
        sqlalchemy.BigInteger(),
        [-(2**63), -1, 0, 2**53, 2**53 + 1, 2**63 - 1],
        [2**53 + 1, 2.0**53, Decimal("0.5"), 2**63, -(2**63) - 1, float("inf"), float("nan")],
    ),
    "double": (
        sqlalchemy.Double(),
        [-1e300, -0.5, 0.0, 0.1, float(2**53), 1e300],
        [2**53 + 1, 2**53 + 3, -(2**53) - 1, 0.1, 10**400, -(10**400), float("nan"), float("-inf")],
    ),
    "numeric": (
        sqlalchemy.Numeric(12, 2),
        [Decimal(text) for text in ("-10.50", "-9.00", "0.00", "9.99", "10.00", "1000000000.00")],
        [10, Decimal("9.99"), Decimal("1e100"), Decimal("-1e-100"), Decimal("Infinity"), -9.0],
    ),
    "text": (
        sqlalchemy.Text(),
        ["", " ", "A", "Z", "a", "aa", "z", "Ä", "é", "ﬀ", "🐢", "\U0010ffff"],
        ["", "a", "B", "Ä", "ﬀ", "🐢", "~"],
    ),
    "boolean": (sqlalchemy.Boolean(), [True, False], [True, False]),
    "timestamptz": (
        sqlalchemy.DateTime(timezone=True),
        [NOON + timedelta(microseconds=n) for n in (-86_400_000_000, -1, 0, 1, 10**12)],
        [NOON, NOON.astimezone(timezone(timedelta(hours=5))), date(2024, 3, 1)],
    ),
    "date": (
        sqlalchemy.Date(),
        [date(2024, 2, 29), date(2024, 3, 1), date(2024, 3, 2)],
        [date(2024, 3, 1), NOON, datetime(2024, 3, 1, tzinfo=UTC)],
    ),
}


@pytest.mark.parametrize(("type_", "stored", "compared"), COMPARED.values(), ids=COMPARED)
async def test_comparisons_are_those_of_records_in_memory(database, type_, stored, compared):
    table = await one_column(database, type_)
    values = dict(enumerate([*stored, None], 1))
    for at, value in values.items():
        await insert(database, table, {"id": at, "value": value})
    for operator in OPERATORS:
        for value in [*stored, *compared]:
            meets = predicate(criteria(operator, value))
            # The statements of the adapter count null in where `$ne` asks for it.
            expected = {
                at for at, item in values.items() if item is not None and meets({"value": item})
            }
            found = await ids_where(database, table, "value", operator, value)
            assert found == expected, (operator, value)
    order = [record["value"] for record in await records(database, table, "value")]
    assert [value for value in order if value is not None] == sorted(stored)


async def test_random_numbers_compare_as_in_memory(database):
    table = await one_column(database, sqlalchemy.Numeric())
    chooser = random.Random(5)
    texts = [
        f"{chooser.choice(['-', ''])}{chooser.randrange(10 ** chooser.randrange(1, 12))}"
        f".{chooser.randrange(1000)}"
        for _ in range(30)
    ]
    for at, text in enumerate(texts):
        await insert(database, table, {"id": at, "value": text})
    for text in texts:
        for operator in OPERATORS:
            meets = predicate(criteria(operator, Decimal(text)))
            expected = {at for at, t in enumerate(texts) if meets({"value": Decimal(t)})}
            assert await ids_where(database, table, "value", operator, text) == expected


# By name: the type, the text of a query, and a stored value that equals it.
TEXTS = {
    "integer": (sqlalchemy.Integer(), "25", 25),
    "integer with zeros": (sqlalchemy.Integer(), "25.00", 25),
    "double": (sqlalchemy.Double(), "0.1", 0.1),
    "numeric": (sqlalchemy.Numeric(5, 2), "12.500", Decimal("12.50")),
    "true": (sqlalchemy.Boolean(), "true", True),
    "1": (sqlalchemy.Boolean(), "1", True),
    "0": (sqlalchemy.Boolean(), "0", False),
    "timestamptz": (sqlalchemy.DateTime(timezone=True), "2024-03-01T12:00:00.000Z", NOON),
    "timestamp": (sqlalchemy.DateTime(), "2024-03-01T12:00:00Z", datetime(2024, 3, 1, 12)),
    "date": (sqlalchemy.Date(), "2024-03-01", date(2024, 3, 1)),
    "interval": (sqlalchemy.Interval(), "PT36H", timedelta(1.5)),
    "uuid": (sqlalchemy.Uuid(), UUID(int=5).hex.upper(), UUID(int=5)),
    "enum": (sqlalchemy.Enum("a", "b", name="letters"), "a", "a"),
}


@pytest.mark.parametrize(("type_", "text", "stored"), TEXTS.values(), ids=TEXTS)
async def test_the_text_of_a_query_is_read_as_the_type_of_the_column(database, type_, text, stored):
    table = await one_column(database, type_)
    await insert(database, table, {"id": 1, "value": stored})
    assert await ids_where(database, table, "value", "$eq", text) == {1}


# By name: the type, what no query may compare with, what no data may have.
WRONG = {
    "integer": (sqlalchemy.Integer(), ["abc", "", True, [1], {}], ["25", 5.5, True, 2**31, None]),
    "double": (sqlalchemy.Double(), ["1,5", "NaN", False], ["5", True, float("nan"), 10**400]),
    "numeric": (
        sqlalchemy.Numeric(5, 2),
        ["x", "1e1001", float("nan"), Decimal("1e-1001"), True],
        ["x", "1.005", 1000, "1e9999", Decimal("Infinity"), [1]],
    ),
    "text": (
        sqlalchemy.String(3),
        [5, True, "a\x00b", "\ud800", ["a"]],
        [5, "abcd", "\x00", "\udfff"],
    ),
    "boolean": (sqlalchemy.Boolean(), ["yes", 1, "", 0.0], ["true", 1, 0]),
    "timestamptz": (
        sqlalchemy.DateTime(timezone=True),
        ["tomorrow", "2024-13-01", 5, "0001-01-01T00:00:00+05:00", "25"],
        ["now", 0, True, [NOON], "2024-03-01T12:00:00 EST"],
    ),
    "date": (sqlalchemy.Date(), ["today", 20240301, "2024-02-30"], ["epoch", NOON, 5]),
    "time": (sqlalchemy.Time(), ["noon", "12:00Z", 12], ["24:30", time(12, tzinfo=UTC), 12]),
    "interval": (sqlalchemy.Interval(), ["P", "P1DT", "1 day", 5], ["P1Y", 5, "P999999999D"]),
    "uuid": (sqlalchemy.Uuid(), ["x", 5, "", UUID(int=5).hex[1:]], ["x", 5]),
    "enum": (sqlalchemy.Enum("a", "b", name="letters"), [5, ["a"], {}], ["c", 5, ["a"]]),
    "json": (sqlalchemy.JSON(), [], [{"a": "\x00"}, ["\ud800"], float("nan"), {(1,): 2}, object()]),
    "bytes": (sqlalchemy.LargeBinary(), ["?", 5], ["a", "ü", 5, [1]]),
    "array": (sqlalchemy.ARRAY(sqlalchemy.Integer), ["x", 1], [1, ["a"], [[1]], {"a": 1}]),
    "array of lists": (sqlalchemy.ARRAY(sqlalchemy.Integer, dimensions=2), [], [[1], [[1], 2]]),
    "decorated": (Trimmed(), [5], [5]),
    "decorated timestamp": (Aware(), ["x", 5], ["x", 5]),
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("type_", "compared", "stored"), WRONG.values(), ids=WRONG)
def test_what_is_not_of_the_type_is_an_error_with_the_field(dialect, type_, compared, stored):
    column = column_type(type_, dialect)
    for value in compared:
        with pytest.raises(BadRequest, match="Invalid value for age: expected ") as caught:
            column.comparison("$eq", value, "age")
        assert caught.value.errors["age"].startswith("must be ")
    for value in stored:
        with pytest.raises(BadRequest, match="Invalid value for age: expected ") as caught:
            column.store(value, "age")
        assert caught.value.errors["age"].startswith("must be ")


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("dialect", DIALECTS)
def test_json_that_is_too_deep_or_holds_itself_is_an_error_with_the_field(dialect):
    own = []
    own.append(own)
    for value in (own, nested(100_000)):
        with pytest.raises(BadRequest, match="Invalid value for data: expected JSON"):
            column_type(sqlalchemy.JSON(), dialect).store(value, "data")


# By name: a type, and an operator that it does not have.
UNORDERED = {
    "enum": (sqlalchemy.Enum("a", name="letters"), "$lt", "a"),
    "json": (sqlalchemy.JSON(), "$gte", 5),
    "array": (sqlalchemy.ARRAY(sqlalchemy.Integer), "$gt", [1]),
    "array of json": (sqlalchemy.ARRAY(sqlalchemy.JSON), "$eq", [1]),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("type_", "operator", "value"), UNORDERED.values(), ids=UNORDERED)
def test_operators_that_a_type_does_not_have_are_an_error(dialect, type_, operator, value):
    with pytest.raises(BadRequest, match=rf"Invalid operator \{operator} for tags"):
        column_type(type_, dialect).comparison(operator, value, "tags")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_text_that_is_no_label_is_in_no_record(dialect):
    column = column_type(sqlalchemy.Enum("a", name="letters"), dialect)
    assert column.comparison("$eq", "z", "kind") is False
    assert column.comparison("$ne", "z", "kind") is True


async def test_a_column_sorts_by_code_point_in_any_locale(database):
    table = await one_column(database, sqlalchemy.Text())
    values = ["b", "A", "Ä", "a", "B", "~"]
    for at, value in enumerate(values):
        await insert(database, table, {"id": at, "value": value})
    column = column_type(sqlalchemy.Text(), database.dialect, code_point_order=False)
    rows = await database.fetch(f'select value from "values" order by value{column.collation}')
    assert [row["value"] for row in rows] == sorted(values)


async def test_a_number_stored_as_json_equals_itself(database):
    table = await one_column(database, sqlalchemy.JSON())
    for at, value in enumerate([{"a": [1]}, [1, 2], "x", 5, True]):
        await insert(database, table, {"id": at, "value": value})
        assert await ids_where(database, table, "value", "$eq", value) == {at}


# -- what Python cannot express -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (sqlalchemy.DateTime(timezone=True), "infinity"),
        (sqlalchemy.DateTime(timezone=True), "-infinity"),
        (sqlalchemy.DateTime(timezone=True), "0044-03-15 00:00:00+00 BC"),
        (sqlalchemy.DateTime(), "12000-01-01 00:00:00"),
        (sqlalchemy.Date(), "0044-03-15 BC"),
        (sqlalchemy.Date(), "infinity"),
        (sqlalchemy.ARRAY(sqlalchemy.Date), ["infinity"]),
    ],
)
async def test_dates_beyond_python_are_text_in_records_of_postgresql(
    postgresql_schema, type_, text
):
    database = Database(postgresql_schema)
    await database.open()
    table = await one_column(database, type_)
    assert (await insert(database, table, {"id": 1, "value": text}))["value"] == text
    assert await ids_where(database, table, "value", "$eq", text) == {1}
    await database.close()


def test_dates_beyond_python_are_refused_on_sqlite():
    for type_ in (sqlalchemy.DateTime(), sqlalchemy.Date()):
        with pytest.raises(BadRequest):
            column_type(type_, "sqlite").store("infinity", "at")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (postgresql.INET(), "10.0.0.1"),
        (postgresql.INT4RANGE(), "[1,5)"),
        (postgresql.MACADDR(), "08:00:2b:01:02:03"),
        (postgresql.BIT(3), "101"),
        (sqlalchemy.Time(timezone=True), "12:00:00+02"),
        (sqlalchemy.ARRAY(postgresql.INET), ["10.0.0.1"]),
    ],
)
async def test_rarer_types_of_postgresql_are_text(postgresql_schema, type_, value):
    database = Database(postgresql_schema)
    await database.open()
    table = await one_column(database, type_)
    record = await insert(database, table, {"id": 1, "value": value})
    assert record["value"] == value
    assert await ids_where(database, table, "value", "$eq", value) == {1}
    assert await records(database, table, "value") == [record]
    await database.close()


async def test_types_without_equality_can_be_stored_and_sorted(postgresql_schema):
    database = Database(postgresql_schema)
    await database.open()
    await database.execute('create table "values" (id int primary key, value point)')
    from alula.adapters.sql._tables._tables import table_of

    table = await table_of("values", database)
    assert table.columns["value"].type.name == "other"
    record = await insert(database, table, {"id": 1, "value": "(1,2)"})
    assert record == {"id": 1, "value": "(1,2)"}
    assert await records(database, table, "value") == [record]
    with pytest.raises(BadRequest, match=r"Invalid operator \$eq for value: it cannot be compared"):
        table.columns["value"].type.comparison("$eq", "(1,2)", "value")
    await database.close()


def test_text_without_case_is_compared_by_its_own_type():
    assert column_type(postgresql.CITEXT(), "postgresql").cast == "text::citext"


def test_a_pickle_is_refused():
    with pytest.raises(TypeError, match="runs code when it is read"):
        column_type(sqlalchemy.PickleType(), "sqlite")


# -- tables of other programs on SQLite ------------------------------------------------------------

# By declared type: what another program stored, as SQL, and the value of the record.
OTHERS = {
    "BOOLEAN": ("1", True),
    "DATETIME": ("'2024-03-01 12:00:00'", datetime(2024, 3, 1, 12)),
    "TIMESTAMP": ("1709294400", 1709294400),
    "DATE": ("'yesterday'", "yesterday"),
    "TIME": ("'24:00:00'", "24:00:00"),
    "JSON": ("'{\"a\": 1}'", {"a": 1}),
    "JSONB": ("5", 5),
    "JSON ": ("'{'", "{"),
    "UUID": ("'x'", "x"),
    "NUMERIC(10, 2)": ("12.5", Decimal("12.50")),
    "DECIMAL": ("'abc'", "abc"),
    "VARCHAR(5)": ("'abcdefgh'", "abcdefgh"),
    "INT": ("5", 5),
    "CLOB": ("'a'", "a"),
    "DOUBLE PRECISION": ("1.5", 1.5),
    "FLOAT": ("1", 1.0),
    "REAL": ("1", 1.0),
    "REAL ": ("'abc'", "abc"),
    "BLOB": ("x'01'", b"\1"),
    "": ("'any'", "any"),
    "GEOMETRY": ("5", 5),
    '"any-thing"': ("5", 5),
}


@pytest.mark.parametrize(("declared", "sql", "value"), [(k, *v) for k, v in OTHERS.items()])
async def test_tables_of_other_programs_are_read(declared, sql, value):
    from alula.adapters.sql._tables._tables import table_of

    database = Database("sqlite://")
    await database.open()
    await database.execute(f"create table t (id integer primary key, value {declared})")
    await database.execute(f"insert into t values (1, {sql})")
    table = await table_of("t", database)
    ((row),) = await database.run(_statement(f"select {selected(table)} from t"), 5)
    record = read(table, row)
    assert record == {"id": 1, "value": value}
    assert type(record["value"]) is type(value)
    await database.close()


def _statement(text):
    from alula.adapters.sql._statement import Statement

    return Statement(text)


async def test_decimals_in_a_column_of_numbers_compare_as_numbers():
    from alula.adapters.sql._tables._tables import table_of

    database = Database("sqlite://")
    await database.open()
    await database.execute("create table t (id integer primary key, value NUMERIC(10, 2))")
    table = await table_of("t", database)
    for at, value in enumerate(["9.5", "10", "-1"]):
        await insert(database, table, {"id": at, "value": value})
    assert await ids_where(database, table, "value", "$gt", "9.50") == {1}
    assert await ids_where(database, table, "value", "$eq", "9.50") == {0}
    assert [record["id"] for record in await records(database, table, "value")] == [2, 0, 1]
    await database.close()


def test_a_column_without_a_type_takes_any_value():
    column = column_type(sqlalchemy.types.NullType(), "sqlite")
    assert [column.store(value, "x") for value in (5, "a", b"b")] == [5, "a", b"b"]
    assert column.comparison("$gt", 1.5, "x") == (">", 1.5)
    with pytest.raises(BadRequest):
        column.store(True, "x")


def test_bytes_that_are_not_base64_in_a_list_stay_text():
    assert column_type(sqlalchemy.LargeBinary(), "sqlite").from_driver("?") == "?"


# -- helpers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        ("1.0", "1", 0),
        ("10", "9", 1),
        ("-10", "9", -1),
        ("1e5", "abc", -1),
        ("abc", "1e5", 1),
        ("a", "b", -1),
        ("NaN", "5", 1),
        ("Infinity", "5", 1),
        ("a", "a", 0),
    ],
)
def test_decimals_compare_as_numbers_and_before_other_text(left, right, order):
    assert compare_decimals(left, right) == order


def test_values_of_unknown_columns_are_as_the_driver_takes_them():
    values = [True, NOON, date(2024, 3, 1), time(1), timedelta(1), Decimal("1.5"), UUID(int=1),
              [1], {"a": 1}, "x", 5]  # fmt: skip
    assert [driver_value(value, "sqlite") for value in values] == [
        1, "2024-03-01 12:00:00.000000", "2024-03-01", "01:00:00.000000",
        "1970-01-02 00:00:00.000000", "1.5", UUID(int=1).hex, "[1]", '{"a":1}', "x", 5,
    ]  # fmt: skip
    assert driver_value(NOON, "postgresql") is NOON
    assert driver_value({"a": 1}, "postgresql") == '{"a":1}'


@pytest.mark.parametrize("value", ["abc", math.inf, -math.inf])
def test_a_value_without_a_shortest_number_stays(value):
    """PostgreSQL has infinity, and a column of SQLite may hold what another program stored."""
    assert read_single(value) == value


def test_a_type_with_a_compiler_of_its_own_is_another_type():
    class Point(sqlalchemy.types.UserDefinedType):
        """A type that only this application knows."""

    @compiles(Point)
    def sql(type_, compiler, **options):
        return "point"

    assert sqlalchemy.schema.CreateColumn(sqlalchemy.Column("a", Point())).compile().string
    assert column_type(Point(), "sqlite").name == "other"
