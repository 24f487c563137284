"""Set-ups that calls wait for: once, again where they fail, and never for themselves."""

import asyncio
import gc

import pytest
from tests.waiting import settle

from alula import _service_object as late_start
from alula._service_object import DeferredSetup


class Setup:
    """A set-up that fails a number of times and can be held up."""

    def __init__(self, failures=0):
        self.failures = failures
        self.begun = 0
        self.go_on = asyncio.Event()

    async def __call__(self):
        self.begun += 1
        await self.go_on.wait()
        if self.begun <= self.failures:
            raise ConnectionError(f"attempt {self.begun}")

    def late(self):
        return DeferredSetup("service 'late'", self, lambda work, name: asyncio.create_task(work))


async def test_is_begun_once_and_waited_for_by_all():
    setup = Setup()
    late = setup.late()
    waiting = [asyncio.ensure_future(late.wait()) for _ in range(3)]
    await settle()
    assert setup.begun == 1
    assert not any(waiter.done() for waiter in waiting)
    setup.go_on.set()
    await asyncio.gather(*waiting)
    await late.wait()
    assert setup.begun == 1


async def test_begin_begins_it_without_waiting():
    setup = Setup()
    late = setup.late()
    task = late.begin()
    assert late.begin() is task
    setup.go_on.set()
    await late.wait()
    assert late.begin() is task
    assert setup.begun == 1


async def test_a_failure_reaches_all_who_wait_and_the_log(caplog):
    setup = Setup(failures=1)
    late = setup.late()
    setup.go_on.set()
    outcomes = await asyncio.gather(late.wait(), late.wait(), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["attempt 1"] * 2
    (record,) = caplog.records
    assert "service 'late', registered late, failed to set up" in record.getMessage()
    assert record.exc_info[0] is ConnectionError


async def test_after_a_failure_the_next_one_tries_again():
    setup = Setup(failures=2)
    late = setup.late()
    setup.go_on.set()
    for attempt in (1, 2):
        with pytest.raises(ConnectionError, match=f"attempt {attempt}"):
            await late.wait()
    await late.wait()
    await late.wait()
    assert setup.begun == 3


@pytest.fixture
async def reported():
    """What asyncio has to complain about, "Task exception was never retrieved" above all."""
    complaints = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    yield complaints
    loop.set_exception_handler(None)


async def test_a_failure_that_nobody_waits_for_is_in_the_log_once(reported, monkeypatch):
    # The records of the real log would keep the task, and asyncio complains when it goes away.
    logged = []
    monkeypatch.setattr(late_start._log, "exception", lambda text, name: logged.append(name))
    setup = Setup(failures=1)
    setup.go_on.set()
    await asyncio.wait([setup.late().begin()])
    gc.collect()
    assert reported == []
    assert logged == ["service 'late'"]


async def test_a_caller_that_is_cancelled_does_not_stop_it():
    setup = Setup()
    late = setup.late()
    impatient = asyncio.ensure_future(late.wait())
    patient = asyncio.ensure_future(late.wait())
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    setup.go_on.set()
    await patient
    assert setup.begun == 1


async def test_where_it_is_cancelled_itself_the_next_one_tries_again(reported):
    """As at the end of an event loop, where the next one takes over."""
    setup = Setup()
    late = setup.late()
    task = late.begin()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    setup.go_on.set()
    await late.wait()
    assert setup.begun == 2
    assert reported == []


async def test_those_who_wait_are_not_cancelled_with_it():
    setup = Setup()
    late = setup.late()
    task = late.begin()
    waiting = asyncio.ensure_future(late.wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(RuntimeError, match=r"service 'late' was cancelled"):
        await waiting
    setup.go_on.set()
    await late.wait()
    assert setup.begun == 2


async def test_what_it_calls_does_not_wait_for_its_end():
    done = []

    async def start():
        await late.wait()
        await asyncio.gather(asyncio.create_task(late.wait()), late.wait())
        done.append("inside")

    late = DeferredSetup("late", start, lambda work, name: asyncio.create_task(work))
    await asyncio.wait_for(late.wait(), 30)
    assert done == ["inside"]


async def test_two_that_call_each_other_end():
    async def start_first():
        await second.wait()

    async def start_second():
        await first.wait()

    first = DeferredSetup("first", start_first, lambda work, name: asyncio.create_task(work))
    second = DeferredSetup("second", start_second, lambda work, name: asyncio.create_task(work))
    await asyncio.wait_for(first.wait(), 30)


async def test_its_task_is_named():
    names = []

    def run_beside(work, name):
        names.append(name)
        return asyncio.create_task(work)

    setup = Setup()
    setup.go_on.set()
    await DeferredSetup("service 'late'", setup, run_beside).wait()
    assert names == ["the set-up of service 'late'"]
