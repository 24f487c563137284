"""FeathersJS' clients of accounts and authentication with a server of ours.

``accounts.json`` has what its calls gave with the original. What is unsafe there is left out.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conformance.serving import served
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_node_modules

HERE = Path(__file__).parent
RECORDED = HERE / "accounts.json"
CASES = json.loads(RECORDED.read_text(encoding="utf-8"))["cases"]
SECOND_FACTOR = "a sign-in with a second factor"
CHECKS = [*(case["name"] for case in CASES if "quirk" not in case), SECOND_FACTOR]
PACKAGES = (
    "@feathersjs/authentication-client",
    "@feathersjs/feathers",
    "@feathersjs/rest-client",
    "feathers-authentication-management",
)


@pytest.fixture(scope="module")
def outcomes():
    require_node_modules(*PACKAGES)
    with served("reference_accounts") as bases:
        return run_checks(HERE / "accounts.mjs", PACKAGES, bases.main, str(RECORDED))


@pytest.mark.parametrize("check", CHECKS)
def test_client(check, outcomes):
    assert_passed(outcomes, check)


def test_no_check_runs_that_is_not_listed(outcomes):
    assert list(outcomes) == CHECKS
