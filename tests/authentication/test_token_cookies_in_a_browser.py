"""Tokens in cookies in a real browser; the checks are in ``cookies_browser.mjs``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_chromium

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("cookies_browser.mjs")

CHECKS = (
    "a sign-in sets cookies, also without encryption on this machine",
    "scripts read the CSRF token alone",
    "a page of ours reads and writes",
    "a page of ours without the CSRF token is refused",
    "a form of another origin is refused",
    "a fetch of another origin is refused",
    "a script of another origin reads nothing",
    "another origin neither renews nor signs in nor signs out",
    "nothing that was refused has happened",
    "a websocket of ours is signed in, one of another origin is not",
    "a stream of ours is signed in, one of another origin is not",
    "the refresh token renews",
    "a sign-out removes the cookies",
)


@pytest.fixture(scope="module")
def outcomes():
    return run_checks(SCRIPT, ("playwright-core",), require_chromium(), sys.executable)


@pytest.mark.parametrize("check", CHECKS)
def test_cookies(check, outcomes):
    assert_passed(outcomes, check)


def test_no_check_runs_that_is_not_listed(outcomes):
    assert tuple(outcomes) == CHECKS
