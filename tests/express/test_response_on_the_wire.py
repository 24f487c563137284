"""ASGI applications over HTTP/1: what they may send, and what becomes of it on the wire."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from contextvars import ContextVar

import pytest

from alula.express import express
from alula.express._http1 import protocol

SECONDS = 30
TEXT = (b"content-type", b"text/plain")
inherited: ContextVar[str] = ContextVar("inherited", default="nothing")


def start(status=200, *headers):
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(content=b"", *, more=False):
    return {"type": "http.response.body", "body": content, "more_body": more}


def length(size):
    return (b"content-length", b"%d" % size)


def sends(*messages):
    """Return an ASGI application that sends these messages."""

    async def app(scope, receive, send):
        for message in messages:
            await send(message)

    return app


@asynccontextmanager
async def connected(app, **options):
    """Yield a reader and a writer of a connection to a server whose path ``/`` is this app."""
    async with await express().add_endpoint("/", app).listen(0, **options) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        yield reader, writer
        writer.close()


async def answer(app, method="GET", version="1.1", **options):
    """Return the status line, the headers and the body that a client gets."""
    async with connected(app, **options) as (reader, writer):
        line = f"{method} /some/path?a=b HTTP/{version}\r\nhost: a\r\nconnection: close\r\n\r\n"
        writer.write(line.encode())
        head, _, content = (await asyncio.wait_for(reader.read(), SECONDS)).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), content


# -- what arrives ----------------------------------------------------------------------------------


async def test_a_response_arrives_as_it_was_sent():
    first, headers, content = await answer(sends(start(201, TEXT, length(2)), body(b"ok")))
    assert first == "HTTP/1.1 201 Created"
    assert headers.pop("date").endswith(" GMT")
    assert headers == {"content-type": "text/plain", "content-length": "2", "connection": "close"}
    assert content == b"ok"


async def test_a_status_without_a_phrase():
    first, _, _ = await answer(sends(start(299, length(0)), body()))
    assert first == "HTTP/1.1 299 "


async def test_names_of_headers_are_in_lower_case_however_they_are_sent():
    app = sends(start(200, (b"X-Of-Mine", b"1"), [b"Content-Length", b"0"]), body())
    _, headers, _ = await answer(app)
    assert (headers["x-of-mine"], headers["content-length"]) == ("1", "0")


async def test_without_a_length_the_body_comes_in_chunks():
    _, headers, content = await answer(
        sends(start(), body(b"one", more=True), body(more=True), body(b"two"))
    )
    assert headers["transfer-encoding"] == "chunked"
    assert content == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


async def test_an_application_may_say_that_it_comes_in_chunks():
    framing = (b"transfer-encoding", b"chunked")
    _, headers, content = await answer(sends(start(200, framing), body(b"one")))
    assert (headers["transfer-encoding"], content) == ("chunked", b"3\r\none\r\n0\r\n\r\n")
    other = (b"transfer-encoding", b"gzip")
    _, headers, content = await answer(sends(start(200, other), body(b"one")))
    assert (headers["transfer-encoding"], content) == ("chunked", b"3\r\none\r\n0\r\n\r\n")


async def test_beside_a_length_there_are_no_chunks():
    framing = ((b"transfer-encoding", b"chunked"), length(3), length(3))
    _, headers, content = await answer(sends(start(200, *framing), body(b"one")))
    assert "transfer-encoding" not in headers
    assert (headers["content-length"], content) == ("3", b"one")


async def test_a_304_may_tell_the_length_of_what_has_not_changed():
    first, headers, content = await answer(sends(start(304, length(9)), body()))
    assert (first, headers["content-length"], content) == ("HTTP/1.1 304 Not Modified", "9", b"")


async def test_parts_of_a_body_with_a_length():
    app = sends(start(200, length(6)), body(b"one", more=True), body(b"two"))
    assert (await answer(app))[2] == b"onetwo"


async def test_a_large_body_is_whole():
    large = b"x" * 200_000
    assert (await answer(sends(start(200, length(len(large))), body(large))))[2] == large


@pytest.mark.parametrize("status", [204, 304])
async def test_a_status_without_a_body_has_no_framing(status):
    _, headers, content = await answer(sends(start(status), body()))
    assert (headers.keys() & {"transfer-encoding", "content-length"}, content) == (set(), b"")


async def test_head_gets_the_headers_alone():
    _, headers, content = await answer(sends(start(200, length(2)), body(b"ok")), method="HEAD")
    assert (headers["content-length"], content) == ("2", b"")
    _, headers, content = await answer(sends(start(), body(b"ok")), method="HEAD")
    assert ("transfer-encoding" in headers, content) == (False, b"")


async def test_the_application_may_close_the_connection():
    app = sends(start(200, length(0), (b"Connection", b"x, Close")), body())
    async with connected(app) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        received = await asyncio.wait_for(reader.read(), SECONDS)  # up to the end
    assert received.lower().count(b"connection:") == 1


async def test_a_header_connection_that_keeps_it():
    app = sends(start(200, length(0), (b"connection", b"keep-alive")), body())
    async with connected(app) as (reader, writer):
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
            assert b"connection: keep-alive" in head


async def test_http_1_0_closes_the_connection():
    async with connected(sends(start(200, length(0)), body())) as (reader, writer):
        writer.write(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        assert b"connection: close" in await asyncio.wait_for(reader.read(), SECONDS)


# -- what cannot be sent ---------------------------------------------------------------------------


async def failing(scope, receive, send):
    raise ValueError("a bug")


async def failing_behind_the_head(scope, receive, send):
    await send(start(200, length(100), (b"x-secret", b"1")))
    raise ValueError("a bug")


INVALID = {
    "an error": (failing, "a bug"),
    "an error behind the head": (failing_behind_the_head, "a bug"),
    "a body first": (sends(body()), "Expected ASGI message 'http.response.start'"),
    "two heads": (sends(start(), start()), "Expected ASGI message 'http.response.body'"),
    "no name": (sends(start(200, (b"", b"1"))), "Invalid HTTP header name"),
    "a name with a space": (sends(start(200, (b"a b", b"1"))), "Invalid HTTP header name"),
    "a line break": (sends(start(200, (b"a", b"1\r\nb: 2"))), "Invalid HTTP header value"),
    "a line break in a type": (
        sends(start(200, (b"content-type", b"a\r\nb: 2"))),
        "Invalid HTTP header value",
    ),
    "a length that is none": (
        sends(start(200, (b"content-length", b"+2")), body(b"ok")),
        "is not the length of a body",
    ),
    "two lengths": (sends(start(200, length(2), length(3)), body(b"ok")), "or is a second"),
    "a status of the protocol": (sends(start(150), body()), "The status 150 cannot be sent"),
    "a status of four digits": (sends(start(1000), body()), "The status 1000 cannot be sent"),
    "too long": (sends(start(200, length(1)), body(b"two")), "longer than Content-Length"),
    "too short": (sends(start(200, length(9)), body(b"two")), "shorter than Content-Length"),
    "nothing": (sends(), "returned without starting response"),
    "no body": (sends(start(200)), "returned without completing response"),
}


@pytest.mark.parametrize("name", INVALID)
async def test_where_nothing_was_written_a_500_arrives(name, caplog):
    app, logged = INVALID[name]
    first, headers, content = await answer(app)
    assert first == "HTTP/1.1 500 Internal Server Error"
    assert (headers["content-length"], content) == ("21", b"Internal Server Error")
    assert headers["connection"] == "close"
    assert "x-secret" not in headers
    text = "".join(f"{record.getMessage()} {record.exc_info}" for record in caplog.records)
    assert logged in text


async def test_behind_the_first_part_the_connection_is_closed(caplog):
    app = sends(start(200, length(9)), body(b"two", more=True), body(b"three"))
    first, _, content = await answer(app)
    assert (first, content) == ("HTTP/1.1 200 OK", b"two")
    assert "shorter than Content-Length" in str(caplog.records[-1].exc_info)


async def test_an_error_behind_the_response_closes_the_connection(caplog):
    async def app(scope, receive, send):
        await send(start(200, length(2)))
        await send(body(b"ok"))
        await send(body(b"more"))

    async with connected(app) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), SECONDS)).endswith(b"ok")
    assert "after response already completed" in str(caplog.records[-1].exc_info)


async def test_what_is_sent_behind_the_end_of_the_application_goes_nowhere():
    kept = []

    async def app(scope, receive, send):
        kept.append((receive, send))
        await send(start(200, length(2)))
        await send(body(b"o", more=True))

    _, _, content = await answer(app)
    receive, send = kept[0]
    await send(body(b"k"))
    assert content == b"o"
    async with asyncio.timeout(SECONDS):
        while (await receive())["type"] != "http.disconnect":
            pass


# -- what an application receives ------------------------------------------------------------------


async def test_the_body_of_a_request_then_the_end_of_its_connection():
    received, gone = [], asyncio.Event()

    async def app(scope, receive, send):
        while (message := await receive())["type"] == "http.request":
            received.append((message["body"], message["more_body"]))
        await send(start())  # to nobody
        gone.set()

    async with connected(app) as (_, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\none")
        async with asyncio.timeout(SECONDS):
            while received != [(b"one", True)]:  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.01)
        writer.write(b"two")
        async with asyncio.timeout(SECONDS):
            while len(received) < 2:  # noqa: ASYNC110  # as above
                await asyncio.sleep(0.01)
        writer.close()
        await asyncio.wait_for(gone.wait(), SECONDS)
    assert b"".join(part for part, _ in received) == b"onetwo"
    assert [more for _, more in received][-1] is False


async def test_a_client_that_waits_for_it_gets_a_100():
    async def app(scope, receive, send):
        message = await receive()
        await sends(start(200, length(3)), body(message["body"]))(scope, receive, send)
        assert await receive() == {"type": "http.disconnect"}

    async with connected(app) as (reader, writer):
        writer.write(
            b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n"
        )
        line = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
        assert line == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"one")
        assert (await asyncio.wait_for(reader.readuntil(b"one"), SECONDS)).endswith(b"one")


async def test_a_client_that_waits_for_a_100_and_gets_a_response_is_disconnected():
    """Nobody knows whether its body or its next request comes next."""
    async with connected(sends(start(200, length(2)), body(b"ok"))) as (reader, writer):
        writer.write(
            b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n"
        )
        answered = await asyncio.wait_for(reader.read(), SECONDS)
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in answered


async def test_a_body_that_is_here_already_needs_no_100():
    async def app(scope, receive, send):
        await sends(start(200, length(3)), body((await receive())["body"]))(scope, receive, send)

    async with connected(app) as (reader, writer):
        writer.write(
            b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\none"
        )
        answered = await asyncio.wait_for(reader.readuntil(b"one"), SECONDS)
        assert answered.startswith(b"HTTP/1.1 200 ")


async def test_a_body_that_nobody_reads_is_dropped_at_the_end_of_the_response():
    app = sends(start(200, length(2)), body(b"ok"))
    async with connected(app) as (reader, writer):
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\none")
            assert (await asyncio.wait_for(reader.readuntil(b"ok"), SECONDS)).endswith(b"ok")
            writer.write(b"two")


async def test_trailers_behind_the_response_get_no_second_one():
    """A client, or a proxy, would take it for the response to its next request."""
    async with connected(sends(start(200, length(2)), body(b"ok"))) as (reader, writer):
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
            line = await asyncio.wait_for(reader.readuntil(b"ok"), SECONDS)
            assert line.startswith(b"HTTP/1.1 200 ")
            # They pass the limit in the piece in which they end.
            writer.write(b"0\r\n" + b"t: %b\r\n" % (b"v" * 8_180) * 8 + b"\r\n")


# -- options of uvicorn ----------------------------------------------------------------------------


async def test_the_log_of_uvicorn(caplog):
    caplog.set_level(logging.INFO, "uvicorn.access")
    app = sends(start(200, length(0)), body())
    await answer(app, access_log=True)
    assert caplog.records[-1].getMessage().endswith('"GET /some/path?a=b HTTP/1.1" 200')


async def test_more_requests_than_the_limit_get_a_503():
    running, end = asyncio.Event(), asyncio.Event()

    async def app(scope, receive, send):
        running.set()
        await end.wait()
        await sends(start(200, length(2)), body(b"ok"))(scope, receive, send)

    server = await express().add_endpoint("/", app).listen(0, limit_concurrency=2)
    async with server:
        pairs = [await asyncio.open_connection(server.host, server.port) for _ in range(2)]
        pairs[0][1].write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        # Two connections are as many as the limit.
        head = await asyncio.wait_for(pairs[0][0].readuntil(b"\r\n"), SECONDS)
        assert head == b"HTTP/1.1 503 Service Unavailable\r\n"
        for _, writer in pairs:
            writer.close()
    assert not running.is_set()


@pytest.mark.parametrize(("resets", "expected"), [(False, b"at the start"), (True, b"nothing")])
async def test_requests_may_begin_without_the_context_of_the_server(resets, expected):
    async def app(scope, receive, send):
        content = inherited.get().encode()
        await sends(start(200, length(len(content))), body(content))(scope, receive, send)

    token = inherited.set("at the start")
    try:
        _, _, content = await answer(app, reset_contextvars=resets)
    finally:
        inherited.reset(token)
    assert content == expected


async def test_an_upgrade_that_is_not_known_is_an_ordinary_request():
    async with connected(sends(start(200, length(2)), body(b"ok"))) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
        head = await asyncio.wait_for(reader.readuntil(b"ok"), SECONDS)
        assert head.startswith(b"HTTP/1.1 200 ")


# -- connections that are kept ---------------------------------------------------------------------


async def test_a_connection_is_closed_once_it_was_idle_for_the_whole_time():
    async with connected(sends(start(200, length(2)), body(b"ok")), timeout_keep_alive=2) as pair:
        reader, writer = pair
        loop = asyncio.get_running_loop()
        for _ in range(4):  # the timer of the first looks in between, and goes on
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b"ok"), SECONDS)
            last = loop.time()
            await asyncio.sleep(0.6)
        assert await asyncio.wait_for(reader.read(), SECONDS) == b""
        assert loop.time() - last >= 1.95


async def test_a_connection_is_not_closed_while_a_request_is_under_way():
    async def app(scope, receive, send):
        if scope["path"] == "/slow":
            await asyncio.sleep(2.5)
        await sends(start(200, length(2)), body(b"ok"))(scope, receive, send)

    async with connected(app, timeout_keep_alive=2) as (reader, writer):
        for path in (b"/fast", b"/slow", b"/fast"):
            writer.write(b"GET " + path + b" HTTP/1.1\r\nhost: a\r\n\r\n")
            assert (await asyncio.wait_for(reader.readuntil(b"ok"), SECONDS)).endswith(b"ok")


# -- what is remembered ----------------------------------------------------------------------------


async def test_what_is_remembered_of_headers_is_bounded(monkeypatch):
    beginnings = {}
    monkeypatch.setattr(protocol, "_MAX_NAMES", 2)
    monkeypatch.setattr(protocol, "LINE_BEGINNINGS", beginnings)
    for number in range(4):
        headers = ((b"x-%d" % number, b"1"), length(0))
        _, received, _ = await answer(sends(start(200, *headers), body()))
        assert received[f"x-{number}"] == "1"
    assert len(beginnings) == 2
