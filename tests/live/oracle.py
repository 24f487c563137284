"""Random writes, random lists, two applications on one store, and a bus that is no good.

After each round, all lists are compared with a fresh `find` of their callers.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager

import sqlalchemy as sa

from alula import App
from alula._channels import Event
from alula._connection import Connection
from alula._live import LiveList, live_lists_of
from alula.adapters.memory import MemoryService
from alula.adapters.sql import Database, SQLService
from alula.errors import FrameworkError

TEAMS = ["red", "green", "blue"]
USERS = ["ann", "bob", "cho"]
NAMES = ["team", "n", "done", "text"]


class Link:
    queued = 0

    def deliver(self, event):
        pass


class Bus:
    """Carries signals between the applications: late, twice, or not at all, which is a gap."""

    def __init__(self, random, apps):
        self.random = random
        self.apps = apps
        self.tasks = set()
        for app in apps:
            app.channel_registry.forward = lambda event, app=app: self.send(app, event)

    def send(self, sender, event: Event):
        for app in self.apps:
            if app is not sender:
                task = asyncio.ensure_future(self.carry(app, event))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    async def carry(self, app, event):
        for _ in range(self.random.choice([1, 1, 1, 2])):
            await asyncio.sleep(self.random.choice([0, 0, 0.001, 0.004]))
            if self.random.random() < 0.03:
                app.channel_registry.report_gap()
            else:
                app.channel_registry.receive(event)

    async def drain(self):
        while self.tasks:
            await asyncio.gather(*self.tasks)


class Shown:
    """A list as its client shows it."""

    def __init__(self, app, user, query):
        self.app, self.user, self.query = app, user, query
        self.rows = []
        self.is_open = False
        self.connection = Connection(Link(), provider="sse", headers={}, ip=None, user={"id": user})
        self.list = LiveList(app.service("todos"), self.connection, {}, query, self.take)

    def take(self, messages):
        assert [m.body.get("more", False) for m in messages[:-1]] == [True] * (len(messages) - 1)
        for kind, body in messages:
            if kind in {"snapshot", "reset"}:
                self.rows = [*body["rows"]]
            elif kind == "left":
                assert body["id"] in [row["id"] for row in self.rows], "it never had that"
                self.rows = [row for row in self.rows if row["id"] != body["id"]]
            elif kind in {"changed", "entered"}:
                row = body["data"]
                others = [each for each in self.rows if each["id"] != row["id"]]
                assert (len(others) < len(self.rows)) == (kind == "changed")
                assert kind == "entered" or body["at"] <= len(others)
                self.rows = others
                self.rows.insert(body["at"], row)

    async def open(self):
        await live_lists_of(self.app).open(self.list)
        self.is_open = True

    async def settle(self):
        await live_lists_of(self.app).settled(self.connection)

    async def truth(self):
        sort = {**self.query.get("$sort", {})}
        sort.setdefault("id", 1)
        found = await self.app.service("todos").find(
            query={**self.query, "$sort": sort}, provider="sse", user={"id": self.user}
        )
        return found["data"]


class Oracle:
    """One run. All that is random comes from its seed."""

    def __init__(self, seed, apps):
        self.random = random.Random(seed)
        self.apps = apps
        self.rights = dict.fromkeys(USERS, TEAMS[:])
        self.bus = Bus(self.random, apps)
        self.shown = []
        self.compared = 0
        self.count = 0
        for app in apps:
            app.service("todos").hooks(before={"find": [self.restrict]})

    async def restrict(self, context):
        if context.params.provider is not None:
            query = context.params.query
            teams = {"team": {"$in": [*self.rights[context.params.user["id"]]]}}
            query["$and"] = [*query.get("$and", ()), teams]

    def record(self):
        pick = self.random
        return {
            "team": pick.choice(TEAMS),
            "n": pick.choice([None, *range(6)]),
            "done": pick.choice([True, False]),
            "text": pick.choice(["a", "B", "c d", "", "Äö", "10"]),
        }

    def conditions(self):
        pick = self.random
        return {
            **pick.choice(
                [
                    {},
                    {"done": pick.choice([True, False])},
                    {"team": pick.choice(TEAMS), "done": False},
                    {"n": {"$gt": pick.randrange(5)}},
                    {"n": {"$in": [1, 2, 3]}},
                    {"n": {"$ne": 3}},
                    {"$or": [{"n": 1}, {"text": "a"}]},
                    {"text": pick.choice(["a", "B", "10"])},
                    {"n": None},
                ]
            )
        }

    def query(self):
        pick = self.random
        query = self.conditions()
        if pick.random() < 0.6:
            query["$sort"] = {pick.choice([*NAMES, "id"]): pick.choice([1, -1])}
        if pick.random() < 0.6:
            query["$limit"] = pick.choice([1, 2, 3, 5, 8])
        if pick.random() < 0.25:
            query["$skip"] = pick.choice([1, 2, 4])
        if pick.random() < 0.2:
            query["$select"] = ["id", *pick.sample(NAMES, 2)]
        return query

    async def write(self):
        pick = self.random
        todos = pick.choice(self.apps).service("todos")
        query = {"$select": ["id", "n"]} if pick.random() < 0.1 else {}
        some = pick.randint(1, max(1, self.count))
        kind = pick.choice(["create"] * 4 + ["patch"] * 5 + ["update", "remove", "many"])
        try:
            if kind == "create":
                data = [self.record() for _ in range(pick.choice([1, 1, 1, 3]))]
                self.count += len(data)
                ids = range(self.count - len(data) + 1, self.count + 1)
                data = [{"id": each, **record} for each, record in zip(ids, data, strict=True)]
                await todos.create(data if len(data) > 1 else data[0], query=query)
            elif kind == "patch":
                name = pick.choice(NAMES)
                await todos.patch(some, {name: self.record()[name]}, query=query)
            elif kind == "update":
                await todos.update(some, self.record(), query=query)
            elif kind == "remove":
                await todos.remove(some, query=query)
            elif pick.random() < 0.7:
                name = pick.choice(NAMES)
                await todos.patch(None, {name: self.record()[name]}, query=self.conditions())
            else:
                await todos.remove(None, query={"n": pick.randrange(6), "done": True})
        except FrameworkError as error:
            assert error.code in {404, 409}  # noqa: PT017  # of a record that is gone

    async def open(self):
        shown = Shown(self.random.choice(self.apps), self.random.choice(USERS), self.query())
        await shown.open()
        self.shown.append(shown)

    async def change_rights(self):
        user = self.random.choice(USERS)
        self.rights[user] = self.random.sample(TEAMS, self.random.randint(0, 3))
        for shown in self.shown:
            if shown.user == user:
                shown.app.emit("user_changed", shown.connection, None)

    async def round(self):
        pick = self.random
        writes = [self.write() for _ in range(pick.choice([1, 1, 2, 3, 6]))]
        openings = [self.open() for _ in range(pick.choice([0, 1, 2]))]
        others = [self.change_rights()] if pick.random() < 0.1 else []
        await asyncio.gather(*writes, *openings, *others)
        while len(self.shown) > 12:
            gone = self.shown.pop(pick.randrange(len(self.shown)))
            live_lists_of(gone.app).close_all(gone.connection)
        if pick.random() < 0.7:
            await self.compare()

    async def compare(self):
        await self.bus.drain()
        for shown in self.shown:
            await shown.settle()
        for shown in self.shown:
            truth = await shown.truth()
            assert shown.rows == truth, (shown.query, shown.user, self.rights[shown.user])
            self.compared += 1


@asynccontextmanager
async def services(kind, url):
    """Yield two services on one store."""
    options = {"multi": True, "paginate": {"default": 10, "max": 50}}
    if kind == "memory":
        service = MemoryService(**options)
        yield [service, service]
    elif kind == "mongodb":
        from pymongo import AsyncMongoClient

        from alula.adapters.mongodb import MongoDBService

        async with AsyncMongoClient(url) as client:
            collection = client["live_oracle"]["todos"]
            await collection.drop()
            await collection.create_index("id", unique=True)
            yield [MongoDBService(collection, id="id", **options) for _ in range(2)]
            await client.drop_database("live_oracle")
    else:
        table = sa.Table(
            "todos",
            sa.MetaData(),
            sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("team", sa.Text),
            sa.Column("n", sa.Integer),
            sa.Column("done", sa.Boolean),
            sa.Column("text", sa.Text),
        )
        databases = [Database(url) for _ in range(2)]
        made = [SQLService(table, database, **options) for database in databases]
        for database in databases:
            await database.acquire()
        await databases[0].create()
        try:
            yield made
        finally:
            for database in databases:
                await database.release()


async def run(kind, url, seed, comparisons):
    """Compare lists with the truth so many times; raise at the first that differs."""
    async with services(kind, url) as made:
        apps = []
        for service in made:
            app = App().use("todos", service)
            app.service("todos").live(pause=0.001)
            live_lists_of(app)
            await app.setup()
            apps.append(app)
        oracle = Oracle(seed, apps)
        try:
            while oracle.compared < comparisons:
                await oracle.round()
        finally:
            await oracle.bus.drain()
            for app in apps:
                await app.teardown()
