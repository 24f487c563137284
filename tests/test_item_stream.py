"""The stream of a method that yields: one task makes its items, and closes it."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

import pytest
from tests.waiting import eventually, settle

from alula import _item_stream
from alula._item_stream import ItemStream, change_each, close_all, is_stream


class Journal:
    """Generators that note what happens in them."""

    def __init__(self):
        self.notes = []
        self.tasks = set()
        self.gate = asyncio.Event()

    async def count(self, items=3, waits_at=None):
        self.tasks.add(asyncio.current_task())
        try:
            # Both have to be left by the task that has entered them.
            async with asyncio.timeout(60), asyncio.TaskGroup():
                for n in range(items):
                    if n == waits_at:
                        self.notes.append("waits")
                        await self.gate.wait()
                    self.notes.append(n)
                    yield n
        finally:
            self.tasks.add(asyncio.current_task())
            self.notes.append("closed")


@pytest.fixture
async def journal():
    return Journal()


async def test_makes_an_item_when_somebody_waits_for_it(journal):
    stream = ItemStream(journal.count(), "count")
    await stream.begin()
    await settle()
    assert journal.notes == [0]
    assert await anext(stream) == 0
    await settle()
    assert journal.notes == [0]
    assert [item async for item in stream] == [1, 2]
    assert journal.notes == [0, 1, 2, "closed"]
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert repr(stream) == "<stream of count>"
    assert is_stream(stream)
    assert not is_stream([])


async def test_reads_what_only_iterates():
    class Letters:
        def __init__(self):
            self.left = ["a", "b"]

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop(0)

    assert [item async for item in ItemStream(Letters(), "letters")] == ["a", "b"]


@pytest.mark.parametrize("waits_at", [None, 0, 1])
async def test_one_task_makes_the_items_and_cleans_up(journal, waits_at):
    stream = ItemStream(journal.count(waits_at=waits_at), "count")
    if waits_at != 0:
        await asyncio.create_task(anext(stream))
    if waits_at is not None:
        assert not await stream.wait(0.001)
    await asyncio.create_task(stream.aclose())
    await stream.aclose()
    assert journal.notes[-1] == "closed"
    assert len(journal.tasks) == 1
    assert [item async for item in stream] == []


async def test_closes_before_it_has_begun(journal):
    stream = ItemStream(journal.count(), "count")
    await stream.aclose()
    assert [item async for item in stream] == []
    assert journal.notes == []


async def test_closes_the_outermost_first(journal):
    inner = ItemStream(journal.count(), "inner")

    async def doubled():
        try:
            async for item in inner:
                yield item * 2
        finally:
            journal.notes.append("outer")

    outer = ItemStream(doubled(), "outer")
    assert await anext(outer) == 0
    await close_all([inner, outer])
    assert journal.notes == [0, "outer", "closed"]


async def test_a_task_group_around_an_item_ends_without_an_error(journal):
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
    stream = ItemStream(journal.count(), "count")
    await anext(stream)
    await stream.aclose()
    del stream
    gc.collect()
    assert (journal.notes, errors) == ([0, "closed"], [])


async def test_a_pause_loses_no_item(journal):
    stream = ItemStream(journal.count(waits_at=1), "count")
    assert await anext(stream) == 0
    assert not await stream.wait(0.001)
    waiting = asyncio.create_task(anext(stream))
    await settle()
    with pytest.raises(RuntimeError, match="<stream of count> is read by two tasks"):
        await anext(stream)
    waiting.cancel()
    await settle()
    journal.gate.set()
    assert await stream.wait(None)
    assert await anext(stream) == 1


async def test_is_closed_when_nobody_refers_to_it(journal):
    stream = ItemStream(journal.count(), "count")
    assert await anext(stream) == 0
    del stream
    gc.collect()
    await eventually(lambda: journal.notes == [0, "closed"])


def test_nobody_closes_it_when_the_loop_has_ended():
    async def begin():
        stream = ItemStream(Journal().count(), "count")
        await stream.begin()
        return stream

    stream = asyncio.run(begin())
    del stream
    gc.collect()


# -- errors ----------------------------------------------------------------------------------------


async def test_an_error_comes_once_and_ends_it():
    async def fails():
        yield 1
        raise ValueError("no")

    stream, heard = ItemStream(fails(), "fails"), []
    stream.on_error(heard.append)
    assert await anext(stream) == 1
    with pytest.raises(ValueError, match="no") as caught:
        await anext(stream)
    assert heard == [caught.value]
    assert [item async for item in stream] == []


async def test_an_error_before_the_first_item():
    async def fails():
        raise ValueError("no")
        yield 1

    with pytest.raises(ValueError, match="no"):
        await ItemStream(fails(), "fails").begin()


async def test_a_cancellation_from_within_does_not_cancel_the_reader():
    async def cancelled():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)
        yield 1

    with pytest.raises(RuntimeError, match="cancelled was cancelled from within"):
        await anext(ItemStream(cancelled(), "cancelled"))


async def test_what_fails_while_it_closes_is_logged(caplog):
    async def fails():
        try:
            yield 1
        finally:
            raise ValueError("no")

    stream = ItemStream(fails(), "fails")
    await stream.begin()
    await stream.aclose()
    assert "fails failed while it was closed" in caplog.text
    assert "ValueError: no" in caplog.text


async def test_an_error_that_nobody_has_read_is_logged(caplog):
    async def fails():
        yield 1
        raise ValueError("no")

    stream = ItemStream(fails(), "fails")
    await anext(stream)
    assert await stream.wait(None)
    await stream.aclose()
    assert "ValueError: no" in caplog.text


async def test_an_end_that_takes_too_long_is_cancelled_once_more(monkeypatch, caplog):
    monkeypatch.setattr(_item_stream, "CLOSE_SECONDS", 0.01)
    notes = []

    async def lingers():
        try:
            yield 1
        finally:
            try:
                await asyncio.sleep(60)
            finally:
                notes.append("closed")

    stream = ItemStream(lingers(), "lingers")
    await stream.begin()
    await stream.aclose()
    assert notes == ["closed"]
    assert "lingers takes more than" in caplog.text


async def test_an_end_in_time_leaves_no_timer(journal, monkeypatch):
    loop, timers = asyncio.get_running_loop(), []
    call_later = loop.call_later

    def note(*arguments):
        timers.append(call_later(*arguments))
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", note)
    stream = ItemStream(journal.count(), "count")
    await stream.begin()
    await stream.aclose()
    await settle()
    assert timers
    assert all(timer.cancelled() for timer in timers)


async def test_nobody_waits_for_ever_for_what_ignores_both(monkeypatch):
    monkeypatch.setattr(_item_stream, "CLOSE_SECONDS", 0.01)
    gate = asyncio.Event()

    async def stays():
        while not gate.is_set():
            with suppress(asyncio.CancelledError):
                await gate.wait()
        yield 1

    stream = ItemStream(stays(), "stays")
    assert not await stream.wait(0.001)
    await stream.aclose()
    gate.set()
    await settle()
    assert [item async for item in stream] == []


async def test_ends_where_a_cancellation_is_caught():
    notes = []

    async def goes_on():
        try:
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    notes.append("caught")
                yield 1
        finally:
            notes.append("closed")

    stream = ItemStream(goes_on(), "goes on")
    assert not await stream.wait(0.001)
    await stream.aclose()
    assert notes == ["caught", "closed"]


# -- changes ---------------------------------------------------------------------------------------


async def doubled(item):
    return item * 2


async def test_items_are_changed_in_order(journal):
    stream = ItemStream(journal.count(), "count", [lambda item: item + 1])
    await stream.change(doubled)
    stream.change_at_once(str)
    assert journal.notes == [0]
    assert [item async for item in stream] == ["2", "4", "6"]


async def test_items_are_changed_before_the_first_and_behind_the_last(journal):
    stream = ItemStream(journal.count(1), "count")
    stream.change_at_once(str)
    assert [item async for item in stream] == ["0"]
    await stream.change(doubled)
    assert [item async for item in stream] == []


async def test_a_change_may_fail_at_once(journal):
    stream = ItemStream(journal.count(), "count")
    with pytest.raises(ZeroDivisionError):
        await stream.change(lambda item: 1 / item)


async def test_what_a_hook_has_wrapped_becomes_a_stream_of_the_call(journal):
    class Call:
        method, service, streams, result = "ask", "service 'a'", (), journal.count()

    call = Call()
    await change_each(call, doubled)
    await change_each(call, str)
    assert call.streams == (call.result,)
    assert repr(call.result) == "<stream of `ask` of \"service 'a'\">"
    assert [item async for item in call.result] == ["0", "2", "4"]
