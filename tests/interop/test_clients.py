"""The official JavaScript client, unmodified, with each library that it can use.

The checks are in ``checks``; each is a test here, for each library.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_node_modules

SCRIPT = Path(__file__).with_name("clients.mjs")
PACKAGES = (
    "@feathersjs/errors",
    "@feathersjs/feathers",
    "@feathersjs/rest-client",
    "axios",
    "superagent",
)
LIBRARIES = ("fetch", "axios", "superagent")

METHODS = """
    find gives a list
    find gives a page
    find lowers a limit to the maximum
    find with the limit 0 only counts
    get
    get takes a query
    create one
    create many
    create none
    create with $select
    update
    update without an id is refused
    patch one
    patch many
    patch many that are none
    remove one
    remove many
    remove with $select
    many are refused where they are not allowed
    ids of every kind are found again
    values keep every character
    numbers and booleans keep their types
    a result of null
"""

QUERIES = """
    equality
    several fields
    $ne
    $in
    $nin
    $lt
    $lte
    $gt
    $gte
    several operators on a field
    $or
    $and
    $or within $and
    $and within $or
    $sort up
    $sort down
    $skip
    $select
    values with unicode
    numbers and booleans where a schema is
    21 ids in $in
    200 ids in $in
    21 alternatives in $or
    21 fields in $select
    lists and objects arrive nested
    every value arrives as a string
    names and values with special characters arrive
    an operator that is not allowed is named
    more levels than are read are refused
    a limit that is no number is refused
"""

ERRORS = """
    error BadRequest
    error NotAuthenticated
    error PaymentError
    error Forbidden
    error NotFound
    error MethodNotAllowed
    error NotAcceptable
    error Timeout
    error Conflict
    error Gone
    error LengthRequired
    error PayloadTooLarge
    error UnsupportedMediaType
    error Unprocessable
    error TooManyRequests
    error GeneralError
    error NotImplemented
    error BadGateway
    error Unavailable
    an error without data
    an error with a list as its data
    an error of an own class
    an unexpected exception
    an error of a hook
    an error of middleware
    a record that is not there
    a service that is not there
    a method that is not there
    an id that is taken
    a body that is too large
    a server that is not there
"""

TRANSPORT = """
    a custom method
    a custom method beside the standard ones
    a custom method that answers nothing
    a custom method that fails
    a custom method that is closed
    a placeholder in the path
    several placeholders, percent-encoded
    paths of several parts
    headers of a call
    headers of all calls
    only the query travels
    status and headers by the service
    events go to the instance that called
    no event where a call fails
    hooks of the client
    many calls at a time
"""

# superagent takes headers where the others take a signal.
GIVEN_UP = """
    a call that is given up
    calls that are given up at any moment
"""


def names(text):
    return [line.strip() for line in text.strip().splitlines()]


CHECKS = {
    library: [
        *names(METHODS),
        *names(QUERIES),
        *names(ERRORS),
        *names(TRANSPORT),
        *(() if library == "superagent" else names(GIVEN_UP)),
    ]
    for library in LIBRARIES
}


@pytest.fixture(scope="module")
def outcomes_of(reference_url):
    """Return what runs the checks with one library, once."""
    require_node_modules(*PACKAGES)
    found = {}

    def outcomes_of(library):
        if library not in found:
            found[library] = {}  # a script that breaks is not run again for each of its checks
            found[library] = run_checks(SCRIPT, PACKAGES, reference_url, library)
        return found[library]

    return outcomes_of


@pytest.mark.parametrize(
    ("library", "check"),
    [
        pytest.param(library, check, id=f"{library}: {check}")
        for library, checks in CHECKS.items()
        for check in checks
    ],
)
def test_client(library, check, outcomes_of):
    assert_passed(outcomes_of(library), check)


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_check_runs_that_is_not_listed(library, outcomes_of):
    assert set(outcomes_of(library)) == set(CHECKS[library])


def test_without_a_server_every_check_fails():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    outcomes = run_checks(SCRIPT, PACKAGES, f"http://127.0.0.1:{port}", "superagent")
    assert set(outcomes) == set(CHECKS["superagent"])
    assert [name for name, each in outcomes.items() if each.error is None] == []
