"""Every option of an adapter works behind a schema as without one."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

import httpx2
import pytest
from bson import ObjectId
from pydantic import BaseModel, Field
from pymongo import AsyncMongoClient
from sqlalchemy import JSON, Column, ForeignKey, Integer, MetaData, Table, Text

from alula import App
from alula.adapters.base import AdapterService, CommonOptions
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.adapters.relations import belongs_to
from alula.adapters.sql import Database, SQLService
from alula.errors import BadRequest
from alula.express import express, rest
from alula.schema import with_schema

STORES = {"memory": MemoryService, "mongodb": MongoDBService, "sql": SQLService}


class Place(BaseModel):
    city: str = ""


class Note(BaseModel):
    text: str = ""
    likes: int = 0
    tags: list[str] = []
    numbers: list[int] = []
    place: Place | None = None
    data: dict[str, Any] = {}
    user_id: int | None = Field(None, alias="userId", exclude_if=lambda value: value is None)


SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "default": ""},
        "likes": {"type": "integer", "default": 0},
        "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        "numbers": {"type": "array", "items": {"type": "integer"}, "default": []},
        "place": {"type": "object", "properties": {"city": {"type": "string"}}},
        "data": {"type": "object", "default": {}},
        "userId": {"type": "integer"},
    },
}
RECORDS = [
    {"text": "hello world", "likes": 1, "tags": ["a"], "numbers": [1], "data": {"color": "red"}},
    {"text": "bye", "likes": 5, "tags": ["a", "b"], "numbers": [1, 2], "data": {}, "userId": 1},
]
BY_REGEX = {"text": {"$regex": "^B", "$options": "i"}}

QUERIES: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
    # The store, its options, a query as a query string gives it, and how many records it finds.
    ("memory", {"operators": ["$exists"]}, {"userId": {"$exists": "true"}}, 1),
    (
        "memory",
        {"operators": ["$regex", "$options"]},
        {"text": {"$regex": "^B", "$options": "i"}},
        1,
    ),
    ("memory", {"operators": ["$size"]}, {"tags": {"$size": "2"}}, 1),
    ("memory", {"operators": ["$all"]}, {"numbers": {"$all": ["1", "2"]}}, 1),
    ("memory", {"operators": ["$eq"]}, {"likes": {"$eq": "5"}}, 1),
    ("memory", {"operators": ["$not"]}, {"likes": {"$not": {"$gt": "3"}}}, 1),
    ("memory", {"operators": ["$mod"]}, {"likes": {"$mod": [5, 0]}}, 1),
    ("memory", {"operators": ["$elemMatch"]}, {"tags": {"$elemMatch": {"$gt": "a"}}}, 1),
    ("memory", {"filters": {"$nothing": False}}, {"$nothing": "5"}, 2),
    ("mongodb", {"operators": ["$exists"]}, {"userId": {"$exists": "true"}}, 1),
    (
        "mongodb",
        {"operators": ["$regex", "$options"]},
        {"text": {"$regex": "^B", "$options": "i"}},
        1,
    ),
    ("mongodb", {"operators": ["$size"]}, {"tags": {"$size": "2"}}, 1),
    ("mongodb", {"operators": ["$all"]}, {"numbers": {"$all": ["1", "2"]}}, 1),
    ("mongodb", {"operators": ["$not"]}, {"likes": {"$not": {"$gt": "3"}}}, 1),
    ("mongodb", {"filters": {"$comment": True}}, {"$comment": "hi"}, 2),
    ("sql", {"operators": ["$like", "$ilike", "$notlike"]}, {"text": {"$like": "%o w%"}}, 1),
    ("sql", {"operators": ["$null"]}, {"userId": {"$null": "true"}}, 1),
    ("sql", {"operators": ["$contains"]}, {"tags": {"$contains": ["b"]}}, 1),
    ("sql", {"operators": ["$overlaps"]}, {"tags": {"$overlaps": ["b", "c"]}}, 1),
    ("sql", {"paths": {"data.color": str}}, {"data.color": "red"}, 1),
    ("sql", {"search": ["text"]}, {"$search": "hello"}, 1),
    (
        "sql",
        {"relations": {"user": belongs_to("users", "userId", filter=["name"])}},
        {"user.name": "Ada"},
        1,
    ),
]


@pytest.fixture
async def stores(mongodb_url, tmp_path):
    """Makes an application with the service `notes` and its records, by the name of a store."""
    database = Database(f"sqlite:///{tmp_path}/notes.sqlite")
    tables = MetaData()
    users = Table("users", tables, Column("id", Integer, primary_key=True), Column("name", Text))
    notes = Table(
        "notes",
        tables,
        Column("id", Integer, primary_key=True),
        Column("text", Text),
        Column("likes", Integer),
        Column("tags", JSON),
        Column("numbers", JSON),
        Column("place", JSON),
        Column("data", JSON),
        Column("hidden", JSON),
        Column("userId", Integer, ForeignKey("users.id")),
    )
    async with AsyncMongoClient(mongodb_url) as client:
        collection = client["alula_options"][f"c{ObjectId()}"]

        async def make(store, model, **options):
            app = App()
            if store == "sql":
                app.use("users", SQLService(users, database))
                service: Any = SQLService(notes, database, **options)
                await database.create()
                await app.service("users").create({"id": 1, "name": "Ada"})
            elif store == "mongodb":
                service = MongoDBService(collection, **options)
            else:
                service = MemoryService(**options)
            app.use("notes", with_schema(service, model))
            await app.setup()
            for record in RECORDS:
                await service.create(record)
            return app.service("notes")

        yield make
        await collection.drop()
        await database.close()


@pytest.mark.parametrize("model", [Note, SCHEMA], ids=["model", "schema"])
@pytest.mark.parametrize(("store", "options", "query", "number"), QUERIES)
async def test_what_an_option_opens_for_queries_works(stores, model, store, options, query, number):
    notes = await stores(store, model, **options)
    for provider in (None, "rest"):
        assert len(await notes.find(query=query, provider=provider)) == number


@pytest.mark.parametrize("model", [Note, SCHEMA], ids=["model", "schema"])
async def test_options_of_a_call_open_operators_for_it_alone(stores, model):
    notes = await stores("memory", model)
    query = {"userId": {"$exists": "true"}}
    adapter = {"operators": ["$exists"]}
    assert len(await notes.find(query=query, adapter=adapter)) == 1
    assert len(await notes.find(query=query, adapter=adapter, provider="rest")) == 1
    assert len(await notes.find(adapter={"paginate": False})) == 2
    with pytest.raises(BadRequest):
        await notes.find(query=query)


@pytest.mark.parametrize("model", [Note, SCHEMA], ids=["model", "schema"])
async def test_a_wrong_operand_of_an_opened_operator_is_refused(stores, model):
    operators = ["$exists", "$size", "$not", "$regex", "$all"]
    notes = await stores("memory", model, operators=operators)
    for query in (
        {"text": {"$exists": "perhaps"}},
        {"tags": {"$size": "-1"}},
        {"likes": {"$not": {"$gt": "many"}}},
        {"likes": {"$not": {"$not": {"$gt": "1"}}}},
        {"text": {"$regex": {"a": 1}}},
        {"numbers": {"$all": ["a"]}},
    ):
        with pytest.raises(BadRequest, match="validation failed"):
            await notes.find(query=query, provider="rest")


@pytest.mark.parametrize("model", [Note, SCHEMA], ids=["model", "schema"])
async def test_hidden_properties_stay_closed_for_opened_operators(model):
    app = App()
    service = MemoryService(RECORDS, operators=["$regex"])
    app.use("notes", with_schema(service, model, hidden=["text"]))
    query = {"text": {"$regex": "^h"}}
    assert len(await app.service("notes").find(query=query)) == 1
    with pytest.raises(BadRequest):
        await app.service("notes").find(query=query, provider="rest")


def test_a_search_in_a_hidden_property_is_an_error_at_registration():
    table = Table("n", MetaData(), Column("id", Integer, primary_key=True), Column("text", Text))
    service = SQLService(table, Database("sqlite://"), search=["text"])
    with pytest.raises(ValueError, match=r"\$search looks in 'text', which is hidden"):
        with_schema(service, {"properties": {"text": {"type": "string"}}}, hidden=["text"])


# Where an option of an adapter is tried behind a schema; None for those that no schema sees.
TRIED = {
    "id": "tests/schema/test_service_schema.py",
    "operators": "above",
    "filters": "above",
    "paths": "above",
    "search": "above",
    "relations": "above",
    "update_operators": "tests/schema/test_update_operators.py",
    "dotted_names": "tests/schema/test_update_operators.py",
    "multi": "tests/schema/test_service_schema.py",
    "max_result": "below",
    "disable_objectify": "below",
    "extra": "below",
    # Of pages, limits, round trips, events and the store itself.
    **dict.fromkeys(["paginate", "max_time_ms", "max_conditions", "share", "nulls", "events"]),
    **dict.fromkeys(["unique", "start_id", "store", "model", "database"]),
    "use_estimated_document_count": None,
}


@pytest.mark.parametrize("service", [AdapterService, *STORES.values()])
def test_every_option_of_an_adapter_is_listed(service):
    options = set()
    for parameter in signature(service).parameters.values():
        if parameter.kind is Parameter.VAR_KEYWORD:
            assert parameter.annotation == "Unpack[CommonOptions]"
            options |= CommonOptions.__annotations__.keys()
        else:
            options.add(parameter.name)
    assert options <= TRIED.keys()


async def test_properties_for_the_extra_column_work_where_the_schema_is_open(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/notes.sqlite")
    table = Table("n", MetaData(), Column("id", Integer, primary_key=True), Column("more", JSON))
    app = App()
    service = SQLService(table, database, extra="more")
    schema = {"properties": {"text": {"type": "string"}}, "additionalProperties": True}
    app.use("notes", with_schema(service, schema))
    await database.create()
    await app.setup()
    new = await app.service("notes").create({"text": "a", "colour": "red"}, provider="rest")
    assert new == {"id": 1, "text": "a", "colour": "red"}
    await database.close()


@pytest.mark.parametrize("model", [Note, SCHEMA], ids=["model", "schema"])
@pytest.mark.parametrize("store", STORES)
async def test_what_a_call_may_return_is_bounded(stores, model, store):
    notes = await stores(store, model, max_result={"records": 1}, multi=True)
    for refused in (
        notes.find(provider="rest"),
        notes.patch(None, {"likes": 9}, provider="rest"),
        notes.find(adapter={"max_result": {"records": 1}}),
    ):
        with pytest.raises(BadRequest, match="more than 1 records"):
            await refused
    assert len(await notes.find(query={"likes": "5"}, provider="rest")) == 1
    assert [note["likes"] for note in await notes.find()] == [1, 5]


@pytest.mark.parametrize("model", [Note, SCHEMA], ids=["model", "schema"])
async def test_a_path_into_a_property_that_records_lack_opens_nothing(stores, model):
    """The column has more than the schema tells clients about."""
    notes = await stores("sql", model, paths={"hidden.color": str, "data.color": str})
    assert len(await notes.find(query={"data.color": "red"}, provider="rest")) == 1
    with pytest.raises(BadRequest, match="validation failed"):
        await notes.find(query={"hidden.color": "red"}, provider="rest")


@pytest.mark.parametrize("model", [Note, SCHEMA], ids=["model", "schema"])
async def test_ids_stay_text_where_they_are_not_objectified(stores, model):
    notes = await stores("mongodb", model, disable_objectify=True)
    key = "507f1f77bcf86cd799439011"
    await notes.service.create({"_id": key, "text": "a"})
    assert (await notes.get(key, query={"_id": key}))["_id"] == key


@pytest.mark.parametrize("model", [Note, SCHEMA], ids=["model", "schema"])
async def test_a_list_of_one_as_query_strings_write_it(model):
    app = express(App())
    app.configure(rest())
    app.use("notes", with_schema(MemoryService(RECORDS), model))
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://a") as client:
        for query, number in (
            ("$select=text", 2),
            ("text[$in]=bye", 1),
            ("likes[$in]=5", 1),
            ("likes[$nin]=5", 1),
            ("tags[$in]=b", 1),
            ("$or[0][likes][$in]=5", 1),
        ):
            response = await client.get(f"/notes?{query}")
            assert (response.status_code, len(response.json())) == (200, number), query
        assert (await client.get("/notes?likes[$in]=many")).status_code == 400
        assert (await client.get("/notes?$select=nothing")).status_code == 400
