"""Listeners: who is called with what, and that they never change what happened."""

import asyncio
import gc
import logging
from contextvars import copy_context

import pytest

from alula import App, Params
from alula import _events as events
from alula._events import (
    EventEmitter,
    HeldEvents,
    is_in_transaction,
    loop_is_running,
    note_outcome,
)

Params.declare("held_by")


@pytest.fixture
def emitter():
    return EventEmitter()


class TestListeners:
    def test_are_called_in_order_with_all_values(self, emitter):
        heard = []
        emitter.on("ready", lambda *values: heard.append((1, values)))
        emitter.on("ready", lambda *values: heard.append((2, values)))
        assert emitter.emit("ready", "a", "b") is True
        assert heard == [(1, ("a", "b")), (2, ("a", "b"))]

    def test_may_return_what_they_like(self, emitter, caplog):
        for value in (None, 5, "text", [], emitter):
            emitter.on("ready", lambda value=value: value)
        assert emitter.emit("ready") is True
        assert caplog.records == []

    def test_of_other_events_are_not(self, emitter):
        heard = []
        emitter.on("ready", lambda: heard.append("ready"))
        assert emitter.emit("other") is False
        assert heard == []

    def test_can_be_registered_by_decorator(self, emitter):
        heard = []

        @emitter.on("ready")
        def listener(value):
            heard.append(value)

        emitter.emit("ready", 5)
        assert heard == [5]
        assert emitter.on("ready", listener) is listener

    def test_can_be_taken_away_one_by_one(self, emitter):
        heard = []
        first, second = (lambda: heard.append(1)), (lambda: heard.append(2))
        emitter.on("ready", first)
        emitter.on("ready", second)
        emitter.off("ready", first)
        emitter.emit("ready")
        assert heard == [2]
        emitter.off("ready", second)
        assert not emitter.has_listeners("ready")

    def test_can_be_taken_away_at_once(self, emitter):
        emitter.on("ready", print)
        emitter.on("ready", repr)
        emitter.on("other", repr)
        assert emitter.has_listeners("ready")
        emitter.off("ready")
        assert not emitter.has_listeners("ready")
        assert emitter.has_listeners("other")

    def test_a_method_of_an_object_can_be_taken_away(self, emitter):
        class Heard(list):
            def hear(self, value):
                self.append(value)

        heard = Heard()
        emitter.on("ready", heard.hear)
        emitter.off("ready", heard.hear)
        assert emitter.emit("ready", 1) is False

    def test_that_were_never_there_can_be_taken_away(self, emitter):
        emitter.off("ready")
        emitter.off("ready", print)
        emitter.on("ready", repr)
        emitter.off("ready", print)
        assert emitter.has_listeners("ready")

    def test_that_change_the_list_do_so_for_the_next_event(self, emitter):
        heard = []

        def once():
            heard.append("once")
            emitter.off("ready", once)
            emitter.on("ready", lambda: heard.append("later"))

        emitter.on("ready", once)
        emitter.on("ready", lambda: heard.append("second"))
        emitter.emit("ready")
        assert heard == ["once", "second"]
        emitter.emit("ready")
        assert heard == ["once", "second", "second", "later"]


