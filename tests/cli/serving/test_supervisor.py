"""The supervisor keeps its workers running.

The workers here are not processes, so that a test decides when each of them starts and ends.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
from contextlib import asynccontextmanager

import pytest
from tests.waiting import eventually

from alula._cli.serving.supervisor import Supervisor
from alula._cli.serving.worker_process import describe_exit


class Worker:
    """A worker that stops when it is asked to, unless it is stubborn."""

    def __init__(self, pid, alone, log):
        self.pid = pid
        self.alone = alone
        self.retiring = False
        self.stubborn = False
        self.log = log
        self.ended = asyncio.get_running_loop().create_future()
        self._began = asyncio.Event()
        self.is_ready = False

    async def started(self):
        began = asyncio.ensure_future(self._began.wait())
        await asyncio.wait({began, self.ended}, return_when=asyncio.FIRST_COMPLETED)
        began.cancel()
        return self.is_ready

    def begin(self):
        self.is_ready = True
        self._began.set()

    def end(self, status=0):
        if not self.ended.done():
            self.ended.set_result(status)

    def stop(self):
        self.retiring = True
        self.log.append(f"stop {self.pid}")
        if not self.stubborn:
            self.end()

    def retire(self):
        self.retiring = True
        self.log.append(f"retire {self.pid}")
        if not self.stubborn:
            self.end()

    def kill(self):
        self.retiring = True
        if not self.ended.done():
            self.log.append(f"kill {self.pid}")
        self.end(-9)


class House:
    """A supervisor and the workers that it has started.

    Attributes:
        log: What happened, in order.
        begins: Whether new workers take requests at once.
        failures: How many of the next workers the system cannot start.
    """

    def __init__(self, count=2, patience=5.0, drain=0.0):
        self.log = []
        self.begun = []
        self.begins = True
        self.failures = 0
        self.announced = []
        self.supervisor = Supervisor(
            self.start,
            count,
            patience,
            lambda: self.log.append("close the socket"),
            drain,
            lambda: self.announced.append("ready"),
        )

    async def start(self, alone):
        if self.failures:
            self.failures -= 1
            if self.failures == 1:
                raise RuntimeError("can't start new thread")
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        worker = Worker(len(self.begun) + 1, alone, self.log)
        self.begun.append(worker)
        if self.begins:
            worker.begin()
        return worker

    @property
    def pids(self):
        return sorted(worker.pid for worker in self.supervisor.workers)

    async def until(self, *pids):
        await eventually(lambda: self.pids == list(pids))


@asynccontextmanager
async def house_of(count=2, patience=5.0, drain=0.0, *, begins=True):
    """Yield a running house, and stop it in the end; its exit code is then in ``status``."""
    house = House(count, patience, drain)
    house.begins = begins
    running = asyncio.create_task(house.supervisor.run())
    try:
        yield house
    finally:
        house.supervisor.stop()
        house.status = await asyncio.wait_for(running, 60)


async def test_there_are_as_many_workers_as_were_asked_for():
    async with house_of(3) as house:
        await house.until(1, 2, 3)
    assert house.status == 0
    assert [worker.alone for worker in house.begun] == [True, False, False]


async def test_the_first_worker_starts_alone():
    async with house_of(2, begins=False) as house:
        await house.until(1)
        await asyncio.sleep(0.01)
        assert house.pids == [1]
        house.begun[0].begin()
        await house.until(1, 2)


async def test_it_says_once_that_requests_are_accepted():
    async with house_of(2, begins=False) as house:
        await house.until(1)
        await asyncio.sleep(0.01)
        assert house.announced == []
        house.begun[0].begin()
        await house.until(1, 2)
        house.begun[1].begin()
        assert house.announced == ["ready"]


async def test_the_socket_is_closed_once_workers_have_drained():
    async with house_of(2, drain=0.05) as house:
        await house.until(1, 2)
        for worker in house.begun:
            worker.stubborn = True
        house.supervisor.stop()
        await eventually(lambda: "close the socket" in house.log)
        assert sorted(house.log[:-1]) == ["stop 1", "stop 2"]
        for worker in house.begun:
            worker.end()


async def test_the_socket_is_closed_if_no_worker_is_left_to_drain():
    async with house_of(2, drain=600) as house:
        await house.until(1, 2)
    assert house.log[-1] == "close the socket"


async def test_the_socket_is_closed_before_ready_workers_stop(caplog):
    async with house_of(2) as house:
        await house.until(1, 2)
    assert sorted(house.log[1:]) == ["stop 1", "stop 2"]
    assert house.log[0] == "close the socket"
    assert house.supervisor.workers == set()
    assert caplog.text == ""


async def test_a_worker_that_has_not_started_ends_before_the_socket_is_closed():
    async with house_of(2) as house:
        await house.until(1, 2)
        house.begins = False
        house.begun[1].end(-9)
        await house.until(1, 3)
    assert house.log == ["stop 3", "close the socket", "stop 1"]


async def test_a_worker_that_does_not_stop_is_killed(caplog):
    async with house_of(1, patience=0.05) as house:
        await house.until(1)
        house.begun[0].stubborn = True
    assert house.log == ["close the socket", "stop 1", "kill 1"]
    assert house.status == 0
    assert "worker 1 did not stop in time and is killed" in caplog.text


async def test_a_second_stop_kills():
    async with house_of(2, patience=60) as house:
        await house.until(1, 2)
        for worker in house.begun:
            worker.stubborn = True
        house.supervisor.stop(130)
        await asyncio.sleep(0.01)
        assert house.pids == [1, 2]
    assert sorted(house.log[-2:]) == ["kill 1", "kill 2"]
    assert house.status == 130


class TestAWorkerThatDies:
    async def test_is_replaced(self, caplog):
        async with house_of(2) as house:
            await house.until(1, 2)
            house.begun[0].end(-9)
            await house.until(2, 3)
        assert "worker 1 was ended by SIGKILL; another one replaces it" in caplog.text
        assert house.begun[2].alone is False
        assert house.status == 0

    async def test_is_replaced_where_it_was_the_only_one(self):
        async with house_of(1) as house:
            await house.until(1)
            house.begun[0].end(1)
            await house.until(2)
        assert house.begun[1].alone is True  # so that probes get an answer

    async def test_soon_after_another_one_is_replaced_after_a_pause(self, caplog):
        async with house_of(2) as house:
            await house.until(1, 2)
            house.begun[0].end(3)
            await house.until(2, 3)
            assert house.supervisor._pause == 1
            house.supervisor._pause = 30  # nobody can miss it
            house.begun[2].end(3)
            await house.until(2)
            await asyncio.sleep(0.01)
            assert house.pids == [2]
            assert "worker 3 ended with the exit code 3; another one replaces it in 30 seconds" in (
                caplog.text
            )
        assert len(house.begun) == 3  # the stop did not wait for the pause

    async def test_long_after_another_one_is_replaced_at_once(self, monkeypatch):
        monkeypatch.setattr("alula._cli.serving.supervisor._STEADY_SECONDS", 0)
        async with house_of(1) as house:
            await house.until(1)
            for at in range(5):
                house.begun[at].end(-9)
                await house.until(at + 2)

    async def test_pauses_grow_up_to_a_bound(self, monkeypatch, caplog):
        monkeypatch.setattr("alula._cli.serving.supervisor._LONGEST_PAUSE_SECONDS", 0.02)
        async with house_of(1) as house:
            await house.until(1)
            for at in range(4):
                house.begun[at].end(-9)
                await house.until(at + 2)
        assert caplog.text.count("in 0.02 seconds") == 3

    async def test_before_it_takes_requests_is_replaced_while_there_are_others(self):
        async with house_of(2) as house:
            await house.until(1, 2)
            house.begins = False
            house.begun[0].end(-9)
            await house.until(2, 3)
            house.supervisor._pause = 0
            house.begun[2].end(1)
            await house.until(2, 4)
        assert house.status == 0


class TestAReplacementThatDiesBeforeItIsReady:
    """Such as by the out-of-memory killer, or while the database fails over."""

    @pytest.fixture(autouse=True)
    def _short_pauses(self, monkeypatch):
        monkeypatch.setattr("alula._cli.serving.supervisor._LONGEST_PAUSE_SECONDS", 0.02)

    @pytest.mark.parametrize("ended", [-9, 1, 2])
    async def test_is_replaced_though_no_other_worker_runs(self, caplog, ended):
        async with house_of(1) as house:
            await house.until(1)
            house.begins = False
            house.begun[0].end(-9)
            for pid in (2, 3, 4):
                await house.until(pid)
                house.begun[pid - 1].end(ended)
            house.begins = True
            await house.until(5)
            assert house.begun[4].is_ready
        assert house.status == 0
        assert (
            f"worker 4 {describe_exit(ended)} before it could accept requests; another one"
            " replaces it in 0.02 seconds" in caplog.text
        )

    async def test_is_replaced_after_a_restart_too(self):
        async with house_of(1) as house:
            await house.until(1)
            house.supervisor.restart()
            await house.until(2)
            house.begins = False
            house.begun[1].end(-9)
            await house.until(3)
            house.begun[2].end(1)
            await house.until(4)
        assert house.status == 0

    async def test_is_replaced_after_a_pause_however_long_its_start_took(self, monkeypatch):
        monkeypatch.setattr("alula._cli.serving.supervisor._STEADY_SECONDS", 0)
        async with house_of(1) as house:
            await house.until(1)
            house.begins = False
            house.begun[0].end(-9)
            await house.until(2)
            house.begun[1].end(1)
            await house.until(3)
            assert house.supervisor._pause == 0.02


class TestAStartThatFails:
    @pytest.mark.parametrize(("ended", "status"), [(1, 1), (2, 2), (7, 1), (-9, 1)])
    async def test_is_the_end(self, caplog, ended, status):
        async with house_of(2, begins=False) as house:
            await house.until(1)
            house.begun[0].end(ended)
            await house.until()
        assert house.status == status
        assert len(house.begun) == 1
        assert f"worker 1 {describe_exit(ended)} before it could accept requests" in caplog.text

    async def test_a_stop_before_the_start_has_ended(self):
        async with house_of(2, begins=False) as house:
            await house.until(1)
        assert house.status == 0
        assert house.log == ["close the socket", "stop 1"]

    async def test_a_stop_before_the_first_start(self):
        house = House()
        house.supervisor.stop(3)
        assert await house.supervisor.run() == 3
        assert house.begun == []


class TestASystemThatCannotStartAProcess:
    @pytest.fixture(autouse=True)
    def _short_pauses(self, monkeypatch):
        monkeypatch.setattr("alula._cli.serving.supervisor._LONGEST_PAUSE_SECONDS", 0.01)

    async def test_is_asked_again_for_a_worker_that_has_died(self, caplog):
        async with house_of(2) as house:
            await house.until(1, 2)
            house.failures = 3
            house.begun[0].end(-9)
            await house.until(2, 3)
        assert caplog.text.count(f"cannot start a worker: [Errno {errno.EAGAIN}]") == 2
        assert "cannot start a worker: can't start new thread" in caplog.text
        assert house.status == 0

    async def test_is_asked_again_for_the_workers_behind_the_first(self):
        async with house_of(3, begins=False) as house:
            await house.until(1)
            house.failures = 3
            house.begun[0].begin()
            await house.until(1, 2, 3)
        assert house.status == 0

    async def test_at_the_beginning_is_the_end(self, caplog):
        house = House()
        house.failures = 1
        assert await asyncio.wait_for(house.supervisor.run(), 60) == 1
        assert house.begun == []
        assert "cannot start a worker" in caplog.text

    async def test_keeps_the_old_workers_at_a_restart_and_the_next_one_replaces_them(self):
        async with house_of(2) as house:
            await house.until(1, 2)
            house.failures = 2
            house.supervisor.restart()
            await eventually(lambda: not house.failures)
            assert house.pids == [1, 2]
            assert house.log == []
            await eventually(lambda: not house.supervisor._pending_restarts)
            house.supervisor.restart()
            await house.until(3, 4)

    async def test_does_not_hold_up_a_stop(self, monkeypatch):
        monkeypatch.setattr("alula._cli.serving.supervisor._LONGEST_PAUSE_SECONDS", 30)
        async with house_of(1) as house:
            await house.until(1)
            house.failures = 5
            house.begun[0].end(-9)
            await eventually(lambda: house.failures == 4)
        assert house.failures == 4


class TestARestart:
    async def test_replaces_one_after_another(self, caplog):
        caplog.set_level(logging.INFO)
        async with house_of(2) as house:
            await house.until(1, 2)
            house.begins = False
            house.supervisor.restart()
            await house.until(1, 2, 3)
            assert house.log == []  # nobody stops before another one takes requests
            house.begun[2].begin()
            await eventually(lambda: len(house.begun) == 4)
            assert len(house.log) == 1
            house.begun[3].begin()
            await house.until(3, 4)
            assert sorted(house.log) == ["retire 1", "retire 2"]
            assert "all workers are new" in caplog.text

    async def test_that_does_not_start_keeps_the_old_ones(self, caplog):
        async with house_of(2) as house:
            await house.until(1, 2)
            house.begins = False
            house.supervisor.restart()
            for at in (2, 3):  # it is tried for each
                await eventually(lambda at=at: len(house.begun) > at)
                house.begun[at].end(1)
            await house.until(1, 2)
            assert house.log == []
        assert "worker 3 did not start" in caplog.text
        assert house.status == 0
        assert len(house.begun) == 4

    async def test_asked_for_meanwhile_is_done_once_more(self):
        async with house_of(1) as house:
            await house.until(1)
            house.begins = False
            house.supervisor.restart()
            await house.until(1, 2)
            house.supervisor.restart()
            house.supervisor.restart()
            house.begins = True
            house.begun[1].begin()
            await house.until(3)
            await asyncio.sleep(0.01)
        assert len(house.begun) == 3

    async def test_of_new_workers_does_nothing(self):
        async with house_of(1, begins=False) as house:
            await house.until(1)
            house.supervisor.restart()
            await asyncio.sleep(0.01)
        assert len(house.begun) == 1

    async def test_ends_where_all_end(self):
        async with house_of(2) as house:
            await house.until(1, 2)
            house.begins = False
            house.supervisor.restart()
            await house.until(1, 2, 3)
        assert house.log[:2] == ["stop 3", "close the socket"]
        assert house.status == 0

    async def test_kills_an_old_one_that_does_not_stop(self):
        async with house_of(1, patience=0.05) as house:
            await house.until(1)
            house.begun[0].stubborn = True
            house.supervisor.restart()
            await house.until(2)
        assert house.log[:2] == ["retire 1", "kill 1"]

    async def test_leaves_as_many_where_an_old_one_dies_meanwhile(self):
        async with house_of(1) as house:
            await house.until(1)
            house.begins = False
            house.supervisor.restart()
            await house.until(1, 2)
            house.begins = True
            house.begun[1].is_ready = True  # it is, and nobody has seen it yet
            house.begun[0].end(-9)
            await house.until(2, 3)
            house.begun[1].begin()
            await house.until(3)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_signals(number, status):
    loop = asyncio.get_running_loop()
    async with house_of(1) as house:
        house.supervisor.listen_to_signals()
        try:
            await house.until(1)
            os.kill(os.getpid(), signal.SIGHUP)
            await house.until(2)
            os.kill(os.getpid(), number)
            await house.until()
        finally:
            for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(each)
    assert house.status == status
