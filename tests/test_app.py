"""The application: registering, settings, sub-applications, start and stop."""

import asyncio
import gc
import time
import types

import pytest
from tests.waiting import settle

from alula import UNSET, App, Params, _registry
from alula.errors import NotFound
from alula.express import express


class Messages:
    async def find(self, params):
        return [{"id": 1, "route": dict(params.route)}]

    async def get(self, id, params):
        return {"id": id, "password": "secret"}

    async def create(self, data, params):
        return data

    async def archive(self, data, params):
        return {"archived": data}


class Living:
    """A service that writes down its life; it can fail, and it can be held up."""

    def __init__(self, trace, name, *, fails=()):
        self.trace = trace
        self.name = name
        self.fails = set(fails)
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def find(self, params):
        self.trace.append(f"{self.name} find")
        return [self.name]

    async def create(self, data, params):
        return data

    async def setup(self, app, path):
        await self.go_on.wait()
        self.live("setup")

    async def teardown(self, app, path):
        await self.go_on.wait()
        self.live("teardown")

    def live(self, step):
        self.trace.append(f"{self.name} {step}")
        if step in self.fails:
            raise ConnectionError(f"{self.name} {step}")


@pytest.fixture
def app():
    return App()


@pytest.fixture
def trace():
    return []


@pytest.fixture
def living(app, trace):
    """Return a function that registers services by their names."""

    def register(*names, **options):
        for name in names:
            app.use(name, Living(trace, name, **options))
        return app.service(names[-1]).service

    return register


class TestSettings:
    def test_are_kept_by_name(self, app):
        assert app.set("port", 3030) is app
        assert app.get("port") == 3030
        assert app.settings == {"port": 3030}

    def test_are_none_where_they_were_never_set(self, app):
        assert app.get("port") is None

    def test_are_those_of_one_application(self, app):
        app.set("port", 3030)
        assert App().get("port") is None

    @pytest.mark.parametrize(
        ("value", "debug"),
        [
            (None, False),
            ("", False),
            ("0", False),
            ("false", False),
            ("no", False),
            ("1", True),
            ("true", True),
            ("TRUE", True),
            ("yes", True),
            ("on", True),
        ],
    )
    def test_debug_is_read_from_the_environment(self, monkeypatch, value, debug):
        monkeypatch.delenv("ALULA_DEBUG", raising=False)
        if value is not None:
            monkeypatch.setenv("ALULA_DEBUG", value)
        assert App().debug is debug
        assert App(debug=True).debug is True
        assert App(debug=False).debug is False


class TestConfigure:
    def test_calls_a_plugin_with_the_application(self, app):
        def plugin(given):
            given.set("plugged", True)

        assert app.configure(plugin) is app
        assert app.get("plugged") is True

    @pytest.mark.parametrize("plugin", [None, "rest"])
    def test_refuses_what_is_no_plugin(self, app, plugin):
        with pytest.raises(TypeError, match=rf"configure\({plugin!r}\): a plugin is a function"):
            app.configure(plugin)

    def test_refuses_an_asynchronous_plugin(self, app, recwarn):
        async def plugin(given):
            """Is never run."""

        with pytest.raises(TypeError, match=r"plugin\): plugins are plain functions"):
            app.configure(plugin)
        gc.collect()
        assert not recwarn.list

    async def test_refuses_a_plugin_that_returns_a_future(self, app):
        future = asyncio.get_running_loop().create_future()
        with pytest.raises(TypeError, match="work in a `setup` hook"):
            app.configure(lambda given: future)

    def test_an_error_of_the_plugin_is_raised(self, app):
        def plugin(given):
            raise LookupError("plugin")

        with pytest.raises(LookupError, match="plugin"):
            app.configure(plugin)


