import asyncio
import re
import time
from datetime import UTC, datetime
from uuid import UUID

import pytest
import sqlalchemy
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase, Mapped, column_property, mapped_column
from tests.adapters.sql.statements import created, insert

from alula.adapters.sql import Database
from alula.adapters.sql._tables._tables import Table, TableSource, new_uuid, table_of


class Base(DeclarativeBase):
    pass


class Person(Base):
    __tablename__ = "people"

    id: Mapped[int] = mapped_column(primary_key=True)
    given_name: Mapped[str] = mapped_column("first name", sqlalchemy.String(20))
    born: Mapped[datetime | None] = mapped_column(sqlalchemy.DateTime(timezone=True))


def people(*columns):
    return sqlalchemy.Table("people", sqlalchemy.MetaData(), *columns)


def numbered(*columns):
    return people(sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True), *columns)


def static(model, dialect="sqlite", **options):
    return TableSource(model, dialect, **options).table


# -- models ----------------------------------------------------------------------------------------


def test_properties_are_the_keys_of_columns():
    table = static(numbered(sqlalchemy.Column("author id", sqlalchemy.Integer, key="authorId")))
    assert list(table.columns) == ["id", "authorId"]
    assert table.columns["authorId"].sql == "`author id`"
    assert (table.name, table.sql, table.id.name) == ("people", '"people"', "id")


def test_names_are_plain_text():
    columns = (
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("givenName", sqlalchemy.Text),
    )
    # orjson refuses SQLAlchemy's own class of names: JSON would take 30 times as long.
    for model in (people(*columns), Person):
        table = static(model)
        assert {type(name) for name in table.columns} == {str}
        assert {type(column.name) for column in table.columns.values()} == {str}
        assert type(table.name) is str


def test_a_schema_is_part_of_the_table():
    columns = sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True)
    table = sqlalchemy.Table("a.b", sqlalchemy.MetaData(), columns, schema="s")
    assert static(table, "postgresql").sql == '"s"."a.b"'


def test_properties_of_a_mapped_class_are_its_attributes():
    table = static(Person)
    assert list(table.columns) == ["id", "given_name", "born"]
    assert table.columns["given_name"].sql == "`first name`"
    assert not table.columns["given_name"].nullable
    assert table.columns["born"].nullable
    assert table.source is Person.__table__


def test_what_a_mapped_class_has_besides_columns_is_refused():
    class Child(Base):
        __tablename__ = "children"

        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str] = mapped_column()
        initials = column_property(sqlalchemy.func.substr(name, 1, 1))

    class Pupil(Person):
        __tablename__ = "pupils"

        id: Mapped[int] = mapped_column(sqlalchemy.ForeignKey("people.id"), primary_key=True)

    for model, name in ((Child, "Child.initials"), (Pupil, "Pupil.given_name")):
        with pytest.raises(TypeError, match=f"{name} is not a column of the table"):
            static(model)


@pytest.mark.parametrize(
    "column",
    [
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True, default=0),
        sqlalchemy.Column("id", sqlalchemy.Text, primary_key=True, server_default="0"),
    ],
)
def test_one_id_for_all_new_records_is_refused(column):
    with pytest.raises(ValueError, match="every new record would have this id"):
        static(people(column))


@pytest.mark.parametrize(
    "model",
    [5, "sqlite:///secret.db", dict, (dict, "x"), (1, 2, 3), object, Base],
    ids=["number", "name of a missing table", "class", "pair", "triple", "object", "base class"],
)
async def test_what_is_not_a_table_is_an_error_that_says_what_to_give(database, model):
    message = "give a Table of SQLAlchemy" if not isinstance(model, str) else "has no table"
    with pytest.raises((TypeError, LookupError), match=message):
        await table_of(model, database)


async def test_functions_and_awaitables_of_a_table_are_models(database):
    async def later():
        return Person

    for model in (lambda: Person, later, later()):
        assert (await table_of(model, database)).name == "people"


async def test_a_string_that_a_function_returns_is_not_shown(database):
    with pytest.raises(TypeError) as caught:
        await table_of(lambda: [b"secret"], database)
    assert "[b'secret']" in str(caught.value)


