"""wrk: keeps connections busy, and says what came of it."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from urllib.parse import urlsplit

from benchmarks.contenders import HERE, ROOT, Contender, Row
from benchmarks.exchanges import check_exchanges
from benchmarks.processes import (
    conversation,
    pinned,
    processor_seconds,
    running,
    wait_until_idle,
)

_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


@dataclass(frozen=True)
class Figure:
    """What one measurement gave.

    Attributes:
        rate: Requests per second of the clock.
        p99: The time within which 99 of 100 requests were served, in milliseconds.
        processor: The processor time of the server and its descendants for each request, in
            microseconds; None where no server was measured.
        requests: How many requests were served, 0 where they are not counted.
    """

    rate: float
    p99: float
    processor: float | None = None
    requests: int = 0


Ask = Callable[[Row, float], Figure]
"""Measures one kind of request for some seconds."""


@contextlib.contextmanager
def serving(server: Contender, environment: Mapping[str, str], core: int = 0) -> Iterator[Ask]:
    """Run a server on a core; yield what measures it from core 1.

    Raises:
        SystemExit: It should do the same work as others, and does not.
    """
    with running(server, environment, core) as serving_server:
        check_exchanges(serving_server.url, server.name, server.exchanges)

        def ask(row: Row, seconds: float) -> Figure:
            with idle_connections(serving_server.url, row):
                spent = processor_seconds(serving_server.pid)
                figure = measure(serving_server.url, row, seconds, server.arguments, server.headers)
                spent = processor_seconds(serving_server.pid) - spent
            wait_until_idle(serving_server.pid)
            return replace(figure, processor=per_request(spent, figure.requests))

        yield ask


@contextlib.contextmanager
def idle_connections(base: str, row: Row) -> Iterator[None]:
    """Keep the connections open that a row wants beside the busy ones.

    Raises:
        SystemExit: The server has closed some of them meanwhile.
    """
    if not row.idle:
        yield
        return
    program = [sys.executable, "-m", "benchmarks.load.connections", base + row.path]
    with conversation(program, ROOT) as tell:
        tell(f"connect {row.idle}")
        yield
        still_open = int(tell("count")[0])
    if still_open != row.idle:
        raise SystemExit(f"bench: {base} has closed {row.idle - still_open} idle connections")


def per_request(spent: float, requests: int) -> float:
    """Return microseconds of processor time for each request, of the seconds for all.

    The kernel counts hundredths of a second: less than one is taken as one.
    """
    return max(spent, 0.01) * 1e6 / max(requests, 1)


def measure(
    base: str,
    row: Row,
    seconds: float,
    arguments: tuple[str, ...] = (),
    headers: tuple[str, ...] = (),
) -> Figure:
    """Measure one kind of request; wrk has core 1.

    Raises:
        SystemExit: Not every response had the status that the row wants.
    """
    headers += row.headers
    check_status(base, row, headers)
    command = [
        *pinned(1),
        "wrk",
        "-t1",
        f"-c{row.connections}",
        f"-d{seconds:g}s",
        "--latency",
        "--timeout=10s",
        *(part for header in headers for part in ("-H", header)),
        *(("-s", str(HERE / "load" / row.script)) if row.script else ()),
        base + row.path,
        *(("--", *arguments) if arguments else ()),
    ]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", out)
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", out)
    requests = re.search(r"(\d+) requests in", out)
    if not rate or not p99 or not requests or "Socket errors" in out:
        raise SystemExit(f"bench: {row.name} at {base} did not answer every request:\n{out}")
    found = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    errors, expected = int(found[1]) if found else 0, int(requests[1]) if row.status >= 400 else 0
    if errors != expected:
        raise SystemExit(
            f"bench: {row.name} at {base} gave {errors} errors, not {expected}:\n{out}"
        )
    return Figure(float(rate[1]), float(p99[1]) * _UNITS[p99[2]], requests=int(requests[1]))


def check_status(base: str, row: Row, headers: tuple[str, ...]) -> None:
    """Send the request of a row once: wrk only counts which statuses are 400 or more.

    What a script makes of the path is not known here, so such a row is not checked.

    Raises:
        SystemExit: The response has another status than the row wants.
    """
    if row.script:
        return
    connection = HTTPConnection(urlsplit(base).netloc, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", row.path, headers=dict(each.split(": ", 1) for each in headers))
        response = connection.getresponse()
        if response.status != row.status:
            raise SystemExit(
                f"bench: {row.name} at {base} gave {response.status}, not {row.status}:"
                f" {response.read()[:300]!r}"
            )
