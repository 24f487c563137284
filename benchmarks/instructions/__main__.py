"""``make instructions``: fail if one of five requests takes over 3 % more instructions than before.

Before means the commit that last changed `baseline.json`: its source is counted beside today's.
Stored figures would not do. They depend on the build of Python and the libraries, and even on
processors that give themselves the same name: the same source took 3 % more on another one.
Where the history of the repository is missing, the calls of Alula's functions that `baseline.json`
holds count in place of instructions: they depend on nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.instructions.callgrind import (
    ROOT,
    CountingError,
    Counts,
    count,
)

LIMIT = 0.03
# By the application that gets them.
REQUESTS = {
    "generated": ("generated get", "generated find", "generated patch"),
    "bare": ("get", "post"),
}
BASELINE = Path(__file__).with_name("baseline.json")
PROGRAM = (sys.executable, "-m", "benchmarks.instructions.program")
MOST_CALLS = 40  # that a report lists for a request


def read_baseline(path: Path) -> dict[str, dict[str, int]]:
    """Return how often each request of a baseline calls each function."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_baseline(path: Path, counts: Mapping[str, Counts]) -> None:
    """Write a baseline; each function that a request calls has a line of its own."""
    calls = {name: each.calls for name, each in counts.items()}
    path.write_text(json.dumps(calls, indent=1) + "\n", encoding="utf-8")


def accepted_source(folder: Path, repository: Path = ROOT) -> Path:
    """Unpack the package as of the commit that last changed the baseline; return its folder.

    Raises:
        CountingError: The history is not here.
    """

    def git(*arguments: str) -> bytes:
        done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, check=False)
        if done.returncode:
            raise CountingError(f"git {arguments[0]} failed: {done.stderr.decode().strip()}")
        return done.stdout

    # The first commit of a shallow clone seems to have changed all files.
    if git("rev-parse", "--is-shallow-repository").strip() != b"false":
        raise CountingError("this clone is shallow: run `git fetch --unshallow`")
    name = str(BASELINE.relative_to(ROOT))
    commit = git("log", "-1", "--format=%H", "--", name).decode().strip()
    if not commit:
        raise CountingError(f"{name} is in no commit: commit it")
    subprocess.run(["tar", "-xC", folder], input=git("archive", commit, "src"), check=True)
    return folder / "src"


def judge(before: Mapping[str, Counts], now: Mapping[str, Counts]) -> Iterator[tuple[str, bool]]:
    """Yield lines for people, each with whether it is a failure."""
    for name, counts in now.items():
        if name not in before:
            yield f"{name}: not counted before", True
            continue
        growth = counts.instructions / before[name].instructions - 1
        failed = counts.instructions > before[name].instructions * (1 + LIMIT)
        yield f"{name:15} {counts.instructions:9,} {growth:+7.1%}", failed
        if failed:
            changes = calls_changed(before[name].calls, counts.calls)
            yield (
                f"  {name}: at most {LIMIT:+.0%} is allowed; calls in one request that changed:",
                True,
            )
            for line in changes[:MOST_CALLS] or ["none: the functions themselves take more"]:
                yield f"    {line}", True
        elif growth < -LIMIT:
            yield f"  {name}: to keep this gain, run `make instructions-accept`", False


def judge_calls(
    before: Mapping[str, Mapping[str, int]], now: Mapping[str, Counts]
) -> Iterator[tuple[str, bool]]:
    """As `judge`, by how many functions of Alula a request calls."""
    for name, counts in now.items():
        calls, calls_before = (
            {at: calls for at, calls in each.items() if at.startswith("alula.")}
            for each in (counts.calls, before[name])
        )
        total, total_before = sum(calls.values()), sum(calls_before.values())
        failed = total > total_before * (1 + LIMIT)
        yield f"{name:15} {total:9,} {total / total_before - 1:+7.1%} calls", failed
        for line in calls_changed(calls_before, calls)[:MOST_CALLS] if failed else ():
            yield f"    {line}", True


def calls_changed(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Return a line for each function that is called more or less often, the largest first."""
    changes = {name: now.get(name, 0) - before.get(name, 0) for name in before.keys() | now.keys()}
    names = sorted(filter(changes.get, changes), key=lambda name: (-abs(changes[name]), name))
    return [f"{changes[name]:+d} {name}" for name in names]


def table(counts: Mapping[str, Counts]) -> str:
    """Return the tables of docs/benchmarks.md."""
    found = {name: each.instructions for name, each in counts.items()}
    names = [name for each in REQUESTS.values() for name in each]
    bare, whole = found["bare"], found["get: with server"]
    parts = {
        "server": whole - found["get"],
        "application": found["get"] - found["get: service call"],
        "service call": found["get: service call"],
        "all of `get`": whole,
        "the bare function with its server": found["bare: with server"],
    }
    return "\n".join(
        [
            "| request | instructions | bare functions |",
            "|---|---:|---:|",
            *(f"| {name} | {found[name]:,} | {found[name] / bare:.1f} |" for name in names),
            f"| `get` of the bare function | {bare:,} | 1 |",
            "",
            "| part of `get` | instructions | share |",
            "|---|---:|---:|",
            *(f"| {part} | {taken:,} | {taken / whole:.0%} |" for part, taken in parts.items()),
        ]
    )


def count_requests(source: Path | None = None) -> dict[str, Counts]:
    """Return the counts of the five requests by name (see `count`)."""
    found: dict[str, Counts] = {}
    for application, names in REQUESTS.items():
        found |= count([*PROGRAM, application, *names], source)
    return found


def compare() -> Iterator[tuple[str, bool]]:
    """Count, and yield lines for people, each with whether it is a failure."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            source = accepted_source(Path(folder))
        except CountingError as error:
            yield f"{error}; counting calls alone", False
            yield from judge_calls(read_baseline(BASELINE), count_requests())
            return
        with ThreadPoolExecutor(2) as threads:
            before = threads.submit(count_requests, source)
            now = threads.submit(count_requests)
            yield from judge(before.result(), now.result())


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, accept or print; return the exit code."""
    parser = argparse.ArgumentParser(prog="make instructions", description=__doc__)
    parser.add_argument("--accept", action="store_true", help="write the baseline")
    parser.add_argument("--table", action="store_true", help="print the tables of the docs")
    options = parser.parse_args(arguments)
    failed = False
    try:
        if options.table:
            counts = [count([*PROGRAM, application]) for application in REQUESTS]
            print(table({name: each for found in counts for name, each in found.items()}))
        elif options.accept:
            write_baseline(BASELINE, count_requests())
            print("instructions: wrote the baseline; commit it, and say why")
        else:
            for line, fails in compare():
                print(f"instructions: {line}", flush=True)
                failed |= fails
    except CountingError as error:
        print(f"instructions: {error}", file=sys.stderr)
        failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
