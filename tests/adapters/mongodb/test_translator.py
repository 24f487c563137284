"""Queries, ids and params in the terms of PyMongo."""

from __future__ import annotations

from datetime import datetime

import pytest
from bson import ObjectId

from alula._context import Params
from alula.adapters.mongodb._options import MongoDBOptions
from alula.adapters.mongodb._queries import NOTHING, QueryTranslator
from alula.adapters.mongodb._writes import with_id_on_insert, with_ids
from alula.errors import BadRequest, NotFound
from alula.query import EMPTY_QUERY, Grammar, Query

HEX = "64b0000000000000000000d1"
ID = ObjectId(HEX)
COLLATION = {"locale": "en", "strength": 2}
BY_ID, BY_KEY = MongoDBOptions(), MongoDBOptions(id="key")
NAMED = Grammar().read({"name": "Ada"})


@pytest.fixture
def translator():
    return QueryTranslator(MongoDBOptions())


@pytest.mark.parametrize("id", [5, "abc", "", 2**63 - 1, 1.5, ID, datetime(2024, 1, 1), b"x"])
def test_an_id_stays_what_it_is(translator, id):
    assert translator.key(id) is id


def test_digits_become_an_object_id_as_the_id_of_the_database_only(translator):
    assert translator.key(HEX) == ID
    assert QueryTranslator(MongoDBOptions(id="_id", objectify=False)).key(HEX) == HEX
    assert QueryTranslator(MongoDBOptions(id="key")).key(HEX) == HEX


@pytest.mark.parametrize("id", [2**63, "\ud800"])
def test_an_id_that_cannot_be_stored_is_not_found(translator, id):
    with pytest.raises(NotFound):
        translator.key(id)


def test_a_new_record_begins_with_its_id():
    assert list(with_ids({"a": 1, "_id": HEX}, BY_ID).items()) == [("_id", ID), ("a", 1)]
    for absent in ({}, {"_id": None}, {"_id": ""}):
        assert type(with_ids(absent, BY_ID)["_id"]) is ObjectId
    assert with_ids({"_id": 0}, BY_ID) == {"_id": 0}


def test_a_record_without_its_own_id_gets_digits():
    made = with_ids({"a": 1}, BY_KEY)
    assert list(made) == ["_id", "key", "a"]
    assert type(made["key"]) is str
    assert ObjectId.is_valid(made["key"])
    assert with_ids({"key": 5, "_id": 6}, BY_KEY) == {"_id": 6, "key": 5}


def test_the_id_and_the_criteria_must_both_hold(translator):
    none = Params()
    assert translator.filter_with(HEX, EMPTY_QUERY, none) == {"_id": ID}
    assert translator.filter_with(HEX, NAMED, none) == {"_id": ID, "name": {"$eq": "Ada"}}
    other = Grammar().read({"_id": 5})
    assert translator.filter_with(HEX, other, none) == {"$and": [{"_id": ID}, {"_id": {"$eq": 5}}]}


@pytest.mark.parametrize("given", [{"collation": COLLATION}, {"docdb": {"collation": COLLATION}}])
def test_text_as_an_id_is_compared_exactly_in_spite_of_a_collation(translator, given):
    exact = {"_id": {"$eq": "a.b", "$regex": r"\Aa\.b\z"}}
    assert translator.filter_with("a.b", EMPTY_QUERY, Params(given)) == exact
    assert translator.filter_with(HEX, EMPTY_QUERY, Params(given)) == {"_id": ID}
    assert translator.filter_with(5, EMPTY_QUERY, Params(given)) == {"_id": 5}
    assert translator.filter_with("a.b", EMPTY_QUERY, Params(docdb={"comment": "c"})) == {
        "_id": "a.b"
    }


@pytest.mark.parametrize("id", [True, {"a": 1}, [1]])
def test_the_id_of_the_database_is_an_id_beside_another_too(id):
    with pytest.raises(BadRequest, match=r"'_id' is .*string or a number"):
        with_ids({"key": 1, "_id": id}, BY_KEY)


