"""The reference app, once for all tests of this folder."""

from __future__ import annotations

import pytest
from tests.conformance.serving import reference_server


@pytest.fixture(scope="session")
def reference(mongodb_if_there):
    """The addresses of the running reference app."""
    with reference_server(mongodb_if_there) as bases:
        yield bases


@pytest.fixture(scope="session")
def mongodb_if_there(request):
    """The URL of a MongoDB, None where none can run: most cases need none."""
    try:
        return request.getfixturevalue("mongodb_url")
    except pytest.skip.Exception:
        return None
