"""What every bus promises: order, none twice, a limited queue, and local events without waiting."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging

import pytest
from tests.realtime.processes import QUICK, Process, processes
from tests.waiting import eventually

from alula import App
from alula._hub import Hub, WorkerDirectory
from alula.realtime import Bus, BusEvent
from alula.realtime._bus import _relay, connect_bus


class Broker:
    """What buses of one test share: all events, in one order.

    Attributes:
        events: The events.
        error: What publishing and receiving raise, None if all is well.
        hangs: Whether publishing never returns.
    """

    def __init__(self):
        self.events = []
        self.error = None
        self.hangs = False
        self.changed = asyncio.Event()

    def wake(self):
        self.changed.set()
        self.changed = asyncio.Event()

    def fail(self, error):
        self.error = error
        self.wake()


class BrokerBus(Bus):
    def __init__(self, broker):
        self.broker = broker
        self.closed = 0

    def __repr__(self):
        return "the broker"

    async def publish(self, event):
        if self.broker.error is not None:
            raise self.broker.error
        self.broker.events.append(event)
        self.broker.wake()
        if self.broker.hangs:
            await asyncio.Event().wait()

    async def events(self, after=None):
        at = len(self.broker.events) if after is None else int(after)
        if self.broker.error is None:
            yield BusEvent(str(at), b"")
        while self.broker.error is None:
            while at < len(self.broker.events):
                at += 1
                yield BusEvent(str(at), self.broker.events[at - 1])
            await self.broker.changed.wait()
        raise self.broker.error

    async def close(self):
        self.closed += 1
        if self.closed > 1:
            raise RuntimeError("closed already")


@pytest.fixture
def broker():
    return Broker()


async def test_own_events_that_come_back_are_dropped(broker):
    async with processes(BrokerBus(broker), BrokerBus(broker)) as (first, second):
        first.publish(1)
        second.publish(2)
        await eventually(lambda: (first.received, second.received) == ([2], [1]))


async def test_forwarding_neither_waits_nor_raises(broker):
    broker.fail(ConnectionError("away"))
    async with asyncio.timeout(30):
        process = Process(BrokerBus(broker))
        process.relay.start()
        await eventually(lambda: process.relay.state() == "away")
        process.publish(*range(100))
        assert process.relay.pending == 100
        await process.relay.stop()


async def test_a_bus_that_goes_away_is_logged_once_and_caught_up_with(broker, caplog):
    caplog.set_level(logging.INFO, "alula.realtime.bus")
    async with processes(BrokerBus(broker), BrokerBus(broker)) as (first, second):
        first.publish(1)
        await eventually(lambda: second.received == [1])
        broker.fail(OSError())
        first.publish(*range(2, 600))
        await eventually(lambda: first.relay.state() == "away")
        await asyncio.sleep(0.05)  # some tries
        assert first.relay.pending == 598
        broker.error = None
        await eventually(lambda: len(second.received) == 599)
        assert second.received == list(range(1, 600))
        await eventually(lambda: (first.relay.state(), second.relay.state()) == ("ok", "ok"))
    assert caplog.text.count("the broker is away (OSError)") == 2  # once for each process
    assert caplog.text.count("the broker is back") == 2


async def test_a_bus_whose_own_tasks_are_cancelled_is_tried_again(broker):
    async with processes(BrokerBus(broker), BrokerBus(broker)) as (first, second):
        broker.fail(asyncio.CancelledError())
        first.publish(1)
        await eventually(lambda: (first.relay.state(), second.relay.state()) == ("away", "away"))
        broker.error = None
        await eventually(lambda: second.received == [1])


async def test_what_is_published_again_arrives_once(broker):
    settings = dataclasses.replace(QUICK, publish_timeout=0.01)
    async with processes(BrokerBus(broker), BrokerBus(broker), settings=settings) as (
        first,
        second,
    ):
        broker.hangs = True  # each event is taken, and the acknowledgement does not come
        first.publish(1, 2, 3)
        await eventually(lambda: len(broker.events) > 4)
        broker.hangs = False
        await eventually(lambda: second.received == [1, 2, 3])
        await eventually(lambda: first.relay.pending == 0)
        assert len(broker.events) > 6
        assert second.received == [1, 2, 3]
        assert second.relay.missed == 0


async def test_a_slow_bus_gets_no_more_at_once_than_it_can_take(broker):
    class Slow(BrokerBus):
        async def publish_many(self, events):
            await asyncio.sleep(sum(map(len, events)) / 20_000_000)  # seconds: 20 MB in each
            await super().publish_many(events)

    settings = dataclasses.replace(QUICK, publish_timeout=0.2)
    async with processes(Slow(broker), Slow(broker), settings=settings) as (first, second):
        records = ["x" * 100_000 for _ in range(60)]
        first.publish(*records)
        await eventually(lambda: second.received == records)


@pytest.mark.parametrize("limits", [{"max_pending": 10}, {"max_pending_bytes": 2_000}])
async def test_the_oldest_events_are_dropped_from_a_full_queue(broker, limits, caplog):
    settings = dataclasses.replace(QUICK, **limits)
    async with processes(BrokerBus(broker), BrokerBus(broker), settings=settings) as (
        first,
        second,
    ):
        first.publish("first")
        await eventually(lambda: second.received == ["first"])
        broker.fail(ConnectionError("gone"))
        await eventually(lambda: first.relay.state() == "away")
        first.publish(*range(100))
        assert first.relay.dropped == 101 - 1 - first.relay.pending
        left = first.relay.pending
        assert 5 < left < 20
        broker.error = None
        await eventually(lambda: len(second.received) == left + 1)
        assert second.received == ["first", *range(100 - left, 100)]
        assert second.relay.missed == first.relay.dropped
        assert (first.gaps, second.gaps) == (0, 1)
    assert "events of another process did not arrive" in caplog.text


async def test_an_event_that_cannot_be_encoded_is_left_out(broker, caplog):
    async with processes(BrokerBus(broker), BrokerBus(broker)) as (first, second):
        first.publish({"x": object()}, "x" * (Bus.max_event_bytes + 1), "fine")
        await eventually(lambda: second.received == ["fine"])
        assert first.relay.dropped == 2
    assert "it cannot be encoded" in caplog.text
    assert f"over the limit of {Bus.max_event_bytes}" in caplog.text


async def test_a_record_that_changes_afterwards_travels_as_it_was(broker):
    async with processes(BrokerBus(broker), BrokerBus(broker)) as (first, second):
        record = {"n": 1}
        first.publish(record)
        record["n"] = 2
        await eventually(lambda: second.received == [{"n": 1}])


async def test_an_event_that_cannot_be_read_is_left_out(broker, caplog):
    async with processes(BrokerBus(broker), BrokerBus(broker)) as (first, second):
        await BrokerBus(broker).publish(b"of another program")
        header = json.dumps([2, "another", 1, 0, "tag"]).encode()
        await BrokerBus(broker).publish(header + b"\n[]")
        first.publish(1)
        await eventually(lambda: second.received == [1])
    assert "it cannot be read" in caplog.text


async def test_a_bus_whose_events_end_is_asked_again(broker):
    class Short(BrokerBus):
        async def events(self, after=None):
            asked.append(after)
            async for event in super().events(after):
                yield event
                if event.event:
                    return

    asked = []
    async with processes(BrokerBus(broker), Short(broker)) as (first, second):
        first.publish(1, 2)
        await eventually(lambda: second.received == [1, 2])
        await eventually(lambda: asked[:3] == [None, "1", "2"])


async def test_the_latest_numbers_of_a_limited_number_of_processes_are_kept(broker, monkeypatch):
    monkeypatch.setattr(_relay, "_MAX_ORIGINS", 2)
    async with processes(*(BrokerBus(broker) for _ in range(4))) as (first, *others):
        for number, other in enumerate(others):
            other.publish(number)
            await eventually(lambda: len(first.received) == number + 1)  # noqa: B023  # awaited in this turn
        assert list(first.relay._sequences) == [other.origin for other in others[1:]]


async def test_a_bus_that_takes_too_long_to_stop_is_left_behind(broker, caplog):
    settings = dataclasses.replace(QUICK, flush_timeout=0.02)
    async with processes(BrokerBus(broker), settings=settings) as (first,):
        broker.hangs = True
        first.publish(1)
        await eventually(lambda: broker.events)
    assert "1 events were not published: the broker was away" in caplog.text


async def test_what_a_bus_has_to_define():
    with pytest.raises(NotImplementedError, match=r"Bus does not define publish\(event\)"):
        await Bus().publish(b"")
    with pytest.raises(NotImplementedError, match=r"Bus does not define events\(after\)"):
        Bus().events()
    assert await Bus().close() is None


# -- the bus of an application ---------------------------------------------------------------------


class Messages:
    async def create(self, data, params):
        return data


def application(bus=None):
    app = App().use("messages", Messages())
    app.publish(lambda data, context: app.channel("all"))
    connect_bus(app, bus)
    return app


async def test_an_application_uses_its_bus_from_setup_to_teardown(broker, caplog):
    bus = BrokerBus(broker)
    first, second = application(bus), application(BrokerBus(broker))
    heard = []
    second.channel_registry.follow("messages", lambda event, data, context: heard.append(data))
    await first.setup()
    await second.setup()
    assert first.settings["health notes"]["realtime bus"]() == "ok"
    while not heard:  # the second listens some moments later
        await first.service("messages").create({"text": "hello"})
        await asyncio.sleep(0.005)
    assert heard[0] == {"text": "hello"}
    await first.teardown()
    assert first.settings["health notes"] == {}
    assert bus.closed == 1
    await first.service("messages").create({"text": "nobody hears this"})
    await first.setup()
    await first.teardown()  # where close() fails; that is no news
    await second.teardown()


async def test_transports_share_one_bus(broker):
    bus = BrokerBus(broker)
    app = application(bus)
    connect_bus(app)
    connect_bus(app, bus)
    with pytest.raises(ValueError, match="has the bus the broker already"):
        connect_bus(app, BrokerBus(broker))
    late = application()
    connect_bus(late, bus)
    await late.setup()
    assert late.channel_registry.forward is not None
    await late.teardown()
    assert late.channel_registry.forward is None


def test_a_bus_is_a_bus():
    with pytest.raises(TypeError, match=r"bus='redis://here' is not a Bus; write RedisBus\(url\)"):
        connect_bus(App(), "redis://here")


async def test_without_a_bus_or_a_hub_nothing_is_forwarded():
    app = application()
    await app.setup()
    assert app.channel_registry.forward is None
    await app.teardown()


async def test_workers_find_the_hub(monkeypatch):
    directory = WorkerDirectory()
    monkeypatch.setattr("os.getppid", __import__("os").getpid)
    for name, value in directory.next_environment().items():
        monkeypatch.setenv(name, value)
    async with Hub(directory.hub):
        app = application()
        await app.setup()
        assert app.channel_registry.forward is not None
        await eventually(lambda: app.settings["health notes"]["realtime bus"]() == "ok")
        await app.teardown()
    directory.close()


async def test_a_gap_that_the_bus_knows_of_is_told(caplog):
    class Forgetful(Bus):
        async def events(self, after=None):
            yield BusEvent("5", b"", is_behind_gap=True)
            await asyncio.Event().wait()

    async with processes(Forgetful()) as (process,):
        await eventually(lambda: process.gaps == 1)
    assert "no longer has events that did not arrive here" in caplog.text
