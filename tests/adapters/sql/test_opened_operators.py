"""Generated queries with the opened operators find the same records on both databases.

The common operators, which memory knows as well, are in `test_differential.py`.
``ALULA_DIFFERENTIAL=100000`` runs that many queries.
"""

from __future__ import annotations

import os
import random
import re

import pytest
from tests.adapters.sql.people import PATHS, store_of

from alula.adapters.sql._drivers._sqlite_functions import fold

QUERIES = int(os.environ.get("ALULA_DIFFERENTIAL", "200"))
LETTERS = [
    "a", "A", "b", "z", "Z", "\u00fc", "\u00dc", "u\u0308", "\u00df", "\u1e9e", "\u03c3",
    "\u03c2", "\u03a3", "\u0130", "\u0131", "I", "i", "\ufb01", "\U00010400", "\U00010428",
    "\U0001f600", "\ud7ff", "\ue000", "\uffff", "%", "_", "\\", "'", '"', " ", "\n", "{", ",",
]  # fmt: skip
VALUES = [None, True, False, 0, 1, -1, 1.0, 0.1, 2**53, "", "1", "a", "\u00fc", [], {}]


class Made:
    """Makes records and queries of a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def text(self, most=4):
        return "".join(self.random.choices(LETTERS, k=self.random.randint(0, most)))

    def list(self, make, most=3):
        return [make() for _ in range(self.random.randint(0, most))]

    def text_or_none(self):
        return None if self.random.random() < 0.1 else self.text(1)

    def mark(self):
        return self.random.choice([None, 0.0, 0.1, -0.1, 1.0, 1e300, 5e-324, 2.0**53])

    def json(self, depth=0):
        kind = self.random.random()
        if depth < 2 and kind < 0.3:
            return self.list(lambda: self.json(depth + 1))
        if depth < 2 and kind < 0.6:
            keys = self.random.sample(["color", "n", "a", "b", "ok", "it's"], k=2)
            return {key: self.json(depth + 1) for key in keys}
        return self.random.choice(VALUES)

    def record(self):
        record = {
            "name": self.text(), "tags": self.list(self.text_or_none), "data": self.json(),
            "marks": self.list(self.mark), "city": self.text(2),
        }  # fmt: skip
        for name in list(record)[:4]:
            if self.random.random() < 0.1:
                record[name] = None
        return record

    def test(self):
        """Return a field and what a query has for it."""
        choose = self.random.choice
        pattern = {choose(["$like", "$notlike", "$ilike"]): self.pattern()}
        field = choose(["name", "city", "tags", "marks", "data", "data.color", "data.n"])
        tests = {
            "name": [pattern, {"$not": pattern}],
            "city": [pattern, {"$not": pattern}],
            "data.color": [pattern, {"$in": ["a", None]}, {"$not": {"$gte": ""}}],
            "data.n": [{"$gt": 0.5}, {"$nin": [0, 1, 0.1]}, {"$lte": 2**53}, {"$not": {"$lt": 1}}],
            "tags": [
                pattern, *self.tests_of_list(lambda: self.text(1)), {"$not": pattern},
                {"$elemMatch": {"$gt": self.text(1), "$lte": self.text(1)}},
                {"$elemMatch": pattern},
            ],
            "marks": [
                *self.tests_of_list(lambda: self.mark() or 0.1),
                {"$elemMatch": {"$gt": -0.1, "$lte": 1}},
            ],
            "data": [
                self.json(), {"$ne": self.json()}, {"$contains": self.json()},
                {"$in": self.list(self.json)}, {"$nin": self.list(self.json)},
                {"$overlaps": self.list(self.json)}, {"$not": {"$contains": self.json()}},
            ],
        }  # fmt: skip
        return field, choose(tests[field])

    def tests_of_list(self, item):
        items = self.list(item)
        return [
            item(), items, {"$ne": item()}, {"$ne": items}, {"$gt": item()}, {"$lte": item()},
            {"$in": [*items, None]}, {"$in": [items, item()]}, {"$nin": items}, {"$all": items},
            {"$contains": items}, {"$overlaps": items}, {"$not": {"$contains": items}},
            {"$size": self.random.randint(0, 3)}, {"$null": self.random.random() < 0.5},
        ]  # fmt: skip

    def pattern(self):
        pieces = ["%", "_", "\\%", "\\_", "\\\\", *LETTERS[:-7]]
        return "".join(self.random.choices(pieces, k=self.random.randint(0, 4)))

    def query(self):
        field, test = self.test()
        query = {field: test}
        if self.random.random() < 0.3:
            branches = [dict([self.test()]) for _ in range(2)]
            query[self.random.choice(["$or", "$and"])] = branches
        return query


@pytest.fixture
async def stores(tmp_path, postgresql_schema):
    sqlite = store_of(f"sqlite:///{tmp_path / 'test.sqlite'}", paths=PATHS)
    postgresql = store_of(postgresql_schema, paths=PATHS)
    async with sqlite as first, postgresql as second:
        yield first, second


async def answer(store, query):
    try:
        return await store.find(**query)
    except Exception as error:
        # A document that contains ``{}``: which error matters as little as its text.
        return type(error)


@pytest.mark.parametrize("seed", [1, 2])
async def test_both_databases_give_the_same_answers(stores, seed):
    made = Made(seed)
    records = [made.record() for _ in range(60)]
    inserted = [await store.insert(*records) for store in stores]
    assert inserted[0] == inserted[1]
    differences = []
    for _ in range(QUERIES // 2):
        query = made.query()
        answers = [await answer(store, query) for store in stores]
        if answers[0] != answers[1] or isinstance(answers[0], type):
            differences.append((query, *answers))
    assert differences == []


def like(pattern, text):
    """Tell whether a text is like a pattern."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
    return re.fullmatch(regex, text, re.DOTALL) is not None


async def test_patterns_mean_what_they_say(stores):
    made = Made(3)
    records = await stores[0].insert(*({"name": made.text()} for _ in range(60)))
    for _ in range(100):
        pattern = made.pattern()
        ids = {record["id"] for record in records if like(pattern, record["name"])}
        assert {*await stores[0].find(name={"$like": pattern})} == ids, pattern
        folded = {record["id"] for record in records if like(fold(pattern), fold(record["name"]))}
        assert {*await stores[0].find(name={"$ilike": pattern})} == folded, pattern
