"""The reference app, once for all JavaScript clients."""

from __future__ import annotations

import pytest
from tests.conformance.serving import reference_server
from tests.requirements import require_node_modules


@pytest.fixture(scope="session")
def reference_url():
    """The address of the running reference app; nothing starts where no client could call it."""
    require_node_modules()
    with reference_server() as bases:
        yield bases.main
