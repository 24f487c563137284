"""Service handles: which objects are services, how they are called, and what they emit."""

import asyncio
import copy
import types
from collections import OrderedDict, deque

import pytest

from alula import UNSET, App, HookContext, Params
from alula._service import ServiceHandle
from alula.errors import Conflict, MethodNotAllowed
from alula.express import Router, express
from alula.types import STANDARD_METHODS

TAKEN_BY_THE_HANDLE = ["hooks", "on", "emit", "before", "call", "run", "setup", "teardown", "all"]
TAKEN_BY_THE_HANDLE += ["path", "service", "app", "methods", "events", "hook_table"]


class Echo:
    """All standard methods, asynchronous; each answers what it was called with."""

    async def find(self, params):
        return ("find", params)

    async def get(self, id, params):
        return ("get", id, params)

    async def create(self, data, params):
        return ("create", data, params)

    async def update(self, id, data, params):
        return ("update", id, data, params)

    async def patch(self, id, data, params):
        return ("patch", id, data, params)

    async def remove(self, id, params):
        return ("remove", id, params)

    async def archive(self, data, params):
        return ("archive", data, params)

    async def hidden(self, data, params):
        return "hidden"


class AsgiWithGet:
    """As FastAPI's applications are."""

    def get(self, path): ...

    async def __call__(self, scope, receive, send): ...


class PlainEcho:
    """The same in plain functions, some of which return what has to be awaited."""

    def find(self, params):
        return ("find", params)

    def get(self, id, params):
        return ("get", id, params)

    def create(self, data, params):
        return Echo().create(data, params)

    def update(self, id, data, params):
        return asyncio.ensure_future(Echo().update(id, data, params))

    def patch(self, id, data, params):
        return ("patch", id, data, params)

    def remove(self, id, params):
        return ("remove", id, params)

    def archive(self, data, params):
        return ("archive", data, params)


@pytest.fixture(params=[Echo, PlainEcho])
def echo(request):
    """Return a handle; its service is asynchronous in one run and plain in the other."""
    methods = [*STANDARD_METHODS, "archive"]
    return App().use("echo", request.param(), methods=methods).service("echo")


@pytest.fixture
def app():
    return App()


class TestCallShapes:
    async def test_of_every_method(self, echo):
        query = {"a": 1}
        params = Params(query=query)
        assert await echo.find(params) == ("find", params)
        assert await echo.get(1, params) == ("get", 1, params)
        assert await echo.create({"a": 1}, params) == ("create", {"a": 1}, params)
        assert await echo.update(1, {"a": 1}, params) == ("update", 1, {"a": 1}, params)
        assert await echo.patch(None, {"a": 1}, params) == ("patch", None, {"a": 1}, params)
        assert await echo.remove(None, params) == ("remove", None, params)
        assert await echo.archive({"a": 1}, params) == ("archive", {"a": 1}, params)

    @pytest.mark.parametrize(
        ("args", "given"),
        [
            ([Params(query={"a": 1}, user="ann")], {}),
            ([{"query": {"a": 1}, "user": "ann"}], {}),
            ([], {"query": {"a": 1}, "user": "ann"}),
            ([{"query": {"b": 2}, "user": "ann"}], {"query": {"a": 1}}),
            ([], {"params": {"query": {"a": 1}, "user": "ann"}}),
        ],
    )
    async def test_params_in_every_form(self, echo, args, given):
        wanted = Params(query={"a": 1}, user="ann")
        assert (await echo.find(*args, **given))[-1] == wanted
        assert (await echo.get(1, *args, **given))[-1] == wanted
        assert (await echo.create({}, *args, **given))[-1] == wanted
        assert (await echo.update(1, {}, *args, **given))[-1] == wanted
        assert (await echo.patch(1, {}, *args, **given))[-1] == wanted
        assert (await echo.remove(1, *args, **given))[-1] == wanted
        assert (await echo.archive({}, *args, **given))[-1] == wanted
        assert (await echo.call("get", 1, None, *args, **given))[-1] == wanted

    async def test_params_can_be_left_out(self, echo):
        assert await echo.find() == ("find", Params())
        assert await echo.remove(1) == ("remove", 1, Params())
        assert await echo.archive() == ("archive", None, Params())

    async def test_arguments_by_name(self, echo):
        assert (await echo.get(id=5))[1] == 5
        assert (await echo.create(data={"a": 1}))[1] == {"a": 1}
        assert (await echo.patch(id=5, data={"a": 1}, user={"name": "ann"}))[1:3] == (5, {"a": 1})

    async def test_call_by_the_name_of_the_method(self, echo):
        assert (await echo.call("get", 5))[:2] == ("get", 5)
        assert (await echo.call("patch", 5, {"a": 1}))[:3] == ("patch", 5, {"a": 1})
        assert (await echo.call("archive", data={"a": 1}))[:2] == ("archive", {"a": 1})

    @pytest.mark.parametrize("params", [{"$limit": 2}, {"query": {}, "$sort": {}}])
    async def test_a_query_in_the_place_of_params_is_refused(self, echo, params):
        """It would select everything, and nobody would notice."""
        with pytest.raises(TypeError, match=r"give a query as query=\{\.\.\.\}"):
            await echo.find(params)

    async def test_params_that_are_none_are_refused(self, echo):
        with pytest.raises(TypeError, match=r"params has to be a mapping.*'x'"):
            await echo.get(1, "x")


