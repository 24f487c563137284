"""The servers that are measured, the requests that they get, and the ratios that are wanted."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
CONNECTIONS = 32


@dataclass(frozen=True)
class Row:
    """One kind of request.

    Attributes:
        name: What the table calls it.
        path: The path; a script goes on from there.
        script: A script of wrk in ``load/`` that makes the requests.
        connections: How many connections are kept busy.
    """

    name: str
    path: str
    script: str | None = None
    connections: int = CONNECTIONS


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


@dataclass(frozen=True)
class Target:
    """A ratio to reach: Alula's figure against another's for one kind of request.

    Without ``other``, that of the best peer. For ``p99`` less is better, so the ratio is turned.
    """

    row: Row
    least: float
    other: str | None = None
    alula: str = "Alula"
    p99: bool = False


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
    per_processor: bool = False
    """Whether rates are those of a second of the server's processor, not of the clock."""


@dataclass(frozen=True)
class Server:
    """A server that runs: its base URL, and its process."""

    url: str
    pid: int


def uvicorn(module: str) -> tuple[str, ...]:
    """Return the command that serves an application of `benchmarks.servers` with uvicorn."""
    return (
        sys.executable, "-m", "uvicorn", f"benchmarks.servers.{module}:app", "--port", "{port}",
        "--no-access-log", "--log-level", "warning", "--no-server-header",
    )  # fmt: skip


def run(module: str) -> tuple[str, ...]:
    """Return the command that serves an application of Alula's by its own `run`."""
    return sys.executable, "-m", "benchmarks.servers.run", module, "{port}"


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
PAGE = Row("GET /memory?$limit=50, a virtual property each", "/memory?$limit=50")

REST = Contest(
    "REST",
    (
        Contender("Alula", uvicorn("alula_app"), (GET, FIND)),
        Contender("Alula by app.run", run("alula_app"), (GET,)),
        Contender("bare ASGI", uvicorn("bare_app"), (GET,)),
        Contender("Litestar", uvicorn("litestar_app"), (GET,)),
        Contender("FastAPI", uvicorn("fastapi_app"), (GET,)),
        Contender("Koa", ("node", "servers/feathers.mjs", "koa", "{port}"), (GET, FIND)),
        Contender("Express", ("node", "servers/feathers.mjs", "express", "{port}"), (GET, FIND)),
        Contender(
            "Alula, 1,000 services", uvicorn("alula_app"), (GET,), {"ALULA_SERVICES": "1000"}
        ),
        Contender("Alula signed in", uvicorn("alula_sign_in"), (GET,), headers=SIGNED_IN),
        Contender(
            "Koa signed in",
            ("node", "servers/feathers.mjs", "koa", "{port}", "sign-in"),
            (GET,),
            headers=SIGNED_IN,
        ),
        *(
            Contender(name, uvicorn("alula_validated"), (CHECKED,), {"ALULA_SCHEMA": kind})
            for name, kind in (
                ("Alula unchecked", "none"),
                ("Alula by Pydantic", "model"),
                ("Alula by JSON Schema", "schema"),
            )
        ),
        Contender("Alula with a resolver", uvicorn("alula_resolver"), (PAGE,)),
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
        Target(GET, 0.6, "bare ASGI"),
        Target(GET, 4.0, "Express"),
        Target(GET, 1.7, "Koa"),
        Target(GET, 2.2, "FastAPI"),
        Target(GET, 1.5, "Litestar"),
        Target(FIND, 1.0, "Koa"),
        Target(FIND, 1.5, "Express"),
        Target(GET, 0.9, "Alula", alula="Alula, 1,000 services"),
        Target(GET, 1.5, "Koa signed in", alula="Alula signed in"),
        Target(GET, 0.45, "Alula", alula="Alula signed in"),
        Target(CHECKED, 0.7, "Alula unchecked", alula="Alula by Pydantic"),
        Target(CHECKED, 0.35, "Alula unchecked", alula="Alula by JSON Schema"),
        Target(PAGE, 2.0, alula="Alula with a resolver"),
    ),
    bounds=frozenset(
        {"bare ASGI", "Alula by app.run", "Alula, 1,000 services", "Alula signed in"}
        | {"Koa signed in"}
    ),
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
        Contender("Alula", uvicorn("alula_mongodb"), M_ROWS),
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
        Target(M_PATCH, 1.2),
        Target(M_FIND, 2.0, "Koa"),
        Target(M_FIND, 1.1),
        *(Target(row, 1.0, p99=True) for row in (M_GET, M_PATCH, M_FIND, M_CREATE)),
        Target(M_ONE, 0.85, "bare ASGI"),
    ),
    bounds=frozenset({"bare ASGI"}),
)


