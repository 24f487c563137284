"""Equality as JSON means it."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.errors import BadRequest
from alula.schema._json_schema.json_types import key_of
from alula.schema._pydantic_models.model_validator import MANY, MOST_OF_ONE_HASH, check_hashes

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


HASH_MODULUS = 2**61 - 1
"""Integers that differ by this have one hash, by the rules of Python."""


class TestHashes:
    @pytest.mark.parametrize(
        "text",
        [
            lambda n: f"a text that is not a number {n}",
            lambda n: f"NaN{n:010}",
            lambda n: f"sNaN{n:010}",
            lambda n: str(10**10 + n),
            lambda n: str(UUID(int=10**30 + n)),
            lambda n: n,
        ],
    )
    def test_lists_of_ordinary_texts_are_accepted(self, text):
        check_hashes([text(n) for n in range(MANY + 1)])

    @pytest.mark.parametrize(
        "text", [lambda n: str(n * HASH_MODULUS), lambda n: str(UUID(int=n * HASH_MODULUS))]
    )
    def test_numbers_that_share_a_hash_are_refused(self, text):
        texts = [text(n) for n in range(1, MANY + 2)]
        for value in (texts, dict.fromkeys(texts), {"a": [texts]}):
            with pytest.raises(BadRequest, match="one hash"):
                check_hashes(value)

    def test_few_of_them_are_accepted(self):
        texts = [str(n * HASH_MODULUS) for n in range(1, MOST_OF_ONE_HASH)]
        check_hashes([*texts, *[""] * MANY])
        check_hashes(texts)
