"""The order of values of all types, as MongoDB documents and keeps it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.query._order import (
    MISSING,
    element_index,
    is_finite,
    is_nan,
    is_number,
    sort_key,
    trimmed,
)

NAN = float("nan")
INFINITY = float("inf")


class Id:
    """An id like MongoDB's: with an order of its own."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Id({self.value})"

    def __eq__(self, other):
        return self.value == other.value

    def __lt__(self, other):
        return self.value < other.value

    def __hash__(self):
        return hash(self.value)


class Tag:
    """A value without an order."""


# Each value is less than the next one, across types and within them.
ASCENDING = [
    None,
    NAN,
    -INFINITY,
    -1,
    Decimal("-0.5"),
    0,
    0.5,
    1,
    Decimal("1.5"),
    2**53 + 1,
    10**30,
    INFINITY,
    "",
    "A",
    "a",
    "aa",
    "b",
    "\xe9",
    "\uffff",
    "\U0001f600",
    {},
    {"b": None},
    {"a": 1},
    {"a": 1, "b": None},
    {"a": 1, "b": 2},
    {"a": 2},
    {"b": 0},
    {"a": ""},
    {"a": {"b": NAN}},
    {"a": {"b": 1}},
    {"a": []},
    [],
    [None],
    [1],
    [1, 1],
    [2],
    ["a"],
    [[]],
    b"",
    b"b",
    b"aa",
    Id(1),
    Id(2),
    False,
    True,
    datetime(1, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    date(1970, 1, 1),
    datetime(1970, 1, 1, 0, 0, 0, 1),
    datetime(2026, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=1))),
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 0, 0, 1),
    datetime(9999, 12, 31, tzinfo=timezone(timedelta(hours=-23))),
]


@pytest.mark.parametrize(("lower", "higher"), list(pairwise(ASCENDING)), ids=repr)
def test_the_order(lower, higher):
    assert sort_key(lower) < sort_key(higher)
    assert sort_key(higher) > sort_key(lower)
    assert sort_key(lower) <= sort_key(higher)
    assert sort_key(higher) >= sort_key(lower)
    assert sort_key(lower) != sort_key(higher)


def test_every_pair_stands_in_that_order():
    keys = [sort_key(value) for value in ASCENDING]
    backwards = keys[::-1]
    assert sorted(backwards) == keys
    for at, key in enumerate(keys):
        assert all(earlier < key for earlier in keys[:at])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, MISSING),
        (1, 1.0),
        (1.5, Decimal("1.50")),
        (0.0, -0.0),
        (NAN, Decimal("NaN")),
        (NAN, Decimal("sNaN")),
        ([NAN], [Decimal("-NaN")]),
        ({"a": [1]}, {"a": (1.0,)}),
        (b"a", bytearray(b"a")),
        (datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),
        (datetime(2026, 1, 1), date(2026, 1, 1)),
        (datetime(2026, 1, 1), datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))),
        (Id(1), Id(1)),
    ],
)
def test_what_is_equal(one, other):
    assert sort_key(one) == sort_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ("a", b"a"),
        (Id(1), 1),
        ([1], {"0": 1}),
        ([True], [1]),
    ],
)
def test_what_is_not(one, other):
    assert sort_key(one) != sort_key(other)


def test_a_type_without_an_order_has_no_part_in_one():
    one, other = sort_key(Tag()), sort_key(Tag())
    assert one != other
    assert not one < other
    assert not other < one
    assert not one <= other
    assert sort_key({"a": Id(2)}) > sort_key({"a": Id(1)})


def test_types_that_are_not_known_stand_between_bytes_and_bools_by_their_names():
    keys = [sort_key(value) for value in (b"x", Id(9), Tag(), False)]
    assert keys == sorted(keys)


def test_objects_are_equal_by_their_own_comparison():
    assert sort_key(Id(1))[1][1] != 1


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_what_lies_too_deep_is_not_looked_at(wrap):
    def nested(levels, value):
        for _ in range(levels):
            value = wrap(value)
        return value

    assert sort_key(nested(100, 1)) < sort_key(nested(100, 2))
    assert sort_key(nested(101, 1)) == sort_key(nested(101, 2))
    assert sort_key(nested(50_000, 1)) == sort_key(nested(60_000, 2))


@pytest.mark.parametrize(
    ("value", "number", "nan", "finite"),
    [
        (1, True, False, True),
        (1.5, True, False, True),
        (10**400, True, False, True),
        (NAN, True, True, False),
        (-INFINITY, True, False, False),
        (Decimal(1), True, False, True),
        (Decimal("sNaN"), True, True, False),
        (Decimal("Infinity"), True, False, False),
    ],
)
def test_numbers(value, number, nan, finite):
    assert (is_number(value), is_nan(value), is_finite(value)) == (number, nan, finite)


@pytest.mark.parametrize("value", [True, "1", None, MISSING, [], 1j, date(2026, 1, 1)])
def test_what_is_no_number(value):
    assert not is_number(value)


@pytest.mark.parametrize(("part", "index"), [("0", 0), ("2", 2)])
def test_a_part_of_a_name_that_is_an_index(part, index):
    assert element_index(part, ["a", "b", "c"]) == index


@pytest.mark.parametrize("part", ["3", "-1", "00", "1.0", "a", "", "\u0661", "\xb2", "9" * 5000])
def test_a_part_of_a_name_that_is_none(part):
    assert element_index(part, ["a", "b", "c"]) is None


values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.floats(),
        st.decimals(),
        st.text(max_size=2),
        st.binary(max_size=2),
        st.datetimes(timezones=st.none() | st.just(UTC)),
        st.dates(),
        st.builds(Id, st.integers(0, 2)),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(a=values, b=values)
def test_one_of_less_equal_greater_holds(a, b):
    left, right = sort_key(a), sort_key(b)
    assert [left < right, left == right, right < left].count(True) == 1
    assert (left <= right) is not (right < left)
    assert (left >= right) is not (left < right)


@given(some=st.lists(values, min_size=3, max_size=3))
def test_the_order_is_transitive(some):
    low, middle, high = sorted(map(sort_key, some))
    assert low <= middle <= high
    assert low <= high


ATOMS = st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=1)
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_what_was_trimmed_compares_as_the_whole_does(value, like):
    whole, part, other = sort_key(value), sort_key(trimmed(value, like)), sort_key(like)
    assert (part == other) is (whole == other)
    assert (part < other) is (whole < other)
    assert (part > other) is (whole > other)


def size_of(value):
    inner = value.values() if isinstance(value, dict) else value
    return 1 + sum(map(size_of, inner)) if isinstance(value, (dict, list, tuple)) else 1


@pytest.mark.parametrize(
    ("value", "like"),
    [
        ([1] * 1000, [1]),
        ([[1] * 1000], [[1]]),
        ([[1] * 1000], [1]),
        ({"a": [1] * 1000}, {"a": 1}),
        (dict.fromkeys(range(1000)), {"a": 1}),
        ([1] * 1000, {"a": 1}),
        ({"a": [1] * 1000}, [1]),
    ],
)
def test_what_was_trimmed_is_hardly_larger_than_what_it_is_compared_to(value, like):
    assert size_of(trimmed(value, like)) <= 2 * size_of(like)
