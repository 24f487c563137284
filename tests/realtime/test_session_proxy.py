"""A client comes back at another worker than the one where its connection sleeps."""

from __future__ import annotations

import asyncio
import os

import pytest
from tests.realtime.asgi_peer import Peer
from tests.realtime.test_socketio import make
from tests.waiting import eventually

from alula._hub import Hub, WorkerDirectory
from alula.realtime import _handover, _session_proxy
from alula.realtime._session_proxy import SessionProxy


@pytest.fixture
async def workers(monkeypatch):
    """Two applications that take each other for another worker."""
    directory = WorkerDirectory()
    monkeypatch.setattr("os.getppid", os.getpid)
    monkeypatch.setattr(_handover, "_numbers", iter([0] * 9))
    started = []

    async def start(**options):
        for name, value in directory.next_environment().items():
            monkeypatch.setenv(name, value)
        started.append(make(recover=60, **options))
        await started[-1].setup()
        return started[-1]

    async with Hub(directory.hub):
        yield start
        for web in started:
            await web.teardown()
    directory.close()


async def publish(web, *values):
    for value in values:
        await web.service("feed").create({"n": value})


async def events(peer, count):
    """Return the numbers of the next events, and the last offset."""
    received = [(await peer.next())[1] for _ in range(count)]
    return [event[1]["n"] for event in received], received[-1][2]


async def asleep(web):
    """Return what a client was told that has received one event, and the offset."""
    peer = Peer(web)
    told = await peer.join()
    await publish(web, 1)
    numbers, offset = await events(peer, 1)
    assert numbers == [1]
    await peer.leave()
    return told, offset


async def test_a_client_gets_what_it_missed_and_goes_on(workers):
    one, two = await workers(), await workers()
    told, offset = await asleep(one)
    [connection] = one.channel("everyone").connections
    await publish(one, 2, 3)
    peer = Peer(two, headers={"x-tenant": "acme"})
    assert await peer.join({"pid": told["pid"], "offset": offset}) == told
    assert (await events(peer, 2))[0] == [2, 3]
    assert not connection.is_asleep
    assert two.channel("everyone").connections == []
    await publish(one, 4)
    assert (await events(peer, 1))[0] == [4]
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    # It leaves without a word, sleeps again, and comes back at its own worker.
    await peer.leave()
    await eventually(lambda: connection.is_asleep)
    peer = Peer(one)
    assert await peer.join({"pid": told["pid"], "offset": offset}) == told
    assert (await events(peer, 3))[0] == [2, 3, 4]
    await peer.leave()


async def test_binary_data_passes_both_ways(workers):
    one, two = await workers(), await workers()
    told, offset = await asleep(one)
    peer = Peer(two)
    await peer.join({"pid": told["pid"], "offset": offset})
    peer.send('451-7["create","things",{"data":{"_placeholder":true,"num":0}}]', b"\x00\xff")
    assert await peer.next() == ("461-7", [None, {"data": {"_placeholder": True, "num": 0}}])
    assert await peer.next() == b"\x00\xff"
    await peer.leave()


async def test_heartbeats_are_those_of_each_worker(workers):
    one, two = await workers(ping_interval=0.03, ping_timeout=1.5), await workers()
    told, offset = await asleep(one)
    peer = Peer(two)
    await peer.join({"pid": told["pid"], "offset": offset})
    await asyncio.sleep(1.8)  # longer than an interval and a timeout
    await publish(one, 2)
    assert (await events(peer, 1))[0] == [2]
    await peer.leave()


async def test_a_client_joins_anew_where_its_events_are_gone(workers):
    one, two = await workers(), await workers()
    told, _ = await asleep(one)
    peer = Peer(two)
    again = await peer.join({"pid": told["pid"], "offset": "unknown"})
    assert again["pid"] != told["pid"]
    await peer.leave()


