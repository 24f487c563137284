"""Hooks: their order, what they can change, and what is refused when they are registered."""

import asyncio
import functools
import gc
import itertools
from unittest.mock import AsyncMock, Mock

import pytest

from alula import UNSET, App, HookContext, Params, disallow
from alula.errors import Conflict, MethodNotAllowed, NotFound
from alula.hooks import HOOK_TYPES, Hookable, HookTable
from alula.hooks import annotate_hook as describe


class Messages:
    """A service that tells in its results what was called."""

    def __init__(self):
        self.calls = []

    async def find(self, params):
        self.calls.append("find")
        return {"trace": ["service"]}

    async def get(self, id, params):
        self.calls.append("get")
        if id == "boom":
            raise LookupError("service failed")
        return {"id": id, "trace": ["service"]}

    async def create(self, data, params):
        self.calls.append("create")
        return {**data, "trace": ["service"]}

    async def archive(self, data, params):
        return {"archived": data}


@pytest.fixture
def app():
    app = App()
    return app.use("messages", Messages(), methods=["find", "get", "create", "archive"])


@pytest.fixture
def messages(app):
    return app.service("messages")


def tag(name):
    """Return a hook that adds a name to the trace of the result."""

    async def hook(context):
        context.result = {**context.result, "trace": [*context.result["trace"], name]}

    return hook


def around_tag(name):
    async def hook(context, next):
        await next()
        await tag(name)(context)

    return hook


def note(trace, name, *, fail=None):
    async def hook(context):
        trace.append(name)
        if fail:
            raise fail

    return hook


def around_note(trace, name):
    async def hook(context, next):
        trace.append(f"{name} in")
        try:
            await next()
        finally:
            trace.append(f"{name} out")

    return hook


async def recover(context):
    context.result = {"recovered": str(context.error)}


class TestOrder:
    async def test_as_recorded(self, messages):
        messages.hooks(
            around={"all": [around_tag("around:all")], "find": [around_tag("around:find")]},
            after={
                "all": [tag("after:all")],
                "find": [tag("after:find:1"), tag("after:find:2")],
                "get": [tag("after:get")],
            },
        )
        assert (await messages.get(1))["trace"] == [
            "service",
            "after:all",
            "after:get",
            "around:all",
        ]
        assert (await messages.find())["trace"] == [
            "service",
            "after:all",
            "after:find:1",
            "after:find:2",
            "around:find",
            "around:all",
        ]
        assert (await messages.create({"a": 1}))["trace"] == ["service", "after:all", "around:all"]

    async def test_the_application_surrounds_the_service_and_all_comes_before_the_method(
        self, app, messages
    ):
        trace = []
        for level, target in (("app", app), ("service", messages)):
            for which in ("all", "get"):
                name = f"{level} {which}"
                target.hooks(
                    around={which: [around_note(trace, f"around {name}")]},
                    before={which: [note(trace, f"before {name}")]},
                    after={which: [note(trace, f"after {name}")]},
                )
        await messages.get(1)
        assert trace == [
            "around app all in",
            "around app get in",
            "before app all",
            "before app get",
            "around service all in",
            "around service get in",
            "before service all",
            "before service get",
            "after service all",
            "after service get",
            "around service get out",
            "around service all out",
            "after app all",
            "after app get",
            "around app get out",
            "around app all out",
        ]

    async def test_error_hooks_of_the_service_come_first(self, app, messages):
        trace = []
        for level, target in (("app", app), ("service", messages)):
            for which in ("all", "get"):
                target.hooks(
                    around={which: [around_note(trace, f"around {level} {which}")]},
                    error={which: [note(trace, f"error {level} {which}")]},
                )
        with pytest.raises(LookupError):
            await messages.get("boom")
        assert trace == [
            "around app all in",
            "around app get in",
            "around service all in",
            "around service get in",
            "error service all",
            "error service get",
            "around service get out",
            "around service all out",
            "error app all",
            "error app get",
            "around app get out",
            "around app all out",
        ]

    @pytest.mark.parametrize(
        "kinds",
        [kinds for size in range(5) for kinds in itertools.combinations(HOOK_TYPES, size)],
        ids="-".join,
    )
    @pytest.mark.parametrize("fails", [False, True])
    async def test_every_combination_of_types(self, messages, kinds, fails):
        trace = []
        hooks = {kind: [note(trace, kind)] for kind in kinds if kind != "around"}
        if "around" in kinds:
            hooks["around"] = [around_note(trace, "around")]
        messages.hooks(hooks)
        expected = ["before"]
        if fails:
            with pytest.raises(LookupError):
                await messages.get("boom")
            expected.append("error")
        else:
            await messages.get(1)
            expected.append("after")
        expected = [kind for kind in expected if kind in kinds]
        if "around" in kinds:
            expected = ["around in", *expected, "around out"]
        assert trace == expected

    async def test_hooks_of_one_list_run_as_they_were_registered(self, messages):
        trace = []
        messages.hooks(before=[note(trace, 1), note(trace, 2)])
        messages.hooks(before=[note(trace, 3)])
        await messages.find()
        assert trace == [1, 2, 3]

    async def test_hooks_of_other_methods_do_not_run(self, messages):
        trace = []
        messages.hooks(
            around={"create": [around_note(trace, "around")]},
            before={"create": [note(trace, "before")]},
            after={"archive": [note(trace, "after")]},
        )
        await messages.find()
        assert trace == []
        await messages.archive({})
        assert trace == ["after"]

    async def test_hooks_of_the_application_run_for_custom_methods_and_other_services(self, app):
        trace = []
        app.use("other", Messages())
        app.hooks(before=[note(trace, "all")], after={"archive": [note(trace, "archive")]})
        await app.service("messages").archive({})
        await app.service("other").find()
        assert trace == ["all", "archive", "all"]

    async def test_hooks_of_the_application_count_for_services_registered_later(self, app):
        trace = []
        app.hooks(before=[note(trace, "before")])
        app.use("later", Messages())
        await app.service("later").find()
        assert trace == ["before"]

    async def test_hooks_of_one_service_are_its_own(self, app, messages):
        trace = []
        app.use("other", Messages())
        messages.hooks(before=[note(trace, "before")])
        await app.service("other").find()
        assert trace == []


