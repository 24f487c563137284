"""The reference app, once for all JavaScript clients."""

from __future__ import annotations

import pytest
from tests.conformance.serving import reference_server
from tests.requirements import require_node_modules


@pytest.fixture(scope="session")
def reference_url(request):
    """The address of the running reference app; nothing starts where no client could call it."""
    require_node_modules()
    try:
        mongodb = request.getfixturevalue("mongodb_url")
    except pytest.skip.Exception:  # the clients of the other services need none
        mongodb = None
    with reference_server(mongodb) as bases:
        yield bases.main
