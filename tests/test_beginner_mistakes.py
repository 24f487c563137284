"""Mistakes of the first hour: each ends in an error that shows the line to write instead."""

import inspect

import pytest

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.errors import Forbidden, NotFound
from alula.express import (
    cors,
    error_handler,
    express,
    health,
    json,
    not_found,
    rest,
    urlencoded,
)


class Todos:
    async def find(self, params):
        return []

    async def create(self, data, params):
        return data


def service_with(**methods):
    return type("Todos", (), methods)()


async def forgot_params(self):
    return []


async def forgot_id(self, params):
    return []


async def forgot_data(self, params):
    return []


async def forgot_self(params):
    return []


def yields_plainly(self, params):
    yield {}


async def needs_more(self, data, params, extra):
    return data


def on_app(function):
    """A mistake with a plain application and one service."""

    def make():
        app = App().use("todos", MemoryService(multi=True))
        return function(app)

    return make


def on_web(function):
    """A mistake with a web application."""

    def make():
        return function(express(App()).use("todos", MemoryService(multi=True)))

    return make


def register(**methods):
    return lambda: App().use("todos", service_with(**methods))


def everyone(data, context):
    return None


AT_REGISTRATION = {
    # a service
    "a class": (lambda: App().use("todos", Todos), r"register an instance: Todos\(\)"),
    "a dict": (lambda: App().use("todos", {}), "a service is an object with methods"),
    "nothing": (lambda: App().use("todos", None), "a service is an object with methods"),
    "no service": (lambda: App().use("todos"), r"use\('todos', service\)"),
    "no path": (lambda: App().use(Todos()), r"use\(path, service\) takes a path first"),
    "the wrong order": (lambda: App().use(Todos(), "todos"), "takes a path first"),
    "no method": (lambda: App().use("todos", object()), "define one of find, get, create"),
    "the path twice": (
        on_app(lambda app: app.use("todos", Todos())),
        "something at the path 'todos' already",
    ),
    "a function": (lambda: App().use("todos", lambda params: []), "has no service method"),
    "find without params": (
        register(find=forgot_params),
        r"takes \(\), but is called with \(params\); define it as `async def find\(self, params\)`",
    ),
    "get without id": (register(get=forgot_id), r"`async def get\(self, id, params\)`"),
    "create without data": (register(create=forgot_data), r"def create\(self, data, params\)`"),
    "patch without id": (register(patch=forgot_data), r"def patch\(self, id, data, params\)`"),
    "update without data": (register(update=forgot_id), r"def update\(self, id, data, params\)`"),
    "remove without id": (register(remove=forgot_id), r"def remove\(self, id, params\)`"),
    "without self": (register(find=forgot_self), r"def find\(self, params\)`"),
    "too many arguments": (register(create=needs_more), r"def create\(self, data, params\)`"),
    "a custom method": (
        lambda: App().use("t", service_with(archive=forgot_params), methods=["archive"]),
        r"def archive\(self, data, params\)`",
    ),
    "setup": (
        register(find=Todos.find, setup=forgot_params),
        r"`setup` .* define it as `async def setup\(self, app, path\)`",
    ),
    "a method that yields": (
        register(find=yields_plainly),
        "`find` .* yields; make it `async def`",
    ),
    "methods as text": (
        lambda: App().use("todos", Todos(), methods="find"),
        r"methods .* is a string; give a list: \['find'\]",
    ),
    "a method that is missing": (
        lambda: App().use("todos", Todos(), methods=["archive"]),
        "lists the method `archive`, but Todos has none",
    ),
    "events as text": (
        lambda: App().use("todos", Todos(), events="typed"),
        r"events .* is a string; give a list: \['typed'\]",
    ),
    "options as a dict": (
        lambda: express(App()).use("todos", Todos(), {"methods": ["find"]}),
        r"options are keywords: use\(path, service, methods=\[...\]\)",
    ),
    "a service by a wrong name": (
        on_app(lambda app: app.service("todo")),
        "no service at 'todo'; did you mean 'todos'",
    ),
    # the application and the web application
    "App().run()": (lambda: App().run(), r"app = express\(App\(\)\)"),
    "App().listen()": (lambda: App().listen(3030), r"app = express\(App\(\)\)"),
    "App().post()": (lambda: App().post("/x", print), r"app = express\(App\(\)\)"),
    "App().get() of a route": (lambda: App().get("/x"), r"is a route; .*express\(App\(\)\)"),
    "App().get() with a handler": (
        lambda: App().get("x", lambda req, res: None),
        r"is a route; .*express\(App\(\)\)",
    ),
    "@App().get()": (lambda: App().get("/x")(print), r"is a route; .*express\(App\(\)\)"),
    "App().use(json())": (lambda: App().use(json()), r"app = express\(App\(\)\)"),
    "App().use(not_found(), ...)": (
        lambda: App().use(not_found(), error_handler()),
        r"app = express\(App\(\)\)",
    ),
    "App().configure(rest())": (lambda: App().configure(rest()), r"express\(App\(\)\)"),
    "express(App)": (lambda: express(App), r"write express\(App\(\)\)"),
    "use(json)": (lambda: express(App()).use(json), r"write app\.use\(json\(\)\), with brackets"),
    "use(rest())": (lambda: express(App()).use(rest()), r"app\.configure\(rest\(\)\)"),
    "configure(rest)": (lambda: express(App()).configure(rest), r"app\.configure\(rest\(\)\)"),
    "configure(json())": (
        lambda: express(App()).configure(json()),
        r"^write app\.use\(json\(\)\): alula\.express\.json is not a plugin",
    ),
    "configure(urlencoded)": (
        lambda: express(App()).configure(urlencoded),
        r"^write app\.use\(urlencoded\(\)\): alula\.express\.urlencoded is not a plugin",
    ),
    "configure(cors())": (
        lambda: express(App()).configure(cors()),
        r"^write app\.use\(cors\(\)\): alula\.express\.cors is not a plugin",
    ),
    "use(health())": (
        lambda: express(App()).use(health()),
        r"^write app\.configure\(health\(\)\): alula\.express\.health is a plugin",
    ),
    "configure(None)": (lambda: express(App()).configure(None), "a plugin is a function"),
    "use() of nothing": (lambda: express(App()).use(), "nothing to use"),
    "use() of a path": (lambda: express(App()).use("todos"), r"a path and"),
    "use() of a service without a path": (
        lambda: express(App()).use(Todos()),
        r"use\(path, service\)",
    ),
    "a route without a slash": (
        lambda: express(App()).post("x", lambda req, res: None),
        "must start with a slash",
    ),
    "a route without a handler": (lambda: express(App()).get("/x"), "has no handler"),
    "a handler of nothing": (
        lambda: express(App()).get("/x", lambda: None),
        r"a handler \(req, res\)",
    ),
    "FastAPI's braces": (
        lambda: express(App()).get("/x/{id}", lambda req, res: None),
        r":id",
    ),
    "braces in the path of a service": (lambda: App().use("x/{id}", Todos()), ":name"),
    "middleware without next": (
        lambda: express(App()).use(lambda req: None),
        r"middleware takes \(req, res, next\)",
    ),
    # hooks
    "before of a list": (
        on_app(lambda app: app.service("todos").before(["create"])),
        r'@service\.before\("create", "patch"\)',
    ),
    "before without brackets": (
        on_app(lambda app: app.service("todos").before(lambda context: None)),
        r"with brackets",
    ),
    "after of a list": (on_app(lambda app: app.after(["find"])), r"one by one"),
    "around of a set": (on_app(lambda app: app.around({"find"})), r"one by one"),
    "a method of hooks that is missing": (
        on_app(lambda app: app.service("todos").hooks(before={"craete": [print]})),
        "there is no such method; it has find, get, create",
    ),
    "the same by decorator": (
        on_app(lambda app: app.service("todos").before("craete")(print)),
        "there is no such method",
    ),
    "a type of hooks that is missing": (
        on_app(lambda app: app.service("todos").hooks(befor=[print])),
        "use around, before, after, error",
    ),
    "methods in place of types": (
        on_app(lambda app: app.service("todos").hooks({"create": [print]})),
        "use around, before, after, error",
    ),
    "a hook without context": (
        on_app(lambda app: app.service("todos").hooks(before=[lambda: None])),
        r"expected a function of \(context\)",
    ),
    "an around hook without next": (
        on_app(lambda app: app.service("todos").hooks(around=[lambda context: None])),
        r"expected a function of \(context, next\)",
    ),
    "a hook that was called": (
        on_app(lambda app: app.service("todos").hooks(before=[None])),
        r"expected a function of \(context\)",
    ),
    "hooks of a list of names": (
        on_app(lambda app: app.service("todos").hooks(before=["create"])),
        r"expected a function of \(context\)",
    ),
    # events
    'on("craeted")': (
        on_app(lambda app: app.service("todos").on("craeted", lambda data, context: None)),
        "emits no event 'craeted'; did you mean 'created'",
    ),
    'on("deleted")': (
        on_app(lambda app: app.service("todos").on("deleted")),
        r"emits created, updated, patched, removed; others are listed: use\('todos', service, ev",
    ),
    'once("craeted")': (
        on_app(lambda app: app.service("todos").once("craeted")),
        "did you mean 'created'",
    ),
    "a listener of one argument": (
        on_app(lambda app: app.service("todos").on("created", lambda data: None)),
        r"takes \(data\); listeners are called with \(data, context\)",
    ),
    "the same by decorator once more": (
        on_app(lambda app: app.service("todos").on("created")(lambda: None)),
        r"listeners are called with \(data, context\)",
    ),
    "a listener of three": (
        on_app(lambda app: app.service("todos").once("removed", lambda *, data: None)),
        r"listeners are called with \(data, context\)",
    ),
    "a listener that was called": (
        on_app(lambda app: app.service("todos").on("created", 5)),
        "a listener is a function",
    ),
    "on without brackets": (
        on_app(lambda app: app.service("todos").on(lambda data, context: None)),
        r"@service\.on\('created'\)",
    ),
    "on of the application": (
        on_app(lambda app: app.on("created", lambda data, context: None)),
        r"app\.service\(path\)\.on\('created', listener\)",
    ),
    "on of the web application": (
        on_web(lambda app: app.on("created")),
        r"app\.service\(path\)\.on\('created', listener\)",
    ),
    # settings
    # events, channels and publishers
    "a publisher of an event that is misspelt": (
        on_app(lambda app: app.publish("crated", everyone)),
        r"no service emits an event 'crated'; did you mean 'created'\?.*events=\['crated'\]",
    ),
    "a publisher of a path": (
        on_app(lambda app: app.publish("todos", everyone)),
        r"app\.service\('todos'\)\.publish\(publisher\)",
    ),
    "a publisher of an event of the service that is misspelt": (
        on_app(lambda app: app.service("todos").publish("crated", everyone)),
        "emits no event 'crated'; did you mean 'created'",
    ),
    "on of connect": (
        on_app(lambda app: app.on("connect", print)),
        "an application emits no 'connect'; did you mean 'connection'",
    ),
    "on of a slip": (
        on_web(lambda app: app.once("conection")),
        "did you mean 'connection'",
    ),
    "on of sign_in": (on_app(lambda app: app.on("sign_in")), "did you mean 'login'"),
    "a listener for connections of two": (
        on_app(lambda app: app.on("connection", lambda connection, context: None)),
        r"takes \(connection, context\); listeners are called with \(connection\)",
    ),
    "a listener for sign-ins of one": (
        on_app(lambda app: app.on("login")(lambda result: None)),
        r"listeners are called with \(result, params, context\)",
    ),
    "a channel of a number": (
        on_app(lambda app: app.channel(5)),
        r"app\.channel\(5\): the name of a channel is a string, .*rooms/\{room_id\}",
    ),
    "a channel of numbers": (
        on_app(lambda app: app.channel(["a", 5])),
        r"app\.channel\(5\): the name of a channel is a string",
    ),
    "a setting as a route": (
        on_web(lambda app: app.get("port", lambda req, res: None)),
        r"settings are read by app\.settings\.get\('port'\)",
    ),
    "a body limit": (on_web(lambda app: app.set("body limit", "a lot")), "a lot"),
    "a query parser": (on_web(lambda app: app.set("query parser", "simple")), "give a function"),
}


