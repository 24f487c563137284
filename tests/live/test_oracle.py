"""Lists against a fresh `find`, at random; more of it by ``make fuzz``."""

from __future__ import annotations

import os
import random

import pytest
from tests.live import oracle

pytestmark = pytest.mark.slow

FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
COMPARISONS = {"memory": 1_000, "sqlite": 1_000, "postgresql": 300, "mongodb": 300}


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", COMPARISONS)
async def test_lists_are_what_find_returns(kind, request, tmp_path):
    url = ""
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path / 'live.sqlite'}"
    elif kind != "memory":
        name = "postgresql_schema" if kind == "postgresql" else "mongodb_url"
        url = request.getfixturevalue(name)
    seed = random.randrange(2**32) if FUZZ else 7
    print(f"{seed=}")  # shown if it fails
    await oracle.run(kind, url, seed, 10_000 if FUZZ else COMPARISONS[kind])
