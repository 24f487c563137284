"""Servers on sockets that they share with others: when they begin, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

import pytest
import trustme
from tests.waiting import settle

from alula import App
from alula._sockets import listen_on_path, listen_on_port
from alula.express import express, health, rest
from alula.express._http1.server import HTTPServer

REQUEST = b"GET /slow/%s HTTP/1.1\r\nHost: here\r\n\r\n"
SECONDS = 20


class Slow:
    """A service whose set-up, and whose calls of one id, wait until they are told to go on."""

    def __init__(self):
        self.log = []
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.set_up = asyncio.Event()
        self.set_up.set()
        self.error = None

    async def setup(self, app, path):
        self.log.append("setup")
        await self.set_up.wait()
        if self.error:
            raise self.error

    async def teardown(self, app, path):
        self.log.append("teardown")

    async def get(self, id, params):
        if id == "slow":
            self.begun.set()
            await self.go_on.wait()
        return {"id": id}


@pytest.fixture
def slow():
    return Slow()


@pytest.fixture
def app(slow):
    app = express(App())
    app.configure(health())
    app.configure(rest())
    app.use("slow", slow)
    return app


@pytest.fixture
def sock():
    with listen_on_port("127.0.0.1", 0) as sock:
        yield sock


async def connect(sock, **options):
    return await asyncio.open_connection(*sock.getsockname(), **options)


async def answer(reader):
    """Return status, headers and body of an answer; None where the connection ended instead."""
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    lines = head.decode().lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    body = await reader.readexactly(int(headers["content-length"]))
    return int(lines[0].split()[1]), headers.get("connection"), body


async def ask(stream, id=b"5"):
    reader, writer = stream
    writer.write(REQUEST % id)
    return await answer(reader)


@contextlib.asynccontextmanager
async def closed(*streams):
    """Close connections at the end of the block."""
    try:
        yield
    finally:
        for _, writer in streams:
            writer.close()


# -- the begin -------------------------------------------------------------------------------------


async def test_early_requests_wait_in_the_socket_and_others_can_take_them(app, slow, sock):
    slow.set_up.clear()
    serving = asyncio.create_task(app.serve(sock))
    stream = await connect(sock)
    async with closed(stream):
        asked = asyncio.create_task(ask(stream))
        await asyncio.sleep(0.02)
        other = express()
        other.get("/slow/5", lambda req, res: res.json("other"))
        with socket.fromfd(sock.fileno(), sock.family, sock.type, sock.proto) as second:
            second.setblocking(False)
            async with await other.serve(second):
                assert await asked == (200, None, b'"other"')
        slow.set_up.set()
        async with await serving as server:
            assert server.port == sock.getsockname()[1]


async def test_with_probes_the_server_comes_first(app, slow, sock):
    slow.set_up.clear()
    serving = asyncio.create_task(app.serve(sock, accept_during_setup=True))
    stream, probe = await connect(sock), await connect(sock)
    async with closed(stream, probe):
        asked = asyncio.create_task(ask(stream))
        probe[1].write(b"GET /health/ready HTTP/1.1\r\nHost: here\r\n\r\n")
        assert (await answer(probe[0]))[0] == 503
        assert not asked.done()
        slow.set_up.set()
        assert (await asked)[0] == 200
        await (await serving).close()
    assert slow.log == ["setup", "teardown"]


@pytest.mark.parametrize("early", [True, False])
async def test_a_set_up_that_fails_is_the_end(app, slow, sock, early):
    slow.error = LookupError("no database")
    with pytest.raises(LookupError, match="no database"):
        await app.serve(sock, accept_during_setup=early)
    assert slow.log == ["setup"]
    assert (sock.fileno() == -1) == early


async def test_a_server_that_does_not_start_tears_the_application_down(
    app, slow, sock, monkeypatch
):
    async def startup(self, sockets=None):
        raise OSError("no more of it")

    monkeypatch.setattr(HTTPServer, "startup", startup)
    with pytest.raises(OSError, match="no more of it"):
        await app.serve(sock)
    assert slow.log == ["setup", "teardown"]


async def test_the_teardown_of_the_application_closes_the_server(app, slow, sock):
    server = await app.serve(sock)
    await app.teardown()
    assert server.is_closed()
    assert slow.log == ["setup", "teardown"]


async def test_a_path(app, tmp_path):
    path = str(tmp_path / "s")
    async with await app.serve(listen_on_path(path)) as server:
        assert (server.host, server.port, server.url) == (path, 0, f"unix:{path}")
        stream = await asyncio.open_unix_connection(path)
        async with closed(stream):
            assert (await ask(stream))[0] == 200


# -- the end ---------------------------------------------------------------------------------------


async def test_what_lingers_is_answered_and_closed(app, slow, sock):
    server = await app.serve(sock, late_request_seconds=SECONDS)
    idle, busy, fresh = [await connect(sock) for _ in range(3)]
    async with closed(idle, busy, fresh):
        assert await ask(idle) == (200, None, b'{"id":"5"}')
        under_way = asyncio.create_task(ask(busy, b"slow"))
        await slow.begun.wait()
        closing = asyncio.ensure_future(server.close())
        await asyncio.sleep(0.05)
        await settle()
        assert await ask(idle) == (200, "close", b'{"id":"5"}')
        assert await ask(fresh) == (200, "close", b'{"id":"5"}')
        assert await idle[0].read() == await fresh[0].read() == b""
        slow.go_on.set()
        assert await under_way == (200, "close", b'{"id":"slow"}')
        await asyncio.wait_for(closing, SECONDS)  # all have ended, so that it ends too
    assert slow.log == ["setup", "teardown"]


async def test_a_silent_connection_is_closed_after_a_while(app, sock):
    server = await app.serve(sock, late_request_seconds=0.1)
    stream = await connect(sock)
    async with closed(stream):
        assert (await ask(stream))[0] == 200
        await server.close()
        assert await stream[0].read() == b""


async def test_what_waits_in_the_socket_is_taken_before_the_end(app, sock, monkeypatch):
    """The server hears of its end first and of the connections then, as it may happen."""
    server = await app.serve(sock, late_request_seconds=SECONDS)
    streams = []
    with contextlib.ExitStack() as stack:
        for _ in range(20):  # without the loop, so that it has seen none of them
            client = stack.enter_context(socket.create_connection(sock.getsockname(), SECONDS))
            client.sendall(REQUEST % b"5")
            streams.append(client)
        closing = asyncio.ensure_future(server.close())
        await asyncio.wait_for(closing, SECONDS)
        for client in streams:
            client.settimeout(SECONDS)
            received = client.recv(65536)
            assert received.startswith(b"HTTP/1.1 200"), received
            assert b"connection: close" in received.lower()


@pytest.fixture
def tls(tmp_path):
    """The certificate of the server, and the context of its clients."""
    authority = trustme.CA()
    theirs = ssl.create_default_context()
    authority.configure_trust(theirs)
    path = tmp_path / "here.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    return str(path), theirs


async def test_a_connection_with_tls_that_waits_is_taken_too(app, sock, tls):
    certificate, theirs = tls
    server = await app.serve(sock, late_request_seconds=SECONDS, ssl_certfile=certificate)
    client = socket.create_connection(sock.getsockname(), SECONDS)
    broken = socket.create_connection(sock.getsockname(), SECONDS)
    broken.sendall(b"this is no handshake\r\n\r\n")
    client.setblocking(False)
    closing = asyncio.ensure_future(server.close())
    stream = await asyncio.open_connection(sock=client, ssl=theirs, server_hostname="127.0.0.1")
    async with closed(stream):
        assert await ask(stream) == (200, "close", b'{"id":"5"}')
    broken.close()
    await asyncio.wait_for(closing, SECONDS)


async def test_waiting_connections_that_stay_silent_do_not_hold_up_the_end(app, sock, tls):
    server = await app.serve(sock, late_request_seconds=0.2, ssl_certfile=tls[0])
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.create_connection(sock.getsockname(), SECONDS))
        await asyncio.wait_for(server.close(), SECONDS)


async def test_a_request_that_takes_too_long_is_cancelled(app, slow, sock):
    server = await app.serve(sock, late_request_seconds=0.05, timeout_graceful_shutdown=0.1)
    stream = await connect(sock)
    async with closed(stream):
        under_way = asyncio.create_task(ask(stream, b"slow"))
        await slow.begun.wait()
        await asyncio.wait_for(server.close(), SECONDS)
        status, connection, body = await under_way
        assert (status, connection) == (503, "close")
        assert b'"className":"unavailable"' in body


async def test_a_client_that_has_gone_does_not_keep_the_others_waiting(app):
    class Sometimes(socket.socket):
        aborted = 0

        def accept(self):
            if self.aborted == 0:
                self.aborted += 1
                raise ConnectionAbortedError
            return super().accept()

    with listen_on_port("127.0.0.1", 0) as bound:
        sock = Sometimes(bound.family, bound.type, bound.proto, fileno=bound.detach())
    server = await app.serve(sock, late_request_seconds=SECONDS)
    with socket.create_connection(sock.getsockname(), SECONDS) as client:
        client.sendall(REQUEST % b"5")
        sock.aborted = 0
        await asyncio.wait_for(server.close(), SECONDS)
        assert sock.aborted == 1
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