@pytest.mark.parametrize("mistake", AT_REGISTRATION)
def test_a_mistake_is_an_error_where_it_is_made(mistake):
    make, message = AT_REGISTRATION[mistake]
    with pytest.raises((TypeError, ValueError, LookupError, AttributeError), match=message):
        make()


@pytest.fixture
def todos():
    store = {1: {"id": 1, "done": True}, 2: {"id": 2, "done": False}}
    return App().use("todos", MemoryService(store=store, multi=True)).service("todos")


IN_A_CALL = {
    "a filter as params": (lambda todos: todos.find({"done": True}), r"query=\{'done': \.\.\.\}"),
    "a filter as keywords": (lambda todos: todos.find(done=True), r"query=\{'done': \.\.\.\}"),
    "a slip": (lambda todos: todos.find(qurey={}), r"did you mean query=\{\.\.\.\}"),
    "limit": (lambda todos: todos.find(limit=5), r"query=\{'\$limit': \.\.\.\}"),
    "a query as params": (lambda todos: todos.find({"$limit": 5}), r"query=\{'\$limit': "),
    "where": (lambda todos: todos.find(where={}), r"query=\{\.\.\.\}"),
    "text as params": (lambda todos: todos.find("done"), "params has to be a mapping or Params"),
    "text as the query": (lambda todos: todos.find(query="done"), "has to be a mapping"),
    "remove by params": (lambda todos: todos.remove(None, {"done": True}), r"query=\{'done'"),
    "patch by params": (lambda todos: todos.patch(None, {}, {"done": True}), r"query=\{'done'"),
    "Params of a filter": (lambda todos: todos.find(Params(done=True)), r"query=\{'done'"),
    "get of a mapping": (lambda todos: todos.get({"id": 1}), r"id is a single value.*query="),
    "remove of a mapping": (
        lambda todos: todos.remove({"done": True}),
        r"id is a single value.*query=",
    ),
    "patch of a mapping": (
        lambda todos: todos.patch({"done": True}, {}),
        r"id is a single value.*query=",
    ),
    "get of a list": (lambda todos: todos.get([1, 2]), r"id is a single value.*query="),
    "a method that is missing": (lambda todos: todos.delete(1), "has no method `delete`; it has"),
    "a custom one that is not listed": (lambda todos: todos.archive({}), r"use\(path, service, m"),
}