class TestTheCallersObjects:
    async def test_params_and_query_stay_as_they_were(self, app):
        class Greedy:
            async def find(self, params):
                params.query["added"] = 1
                params.user = "changed"
                params.headers["x"] = "y"

        handle = app.use("greedy", Greedy()).service("greedy")
        query = {"a": 1}
        params = Params(query=query, user="ann")
        mapping = {"query": query}
        await handle.find(params)
        await handle.find(mapping)
        await handle.find(query=query)
        assert query == {"a": 1}
        assert params == Params(query={"a": 1}, user="ann")
        assert mapping == {"query": {"a": 1}}

    async def test_two_calls_share_nothing(self, app):
        class Greedy:
            async def find(self, params):
                params.route["leak"] = params.query["leak"] = 1
                return params

        handle = app.use("greedy", Greedy()).service("greedy")
        first, second = await handle.find(), await handle.find()
        assert first.query is not second.query
        assert first.route is not second.route


class TestWhatIsAService:
    @pytest.mark.parametrize("name", STANDARD_METHODS)
    def test_an_object_with_one_method(self, app, name):
        service = type("One", (), {name: getattr(Echo, name)})()
        handle = app.use("one", service).service("one")
        assert handle.methods == (name,)

    def test_an_object_whose_methods_are_attributes(self, app):
        service = types.SimpleNamespace(find=lambda params: [1], other=5, get="no method")
        assert app.use("x", service).service("x").methods == ("find",)

    def test_a_module(self, app):
        module = types.ModuleType("messages")
        module.find = lambda params: []
        assert app.use("x", module).service("x").methods == ("find",)

    @pytest.mark.parametrize(
        "make",
        [Router, express, lambda: express(App()), AsgiWithGet],
        ids=["router", "web", "express", "asgi"],
    )
    def test_what_takes_requests_itself_is_refused(self, app, make):
        with pytest.raises(TypeError, match=r"takes requests itself.*express\(app\).use\(path, it"):
            app.use("x", make())
        assert app.services == {}

    def test_a_service_may_be_called_and_have_a_method_of_that_name(self, app):
        class Coupons:
            def __call__(self, code): ...

            def use(self, data, params): ...

            def find(self, params): ...

        assert app.use("coupons", Coupons()).service("coupons").methods == ("find",)

    def test_a_class_is_refused(self, app):
        with pytest.raises(TypeError, match=r"class Echo; .*instance: Echo\(\)"):
            app.use("echo", Echo)

    @pytest.mark.parametrize(
        "value",
        [
            None,
            {},
            {"find": lambda params: []},
            OrderedDict(),
            "service",
            b"service",
            [],
            [Echo()],
            (),
            set(),
            deque(),
        ],
    )
    def test_built_in_values_are_refused(self, app, value):
        """Some of them have a `find`, a `get` or a `remove`; none of them means it."""
        with pytest.raises(TypeError, match="an object with methods"):
            app.use("x", value)

    @pytest.mark.parametrize("value", [5, object(), types.SimpleNamespace(find="x"), print])
    def test_an_object_without_any_method_is_refused(self, app, value):
        with pytest.raises(TypeError) as caught:
            app.use("messages", value)
        assert f"the object at 'messages' ({type(value).__name__}) has no service" in str(
            caught.value
        )
        assert "define one of find, get, create, update, patch, remove" in str(caught.value)
        assert "use(path, service, methods=[...])" in str(caught.value)

    def test_what_is_refused_is_not_registered(self, app):
        with pytest.raises(TypeError):
            app.use("messages", object())
        assert app.services == {}
        assert app.lookup("/messages") is None


