"""The recorded exchanges of addresses and passwords, over real HTTP.

Where the original is unsafe, a case has the answers of a better server, and these count.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conformance.comparison import compare
from tests.conformance.replay import substitute, values_of
from tests.conformance.serving import served
from tests.conformance.wire import body_of, send

RECORDED = Path(__file__).parent / "vectors-accounts" / "accounts.json"
CASES = json.loads(RECORDED.read_text(encoding="utf-8"))["cases"]
PLACES = {"base": 0, "base2": 1, "base3": 2}


@pytest.fixture(scope="module")
def accounts():
    """The address of the first application; the others have the next two ports."""
    with served("reference_accounts") as bases:
        yield bases.main


def play(case, base, better):
    """Return how the answers differ from the recorded ones, or from the better ones."""
    origin, _, port = base.rpartition(":")
    assert send(base, "POST", "/__reset", {"Content-Type": "application/json"}, b"{}").status == 201
    saved = {}
    for number, step in enumerate(case["steps"]):
        if better and number > max(map(int, case["better"])):
            break
        request = substitute(step["request"], saved)
        expected = case["better"].get(str(number), {}) if better else step["response"]
        place = f"{origin}:{int(port) + PLACES[request.get('at', 'base')]}"
        headers = dict(request.get("headers", {}))
        if "body" in request:
            headers.setdefault("Content-Type", "application/json")
        reply = send(place, request["method"], request["path"], headers, body_of(request))
        expected = substitute(expected, saved)
        allowed = expected.get("status", reply.status)
        if isinstance(allowed, list) and reply.status in allowed:
            allowed = reply.status
        found = compare({**expected, "status": allowed}, reply)
        if found:
            return [f"step {number + 1}", *found]
        saved.update(values_of(step.get("save", {}), reply))
    return []


@pytest.mark.parametrize("case", [c for c in CASES if "quirk" not in c], ids=lambda c: c["name"])
def test_answers_as_recorded(case, accounts):
    assert play(case, accounts, better=False) == []


@pytest.mark.parametrize("case", [c for c in CASES if "better" in c], ids=lambda c: c["name"])
def test_answers_better_than_recorded(case, accounts):
    assert play(case, accounts, better=True) == []


def test_all_cases_are_here():
    assert len([case for case in CASES if "quirk" not in case]) == 22
    assert len([case for case in CASES if "better" in case]) == 27
