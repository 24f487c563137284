"""``make bench``: the same load on each server in turn, again and again, medians at the end.

The server has one core and wrk the other; 32 connections are kept alive. Every round measures all
servers, so that what else the machine does meets all of them. What counts are the ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.plot import write_plot

HERE = Path(__file__).parent
ROOT = HERE.parent
GET, FIND = "/memory/5", "/memory?$limit=10&$sort[createdAt]=-1"
CONNECTIONS = 32


@dataclass(frozen=True)
class Contender:
    """A server, how to start it, and whether it answers the find as well."""

    name: str
    command: tuple[str, ...]
    finds: bool = False
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A ratio to reach: Alula's figure against another's on one path."""

    path: str
    other: str
    least: float
    alula: str = "Alula"


def python(module: str) -> tuple[str, ...]:
    """Return the command that serves an application of `benchmarks.servers` with uvicorn."""
    return (
        sys.executable, "-m", "uvicorn", f"benchmarks.servers.{module}:app", "--port", "{port}",
        "--no-access-log", "--log-level", "warning", "--no-server-header",
    )  # fmt: skip


CONTENDERS = (
    Contender("Alula", python("alula_app"), finds=True),
    Contender("bare ASGI", python("bare_app")),
    Contender("Litestar", python("litestar_app")),
    Contender("FastAPI", python("fastapi_app")),
    Contender("Koa", ("node", "servers/feathers.mjs", "koa", "{port}"), finds=True),
    Contender("Express", ("node", "servers/feathers.mjs", "express", "{port}"), finds=True),
    Contender("Alula, 1,000 services", python("alula_app"), environment={"ALULA_SERVICES": "1000"}),
)
TARGETS = (
    Target(GET, "bare ASGI", 0.6),
    Target(GET, "Express", 4.0),
    Target(GET, "Koa", 1.7),
    Target(GET, "FastAPI", 2.2),
    Target(GET, "Litestar", 1.5),
    Target(FIND, "Koa", 1.0),
    Target(FIND, "Express", 1.5),
    Target(GET, "Alula", 0.9, alula="Alula, 1,000 services"),
)


def pinned(core: int) -> list[str]:
    """Return the prefix that keeps a command on one core, where the system has `taskset`."""
    return ["taskset", "-c", str(core)] if shutil.which("taskset") else []


@contextlib.contextmanager
def running(contender: Contender) -> Iterator[str]:
    """Run a server on core 0 and yield its base URL."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    node = contender.command[0] == "node"
    command = [part.format(port=port) for part in contender.command]
    process = subprocess.Popen(
        [*pinned(0), *command],
        cwd=HERE if node else ROOT,
        env={**os.environ, "NODE_ENV": "production", **contender.environment},
        stdout=subprocess.DEVNULL,
    )
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(base + GET).read()
                break
            if process.poll() is not None:
                raise SystemExit(f"bench: {contender.name} did not start: {' '.join(command)}")
            time.sleep(0.1)
        yield base
    finally:
        process.terminate()
        process.wait()


def measure(url: str, seconds: float) -> float:
    """Return requests per second as wrk measures them."""
    command = [*pinned(1), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", url]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise SystemExit(f"bench: {url} did not answer every request:\n{out}")
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])


def run(
    contenders: list[Contender], rounds: int, seconds: float
) -> dict[tuple[str, str], list[float]]:
    """Measure every server in every round; return the figures by server and path."""
    figures: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        for contender in contenders:
            print(
                f"\rbench: round {number + 1} of {rounds}, {contender.name:24}", end="", flush=True
            )
            with running(contender) as base:
                for path in (GET, FIND) if contender.finds else (GET,):
                    measure(base + path, min(1.0, seconds))  # warm up
                    figures.setdefault((contender.name, path), []).append(
                        measure(base + path, seconds)
                    )
    print("\r" + " " * 60 + "\r", end="")
    return figures


def table(medians: dict[tuple[str, str], float]) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        "| request | server | requests a second | Alula is | wanted |",
        "|---|---|---:|---:|---:|",
    ]
    for (name, path), median in medians.items():
        target = next((t for t in TARGETS if t.path == path and t.other == name), None)
        own = next((t for t in TARGETS if t.path == path and t.alula == name), None)
        ratio = wanted = ""
        if name != "Alula" and own is not None and own.alula != "Alula":
            ratio = f"{median / medians[own.other, path]:.2f} of one"
            wanted = f"{own.least:.1f}"
        elif target is not None and name != "Alula":
            ratio, wanted = f"{medians['Alula', path] / median:.2f}x", f"{target.least:.1f}x"
        lines.append(f"| `GET {path}` | {name} | {median:,.0f} | {ratio} | {wanted} |")
    return "\n".join(lines)


def missed(medians: dict[tuple[str, str], float]) -> list[str]:
    """Return the targets that were measured and not reached."""
    return [
        f"{t.alula} / {t.other} on {t.path}: {ratio:.2f}, wanted {t.least}"
        for t in TARGETS
        if (t.other, t.path) in medians
        and (ratio := medians[t.alula, t.path] / medians[t.other, t.path]) < t.least
    ]


def main() -> None:
    """Measure, print the table, write the plot."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one short round: does it run?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each figure")
    parser.add_argument("--only", help="names of servers, separated by commas")
    parser.add_argument("--plot", type=Path, default=ROOT / "docs" / "benchmarks.svg")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("bench: needs wrk, which is not installed (Debian: apt-get install wrk)")
    contenders = [c for c in CONTENDERS if not options.only or c.name in options.only.split(",")]
    if not (HERE / "node_modules").is_dir() or shutil.which("node") is None:
        print(
            "bench: without FeathersJS; Node.js or its packages are missing (scripts/setup bench)"
        )
        contenders = [c for c in contenders if c.command[0] != "node"]
    rounds, seconds = (1, 1.0) if options.smoke else (options.rounds, options.seconds)
    figures = run(contenders, rounds, seconds)
    medians = {key: statistics.median(values) for key, values in figures.items()}
    print(table(medians))
    if options.smoke or options.only:
        return
    write_plot(figures, options.plot)
    print(f"\nbench: medians of {rounds} rounds of {seconds:g} s; plot in {options.plot}")
    for line in missed(medians):
        print(f"bench: MISSED {line}")


if __name__ == "__main__":
    main()
