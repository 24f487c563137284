"""Each kind of change of a table: seen, migrated, undone and migrated again, on both databases."""

from __future__ import annotations

import re

import pytest
from tests.cli.migrations.test_migrations import Folder, folder, run, url

pytestmark = pytest.mark.slow

__all__ = ["folder", "run", "url"]

MODEL = """
import sqlalchemy as sa
from sqlalchemy import Column, Identity, MetaData, Table
from alula import App
from alula.adapters.sql import Database, SQLService
from alula.express import express

metadata = MetaData(naming_convention=CONVENTION)
rooms = Table("rooms", metadata, Column("id", sa.Integer, Identity(), primary_key=True))

def people(name, *columns):
    number = Column("id", sa.Integer, Identity(), primary_key=True)
    return Table(name, metadata, number, Column("name", sa.Text), *columns)

TABLES
database = Database(URL)
app = express(App())
app.use("rooms", SQLService(rooms, database))
"""

MOOD = 'Column("mood", sa.Enum({}, name="mood{{}}")),'
MOODS = 'Column("moods", sa.ARRAY(sa.Enum({}, name="mood{{}}"))),'
KIND = 'Column("kind", sa.Enum({}, native_enum=False, create_constraint=True)),'
DEFAULT = 'Column("mood", sa.Enum({}, name="mood{{}}"), server_default={}),'

CHANGES = {
    "a new column of an enum": ("", MOOD.format("'good', 'it\\'s: bad'")),
    "a new column of a list of an enum": ("", MOODS.format("'good', 'bad'")),
    "a value more": (MOOD.format("'good', 'bad'"), MOOD.format("'best', 'good', 'so so', 'bad'")),
    "a value less": (MOOD.format("'good', 'bad', 'so'"), MOOD.format("'good', 'bad'")),
    "another order": (MOOD.format("'good', 'bad'"), MOOD.format("'bad', 'good'")),
    "a value more in lists": (MOODS.format("'good', 'bad'"), MOODS.format("'good', 'bad', 'x'")),
    "a value more that is the default": (
        DEFAULT.format("'good', 'bad'", "'good'"), DEFAULT.format("'good', 'new'", "'new'")
    ),
    "a value more with a default": (
        DEFAULT.format("'good', 'bad'", "'good'"), DEFAULT.format("'bad', 'good'", "'good'")
    ),
    "two columns of an enum": (MOOD.format("'a'"), MOOD.format("'b'") + MOODS.format("'b'")),
    "an enum as text": ("", KIND.format("'a', 'b:c', '5%'")),
    "a value more of an enum as text": (KIND.format("'a', 'b'"), KIND.format("'a', 'b', 'c'")),
    "an enum that is text now": (KIND.format("'a', 'b'"), 'Column("kind", sa.String(1)),'),
    "a new default": (
        'Column("n", sa.Integer), Column("s", sa.Text), Column("b", sa.Boolean),',
        'Column("n", sa.Integer, server_default="1"), Column("s", sa.Text, server_default="a:b"),'
        'Column("b", sa.Boolean, server_default="true"),',
    ),
    "another default": (
        'Column("n", sa.Integer, server_default="1"), Column("at", sa.DateTime),',
        'Column("n", sa.Integer, server_default="2"),'
        'Column("at", sa.DateTime, server_default=sa.func.now()),',
    ),
    "a default less": (
        'Column("n", sa.Integer, server_default="1"),', 'Column("n", sa.Integer),'
    ),
    "a new check": (
        'Column("n", sa.Integer),', 'Column("n", sa.Integer), sa.CheckConstraint("n > 0"),'
    ),
    "another check": (
        'Column("n", sa.Integer), sa.CheckConstraint("n > 0", name="positive"),',
        'Column("n", sa.Integer), sa.CheckConstraint("n > 1", name="positive"),',
    ),
    "a check less": (
        'Column("n", sa.Integer), sa.CheckConstraint("n > 0"),', 'Column("n", sa.Integer),'
    ),
    "checks without names": (
        'Column("n", sa.Integer), sa.CheckConstraint("n > 0"), sa.CheckConstraint("n <> 3"),',
        'Column("n", sa.Integer), sa.CheckConstraint("n <> 4"), sa.CheckConstraint("n <> 3"),'
        'sa.CheckConstraint("name <> \'a:b\'"),',
    ),
    "a column with a check less": ('Column("ok", sa.Boolean), Column("n", sa.Integer),', ""),
    "a column with a check more": ("", 'Column("ok", sa.Boolean),'),
    "a larger number": ('Column("n", sa.Integer),', 'Column("n", sa.BigInteger),'),
    "a smaller number": ('Column("n", sa.BigInteger),', 'Column("n", sa.SmallInteger),'),
    "another type and another default": (
        'Column("n", sa.Integer, server_default="1"),',
        'Column("n", sa.BigInteger, server_default="2"),',
    ),
    "a longer text": ('Column("s", sa.String(5)),', 'Column("s", sa.String(9)),'),
    "a unique column": ('Column("n", sa.Integer),', 'Column("n", sa.Integer, unique=True),'),
    "a unique column less": ('Column("n", sa.Integer, unique=True),', 'Column("n", sa.Integer),'),
    "a pair that is unique": (
        'Column("n", sa.Integer),', 'Column("n", sa.Integer), sa.UniqueConstraint("n", "name"),'
    ),
    "a foreign key": ('Column("n", sa.Integer),', 'Column("n", sa.ForeignKey("rooms.id")),'),
    "a foreign key less": ('Column("n", sa.ForeignKey("rooms.id")),', 'Column("n", sa.Integer),'),
    "an index": ('Column("n", sa.Integer),', 'Column("n", sa.Integer, index=True),'),
}  # fmt: skip


