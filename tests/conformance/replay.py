"""Plays recorded exchanges against a running server and says where its answers differ.

``python -m tests.conformance.replay BASE [--base2 URL] [--only AREAS] [--case TEXT] [--quirks]``
prints the differences and a summary. Nothing here knows Alula: requests go out byte by byte as
they were recorded, over a connection of their own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.conformance.comparison import compare
from tests.conformance.wire import Reply, body_of, send

HERE = Path(__file__).parent
FOLDERS = (HERE / "vectors", HERE / "vectors-own")


class Case(NamedTuple):
    """A recorded case.

    Attributes:
        area: The area it belongs to, which is the name of its file.
        name: Its name within the area.
        steps: Requests and the answers that are expected.
        quirk: Why a better server may answer otherwise, None where it may not.
    """

    area: str
    name: str
    steps: list[dict[str, Any]]
    quirk: str | None = None


class Bases(NamedTuple):
    """The addresses of the two servers."""

    main: str
    second: str


def bases_of(main: str, second: str | None = None) -> Bases:
    """Return both addresses, the second on the next port where it is not given."""
    parts = urlsplit(main)
    return Bases(main, second or f"http://{parts.hostname}:{(parts.port or 80) + 1}")


def load(folders: Iterable[Path] = FOLDERS) -> Iterator[Case]:
    """Yield the cases of all files in some folders, in the order of their names."""
    for folder in folders:
        for file in sorted(folder.glob("*.json")):
            area = json.loads(file.read_text(encoding="utf-8"))
            for case in area["cases"]:
                yield Case(area["area"], case["name"], case["steps"], case.get("quirk"))


def play(case: Case, bases: Bases) -> list[str]:
    """Return how the answers to a case differ from the recorded ones; nothing where they do not."""
    reset = send(bases.main, "POST", "/__reset")
    if reset.status >= 300:
        return [f"POST /__reset answered {reset.status}"]
    saved: dict[str, Any] = {}
    for number, step in enumerate(case.steps, 1):
        request, expected = substitute(step["request"], saved), substitute(step["response"], saved)
        reply = perform(request, bases)
        found = compare(expected, reply)
        if found:
            return [f"step {number}: {request['method']} {request['path']}", *found]
        saved.update(values_of(step.get("save", {}), reply))
    return []


def perform(request: Mapping[str, Any], bases: Bases) -> Reply:
    """Send a recorded request."""
    base = bases.second if request.get("app") == 2 else bases.main
    headers = request.get("headers", {})
    return send(base, request["method"], request["path"], headers, body_of(request))


def substitute(value: Any, saved: Mapping[str, Any]) -> Any:
    """Return a value with each ``{{name}}`` replaced by what was saved under that name."""
    if isinstance(value, str):
        whole = re.fullmatch(r"\{\{(\w+)\}\}", value)
        if whole:
            return saved.get(whole[1])
        return re.sub(r"\{\{(\w+)\}\}", lambda m: str(saved.get(m[1], m[0])), value)
    if isinstance(value, list):
        return [substitute(item, saved) for item in value]
    if isinstance(value, dict):
        return {substitute(name, saved): substitute(item, saved) for name, item in value.items()}
    return value


def values_of(wanted: Mapping[str, str], reply: Reply, **more: Any) -> dict[str, Any]:
    """Return the parts of an answer that later steps use, by name.

    Args:
        wanted: The path of each part.
        reply: The answer.
        more: What else an answer has, by name.
    """
    if not wanted:
        return {}
    try:
        body = reply.json()
    except ValueError:
        body = None
    told = {"headers": reply.headers, "status": reply.status, "text": reply.text}
    whole = {"body": body, **told, **more}
    return {name: part_of(whole, path) for name, path in wanted.items()}


def part_of(value: Any, path: str) -> Any:
    """Return the part of a JSON value at a path such as ``body.data.0.id``, None without one."""
    for name in path.split("."):
        if isinstance(value, list) and name == "last":
            value = value[-1] if value else None
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


# -- the command -----------------------------------------------------------------------------------


def main() -> int:
    """Play all cases, or some, and print what differs; 1 where something does."""
    parser = argparse.ArgumentParser(description="Play recorded exchanges against a server.")
    parser.add_argument("base", help="address of the main app")
    parser.add_argument("--base2", help="address of the second app; else the next port")
    parser.add_argument("--only", metavar="AREAS", help="these areas only, with commas between")
    parser.add_argument("--case", default="", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--quirks", action="store_true", help="count quirks, too")
    parser.add_argument("--folder", type=Path, action="append", help="where the vectors are")
    given = parser.parse_args()
    areas = given.only.split(",") if given.only else None
    count: Counter[str] = Counter()
    for case in load(given.folder or FOLDERS):
        if (areas and case.area not in areas) or given.case not in case.name:
            continue
        found = answered(case, bases_of(given.base, given.base2))
        counts = case.quirk is None or given.quirks
        kind = "case" if counts else "quirk"
        count[f"{kind}s that differ" if found else f"{kind}s as recorded"] += 1
        if found and counts:
            print(f"{case.area} > {case.name}", *found, sep="\n    ")
    print(", ".join(f"{number} {what}" for what, number in sorted(count.items())))
    return 1 if count["cases that differ"] else 0


def answered(case: Case, bases: Bases) -> list[str]:
    """Play a case; a connection that breaks is a difference."""
    try:
        return play(case, bases)
    except (OSError, HTTPException) as error:
        return [f"no answer: {error!r}"]


if __name__ == "__main__":
    sys.exit(main())
