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
async def replica_set(tmp_path_factory):
    """Three servers, all of them in order."""
    require_mongod()
    replica_set = ReplicaSet(tmp_path_factory.mktemp("set"))
    try:
        await replica_set.start()
        yield replica_set
    finally:
        replica_set.kill()