class TestListedMethods:
    def test_none_opens_the_standard_methods(self, app):
        assert app.use("echo", Echo()).service("echo").methods == STANDARD_METHODS

    def test_a_list_opens_what_it_names(self, app):
        handle = app.use("echo", Echo(), methods=iter(["find", "archive"])).service("echo")
        assert handle.methods == ("find", "archive")

    async def test_an_empty_list_closes_it_to_the_outside_alone(self, app):
        handle = app.use("echo", Echo(), methods=[]).service("echo")
        assert handle.methods == ()
        assert (await handle.find())[0] == "find"
        handle.hooks(before={"get": []})

    async def test_what_is_not_listed_can_be_called_inside_where_it_is_standard(self, app):
        handle = app.use("echo", Echo(), methods=["archive"]).service("echo")
        assert (await handle.get(1))[0] == "get"
        with pytest.raises(MethodNotAllowed, match="service 'echo' has no method `hidden`"):
            await handle.call("hidden")

    def test_custom_methods_that_are_not_listed_are_explained(self, app):
        handle = app.use("echo", Echo(), methods=["archive"]).service("echo")
        with pytest.raises(AttributeError) as caught:
            _ = handle.hidden
        assert "service 'echo' has no method `hidden`; it has find, get, create" in str(
            caught.value
        )
        assert "use(path, service, methods=[...])" in str(caught.value)
        assert "The object itself is at `.service`" in str(caught.value)

    async def test_standard_methods_that_are_missing(self, app):
        handle = app.use("x", types.SimpleNamespace(find=lambda params: [])).service("x")
        with pytest.raises(MethodNotAllowed, match="service 'x' has no method `get`"):
            await handle.get(1)

    @pytest.mark.parametrize("name", ["nope", "Find", ""])
    def test_a_method_that_does_not_exist_is_refused(self, app, name):
        with pytest.raises(ValueError, match=f"`{name}`, but Echo has none"):
            app.use("echo", Echo(), methods=[name])

    def test_a_standard_method_that_does_not_exist_is_refused(self, app):
        service = types.SimpleNamespace(find=lambda params: [])
        with pytest.raises(ValueError, match="lists the method `get`"):
            app.use("x", service, methods=["find", "get"])

    @pytest.mark.parametrize("name", [*TAKEN_BY_THE_HANDLE, "_find", "__init__", "_private"])
    def test_a_name_that_is_taken_is_refused(self, app, name):
        service = Echo()
        setattr(service, name, lambda data, params: None)
        with pytest.raises(ValueError, match=f"`{name}`; .*Alula's own"):
            app.use("x", service, methods=[name])

    def test_every_attribute_of_a_handle_is_taken(self, app):
        handle = app.use("echo", Echo()).service("echo")
        service = Echo()
        for name in set(vars(handle)) | set(dir(handle)):
            if name in STANDARD_METHODS:
                continue
            vars(service)[name] = lambda data, params: None
            with pytest.raises(ValueError, match="Alula's own"):
                ServiceHandle(app, "x", service, methods=[name])

    @pytest.mark.parametrize("kind", ["methods", "events"])
    def test_a_string_in_place_of_a_list_is_refused(self, app, kind):
        with pytest.raises(TypeError, match=rf"{kind} of .*: \['find'\]"):
            app.use("echo", Echo(), **{kind: "find"})

    @pytest.mark.parametrize("kind", ["methods", "events"])
    def test_what_is_no_name_is_refused(self, app, kind):
        with pytest.raises(TypeError, match=rf"{kind} of .*'echo' are names, not \('a"):
            app.use("echo", Echo(), **{kind: ["archive", 5]})

    def test_names_that_are_listed_twice_count_once(self, app):
        service = types.SimpleNamespace(find=lambda params: [], archive=lambda data, params: None)
        handle = app.use("x", service, methods=["archive", "find", "archive"]).service("x")
        assert handle.hook_methods() == ("find", "archive")

    async def test_a_custom_method_knows_its_name(self, app):
        handle = app.use("echo", Echo(), methods=["archive"]).service("echo")
        assert handle.archive.__name__ == "archive"
        assert handle.archive.__qualname__ == "ServiceHandle.archive"
        assert "`archive`" in handle.archive.__doc__


