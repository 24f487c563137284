"""Every recorded exchange, over real HTTP against the reference app."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from tests.conformance.replay import FOLDERS, load, perform, play, send, substitute, values_of

CASES = list(load())
AREAS = 29
RECORDED = 1020
FAILS_ON_PURPOSE = "/calc?error="
ON_MONGODB = {"docs", "pages", "slugs", "codes", "at-mongo", "events"}


def name(case):
    return f"{case.area}/{case.name}"


def services_of(case):
    """Return the names of the services that a case calls."""
    return {re.split(r"[/?]", step["request"]["path"])[1] for step in case.steps}


@pytest.fixture
def _what_it_needs(case, request):
    if services_of(case) & ON_MONGODB:
        request.getfixturevalue("mongodb_url")


@pytest.mark.usefixtures("_what_it_needs")
@pytest.mark.parametrize("case", [case for case in CASES if case.quirk is None], ids=name)
def test_answers_as_recorded(case, reference):
    found = play(case, reference)
    assert not found, "\n    ".join(found)


@pytest.mark.usefixtures("_what_it_needs")
@pytest.mark.parametrize("case", [case for case in CASES if case.quirk], ids=name)
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


def test_all_recorded_cases_are_here():
    recorded = list(load(FOLDERS[:1]))
    assert len({case.area for case in recorded}) == AREAS
    assert len(recorded) == RECORDED


def test_every_case_has_a_name_of_its_own():
    assert [each for each, count in Counter(map(name, CASES)).items() if count > 1] == []
