"""The page of a description in a real browser; the checks are in ``docs_browser.mjs``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_chromium

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("docs_browser.mjs")

CHECKS = (
    "it lists the services",
    "it links to both descriptions",
    "a record is created from the example",
    "it is found by a query",
    "a response is shown with an example",
    "the same call is a command for a terminal",
    "a list is watched while it changes",
    "a method that streams shows its items",
    "a search leaves what it finds",
    "a form with a file is sent",
    "an error is shown",
    "values in the path are encoded",
    "a custom method is called",
    "a call has the token",
    "signing in puts the token where it is needed",
    "signing out takes it away",
    "it is used without a mouse",
    "every field has a name",
    "it fits on a phone",
    "nothing came from elsewhere",
    "nothing went wrong in the console",
)


@pytest.fixture(scope="module")
def outcomes():
    return run_checks(SCRIPT, ("playwright-core",), require_chromium(), sys.executable)


@pytest.mark.parametrize("check", CHECKS)
def test_page(check, outcomes):
    assert_passed(outcomes, check)


def test_no_check_runs_that_is_not_listed(outcomes):
    assert tuple(outcomes) == CHECKS
