"""What granian does by itself, as the pages say it, and what is done around it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
import socket
import sys
from importlib.metadata import PackageNotFoundError

import pytest
from tests.express.serving import client_of, connection_count
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from alula._http import EXCHANGE_EXTENSION
from alula._sockets import listen_on_path, listen_on_port
from alula.express import error_handler, express, json, not_found
from alula.express._connection_limits import ConnectionLimits
from alula.express._granian import check
from alula.express._granian.check import check_granian
from alula.express._granian.connections import Connections
from alula.express._granian.server import granian_server

GET = b"GET /echo HTTP/1.1\r\nhost: a\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
SECONDS = 30


def application():
    def echo(req, res):
        res.json({"method": req.method, "body": req.body or None, "headers": req.headers})

    def breaking(req, res):
        async def parts():
            yield b"begun"
            raise LookupError("no more of it")

        res.send(parts())

    async def endless(req, res):
        async def parts():
            yield b"begun"
            await asyncio.sleep(600)

        res.send(parts())

    app = express().use(json())
    app.all("/echo", echo)
    app.post("/unread", lambda req, res: res.send("unread"))
    app.get("/scope", lambda req, res: res.json(SCOPES.append(dict(req.scope)) or 1))
    app.get("/breaking", breaking)
    app.get("/large", lambda req, res: res.send(b"x" * 10_000_000))
    app.get("/endless", endless)
    app.use(not_found(), error_handler(logger=False))
    app.server_options["server"] = "granian"
    return app


SCOPES = []


@pytest.fixture
async def server():
    async with await application().listen(0) as server:
        yield server


async def exchange(server, data: bytes, count: int = 1) -> bytes:
    """Send bytes; return what comes until the server closes, or is quiet after its responses.

    Of a response that is not whole, the rest may come later where the machine stands still.
    """
    reader, writer = await asyncio.open_connection(server.host, server.port)
    received = b""
    writer.write(data)
    with contextlib.suppress(ConnectionError, TimeoutError):
        while True:
            seconds = SECONDS if len(statuses(received)) < count else 1.5
            if count_whole(received) >= count:
                seconds = 0.1
            part = await asyncio.wait_for(reader.read(100_000), seconds)
            if not part:
                break
            received += part
    writer.transport.abort()
    return received


def count_whole(received: bytes) -> int:
    """Return how many responses have come with all of their body."""
    count = 0
    while b"\r\n\r\n" in received:
        head, _, received = received.lower().partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if b"transfer-encoding: chunked" in head:
            _, end, received = received.partition(b"0\r\n\r\n")
            if not end:
                break
        elif length is not None:
            if len(received) < int(length[1]):
                break
            received = received[int(length[1]) :]
        count += 1
    return count


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d+) ", received)]


# -- what granian parses ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        *(
            POST + b"connection: close\r\n" + line + b"\r\n\r\n{}"
            for line in (
                b"content-length: 2\r\ncontent-length: 3",
                b"content-length: +2",
                b"content-length: " + b"9" * 400,
                b"transfer-encoding: gzip",
                b"x: a\x00b",
                b"no colon",
                b"na me: 1",
                b"x: 1\r\n folded",
            )
        ),
    ],
)
async def test_what_it_cannot_parse_is_a_400_without_a_body(server, data):
    received = await exchange(server, data)
    assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"connection: close" in received
    assert received.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "chunks",
    [
        b"zz\r\n{}\r\n0\r\n\r\n",
        b"-1\r\n",
        b"2\r\n{}x0\r\n\r\n",
        b"f" * 40 + b"\r\n",
        b"2;" + b"a" * 200_000 + b"\r\n{}\r\n0\r\n\r\n",
        b"2\r\n{}\r\n0\r\n" + b"".join(b"t-%d: %s\r\n" % (n, b"a" * 1000) for n in range(100)),
    ],
    ids=["no number", "negative", "too short", "too large", "extensions", "trailers"],
)
async def test_broken_chunks_and_long_trailers_are_a_400(server, chunks):
    assert statuses(await exchange(server, CHUNKED + chunks)) == [400]


async def test_trailers_are_no_headers(server):
    trailer = b"2\r\n{}\r\n0\r\nx-service-method: remove\r\n\r\n"
    received = await exchange(server, CHUNKED + trailer)
    assert statuses(received) == [200]
    assert b"x-service-method" not in received


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([b"x-%d: 1" % n for n in range(90)], 200),
        ([b"x-%d: 1" % n for n in range(101)], 431),
        ([b"x: " + b"a" * 60_000], 200),
        ([b"x: " + b"a" * 200_000], 431),
    ],
)
async def test_heads_are_bounded(server, lines, status):
    head = GET[:-2] + b"\r\n".join(lines) + b"\r\n\r\n"
    assert statuses(await exchange(server, head)) == [status]


async def test_a_head_without_end_is_refused_before_it_has_arrived(server):
    lines = (b"x-%d: %s\r\n" % (n, b"a" * 1000) for n in range(2000))
    assert statuses(await exchange(server, GET[:-2] + b"".join(lines))) in ([431], [])


async def test_a_long_url_is_a_414(server):
    url = b"GET /echo?a=" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n"
    assert statuses(await exchange(server, url)) == [414]


@pytest.mark.parametrize(
    "lines",
    [
        b"content-length: 5\r\ntransfer-encoding: chunked",
        b"transfer-encoding: chunked\r\ncontent-length: 5",
    ],
)
async def test_with_two_lengths_the_chunks_count_and_nothing_behind_them(server, lines):
    received = await exchange(server, POST + lines + b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + GET)
    assert statuses(received) == [200]
    assert b"connection: close" in received
    assert b'"content-length"' not in received  # among the headers of the request


@pytest.mark.parametrize("lines", [UPGRADE, UPGRADE.partition(b"sec-")[0]])
async def test_the_body_of_an_upgrade_is_no_request(server, lines):
    smuggled = b"DELETE /echo HTTP/1.1\r\nhost: a\r\n\r\n"
    head = lines + b"content-length: %d\r\n\r\n" % len(smuggled)
    received = await exchange(server, head + smuggled + GET)
    assert b"DELETE" not in received
    assert statuses(received)[1:] in ([200], [])


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"FOO /echo HTTP/1.1\r\nhost: a\r\n\r\n", 200),
        (b"CONNECT localhost:80 HTTP/1.1\r\n\r\n", 404),
        (b"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", 404),
        (b"GET http://a/echo HTTP/1.1\r\nhost: b\r\n\r\n", 200),
        (POST + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n{}", 200),
    ],
)
async def test_unusual_requests_reach_the_application(server, data, status):
    assert statuses(await exchange(server, data))[-1] == status


async def test_a_preface_of_http_2_is_closed(server):
    assert await exchange(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") == b""


async def test_requests_on_one_connection_are_separate(server):
    unread = b"POST /unread HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nabcde"
    received = await exchange(server, unread + GET + unread + GET, count=4)
    assert statuses(received) == [200] * 4


async def test_a_body_over_the_limit_is_a_413(server):
    body = POST + b"content-length: 5000000\r\n\r\n" + b"a" * 3_000_000
    assert statuses(await exchange(server, body)) == [413]


# -- what the application is told ------------------------------------------------------------------


async def test_the_scope_is_that_of_asgi(server):
    received = await exchange(server, b"GET /scope?a=1 HTTP/1.0\r\n\r\n")
    assert statuses(received) == [200]
    scope = SCOPES.pop()
    assert scope["client"][0] == "127.0.0.1"
    assert isinstance(scope["client"][1], int)
    assert scope["server"] == ("127.0.0.1", server.port)
    assert (scope["http_version"], scope["root_path"], scope["state"]) == ("1.0", "", {})
    assert [*scope["extensions"]] == [EXCHANGE_EXTENSION]  # none of granian's
    await exchange(server, GET.replace(b"/echo", b"/scope"))
    assert SCOPES.pop()["http_version"] == "1.1"


async def test_headers_of_proxies_are_taken_only_where_that_is_asked_for():
    for trusts, ip in ((True, "1.2.3.4"), (False, "127.0.0.1")):
        server = await application().listen(0, proxy_headers=trusts)
        async with server, client_of(server) as client:
            await client.get("/scope", headers={"x-forwarded-for": "1.2.3.4"})
            assert SCOPES.pop()["client"][0] == ip


async def test_over_ipv6():
    async with await application().listen(0, "::1") as server, client_of(server) as client:
        assert (await client.get("/echo")).status_code == 200
        assert await connection_count(server) == 1


# -- responses that break off ----------------------------------------------------------------------


async def test_a_response_that_breaks_off_does_not_look_complete(server):
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(GET)
    await reader.readuntil(b"}")
    received = await exchange(server, GET.replace(b"/echo", b"/breaking"))
    assert received.endswith(b"begun\r\n")  # and not the last chunk behind it
    writer.write(GET)  # another connection goes on
    assert await asyncio.wait_for(reader.readuntil(b"HTTP/1.1 200 OK"), SECONDS)
    writer.close()


def start(*headers, status=200):
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(content=b"", *, more=False):
    return {"type": "http.response.body", "body": content, "more_body": more}


def sends(*messages, receives=False):
    async def app(scope, receive, send):
        if receives:
            await receive()
        for message in messages:
            await send(message)

    return app


def length(value):
    return (b"content-length", b"%d" % value)


async def answer(app, method=b"GET", count=2):
    """Return what comes for a request to `app`, and for another one behind it."""
    async with await application().add_endpoint("/app", app).listen(0) as server:
        head = GET.replace(b"GET /echo", method + b" /app")
        return await asyncio.wait_for(exchange(server, head + GET, count), SECONDS)


INVALID = {
    "nothing": ([], ""),
    "no body": ([start(length(9))], ""),
    "a body first": ([body()], "'http.response.body' is out of turn"),
    "two heads": ([start(), start()], "'http.response.start' is out of turn"),
    "another message": ([start(), {"type": "http.response.pathsend"}], "pathsend' is out of turn"),
    **{
        f"the status {status!r}": ([start(status=status), body()], f"the status {status!r} cannot")
        for status in (0, -1, 99, 100, 101, 1000, 70_000, "200", None, 200.0)
    },
    "an empty name": ([start((b"", b"1")), body()], "Invalid HTTP header name"),
    "a name with a space": ([start((b"a b", b"1")), body()], "Invalid HTTP header name"),
    "a name of text": ([start(("a", b"1")), body()], "TypeError"),
    "a name that is too long": ([start((b"a" * 70_000, b"1")), body()], "RuntimeError"),
    "a line break": ([start((b"a", b"1\r\nb: 2")), body()], "Invalid HTTP header value"),
    "NUL": ([start((b"a", b"1\0")), body()], "Invalid HTTP header value"),
    "a value of text": ([start((b"a", "1")), body()], "TypeError"),
    "three values": ([start((b"a", b"1", b"2")), body()], "ValueError"),
    "many headers": (
        [start(*((b"x-%d" % number, b"1") for number in range(40_000))), body()],
        "the response has over 10000 headers",
    ),
    **{
        f"the length {value!r}": ([start((b"Content-Length", value)), body(b"x")], "Content-Length")
        for value in (b"abc", b"", b"-1", b"+1", b"1_0", b" 1", b"1, 1")
    },
    "two lengths": ([start(length(1), length(2)), body(b"x")], "or is a second"),
    "too short": ([start(length(9)), body(b"two")], "shorter than its Content-Length"),
    "too long": ([start(length(1)), body(b"two")], "longer than its Content-Length"),
    "too long at first": ([start(length(1)), body(b"two", more=True)], "longer than its"),
    "an empty one": ([start(length(1)), body()], "shorter than its Content-Length"),
    "a body of text": ([start(length(1)), body("x")], "a body has to be bytes, not 'x'"),
    "no bytes": ([start(), body(None)], "a body has to be bytes, not None"),
}


@pytest.mark.parametrize("name", INVALID)
async def test_what_cannot_be_sent_is_a_500(name, caplog):
    messages, logged = INVALID[name]
    received = await answer(sends(*messages))
    assert statuses(received) == [500, 200]  # granian has not aborted, and keeps the connection
    assert logged in caplog.text


@pytest.mark.parametrize("last", [[], [body()], [body(b"cd")], [body(b"cdefg")]])
async def test_behind_a_body_of_another_length_no_response_follows(last):
    """A proxy would take the next response for what is missing, and give it to another client."""
    received = await answer(sends(start(length(5)), body(b"ab", more=True), *last))
    assert len(statuses(received)) <= 1
    assert b"cdefg" not in received


@pytest.mark.parametrize(
    ("method", "messages"),
    [
        (b"GET", [start(length(4)), body(b"ab", more=True), body(b"cd")]),
        (b"GET", [start(length(4)), body(b"abcd", more=True), body()]),
        (b"GET", [start(length(4), length(4)), body(b"abcd")]),
        (b"GET", [start(length(4)), body(bytearray(b"abcd"))]),
        (b"GET", [start(length(4)), body(memoryview(b"abcd").cast("H"))]),
        (b"GET", [start(length(0)), {"type": "http.response.body"}]),
        (b"GET", [start(), body(b"ab", more=True), body(b"cd")]),
        (b"GET", [start(status=204), body(b"abcd")]),
        (b"GET", [start(length(4), status=304), body()]),
        (b"HEAD", [start(length(4)), body()]),
        (b"HEAD", [start(length(4)), body(b"ab", more=True), body(b"c")]),
        (b"GET", [{**start(), "headers": iter([length(4)])}, body(b"abcd")]),
        (b"GET", [start(*((b"x-%d" % number, b"1") for number in range(10_000))), body(b"abcd")]),
        (b"GET", [start(status=999), body(b"abcd")]),
    ],
)
async def test_what_can_be_sent_keeps_the_connection(method, messages):
    received = await answer(sends(*messages), method)
    assert statuses(received) == [messages[0]["status"], 200]
    assert b"connection: close" not in received


async def test_the_announced_transfer_encoding_is_ignored():
    """ASGI asks for this: the server chooses it."""
    headers = (b"Transfer-Encoding", b"gzip"), length(4)
    received = await answer(sends(start(*headers), body(b"abcd")))
    assert statuses(received) == [200, 200]
    assert b"content-length: 4\r\n" in received
    assert b"transfer-encoding" not in received


async def test_a_message_behind_the_end_is_refused(caplog):
    received = await answer(sends(start(), body(b"ab"), body(b"cd")))
    assert statuses(received) == [200, 200]
    assert b"cd" not in received
    assert "Response already finished" in caplog.text


async def test_a_status_that_was_set_behind_the_response_is_a_500(caplog):
    async def change(req, res, next):
        await next()
        res.status_code = int(req.query["status"])

    app = express().use(change).get("/echo", lambda req, res: res.json({}))
    app.server_options["server"] = "granian"
    async with await app.listen(0) as server:
        for status in (150, 1000):
            data = GET.replace(b"/echo", b"/echo?status=%d" % status)
            assert statuses(await exchange(server, data)) == [500]
            assert f"the status {status} cannot be sent; it must be 200 to 599" in caplog.text


async def test_a_head_that_waits_gives_way_to_a_408():
    async def wait(scope, receive, send):
        await send(start(length(4)))
        while (await receive())["type"] == "http.request":
            pass

    app = application().add_endpoint("/wait", wait)
    async with await app.listen(0, read_timeout=1) as server:
        head = POST.replace(b"/echo", b"/wait") + b"content-length: 10\r\n\r\nab"
        assert statuses(await exchange(server, head)) == [408]


async def test_a_response_that_nobody_reads_does_not_hold_up_the_end():
    async with await application().listen(0, timeout_graceful_shutdown=0.1) as server:
        with socket.socket() as client:
            client.setblocking(False)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, (server.host, server.port))
            await loop.sock_sendall(client, GET.replace(b"/echo", b"/large"))
            async with asyncio.timeout(SECONDS):
                while not any(each.is_unread for each in await server._backend._connections.all()):  # noqa: ASYNC110  # nothing tells
                    await asyncio.sleep(0.01)
            await asyncio.wait_for(server.close(), SECONDS)


async def test_an_error_before_the_response_is_a_500(caplog):
    async def fail(scope, receive, send):
        raise LookupError("nothing here")

    app = application().add_endpoint("/fail", fail)
    async with await app.listen(0) as server:
        received = await exchange(server, GET.replace(b"/echo", b"/fail"))
    assert statuses(received) == [500]
    assert "nothing here" in caplog.text
    assert b"nothing here" not in received


async def test_an_application_that_cancels_itself_is_a_500():
    async def cancel(scope, receive, send):
        raise asyncio.CancelledError

    app = application().add_endpoint("/cancel", cancel)
    async with await app.listen(0) as server:
        assert statuses(await exchange(server, GET.replace(b"/echo", b"/cancel"))) == [500]


async def test_a_response_under_way_is_cut_off_at_the_end(caplog):
    server = await application().listen(0, timeout_graceful_shutdown=0.1)
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(GET.replace(b"/echo", b"/endless"))
    await reader.readuntil(b"begun")
    await asyncio.wait_for(server.close(), SECONDS)
    with contextlib.suppress(ConnectionError):
        assert not (await reader.read()).endswith(b"0\r\n\r\n")
    writer.close()
    assert "have not ended 0.1 seconds after the server began to stop" in caplog.text


@pytest.mark.parametrize("headers", [{}, {"headers": [(b"content-type", b"text/event-stream")]}])
async def test_a_client_that_has_gone_is_noticed(headers):
    gone = asyncio.Event()

    async def wait(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, **headers})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        assert (await receive())["type"] == "http.disconnect"
        gone.set()

    app = application().add_endpoint("/wait", wait)
    async with await app.listen(0) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(GET.replace(b"/echo", b"/wait"))
        await asyncio.wait_for(reader.readuntil(b"data: 1\n\n"), SECONDS)
        writer.transport.abort()
        await asyncio.wait_for(gone.wait(), SECONDS)


async def test_a_slow_body_is_cut_while_its_response_is_under_way():
    told = []

    async def both(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        told.append((await receive())["type"])
        await send({"type": "http.response.body", "body": b"late"})

    app = application().add_endpoint("/both", both)
    async with await app.listen(0, read_timeout=1) as server:
        head = POST.replace(b"/echo", b"/both") + b"content-length: 10\r\n\r\n"
        received = await exchange(server, head)
    assert received.endswith(b"begun\r\n")
    assert told == ["http.disconnect"]


# -- websockets ------------------------------------------------------------------------------------


async def echo(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        kinds = {kind: message[kind] for kind in ("text", "bytes") if kind in message}
        await send({"type": "websocket.send", **kinds})
    await send({"type": "websocket.send", "text": "too late"})


@contextlib.asynccontextmanager
async def websockets(app=echo, **options):
    web = application().add_endpoint("/ws", app, max_message=1000)
    async with await web.listen(0, **options) as server:
        yield server, f"ws://127.0.0.1:{server.port}/ws"


async def test_messages_come_and_go():
    async with websockets() as (_, url), connect(url) as client:
        for message in ("hi", b"bytes", "x" * 1000, "ä" * 500, b"x" * 1000):
            await client.send(message)
            assert await client.recv() == message


@pytest.mark.parametrize("message", ["x" * 1001, "ä" * 501, b"x" * 1001])
async def test_a_message_over_the_limit_closes_the_websocket(message):
    async with websockets() as (_, url), connect(url) as client:
        await client.send(message)
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd.code == 1009


async def test_an_application_may_deny_a_websocket_with_a_response():
    async def deny(scope, receive, send):
        assert scope["extensions"] == {"websocket.http.response": {}}
        scope["extensions"]["own"] = {}  # not seen by the next one
        await receive()
        start = {"type": "websocket.http.response.start", "status": 401, "headers": []}
        await send(start)
        await send({"type": "websocket.http.response.body", "body": b"who are you?"})

    async with websockets(deny) as (_, url):
        for _ in range(2):
            with pytest.raises(InvalidStatus) as refused:
                await connect(url)
            assert refused.value.response.status_code == 401
            assert refused.value.response.body == b"who are you?"


DENIED = {"type": "websocket.http.response.start", "status": 401}
DENIAL = {"type": "websocket.http.response.body", "body": b"who"}


@pytest.mark.parametrize(
    "messages",
    [
        [{**DENIED, "status": 1000}, DENIAL],
        [{**DENIED, "headers": [(b"a", b"1\n")]}, DENIAL],
        [{**DENIED, "headers": [length(4)]}, DENIAL],
        [{**DENIED, "headers": [length(2)]}, DENIAL],
        [{**DENIED, "headers": [length(6)]}, {**DENIAL, "more_body": True}, DENIAL],
        [DENIED, {**DENIAL, "body": "who"}],
        [DENIAL],
        *(
            [{"type": "websocket.accept", "subprotocol": name}]
            for name in ("a\n", "a\0", "ä", "\x7f", b"a", 1)
        ),
    ],
)
async def test_what_cannot_be_sent_denies_the_websocket(messages):
    app = application().add_endpoint("/ws", sends(*messages, receives=True))
    async with await app.listen(0) as server:
        received = await asyncio.wait_for(exchange(server, UPGRADE + b"\r\n" + GET, 2), SECONDS)
    assert statuses(received) == [403, 200]


async def test_a_denial_is_sent_with_its_length():
    async with websockets(sends({**DENIED, "headers": [length(3)]}, DENIAL)) as (_, url):
        with pytest.raises(InvalidStatus) as refused:
            await connect(url)
    assert refused.value.response.body == b"who"


async def test_subprotocols_are_chosen_and_headers_of_the_accept_are_left_out():
    async def choose(scope, receive, send):
        await receive()
        chosen = {"subprotocol": scope["subprotocols"][1], "headers": [(b"x-one", b"1")]}
        await send({"type": "websocket.accept", **chosen})
        await receive()

    async with (
        websockets(choose) as (_, url),
        connect(url, subprotocols=["one", "two"]) as client,
    ):
        assert client.subprotocol == "two"
        assert "x-one" not in client.response.headers


async def test_a_websocket_that_nobody_serves_is_a_403(server):
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://127.0.0.1:{server.port}/nowhere")
    assert refused.value.response.status_code == 403


async def test_at_the_end_websockets_are_told():
    async with websockets() as (server, url), connect(url) as client:
        await client.send("hi")
        await client.recv()
        closing = server.close()
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd.code == 1012
        await asyncio.wait_for(closing, SECONDS)


async def receive_for_ever(receive):
    """Take no notice of the end, without a wait of its own."""
    while True:
        await receive()


@pytest.mark.parametrize("sleeps", [True, False])
async def test_a_websocket_that_does_not_end_is_cancelled(sleeps):
    ends = []

    async def stay(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        try:
            await (asyncio.sleep(600) if sleeps else receive_for_ever(receive))
        finally:
            ends.append("cancelled")

    async with websockets(stay, timeout_graceful_shutdown=0.1) as (server, url), connect(url):
        await asyncio.wait_for(server.close(), SECONDS)
    assert ends == ["cancelled"]


@pytest.mark.parametrize("in_a_task", [True, False])
async def test_the_close_of_an_application_does_not_wait_for_the_client(in_a_task):
    """granian would send nothing while a `receive` waits, nor the code if the application ends."""
    told = []

    async def leave(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        receiving = asyncio.create_task(receive()) if in_a_task else None
        await asyncio.sleep(0.05)
        await send({"type": "websocket.close", "code": 4001, "reason": "no more"})
        told.append(await (receiving or receive()))
        told.append(await receive())
        with pytest.raises(OSError, match="the websocket is closed"):
            await send({"type": "websocket.close"})

    async with websockets(leave) as (_, url), connect(url) as client:
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(client.recv(), SECONDS)
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4001, "no more")
    assert told == [{"type": "websocket.disconnect", "code": 4001}] * 2


async def test_the_code_of_a_client_arrives():
    told = asyncio.get_running_loop().create_future()

    async def stay(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        told.set_result(await receive())

    async with websockets(stay) as (_, url), connect(url) as client:
        await client.close(4002)
        message = await asyncio.wait_for(told, SECONDS)
    assert message == {"type": "websocket.disconnect", "code": 4002}


async def test_a_receive_that_is_cancelled_loses_no_message():
    async def impatient(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 0.05)
        await send({"type": "websocket.send", "text": "late"})
        await send({"type": "websocket.send", "text": (await receive())["text"]})

    async with websockets(impatient) as (_, url), connect(url) as client:
        assert await asyncio.wait_for(client.recv(), SECONDS) == "late"
        await client.send("hi")
        assert await asyncio.wait_for(client.recv(), SECONDS) == "hi"


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_websocket_that_is_never_read_ends(leaves):
    """Its application never receives, so that nothing else tells it that the client has gone."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def flood(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        begun.set()
        with contextlib.suppress(OSError):
            while True:
                await send({"type": "websocket.send", "bytes": b"x" * 100_000})
        ended.set()

    async with websockets(flood, write_timeout=0.2) as (server, _):
        with socket.create_connection((server.host, server.port)) as client:
            client.sendall(UPGRADE + b"\r\n")
            await asyncio.wait_for(begun.wait(), SECONDS)
            if leaves:
                client.close()
            await asyncio.wait_for(ended.wait(), SECONDS)