class TestServices:
    def test_are_looked_up_by_their_path(self, app):
        assert app.use("/messages/", Messages()) is app
        handle = app.service("messages")
        assert handle.path == "messages"
        assert app.service("/messages/") is handle
        assert app.services == {"messages": handle}
        assert (handle.app, repr(app)) == (app, "the application (1 services)")

    def test_that_are_missing_are_an_error_with_a_hint(self, app):
        app.use("messages", Messages())
        with pytest.raises(LookupError, match=r"at 'mesages'; did you mean 'messages'\?"):
            app.service("mesages")
        with pytest.raises(LookupError, match=r"there is no service at 'users'$"):
            app.service("users")

    @pytest.mark.parametrize("second", ["messages", "/messages", "messages/"])
    def test_two_on_one_path_are_refused(self, app, second):
        first = Messages()
        app.use("messages", first)
        with pytest.raises(ValueError, match="cannot register a service at 'messages'"):
            app.use(second, Messages())
        assert app.service("messages").service is first

    def test_two_paths_of_one_shape_are_refused(self, app):
        app.use("users/:id/messages", Messages())
        with pytest.raises(ValueError, match="there is something at the path"):
            app.use("users/:userId/messages", Messages())

    @pytest.mark.parametrize("path", [Messages(), None, 5, b"messages"])
    def test_a_path_that_is_no_string_is_refused(self, app, path):
        with pytest.raises(TypeError, match=r"use\(path, service\) takes a path first"):
            app.use(path, Messages())

    def test_at_the_root(self, app):
        app.use("/", Messages())
        assert app.service("/") is app.service("")
        assert app.lookup("/5")[1] == "5"

    async def test_with_placeholders(self, app):
        app.use("users/:userId/messages", Messages())
        match = app.lookup("/users/7/messages/3")
        assert match[:2] == (app.service("users/:userId/messages"), "3")
        assert await match[0].find(route=match[2]) == [{"id": 1, "route": {"userId": "7"}}]

    def test_lookup(self, app):
        app.use("messages", Messages())
        assert app.lookup("/messages/5") == (app.service("messages"), "5", {})
        assert app.lookup("/nope") is None

    @pytest.mark.untraced
    def test_of_thousands_one_is_looked_up_as_fast_as_alone(self):
        service = Messages()
        few, many = App().use("service1000", service), App()
        for number in range(2_000):
            many.use(f"service{number}", service, methods=["find"])

        def seconds(app):
            def once():
                begin = time.perf_counter()
                for _ in range(50):
                    app.lookup("/service1000/1")
                    app.service("service1000")
                return time.perf_counter() - begin

            return min(once() for _ in range(20))

        assert seconds(many) < 5 * seconds(few)


class TestUnuse:
    async def test_gives_the_object_back_and_frees_the_path(self, app):
        service = Messages()
        app.use("messages", service)
        assert await app.unuse("/messages") is service
        assert app.services == {}
        assert app.lookup("/messages") is None
        app.use("messages", Messages())

    async def test_of_nothing_is_an_error(self, app):
        with pytest.raises(LookupError, match="there is no service at 'messages'"):
            await app.unuse("messages")

    async def test_tears_down_what_was_set_up(self, app, living, trace):
        living("a", "b")
        await app.setup()
        trace.clear()
        await app.unuse("a")
        assert trace == ["a teardown"]
        await app.teardown()
        assert trace == ["a teardown", "b teardown"]

    async def test_does_not_tear_down_what_was_never_set_up(self, app, living, trace):
        living("a")
        await app.unuse("a")
        assert trace == []

    async def test_waits_for_listeners_and_for_a_set_up_that_is_under_way(self, app, living, trace):
        await app.setup()
        service = living("late")
        service.go_on.clear()
        handle = app.service("late")
        handle.on("created", lambda data, context: asyncio.sleep(0.001, trace.append("heard")))
        removing = asyncio.ensure_future(app.unuse("late"))
        await settle()
        assert not removing.done()
        handle.emit("created", {}, None)
        service.go_on.set()
        await removing
        assert trace == ["heard", "late setup", "late teardown"]

    async def test_waits_for_what_the_teardown_emits(self, app, trace):
        class Emitting(Messages):
            def teardown(self, app, path):
                handle.emit("closed", {}, None)

        async def listener(data, context):
            await asyncio.sleep(0)
            trace.append("heard")

        handle = app.use("emitting", Emitting(), events=["closed"]).service("emitting")
        handle.on("closed", listener)
        await app.setup()
        await app.unuse("emitting")
        assert trace == ["heard"]

    async def test_a_handle_that_somebody_kept_still_works(self, app, living):
        living("a")
        handle = app.service("a")
        await app.unuse("a")
        assert await handle.find() == ["a"]

    async def test_during_setup_skips_the_set_up(self, app, living, trace):
        class Remover:
            async def find(self, params):
                return []

            async def setup(self, app, path):
                await app.unuse("a")
                app.use("a", Living(trace, "new a"))

        app.use("remover", Remover())
        living("a", "b")
        await app.setup()
        assert sorted(trace) == ["b setup", "new a setup"]


