"""From a query to the filter that the database gets."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from bson import ObjectId
from bson.regex import Regex

from alula.adapters.mongodb import MongoDBService
from alula.adapters.mongodb._bson_types import to_object_id
from alula.adapters.mongodb._options import MongoDBOptions
from alula.adapters.mongodb._queries import (
    _COMPARED_ONE_BY_ONE,
    all_of,
    check_conditions,
    filter_of,
)
from alula.errors import BadRequest
from alula.query import Grammar

OPENED = [
    "$eq", "$not", "$all", "$elemMatch", "$exists", "$size", "$mod", "$regex", "$options", "$type",
]  # fmt: skip
GRAMMAR = Grammar(
    operators=OPENED, filters={"$text": True, "$search": True, "$comment": False, "$nor": True}
)
HEX = "64b0000000000000000000d1"
ID = ObjectId(HEX)


def read(query):
    def convert(field, value):
        return to_object_id(value) if field == "_id" else value

    return filter_of(GRAMMAR.read(query), convert)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, {}),
        ({"$limit": 1, "$sort": {"a": 1}}, {}),
        ({"a": 1}, {"a": {"$eq": 1}}),
        ({"a": None}, {"a": {"$eq": None}}),
        ({"a.b": {"$gt": 1, "$lt": 3}}, {"a.b": {"$gt": 1, "$lt": 3}}),
        ({"a": 1, "b": {"$in": [1, "x"]}}, {"a": {"$eq": 1}, "b": {"$in": [1, "x"]}}),
        ({"a": {"b": 1}}, {"a": {"$eq": {"b": 1}}}),
        ({"a": [1, 2]}, {"a": {"$eq": [1, 2]}}),
        (
            {"$or": [{"a": 1}, {"b": 2, "c": 3}]},
            {"$or": [{"a": {"$eq": 1}}, {"b": {"$eq": 2}, "c": {"$eq": 3}}]},
        ),
        (
            {"a": 1, "$and": [{"a": {"$ne": 2}}, {"$or": [{"b": 1}]}]},
            {
                "$and": [
                    {"a": {"$eq": 1}},
                    {"a": {"$ne": 2}, "$or": [{"b": {"$eq": 1}}]},
                ]
            },
        ),
        ({"a": {"$not": {"$gt": 1}}}, {"a": {"$not": {"$gt": 1}}}),
        ({"a": {"$elemMatch": {"$gt": 1, "$lt": 2}}}, {"a": {"$elemMatch": {"$gt": 1, "$lt": 2}}}),
        (
            {"a": {"$elemMatch": {"b": 1, "_id": HEX}}},
            {"a": {"$elemMatch": {"b": {"$eq": 1}, "_id": {"$eq": HEX}}}},
        ),
        ({"a": {"$regex": "^x", "$options": "i"}}, {"a": {"$regex": "^x", "$options": "i"}}),
        ({"a": {"$type": "string"}}, {"a": {"$type": "string"}}),
    ],
)
def test_builds_the_filter(query, wanted):
    assert read(query) == wanted


def test_equality_never_reads_a_value_as_operators():
    """Whatever a value is, it stands below an operator of ours."""
    assert read({"a": {"b": {"c": 1}}}) == {"a": {"$eq": {"b": {"c": 1}}}}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (HEX, {"$eq": ID}),
        ("other", {"$eq": "other"}),
        ({"$in": [HEX, "x"]}, {"$in": [ID, "x"]}),
        ({"$nin": [HEX]}, {"$nin": [ID]}),
        ({"$all": [HEX]}, {"$all": [ID]}),
        ({"$ne": HEX, "$gt": HEX}, {"$ne": ID, "$gt": ID}),
        ({"$not": {"$in": [HEX], "$lte": HEX}}, {"$not": {"$in": [ID], "$lte": ID}}),
        ({"$elemMatch": {"$eq": HEX}}, {"$elemMatch": {"$eq": ID}}),
        ({"$regex": HEX}, {"$regex": HEX}),
    ],
)
def test_ids_are_converted_where_they_are_compared(value, wanted):
    assert read({"_id": value}) == {"_id": wanted}
    assert read({"$or": [{"_id": value}]}) == {"$or": [{"_id": wanted}]}


@pytest.mark.parametrize(
    ("operator", "text", "wanted"),
    [
        ("$exists", "1", True),
        ("$exists", "true", True),
        ("$exists", "false", False),
        ("$exists", True, True),
        ("$size", "2", 2),
        ("$size", "-2", -2),
        ("$size", 2, 2),
        ("$size", "two", "two"),
        ("$size", "", ""),
        ("$size", "9" * 19, "9" * 19),
        ("$mod", ["4", 0], [4, 0]),
        ("$mod", "4", "4"),
    ],
)
def test_what_is_no_text_may_come_as_text(operator, text, wanted):
    found = read({"a": {operator: text}})["a"][operator]
    assert (found, type(found)) == (wanted, type(wanted))


def test_other_fields_keep_their_text():
    assert read({"owner": HEX, "a._id": {"$in": [HEX]}}) == {
        "owner": {"$eq": HEX},
        "a._id": {"$in": [HEX]},
    }


def test_exists_is_true_or_false():
    with pytest.raises(BadRequest, match=r"\$exists"):
        read({"a": {"$exists": "perhaps"}})


def test_opened_filters_go_with_the_criteria():
    assert read({"$text": {"$search": "x"}, "a": 1}) == {
        "a": {"$eq": 1},
        "$text": {"$search": "x"},
    }
    assert read({"$search": "x y"}) == {"$text": {"$search": "x y"}}
    assert read({"$comment": "dropped"}) == {}
    assert read({"$nor": [{"a": 1}]}) == {"$nor": [{"a": 1}]}


def test_parts_with_one_name_twice_are_kept_apart():
    assert all_of([]) == {}
    assert all_of([{"a": 1}, {"b": 2}]) == {"a": 1, "b": 2}
    assert all_of([{"a": 1}, {"b": 2}, {"a": 3}]) == {"$and": [{"a": 1}, {"b": 2}, {"a": 3}]}
    # The parts stay as they are, also where the first ones could be merged.
    parts = [{"a": 1}, {"a": 2}]
    assert all_of(parts) == {"$and": [{"a": 1}, {"a": 2}]}
    assert parts == [{"a": 1}, {"a": 2}]


# -- how many conditions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ({}, 0),
        ({"a": 1, "b": 2}, 2),
        ({"a": {"$gt": 1, "$lt": 5, "$ne": 3}}, 3),
        ({"$or": [{"a": 1}, {"$and": [{"b": 2}, {"c": {"$gte": 1, "$lte": 2}}]}]}, 4),
        ({"a": {"$in": [str(n) for n in range(900)]}}, 1),
        ({"a": {"$nin": [1, None, ObjectId(), datetime(2026, 1, 1, tzinfo=UTC), True]}}, 1),
        ({"a": {"$in": [{"b": 1}, [1, 2], 3]}}, 3),
        ({"a": {"$in": [re.compile("a"), Regex("b")]}}, 3),
        ({"a": {"$all": [1, 2, 3]}}, 3),
        ({"a": {"$all": []}}, 1),
        ({"a": {"$not": {"$gt": 1, "$in": [1, 2]}}}, 2),
        ({"a": {"$elemMatch": {"b": 1, "c": {"$gt": 1, "$lt": 2}}}}, 3),
        ({"a": {"$elemMatch": {"$gt": 1, "$lt": 2}}}, 2),
        ({"a": {"$exists": True}, "b": {"$regex": "x", "$options": "i"}}, 3),
    ],
)
def test_conditions_are_counted(query, number):
    opened = ["$all", "$not", "$elemMatch", "$exists", "$regex", "$options"]
    criteria = Grammar(operators=opened).read(query).criteria
    check_conditions(criteria, number, _COMPARED_ONE_BY_ONE)
    if number:
        with pytest.raises(BadRequest, match=f"has {number} conditions, and {number - 1} are"):
            check_conditions(criteria, number - 1, _COMPARED_ONE_BY_ONE)


@pytest.mark.parametrize("value", [0, -1, 1.5, "5", True, None])
def test_a_number_of_conditions_that_makes_no_sense_is_refused(value):
    with pytest.raises(ValueError, match=r"^max_conditions is .*False"):
        MongoDBOptions().changed({"max_conditions": value}, ())
    with pytest.raises(ValueError, match=r"^max_conditions is"):
        MongoDBService(lambda: None, max_conditions=value)


def test_any_number_can_be_allowed():
    changed = MongoDBOptions().changed
    assert changed({"max_conditions": False}, ()).max_conditions is None
    assert changed({"max_conditions": 7}, ()).max_conditions == 7


A = re.compile("^a", re.IGNORECASE)
AS_SENT = Regex("^a", "i")


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"a": A}, {"$in": [AS_SENT]}),
        ({"a": {"$ne": A}}, {"$nin": [AS_SENT]}),
        ({"a": {"$in": [A, "b"]}}, {"$in": [AS_SENT, "b"]}),
        ({"a": {"$nin": [A]}}, {"$nin": [AS_SENT]}),
        ({"a": {"$all": [A]}}, {"$all": [AS_SENT]}),
        ({"a": {"$eq": A, "$in": ["b"]}}, {"$regex": AS_SENT, "$in": ["b"]}),
        ({"a": {"$ne": A, "$nin": ["b"]}}, {"$not": AS_SENT, "$nin": ["b"]}),
        ({"a": {"$regex": A}}, {"$regex": AS_SENT}),
        ({"a": {"$not": {"$eq": A}}}, {"$not": {"$in": [AS_SENT]}}),
    ],
)
def test_a_compiled_pattern_matches(query, wanted):
    assert read(query) == {"a": wanted}


@pytest.mark.parametrize("name", ["$lt", "$lte", "$gt", "$gte"])
def test_a_compiled_pattern_has_no_order(name):
    with pytest.raises(BadRequest, match="a pattern has no order"):
        read({"a": {name: A}})


def test_a_compiled_pattern_is_one_of_text():
    with pytest.raises(BadRequest, match="compile one of text"):
        read({"a": re.compile(b"a")})
