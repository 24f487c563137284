"""Notes in each store, and the calls of two clients."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient
from sqlalchemy import JSON, BigInteger, Column, Integer, MetaData, Table, Text

from alula import App, ServiceHandle
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.adapters.sql import Database, SQLService

ADA: dict[str, Any] = {"provider": "rest", "user": {"id": 7, "roles": ["writer"]}}
BOB: dict[str, Any] = {"provider": "rest", "user": {"id": 8, "roles": "reader"}}

TABLE = Table(
    "notes",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("text", Text),
    Column("votes", Integer),
    Column("userId", Integer),
    Column("tags", JSON),
    Column("createdAt", BigInteger),
    Column("updatedAt", BigInteger),
    Column("deletedAt", BigInteger),
)


def app_of(service: Any, **hooks: Any) -> ServiceHandle:
    """Return the handle of a service, `notes`, with hooks."""
    handle = App().use("notes", service).service("notes")
    if hooks:
        handle.hooks(**hooks)
    return handle


@pytest.fixture
def memory():
    """Notes of Ada, of Bob and of nobody, in memory."""
    records = [{"id": 1, "userId": 7}, {"id": 2, "userId": 8}, {"id": 3}]
    return MemoryService([{"text": "Hello", **record} for record in records], multi=True)


@pytest.fixture(params=["memory", "sqlite", "mongodb"])
async def notes(request, tmp_path):
    """The handle of an empty service on each store, which opens update operators to clients."""
    options = {"multi": True, "update_operators": ["$inc", "$set"]}
    if request.param == "memory":
        yield app_of(MemoryService(multi=True, start_id=1))
    elif request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path}/notes.sqlite")
        service = SQLService(TABLE, database, **options)
        handle = app_of(service)
        await database.create()
        yield handle
        await database.close()
    else:
        async with AsyncMongoClient(request.getfixturevalue("mongodb_url")) as client:
            collection = client["alula_common_hooks"][f"c{ObjectId()}"]
            yield app_of(MongoDBService(collection, id="id", **options))
            await collection.drop()


@pytest.fixture
def has_operators(request):
    """Whether a patch of the store of the test may have update operators."""
    return "memory" not in request.node.name


@pytest.fixture
def updates_by_operators(request):
    """Whether an update may have them, too."""
    return "mongodb" in request.node.name
