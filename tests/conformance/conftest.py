"""The reference app, once for all tests of this folder."""

from __future__ import annotations

import pytest
from tests.conformance.serving import reference_server


@pytest.fixture(scope="session")
def reference():
    """The addresses of the running reference app."""
    with reference_server() as bases:
        yield bases