class TestSetupAndTeardown:
    async def test_order(self, app, living, trace):
        living("a", "b", "c")
        assert await app.setup() is app
        assert await app.teardown() is app
        assert trace == [f"{name} setup" for name in "abc"] + [f"{name} teardown" for name in "cba"]

    async def test_get_application_and_path(self, app):
        seen = []
        service = types.SimpleNamespace(
            find=lambda params: [],
            setup=lambda *args: seen.append(args),
            teardown=lambda *args: seen.append(args),
        )
        app.use("/deep/path", service)
        await app.setup()
        await app.teardown()
        assert seen == [(app, "deep/path")] * 2

    async def test_services_without_them_are_left_alone(self, app):
        app.use("messages", Messages())
        await app.setup()
        await app.teardown()

    async def test_a_second_setup_does_nothing_more(self, app, living, trace):
        living("a")
        await app.setup()
        await app.setup()
        assert trace == ["a setup"]

    async def test_setups_at_the_same_time_are_one(self, app, living, trace):
        service = living("a")
        service.go_on.clear()
        both = asyncio.gather(app.setup(), app.setup())
        await settle()
        assert not both.done()
        service.go_on.set()
        await both
        assert trace == ["a setup"]

    async def test_a_setup_that_is_cancelled_does_not_cancel_the_other(self, app, living, trace):
        service = living("a")
        service.go_on.clear()
        first, second = asyncio.ensure_future(app.setup()), asyncio.ensure_future(app.setup())
        await settle()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        service.go_on.set()
        await second
        assert trace == ["a setup"]

    async def test_teardown_waits_for_a_setup_that_is_under_way(self, app, living, trace):
        service = living("a")
        service.go_on.clear()
        starting = asyncio.ensure_future(app.setup())
        await asyncio.sleep(0)
        stopping = asyncio.ensure_future(app.teardown())
        await settle()
        service.go_on.set()
        await asyncio.gather(starting, stopping)
        assert trace == ["a setup", "a teardown"]

    async def test_it_is_ready_in_between(self, app):
        seen = []

        async def note(context, next):
            seen.append(app.is_ready)
            await next()
            seen.append(app.is_ready)

        app.hooks(setup=[note], teardown=[note])
        assert not app.is_ready
        await app.setup()
        assert app.is_ready
        await app.teardown()
        assert seen == [False] * 4
        assert not app.is_ready

    async def test_after_teardown_it_can_be_set_up_again(self, app, living, trace):
        living("a")
        for _ in range(2):
            await app.setup()
            await app.teardown()
        assert trace == ["a setup", "a teardown"] * 2

    async def test_teardown_without_setup_calls_nothing(self, app, living, trace):
        living("a")
        app.hooks(teardown=[around_life(trace, "hook")])
        await app.teardown()
        assert trace == []

    async def test_calls_work_without_setup(self, app, living):
        living("a")
        assert await app.service("a").find() == ["a"]

    @pytest.mark.parametrize("outer", ["setup", "teardown"])
    @pytest.mark.parametrize("inner", ["setup", "teardown"])
    async def test_from_within_each_other_are_refused(self, app, outer, inner):
        """They would wait for themselves."""
        service = Messages()

        async def call(given, path):
            await getattr(given, inner)()

        setattr(service, outer, call)
        app.use("messages", service)
        with pytest.raises(RuntimeError, match="cannot call each other"):
            await asyncio.wait_for(life_of(app), 30)
        delattr(service, outer)
        await asyncio.wait_for(life_of(app), 30)

    async def test_a_task_that_a_setup_began_may_tear_down_later(self, app, trace):
        """Such as one that watches a connection and ends the application when it breaks."""

        class Watching(Messages):
            async def setup(self, app, path):
                self.task = asyncio.create_task(app.teardown())

            def teardown(self, app, path):
                trace.append("teardown")

        service = Watching()
        await app.use("watching", service).setup()
        await asyncio.wait_for(service.task, 30)
        assert trace == ["teardown"]


