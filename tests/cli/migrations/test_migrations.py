"""`alula generate migration` and `alula migrate`, on both databases."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text
from tests.cli.generator.applications import alula

from alula import App
from alula._cli.serving.missing_migrations import (
    last_migrations,
    warn_if_behind,
    warn_if_tables_lack_columns,
)
from alula.adapters.memory import MemoryService
from alula.adapters.sql import Database, SQLService
from alula.express import express

pytestmark = pytest.mark.slow

MODEL = """
from sqlalchemy import Boolean, Column, ForeignKey, Identity, Integer, MetaData, Table, Text
from alula import App
from alula.adapters.sql import Database, SQLService
from alula.express import express

metadata = MetaData(naming_convention={"uq": "uq_%(table_name)s_%(column_0_name)s"})
rooms = Table(
    "rooms", metadata, Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
)
messages = Table(
    "messages", metadata, Column("id", Integer, Identity(), primary_key=True),
    Column("text", Text, nullable=False),
    Column("room", ForeignKey("rooms.id", ondelete="CASCADE")),
    # more
)
database = Database(URL)
app = express(App())
app.use("rooms", SQLService(rooms, database))
app.use("messages", SQLService(messages, database, search=["text"]))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """A database of its own for each test."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'test.sqlite'}"
        return
    server, name = request.getfixturevalue("postgresql_url"), f"test_{secrets.token_hex(4)}"
    run(server, f"create database {name}")
    yield urlsplit(server)._replace(path=f"/{name}").geturl()
    run(server, f"drop database {name} with (force)")


def run(url: str, *statements: str) -> list[dict]:
    """Run statements on a database; return the rows of the last one."""

    async def work():
        database = Database(url)
        try:
            for statement in statements:
                rows = await database.fetch(statement)
        finally:
            await database.close()
        return rows

    return asyncio.run(work())


class Folder:
    """The folder of an application."""

    def __init__(self, path: Path, monkeypatch, url: str) -> None:
        self.path, self.url, self._monkeypatch = path, url, monkeypatch
        (path / "pyproject.toml").write_text("[tool.alula]\ndatabase = 'sqlite'\n")
        self.write("")

    def write(self, column: str) -> None:
        """Write the application, with a further column of messages."""
        code = MODEL.replace("# more", column).replace("URL", repr(self.url))
        (self.path / "app.py").write_text(code)

    def alula(self, *arguments: str, code: int = 0) -> str:
        for name in ("app", "env_py"):
            sys.modules.pop(name, None)
        self._monkeypatch.setattr(sys, "dont_write_bytecode", True)
        self._monkeypatch.setattr(sys, "path", [str(self.path), *sys.path])
        return alula(self.path, self._monkeypatch, *arguments, code=code).output

    def generate(self, name: str = "initial", code: int = 0) -> str:
        return self.alula("generate", "migration", name, code=code)

    def create(self) -> None:
        """Create the tables as development does."""
        for name in ("app",):
            sys.modules.pop(name, None)

        async def work():
            import app

            try:
                await app.database.create()
            finally:
                await app.database.close()

        asyncio.run(work())

    def run(self, *statements: str) -> list[dict]:
        return run(self.url, *statements)


@pytest.fixture
def folder(tmp_path, monkeypatch, url):
    monkeypatch.setenv("ALULA_ENV", "production")
    yield Folder(tmp_path, monkeypatch, url)
    # Another test in this process has an application of the same name.
    for name in ("app", "env_py"):
        sys.modules.pop(name, None)


COLUMN = 'Column("likes", Integer, nullable=False, server_default="7"),'


def test_from_nothing_to_a_changed_table(folder):
    assert "there are no migrations" in folder.alula("migrate", code=2)
    assert "initial.py" in folder.generate()
    assert "nothing has changed" in folder.generate(code=2)
    assert "lacks migrations" in folder.alula("migrate", "--check", code=1)
    assert "ran" in folder.alula("migrate")
    assert "nothing to do" in folder.alula("migrate")
    folder.run(
        "insert into rooms (name) values ('hall')",
        "insert into messages (text, room) values ('Hello', 1)",
    )
    folder.write(COLUMN)
    assert "the models have changed" in folder.alula("migrate", "--check", code=1)
    folder.generate("add-likes")
    assert "add likes" in folder.alula("migrate")
    assert "as the models" in folder.alula("migrate", "--check")
    assert folder.run("select likes from messages") == [{"likes": 7}]


def test_back_and_forth_keeps_records_and_strictness(folder):
    folder.generate()
    folder.write(COLUMN)
    first = next((folder.path / "migrations").glob("*.py")).stem.partition("_")[0]
    folder.generate("add-likes")
    folder.alula("migrate")
    folder.run(
        "insert into rooms (name) values ('hall')",
        "insert into messages (text, room) values ('Hello', 1)",
    )
    assert "undid" in folder.alula("migrate", "--to", first)
    assert folder.run("select text, room from messages") == [{"text": "Hello", "room": 1}]
    if folder.url.startswith("sqlite"):
        (row,) = folder.run("select sql from sqlite_master where name = 'messages'")
        sql = row["sql"]
        assert "STRICT" in sql
        assert "AUTOINCREMENT" in sql
    folder.alula("migrate", "--to", "base")
    with pytest.raises(Exception, match=r"messages"):
        folder.run("select * from messages")


def test_tables_of_development_are_changed_to_the_migrations(folder, monkeypatch):
    monkeypatch.setenv("ALULA_ENV", "development")
    folder.alula("openapi")  # the folder is on the path now
    folder.create()
    folder.run("insert into messages (text) values ('Hello')")
    folder.write(COLUMN)
    folder.generate()
    said = folder.alula("migrate")
    assert "changed: AddColumn messages.likes" in said
    # On SQLite, a check says which whole numbers the column can have.
    assert said.count("changed") == (2 if folder.url.startswith("sqlite") else 1)
    assert folder.run("select text, likes from messages") == [{"text": "Hello", "likes": 7}]


def test_development_gets_and_loses_what_the_migrations_do_not_make(folder, monkeypatch):
    monkeypatch.setenv("ALULA_ENV", "development")
    folder.alula("openapi")
    folder.write('Column("seen", Boolean, nullable=False, server_default="1"),')
    folder.create()
    folder.write("")
    app = folder.path / "app.py"
    app.write_text(f"{app.read_text()}\nTable('notes', metadata, Column('a', Text))\n")
    folder.generate()
    said = folder.alula("migrate")
    assert "changed: DropColumn messages.seen" in said
    assert "changed: CreateTable notes" in said
    assert folder.run("select * from notes") == []
    folder.run("insert into messages (text) values ('Hello')")
    folder.write("")
    folder.generate("drop-notes")
    assert "noted" in folder.alula("migrate", "--stamp")


def test_a_removed_column_lacks_no_default(folder):
    folder.write(COLUMN)
    folder.generate()
    folder.write("")
    app = folder.path / "app.py"
    app.write_text(app.read_text().replace(', search=["text"]', ""))
    assert "may not be null" not in folder.generate("drop-likes")
    assert folder.alula("migrate").count("ran") == 2


DROPS_A_COLUMN = """
from alembic import op

