"""The services and callers of a case, and the list that a client keeps by what it is told."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.relations import belongs_to
from alula.adapters.sql import Database, SQLService
from alula.errors import Forbidden, NotAuthenticated

GIVEN = Path(__file__).parent / "given"
COLUMNS: dict[str, Any] = {
    **dict.fromkeys(["a", "person"], sa.Integer),
    "done": sa.Boolean,
    **dict.fromkeys(["tags", "meta"], sa.JSON),
}
TEXTS = ("text", "s", "team", "owner", "user", "role", "name", "title", "secret", "at")


def cases_in(folder: Path) -> list[dict[str, Any]]:
    return [case for file in sorted(folder.glob("*.json")) for case in json.loads(file.read_text())]


class View:
    """What a client shows of a list.

    Attributes:
        rows: The list.
        messages: All that it was told since the last step, as kind and id.
        error: Why the list could not be opened, or has ended.
    """

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.messages: list[tuple[str, Any]] = []
        self.texts: list[str] = []
        self.error: int | None = None
        self.closed: int | None = None
        self.has_snapshot = False

    def take(self, kind: str, body: Any) -> None:
        self.texts.append(json.dumps([kind, body], default=str, separators=(",", ":")))
        if kind in {"snapshot", "reset"}:
            self.rows = [*body["rows"]]
            self.has_snapshot = self.has_snapshot or kind == "snapshot"
            self.messages.append((kind, None))
        elif kind == "left":
            self.rows = [row for row in self.rows if row["id"] != body["id"]]
            self.messages.append((kind, body["id"]))
        elif kind == "closed":
            self.rows = []
            self.closed = body["error"]["code"]
        else:
            row = body["data"]
            if kind == "changed":
                self.rows = [each for each in self.rows if each["id"] != row["id"]]
            assert 0 <= body["at"] <= len(self.rows)
            self.rows.insert(body["at"], row)
            self.messages.append((kind, row["id"]))


def shown(row: Any) -> dict[str, Any]:
    """Return a row as cases compare it."""
    return {
        name: shown(value) if isinstance(value, dict) else value
        for name, value in row.items()
        if value is not None and name != "_id"
    }


def rights_of(rights: dict[str, Any]) -> Any:
    """Return the hook of `find` that adds a condition for its caller."""

    async def restrict(context: Any) -> None:
        params = context.params
        if params.provider is None:
            return
        if params.user is None:
            raise NotAuthenticated("sign in")
        caller = params.user["id"]
        by, app = rights["by"], context.app
        if by == "owner":
            condition = {"owner": caller}
        elif by == "caller":
            if caller not in rights["sees"]:
                raise Forbidden("nothing to see")
            condition = rights["sees"][caller]
        elif by == "members":
            found = await app.service("members").find(query={"user": caller}, paginate=False)
            condition = {"team": {"$in": [each.get("team") for each in found]}}
        else:
            role = (await app.service("users").get(caller)).get("role")
            if role not in {"admin", "worker"}:
                raise Forbidden("no role")
            condition = {} if role == "admin" else {"owner": caller}
        if condition:
            query = params.query
            query["$and"] = [*query.get("$and", ()), condition]

    return restrict


def add_hooks(service: Any, spec: dict[str, Any]) -> None:
    if "rights" in spec:
        service.hooks(before={"find": [rights_of(spec["rights"])]})
    if "drops" in spec:

        async def drop(context: Any) -> None:
            rows = context.result if isinstance(context.result, list) else context.result["data"]
            wanted = spec["drops"]
            kept = [r for r in rows if not all(r.get(n) == v for n, v in wanted.items())]
            if isinstance(context.result, list):
                context.result = kept
            else:
                context.result = {**context.result, "data": kept}

        service.hooks(after={"find": [drop]})
    if "hides" in spec:

        async def hide(context: Any) -> None:
            caller = (context.params.user or {}).get("id")
            names = {*spec["hides"].get("*", ()), *spec["hides"].get(caller, ())}
            rows = context.result if isinstance(context.result, list) else context.result["data"]
            less = [{n: v for n, v in row.items() if n not in names} for row in rows]
            if isinstance(context.result, list):
                context.result = less
            else:
                context.result = {**context.result, "data": less}

        service.hooks(after={"find": [hide]})
    for method in spec.get("no_events", ()):

        async def hush(context: Any) -> None:
            context.event = None

        service.hooks(after={method: [hush]})


class Stores:
    """Makes the services of a case on one store."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self.url = url

    @asynccontextmanager
    async def services(self, case: dict[str, Any]) -> Any:
        """Yield the service objects by path."""
        specs = case["services"]
        async with AsyncExitStack() as stack:
            made: dict[str, Any] = {}
            tables: dict[str, Any] = {}
            metadata = sa.MetaData()
            database: Any = None
            if self.kind in {"sqlite", "postgresql"}:
                database = Database(self.url)
            if self.kind == "mongodb":
                from pymongo import AsyncMongoClient

                client = await stack.enter_async_context(AsyncMongoClient(self.url))
                name = f"live_{id(case)}"
                await client.drop_database(name)
                stack.push_async_callback(client.drop_database, name)
                tables = client[name]
            for path, spec in specs.items():
                options: dict[str, Any] = {"multi": True, "paginate": spec.get("paginate")}
                if spec.get("operators"):
                    options["operators"] = spec["operators"]
                if spec.get("relations"):
                    options["relations"] = {
                        name: belongs_to(r["service"], r["key"], filter=r.get("filter", ()))
                        for name, r in spec["relations"].items()
                    }
                place = spec.get("same_store_as", path)
                if self.kind == "memory":
                    made[path] = made[place] if place != path else MemoryService(**options)
                elif self.kind == "mongodb":
                    from alula.adapters.mongodb import MongoDBService

                    await tables[place].create_index("id", unique=True)
                    made[path] = MongoDBService(tables[place], id="id", **options)
                else:
                    if place not in metadata.tables:
                        key = self.key_of(case, place)
                        columns = [sa.Column(n, t) for n, t in COLUMNS.items()]
                        columns += [sa.Column(n, sa.Text) for n in TEXTS]
                        sa.Table(place, metadata, sa.Column("id", key, primary_key=True), *columns)
                    made[path] = SQLService(metadata.tables[place], database, **options)
            if database is not None:
                await database.acquire()
                stack.push_async_callback(database.release)
                for table in ("todos", "lists", *metadata.tables):
                    await database.execute(f"drop table if exists {table}")
                await database.create()
            yield made

    def key_of(self, case: dict[str, Any], place: str) -> Any:
        ids = [record["id"] for record in case["seed"].get(place, ()) if "id" in record]
        return sa.Text if any(isinstance(each, str) for each in ids) else sa.Integer


@asynccontextmanager
async def application(case: dict[str, Any], stores: Stores, configure: Any) -> Any:
    """Yield the application of a case, set up and seeded."""
    async with stores.services(case) as made:
        app = configure(App())
        for path, spec in case["services"].items():
            app.use(path, made[path])
            service = app.service(path)
            add_hooks(service, spec)
            service.live(depends_on=spec.get("depends_on", ()), pause=0.002)
        await app.setup()
        try:
            for path, records in case["seed"].items():
                for record in records:
                    await app.service(path).create(dict(record))
            yield app
        finally:
            await app.teardown()


async def together(*calls: Any) -> None:
    await asyncio.gather(*calls, return_exceptions=True)
