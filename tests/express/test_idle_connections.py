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
from alula.express._http1.websocket import WebSocketProtocol

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


@pytest.fixture
async def connected(request):
    """Yield a reader, a writer, and the server's side of the connection."""
    async with await application().listen(0) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)

        async def ask(text):
            writer.write(text)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(1) == b"x"
            await settle()
            (connection,) = server._http_server.state.connections
            return connection

        yield ask
        writer.close()
        await end_of(reader)


async def test_nothing_is_kept_of_a_request_that_has_its_response(connected):
    connection = await connected(HEAD)
    assert not connection._exchange.scope
    assert not connection._headers
    assert connection._pending_request() is None


async def test_the_next_request_is_whole(connected):
    for _ in range(3):
        connection = await connected(HEAD)
        assert not connection._exchange.scope
    connection = await connected(BODY + b"abc")
    assert not connection._exchange.scope


async def test_a_request_whose_body_is_not_complete_is_kept(connected):
    """What comes next belongs to it."""
    connection = await connected(BODY + b"a")
    assert connection._exchange.more_body
    assert not connection._in_head
    connection = await connected(b"bc" + HEAD)
    assert not connection._exchange.more_body
    assert not connection._exchange.scope


async def test_connections_have_no_dictionaries():
    """Each would take a kilobyte of memory."""
    config = uvicorn.Config(application(), http=HTTPProtocol, lifespan="off", log_config=None)
    config.load()
    for protocol in (HTTPProtocol, WebSocketProtocol):
        connection = protocol(config=config, server_state=ServerState(), app_state={})
        assert not hasattr(connection, "__dict__")


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
    assert taken / CONNECTIONS <= MOST_BYTES
