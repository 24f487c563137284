"""Calls that begin where their message arrives, as the task that waits for messages."""

from __future__ import annotations

import asyncio

import pytest
from tests.realtime.asgi_peer import PATH, Peer, settle
from tests.waiting import eventually

from alula import App
from alula._shares import Turn, Turns, _after
from alula._wire import MESSAGES_EXTENSION
from alula.express import express
from alula.realtime import socketio

pytestmark = pytest.mark.usefixtures("has_extension")


class Tasks:
    """Calls that look at their task."""

    def __init__(self):
        self.log = []

    async def same(self, data, params):
        before = asyncio.current_task()
        await asyncio.sleep(0)
        middle = asyncio.current_task()
        await asyncio.sleep(0.001)
        return before is not None and before is middle is asyncio.current_task()

    async def expired(self, data, params):
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            await asyncio.sleep(0)
            return "in time"

    async def cancelled_task(self, data, params):
        inner = asyncio.ensure_future(asyncio.Event().wait())
        try:
            async with asyncio.timeout(0):
                await inner
        except TimeoutError:
            return inner.cancelled()

    async def turn(self, data, params):
        asyncio.current_task().cancel()
        try:
            await asyncio.sleep(0)  # nothing that could be cancelled
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()
        if data:
            await asyncio.sleep(0)
        return "cancelled"

    async def stop(self, data, params):
        asyncio.current_task().cancel()

    async def raises(self, data, params):
        raise asyncio.CancelledError

    async def leave(self, data, params):
        await params.connection.close()
        await asyncio.sleep(0.001)
        self.log.append("left")

    async def slow(self, data, params):
        self.log.append(f"begin {data}")
        await asyncio.sleep(0.001)
        self.log.append(f"end {data}")

    async def fast(self, data, params):
        self.log.append(f"fast {data}")


NAMES = ["same", "expired", "cancelled_task", "turn", "stop", "raises", "leave", "slow", "fast"]


@pytest.fixture
def tasks():
    return Tasks()


@pytest.fixture
def web(tasks):
    web = express(App()).configure(socketio())
    web.use("tasks", tasks, methods=NAMES)
    return web


async def joined(web):
    peer = Peer(web)
    await peer.join()
    return peer


@pytest.mark.parametrize(
    ("method", "data", "result"),
    [
        ("same", None, True),
        ("expired", None, "in time"),
        ("cancelled_task", None, True),
        ("turn", False, "cancelled"),
        ("turn", True, "cancelled"),
    ],
)
async def test_a_call_has_one_task_that_can_be_cancelled(web, method, data, result):
    peer = await joined(web)
    for _ in range(3):  # what one leaves behind must not meet the next
        assert await peer.call(method, "tasks", data) == [None, result]
    assert await peer.call("same", "tasks", None) == [None, True]
    await peer.leave()


@pytest.mark.parametrize("method", ["stop", "raises"])
async def test_a_call_that_cancels_the_connection_ends_it(web, method):
    peer = await joined(web)
    peer.send(f'421["{method}","tasks",{{}}]')
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(peer.task), 30)
    assert peer.task.cancelled()


async def test_a_call_goes_on_after_it_has_closed_its_connection(web, tasks):
    peer = await joined(web)
    peer.send('42["leave","tasks",{}]')
    await peer.wait_closed()
    await eventually(lambda: tasks.log == ["left"])
    await asyncio.wait_for(peer.task, 30)


async def test_calls_begin_in_their_order(web, tasks):
    peer = await joined(web)
    peer.send(*(f'42{n}["{"fast" if n % 3 else "slow"}","tasks",{n}]' for n in range(9)))
    for _ in range(9):
        await peer.next()
    begun = [int(line.split()[1]) for line in tasks.log if not line.startswith("end")]
    assert begun == list(range(9))
    assert tasks.log[:3] == ["begin 0", "fast 1", "fast 2"]
    await peer.leave()


class HeldTurns(Turns):
    """Lets no call begin before its turn comes."""

    def __init__(self):
        super().__init__()
        self.held = []

    def take(self, address, work):
        self.held.append(Turn())
        return _after(self.held[-1], work)


async def test_a_call_that_waits_for_its_turn_ends_with_its_connection(web, tasks):
    peer = await joined(web)
    web.turns = HeldTurns()
    peer.send('421["fast","tasks",1]')
    await eventually(lambda: web.turns.held)
    await settle()
    assert tasks.log == []
    peer.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(peer.task), 30)
    web.turns.held[0].set_result(None)
    await settle()
    assert tasks.log == []


async def test_a_wake_up_without_work_is_passed_over(web):
    peer = await joined(web)
    peer.wake()
    assert await peer.call("same", "tasks", None) == [None, True]
    await peer.leave()


async def test_middleware_that_wraps_messages_sees_each(web, monkeypatch):
    seen = []

    async def wrapped(scope, receive, send):
        async def logged():
            message = await receive()
            seen.append(message.get("text"))
            return message

        await web(scope, logged, send)

    peer = await joined(wrapped)
    await peer.call("same", "tasks", None)
    await peer.leave()
    assert seen == [None, "40", '421["same", "tasks", null]', None]
    assert peer.taker is None


async def test_a_client_that_does_not_read_gets_the_rest_later(web):
    peer = await joined(web)
    peer.reads.clear()
    peer.send(*(f'42{n}["fast","tasks",{n}]' for n in range(5)))
    await settle()
    assert peer.from_server.qsize() <= 1
    peer.reads.set()
    assert [(await peer.next())[0] for _ in range(5)] == [f"43{n}" for n in range(5)]
    await peer.leave()


async def test_an_extension_is_not_used_by_a_websocket_that_is_refused(web):
    peer = Peer(web, url=f"{PATH}websocket".replace("EIO=4", "EIO=3"))
    await peer.wait_closed()
    assert peer.taker is None
    await asyncio.wait_for(peer.task, 30)


def test_the_name_of_the_extension():
    assert MESSAGES_EXTENSION == "alula.messages"
