"""Connections that sleep while their clients are away, and what these get when they come back."""

from __future__ import annotations

import itertools
import json
import logging

import pytest
from tests.realtime.asgi_peer import Clock, Peer, settle
from tests.realtime.test_socketio import Unsendable, joined, make
from tests.waiting import eventually

from alula.realtime._recovery import EventWithOffset, MissedEvents, RecoverOptions

pytestmark = pytest.mark.usefixtures("has_extension")


@pytest.fixture
def web():
    return make(recover=60, backlog=7)  # five events are kept


async def numbers(peer, count):
    """Return the numbers and offsets of the next events."""
    events = [(await peer.next())[1] for _ in range(count)]
    return [event[1]["n"] for event in events], [event[2] for event in events]


async def publish(web, *values):
    for value in values:
        await web.service("feed").create({"n": value})


async def back(web, joined, offset=None):
    """Return a client that comes back, and what it is told."""
    peer = Peer(web)
    auth = {"pid": joined["pid"]} | ({} if offset is None else {"offset": offset})
    return peer, await peer.join(auth)


async def test_a_client_that_comes_back_gets_what_it_missed(web):
    told = []
    web.on("connection", told.append)
    web.on("disconnect", told.append)
    peer = Peer(web)
    first = await peer.join()
    await publish(web, 1, 2)
    assert (await numbers(peer, 2))[0] == [1, 2]
    await publish(web, 3)
    _, offsets = await numbers(peer, 1)
    [connection] = web.channel("everyone").connections
    await peer.leave()
    assert connection.is_asleep
    assert connection.queued == 0
    await publish(web, 4, 5)
    peer, again = await back(web, first, offsets[-1])
    assert again == first
    assert (await numbers(peer, 2))[0] == [4, 5]
    assert not connection.is_asleep
    assert web.channel("everyone").connections == [connection]
    assert told == [connection]
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    await peer.leave()
    # What was under way when the network failed is sent again: here all since the first event.
    peer, _ = await back(web, first, offsets[-1])
    assert (await numbers(peer, 2))[0] == [4, 5]
    peer.send("41")
    await settle()
    assert told == [connection, connection]
    await peer.leave()


async def test_a_client_that_never_got_an_event_gets_all(web):
    peer = Peer(web)
    first = await peer.join()
    await peer.leave()
    await publish(web, 1, 2)
    peer, again = await back(web, first)
    assert again == first
    assert (await numbers(peer, 2))[0] == [1, 2]
    peer.send("41")
    await peer.leave()


class SignIn:
    def forget(self):
        pass

    def check(self):
        pass


async def test_the_next_user_of_a_connection_gets_nothing_of_the_one_before(web):
    peer = Peer(web)
    first = await peer.join()
    [connection] = web.channel("everyone").connections
    connection.sign_in = SignIn()
    await publish(web, 1)
    _, offsets = await numbers(peer, 1)
    connection.sign_in = SignIn()  # somebody else signs in
    await peer.leave()
    peer, again = await back(web, first, "")
    assert again["sid"] != first["sid"]
    await peer.leave()

    peer = Peer(web)
    first = await peer.join()
    connection = web.channel("everyone").connections[-1]
    connection.sign_in = SignIn()
    await publish(web, 2)
    _, offsets = await numbers(peer, 1)
    connection.sign_in = SignIn()
    await peer.leave()
    await publish(web, 3)
    peer, again = await back(web, first, offsets[-1])  # it has all that was for the one before
    assert again == first
    assert (await numbers(peer, 1))[0] == [3]
    await peer.leave()


@pytest.mark.parametrize("offset", ["", "unknown", 5])
async def test_a_gap_is_a_new_connection(web, offset):
    peer = Peer(web)
    first = await peer.join()
    await publish(web, *range(7))
    await peer.leave()
    peer, again = await back(web, first, offset)
    assert again["pid"] != first["pid"]
    assert again["sid"] != first["sid"]
    peer.send("41")
    await peer.leave()


async def test_a_connection_that_missed_too_much_ends(web):
    told = []
    web.on("disconnect", told.append)
    peer = Peer(web)
    await peer.join()
    await peer.leave()
    await publish(web, *range(5))
    assert told == []
    await publish(web, 5)
    assert len(told) == 1
    assert web.channels == []


