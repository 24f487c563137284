"""An application with services on SQL, and clients that keep a journal of what they write."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import sqlalchemy as sql

from alula import App
from alula.adapters.sql import Database, SQLService, transaction
from alula.express import error_handler, express, json, not_found, rest

CLIENTS = 6

metadata = sql.MetaData()
records = sql.Table(
    "records",
    metadata,
    sql.Column("id", sql.Integer, sql.Identity(), primary_key=True),
    sql.Column("token", sql.Integer, nullable=False),
    sql.Column("text", sql.Text),  # to fill the disk
    sql.Column("count", sql.Integer, nullable=False, server_default="0"),
)
orders = sql.Table(
    "orders",
    metadata,
    sql.Column("id", sql.Integer, sql.Identity(), primary_key=True),
    sql.Column("token", sql.Integer, nullable=False),
)
lines = sql.Table(
    "lines",
    metadata,
    sql.Column("id", sql.Integer, sql.Identity(), primary_key=True),
    sql.Column("token", sql.Integer, nullable=False),
)


def make_app(database: Database) -> Any:
    """Return an application whose orders write a line in the same transaction."""
    app = express(App())
    app.use(json())
    app.configure(rest())
    app.use("records", SQLService(records, database, update_operators=["$inc"]))
    app.use("orders", SQLService(orders, database))
    app.use("lines", SQLService(lines, database))

    async def add_line(context: Any) -> None:
        token = context.result["token"]
        await app.service("lines").create({"token": token}, sql=context.params.sql)

    app.service("orders").hooks(
        around={"create": [transaction(seconds=20)]}, after={"create": [add_line]}
    )
    app.use(not_found(), error_handler(logger=False))
    return app


class Writers:
    """Clients that create records, count in the record created last, and place orders.

    Attributes:
        tried: What was ever sent, by kind.
        acknowledged: What was answered with success, by kind.
        counts: For each record: the counts that were acknowledged, and those that were tried.
        statuses: How often each status was answered.
        last: When the last success came, by the monotonic clock.
        slowest: How long the slowest request took, in seconds.
    """

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.tried: dict[str, set[int]] = {"records": set(), "orders": set()}
        self.acknowledged: dict[str, set[int]] = {"records": set(), "orders": set()}
        self.counts: dict[int, list[int]] = {}
        self.statuses: Counter[int] = Counter()
        self.last = self.slowest = 0.0
        self._tokens = itertools.count()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Write until `stop` is called; raises what is no answer at all."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._write())

    def stop(self) -> None:
        self._ended.set()

    async def _write(self) -> None:
        while not self._ended.is_set():
            made = await self._create("records")
            if made is not None:
                counts = self.counts.setdefault(made["id"], [0, 0])
                for _ in range(3):
                    counts[1] += 1
                    data = {"$inc": {"count": 1}}
                    if await self._send("PATCH", f"/records/{made['id']}", data):
                        counts[0] += 1
            await self._create("orders")
            await asyncio.sleep(0.005)

    async def _create(self, kind: str) -> dict[str, Any] | None:
        token = next(self._tokens)
        self.tried[kind].add(token)
        text = {"text": "x" * 500} if kind == "records" else {}
        made = await self._send("POST", f"/{kind}", {"token": token, **text})
        if made is not None:
            self.acknowledged[kind].add(token)
        return made

    async def _send(self, method: str, path: str, data: dict[str, Any]) -> dict[str, Any] | None:
        begun = time.monotonic()
        answer = await self.http.request(method, path, json=data)
        now = time.monotonic()
        self.slowest = max(self.slowest, now - begun)
        self.statuses[answer.status_code] += 1
        if answer.status_code >= 300:
            for word in ("127.0.0.1", "asyncpg", "sqlite", "Traceback", "insert", "update"):
                assert word not in answer.text.lower(), answer.text
            return None
        self.last = now
        made: dict[str, Any] = answer.json()
        return made

    async def check(self, database: Database) -> None:
        """Compare the journal with what is in the database."""
        for kind in self.tried:
            tokens = [row["token"] for row in await database.fetch(f"select token from {kind}")]
            assert len(tokens) == len(set(tokens)), f"{kind}: some are there twice"
            assert self.acknowledged[kind] <= set(tokens) <= self.tried[kind], f"{kind}: lost"
        unpaired = "select token from orders except select token from lines"
        assert await database.fetch(unpaired) == []
        unpaired = "select token from lines except select token from orders"
        assert await database.fetch(unpaired) == []
        rows = await database.fetch('select id, "count" from records')
        for row in rows:
            acknowledged, tried = self.counts.get(row["id"], (0, 0))
            assert acknowledged <= row["count"] <= tried, row


@asynccontextmanager
async def writers_on(database: Database, seconds: float) -> AsyncIterator[Writers]:
    """Run the application on a database, and clients that write to it.

    Args:
        database: An empty one.
        seconds: How long a request may take before it counts as one that hangs.
    """
    app = make_app(database)
    await database.create(*(app.service(name).service for name in ("records", "orders", "lines")))
    server = await app.listen(0)
    http = httpx2.AsyncClient(
        base_url=server.url,
        timeout=seconds,
        trust_env=False,
        headers={"Accept": "application/json"},
    )
    async with server, http:
        writers = Writers(http)
        running = asyncio.ensure_future(writers.run())
        try:
            yield writers
        finally:
            writers.stop()
            await running
        await writers.check(database)
