"""The hub of `alula serve` passes the events of each worker to all workers."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from pathlib import Path

import pytest
from tests.realtime.processes import QUICK, processes
from tests.waiting import eventually

from alula._hub import (
    FrameReader,
    Hub,
    UnixServer,
    WorkerDirectory,
    WorkerPlace,
    current_worker,
    frame,
    write_frame,
)
from alula.realtime._bus._hub_bus import HubBus


@pytest.fixture
def directory():
    directory = WorkerDirectory()
    yield directory
    directory.close()


@pytest.fixture
async def hub(directory):
    async with Hub(directory.hub) as hub:
        yield hub


async def test_a_read_that_is_cancelled_within_a_frame_loses_nothing():
    stream = asyncio.StreamReader()
    reader = FrameReader(stream)
    stream.feed_data(frame(b"whole")[:6])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(), 0.01)
    stream.feed_data(b"ole" + frame(b"next"))
    assert [await reader.read(), await reader.read()] == [b"whole", b"next"]


async def test_events_reach_all_other_workers_in_order(hub):
    async with processes(*(HubBus(hub.path) for _ in range(3))) as (first, second, third):
        first.publish(*range(500))
        second.publish("a", "b")
        await eventually(lambda: len(third.received) == 502)
        assert [n for n in third.received if isinstance(n, int)] == list(range(500))
        assert first.received == ["a", "b"]
        assert second.received == list(range(500))


async def test_a_new_worker_reads_what_the_hub_keeps(directory):
    now = time.time()
    async with Hub(directory.hub, max_events=5) as hub:
        bus = HubBus(hub.path)
        for number in range(1, 4):
            await bus.publish(f"{number}".encode())
        events = bus.events()
        position, *_ = await anext(events)
        await bus.publish(b"later")
        recent = await bus.recent_events(position)
        assert recent.events == [b"1", b"2", b"3"]
        assert abs(recent.complete_since - now) < 10
        await bus.publish_many([b"5", b"6"])
        recent = await bus.recent_events(position)
        assert recent == ([b"2", b"3"], None)
        await bus.publish_many([b"x"] * 9)
        assert (await bus.recent_events(position)).events == []
        await events.aclose()
        await bus.close()


async def test_an_event_larger_than_the_buffers_arrives(hub):
    async with processes(HubBus(hub.path), HubBus(hub.path)) as (first, second):
        first.publish("x" * 3_000_000, "y")
        await eventually(lambda: len(second.received) == 2)
        assert second.received[0] == "x" * 3_000_000


async def test_workers_go_on_with_a_hub_that_restarts(directory, caplog):
    caplog.set_level(logging.INFO, "alula.realtime.bus")
    hub = Hub(directory.hub)
    await hub.start()
    async with processes(HubBus(hub.path), HubBus(hub.path)) as (first, second):
        first.publish(1)
        await eventually(lambda: second.received == [1])
        await hub.stop()
        first.publish(2, 3)
        await eventually(lambda: "away" in (first.relay.state(), second.relay.state()))
        hub = Hub(directory.hub)
        await hub.start()
        await eventually(lambda: len(second.received) == 3)
        assert second.received == [1, 2, 3]
        await eventually(lambda: (first.relay.state(), second.relay.state()) == ("ok", "ok"))
    await hub.stop()
    assert "the hub of alula serve is away" in caplog.text
    assert "is back after" in caplog.text
    assert "did not arrive" not in caplog.text


async def test_a_worker_that_reconnects_gets_what_it_missed(hub):
    events = HubBus(hub.path).events()
    position, *_ = await anext(events)
    await events.aclose()
    bus = HubBus(hub.path)
    await bus.publish(b"one")
    await bus.publish_many([b"two", b"three"])
    events = HubBus(hub.path).events(position)
    assert [(await anext(events)).event for _ in range(4)] == [b"", b"one", b"two", b"three"]
    await events.aclose()
    await bus.close()
    await bus.close()


async def test_keeps_a_limited_number_of_events(directory):
    async with Hub(directory.hub, max_events=3, max_bytes=1_000) as hub:
        events = HubBus(hub.path).events()
        position, *_ = await anext(events)
        await events.aclose()
        bus = HubBus(hub.path)
        await bus.publish_many([b"1", b"2", b"3", b"4"])
        assert await read(hub, position, 3) == [b"2", b"3", b"4"]
        await bus.publish(b"5" * 999)
        assert await read(hub, position, 2) == [b"4", b"5" * 999]
        await bus.publish(b"6" * 5_000)  # the latest stays, whatever its size
        assert await read(hub, position, 1) == [b"6" * 5_000]
        await bus.close()


async def test_a_worker_that_was_away_for_too_long_knows_it(directory):
    async with Hub(directory.hub, max_events=2) as hub:
        bus = HubBus(hub.path)
        events = bus.events()
        position, *_ = await anext(events)
        await events.aclose()
        await bus.publish_many([b"1", b"2", b"3"])
        events = bus.events(position)
        seen = [(await anext(events))[1:] for _ in range(3)]
        assert seen == [(b"", False), (b"2", True), (b"3", False)]
        await events.aclose()
        await bus.close()


async def read(hub, position, count):
    events = HubBus(hub.path).events(position)
    try:
        return [(await anext(events)).event for _ in range(count + 1)][1:]
    finally:
        await events.aclose()


async def test_a_worker_that_reads_nothing_holds_nobody_up(hub):
    stalled, writer = await asyncio.open_unix_connection(hub.path)
    writer.write(frame(b"events "))
    await stalled.readexactly(4)
    async with processes(HubBus(hub.path), HubBus(hub.path)) as (first, second):
        first.publish(*(f"{n}" * 100_000 for n in range(30)))
        await eventually(lambda: len(second.received) == 30)
    writer.transport.abort()


@pytest.mark.parametrize("sent", [b"nonsense", frame(b"who?"), b"\xff\xff\xff\xff", b""])
async def test_a_connection_that_says_nothing_of_use_ends(hub, sent):
    reader, writer = await asyncio.open_unix_connection(hub.path)
    writer.write(sent)
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()


async def test_a_reader_that_leaves_is_forgotten(hub):
    events = HubBus(hub.path).events()
    await anext(events)
    assert len(hub._wake_readers) == 1
    await events.aclose()
    bus = HubBus(hub.path)
    while hub._wake_readers:
        await bus.publish(b"one")
        await asyncio.sleep(0)
    await bus.close()


async def test_stop_ends_the_connections_and_removes_the_socket(directory):
    hub = Hub(directory.hub)
    await hub.stop()  # before its start: nothing happens
    await hub.start()
    reader, writer = await asyncio.open_unix_connection(hub.path)
    writer.write(frame(b"events "))
    await reader.readexactly(4)
    await hub.stop()
    await reader.read()
    writer.close()
    assert not hub.path.exists()


async def test_a_server_says_what_to_define(tmp_path):
    with pytest.raises(NotImplementedError):
        await UnixServer(tmp_path / "x").serve(None, None)


def test_the_directory_is_private_and_removed():
    directory = WorkerDirectory()
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    (directory.path / "w1.sock").touch()
    directory.close()
    assert not directory.path.exists()


def test_a_long_temporary_directory_is_not_used(tmp_path, monkeypatch):
    # Paths of Unix sockets have at most some 100 bytes.
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    directory = WorkerDirectory()
    assert directory.path.parent == Path("/tmp")
    directory.close()
    assert not any(long.iterdir())


def test_without_a_directory_it_says_what_is_missing(monkeypatch, caplog):
    monkeypatch.setattr("tempfile.tempdir", "/does/not/exist")
    assert WorkerDirectory.make() is None
    assert "set TMPDIR to a directory that can be written" in caplog.text
    monkeypatch.undo()
    directory = WorkerDirectory.make()
    directory.close()


def test_a_secret_that_the_system_has_removed_is_there_for_the_next_worker(directory):
    place = WorkerPlace(directory.path, "w1")
    secret = place.read_secret()
    (directory.path / "shared-key").unlink()
    directory.next_environment()
    assert place.read_secret() == secret


def test_a_secret_that_is_not_whole_is_none(directory):
    (directory.path / "shared-key").write_bytes(b"")
    with pytest.raises(OSError, match="is not the secret of these workers"):
        WorkerPlace(directory.path, "w1").read_secret()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_another_user_learns_no_secret_and_sets_none(directory):
    place, secret = WorkerPlace(directory.path, "w1"), directory.path / "shared-key"
    os.chown(secret, 65534, 65534)
    with pytest.raises(OSError, match="is not the secret of these workers"):
        place.read_secret()
    secret.unlink()
    os.chown(directory.path, 65534, 65534)
    directory.next_environment()
    assert not secret.exists()


def test_a_directory_that_was_removed_keeps_no_worker_from_its_start(directory):
    directory.close()
    assert directory.next_environment()


def test_a_worker_finds_its_place_and_its_children_do_not(directory):
    first, second = directory.next_environment(), directory.next_environment()
    # Their parent is the process that made the directory; here, that of this test.
    assert current_worker(first) is None
    as_child = {
        name: value.replace(str(os.getpid()), str(os.getppid()), 1) for name, value in first.items()
    }
    place = current_worker(as_child)
    assert (place.worker_id, place.hub) == ("w1", directory.hub)
    assert second != first
    assert current_worker({}) is None


async def test_events_that_wait_are_published_when_the_application_stops(hub):
    async with processes(HubBus(hub.path), settings=QUICK) as (second,):
        async with processes(HubBus(hub.path)) as (first,):
            first.publish(*range(1_000))
        await eventually(lambda: len(second.received) == 1_000)


class Closed:
    """A writer whose connection is closed, as uvloop has it."""

    def write(self, data):
        raise RuntimeError("the handler is closed")


def test_a_frame_for_a_closed_connection_is_an_error_of_the_connection():
    with pytest.raises(ConnectionError, match="closed"):
        write_frame(Closed(), b"payload")