class TestAsynchronousListeners:
    async def test_run_beside_and_are_waited_for_by_drain(self, emitter):
        heard = []

        async def listener(value):
            await asyncio.sleep(0)
            heard.append(value)

        emitter.on("ready", listener)
        emitter.emit("ready", 1)
        assert heard == []
        await emitter.wait_for_listeners()
        assert heard == [1]

    async def test_may_be_plain_functions_that_return_something_to_await(self, emitter):
        heard = []

        async def work():
            heard.append("work")

        def plain():
            return work()

        emitter.on("ready", plain)
        emitter.on("ready", lambda: asyncio.ensure_future(work()))
        emitter.emit("ready")
        await emitter.wait_for_listeners()
        assert heard == ["work", "work"]

    async def test_that_emit_again_are_waited_for_too(self, emitter):
        heard = []

        async def listener(depth):
            heard.append(depth)
            if depth:
                emitter.emit("ready", depth - 1)

        emitter.on("ready", listener)
        emitter.emit("ready", 3)
        await emitter.wait_for_listeners()
        assert heard == [3, 2, 1, 0]

    async def test_may_drain_themselves(self, emitter):
        """As a listener does that tears the application down."""
        heard = []

        async def listener():
            await emitter.wait_for_listeners()
            heard.append("drained")

        emitter.on("ready", listener)
        emitter.emit("ready")
        await asyncio.wait_for(emitter.wait_for_listeners(), 30)
        assert heard == ["drained"]

    async def test_that_take_long_are_named_in_the_log(self, emitter, monkeypatch):
        go_on, warned, texts = asyncio.Event(), asyncio.Event(), []

        def warning(text, *args):
            texts.append(text % args)
            warned.set()

        monkeypatch.setattr(events, "_WARNING_SECONDS", 0.01)
        monkeypatch.setattr(events._log, "warning", warning)

        async def slow_listener():
            await go_on.wait()

        emitter.on("ready", slow_listener)
        emitter.emit("ready")
        draining = asyncio.ensure_future(emitter.wait_for_listeners())
        await warned.wait()
        assert not draining.done()
        go_on.set()
        await draining
        assert "slow_listener for 'ready'" in texts[0]

    async def test_that_are_cancelled_do_not_cancel_who_waits(self, emitter):
        async def listener():
            asyncio.current_task().cancel()
            await asyncio.sleep(0)

        emitter.on("ready", listener)
        emitter.emit("ready")
        await emitter.wait_for_listeners()

    async def test_go_on_where_the_one_who_waits_is_cancelled(self, emitter):
        go_on, heard = asyncio.Event(), []

        async def listener():
            await go_on.wait()
            heard.append("done")

        emitter.on("ready", listener)
        emitter.emit("ready")
        draining = asyncio.ensure_future(emitter.wait_for_listeners())
        await asyncio.sleep(0)
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining
        go_on.set()
        await emitter.wait_for_listeners()
        assert heard == ["done"]

    def test_need_a_loop(self, emitter, recwarn):
        async def listener():
            """Do nothing."""

        class Awaitable:
            def __await__(self):
                yield

        emitter.on("ready", listener)
        emitter.on("other", Awaitable)
        for event in ("ready", "other"):
            with pytest.raises(RuntimeError, match=f"emit '{event}' .*loop is running"):
                emitter.emit(event)
        gc.collect()
        assert not recwarn.list

    async def test_nothing_is_kept_of_those_that_have_ended(self, emitter):
        async def listener():
            """Do nothing."""

        emitter.on("ready", listener)
        emitter.emit("ready")
        await emitter.wait_for_listeners()
        assert emitter._running == set()


class TestListenersThatFail:
    def test_are_logged_with_their_traceback_and_the_others_go_on(self, emitter, caplog):
        heard = []

        def failing(value):
            raise LookupError("bad listener")

        emitter.on("ready", failing)
        emitter.on("ready", heard.append)
        assert emitter.emit("ready", 1) is True
        assert heard == [1]
        (record,) = caplog.records
        assert (record.name, record.levelno) == ("alula.events", logging.ERROR)
        assert "failing for 'ready' failed" in record.getMessage()
        assert record.exc_info[0] is LookupError

    async def test_are_logged_where_they_are_asynchronous(self, emitter, caplog):
        async def failing():
            raise LookupError("bad listener")

        emitter.on("ready", failing)
        emitter.emit("ready")
        await emitter.wait_for_listeners()
        gc.collect()
        (record,) = caplog.records
        assert "failing for 'ready' failed" in record.getMessage()
        assert record.exc_info[0] is LookupError

    def test_with_the_wrong_arguments_are_logged_too(self, emitter, caplog):
        emitter.on("ready", lambda: None)
        emitter.emit("ready", 1)
        assert "takes 0 positional arguments" in caplog.text

    def test_an_interrupt_is_no_failure_of_a_listener(self, emitter):
        def interrupt():
            raise KeyboardInterrupt

        emitter.on("ready", interrupt)
        with pytest.raises(KeyboardInterrupt):
            emitter.emit("ready")


async def test_the_application_has_events_of_its_own():
    heard = []
    app = App()
    app.on("ready", heard.append)
    app.emit("ready", app)
    assert heard == [app]


def test_whether_a_loop_is_running():
    async def inside():
        return loop_is_running()

    assert loop_is_running() is False
    assert asyncio.run(inside()) is True


def test_a_decorator_without_brackets_is_refused():
    with pytest.raises(TypeError, match="an event is a name"):
        EventEmitter().on(lambda data: None)


class Shop:
    """A service whose records belong to somebody."""

    async def create(self, data, params):
        return data

    async def patch(self, id, data, params):
        return [data, {**data, "again": True}]


