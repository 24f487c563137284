"""`express`: the interface of the core application on the web application, and its mistakes."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from starlette.applications import Starlette
from tests.express.asgi_client import call

from alula import App
from alula.express import ExpressApplication, Router, WebApplication, express, json, rest
from alula.query import parse


class Service:
    async def find(self, params):
        return []

    async def get(self, id, params):
        return {"id": id}

    async def archive(self, data, params):
        return data


def test_a_service_is_not_an_attribute():
    app = express(App()).use("messages", Service())
    with pytest.raises(AttributeError, match=r"the service is at app\.service\('messages'\)$"):
        app.messages  # noqa: B018  # looking it up is the test
    with pytest.raises(AttributeError, match=r"has no attribute 'mesages'$"):
        app.mesages  # noqa: B018  # as above
    with pytest.raises(AttributeError, match=r"has no attribute 'messages'$"):
        object.__new__(ExpressApplication).messages  # noqa: B018  # before it has an application


@pytest.fixture
def core():
    return App()


@pytest.fixture
def app(core):
    return express(core)


# -- express ---------------------------------------------------------------------------------------


def test_express_without_an_application_is_a_plain_web_application():
    web = express()
    assert type(web) is WebApplication
    assert type(express(None, Starlette())) is WebApplication
    with pytest.raises(TypeError, match=r"made by express\(App\(\)\)"):
        web.use("service", Service())


def test_express_returns_the_same_application(app, core):
    assert app is core
    assert type(app) is ExpressApplication
    assert repr(app) == "express(the application (0 services))"
    with pytest.raises(ValueError, match=r"express\(.*\) is a web application already"):
        express(app)


def test_what_was_registered_before_gets_the_web_application():
    core = App().use("early", Service())
    app = express(core)
    core.use("late", Service())
    assert app.service("early").app is app.service("late").app is app


def test_an_application_that_cannot_extend_another_stays_what_it_was():
    core = App()
    with pytest.raises(TypeError, match="is not a Starlette or FastAPI application"):
        express(core, object())
    assert type(core) is App
    assert type(express(core)) is ExpressApplication


def test_a_web_application_can_be_made_by_its_class():
    app = ExpressApplication(debug=True).get("/", lambda req, res: res.end())
    assert app.debug
    assert app.use("things", Service()).service("things").app is app


async def test_what_a_class_of_the_user_overrides_comes_first():
    class Mine(App):
        def use(self, path, *items, **options):
            return super().use(f"v1/{path}", *items, **options)

        async def setup(self, server=None):
            log.append("mine")
            return await super().setup(server)

    log = []
    app = express(Mine())
    assert isinstance(app, Mine)
    assert isinstance(app, ExpressApplication)
    app.configure(rest())
    app.use("things", Service())
    await app.setup()
    assert log == ["mine"]
    assert (await call(app, url="/v1/things/5")).json == {"id": "5"}


@pytest.mark.parametrize("wrong", [App, express(), Starlette(), object(), "app"])
def test_express_takes_an_application(wrong):
    with pytest.raises(
        TypeError, match=r"express\(app\): .* is not an alula\.App; write express\(App"
    ):
        express(wrong)


# -- the interface of App --------------------------------------------------------------------------


def test_the_same_arguments_are_taken(app):
    for name in ("service", "unuse", "lookup", "around", "before", "off", "emit", "setup", "set"):
        here, there = (inspect.signature(getattr(a, name)) for a in (app, App()))
        assert list(here.parameters) == list(there.parameters), name


def test_services_settings_and_debug(app):
    service = Service()
    assert app.use("/things/", service) is app
    assert app.service("things").service is service
    assert app.lookup("/things/5")[1] == "5"
    assert app.set("title", "Chat") is app
    assert app.get("title") == "Chat"
    app.debug = True
    assert app.debug is True


async def test_a_query_parser_that_the_core_has_counts():
    core = App().set("query parser", lambda text: {"text": text})
    app = express(core)
    app.configure(rest())
    seen = []

    async def note(context):
        seen.append(context.params.query)

    app.use("things", Service())
    app.hooks(before=[note])
    await call(app, url="/things?a=1")
    core.set("query parser", parse)
    await call(app, url="/things?a=1")
    assert seen == [{"text": "a=1"}, {"a": "1"}]


async def test_hooks_in_every_form(app):
    app.use("things", Service())
    log = []

    def hook(name):
        def run(context):
            log.append(name)

        return run

    app.hooks(before=[hook("hooks")])
    app.hooks({"before": {"get": [hook("mapping")]}})
    app.before("find", "get")(hook("before"))
    app.after()(hook("after"))

    @app.around()
    async def around(context, next):
        log.append("around")
        await next()

    await app.service("things").get(1)
    assert log == ["around", "hooks", "mapping", "before", "after"]


async def test_error_hooks(app):
    class Failing:
        async def find(self, params):
            raise LookupError("gone")

    app.use("things", Failing())

    @app.error()
    def recover(context):
        context.result = str(context.error)

    assert await app.service("things").find() == "gone"


def test_events_of_the_application(app, core):
    log = []
    listener = app.on("login", lambda *values: log.append(values))
    assert core.has_listeners("login")
    assert app.has_listeners("login")

    @app.on("login")
    def other(*values):
        log.append("other")

    assert app.emit("login", "ann", 1) is True
    assert log == [("ann", 1), "other"]
    app.off("login", listener)
    core.emit("login")
    assert log[2:] == ["other"]
    app.off("login")
    assert app.emit("login") is False


def test_configure_calls_a_plugin_with_the_application(app):
    seen = []
    assert app.configure(seen.append) is app
    assert seen == [app]


def test_asynchronous_plugins_are_refused(app):
    async def plugin(app): ...

    with pytest.raises(TypeError, match="plugins are plain functions"):
        app.configure(plugin)


async def test_hooks_and_services_get_the_very_application_that_express_returned():
    """Also where they were registered before."""
    seen = []

    class Living(Service):
        async def setup(self, app, path):
            seen.append(app)

        async def teardown(self, app, path):
            seen.append(app)

    async def life(context, next):
        seen.append(context.app)
        await next()

    inner = App().use("before", Living())
    inner.hooks(before=[lambda context: seen.append(context.app)], setup=[life], teardown=[life])
    app = express(inner).use("behind", Living())
    await app.setup()
    await app.service("before").find()
    await inner.service("behind").find()
    await app.teardown()
    assert len(seen) == 8
    assert all(each is app for each in seen)


async def test_drain_waits_for_listeners_and_leaves_readiness_alone():
    app, heard = express(App()), []

    async def listener(value):
        await asyncio.sleep(0)
        heard.append(value)

    app.once("ready", listener)
    app.emit("ready", 1)
    app.emit("ready", 2)
    await app.wait_for_listeners()
    assert heard == [1]
    assert app.readiness == "starting"


async def test_set_up_and_teardown(app):
    log = []

    class Living(Service):
        async def setup(self, app, path):
            log.append((app, path))

        async def teardown(self, app, path):
            log.append("teardown")

    app.use("things", Living())
    assert await app.setup() is app
    assert log == [(app, "things")]
    assert await app.teardown() is app
    assert log[1:] == ["teardown"]


async def test_unuse(app):
    service = Service()
    app.use("things", service)
    assert await app.unuse("/things") is service
    assert app.services == {}
    with pytest.raises(LookupError, match="there is no service at 'things'"):
        await app.unuse("things")


# -- use -------------------------------------------------------------------------------------------


async def test_everything_that_can_be_used(app):
    async def asgi(scope, receive, send):
        raise AssertionError

    async def middleware(req, res, next):
        await next()

    core = App()
    core.use("inner", Service())
    assert app.use(middleware) is app
    app.use([middleware, middleware])
    app.use("/path", middleware)
    app.use("/asgi", asgi).use("/starlette", Starlette())
    app.use("/router", Router()).use(Router())
    app.use("/web", express(App())).use("/plain", express())
    app.use("/core", core)
    app.use("things", json(), Service())
    app.configure(rest())
    assert set(app.services) == {"core/inner", "things"}
    assert (await call(app, url="/core/inner/5")).json == {"id": "5"}
    assert (await call(app, url="/things/5")).json == {"id": "5"}


async def test_applications_and_routers_are_recognised_before_services():
    class Lookalike(Router):
        async def find(self, params): ...

    app = express(App())
    app.use("/router", Lookalike().get("/x", lambda req, res: res.send("route")))
    assert app.services == {}
    assert (await call(app, url="/router/x")).text == "route"


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ((), TypeError, r"use\(\) has nothing to use"),
        (("things",), TypeError, r"use\(\) has nothing to use"),
        (("things", []), TypeError, r"use\(\) has nothing to use"),
        (("things", Service), TypeError, r"Service is a class; use an instance: Service\(\)"),
        (("things", object()), TypeError, r"'things' \(object\) has no service method"),
        (("things", None), TypeError, r"'things' is None; a service is an object with methods"),
        (("things", {"find": 1}), TypeError, r"options are keywords"),
        (("things", Service(), {"methods": ["find"]}), TypeError, r"options are keywords"),
        ((Service(),), TypeError, r"not 1 \(.*\) without a path: use\(path, service\)"),
        (("a", Service(), Service()), TypeError, r"not 2 \(.*\) at one path: use\(path, service"),
        (("a", Service(), App()), TypeError, r"not 2 \(.*the application .*\) at one path"),
        (("a", lambda req: None), TypeError, r"fits nothing that can be used"),
        ((5, Service()), TypeError, r"not 2 \(5, "),
        (("a/:/b", Service()), ValueError, r"a/:/b"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(app, items, error, message):
    with pytest.raises(error, match=message):
        app.use(*items)
    assert app.services == {}
    assert app.service_middleware == {}


@pytest.mark.parametrize("options", [{"methods": ["find"]}, {"events": ["done"]}])
def test_options_belong_to_a_service(app, options):
    with pytest.raises(TypeError, match="methods and events are options"):
        app.use("/path", Router(), **options)


@pytest.mark.parametrize(
    ("methods", "error", "message"),
    [
        (["find", "serach"], ValueError, "lists the method `serach`, but Service has none"),
        (["_private"], ValueError, "`_private`"),
        ("find", TypeError, r"is a string; give a list: \['find'\]"),
    ],
)
def test_a_method_that_does_not_exist_is_refused(app, methods, error, message):
    with pytest.raises(error, match=message):
        app.use("things", Service(), methods=methods)
    assert app.services == {}


def test_two_services_on_one_path_are_refused(app):
    app.use("things", Service())
    with pytest.raises(ValueError, match=r"'things'.*already"):
        app.use("/things/", lambda req, res, go: go(), Service())
    assert app.service_middleware == {}
    app.use("users/:id/posts", Service())
    with pytest.raises(ValueError, match="already"):
        app.use("users/:user/posts", Service())


def test_a_hook_for_a_method_that_does_not_exist_is_refused(app):
    app.use("things", Service(), methods=["find", "archive"])
    with pytest.raises(ValueError, match="before hook for `serach`"):
        app.hooks(before={"serach": [lambda context: None]})
    with pytest.raises(ValueError, match="after hook for `create` of service 'things'"):
        app.service("things").hooks(after={"create": [lambda context: None]})
    app.hooks(before={"archive": [lambda context: None]})


def test_hooks_of_the_web_application_can_be_chained():
    app = express(App())
    assert app.hooks(before=[]) is app