# -- the connections of the system -----------------------------------------------------------------


@pytest.fixture
async def accepted():
    """A listening socket, the server's side of a connection to it, and the client's."""
    with listen_on_port("127.0.0.1", 0) as sock:
        connections = Connections(sock, ConnectionLimits())
        with socket.create_connection(sock.getsockname()) as client:
            own, _ = sock.accept()
            with own:
                yield connections, own, client


async def test_only_the_connections_of_the_server_are_known(accepted):
    connections, own, client = accepted
    first, second = socket.socketpair()
    with first, second, socket.socket(socket.AF_INET, socket.SOCK_DGRAM):
        (known,) = await connections.all()
    assert known.descriptor == own.fileno()
    assert known.peer == client.getsockname()
    assert (known.is_unread, known.is_flushed, known.read_bytes) == (False, True, 0)


async def test_another_server_with_the_same_port_has_connections_of_its_own(accepted):
    connections, own, _ = accepted
    port = own.getsockname()[1]
    with contextlib.ExitStack() as stack:
        for host in ("127.0.0.2", "::1"):
            sock = stack.enter_context(listen_on_port(host, port))
            others = Connections(sock, ConnectionLimits())
            stack.enter_context(socket.create_connection((host, port)))
            theirs = stack.enter_context(sock.accept()[0])
            assert [each.descriptor for each in await others.all()] == [theirs.fileno()]
        assert [each.descriptor for each in await connections.all()] == [own.fileno()]


