"""Services that keep records in memory."""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.services.validated import query

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


class LiteralNames(MemoryService):
    """Takes names with dots as plain names, as the original's records in memory do."""

    async def _patch(self, id, data, query, params, options):
        records = self._selected_records(id, query)
        return [self._replace(record, {**record, **data}) for record in records]


def memory(app: Any) -> None:
    """Register the services in memory."""
    app.use("people", LiteralNames(dotted_names=True))
    pages = {"default": 10, "max": 50}
    messages = LiteralNames(start_id=1, multi=True, paginate=pages, dotted_names=True)
    app.use("messages", messages)
    todos = LiteralNames(
        start_id=1,
        dotted_names=True,
        multi=["remove", "create"],
        paginate={"default": 5, "max": 20},
        filters={"$ignored": False},
        operators=["$size", "$exists"],
    )
    app.use("todos", todos)
    app.use("keyed", LiteralNames(id="key", multi=True, dotted_names=True))


def adapter_tests(app: Any) -> None:
    """Register the service that adapter tests run against."""
    app.use("at-memory", MemoryService(start_id=1, events=["testing"]))
    app.service("at-memory").hooks(before=[test_params, query("atMemoryQuery")])


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