class TestTypeOfTheRunningHook:
    async def test_is_passed_to_each(self, app, messages):
        seen = []

        def see(name):
            async def hook(context):
                seen.append((name, context.type))

            return hook

        async def see_around(context, next):
            seen.append(("around", context.type))
            await next()
            seen.append(("around", context.type))

        for target in (app, messages):
            target.hooks(before=[see("before")], after=[see("after")], around=[see_around])
        await messages.find()
        assert len(seen) == 8
        assert all(name == kind for name, kind in seen)

    async def test_is_passed_on_after_errors_too(self, app, messages):
        seen = []

        async def see_around(context, next):
            try:
                await next()
            finally:
                seen.append(("around", context.type))

        async def fail(context):
            raise LookupError

        async def see_error(context):
            seen.append(("error", context.type))

        app.hooks(around=[see_around], error=[see_error])
        messages.hooks(around=[see_around], before=[fail], error=[see_error])
        with pytest.raises(LookupError):
            await messages.find()
        assert seen == [("error", "error"), ("around", "around")] * 2

    async def test_is_around_while_the_method_runs(self, app):
        seen = []

        class Watching:
            async def find(self, params):
                seen.append(params.context.type)

        async def tell(context):
            context.params.context = context

        handle = app.use("watching", Watching()).service("watching")
        handle.hooks(before=[tell])
        await handle.find()
        assert seen == ["around"]


