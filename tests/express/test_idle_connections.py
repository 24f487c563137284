"""Connections between two requests: what they keep, and what they have let go of."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import pytest
import uvicorn
from tests.express.test_stalled_clients import end_of
from tests.waiting import settle
from uvicorn.server import ServerState

from alula import App
from alula.express import HTTPProtocol, express
from alula.express._uvicorn.websockets import WebSocketProtocol

HEAD = b"GET /x HTTP/1.1\r\nhost: example.com\r\nuser-agent: a browser with a long name\r\n\r\n"
BODY = b"POST /x HTTP/1.1\r\nhost: example.com\r\ncontent-length: 3\r\n\r\n"
UPGRADE = (
    b"GET /x HTTP/1.1\r\nhost: example.com\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
CONNECTIONS = 200
# 5.4 kB on Python 3.11; with all that is left of a request it was 8.8 kB.
MOST_BYTES = 6_500


def application():
    app = express(App())
    app.get("/x", lambda req, res: res.send("x"))
    app.post("/x", lambda req, res: res.send("x"))
    return app


@pytest.fixture(params=["httptools", "h11"])
async def connected(request):
    """Yield a reader, a writer, and the server's side of the connection."""
    async with await application().listen(0, http=request.param) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)

        async def ask(text):
            writer.write(text)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(1) == b"x"
            await settle()
            (connection,) = server._uvicorn_server.server_state.connections
            return connection

        yield ask
        writer.close()
        await end_of(reader)


async def test_nothing_is_kept_of_a_request_that_has_its_response(connected):
    connection = await connected(HEAD)
    assert not connection.scope
    assert not connection.cycle.scope
    assert not connection.headers
    assert connection.pending_request() is None


async def test_the_next_request_is_whole(connected):
    for _ in range(3):
        connection = await connected(HEAD)
        assert not connection.scope
    connection = await connected(BODY + b"abc")
    assert not connection.scope


async def test_a_request_whose_body_is_not_complete_is_kept(connected):
    """What comes next belongs to it."""
    connection = await connected(BODY + b"a")
    assert connection.cycle.more_body
    assert connection.head is None
    connection = await connected(b"bc" + HEAD)
    assert not connection.cycle.more_body
    assert not connection.cycle.scope


async def test_connections_share_the_names_of_their_attributes():
    """Python lets objects of a class share at most 30, beside those in slots."""
    config = uvicorn.Config(application(), http=HTTPProtocol, lifespan="off", log_config=None)
    for protocol, request in ((HTTPProtocol, HEAD), (WebSocketProtocol, UPGRADE)):
        connection = protocol(config=config, server_state=ServerState(), app_state={})
        transport = Transport()
        connection.connection_made(transport)
        connection.data_received(request)
        await settle()
        assert transport.last.startswith(b"HTTP/1.1 ")
        assert len(vars(connection)) <= 30
        connection.connection_lost(RuntimeError("the end of the test"))


class Transport(asyncio.Transport):
    """A client that reads at once."""

    def write(self, data):
        self.last = data

    def close(self):
        pass

    def is_closing(self):
        return False


@pytest.mark.slow
@pytest.mark.untraced
async def test_an_idle_connection_is_small():
    config = uvicorn.Config(application(), http=HTTPProtocol, lifespan="off", log_config=None)
    config.load()
    connections = []

    async def connect(count):
        for _ in range(count):
            connection = HTTPProtocol(config=config, server_state=ServerState(), app_state={})
            connection.connection_made(Transport())
            connection.data_received(HEAD)
            connections.append(connection)
        await settle()
        gc.collect()

    await connect(20)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    await connect(CONNECTIONS)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    for connection in connections:
        assert connection.transport.last.startswith(b"HTTP/1.1 200")
        connection.connection_lost(RuntimeError("the end of the test"))
        connection._unset_keepalive_if_required()
    assert taken / CONNECTIONS <= MOST_BYTES
