"""The tests that FeathersJS has for its database adapters, over HTTP through its own client."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.serving import served
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_node_modules

SCRIPT = Path(__file__).with_name("adapter_tests.mjs")
PACKAGES = (
    "@feathersjs/adapter-tests",
    "@feathersjs/errors",
    "@feathersjs/feathers",
    "@feathersjs/rest-client",
    "mocha",
)

REMOTE = """
    .get
    .get + $select
    .get + id + query
    .get + NotFound
    .get + NotFound (integer)
    .get + id + query id
    .find
    .remove
    .remove + $select
    .remove + id + query
    .remove + NotFound
    .remove + NotFound (integer)
    .remove + multi
    .remove + multi no pagination
    .remove + id + query id
    .update
    .update + $select
    .update + id + query
    .update + NotFound
    .update + NotFound (integer)
    .update + query + NotFound
    .update + id + query id
    .patch
    .patch + $select
    .patch + id + query
    .patch multiple
    .patch multiple no pagination
    .patch multi query same
    .patch multi query changed
    .patch + NotFound
    .patch + NotFound (integer)
    .patch + query + NotFound
    .patch + id + query id
    .create
    .create ignores query
    .create + $select
    .create multi
    .find + equal
    .find + equal multiple
    .find + $sort
    .find + $sort + string
    .find + $limit
    .find + $limit 0
    .find + $skip
    .find + $select
    .find + $or
    .find + $in
    .find + $nin
    .find + $lt
    .find + $lte
    .find + $gt
    .find + $gte
    .find + $ne
    .find + $gt + $lt + $sort
    .find + $or nested + $sort
    .find + $and
    .find + $and + $or
    params.adapter + paginate
    params.adapter + multi
    .find + paginate
    .find + paginate + query
    .find + paginate + $limit + $skip
    .find + paginate + $limit 0
    .find + paginate + params
"""
TESTS = [line.strip() for line in REMOTE.strip().splitlines()]

# They look at the object in the server's memory, which no client can reach.
IN_PROCESS = {
    ".options",
    ".events",
    *(f"._{name}" for name in ("get", "find", "create", "update", "patch", "remove")),
    *(f"internal .{name}" for name in ("get", "find", "create", "update", "patch", "remove")),
}


SERVICES = {"at-memory": "id", "at-mongo": "_id"}
"""The services that the tests run against, and the name of their id property."""


@pytest.fixture(scope="module", params=[*SERVICES, "sqlite", "postgresql"])
def outcomes(request, tmp_path_factory):
    require_node_modules(*PACKAGES)
    if request.param in SERVICES:
        if request.param == "at-mongo":
            request.getfixturevalue("mongodb_url")
        url = request.getfixturevalue("reference_url")
        return run_checks(SCRIPT, PACKAGES, url, request.param, SERVICES[request.param], *TESTS)
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('adapter-tests') / 'app.sqlite'}"
    else:
        url = request.getfixturevalue("postgresql_url")
    with served("reference_sql", "--url", url) as bases:
        return run_checks(SCRIPT, PACKAGES, bases.main, "at-sql", "id", *TESTS)


@pytest.mark.parametrize("name", TESTS)
def test_passes(name, outcomes):
    assert_passed(outcomes, name)


def test_all_that_can_run_over_http_have_run(outcomes):
    assert len(TESTS) == 64
    assert {name for name, each in outcomes.items() if not each.skipped} == set(TESTS)


def test_none_is_skipped_but_those_of_the_process(outcomes):
    assert {name for name, each in outcomes.items() if each.skipped} == IN_PROCESS
