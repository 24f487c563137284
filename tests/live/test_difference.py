"""A client that follows the steps from one page to the next has the next page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula._live._difference import differences

KEYS = st.lists(st.sampled_from("abcdefghij"), unique=True)


def steps(before, after):
    return [tuple(change) for change in differences(before, after)]


def page(keys, digests=""):
    return dict(zip(keys, digests or keys, strict=True))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("abc", "abc", []),
        ("abc", "ac", [("left", "b", -1)]),
        ("ac", "abc", [("entered", "b", 1)]),
        ("", "ab", [("entered", "a", 0), ("entered", "b", 1)]),
        ("abcd", "bcda", [("changed", "a", 3)]),
        ("abcd", "dabc", [("changed", "d", 0)]),
        (
            "abc",
            "xbz",
            [("left", "a", -1), ("left", "c", -1), ("entered", "x", 0), ("entered", "z", 2)],
        ),
    ],
)
def test_as_few_records_as_possible_move(before, after, expected):
    assert steps(page(before), page(after)) == expected


def test_a_record_with_other_data_is_told_at_its_place():
    assert steps(page("abc"), page("abc", "aXc")) == [("changed", "b", 1)]


@pytest.mark.hypothesis
@given(KEYS, KEYS, st.sets(st.sampled_from("abcdefghij")))
def test_following_the_steps_gives_the_page(before, after, changed):
    digests = {key: key.upper() if key in changed else key for key in after}
    shown = [*before]
    data = page(before)
    for kind, key, at in differences(page(before), digests):
        if kind != "entered":
            shown.remove(key)
        if kind != "left":
            shown.insert(at, key)
            data[key] = digests[key]
    assert shown == [*after]
    assert {key: data[key] for key in after} == digests
