"""Replays the exchanges of RealWorld, which README.md beside this folder describes.

A step of an exchange has a request, what is expected of its response, and names for values of the
response that later steps use as ``{{name}}``.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2

FOLDER = Path(__file__).parent
MORE = "{{...}}"

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_AT_LEAST = re.compile(r"\{\{integer >= (\d+)\}\}")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_integer(value: object) -> bool:
    return type(value) is int


def _is_date(value: object) -> bool:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


TYPES: dict[str, Callable[[object], bool]] = {
    "date": _is_date,
    "token": lambda value: _is_text(value) and value != "",
    "slug": lambda value: _is_text(value) and value != "",
    "id": _is_integer,
    "integer": _is_integer,
    "string": _is_text,
    "string or null": lambda value: value is None or _is_text(value),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def folders() -> dict[str, list[Any]]:
    """Return the steps of each folder of the collection."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def fill(value: Any, known: dict[str, Any]) -> Any:
    """Put captured values in the place of their names."""
    if isinstance(value, list):
        return [fill(each, known) for each in value]
    if isinstance(value, dict):
        return {name: fill(each, known) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    whole = _PLACEHOLDER.fullmatch(value)
    if whole and whole[1] in known:
        return known[whole[1]]
    return _PLACEHOLDER.sub(lambda found: str(known.get(found[1], found[0])), value)


def differences(want: Any, got: Any, at: str = "body") -> Iterator[str]:
    """Yield where a response differs from what is expected."""
    if isinstance(want, str) and want.startswith("{{") and want.endswith("}}"):
        least = _AT_LEAST.fullmatch(want)
        fits = _is_integer(got) and got >= int(least[1]) if least else TYPES[want.strip("{}")](got)
        if not fits:
            yield f"{at}: expected {want}, got {got!r}"
    elif isinstance(want, list):
        yield from _in_list(want, got, at)
    elif isinstance(want, dict) and any(name.startswith("$") for name in want):
        yield from _special(want, got, at)
    elif isinstance(want, dict):
        if not isinstance(got, dict):
            yield f"{at}: expected an object, got {got!r}"
            return
        for name, value in want.items():
            if value == "{{absent}}":
                if name in got:
                    yield f"{at}.{name}: expected nothing, got {got[name]!r}"
            elif name not in got:
                yield f"{at}.{name}: is missing"
            else:
                yield from differences(value, got[name], f"{at}.{name}")
    elif want != got or type(want) is not type(got):
        yield f"{at}: expected {want!r}, got {got!r}"


def _in_list(want: list[Any], got: Any, at: str) -> Iterator[str]:
    if not isinstance(got, list):
        yield f"{at}: expected a list, got {got!r}"
        return
    items = want[:-1] if want[-1:] == [MORE] else want
    if len(got) < len(items) or (items is want and len(got) > len(items)):
        yield f"{at}: expected {len(items)} elements, got {len(got)}"
        return
    for number, item in enumerate(items):
        yield from differences(item, got[number], f"{at}[{number}]")


def _special(want: dict[str, Any], got: Any, at: str) -> Iterator[str]:
    if "$type" in want:
        yield from differences(want["$type"], got, at)
    if "$not" in want and got == want["$not"]:
        yield f"{at}: must differ from {got!r}"
    inside = want.get("$unordered", want.get("$includes", []))
    if inside or "$items" in want:
        if not isinstance(got, list):
            yield f"{at}: expected a list, got {got!r}"
            return
        for item in inside:
            if item not in got:
                yield f"{at}: {item!r} is missing in {got!r}"
        if "$unordered" in want and len(got) != len(inside):
            yield f"{at}: expected {len(inside)} elements, got {len(got)}"
        for number, item in enumerate(got if "$items" in want else ()):
            yield from differences(want["$items"], item, f"{at}[{number}]")


async def replay(steps: list[Any], client: httpx2.AsyncClient) -> list[str]:
    """Send the requests of one folder in their order, and return all differences."""
    known: dict[str, Any] = {"uid": secrets.token_hex(6)}
    failures: list[str] = []
    for step in steps:
        request = fill(step["request"], known)
        token = request.get("token")
        response = await client.request(
            request["method"],
            request["path"],
            headers={"authorization": f"Token {known[token]}"} if token else {},
            **({"json": request["body"]} if "body" in request else {}),
        )
        body = response.json() if response.content else None
        expected = step["expect"]
        if response.status_code != expected["status"]:
            failures.append(f"{step['name']}: {response.status_code} {body}")
        if expected.get("body") is not None:
            wanted = fill(expected["body"], known)
            failures += [f"{step['name']}: {each}" for each in differences(wanted, body)]
        for name, place in step.get("capture", {}).items():
            value = body
            for key in re.findall(r"[^.\[\]]+", place):
                value = value[int(key) if isinstance(value, list) else key]
            known[name] = value
    return failures
