"""The mark of a checked query: what a schema names is open, for this query and at all adapters."""

from __future__ import annotations

from copy import copy

import pytest

from alula import Params
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest
from alula.query import Grammar, ValidatedQuery, Where

RECORDS = [{"name": "Ann"}, {"name": "Bob"}, {"name": "Amy"}]


def checked(query, operators=(), filters=()):
    return ValidatedQuery(query, operators, filters)


def test_is_a_copy_of_the_query_that_knows_what_is_open():
    given = {"name": {"$regex": "^A"}}
    query = checked(given, ["$regex"], {"$text": {}})
    assert query == given
    assert query is not given
    assert (query.operators, query.filters) == ({"$regex"}, {"$text"})


def test_a_copy_has_the_same_open():
    query = checked({"name": "Ann"}, ["$regex"], ["$text"])
    twin = copy(query)
    twin["name"] = "Bob"
    assert type(twin) is ValidatedQuery
    assert (query["name"], twin.operators, twin.filters) == ("Ann", {"$regex"}, {"$text"})


def test_the_grammar_takes_the_operators_that_it_names_and_no_others():
    grammar = Grammar()
    query = grammar.read(checked({"name": {"$regex": "^A"}}, ["$regex"]))
    assert query.criteria.parts == (Where("name", (("$regex", "^A"),)),)
    with pytest.raises(BadRequest, match=r"\$size"):
        grammar.read(checked({"name": {"$size": 1}}, ["$regex"]))


def test_the_grammar_stays_closed_for_other_queries():
    grammar = Grammar()
    query = checked({"name": {"$regex": "^A"}}, ["$regex"])
    grammar.read(query)
    for plain in (dict(query), {**query}, checked(query, ["$size"]), checked(query)):
        with pytest.raises(BadRequest, match=r"\$regex"):
            grammar.read(plain)


def test_the_grammar_passes_filters_on_that_it_names():
    grammar = Grammar(filters={"$since": int})
    query = grammar.read(checked({"$text": {"$search": "x"}, "$since": "5"}, [], ["$text"]))
    assert query.filters == {"$text": {"$search": "x"}, "$since": 5}
    with pytest.raises(BadRequest, match=r"\$text"):
        grammar.read({"$text": {"$search": "x"}})


def test_filters_of_the_service_have_precedence():
    grammar = Grammar(filters={"$ignored": False})
    assert grammar.read(checked({"$ignored": 1}, [], ["$ignored"])).filters == {}


def test_operators_of_the_service_stay_open():
    grammar = Grammar(operators=["$size"])
    query = grammar.read(checked({"a": {"$size": 1, "$regex": "x", "$gt": 2}}, ["$regex"]))
    assert query.criteria.parts[0].tests == (("$size", 1), ("$regex", "x"), ("$gt", 2))


def test_the_wider_grammar_is_made_once():
    grammar = Grammar()
    grammar.read(checked({"a": 1}, ["$regex"]))
    (wider,) = grammar._wider.values()
    grammar.read(checked({"b": 1}, ["$regex"]))
    assert list(grammar._wider.values()) == [wider]


async def test_a_copy_of_the_query_loses_the_mark():
    service = MemoryService(RECORDS)
    with pytest.raises(BadRequest, match=r"\$regex"):
        await service.find({"query": checked({"name": {"$regex": "^A"}}, ["$regex"])})


@pytest.mark.parametrize("method", ["find", "remove"])
async def test_page_sizes_hold_for_checked_queries(method):
    service = MemoryService(RECORDS, paginate={"default": 1, "max": 2}, multi=True)
    params = Params()
    params.query = checked({"name": {"$regex": "^A"}, "$limit": 50}, ["$regex"])
    if method == "find":
        page = await service.find(params)
        assert (page["total"], page["limit"]) == (2, 2)
        assert [record["name"] for record in page["data"]] == ["Ann", "Amy"]
    else:
        assert len(await service.remove(None, params)) == 2
