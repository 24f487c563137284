"""Limits of time that share a timer: the same as `asyncio.timeout` for those who wait."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from alula.client._transport import TimeLimit, TimeLimits, _Queue

SHORT, LONG = 0.1, 60.0


@pytest.fixture
async def timers(monkeypatch):
    """Return the timers that the event loop was asked for, but for those of sleep."""
    asked = []
    loop = asyncio.get_running_loop()
    call_at = loop.call_at

    def noted(when, callback, *args, **kwargs):
        timer = call_at(when, callback, *args, **kwargs)
        if hasattr(callback, "__self__"):
            asked.append(timer)
        return timer

    monkeypatch.setattr(loop, "call_at", noted)
    return asked


@pytest.fixture
async def limits():
    limits = TimeLimits()
    yield limits
    limits.close()


async def wait_within(limits, seconds, event=None):
    with limits.limit(seconds):
        await (event or asyncio.Event()).wait()


async def test_what_takes_too_long_is_cancelled(limits):
    loop = asyncio.get_running_loop()
    began, limit = loop.time(), limits.limit(SHORT)
    with pytest.raises(TimeoutError) as caught, limit:
        await asyncio.Event().wait()
    assert limit.expired
    assert loop.time() - began >= SHORT
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert asyncio.current_task().cancelling() == 0


async def test_what_ends_in_time_is_left_alone(limits):
    limit = limits.limit(SHORT)
    with limit:
        await asyncio.sleep(0)
    await asyncio.sleep(2 * SHORT)
    assert not limit.expired


async def test_errors_pass(limits):
    with pytest.raises(LookupError), limits.limit(LONG):
        raise LookupError


async def test_each_has_its_own_deadline(limits):
    loop = asyncio.get_running_loop()
    first = asyncio.create_task(wait_within(limits, SHORT))
    await asyncio.sleep(SHORT / 2)
    began = loop.time()
    with pytest.raises(TimeoutError):
        await wait_within(limits, SHORT)
    assert loop.time() - began >= SHORT
    with pytest.raises(TimeoutError):
        await first


async def test_a_shorter_limit_that_began_later_ends_earlier(limits):
    long = asyncio.create_task(wait_within(limits, LONG))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await wait_within(limits, SHORT)
    assert not long.done()
    long.cancel()
    await asyncio.wait({long})


async def test_one_timer_serves_all(limits, timers):
    event = asyncio.Event()
    tasks = [asyncio.create_task(wait_within(limits, LONG, event)) for _ in range(100)]
    await asyncio.sleep(0)
    assert len(timers) == 1
    event.set()
    await asyncio.gather(*tasks)
    for _ in range(100):
        await wait_within(limits, LONG, event)
    assert len(timers) == 1


async def test_the_timer_waits_on_for_the_next(limits, timers):
    event = asyncio.Event()
    # Longer than the event loop may stand still: the first one must not be late.
    first = asyncio.create_task(wait_within(limits, 1.5, event))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(wait_within(limits, 1.5))
    event.set()
    await first
    with pytest.raises(TimeoutError):
        await second
    assert len(timers) == 2


class TestOthersCancel:
    async def test_before_the_limit(self, limits):
        task = asyncio.create_task(wait_within(limits, LONG))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_a_task_that_both_cancelled_stays_cancelled(self, limits):
        limit = limits.limit(LONG)

        async def wait() -> None:
            with limit:
                await asyncio.Event().wait()

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        limit.expire()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_a_limit_around_it_ends_first(self, limits):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SHORT) as outer:
                with limits.limit(LONG):
                    await asyncio.Event().wait()
        assert outer.expired()


async def test_a_cancellation_that_became_another_error_leaves_the_task_as_it_was(limits):
    with pytest.raises(LookupError), limits.limit(SHORT):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise LookupError from None
    assert asyncio.current_task().cancelling() == 0


class TestNothingIsKept:
    async def test_behind_the_last_call(self, limits, timers):
        task = asyncio.create_task(wait_within(limits, SHORT))
        await asyncio.wait({task})
        assert isinstance(task.exception(), TimeoutError)
        assert limits._queues == {}
        assert len(timers) == 1

    async def test_of_what_ended_in_time(self, limits):
        event = asyncio.Event()
        event.set()
        await wait_within(limits, SHORT, event)
        await asyncio.sleep(2 * SHORT)
        assert limits._queues == {}

    async def test_of_the_task(self, limits):
        event = asyncio.Event()
        event.set()
        task = asyncio.create_task(wait_within(limits, LONG, event))
        await task
        await asyncio.sleep(0)  # what wakes this one up holds the other one
        kept = weakref.ref(task)
        del task
        gc.collect()
        assert kept() is None

    async def test_when_it_is_closed(self, limits, timers):
        event = asyncio.Event()
        event.set()
        await wait_within(limits, LONG, event)
        limits.close()
        assert limits._queues == {}
        assert timers[0].cancelled()

    async def test_but_calls_go_on_when_it_is_closed(self, limits):
        task = asyncio.create_task(wait_within(limits, SHORT))
        await asyncio.sleep(0)
        limits.close()
        with pytest.raises(TimeoutError):
            await task


def test_a_queue_of_an_ended_loop_is_replaced():
    limits = TimeLimits()
    event = asyncio.Event()
    event.set()
    asyncio.run(wait_within(limits, SHORT, event))
    with pytest.raises(TimeoutError):
        asyncio.run(wait_within(limits, SHORT))


async def test_in_two_event_loops_at_once(limits):
    here = asyncio.create_task(wait_within(limits, SHORT))
    await asyncio.sleep(0)
    there = asyncio.Event()
    there.set()
    await asyncio.to_thread(asyncio.run, wait_within(limits, SHORT, there))
    kept = dict(limits._queues)
    with pytest.raises(TimeoutError):
        await here
    assert limits._queues == kept  # that of the other loop


class BrowserLoop:
    """Like the event loop of Pyodide: its clock goes on, and what is due already it refuses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers = []

    def time(self):
        now, self.now = self.now, self.now + 0.002
        return now

    def call_later(self, delay, callback):
        if delay < 0:
            raise ValueError("Can't schedule in the past")
        self.timers.append(callback)
        return asyncio.get_running_loop().call_later(LONG, int)

    def call_at(self, when, callback):
        return self.call_later(when - self.time(), callback)


