"""The clients that are measured, and how: all call one server, a bare ASGI function."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.contenders import (
    CONNECTIONS,
    HERE,
    REST,
    ROOT,
    Contender,
    Contest,
    Row,
    Target,
)
from benchmarks.processes import conversation, running
from benchmarks.wrk import Ask, Figure

PATH = "/memory/5"
ONE = Row("get, one after the other", PATH, connections=1)
MANY = Row(f"get, {CONNECTIONS} at once", PATH)
TURN = 0.1  # seconds
_BARE = next(each for each in REST.contenders if each.name == "bare ASGI")
# Connections outlast the turns of the others.
SERVER = replace(_BARE, command=(*_BARE.command, "--timeout-keep-alive", "600"))


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
def calling(client: Contender, base: str) -> Iterator[Ask]:
    """Run a client on core 1; yield what measures one kind of call."""
    cwd = HERE if client.command[0] == "node" else ROOT
    with conversation([*client.command, base, PATH], cwd) as tell:

        def ask(row: Row, seconds: float) -> Figure:
            rate, p99 = tell(f"{row.connections} {seconds}")
            return Figure(float(rate), float(p99))

        yield ask


def measure_clients(
    clients: Iterable[Contender], rows: set[str], rounds: int, seconds: float
) -> Iterator[tuple[Contender, Row, Figure]]:
    """Yield figures; in each round the clients are started anew, and then take short turns.

    A machine that is shared is twice as fast in one second as in the next, so what is compared has
    to be measured within one. One process of a client is a tenth faster than the next one of it.
    """
    with running(SERVER, {}) as server:
        for _ in range(max(rounds, 1)):
            with contextlib.ExitStack() as stack:
                asked = [(each, stack.enter_context(calling(each, server.url))) for each in clients]
                for row in (ONE, MANY):
                    measured = [(client, ask) for client, ask in asked if row in client.rows]
                    if not rows or row.name in rows:
                        yield from _in_turns(row, measured, max(1, round(seconds / TURN)))


def _in_turns(
    row: Row, clients: list[tuple[Contender, Ask]], turns: int
) -> Iterator[tuple[Contender, Row, Figure]]:
    if turns > 1:
        for _, ask in clients:
            ask(row, 0.5)  # warm up
    for turn in range(turns):
        for client, ask in clients[:: 1 if turn % 2 else -1]:
            yield client, row, ask(row, TURN)
