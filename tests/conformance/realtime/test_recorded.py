"""Every recorded real-time case, with the official clients against the reference app."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.conformance.realtime.replay import FOLDERS, play
from tests.conformance.replay import load

CASES = list(load(FOLDERS))
AREAS = 29
RECORDED = 535


def name(case):
    return f"{case.area}/{case.name}"


@pytest.mark.parametrize("case", [case for case in CASES if case.quirk is None], ids=name)
def test_answers_as_recorded(case, reference, official_clients):
    found = play(case, reference, official_clients)
    assert not found, "\n    ".join(found)


def test_all_recorded_cases_are_here():
    recorded = list(load(FOLDERS[:1]))
    assert len({case.area for case in recorded}) == AREAS
    assert len(recorded) == RECORDED


def test_every_case_has_a_name_of_its_own():
    assert [each for each, count in Counter(map(name, CASES)).items() if count > 1] == []
