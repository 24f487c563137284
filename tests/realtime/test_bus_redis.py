"""`RedisBus` on a real Redis: order, catching up, and what happens when Redis goes away."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time

import pytest
from redis.asyncio import Redis as Client
from redis.exceptions import RedisError
from tests.realtime.processes import QUICK, Process, processes
from tests.waiting import eventually

from alula.realtime._bus import RedisBus, _redis
from alula.realtime._bus._redis import _position_before


def bus_of(redis, *, timeout=20, **options):
    return RedisBus(redis.url, stream=redis.stream, timeout=timeout, **options)


async def test_events_reach_all_other_processes_in_order(redis_url):
    stream = f"test:{secrets.token_hex(4)}"
    buses = [RedisBus(redis_url, stream=stream) for _ in range(3)]
    async with processes(*buses) as (first, second, third):
        first.publish(*range(1_000))
        second.publish("a", "b")
        await eventually(lambda: len(third.received) == 1_002)
        assert [n for n in third.received if isinstance(n, int)] == list(range(1_000))
        await eventually(lambda: first.received == ["a", "b"])
        await eventually(lambda: second.received == list(range(1_000)))
    async with Client.from_url(redis_url) as client:
        await client.delete(stream)


async def test_a_process_gets_nothing_from_before_its_start(running_redis):
    async with processes(bus_of(running_redis), bus_of(running_redis)) as (first, second):
        first.publish(1)
        await eventually(lambda: second.received == [1])
    async with processes(bus_of(running_redis), bus_of(running_redis)) as (first, second):
        first.publish(2)
        await eventually(lambda: second.received == [2])


async def test_nor_if_the_response_about_the_time_comes_late(running_redis, monkeypatch):
    ask = Client.time

    async def ask_and_wait(client):
        found = await ask(client)
        await asyncio.sleep(0.1)
        return found

    monkeypatch.setattr(Client, "time", ask_and_wait)
    bus = bus_of(running_redis)
    await bus.publish(b"before")
    events = bus.events()
    assert (await anext(events)).event == b""
    await bus.publish(b"after")
    assert (await anext(events)).event == b"after"
    await events.aclose()
    await bus.close()


async def test_other_streams_are_not_heard(running_redis):
    other = RedisBus(running_redis.url, stream=f"{running_redis.stream}:2")
    async with processes(bus_of(running_redis), bus_of(running_redis), other) as (
        first,
        second,
        third,
    ):
        first.publish(1)
        await eventually(lambda: second.received == [1])
        assert third.received == []


async def test_the_stream_keeps_a_limited_number_of_events(running_redis):
    bus = bus_of(running_redis, keep=100)
    await bus.publish_many([b"x"] * 1_000)
    await bus.close()
    async with Client.from_url(running_redis.url) as client:
        assert 100 <= await client.xlen(running_redis.stream) < 300


async def test_tells_what_the_stream_keeps(running_redis):
    bus = bus_of(running_redis, keep=1_000)
    assert (await bus.recent_events("0-0")).events == []
    await bus.publish_many([f"{n}".encode() for n in range(600)])
    position = (await anext(events := bus.events())).position
    await bus.publish(b"later")
    recent = await bus.recent_events(position)
    assert [int(event) for event in recent.events] == [*range(600)]
    started = recent.complete_since
    bus.max_recent_bytes = 100
    assert len((await bus.recent_events(position)).events) == 256
    assert started <= (await bus.recent_events(position)).complete_since <= time.time()
    await events.aclose()
    await bus.close()


def test_positions_before_others():
    assert _position_before("5-3") == "5-2"
    assert _position_before("5-0") == "4"
    assert _position_before("0-0") is None


async def test_a_late_redis_gives_what_others_have_published_meanwhile(running_redis):
    redis = running_redis
    redis.kill()
    bus, other = bus_of(redis), bus_of(redis)
    with pytest.raises(RedisError):
        await anext(bus.events())
    await redis.start()
    await other.publish_many([b"1", b"2"])
    events = bus.events()
    assert [(await anext(events)).event for _ in range(3)] == [b"", b"1", b"2"]
    await events.aclose()
    await other.close()


async def test_a_stream_that_was_trimmed_has_a_gap(running_redis):
    bus, other = bus_of(running_redis, keep=100), bus_of(running_redis, keep=100)
    events = bus.events()
    await anext(events)
    await other.publish(b"1")
    position, *_ = await anext(events)
    await events.aclose()
    for expected in (False, True):
        events = bus.events(position)
        assert (await anext(events)).is_behind_gap is expected
        await events.aclose()
        await other.publish_many([b"x"] * 1_000)
    await other.close()


async def test_nothing_is_lost_or_sent_twice_when_redis_is_killed(running_redis, caplog):
    caplog.set_level(logging.INFO, "alula.realtime.bus")
    redis = running_redis
    async with processes(*(bus_of(redis) for _ in range(3))) as (first, second, third):
        for turn in range(4):
            numbers = range(turn * 300, turn * 300 + 300)
            for n in numbers:
                first.publish(n)
                if n % 60 == 0:
                    await asyncio.sleep(0.002)
                if n % 300 == 150:
                    redis.kill()
            second.publish(f"round {turn}")
            await redis.start()
            await eventually(lambda: third.received.count(f"round {turn}") == 1)  # noqa: B023  # awaited in this turn
        for process in (second, third):
            await eventually(lambda: len(process.received) >= 1_200)  # noqa: B023  # awaited in this turn
            assert [n for n in process.received if isinstance(n, int)] == list(range(1_200))
        await eventually(lambda: len(first.received) >= 4)
        assert first.received == [f"round {turn}" for turn in range(4)]
        assert [process.relay.missed for process in (first, second, third)] == [0, 0, 0]
        await eventually(lambda: first.relay.state() == "ok")
    assert "RedisBus" in caplog.text


async def test_what_a_server_without_persistence_has_lost_is_published_again(running_redis):
    redis = running_redis
    publishing, reading = bus_of(redis), bus_of(redis)
    events = reading.events()
    position, *_ = await anext(events)
    await events.aclose()
    await publishing.publish_many([b"1", b"2"])
    await publishing.publish_many([b"3", b"4"])
    redis.kill()
    await redis.start()
    with pytest.raises(RedisError):
        await publishing.publish(b"5")  # the connection has ended, and only now this is seen
    await publishing.publish_many([b"5"])
    assert await read(reading, position, 5) == [b"1", b"2", b"3", b"4", b"5"]
    # A second time: what was published again counts as published.
    redis.kill()
    await redis.start()
    assert await read(publishing, position, 5) == [b"1", b"2", b"3", b"4", b"5"]
    await publishing.close()
    await reading.close()


async def test_a_process_looks_for_its_own_events_alone_after_a_restart(running_redis):
    bus, other = bus_of(running_redis), bus_of(running_redis)
    await bus.publish(b"own")
    await other.publish_many([b"x" * 10_000] * 200)
    bus._run_id, bus._may_have_restarted = "that of the server before", True
    async with Client.from_url(running_redis.url) as client:
        before = (await client.info("stats"))["total_net_output_bytes"]
        await bus.publish(b"more")
        assert (await client.info("stats"))["total_net_output_bytes"] - before < 100_000
        assert await client.xlen(running_redis.stream) == 202
    await bus.close()
    await other.close()


async def test_a_later_process_gets_nothing_from_before_that_is_published_again(running_redis):
    redis = running_redis
    async with processes(bus_of(redis), bus_of(redis)) as (first, second):
        first.publish(1, 2)
        await eventually(lambda: second.received == [1, 2])
        await asyncio.sleep(0.005)  # Redis counts milliseconds
        async with processes(bus_of(redis)) as (later,):
            for number in (3, 4):  # also what was published again may be lost
                redis.kill()
                await redis.start()
                first.publish(number)
                await eventually(lambda: number in second.received and number in later.received)  # noqa: B023  # awaited in this turn
            assert (second.received, later.received) == ([1, 2, 3, 4], [3, 4])
            assert (second.gaps, later.gaps) == (0, 0)


@pytest.mark.parametrize("ahead", [0, 3_600_000])
async def test_a_clock_that_was_ahead_keeps_no_events_away(running_redis, ahead):
    redis = running_redis
    async with Client.from_url(redis.url) as client:
        seconds, _ = await client.time()
        await client.xadd(redis.stream, {"event": ""}, id=f"{seconds * 1000 + ahead}-0")
    async with processes(bus_of(redis), bus_of(redis)) as (first, second):
        first.publish(1)
        await eventually(lambda: second.received == [1])
        redis.kill()
        await redis.start()
        first.publish(2)
        await eventually(lambda: second.received == [1, 2])
        assert second.gaps == 0


async def test_a_successor_that_lacks_the_latest_events_is_read_from_the_start(running_redis):
    bus = bus_of(running_redis)
    await bus.publish(b"before it listened")
    events = bus.events()
    await anext(events)
    await bus.publish_many([b"1", b"2"])
    position = [(await anext(events)).position for _ in range(2)][-1]
    await events.aclose()
    async with Client.from_url(running_redis.url) as client:
        await client.xdel(running_redis.stream, position)
    await bus.publish(b"3")
    assert await read(bus, position, 2) == [b"1", b"3"]
    async with Client.from_url(running_redis.url) as client:
        newest = await client.xrevrange(running_redis.stream, count=1)
        await client.xdel(running_redis.stream, newest[0][0])
    assert await read(bus, newest[0][0].decode(), 1) == [b"1"]
    await bus.close()


async def test_a_position_of_another_program_is_passed_over(running_redis):
    bus = bus_of(running_redis)
    events = bus.events()
    await anext(events)
    async with Client.from_url(running_redis.url) as client:
        await client.xadd(running_redis.stream, {"event": "1", "first": "yesterday"})
    assert (await anext(events)).event == b"1"
    await events.aclose()


async def test_what_a_process_can_publish_again_is_limited(running_redis, monkeypatch):
    monkeypatch.setattr(_redis, "_RECENT_EVENTS", 4)
    monkeypatch.setattr(_redis, "_RECENT_BYTES", 100)
    bus = bus_of(running_redis)
    for number in range(6):
        await bus.publish(b"%d" % number)
    assert [each.event for each in bus._recent] == [b"2", b"3", b"4", b"5"]
    await bus.publish_many([b"x" * 40, b"y" * 40, b"z" * 40])
    assert [each.event[:1] for each in bus._recent] == [b"y", b"z"]
    await bus.close()


async def read(bus, position, count):
    """Return so many events after a position; readers go back some seconds as well."""
    events = bus.events(position)
    try:
        assert (await anext(events)).event == b""
        return [(await anext(events)).event for _ in range(count)]
    finally:
        await events.aclose()


async def test_events_of_a_stalled_redis_arrive_when_it_goes_on(running_redis, caplog):
    caplog.set_level(logging.INFO, "alula.realtime.bus")
    redis = running_redis
    async with processes(*(bus_of(redis, timeout=0.3) for _ in range(2))) as (first, second):
        first.publish(*range(10))
        await eventually(lambda: len(second.received) == 10)
        redis.stall()
        try:
            first.publish(*range(10, 50))
            await eventually(lambda: first.relay.state() == "away")
            assert first.relay.pending == 40
        finally:
            redis.go_on()
        await eventually(lambda: len(second.received) >= 50)
        await eventually(lambda: first.relay.state() == "ok")
        assert second.received == list(range(50))
    assert caplog.text.count("is away") <= 2  # once for each process


async def test_a_redis_that_is_not_there_yet_holds_nothing_up(running_redis):
    redis = running_redis
    redis.kill()
    first, second = Process(bus_of(redis)), Process(bus_of(redis))
    for process in (first, second):
        process.relay.start()
    first.publish(1)
    await eventually(lambda: second.relay.state() == "away")
    await redis.start()
    await first.listens()
    await second.listens()
    await eventually(lambda: first.relay.pending == 0)
    first.publish(2)
    await eventually(lambda: 2 in second.received)
    for process in (first, second):
        await process.relay.stop()


async def test_stops_quickly_without_redis(running_redis, caplog):
    async with processes(bus_of(running_redis)) as (first,):
        running_redis.kill()
        first.publish(1, 2)
        await eventually(lambda: first.relay.state() == "away")
    assert "2 events were not published" in caplog.text
    assert QUICK.flush_timeout < 1


async def test_publishes_the_rest_where_only_receiving_fails(running_redis):
    async with Client.from_url(running_redis.url) as client:
        await client.acl_setuser(
            "writer",
            enabled=True,
            nopass=True,
            categories=["+@all"],
            commands=["-xrevrange"],
            keys=["*"],
        )
        url = running_redis.url.replace("//", "//writer:@")
        process = Process(RedisBus(url, stream=running_redis.stream))
        process.relay.start()
        await eventually(lambda: process.relay.state() == "away")
        process.publish(1, 2)
        await process.relay.stop()
        assert await client.xlen(running_redis.stream) == 2


def test_the_log_shows_no_password():
    bus = RedisBus("redis://user:secret@localhost:6379/1?password=secret")
    assert repr(bus) == "RedisBus('redis://localhost:6379/1')"


def test_a_url_that_is_not_one_of_redis_is_refused():
    with pytest.raises(ValueError, match="redis://"):
        RedisBus("http://localhost")


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "redis.asyncio", None)
    with pytest.raises(ImportError, match=r"pip install 'alula\[redis\]'"):
        RedisBus("redis://localhost")