@pytest.mark.parametrize("mistake", IN_A_CALL)
async def test_a_mistake_in_a_call_is_an_error_and_changes_nothing(todos, mistake):
    make, message = IN_A_CALL[mistake]
    with pytest.raises((TypeError, AttributeError, NotFound), match=message):
        await make(todos)
    assert len(await todos.find()) == 2


async def test_to_emit_what_is_not_listed_is_logged_and_fails_no_call(todos, caplog):
    def emit_finished(context):
        context.service.emit("finished", {})

    todos.hooks(after={"create": [emit_finished]})
    assert await todos.create({"id": 3}) == {"id": 3}
    text = "nobody gets an event: service 'todos' emits no event 'finished'; it emits created"
    assert text in caplog.text
    assert "events=['finished']" in caplog.text


BEFORE = r"context\.data = \.\.\., context\.params\.query = "

RETURNED = {
    "new data": ("before", lambda context: {**context.data, "a": 1}, BEFORE),
    "a list": ("before", lambda context: [context.data], BEFORE),
    "params": ("before", lambda context: context.params.copy(), BEFORE),
    "an error": ("before", lambda context: Forbidden("no"), r"raise it: raise Forbidden\(\.\.\.\)"),
    "False": ("before", lambda context: False, r'raise Forbidden\("\.\.\."\)'),
    "a hook": ("before", lambda context: lambda context: None, "call it where it is registered"),
    "a new result": ("after", lambda context: {"a": 1}, r"context\.result = \.\.\."),
    "a recovery": ("error", lambda context: {"a": 1}, r"context\.result = \.\.\. to recover"),
}


