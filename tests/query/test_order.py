"""The order of records: every type, lists, dotted names, several fields, and stability."""

from __future__ import annotations

from collections import ChainMap
from datetime import UTC, datetime
from functools import cmp_to_key

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.query import ordered
from alula.query._order import sort_key

NAN = float("nan")
INFINITY = float("inf")


def sorted_values(values, direction=1):
    return [r["x"] for r in ordered([{"x": v} for v in values], [("x", direction)])]


def places(records, *sort):
    """Return the numbers of the records in their order."""
    return [record["n"] for record in ordered(records, sort)]


TYPES = [
    [],
    None,
    NAN,
    -1,
    0.5,
    2,
    "A",
    "a",
    {},
    {"a": 1},
    b"",
    b"a",
    False,
    True,
    datetime(2025, 1, 1),
    datetime(2026, 1, 1, tzinfo=UTC),
]


@pytest.mark.parametrize("turn", [0, 3, 7, 11])
def test_types_follow_each_other_as_in_mongodb(turn):
    values = [*TYPES[turn:], *TYPES[:turn]]
    assert list(map(repr, sorted_values(values))) == list(map(repr, TYPES))
    assert list(map(repr, sorted_values(values, -1))) == list(map(repr, reversed(TYPES)))


@pytest.mark.parametrize(
    "values",
    [
        ([3, 1, 2]),
        ([2.5, -INFINITY, 1, INFINITY, -0.0]),
        (["b", "a", "\xe9", "Z", ""]),
        ([True, False]),
        ([10**30, -(10**30), 0]),
    ],
)
def test_values_of_one_type(values):
    assert sorted_values(values) == sorted(values)
    assert sorted_values(values, -1) == sorted(values, reverse=True)


def test_a_bool_is_no_number_and_nan_is_the_least():
    assert repr(sorted_values([True, 2, NAN, False, 1.5])) == "[nan, 1.5, 2, False, True]"
    assert repr(sorted_values([2.0, NAN, -INFINITY])) == "[nan, -inf, 2.0]"
    assert repr(sorted_values([2.0, NAN, 1.0, NAN, 3], -1)) == "[3, 2.0, 1.0, nan, nan]"


def test_a_missing_field_counts_as_null():
    records = [{"n": 0, "x": 1}, {"n": 1}, {"n": 2, "x": None}, {"n": 3, "x": []}, {"n": 4}]
    assert places(records, ("x", 1)) == [3, 1, 2, 4, 0]
    assert places(records, ("x", -1)) == [0, 1, 2, 4, 3]


class TestStability:
    @pytest.mark.parametrize("direction", [1, -1])
    @pytest.mark.parametrize(
        "keys", [[1, 2, 1, 2], ["a", "b", "a", "b"], [None, 1, None, 1], [True, [3], True, [3]]]
    )
    def test_what_is_equal_stays_as_it_came(self, direction, keys):
        records = [{"n": n, "x": key} for n, key in enumerate(keys)]
        low_first = places(records, ("x", direction))
        expected = sorted(
            range(4),
            key=lambda n: sort_key(keys[n] if keys[n] != [3] else 3),
            reverse=direction < 0,
        )
        assert low_first == expected

    def test_numbers_that_are_equal_in_value(self):
        assert places([{"n": 0, "x": 1.0}, {"n": 1, "x": 1}, {"n": 2, "x": 1.0}], ("x", -1)) == [
            0,
            1,
            2,
        ]


class TestSeveralFields:
    RECORDS = [  # noqa: RUF012  # never changed
        {"n": 0, "city": "Paris", "age": 30},
        {"n": 1, "city": "London", "age": 30},
        {"n": 2, "city": "Paris", "age": 20},
        {"n": 3, "city": None, "age": 20},
        {"n": 4, "city": "London", "age": 30},
    ]

    @pytest.mark.parametrize(
        ("sort", "expected"),
        [
            ([("city", 1), ("age", 1)], [3, 1, 4, 2, 0]),
            ([("city", 1), ("age", -1)], [3, 1, 4, 0, 2]),
            ([("city", -1), ("age", 1)], [2, 0, 1, 4, 3]),
            ([("age", -1), ("city", -1)], [0, 1, 4, 2, 3]),
            ([("age", 1), ("n", -1)], [3, 2, 4, 1, 0]),
            ([], [0, 1, 2, 3, 4]),
        ],
    )
    def test_the_first_one_counts_most(self, sort, expected):
        assert places(self.RECORDS, *sort) == expected