async def test_a_connection_ends_if_the_bus_has_lost_events(web):
    peer = Peer(web)
    first = await peer.join()
    await peer.leave()
    web.channel_registry.report_gap()
    assert web.channel("everyone").connections == []
    peer, again = await back(web, first)
    assert again["pid"] != first["pid"]
    await peer.leave()


async def test_a_connection_does_not_sleep_forever():
    web = make(recover=1)
    ended = []
    web.on("disconnect", ended.append)
    peer = await joined(web)
    await peer.leave()
    assert ended == []
    await eventually(lambda: ended)
    assert web.channels == []


@pytest.mark.parametrize("pid", ["unknown", 5, None, ["a"], "__proto__"])
async def test_an_unknown_secret_is_a_new_connection(web, pid):
    peer = Peer(web)
    assert (await peer.join({"pid": pid}))["pid"] != pid
    peer.send("41")
    await peer.leave()


async def test_a_slow_reader_recovers(web):
    peer = Peer(web)
    first = await peer.join()
    peer.reads.clear()
    await publish(web, *range(9))
    assert [c.is_asleep for c in web.channel("everyone").connections] == [True]
    peer.reads.set()
    await peer.wait_closed()
    received = [peer.from_server.get_nowait() for _ in range(peer.from_server.qsize())]
    peer, again = await back(web, first)
    assert again["pid"] != first["pid"]  # four of nine are not kept any more
    assert len(received) <= 2
    peer.send("41")
    await peer.leave()


async def stalled(web, first):
    """Return a client that comes back, and reads nothing from the answer to its join on."""
    peer = Peer(web)
    assert (await peer.next())[0] == "0"
    peer.reads.clear()
    peer.send("40/other,", "40" + json.dumps({"pid": first["pid"]}))  # the first is being sent
    await settle()
    peer.reads.set()
    return peer


@pytest.mark.parametrize(("count", "is_recovered"), [(2, True), (3, False), (7, False)])
async def test_all_that_is_kept_does_not_make_a_slow_reader(web, count, is_recovered):
    peer = Peer(web)
    first = await peer.join()
    await peer.leave()
    for number in range(count):  # each has two frames
        web.service("feed").emit("created", {"n": number, "attached": b"x"})
    peer = await stalled(web, first)
    assert (await peer.next())[0] == "44/other,"
    head, again = await peer.next()
    assert head == "40"
    assert (again == first) == is_recovered
    assert len(web.channel("everyone").connections) == 1
    peer.send("41")
    await peer.leave()


async def test_a_connection_whose_events_do_not_fit_ends(monkeypatch):
    monkeypatch.setattr("alula.realtime._sockets._offsets", itertools.count(1))
    web = make(recover=60)
    ended = []
    web.on("disconnect", ended.append)
    peer = Peer(web)
    first = await peer.join()
    await peer.leave()
    # Together with the answer to the join, the long event is more than may wait for a reader.
    web.service("feed").emit("created", "x" * (1024 * 1024 - 60))
    web.service("feed").emit("created", "")
    [connection] = web.channel("everyone").connections
    peer = await stalled(web, first)
    assert ended == [connection]
    assert web.channels == []
    await peer.wait_closed()
    peer, again = await back(web, first)
    assert again["pid"] != first["pid"]
    peer.send("41")
    await peer.leave()


async def test_a_bad_packet_and_a_closed_connection_do_not_sleep(web):
    peer = await joined(web)
    peer.send("4bad")
    await peer.wait_closed()
    assert web.channels == []
    peer = await joined(web)
    [connection] = web.channel("everyone").connections
    await connection.close("expired")
    await peer.wait_closed()
    await settle()
    assert web.channels == []
    peer = await joined(web)
    [connection] = web.channel("everyone").connections
    await peer.leave()
    await connection.close("expired")  # while it sleeps
    assert web.channels == []
    peer = await joined(web)
    await peer.leave()
    web.endpoints.close()
    assert web.channels == []


