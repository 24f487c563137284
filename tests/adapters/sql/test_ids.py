"""Ids of each type of column, alone and in shared statements."""

import asyncio
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest
import sqlalchemy
from pydantic import create_model
from sqlalchemy.dialects import postgresql

from alula import App
from alula._json_encoding import dumps, loads
from alula.adapters.sql import Database, SQLService
from alula.errors import BadRequest, NotFound
from alula.schema import with_schema

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)

# By name: the type, and two ids as records have them.
IDS = {
    "integer": (sqlalchemy.Integer(), [1, 2]),
    "bigint": (sqlalchemy.BigInteger(), [2**62, -5]),
    "text": (sqlalchemy.Text(), ["a", "É'\""]),
    "varchar": (sqlalchemy.String(5), ["a", "25"]),
    "char": (sqlalchemy.CHAR(5), ["a", "b"]),
    "uuid": (sqlalchemy.Uuid(), [UUID(int=1), UUID(int=2)]),
    "uuid as text": (postgresql.UUID(as_uuid=False), [str(UUID(int=1)), str(UUID(int=2))]),
    "numeric": (sqlalchemy.Numeric(5, 2), [Decimal("1.50"), Decimal("2.00")]),
    "date": (sqlalchemy.Date(), [date(2024, 3, 1), date(2024, 3, 2)]),
    "timestamptz": (sqlalchemy.DateTime(timezone=True), [NOON, NOON.replace(hour=1)]),
    "enum": (sqlalchemy.Enum("a", "b", name="letters"), ["a", "b"]),
}


@pytest.fixture
async def make_service(sql_url):
    database = Database(sql_url)
    services = []

    async def make_service(type_):
        table = sqlalchemy.Table(
            "things",
            sqlalchemy.MetaData(),
            sqlalchemy.Column("key", type_, primary_key=True, autoincrement=False),
            sqlalchemy.Column("n", sqlalchemy.Integer),
        )
        service = SQLService(table, database)
        await database.create(service)
        await service.setup(None, "things")
        services.append(service)
        return service

    yield make_service
    for service in services:
        await service.teardown(None, "things")


@pytest.mark.parametrize(("type_", "ids"), IDS.values(), ids=IDS)
async def test_records_are_found_by_ids_and_by_their_text(make_service, type_, ids):
    service = await make_service(type_)
    created = await asyncio.gather(
        *(service.create({"key": key, "n": n}) for n, key in enumerate(ids))
    )
    assert created == [{"key": key, "n": n} for n, key in enumerate(ids)]
    texts = [str(loads(dumps(key))) for key in ids]
    for keys in (ids, texts):
        assert await asyncio.gather(*map(service.get, keys)) == created
        changed = await asyncio.gather(*(service.patch(key, {"n": 5}) for key in keys))
        assert changed == [{"key": key, "n": 5} for key in ids]
        await asyncio.gather(*(service.update(key, {"n": n}) for n, key in enumerate(keys)))
    removed = await asyncio.gather(*map(service.remove, texts))
    assert removed == created


@pytest.mark.parametrize(
    ("type_", "ids"),
    [
        (sqlalchemy.Integer(), ["x", "1.5", 2**40, 2**70, "", "1e400", True, "\x00"]),
        (sqlalchemy.Text(), ["\x00", "\ud800", 5]),
        (sqlalchemy.String(2), ["abc"]),
        (sqlalchemy.Uuid(), ["x", 5]),
        (sqlalchemy.Date(), ["x", "2024-02-30", 5]),
        (sqlalchemy.Enum("a", name="letters"), ["z"]),
    ],
)
async def test_no_record_has_an_id_that_cannot_be_one(make_service, type_, ids):
    service = await make_service(type_)
    for key in ids:
        for call in (service.get(key), service.patch(key, {"n": 1}), service.remove(key)):
            with pytest.raises(NotFound):
                await call


