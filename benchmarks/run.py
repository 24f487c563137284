"""``make bench``: the same load on each server in turn, again and again, a table at the end.

The server has one core; wrk, and mongod where there is one, have the other. 32 connections are
kept alive. Every round measures all servers, so that what else the machine does meets all of
them. Without a database, all servers run at once, and take turns at each kind of request: what is
compared is then measured within seconds. What counts are the ratios, and most of all those of
processor time. Clients have the core of wrk, and take turns of a tenth of a second.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from alula.local_mongodb import MongodMissing
from alula.local_postgresql import PostgresMissing
from benchmarks.calling import CLIENT, measure_clients
from benchmarks.contenders import (
    HERE,
    MONGODB,
    PEERS,
    POSTGRESQL,
    REST,
    ROOT,
    SQLITE,
    Contender,
    Contest,
    Row,
)
from benchmarks.database import Fresh, mongodb, postgresql, sqlite
from benchmarks.generated import GENERATED, measure_generated
from benchmarks.plot import write_plot
from benchmarks.realtime import REALTIME, measure_sockets
from benchmarks.start import measure_start, start_table, start_verdicts
from benchmarks.table import Figures, summaries_of, table, verdicts
from benchmarks.wrk import Figure, serving

CONTESTS = {
    "generated": GENERATED,
    "rest": REST,
    "mongodb": MONGODB,
    "postgresql": POSTGRESQL,
    "sqlite": SQLITE,
    "client": CLIENT,
    "realtime": REALTIME,
}
# `only=sql` means both.
GROUPS = {"sql": ("postgresql", "sqlite")}
# Compares Alula with nobody, so it is no contest.
START = "start"
SURROUNDINGS = {MONGODB.name: mongodb, POSTGRESQL.name: postgresql, SQLITE.name: sqlite}
SMOKE_AT_ONCE = 4


@contextlib.contextmanager
def surroundings(contest: Contest) -> Iterator[tuple[dict[str, str], Fresh]]:
    """Run what the servers of a contest need; yield their environment, and what renews it."""
    needed = SURROUNDINGS.get(contest.name)
    if needed is None:
        yield {}, lambda: None
        return
    with needed() as found:
        yield found


def measure_servers(
    contest: Contest, contenders: list[Contender], rows: set[str], rounds: int, seconds: float
) -> Iterator[tuple[Contender, Row, Figure]]:
    """Yield figures of every server in every round; without rounds its first request only."""
    if rounds and contest.name not in SURROUNDINGS:
        yield from measure_in_turns(contenders, rows, rounds, seconds)
        return
    with surroundings(contest) as (environment, fresh):
        if not rounds:
            yield from _first_requests(contenders, environment, fresh, seconds)
        for number in range(rounds):
            for contender in rotated(contenders, number):
                fresh()
                with serving(contender, environment) as ask:
                    for row in contender.rows:
                        if rows and row.name not in rows:
                            continue
                        ask(row, 1.0)  # warm up
                        yield contender, row, ask(row, seconds)


def measure_in_turns(
    contenders: list[Contender], rows: set[str], rounds: int, seconds: float
) -> Iterator[tuple[Contender, Row, Figure]]:
    """Yield figures of servers that all run at once, one kind of request after the other."""
    kinds = dict.fromkeys(row for contender in contenders for row in contender.rows)
    chosen = [row for row in kinds if not rows or row.name in rows]
    with contextlib.ExitStack() as running:
        asks = {each.name: running.enter_context(serving(each, {})) for each in contenders}
        for number, row in product(range(rounds), chosen):
            for contender in rotated(contenders, number):
                if row in contender.rows:
                    ask = asks[contender.name]
                    if not number:
                        ask(row, 1.0)  # warm up
                    yield contender, row, ask(row, seconds)


def rotated(contenders: list[Contender], number: int) -> list[Contender]:
    """Return the contenders from another one on in each round: none always follows the same."""
    first = number % len(contenders)
    return contenders[first:] + contenders[:first]


def _first_requests(
    contenders: list[Contender], environment: Mapping[str, str], fresh: Fresh, seconds: float
) -> Iterator[tuple[Contender, Row, Figure]]:
    """Ask each server for its first row, several of them at a time: nothing is compared."""
    fresh()

    def first_request(number: int, contender: Contender) -> tuple[Contender, Row, Figure]:
        row = contender.rows[0]
        with serving(contender, environment, core=number % 2) as ask:
            return contender, row, ask(row, seconds)

    with ThreadPoolExecutor(SMOKE_AT_ONCE) as threads:
        yield from threads.map(first_request, *zip(*enumerate(contenders), strict=True))


def run(
    contest: Contest, contenders: list[Contender], rows: set[str], rounds: int, seconds: float
) -> Figures:
    """Measure, and say meanwhile who has been."""
    if contest is CLIENT:
        measured = measure_clients(contenders, rows, rounds, seconds if rounds else 0.0)
    elif contest is GENERATED:
        measured = measure_generated(contenders, rows, rounds, seconds)
    elif contest is REALTIME:
        measured = measure_sockets(contenders, rows, rounds, seconds)
    else:
        measured = measure_servers(contest, contenders, rows, rounds, seconds)
    figures: Figures = {}
    for contender, row, figure in measured:
        found = figures.setdefault((contender.name, row), [])
        found.append(figure)
        print(f"\rbench: {contest.name}, {len(found)}: {contender.name:30}", end="", flush=True)
    print("\r" + " " * 70 + "\r", end="")
    return figures


def main() -> None:
    """Measure, print the tables, write the plots."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    names = ", ".join([*CONTESTS, *GROUPS, START])
    parser.add_argument("contests", nargs="*", metavar="contest", help=f"{names}; all without one")
    parser.add_argument("--smoke", action="store_true", help="one short request: does it run?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each figure")
    parser.add_argument("--only", help="names of servers, separated by semicolons")
    parser.add_argument("--rows", help="names of requests, separated by semicolons")
    parser.add_argument("--plots", type=Path, default=ROOT / "docs", help="folder for the plots")
    options = parser.parse_args()
    chosen = [each for name in options.contests for each in GROUPS.get(name, (name,))]
    if unknown := set(chosen) - {*CONTESTS, START}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {names}")
    if shutil.which("wrk") is None:
        raise SystemExit("bench: needs wrk, which is not installed (Debian: apt-get install wrk)")
    rounds, seconds = (0, 1.0) if options.smoke else (options.rounds, options.seconds)
    for name in chosen or (*CONTESTS, START):
        if name == START:
            least = measure_start(rounds)
            print(f"{START}\n\n{start_table(least)}\n")
            for line in start_verdicts(least) if rounds else ():
                print(f"bench: {line}")
            continue
        contest = CONTESTS[name]
        rows = set(options.rows.split(";") if options.rows else ())
        try:
            figures = run(contest, _chosen(contest, options.only), rows, rounds, seconds)
        except (MongodMissing, PostgresMissing) as error:
            print(f"bench: without {contest.name}: {error}")
            continue
        summaries = summaries_of(figures)
        print(f"{contest.name}\n\n{table(contest, summaries)}\n")
        if options.smoke:
            continue
        print(f"bench: {rounds} rounds of {seconds:g} s: medians, and least processor times")
        for line in verdicts(contest, summaries):
            print(f"bench: {line}")
        if contest is not GENERATED and not options.only and not rows:
            suffix = "" if contest is REST else f"-{name}"
            write_plot(contest, figures, options.plots / f"benchmarks{suffix}.svg")


def _chosen(contest: Contest, only: str | None) -> list[Contender]:
    contenders = [c for c in contest.contenders if not only or c.name in only.split(";")]
    missing = set()
    if not (HERE / "node_modules").is_dir() or not shutil.which("node"):
        missing.add("node")
    if not PEERS.exists():
        missing.add(str(PEERS))
    left_out = [each.name for each in contenders if each.command[0] in missing]
    if left_out:
        print(f"bench: without {'; '.join(left_out)}: run scripts/setup bench")
    return [each for each in contenders if each.command[0] not in missing]


if __name__ == "__main__":
    main()
