"""What is limited is divided so that each client has something."""

from __future__ import annotations

import asyncio
import itertools
import re
import threading

import pytest

from alula._shares import Shares, Turns


def test_a_client_alone_has_half():
    shares = Shares(100)
    assert shares.take("a", 50)
    assert not shares.has_room("a", 1)
    assert not shares.take("a", 1)


def test_many_clients_share():
    shares = Shares(1_000)
    taken = [0, 0, 0, 0]
    for _ in range(1_000):
        for client in range(4):
            taken[client] += shares.take(client, 1)
    assert sum(taken) <= 1_000
    assert min(taken) >= 100
    assert shares.take("new", 1)


def test_the_server_itself_may_have_all():
    shares = Shares(10)
    assert shares.take(None, 10)
    assert not shares.has_room(None, 1)
    assert not shares.take(None, 1)
    shares.give_back(None, 10)
    assert shares.take(None, 10)


def test_what_is_given_back_leaves_nothing():
    shares = Shares(10)
    shares.take("a", 3)
    shares.give_back("a", 1)
    shares.give_back("a", 2)
    assert shares._taken == {}
    assert shares._free == 10


LONG = 0.006  # seconds of a call that others notice


class Calls:
    """Calls of clients that take time, and the order in which they begin."""

    def __init__(self):
        self.now = 1.0
        self.turns = Turns(lambda: self.now)
        self.begun = []

    async def call(self, name, seconds=LONG):
        self.begun.append(name)
        self.now += seconds
        return name

    async def others(self, rounds):
        """Tell in which round something else runs."""
        for number in range(rounds):
            self.begun.append(number)
            await asyncio.sleep(0)


@pytest.fixture
def calls():
    return Calls()


async def request(calls, client, name, seconds=LONG):
    """A task of its own, as a request has one."""
    return await calls.turns.take(client, calls.call(name, seconds))


async def test_calls_of_one_client_leave_turns_to_others(calls):
    tasks = [asyncio.create_task(request(calls, "a", name)) for name in "abcdef"]
    others = asyncio.create_task(calls.others(8))
    assert await asyncio.gather(*tasks) == [*"abcdef"]
    await others
    assert [name for name in calls.begun if isinstance(name, str)] == [*"abcdef"]
    runs = re.findall("[a-f]+", "".join(map(str, calls.begun)))
    assert runs == [*"abcdef"]  # something else ran between each two


async def test_another_client_does_not_wait(calls):
    many = [asyncio.create_task(request(calls, "a", name)) for name in "abcdef"]
    other = asyncio.create_task(request(calls, "b", "X"))
    await asyncio.gather(*many, other)
    assert calls.begun[:2] == ["a", "X"]


async def test_addresses_of_one_network_are_one_client(calls):
    addresses = [f"2001:db8::{number}" for number in range(3)]
    tasks = [asyncio.create_task(request(calls, address, address)) for address in addresses]
    other = asyncio.create_task(request(calls, "2001:db8:1::1", "X"))
    await asyncio.gather(*tasks, other)
    assert calls.begun == [addresses[0], "X", *addresses[1:]]


async def test_a_later_call_of_a_client_that_waits_does_not_overtake(calls):
    many = [asyncio.create_task(request(calls, "a", name)) for name in "abc"]
    await asyncio.sleep(0)
    later = asyncio.create_task(request(calls, "a", "X", 0))
    await asyncio.gather(*many, later)
    assert calls.begun == ["a", "b", "c", "X"]


async def test_short_calls_begin_at_once(calls):
    tasks = [asyncio.create_task(request(calls, "a", n, 0)) for n in range(100)]
    await asyncio.sleep(0)
    assert calls.begun == [*range(100)]
    await asyncio.gather(*tasks)


async def test_clients_that_are_not_known_have_no_turns(calls):
    tasks = [asyncio.create_task(request(calls, None, n)) for n in range(3)]
    await asyncio.sleep(0)
    assert calls.begun == [0, 1, 2]
    await asyncio.gather(*tasks)


async def test_a_call_that_is_given_up_takes_no_turn(calls):
    tasks = [asyncio.create_task(request(calls, "a", name)) for name in "abcd"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert calls.begun == ["a", "d"]


async def test_long_work_gives_way(calls):
    done = []

    async def work(name):
        for part in range(3):
            done.append((name, part))
            calls.now += LONG
            await calls.turns.give_way("a")

    async def other():
        for number in range(30):
            done.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(work("x"), work("y"), other())
    parts = [entry for entry in done if isinstance(entry, tuple)]
    assert sorted(parts) == sorted(itertools.product("xy", range(3)))
    at = [index for index, entry in enumerate(done) if entry in parts]
    assert any(second - first > 1 for first, second in itertools.pairwise(at))


def test_an_event_loop_that_has_ended_keeps_nobody(calls):
    loop = asyncio.new_event_loop()

    def begin_and_stop():
        calls.turns.take("a", calls.call("left")).close()
        loop.stop()

    async def come_back():
        return await asyncio.gather(*(request(calls, "a", name) for name in "xyz"))

    loop.call_soon(begin_and_stop)
    loop.run_forever()
    loop.close()
    calls.now += LONG
    assert asyncio.run(come_back()) == [*"xyz"]


def test_loops_of_several_threads_do_not_wait_for_each_other(calls):
    async def first():
        tasks = [asyncio.create_task(request(calls, "a", name)) for name in "ab"]
        await asyncio.sleep(0)
        other = threading.Thread(target=asyncio.run, args=[request(calls, "a", "X")])
        other.start()
        other.join()  # in the middle of a round
        await asyncio.gather(*tasks)

    asyncio.run(first())
    assert calls.begun == ["a", "X", "b"]


async def test_a_client_that_gives_up_all_calls_is_forgotten(calls):
    tasks = [asyncio.create_task(request(calls, "a", name)) for name in "ab"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.wait(tasks)
    calls.now += LONG
    assert await request(calls, "a", "c") == "c"
    assert calls.begun == ["a", "c"]