class TestWhatHooksReturn:
    @pytest.mark.parametrize("mistake", RETURNED)
    @pytest.mark.parametrize("asynchronous", [False, True])
    async def test_what_was_meant_for_something_is_refused(self, todos, mistake, asynchronous):
        kind, hook, message = RETURNED[mistake]

        async def later(context):
            return hook(context)

        def fail(context):
            raise LookupError("for the error hook")

        if kind == "error":
            todos.hooks(before=[fail])
        todos.hooks({kind: [later if asynchronous else hook]})
        with pytest.raises(TypeError, match=message) as caught:
            await todos.create({"id": 3})
        assert f"{kind} hook" in str(caught.value)
        assert "`create` of service 'todos'" in str(caught.value)

    async def test_of_an_around_hook_too(self, todos):
        async def around(context, next):
            await next()
            return {"a": 1}

        todos.hooks(around=[around])
        with pytest.raises(TypeError, match=r"around hook .* returned a dict.*context\.result"):
            await todos.find()

    async def test_the_context_and_what_lambdas_happen_to_return_is_let_go(self, todos):
        async def around(context, next):
            await next()
            return context

        todos.hooks(
            before=[lambda context: context, lambda context: 5, lambda context: "text"],
            after=[lambda context: True],
            around=[around],
        )
        assert len(await todos.find()) == 2