async def life_of(app):
    await app.setup()
    await app.teardown()


class TestFailingSetup:
    async def test_takes_back_what_was_set_up_and_raises(self, app, living, trace):
        living("a", "b")
        living("c", fails=["setup"])
        living("d")
        with pytest.raises(ConnectionError, match="c setup"):
            await app.setup()
        assert trace == ["a setup", "b setup", "c setup", "b teardown", "a teardown"]

    async def test_can_be_tried_again(self, app, living, trace):
        living("a")
        failing = living("b", fails=["setup"])
        with pytest.raises(ConnectionError):
            await app.setup()
        failing.fails.clear()
        trace.clear()
        await app.setup()
        assert trace == ["a setup", "b setup"]

    async def test_of_two_at_the_same_time_each_tells_of_its_own(self, app, living, trace):
        living("a", fails=["setup"])
        outcomes = await asyncio.gather(app.setup(), app.setup(), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ConnectionError] * 2
        assert trace == ["a setup"] * 2

    async def test_a_teardown_after_it_does_nothing_more(self, app, living, trace):
        living("a")
        living("b", fails=["setup"])
        with pytest.raises(ConnectionError):
            await app.setup()
        trace.clear()
        await app.teardown()
        assert trace == []

    async def test_whose_teardown_fails_too_raises_the_first_error(self, app, living, caplog):
        living("a", fails=["teardown"])
        living("b", fails=["setup"])
        with pytest.raises(ConnectionError, match="b setup"):
            await app.setup()
        assert "ConnectionError: a teardown" in caplog.text

    async def test_leaves_nothing_for_asyncio_to_report(self, app, living):
        reported = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        try:
            living("a", fails=["setup"])
            with pytest.raises(ConnectionError):
                await app.setup()
            gc.collect()
        finally:
            loop.set_exception_handler(None)
        assert reported == []

    async def test_a_cancelled_setup_takes_back_too(self, app, living, trace):
        living("a")
        living("b").go_on.clear()
        starting = asyncio.ensure_future(app.setup())
        await settle()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert trace == ["a setup", "a teardown"]


class TestFailingTeardown:
    async def test_of_one_reaches_the_others_and_the_caller(self, app, living, trace):
        living("a")
        living("b", fails=["teardown"])
        living("c")
        await app.setup()
        trace.clear()
        with pytest.raises(ConnectionError, match="b teardown"):
            await app.teardown()
        assert trace == ["c teardown", "b teardown", "a teardown"]
        await app.teardown()
        assert len(trace) == 3

    async def test_of_several_is_a_group(self, app, living):
        living("a", "b", fails=["teardown"])
        await app.setup()
        with pytest.raises(ExceptionGroup, match="several services failed") as caught:
            await app.teardown()
        assert [str(error) for error in caught.value.exceptions] == ["b teardown", "a teardown"]

    async def test_that_is_cancelled_can_be_finished(self, app, living, trace):
        slow = living("a")
        living("b")
        await app.setup()
        trace.clear()
        slow.go_on.clear()
        stopping = asyncio.ensure_future(app.teardown())
        await settle()
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert trace == ["b teardown"]
        slow.go_on.set()
        await app.teardown()
        assert trace == ["b teardown", "a teardown"]


class TestTeardownAndListeners:
    async def test_listeners_end_before_the_services_do(self, app, living, trace):
        living("a")
        await app.setup()

        @app.service("a").on("created")
        async def listener(data, context):
            await asyncio.sleep(0.001)
            await context.service.find()

        @app.on("custom")
        async def other(value):
            await asyncio.sleep(0.001)
            trace.append("custom")

        await app.service("a").create({})
        app.emit("custom", 1)
        await app.teardown()
        assert trace[0] == "a setup"
        assert trace[-1] == "a teardown"
        assert sorted(trace[1:-1]) == ["a find", "custom"]

    async def test_what_teardown_emits_is_waited_for(self, app, trace):
        class Emitting(Messages):
            def teardown(self, app, path):
                app.emit("closed")

        async def listener():
            await asyncio.sleep(0)
            trace.append("closed")

        app.use("messages", Emitting()).on("closed", listener)
        await app.setup()
        await app.teardown()
        assert trace == ["closed"]

    async def test_they_are_waited_for_without_a_setup_too(self, app, living, trace):
        living("a")

        @app.service("a").on("created")
        async def listener(data, context):
            await asyncio.sleep(0)
            trace.append("heard")

        await app.service("a").create({})
        await app.teardown()
        assert trace == ["heard"]

    async def test_a_listener_may_tear_down(self, app, living, trace):
        living("a")
        await app.setup()
        tasks = []

        @app.service("a").on("created")
        async def listener(data, context):
            tasks.append(asyncio.current_task())
            await app.teardown()

        await app.service("a").create({})
        await asyncio.sleep(0)
        await asyncio.wait_for(tasks[0], 30)
        assert trace == ["a setup", "a teardown"]


