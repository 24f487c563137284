"""Thousands of calls, events and breaks over socket.io: nothing of them stays."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.kinds import settled
from tests.client.socketio_server import SILENT, ScriptedServer, breaks_of
from tests.client.test_leaks import (
    BLOCKS_THAT_COME_AND_GO,
    FILES_THAT_DO,
    OPEN_FILES,
    counted,
    until_as_at_first,
)

from alula import errors
from alula.client import _retries as retries_module
from alula.client import create_client, create_sync_client, socketio
from alula.client._socketio import _transport

ROUNDS, CALLS, EVENTS = 40, 50, 10

pytestmark = [
    pytest.mark.slow,
    pytest.mark.untraced,
    pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="open files are counted where /proc is"),
]


async def some(client, server, breaks) -> None:
    """Make calls that succeed and fail, take events, break the connection."""
    messages = client.service("messages")
    stream = messages.events("created")  # nobody reads it
    for _ in range(CALLS):
        await settled(messages.get(1))
    with pytest.raises(errors.Timeout):
        await settled(messages.create({}, connection={"timeout": 0.005}))
    for n in range(EVENTS):
        server.emit("messages created", {"n": n})
    server.cut()
    async with asyncio.timeout(30):
        while not breaks:  # noqa: ASYNC110  # a thread of the client makes it true
            await asyncio.sleep(0.002)
    breaks.clear()
    await settled(client.open())
    server.calls.clear()
    server.joins.clear()
    server.requests.clear()
    del stream


@pytest.mark.parametrize("create", [create_client, create_sync_client], ids=["async", "sync"])
async def test_nothing_grows(create, monkeypatch):
    monkeypatch.setattr(retries_module, "_FIRST_DELAY", 0.001)
    monkeypatch.setattr(_transport, "_STABLE", 0.0)  # otherwise the pauses grow
    with ScriptedServer() as server:
        server.answers["create", "messages"] = SILENT
        at_first = counted()
        client = create().configure(socketio(server.url))
        client.service("messages").on("created", lambda data: None)
        breaks = breaks_of(client)
        await settled(client.open())
        for _ in range(3):  # what is made once
            await some(client, server, breaks)
        before = counted()
        for _ in range(ROUNDS):
            await some(client, server, breaks)
        files, threads, tasks, blocks = (
            after - each for after, each in zip(counted(), before, strict=True)
        )
        assert files <= FILES_THAT_DO
        assert threads <= 0
        assert tasks <= 0
        assert blocks < BLOCKS_THAT_COME_AND_GO
        await settled(client.close())
        await until_as_at_first(at_first)
