"""A client of the MongoDB of the tests, and a collection of its own for each test."""

from __future__ import annotations

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from alula.adapters.mongodb import MongoDBService

DATABASE = "alula_adapter"


# Not of the session: the loop stands still while tests without one run, and a client that was not
# heard for long takes its server for lost.
@pytest.fixture(scope="module")
async def client(mongodb_url, anyio_backend):
    async with AsyncMongoClient(mongodb_url) as client:
        yield client
        await client.drop_database(DATABASE)


@pytest.fixture
async def collection(client):
    found = client[DATABASE][f"c{ObjectId()}"]
    yield found
    await found.drop()


@pytest.fixture
def offline():
    """A collection whose server is never asked."""
    return AsyncMongoClient("mongodb://127.0.0.1:1", connect=False)["database"]["collection"]


@pytest.fixture
async def unreachable():
    """A collection whose server is not there."""
    url = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50"
    async with AsyncMongoClient(url) as client:
        yield client["database"]["collection"]


@pytest.fixture
def service(collection):
    """Makes services on the test's collection."""
    return lambda **options: MongoDBService(collection, **options)
