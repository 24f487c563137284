"""The middleware of an existing application sees every request and websocket, once."""

from __future__ import annotations

import asyncio

import pytest
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, WebSocketRoute
from tests.express.asgi_client import call, scope_of
from tests.express.serving import client_of
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from alula import App
from alula.adapters.memory import MemoryService
from alula.express import express, rest
from alula.realtime import socketio, sse

POLL = "/socket.io/?EIO=4&transport=polling"
STREAM = "/notes"
URLS = [POLL, "/notes", "/notes/1", "/own", "/nowhere", "/events?services=notes"]
KEY = {"x-key": "secret"}
EVENTS = {"accept": "text/event-stream"}


class RequireKey:
    """A guard as ASGI middleware; it counts what it sees."""

    def __init__(self, app, seen, wraps=False):
        self.app, self.seen, self.wraps = app, seen, wraps

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        self.seen.append((scope["type"], scope["path"]))
        if (b"x-key", b"secret") in scope["headers"]:
            if self.wraps:
                receive, send = self.watching(receive, "in"), self.watching(send, "out")
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse("no key", 403)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def watching(self, function, direction):
        async def watched(*message):
            result = await function(*message)
            told = message[0] if message else result
            self.seen.append((direction, told["type"]))
            return result

        return watched


@pytest.fixture
def seen():
    return []


@pytest.fixture
def existing(seen):
    app = Starlette(routes=[Route("/own", lambda _: PlainTextResponse("own"))])
    app.add_middleware(RequireKey, seen=seen)
    return app


def extended(existing):
    app = express(App(), existing).configure(rest())
    app.configure(socketio()).configure(sse("events"))
    app.use("notes", MemoryService())
    app.publish(lambda *_: app.channel("all"))
    return app


def served(kind, existing):
    app = extended(existing)
    if kind == "the existing one":
        return app, existing, ""
    if kind == "mounted in ours":
        return app, express().use("/sub", app), "/sub"
    if kind == "mounted in Starlette":
        return app, Starlette(routes=[Mount("/sub", app)]), "/sub"
    return app, app, ""


KINDS = ["ours", "the existing one", "mounted in ours", "mounted in Starlette"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("url", URLS)
async def test_without_the_key_nothing_is_reached(kind, url, existing, seen):
    _, outer, prefix = served(kind, existing)
    for headers in ({}, EVENTS):
        seen.clear()
        answer = await call(outer, url=prefix + url, headers=headers)
        assert (answer.status, answer.text) == (403, "no key")
        assert seen == [("http", prefix + url.partition("?")[0])]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_post_of_polling_passes_it(kind, existing):
    _, outer, prefix = served(kind, existing)
    answer = await call(outer, "POST", f"{prefix}{POLL}&sid=x", b'40{"a":1}')
    assert answer.status == 403


@pytest.mark.parametrize("kind", KINDS)
async def test_with_the_key_it_runs_once(kind, existing, seen):
    app, outer, prefix = served(kind, existing)
    await app.setup()
    answer = await call(outer, url=prefix + POLL, headers=KEY)
    assert answer.status == 200
    assert answer.text.startswith("0{")
    assert (await call(outer, url=f"{prefix}/own", headers=KEY)).text == "own"
    assert len(seen) == 2
    await app.teardown()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_websocket_without_the_key_is_refused(kind, existing, seen):
    _, outer, prefix = served(kind, existing)
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    url = f"{prefix}/socket.io/?EIO=4&transport=websocket"
    scope = scope_of("GET", url, subprotocols=[]) | {"type": "websocket", "scheme": "ws"}
    await outer(scope, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert len(seen) == 1


@pytest.mark.parametrize("wraps", [False, True])
async def test_over_real_connections(wraps):
    """Middleware that wraps ``receive`` and ``send`` sees each message of a websocket."""
    seen = []
    existing = Starlette()
    existing.add_middleware(RequireKey, seen=seen, wraps=wraps)
    async with await extended(existing).listen(0) as server:
        url = f"ws://127.0.0.1:{server.port}/socket.io/?EIO=4&transport=websocket"
        with pytest.raises(InvalidStatus, match="403"):
            async with connect(url):
                pass
        async with asyncio.timeout(10), connect(url, additional_headers=KEY) as socket:
            assert (await socket.recv()).startswith("0{")
            await socket.send("40")
            assert (await socket.recv()).startswith("40{")
            await socket.send('420["create","notes",{"text":"a"}]')
            assert '"text":"a"' in await socket.recv()
        async with client_of(server) as client:
            assert (await client.get("/notes")).status_code == 403
            assert len((await client.get("/notes", headers=KEY)).json()) == 1
            async with client.stream("GET", "/notes", headers=EVENTS) as stream:
                assert stream.status_code == 403
            async with client.stream("GET", "/notes", headers=EVENTS | KEY) as stream:
                assert stream.headers["content-type"].startswith("text/event-stream")
    messages = {(way, kind) for way, kind in seen if kind.startswith("websocket.")}
    expected = {("in", "websocket.receive"), ("out", "websocket.send")}
    assert (expected <= messages) == wraps


async def test_polling_works_behind_http_middleware_of_starlette():
    class Stamp(BaseHTTPMiddleware):
        async def dispatch(self, request, call_next):
            response = await call_next(request)
            response.headers["x-stamp"] = "yes"
            return response

    existing = Starlette()
    existing.add_middleware(Stamp)
    async with await extended(existing).listen(0) as server, client_of(server) as client:
        answer = await client.get(POLL)
        assert answer.headers["x-stamp"] == "yes"
        sid = answer.text.partition('"sid":"')[2].partition('"')[0]
        assert (await client.post(f"{POLL}&sid={sid}", content="40")).text == "ok"
        assert (await client.get(f"{POLL}&sid={sid}")).text.startswith("40{")


async def test_two_applications_that_extend_one_have_their_own_endpoints(existing, seen):
    first, second = express(App(), existing), express(App(), existing)
    first.configure(socketio("/one/"))
    second.configure(socketio("/two/"))
    await first.setup()
    await second.setup()
    for path in ("/one/", "/two/"):
        assert (await call(existing, url=f"{path}?EIO=4&transport=polling")).status == 403
        answer = await call(existing, url=f"{path}?EIO=4&transport=polling", headers=KEY)
        assert answer.text.startswith("0{"), path
    assert len(seen) == 4
    await first.teardown()
    await second.teardown()


async def test_its_own_websockets_pass_it_too(seen):
    async def echo(websocket):
        await websocket.accept()
        await websocket.send_text(await websocket.receive_text())

    existing = Starlette(routes=[WebSocketRoute("/ws", echo)])
    existing.add_middleware(RequireKey, seen=seen)
    async with (
        await extended(existing).listen(0) as server,
        connect(f"ws://127.0.0.1:{server.port}/ws", additional_headers=KEY) as socket,
    ):
        await socket.send("hi")
        assert await socket.recv() == "hi"
    assert seen == [("websocket", "/ws")]