class TestBeforeHooks:
    async def test_change_id_data_and_params(self, messages):
        async def change(context):
            if context.method == "get":
                context.id = 42
            context.data = {"text": "changed"}
            context.params.tenant = "acme"

        messages.hooks(before=[change])
        assert (await messages.get(1))["id"] == 42
        assert (await messages.create({"text": "a"}))["text"] == "changed"

    async def test_may_put_a_mapping_in_the_place_of_params(self, app):
        seen = []

        class Watching:
            def find(self, params):
                seen.append(params)

        async def add_user(context):
            context.params = {**context.params, "user": "ann"}

        handle = app.use("watching", Watching()).service("watching")
        handle.hooks(before=[add_user], after=[lambda context: seen.append(context.params)])
        await handle.find(query={"a": 1})
        assert seen == [Params(query={"a": 1}, user="ann")] * 2

    async def test_hooks_behind_a_mapping_see_params(self, messages):
        async def spread(context, next):
            context.params = {**context.params, "user": "ann"}
            await next()
            context.params = {**context.params, "seen": True}

        def look(context):
            return (context.params.user, context.params.provider)

        seen = []
        messages.hooks(around=[spread], before=[disallow("rest")])
        messages.app.hooks(after=[lambda context: seen.append(look(context))])
        await messages.get(1)
        assert seen == [("ann", None)]
        with pytest.raises(MethodNotAllowed):
            await messages.get(1, provider="rest")

    @pytest.mark.parametrize("result", [{"cached": True}, [], None, 0])
    async def test_a_result_takes_the_place_of_the_method(self, messages, result):
        async def cached(context):
            context.result = result

        messages.hooks(before=[cached])
        assert await messages.get(1) == result
        assert messages.service.calls == []

    async def test_the_hooks_after_a_result_run_all_the_same(self, messages):
        trace = []

        async def cached(context):
            context.result = "cached"

        messages.hooks(
            before=[cached, note(trace, "before")],
            after=[note(trace, "after")],
            around=[around_note(trace, "around")],
        )
        assert await messages.find() == "cached"
        assert trace == ["around in", "before", "after", "around out"]

    async def test_an_error_keeps_the_method_from_running(self, messages):
        trace = []
        messages.hooks(
            before=[note(trace, "before", fail=NotFound("no")), note(trace, "second")],
            after=[note(trace, "after")],
        )
        with pytest.raises(NotFound):
            await messages.find()
        assert trace == ["before"]
        assert messages.service.calls == []


