"""Applications open and close their databases."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text

from alula import App
from alula.adapters.sql import Database, SQLService
from alula.errors import Unavailable


def table(name):
    columns = Column("id", Integer, primary_key=True), Column("text", Text, nullable=False)
    return Table(name, MetaData(), *columns)


@pytest.fixture
def log(monkeypatch):
    """What happens to databases, in its order."""
    events = []
    for name in ("open", "close", "create"):
        monkeypatch.setattr(Database, name, _logged(name, getattr(Database, name), events))
    return events


def _logged(name, method, events):
    async def run(self, *arguments):
        events.append(name)
        return await method(self, *arguments)

    return run


@pytest.fixture
def database(tmp_path):
    return Database(f"sqlite:///{tmp_path / 'it.sqlite'}", create_tables=True)


async def test_two_services_share_one_opening_and_one_closing(database, log):
    app = App().configure(database)
    for name in ("notes", "rooms"):
        app.use(name, SQLService(table(name), database))
    await app.setup()
    assert await app.service("rooms").create({"text": "Hello"}) == {"id": 1, "text": "Hello"}
    assert log.count("create") == 1
    assert "close" not in log
    await app.teardown()
    assert log.count("close") == 1
    assert log[-1] == "close"


async def test_tables_are_created_without_code_of_the_application(database, log):
    app = App().use("notes", SQLService(table("notes"), database))
    await app.setup()
    assert await app.service("notes").find() == []
    await app.teardown()
    assert log == ["open", "create", "close"]


async def test_tables_are_not_created_unless_it_is_asked_for(tmp_path, log):
    database = Database(f"sqlite:///{tmp_path / 'it.sqlite'}")
    app = App().configure(database)
    await app.setup()
    await app.teardown()
    assert log == ["open", "close"]


async def test_a_database_that_no_service_uses_is_closed(database, log):
    app = App().configure(database)
    await app.setup()
    assert await database.fetch("select 1 as one") == [{"one": 1}]
    await app.teardown()
    assert log[0] == "open"
    assert log[-1] == "close"


async def test_it_stays_open_until_all_services_are_torn_down(database):
    class Last:
        async def find(self, params):
            return []

        async def teardown(self, app, path):
            seen.append(await database.fetch("select 1 as one"))

    seen = []
    app = App().configure(database).use("last", Last())
    app.use("notes", SQLService(table("notes"), database))
    await app.setup()
    await app.teardown()
    assert seen == [[{"one": 1}]]


async def test_an_application_does_not_start_without_its_database(tmp_path, log):
    database = Database(f"sqlite:///{tmp_path / 'nowhere' / 'it.sqlite'}")
    app = App().configure(database)
    with pytest.raises(Unavailable):
        await app.setup()
    assert not app.is_ready
    assert log == ["open", "close"]


async def test_a_start_that_fails_later_closes_it(database, log):
    class Broken:
        async def find(self, params):
            return []

        async def setup(self, app, path):
            raise RuntimeError("no license")

    app = App().configure(database).use("broken", Broken())
    with pytest.raises(RuntimeError, match="no license"):
        await app.setup()
    assert log[-1] == "close"


async def test_tables_that_cannot_be_created_leave_nothing_open(database, log, monkeypatch):
    async def fail(self, *services):
        raise RuntimeError("no permission")

    monkeypatch.setattr(Database, "create", fail)
    app = App().configure(database)
    with pytest.raises(RuntimeError, match="no permission"):
        await app.setup()
    assert log == ["open", "close"]


async def test_an_explicit_lifecycle_stays_possible(tmp_path, log):
    database = Database(f"sqlite:///{tmp_path / 'it.sqlite'}")
    service = SQLService(table("notes"), database)
    await database.open()
    await database.create()
    app = App().use("notes", service)
    assert await app.service("notes").create({"text": "Hello"})  # without setup, as in tests
    await database.close()
    assert log == ["open", "create", "close"]
