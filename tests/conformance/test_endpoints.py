"""The typed endpoints as they were handed over."""

from __future__ import annotations

import pytest
from tests.conformance.endpoints import load, play

HEAD, CASES = load()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_answers_as_the_annotations_say(case):
    assert play(HEAD, case) == []


def test_all_given_cases_are_here():
    assert len(CASES) == 69
    assert len({case["name"] for case in CASES}) == 69
