"""Which records a query matches: fields, lists, dotted names, and the laws that always hold."""

from __future__ import annotations

from collections import ChainMap
from datetime import date, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from math import inf, nan
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.query import SUPPORTED_OPERATORS, And, Grammar, Or, Where, predicate

grammar = Grammar(operators=SUPPORTED_OPERATORS)


class Level(IntEnum):
    ONE = 1


class Name(StrEnum):
    A = "a"


def matches(raw, record):
    return predicate(grammar.read(raw).criteria)(record)


def test_no_criteria_match_everything():
    assert matches({}, {})
    assert predicate(And(()))({"a": 1})


def test_no_branch_matches_nothing():
    assert not predicate(And((Or(()),)))({"a": 1})


ADA = {
    "name": "Ada",
    "age": 36,
    "active": True,
    "tags": ["x", "y"],
    "note": None,
    "address": {"zip": "N1", "geo": {"lat": 51}},
}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"name": "Ada"}, True),
        ({"name": "ada"}, False),
        ({"age": 36}, True),
        ({"age": "36"}, False),
        ({"active": True}, True),
        ({"active": 1}, False),
        ({"active": {"$in": [1]}}, False),
        ({"tags": "y"}, True),
        ({"tags": ["x", "y"]}, True),
        ({"tags": ["y", "x"]}, False),
        ({"note": None}, True),
        ({"nothing": None}, True),
        ({"name": None}, False),
        ({"address": {"zip": "N1", "geo": {"lat": 51}}}, True),
        ({"address": {"zip": "N1"}}, False),
        ({"address": {"geo": {"lat": 51}, "zip": "N1"}}, False),
        ({"address.zip": "N1"}, True),
        ({"address": {"geo": {"lat": {"$gt": 50}}, "zip": "N1"}}, True),
        ({"name": "Ada", "age": 36, "tags": "x"}, True),
        ({"name": "Ada", "age": 36, "tags": "z"}, False),
        ({"name": "Ada", "age": 37}, False),
        ({"age": {"$gt": 35, "$lt": 37, "$ne": 0}}, True),
        ({"age": {"$gt": 36}}, False),
        ({"name": {"$gt": 5}}, False),
        ({"$or": [{"name": "Bob"}, {"age": 36}]}, True),
        ({"$or": [{"name": "Bob"}, {"age": 37}]}, False),
        ({"$or": [{"name": "Ada", "age": 37}, {"age": 36, "active": False}]}, False),
        ({"$and": [{"name": "Ada"}, {"name": {"$ne": "Ada"}}]}, False),
        ({"$and": [{"$or": [{"name": "Ada"}, {"name": "Bob"}]}, {"age": 36}]}, True),
        ({"name": "Ada", "$or": [{"age": 1}]}, False),
    ],
)
def test_a_record(raw, expected):
    assert matches(raw, ADA) is expected
    for kind in (MappingProxyType, lambda record: ChainMap({}, record)):
        assert matches(raw, kind(ADA)) is expected


class TestLists:
    """A list offers each of its elements, and itself."""

    @pytest.mark.parametrize("kind", [list, tuple])
    @pytest.mark.parametrize(
        ("test", "items", "expected"),
        [
            (1, [0, 1.0], True),
            (1, [True], False),
            (True, [1], False),
            ("x", ["x"], True),
            (None, [None], True),
            (None, [], False),
            (None, [0], False),
            ([], [], True),
            ([], [[]], True),
            ([1], [[1]], True),
            ([1], [[[1]]], False),
            (1, [[1]], False),
            ({"a": 1}, [{"a": 1}], True),
            ({"$ne": 1}, [0, 1], False),
            ({"$ne": 1}, [0, 2], True),
            ({"$nin": [1, 2]}, [0, 2], False),
            ({"$gt": 1}, [0, 2], True),
            ({"$gt": 1, "$lt": 1}, [0, 2], True),
            ({"$gt": [1]}, [0, 2], False),
            ({"$gt": [1]}, [1, 0], True),
            ({"$gt": [1]}, [[2]], True),
            ({"$gte": None}, [None, 1], True),
            ({"$size": 1}, [[1, 2]], True),
            ({"$size": 2}, [[1, 2]], False),
            ({"$exists": True}, [], True),
            ({"$regex": "^b"}, ["ab", "ba"], True),
            ({"$mod": [2, 1]}, [2, 3], True),
            ({"$not": {"$gt": 1}}, [0, 2], False),
            ({"$not": {"$gt": 1, "$lt": 0}}, [0, 2], True),
        ],
    )
    def test_elements_and_the_whole(self, kind, test, items, expected):
        assert matches({"a": test}, {"a": kind(items)}) is expected
        assert matches({"b.a": test}, {"b": {"a": kind(items)}}) is expected
        assert matches({"b.a": test}, {"b": kind([{"a": kind(items)}])}) is expected

    def test_string_elements_are_strings(self):
        assert not matches({"a": "1"}, {"a": [1]})
        assert matches({"a": "1"}, {"a": "1"})


