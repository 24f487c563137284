"""Live lists are what `find` returns, also after workers and a bus were killed again and again."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from tests.cli.serving.commands import running
from tests.faults.live_application import todos
from tests.faults.rooms import Server
from tests.realtime.processes import Redis

from alula.adapters.sql import Database, SQLService

pytestmark = pytest.mark.slow

TEAMS = ["red", "green", "blue"]
QUERIES = [
    *(f"team={team}&$sort[id]=-1" for team in TEAMS),
    *(f"team={team}&$sort[n]=1&$sort[id]=1&$limit=5" for team in TEAMS),
    "n[$gt]=50&$sort[id]=1",
    "$sort[n]=-1&$sort[id]=1&$skip=2&$limit=4",
]
SECONDS_TO_BE_TRUE = 2 if os.environ.get("ALULA_FAULTS") == "full" else 20
"""What is promised, and what a machine with other tests can do."""


class Shown:
    """A list as a browser keeps it: it comes back by itself."""

    def __init__(self, http, query):
        self.http, self.query = http, query
        self.rows, self.last_id = None, None
        self.is_connected = False

    async def run(self):
        while True:
            with suppress(httpx2.HTTPError, OSError):  # it is cut off
                await self._read()
            self.is_connected = False
            await asyncio.sleep(random.uniform(0.02, 0.2))

    async def _read(self):
        headers = {"Accept": "text/event-stream"}
        if self.last_id:
            headers["Last-Event-ID"] = self.last_id
        url = f"/todos?{self.query}&$live=true"
        async with self.http.stream("GET", url, headers=headers) as response:
            if response.status_code != 200:
                return
            kind = body = None
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    body = json.loads(value)
                elif name == "id":
                    self.last_id = value
                elif not line and kind is not None:
                    self._take(kind, body)
                    kind = None

    def _take(self, kind, body):
        self.is_connected = True
        if kind in {"snapshot", "reset"}:
            self.rows = body["rows"]
        elif kind == "left":
            assert any(row["id"] == body["id"] for row in self.rows)
            self.rows = [row for row in self.rows if row["id"] != body["id"]]
        elif kind in {"entered", "changed"}:
            self.rows = [row for row in self.rows if row["id"] != body["data"]["id"]]
            self.rows.insert(body["at"], body["data"])

    async def is_true(self):
        if not self.is_connected:
            return False
        answer = await self.http.get(f"/todos?{self.query}", headers={"Accept": "application/json"})
        return answer.status_code == 200 and answer.json()["data"] == self.rows


async def write(http):
    """Write at random; what fails because a worker was killed may have been stored."""
    while True:
        data = {"team": random.choice(TEAMS), "n": random.randrange(100)}
        some = f"/todos/{random.randint(1, 60)}"
        method, path, body = random.choice(
            [
                ("POST", "/todos", data),
                ("PATCH", some, data),
                ("PATCH", some, {"n": data["n"]}),
                ("DELETE", some, None),
            ]
        )
        with suppress(httpx2.HTTPError, OSError):
            await http.request(method, path, json=body)
        await asyncio.sleep(0.02)


@asynccontextmanager
async def background(*work):
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        yield
        assert not [task for task in tasks if task.done()], "one has ended"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_all_are_true(lists):
    begun = time.monotonic()
    while wrong := [each for each in lists if not await each.is_true()]:
        late = time.monotonic() - begun
        assert late < SECONDS_TO_BE_TRUE, [(each.query, each.rows) for each in wrong]
        await asyncio.sleep(0.05)
    return time.monotonic() - begun


@pytest.mark.parametrize("bus", ["hub", "redis"])
async def test_lists_are_true_after_workers_were_killed(tmp_path, thorough, bus):
    if bus == "redis" and not thorough:
        pytest.skip("the test with the hub does almost the same: see `make faults`")
    url = f"sqlite:///{tmp_path / 'todos.sqlite'}"
    database = Database(url)
    await database.create(SQLService(todos, database))
    await database.close()
    redis = Redis(tmp_path) if bus == "redis" else None
    environment = {"LIVE_DATABASE": url, "LIVE_FOLDER": str(tmp_path), "TMPDIR": str(tmp_path)}
    if redis is not None:
        await redis.start()
        environment["LIVE_REDIS"] = redis.url
    options = ("--workers", "2", "--port", "0", "--no-access-log")
    here = Path(__file__).parent
    try:
        with running(here, "serve", "live_application:app", *options, **environment) as command:
            await let_it_fail(Server(command, tmp_path, 2), redis, thorough)
            assert command.end(signal.SIGTERM) == 0
            assert "Traceback" not in command.text, command.text
    finally:
        if redis is not None:
            redis.kill()


async def let_it_fail(server, redis, thorough):
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    http = httpx2.AsyncClient(
        base_url=f"http://127.0.0.1:{server.port}", timeout=20, trust_env=False, limits=limits
    )
    lists = [Shown(http, query) for query in QUERIES * (20 if thorough else 2)]
    async with http, background(*(each.run() for each in lists)):
        for turn in range(10 if thorough else 2):
            await server.until_reports(lambda _: True, "the workers did not start")
            async with background(*(write(http) for _ in range(3))):
                await asyncio.sleep(1)
                server.kill_worker()
                if redis is not None:
                    redis.kill()
                    await asyncio.sleep(0.5)
                    await redis.start()
                await asyncio.sleep(random.uniform(0.1, 1))
            seconds = await until_all_are_true(lists)
            print(f"turn {turn + 1}: true after {seconds:.2f} s", flush=True)
