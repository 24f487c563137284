"""The official authentication client with a server whose sign-ins have sessions.

The checks are in ``sessions.mjs``; each is a test here.
"""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest
from tests.authentication.attacks.target import Target
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_node_modules

from alula.adapters.memory import MemoryService

SCRIPT = Path(__file__).with_name("sessions.mjs")
PACKAGES = (
    "@feathersjs/authentication-client",
    "@feathersjs/feathers",
    "@feathersjs/rest-client",
)
CHECKS = (
    "login, use, logout",
    "a page that is loaded again",
    "two places at a time",
    "logout everywhere",
    "a refresh token, for a client that wants to use it",
)


@pytest.fixture(scope="module")
async def outcomes():
    require_node_modules(*PACKAGES)
    target = Target(sessions="sessions")
    target.app.use("sessions", MemoryService(), methods=[])
    await target.start()
    async with await target.app.listen(0) as server:
        return await anyio.to_thread.run_sync(run_checks, SCRIPT, PACKAGES, server.url)


@pytest.mark.parametrize("check", CHECKS)
async def test_client(check, outcomes):
    assert_passed(outcomes, check)


async def test_no_check_runs_that_is_not_listed(outcomes):
    assert tuple(outcomes) == CHECKS
