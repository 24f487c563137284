"""Services that keep records in memory."""

from __future__ import annotations

import json
import math
from typing import Any

from tests.conformance.services.javascript import number_of

from alula.adapters.memory import MemoryService
from alula.errors import BadRequest

# What each is filled with at a reset: a key of seed.json, None for nothing.
SEEDS: dict[str, str | None] = {
    "people": "people",
    "messages": "messages",
    "todos": "todos",
    "keyed": "keyed",
    "at-memory": None,
}


def memory(app: Any) -> None:
    """Register the services in memory."""
    app.use("people", MemoryService())
    app.use("messages", MemoryService(start_id=1, multi=True, paginate={"default": 10, "max": 50}))
    todos = MemoryService(
        start_id=1,
        multi=["remove", "create"],
        paginate={"default": 5, "max": 20},
        filters={"$ignored": False},
        operators=["$size", "$exists"],
    )
    app.use("todos", todos)
    app.use("keyed", MemoryService(id="key", multi=True))


def adapter_tests(app: Any) -> None:
    """Register the service that adapter tests run against."""
    app.use("at-memory", MemoryService(start_id=1, events=["testing"]))
    app.service("at-memory").hooks(before=[test_params, coerce_query])


def test_params(context):
    """Take ``paginate`` and ``adapter`` from a header: a test can not set params over HTTP."""
    header = context.params.headers.get("x-test-params")
    if header is None:
        return
    try:
        given = dict(json.loads(header))
    except (TypeError, ValueError) as error:
        raise BadRequest("x-test-params is no JSON object") from error
    names = {"paginate", "adapter"} & given.keys()
    context.params = context.params.copy(**{name: given[name] for name in names})
    try:
        context.service.service.options_for(context.params)
    except (TypeError, ValueError) as error:
        raise BadRequest(str(error)) from error


def coerce_query(context):
    """Turn the strings of a query into the types of the fields."""
    context.params.query = coerced(context.params.query)


def coerced(query: Any) -> Any:
    """Return a query with the types of its fields, at any depth."""
    if isinstance(query, list):
        return [coerced(entry) for entry in query]
    if not isinstance(query, dict):
        return query
    return {
        name: each_value(value, FIELDS[name]) if name in FIELDS else coerced(value)
        for name, value in query.items()
    }


def each_value(value: Any, convert: Any) -> Any:
    """Return a field's value converted, also within operators and lists."""
    if isinstance(value, dict):
        return {name: each_value(inner, convert) for name, inner in value.items()}
    if isinstance(value, list):
        return [each_value(inner, convert) for inner in value]
    return convert(value) if isinstance(value, str) else value


def to_number(text: str) -> float:
    """Return the number that a text shows."""
    number = number_of(text) if text.strip() else math.nan
    if math.isnan(number):
        raise BadRequest("validation failed")
    return number


def to_boolean(text: str) -> bool:
    """Return true or false."""
    if text not in {"true", "false"}:
        raise BadRequest("validation failed")
    return text == "true"


def to_id(text: str) -> float | str:
    """Return an id: a number where the text shows one."""
    number = number_of(text)
    return text if math.isnan(number) or not text.strip() else number


FIELDS = {"id": to_id, "age": to_number, "created": to_boolean}
