"""The replica set of these tests, and how long they go on."""

from __future__ import annotations

import os

import pytest
from tests.faults.replica_set import ReplicaSet
from tests.requirements import require_mongod


@pytest.fixture(scope="session")
def thorough() -> bool:
    """Whether to go on for minutes, as `make faults` does."""
    return os.environ.get("ALULA_FAULTS") == "full"


@pytest.fixture(scope="module")
async def servers(tmp_path_factory):
    """Three servers that were made a replica set; a test may have left some of them stopped."""
    require_mongod()
    servers = ReplicaSet(tmp_path_factory.mktemp("set"))
    try:
        await servers.start()
        yield servers
    finally:
        servers.kill()


@pytest.fixture
async def replica_set(servers):
    """Three servers, all of them running and with one primary, whatever the last test did."""
    await servers.heal()
    return servers