async def test_a_client_joins_anew_where_its_worker_has_ended(workers):
    one, two = await workers(), await workers()
    told, offset = await asleep(one)
    await one.teardown()
    peer = Peer(two)
    again = await peer.join({"pid": told["pid"], "offset": offset})
    assert again["pid"] != told["pid"]
    await eventually(lambda: two.channel("everyone").connections)
    await peer.leave()


async def test_a_client_that_its_worker_refuses_joins_here(workers):
    one, two = (
        await workers(admit=lambda handshake: handshake.query.get("refused")),
        await workers(),
    )
    told, offset = await asleep(one)
    peer = Peer(two, "/socket.io/?EIO=4&transport=websocket&refused=yes")
    again = await peer.join({"pid": told["pid"], "offset": offset})
    assert again["pid"] != told["pid"]
    assert len(two.channel("everyone").connections) == 1
    await peer.leave()


async def test_a_client_that_has_left_before_it_is_refused_joins_nowhere(workers):
    entered, decided = asyncio.Event(), asyncio.Event()

    async def admit(handshake):
        if "slow" in handshake.query:
            entered.set()
            await decided.wait()
        return "no" if entered.is_set() else None

    one, two = await workers(admit=admit), await workers()
    told, offset = await asleep(one)
    peer = Peer(two, "/socket.io/?EIO=4&transport=websocket&slow=yes")
    peer.send(f'40{{"pid":"{told["pid"]}","offset":"{offset}"}}')
    await entered.wait()
    leaving = asyncio.ensure_future(peer.leave())
    await asyncio.sleep(0.02)
    decided.set()
    await leaving
    assert two.channel("everyone").connections == []


async def test_a_client_whose_worker_ends_its_connection_is_disconnected(workers):
    one, two = await workers(), await workers()
    told, offset = await asleep(one)
    peer = Peer(two)
    await peer.join({"pid": told["pid"], "offset": offset})
    await one.teardown()
    await peer.wait_closed()


async def test_a_client_that_leaves_at_once_is_forgotten(workers):
    one, two = await workers(), await workers()
    told, offset = await asleep(one)
    [connection] = one.channel("everyone").connections
    peer = Peer(two)
    peer.send(f'40{{"pid":"{told["pid"]}","offset":"{offset}"}}')
    await peer.next()
    await peer.leave()
    await eventually(lambda: connection.is_asleep)


async def test_a_client_that_sends_without_end_is_disconnected(workers, monkeypatch):
    monkeypatch.setattr(_session_proxy, "_MAX_FRAMES", 3)
    one, two = await workers(), await workers()
    told, offset = await asleep(one)
    peer = Peer(two)
    await peer.join({"pid": told["pid"], "offset": offset})
    peer.send(*['42["find","things"]'] * 50)
    await peer.wait_closed()


async def test_alone_nothing_is_handed_over():
    web = make(recover=60)
    await web.setup()
    told, offset = await asleep(web)
    peer = Peer(web)
    assert (await peer.join({"pid": f"w1.{told['pid']}", "offset": offset}))["pid"] != told["pid"]
    await peer.leave()
    await web.teardown()


class FakeSession:
    receiver = None
    reason = None

    def close(self, reason):
        self.reason = reason


async def test_what_waits_for_the_other_worker_is_bounded_by_bytes():
    session = FakeSession()
    proxy = SessionProxy(session, None, ["40{}"], None)
    frame = b"x" * 600_000
    for _ in range(2):
        proxy.receive(frame)
    assert session.reason is None
    proxy.receive(frame)
    assert session.reason == "transport error"
    session.reason = None
    for _ in range(4):  # the other worker reads
        await proxy._next_message()
    proxy.receive(frame)
    assert session.reason is None


async def test_a_connection_that_its_worker_closes_ends_here(workers):
    one, two = await workers(), await workers()
    told, offset = await asleep(one)
    peer = Peer(two)
    await peer.join({"pid": told["pid"], "offset": offset})
    [connection] = one.channel("everyone").connections
    await connection.close("expired")
    await peer.wait_closed()
    await peer.leave()
