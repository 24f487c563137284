"""What holds the event loop is told: by its name, where, and for how long."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvloop
from tests.express.asgi_client import call

import alula.watchdog as watchdog_module
from alula import App
from alula.express import express, rest
from alula.watchdog import LoopWatchdog, watch_loop

pytestmark = pytest.mark.slow

HOLD = 0.8  # four times what is told: a machine that stands still meanwhile takes parts of it away
TOLD = re.compile(r"the event loop was held for (\d+\.\d\d) s by (.+), at (.+), line \d+, in (\w+)")


def hold(seconds=HOLD):
    # Not at once: a process that stands still for so long meanwhile would have held nothing.
    while seconds > 0:
        time.sleep(min(seconds, 0.05))
        seconds -= 0.05


class Holds:
    """A service whose methods hold the loop."""

    async def get(self, id, params):
        hold()
        return {"id": id}

    def find(self, params):
        return []

    async def create(self, data, params):
        return data


@pytest.fixture
def told(caplog):
    """Return what was told, each as seconds, what, file and function; the rest by its text."""
    caplog.set_level(logging.WARNING, "alula.watchdog")

    def found():
        lines = [each.getMessage() for each in caplog.records if each.name == "alula.watchdog"]
        return [
            (float(match[1]), *match.groups()[1:]) if (match := TOLD.fullmatch(line)) else line
            for line in lines
        ]

    return found


async def watched(work, **options):
    """Run work below a watchdog, with time to see what came last."""
    with LoopWatchdog(**options):
        await asyncio.sleep(0.1)
        result = await work
        for _ in range(2):  # the thread runs in between, also where the process stood still
            await asyncio.sleep(0.2)
    return result


def own(told):
    """Return what code of this file has held; a slow machine holds the loop elsewhere, too."""
    return [line for line in told() if isinstance(line, tuple) and line[2] == __file__]


def one(told):
    ((seconds, what, _, function),) = own(told)
    assert 0.2 <= seconds <= HOLD + 2
    # A machine that stands still in another callback gives that a part of it.
    return what.removeprefix("many callbacks in a row, among them "), function


class TestWhatIsNamed:
    async def test_a_method_of_a_service(self, told):
        app = App()
        app.use("slow", Holds())
        await watched(app.service("slow").get(1))
        assert one(told) == ("`get` of service 'slow'", "hold")

    @pytest.mark.parametrize("kind", ["before", "after", "around"])
    async def test_a_hook(self, told, kind):
        async def slow_hook(context, next=None):
            if next:
                await next()
            hold()

        app = App()
        app.use("notes", Holds())
        app.service("notes").hooks({kind: {"find": [slow_hook]}})
        await watched(app.service("notes").find())
        what, function = one(told)
        assert what.startswith(f"{kind} hook {__name__}.TestWhatIsNamed.test_a_hook.")
        assert what.endswith(".slow_hook of service 'notes'")
        assert function == "hold"

    async def test_a_hook_of_the_start(self, told):
        async def begin(context, next):
            hold()
            await next()

        app = App()
        app.hooks(setup=[begin])
        await watched(app.setup())
        what, _ = one(told)
        assert what.startswith("setup hook ")
        assert what.endswith(".begin of the application (0 services)")

    async def test_middleware(self, told):
        async def slow_step(req, res, next):
            hold()
            await next()

        app = express(App())
        app.use(slow_step)
        app.configure(rest())
        await watched(call(app, url="/nowhere"))
        what, _ = one(told)
        assert what.startswith("middleware ")
        assert what.endswith(".slow_step (GET)")

    @pytest.mark.parametrize("is_async", [True, False])
    async def test_a_listener(self, told, is_async):
        async def later(record, context):
            hold()

        def at_once(record, context):
            hold()

        app = App()
        app.use("notes", Holds())
        app.service("notes").on("created", later if is_async else at_once)

        async def work():
            await app.service("notes").create({})
            await app.service("notes").wait_for_listeners()

        await watched(work())
        what, _ = one(told)
        assert what.startswith("listener ")
        assert what.endswith(f".{'later' if is_async else 'at_once'} for 'created'")

    async def test_any_other_code_by_its_function(self, told):
        async def work():
            hold()

        await watched(work())
        what, function = one(told)
        assert (what, function) == (f"{__name__}.hold", "hold")

    def test_on_uvloop_too(self, told):
        async def work():
            hold()

        uvloop.run(watched(work()))
        assert one(told) == (f"{__name__}.hold", "hold")

    async def test_code_that_does_not_let_other_threads_run(self, told):
        async def work():
            re.match(r"(a+)+$", "a" * 24 + "b")  # one call of C, which takes half a second or more

        for _ in range(5):  # the thread that looks needs a processor in time, too
            await watched(work())
            if own(told):  # it may be told meanwhile, or found in what the loop does next
                break
        seconds, what, _, function = own(told)[-1]
        assert seconds > 0.2
        assert what.endswith(".work")
        assert function == "work"

    async def test_many_callbacks_of_which_none_is_long(self, told):
        def short():
            time.sleep(0.002)

        async def work():
            for _ in range(300):
                asyncio.get_running_loop().call_soon(short)
            await asyncio.sleep(0)

        await watched(work())
        ((_, what, _, _),) = own(told)
        assert what.startswith("many callbacks in a row, among them ")
        assert what.endswith(".short")

    async def test_a_callback_without_a_frame(self, told):
        asyncio.get_running_loop().call_later(0.1, time.sleep, 2 * HOLD)
        await watched(asyncio.sleep(0.2))
        (line,) = (line for line in told() if isinstance(line, str))
        assert line.endswith("by a callback of the event loop, at an unknown place")

    async def test_what_the_thread_did_not_see(self, told):
        watchdog = LoopWatchdog()
        watchdog._judge(0, HOLD)
        (line,) = told()
        assert line.endswith("by code that was not seen, at an unknown place")


class TestWhenItIsTold:
    async def test_two_holds_are_two(self, told):
        async def work():
            for _ in range(2):
                hold()
                await asyncio.sleep(0.2)

        await watched(work())
        assert len(own(told)) == 2

    async def test_what_does_not_end_is_logged_meanwhile(self, told, monkeypatch):
        monkeypatch.setattr(watchdog_module, "_LONG_SECONDS", 0.4)

        async def work():
            hold(1.5)

        await watched(work())
        (so_far,) = (line for line in told() if isinstance(line, str))
        (end,) = own(told)
        assert so_far.startswith("the event loop has been held for 0.")
        assert "s so far by tests.test_watchdog.hold, at " in so_far
        assert end[0] > 0.8

    async def test_seconds_are_an_option(self, told):
        async def work():
            hold(0.4)

        await watched(work(), seconds=1.5)
        assert own(told) == []

    async def test_a_loop_that_has_nothing_to_do_is_not_held(self, told):
        await watched(asyncio.sleep(0.8))
        assert told() == []

    async def test_nor_one_with_much_to_do(self, told):
        async def work():
            end = time.monotonic() + 0.8
            while time.monotonic() < end:
                hold(0.01)
                await asyncio.sleep(0)

        await watched(work())
        assert own(told) == []

    async def test_the_record_has_the_figures(self, caplog):
        async def work():
            hold()

        for _ in range(5):  # once without a machine that stands still in between
            caplog.clear()
            await watched(work())
            records = [each for each in caplog.records if each.name == "alula.watchdog"]
            (record,) = (each for each in records if each.held_by == f"{__name__}.hold")
            if record.held_seconds >= HOLD * 0.9:
                break
        assert HOLD * 0.9 <= record.held_seconds <= HOLD + 2

    def test_a_loop_that_does_not_run_is_not_held(self, told):
        with asyncio.Runner() as runner:
            watchdog = LoopWatchdog()

            async def begin():
                watchdog.start()

            runner.run(begin())
            time.sleep(0.8)
            runner.run(asyncio.sleep(0.3))
            watchdog.stop()
        assert told() == []


STOPPED = """
import asyncio, os, signal, sys, time
from alula.logs import configure_logging
from alula.watchdog import LoopWatchdog