async def test_what_a_client_does_not_read_is_known(accepted):
    connections, own, client = accepted
    fill(own)
    (before,) = await connections.all()
    assert (before.is_unread, before.is_flushed) == (True, False)
    client.recv(1_000_000)
    await asyncio.sleep(0.1)
    (after,) = await connections.all()
    assert after.read_bytes > before.read_bytes


async def test_later_connections_can_be_left_out(accepted):
    connections, own, _ = accepted
    await connections.keep_to_these()
    with socket.create_connection(own.getsockname()) as later:
        assert [each.descriptor for each in await connections.all()] == [own.fileno()]
        del later


def fill(sock):
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.send(b"x" * 100_000)


def read_all(client):
    while client.recv(1_000_000):
        pass


@pytest.mark.parametrize("reset", [True, False])
async def test_a_connection_is_ended_with_or_without_what_waits_for_its_client(accepted, reset):
    connections, own, client = accepted
    fill(own)
    (known,) = await connections.all()
    connections.end(known, reset=reset)
    own.close()
    if reset:
        with pytest.raises(ConnectionResetError):
            await asyncio.to_thread(read_all, client)
    else:
        await asyncio.to_thread(read_all, client)


async def test_a_descriptor_that_is_of_another_by_now_is_left_alone(accepted):
    connections, own, client = accepted
    (known,) = await connections.all()
    connections.end(known._replace(inode=0), reset=True)
    connections.end(known._replace(descriptor=9999), reset=True)  # closed
    client.sendall(b"hi")
    assert own.recv(2) == b"hi"


