"""wrk: keeps connections busy, and says what came of it."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from benchmarks.contenders import HERE, Contender, Row
from benchmarks.exchanges import check_exchanges
from benchmarks.processes import pinned, processor_seconds, running

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
        if server.does_same_work:
            check_exchanges(serving_server.url, server.name)

        def ask(row: Row, seconds: float) -> Figure:
            spent = processor_seconds(serving_server.pid)
            figure = measure(serving_server.url, row, seconds, server.arguments, server.headers)
            spent = processor_seconds(serving_server.pid) - spent
            return replace(figure, processor=per_request(spent, figure.requests))

        yield ask


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
        SystemExit: Not every request was answered with success.
    """
    command = [
        *(*pinned(1), "wrk", "-t1", f"-c{row.connections}", f"-d{seconds:g}s", "--latency"),
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
    if not rate or not p99 or not requests or "Non-2xx" in out or "Socket errors" in out:
        raise SystemExit(f"bench: {row.name} at {base} did not answer every request:\n{out}")
    return Figure(float(rate[1]), float(p99[1]) * _UNITS[p99[2]], requests=int(requests[1]))