class TestLists:
    @pytest.mark.parametrize(
        ("items", "least", "greatest"),
        [
            ([3, 1, 2], 1, 3),
            (("b", "a"), "a", "b"),
            ([True, 1, "x"], 1, True),
            ([None], None, None),
            ([[]], [[]], [[]]),
            ([[5], 9], 9, [[5]]),
            ([{"a": 1}, "x"], "x", {"a": 1}),
        ],
    )
    def test_they_count_by_one_of_their_elements(self, items, least, greatest):
        equal = [{"n": 0, "x": items}, {"n": 1, "x": least}, {"n": 2, "x": items}]
        assert places(equal, ("x", 1)) == [0, 1, 2]
        equal = [{"n": 0, "x": items}, {"n": 1, "x": greatest}, {"n": 2, "x": items}]
        assert places(equal, ("x", -1)) == [0, 1, 2]

    def test_an_empty_one_comes_before_null(self):
        assert sorted_values([None, [], -1]) == [[], None, -1]
        assert sorted_values([[], None, -1], -1) == [-1, None, []]


# Each record holds a list whose place among the others is known: as MongoDB 6 sorts it.
AROUND = [
    {"n": "nothing", "a": {"b": [], "0": []}},
    {"n": "null", "a": {"b": None, "0": None}},
    {"n": "5", "a": {"b": 5, "0": 5}},
    {"n": "text", "a": {"b": "s", "0": "s"}},
    {"n": "list", "a": {"b": [[0]], "0": [[0]]}},
]


class TestDottedNames:
    @pytest.mark.parametrize(
        ("name", "value", "equal_to"),
        [
            ("a.b", [{"b": 5}, {"b": "s"}], ("5", "text")),
            ("a.b", [{"b": [5, "s"]}], ("5", "text")),
            ("a.b", [{"b": "s"}, 5], ("null", "text")),
            ("a.b", [{"b": "s"}, [{"b": 5}]], ("null", "text")),
            ("a.b", [{"b": "s"}, {"b": []}], ("nothing", "text")),
            ("a.b", [{"b": "s"}, {}], ("null", "text")),
            ("a.b", [], ("null", "null")),
            ("a.b", 5, ("null", "null")),
            ("a.b", None, ("null", "null")),
            ("a.0", [5, "s"], ("5", "5")),
            ("a.0", [[0]], ("list", "list")),
            ("a.0", [[]], ("nothing", "nothing")),
            ("a.0", [{"b": 5}], (None, None)),
            ("a.0", [], ("null", "null")),
            ("a.0", [None, 5], ("null", "null")),
        ],
    )
    def test_where_they_lead(self, name, value, equal_to):
        for direction, place in zip((1, -1), equal_to, strict=True):
            if place is None:
                continue
            for records in ([{"n": 0, "a": value}, *AROUND], [*AROUND, {"n": 0, "a": value}]):
                found = places(records, (name, direction))
                first = records[0]["n"] == 0
                assert found.index(0) == found.index(place) + (-1 if first else 1)

    @pytest.mark.parametrize(
        ("name", "values", "expected"),
        [
            ("a.0.b", [[{"b": 2}, {"b": 0}], [{"b": 1}], [[{"b": 3}]], []], [3, 1, 0, 2]),
            ("a.1.b", [[{"b": 0}, {"b": 2}], [{"b": 0}, {"b": 1}]], [1, 0]),
            ("a.b.c", [{"b": {"c": 2}}, [{"b": [{"c": 1}, {"c": 9}]}], {"b": {}}], [2, 1, 0]),
            ("a.b", [{"b": 2}, {"b": 1}], [1, 0]),
        ],
    )
    def test_deeper(self, name, values, expected):
        assert places([{"n": n, "a": v} for n, v in enumerate(values)], (name, 1)) == expected

    def test_a_key_with_a_dot_is_no_way(self):
        records = [{"n": 0, "a.b": 2, "a": {"b": 1}}, {"n": 1, "a.b": 1, "a": {"b": 2}}]
        assert places(records, ("a.b", 1)) == [0, 1]

    def test_objects_of_other_types_are_gone_through_too(self):
        records = [{"n": 0, "a": ChainMap({"b": 2})}, {"n": 1, "a": ChainMap({"b": 1})}]
        assert places(records, ("a.b", 1)) == [1, 0]


