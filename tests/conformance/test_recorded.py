"""Every recorded exchange, over real HTTP against the reference app."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.conformance.later import ON_MONGODB, TOPIC_OF_CASE, services_of, topic_of
from tests.conformance.replay import FOLDERS, load, perform, play, send, substitute, values_of

CASES = list(load())
AREAS = 29
RECORDED = 1020
FAILS_ON_PURPOSE = "/calc?error="


def name(case):
    return f"{case.area}/{case.name}"


def param(case):
    topic = topic_of(case)
    marks = [pytest.mark.skip(reason=f"not due before there is {topic}")] if topic else []
    return pytest.param(case, id=name(case), marks=marks)


@pytest.fixture
def _what_it_needs(case, request):
    if services_of(case) & ON_MONGODB:
        request.getfixturevalue("mongodb_url")


@pytest.mark.usefixtures("_what_it_needs")
@pytest.mark.parametrize("case", [param(case) for case in CASES if case.quirk is None])
def test_answers_as_recorded(case, reference):
    found = play(case, reference)
    assert not found, "\n    ".join(found)


@pytest.mark.usefixtures("_what_it_needs")
@pytest.mark.parametrize("case", [param(case) for case in CASES if case.quirk])
def test_never_answers_a_quirk_by_a_failure(case, reference):
    """What was recorded there is an accident; a better answer is one, but never a 5xx."""
    assert send(reference.main, "POST", "/__reset").status == 204
    saved = {}
    for step in case.steps:
        request = substitute(step["request"], saved)
        reply = perform(request, reference)
        saved |= values_of(step.get("save", {}), reply)
        if not request["path"].startswith(FAILS_ON_PURPOSE):
            assert reply.status < 500, reply
        if reply.status >= 400 and request["method"] != "HEAD":
            assert "Traceback" not in reply.text
            assert reply.headers["content-type"].startswith(("application/json", "text/html"))


@pytest.mark.parametrize("listed", TOPIC_OF_CASE, ids="/".join)
def test_lists_as_not_due_only_what_does_not_pass_yet(listed, reference):
    case = next(case for case in CASES if (case.area, case.name) == listed)
    assert play(case, reference)


def test_all_recorded_cases_are_here():
    recorded = list(load(FOLDERS[:1]))
    assert len({case.area for case in recorded}) == AREAS
    assert len(recorded) == RECORDED


def test_every_case_has_a_name_of_its_own():
    assert [each for each, count in Counter(map(name, CASES)).items() if count > 1] == []