class TestErrorHooks:
    async def test_convert(self, messages):
        async def convert(context):
            assert type(context.error) is LookupError
            context.error = Conflict("converted", {"from": str(context.error)})

        messages.hooks(error={"get": [convert]})
        with pytest.raises(Conflict) as caught:
            await messages.get("boom")
        assert caught.value.data == {"from": "service failed"}
        assert isinstance(caught.value.__cause__, LookupError)

    @pytest.mark.parametrize("result", [{"recovered": True}, [], 0, None])
    async def test_recover_by_any_result(self, messages, result):
        async def recover(context):
            assert context.result is UNSET
            context.result = result

        messages.hooks(error=[recover])
        assert await messages.get("boom") == result

    async def test_recover_by_taking_the_error_away(self, messages):
        async def swallow(context):
            context.error = None

        messages.hooks(error=[swallow])
        assert await messages.get("boom") is None

    async def test_something_else_in_place_of_an_error_is_named(self, messages):
        async def replace(context):
            context.error = "not found"

        messages.hooks(error=[replace])
        said = r"error hook for `get` of service 'messages' set context.error to 'not found'; set"
        with pytest.raises(TypeError, match=said) as caught:
            await messages.get("boom")
        assert isinstance(caught.value.__cause__, LookupError)

    async def test_see_errors_of_hooks_and_of_inner_levels(self, app, messages):
        seen = []

        async def see(context):
            seen.append(str(context.error))

        async def fail(context):
            raise LookupError(f"from {context.type}")

        app.hooks(error=[see])
        messages.hooks(before={"find": [fail]}, after={"create": [fail]})
        for call in (messages.find(), messages.create({}), messages.get("boom")):
            with pytest.raises(LookupError):
                await call
        assert seen == ["from before", "from after", "service failed"]

    async def test_do_not_see_the_around_hooks_of_their_own_level(self, app, messages):
        trace = []

        async def fail(context, next):
            raise LookupError

        messages.hooks(around=[fail], error=[note(trace, "service")])
        app.hooks(error=[note(trace, "app")])
        with pytest.raises(LookupError):
            await messages.find()
        assert trace == ["app"]

    async def test_that_fail_themselves_hand_on_their_own_error(self, app, messages):
        seen = []

        async def fail(context):
            raise Conflict("in the error hook")

        async def see(context):
            seen.append(context.error)

        messages.hooks(error=[fail])
        app.hooks(error=[see])
        with pytest.raises(Conflict, match="in the error hook") as caught:
            await messages.get("boom")
        assert seen == [caught.value]
        assert isinstance(caught.value.__context__, LookupError)

    async def test_the_same_error_is_raised_with_its_traceback(self, messages):
        messages.hooks(error=[note([], "error")])
        with pytest.raises(LookupError) as caught:
            await messages.get("boom")
        assert caught.value.__cause__ is None
        assert caught.traceback[-1].name == "get"

    async def test_a_recovered_call_is_a_success_to_all_outside(self, app, messages):
        trace = []

        async def see(context, next):
            await next()
            trace.append((context.error, context.result))

        messages.hooks(error=[recover], around=[see])
        app.hooks(error=[note(trace, "error")], after=[note(trace, "after")])
        assert await messages.get("boom") == {"recovered": "service failed"}
        assert trace == [(None, {"recovered": "service failed"}), "after"]

    async def test_the_result_and_dispatch_of_a_failed_call_are_gone(self, app, messages):
        """What after hooks made of a result that is not sent must not be sent in its place."""

        async def hide(context):
            context.dispatch = {"safe": True}
            raise LookupError

        seen = []

        async def see(context, next):
            await next()
            seen.append(context.dispatch)

        messages.hooks(around=[see], after=[hide], error=[recover])
        assert await messages.find() == {"recovered": ""}
        assert seen == [UNSET]

    async def test_later_error_hooks_run_after_a_recovery(self, messages):
        trace = []
        messages.hooks(error=[recover, note(trace, "second")])
        await messages.get("boom")
        assert trace == ["second"]

    async def test_a_cancelled_call_is_no_error_to_them(self, messages):
        trace = []

        async def wait(context):
            await asyncio.sleep(60)

        messages.hooks(before=[wait], error=[note(trace, "error")])
        call = asyncio.ensure_future(messages.find())
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert trace == []

    async def test_do_not_run_without_an_error(self, messages):
        trace = []
        messages.hooks(error=[note(trace, "error")])
        await messages.get(1)
        assert trace == []


class TestAroundHooks:
    async def test_a_result_without_next_takes_the_place_of_all_inside(self, messages):
        trace = []

        async def cached(context, next):
            context.result = None

        messages.hooks(around=[around_note(trace, "outer"), cached], before=[note(trace, "before")])
        assert await messages.get(1) is None
        assert trace == ["outer in", "outer out"]
        assert messages.service.calls == []

    async def test_a_result_before_next_takes_the_place_of_the_method_alone(self, messages):
        trace = []

        async def cached(context, next):
            context.result = "cached"
            await next()

        messages.hooks(
            around=[cached], before=[note(trace, "before")], after=[note(trace, "after")]
        )
        assert await messages.get(1) == "cached"
        assert trace == ["before", "after"]
        assert messages.service.calls == []

    async def test_neither_next_nor_a_result_is_an_error_that_names_the_hook(self, messages):
        async def forgetful(context, next):
            pass

        messages.hooks(around=[around_note([], "outer"), forgetful])
        with pytest.raises(RuntimeError) as caught:
            await messages.get(1)
        assert "forgetful neither awaited next() nor set context.result" in str(caught.value)
        assert "in `get` of service 'messages'" in str(caught.value)

    async def test_next_without_await_is_an_error_that_names_the_hook(self, messages, recwarn):
        async def forgetful(context, next):
            next()

        messages.hooks(around=[forgetful])
        with pytest.raises(RuntimeError, match=r"forgetful called next\(\) without waiting"):
            await messages.get(1)
        gc.collect()
        assert not recwarn.list
        assert messages.service.calls == []

    async def test_an_error_can_be_replaced_by_a_result(self, messages):
        async def fall_back(context, next):
            try:
                await next()
            except LookupError:
                context.result = "fallback"

        messages.hooks(around=[fall_back])
        assert await messages.get("boom") == "fallback"

    async def test_a_plain_function_may_return_next(self, messages):
        def plain(context, next):
            return next()

        messages.hooks(around=[plain])
        assert (await messages.get(1))["id"] == 1


