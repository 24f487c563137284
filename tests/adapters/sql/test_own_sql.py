"""Statements of the application: one text and one statement mean the same on both databases."""

import enum
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alula.adapters.sql import Database, SQLService
from alula.adapters.sql._own_sql import sqlite_text


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


class Shout(sa.TypeDecorator):
    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value, dialect):
        return value.upper()

    def process_result_value(self, value, dialect):
        return f"{value}!"


people = sa.Table(
    "people",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("full name", sa.Text, key="name"),
    sa.Column("ok", sa.Boolean),
    sa.Column("at", sa.DateTime(timezone=True)),
    sa.Column("local", sa.DateTime),
    sa.Column("day", sa.Date),
    sa.Column("price", sa.Numeric(10, 2)),
    sa.Column("token", sa.Uuid),
    sa.Column("mood", sa.Enum(Mood)),
    sa.Column("data", sa.JSON),
    sa.Column("shout", Shout),
    sa.Column("lasts", sa.Interval),
    sa.Column("made", sa.Text, default=lambda: "made", onupdate=lambda: "changed"),
)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ADA = {
    "name": "Ada",
    "ok": True,
    "at": NOON.astimezone(timezone(timedelta(hours=2))),
    "local": datetime(2026, 1, 31, 12),
    "day": date(2026, 1, 31),
    "price": Decimal("12.50"),
    "token": UUID(int=5),
    "mood": Mood.BAD,
    "data": {"a": [1]},
    "shout": "hey",
    "lasts": timedelta(hours=1),
}
STORED = {**ADA, "id": 1, "at": NOON, "mood": "BAD", "shout": "HEY!", "made": "made"}


@pytest.fixture
async def filled(database):
    await database.create(SQLService(people, database))
    assert await database.execute(sa.insert(people).values(ADA)) == 1
    return database


async def test_numbered_parameters_mean_the_same_in_any_order(database):
    text = "select $2 || '$1' || $1 as a /* $3 */ -- $4"
    assert await database.fetch(text, "x", "y") == [{"a": "y$1x"}]
    async with database.transaction() as transaction:
        assert await transaction.fetch(text, "x", "y") == [{"a": "y$1x"}]
        assert await transaction.execute("create table t (a text)") is not None
        assert await transaction.execute("insert into t values ($1)", "z") == 1
    assert await database.fetch("select $1 || a || $1 as a from t", "x") == [{"a": "xzx"}]


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("select ?, ?", "select ?, ?"),
        ("select ?1, $2", "select ?1, ?2"),
        ("""select '$1', "$1", `$1`, [$1], 'it''s $1', a$1 -- $1\n, $1""",
         """select '$1', "$1", `$1`, [$1], 'it''s $1', a$1 -- $1\n, ?1"""),
        ("select a -> '$.b', ':c' /* :d */", "select a -> '$.b', ':c' /* :d */"),
    ],
)  # fmt: skip
def test_parameters_on_sqlite(text, changed):
    assert sqlite_text(text) == changed


@pytest.mark.parametrize("text", ["select :a", "select $a", "select @a", "select ?, $1"])
async def test_parameters_that_would_be_counted_otherwise_are_refused(text):
    database = Database("sqlite://")
    with pytest.raises(ValueError, match=r"write \$1"):
        await database.fetch(text, 1)
    await database.close()


async def test_values_of_python_are_parameters_of_a_text(filled):
    for name in ("at", "token", "price", "ok"):
        rows = await filled.fetch(f'select id from people where "{name}" = $1', ADA[name])
        assert rows == [{"id": 1}]


async def test_statements_of_sqlalchemy_have_the_values_of_records(filled):
    assert await filled.fetch(sa.select(people)) == [STORED]
    assert await SQLService(people, filled).get(1) == STORED
    for name, value in ADA.items():
        if name != "data":
            query = sa.select(people.c.id).where(people.c[name] == value)
            assert await filled.fetch(query) == [{"id": 1}], name


async def test_lists_and_parameters_of_statements(filled):
    where = people.c.mood.in_([Mood.BAD, Mood.GOOD]) & people.c.id.in_([1, 2])
    query = sa.select(people.c.name, sa.func.length(people.c.name).label("n")).where(where)
    assert await filled.fetch(query) == [{"name": "Ada", "n": 3}]
    query = sa.select(people.c.id).where(people.c.name == sa.bindparam("name"))
    assert await filled.fetch(query, {"name": "Ada"}) == [{"id": 1}]
    assert await filled.fetch(sa.text("select id from people where id = :id"), {"id": 1}) == [
        {"id": 1}
    ]
    null = sa.select(people.c.id).where(people.c.ok.is_distinct_from(sa.bindparam("ok")))
    assert await filled.fetch(null, {"ok": None}) == [{"id": 1}]


async def test_changes_by_statements(filled):
    update = sa.update(people).values(ok=False, name="Bob").returning(people.c.name, people.c.made)
    assert await filled.fetch(update) == [{"name": "Bob", "made": "changed"}]
    assert await filled.execute(sa.delete(people).where(people.c.ok.is_(False))) == 1
    many = sa.insert(people).values([{"name": "Eve"}, {"name": "Kim"}]).returning(people.c.made)
    assert await filled.fetch(many) == [{"made": "made"}] * 2
    async with filled.transaction() as transaction:
        assert await transaction.execute(sa.update(people).values(ok=True)) == 2
        assert [row["ok"] for row in await transaction.fetch(sa.select(people.c.ok))] == [True] * 2


class Base(DeclarativeBase):
    pass


class Note(Base):
    __tablename__ = "notes"

    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str] = mapped_column("body")


async def test_mapped_classes_and_sets_of_statements(database):
    await database.create(SQLService(Note, database))
    await database.execute(sa.insert(Note).values(text="Hello"))
    both = sa.union_all(sa.select(Note.text), sa.select(Note.text))
    assert await database.fetch(both) == [{"text": "Hello"}] * 2


@pytest.mark.parametrize(
    ("given", "parameters", "message"),
    [
        (people, (), "is not a statement"),
        (5, (), "is not a statement"),
        (sa.select(people.c.id), (1,), "at most one mapping"),
        (sa.select(people.c.id), ({}, {}), "at most one mapping"),
    ],
)
async def test_what_is_no_statement(database, given, parameters, message):
    with pytest.raises(TypeError, match=message):
        await database.fetch(given, *parameters)


async def test_a_value_that_is_not_of_the_type_is_no_mistake_of_a_client(filled):
    with pytest.raises(ValueError, match="Invalid value for a parameter"):
        await filled.fetch(sa.select(people.c.mood == sa.bindparam("mood")), {"mood": 5})
