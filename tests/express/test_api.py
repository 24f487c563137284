"""`api`: every part runs in its place, in whatever order it is registered."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.express.asgi_client import call

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, JWTStrategy
from alula.authentication import authenticate as requires
from alula.errors import Forbidden, NotFound
from alula.express import (
    ExpressApplication,
    Router,
    access_log,
    api,
    authenticate,
    cors,
    error_handler,
    express,
    health,
    json,
    not_found,
    request_id,
    rest,
    serve_static,
    urlencoded,
)
from alula.openapi import openapi


def memory():
    return MemoryService(start_id=1)


@pytest.fixture
def app():
    return api().use("messages", memory())


def mark(text):
    def middleware(req, res, next):
        res.append("x-log", f"{text}:{type(req.body).__name__}")
        return next()

    return middleware


async def post(app, url="/messages", body=b'{"text": "Hello"}', content_type="application/json"):
    return await call(app, "POST", url, body=body, headers={"content-type": content_type})


# -- what is there ---------------------------------------------------------------------------------


async def test_bodies_services_404_and_errors_are_there(app):
    assert type(app) is ExpressApplication
    created = await post(app)
    assert (created.status, created.json) == (201, {"text": "Hello", "id": 1})
    assert (await call(app, url="/messages/1")).json["text"] == "Hello"
    missing = await call(app, url="/nowhere")
    assert (missing.status, missing.json["className"]) == (404, "not-found")
    assert (await post(app, body=b"{")).json["className"] == "bad-request"


async def test_forms_are_refused_until_their_parser_is_there(app):
    form = "application/x-www-form-urlencoded"
    assert (await post(app, body=b"text=Hi", content_type=form)).status == 415
    app.use(urlencoded())
    assert (await post(app, body=b"text=Hi", content_type=form)).json["text"] == "Hi"


async def test_it_takes_an_application_and_one_to_extend():
    core = App(debug=True)
    existing = Starlette(routes=[Route("/old", lambda request: PlainTextResponse("old"))])
    app = api(core, existing).use("messages", memory())
    assert app is core
    assert (await call(app, url="/old")).text == "old"
    assert (await post(app)).status == 201
    with pytest.raises(ValueError, match="is a web application already"):
        api(app)


# -- the order -------------------------------------------------------------------------------------


async def test_middleware_runs_before_services_and_after_the_parsers(app):
    app.use(mark("late"))
    answer = await post(app)
    assert answer.get("x-log") == "late:dict"


async def test_a_guard_that_is_registered_late_holds(app):
    def guard(req, res, next):
        raise Forbidden("members only")

    app.use("/messages", guard)
    assert (await post(app)).status == 403
    assert (await call(app, url="//messages/1")).status == 403


async def test_an_authentication_that_is_configured_late_is_read(app):
    def show(req, res):
        res.json({"signed in as": req.user})

    app.get("/me", authenticate("jwt"), show)
    service = AuthenticationService(app, secret="s" * 32, entity=None, strategies=("jwt",))
    service.register("jwt", JWTStrategy())
    app.use("authentication", service)
    app.service("messages").hooks(around=[requires("jwt")])
    assert (await call(app, url="/me")).status == 401
    assert (await call(app, url="/messages")).status == 401


async def test_what_reads_no_body_runs_before_the_parsers(app):
    app.use(cors(), request_id(), access_log())
    answer = await call(
        app,
        "POST",
        "/messages",
        body=b"{",
        headers={"content-type": "application/json", "origin": "https://a.example"},
    )
    assert answer.status == 400
    assert answer.get("access-control-allow-origin")
    assert answer.get("x-request-id")


async def test_routes_that_begin_with_a_name_come_before_services(app):
    app.get("/messages/count", lambda req, res: res.json({"count": 7}))
    assert (await call(app, url="/messages/count")).json == {"count": 7}


@pytest.mark.parametrize("path", ["*", "/*", "/:page", "/:page/:more"])
async def test_handlers_of_every_path_come_after_services(app, path):
    app.get(path, lambda req, res: res.send("any page"))
    await post(app)
    assert (await call(app, url="/messages/1")).json["id"] == 1
    url = "/about/us" if path == "/:page/:more" else "/about"
    assert (await call(app, url=url)).text == "any page"


async def test_a_guard_on_every_path_comes_before_services(app):
    def guard(req, res, next):
        raise Forbidden("members only")

    app.all("*", guard)
    assert (await call(app, url="/messages")).status == 403


async def test_an_asgi_application_gets_what_is_left(app):
    pages = Starlette(routes=[Route("/messages", lambda request: PlainTextResponse("page"))])
    pages.router.routes.append(Route("/about", lambda request: PlainTextResponse("about")))
    app.use(pages)
    assert (await call(app, url="/messages")).json == []
    assert (await call(app, url="/about")).text == "about"


async def test_applications_and_routers_at_a_path(app):
    pages = Starlette(routes=[Route("/hi", lambda request: PlainTextResponse("hi"))])
    inner = api().use("notes", memory())
    app.use("/pages", pages).use("/v2", inner).use(Router().get("/free", _free))
    assert (await call(app, url="/pages/hi")).text == "hi"
    assert (await post(app, "/v2/notes")).status == 201
    assert (await call(app, url="/v2/nothing")).status == 404
    assert (await call(app, url="/free")).text == "free"


def _free(req, res):
    res.send("free")


async def test_files_come_after_services(app, tmp_path):
    (tmp_path / "messages").write_text("a file")
    (tmp_path / "page.txt").write_text("a page")
    app.use(serve_static(tmp_path))
    assert (await call(app, url="/messages")).json == []
    assert (await call(app, url="/page.txt")).text == "a page"
    assert (await call(app, url="/nowhere")).status == 404


async def test_error_middleware_gets_every_error(app):
    seen = []

    def note(error, req, res, next):
        seen.append(type(error))
        return next(error)

    app.use(note)
    app.use(mark("after"))
    assert (await call(app, url="/nowhere")).status == 404
    assert (await call(app, url="/messages/9")).status == 404
    assert seen == [NotFound, NotFound]


async def test_plugins_find_their_place(app):
    app.configure(openapi()).configure(health())
    assert (await call(app, url="/openapi.json")).json["openapi"]
    assert (await call(app, url="/health/live")).status == 200


# -- parts of one's own ----------------------------------------------------------------------------


async def test_a_body_parser_of_ones_own_replaces_the_ready_one(app):
    app.use(json(limit=10))
    assert (await post(app)).status == 413


async def test_a_body_parser_for_one_path(app):
    app.set("body limit", 10)
    app.use("/messages", json(limit="1kb"))
    assert (await post(app)).status == 201
    app.use("notes", memory())
    assert (await post(app, "/notes")).status == 413


async def test_a_formatter_of_ones_own(app):
    app.configure(rest(lambda req, res: res.json({"wrapped": res.data})))
    assert (await call(app, url="/messages")).json == {"wrapped": []}
    assert app.transports == ["rest"]
    with pytest.raises(RuntimeError, match="configured already"):
        app.configure(rest())


async def test_a_404_and_an_error_handler_of_ones_own(app, caplog):
    app.use(error_handler(html=False, logger=False), not_found(verbose=True))
    answer = await call(app, url="/nowhere", headers={"accept": "text/html"})
    assert answer.json["message"] == "Page not found: /nowhere"
    assert caplog.records == []


async def test_a_404_and_an_error_handler_of_one_path(app):
    def fail(req, res):
        raise RuntimeError("broken")

    app.get("/inner/broken", fail)
    app.use("/inner", not_found(verbose=True), error_handler(html=False, logger=False))
    html = {"accept": "text/html"}
    assert (await call(app, url="/inner/x", headers=html)).json["message"].endswith("/x")
    assert (await call(app, url="/inner/broken", headers=html)).json["code"] == 500
    assert "<html" in (await call(app, url="/outer", headers=html)).text


async def test_without_it_the_order_is_that_of_registration():
    app = express(App()).use(not_found(), error_handler()).configure(rest())
    app.use("messages", memory())
    assert (await call(app, url="/messages")).status == 404


async def test_middleware_can_be_put_in_front_of_all(app):
    app.prepend_middleware(request_id())
    app.use(mark("later"))
    answer = await post(app)
    assert answer.get("x-request-id")
    assert answer.get("x-log") == "later:dict"


async def test_a_body_is_not_read_for_a_path_that_leads_nowhere(app):
    answer = await post(app, "/nowhere", body=b"{")
    assert answer.status == 404
