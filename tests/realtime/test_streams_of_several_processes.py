"""Streams of server-sent events go on at another process, also at one that has just started."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from pymongo import AsyncMongoClient
from tests.realtime.test_sse import Stream
from tests.waiting import eventually

from alula import App
from alula._channels import Event
from alula._hub import Hub, WorkerDirectory
from alula.adapters.memory import MemoryService
from alula.authentication import protect
from alula.express import express, rest
from alula.realtime import Bus, BusEvent, MongoBus, PostgresBus, RecentEvents, RedisBus, sse
from alula.realtime._bus._hub_bus import HubBus


@pytest.fixture(params=["hub", "redis", "mongodb", "postgresql"])
def engine(request):
    """What carries the events, and where it is."""
    is_server = request.param != "hub"
    return request.param, request.getfixturevalue(f"{request.param}_url") if is_server else ""


@pytest.fixture
async def make_bus(engine):
    """Makes buses that reach each other."""
    name, url = engine
    if name == "redis":
        stream = f"test:{secrets.token_hex(4)}"
        yield lambda: RedisBus(url, stream=stream)
    elif name == "hub":
        directory = WorkerDirectory()
        async with Hub(directory.hub):
            yield lambda: HubBus(directory.hub)
        directory.close()
    elif name == "postgresql":
        table = f"streams_{secrets.token_hex(4)}"
        yield lambda: PostgresBus(url, table=table)
    else:
        async with AsyncMongoClient(url) as client:
            name = f"streams_{secrets.token_hex(4)}"
            yield lambda: MongoBus(client[name]["events"])
            await client.drop_database(name)


@asynccontextmanager
async def process(bus, *, secret="s" * 32, publisher=None, **options):
    """An application as one process has it; it listens when the block begins."""
    app = express(App()).configure(rest()).configure(sse(bus=bus, **options))
    app.set("authentication_secret", secret)
    app.use("messages", MemoryService(start_id=1, multi=True))
    app.service("messages").hooks(after=[protect("secret")])

    @app.on("connection")
    def join(connection):
        app.channel("everyone", *connection.headers.get("x-rooms", "").split(",")).join(connection)

    def to_room(data, context):
        return app.channel(data.get("room", "everyone"))

    app.publish(publisher or to_room)
    await app.setup()
    try:
        await eventually(app.channel_registry.log._recalled.is_set)
        yield app
    finally:
        await app.teardown()


def numbers(events):
    return [data if event == "reset" else data["n"] for event, data in events]


async def create(app, *ns, **more):
    await app.service("messages").create([{"n": n, **more} for n in ns])


@pytest.fixture
async def listen():
    """Opens streams that are closed with the test."""
    async with AsyncExitStack() as stack:

        async def listen(app, last=None, **options):
            stream = Stream(app, "/messages", last=last, **options)
            stack.push_async_callback(stream.leave)
            return stream

        yield listen


async def test_a_client_comes_back_to_a_process_that_has_just_started(make_bus, listen):
    async with process(make_bus()) as one, process(make_bus()) as two:
        stream = await (await listen(one)).started()
        await create(one, 1)
        await create(two, 2)
        await stream.have(2)
        await stream.leave()
        await create(one, 3)
        await create(two, 4, 5)
        await eventually(lambda: len(one.channel_registry.log._entries) == 5)
    async with process(make_bus()) as three:  # the others have ended
        again = await listen(three, stream.last_id)
        got = await again.have(3)
        assert sorted(numbers(got)) == [3, 4, 5]
        assert numbers(got).index(4) < numbers(got).index(5)
        await create(three, 6)
        assert numbers(await again.have(4))[3] == 6
        # The ids of recalled events are as good as those of others.
        await again.leave()
        await create(three, 7)
        assert numbers(await (await listen(three, again.last_id)).have(1)) == [7]


async def test_it_gets_only_what_it_may(make_bus, listen):
    rooms = [("x-rooms", "a")]
    async with process(make_bus()) as one:
        stream = await (await listen(one, headers=rooms)).started()
        await create(one, 1, room="a", secret="x")
        await stream.have(1)
        await stream.leave()
        await create(one, 2, room="b", secret="x")
        await create(one, 3, room="a", secret="x")
    async with process(make_bus()) as two:
        again = await listen(two, stream.last_id, headers=rooms)
        [(event, data)] = await again.have(1)
        assert event == "created"
        assert data["n"] == 3
        assert "secret" not in data
    async with process(make_bus(), secret="o" * 32) as stranger:
        other = await listen(stranger, stream.last_id, headers=rooms)
        assert await other.have(1) == [("reset", None)]


async def test_a_client_that_was_away_too_long_is_told(make_bus, listen):
    async with process(make_bus()) as one:
        stream = await (await listen(one)).started()
        await create(one, 1)
        await stream.have(1)
        await stream.leave()
        await create(one, 2, 3, 4)
    async with process(make_bus(), keep=2) as two:
        # The last ones may arrive behind those from before: Redis numbers events by its clock.
        await eventually(lambda: 4 in two.channel_registry.log._sequences.values())
        assert await (await listen(two, stream.last_id)).have(1) == [("reset", None)]


class Memory(Bus):
    """A bus that keeps its events, or fails to tell them."""

    def __init__(self, events=(), error=None):
        self.kept, self.error = [*events], error
        self.complete_since = 1.0

    async def publish(self, event):
        self.kept.append(event)

    async def events(self, after=None):
        yield BusEvent("0", b"")
        await eventually(lambda: False)

    async def recent_events(self, before):
        if self.error is not None:
            raise self.error
        return RecentEvents([*self.kept], self.complete_since)


async def first_id(listen, bus):
    """The id of a client that is to miss an event of this bus."""
    async with process(bus) as one:
        stream = await (await listen(one)).started()
        await stream.leave()
        await asyncio.sleep(0.002)  # ids and events have milliseconds
        await create(one, 1)
    return stream.last_id


async def test_a_bus_that_cannot_tell_what_was_is_gone_on_without(listen, caplog):
    bus = Memory()
    last = await first_id(listen, bus)
    errors = (OSError("it broke"), asyncio.CancelledError())
    for other in (*(Memory(bus.kept, error) for error in errors), Bus_without_memory()):
        async with process(other) as two:
            assert await (await listen(two, last)).have(1) == [("reset", None)]
    assert "events from before are unknown" in caplog.text
    assert "it broke" in caplog.text


def Bus_without_memory():
    bus = Memory()
    bus.recent_events = lambda before: Bus.recent_events(bus, before)
    return bus


async def test_an_event_that_cannot_be_read_hides_no_other(listen, caplog):
    bus = Memory()
    last = await first_id(listen, bus)
    async with process(Memory([b"?", *bus.kept, *bus.kept])) as two:
        assert numbers(await (await listen(two, last)).have(1)) == [1]
    assert "it cannot be read" in caplog.text


async def test_many_events_are_recalled_in_turn_with_others(listen):
    bus = Memory()
    last = await first_id(listen, bus)
    async with process(bus) as one:
        await create(one, *range(2, 200))
    async with process(bus) as two:
        assert numbers(await (await listen(two, last)).have(199)) == [*range(1, 200)]


async def test_old_events_count_without_their_publishers():
    bus, asked = Memory(), []
    async with process(bus) as one:
        await create(one, 1)
        origin = one.channel_registry.origin
    short = {"keep_seconds": 0.0001, "heartbeat": 0.0001}
    async with process(bus, publisher=lambda data, context: asked.append(1), **short) as two:
        assert two.channel_registry.log._sequences == {origin: 1}
    assert asked == []


@pytest.mark.parametrize("error", [None, RuntimeError("no"), asyncio.CancelledError()])
async def test_asynchronous_publishers_are_asked_too(listen, error, caplog):
    bus = Memory()
    last = await first_id(listen, bus)

    async def publisher(data, context):
        if error is not None:
            raise error
        return context.app.channel("everyone")

    async with process(bus, publisher=publisher) as two:
        stream = await listen(two, last)
        await stream.started()
        assert numbers(stream.events) == ([1] if error is None else [])
    assert ("failed; nobody gets the event" in caplog.text) is (error is not None)


async def test_a_process_stops_though_it_still_recalls(listen, caplog):
    bus, asked = Memory(), asyncio.Event()
    await first_id(listen, bus)

    async def publisher(data, context):
        asked.set()
        await asyncio.Event().wait()

    app = express(App()).configure(rest()).configure(sse(bus=bus))
    app.use("messages", MemoryService()).publish(publisher)
    await app.setup()
    await asked.wait()
    async with asyncio.timeout(4):
        await app.teardown()
    assert caplog.text == ""


async def test_wrong_publishers_and_unknown_services_give_nothing(listen, caplog):
    bus = Memory()
    last = await first_id(listen, bus)
    async with process(bus, publisher=lambda data, context: 5) as two:
        assert (await (await listen(two, last)).started()).events == []
    assert "returned 5" in caplog.text
    app = express(App()).configure(rest()).configure(sse(bus=bus))
    await app.setup()
    await eventually(app.channel_registry.log._recalled.is_set)
    assert len(app.channel_registry.log._entries) == 0
    await app.teardown()


async def test_open_streams_are_told_of_events_that_are_lost(listen, caplog):
    caplog.set_level(logging.ERROR)
    async with process(Memory()) as app:
        stream = await (await listen(app)).started()
        log = app.channel_registry.log
        log.advance("other", 1)
        log.advance("other", 3)
        log.advance("other", 5)
        assert await stream.have(1) == [("reset", None)]
        await create(app, 1)
        assert numbers(await stream.have(2)) == [None, 1]


async def test_without_a_log_nothing_is_recalled():
    app = App().use("messages", MemoryService())
    await app.channel_registry.recall(None, 0)


async def test_a_bus_may_not_know_since_when_it_has_all(listen):
    bus = Memory()
    last = await first_id(listen, bus)
    bus.complete_since = None
    async with process(bus) as two:
        assert await (await listen(two, last)).have(1) == [("reset", None)]
        later = await (await listen(two)).started()
    async with process(bus) as three:  # the first event is from before this client
        assert (await (await listen(three, later.last_id)).started()).events == []


def heard(app, origin, *sequences):
    """Let an application hear events of another process."""
    for n in sequences:
        data = {"n": n}
        event = Event("messages", "created", data, data, origin=origin, sequence=n, method="create")
        app.channel_registry.receive(event)


async def test_a_client_that_passes_a_slow_process_gets_nothing_twice(listen):
    async with process(Memory()) as fast, process(Memory()) as slow:
        heard(fast, "a", 1, 2)
        stream = await (await listen(fast)).started()
        heard(fast, "a", 3, 4, 5)
        heard(fast, "b", 1)
        await stream.have(4)
        await stream.leave()
        heard(slow, "b", 1, 2)
        heard(slow, "a", 1, 2)  # its bus is late
        slow.channel_registry.log.end_recall(0)
        fast.channel_registry.log.end_recall(0)
        between = await listen(slow, stream.last_id)
        assert numbers(await between.have(1)) == [2]  # of b, with an id from before that of a
        await between.leave()
        again = await listen(fast, between.last_id)
        heard(fast, "b", 2, 3)
        heard(fast, "a", 6)
        assert numbers(await again.have(2)) == [3, 6]
        await again.leave()
        idle = await (await listen(slow, again.last_id)).started()
        await idle.leave()  # whose id is one without an event
        last = await listen(fast, idle.last_id)
        heard(fast, "b", 4)
        assert numbers(await last.have(1)) == [4]
        await last.leave()
        heard(slow, "b", 3, 4)
        heard(slow, "a", 3, 4, 5, 6)
        there = await (await listen(slow, last.last_id)).started()
        heard(slow, "a", 7)
        assert numbers(await there.have(1)) == [7]


async def test_a_client_that_a_process_does_not_know_gets_nothing_twice_behind_its_reset(listen):
    async with process(Memory()) as fast, process(Memory()) as slow:
        slow.channel_registry.log.end_recall(0)
        heard(fast, "a", 1)
        stream = await (await listen(fast)).started()
        heard(fast, "a", 2, 3, 4)
        await stream.have(3)
        await stream.leave()
        there = await listen(slow, stream.last_id)  # it has not heard of `a` yet
        assert await there.have(1) == [("reset", None)]
        heard(slow, "a", 2, 3, 4, 5)
        assert numbers(await there.have(2)) == [None, 5]
        heard(slow, "b", 1)
        await there.have(3)
        await there.leave()
        # The id of the last event has `a` where the client has it.
        again = await listen(slow, there.last_id)
        heard(slow, "a", 6)
        assert numbers(await again.have(1)) == [6]


async def test_a_process_that_nobody_hears_of_again_causes_one_reset(listen):
    async with process(Memory()) as gone, process(Memory()) as here:
        here.channel_registry.log.end_recall(0)
        heard(gone, "a", 1)
        stream = await (await listen(gone)).started()
        heard(gone, "a", 2)
        await stream.have(1)
        await stream.leave()
        first = await listen(here, stream.last_id)
        assert await first.have(1) == [("reset", None)]
        await create(here, 1)
        await first.have(2)
        await first.leave()
        await create(here, 2)
        second = await listen(here, first.last_id)
        assert numbers(await second.have(1)) == [2]
