import enum
import sqlite3
from datetime import UTC, datetime

import pytest
import sqlalchemy
from tests.adapters.sql.statements import created, insert

from alula.adapters.sql import Database
from alula.adapters.sql._errors import translated
from alula.adapters.sql._tables._ddl import create_statements
from alula.errors import BadRequest


class Mood(enum.Enum):
    GOOD = 1
    BAD = 2


def shop():
    metadata = sqlalchemy.MetaData()
    owners = sqlalchemy.Table(
        "owners", metadata, sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True)
    )
    pets = sqlalchemy.Table(
        "pets",
        metadata,
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("owner", sqlalchemy.ForeignKey("owners.id"), index=True),
        sqlalchemy.Column("name", sqlalchemy.String(5), unique=True),
        sqlalchemy.Column("mood", sqlalchemy.Enum(Mood)),
        sqlalchemy.Column("moods", sqlalchemy.ARRAY(sqlalchemy.Enum(Mood))),
        sqlalchemy.Column("kind", sqlalchemy.Enum("it's", "a:b", "5%", native_enum=False)),
        sqlalchemy.Column("ok", sqlalchemy.Boolean),
        sqlalchemy.Column("at", sqlalchemy.DateTime(timezone=True),
                          server_default=sqlalchemy.func.now()),
        sqlalchemy.Column("note", sqlalchemy.Text, server_default="none"),
    )  # fmt: skip
    return owners, pets


async def test_tables_are_created_once_with_those_that_they_refer_to(database):
    _, pets = shop()
    for _ in range(2):
        await created(database, pets)
    (owners, pets) = await created(database, *shop())
    await insert(database, owners, {"id": 1})
    assert (await insert(database, pets, {"owner": 1, "kind": "5%", "moods": ["BAD"]}))["id"] == 1


async def test_the_time_of_the_database_is_in_the_form_of_its_timestamps(database):
    _, pets = await created(database, *shop())
    record = await insert(database, pets, {"ok": True})
    assert record["note"] == "none"
    assert record["at"].tzinfo is UTC
    assert abs((datetime.now(UTC) - record["at"]).total_seconds()) < 60
    if database.dialect == "sqlite":
        (row,) = await database.fetch("select at from pets")
        assert len(row["at"]) == len("2024-03-01 12:00:00.000000")


@pytest.mark.parametrize(
    ("column", "value"),
    [("id", "x"), ("name", "abcdef"), ("mood", "UGLY"), ("kind", "x"), ("ok", 2), ("note", b"x")],
)
async def test_strict_tables_refuse_what_is_not_of_the_type(column, value):
    database = Database("sqlite://")
    await database.open()
    await created(database, *shop())
    with pytest.raises(sqlite3.IntegrityError):
        await database.execute(f"insert into pets ({column}) values (?)", value)
    await database.close()


async def test_ids_of_removed_records_are_not_given_again(database):
    owners, _ = await created(database, *shop())
    for expected in (1, 2):
        rows = await database.fetch("insert into owners default values returning id")
        assert rows == [{"id": expected}]
        await database.execute(f"delete from {owners.sql}")


@pytest.mark.parametrize(
    ("type_", "value", "factor"),
    [
        (sqlalchemy.SmallInteger(), 30_000, 2),
        (sqlalchemy.Integer(), 2**30, 4),
        (sqlalchemy.BigInteger(), 2**62, 4),
        (sqlalchemy.Double(), 1e300, 1e300),
    ],
)
async def test_both_databases_refuse_numbers_that_a_column_cannot_hold(
    database, type_, value, factor
):
    table = sqlalchemy.Table(
        "t",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("n", type_),
    )
    (numbers,) = await created(database, table)
    await insert(database, numbers, {"id": 1, "n": value})
    with pytest.raises(BadRequest), translated(numbers):
        await database.execute(f"update t set n = n * {factor}")
    assert await database.fetch("select n from t") == [{"n": value}]


def test_a_table_without_generated_ids_is_strict_as_well():
    table = sqlalchemy.Table(
        "t", sqlalchemy.MetaData(), sqlalchemy.Column("key", sqlalchemy.Text, primary_key=True)
    )
    (text,) = create_statements([table], "sqlite")
    assert text.endswith("STRICT")
    assert "AUTOINCREMENT" not in text


def test_the_tables_of_the_application_do_not_change():
    _, pets = shop()
    before = str(sqlalchemy.schema.CreateTable(pets))
    create_statements([pets], "sqlite")
    assert str(sqlalchemy.schema.CreateTable(pets)) == before
