"""The official client over socket.io and live lists: one that asks, and one that does not.

The checks are in ``live_lists.mjs``; each is a test here.
"""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_node_modules

from alula.adapters.memory import MemoryService
from alula.express import api
from alula.realtime import socketio

SCRIPT = Path(__file__).with_name("live_lists.mjs")
PACKAGES = ("@feathersjs/feathers", "@feathersjs/socketio-client", "socket.io-client")
CHECKS = ("a client that asks has a list", "a client that does not ask sees nothing")


@pytest.fixture(scope="module")
async def outcomes():
    require_node_modules(*PACKAGES)
    app = api().configure(socketio())
    app.use("todos", MemoryService(start_id=1))
    app.service("todos").live()
    app.on("connection", lambda connection: app.channel("all").join(connection))
    app.service("todos").publish(lambda data, context: app.channel("all"))
    async with await app.listen(0) as server:
        return await anyio.to_thread.run_sync(run_checks, SCRIPT, PACKAGES, server.url)


@pytest.mark.parametrize("check", CHECKS)
async def test_client(check, outcomes):
    assert_passed(outcomes, check)


async def test_no_check_runs_that_is_not_listed(outcomes):
    assert tuple(outcomes) == CHECKS