async def test_not_too_many_sleep(web, monkeypatch):
    monkeypatch.setattr("alula.realtime._recovery.MAX_ASLEEP", 2)
    for _ in range(4):
        peer = await joined(web)
        await peer.leave()
    assert len(web.channel("everyone").connections) == 2
    web.endpoints.close()


async def test_a_flood_of_one_client_ends_its_own_sleep(web, monkeypatch):
    monkeypatch.setattr("alula.realtime._recovery.MAX_ASLEEP", 4)
    victim = Peer(web, ip="10.0.0.2")
    first = await victim.join()
    await victim.leave()
    for _ in range(20):
        await (await joined(web)).leave()
    assert len(web.channel("everyone").connections) == 4
    victim = Peer(web, ip="10.0.0.2")
    assert await victim.join({"pid": first["pid"]}) == first
    await victim.leave()
    for number in range(3, 6):  # one more of somebody else: it is still not the victim's
        await (await joined(web, ip=f"10.0.0.{number}")).leave()
    victim = Peer(web, ip="10.0.0.2")
    assert await victim.join({"pid": first["pid"]}) == first
    await victim.leave()
    web.endpoints.close()
    assert web.channels == []


@pytest.mark.parametrize("data", [object(), Unsendable()])
async def test_an_event_without_a_json_form_is_logged(web, data, caplog):
    caplog.set_level(logging.ERROR)
    peer = await joined(web)
    web.service("feed").emit("created", data)
    assert "its data has no JSON form" in caplog.text
    peer.send("41")
    await peer.leave()


def test_old_events_and_too_many_bytes_are_dropped():
    clock = Clock()
    missed = MissedEvents(RecoverOptions(60, 100, 10), clock)
    events = [EventWithOffset(f"{number:x}", ["42"], 4) for number in range(5)]
    assert missed.append(events[0])
    clock.advance(61)
    assert missed.append(events[1])  # the first is too old for anybody to need it
    assert missed.after("") is None
    assert missed.after("0") == [events[1]]
    assert missed.append(events[2])
    assert not missed.append(events[3])
    assert missed.after("1") == [events[2], events[3]]
    assert missed.after("3") == []
    assert missed.after("0") is None


async def test_after_lost_events_all_clients_join_anew(web):
    told = []
    web.on("disconnect", told.append)
    awake, asleep, joining = Peer(web), Peer(web), Peer(web)
    first, second = await awake.join(), await asleep.join()
    await asleep.leave()
    await joining.next()  # it has not joined yet, so it has missed nothing
    web.channel_registry.report_gap()
    assert len(told) == 2
    await awake.wait_closed()
    for before in (first, second):
        peer, again = await back(web, before)
        assert again["pid"] != before["pid"]
        peer.send("41")
        await peer.leave()
    await joining.leave()
    await awake.leave()


async def test_without_recovery_lost_events_close_no_connection():
    web = make()
    peer = Peer(web)
    await peer.join()
    web.channel_registry.report_gap()
    await publish(web, 1)
    assert (await peer.next())[1][1]["n"] == 1
    await peer.leave()


@pytest.mark.parametrize("joins", ["before it leaves", "while it is away"])
async def test_a_client_gets_nothing_of_a_channel_from_before_it_joined(web, joins):
    web.service("feed").publish("created")(lambda data, context: web.channel(data["n"][0]))
    ada = Peer(web)
    await ada.join()
    [of_ada] = web.channel("everyone").connections
    web.channel("room").join(of_ada)
    bob = Peer(web)
    first = await bob.join()
    [of_bob] = set(web.channel("everyone").connections) - {of_ada}
    await publish(web, ["everyone", 1], ["room", 2])
    _, offsets = await numbers(bob, 1)
    if joins == "before it leaves":
        web.channel("room").join(of_bob)
    await bob.leave()
    if joins == "while it is away":
        await publish(web, ["room", 3])
        web.channel("room").join(of_bob)
    await publish(web, ["room", 4])
    for offset in (None, offsets[0]):
        bob, _ = await back(web, first, offset)
        events = [["room", 4]] if offset else [["everyone", 1], ["room", 4]]
        assert (await numbers(bob, len(events)))[0] == events
        await bob.leave()
    assert (await numbers(ada, 3))[0][:2] == [["everyone", 1], ["room", 2]]
    await ada.leave()
