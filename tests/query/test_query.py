"""The tree that a query becomes: values that compare, and that nobody can change."""

from __future__ import annotations

import pytest

from alula.query._query import EMPTY, EMPTY_QUERY, And, Or, Query, Where

ONE = Where("a", (("$eq", 1),))


def test_the_empty_query_asks_for_everything():
    assert Query() == EMPTY_QUERY
    assert (EMPTY_QUERY.criteria, EMPTY_QUERY.limit, EMPTY_QUERY.skip) == (And(()), None, 0)
    assert (EMPTY_QUERY.sort, EMPTY_QUERY.select) == ((), None)
    assert EMPTY_QUERY.filters is EMPTY


def test_queries_with_one_meaning_are_equal():
    assert Query(And((ONE,)), limit=1) == Query(And((Where("a", (("$eq", 1),)),)), limit=1)
    assert Query(skip=1) != Query(skip=2)
    assert And((ONE,)) != Or((ONE,))


@pytest.mark.parametrize(
    ("node", "name"),
    [(ONE, "field"), (And((ONE,)), "parts"), (Or(()), "parts"), (Query(), "limit")],
)
def test_nothing_can_be_changed_or_added(node, name):
    with pytest.raises(AttributeError):
        setattr(node, name, None)
    with pytest.raises((AttributeError, TypeError)):
        node.other = 1


def test_the_empty_mapping_stays_empty():
    with pytest.raises(TypeError):
        EMPTY["a"] = 1
