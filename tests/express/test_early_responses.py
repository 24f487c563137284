"""A client that is still sending when its connection is closed gets the response all the same."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from asyncio.selector_events import _SelectorSocketTransport
from contextlib import asynccontextmanager

import pytest
import trustme
from tests.express.serving import until_connections

from alula.express import error_handler, express
from alula.express import json as json_parser
from alula.express._connection_limits import MAX_HEAD_BYTES
from alula.express._http1 import protocol

SIZE = 2_000_000
PIECE = b"x" * 50_000
HEAD = (
    b"POST /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n" % SIZE
)
SHORT = {"read_timeout": 0.4, "write_timeout": 0.4}


def application():
    app = express().use(json_parser(limit="1kb"))
    app.post("/x", lambda req, res: res.json(req.body))
    return app.use(error_handler(logger=False))


@pytest.fixture(autouse=True)
def silence(monkeypatch):
    """Set how long a silence is: no second here, in which the machine may stand still."""

    def set_seconds(seconds):
        monkeypatch.setattr(protocol, "SECONDS_OF_SILENCE", seconds)

    set_seconds(30)
    return set_seconds


@asynccontextmanager
async def connected(server, **options):
    reader, writer = await asyncio.open_connection(server.host, server.port, **options)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def send_on(writer, size=SIZE):
    """Send a body in pieces, as a network would bring them."""
    for _ in range(size // len(PIECE)):
        writer.write(PIECE)
        await writer.drain()
        await asyncio.sleep(0.001)


async def answer_of(reader):
    """Return status and name of the error in an answer, once the server has ended it."""
    async with asyncio.timeout(30):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["name"]


async def test_who_sends_all_before_reading_gets_the_413():
    async with await application().listen(0) as server, connected(server) as streams:
        reader, writer = streams
        writer.write(HEAD)
        await send_on(writer)
        assert await answer_of(reader) == (413, "PayloadTooLarge")
        writer.close()
        await until_connections(server, 0)


async def test_who_reads_first_may_send_the_rest():
    async with await application().listen(0) as server, connected(server) as streams:
        reader, writer = streams
        writer.write(HEAD)
        async with asyncio.timeout(30):
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 413 ")
        await send_on(writer)


async def test_a_head_that_is_too_large_is_told_so():
    async with await application().listen(0) as server, connected(server) as streams:
        reader, writer = streams
        writer.write(b"GET /x HTTP/1.1\r\nhost: a\r\nx: ")
        await send_on(writer, 10 * MAX_HEAD_BYTES)
        assert await answer_of(reader) == (431, "RequestHeaderFieldsTooLarge")


@pytest.fixture
def tls(tmp_path):
    """The options of a server, and what clients trust."""
    authority = trustme.CA()
    path = tmp_path / "here.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    return {"ssl_certfile": str(path)}, trusting


async def test_over_tls(tls):
    async with (
        await application().listen(0, **tls[0]) as server,
        connected(server, ssl=tls[1]) as (reader, writer),
    ):
        writer.write(HEAD)
        await send_on(writer)
        async with asyncio.timeout(30):
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")


async def test_who_waits_for_the_end_over_tls_gets_it_soon(tls, silence):
    """TLS has no half-close, so the server sees no difference to a client that sends slowly."""
    silence(0.5)
    async with (
        await application().listen(0, **tls[0]) as server,
        connected(server, ssl=tls[1]) as (reader, writer),
    ):
        writer.write(HEAD + PIECE)
        begun = time.monotonic()
        assert await answer_of(reader) == (413, "PayloadTooLarge")
        assert time.monotonic() - begun < 6


@pytest.mark.parametrize("seconds", [0.4, 300])
async def test_nobody_is_waited_for_without_end(seconds, monkeypatch):
    monkeypatch.setattr(protocol, "SECONDS_FOR_THE_REST", 0.2)
    options = {"read_timeout": seconds, "write_timeout": seconds}
    async with await application().listen(0, **options) as server, connected(server) as streams:
        reader, writer = streams
        writer.write(HEAD)
        assert await answer_of(reader) == (413, "PayloadTooLarge")
        async with asyncio.timeout(10):
            await until_connections(server, 0)
        with pytest.raises(ConnectionError):
            await send_on(writer)


async def test_who_expects_a_100_and_gets_a_413_is_not_waited_for():
    async with await application().listen(0) as server, connected(server) as streams:
        reader, writer = streams
        writer.write(HEAD.replace(b"host: a\r\n", b"host: a\r\nexpect: 100-continue\r\n"))
        async with asyncio.timeout(5):
            assert await answer_of(reader) == (413, "PayloadTooLarge")


async def test_who_has_stalled_is_not_waited_for():
    async with await application().listen(0, **SHORT) as server, connected(server) as streams:
        reader, writer = streams
        writer.write(b"GET /x HTTP/1.1\r\n")
        assert await answer_of(reader) == (408, "Timeout")
        async with asyncio.timeout(5):
            await until_connections(server, 0)


async def test_what_follows_is_no_request():
    """A body may look like one; its sender would choose what the next response is for."""
    async with await application().listen(0) as server, connected(server) as streams:
        reader, writer = streams
        writer.write(HEAD)
        await asyncio.sleep(0.05)
        writer.write(b"GET /y HTTP/1.1\r\nhost: a\r\n\r\n" * 100)
        writer.write_eof()
        assert await answer_of(reader) == (413, "PayloadTooLarge")


async def test_the_end_of_the_server_does_not_wait_for_it():
    server = await application().listen(0)
    async with connected(server) as (reader, writer):
        writer.write(HEAD)
        assert await answer_of(reader) == (413, "PayloadTooLarge")
        async with asyncio.timeout(5):
            await server.close()


async def test_a_client_that_is_gone_before_the_end_is_sent(monkeypatch):
    def fail(_transport):
        raise OSError("the socket is not connected")

    async with await application().listen(0) as server, connected(server) as streams:
        reader, writer = streams
        monkeypatch.setattr(_SelectorSocketTransport, "write_eof", fail)
        writer.write(HEAD)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        await until_connections(server, 0)


BOTH_LENGTHS = (
    b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"
)


async def test_a_refused_request_does_not_hinder_the_end_of_the_server():
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(req, res):
        begun.set()
        await may_end.wait()
        res.send("slow")

    app = application().get("/slow", slow)
    server = await app.listen(0)
    async with connected(server) as (reader, writer), connected(server) as (other, asking):
        writer.write(BOTH_LENGTHS)
        assert await answer_of(reader) == (400, "BadRequest")
        asking.write(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n")
        async with asyncio.timeout(30):
            await begun.wait()
            closing = asyncio.ensure_future(server.close())
            await asyncio.sleep(0.2)
            may_end.set()
            assert (await other.read()).endswith(b"slow")
            await closing


async def test_the_timer_of_idle_connections_does_not_end_it():
    options = {"timeout_keep_alive": 0.1}
    async with await application().listen(0, **options) as server, connected(server) as streams:
        reader, writer = streams
        writer.write(HEAD)
        for _ in range(10):
            writer.write(PIECE)
            await writer.drain()
            await asyncio.sleep(0.05)
        assert await answer_of(reader) == (413, "PayloadTooLarge")


async def test_an_error_behind_the_response_does_not_end_it(caplog):
    async def fail(scope, receive, send):
        headers = [(b"content-length", b"17")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"name":"mine!!"}'})
        raise LookupError("behind the response")

    app = application().add_endpoint("/x", fail)
    async with await app.listen(0) as server, connected(server) as (reader, writer):
        writer.write(HEAD)
        await send_on(writer)
        assert await answer_of(reader) == (413, "mine!!")
    assert "behind the response" in caplog.text


async def test_who_has_got_a_100_may_send_the_rest():
    chunked = HEAD.replace(b"content-length: %d" % SIZE, b"transfer-encoding: chunked")
    expecting = chunked.replace(b"host: a\r\n", b"host: a\r\nexpect: 100-continue\r\n")
    async with await application().listen(0) as server, connected(server) as streams:
        reader, writer = streams
        writer.write(expecting)
        async with asyncio.timeout(30):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            for _ in range(20):
                writer.write(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))
                await writer.drain()
                await asyncio.sleep(0.01)
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