class Unsteady:
    """Fails a number of times before it works."""

    def __init__(self, failures):
        self.failures = failures
        self.calls = 0

    async def get(self, id, params):
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError(f"attempt {self.calls}")
        return {"attempt": self.calls}


async def retry(context, next):
    for _ in range(2):
        try:
            return await next()
        except ConnectionError:
            continue
    return await next()


class TestRetry:
    async def test_next_again_runs_everything_inside_again(self, app):
        trace = []
        handle = app.use("unsteady", Unsteady(2)).service("unsteady")
        handle.hooks(around=[retry], before=[note(trace, "before")], after=[note(trace, "after")])
        assert await handle.get(1) == {"attempt": 3}
        assert trace == ["before", "before", "before", "after"]

    async def test_that_fails_to_the_end_raises_the_last_error(self, app):
        handle = app.use("unsteady", Unsteady(5)).service("unsteady")
        handle.hooks(around=[retry])
        with pytest.raises(ConnectionError, match="attempt 3"):
            await handle.get(1)

    async def test_after_a_failing_after_hook_calls_the_method_again(self, app):
        """The result of the first attempt must not pass for one that a hook has set."""
        seen = []

        async def fail_once(context):
            seen.append(context.result)
            if len(seen) == 1:
                raise ConnectionError

        handle = app.use("unsteady", Unsteady(0)).service("unsteady")
        handle.hooks(around=[retry], after=[fail_once])
        assert await handle.get(1) == {"attempt": 2}
        assert seen == [{"attempt": 1}, {"attempt": 2}]

    async def test_after_a_success_too(self, app):
        async def twice(context, next):
            await next()
            context.dispatch = "first"
            await next()
            assert context.dispatch is UNSET

        handle = app.use("unsteady", Unsteady(0)).service("unsteady")
        handle.hooks(around=[twice])
        assert await handle.get(1) == {"attempt": 2}

    async def test_keeps_a_result_that_was_there_before(self, app):
        async def cached(context, next):
            context.result = "cached"
            await next()

        handle = app.use("unsteady", Unsteady(0)).service("unsteady")

        async def twice(context, next):
            await next()
            context.result = "changed"
            await next()

        handle.hooks(around=[cached, twice])
        assert await handle.get(1) == "cached"
        assert handle.service.calls == 0

    async def test_that_succeeds_leaves_no_error(self, app):
        seen = []
        handle = app.use("unsteady", Unsteady(1)).service("unsteady")

        async def see(context, next):
            await next()
            seen.append(context.error)

        handle.hooks(around=[see, retry], error=[note([], "error")])
        await handle.get(1)
        assert seen == [None]


class TestWhatIsAwaited:
    @pytest.mark.parametrize("kind", ["before", "after", "error"])
    async def test_hooks_that_return_coroutines(self, messages, kind):
        trace = []

        async def work(context):
            await asyncio.sleep(0)
            trace.append(context.type)

        def forgetful(context):
            return work(context)

        async def more_forgetful(context):
            return work(context)

        def scheduled(context):
            return asyncio.ensure_future(work(context))

        messages.hooks({kind: [forgetful, more_forgetful, scheduled, work]})
        messages.hooks(error=[recover])
        await messages.get("boom" if kind == "error" else 1)
        assert trace == [kind] * 4

    async def test_plain_functions_and_other_callables(self, messages):
        trace = []

        class Note:
            def __call__(self, context):
                trace.append("object")

            async def method(self, context):
                trace.append("method")

        def partial(name, context):
            trace.append(name)

        messages.hooks(
            before=[
                lambda context: trace.append("lambda"),
                Note(),
                Note().method,
                functools.partial(partial, "partial"),
                Mock(),
                AsyncMock(),
            ]
        )
        await messages.find()
        assert trace == ["lambda", "object", "method", "partial"]

    async def test_what_a_hook_returns_otherwise_is_let_go(self, messages):
        messages.hooks(before=[lambda context: context, lambda context: 5])
        assert (await messages.find())["trace"] == ["service"]

    async def test_a_hook_factory_that_was_not_called_is_an_error(self, messages):
        """Otherwise ``before=[only]`` would allow everything; ours are known by name already."""

        def only(provider):
            def refuse(context):
                raise MethodNotAllowed(provider)

            return refuse

        messages.hooks(before=[only])
        with pytest.raises(TypeError) as caught:
            await messages.find()
        assert "only returned a function, which is not used" in str(caught.value)
        assert "only(...)" in str(caught.value)
        assert messages.service.calls == []
        with pytest.raises(TypeError, match=r'not one itself; write disallow\("external"\)'):
            messages.hooks(before=[disallow])