def around_life(trace, name):
    async def hook(context, next):
        trace.append(f"{name} in")
        await next()
        trace.append(f"{name} out")

    return hook


class TestSetupHooks:
    async def test_surround_all_services(self, app, living, trace):
        living("a", "b")
        app.hooks(
            setup=[around_life(trace, "first"), around_life(trace, "second")],
            teardown=around_life(trace, "down"),
        )
        await app.setup()
        assert trace == [
            "first in",
            "second in",
            "a setup",
            "b setup",
            "second out",
            "first out",
        ]
        trace.clear()
        await app.teardown()
        assert trace == ["down in", "b teardown", "a teardown", "down out"]

    async def test_know_application_server_and_what_runs(self, app):
        seen = []

        async def see(context, next):
            seen.append((context.app, context.server, context.method))
            await next()

        app.hooks({"setup": [see], "teardown": (see,)})
        server = object()
        await app.setup(server)
        await app.teardown()
        assert seen == [(app, server, "setup"), (app, None, "teardown")]

    async def test_stand_beside_other_hooks(self, app, living, trace):
        living("a")
        app.hooks(
            setup=[around_life(trace, "setup")], before=[lambda context: trace.append("before")]
        )
        await app.setup()
        await app.service("a").find()
        assert trace == ["setup in", "a setup", "setup out", "before", "a find"]

    async def test_that_fail_after_next_take_back_the_set_up(self, app, living, trace):
        living("a")

        async def fail(context, next):
            await next()
            raise LookupError("hook")

        app.hooks(setup=[fail])
        with pytest.raises(LookupError, match="hook"):
            await app.setup()
        assert trace == ["a setup", "a teardown"]

    async def test_may_try_again_where_it_failed(self, app, living, trace):
        living("a")
        failing = living("b", fails=["setup"])

        async def retry(context, next):
            try:
                await next()
            except ConnectionError:
                failing.fails.clear()
                await next()

        app.hooks(setup=[retry])
        await app.setup()
        assert trace == ["a setup", "b setup", "b setup"]

    @pytest.mark.parametrize("kind", ["setup", "teardown"])
    async def test_that_do_not_go_on_are_an_error(self, app, kind):
        async def forgetful(context, next):
            """Do not go on."""

        app.hooks({kind: [forgetful]})
        with pytest.raises(RuntimeError, match=rf"{kind} hook of .*not await next\(\)"):
            await life_of(app)

    @pytest.mark.parametrize("kind", ["setup", "teardown"])
    def test_are_checked_when_they_are_registered(self, app, kind, trace):
        with pytest.raises(TypeError, match=rf"{kind} hook .*function of \(context, next"):
            app.hooks({kind: [lambda context: None]})
        with pytest.raises(TypeError, match="is not a function"):
            app.hooks({kind: {"all": []}})

    async def test_what_is_refused_leaves_nothing_registered(self, app, trace):
        with pytest.raises(ValueError, match="unknown type of hook"):
            app.hooks(setup=[around_life(trace, "setup")], befor=[])
        await app.setup()
        assert trace == []

    def test_belong_to_the_application_alone(self, app, trace):
        app.use("messages", Messages())
        with pytest.raises(ValueError, match="unknown type of hook 'setup'"):
            app.service("messages").hooks(setup=[around_life(trace, "setup")])


