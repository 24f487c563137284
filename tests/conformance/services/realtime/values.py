"""Services for values of every kind, and for calls that take their time."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from typing import Any

from alula.errors import Unavailable


def kinds(value):
    """Return a value with the name of its kind in the place of each part."""
    if isinstance(value, dict):
        return {name: kinds(part) for name, part in value.items()}
    if isinstance(value, list):
        return [kinds(part) for part in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"bytes:{bytes(value).hex()}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string"


def circular():
    """Return a value that contains itself."""
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def deep():
    """Return lists in lists, 200 of them."""
    value: Any = 1
    for _ in range(200):
        value = [value]
    return value


MADE = {
    "date": lambda: {"at": datetime.fromtimestamp(0, UTC)},
    "bytes": lambda: {"data": b"hello"},
    "bareBytes": lambda: bytes([0, 1, 254, 255]),
    "lists": lambda: [{"data": b"a"}, [b"b"], "c"],
    "nan": lambda: {"n": math.nan},
    "infinity": lambda: {"n": math.inf},
    "undefinedMember": lambda: {"b": 1},
    "bigint": lambda: {"n": 10},
    "circular": circular,
    "unicode": lambda: {"text": 'Zoë 😀 \u2028 \u0000 "\\'},
    "big": lambda: {"text": "x" * 50_000},
    "huge": lambda: {"text": "y" * 1_500_000},
    "deep": deep,
    "integer": lambda: {"n": 9007199254740991},
    "float": lambda: {"n": 0.1},
    "exponent": lambda: {"n": 1e21},
}


class Values:
    """Answers values of every kind, and what kind those are that it gets."""

    async def find(self, params):
        return {"query": params.query, "kinds": kinds(params.query)}

    async def get(self, id, params):
        made = MADE.get(id) if isinstance(id, str) else None
        return None if made is None else made()

    async def create(self, data, params):
        return {"data": data, "kinds": kinds(data)}


def values(app: Any) -> None:
    """Register the service; it sends data to everyone as it came."""
    app.use("values", Values())
    app.service("values").publish(lambda data, context: app.channel("everyone").send(data["data"]))


class Slow:
    """Waits before it answers or fails."""

    async def create(self, data, params):
        await asyncio.sleep(data["ms"] / 1000)
        if data.get("fail"):
            raise Unavailable(data["fail"])
        return {"value": data["value"]} if "value" in data else {}


def slow(app: Any) -> None:
    """Register the service."""
    app.use("slow", Slow())
    app.service("slow").publish(lambda data, context: app.channel("everyone"))
