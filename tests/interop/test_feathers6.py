"""The client of FeathersJS 6, unmodified; the checks are in ``feathers6.mjs``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.serving import served
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_node_modules

SCRIPT = Path(__file__).with_name("feathers6.mjs")
PACKAGES = ("feathers",)
CHECKS = (
    "all methods of a service",
    "a custom method, and placeholders in a path",
    "errors have their class and their data",
    "events of all services",
    "a room of the query",
    "methods that stream",
    "a server that ends the stream",
    "a page that leaves and comes back",
)


@pytest.fixture(scope="module")
def outcomes():
    require_node_modules(*PACKAGES)
    with served("reference_v6") as bases:
        yield run_checks(SCRIPT, PACKAGES, bases.main)


@pytest.mark.parametrize("check", CHECKS)
def test_client(check, outcomes):
    assert_passed(outcomes, check)


def test_no_check_runs_that_is_not_listed(outcomes):
    assert tuple(outcomes) == CHECKS