class TestResults:
    @pytest.mark.parametrize("result", [None, False, 0, "", [], {}])
    async def test_may_be_empty(self, app, result):
        service = types.SimpleNamespace(find=lambda params: result)
        assert await app.use("x", service).service("x").find() == result

    async def test_an_error_reaches_the_caller_as_it_is(self, app):
        error = Conflict("no")

        class Failing:
            async def get(self, id, params):
                raise error

        with pytest.raises(Conflict) as caught:
            await app.use("x", Failing()).service("x").get(1)
        assert caught.value is error

    async def test_a_result_that_a_hook_unsets_is_an_error(self, app):
        handle = app.use("echo", Echo()).service("echo")

        @handle.after("find")
        def unset(context):
            context.result = UNSET

        with pytest.raises(RuntimeError, match="service 'echo', `find`: context"):
            await handle.find()

    async def test_a_call_that_is_not_awaited_names_its_method(self, app):
        handle = app.use("echo", Echo(), methods=["archive"]).service("echo")
        for name in ("find", "archive"):
            with pytest.warns(RuntimeWarning, match=rf"'ServiceHandle\.{name}' was never awaited"):
                getattr(handle, name)()  # and nobody keeps it

    async def test_a_cancelled_call_stops_where_it_is(self, app):
        steps = []

        class Slow:
            async def find(self, params):
                steps.append("begun")
                await asyncio.sleep(60)
                steps.append("done")

        handle = app.use("slow", Slow(), events=["found"]).service("slow")
        handle.hooks(after=[lambda context: steps.append("after")])
        handle.on("found", steps.append)
        call = asyncio.ensure_future(handle.find())
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert steps == ["begun"]


class Store:
    async def create(self, data, params):
        if data == "fail":
            raise Conflict("no")
        return data

    async def update(self, id, data, params):
        return data

    async def patch(self, id, data, params):
        return data

    async def remove(self, id, params):
        return id

    async def find(self, params):
        return [1]

    async def archive(self, data, params):
        return data


@pytest.fixture
def store(app):
    service = Store()
    app.use("store", service, methods=["create", "archive", "find"], events=["archived", "other"])
    return app.service("store")


@pytest.fixture
def heard(store):
    """All events of the store as ``(event, data)``."""
    heard = []
    for event in store.events:
        store.on(event, lambda data, context, event=event: heard.append((event, data)))
    return heard