async def test_connections_are_reset_together(accepted, monkeypatch):
    connections, own, client = accepted
    scans, scan = [], connections.all

    async def counted():
        scans.append(1)
        return await scan()

    monkeypatch.setattr(connections, "all", counted)
    fill(own)
    await asyncio.gather(*(connections.reset(each) for each in (client.getsockname(), ("", 1))))
    own.close()
    with pytest.raises(ConnectionResetError):
        await asyncio.to_thread(read_all, client)
    assert len(scans) == 1


# -- starting and stopping -------------------------------------------------------------------------


async def test_a_unix_socket_is_refused(tmp_path):
    with (
        listen_on_path(str(tmp_path / "s")) as sock,
        pytest.raises(ValueError, match=r"cannot be guarded on a Unix socket: .* 127\.0\.0\.1"),
    ):
        await application().serve(sock)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"http": "h11"}, "server='granian' has no option 'http'.*; it has forwarded_allow_ips"),
        ({"read_timout": 1}, "no option 'read_timout'; did you mean 'read_timeout'"),
        ({"limits": 1}, "no option 'limits'"),
    ],
)
def test_options_of_uvicorn_alone_are_refused(options, message):
    with pytest.raises(TypeError, match=message):
        granian_server(application(), options)


def test_limits_are_checked():
    with pytest.raises(ValueError, match="read_timeout is 0"):
        granian_server(application(), {"read_timeout": 0})


