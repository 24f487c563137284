"""The clients that are measured, and how: each calls the same server, a bare ASGI function."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.contenders import (
    CONNECTIONS,
    HERE,
    REST,
    ROOT,
    Contender,
    Contest,
    Row,
    Target,
    pinned,
    running,
)
from benchmarks.wrk import Ask, Figure

PATH = "/memory/5"
ONE = Row("get, one after the other", PATH, connections=1)
MANY = Row(f"get, {CONNECTIONS} at once", PATH)
SERVER = next(each for each in REST.contenders if each.name == "bare ASGI")


def python(kind: str) -> tuple[str, ...]:
    """Return the command of a client in Python, but for the address."""
    return sys.executable, "-m", "benchmarks.clients.call", kind


CLIENT = Contest(
    "Client",
    (
        Contender("Alula by aiohttp", python("alula:aiohttp"), (ONE, MANY)),
        Contender("aiohttp", python("aiohttp"), (ONE, MANY)),
        Contender("Alula by httpx2", python("alula:httpx"), (ONE, MANY)),
        Contender("httpx2", python("httpx2"), (ONE, MANY)),
        Contender("Alula by httpx2, blocking", python("alula-blocking:httpx"), (ONE,)),
        Contender("httpx2, blocking", python("httpx2-blocking"), (ONE,)),
        Contender("Alula by fetch", python("alula:fetch"), (ONE, MANY)),
        Contender("Alula by fetch, blocking", python("alula-blocking:fetch"), (ONE,)),
        Contender("FeathersJS", ("node", "clients/feathers.mjs"), (ONE, MANY)),
    ),
    (
        # At most 1.25 and 1.15 of the time of a bare call.
        Target(ONE, 0.8, "aiohttp", alula="Alula by aiohttp"),
        Target(ONE, 0.87, "httpx2", alula="Alula by httpx2"),
        Target(ONE, 0.87, "httpx2, blocking", alula="Alula by httpx2, blocking"),
        Target(MANY, 0.85, "aiohttp", alula="Alula by aiohttp"),
    ),
)


@contextlib.contextmanager
def calling(client: Contender) -> Iterator[Ask]:
    """Run a client on core 1 and its server on core 0; yield what measures one kind of call."""
    with running(SERVER, {}) as base:
        command = [*pinned(1), *client.command, base, PATH]
        with subprocess.Popen(
            command,
            cwd=HERE if client.command[0] == "node" else ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:

            def ask(row: Row, seconds: float) -> Figure:
                assert process.stdin
                assert process.stdout
                process.stdin.write(f"{row.connections} {seconds}\n")
                process.stdin.flush()
                told = process.stdout.readline().split()
                if not told:
                    raise SystemExit(f"bench: {client.name} ended: {command}")
                return Figure(float(told[0]), float(told[1]))

            yield ask
            assert process.stdin
            process.stdin.close()
