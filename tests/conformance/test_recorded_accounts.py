"""The recorded exchanges of addresses, passwords and sign-ins with others, over real HTTP.

Where the original is unsafe, a case has the answers of a better server, and these count.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conformance.browsing import Journey
from tests.conformance.comparison import compare
from tests.conformance.replay import substitute, values_of
from tests.conformance.serving import served
from tests.conformance.wire import body_of, send

RECORDED = Path(__file__).parent / "vectors-accounts"
CASES = json.loads((RECORDED / "accounts.json").read_text(encoding="utf-8"))["cases"]
SIGN_INS = [
    (area["area"], case)
    for area in (
        json.loads(file.read_text(encoding="utf-8")) for file in sorted(RECORDED.glob("oauth-*"))
    )
    for case in area["cases"]
]
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


# -- sign in with others ---------------------------------------------------------------------------


def place_after(base, steps):
    origin, _, port = base.rpartition(":")
    return f"{origin}:{int(port) + steps}"


@pytest.fixture(scope="module")
def places():
    """The addresses of three applications and two providers, by name."""
    with served("account_providers") as providers:
        oidc, github = providers.main, place_after(providers.main, 1)
        with served("reference_accounts", "--oidc", oidc, "--github", github) as bases:
            applications = {name: place_after(bases.main, at) for name, at in PLACES.items()}
            yield {**applications, "oidc": oidc, "github": github}


def travel(case, places, expected):
    journey = Journey(places, frozenset({places["oidc"], places["github"]}))
    return journey.play(case["steps"], expected)


def named(case):
    return f"{case[0]} {case[1]['name']}"


@pytest.mark.parametrize("case", [c for c in SIGN_INS if "quirk" not in c[1]], ids=named)
def test_sign_ins_as_recorded(case, places):
    expected = {number: step.get("response") for number, step in enumerate(case[1]["steps"])}
    assert travel(case[1], places, expected) == []


@pytest.mark.parametrize("case", [c for c in SIGN_INS if "better" in c[1]], ids=named)
def test_sign_ins_better_than_recorded(case, places):
    expected = {int(number): better for number, better in case[1]["better"].items()}
    assert travel(case[1], places, expected) == []


def test_all_cases_are_here():
    assert len([case for case in CASES if "quirk" not in case]) == 22
    assert len([case for case in CASES if "better" in case]) == 27
    assert len([case for _, case in SIGN_INS if "quirk" not in case]) == 28
    assert len([case for _, case in SIGN_INS if "better" in case]) == 43
