"""Calls of services without hooks: what is not made for them, and can still be asked for."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import sys
import weakref

import pytest
from tests.express.asgi_client import call, post_json
from tests.waiting import settle

from alula import UNSET, App, HookContext
from alula._user_code import callback_frames, place_of
from alula.errors import BadRequest, FrameworkError, NotAuthenticated, NotFound
from alula.express import error_handler, express, json, not_found, rest

HTML = {"accept": "text/html"}


class Echo:
    async def find(self, params):
        return [params.query]

    async def get(self, id, params):
        if id == "missing":
            raise NotFound("nothing here")
        return {"id": id, "provider": params.provider}

    async def create(self, data, params):
        return data

    async def patch(self, id, data, params):
        return None

    async def forgetful(self, data, params):
        return UNSET

    async def archive(self, data, params):
        return {"archived": data}


def application(service=None, *before, **options):
    app = express(App())
    app.use(json())
    for middleware in before:
        app.use(middleware)
    app.configure(rest())
    methods = [name for name in dir(Echo) if not name.startswith("_")]
    app.use("echo", service or Echo(), methods=methods if service is None else None)
    return app.use(not_found(), error_handler(**{"logger": False, **options}))


def seeing(seen):
    async def middleware(req, res, next):
        await next()
        seen.append(res.hook)

    return middleware


# -- the hook context ------------------------------------------------------------------------------


async def test_middleware_sees_the_context_of_a_call_without_hooks():
    seen = []
    app = application(None, seeing(seen))
    await call(app, url="/echo/5?a=1")
    (context,) = seen
    assert isinstance(context, HookContext)
    assert (context.app, context.service) == (app, app.service("echo"))
    assert (context.path, context.method, context.id, context.data) == ("echo", "get", "5", None)
    assert (context.params.query, context.params.provider) == ({"a": "1"}, "rest")
    assert context.result == {"id": "5", "provider": "rest"}


async def test_the_context_of_a_call_is_one_object():
    seen = []

    async def middleware(req, res, next):
        assert res.hook is None
        await next()
        seen.extend([res.hook, res.hook])

    await post_json(application(None, middleware), {"text": "Hi"}, "/echo")
    assert seen[0] is seen[1]
    assert (seen[0].data, seen[0].result, seen[0].event) == (*[{"text": "Hi"}] * 2, "created")


async def test_the_result_of_the_context_is_that_of_the_call_whatever_middleware_sends():
    seen = []

    def change(req, res, next):
        res.data = "changed"
        return next()

    app = express(App())
    app.use(seeing(seen))
    app.configure(rest())
    app.use("echo", Echo(), change)
    assert (await call(app, url="/echo")).json == "changed"
    assert seen[0].result == [{}]


async def test_a_failed_call_has_a_context_without_a_result():
    seen = []
    await call(application(None, seeing(seen)), url="/echo/missing")
    assert (seen[0].method, seen[0].id, seen[0].result) == ("get", "missing", UNSET)


# -- what is offered -------------------------------------------------------------------------------


@pytest.mark.parametrize("hooks", [{}, {"before": [lambda context: None]}], ids=["plain", "hooks"])
async def test_only_what_is_offered_is_called(hooks):
    app = application(Echo())
    app.use("closed", Echo(), methods=["get", "archive"])
    closed = app.service("closed")
    closed.hooks(**hooks)
    assert (await call(app, url="/closed/5")).json["id"] == "5"
    assert (await call(app, url="/closed")).status == 405
    assert (await call(app, "DELETE", "/closed/5")).status == 405
    assert (await call(app, "BREW", "/closed/5")).status == 405
    custom = {"x-service-method": "archive"}
    assert (await post_json(app, {}, "/closed", custom)).json == {"archived": {}}
    for name in ("create", "get", "forgetful"):  # a standard one has a verb of its own
        assert (await post_json(app, {}, "/closed", {"x-service-method": name})).status == 405


@pytest.mark.parametrize("hooks", [{}, {"before": [lambda context: None]}], ids=["plain", "hooks"])
async def test_calls_of_a_late_service_wait_until_it_is_set_up(hooks):
    class Late(Echo):
        ready = False

        async def setup(self, app, path):
            await asyncio.sleep(0.01)
            self.ready = True

        async def get(self, id, params):
            return {"ready": self.ready}

    app = application()
    await app.setup()
    app.use("late", Late())
    app.service("late").hooks(**hooks)
    answers = await asyncio.gather(*(call(app, url="/late/5") for _ in range(2)))
    assert [answer.json for answer in answers] == [{"ready": True}] * 2
    assert (await call(app, url="/late/5")).json == {"ready": True}
    await app.teardown()


# -- behind a check alone --------------------------------------------------------------------------


def guarded(*middleware):
    """Return an application whose service is behind a check, which lets in those with a query."""

    async def check(context, next):
        params = context.params
        await asyncio.sleep(0)
        if not params.query:
            raise NotAuthenticated("who are you?")
        params.user = params.query.pop("user")
        await next()

    app = application(None, *middleware)
    app.service("echo").hooks(around=[check])
    return app


async def test_what_a_check_sets_is_in_the_context_for_middleware_and_listeners():
    seen, heard = [], []
    app = guarded(seeing(seen))
    app.service("echo").on("created", lambda record, context: heard.append((record, context)))
    assert (await post_json(app, {"text": "Hi"}, "/echo?user=ann")).status == 201
    (context,) = seen
    assert (context.params.user, context.params.query) == ("ann", {})
    assert heard == [({"text": "Hi"}, context)]


async def test_each_kind_of_method_is_behind_the_check():
    app = guarded()
    assert (await call(app, url="/echo?user=ann")).json == [{}]
    assert (await call(app, url="/echo/5?user=ann")).json == {"id": "5", "provider": "rest"}
    json_type = {"content-type": "application/json"}
    patch = await call(app, "PATCH", "/echo/5?user=ann", b"{}", json_type)
    assert (patch.status, patch.body) == (204, b"")
    custom = {**json_type, "x-service-method": "archive"}
    assert (await call(app, "POST", "/echo?user=ann", b"{}", custom)).json == {"archived": {}}


@pytest.mark.parametrize(
    ("verb", "path", "headers"),
    [
        ("GET", "/echo", {}),
        ("GET", "/echo/5", {}),
        ("POST", "/echo", {}),
        ("PATCH", "/echo/5", {}),
        ("POST", "/echo", {"x-service-method": "archive"}),
    ],
)
async def test_nothing_passes_a_check_that_refuses(verb, path, headers):
    seen, heard = [], []
    app = guarded(seeing(seen))
    app.service("echo").on("created", lambda record, context: heard.append(record))
    body = b"{}" if verb != "GET" else b""
    response = await call(app, verb, path, body, {"content-type": "application/json", **headers})
    assert (response.status, response.json["message"]) == (401, "who are you?")
    assert (seen[0].result, heard) == (UNSET, [])


# -- methods, results and events -------------------------------------------------------------------


async def test_methods_get_what_they_take():
    app = application()
    assert (await call(app, url="/echo?a=1")).json == [{"a": "1"}]
    assert (await call(app, url="/echo/5")).json == {"id": "5", "provider": "rest"}
    assert (await post_json(app, {"a": 1}, "/echo")).json == {"a": 1}
    custom = await call(
        app,
        "POST",
        "/echo",
        b'{"a": 2}',
        {"content-type": "application/json", "x-service-method": "archive"},
    )
    assert (custom.status, custom.json) == (200, {"archived": {"a": 2}})


async def test_an_empty_result_is_a_204():
    answer = await call(
        application(), "PATCH", "/echo/5", b"{}", {"content-type": "application/json"}
    )
    assert (answer.status, answer.body) == (204, b"")


async def test_a_method_without_a_result_is_an_error_that_names_it(caplog):
    answer = await call(
        application(None, logger=None),
        "POST",
        "/echo",
        b"{}",
        {"content-type": "application/json", "x-service-method": "forgetful"},
    )
    assert answer.status == 500
    assert "service 'echo', `forgetful`: context.result is UNSET" in caplog.text


async def test_a_listener_gets_the_context_and_may_still_change_the_response():
    app = application()

    @app.service("echo").on("created")
    def decide(record, context):
        assert context.result == record == {"a": 1}
        context.http["status"] = 202

    answer = await post_json(app, {"a": 1}, "/echo")
    assert (answer.status, answer.json) == (202, {"a": 1})


async def test_a_hook_that_comes_later_runs():
    app = application()
    assert (await call(app, url="/echo/5")).json["id"] == "5"

    async def refuse(context):
        raise BadRequest("not today")

    app.service("echo").hooks(before={"get": [refuse]})
    assert (await call(app, url="/echo/5")).json["message"] == "not today"
    assert (await call(app, url="/echo")).json == [{}]


async def test_a_call_waits_for_a_setup_that_has_not_ended():
    go_on = asyncio.Event()

    class Late(Echo):
        async def setup(self, app, path):
            await go_on.wait()

    app = application()
    await app.setup()
    app.use("late", Late())
    request = asyncio.ensure_future(call(app, url="/late/5"))
    await settle()
    assert not request.done()
    go_on.set()
    assert (await request).json["id"] == "5"
    assert (await call(app, url="/late/6")).json["id"] == "6"
    await app.teardown()


async def test_the_watchdog_knows_which_method_runs():
    places = []

    class Busy:
        async def get(self, id, params):
            places.append(place_of(callback_frames(sys._getframe())))
            return {}

    await call(application(Busy()), url="/echo/5")
    assert places[0].what == "`get` of service 'echo'"


async def test_a_call_with_hooks_has_the_context_of_its_hooks():
    seen = []
    app = application(None, seeing(seen))

    async def note(context):
        context.noted = True

    app.service("echo").hooks(before=[note])
    await call(app, url="/echo/5")
    assert seen[0].noted
    missing = await call(app, url="/echo/missing")
    assert (missing.status, seen[1].method) == (404, "get")


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("html", [None, False])
@pytest.mark.parametrize("accept", [{}, {"accept": "*/*"}, {"accept": "application/json"}])
async def test_an_error_of_a_service_is_json_for_programs(html, accept):
    answer = await call(application(None, html=html), url="/echo/missing", headers=accept)
    assert answer.status == 404
    assert answer.json == {
        "name": "NotFound",
        "message": "nothing here",
        "code": 404,
        "className": "not-found",
    }
    assert answer.get("vary") == ("Accept" if html is None else None)


@pytest.mark.parametrize(
    "headers",
    [
        HTML,
        {"accept": "text/html, */*"},
        {"accept": "TEXT/HTML"},
        {"content-type": "text/html"},
        [("accept", "text/html"), ("accept", "*/*")],
    ],
)
async def test_an_error_of_a_service_is_a_page_for_browsers(headers):
    answer = await call(application(), url="/echo/missing", headers=headers)
    assert answer.status == 404
    assert answer.text.startswith("<!doctype html>")


async def test_middleware_may_have_changed_what_the_client_accepts():
    def as_browser(req, res, next):
        req.headers["accept"] = "text/html"
        return next()

    answer = await call(application(None, as_browser), url="/echo/missing")
    assert answer.text.startswith("<!doctype html>")


def failing(error):
    class Failing:
        async def get(self, id, params):
            raise error

    return Failing()


async def test_headers_of_an_error_are_sent():
    error = BadRequest("slowly")
    error.headers = {"Retry-After": "5"}
    answer = await call(application(failing(error)), url="/echo/5")
    assert (answer.status, answer.get("retry-after")) == (400, "5")


async def test_headers_that_were_set_before_an_error_stay():
    def note(req, res, next):
        res.set("x-note", "here")
        return next()

    answer = await call(application(None, note), url="/echo/missing")
    assert (answer.status, answer.get("x-note")) == (404, "here")


@pytest.mark.parametrize("code", ["no number", 200, 404.0, 700])
async def test_an_error_whose_code_is_not_one_is_a_500(code):
    answer = await call(application(failing(FrameworkError("odd", code=code))), url="/echo/5")
    assert answer.status == 500


@pytest.mark.parametrize("logger", [None, False])
async def test_an_unexpected_error_tells_nothing(logger):
    answer = await call(application(failing(KeyError("x")), logger=logger), url="/echo/5")
    assert (answer.status, answer.json["name"]) == (500, "GeneralError")


async def test_data_without_a_json_form_is_left_out(caplog):
    answer = await call(application(failing(BadRequest("odd", {"a": object()}))), url="/echo/5")
    assert (answer.status, answer.json["message"]) == (400, "odd")
    assert "has no JSON form" in caplog.text


@pytest.mark.parametrize(("level", "lines"), [(logging.WARNING, 0), (logging.INFO, 1)])
async def test_an_error_of_a_client_is_logged_where_that_is_wanted(caplog, level, lines):
    caplog.set_level(level, "alula.express")
    await call(application(None, logger=None), url="/echo/missing")
    assert len([r for r in caplog.records if r.name == "alula.express"]) == lines


async def test_an_expected_failure_of_the_server_is_logged(caplog):
    unavailable = FrameworkError("later", code=503)
    answer = await call(application(failing(unavailable), logger=None), url="/echo/5")
    assert answer.status == 503
    assert "GET /echo/5: FrameworkError: later" in caplog.text


async def test_a_logger_of_ones_own_gets_each_error():
    errors = []
    await call(application(None, logger=errors.append), url="/echo/missing")
    assert [str(error) for error in errors] == ["nothing here"]


async def test_error_middleware_in_front_of_the_handler_gets_the_error():
    seen = []

    def look(error, req, res, next):
        seen.append(str(error))
        return next(error)

    app = express(App())
    app.configure(rest())
    app.use("echo", Echo())
    app.use(look, error_handler(logger=False))
    assert (await call(app, url="/echo/missing")).status == 404
    assert seen == ["nothing here"]


async def test_an_error_of_a_service_is_freed_with_its_request():
    freed = []

    class Mine(NotFound):
        def __init__(self, id):
            super().__init__("gone")
            weakref.finalize(self, freed.append, id)

    class Failing:
        async def get(self, id, params):
            raise Mine(id)

    app = application(Failing())
    gc.disable()
    try:
        assert (await call(app, url="/echo/5")).status == 404
    finally:
        gc.enable()
    assert freed == ["5"]


async def test_error_middleware_that_wraps_the_handler_runs_itself():
    handler, seen = error_handler(logger=False), []

    @functools.wraps(handler)
    async def counted(error, req, res, next):
        seen.append(str(error))
        res.set("x-counted", "1")
        await handler(error, req, res, next)

    app = express(App())
    app.configure(rest())
    app.use("echo", Echo())
    app.use(counted)
    answer = await call(app, url="/echo/missing")
    assert (answer.status, answer.get("x-counted"), seen) == (404, "1", ["nothing here"])


async def test_error_middleware_without_weak_references_runs_itself():
    class Handler:
        __slots__ = ()

        def __call__(self, error, req, res, next):
            res.status(418).json(str(error))

    app = express(App())
    app.configure(rest())
    app.use("echo", Echo())
    app.use(Handler())
    assert (await call(app, url="/echo/missing")).status == 418


async def test_middleware_may_drop_the_context():
    async def drop(req, res, next):
        await next()
        res.hook = None
        assert res.hook is None

    assert (await call(application(None, drop), url="/echo/5")).status == 200