class TestRegistering:
    async def test_as_one_mapping(self, messages):
        trace = []
        messages.hooks(
            {"before": {"find": [note(trace, "before")]}, "after": [note(trace, "after")]}
        )
        await messages.find()
        assert trace == ["before", "after"]

    async def test_as_a_list_of_around_hooks(self, app, messages):
        trace = []
        messages.hooks([around_note(trace, "service")])
        app.hooks((around_note(trace, "app"),))
        await messages.find()
        assert trace == ["app in", "service in", "service out", "app out"]

    async def test_one_function_in_place_of_a_list(self, messages):
        trace = []
        messages.hooks(before=note(trace, 1), after={"find": note(trace, 2)})
        await messages.find()
        assert trace == [1, 2]

    async def test_one_after_the_other(self, app, messages):
        trace = []
        assert messages.hooks(before=[note(trace, 1)]).hooks(before=[note(trace, 2)]) is messages
        assert app.hooks(before=[note(trace, 0)]) is app
        await messages.find()
        assert trace == [0, 1, 2]

    def test_a_mapping_and_keywords_at_once_are_refused(self, messages):
        with pytest.raises(TypeError, match="one mapping or as keywords, not"):
            messages.hooks({"before": []}, before=[note([], 1)])

    @pytest.mark.parametrize("target", ["app", "messages"])
    def test_anything_else_is_refused(self, target, request):
        with pytest.raises(TypeError, match="takes around=, before=, after= and error="):
            request.getfixturevalue(target).hooks(note([], 1))

    def test_nothing_is_nothing(self, messages):
        assert messages.hooks() is messages
        assert messages.hooks({}) is messages
        assert messages.hooks(before=[], after={}) is messages

    @pytest.mark.parametrize("kind", ["befor", "find", "all", "setup", ""])
    def test_an_unknown_type_is_refused(self, messages, kind):
        with pytest.raises(ValueError, match="unknown type of hook") as caught:
            messages.hooks({kind: [note([], 1)]})
        assert "use around, before, after, error" in str(caught.value)

    @pytest.mark.parametrize("kind", HOOK_TYPES)
    @pytest.mark.parametrize("method", ["patch", "finds", "hidden", ""])
    def test_an_unknown_method_is_refused(self, messages, kind, method):
        with pytest.raises(ValueError, match="there is no such method") as caught:
            messages.hooks({kind: {method: [Mock()]}})
        assert f"{kind} hook for `{method}` of service 'messages'" in str(caught.value)
        assert "it has find, get, create, archive" in str(caught.value)

    def test_an_unknown_method_of_the_application_is_refused(self, app):
        app.hooks(before={"archive": [note([], 1)], "patch": [note([], 1)]})
        with pytest.raises(ValueError, match=r"it has find, .*, archive \(list custom methods"):
            app.hooks(before={"publish": [note([], 1)]})

    @pytest.mark.parametrize("value", [None, 5, "text", {"a": 1}, object()])
    @pytest.mark.parametrize("kind", HOOK_TYPES)
    def test_what_is_no_function_is_refused(self, messages, kind, value):
        with pytest.raises(TypeError, match=f"{kind} hook of service 'messages'.*not a function"):
            messages.hooks({kind: {"find": [value]}})

    def test_a_class_is_refused(self, messages):
        class Check:
            def __init__(self, context):
                """Take what a hook takes, and do nothing of what it does."""

        with pytest.raises(TypeError, match=r"Check is a class; .*Check\(...\)"):
            messages.hooks(before=[Check])

    @pytest.mark.parametrize("kind", ["before", "after", "error"])
    def test_a_hook_with_the_wrong_arguments_is_refused(self, messages, kind):
        def with_next(context, next):
            """Is an around hook."""

        def without_any():
            """Is none."""

        for hook, signature in ((with_next, r"\(context, next\)"), (without_any, r"\(\)")):
            with pytest.raises(TypeError, match=f"{hook.__name__} of .* takes {signature}"):
                messages.hooks({kind: [hook]})

    @pytest.mark.parametrize("kind", HOOK_TYPES)
    def test_a_hook_is_refused_where_it_says_that_it_does_nothing(self, messages, kind):
        def check(context, next=None):
            """Do nothing afterwards."""

        describe(check, kinds=("before", "around"))
        if kind in {"before", "around"}:
            messages.hooks({kind: [check]})
        else:
            with pytest.raises(TypeError, match=f"{kind} hook .*check of .*as before or around"):
                messages.hooks({kind: {"get": [check]}})

    def test_an_around_hook_with_the_wrong_arguments_is_refused(self, messages):
        def without_next(context):
            """Is a before hook."""

        with pytest.raises(TypeError, match=r"takes \(context\); expected .*\(context, next\)"):
            messages.hooks(around=[without_next])

    async def test_further_arguments_with_defaults_are_fine(self, messages):
        trace = []

        def hook(context, level="info", *rest, **more):
            trace.append(level)

        def around(*args):
            return args[1]()

        messages.hooks(before=[hook], around=[around])
        await messages.find()
        assert trace == ["info"]

    async def test_what_has_no_signature_is_taken_as_it_is(self, messages):
        trace = []

        class Compiled:
            __signature__ = 5  # makes `inspect` give up, as it does for some built-in functions

            def __call__(self, context):
                trace.append("compiled")

        messages.hooks(before=[Compiled()])
        await messages.find()
        assert trace == ["compiled"]

    async def test_what_is_refused_leaves_nothing_registered(self, messages):
        trace = []
        with pytest.raises(ValueError, match="no such method"):
            messages.hooks(before={"find": [note(trace, 1)], "nope": [note(trace, 2)]})
        await messages.find()
        assert trace == []

    async def test_lists_that_are_changed_later_change_nothing(self, messages):
        trace = []
        before = [note(trace, 1)]
        messages.hooks(before=before)
        before.append(note(trace, 2))
        await messages.find()
        assert trace == [1]

    async def test_hooks_registered_between_two_calls_count_for_the_second(self, app, messages):
        trace = []
        await messages.find()
        messages.hooks(before=[note(trace, "service")])
        await messages.find()
        app.hooks(before=[note(trace, "app")])
        await messages.find()
        assert trace == ["service", "app", "service"]

    async def test_hooks_registered_during_a_call_count_for_the_next(self, app, messages):
        trace = []

        async def register_once(context):
            if not trace:
                app.hooks(before=[note(trace, "app")])
                messages.hooks(after=[note(trace, "service")])
            trace.append("registered")

        messages.hooks(before=[register_once])
        await messages.find()
        assert trace == ["registered"]
        await messages.find()
        assert trace == ["registered", "app", "registered", "service"]


