"""A server that every test has to leave alive."""

from __future__ import annotations

import pytest
from tests.conformance.serving import reference_server
from tests.robustness.raw import assert_serves


@pytest.fixture(scope="session")
def reference():
    """The addresses of the running reference app."""
    with reference_server() as bases:
        yield bases


@pytest.fixture
def base(reference):
    """The address of the main app, which answers the next request after every test."""
    yield reference.main
    assert_serves(reference.main)
