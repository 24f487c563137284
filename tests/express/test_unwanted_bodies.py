"""The body of a request that is answered with a 404 or a 405 is not read, and so never kept."""

from __future__ import annotations

import asyncio
import json as stdlib

import pytest
from tests.express.asgi_client import scope_of

from alula import App
from alula.errors import Forbidden
from alula.express import (
    Router,
    access_log,
    authenticate,
    compression,
    cors,
    error_handler,
    express,
    json,
    not_found,
    parse_authentication,
    request_id,
    rest,
    serve_static,
    urlencoded,
)

BODY = b'{"a": 1}'


class Notes:
    async def find(self, params):
        return []

    async def create(self, data, params):
        return data


def application():
    app = express(App())
    app.use(json(), urlencoded())
    app.configure(rest())
    app.use("notes", Notes())
    app.use("surrounded", own, Notes())
    app.post("/route/:id", lambda req, res: res.json(req.body))
    app.use("/mounted", Router().post("/here", lambda req, res: res.json(req.body)))
    app.use(not_found(), error_handler(logger=False))
    return app


async def post(app, path, method="POST", **headers):
    """Send a request; return status, what came back, and whether the body was read."""
    read, sent = [], []

    async def receive():
        read.append(True)
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def send(message):
        sent.append(message)

    pairs = {"content-type": "application/json", "content-length": str(len(BODY)), **headers}
    await app(scope_of(method, path, list(pairs.items())), receive, send)
    return sent[0]["status"], stdlib.loads(sent[1]["body"] or "null"), bool(read)


@pytest.mark.parametrize("path", ["/nosuch", "/", "/notes/1/2", "/route/1/2", "/%ff", "/mount"])
async def test_a_404(path):
    status, error, read = await post(application(), path)
    assert (status, error["name"], read) == (404, "NotFound", False)


@pytest.mark.parametrize(
    ("path", "method", "headers"),
    [
        ("/notes", "PUT", {}),
        ("/notes/1", "PATCH", {}),
        ("/notes", "POST", {"x-service-method": "create"}),
        ("/notes", "POST", {"x-service-method": "secret"}),
    ],
)
async def test_a_405(path, method, headers):
    status, error, read = await post(application(), path, method, **headers)
    assert (status, error["name"], read) == (405, "MethodNotAllowed", False)


async def test_a_route_of_another_verb():
    status, _, read = await post(application(), "/route/1", "PUT")
    assert (status, read) == (404, False)


@pytest.mark.parametrize("path", ["/notes", "/surrounded", "/route/1", "/mounted/here"])
async def test_what_is_served_is_read(path):
    status, body, read = await post(application(), path)
    assert (status // 100, body, read) == (2, {"a": 1}, True)


async def test_without_not_found_it_is_the_same():
    app = express(App()).use(json())
    app.configure(rest())
    assert await post(app, "/nosuch") == (404, {**NOT_FOUND, "data": {"url": "/nosuch"}}, False)


NOT_FOUND = {
    "name": "NotFound",
    "message": "Page not found",
    "code": 404,
    "className": "not-found",
}


def own(req, res, next):
    return next()


async def test_middleware_of_the_users_own_may_look_at_every_body():
    app = express().use(json()).use(own)
    assert (await post(app, "/nosuch"))[::2] == (404, True)


async def test_before_the_parser_it_sees_none():
    app = express().use(own).use(json())
    assert (await post(app, "/nosuch"))[::2] == (404, False)


async def test_a_router_may_look_at_every_body():
    app = express().use(json()).use(Router())
    assert (await post(app, "/nosuch"))[::2] == (404, True)


async def test_it_may_differ_only_below_its_path():
    app = express().use(json()).use("/own", own).use("/quiet", compression())
    assert (await post(app, "/nosuch"))[::2] == (404, False)
    assert (await post(app, "/quiet"))[::2] == (404, False)
    assert (await post(app, "/own"))[::2] == (404, True)


async def test_what_comes_with_alula_looks_at_none(tmp_path):
    app = express(App()).use(json())
    app.use(cors(), compression(), request_id(), access_log(), serve_static(tmp_path))
    app.use(parse_authentication(), not_found(), error_handler(logger=False))
    assert (await post(app, "/nosuch"))[::2] == (404, False)
    assert authenticate("jwt")  # its strategies are the user's; they may look at anything


async def test_a_step_that_cannot_tell_raises_where_errors_are_answered():
    def fail(path):
        raise RuntimeError("no table")

    core = App()
    core.routes.find = fail
    app = express(core).use(json())
    app.configure(rest())
    app.use(error_handler(logger=False))
    status, error, _ = await post(app, "/notes")
    assert (status, error["name"]) == (500, "GeneralError")


def open_within_guarded(*at):
    """Return an application whose services need a key, with an open one mounted before that."""
    opened = express(App()).use(json()).configure(rest()).use("news", Notes())

    async def guard(req, res, next):
        if req.get("x-key") is None:
            raise Forbidden("no key")
        await next()

    guarded = express(App()).use(*at, opened).use(guard)
    guarded.use(json()).configure(rest()).use("secrets", Notes())
    return guarded.use(not_found(), error_handler(logger=False))


@pytest.mark.parametrize("at", [(), ("*",), ("/",)])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_mounted_application_does_not_serve_those_of_the_outer_one(at, method):
    # Whether a body is wanted is decided by the outer services, before the mounted ones run.
    app = open_within_guarded(*at)
    status, body, _ = await post(app, "/secrets", method)
    assert (status, body["message"]) == (403, "no key")
    status, body, _ = await post(app, "/secrets", method, **{"x-key": "k"})
    assert status == (200 if method == "GET" else 201)
    status, body, _ = await post(app, "/news", method)
    assert status == (200 if method == "GET" else 201)
    assert body == ([] if method == "GET" else {"a": 1})


async def test_a_mounted_application_behind_the_services_gets_its_calls():
    opened = express(App()).use(json()).configure(rest()).use("news", Notes())
    app = express(App()).use(json()).configure(rest()).use("notes", Notes()).use(opened)
    for path in ("/news", "/notes"):
        assert (await post(app, path))[:2] == (201, {"a": 1})


async def test_over_a_socket_the_answer_does_not_wait_for_the_body():
    async with await application().listen(0) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(
            b"POST /nosuch HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
            b"content-length: 1000000\r\n\r\n" + b"a" * 60_000
        )
        assert (await reader.readline()).startswith(b"HTTP/1.1 404 ")
        (connection,) = server._http_server.state.connections
        assert len(connection._exchange.body) == 0
        writer.close()