revision, down_revision = "b0b0b0b0b0b0", "FIRST"

def upgrade():
    with op.batch_alter_table("messages") as batch:
        batch.drop_column("likes")
"""


def test_a_column_that_a_migration_by_hand_drops_takes_its_check_along(folder):
    folder.write(COLUMN)
    folder.generate()
    migrations = folder.path / "migrations"
    first = next(migrations.glob("*.py")).stem.partition("_")[0]
    (migrations / "b0b0b0b0b0b0_drop.py").write_text(DROPS_A_COLUMN.replace("FIRST", first))
    folder.write("")
    assert folder.alula("migrate").count("ran") == 2
    assert "as the models" in folder.alula("migrate", "--check")
    folder.run("insert into messages (text) values ('Hello')")


def test_a_search_path(postgresql_schema, tmp_path, monkeypatch):
    monkeypatch.setenv("ALULA_ENV", "production")
    folder = Folder(tmp_path, monkeypatch, postgresql_schema)
    folder.generate()
    assert "ran" in folder.alula("migrate")
    assert folder.run("select * from messages") == []


def test_a_model_that_fails_shows_its_error(tmp_path, monkeypatch):
    folder = Folder(tmp_path, monkeypatch, "sqlite://")
    app = folder.path / "app.py"
    app.write_text(f"{app.read_text()}\napp.use('b', SQLService(lambda: 1 / 0, database))\n")
    assert "ZeroDivisionError" in folder.generate(code=1)


def test_without_alembic_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "alula._cli.migrations", raising=False)
    monkeypatch.setitem(sys.modules, "alembic", None)
    with pytest.raises(ImportError, match=r"pip install 'alula\[migrations\]'"):
        import alula._cli.migrations  # noqa: F401  # the import is what is tested


def test_elsewhere_tables_that_no_migration_made_are_an_error(folder):
    folder.alula("openapi")
    folder.create()
    folder.generate()
    assert "messages, rooms) that no migration has made" in folder.alula("migrate", code=2)
    assert "noted that the database is at head" in folder.alula("migrate", "--stamp")
    assert "nothing to do" in folder.alula("migrate")


def test_a_failing_migration_changes_nothing(folder):
    folder.generate()
    folder.alula("migrate")
    folder.run("insert into messages (text) values ('Hello')")
    folder.write('Column("likes", Integer, nullable=False),')
    assert "messages.likes may not be null" in folder.generate("add-likes")
    said = folder.alula("migrate", code=1)
    assert "the database refused this, and nothing was changed" in said
    assert "likes" not in folder.run("select * from messages")[0]


def test_two_migrations_after_the_same_one(folder):
    folder.generate()
    path = next((folder.path / "migrations").glob("*.py"))
    name = path.stem.partition("_")[0]
    for other in ("1", "2"):
        text = (
            path.read_text().replace(f"'{name}'", f"'{other}'").replace("= None", f"= '{name}'", 1)
        )
        (path.parent / f"{other}_other.py").write_text(text)
    assert "follow the same one" in folder.alula("migrate", code=2)
    assert last_migrations(path.parent) == {"1", "2"}


def test_unknown_revisions_and_names(folder):
    folder.generate()
    assert "Can't locate revision" in folder.alula("migrate", "--to", "nowhere", code=2)
    assert "needs a name" in folder.generate("-", code=2)


def test_a_server_that_is_not_there(tmp_path, monkeypatch):
    folder = Folder(tmp_path, monkeypatch, "postgresql://127.0.0.1:1/none")
    assert "cannot be used" in folder.generate(code=1)


def test_a_database_that_is_not_there(postgresql_url, tmp_path, monkeypatch):
    url = urlsplit(postgresql_url)._replace(path="/nowhere").geturl()
    assert "cannot be used" in Folder(tmp_path, monkeypatch, url).generate(code=1)


def test_applications_without_one_database(tmp_path, monkeypatch):
    folder = Folder(tmp_path, monkeypatch, "sqlite://")
    text = (tmp_path / "app.py").read_text()
    (tmp_path / "app.py").write_text(
        f"{text}\napp.use('b', SQLService(rooms, Database(URL)))".replace("URL", "'sqlite://'")
    )
    assert "the services use 2 databases" in folder.alula("migrate", code=2)
    (tmp_path / "app.py").write_text(
        "from alula import App\nfrom alula.adapters.memory import MemoryService\n"
        "app = App()\napp.use('notes', MemoryService())\n"
    )
    assert "this application has none" in folder.alula("migrate", code=2)


def test_tables_that_the_application_lists(tmp_path, monkeypatch):
    folder = Folder(tmp_path, monkeypatch, "sqlite://")
    more = "\nother = MetaData()\nTable('notes', other, Column('a', Text))\n"
    more += "app.set('metadata', other)\n"
    (tmp_path / "app.py").write_text((tmp_path / "app.py").read_text() + more)
    folder.generate()
    assert "'notes'" in next((tmp_path / "migrations").glob("*.py")).read_text()


MODEL_OF_SOME_COLUMNS = """
from pydantic import BaseModel
class Name(BaseModel):
    id: int | None = None
    name: str