async def main():
    with LoopWatchdog():
        await asyncio.sleep(0.2)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.sleep(0.3)
        print("went on", flush=True)
        for _ in range(12):
            time.sleep(0.05)
        await asyncio.sleep(0.3)

configure_logging(json=False, stream=sys.stdout)
asyncio.run(main())
"""


def test_a_process_that_was_stopped_is_not_logged():
    source = str(Path(watchdog_module.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        said, _ = process.communicate("\n", timeout=60)
    first, *more = said.splitlines()
    assert first == "went on"
    assert len(more) == 1, more
    held = re.search(r"was held for (\d\.\d\d) s", more[0])
    assert 0.4 < float(held[1]) < 1.5, more


def test_a_stop_is_remembered_until_it_is_judged(told, monkeypatch):
    now = 100.0
    clock = SimpleNamespace(monotonic=lambda: now, process_time=lambda: 0.0)
    monkeypatch.setattr(watchdog_module, "time", clock)
    passing = iter([1.5, 0.05, 9])

    def wait(_):
        nonlocal now
        now += next(passing)
        return now > 110

    class Late(deque):
        """The loop comes to go on just after the thread has looked."""

        def __bool__(self):
            is_late = len(self) > 0
            if now > 101 and watchdog._last < 101:
                self.append((watchdog._last, now))
                watchdog._last = now
            return is_late

    watchdog = LoopWatchdog()
    watchdog._loop = SimpleNamespace(is_running=lambda: True)
    watchdog._last, watchdog._late = now, Late()
    watchdog._stopped = SimpleNamespace(wait=wait)
    watchdog._watch()
    assert not watchdog._late
    assert told() == []


class TestUse:
    async def test_one_watchdog_for_a_loop(self, told):
        async def work():
            with LoopWatchdog():
                hold()
                await asyncio.sleep(0.2)
            hold()

        await watched(work())
        assert len(own(told)) == 2

    async def test_after_its_end_nothing_is_logged(self, told):
        with LoopWatchdog():
            await asyncio.sleep(0.1)
        hold()
        await asyncio.sleep(0.2)
        assert own(told) == []

    def test_it_needs_a_loop(self):
        with pytest.raises(RuntimeError, match="no running event loop"):
            LoopWatchdog().start()

    @pytest.mark.parametrize("seconds", [0, -1, float("nan")])
    def test_seconds_are_above_zero(self, seconds):
        with pytest.raises(ValueError, match="give seconds above zero"):
            watch_loop(seconds)


class TestThePlugin:
    @pytest.mark.parametrize("make", [App, lambda: express(App())])
    async def test_it_watches_from_the_set_up_to_the_teardown(self, told, make):
        app = make()
        app.configure(watch_loop(0.2))
        app.use("slow", Holds())
        await app.setup()
        await asyncio.sleep(0.1)
        await app.service("slow").get(1)
        await asyncio.sleep(0.2)
        await app.teardown()
        hold()
        await asyncio.sleep(0.2)
        assert one(told)[0] == "`get` of service 'slow'"

    async def test_where_the_set_up_fails_it_watches_no_longer(self, told):
        async def fail(context, next):
            raise LookupError("no database")

        app = App()
        app.configure(watch_loop())
        app.hooks(setup=[fail])
        with pytest.raises(LookupError):
            await app.setup()
        hold()
        await asyncio.sleep(0.2)
        assert own(told) == []

    def test_an_application_without_services(self):
        with pytest.raises(TypeError, match=r"with alula\.watchdog\.LoopWatchdog\(\):"):
            express().configure(watch_loop())
