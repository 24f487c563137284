"""Services on MongoDB. Without one they are not there."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from bson import ObjectId
from tests.conformance.services.stored import test_params
from tests.conformance.services.validated import query

from alula.adapters.mongodb import MongoDBService, keyword_object_id

# What each collection is filled with at a reset: a key of seed.json, None for nothing.
COLLECTIONS: dict[str, str | None] = {
    "docs": "docs",
    "pages": "pages",
    "slugs": "slugs",
    "codes": "codes",
    "events": "events",
    "atmongo": None,
}

OPERATORS = ["$regex", "$options", "$exists", "$size", "$all", "$elemMatch", "$not"]
UPDATE_OPERATORS = ["$set", "$inc", "$push", "$unset"]


def documents(app: Any, database: Any) -> None:
    """Register the services that have no schema."""

    async def codes():
        await database["codes"].create_index("code", unique=True)
        return database["codes"]

    docs = MongoDBService(
        database["docs"], multi=True, operators=OPERATORS, update_operators=UPDATE_OPERATORS,
        dotted_names=True,
    )  # fmt: skip
    app.use("docs", docs)
    pagination = {"default": 10, "max": 50}
    pages = MongoDBService(database["pages"], paginate=pagination, dotted_names=True)
    app.use("pages", pages)
    slugs = MongoDBService(database["slugs"], multi=True, disable_objectify=True, dotted_names=True)
    app.use("slugs", slugs)
    app.use("codes", MongoDBService(codes, multi=["create"], dotted_names=True))


def adapter_tests(app: Any, database: Any) -> None:
    """Register the service that adapter tests run against."""
    app.use("at-mongo", MongoDBService(database["atmongo"], events=["testing"]))
    app.service("at-mongo").hooks(before=[test_params, query("atMongoQuery", keyword_object_id)])


async def refill(database: Any, seed: dict[str, list[dict[str, Any]]]) -> None:
    """Put every collection back to its seed data; indexes stay."""

    async def fill(name: str, rows: list[dict[str, Any]]) -> None:
        await database[name].delete_many({})
        if rows:
            await database[name].insert_many([document(row, name) for row in rows])

    await asyncio.gather(
        *(fill(name, seed[key] if key else []) for name, key in COLLECTIONS.items())
    )


def document(row: dict[str, Any], collection: str) -> dict[str, Any]:
    """Return a record of the seed with the types that the database knows."""
    found = {name: stored(value) for name, value in row.items()}
    return found if collection == "slugs" else {**found, "_id": ObjectId(row["_id"])}


def stored(value: Any) -> Any:
    """Return the value that ``{"$oid"}`` or ``{"$date"}`` stands for, at any depth."""
    if isinstance(value, list):
        return [stored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$oid" in value:
        return ObjectId(value["$oid"])
    if "$date" in value:
        return datetime.fromisoformat(value["$date"])
    return {name: stored(inner) for name, inner in value.items()}
