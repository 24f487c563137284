"""An answer against the recorded one: status, the headers that count, the body deeply.

What is expected may hold placeholders: ``{"$any": KIND}``, ``{"$has": {...}}`` for an object with
at least these members, ``{"$includes": [...]}`` for an array that includes these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tests.conformance.wire import Reply


def compare(expected: Mapping[str, Any], reply: Reply) -> list[str]:
    """Return how an answer differs from the recorded one."""
    found = [] if reply.status == expected["status"] else [
        f"status: expected {expected['status']}, got {reply.status}"
    ]  # fmt: skip
    for name, value in expected.get("headers", {}).items():
        found += compare_header(name, value, reply.headers.get(name))
    if "body" in expected:
        try:
            found += differences(expected["body"], reply.json(), "body")
        except ValueError:
            found.append(f"body: expected {show(expected['body'])}, got text {show(reply.text)}")
    elif "text" in expected:
        found += differences(expected["text"], reply.text, "text")
    return found


def compare_header(name: str, expected: Any, actual: str | None) -> list[str]:
    """Return how a header differs: lists must include what is expected, others be equal."""
    if name in {"vary", "allow"}:
        equal = tokens(expected) <= tokens(actual)
    elif name == "content-type":
        equal = mime(expected) == mime(actual)
    elif isinstance(expected, dict):
        return differences(expected, actual, f"header {name}")
    else:
        equal = str(expected) == actual
    return [] if equal else [f"header {name}: expected {expected}, got {actual or '(absent)'}"]


def tokens(value: str | None) -> set[str]:
    """Return the items of a header that is a list."""
    return {item.strip().lower() for item in (value or "").split(",")} - {""}


def mime(value: str | None) -> str:
    """Return a content type without its parameters."""
    return (value or "").partition(";")[0].strip().lower()


def differences(expected: Any, actual: Any, where: str) -> list[str]:
    """Return where two JSON values differ; ``expected`` may hold placeholders."""
    if isinstance(expected, dict):
        if len(expected) == 1:
            (word, inner), *_ = expected.items()
            if word in PLACEHOLDERS:
                return PLACEHOLDERS[word](inner, actual, where)
        if not isinstance(actual, dict):
            return [mismatch(where, expected, actual)]
        extra = [f"{where}.{name}: unexpected, got {show(actual[name])}"
                 for name in actual if name not in expected]  # fmt: skip
        return _members(expected, actual, where) + extra
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(expected) != len(actual):
            return [mismatch(where, expected, actual)]
        pairs = enumerate(zip(expected, actual, strict=True))
        return [text for i, pair in pairs for text in differences(*pair, f"{where}[{i}]")]
    same = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
    return [] if same else [mismatch(where, expected, actual)]


def _members(expected: dict[str, Any], actual: dict[str, Any], where: str) -> list[str]:
    found: list[str] = []
    for name, value in expected.items():
        if name in actual:
            found += differences(value, actual[name], f"{where}.{name}")
        else:
            found.append(f"{where}.{name}: expected {show(value)}, got nothing")
    return found


def _any(kind: str, actual: Any, where: str) -> list[str]:
    return [] if KINDS[kind](actual) else [f"{where}: expected any {kind}, got {show(actual)}"]


def _has(inner: dict[str, Any], actual: Any, where: str) -> list[str]:
    if not isinstance(actual, dict):
        return [f"{where}: expected an object, got {show(actual)}"]
    return _members(inner, actual, where)


def _includes(inner: list[Any], actual: Any, where: str) -> list[str]:
    if not isinstance(actual, list):
        return [f"{where}: expected an array, got {show(actual)}"]
    return [
        f"{where}: expected to include {show(item)}, got {show(actual)}"
        for item in inner
        if all(differences(item, candidate, where) for candidate in actual)
    ]


PLACEHOLDERS = {"$any": _any, "$has": _has, "$includes": _includes}


def _text(pattern: str) -> Any:
    return lambda value: (
        isinstance(value, str) and re.search(pattern, value, re.IGNORECASE) is not None
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_date(value: Any) -> bool:
    try:
        return bool(datetime.fromisoformat(value))
    except (TypeError, ValueError):
        return False


KINDS = {
    "objectid": _text(r"\A[0-9a-f]{24}\Z"),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "jwt": _text(r"\A[\w-]+\.[\w-]+\.[\w-]+\Z"),
    "uuid": _text(r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z"),
    "date": _is_date,
    "html": _text("<html"),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "any": lambda _: True,
}


def mismatch(where: str, expected: Any, actual: Any) -> str:
    """Return the line that tells of a difference."""
    return f"{where}: expected {show(expected)}, got {show(actual)}"


def show(value: Any) -> str:
    """Return a value as JSON, shortened."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:300] + "…"