class TestDottedNames:
    @pytest.mark.parametrize(
        ("name", "record", "reached"),
        [
            ("a.b", {"a": {"b": 1}}, True),
            ("a.b", {"a.b": 1}, False),
            ("a.b", {"a": [{"b": 0}, {"b": 1}]}, True),
            ("a.b", {"a": [{"b": [0, 1]}]}, True),
            ("a.b", {"a": [[{"b": 1}]]}, False),
            ("a.b", {"a": 1}, False),
            ("a.0", {"a": [1, 0]}, True),
            ("a.1", {"a": [1, 0]}, False),
            ("a.0", {"a": {"0": 1}}, True),
            ("a.0", {"a": [{"0": 1}]}, True),
            ("a.1", {"a": [{"1": 1}]}, True),
            ("a.0", {"a": [[1]]}, False),
            ("a.0.0", {"a": [[1]]}, True),
            ("a.0.b", {"a": [{"b": 1}]}, True),
            ("a.1.b", {"a": [{"b": 1}]}, False),
            ("a.0.b", {"a": [[{"b": 1}]]}, True),
            ("a.0.b", {"a": ["x"]}, False),
            ("a.00", {"a": [1]}, False),
            ("a.b.c", {"a": [{"b": [{"c": 1}]}]}, True),
            ("a.b.c", {"a": {"b": {"c": {"d": 1}}}}, False),
            ("a..b", {"a": {"": {"b": 1}}}, True),
            ("a.", {"a": {"": 1}}, True),
        ],
    )
    def test_where_they_lead(self, name, record, reached):
        assert matches({name: 1}, record) is reached
        assert matches({name: {"$ne": 1}}, record) is not reached
        assert matches({name: {"$in": [1, 5]}}, record) is reached

    @pytest.mark.parametrize(
        ("record", "null", "exists"),
        [
            ({}, True, False),
            ({"a": None}, True, False),
            ({"a": 5}, True, False),
            ({"a": {}}, True, False),
            ({"a": {"b": None}}, True, True),
            ({"a": {"b": 1}}, False, True),
            ({"a": []}, False, False),
            ({"a": [1]}, False, False),
            ({"a": [{}]}, True, False),
            ({"a": [{"b": 1}, {}]}, True, True),
            ({"a": {"b": []}}, False, True),
        ],
    )
    def test_what_is_missing(self, record, null, exists):
        assert matches({"a.b": None}, record) is null
        assert matches({"a.b": {"$in": [None]}}, record) is null
        assert matches({"a.b": {"$gte": None}}, record) is null
        assert matches({"a.b": {"$ne": None}}, record) is not null
        assert matches({"a.b": {"$exists": True}}, record) is exists
        assert matches({"a.b": {"$exists": False}}, record) is not exists

    def test_a_list_at_the_end_counts_as_a_whole_for_its_size(self):
        assert matches({"a.b": {"$size": 2}}, {"a": [{"b": [1, 2]}]})
        assert not matches({"a.b": {"$size": 1}}, {"a": {"b": [[1], 2]}})

    def test_objects_of_other_types_are_gone_through_too(self):
        record = {"a": MappingProxyType({"b": MappingProxyType({"c": [1]})})}
        assert matches({"a.b.c": 1}, record)
        assert not matches({"a.b.c": 2}, record)

    def test_numbers_lead_everywhere_once(self):
        asked = []

        class Counting(dict):
            def get(self, name, default=None):
                asked.append(name)
                return super().get(name, default)

        inner: list = ["end"]
        for _ in range(31):
            inner = [Counting({"0": inner})]
        assert not matches({".".join("0" * 32): "none"}, {"0": inner})
        assert matches({".".join("0" * 32): "end"}, {"0": inner})
        assert len(asked) < 2_000


