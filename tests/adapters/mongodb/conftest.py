"""A client of the MongoDB of the tests, and a collection of its own for each test."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from alula.adapters.mongodb import MongoDBService

DATABASE = "alula_adapter"


@pytest.fixture(scope="session")
async def client(mongodb_url, anyio_backend):  # the loop of all tests
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
    with warnings.catch_warnings():
        # A client that is closed while it tries to connect leaves the socket to the collector.
        warnings.simplefilter("ignore", ResourceWarning)
        url = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50"
        async with AsyncMongoClient(url) as client:
            yield client["database"]["collection"]
        await asyncio.sleep(0.01)  # until the task that was connecting has ended
        gc.collect()


@pytest.fixture
def service(collection):
    """Makes services on the test's collection."""
    return lambda **options: MongoDBService(collection, **options)
