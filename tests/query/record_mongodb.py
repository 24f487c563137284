"""Records what a real MongoDB answers to generated queries, for ``test_recorded.py``.

Run it with PyMongo and a server, whose database ``alula_recording`` it drops:
``python tests/query/record_mongodb.py mongodb://localhost:27017``
"""

from __future__ import annotations

import json
import random
import sys
from datetime import UTC, datetime
from pathlib import Path

from bson import ObjectId
from pymongo import MongoClient
from pymongo.errors import OperationFailure

RECORDS, FINDS, SORTS = 120, 400, 150
TARGET = Path(__file__).with_name("recorded_mongodb.jsonl")
SCALARS = [
    None,
    0,
    1,
    2,
    -1,
    1.0,
    1.5,
    -0.0,
    2**40,
    float("nan"),
    float("inf"),
    True,
    False,
    "",
    "a",
    "b",
    "1",
    "Zo\xeb",
    "\xe9",
    b"",
    b"a",
    b"ab",
    *(ObjectId(f"64b0000000000000000000d{n}") for n in range(2)),
    *(datetime(year, 1, 1, tzinfo=UTC) for year in (2020, 2021)),
]
FREQUENT = [None, 0, 1, 2, "a", "b", True]
NAMES = ["a", "b", "c", "0", "1"]


class Generator:
    """Makes values, records and queries that have much in common, so that many match."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, *counts: int) -> range:
        return range(self.random.choice(counts))

    def value(self, depth: int = 0):
        kind = self.random.random()
        if depth > 3 or kind < 0.5:
            return self.random.choice(SCALARS if self.random.random() < 0.5 else FREQUENT)
        if kind < 0.75:
            return [self.value(depth + 1) for _ in self.some(0, 1, 1, 2, 3)]
        names = self.random.sample(NAMES, len(self.some(0, 1, 1, 2, 3)))
        return {name: self.value(depth + 1) for name in names}

    def record(self):
        return {
            name: self.value() for name in self.random.sample(NAMES[:3], len(self.some(1, 2, 3)))
        }

    def path(self, *depths: int) -> str:
        parts = [self.random.choice(NAMES) for _ in self.some(*depths)]
        return ".".join([self.random.choice(NAMES[:3]), *parts])

    def tests(self, depth: int):
        operators = ["$eq", "$ne", "$lt", "$lte", "$gt", "$gte", "$in", "$nin", "$all", "$size"]
        operators += ["$exists", "$regex", "$mod", *["$not", "$elemMatch"] * (depth < 2)]
        found = {}
        for name in self.random.sample(operators, len(self.some(1, 1, 1, 2))):
            found[name] = self.operand(name, depth)
        return found

    def operand(self, name: str, depth: int):
        choose = self.random.choice
        if name in ("$in", "$nin", "$all"):
            return [self.value(2) for _ in self.some(0, 1, 2, 3)]
        if name == "$not" or (name == "$elemMatch" and choose([True, False])):
            return self.tests(depth + 1)
        if name == "$elemMatch":
            return self.criteria(depth + 1)
        fixed = {
            "$size": [0, 1, 2],
            "$exists": [True, False],
            "$regex": ["a", "^a$", "b|1", ".", "^$"],
            "$mod": [[2, 0], [2, 1], [3, -1], [2.5, 1]],
        }
        return choose(fixed[name]) if name in fixed else self.value(2)

    def criteria(self, depth: int = 0):
        found = {}
        for _ in self.some(1, 1, 1, 2):
            kind = self.random.random()
            if kind < 0.15 and depth < 2:
                name = self.random.choice(["$or", "$and"])
                found[name] = [self.criteria(depth + 1) for _ in self.some(1, 2)]
            else:
                path = self.path(0, 0, 0, 1, 1, 2, 3)
                found[path] = self.value(2) if kind < 0.4 else self.tests(depth)
        return found

    def sort(self):
        paths = [self.path(0, 0, 1, 2) for _ in self.some(1, 1, 2, 3)]
        return {path: self.random.choice([1, -1]) for path in paths}


def encoded(value: object) -> dict[str, str]:
    """Return the JSON of a value that has none of its own."""
    if isinstance(value, ObjectId):
        return {"$oid": str(value)}
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, datetime):
        return {"$date": value.isoformat()}
    raise TypeError(value)


def main() -> None:
    client = MongoClient(sys.argv[1])
    collection = client.alula_recording.records
    collection.drop()
    generator = Generator(20261121)
    records = [generator.record() for _ in range(RECORDS)]
    collection.insert_many({"_id": number, **record} for number, record in enumerate(records))
    lines = [{"record": record} for record in records]
    while len(lines) < RECORDS + FINDS:
        query = generator.criteria()
        found = [record["_id"] for record in collection.find(query).sort("_id")]
        if 0 < len(found) < RECORDS or generator.random.random() < 0.2:
            lines.append({"find": query, "found": found})
    while len(lines) < RECORDS + FINDS + SORTS:
        sort = generator.sort()
        try:
            found = collection.aggregate([{"$sort": {**sort, "_id": 1}}])
        except OperationFailure:  # fields in lists beside each other, which MongoDB refuses
            continue
        lines.append({"sort": sort, "found": [record["_id"] for record in found]})
    client.drop_database("alula_recording")
    text = "".join(
        json.dumps(line, default=encoded, separators=(",", ":")) + "\n" for line in lines
    )
    TARGET.write_text(text)
    print(f"MongoDB {client.server_info()['version']}: {len(lines)} lines")


if __name__ == "__main__":
    main()