async def test_the_next_deadline_may_pass_while_its_timer_is_made():
    loop = BrowserLoop()
    queue = _Queue(loop, 1.0, {})

    async def wait() -> None:
        with TimeLimit(queue):
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(wait()) for _ in range(2)]
    await asyncio.sleep(0)
    last = max(queue.waiting.values())
    for task, now in zip(tasks, (last - 0.001, last), strict=True):
        loop.now = now
        loop.timers.pop()()
        with pytest.raises(TimeoutError):
            await task


async def test_a_limit_that_is_over_at_once(limits):
    queue = _Queue(BrowserLoop(), 1e-9, {})
    with TimeLimit(queue):
        assert len(queue.waiting) == 1


async def test_limits_that_differ_each_time_leave_few_timers(limits, timers):
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_within(limits, LONG, event))
    await asyncio.sleep(0)
    done = asyncio.Event()
    done.set()
    for n in range(1000):
        await wait_within(limits, LONG + 1 + n, done)
    assert len(limits._queues) < 100
    assert sum(not timer.cancelled() for timer in timers) < 100
    assert LONG in limits._queues  # somebody waits
    event.set()
    await waiting


async def test_many_limits_that_differ_at_once(limits):
    event = asyncio.Event()
    tasks = [asyncio.create_task(wait_within(limits, LONG + n, event)) for n in range(200)]
    late = asyncio.create_task(wait_within(limits, SHORT))
    with pytest.raises(TimeoutError):
        await late
    assert len(limits._queues) == 200
    event.set()
    await asyncio.gather(*tasks)


async def test_outside_a_task(limits):
    told = asyncio.get_running_loop().create_future()

    def enter() -> None:
        try:
            limits.limit(LONG).__enter__()
        except RuntimeError as error:
            told.set_result(error)

    asyncio.get_running_loop().call_soon(enter)
    assert str(await told) == "a call has to be awaited in a task"