class TestAll:
    @pytest.mark.parametrize(
        ("wanted", "value", "expected"),
        [
            (["x", "y"], ["y", "z", "x"], True),
            (["x", "y"], ["x"], False),
            (["x"], "x", True),
            ([], [], False),
            ([], "x", False),
            ([["x"]], ["x"], True),
            ([None], [1], False),
        ],
    )
    def test_all_of_the_values(self, wanted, value, expected):
        assert matches({"a": {"$all": wanted}}, {"a": value}) is expected

    def test_null_is_in_what_is_missing(self):
        assert matches({"a": {"$all": [None]}}, {})


class TestNot:
    def test_it_matches_what_is_missing(self):
        assert matches({"a": {"$not": {"$gt": 1}}}, {})
        assert matches({"a": {"$not": {"$gt": 1}}}, {"a": "text"})

    def test_it_denies_all_its_tests_together(self):
        raw = {"a": {"$not": {"$gte": 2, "$lte": 4}}}
        assert [n for n in range(7) if matches(raw, {"a": n})] == [0, 1, 5, 6]

    def test_twice_is_as_good_as_none(self):
        raw = {"a": {"$not": {"$not": {"$regex": "^a", "$options": "i"}}}}
        assert matches(raw, {"a": "Ada"})
        assert not matches(raw, {"a": "Bob"})


class TestElemMatch:
    @pytest.mark.parametrize(
        ("wanted", "items", "expected"),
        [
            ({"$gt": 1, "$lt": 5}, [0, 9], False),
            ({"$gt": 1, "$lt": 5}, [0, 3], True),
            ({"$eq": 1}, [[1]], False),
            ({"$ne": 1}, [1, 2], True),
            ({"$nin": [1, 2]}, [1, 2], False),
            ({"$exists": True}, [1], True),
            ({"$exists": False}, [1], False),
            ({"$size": 1}, [[1]], True),
            ({"$all": [1]}, [1], True),
            ({"$not": {"$gt": 1}}, [5, "x"], True),
            ({"$regex": "a", "$options": "i"}, ["A"], True),
            ({"$elemMatch": {"$gt": 1}}, [[1], [2]], True),
            ({"$elemMatch": {"$gt": 1}}, [2], False),
            ({"b": 1, "c": 2}, [{"b": 1}, {"c": 2}], False),
            ({"b": 1, "c": 2}, [{"b": 1, "c": 2}], True),
            ({"b": None}, [{}], True),
            ({"b": {"$exists": False}}, [1], False),
            ({"b.c": {"$gt": 1}}, [{"b": [{"c": 2}]}], True),
            ({"$or": [{"b": 1}, {"b": 2}]}, [{"b": 2}], True),
            ({"$and": [{"b": 1}, {"b": 2}]}, [{"b": 1}, {"b": 2}], False),
            ({}, [{}], True),
            ({}, [[]], True),
            ({}, [1, None], False),
            ({}, [], False),
            ({"0": 5}, [[5]], True),
            ({"0": {"b": 5}}, [[{"b": 5}]], True),
            ({"0": 5}, [[0, 5]], False),
        ],
    )
    def test_one_element_meets_it_all(self, wanted, items, expected):
        assert matches({"a": {"$elemMatch": wanted}}, {"a": items}) is expected
        assert matches({"x.a": {"$elemMatch": wanted}}, {"x": [{"a": items}]}) is expected

    @pytest.mark.parametrize("value", [{"b": 1}, 1, "b", None])
    def test_only_a_list_has_elements(self, value):
        assert not matches({"a": {"$elemMatch": {"b": 1}}}, {"a": value})
        assert not matches({"a": {"$elemMatch": {"$exists": True}}}, {"a": value})

    def test_a_missing_list_has_none(self):
        assert not matches({"a": {"$elemMatch": {}}}, {})


def test_a_predicate_can_be_called_again_and_again():
    found = predicate(grammar.read({"a": {"$in": [1, "x", None]}}).criteria)
    for _ in range(2):
        assert [found({"a": value}) for value in (1, 2, "x", [None], [])] == [
            True,
            False,
            True,
            True,
            False,
        ]


# Laws