class TestLateRegistration:
    async def test_is_set_up_at_once_and_torn_down_in_its_turn(self, app, living, trace):
        living("a")
        await app.setup()
        living("late")
        await app.service("late").wait_for_setup()
        await app.teardown()
        assert trace == ["a setup", "late setup", "late teardown", "a teardown"]

    async def test_calls_wait_for_it(self, app, living, trace):
        await app.setup()
        service = living("late")
        service.go_on.clear()
        calls = [asyncio.ensure_future(app.service("late").find()) for _ in range(2)]
        await settle()
        assert trace == []
        service.go_on.set()
        await asyncio.gather(*calls)
        assert trace == ["late setup", "late find", "late find"]
        assert app.service("late")._setup is None, "later calls should not even ask"

    async def test_a_call_that_gives_up_does_not_stop_it(self, app, living, trace):
        await app.setup()
        service = living("late")
        service.go_on.clear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(app.service("late").find(), 0.001)
        service.go_on.set()
        await app.service("late").find()
        assert trace == ["late setup", "late find"]

    async def test_its_failure_reaches_callers_and_log_and_a_later_call_tries_again(
        self, app, living, trace, caplog
    ):
        await app.setup()
        service = living("late", fails=["setup"])
        with pytest.raises(ConnectionError, match="late setup"):
            await app.service("late").find()
        assert "service 'late', registered late, failed to set up" in caplog.text
        service.fails.clear()
        await app.service("late").find()
        assert trace == ["late setup", "late setup", "late find"]

    async def test_that_failed_is_not_torn_down(self, app, living, trace):
        await app.setup()
        living("late", fails=["setup"])
        with pytest.raises(ConnectionError):
            await app.service("late").wait_for_setup()
        await app.teardown()
        assert trace == ["late setup"]

    async def test_its_set_up_may_call_itself(self, app, trace):
        """To fill an empty store, for example."""

        class Seeding(Living):
            async def setup(self, app, path):
                await app.service(path).create({"seed": True})
                self.trace.append("seeded")

        await app.setup()
        app.use("seeding", Seeding(trace, "seeding"))
        await asyncio.wait_for(app.service("seeding").find(), 30)
        assert trace == ["seeded", "seeding find"]

    async def test_teardown_waits_for_a_set_up_that_is_under_way(self, app, living, trace):
        await app.setup()
        service = living("late")
        service.go_on.clear()
        stopping = asyncio.ensure_future(app.teardown())
        await settle()
        assert not stopping.done()
        service.go_on.set()
        await stopping
        assert trace == ["late setup", "late teardown"]

    async def test_without_set_up_it_is_torn_down_all_the_same(self, app, trace):
        class Closing(Messages):
            def teardown(self, app, path):
                trace.append("closed")

        await app.setup()
        app.use("closing", Closing())
        await app.service("closing").find()
        await app.teardown()
        assert trace == ["closed"]

    async def test_by_the_set_up_of_another_belongs_to_it(self, app, living, trace):
        class Registering(Messages):
            def setup(self, app, path):
                living("b", fails=["setup"])
                trace.append("registered")

        app.use("a", Registering())
        with pytest.raises(ConnectionError, match="b setup"):
            await app.setup()
        app.service("b").service.fails.clear()
        await app.unuse("a")
        await app.setup()
        assert trace == ["registered", "b setup", "b setup"]

    def test_without_a_loop_begins_with_the_first_call(self, app, living, trace):
        asyncio.run(app.setup())
        living("late")
        assert trace == []
        asyncio.run(app.service("late").find())
        assert trace == ["late setup", "late find"]

    def test_from_one_loop_to_the_next(self, app, living, trace):
        """A set-up that died with its loop begins anew in the next one."""

        async def first():
            await app.setup()
            living("late").go_on.clear()
            await asyncio.sleep(0)

        asyncio.run(first())
        app.service("late").service.go_on = asyncio.Event()
        app.service("late").service.go_on.set()
        asyncio.run(app.service("late").find())
        asyncio.run(app.teardown())
        assert trace == ["late setup", "late find", "late teardown"]

    async def test_after_teardown_nothing_is_begun_any_more(self, app, living, trace):
        await app.setup()
        living("late", fails=["setup"])
        with pytest.raises(ConnectionError):
            await app.service("late").wait_for_setup()
        await app.teardown()
        trace.clear()
        await app.service("late").find()
        living("later")
        await app.service("later").find()
        assert trace == ["late find", "later find"]


