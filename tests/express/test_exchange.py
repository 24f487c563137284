"""Whole responses without messages of ASGI, where the server offers that."""

from __future__ import annotations

import asyncio
import gzip
import logging

import pytest
from tests.express.test_response_on_the_wire import (
    SECONDS,
    answer,
    body,
    connected,
    length,
    sends,
    start,
)

from alula import App
from alula._http import EXCHANGE_EXTENSION
from alula.adapters.memory import MemoryService
from alula.express import error_handler, express, json, rest

TEXT = ((b"content-type", b"text/plain"),)


def responds(content, *, status=200, headers=TEXT, told=None):
    """Return an ASGI application that sends one whole response, by messages if that is refused."""

    async def app(scope, receive, send):
        server = scope["extensions"][EXCHANGE_EXTENSION]
        assert server.send == send
        is_sent = server.respond(status, headers, content)
        if told is not None:
            told.append(is_sent)
        if not is_sent:
            messages = start(status, *headers, length(len(content))), body(content)
            await sends(*messages)(scope, receive, send)

    return app


def messages():
    """Return an application with a service, and a way to call it."""
    app = express(App()).use(json()).configure(rest())
    return app.use("messages", MemoryService()).use(error_handler())


async def request(app, head, content=b"", headers=b""):
    """Return the response to a request that closes its connection."""
    async with connected(app) as (reader, writer):
        writer.write(
            b"%b HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n%b\r\n%b" % (head, len(content), headers, content)
        )
        return await asyncio.wait_for(reader.read(), SECONDS)


# -- whole responses -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("content", [b"", b"ok", b"x" * 200_000])
async def test_a_whole_response_is_what_its_messages_are(method, version, content):
    told = []
    whole = await answer(responds(content, told=told), method, version)
    by_messages = sends(start(200, *TEXT, length(len(content))), body(content))
    parts = await answer(by_messages, method, version)
    assert told == [True]
    assert whole[1].pop("date")
    assert parts[1].pop("date")
    assert whole == parts


async def test_a_connection_is_kept_behind_whole_responses():
    async with connected(responds(b"ok")) as (reader, writer):
        for _ in range(3):
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 2)
            for _ in range(2):
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
                assert b"connection" not in head
                assert await reader.readexactly(2) == b"ok"


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (204, TEXT),
        (304, TEXT),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_headers_of_framing_are_what_they_are_in_messages(status, headers, method):
    content = b"" if status in {204, 304} else b"ok"
    whole = await answer(responds(content, status=status, headers=headers), method)
    lengths = [] if status in {204, 304} else [length(2)]
    by_messages = sends(start(status, *headers, *lengths), body(content))
    assert whole[:1] + whole[2:] == (parts := await answer(by_messages, method))[:1] + parts[2:]
    assert whole[1].keys() == parts[1].keys()


async def test_a_client_that_waits_for_leave_and_gets_a_response_is_disconnected():
    """Nobody knows whether its body or its next request comes next."""
    async with connected(responds(b"ok")) as (reader, writer):
        writer.write(
            b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 6\r\n\r\n"
        )
        received = await asyncio.wait_for(reader.read(), SECONDS)
    assert b"connection: close" in received


async def test_a_header_that_cannot_be_sent_is_an_error(caplog):
    for headers in (((b"x", b"a\r\nb: c"),), ((b"x y", b"a"),)):
        first, received, _ = await answer(responds(b"ok", headers=headers))
        assert first == "HTTP/1.1 500 Internal Server Error"
        assert "b" not in received
    assert "Invalid HTTP header" in caplog.text


@pytest.mark.parametrize("status", [99, 150, 600, 1000])
async def test_a_status_that_was_set_behind_the_response_is_checked(status, caplog):
    async def change(req, res, next):
        await next()
        res.status_code = status

    app = express(App()).use(change).configure(rest()).use("messages", MemoryService())
    received = await request(app, b"GET /messages")
    assert received.startswith(b"HTTP/1.1 500 ")
    assert f"the status {status} cannot be sent; it must be 200 to 599" in caplog.text


async def test_a_status_without_a_phrase():
    first, _, content = await answer(responds(b"ok", status=299))
    assert (first, content) == ("HTTP/1.1 299 ", b"ok")


async def test_a_response_that_has_begun_or_ended_is_not_sent_again():
    told = []

    async def app(scope, receive, send):
        server = scope["extensions"][EXCHANGE_EXTENSION]
        await send(start(200, length(2)))
        told.append(server.respond(200, TEXT, b"no"))
        await send(body(b"ok"))
        told.append(server.respond(200, TEXT, b"no"))

    assert (await answer(app))[2] == b"ok"
    assert told == [False, False]