class TestEvents:
    def test_their_names(self, app, store):
        standard = ("created", "updated", "patched", "removed")
        assert store.events == (*standard, "archived", "other")
        assert app.use("x", Store()).service("x").events == store.events[:4]
        assert app.use("y", Store(), events=["created", "z"]).service("y").events == (
            *store.events[:4],
            "z",
        )

    @pytest.mark.parametrize("events", [["archived"], ("archived", 5)])
    def test_a_service_may_name_them_itself(self, app, events):
        service = Store()
        service.events = events
        assert app.use("x", service).service("x").events[4:] == ("archived",)
        assert app.use("y", service, events=[]).service("y").events[4:] == ()

    @pytest.mark.parametrize("events", [5, "archived", {"archived": 1}, lambda: None])
    def test_an_attribute_of_that_name_may_be_anything_else(self, app, events):
        service = Store()
        service.events = events
        assert app.use("x", service).service("x").events[4:] == ()

    async def test_of_each_method(self, store, heard):
        await store.create({"a": 1})
        await store.update(1, {"a": 2})
        await store.patch(1, {"a": 3})
        await store.remove(7)
        assert heard == [
            ("created", {"a": 1}),
            ("updated", {"a": 2}),
            ("patched", {"a": 3}),
            ("removed", 7),
        ]

    async def test_none_of_find_and_custom_methods(self, store, heard):
        await store.find()
        await store.archive({})
        assert heard == []

    async def test_one_for_each_record_of_a_list(self, store, heard):
        await store.create([{"a": 1}, {"a": 2}])
        await store.patch(None, [])
        assert heard == [("created", {"a": 1}), ("created", {"a": 2})]

    async def test_a_result_of_none_is_emitted_too(self, store, heard):
        await store.create(None)
        assert heard == [("created", None)]

    async def test_listeners_get_the_context(self, app, store):
        contexts = []
        store.on("created", lambda data, context: contexts.append(context))
        ann = {"name": "ann"}
        await store.create({"a": 1}, user=ann)
        (context,) = contexts
        assert (context.method, context.params.user, context.app) == ("create", ann, app)
        assert context.result == {"a": 1}

    async def test_after_the_hooks_and_with_their_result(self, app, store, heard):
        def change(context):
            assert heard == []
            context.result = {"changed": True}

        store.hooks(after=[change])
        app.hooks(after=[change])
        await store.create({"a": 1})
        assert heard == [("created", {"changed": True})]

    async def test_none_where_the_call_fails(self, app, store, heard):
        with pytest.raises(Conflict):
            await store.create("fail")

        async def fail(context):
            raise LookupError

        app.hooks(after=[fail])
        with pytest.raises(LookupError):
            await store.create({})
        assert heard == []

    async def test_hooks_can_keep_it_back(self, store, heard):
        @store.before("create")
        def quiet(context):
            context.event = None

        await store.create({})
        assert heard == []

    async def test_hooks_can_name_another(self, store, heard):
        @store.after("archive", "create")
        def name(context):
            context.event = "archived"

        await store.archive({"a": 1})
        await store.create([1, 2])
        assert heard == [("archived", {"a": 1}), ("archived", 1), ("archived", 2)]

    async def test_can_be_emitted_by_hand(self, store, heard):
        store.emit("other", {"a": 1}, None)
        assert heard == [("other", {"a": 1})]

    async def test_a_failing_listener_does_not_fail_the_call(self, store, heard, caplog):
        @store.on("created")
        async def failing(data, context):
            raise LookupError("bad listener")

        @store.on("created")
        def failing_too(data, context):
            raise LookupError("bad listener")

        assert await store.create({"a": 1}) == {"a": 1}
        await store.wait_for_listeners()
        assert heard == [("created", {"a": 1})]
        assert caplog.text.count("LookupError: bad listener") == 2

    async def test_a_listener_that_changes_list_or_event_does_not_change_the_others(self, store):
        heard = []

        @store.on("created")
        def greedy(data, context):
            heard.append(data)
            context.result.clear()
            context.event = "other"

        await store.create([1, 2])
        assert heard == [1, 2]

    async def test_asynchronous_listeners_do_not_hold_the_call_up(self, store):
        heard, go_on = [], asyncio.Event()

        @store.on("created")
        async def slow(data, context):
            await go_on.wait()
            heard.append(data)

        await store.create(1)
        assert heard == []
        go_on.set()
        await store.wait_for_listeners()
        assert heard == [1]

    async def test_of_a_transports_call(self, app, store, heard):
        await store.run(HookContext(app, store, "create", Params(provider="rest"), None, 5))
        assert heard == [("created", 5)]


class TestTheHandle:
    def test_says_what_it_is(self, store):
        assert repr(store) == "service 'store'"
        assert (store.path, type(store.service)) == ("store", Store)

    def test_is_no_service_of_another_path_by_accident(self, store):
        assert not hasattr(store, "setup")
        assert getattr(store, "missing", 5) == 5

    def test_can_be_copied_and_inspected_without_recursion(self, store):
        assert copy.copy(store).path == "store"
        with pytest.raises(AttributeError, match="__wrapped__"):
            _ = store.__wrapped__

    async def test_an_unknown_method_of_a_context_is_a_405(self, app, store):
        for name in ("__init__", "hooks", "setup", "_find", "constructor", "wait_for_listeners"):
            with pytest.raises(MethodNotAllowed) as caught:
                await store.run(HookContext(app, store, name, Params()))
            assert caught.value.code == 405

    async def test_can_be_made_without_an_application(self):
        handle = ServiceHandle(None, "alone", Echo())
        assert (await handle.get(1))[:2] == ("get", 1)

    @pytest.mark.parametrize("hooked", [False, True])
    async def test_a_method_that_returns_unset_is_an_error(self, app, hooked):
        class Unset:
            def find(self, params):
                return UNSET

        service = app.use("unset", Unset()).service("unset")
        if hooked:
            service.hooks(after=[lambda context: None])
        with pytest.raises(RuntimeError, match=r"context\.result is UNSET"):
            await service.find()