# Numbers as ids; wrk wants them named.
NUMBERS = ("numbers",)
S_ROWS = (M_GET, M_PATCH, M_FIND, M_CREATE)
PROCESSOR = "requests per second of the server's processor"

POSTGRESQL = Contest(
    "PostgreSQL",
    (
        Contender("Alula", uvicorn("alula_sql"), (*S_ROWS, M_ONE), arguments=NUMBERS),
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
        *(Target(row, 1.0, p99=True) for row in S_ROWS),
    ),
    bounds=frozenset({"bare ASGI"}),
    unit=PROCESSOR,
    per_processor=True,
)

SQLITE = Contest(
    "SQLite",
    (
        Contender("Alula", uvicorn("alula_sql"), S_ROWS, arguments=NUMBERS),
        Contender("bare ASGI", uvicorn("bare_sql"), S_ROWS, arguments=NUMBERS),
        Contender("FastAPI", uvicorn("fastapi_sql"), S_ROWS, arguments=NUMBERS),
    ),
    (
        *(Target(row, 0.9, "bare ASGI") for row in S_ROWS),
        *(Target(row, 10.0, "FastAPI") for row in (M_GET, M_PATCH, M_CREATE)),
        Target(M_FIND, 5.0, "FastAPI"),
        *(Target(row, 1.0, p99=True) for row in S_ROWS),
    ),
    bounds=frozenset({"bare ASGI"}),
    unit=PROCESSOR,
    per_processor=True,
)


def processor_seconds(pid: int) -> float:
    """Return what a process and its children have used, of all their threads."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            number = int(path.parent.name)
            parents[number] = int(fields[1])
            used[number] = int(fields[11]) + int(fields[12])
    family = {number for number in used if pid in {number, parents[number]}}
    return sum(used[number] for number in family) / os.sysconf("SC_CLK_TCK")


def pinned(core: int) -> list[str]:
    """Return the prefix that keeps a command on one core, where the system has `taskset`."""
    return ["taskset", "-c", str(core)] if shutil.which("taskset") else []


@contextlib.contextmanager
def conversation(command: Sequence[str], cwd: Path) -> Iterator[Callable[[str], list[str]]]:
    """Run a program on core 1; yield what sends it a line, and returns the words of its answer.

    Raises:
        SystemExit: It has ended.
    """
    with subprocess.Popen(
        [*pinned(1), *command], cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        requests, answers = process.stdin, process.stdout

        def tell(line: str) -> list[str]:
            requests.write(line + "\n")
            requests.flush()
            answer = answers.readline().split()
            if not answer:
                raise SystemExit(f"bench: {command} ended at {line!r}")
            return answer

        yield tell
        requests.close()


@contextlib.contextmanager
def running(
    contender: Contender, environment: Mapping[str, str], core: int = 0
) -> Iterator[Server]:
    """Run a server on a core."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    node = contender.command[0] == "node"
    command = [part.format(port=port) for part in contender.command]
    process = subprocess.Popen(
        [*pinned(core), *command],
        cwd=HERE if node else ROOT,
        env={**os.environ, "NODE_ENV": "production", **contender.environment, **environment},
        stdout=subprocess.DEVNULL,
    )
    base = f"http://127.0.0.1:{port}"
    try:
        path = contender.rows[0].path
        _wait_for(base + (path if path.startswith("/") else "/"), process, contender.name)
        yield Server(base, process.pid)
    finally:
        process.terminate()
        process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes], name: str) -> None:
    """Wait until there is an answer, whatever it is: a port may be open before that."""
    for _ in range(300):
        try:
            urllib.request.urlopen(url, timeout=30).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    raise SystemExit(f"bench: {name} did not start: {process.args}")