async def test_a_server_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="no server 'hypercorn'; choose 'uvicorn' or 'granian'"):
        await application().listen(0, server="hypercorn")


async def test_a_silent_connection_does_not_hold_up_the_end():
    server = await application().listen(0)
    streams = [await asyncio.open_connection(server.host, server.port) for _ in range(2)]
    streams[0][1].write(GET[:20])
    await asyncio.sleep(0.05)
    await asyncio.wait_for(server.close(), SECONDS / 2)
    for reader, writer in streams:
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


async def test_a_failed_look_at_the_connections_is_logged_and_repeated(caplog, monkeypatch):
    async with await application().listen(0, read_timeout=0.1) as server:
        reset, calls = server._backend._connections.reset_stalled, []

        async def fail(now):
            calls.append(now)
            if len(calls) == 1:
                raise OSError("no descriptors")
            return await reset(now) if len(calls) > 1 else set()

        monkeypatch.setattr(server._backend._connections, "reset_stalled", fail)
        async with asyncio.timeout(SECONDS):
            while len(calls) < 3:  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(0.01)
    assert caplog.text.count("cannot look for clients that stall: no descriptors") == 1


async def test_descriptors_are_left_for_others(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (101, 101))
    async with await application().listen(0) as server:
        first = await asyncio.open_connection(server.host, server.port)
        second = await asyncio.open_connection(server.host, server.port)
        for _, writer in (first, second):
            writer.write(GET)
        assert (await first[0].readline()).startswith(b"HTTP/1.1 200")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(second[0].readline(), 0.3)
        first[1].close()
        assert (await second[0].readline()).startswith(b"HTTP/1.1 200")
        second[1].close()