class TestSubApplications:
    @pytest.fixture
    def sub(self):
        return App().use("messages", Messages(), methods=["find", "get", "create", "archive"])

    @pytest.fixture
    def mounted(self, app, sub):
        return app.use("/v1/", sub).service("v1/messages")

    async def test_offer_their_services_below_a_path(self, app, sub, mounted):
        assert (await mounted.get(5))["id"] == 5
        assert await mounted.archive({"a": 1}) == {"archived": {"a": 1}}
        assert app.lookup("/v1/messages/5") == (mounted, "5", {})
        assert mounted.methods == sub.service("messages").methods

    async def test_the_hooks_of_both_run_those_outside_first(self, app, sub, mounted):
        trace = []
        for name, target in (
            ("app", app),
            ("mounted", mounted),
            ("sub", sub),
            ("service", sub.service("messages")),
        ):
            target.hooks(around=[around_life(trace, name)])
        await mounted.find()
        names = ["app", "mounted", "sub", "service"]
        assert trace == [f"{n} in" for n in names] + [f"{n} out" for n in reversed(names)]
        trace.clear()
        await sub.service("messages").find()
        assert trace == ["sub in", "service in", "service out", "sub out"]

    async def test_contexts_name_the_application_they_belong_to(self, app, sub, mounted):
        seen = []
        for target in (app, sub):
            target.hooks(before=[lambda context: seen.append((context.app, context.path))])
        await mounted.find()
        assert seen == [(app, "v1/messages"), (sub, "messages")]

    async def test_what_hooks_there_hide_stays_hidden(self, app, sub, mounted):
        """A hook there that keeps the password inside is not passed by on the way out."""
        seen = []

        async def hide(context):
            context.dispatch = {"id": context.result["id"]}
            context.http = {"status": 202}

        async def see(context, next):
            await next()
            seen.append((context.result, context.dispatch, context.http))

        sub.service("messages").hooks(after=[hide])
        app.hooks(around=[see])
        await mounted.get(5)
        assert seen == [({"id": 5, "password": "secret"}, {"id": 5}, {"status": 202})]

    async def test_what_hooks_outside_say_of_the_answer_is_kept(self, app, sub, mounted):
        seen = []

        async def add_header(context, next):
            context.http["headers"] = {"X-Outer": "1"}
            await next()
            seen.append(context.http)

        async def set_status(context):
            context.http["status"] = 202

        app.hooks(around=[add_header])
        sub.hooks(before=[set_status])
        await mounted.get(5)
        assert seen == [{"headers": {"X-Outer": "1"}, "status": 202}]

    async def test_params_reach_them_and_stay_the_callers(self, app, sub, mounted):
        async def change(context):
            assert context.params.user == "ann"
            context.params.user = "bob"
            context.params.query["b"] = 2

        sub.hooks(before=[change])
        seen = []
        app.hooks(after=[lambda context: seen.append(context.params)])
        await mounted.find(query={"a": 1}, user="ann")
        assert seen == [Params(query={"a": 1}, user="ann")]

    async def test_a_result_set_outside_takes_the_place_of_the_whole_call(self, app, sub, mounted):
        app.hooks(before=[lambda context: setattr(context, "result", "cached")])
        sub.hooks(before=[lambda context: pytest.fail("not called")])
        assert await mounted.find() == "cached"

    async def test_errors_pass(self, app, sub, mounted):
        async def fail(context):
            raise NotFound("no")

        sub.hooks(before=[fail])
        with pytest.raises(NotFound):
            await mounted.find()

    async def test_both_emit(self, app, sub, mounted):
        heard = []
        mounted.on("created", lambda data, context: heard.append(("mounted", data)))
        sub.service("messages").on("created", lambda data, context: heard.append(("sub", data)))
        await mounted.create({"a": 1})
        assert heard == [("sub", {"a": 1}), ("mounted", {"a": 1})]

    @pytest.mark.parametrize("where", ["app", "sub"])
    async def test_an_event_kept_back_on_one_side_is_kept_back(self, app, sub, mounted, where):
        heard = []
        mounted.on("created", lambda data, context: heard.append("mounted"))
        sub.service("messages").on("created", lambda data, context: heard.append("sub"))
        target = {"app": app, "sub": sub}[where]
        target.hooks(before=[lambda context: setattr(context, "event", None)])
        await mounted.create({"a": 1})
        assert heard == []

    async def test_are_set_up_by_a_call_of_their_own(self, app):
        trace = []
        sub = App().use("a", Living(trace, "a"))
        app.use("v1", sub)
        await app.setup()
        await app.teardown()
        assert trace == []
        await sub.setup()
        assert trace == ["a setup"]

    async def test_methods_that_the_service_lacks_are_not_there(self, app):
        sub = App().use("x", types.SimpleNamespace(find=lambda params: [1]))
        mounted = app.use("v1", sub).service("v1/x")
        assert mounted.methods == ("find",)
        with pytest.raises(ValueError, match="no such method; it has find"):
            mounted.hooks(before={"get": []}, after={"get": [print]})

    def test_closed_services_stay_closed(self, app):
        sub = App().use("x", Messages(), methods=[])
        assert app.use("v1", sub).service("v1/x").methods == ()

    async def test_one_service_can_stand_at_a_second_path(self, app, sub):
        app.use("alias", sub.service("messages"), methods=["archive"], events=["archived"])
        alias = app.service("alias")
        assert (alias.methods, alias.events[-1]) == (("archive",), "archived")
        assert await alias.archive(1) == {"archived": 1}
        with pytest.raises(ValueError, match="lists the method `hidden`"):
            app.use("other", sub.service("messages"), methods=["hidden"])
        with pytest.raises(ValueError, match="lists the method `update`"):
            app.use("other", sub.service("messages"), methods=["update"])

    @pytest.mark.parametrize("option", ["methods", "events"])
    def test_options_of_a_service_are_refused(self, app, sub, option):
        """`methods=[]` would look as if it closed the services, and would not."""
        with pytest.raises(TypeError, match="methods and events of their own"):
            app.use("v1", sub, **{option: []})

    async def test_within_each_other(self, app, sub):
        middle = App().use("inner", sub)
        app.use("outer", middle)
        assert (await app.service("outer/inner/messages").get(5))["id"] == 5

    def test_below_placeholders(self, app, sub):
        app.use("tenants/:tenant", sub)
        assert app.lookup("/tenants/acme/messages/5")[2] == {"tenant": "acme"}


