"""How the work for many lists is divided: slices of time, and turns of clients."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.live.test_lists import Client, connection
from tests.waiting import settle

from alula import App
from alula._live import _slices as slices_module
from alula._live import live_lists_of
from alula._live._slices import Slices
from alula.adapters.memory import MemoryService


def slowly(done, count):
    for number in range(count):
        time.sleep(slices_module.SECONDS / 4)
        done.append(number)
        yield


async def test_short_work_is_done_at_once(monkeypatch):
    monkeypatch.setattr(slices_module, "SECONDS", 60)  # a busy machine may pause this process
    done = []
    slices = Slices(dict)
    slices.add(iter(done.append(each) for each in range(3)))
    assert len(done) == 3
    await slices.wait()


async def test_long_work_leaves_room_for_others_and_keeps_its_order():
    done = []
    slices = Slices(dict)
    slices.add(slowly(done, 20))
    slices.add(iter(done.append("last") for _ in range(1)))
    assert 0 < len(done) < 20
    await asyncio.sleep(0)
    assert len(done) < 20
    await asyncio.gather(slices.wait(), slices.wait())
    assert done == [*range(20), "last"]


async def test_too_much_work_is_replaced(monkeypatch):
    monkeypatch.setattr(slices_module, "MAX_WAITING", 2)
    done, overflow = [], []
    slices = Slices(lambda: iter(overflow.append(1) for _ in range(1)))
    for _ in range(3):
        slices.add(slowly(done, 20))
    await slices.wait()
    assert overflow == [1]
    assert len(done) < 20


async def test_work_that_is_stopped_is_left():
    done = []
    slices = Slices(dict)
    slices.add(slowly(done, 20))
    cancelled = asyncio.ensure_future(slices.wait())
    waiting = asyncio.ensure_future(slices.wait())
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.sleep(0)
    slices.stop()
    await waiting
    count = len(done)
    await settle()
    assert len(done) == count < 20


@pytest.fixture
async def todos():
    app = App().use("todos", MemoryService(start_id=1))
    todos = app.service("todos").live(pause=0.001)
    live_lists_of(app)
    await app.setup()
    yield todos
    await app.teardown()


async def test_a_client_has_at_most_half_of_the_reads(todos):
    """And four are read at once."""
    lists = live_lists_of(todos.app)
    reading, most = [], {}
    go_on = asyncio.Event()

    async def wait(context):
        user = context.params.user["id"]
        reading.append(user)
        counts = {each: reading.count(each) for each in "ab"}
        most.update({each: max(counts[each], most.get(each, 0)) for each in "ab"})
        most["all"] = max(len(reading), most.get("all", 0))
        await go_on.wait()
        await asyncio.sleep(0)
        reading.remove(user)

    todos.hooks(before={"find": [wait]})
    callers = {user: connection(user={"id": user}) for user in "ab"}
    opening = [
        asyncio.ensure_future(Client(lists, todos, callers[user], n=number).open())
        for user in "aaaaab"
        for number in [len(callers), *range(5)]
    ]
    await settle()
    assert reading == ["a", "a", "b", "b"]
    go_on.set()
    await asyncio.gather(*opening)
    assert most == {"a": 2, "b": 2, "all": 4}


async def test_a_list_that_is_closed_before_its_turn_is_not_read(todos):
    lists = live_lists_of(todos.app)
    read, go_on = [], asyncio.Event()

    async def wait(context):
        read.append(context.params.query["n"])
        await go_on.wait()

    todos.hooks(before={"find": [wait]})
    caller = connection(user={"id": 1})
    clients = [Client(lists, todos, caller, n=number) for number in range(4)]
    opening = [asyncio.ensure_future(client.open()) for client in clients]
    await settle()
    assert read == [0, 1]
    for client in clients[1:]:  # one that is read, and two that wait
        lists.close(client.list)
    go_on.set()
    await asyncio.gather(*opening, return_exceptions=True)
    assert read == [0, 1]
    assert clients[0].kinds == ["snapshot"]


async def test_a_slow_list_rests_for_four_times_as_long(todos):
    lists = live_lists_of(todos.app)
    ended = []

    async def be_slow(context):
        await asyncio.sleep(0.1)
        ended.append(time.monotonic())

    todos.hooks(before={"find": [be_slow]})
    client = await Client(lists, todos).open()
    for n in range(3):
        await todos.create({"n": n})
        await client.rest()
    assert client.list.group.not_before >= ended[-1] + 0.39
    await todos.create({"n": 3})
    await settle()
    assert client.list.group.timer is not None
    assert await client.rest() == ["snapshot", *["entered"] * 4]


async def test_a_list_whose_database_was_away_once_is_not_slow(todos):
    lists = live_lists_of(todos.app)
    client = await Client(lists, todos).open()
    before = client.list.group.took

    async def wait(context):
        await asyncio.sleep(0.5)

    todos.hooks(before={"find": [wait]})
    await todos.create({"n": 1})
    assert await client.rest() == ["snapshot", "entered"]
    assert client.list.group.took <= 2 * before + 0.01


async def test_a_change_of_many_lists_does_not_hold_the_event_loop(todos):
    lists = live_lists_of(todos.app)
    clients = [await Client(lists, todos, n={"$gt": number}).open() for number in range(300)]
    await todos.create({"n": 1_000})
    rests = asyncio.ensure_future(asyncio.gather(*(client.rest() for client in clients)))
    rounds = 0
    while not rests.done():
        rounds += 1
        await asyncio.sleep(0)
    assert all(client.kinds == ["snapshot", "entered"] for client in clients)
    assert rounds > 70  # four reads in each