async def test_without_a_limit_of_descriptors_there_are_many_connections(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    async with await application().listen(0) as server:
        streams = [await asyncio.open_connection(server.host, server.port) for _ in range(3)]
        for reader, writer in reversed(streams):
            writer.write(GET)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()


class TestCheck:
    def test_another_system_is_refused(self, monkeypatch):
        monkeypatch.setattr(sys, "platform", "darwin")
        with pytest.raises(ImportError, match="granian' needs Linux"):
            check_granian()

    def test_without_granian_the_error_names_the_command(self, monkeypatch):
        def version(name):
            raise PackageNotFoundError(name)

        monkeypatch.setattr(check, "version", version)
        with pytest.raises(ImportError, match=r"not installed; .*pip install '.*granian"):
            check_granian()

    def test_a_part_that_has_changed_is_named(self, monkeypatch):
        monkeypatch.setitem(check._SIGNATURES, "_granian.SocketHolder", "fd")
        with pytest.raises(ImportError, match=r"SocketHolder takes \(fd uds backlog\), not \(fd\)"):
            check_granian()

    def test_a_part_that_is_gone_is_named(self, monkeypatch):
        monkeypatch.setitem(check._SIGNATURES, "_granian.Nothing.new", "")
        with pytest.raises(ImportError, match=r"granian\._granian\.Nothing\.new takes \(Attribute"):
            check_granian()

    def test_a_copy_of_the_source_has_the_extra_to_name(self, monkeypatch):
        def requires(name):
            raise PackageNotFoundError(name)

        monkeypatch.setattr(check, "requires", requires)
        monkeypatch.setitem(check._SIGNATURES, "_granian.SocketHolder", "fd")
        with pytest.raises(ImportError, match=r"pip install 'alula\[granian\]'"):
            check_granian()
