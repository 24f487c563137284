"""Data on its way to the database."""

from __future__ import annotations

import json
import re
from datetime import datetime

import pytest
from bson import DatetimeMS, ObjectId
from bson.codec_options import CodecOptions
from bson.errors import InvalidDocument

from alula.adapters.mongodb._writes import (
    are_operators,
    check_from_client,
    encoded,
    read_back,
    update_of,
)
from alula.errors import BadRequest


def test_what_is_read_back_is_what_a_read_would_return(offline):
    date = datetime(2024, 1, 1, 0, 0, 0, 123_456)
    record = {"_id": ObjectId(), "at": date, "pair": (1, 2), "inner": {"list": [1]}}
    found = read_back(encoded(record, offline), offline)
    assert found == {**record, "at": date.replace(microsecond=123_000), "pair": [1, 2]}
    found["inner"]["list"].append(2)
    assert record["inner"] == {"list": [1]}


def test_the_codec_of_the_collection_counts(offline):
    aware = offline.with_options(codec_options=CodecOptions(tz_aware=True))
    document = encoded({"_id": 1, "at": datetime(2024, 1, 1)}, aware)
    assert read_back(document, aware)["at"].tzinfo is not None
    assert read_back(document, offline)["at"].tzinfo is None


def test_what_cannot_be_stored_fails_before_it_is_sent(offline):
    with pytest.raises(InvalidDocument):
        encoded({"_id": 1, "a\0b": 1}, offline)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [({}, False), ({"a": 1}, False), ({"$inc": {}}, True), ({"$inc": {}, "$set": {}}, True)],
)
def test_an_update_is_a_record_or_operators(data, wanted):
    assert are_operators(data) is wanted


def test_an_update_is_not_both():
    with pytest.raises(BadRequest, match="operators and fields"):
        are_operators({"$inc": {"a": 1}, "b": 2})


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ({}, {}),
        ({"_id": 1}, {}),
        ({"a": 1, "b.c": None}, {"$set": {"a": 1, "b.c": None}}),
        ({"$inc": {"n": 1}}, {"$inc": {"n": 1}}),
        ({"a": 1, "$inc": {"n": 1}}, {"$inc": {"n": 1}, "$set": {"a": 1}}),
        ({"a": 1, "$set": {"a": 2, "b": 3}}, {"$set": {"a": 1, "b": 3}}),
        ({"$set": {}}, {"$set": {}}),
    ],
)
def test_what_is_no_operator_is_set(data, wanted):
    before = str(data)
    assert update_of(data, "_id") == wanted
    assert str(data) == before


def test_a_name_may_be_any_text():
    assert update_of({"": 1, "a": 2}, "_id") == {"$set": {"": 1, "a": 2}}


@pytest.mark.parametrize("value", [None, 1, "a", [1], [{"$set": {"a": 1}}]])
def test_an_operator_has_an_object(value):
    with pytest.raises(BadRequest, match=r"\$set: expected an object"):
        update_of({"a": 1, "$set": value}, "_id")


@pytest.mark.parametrize("id", ["_id", "key"])
@pytest.mark.parametrize(
    "operators",
    [
        {"$set": {"ID": 1}},
        {"$set": {"ID.part": 1}},
        {"$rename": {"name": "ID"}},
        {"$rename": {"ID": "name"}},
        {"$rename": {"name": "ID.part"}},
        {"$unset": {"fine": 1, "ID": 1}},
    ],
)
def test_no_operator_changes_the_id(id, operators):
    data = json.loads(json.dumps(operators).replace("ID", id))
    (name,) = data
    with pytest.raises(BadRequest, match=rf"{re.escape(name)}: '{id}' cannot change"):
        update_of(data, id)


def test_no_operator_changes_the_id_of_the_database_beside_another():
    for data in ({"$rename": {"name": "_id"}}, {"$set": {"_id": 1}}):
        with pytest.raises(BadRequest, match="'_id' cannot change"):
            update_of(data, "key")
    made = {"$setOnInsert": {"_id": 1}}
    assert update_of(made, "key") == made


@pytest.mark.parametrize("id", ["_id", "key"])
def test_no_path_leads_into_the_id(id):
    with pytest.raises(BadRequest, match=rf"Invalid key {id}\.part .*'{id}' cannot change"):
        update_of({f"{id}.part": 1}, id)


@pytest.mark.parametrize("id", ["_id", "key"])
def test_names_like_the_id_are_fine(id):
    for data in ({"$set": {f"{id}s": 1}}, {"$set": {f"a.{id}": 1}}, {"$rename": {"a": f"{id}s"}}):
        assert update_of(data, id) == data
    assert update_of({f"a.{id}": 1}, id) == {"$set": {f"a.{id}": 1}}
    assert update_of({"$rename": {"a": 1}}, id) == {"$rename": {"a": 1}}  # the server refuses it


OPENED = frozenset({"$inc", "$push", "$pull", "$each", "$set", "$rename", "$gte", "$slice"})


@pytest.mark.parametrize("name", ["tags.$", "tags.$[]", "a.$[x].b"])
@pytest.mark.parametrize("place", ["field", "operator", "renamed"])
def test_no_path_has_an_operator(name, place):
    places = {
        "field": {"fine": 1, name: 1},
        "operator": {"$inc": {"fine": 1, name: 1}},
        "renamed": {"$rename": {"fine": name}},
    }
    with pytest.raises(BadRequest, match=r"Invalid key .*begin with '\$'"):
        check_from_client(places[place], OPENED)


def test_other_paths_are_fine():
    check_from_client({"a": 1, "a.b.0": 1, "price$": 1, "a.b$": 2}, frozenset())
    check_from_client({"$inc": {"a.b.0": 1, "price$": 1}, "$rename": {"a": "b.c"}}, OPENED)


@pytest.mark.parametrize(
    "data",
    [
        {"a": {"$inc": 1}},
        {"a": [{"b": {"$inc": 1}}]},
        {"$inc": {"$inc": 1}},
        {"$set": {"a": {"$inc": 1}}},
        {"$set": {"a": {"$each": [1]}}},
        {"$push": {"a": {"$inc": 1}}},
        {"$push": {"a": {"b": {"$each": [1]}}}},
        {"$push": {"a": {"$each": [{"$inc": 1}]}}},
        {"$push": {"a": ({"$inc": 1},)}},
        {"$push": {"a": [{"$each": [1]}]}},
    ],
)
def test_an_operator_counts_at_the_top_level_only(data):
    with pytest.raises(BadRequest, match="Invalid key"):
        check_from_client(data, OPENED)


@pytest.mark.parametrize(
    "data",
    [
        {"$push": {"a": {"$each": [1, {"b": 2}], "$slice": 3}}},
        {"$push": {"a": {"b": 1}, "c": 5}},
        {"$pull": {"a": {"$gte": 5}, "b": {"c": {"$gte": 5}}}},
        {"$set": {"a": {"b": [1, {"c": 2}]}}},
        {"$inc": None},  # `update_of` says what is wrong with it
    ],
)
def test_modifiers_and_conditions_stay_within_their_operators(data):
    check_from_client(data, OPENED)


def test_what_could_never_be_read_cannot_be_stored(offline):
    document = encoded({"_id": 1, "at": DatetimeMS(2**60)}, offline)
    with pytest.raises(InvalidDocument):
        read_back(document, offline)
