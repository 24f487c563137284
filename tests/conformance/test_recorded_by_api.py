"""The recorded exchanges against the reference app made by `api`, its parts in another order."""

from __future__ import annotations

import pytest
from tests.conformance.replay import play
from tests.conformance.serving import served
from tests.conformance.test_recorded import CASES, ON_MONGODB, name, services_of


@pytest.fixture(scope="module")
def made_by_api():
    """The addresses of the running app."""
    with served("reference_app", "--api") as bases:
        yield bases


# Where the order of the parts could show.
AREAS = {
    "authenticate-hook",
    "authentication",
    "bodies",
    "errors",
    "html-errors",
    "methods-and-paths",
    "second-app",
    "service-middleware",
}
IN_MEMORY = [
    case
    for case in CASES
    if case.quirk is None and case.area in AREAS and not services_of(case) & ON_MONGODB
]


@pytest.mark.parametrize("case", IN_MEMORY, ids=name)
def test_answers_as_recorded(case, made_by_api):
    found = play(case, made_by_api)
    assert not found, "\n    ".join(found)
