"""The clocks of both databases: in UTC, and with milliseconds, which is what JSON has."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
import sqlalchemy as sa

from alula.adapters.sql import Database, SQLService
from alula.outgoing._text import javascript_date

notes = sa.Table(
    "notes",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("zoned", sa.DateTime(timezone=True), server_default=sa.func.now()),
    sa.Column("local", sa.DateTime, server_default=sa.func.now()),
    sa.Column("current", sa.DateTime, server_default=sa.text("CURRENT_TIMESTAMP")),
    sa.Column("python", sa.DateTime, default=sa.func.now(), onupdate=sa.func.now()),
)
TIMES = ("zoned", "local", "current", "python")


@pytest.fixture
async def abroad(postgresql_schema):
    """A database whose time zone is not UTC."""
    connection = await asyncpg.connect(postgresql_schema)
    (name,) = await connection.fetchrow("select current_database()")
    await connection.execute(f"alter database \"{name}\" set timezone = 'Asia/Tokyo'")
    database = Database(postgresql_schema)
    yield database
    await database.close()
    await connection.execute(f'alter database "{name}" reset timezone')
    await connection.close()


async def check(database):
    service = SQLService(notes, database)
    await database.create()
    now = datetime.now(UTC).replace(tzinfo=None)
    for record in [await service.create({}) for _ in range(3)]:
        for name in TIMES:
            moment = record[name].replace(tzinfo=None)
            assert abs(moment - now) < timedelta(minutes=1), name
            assert moment.microsecond % 1_000 == 0, name


async def test_times_are_in_utc_with_milliseconds(database):
    await check(database)


async def test_a_server_in_another_time_zone(abroad):
    await check(abroad)
    async with abroad.transaction() as transaction:
        assert await transaction.fetch("show timezone") == [{"TimeZone": "UTC"}]


async def test_another_time_zone_can_be_set(postgresql_schema):
    database = Database(postgresql_schema, settings={"timezone": "Asia/Tokyo"})
    assert await database.fetch("show timezone") == [{"TimeZone": "Asia/Tokyo"}]
    await database.close()


@pytest.mark.parametrize("name", TIMES)
async def test_pages_by_a_time_that_a_client_received_end(database, name):
    service = SQLService(notes, database)
    await database.create()
    for _ in range(5):
        await service.create({})
    found = []
    last = "2000-01-01T00:00:00.000Z"
    query = {"$limit": 10, "$sort": {name: 1}}
    for _ in range(9):
        page = await service.find({"query": {**query, name: {"$gt": last}}, "paginate": False})
        if not page:
            break
        found += [record["id"] for record in page]
        last = javascript_date(page[-1][name])
    assert found == [1, 2, 3, 4, 5]
