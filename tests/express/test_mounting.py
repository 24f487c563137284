"""Other ASGI applications: mounted in ours, extended by ours, and ours mounted in them."""

from __future__ import annotations

import json as json_text
from contextlib import asynccontextmanager

import anyio
import pytest
from fastapi import APIRouter, FastAPI, HTTPException, WebSocket
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Host, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from tests.express.asgi_client import call, post_json, scope_of
from tests.express.serving import living

from alula import App
from alula.express import Router, express, json, not_found, rest


class Echo:
    async def get(self, id, params):
        return {"id": id, "query": params.query}

    async def create(self, data, params):
        return data


def services():
    app = express(App())
    app.use(json())
    app.configure(rest())
    app.use("echo", Echo())
    return app


async def inside(scope, receive, send):
    """Answer what an ASGI application sees of a request."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    seen = {name: scope[name] for name in ("path", "root_path")}
    seen["query"] = scope["query_string"].decode()
    await JSONResponse(seen | {"body": body.decode()})(scope, receive, send)


# -- ASGI applications in ours ---------------------------------------------------------------------


async def test_an_asgi_application_gets_the_whole_path_and_the_prefix_as_root_path():
    web = express().use("/sub", inside)
    assert (await call(web, url="/sub/a/b?x=1")).json == {
        "path": "/sub/a/b",
        "root_path": "/sub",
        "query": "x=1",
        "body": "",
    }
    assert (await call(web, url="/other")).status == 404


async def test_an_asgi_application_at_the_root_gets_the_request_as_it_is():
    seen = (await call(express().use(inside), url="/a%20b")).json
    assert (seen["path"], seen["root_path"]) == ("/a b", "")


async def test_root_path_is_decoded_as_paths_are_in_asgi():
    router = Router().use("/:name", inside)
    web = express().use("/café", router)
    seen = (await call(web, url="/caf%C3%A9/a%20b/c")).json
    assert (seen["path"], seen["root_path"]) == ("/café/a b/c", "/café/a b")


async def test_root_path_of_the_outside_stays_in_front():
    web = express().use("/sub", inside)
    seen = (await call(web, url="/out/sub/x", root_path="/out")).json
    assert (seen["path"], seen["root_path"]) == ("/out/sub/x", "/out/sub")


async def test_the_body_is_there_for_an_asgi_application_although_it_was_parsed():
    web = express().use(json()).use("/sub", inside)
    answer = await post_json(web, {"a": 1}, "/sub")
    assert json_text.loads(answer.json["body"]) == {"a": 1}


async def test_a_body_that_nobody_read_arrives_in_its_parts():
    web = express().use("/sub", inside)
    answer = await call(web, "POST", "/sub", [b"one ", b"two ", b"three"])
    assert answer.json["body"] == "one two three"


async def test_headers_that_middleware_sets_are_added_to_an_asgi_answer():
    async def stamp(req, res, next):
        await next()
        res.set("x-stamp", "yes")

    web = express().use(stamp).use("/sub", inside)
    assert (await call(web, url="/sub")).get("x-stamp") == "yes"


async def test_a_starlette_application_finds_its_routes_below_a_mount():
    async def endpoint(request):
        return PlainTextResponse(f"{request.path_params['id']} {request.url_for('one', id=9).path}")

    sub = Starlette(routes=[Route("/items/{id}", endpoint, name="one")])
    web = express().use("/sub", sub)
    assert (await call(web, url="/sub/items/5")).text == "5 /sub/items/9"
    assert (await call(web, url="/sub/nothing")).text == "Not Found"


async def test_an_asgi_application_may_stream():
    async def parts():
        for number in range(3):
            yield f"{number};"

    async def stream(scope, receive, send):
        await StreamingResponse(parts())(scope, receive, send)

    answer = await call(express().use("/stream", stream), url="/stream")
    assert answer.text == "0;1;2;"
    assert len(answer.parts) > 1


async def test_an_asgi_application_finds_what_middleware_has_set():
    async def whoami(request):
        req = request.state.alula
        return JSONResponse([req.framework.tenant, req.ip, request.state.answer])

    def choose_tenant(req, res, next):
        req.framework.tenant = "north"
        return next()

    web = express().use(choose_tenant).use("/sub", Starlette(routes=[Route("/", whoami)]))
    state = {"answer": 42}
    assert (await call(web, url="/sub/", state=state)).json == ["north", "192.0.2.7", 42]
    assert state == {"answer": 42}


# -- an existing application that ours extends -----------------------------------------------------


def starlette(**options):
    async def hello(request):
        return PlainTextResponse(f"hello {request.method}")

    async def state(request):
        return JSONResponse({"state": dict(request.state._state)})

    routes = [Route("/hello", hello), Route("/state", state), Route("/slash/", hello)]
    return Starlette(routes=[*routes, *options.pop("routes", ())], **options)


def fastapi(**options):
    existing = FastAPI(**options)

    @existing.get("/hello")
    async def hello():
        return "hello GET"

    return existing


def extended(existing):
    app = express(App(), existing)
    app.use(json())
    app.configure(rest())
    app.use("echo", Echo())
    return app


@pytest.mark.parametrize("make", [starlette, fastapi])
async def test_routes_and_services_stand_side_by_side(make):
    app = extended(make())
    assert "hello GET" in (await call(app, url="/hello")).text
    assert (await call(app, url="/echo/5?a=1")).json == {"id": "5", "query": {"a": "1"}}
    assert (await post_json(app, {"a": 1}, "/echo")).json == {"a": 1}


@pytest.mark.parametrize("make", [starlette, fastapi])
async def test_the_existing_application_serves_the_services_too_when_it_is_run_itself(make):
    existing = make()
    extended(existing)
    assert (await call(existing, url="/echo/5")).json["id"] == "5"


@pytest.mark.parametrize("make", [starlette, fastapi])
async def test_its_middleware_sees_every_request(make):
    existing = make()
    existing.add_middleware(CORSMiddleware, allow_origins=["http://front.example"])
    app = extended(existing)
    for url in ("/hello", "/echo/5", "/nowhere"):
        answer = await call(app, url=url, headers={"origin": "http://front.example"})
        assert answer.get("access-control-allow-origin") == "http://front.example", url


async def test_middleware_that_is_added_later_stands_outside_too():
    class Stamp(BaseHTTPMiddleware):
        async def dispatch(self, request, call_next):
            response = await call_next(request)
            response.headers["x-stamp"] = "yes"
            return response

    existing = starlette()
    app = extended(existing)
    existing.add_middleware(Stamp)
    for url in ("/hello", "/echo/5"):
        assert (await call(app, url=url)).get("x-stamp") == "yes"


@pytest.mark.parametrize("make", [starlette, fastapi])
async def test_routes_that_are_added_later_match(make):
    existing = make()
    app = extended(existing)
    existing.router.routes.append(Route("/late", lambda request: PlainTextResponse("late")))
    assert (await call(app, url="/late")).text == "late"


async def test_included_routers_and_mounts_match():
    existing = FastAPI()
    router = APIRouter(prefix="/inner")

    @router.get("/{number}")
    async def one(number: int):
        return number

    existing.include_router(router, prefix="/outer")
    existing.mount("/mounted", Starlette(routes=[Route("/x", lambda _: PlainTextResponse("x"))]))
    app = extended(existing)
    assert (await call(app, url="/outer/inner/7")).json == 7
    assert (await call(app, url="/mounted/x")).text == "x"
    assert (await call(app, url="/echo/5")).json["id"] == "5"
    assert (await call(app, url="/outer/inner/x")).status == 422


async def test_a_route_of_another_method_leaves_its_path_to_a_service():
    existing = starlette(routes=[Route("/echo", lambda _: PlainTextResponse("route"))])
    app = extended(existing)
    assert (await call(app, url="/echo")).text == "route"
    assert (await post_json(app, {"a": 1}, "/echo")).json == {"a": 1}


async def test_where_nothing_answers_the_existing_application_does():
    async def missing(request, error):
        return PlainTextResponse("nothing of mine", 404)

    app = extended(starlette(exception_handlers={404: missing}))
    assert (await call(app, url="/nowhere")).text == "nothing of mine"
    assert (await call(app, "POST", "/hello")).status == 405
    assert (await call(app, url="/slash")).get("location") == "http://alula.example/slash/"


async def test_not_found_of_ours_comes_before_its_404():
    app = extended(starlette())
    app.use(not_found())
    assert (await call(app, url="/nowhere")).json["className"] == "not-found"


async def test_fastapi_answers_its_errors_and_we_ours():
    existing = fastapi()

    @existing.get("/teapot")
    async def teapot():
        raise HTTPException(418, "short and stout")

    app = extended(existing)
    assert (await call(app, url="/teapot")).json == {"detail": "short and stout"}
    assert (await call(app, "DELETE", "/echo/1")).json["name"] == "MethodNotAllowed"


async def test_a_body_that_its_middleware_has_read_is_there_for_services():
    class Peek(BaseHTTPMiddleware):
        async def dispatch(self, request, call_next):
            request.state.body = await request.body()
            return await call_next(request)

    app = extended(starlette(middleware=[Middleware(Peek)]))
    assert (await post_json(app, {"a": 1}, "/echo")).json == {"a": 1}


async def test_lifespan_and_setup_run_together_with_the_lifespan_outside():
    log = []

    class Noting(Echo):
        async def setup(self, app, path):
            log.append("setup")

        async def teardown(self, app, path):
            log.append("teardown")

    @asynccontextmanager
    async def lifespan(app):
        log.append("startup")
        yield {"answer": 42}
        log.append("shutdown")

    for make in (lambda app, existing: app, lambda app, existing: existing):
        existing = starlette(lifespan=lifespan)
        app = express(App(), existing).configure(rest())
        app.use("noting", Noting())
        served = make(app, existing)
        async with living(served) as life:
            assert log == ["startup", "setup"]
            assert life.state == {"answer": 42}
            answer = await call(served, url="/state", state=dict(life.state))
            assert answer.json == {"state": {"answer": 42}}
        assert log == ["startup", "setup", "teardown", "shutdown"]
        log.clear()


async def test_fastapi_events_and_lifespans_run():
    log = []

    @asynccontextmanager
    async def lifespan(app):
        # A cancel scope has to be left in the task that entered it.
        async with anyio.create_task_group():
            log.append("startup")
            yield
            log.append("shutdown")

    app = extended(fastapi(lifespan=lifespan))
    async with living(app):
        assert log == ["startup"]
    assert log == ["startup", "shutdown"]


async def test_websockets_go_to_the_existing_application():
    async def echo(websocket: WebSocket):
        await websocket.accept()
        await websocket.send_text(f"{await websocket.receive_text()}!")
        await websocket.close()

    app = extended(starlette(routes=[WebSocketRoute("/ws", echo)]))
    incoming = [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": "hi"}]
    sent = []

    async def receive():
        return incoming.pop(0)

    async def send(message):
        sent.append(message)

    scope = scope_of("GET", "/ws", subprotocols=[]) | {"type": "websocket", "scheme": "ws"}
    await app(scope, receive, send)
    assert [message["type"] for message in sent] == [
        "websocket.accept",
        "websocket.send",
        "websocket.close",
    ]
    assert sent[1]["text"] == "hi!"


async def test_a_plain_web_application_extends_one_as_well():
    web = express(None, starlette()).get("/mine", lambda req, res: res.send("mine"))
    assert (await call(web, url="/mine")).text == "mine"
    assert (await call(web, url="/hello")).text == "hello GET"


async def test_two_applications_may_extend_one():
    existing = starlette()
    first, second = express(None, existing), express(None, existing)
    first.get("/first", lambda req, res: res.send("first"))
    second.get("/second", lambda req, res: res.send("second"))
    for url in ("/first", "/second", "/hello"):
        assert (await call(existing, url=url)).status == 200, url


async def test_an_extended_application_can_be_mounted():
    app = extended(starlette())
    for outer in (express().use("/sub", app), Starlette(routes=[Mount("/sub", app)])):
        assert (await call(outer, url="/sub/hello")).text == "hello GET"
        assert (await call(outer, url="/sub/echo/5")).json["id"] == "5"


@pytest.mark.parametrize("existing", [App(), express(), inside, object(), APIRouter(), Starlette])
def test_only_starlette_applications_are_extended(existing):
    with pytest.raises(TypeError, match=r"not a Starlette or FastAPI application; mount"):
        express(App(), existing)


async def test_an_application_that_has_served_cannot_be_extended_any_more():
    existing = starlette()
    await call(existing, url="/hello")
    with pytest.raises(RuntimeError, match="served requests already; extend it before"):
        express(App(), existing)


# -- ours in others --------------------------------------------------------------------------------


async def test_an_application_mounted_in_starlette_sees_its_own_paths():
    app = services()
    app.get("/where", lambda req, res: res.json([req.path, req.original_url]))
    outer = Starlette(routes=[Mount("/api", app)])
    assert (await call(outer, url="/api/echo/a%2Fb")).json["id"] == "a/b"
    assert (await call(outer, url="/api/where?x=1")).json == ["/where", "/api/where?x=1"]
    assert (await call(outer, url="/api/nowhere")).json["name"] == "NotFound"
    assert (await call(outer, url="/echo/5")).text == "Not Found"


async def test_virtual_hosts_lead_to_applications_that_are_set_up_explicitly():
    log = []

    class Tenant(Echo):
        def __init__(self, name):
            self.name = name

        async def setup(self, app, path):
            log.append(f"{self.name} up")

        async def teardown(self, app, path):
            log.append(f"{self.name} down")

        async def get(self, id, params):
            return {"tenant": self.name, "id": id}

    hosts = {name: services() for name in ("a", "b")}
    for name, app in hosts.items():
        app.use("tenant", Tenant(name))

    @asynccontextmanager
    async def lifespan(_):
        for app in hosts.values():
            await app.setup()
        yield
        for app in hosts.values():
            await app.teardown()

    routes = [Host(f"{name}.example", app) for name, app in hosts.items()]
    outer = Starlette(routes=routes, lifespan=lifespan)
    async with living(outer):
        assert log == ["a up", "b up"]
        for name in hosts:
            answer = await call(outer, url="/tenant/1", headers={"host": f"{name}.example"})
            assert answer.json == {"tenant": name, "id": "1"}
        assert (await call(outer, url="/tenant/1", headers={"host": "c.example"})).status == 404
    assert log == ["a up", "b up", "a down", "b down"]


@pytest.mark.parametrize(
    ("method", "url", "status", "text"),
    [
        ("GET", "/files/a.txt", 200, "a"),
        ("GET", "/files/missing", 404, "Not Found"),
        ("GET", "/files", 404, "Not Found"),
        ("GET", "/files/%00", 404, "Not Found"),
        ("POST", "/files/a.txt", 405, "Method Not Allowed"),
    ],
)
async def test_files_of_starlette_respond_as_there(tmp_path, method, url, status, text):
    (tmp_path / "a.txt").write_text("a")
    app = services().use("/files", StaticFiles(directory=tmp_path))
    answer = await call(app, method, url)
    assert (answer.status, answer.text) == (status, text)


async def test_an_error_of_starlette_keeps_its_headers():
    async def refuse(scope, receive, send):
        raise HTTPException(401, "who are you?", headers={"www-authenticate": "Basic"})

    answer = await call(services().use("/in", refuse), "GET", "/in")
    assert (answer.status, answer.text) == (401, "who are you?")
    assert ("www-authenticate", "Basic") in answer.headers


async def test_another_error_of_a_mounted_application_is_not_hidden():
    async def fail(scope, receive, send):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await call(services().use("/in", fail), "GET", "/in")