async def test_nothing_is_sent_behind_the_end_of_the_application():
    kept = []

    async def app(scope, receive, send):
        kept.append(scope["extensions"][EXCHANGE_EXTENSION])

    assert (await answer(app))[0].endswith("500 Internal Server Error")
    assert not kept[0].respond(200, TEXT, b"no")


async def test_a_client_that_has_gone_gets_nothing():
    told, is_done = [], asyncio.Event()

    async def app(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass
        server = scope["extensions"][EXCHANGE_EXTENSION]
        told.append(server.respond(200, TEXT, b"no"))
        is_done.set()

    async with connected(app) as (_, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()
        await asyncio.wait_for(is_done.wait(), SECONDS)
    assert told == [False]


async def test_a_client_that_does_not_read_is_waited_for():
    told = []
    large = b"x" * 8_000_000

    async with connected(responds(large, told=told)) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 4)
        async with asyncio.timeout(SECONDS):
            while len(told) < 2:  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.01)
        assert told == [True, False]  # the second one waits in `send`
        for _ in range(4):
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
            assert len(await asyncio.wait_for(reader.readexactly(len(large)), SECONDS)) > 0


async def test_the_log_of_uvicorn(caplog):
    caplog.set_level(logging.INFO, "uvicorn.access")
    await answer(responds(b"ok"), access_log=True)
    assert caplog.records[-1].getMessage().endswith('"GET /some/path?a=b HTTP/1.1" 200')


# -- what is between the server and the application ------------------------------------------------


async def test_middleware_around_the_application_sees_the_response():
    app = messages()

    async def around(scope, receive, send):
        async def send_more(message):
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-seen", b"yes")]
            await send(message)

        await app(scope, receive, send_more)

    assert b"x-seen: yes\r\n" in await request(around, b"GET /messages")
    assert b"x-seen" not in await request(app, b"GET /messages")


async def test_middleware_around_the_application_sees_the_body():
    app = messages()

    async def around(scope, receive, send):
        async def receive_other():
            message = await receive()
            return {**message, "body": message["body"].replace(b"one", b"two")}

        await app(scope, receive_other, send)

    content = b'{"text":"one"}'
    assert b'"text":"two"' in await request(around, b"POST /messages", content)
    assert b'"text":"one"' in await request(app, b"POST /messages", content)


@pytest.mark.parametrize(("encoding", "status"), [(b"gzip", b"201"), (b"br", b"415")])
async def test_packed_bodies_that_have_arrived_are_unpacked(encoding, status):
    content = gzip.compress(b'{"text":"one"}')
    headers = b"content-encoding: %b\r\n" % encoding
    response = await request(messages(), b"POST /messages", content, headers)
    assert response.startswith(b"HTTP/1.1 " + status)
    assert (b'"text":"one"' in response) is (encoding == b"gzip")


@pytest.mark.parametrize(
    ("content", "status"), [(b"[" * 40, b"400"), (b'{"a":"' + b"x" * 200 + b'"}', b"413")]
)
async def test_bodies_that_have_arrived_are_checked(content, status):
    app = express(App()).use(json(limit=100)).configure(rest()).use("messages", MemoryService())
    response = await request(app.use(error_handler()), b"POST /messages", content)
    assert response.startswith(b"HTTP/1.1 " + status)


async def test_chunked_bodies_that_have_arrived_are_checked():
    app = express(App()).use(json(limit=100)).configure(rest()).use("messages", MemoryService())
    async with connected(app.use(error_handler())) as (reader, writer):
        writer.write(
            b"POST /messages HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
            b"transfer-encoding: chunked\r\n\r\nc8\r\n" + b"1" * 200 + b"\r\n0\r\n\r\n"
        )
        line = await asyncio.wait_for(reader.readline(), SECONDS)
    assert line.startswith(b"HTTP/1.1 413 ")


async def test_behind_the_end_of_a_connection_no_further_request_begins():
    calls = []

    async def app(scope, receive, send):
        calls.append(scope["path"])
        scope["extensions"][EXCHANGE_EXTENSION]._connection.transport.close()
        await sends(start(200, length(2)), body(b"ok"))(scope, receive, send)

    async with connected(app) as (reader, writer):
        writer.write(b"GET /1 HTTP/1.1\r\nhost: a\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\n\r\n")
        await asyncio.wait_for(reader.read(), SECONDS)
    assert calls == ["/1"]