class Changing(Folder):
    """The folder of an application whose tables change."""

    convention = "None"

    def write(self, columns: str | dict[str, str]) -> None:
        """Write the application with a table for each value, named ``t0`` and so on."""
        each = [columns] if isinstance(columns, str) else [*columns.values()]
        tables = [
            f'people("t{at}", {column.replace("{}", str(at))})' for at, column in enumerate(each)
        ]
        code = MODEL.replace("TABLES", "\n".join(tables)).replace("URL", repr(self.url))
        (self.path / "app.py").write_text(code.replace("CONVENTION", self.convention))

    def first(self) -> str:
        return min((self.path / "migrations").glob("*.py")).stem.partition("_")[0]

    def is_complete(self) -> bool:
        return "as the models" in self.alula("migrate", "--check")


@pytest.fixture
def changing(tmp_path, monkeypatch, url):
    monkeypatch.setenv("ALULA_ENV", "production")
    return Changing(tmp_path, monkeypatch, url)


def test_there_and_back_and_there_again(changing):
    before = {name: pair[0] for name, pair in CHANGES.items()}
    after = {name: pair[1] for name, pair in CHANGES.items()}
    changing.write(before)
    changing.generate()
    changing.alula("migrate")
    assert changing.is_complete()
    for at in range(len(CHANGES)):
        changing.run(f"insert into t{at} (name) values ('Ada')")
    changing.write(after)
    assert "the models have changed" in changing.alula("migrate", "--check", code=1)
    changing.generate("change")
    written = max((changing.path / "migrations").glob("*.py")).read_text()
    unseen = [
        name
        for at, name in enumerate(CHANGES)
        if not re.search(rf"\b(t|mood){at}\b", written)
        # Lists are JSON on SQLite.
        and not (changing.url.startswith("sqlite") and "list" in name)
    ]
    assert unseen == []
    changing.alula("migrate")
    assert changing.is_complete()
    assert "nothing has changed" in changing.generate("again", code=2)
    changing.alula("migrate", "--to", changing.first())
    changing.alula("migrate")
    assert changing.is_complete()
    assert changing.run("select name from t0") == [{"name": "Ada"}]
    changing.alula("migrate", "--to", "base")
    changing.alula("migrate")
    assert changing.is_complete()


def test_a_convention_for_names(changing):
    changing.convention = '{"ck": "ck_%(table_name)s_%(constraint_name)s"}'
    changing.write('Column("n", sa.Integer),')
    changing.generate()
    changing.write(
        'Column("n", sa.BigInteger), sa.CheckConstraint("n > 0", name="n"),Column("b", sa.Boolean),'
    )
    changing.generate("change")
    changing.alula("migrate")
    assert changing.is_complete()


def test_tables_of_development(changing, monkeypatch):
    monkeypatch.setenv("ALULA_ENV", "development")
    kept = [
        "a new column of an enum",
        "a new column of a list of an enum",
        "a value less",
        "another check",
        "a larger number",
    ]
    changing.write({name: CHANGES[name][0] for name in kept})
    changing.alula("openapi")
    changing.create()
    if changing.url.startswith("postgresql"):
        changing.run("create type another as enum ('a')", "select 1")
    changing.write({name: CHANGES[name][1] for name in kept})
    changing.generate()
    changing.alula("migrate")
    assert changing.is_complete()
    assert "changed" not in changing.alula("migrate")


def test_values_that_records_have_stay(changing):
    changing.write(MOOD.format("'good', 'bad'") + MOODS.format("'good', 'bad'"))
    changing.generate()
    changing.alula("migrate")
    changing.run("insert into t0 (name, mood) values ('Ada', 'bad')", "select 1")
    changing.write(MOOD.format("'good', 'bad', 'new'") + MOODS.format("'good', 'bad', 'new'"))
    changing.generate("change")
    changing.alula("migrate")
    changing.run("insert into t0 (name, mood) values ('Bob', 'new')", "select 1")
    said = changing.alula("migrate", "--to", changing.first(), code=1)
    assert "nothing was changed" in said
    changing.run("delete from t0 where name = 'Bob'", "select 1")
    changing.alula("migrate", "--to", changing.first())
    assert changing.run("select name, mood from t0") == [{"name": "Ada", "mood": "bad"}]
