"""What users run: the application of `alula new`, untouched, beside those of peers.

One has users and their messages in PostgreSQL, and real time. The one of FeathersJS is made by its
own generator, of the same answers; that of FastAPI is written as its tutorials say. Everybody is
signed in, and all applications run at once and take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from alula.adapters.sql import Database
from benchmarks.contenders import HERE, ROOT, Contender, Contest, Row, Target
from benchmarks.database import postgresql
from benchmarks.processes import processor_seconds, running, wait_until_idle
from benchmarks.wrk import Figure, measure, per_request

SECRET = "s" * 48
ACCOUNT = {"email": "ada@example.com", "password": "correct horse"}
MESSAGES = 40
PROGRAM = str(Path(sys.executable).with_name("alula"))
WARM_UP = 1.0

GET = Row("get", "/messages/{id}")
FIND = Row("find of ten", "/messages?$limit=10")
CREATE = Row("create", "/messages", "message.lua", status=201)
PATCH = Row("patch", "/messages/{id}", "message.lua")
ROWS = (GET, FIND, CREATE, PATCH)
ARGUMENTS = {CREATE: ("POST", "Hello"), PATCH: ("PATCH", "Changed")}

ALULA = Contender(
    "Alula",
    (PROGRAM, "serve", "--port", "{port}"),
    ROWS,
    {"ALULA_ENV": "production", "SHOP_AUTHENTICATION_SECRET": SECRET},
)
FEATHERS = Contender("FeathersJS", ("node", "lib/"), ROWS)
FASTAPI_MODULE = "benchmarks.servers.generated_fastapi"
FASTAPI = Contender(
    "FastAPI",
    (
        sys.executable,
        "-m",
        "uvicorn",
        "benchmarks.servers.generated_fastapi:app",
        "--port",
        "{port}",
    ),
    ROWS,
    {"BENCH_SECRET": SECRET, "PYTHONPATH": str(ROOT)},
)
# Makes the tables, as in development, and closes.
ALULA_TABLES = """
import asyncio
from app import app
async def create(): await app.setup(); await app.teardown()
asyncio.run(create())
"""

GENERATED = Contest(
    "Generated",
    (ALULA, FEATHERS, FASTAPI),
    tuple(
        Target(row, least, by=by)
        for row in ROWS
        for by, least in (("processor", 1.0), ("p99", 1.0))
    ),
)


@dataclass(frozen=True)
class Application:
    """An application that runs, with a user who is signed in and has written messages."""

    contender: Contender
    url: str
    pid: int
    token: str
    message: int

    def measure(self, row: Row, seconds: float) -> Figure:
        """Measure one kind of request; the processor time is that of all its processes."""
        asked = replace(row, path=row.path.format(id=self.message))
        headers = (f"Authorization: Bearer {self.token}",)
        spent = processor_seconds(self.pid)
        figure = measure(self.url, asked, seconds, ARGUMENTS.get(row, ()), headers)
        spent = processor_seconds(self.pid) - spent
        wait_until_idle(self.pid)
        return replace(figure, processor=per_request(spent, figure.requests))


def measure_generated(
    contenders: list[Contender], rows: set[str], rounds: int, seconds: float
) -> Iterator[tuple[Contender, Row, Figure]]:
    """Yield figures of every application; without rounds, of one short turn of each request."""
    chosen = [row for row in ROWS if not rows or row.name in rows]
    with contextlib.ExitStack() as stack:
        environment, _ = stack.enter_context(postgresql())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        applications = [
            stack.enter_context(_serving(each, environment["BENCH_SQL"], folder / str(number)))
            for number, each in enumerate(contenders)
        ]
        for number, row in product(range(max(rounds, 1)), chosen):
            first = number % len(applications)
            for each in applications[first:] + applications[:first]:
                if rounds and not number:
                    each.measure(row, WARM_UP)
                yield each.contender, row, each.measure(row, seconds)


@contextlib.contextmanager
def _serving(contender: Contender, server: str, folder: Path) -> Iterator[Application]:
    """Make an application in a folder, with a database of its own, and run it."""
    folder.mkdir()
    name = f"generated_{contender.name.lower()}"
    url = asyncio.run(_database(server, name))
    if contender is ALULA:
        place, environment = _make_alula(folder, url), {"SHOP_DATABASE_URL": url}
    elif contender is FEATHERS:
        place, environment = folder, {}
        _run(["node", str(HERE / "servers" / "generated_feathers.mjs"), str(folder), url], HERE)
    else:
        place, environment = folder, {"BENCH_SQL": url}
        of_fastapi = {**contender.environment, **environment}
        _run([sys.executable, "-m", FASTAPI_MODULE], ROOT, of_fastapi)
    with running(contender, environment, folder=place) as found:
        _call(f"{found.url}/users", ACCOUNT)
        credentials = {"strategy": "local", **ACCOUNT}
        token = _call(f"{found.url}/authentication", credentials)["accessToken"]
        for number in range(MESSAGES):
            message = _call(f"{found.url}/messages", {"text": f"Message {number}"}, token)
        yield Application(contender, found.url, found.pid, token, message["id"])


def _make_alula(folder: Path, url: str) -> Path:
    options = ["--yes", "--authentication", "--database", "postgresql", "--realtime"]
    _run([PROGRAM, "new", "shop", *options], folder)
    place = folder / "shop"
    tables = {"ALULA_ENV": "development", "SHOP_DATABASE_URL": url}
    _run([sys.executable, "-c", ALULA_TABLES], place, tables)
    return place


async def _database(server: str, name: str) -> str:
    """Make an empty database, and return its URL."""
    database = Database(server)
    await database.execute(f"drop database if exists {name}")
    await database.execute(f"create database {name}")
    await database.close()
    head, _, rest = server.partition("://")
    address = rest.partition("/")[0].partition("?")[0]
    return f"{head}://{address}/{name}"


def _run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"bench: {command} failed:\n{done.stdout}")


def _call(url: str, data: object, token: str = "") -> Any:
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    with urlopen(Request(url, json.dumps(data).encode(), headers), timeout=30) as response:
        return json.load(response)
