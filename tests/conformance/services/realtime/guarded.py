"""Services of whose records clients see only a part, in answers and in events."""

from __future__ import annotations

from typing import Any

from tests.conformance.services.javascript import as_list, spread

from alula import UNSET
from alula.adapters.memory import MemoryService
from alula.schema import resolve, resolve_external, virtual

# What each is filled with at a reset.
RECORDS: dict[str, list[dict[str, Any]]] = {
    "vault": [{"text": "one", "secret": "s1"}, {"text": "two", "secret": "s2"}],
}


class Masked:
    """Answers records with a secret."""

    async def find(self, params):
        return [{"id": 1, "secret": "s"}]

    async def get(self, id, params):
        return {"id": id, "secret": "s"}

    async def create(self, data, params):
        return data if isinstance(data, list) else {**spread(data), "secret": "s"}

    async def patch(self, id, data, params):
        return {"id": id, **spread(data), "secret": "s"}


DISPATCHES = {
    "object": lambda result: {"masked": True},
    "list": lambda result: [{"masked": True} for _ in as_list(result)],
    "same": lambda result: [dict(record) for record in as_list(result)],
    "null": lambda result: None,
    "false": lambda result: False,
    "zero": lambda result: 0,
    "empty": lambda result: "",
}


def mask(context):
    """Set what clients get by the mode that the query names."""
    mode = context.params.query.get("mode")
    if mode:
        context.dispatch = DISPATCHES[mode](context.result)


def guarded(app: Any) -> None:
    """Register `vault`, whose records are redacted, and `masked`, whose hook sets `dispatch`."""

    def to_everyone(data, context):
        return app.channel("everyone")

    async def hide(value, record, context):
        return UNSET

    async def safe(record, context):
        return True

    vault = MemoryService(start_id=1, multi=True, paginate={"default": 10, "max": 50})
    app.use("vault", vault)
    outside = resolve({"secret": hide, "safe": virtual(safe)})
    app.service("vault").hooks(around=[resolve_external(outside)])
    app.service("vault").publish(to_everyone)

    app.use("masked", Masked())
    app.service("masked").hooks(after=[mask])
    app.service("masked").publish(to_everyone)