# -- ids -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "made"),
    [
        (sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True), "database"),
        (sqlalchemy.Column("id", sqlalchemy.BigInteger, sqlalchemy.Identity(), primary_key=True),
         "database"),
        (sqlalchemy.Column("id", sqlalchemy.Integer, sqlalchemy.Sequence("s"), primary_key=True),
         "database"),
        (sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True, autoincrement=False),
         "brought"),
        (sqlalchemy.Column("id", sqlalchemy.Uuid, primary_key=True), "uuid7"),
        (sqlalchemy.Column("id", sqlalchemy.Uuid, primary_key=True,
                           server_default=sqlalchemy.func.gen_random_uuid()), "database"),
        (sqlalchemy.Column("id", sqlalchemy.Uuid, primary_key=True, default=lambda: UUID(int=1)),
         "brought"),
        (sqlalchemy.Column("id", sqlalchemy.Text, primary_key=True), "brought"),
    ],
)  # fmt: skip
def test_who_makes_new_ids(column, made):
    table = static(people(column), "postgresql")
    assert table.new_ids == made
    is_made_here = made == "uuid7" or (made == "brought" and column.default is not None)
    assert (table.id.default is not None) == is_made_here
    has_sequence = made == "database" and isinstance(column.type, sqlalchemy.Integer)
    assert (table.sequence is not None) == has_sequence


def test_ids_of_version_7_sort_by_their_time():
    before = time.time_ns() // 1_000_000
    ids = [new_uuid() for _ in range(100)]
    after = time.time_ns() // 1_000_000
    assert all(before <= new.int >> 80 <= after for new in ids)
    assert {new.version for new in ids} == {7}
    assert {new.variant for new in ids} == {"specified in RFC 4122"}
    assert len(set(ids)) == 100
    assert [new.int >> 64 for new in ids] == sorted(new.int >> 64 for new in ids)