class TestHeldBack:
    @pytest.fixture
    def heard(self):
        return []

    @pytest.fixture
    def shop(self, heard):
        shop = App().use("shop", Shop()).service("shop")
        shop.on("created", lambda record, context: heard.append(record["n"]))
        shop.on("patched", lambda record, context: heard.append(sorted(record)))
        return shop

    @staticmethod
    def of(name):
        return HeldEvents(lambda context: getattr(context.params, "held_by", None) == name)

    async def test_events_wait_until_they_are_released(self, shop, heard):
        with self.of("a") as held:
            await shop.create({"n": 1}, held_by="a")
            await shop.patch(None, {"n": 2}, held_by="a")
            await asyncio.gather(shop.create({"n": 3}, held_by="a"))
            assert heard == []
        assert heard == []
        held.release()
        assert heard == [1, ["n"], ["again", "n"], 3]
        held.release()
        assert len(heard) == 4

    async def test_those_of_other_calls_go_out_at_once(self, shop, heard):
        with self.of("a"):
            await shop.create({"n": 1})
            await shop.create({"n": 2}, held_by="b")
        await shop.create({"n": 3}, held_by="a")
        assert heard == [1, 2, 3]

    async def test_what_is_dropped_or_never_released_is_not_heard(self, shop, heard):
        with self.of("a") as held:
            await shop.create({"n": 1}, held_by="a")
            held.drop()
            await shop.create({"n": 2}, held_by="a")
        held.release()
        with pytest.raises(ValueError, match="no"), self.of("a"):
            await shop.create({"n": 3}, held_by="a")
            raise ValueError("no")
        assert heard == [2]

    async def test_one_within_another_leaves_it_its_own(self, shop, heard):
        with self.of("a") as outer:
            with self.of("b") as inner:
                await shop.create({"n": 1}, held_by="a")
                await shop.create({"n": 2}, held_by="b")
                await shop.create({"n": 3}, held_by="c")
            inner.release()
            assert heard == [3, 2]
        outer.release()
        assert heard == [3, 2, 1]

    async def test_what_goes_on_beside_is_not_held_for_ever(self, shop, heard):
        ended = asyncio.Event()

        async def later():
            await ended.wait()
            await shop.create({"n": 1}, held_by="a")

        with self.of("a"):
            beside = asyncio.create_task(later())
        ended.set()
        await beside
        assert heard == [1]


# -- in a transaction ------------------------------------------------------------------------------


def test_who_is_in_a_transaction():
    assert not is_in_transaction()
    with HeldEvents(lambda _: False):
        with HeldEvents(lambda _: False):
            assert is_in_transaction()
            inner = copy_context()
        assert inner.run(is_in_transaction)  # the outer one is open
    assert not inner.run(is_in_transaction)  # a task that was started inside and goes on


# -- what a call has done, where that is not what its method says ----------------------------------


class Upserting:
    """Says that it has changed the records with an id, and created the others."""

    async def create(self, data, params=None):
        records = data if isinstance(data, list) else [data]
        note_outcome(records, ["patched" if "id" in record else "created" for record in records])
        return data


@pytest.fixture
def upserting():
    app = App()
    inner = App().use("notes", Upserting())
    app.use("notes", Upserting())
    app.use("mounted", inner.service("notes"))
    return app


@pytest.mark.parametrize("path", ["notes", "mounted"])
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"n": 1}, ["created"]),
        ({"id": 1}, ["patched"]),
        ([{"n": 1}, {"id": 1}, {"n": 2}], ["created", "patched", "created"]),
        ([{"id": 1}, {"id": 2}], ["patched", "patched"]),
    ],
)
async def test_the_event_is_what_happened(upserting, path, data, expected):
    seen = []
    for event in ("created", "patched"):
        upserting.service(path).on(event, lambda record, _, name=event: seen.append((name, record)))
    await upserting.service(path).create(data)
    records = data if isinstance(data, list) else [data]
    assert seen == list(zip(expected, records, strict=True))


async def test_only_events_that_somebody_hears_are_emitted(upserting):
    seen = []
    upserting.service("notes").on("patched", lambda record, _: seen.append(record))
    await upserting.service("notes").create([{"n": 1}, {"id": 1}])
    await upserting.service("notes").create({"n": 1})
    assert seen == [{"id": 1}]


async def test_an_outcome_of_another_result_counts_for_nothing(upserting):
    class Outer:
        async def create(self, data, params=None):
            await Upserting().create({"id": 1})
            return {}

    seen = []
    upserting.use("outer", Outer())
    upserting.service("outer").on("created", lambda record, _: seen.append(record))
    await upserting.service("outer").create({})
    assert seen == [{}]


async def test_events_that_a_service_emits_itself_are_not_emitted_again():
    seen = []
    app = App().use("notes", Upserting(), events=["created"])
    for event in ("created", "patched"):
        app.service("notes").on(event, lambda record, _, name=event: seen.append((name, record)))
    await app.service("notes").create([{"n": 1}, {"id": 1}])
    assert seen == [("patched", {"id": 1})]