def test_the_core_needs_no_web_server():
    """The whole life of an application in a script."""
    app = App()
    app.use("messages", Messages())
    app.service("messages").hooks(
        before={"create": [lambda context: context.data.update(stamped=True)]}
    )

    async def main():
        await app.setup()
        created = await app.service("messages").create({"text": "hello"})
        await app.teardown()
        return created

    assert asyncio.run(main()) == {"text": "hello", "stamped": True}
    assert UNSET is not None


def test_a_name_does_not_turn_debug_on():
    with pytest.raises(TypeError, match=r"App\(debug\) is True, .*not 'chat'"):
        App("chat")


@pytest.mark.parametrize("make", [App, lambda debug: express(App(debug=debug))])
def test_a_setting_of_another_name_is_logged_once_in_debug(make, caplog):
    _registry._warn_of_setting.cache_clear()
    for debug in (False, True, True):
        app = make(debug=debug).set("paginate", {"default": 10})
        assert app.get("pagniate") is None
        assert app.get("other") is None
    assert [record.getMessage() for record in caplog.records] == [
        "there is no setting 'pagniate'; did you mean 'paginate'?"
    ]


# -- settings by their class -----------------------------------------------------------------------


class Config:
    def __init__(self, origins):
        self.origins = origins


def test_a_class_names_the_settings_of_its_type():
    app = App().set(Config, Config(["https://a.example"]))
    assert app.settings[Config].origins == ["https://a.example"]


def test_settings_that_are_missing_say_how_to_set_them():
    with pytest.raises(KeyError, match=r"no settings of the class Config; set them by app\.set"):
        App().settings[Config]
    with pytest.raises(KeyError, match=r"^'nothing'$"):
        App().settings["nothing"]


def test_a_hint_names_settings_with_a_name_only(caplog):
    app = App(debug=True).set(Config, Config([])).set("a setting of mine", 1)
    assert app.get("a settin of mine") is None
    assert "did you mean 'a setting of mine'?" in caplog.text
