"""Live lists are what `find` returns, also after their database was killed again and again."""

from __future__ import annotations

import asyncio
import os
import random
import time
from contextlib import asynccontextmanager, suppress

import pytest
from pymongo import AsyncMongoClient
from tests.faults.live_application import todos as table
from tests.live.test_lists import Client, page_of
from tests.requirements import require_mongod, require_postgresql

from alula import App
from alula._live import live_lists_of
from alula.adapters.mongodb import MongoDBService
from alula.adapters.sql import Database, SQLService
from alula.errors import FrameworkError
from alula.local_mongodb import LocalServer as MongoDB
from alula.local_postgresql import LocalServer as PostgreSQL

pytestmark = pytest.mark.slow

TEAMS = [f"team {n}" for n in range(50)]
# Each with an order: without one, MongoDB may find records in another order after it was killed.
QUERIES = [
    *({"team": team, "$sort": {"id": -1}} for team in TEAMS),
    *({"team": team, "$sort": {"n": 1, "id": 1}, "$limit": 5} for team in TEAMS),
    *({"n": {"$gt": n}, "$sort": {"id": 1}} for n in range(50)),
    *({"$sort": {"n": -1, "id": 1}, "$skip": n, "$limit": 4} for n in range(50)),
]
WRITES_A_SECOND = 50
SECONDS_TO_BE_TRUE = 2 if os.environ.get("ALULA_FAULTS") == "full" else 20
"""What is promised, and what a machine with other tests can do."""


@asynccontextmanager
async def on_postgresql():
    require_postgresql()
    async with PostgreSQL() as server:
        database = Database(server.url)
        await database.create(SQLService(table, database))
        yield server, SQLService(table, database, paginate={"default": 10, "max": 100})
        await database.close()


@asynccontextmanager
async def on_mongodb():
    require_mongod()
    async with MongoDB() as server, AsyncMongoClient(server.url) as client:
        collection = client["faults"]["todos"]
        await collection.create_index("id", unique=True)
        yield server, MongoDBService(collection, id="id", paginate={"default": 10, "max": 100})


async def write_at_random(handle):
    """Write at random; what fails because the database was killed may have been stored."""
    ids = iter(range(1, 1_000_000))
    while True:
        some, n, team = random.randint(1, 200), random.randrange(100), random.choice(TEAMS)
        write = random.choice(
            [
                lambda n=n, team=team: handle.create({"id": next(ids), "team": team, "n": n}),
                lambda some=some, n=n, team=team: handle.patch(some, {"team": team, "n": n}),
                lambda some=some, n=n: handle.patch(some, {"n": n}),
                lambda some=some: handle.remove(some),
            ]
        )
        with suppress(FrameworkError):
            await write()
        await asyncio.sleep(1 / WRITES_A_SECOND)


async def seconds_until_all_are_true(handle, clients):
    begun = time.monotonic()
    while True:
        try:
            found = [(await handle.find(query=query))["data"] for query in QUERIES]
        except FrameworkError:  # it is only just back
            found = []
        late = time.monotonic() - begun
        wrong = [each for each in clients if not found or page_of(each) != found[each.number]]
        if not wrong:
            return late
        assert late < SECONDS_TO_BE_TRUE, [QUERIES[each.number] for each in wrong]
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("store", [on_postgresql, on_mongodb])
async def test_lists_are_true_after_their_database_was_killed(store, thorough, caplog):
    async with store() as (server, service):
        app = App().use("todos", service)
        handle = app.service("todos")
        handle.live(pause=0.01)
        lists = live_lists_of(app)
        await app.setup()
        clients = []
        for _ in range(5 if thorough else 1):
            for number, query in enumerate(QUERIES):
                client = await Client(lists, handle, **query).open()
                client.number = number
                clients.append(client)
        writing = asyncio.ensure_future(write_at_random(handle))
        for _ in range(10 if thorough else 2):
            await asyncio.sleep(random.uniform(0.5, 1.5) if thorough else 0.3)
            server._process.kill()
            await asyncio.sleep(random.uniform(0.1, 0.5))
            await server.start()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        late = await seconds_until_all_are_true(handle, clients)
        assert caplog.text.count("could not be read") < 20  # not one for each list
        await app.teardown()
    print(f"{len(clients)} lists were true after {late:.2f} s")