def test_a_record_that_a_change_may_make_gets_an_id_of_its_own():
    changes = {"$set": {"a": 1}, "$setOnInsert": {"b": 2}}
    assert with_id_on_insert(changes, {}, BY_ID) is changes
    assert with_id_on_insert(changes, {"key": {"$eq": 5}}, BY_KEY) is changes
    for criteria in ({}, {"key": {"$in": [5]}}):
        made = with_id_on_insert(changes, criteria, BY_KEY)
        assert made["$set"] == {"a": 1}
        assert made["$setOnInsert"]["b"] == 2
        assert ObjectId.is_valid(made["$setOnInsert"]["key"])
    assert changes["$setOnInsert"] == {"b": 2}


def test_a_projection_of_the_driver_goes_first(translator):
    query = Query(select=("a",))
    assert translator.projection(query, Params()) == {"a": 1, "_id": 1}
    assert translator.projection(query, Params(docdb={"projection": {"b": 0}})) == {"b": 0}
    assert translator.projection(query, Params(docdb={"projection": ["b"]})) == {"b": 1}
    assert translator.projection(query, Params(docdb={"projection": None})) == {"a": 1, "_id": 1}
    assert translator.projection(Query(), Params()) is None


def test_options_of_a_call_on_one_record(translator):
    assert translator.options_by_id("get", Params(), EMPTY_QUERY) == {}
    assert translator.options_by_id("get", Params(), Query(select=("a",))) == {
        "projection": {"a": 1, "_id": 1}
    }
    given = Params(docdb={"projection": {"b": 1}, "session": "s"})
    assert translator.options_by_id("change", given, Query(select=("a",))) == dict(given.docdb)


def test_a_collation_is_left_out_where_only_the_id_is_compared(translator):
    params = Params(collation=COLLATION)
    assert translator.options_by_id("delete", params, NAMED) == {"collation": COLLATION}
    assert translator.options_by_id("delete", params, EMPTY_QUERY) == {}


def test_the_arguments_of_a_plain_find(translator):
    query = Grammar().read({"a": 1, "$limit": 2, "$skip": 3, "$sort": {"b": -1}})
    assert translator.find_arguments(query, Params(docdb={"hint": "h"})) == {
        "filter": {"a": {"$eq": 1}},
        "skip": 3,
        "limit": 2,
        "sort": [("b", -1)],
        "projection": None,
        "hint": "h",
    }


def test_a_plain_find_of_nothing(translator):
    """To the driver, a limit of 0 is no limit."""
    arguments = translator.find_arguments(Query(limit=0), Params())
    assert (arguments["filter"], arguments["limit"]) == (NOTHING, 0)


def test_the_stages_that_find_one_record(translator):
    assert translator.stages_with(HEX, Query(select=("a",)), Params()) == [
        {"$match": {"_id": ID}},
        {"$limit": 1},
        {"$project": {"a": 1, "_id": 1}},
    ]


def test_what_a_call_concerns(translator, offline):
    params = Params(docdb={"session": "s", "hint": "h"}, collation=COLLATION)
    query = Grammar().read({"name": "Ada", "$sort": {"a": 1}})
    found = translator.selection(offline, None, query, params)
    assert found == (
        offline,
        {"name": {"$eq": "Ada"}},
        (("a", 1),),
        None,
        "s",
        {"hint": "h", "collation": COLLATION},
    )
    assert translator.selection(offline, HEX, EMPTY_QUERY, params).filter == {"_id": ID}


def test_a_query_may_have_any_number_of_conditions_where_that_is_allowed():
    query = Grammar().read({"n": {"$gt": 1, "$lt": 5}})
    with pytest.raises(BadRequest, match="2 conditions, and 1 are allowed"):
        QueryTranslator(MongoDBOptions(max_conditions=1)).filter(query)
    unlimited = QueryTranslator(MongoDBOptions(max_conditions=None))
    assert unlimited.filter(query) == {"n": {"$gt": 1, "$lt": 5}}