NAMES = ["a", "b", "a.b", "a.0", "b.a.b"]
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from(["", "a", "b", "0"]),
    st.sampled_from([0.5, 1.0, float("nan")]),
    st.datetimes(),
    st.binary(max_size=1),
)
values = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab0"), inner, max_size=2)
    ),
    max_leaves=6,
)
records = st.dictionaries(st.sampled_from("ab"), values, max_size=2)
names = st.sampled_from(NAMES)
lists = st.lists(values, max_size=3)
tests = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne", "$lt", "$lte", "$gt", "$gte"]), values),
    st.tuples(st.sampled_from(["$in", "$nin", "$all"]), lists),
    st.tuples(st.just("$exists"), st.booleans()),
    st.tuples(st.just("$size"), st.integers(0, 2)),
    st.tuples(st.just("$regex"), st.sampled_from(["a", "^$"])),
    st.tuples(st.just("$mod"), st.just([2, 0])),
)
wheres = st.builds(Where, names, tests.map(lambda test: (test,)))
criteria = st.recursive(
    wheres,
    lambda inner: st.builds(
        lambda kind, parts: kind(tuple(parts)),
        st.sampled_from([And, Or]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=5,
)


def holds(criterion, record):
    return predicate(And((criterion,)))(record)


@given(record=records, name=names, value=values, items=lists)
def test_ne_and_nin_are_the_opposites_of_eq_and_in(record, name, value, items):
    for positive, negative, wanted in (("$eq", "$ne", value), ("$in", "$nin", items)):
        yes, no = Where(name, ((positive, wanted),)), Where(name, ((negative, wanted),))
        assert holds(yes, record) is not holds(no, record)


@given(record=records, name=names, test=tests)
def test_not_is_the_opposite_of_its_tests(record, name, test):
    positive, negative = Where(name, (test,)), Where(name, (("$not", (test,)),))
    assert holds(positive, record) is not holds(negative, record)


@given(record=records, name=names, items=lists)
def test_in_is_any_of_eq_and_all_is_every(record, name, items):
    equal = [holds(Where(name, (("$eq", item),)), record) for item in items]
    assert holds(Where(name, (("$in", items),)), record) is any(equal)
    assert holds(Where(name, (("$all", items),)), record) is (bool(items) and all(equal))


@given(record=records, name=names, value=values)
def test_lte_is_lt_or_eq_and_gte_is_gt_or_eq(record, name, value):
    def holds_for(test):
        return holds(Where(name, ((test, value),)), record)

    assert holds_for("$lte") is (holds_for("$lt") or holds_for("$eq"))
    assert holds_for("$gte") is (holds_for("$gt") or holds_for("$eq"))


@given(record=records, first=criteria, second=criteria, third=criteria)
def test_and_and_or_are_what_logic_makes_of_them(record, first, second, third):
    parts = (first, second, third)
    each = [holds(part, record) for part in parts]
    assert holds(And(parts), record) is all(each)
    assert holds(Or(parts), record) is any(each)
    assert holds(And((first, Or((second, third)))), record) is holds(
        Or((And((first, second)), And((first, third)))), record
    )


@given(record=records, name=names, some=st.lists(tests, min_size=1, max_size=4))
def test_all_tests_on_a_field_must_hold(record, name, some):
    each = [holds(Where(name, (test,)), record) for test in some]
    if len(dict(some)) == len(some):
        assert holds(Where(name, tuple(some)), record) is all(each)


# One of each type, equal ones of other types among them.
EACH = [None, True, False, 0, 1, 2, 1.0, 1.5, nan, inf, Decimal(1), "", "1", "a", "b", Level.ONE]
EACH += [Name.A, b"a", datetime(2026, 1, 1), date(2026, 1, 1), {"a": 1}, {}, [], [1], ["a"]]
LISTS = [[1], [True], ["a", 1.5], [nan], [[1]], [Name.A], [None], ("a", 2)]


@pytest.mark.parametrize("wanted", EACH, ids=repr)
@pytest.mark.parametrize("test", ["$eq", "$ne", "$lt", "$lte", "$gt", "$gte"])
def test_a_field_is_compared_as_at_the_end_of_a_dotted_name(test, wanted):
    plain, dotted = (
        predicate(And((Where(name, ((test, wanted),)),)), 10**6) for name in ("a", "x.a")
    )
    for record in [{}, *({"a": value} for value in [*EACH, *LISTS])]:
        assert bool(plain(record)) is bool(dotted({"x": record})), record


@given(name=st.sampled_from("ab"), value=values)
def test_a_record_matches_its_own_value(name, value):
    assert holds(Where(name, (("$eq", value),)), {name: value})
    assert holds(Where(name, (("$gte", value), ("$lte", value))), {name: value})
    assert holds(Where(f"x.{name}", (("$in", [value]),)), {"x": [{}, {name: value}]})


@given(record=records, criterion=criteria)
def test_a_record_is_not_changed(record, criterion):
    before = repr(record)
    assert holds(criterion, record) in (True, False)
    assert repr(record) == before
