"""What every adapter has to do, on tables of SQLite and of PostgreSQL."""

from __future__ import annotations

import uuid
from typing import ClassVar

import pytest
from sqlalchemy import JSON, BigInteger, Column, Integer, MetaData, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from alula.adapters.sql import Database, SQLService
from alula.testing import AdapterSuite

# The type json of PostgreSQL has no equality, jsonb has.
OBJECTS = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
TYPES = {str: Text, int: BigInteger, dict: OBJECTS, list: OBJECTS}
ONE_TYPE = "a column has one type"


# With each database, the names of its tables: a process may come back to this module, whose tests
# are shared out, and then has another database.


@pytest.fixture(scope="module")
async def sqlite_database(tmp_path_factory):
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('suite') / 'suite.sqlite'}")
    await database.open()
    yield database, set()
    await database.close()


@pytest.fixture(scope="module")
async def postgresql_database(postgresql_url):
    database = Database(postgresql_url, pool=2)
    await database.open()
    tables = set()
    yield database, tables
    for name in tables:
        await database.execute(f"drop table if exists {name}")
    await database.close()


class OnTables(AdapterSuite):
    """The rules for a table with a column for each field."""

    unsupported: ClassVar = {
        "free names": "a field is a column",
        "lists": ONE_TYPE,
        "mixed types": ONE_TYPE,
        "own fields": "a column that was not given is null",
        "regular expressions": "databases have others than Python",
    }
    missing_ids = (123456789, "568225fbfe21222432e836ff")
    id_type = Integer

    def own_id(self, number):
        return 1_000 + number

    async def make_service(self, **options):
        fields = [Column(name, TYPES[kind]) for name, kind in self.fields.items()]
        return await self.made(fields, options, paths={"a.b": int, "a.c.d": str})

    @pytest.fixture(autouse=True)
    def _made(self):
        self.made_names = []

    async def made(self, fields, options, **more):
        id_name = options.get("id", "id")
        # The same few tables for all tests: making one takes far longer than emptying it.
        name = f"suite_{type(self).__name__.lower()}_{id_name}_{len(self.made_names)}"
        self.made_names.append(name)
        key = Column(id_name, self.id_type, primary_key=True)
        table = Table(name, MetaData(), key, *fields)
        service = SQLService(table, self.database, **options, **more)
        if name not in self.tables:
            await self.database.create(service)
            self.tables.add(name)
        await self.database.execute(f"delete from {name}")
        return service


class OnSQLite:
    @pytest.fixture(autouse=True)
    def _database(self, sqlite_database):
        self.database, self.tables = sqlite_database


class OnPostgreSQL:
    @pytest.fixture(autouse=True)
    def _database(self, postgresql_database):
        self.database, self.tables = postgresql_database


class CalledDirectly(OnTables):
    """Without the handle of an application, by which the tables above are called, too."""

    @pytest.fixture
    def make(self):
        return lambda **options: self.subject("adapter", **options)


class WithUuids(CalledDirectly):
    missing_ids = ("01900000-0000-7000-8000-0000000000aa", "568225fbfe21222432e836ff", 123456789)
    id_type = Uuid

    def own_id(self, number):
        return uuid.UUID(int=number)


class WithExtra(WithUuids):
    """All fields but the id are in one column of JSON; those of one type may be in queries."""

    unsupported: ClassVar = {
        "dotted names": "paths have to be declared",
        "free names": "the fields of queries have to be declared",
        "lists": "a path has one type",
        "mixed types": "a path has one type",
        "regular expressions": "databases have others than Python",
    }

    async def make_service(self, **options):
        paths = {name: kind for name, kind in self.fields.items() if kind in {str, int}}
        return await self.made([Column("more", OBJECTS)], options, extra="more", paths=paths)


class TestSQLite(OnSQLite, OnTables): ...


class TestPostgreSQL(OnPostgreSQL, OnTables):
    # SQLite is called in both ways.
    @pytest.fixture(params=[pytest.param("adapter", marks=pytest.mark.release), "app"])
    def make(self, request):
        return lambda **options: self.subject(request.param, **options)


# With a column for each field, Uuids are what they are in the tables with one for all.


@pytest.mark.release
class TestSQLiteWithUuids(OnSQLite, WithUuids): ...


@pytest.mark.release
class TestPostgreSQLWithUuids(OnPostgreSQL, WithUuids): ...


@pytest.mark.slow
class TestSQLiteWithExtra(OnSQLite, WithExtra): ...


@pytest.mark.slow
class TestPostgreSQLWithExtra(OnPostgreSQL, WithExtra): ...
