"""Services whose queries and data a schema checks; the schemas are the recorded ones."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from alula.adapters.memory import MemoryService
from alula.schema import (
    get_validator,
    resolve,
    resolve_data,
    resolve_query,
    validate_data,
    validate_query,
)

SCHEMAS = Path(__file__).parents[1] / "schemas"

# What each is filled with at a reset: a key of seed.json.
SEEDS: dict[str, str | None] = {
    "validated": "validated",
    "validated-pages": "validated",
    "validated-safe": "validated",
}


def validated(app: Any) -> None:
    """Register the services in memory; the third differs from the second in Feathers alone."""
    pages = {"default": 2, "max": 3}
    for path, paginate in (("", None), ("-pages", pages), ("-safe", pages)):
        service = MemoryService(start_id=1, multi=True, paginate=paginate)
        app.use(f"validated{path}", service)
        app.service(f"validated{path}").hooks(around=[query("validatedQuery")])
        app.service(f"validated{path}").hooks(before=data("validatedData", "validatedPatch"))


def events(app: Any, database: Any) -> None:
    """Register the service on MongoDB, with object ids and dates in queries and data."""
    from alula.adapters.mongodb import MongoDBService, keyword_object_id

    dates = resolve({"at": to_date})
    app.use(
        "events",
        MongoDBService(database["events"], multi=True, paginate={"default": 5, "max": 10}),
    )
    checked = data("eventData", "eventPatch", keyword_object_id)
    hooks = {method: [check, resolve_data(dates)] for method, (check,) in checked.items()}
    around = [query("eventQuery", keyword_object_id), resolve_query(dates)]
    app.service("events").hooks(around=around, before=hooks)


def query(name: str, *keywords: Any) -> Any:
    """Return the hook that checks queries by a recorded schema."""
    return validate_query(get_validator(schema(name), coerce=True, keywords=keywords))


def data(whole: str, part: str, *keywords: Any) -> dict[str, list[Any]]:
    """Return the hooks that check data by two recorded schemas."""
    check = validate_data(get_validator(schema(whole), keywords=keywords))
    check_part = validate_data(get_validator(schema(part), keywords=keywords))
    return {"create": [check], "update": [check], "patch": [check_part]}


def schema(name: str) -> Any:
    """Return a recorded schema."""
    return json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))


def to_date(value: Any) -> Any:
    """Return the dates that text stands for, at any depth."""
    if isinstance(value, str):
        return datetime.fromisoformat(value.upper())  # the format allows t and z
    if isinstance(value, list):
        return [to_date(item) for item in value]
    if isinstance(value, dict):
        return {name: to_date(inner) for name, inner in value.items()}
    return value
