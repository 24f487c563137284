"""What holds for every test: one event loop, the profiles of Hypothesis, no task left behind."""

from __future__ import annotations

import asyncio
import inspect
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# Deadlines and the check for slowness measure the machine, not the code.
calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", **calm)
settings.register_profile("ci", **calm, derandomize=True, database=None, print_blob=True)
settings.register_profile("fuzz", **calm, max_examples=5_000, print_blob=True)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") == "true" else "dev")
)

SECONDS_TO_END = 2.0


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Run on asyncio, in one loop for all tests, which fixtures of the session share."""
    return "asyncio", {"use_uvloop": False}


@pytest.fixture(autouse=True)
def _ends_its_tasks(request: pytest.FixtureRequest) -> None:
    if inspect.iscoroutinefunction(request.function):
        request.getfixturevalue("_task_watch")


@pytest.fixture
async def _task_watch() -> AsyncIterator[None]:
    """Fail a test that leaves asyncio tasks running; a connection that closes needs a moment."""
    before = running_tasks()
    yield
    clock = asyncio.get_running_loop().time
    until = clock() + SECONDS_TO_END
    while left := running_tasks() - before:
        if clock() > until:
            pytest.fail(f"the test left tasks running: {left}")
        await asyncio.sleep(0.005)


def running_tasks() -> set[asyncio.Task[Any]]:
    """All tasks but those by which anyio runs each fixture and test."""
    return {task for task in asyncio.all_tasks() if "TestRunner." not in repr(task.get_coro())}
