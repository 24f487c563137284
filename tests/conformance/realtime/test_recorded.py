"""Every recorded real-time case, with the official clients against the reference app."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.conformance.realtime.replay import FOLDERS, Steps, play
from tests.conformance.replay import load
from tests.conformance.wire import send

CASES = list(load(FOLDERS))
AREAS = 29
RECORDED = 535


def name(case):
    return f"{case.area}/{case.name}"


@pytest.mark.parametrize("case", [case for case in CASES if case.quirk is None], ids=name)
def test_answers_as_recorded(case, reference, official_clients):
    found = play(case, reference, official_clients)
    assert not found, "\n    ".join(found)


QUIRKS = [
    case
    for case in CASES
    if case.quirk and not {"ws", "start"} & {word for step in case.steps for word in step}
]
FAIL_ON_PURPOSE = ("calc", "membership")


@pytest.mark.parametrize("case", QUIRKS, ids=name)
def test_never_answers_a_quirk_by_silence_or_a_failure(case, reference, official_clients):
    """What was recorded there is an accident; a better answer is one, but never none."""
    assert send(reference.main, "POST", "/__reset").status == 204
    with ThreadPoolExecutor(1) as threads:
        steps = Steps(reference, official_clients, threads)
        try:
            for step in case.steps:
                outcome = steps.outcome(step)
                if "call" not in step:
                    continue
                assert "ack" in outcome, step
                error = outcome["ack"][0]
                fails = any(path in FAIL_ON_PURPOSE for path in step["args"][1:2])
                if error is not None and not fails:
                    assert 400 <= error["code"] < 500, error
                    assert {"name", "message", "className"} <= error.keys()
        finally:
            official_clients.do("end")


def test_all_recorded_cases_are_here():
    recorded = list(load(FOLDERS[:1]))
    assert len({case.area for case in recorded}) == AREAS
    assert len(recorded) == RECORDED


def test_every_case_has_a_name_of_its_own():
    assert [each for each, count in Counter(map(name, CASES)).items() if count > 1] == []
