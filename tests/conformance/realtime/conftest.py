"""The official clients, once for all tests of this folder."""

from __future__ import annotations

import pytest
from tests.conformance.realtime.official_clients import PACKAGES, OfficialClients
from tests.requirements import require_node, require_node_modules


@pytest.fixture(scope="session")
def official_clients(request):
    """Official clients of the running reference app; nothing starts where they cannot run."""
    node, modules = require_node(), require_node_modules(*PACKAGES)
    bases = request.getfixturevalue("reference")
    with OfficialClients(node, modules, bases) as clients:
        yield clients
