"""What a real MongoDB 6.0.5 answered to generated queries (see ``record_mongodb.py``)."""

from __future__ import annotations

import json
from datetime import datetime
from functools import total_ordering
from pathlib import Path

import pytest

from alula.query import SUPPORTED_OPERATORS, Grammar, ordered, predicate

grammar = Grammar(operators=SUPPORTED_OPERATORS)


@total_ordering
class ObjectId:
    """Stands for MongoDB's type, which is not installed everywhere."""

    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        return isinstance(other, ObjectId) and self.text == other.text

    def __lt__(self, other):
        return self.text < other.text if isinstance(other, ObjectId) else NotImplemented

    __hash__ = None


DECODERS = {"$oid": ObjectId, "$bytes": bytes.fromhex, "$date": datetime.fromisoformat}


def decoded(value):
    if len(value) == 1:
        [(name, inner)] = value.items()
        if name in DECODERS:
            return DECODERS[name](inner)
    return value


LINES = [
    json.loads(line, object_hook=decoded)
    for line in Path(__file__).with_name("recorded_mongodb.jsonl").read_text().splitlines()
]
RECORDS = [line["record"] for line in LINES if "record" in line]
NUMBERED = [{"_id": number, **record} for number, record in enumerate(RECORDS)]


@pytest.mark.parametrize("case", [line for line in LINES if "find" in line])
def test_the_same_records_match(case):
    matches = predicate(grammar.read(case["find"]).criteria)
    assert [record["_id"] for record in NUMBERED if matches(record)] == case["found"]


@pytest.mark.parametrize("case", [line for line in LINES if "sort" in line])
def test_the_same_order(case):
    sort = grammar.read({"$sort": case["sort"]}).sort
    assert [record["_id"] for record in ordered(NUMBERED, sort)] == case["found"]


def test_enough_was_recorded():
    assert [len(RECORDS), sum("find" in line for line in LINES)] == [120, 400]
    assert sum("sort" in line for line in LINES) == 150
    assert sum(0 < len(line["found"]) < 120 for line in LINES if "find" in line) > 250
