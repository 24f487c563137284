"""The servers that are measured, the requests that they get, and the ratios that are wanted."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from benchmarks.exchanges import SAME_WORK, Exchange, creation

HERE = Path(__file__).parent
ROOT = HERE.parent
CONNECTIONS = 32
# Where `scripts/setup bench` installs peers that require other versions than Alula's.
PEERS = ROOT / ".venv" / "peers" / "bin" / "python"

Measure = Literal["rate", "p99", "processor"]
"""What a target compares; ``processor`` is the server's processor time of a request."""


@dataclass(frozen=True)
class Row:
    """One kind of request.

    Attributes:
        name: What the table calls it.
        path: The path; a script goes on from there.
        script: A script of wrk in ``load/`` that makes the requests.
        connections: How many connections are kept busy.
        status: The status of all responses. With a script, other ones below 400 pass, too.
        headers: Headers that every request has, besides those of the contender.
        idle: How many further connections are open, and idle after one request each.
    """

    name: str
    path: str
    script: str | None = None
    connections: int = CONNECTIONS
    status: int = 200
    headers: tuple[str, ...] = ()
    idle: int = 0


@dataclass(frozen=True)
class Contender:
    """A server, how to start it, and which requests it can answer."""

    name: str
    command: tuple[str, ...]
    rows: tuple[Row, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    """Arguments for the scripts of wrk."""
    headers: tuple[str, ...] = ()
    """Headers that every request has."""
    exchanges: tuple[Exchange, ...] = ()
    """Requests whose responses are checked first: all that claim the same work must do it."""


@dataclass(frozen=True)
class Target:
    """A ratio to reach: Alula's figure against another's for one kind of request.

    Without ``other``, that of the best peer. Of times less is better, so their ratio is turned.
    With ``other_row``, the other's figure is that of another kind of request.
    """

    row: Row
    least: float
    other: str | None = None
    alula: str = "Alula"
    by: Measure = "rate"
    other_row: Row | None = None


@dataclass(frozen=True)
class Contest:
    """Servers that are measured together.

    Attributes:
        name: What the table is called.
        contenders: All of them; the first is Alula.
        targets: The ratios that are wanted.
        bounds: Names of contenders that show a limit and are no peers.
        unit: What the rates are.
    """

    name: str
    contenders: tuple[Contender, ...]
    targets: tuple[Target, ...]
    bounds: frozenset[str] = frozenset()
    unit: str = "requests a second"
    by_processor: bool = False
    """Whether targets of rates compare processor time, which holds on a shared machine, too."""

    def measure_of(self, target: Target) -> Measure:
        """Return what a target compares here."""
        return "processor" if self.by_processor and target.by == "rate" else target.by


def uvicorn(module: str) -> tuple[str, ...]:
    """Return the command that serves an application of `benchmarks.servers` with uvicorn."""
    return (
        sys.executable, "-m", "uvicorn", f"benchmarks.servers.{module}:app", "--port", "{port}",
        "--no-access-log", "--log-level", "warning", "--no-server-header",
        "--timeout-keep-alive", "75",  # not 5 seconds, which end during a measurement
    )  # fmt: skip


def guarded_uvicorn(module: str) -> tuple[str, ...]:
    """Return the command that serves with uvicorn, and with the protocol of Alula's own server."""
    return *uvicorn(module), "--http", "alula.express:HTTPProtocol"


def granian(module: str, interface: str = "asgi") -> tuple[str, ...]:
    """Return the command that serves an application of `benchmarks.servers` with granian."""
    return (
        sys.executable, "-m", "granian", f"benchmarks.servers.{module}:app", "--port", "{port}",
        "--interface", interface, "--loop", "uvloop", "--no-ws", "--log-level", "error",
    )  # fmt: skip


def own_server(module: str, *options: str) -> tuple[str, ...]:
    """Return the command of a peer that has a server of its own, in the environment of peers."""
    return str(PEERS), "-m", f"benchmarks.servers.{module}", "{port}", *options


def run(module: str) -> tuple[str, ...]:
    """Return the command that serves an application of Alula's by its own `run`."""
    return sys.executable, "-m", "benchmarks.servers.run", module, "{port}"


# Otherwise Robyn runs in a mode for debugging.
ROBYN = ("--log-level", "WARN")

GUNICORN = (
    sys.executable, "-m", "gunicorn", "--bind", "127.0.0.1:{port}", "--log-level", "error",
    "--worker-class", "gthread", "--workers", "1", "--threads", "32", "--keep-alive", "60",
)  # fmt: skip

# That of user 1, made with `alula_sign_in.SECRET`, and good until 2099.
SIGNED_IN = (
    "Authorization: Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6ImFjY2VzcyJ9"
    ".eyJpYXQiOjE3MDAwMDAwMDAsImV4cCI6NDA3MDkwODgwMCwiYXVkIjoiaHR0cHM6Ly95b3"
    "VyZG9tYWluLmNvbSIsInN1YiI6IjEiLCJqdGkiOiJiZW5jaG1hcmsifQ"
    ".ahdzuKhn00zjGEgxqcqC4Cl62ofnffxHIBh9Q8CVtzA",
)

GET = Row("GET /memory/5", "/memory/5")
FIND = Row("GET /memory?$limit=10&$sort[createdAt]=-1", "/memory?$limit=10&$sort[createdAt]=-1")
CHECKED = Row(
    "GET /validated?read=true&...",
    "/validated?read=true&$sort[createdAt]=-1&$limit=10&age[$gt]=18",
)
SAME_GET = Row("GET /memory/5, same work", "/memory/5")
SAME_SELECT = Row(
    "GET /memory/5?$select[]=text&$select[]=read, same work",
    "/memory/5?$select[]=text&$select[]=read",
)
SAME_PATCH = Row("PATCH /memory/{id}, same work", "/memory", "patch.lua")
SAME_ROWS = (SAME_GET, SAME_SELECT, SAME_PATCH)
# As `arguments` of a contender: numbers as ids, from 0 on.
FROM_ZERO = ("numbers", "0")
PAGE = Row("GET /memory?$limit=50, a virtual property each", "/memory?$limit=50")
CREATE = Row(
    "POST /messages, 1 kB, validated by Pydantic", "/messages", "create_1kb.lua", status=201
)
MISSING = Row("GET /memory/9999, a 404, same work", "/memory/9999", status=404)
REFUSED = Row(
    "GET /memory/5?$select[]=text&$foo[]=read, a 400",
    "/memory/5?$select[]=text&$foo[]=read",
    status=400,
)
LONG_HEAD = Row(
    "GET /memory/5, 10 kB of headers",
    "/memory/5",
    headers=(
        "Cookie: " + "; ".join(f"cookie-{n}=" + "c" * 88 for n in range(10)),
        *(f"X-Header-{n}: " + "x" * 988 for n in range(9)),
    ),
)
PIPELINED = Row("GET /memory/5, 16 pipelined", "/memory/5", "pipeline.lua")
CROWDED = Row("GET /memory/5, beside 1,000 idle connections", "/memory/5", idle=1_000)
# The same request on connections of another kind.
LOADS = (LONG_HEAD, PIPELINED, CROWDED)
LOAD_TARGETS = {"bare ASGI on Alula's server": 0.8, "Falcon": 1.0, "BlackSheep": 1.0}
VALIDATING_PEERS = ("Falcon", "BlackSheep", "Litestar", "FastAPI")

REST = Contest(
    "REST",
    (
        Contender(
            "Alula",
            run("alula_app"),
            (GET, FIND, *SAME_ROWS, MISSING, REFUSED, CREATE, *LOADS),
            arguments=FROM_ZERO,
            exchanges=(*SAME_WORK, *creation(400)),
        ),
        Contender("Alula on uvicorn", uvicorn("alula_app"), (GET, *SAME_ROWS), arguments=FROM_ZERO),
        Contender("Alula on granian", granian("alula_app"), (GET,)),
        Contender("bare ASGI", uvicorn("bare_app"), (GET, *LOADS)),
        Contender("bare ASGI on Alula's server", guarded_uvicorn("bare_app"), (GET, *LOADS)),
        Contender("bare ASGI on granian", granian("bare_app"), (GET,)),
        Contender("bare RSGI on granian", granian("bare_rsgi", "rsgi"), (GET,)),
        *(
            Contender(name, command, (CREATE,), exchanges=creation(400))
            for name, command in {
                "bare create": uvicorn("bare_messages"),
                "bare create on Alula's server": guarded_uvicorn("bare_messages"),
            }.items()
        ),
        Contender(
            "Falcon",
            uvicorn("falcon_app"),
            (GET, CREATE, *LOADS),
            exchanges=creation(422),
        ),
        Contender("Falcon on granian", granian("falcon_app"), (GET,)),
        Contender(
            "BlackSheep",
            uvicorn("blacksheep_app"),
            (GET, CREATE, *LOADS),
            exchanges=creation(400),
        ),
        Contender("BlackSheep on granian", granian("blacksheep_app"), (GET,)),
        Contender("Sanic", own_server("sanic_app"), (GET, *LOADS)),
        Contender("Robyn", own_server("robyn_app", *ROBYN), (GET,)),
        *(
            Contender(
                name, command, (*SAME_ROWS, MISSING), arguments=FROM_ZERO, exchanges=SAME_WORK
            )
            for name, command in {
                "Falcon, same work": uvicorn("falcon_same_work"),
                "BlackSheep, same work": uvicorn("blacksheep_same_work"),
                "Sanic, same work": own_server("sanic_same_work"),
                "Robyn, same work": own_server("robyn_same_work", *ROBYN),
                "Litestar, same work": uvicorn("litestar_same_work"),
                "FastAPI, same work": uvicorn("fastapi_same_work"),
            }.items()
        ),
        Contender("Litestar", uvicorn("litestar_app"), (GET, CREATE), exchanges=creation(400)),
        Contender("FastAPI", uvicorn("fastapi_app"), (GET, CREATE), exchanges=creation(422)),
        Contender("Koa", ("node", "servers/feathers.mjs", "koa", "{port}"), (GET, FIND)),
        Contender("Express", ("node", "servers/feathers.mjs", "express", "{port}"), (GET, FIND)),
        Contender("Alula, 1,000 services", run("alula_app"), (GET,), {"ALULA_SERVICES": "1000"}),
        Contender("Alula signed in", run("alula_sign_in"), (GET,), headers=SIGNED_IN),
        Contender(
            "Koa signed in",
            ("node", "servers/feathers.mjs", "koa", "{port}", "sign-in"),
            (GET,),
            headers=SIGNED_IN,
        ),
        *(
            Contender(name, run("alula_validated"), (CHECKED,), {"ALULA_SCHEMA": kind})
            for name, kind in (
                ("Alula unchecked", "none"),
                ("Alula by Pydantic", "model"),
                ("Alula by JSON Schema", "schema"),
            )
        ),
        Contender("Alula with a resolver", run("alula_resolver"), (PAGE,)),
        *(
            Contender(
                f"{name} with a resolver",
                ("node", "servers/feathers.mjs", name.lower(), "{port}", "resolver"),
                (PAGE,),
            )
            for name in ("Koa", "Express")
        ),
    ),
    (
        Target(GET, 0.8, "bare ASGI on Alula's server"),
        Target(GET, 0.8, "bare ASGI", "Alula on uvicorn"),
        Target(GET, 0.8, "bare ASGI on granian", "Alula on granian"),
        Target(GET, 4.0, "Express"),
        Target(GET, 1.7, "Koa"),
        Target(GET, 3.5, "FastAPI"),
        Target(GET, 2.2, "Litestar"),
        Target(GET, 1.4, "Sanic"),
        Target(GET, 1.15, "BlackSheep"),
        Target(GET, 1.05, "Falcon"),
        *(
            Target(GET, 1.0, f"{name} on granian", "Alula on granian")
            for name in ("Falcon", "BlackSheep")
        ),
        Target(FIND, 1.0, "Koa"),
        Target(FIND, 1.5, "Express"),
        Target(GET, 0.9, "Alula", alula="Alula, 1,000 services"),
        Target(GET, 1.5, "Koa signed in", alula="Alula signed in"),
        Target(GET, 0.75, "Alula", alula="Alula signed in"),
        Target(CHECKED, 0.7, "Alula unchecked", alula="Alula by Pydantic"),
        Target(CHECKED, 0.35, "Alula unchecked", alula="Alula by JSON Schema"),
        Target(PAGE, 2.0, alula="Alula with a resolver"),
        *(
            Target(row, 1.3, f"{name}, same work")
            for row in SAME_ROWS
            for name in ("Falcon", "BlackSheep")
        ),
        *(Target(MISSING, 1.0, f"{name}, same work") for name in VALIDATING_PEERS),
        # An error costs no more than what it takes the place of.
        Target(MISSING, 1.0, "Alula", other_row=SAME_GET),
        Target(REFUSED, 1.0, "Alula", other_row=SAME_SELECT),
        Target(CREATE, 0.8, "bare create on Alula's server"),
        *(Target(CREATE, 1.0, name) for name in VALIDATING_PEERS),
        *(Target(row, least, name) for row in LOADS for name, least in LOAD_TARGETS.items()),
        *(
            Target(GET, 1.0, name, by="p99")
            for name in ("Falcon", "BlackSheep", "Sanic", "Litestar", "FastAPI")
        ),
    ),
    bounds=frozenset(
        {"bare ASGI", "bare ASGI on Alula's server", "bare ASGI on granian", "Koa signed in"}
        | {"bare RSGI on granian", "Alula on uvicorn", "Alula on granian", "Alula signed in"}
        | {"Alula, 1,000 services", "bare create", "bare create on Alula's server"}
    ),
    by_processor=True,
)

M_GET = Row("get", "/records", "get.lua")
M_PATCH = Row("patch", "/records", "patch.lua")
M_FIND = Row("find", "/records", "find.lua")
M_ONE = Row("get, one connection", "/records", "get.lua", connections=1)
M_CREATE = Row("create", "/records", "create.lua")  # the last: it makes the collection grow
M_ROWS = (M_GET, M_PATCH, M_FIND, M_ONE, M_CREATE)

MONGODB = Contest(
    "MongoDB",
    (
        Contender("Alula", run("alula_mongodb"), M_ROWS),
        Contender("bare ASGI", uvicorn("bare_mongodb"), M_ROWS),
        Contender("Litestar", uvicorn("litestar_mongodb"), M_ROWS),
        Contender("FastAPI", uvicorn("fastapi_mongodb"), M_ROWS),
        Contender("Koa", ("node", "servers/feathers_mongodb.mjs", "koa", "{port}"), M_ROWS),
        Contender("Express", ("node", "servers/feathers_mongodb.mjs", "express", "{port}"), M_ROWS),
        Contender(
            "Eve", (*GUNICORN, "benchmarks.servers.eve_mongodb:app"), M_ROWS, arguments=("eve",)
        ),
    ),
    (
        Target(M_GET, 3.0, "Koa"),
        Target(M_GET, 2.5, "bare ASGI"),
        Target(M_CREATE, 3.0),
        Target(M_PATCH, 2.0),
        Target(M_FIND, 2.0),
        *(Target(row, 1.0, by="p99") for row in (M_GET, M_PATCH, M_FIND, M_CREATE)),
        Target(M_ONE, 0.85, "bare ASGI"),
    ),
    bounds=frozenset({"bare ASGI"}),
)


# Numbers as ids; wrk wants them named.
NUMBERS = ("numbers",)
S_ROWS = (M_GET, M_PATCH, M_FIND, M_CREATE)

POSTGRESQL = Contest(
    "PostgreSQL",
    (
        Contender("Alula", run("alula_sql"), (*S_ROWS, M_ONE), arguments=NUMBERS),
        Contender("bare ASGI", uvicorn("bare_sql"), (*S_ROWS, M_ONE), arguments=NUMBERS),
        Contender("FastAPI", uvicorn("fastapi_sql"), S_ROWS, arguments=NUMBERS),
        Contender("Litestar", uvicorn("litestar_sql"), S_ROWS, arguments=NUMBERS),
        Contender(
            "Django", (*GUNICORN, "benchmarks.servers.django_sql:app"), S_ROWS, arguments=NUMBERS
        ),
        Contender(
            "Koa", ("node", "servers/feathers_sql.mjs", "koa", "{port}"), S_ROWS, arguments=NUMBERS
        ),
    ),
    (
        *(
            Target(row, least, other)
            for other, ratios in {
                "bare ASGI": (1.5, 1.0, 0.9, 1.3),
                "FastAPI": (8.0, 8.0, 5.0, 8.0),
                "Litestar": (8.0, 8.0, 4.0, 8.0),
                "Django": (10.0, 10.0, 10.0, 10.0),
                "Koa": (3.0, 3.0, 1.3, 3.0),
            }.items()
            for row, least in zip(S_ROWS, ratios, strict=True)
        ),
        *(Target(row, 1.0, by="p99") for row in S_ROWS),
    ),
    bounds=frozenset({"bare ASGI"}),
    by_processor=True,
)

SQLITE = Contest(
    "SQLite",
    (
        Contender("Alula", run("alula_sql"), S_ROWS, arguments=NUMBERS),
        Contender("bare ASGI", uvicorn("bare_sql"), S_ROWS, arguments=NUMBERS),
        Contender("FastAPI", uvicorn("fastapi_sql"), S_ROWS, arguments=NUMBERS),
    ),
    (
        *(Target(row, 0.9, "bare ASGI") for row in S_ROWS),
        *(Target(row, 10.0, "FastAPI") for row in (M_GET, M_PATCH, M_CREATE)),
        Target(M_FIND, 5.0, "FastAPI"),
        *(Target(row, 1.0, by="p99") for row in S_ROWS),
    ),
    bounds=frozenset({"bare ASGI"}),
    by_processor=True,
)
