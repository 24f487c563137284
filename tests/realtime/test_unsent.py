"""The mark by which a killed worker tells that it had events that no other process has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from tests.cli.serving.commands import SOURCE
from tests.live.test_lists import connection
from tests.realtime.processes import Process, processes
from tests.realtime.test_bus import BrokerBus, application
from tests.waiting import eventually

from alula._hub import Hub, WorkerDirectory
from alula._live import LiveList, live_lists_of
from alula.adapters.memory import MemoryService
from alula.realtime import _bus
from alula.realtime._bus._hub_bus import HubBus
from alula.realtime._bus._unsent import UnsentMark, take_marks_of_dead_workers

WORKER = """
import sys, time
from pathlib import Path
from alula.realtime._bus._unsent import UnsentMark
mark = UnsentMark(Path(sys.argv[1]), "w1", has_lists=sys.argv[2] == "lists")
mark.set(has_unsent=sys.argv[2] == "unsent")
print("ready", flush=True)
time.sleep(60)
"""


def start_worker(folder, left):
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), left],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("left", ["unsent", "lists", "nothing"])
def test_the_next_worker_finds_what_a_killed_one_had(tmp_path, left):
    with start_worker(tmp_path, left) as worker:
        assert take_marks_of_dead_workers(tmp_path, "w2") == (False, False)  # it runs
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        found = take_marks_of_dead_workers(tmp_path, "w2")
        assert found == (left == "unsent", left == "lists")
        assert take_marks_of_dead_workers(tmp_path, "w3") == (False, False)
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_ends_removes_its_mark_unless_events_are_left(tmp_path):
    first, second = UnsentMark(tmp_path, "w1"), UnsentMark(tmp_path, "w1", has_lists=True)
    first.set(has_unsent=True)
    assert take_marks_of_dead_workers(tmp_path, "w1") == (False, False)  # its own
    first.close()
    second.close()
    assert len(list(tmp_path.iterdir())) == 1
    assert take_marks_of_dead_workers(tmp_path, "w2") == (True, False)


class Mark:
    def __init__(self):
        self.values = []

    def set(self, *, has_unsent):
        self.values.append(has_unsent)

    def close(self):
        self.values.append("closed")


async def test_a_relay_marks_what_its_bus_has_not_taken():
    directory = WorkerDirectory()
    async with Hub(directory.hub) as hub:
        process = Process(HubBus(hub.path))
        mark = process.relay._mark = Mark()
        process.relay.start()
        await process.listens()
        mark.values.clear()
        process.publish(1, 2)
        assert mark.values == [True]  # at once, before callers are answered
        await eventually(lambda: mark.values == [True, False])
        await process.relay.stop()
        assert mark.values == [True, False, "closed"]
    directory.close()


async def test_a_worker_tells_the_others_of_the_events_of_a_killed_one(monkeypatch, caplog):
    directory = WorkerDirectory()
    (directory.path / "w0.0.unsent").write_bytes(b"\1")
    monkeypatch.setattr("os.getppid", os.getpid)
    for name, value in directory.next_environment().items():
        monkeypatch.setenv(name, value)
    async with Hub(directory.hub) as hub, processes(HubBus(hub.path)) as (other,):
        app = application()
        await app.setup()
        await eventually(lambda: [event.name for event in other.events] == ["bus/gap"])
        gaps = []
        app.channel_registry.on_gap(lambda: gaps.append(1))
        app.channel_registry.receive(other.events[0])  # its own does nothing
        assert gaps == []
        other.events[0].origin = "another"
        app.channel_registry.receive(other.events[0])
        assert gaps == [1]
        await app.teardown()
    assert "a worker has ended with events that no other process has got" in caplog.text
    assert not list(directory.path.glob("*.unsent"))
    directory.close()


async def test_a_killed_worker_may_have_written_what_live_lists_show(monkeypatch, caplog):
    directory = WorkerDirectory()
    (directory.path / "w0.0.unsent").write_bytes(b"\2")
    monkeypatch.setattr("os.getppid", os.getpid)
    for name, value in directory.next_environment().items():
        monkeypatch.setenv(name, value)
    async with Hub(directory.hub) as hub, processes(HubBus(hub.path)) as (other,):
        app = application().use("todos", MemoryService())
        app.service("todos").live()
        lists = live_lists_of(app)
        await app.setup()
        await eventually(lambda: [event.name for event in other.events] == ["live/gap"])
        (mark,) = directory.path.glob("*.unsent")
        assert mark.read_bytes() == b"\2"
        caller = connection()
        await lists.open(LiveList(app.service("todos"), caller, {}, {}, lambda messages: None))
        await lists.settled(caller)
        other.events[0].origin = "another"
        reads = app.channel_registry.list_figures.reads
        app.channel_registry.receive(other.events[0])
        await lists.settled(caller)
        assert app.channel_registry.list_figures.reads == reads + 1
        await app.teardown()
    assert caplog.text == ""
    directory.close()


async def test_a_worker_without_room_for_a_mark_runs_without(monkeypatch, caplog):
    directory = WorkerDirectory()
    monkeypatch.setattr("os.getppid", os.getpid)
    for name, value in directory.next_environment().items():
        monkeypatch.setenv(name, value)
    place = _bus.current_worker()._replace(directory=directory.path / "missing")
    monkeypatch.setattr(_bus, "current_worker", lambda: place)
    app = application(BrokerBus(None))
    monkeypatch.setattr(_bus.Relay, "start", lambda relay: None)
    await app.setup()
    assert "lost events will not be noticed" in caplog.text
    directory.close()
