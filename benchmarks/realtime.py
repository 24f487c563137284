"""Servers over socket.io: what a second of the server's processor time gives, and memory.

The rate of the clock would measure the load as much as the server: for one event the load reads a
thousand messages. So every rate is that of a second of processor time of the server.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from benchmarks.contenders import (
    CONNECTIONS,
    ROOT,
    Contender,
    Contest,
    Row,
    Target,
    run,
    uvicorn,
)
from benchmarks.processes import conversation, processor_seconds, resident_bytes, running
from benchmarks.wrk import Figure, per_request

LISTENERS = 1_000
IDLE = 10_000

# The path is a command of load/sockets.py.
CALLS = Row("calls over 32 sockets", f"calls {CONNECTIONS}")
EVENTS = Row(f"events to {LISTENERS:,} connections", f"events {LISTENERS}")
MEMORY = Row("connections in a MiB", "")
HEARTBEATS = Row(f"{IDLE:,} idle connections on one core", "")
ROWS = (CALLS, EVENTS, MEMORY)

REALTIME = Contest(
    "Real time",
    (
        Contender("Alula", run("alula_realtime"), (*ROWS, HEARTBEATS)),
        Contender("Alula by uvicorn", uvicorn("alula_realtime"), ROWS),
        Contender("FeathersJS", ("node", "servers/feathers_realtime.mjs", "{port}"), ROWS),
        Contender("python-socketio", uvicorn("socketio_realtime"), ROWS),
    ),
    (
        Target(CALLS, 1.3, "FeathersJS"),
        Target(EVENTS, 1.3, "FeathersJS"),
        Target(EVENTS, 4.0, "python-socketio"),
    ),
    bounds=frozenset({"Alula by uvicorn"}),
    unit="per second of the server's processor",
)

Command = Callable[[str], Figure]
"""Sends a command to the load, and returns how much it did and the p99."""


def measure_sockets(
    contenders: list[Contender], rows: set[str], rounds: int, seconds: float
) -> Iterator[tuple[Contender, Row, Figure]]:
    """Yield figures of every server in every round; without rounds some calls only."""
    for number in range(max(rounds, 1)):
        first = number % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            chosen = [row for row in contender.rows if not rows or row.name in rows]
            for row in chosen if rounds else chosen[:1]:
                # A server of its own for each row: one that had a thousand connections has more
                # memory than one that starts.
                with running(contender, {}) as server, _load(server.url) as command:
                    yield contender, row, _measure(row, server.pid, command, seconds)


def _measure(row: Row, pid: int, command: Command, seconds: float) -> Figure:
    if row is MEMORY:
        command("connect 500")
        before = resident_bytes(pid)
        command("connect 4500")
        return Figure(4_000 * 2**20 / (resident_bytes(pid) - before), 0.0)
    if row is HEARTBEATS:
        command(f"connect {IDLE}")
        command("wait 5")  # what connecting has left to do
        spent = processor_seconds(pid)
        command("wait 50")  # two heartbeats each
        return Figure(IDLE / ((processor_seconds(pid) - spent) / 50), 0.0)
    command(f"{row.path} 0.5")  # warm up
    spent = processor_seconds(pid)
    done = command(f"{row.path} {seconds}")
    spent = max(processor_seconds(pid) - spent, 0.01)
    return Figure(done.rate / spent, done.p99, per_request(spent, round(done.rate)))


@contextlib.contextmanager
def _load(url: str) -> Iterator[Command]:
    """Run the load on core 1; yield what sends it a command."""
    with conversation([sys.executable, "-m", "benchmarks.load.sockets", url], ROOT) as tell:

        def command(line: str) -> Figure:
            done, p99 = tell(line)
            return Figure(float(done), float(p99))

        yield command