def test_another_column_can_be_the_id():
    table = static(numbered(sqlalchemy.Column("email", sqlalchemy.Text)), id="email")
    assert table.id.name == "email"


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ([], {"id": "key"}, "id='key' is not a column of the table 'people'"),
        ([sqlalchemy.Column("b", sqlalchemy.Integer, primary_key=True)], {},
         "'people' has the columns 'id', 'b', and an id is one value; name"),
        ([], {"extra": "more"}, "extra='more' is not a JSON column"),
        ([sqlalchemy.Column("more", sqlalchemy.Text)], {"extra": "more"}, "is not a JSON column"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_the_table_are_refused(columns, options, message):
    with pytest.raises(ValueError, match=message):
        TableSource(numbered(*columns), "sqlite", **options)


def test_the_column_of_other_properties():
    table = static(numbered(sqlalchemy.Column("more", sqlalchemy.JSON)), extra="more")
    assert table.extra is table.columns["more"]


# -- defaults --------------------------------------------------------------------------------------


def test_defaults_that_python_makes():
    table = static(
        numbered(
            sqlalchemy.Column("a", sqlalchemy.Integer, default=5),
            sqlalchemy.Column("b", sqlalchemy.Text, default=lambda: "made"),
            sqlalchemy.Column("c", sqlalchemy.DateTime, default=sqlalchemy.func.now(),
                              onupdate=sqlalchemy.func.current_timestamp()),
            sqlalchemy.Column("d", sqlalchemy.Text, server_default="x", onupdate="changed"),
            sqlalchemy.Column("e", sqlalchemy.Text),
            sqlalchemy.Column("f", sqlalchemy.Integer, sqlalchemy.Computed("a * 2")),
            sqlalchemy.Column("g", sqlalchemy.Integer, sqlalchemy.Identity(always=True)),
        )
    )  # fmt: skip
    columns = table.columns
    assert [columns[name].default() for name in "ab"] == [5, "made"]
    assert abs((columns["c"].default() - datetime.now(UTC)).total_seconds()) < 60
    assert columns["c"].on_update().tzinfo is UTC
    assert columns["d"].on_update() == "changed"
    assert columns["d"].default is None
    assert [columns[name].has_default for name in "abcdefg"] == [True] * 4 + [False, True, True]
    assert [columns[name].writable for name in "defg"] == [True, True, False, False]


def test_a_default_that_only_the_database_can_make_is_refused():
    column = sqlalchemy.Column("a", sqlalchemy.Integer, default=sqlalchemy.func.random())
    with pytest.raises(TypeError, match=r"people\.a has the SQL expression random\(\)"):
        static(numbered(column))


@pytest.mark.parametrize("type_", [sqlalchemy.PickleType(), sqlalchemy.types.NullType()])
def test_a_type_that_cannot_be_used_is_an_error_that_names_the_column(type_):
    with pytest.raises(TypeError, match=r"the column people\.a has a type that cannot be used"):
        static(numbered(sqlalchemy.Column("a", type_)), "postgresql")


# -- resolving -------------------------------------------------------------------------------------


async def test_a_model_is_resolved_once(database):
    calls = []

    async def model():
        calls.append(1)
        await asyncio.sleep(0)
        return Person

    source = TableSource(model, database.dialect)
    assert source.table is None
    tables = await asyncio.gather(*(source.resolve(database) for _ in range(3)))
    assert await source.resolve(database) is source.table is tables[0] is tables[1]
    assert calls == [1]


async def test_a_failed_model_is_tried_again(database):
    results = [OSError("down"), Person]

    def model():
        result = results.pop(0)
        if isinstance(result, OSError):
            raise result
        return result

    source = TableSource(model, database.dialect)
    failed = await asyncio.gather(
        source.resolve(database), source.resolve(database), return_exceptions=True
    )
    assert list(map(type, failed)) == [OSError, OSError]
    assert (await source.resolve(database)).name == "people"


async def test_a_coroutine_is_awaited_once_for_several_callers(database):
    async def model():
        return "missing"

    source = TableSource(model(), database.dialect)
    for _ in range(2):
        with pytest.raises(LookupError, match="has no table 'missing'; create it"):
            await source.resolve(database)


async def test_a_caller_that_gives_up_leaves_the_table_to_the_others(database):
    source = TableSource(lambda: Person, database.dialect)
    first = asyncio.ensure_future(source.resolve(database))
    await asyncio.sleep(0)
    first.cancel()
    assert isinstance(await source.resolve(database), Table)


async def test_an_attempt_that_was_cancelled_is_made_again(database):
    source = TableSource(lambda: Person, database.dialect)
    waiting = asyncio.ensure_future(source.resolve(database))
    await asyncio.sleep(0)
    source._attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert isinstance(await source.resolve(database), Table)


# -- PostgreSQL's catalogue ------------------------------------------------------------------------


@pytest.fixture
async def postgres(postgresql_schema):
    database = Database(postgresql_schema)
    await database.open()
    yield database
    await database.close()


async def test_the_sequence_is_that_of_the_catalogue(postgres):
    (table,) = await created(postgres, numbered())
    assert re.fullmatch(r"'test_\w+\.people_id_seq'::regclass", table.sequence)
    rows = await postgres.fetch(f"select nextval({table.sequence}) as n")
    assert rows == [{"n": 1}]


async def test_the_sequence_of_a_table_that_comes_later(postgres):
    source = TableSource(numbered(), "postgresql")
    table = await source.resolve(postgres)
    assert "pg_get_serial_sequence" in table.sequence
    await created(postgres, numbered())
    assert await postgres.fetch(f"select nextval({table.sequence}) as n") == [{"n": 1}]


async def test_a_number_without_a_sequence_has_none(postgres):
    await postgres.execute("create table people (id int primary key)")
    assert (await table_of(numbered(), postgres)).sequence is None


REFLECTED = """
create type mood as enum ('sad', 'ok');
create domain email as varchar(50) check (value like '%@%');
create domain tags as text[];
create table "all types" (
  id bigint generated by default as identity primary key,
  always int generated always as identity,
  twice int generated always as (id * 2) stored,
  i2 smallint, f4 real, f8 double precision not null default 1, d numeric(10, 2), d0 numeric,
  dn numeric(3, -2), m money, v varchar(5), vn varchar, t text collate "C", c char(3), b boolean,
  at timestamptz, lat timestamp, day date, tm time, tz timetz, iv interval, u uuid, e mood,
  j json, jb jsonb, by bytea, arr int[], art timestamptz[][], em email, tags tags, ip inet,
  r int4range, p point, bits bit(3), dropped int
);
alter table "all types" drop column dropped;
"""


async def test_a_table_is_read_from_the_catalogue(postgres):
    for text in REFLECTED.split(";")[:-1]:
        await postgres.execute(text)
    table = await table_of("all types", postgres)
    types = {name: column.type.name for name, column in table.columns.items()}
    assert types == {
        "id": "integer", "always": "integer", "twice": "integer", "i2": "integer", "f4": "number",
        "f8": "number", "d": "decimal", "d0": "decimal", "dn": "decimal", "m": "decimal",
        "v": "text", "vn": "text", "t": "text", "c": "text", "b": "boolean", "at": "timestamp",
        "lat": "local_timestamp", "day": "date", "tm": "time", "tz": "other", "iv": "interval",
        "u": "uuid", "e": "enum", "j": "json", "jb": "json", "by": "bytes", "arr": "array",
        "art": "array", "em": "text", "tags": "array", "ip": "other", "r": "other", "p": "other",
        "bits": "other",
    }  # fmt: skip
    columns = table.columns
    assert (table.new_ids, table.id.name) == ("database", "id")
    assert [columns[name].writable for name in ("id", "always", "twice")] == [True, False, False]
    assert [columns[name].has_default for name in ("f8", "d")] == [True, False]
    assert [columns[name].nullable for name in ("f8", "d")] == [False, True]
    record = {
        "v": "abcde", "d": "1.5", "e": "ok", "em": "a@b", "tags": ["x"], "ip": "::1", "arr": [1],
        "r": "[1,2)", "p": "(1,2)", "bits": "101", "m": "5", "c": "a", "art": [["infinity"]],
        "dn": 5000,
    }  # fmt: skip
    stored = await insert(postgres, table, record)
    assert {**stored, **{name: record[name] for name in ("d", "m", "dn")}} == {
        **dict.fromkeys(columns), **record, "id": 1, "always": 1, "twice": 2, "f8": 1.0
    }  # fmt: skip
    for name, value in {"v": "abcdef", "d": "1.555", "e": "z", "em": "x" * 51}.items():
        with pytest.raises(Exception, match=f"Invalid value for {name}"):
            columns[name].type.store(value, name)


async def test_names_are_found_along_the_search_path_and_with_a_schema(postgres, postgresql_schema):
    schema = postgresql_schema.partition("search_path=")[2]
    await postgres.execute("create table people (id int primary key)")
    await postgres.execute("create view adults as select * from people")
    assert (await table_of("people", postgres)).sql == '"people"'
    assert (await table_of(f"{schema}.people", postgres)).sql == '"people"'
    assert (await table_of("pg_catalog.pg_class", postgres)).sql == '"pg_class"'
    assert (await table_of("information_schema.tables", postgres, id="table_name")).sql == (
        '"information_schema"."tables"'
    )
    with pytest.raises(
        ValueError, match="the table 'adults' has no primary key; name a column whose"
    ):
        await table_of("adults", postgres)
    assert (await table_of("adults", postgres, id="id")).id.name == "id"


async def test_text_has_a_collation_unless_the_database_sorts_by_code_point(postgres):
    table = numbered(
        sqlalchemy.Column("a", sqlalchemy.Text), sqlalchemy.Column("b", sqlalchemy.Text("de_DE"))
    )
    assert static(table, "postgresql").columns["a"].type.collation == ' COLLATE "C"'
    resolved = await table_of(table, postgres)
    expected = "" if postgres.code_point_order else ' COLLATE "C"'
    assert resolved.columns["a"].type.collation == expected


# -- SQLite ----------------------------------------------------------------------------------------


async def test_a_table_of_another_program_is_read_from_sqlite(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    await database.open()
    await database.execute("create table owners (id integer primary key)")
    await database.execute("""
        create table pets (id integer primary key autoincrement, name varchar(5) not null,
          owner int default 1 references owners, price decimal(8,2), at timestamp,
          twice int generated always as (id * 2), ok boolean, "no type")""")
    table = await table_of("pets", database)
    assert {name: column.type.name for name, column in table.columns.items()} == {
        "id": "integer", "name": "text", "owner": "integer", "price": "decimal",
        "at": "local_timestamp", "twice": "integer", "ok": "boolean", "no type": "other",
    }  # fmt: skip
    columns = table.columns
    assert [columns[name].writable for name in ("id", "twice")] == [True, False]
    assert [columns[name].has_default for name in ("owner", "name")] == [True, False]
    assert not columns["name"].nullable
    assert table.constraints.foreign_keys == (("owner",),)
    assert table.new_ids == "database"
    await database.close()


def test_types_of_values_in_json():
    for dialect, number in (("postgresql", "decimal"), ("sqlite", "number")):
        scalars = static(numbered(), dialect).scalars
        names = [scalars[type_].name for type_ in (str, bool, int, float)]
        assert names == ["text", "boolean", number, number]


async def test_an_array_of_a_variant_is_read_on_both(database):
    type_ = sqlalchemy.JSON().with_variant(postgresql.ARRAY(sqlalchemy.Text), "postgresql")
    table = static(numbered(sqlalchemy.Column("tags", type_)), database.dialect)
    expected = "array" if database.dialect == "postgresql" else "json"
    assert table.columns["tags"].type.name == expected