class TestDecorators:
    async def test_register_what_they_stand_before(self, app, messages):
        trace = []

        @messages.before("get", "create")
        async def before(context):
            trace.append("before")

        @messages.after()
        async def after(context):
            trace.append("after")

        @messages.around("find")
        async def around(context, next):
            trace.append("around")
            await next()

        @app.error("get")
        async def error(context):
            trace.append("error")
            context.result = None

        await messages.find()
        await messages.create({})
        await messages.get("boom")
        assert trace == ["around", "after", "before", "after", "before", "error"]

    def test_give_the_function_back(self, messages):
        hook = note([], 1)
        assert messages.before("find")(hook) is hook

    @pytest.mark.parametrize("kind", HOOK_TYPES)
    def test_need_their_brackets(self, messages, kind):
        with pytest.raises(TypeError, match=rf"write @service\.{kind}\(\) or") as caught:
            getattr(messages, kind)(note([], 1))
        assert "with brackets" in str(caught.value)

    def test_refuse_unknown_methods(self, messages):
        with pytest.raises(ValueError, match="there is no such method"):
            messages.before("patch")(note([], 1))


class TestDisallow:
    @pytest.mark.parametrize(
        ("providers", "rest", "socketio", "internal"),
        [
            ((), False, False, False),
            (("external",), False, False, True),
            (("server",), True, True, False),
            (("rest",), False, True, True),
            (("socketio", "server"), True, False, False),
        ],
    )
    async def test_refuses_by_provider(self, messages, providers, rest, socketio, internal):
        messages.hooks(before=[disallow(*providers)])
        for provider, allowed in (("rest", rest), ("socketio", socketio), (None, internal)):
            if allowed:
                await messages.find(provider=provider)
            else:
                with pytest.raises(MethodNotAllowed):
                    await messages.find(provider=provider)

    @pytest.mark.parametrize("slip", ["externl", "External", "servr", "rests"])
    def test_a_slip_in_a_name_would_let_calls_pass(self, slip):
        with pytest.raises(ValueError, match=f"disallow\\('{slip}'\\): did you mean"):
            disallow(slip)

    def test_other_providers_may_be_named(self):
        disallow("socketio", "mqtt", "grpc")

    @pytest.mark.parametrize(
        ("names", "missing"),
        [(("rest", "socketio", "mcp"), "sse"), (("socketio", "server", "sse", "mcp"), "rest")],
    )
    def test_a_transport_that_is_forgotten_would_let_calls_pass(self, names, missing):
        with pytest.raises(ValueError, match=f"over {missing} would still pass"):
            disallow(*names)
        disallow(*names, missing)
        disallow(*names, "external")

    async def test_the_error_names_caller_and_method(self, messages):
        messages.hooks(before=[disallow()])
        with pytest.raises(MethodNotAllowed, match="Provider 'rest' can not call 'get'"):
            await messages.get(1, provider="rest")
        with pytest.raises(MethodNotAllowed, match="Provider 'server' can not call 'archive'"):
            await messages.archive({})


