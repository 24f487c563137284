"""The web application: settings, the ends of the chain, sub-applications, lifespan, gate."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import pytest
from tests.express.asgi_client import call, post_json, scope_of
from tests.express.serving import Lifespan, living

from alula import App
from alula.errors import BadRequest, Forbidden
from alula.express import Router, error_handler, express, json, not_found, rest
from alula.query import parse


@pytest.fixture
def web():
    return express()


async def fail(req, res, next):
    raise BadRequest("no")


# -- settings --------------------------------------------------------------------------------------


def test_settings_are_set_and_read_by_name(web):
    assert web.set("title", "Chat") is web
    assert web.get("title") == web.settings["title"] == "Chat"
    assert web.get("unknown") is None


async def test_a_plugin_is_called_with_the_application(web):
    assert web.configure(lambda app: app.use(fail)) is web
    assert (await call(web)).status == 400
    with pytest.raises(TypeError, match=r"rest\(\) configures what express\(App\(\)\) returns"):
        web.configure(rest())


async def test_get_with_one_argument_that_starts_with_a_slash_is_no_setting(web):
    web.set("/path", "value")
    with pytest.raises(TypeError, match="the route '/path' has no handler"):
        web.get("/path")
    with pytest.raises(TypeError, match=r"the route '\*' has no handler"):
        web.get("*")


def test_a_route_without_its_slash_is_not_taken_for_a_setting(web):
    message = (
        r"get\('users', ...\) is neither a route nor a setting: .*'/users'.*app\.settings\.get"
    )
    with pytest.raises(ValueError, match=message):
        web.get("users", lambda req, res: res.end())


async def test_get_with_handlers_is_a_route(web):
    assert web.get("/a", lambda req, res: res.send("a")) is web
    assert web.get("*", lambda req, res: res.send("all")) is web
    assert (await call(web, url="/a")).text == "a"
    assert (await call(web, url="/b")).text == "all"


async def show_query(req, res):
    res.json(req.query)


@pytest.mark.parametrize("when", ["before", "after", "by settings"])
async def test_the_query_parser_is_a_setting(web, when):
    parser = partial(parse, array_limit=3)
    if when == "before":
        web.set("query parser", parser)
    web.use(show_query)
    if when == "after":
        web.set("query parser", parser)
    elif when == "by settings":
        web.settings["query parser"] = parser
    four = "&".join(f"a[]={n}" for n in range(4))
    assert (await call(web, url=f"/?{four}")).json == {"a": {str(n): str(n) for n in range(4)}}


async def test_without_the_setting_alulas_own_parser_reads_queries(web):
    web.use(show_query)
    assert web.query_parser("a[b]=1") == {"a": {"b": "1"}}
    assert (await call(web, url="/?a[b]=1&a[c][]=2")).json == {"a": {"b": "1", "c": ["2"]}}
    assert (await call(web)).json == {}


async def test_a_query_over_the_limits_is_a_400(web):
    web.use(show_query)
    answer = await call(web, url="/?" + "&".join(f"p{n}=1" for n in range(1001)))
    assert answer.status == 400
    assert answer.json["className"] == "bad-request"


@pytest.mark.parametrize("value", ["extended", False, None])
def test_a_query_parser_is_a_function(web, value):
    with pytest.raises(TypeError, match=r"'query parser' is .*give a function"):
        web.set("query parser", value)
    assert web.settings == {}


# -- debug -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("debug", [True, False])
async def test_debug_decides_whether_clients_see_unexpected_errors(web, debug):
    async def boom(req, res):
        raise LookupError("the secret drawer")

    web.debug = debug
    web.use(boom)
    assert ("drawer" in (await call(web)).text) is debug


@pytest.mark.parametrize(("value", "debug"), [("1", True), ("", False)])
def test_debug_of_a_plain_application_comes_from_the_environment_too(monkeypatch, value, debug):
    monkeypatch.setenv("ALULA_DEBUG", value)
    assert express().debug is debug


# -- the ends of the chain -------------------------------------------------------------------------


async def test_what_nobody_answers_is_a_404_in_error_json(web):
    assert (await call(web, url="/x?a=1")).json == {
        "name": "NotFound",
        "message": "Page not found",
        "code": 404,
        "className": "not-found",
        "data": {"url": "/x?a=1"},
    }


async def test_an_error_that_nobody_takes_is_answered_as_error_json(web):
    web.use(fail)
    answer = await call(web)
    assert (answer.status, answer.json["message"]) == (400, "no")


async def test_people_with_a_browser_get_a_page(web):
    answer = await call(web, headers={"accept": "text/html"})
    assert answer.status == 404
    assert answer.text.startswith("<!doctype html>")


async def test_middleware_that_answers_and_goes_on_to_nobody_is_fine(web):
    async def answer(req, res, next):
        res.send("here")
        await next()

    web.use(answer)
    assert (await call(web)).text == "here"


# -- mistakes --------------------------------------------------------------------------------------


async def test_middleware_without_a_response_is_a_500_with_advice_in_the_log(web, caplog):
    async def forgetful(req, res, next):
        pass

    web.use(forgetful)
    answer = await call(web, url="/page?token=secret")
    assert answer.status == 500
    assert answer.json["className"] == "general-error"
    assert "forgetful" not in answer.text
    assert "forgetful neither sent a response (res.json, res.send, res.end)" in caplog.text
    assert "nor called `await next()`" in caplog.text
    assert "GET /page" in caplog.text
    assert "secret" not in caplog.text


async def test_silence_goes_through_the_error_middleware(web):
    seen = []

    def forgetful(req, res, next):
        pass

    web.use(forgetful)
    web.use(error_handler(logger=seen.append))
    assert (await call(web)).status == 500
    assert "forgetful neither sent a response" in str(seen[0])


async def test_error_middleware_that_never_answers_is_a_500_too(web, caplog):
    async def forgetful(error, req, res, next):
        pass

    web.use(fail)
    web.use(forgetful)
    assert (await call(web)).status == 500
    assert "forgetful neither sent a response" in caplog.text


async def test_a_response_that_comes_after_next_is_no_silence(web):
    async def late(req, res, next):
        await next()
        if not res.headers_sent:
            res.send("late")

    web.use(late)
    web.use(lambda req, res: None)
    assert (await call(web)).text == "late"


async def test_answering_twice_is_an_error(web, caplog):
    async def answer(req, res, next):
        res.send("one")
        await next()

    web.use(answer, lambda req, res: res.send("two"))
    answer = await call(web)
    assert answer.status == 500
    assert "has a response already" in caplog.text
    assert "respond once" in caplog.text


async def test_an_error_after_the_answer_takes_its_place(web, caplog):
    async def answer(req, res, next):
        res.set("x-kept", "yes").send("fine")
        raise LookupError("not fine")

    web.use(answer)
    answer = await call(web)
    assert (answer.status, answer.get("x-kept")) == (500, "yes")
    assert "not fine" in caplog.text


async def test_an_error_after_the_answer_of_another_takes_its_place_with_an_error_handler(web):
    async def outer(req, res, next):
        await next()
        raise Forbidden("not for you")

    web.use(outer, lambda req, res: res.send("fine"))
    web.use(error_handler(logger=False))
    assert (await call(web)).status == 403


async def test_an_error_handler_before_the_middleware_only_sees_errors_before_it(web):
    seen = []
    web.use(error_handler(logger=seen.append))
    web.use(fail)
    assert (await call(web)).status == 400
    assert seen == []


async def test_a_forgotten_await_is_a_500_whose_log_names_the_middleware(web, caplog):
    async def forgetful(req, res, next):
        next()

    web.use(forgetful, lambda req, res: res.send("never"))
    assert (await call(web)).status == 500
    assert "forgetful called next() without waiting for it" in caplog.text


# -- ASGI ------------------------------------------------------------------------------------------


async def test_websockets_are_refused(web):
    sent = []

    async def send(message):
        sent.append(message)

    await web(scope_of() | {"type": "websocket"}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1000}]


async def test_an_unknown_type_of_connection_is_an_error(web):
    with pytest.raises(ValueError, match="no ASGI connection of the type 'telepathy'"):
        await web(scope_of() | {"type": "telepathy"}, None, None)


async def test_the_lifespan_sets_up_and_tears_down():
    log = []

    class Service:
        async def find(self, params): ...

        async def setup(self, app, path):
            log.append("setup")

        async def teardown(self, app, path):
            log.append("teardown")

    app = express(App()).configure(rest())
    app.use("service", Service())
    async with living(app) as life:
        assert log == ["setup"]
        assert life.state == {}
    assert log == ["setup", "teardown"]


@pytest.mark.parametrize("stage", ["startup", "shutdown"])
async def test_a_lifespan_that_fails_reports_stage_and_reason(stage):
    class Service:
        async def find(self, params): ...

        async def setup(self, app, path):
            if stage == "startup":
                raise RuntimeError("no database")

        async def teardown(self, app, path):
            raise RuntimeError("no database")

    app = express(App()).configure(rest())
    app.use("service", Service())
    life = Lifespan(app)
    for asked in ("startup", "shutdown")[: 1 if stage == "startup" else 2]:
        answer = await life.ask(asked)
    assert answer["type"] == f"lifespan.{stage}.failed"
    assert answer["message"].startswith("Traceback")
    assert "RuntimeError: no database" in answer["message"]
    with pytest.raises(RuntimeError, match="no database"):
        await life.task


async def test_the_lifespan_of_a_plain_application_does_nothing(web):
    async with living(web):
        assert (await call(web)).status == 404
    assert await web.setup() is web


async def test_connections_of_any_kind_wait_at_the_gate_and_are_refused_where_the_set_up_fails():
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def hold(context, next):
        reached.set()
        await go_on.wait()
        raise RuntimeError("no database")

    app = express(App())
    app.hooks(setup=[hold])
    sent = []

    async def send(message):
        sent.append(message)

    listening = asyncio.ensure_future(app.listen(0))
    await reached.wait()
    early = [
        asyncio.ensure_future(app(scope_of() | {"type": "websocket"}, None, send)),
        asyncio.ensure_future(call(app, headers={"accept": "text/html"})),
    ]
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in early)
    early.append(asyncio.ensure_future(call(app)))
    early[-1].cancel()  # one that gives up takes nobody else along
    go_on.set()
    await asyncio.wait(early)
    assert sent == [{"type": "websocket.close", "code": 1013}]
    assert early[1].result().status == 503
    with pytest.raises(RuntimeError, match="no database"):
        await listening
    assert (await call(app)).status == 404  # the gate is gone


# -- sub-applications ------------------------------------------------------------------------------


class Named:
    def __init__(self, log):
        self.log = log

    async def setup(self, app, path):
        self.log.append(f"{path} up")

    async def find(self, params):
        return {"query": params.query, "headers": params.headers["x-in"]}

    async def create(self, data, params):
        return data


async def test_an_application_in_another_is_set_up_explicitly():
    log = []
    sub = express(App())
    sub.use(json())
    sub.configure(rest())
    sub.use("things", Named(log))
    sub.use(not_found(verbose=True))
    outer = express(App())
    outer.configure(rest())
    outer.use("/api/v1", sub)
    outer.use("own", Named(log))
    outer.use(error_handler(logger=False))
    await outer.setup()
    assert log == ["own up"]
    await sub.setup()
    assert log == ["own up", "things up"]
    headers = {"x-in": "1"}
    answer = await call(outer, url="/api/v1/things?a=1", headers=headers)
    assert answer.json == {"query": {"a": "1"}, "headers": "1"}
    assert (await post_json(outer, {"b": 2}, "/api/v1/things")).status == 201
    assert (await call(outer, url="/own", headers=headers)).status == 200
    assert (await call(outer, url="/things", headers=headers)).status == 404
    missing = await call(outer, url="/api/v1/nowhere")
    assert missing.json["message"] == "Page not found: /nowhere"


async def test_req_app_is_the_sub_application_while_it_runs_and_the_outer_one_around_it():
    log = []

    def note(name):
        async def middleware(req, res, next):
            log.append((f"{name} before", req.app))
            await next()
            log.append((f"{name} after", req.app))

        return middleware

    sub, outer = express(), express()
    sub.use(note("sub"))
    outer.use(note("outer"))
    outer.use("/sub", sub)
    outer.use(note("behind"), lambda req, res: res.end())
    await call(outer, url="/sub/x")
    assert log == [
        ("outer before", outer),
        ("sub before", sub),
        ("behind before", outer),
        ("behind after", outer),
        ("sub after", sub),
        ("outer after", outer),
    ]


async def test_errors_of_a_sub_application_are_handled_by_the_outer_one_as_its_own():
    sub, outer = express(), express()
    sub.debug, outer.debug = True, False
    sub.use(lambda req, res: 1 / 0)
    outer.use("/sub", sub)
    outer.use(error_handler(logger=False))
    assert "division" not in (await call(outer, url="/sub")).text
    sub.use(error_handler(logger=False))
    assert "division" in (await call(outer, url="/sub")).text


async def test_settings_of_a_sub_application_are_its_own():
    sub, outer = express(), express()
    sub.set("query parser", partial(parse, array_limit=1)).set("body limit", 10)
    for app in (sub, outer):
        app.use(json(), lambda req, res: res.json(req.query))
    web = express().use("/sub", sub).use(outer)
    assert (await call(web, url="/sub?a[]=1&a[]=2")).json == {"a": {"0": "1", "1": "2"}}
    assert (await call(web, url="/x?a[]=1&a[]=2")).json == {"a": ["1", "2"]}
    assert (await post_json(web, {"long": "x" * 20}, "/sub")).status == 413
    assert (await post_json(web, {"long": "x" * 20}, "/x")).status == 200


async def test_a_router_in_a_sub_application_keeps_the_sub_application(web):
    sub = express()
    sub.use("/r", Router().use(lambda req, res: res.json(req.app is sub)))
    web.use("/sub", sub)
    assert (await call(web, url="/sub/r")).json is True


# -- what it says ----------------------------------------------------------------------------------


async def test_the_log_of_an_unhandled_error_is_there_once(web, caplog):
    caplog.set_level(logging.INFO, "alula.express")
    web.use(fail)
    await call(web)
    assert len(caplog.records) == 1


def test_a_plain_application_says_what_it_is(web):
    assert repr(web) == "<WebApplication with 0 steps>"


def test_a_body_limit_that_is_no_size_is_refused_when_it_is_set():
    app = express()
    with pytest.raises(ValueError, match="is not a size"):
        app.set("body limit", "x")
    assert app.set("body limit", "2mb").get("body limit") == "2mb"