@pytest.mark.parametrize(
    ("type_", "key", "others"),
    [
        (sqlalchemy.Integer(), 5, ["05", "5.0", "5.", "+5", "5e0", "50e-1", " 5", "\uff15"]),
        (sqlalchemy.BigInteger(), 0, ["-0", "00", "0e0"]),
        (sqlalchemy.BigInteger(), -5, ["-05", "-5.0", "\u22125"]),
        (
            sqlalchemy.Uuid(),
            UUID(int=1),
            [
                f"{{{UUID(int=1)}}}",
                UUID(int=1).urn,
                f" {UUID(int=1).hex[1:]}",
                f"+{UUID(int=1).hex[1:]}",
                UUID(int=1).hex.replace("0", "\u0660"),
                f"{UUID(int=1).hex[:-4]}-0001",
            ],
        ),
    ],
)
async def test_an_id_is_found_by_the_text_that_json_has_for_it_alone(
    make_service, type_, key, others
):
    service = await make_service(type_)
    record = await service.create({"key": key, "n": 1})
    for text in others:
        for call in (
            service.get(text),
            service.update(text, {"n": 2}),
            service.patch(text, {"n": 2}),
            service.remove(text),
        ):
            with pytest.raises(NotFound):
                await call
    assert await service.get(str(key)) == record


async def test_capitals_and_hyphens_do_not_count_in_a_uuid(make_service):
    service = await make_service(sqlalchemy.Uuid())
    record = await service.create({"key": UUID(int=171), "n": 1})
    for text in (str(UUID(int=171)).upper(), UUID(int=171).hex, UUID(int=171).hex.upper()):
        assert await service.get(text) == record


@pytest.mark.parametrize(
    "model",
    [{"properties": {"n": {"type": "integer"}}}, create_model("Thing", n=(int, ...))],
    ids=["JSON Schema", "Pydantic"],
)
@pytest.mark.parametrize(
    ("type_", "ids"), [IDS["varchar"], (sqlalchemy.Text(), ["07", "7"]), IDS["integer"]]
)
async def test_queries_by_an_id_that_the_schema_does_not_have_find_it_by_its_text(
    make_service, type_, ids, model
):
    service = await make_service(type_)
    things = App().use("things", with_schema(service, model)).service("things")
    created = [await service.create({"key": key, "n": n}) for n, key in enumerate(ids)]
    for key, record in zip(ids, created, strict=True):
        assert await things.find(query={"key": str(key)}) == [record]
        assert await things.find(query={"key": key}) == [record]
        assert record in await things.find(query={"key": {"$in": [str(key)]}})


async def test_ids_of_version_7_are_made_for_new_records(make_service):
    service = await make_service(sqlalchemy.Uuid())
    created = await asyncio.gather(*(service.create({"n": n}) for n in range(3)))
    assert {UUID(str(record["key"])).version for record in created} == {7}
    assert await asyncio.gather(*(service.get(record["key"]) for record in created)) == created


@pytest.mark.parametrize("given", [2**63 - 1, 2**52 + 1, 1e18])
async def test_no_client_uses_up_the_ids_of_sqlite(tmp_path, given):
    database = Database(f"sqlite:///{tmp_path / 'ids.sqlite'}")
    key = sqlalchemy.Column("id", sqlalchemy.BigInteger, primary_key=True)
    service = SQLService(
        sqlalchemy.Table("counted", sqlalchemy.MetaData(), key), database, multi=True
    )
    await database.create(service)
    for data in ({"id": given}, [{}, {"id": given}]):
        with pytest.raises(BadRequest, match=f"expected a whole number up to {2**52}"):
            await service.create(data, {"provider": "rest"})
    await service.create([{"id": 2**52}, {"id": 7.0}], {"provider": "rest"})
    assert await service.create({}, {"provider": "rest"}) == {"id": 2**52 + 1}
    assert await service.create({"id": int(given) - 5}) == {"id": int(given) - 5}
    await database.close()
