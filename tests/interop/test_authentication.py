"""The official authentication client, unmodified, over each library that it can use.

The checks are in ``authentication.mjs``; each is a test here, for each library. Tokens of
FeathersJS itself are tried here too, and ours there.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_node_modules

HERE = Path(__file__).parent
SCRIPT = HERE / "authentication.mjs"
SEED = HERE.parent / "conformance" / "seed.json"
PACKAGES = (
    "@feathersjs/authentication",
    "@feathersjs/authentication-client",
    "@feathersjs/errors",
    "@feathersjs/feathers",
    "@feathersjs/rest-client",
    "axios",
    "superagent",
)
LIBRARIES = ("fetch", "axios", "superagent")

CHECKS = """
    login
    login with unicode
    the token is stored and sent along
    a wrong password
    a strategy that is not there
    reAuthenticate with what is stored
    reAuthenticate asks once
    reAuthenticate with nothing stored
    reAuthenticate with a token that has expired
    a token that expires between two calls
    a user who was removed
    logout
    logout with a token that has expired
    events of the client
    another storage key, header and scheme
    registration, then login
    a token of FeathersJS is good here
    a token from here is good for FeathersJS
"""
NAMES = [line.strip() for line in CHECKS.strip().splitlines()]


@pytest.fixture(scope="module")
def outcomes_of(reference_url):
    """Return what runs the checks with one library, once."""
    require_node_modules(*PACKAGES)
    found = {}

    def outcomes_of(library):
        if library not in found:
            found[library] = {}  # a script that breaks is not run again for each of its checks
            found[library] = run_checks(SCRIPT, PACKAGES, reference_url, library, str(SEED))
        return found[library]

    return outcomes_of


@pytest.mark.parametrize("check", NAMES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_client(library, check, outcomes_of):
    assert_passed(outcomes_of(library), check)


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_check_runs_that_is_not_listed(library, outcomes_of):
    assert set(outcomes_of(library)) == set(NAMES)