"""


@pytest.mark.parametrize("model_first", [True, False])
def test_a_table_and_a_model_with_some_of_its_columns(folder, model_first):
    app = folder.path / "app.py"
    text = app.read_text().replace('Column("name"', "Column('floor', Text), Column(\"name\"")
    model = "app.use('names', SQLService((Name, 'rooms'), database))\n"
    place = 'app.use("rooms"'
    app.write_text(
        text.replace(place, MODEL_OF_SOME_COLUMNS + model + place)
        if model_first
        else text + MODEL_OF_SOME_COLUMNS + model
    )
    folder.generate()
    folder.alula("migrate")
    assert folder.run("select name, floor from rooms") == []
    assert "uq_rooms_name" in next((folder.path / "migrations").glob("*.py")).read_text()
    assert "as the models" in folder.alula("migrate", "--check")


def test_declarations_that_contradict_each_other(tmp_path, monkeypatch):
    folder = Folder(tmp_path, monkeypatch, "sqlite://")
    app = folder.path / "app.py"
    model = "    nickname: str\napp.use('names', SQLService((Name, 'rooms'), database))\n"
    app.write_text(app.read_text() + MODEL_OF_SOME_COLUMNS + model)
    said = folder.generate(code=2)
    assert "contradict each other: the service 'rooms' (a Table of SQLAlchemy) and" in said
    assert "the service 'names' (the model Name): only the second has the column 'nickname'" in said


async def test_serving_warns_of_a_database_that_is_behind(folder, caplog, url):
    caplog.set_level(logging.WARNING, "alula.serve")
    (folder.path / "migrations").mkdir()
    (folder.path / "migrations" / "1_a.py").write_text("revision: str = '1'\ndown_revision = None")
    (folder.path / "migrations" / "b.py").write_text("no python")
    database = Database(url)
    app = express(App()).use("rooms", SQLService("rooms", database))
    await warn_if_behind(app, folder.path / "nowhere")
    await warn_if_behind(object(), folder.path / "migrations")
    assert caplog.text == ""
    await warn_if_behind(app, folder.path / "migrations")
    assert "is not at the last migration (1); run: alula migrate" in caplog.text
    caplog.clear()
    await database.execute("create table alembic_version (version_num text)")
    await database.execute("insert into alembic_version values ('1')")
    await warn_if_behind(app, folder.path / "migrations")
    assert caplog.text == ""
    await database.close()


async def test_development_warns_of_a_table_that_lacks_columns(caplog, url):
    caplog.set_level(logging.WARNING, "alula.serve")
    database = Database(url)
    # The column `b` is called `c` in records.
    texts = (Column("a", Text), Column("b", Text, key="c"))
    rooms = Table("rooms", MetaData(), Column("id", Integer, primary_key=True), *texts)
    app = express(App()).use("rooms", SQLService(rooms, database)).use("own", MemoryService())

    async def warned():
        caplog.clear()
        await warn_if_tables_lack_columns(app)
        return [record.getMessage() for record in caplog.records]

    assert await warned() == []  # there is no such table yet, and it will be created
    await database.execute("create table rooms (id integer primary key)")
    assert await warned() == [
        "the table 'rooms' lacks columns of its model (a, b); run: alula generate migration"
        " add_columns, then: alula migrate"
    ]
    await database.execute("alter table rooms add column b text")
    (text,) = await warned()
    assert "(a); run: alula generate migration add_a, then: alula migrate" in text
    await database.execute("alter table rooms add column a text")
    assert await warned() == []
    await warn_if_tables_lack_columns(object())
    await database.close()


async def test_a_table_that_cannot_be_read_is_no_reason_to_warn(caplog):
    database = Database("postgresql://127.0.0.1:1/none")
    app = express(App()).use("rooms", SQLService("rooms", database))
    await warn_if_tables_lack_columns(app)
    assert caplog.text == ""