class TestHookable:
    def test_needs_a_subclass_that_knows_its_methods(self):
        with pytest.raises(NotImplementedError):
            Hookable().hook_methods()

    def test_needs_a_subclass_that_composes(self):
        class Half(Hookable):
            def hook_methods(self):
                return ["find"]

        with pytest.raises(NotImplementedError):
            Half().hooks(before=[note([], 1)])


class TestHookTable:
    def test_a_call_without_hooks_is_not_wrapped(self):
        async def call(context):
            """Do nothing."""

        table = HookTable()
        assert table.wrap("find", call) is call
        table.add({"before": {"get": [note([], 1)]}}, ["find", "get"], "service")
        assert table.wrap("find", call) is call
        assert table.wrap("get", call) is not call

    def test_of_a_method_those_for_all_come_first(self):
        first, second = note([], 1), note([], 2)
        table = HookTable()
        table.add({"after": {"find": [second], "all": [first]}}, ["find"], "service")
        assert table.of("after", "find") == [first, second]
        assert table.of("after", "get") == [first]
        assert table.of("before", "find") == []


async def test_calls_at_the_same_time_have_contexts_of_their_own(messages):
    contexts = []
    together = asyncio.Barrier(3)

    async def meet(context):
        contexts.append(context)
        context.seen = context.id
        await together.wait()
        assert context.seen == context.id

    messages.hooks(before=[meet])
    results = await asyncio.gather(*(messages.get(number) for number in range(3)))
    assert [result["id"] for result in results] == [0, 1, 2]
    assert len({id(context) for context in contexts}) == 3


async def test_a_context_made_by_a_transport_runs_through_the_hooks(app, messages):
    messages.hooks(after=[tag("after")])
    context = HookContext(app, messages, "get", Params(provider="rest"), "5")
    assert await messages.run(context) is None
    assert context.result == {"id": "5", "trace": ["service", "after"]}