class TestAForgottenTransport:
    async def test_is_an_error_at_the_start(self):
        app = express(App())
        app.use("todos", Todos()).use("inside", Todos(), methods=[])
        with pytest.raises(RuntimeError, match=r"the services 'todos': write app\.configure\(rest"):
            await app.listen(0)
        app.configure(rest())
        async with await app.listen(0):
            assert app.transports == ["rest"]

    async def test_in_the_lifespan_too(self):
        sent = []

        async def receive():
            return {"type": "lifespan.startup"}

        async def send(message):
            sent.append(message)

        app = express(App()).use("todos", Todos())
        with pytest.raises(RuntimeError, match=r"app\.configure\(rest\(\)\)"):
            await app({"type": "lifespan", "state": {}}, receive, send)
        assert sent[0]["type"] == "lifespan.startup.failed"

    async def test_an_application_without_open_services_needs_none(self):
        app = express(App()).use("inside", Todos(), methods=[])
        async with await app.listen(0):
            pass


def test_methods_that_have_no_signature_to_look_at_are_taken():
    class Odd:
        find = staticmethod(print)
        get = staticmethod(max)  # a built-in function without a signature

    with pytest.raises(ValueError, match="no signature"):
        inspect.signature(max)
    app = App().use("odd", Odd())
    assert app.service("odd").methods == ("find", "get")
    assert app.service("odd").on("created", max) is max
    app.configure(type)


def test_events_of_one_s_own_may_have_other_names():
    app = App()
    heard = []
    app.on("order paid", heard.append)
    app.emit("order paid", 1)
    app.publish("paid", everyone)  # a service that lists it may follow
    app.use("orders", Todos(), events=["paid"])
    app.publish("paid", everyone)
    assert heard == [1]
