"""Equality as JSON means it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.schema.equality import key_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}),
        ([1, (2,)], (1, [2])),
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
        (bytearray(b"x"), bytearray(b"x")),
    ],
)
def test_these_are_equal(left, right):
    assert key_of(left) == key_of(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, True), (0, False), ([0], [False]), ({"a": 1}, {"a": True}), ("1", 1), ([], {}), (None, 0)],
)
def test_these_are_not(left, right):
    assert key_of(left) != key_of(right)


@given(JSON)
def test_every_value_has_a_key_for_sets(value):
    assert len({key_of(value), key_of(value)}) == 1
    assert key_of([value]) != key_of(value)
