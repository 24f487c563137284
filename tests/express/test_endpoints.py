"""ASGI applications below a path of their own, before any middleware."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import WebSocketRoute
from tests.realtime.asgi_peer import Peer, request, settle

from alula.express import express


def endpoint(name):
    async def app(scope, receive, send):
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.send", "text": name})
            await receive()
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": name.encode()})

    return app


async def never(req, res, next):
    raise AssertionError("middleware ran")


async def websocket_says(app, path):
    peer = Peer(app, path)
    said = await peer.from_server.get()
    await peer.leave()
    return said


@pytest.mark.parametrize("path", ["/live", "/live/", "/live/a/b?c=1"])
async def test_requests_and_websockets_of_the_path_go_to_the_endpoint(path):
    web = express().use(never).add_endpoint("/live", endpoint("live"))
    assert (await request(web, path)).body == b"live"
    assert await websocket_says(web, path) == "live"


@pytest.mark.parametrize("path", ["/", "/lively", "/a/live"])
async def test_others_do_not(path):
    web = express().add_endpoint("/live/", endpoint("live"))
    assert (await request(web, path)).status == 404
    assert (await request(express(), path)).status == 404
    peer = Peer(web, path)
    await peer.wait_closed()
    assert peer.accepted is False


async def test_a_path_in_front_of_the_application_does_not_count():
    web = express().add_endpoint("/live", endpoint("live"))

    async def below(scope, receive, send):
        await web({**scope, "root_path": "/api"}, receive, send)

    assert (await request(below, "/api/live")).body == b"live"


async def test_endpoints_of_mounted_applications():
    inner = express().add_endpoint("/live", endpoint("inner"))
    middle = express().use(inner)
    web = express().add_endpoint("/other", endpoint("outer")).use("/api", [middle])
    inner.add_endpoint("/late", endpoint("late"))
    assert (await request(web, "/api/live/")).body == b"inner"
    assert await websocket_says(web, "/api/late") == "late"
    assert (await request(web, "/other")).body == b"outer"
    assert (await request(web, "/api/missing")).status == 404
    assert (await request(web, "/live")).status == 404


async def test_an_existing_application_keeps_its_websockets():
    class Counting:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            seen.append(scope["path"])
            await self.app(scope, receive, send)

    async def own(websocket):
        await websocket.accept()
        await websocket.send_text("own")
        await websocket.close()

    seen = []
    existing = Starlette(routes=[WebSocketRoute("/own", own)], middleware=[Middleware(Counting)])
    web = express(None, existing).add_endpoint("/live", endpoint("live"))
    for app in (web, existing):
        assert await websocket_says(app, "/live") == "live"
        assert await websocket_says(app, "/own") == "own"
    assert seen == ["/live", "/own"] * 2


def test_endpoints_are_told_that_the_server_stops():
    told = []
    inner = express().add_endpoint("/a", endpoint("a"), lambda: told.append("a"))
    web = express().use("/inner", inner).add_endpoint("/b", endpoint("b"))
    web.add_endpoint("/c", endpoint("c"), lambda: told.append("c"))
    web.endpoints.close()
    assert told == ["c", "a"]


async def test_they_are_told_when_a_server_closes():
    told = []
    web = express().add_endpoint("/a", endpoint("a"), lambda: told.append("closing"))
    server = await web.listen(0)
    closing = server.close()
    assert told == ["closing"]
    await closing
    await settle()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("live", "start with a slash"),
        ("/a/", "already"),
        ("/a/b", "'/a/b/' is taken"),
        ("/", "already"),
    ],
)
def test_a_path_is_checked(path, text):
    web = express().add_endpoint("/a", endpoint("a"))
    with pytest.raises(ValueError, match=text):
        web.add_endpoint(path, endpoint("b"))


def test_servers_refuse_messages_that_no_endpoint_takes():
    web = express().add_endpoint("/a", endpoint("a"))
    assert web.server_options == {}
    web.add_endpoint("/b", endpoint("b"), max_message=20)
    web.add_endpoint("/c", endpoint("c"), max_message=10)
    assert web.server_options == {"ws_max_size": 20, "ws_ping_interval": None}
    # An existing application may take larger ones, and need the pings of the server.
    extended = express(None, Starlette()).add_endpoint("/b", endpoint("b"), max_message=20)
    assert extended.server_options == {}


async def test_the_lifespan_is_that_of_the_application():
    web = express().add_endpoint("/live", endpoint("live"))
    sent = []
    incoming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive():
        return incoming.pop(0)

    async def send(message):
        sent.append(message["type"])

    await web({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