class TestSeveralFieldsInOneList:
    """Each element offers one row of keys; the row that comes first counts."""

    RECORDS = [  # noqa: RUF012  # never changed
        {"n": 0, "a": [{"b": 1, "c": 9}, {"b": 1, "c": 3}, {"b": 5, "c": 0}]},
        {"n": 1, "a": {"b": 1, "c": 2}},
        {"n": 2, "a": [{"b": 1, "c": 4}]},
        {"n": 3, "a": []},
        {"n": 4, "a": [{"b": 0}, 7]},
    ]

    @pytest.mark.parametrize(
        ("sort", "expected"),
        [
            ([("a.b", 1), ("a.c", 1)], [3, 4, 1, 0, 2]),
            ([("a.b", 1), ("a.c", -1)], [3, 4, 0, 2, 1]),
            ([("a.b", -1), ("a.c", 1)], [0, 1, 2, 4, 3]),
            ([("a.c", 1), ("a.b", 1)], [3, 4, 0, 1, 2]),
            ([("a", 1), ("a.b", 1)], [3, 4, 1, 0, 2]),
            ([("a.b", 1), ("a", 1)], [3, 4, 1, 0, 2]),
            ([("n", -1), ("a.b", 1), ("a.c", 1)], [4, 3, 2, 1, 0]),
        ],
    )
    def test_rows(self, sort, expected):
        assert places(self.RECORDS, *sort) == expected

    def test_a_field_beside_them_counts_for_itself(self):
        records = [
            {"n": 0, "a": {"b": [2, 1], "c": [1, 2]}},
            {"n": 1, "a": {"b": [1, 3], "c": [0, 9]}},
        ]
        assert places(records, ("a.b", 1), ("a.c", 1)) == [1, 0]
        assert places(records, ("a.c", -1), ("a.b", 1)) == [1, 0]

    def test_long_lists_beside_each_other_take_no_longer_than_one_after_the_other(self):
        lists = {"b": list(range(20_000)), "c": list(range(20_000))}
        assert places([{"n": 0, "a": lists}, {"n": 1}], ("a.b", 1), ("a.c", 1)) == [1, 0]


def test_the_records_themselves_come_back_and_their_list_stays():
    records = [{"x": 2}, {"x": 1}]
    result = ordered(records, [("x", 1)])
    assert [id(record) for record in result] == [id(records[1]), id(records[0])]
    assert records == [{"x": 2}, {"x": 1}]
    assert ordered(iter(records), [("x", 1), ("x.y", 1)]) == [{"x": 1}, {"x": 2}]
    assert ordered([], [("x", 1)]) == []


# Whatever is in the records

values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=2),
        st.binary(max_size=2),
        st.datetimes(timezones=st.none() | st.just(UTC)),
        st.dates(),
        st.decimals(),
        st.just(1j),
        st.builds(object),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab0"), inner, max_size=3)
    ),
    max_leaves=6,
)
records = st.lists(st.dictionaries(st.sampled_from("ab"), values, max_size=2), max_size=8)
sorts = st.lists(
    st.tuples(st.sampled_from(["a", "b", "a.a", "a.b", "b.0", "a.b.a"]), st.sampled_from([1, -1])),
    max_size=3,
)


@given(some=records, sort=sorts)
def test_nothing_is_lost_and_nothing_raises(some, sort):
    before = repr(some)
    result = ordered(some, sort)
    assert sorted(map(id, result)) == sorted(map(id, some))
    assert repr(some) == before
    assert list(map(id, ordered(result, sort))) == list(map(id, result))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.5, NAN, "", "a", b"a"]),
    st.datetimes(),
)
flat = st.lists(st.fixed_dictionaries({"a": scalars}, optional={"b": scalars}), max_size=10)
homogeneous = st.one_of(
    st.lists(st.fixed_dictionaries({"a": kind, "b": other}), max_size=10)
    for kind in (st.integers(-2, 2), st.floats(-1, 1), st.text(max_size=1))
    for other in (st.integers(-1, 1), st.sampled_from([1, 1.0, NAN, 0.5]), scalars)
)


@given(
    some=flat | homogeneous,
    sort=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([1, -1])), max_size=2),
)
def test_scalars_are_in_the_order_of_their_keys(some, sort):
    def compare(one, other):
        for name, direction in sort:
            left, right = sort_key(one.get(name)), sort_key(other.get(name))
            if left != right:
                return direction if left > right else -direction
        return 0

    expected = sorted(some, key=cmp_to_key(compare))
    assert list(map(id, ordered(some, sort))) == list(map(id, expected))
