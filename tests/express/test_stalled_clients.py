"""Clients that stall lose their connection: in a head, in a body, and while they read responses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from contextlib import asynccontextmanager

import pytest
import trustme
from tests.express.serving import until_connections

from alula.express import express
from alula.express import json as json_parser
from alula.express._connection_limits import ConnectionLimits, StallTimeout, UnreadResponses

pytestmark = pytest.mark.slow

TIMEOUT = 0.4
RATE = 5  # bytes per second: two bytes in each timeout
LIMITS = {"read_timeout": TIMEOUT, "write_timeout": TIMEOUT, "min_rate": RATE}
# For clients that go on: they must not look stalled where the machine stands still for a second.
PATIENT_TIMEOUT = 2.0
PATIENT = {"read_timeout": PATIENT_TIMEOUT, "write_timeout": PATIENT_TIMEOUT, "min_rate": 1}
ASKED = []  # the paths of long responses that were asked for
HEAD = (
    b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n"
)
GET = b"GET /x HTTP/1.1\r\nhost: a\r\n\r\n"


def application():
    async def slow(req, res):
        await asyncio.sleep(2.5 * TIMEOUT)
        res.send("slow")

    async def stream(req, res):
        async def parts():
            yield b"begun"
            await req.has_content()

        res.send(parts())

    app = express()
    app.post("/unread", lambda req, res: res.send("unread"))
    app.post("/stream", stream)
    app.use(json_parser())
    app.get("/slow", slow)
    app.all("/x", lambda req, res: res.json(req.body or None))
    app.get("/large", lambda req, res: ASKED.append("/large") or res.send(b"x" * LARGE))
    app.get("/long", lambda req, res: ASKED.append("/long") or res.send(parts_without_end()))
    return app


LARGE = 20_000_000


async def parts_without_end():
    while True:
        yield b"x" * 100_000


@pytest.fixture
async def server():
    async with await application().listen(0, **LIMITS) as server:
        yield server


@pytest.fixture
async def patient_server():
    async with await application().listen(0, **PATIENT) as server:
        yield server


@asynccontextmanager
async def connected(server):
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def end_of(reader) -> bytes:
    """Return all that comes until the server closes the connection.

    A server that closes a connection to which more is written resets it, behind its answer.
    """
    parts = []
    async with asyncio.timeout(30):
        try:
            while part := await reader.read(2**16):
                parts.append(part)
        except ConnectionResetError:
            if not parts:
                raise
    return b"".join(parts)


@pytest.mark.parametrize("sent", [GET[:20], HEAD, HEAD + b'{"a":'])
async def test_who_does_not_go_on_gets_a_408(server, sent):
    async with connected(server) as (reader, writer):
        writer.write(sent)
        head, _, body = (await end_of(reader)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert json.loads(body)["message"] == "The request did not arrive in time"


async def test_a_silent_client_gets_no_response(server):
    async with connected(server) as (reader, _):
        assert await end_of(reader) == b""


async def test_a_head_that_trickles_in_has_an_end(server):
    async with connected(server) as (reader, writer):
        answer = asyncio.create_task(end_of(reader))
        for byte in b"GET /" + b"x" * 1000:
            if answer.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(TIMEOUT / 10)
        assert (await answer).startswith(b"HTTP/1.1 408 ")


async def test_the_head_of_a_further_request_has_an_end_too():
    options = {**LIMITS, "timeout_keep_alive": 1}
    async with await application().listen(0, **options) as server, connected(server) as streams:
        reader, writer = streams
        writer.write(GET + GET[:20])
        with contextlib.suppress(ConnectionResetError):
            assert (await end_of(reader)).startswith(b"HTTP/1.1 200 ")


async def test_a_body_that_comes_slowly_is_waited_for(patient_server):
    async with connected(patient_server) as (reader, writer):
        writer.write(HEAD)
        for byte in b'{"a":1234}':
            writer.write(bytes([byte]))
            await asyncio.sleep(PATIENT_TIMEOUT / 8)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


async def test_a_request_that_takes_its_time_is_waited_for(server):
    async with connected(server) as (reader, writer):
        writer.write(GET.replace(b"/x", b"/slow"))
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


async def test_a_kept_connection_may_be_idle(server):
    async with connected(server) as (reader, writer):
        for _ in range(2):
            writer.write(GET)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            while await reader.readline() != b"\r\n":
                pass
            assert await reader.readexactly(4) == b"null"
            await asyncio.sleep(2 * TIMEOUT)


async def test_who_owes_the_rest_of_a_body_that_nobody_wants(server):
    async with connected(server) as (reader, writer):
        writer.write(HEAD.replace(b"/x", b"/unread"))
        await asyncio.sleep(TIMEOUT / 4)
        writer.write(b"{")
        assert (await end_of(reader)).endswith(b"unread")


async def test_an_answer_that_has_begun_is_cut_off(patient_server):
    async with connected(patient_server) as (reader, writer):
        writer.write(HEAD.replace(b"/x", b"/stream"))
        answer = await end_of(reader)
    assert b"begun" in answer
    assert b"408" not in answer


async def test_a_body_that_trickles_in_has_an_end(server):
    """One byte now and then is progress to nobody but the one who sends it."""
    async with connected(server) as (reader, writer):
        writer.write(HEAD.replace(b": 10\r\n\r\n", b": 1000\r\n\r\n"))
        answer = asyncio.create_task(end_of(reader))
        for _ in range(40):
            if answer.done():
                break
            writer.write(b" ")
            await asyncio.sleep(0.8 * TIMEOUT)
        assert (await answer).startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_nobody_wants_has_an_end_too(server):
    async with connected(server) as (reader, writer):
        writer.write(HEAD.replace(b"/x", b"/unread").replace(b": 10\r", b": 1000\r"))
        answer = asyncio.create_task(end_of(reader))
        for _ in range(40):
            if answer.done():
                break
            writer.write(b" ")
            await asyncio.sleep(0.8 * TIMEOUT)
        with contextlib.suppress(ConnectionResetError):
            assert (await answer).endswith(b"unread")
        assert answer.done()


async def until_gone(server, path, count=1, **options):
    """Ask for a path on connections that are never read; return when the server has none."""
    clients = []
    ASKED.clear()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, (server.host, server.port))
            clients.append(client)
            await asyncio.get_running_loop().sock_sendall(client, GET.replace(b"/x", path))
        async with asyncio.timeout(30):
            while len(ASKED) < count:  # noqa: ASYNC110  # connections may be gone already
                await asyncio.sleep(0.01)
            await until_connections(server, 0)


@pytest.mark.parametrize("path", [b"/large", b"/long"])
async def test_a_response_that_nobody_reads_is_dropped_with_its_connection(server, path):
    await until_gone(server, path, count=3)


async def test_a_response_over_tls_that_nobody_reads(tmp_path):
    """What TLS has encrypted waits below the transport that the server sees."""
    authority = trustme.CA()
    path = tmp_path / "here.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    app = application()
    async with await app.listen(0, ssl_certfile=str(path), **LIMITS) as server:
        reader, writer = await asyncio.open_connection(
            server.host, server.port, ssl=trusting, limit=1
        )
        writer.write(GET.replace(b"/x", b"/long"))
        async with asyncio.timeout(30):
            await reader.readexactly(1)
            await until_connections(server, 0)
        writer.transport.abort()


async def test_a_response_that_is_read_slowly_is_waited_for(patient_server):
    """Also where the connection is to be closed behind it."""
    request = GET.replace(b"/x", b"/large").replace(b"host", b"connection: close\r\nhost")
    reader, writer = await asyncio.open_connection(
        patient_server.host, patient_server.port, limit=2**16
    )
    writer.write(request)
    size = 0
    async with asyncio.timeout(60):
        while part := await reader.read(LARGE // 20):
            size += len(part)
            if size < 10_000_000:
                await asyncio.sleep(TIMEOUT / 10)
    assert size > LARGE
    writer.close()


async def test_a_stream_that_never_waits_for_its_client_goes_on(patient_server):
    """Its buffer is never empty, though its client reads all the time."""
    reader, writer = await asyncio.open_connection(patient_server.host, patient_server.port)
    writer.write(GET.replace(b"/x", b"/long"))
    until = asyncio.get_running_loop().time() + 1.5 * PATIENT_TIMEOUT
    while asyncio.get_running_loop().time() < until:
        assert await reader.read(100_000)
        await asyncio.sleep(TIMEOUT / 50)
    writer.close()


async def test_what_all_clients_leave_unread_is_bounded_together():
    limits = {"read_timeout": 60, "write_timeout": 60, "min_rate": 1, "max_unread_bytes": 1_000_000}
    async with await application().listen(0, **limits) as server:
        async with asyncio.timeout(30):
            silent = [await connection_without_reading(server) for _ in range(3)]
            await until_connections(server, 1)  # the last one; alone it may have more
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(GET.replace(b"host", b"connection: close\r\nhost").replace(b"/x", b"/large"))
        assert len(await end_of(reader)) > LARGE
        await until_connections(server, 0)
        for client in (*silent, writer.transport):
            client.close()


async def connection_without_reading(server):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (server.host, server.port))
    await loop.sock_sendall(client, GET.replace(b"/x", b"/large"))
    return client


@pytest.mark.parametrize("name", ["read_timeout", "write_timeout", "min_rate", "max_unread_bytes"])
@pytest.mark.parametrize("value", [0, -1, "5", True, None])
def test_limits_are_positive_numbers(name, value):
    with pytest.raises(ValueError, match=f"{name} is .*greater than 0"):
        ConnectionLimits(**{name: value})


class Connection:
    """One that notes that it was closed."""

    closed = False

    @property
    def transport(self):
        return self

    def abort(self):
        self.closed = True


class TestUnreadResponses:
    @pytest.fixture
    def unread(self):
        return UnreadResponses(100)

    def test_over_the_bound_those_that_wait_longest_are_closed(self, unread):
        first, second, third, last = (Connection() for _ in range(4))
        unread.wait(first, 60)
        unread.wait(second, 30)
        unread.wait(third, 10)
        assert not any(each.closed for each in (first, second, third))
        unread.wait(last, 70)
        assert [each.closed for each in (first, second, third, last)] == [True, True, False, False]

    def test_one_that_waits_alone_may_have_more(self, unread):
        alone = Connection()
        unread.wait(alone, 1000)
        assert not alone.closed

    def test_progress_puts_a_connection_behind_the_others(self, unread):
        first, second, last = (Connection() for _ in range(3))
        unread.wait(first, 60)
        unread.wait(second, 40)
        unread.wait(first, 50)
        unread.wait(last, 20)
        assert [each.closed for each in (first, second, last)] == [False, True, False]

    def test_one_that_has_ended_does_not_count(self, unread):
        first, last = Connection(), Connection()
        unread.wait(first, 100)
        unread.end(first)
        unread.end(first)
        unread.wait(last, 100)
        assert not first.closed
        assert not last.closed


class TestStallTimeout:
    def test_progress_begins_it_anew(self):
        stall, body = StallTimeout(10, 100), object()
        assert not stall.has_passed(body, 0, 0)
        assert not stall.has_passed(body, 99, 9)
        assert not stall.has_passed(body, 100, 9)
        assert not stall.has_passed(body, 150, 18)
        assert stall.has_passed(body, 199, 19)

    def test_it_is_about_one_thing_at_a_time(self):
        stall = StallTimeout(10, 100)
        assert not stall.has_passed(object(), 0, 0)
        assert not stall.has_passed(object(), 0, 10)
        assert not stall.has_passed(None, 0, 30)
        assert not stall.has_passed(None, 0, 60)

    def test_without_a_rate_one_byte_is_progress(self):
        stall, body = StallTimeout(10, 0.1), object()
        assert not stall.has_passed(body, 5, 0)
        assert not stall.has_passed(body, 6, 10)
        assert stall.has_passed(body, 6, 20)
