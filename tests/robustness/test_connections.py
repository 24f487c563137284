"""Heads that are broken or endless, and clients that behave badly."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time

import pytest
from tests.conformance.wire import read_reply, send
from tests.robustness.raw import (
    answers_on,
    assert_no_stack,
    assert_refused,
    connect,
    exchange,
    head,
)

JSON = b"content-type: application/json"
ABSURD = "," * 500, ";" * 500, "*/*;" * 200, "a" * 10_000, "\xff" * 50, "q=1;q=2", "text/html;q=x"


# -- heads -----------------------------------------------------------------------------------------


def test_refuses_many_headers(base):
    lines = [b"x-%d: 1" % number for number in range(501)]
    assert_refused(exchange(base, head("/people/1", *lines)), 431)


def test_takes_some_headers(base):
    lines = [b"x-%d: 1" % number for number in range(400)]
    assert exchange(base, head("/people/1", *lines)).status == 200


@pytest.mark.parametrize("size", [200_000, 1_000_000])
def test_refuses_a_long_header(base, size):
    assert_refused(exchange(base, head("/people/1", b"x: " + b"a" * size)), 431)


def test_refuses_a_head_that_never_ends(base):
    flood = [b"x-%d: %s\r\n" % (number, b"a" * 1000) for number in range(5000)]
    assert_refused(exchange(base, b"GET /people HTTP/1.1\r\n", *flood), 431)


@pytest.mark.parametrize(
    "lines",
    [
        [b"content-length: 2", b"content-length: 3"],
        [b"content-length: 2", b"content-length: 2"],
        [b"content-length: 2, 2"],
        [b"content-length: -2"],
        [b"content-length: +2"],
        [b"content-length: 0x2"],
        [b"content-length: two"],
        [b"content-length:"],
        [b"content-length: " + b"9" * 400],
        [b"content-length: 2", b"transfer-encoding: chunked"],
        [b"transfer-encoding: gzip"],
        [b"transfer-encoding: chunked, identity"],
        [b"x: a\x00b"],
        [b"no colon"],
        [b"na me: 1"],
        [b": no name"],
        [b"x: 1", b" folded"],
    ],
)
def test_refuses_a_broken_head(base, lines):
    assert_refused(exchange(base, head("/echo", JSON, *lines, method="POST"), b"{}"), 400)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 100,
        b"\xff" * 100,
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTQ/1.1\r\n\r\n",
        b"FOO / HTTP/1.1\r\n\r\n",
        b"get / HTTP/1.1\r\n\r\n",
        b"A" * 5000 + b" / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\r\n",
    ],
)
def test_refuses_what_is_no_http(base, data):
    assert_refused(exchange(base, data), 400)


@pytest.mark.parametrize(
    "chunks", [b"zz\r\n{}\r\n0\r\n\r\n", b"-1\r\n", b"2\r\n{}x0\r\n\r\n", b"f" * 40 + b"\r\n"]
)
def test_refuses_broken_chunks(base, chunks):
    lines = (JSON, b"transfer-encoding: chunked")
    assert_refused(exchange(base, head("/echo", *lines, method="POST"), chunks), 400)


@pytest.mark.parametrize("name", ["accept", "content-type", "x-service-method", "origin", "cookie",
                                  "authorization", "if-none-match", "range", "accept-encoding",
                                  "expect", "upgrade", "x-forwarded-for", "te"])  # fmt: skip
@pytest.mark.parametrize("value", ABSURD, ids=range(len(ABSURD)))
def test_bears_absurd_headers(reference, base, name, value):
    for address in reference:
        for method, path in (("GET", "/echo"), ("POST", "/echo"), ("GET", "/nope")):
            reply = send(address, method, path, {name: value})
            assert reply.status < 500, reply
            assert_no_stack(reply)


@pytest.mark.parametrize("value", ["sum\x0b", "sum\xa0", "__class__", "call", "run", "on", "hooks",
                                   "\xff", "a" * 5000, "find.__globals__"])  # fmt: skip
def test_no_header_calls_what_is_not_listed(base, value):
    if "\x0b" in value:
        reply = exchange(base, head("/calc", f"x-service-method: {value}".encode(), method="POST"))
        assert_refused(reply, 400, 405)
        return
    assert_refused(send(base, "POST", "/calc", {"x-service-method": value}), 405)


# -- versions and pipelining -----------------------------------------------------------------------


def test_answers_http_1_0(base):
    reply = exchange(base, b"GET /people/1 HTTP/1.0\r\n\r\n")
    assert reply.status == 200
    assert reply.json()["id"] == 1


def test_a_request_without_a_host_is_refused(base):
    reply = exchange(base, b"GET /people/1 HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert_refused(reply, 400)


def test_answers_pipelined_requests_in_order(base):
    requests = [b"GET /echo/%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(20)]
    with connect(base) as connection:
        connection.sendall(b"".join(requests))
        ids = [read_reply_on(connection).json()["id"] for _ in requests]
    assert ids == [str(number) for number in range(20)]


def test_a_refusal_in_the_middle_keeps_the_connection_in_order(base):
    body = b'{"a":'
    bad = b"POST /echo HTTP/1.1\r\nHost: x\r\n%s\r\ncontent-length: %d\r\n\r\n%s"
    good = b"GET /echo/7 HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(base) as connection:
        connection.sendall(bad % (JSON, len(body), body) + good)
        assert_refused(read_reply_on(connection), 400)
        assert read_reply_on(connection).json()["id"] == "7"


def test_a_body_that_nobody_reads_is_not_taken_for_a_request(base):
    smuggled = b"GET /echo/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    request = b"DELETE /echo/1 HTTP/1.1\r\nHost: x\r\ncontent-length: %d\r\n\r\n%s"
    good = b"GET /echo/8 HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(base) as connection:
        connection.sendall(request % (len(smuggled), smuggled) + good)
        assert read_reply_on(connection).json()["method"] == "remove"
        assert read_reply_on(connection).json()["id"] == "8"


@pytest.mark.parametrize(
    "headers",
    [b"Connection: Upgrade\r\nUpgrade: websocket", b"Connection: Upgrade\r\nUpgrade: h2c"],
)
def test_an_upgrade_that_is_not_offered_is_a_request_like_any_other(base, headers):
    reply = exchange(base, b"GET /echo/1 HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n\r\n")
    assert reply.status < 500


# -- clients that go away --------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [[b"content-length: 100"], [b"transfer-encoding: chunked"]])
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_survives_a_client_that_leaves_in_its_body(base, lines, how):
    before = count(base)
    for _ in range(5):
        with connect(base) as connection:
            connection.sendall(head("/messages", JSON, *lines, method="POST"))
            connection.sendall(b'5\r\n{"a":' if b"chunked" in lines[0] else b'{"a":')
            leave(connection, how)
    time.sleep(0.1)
    assert count(base) == before


@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_survives_a_client_that_leaves_in_its_head(base, how):
    for part in (b"G", b"GET /people HTTP/1.1\r\n", b"GET /people HTTP/1.1\r\nHost: x\r\nx: a"):
        with connect(base) as connection:
            connection.sendall(part)
            leave(connection, how)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_survives_a_client_that_does_not_wait_for_the_answer(base, how):
    request = b"GET /messages?%24limit=50 HTTP/1.1\r\nHost: x\r\n\r\n"
    for _ in range(10):
        with connect(base) as connection:
            connection.sendall(request * 50)
            leave(connection, how)


def test_survives_a_client_that_never_reads(base):
    request = b"GET /messages?%24limit=50 HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(base) as connection:
        connection.setblocking(False)
        try:
            for _ in range(10_000):
                connection.send(request)
        except BlockingIOError:
            pass
        except ConnectionResetError:  # so many requests must not wait on a connection
            pass
        assert send(base, "GET", "/people/1").status == 200


def test_a_slow_client_holds_up_nobody(base):
    with connect(base) as slow:
        slow.sendall(head("/people", JSON, b"content-length: 10", method="POST") + b"{")
        for _ in range(20):
            assert send(base, "GET", "/people/1").status == 200
        slow.sendall(b'"slow":1}')
        assert read_reply(slow, "POST").status == 201
    send(base, "POST", "/__reset")


def test_a_request_byte_by_byte_is_a_request(base):
    data = head("/echo/1?a=b", JSON, b"content-length: 2", method="PUT") + b"{}"
    with connect(base) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in data:
            connection.sendall(bytes([byte]))
        assert read_reply(connection, "PUT").json()["query"] == {"a": "b"}


def test_bears_many_connections(base):
    connections = [connect(base) for _ in range(200)]
    try:
        assert send(base, "GET", "/people/1").status == 200
        for connection in connections:
            connection.sendall(head("/echo/1"))
        assert {read_reply(connection).status for connection in connections} == {200}
    finally:
        for connection in connections:
            connection.close()


def test_what_comes_behind_the_last_request_is_nobodys_business(base):
    data = head("/echo/1") + b"\x00garbage"
    assert [reply.status for reply in answers_on(base, data)][:1] in ([200], [400], [])


def leave(connection: socket.socket, how: str) -> None:
    """Go away: in an orderly way, with a reset, or with half of the connection still open."""
    if how == "half":
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(1)
        with contextlib.suppress(OSError):
            connection.recv(100)
    elif how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def read_reply_on(connection: socket.socket):
    """Read one of several answers: no byte more than its own."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1)
    top = data.decode("latin-1").lower()
    length = int(top.split("content-length:")[1].split("\r\n")[0])
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    first, second = socket.socketpair()
    with first, second:
        first.sendall(data + body)
        return read_reply(second)


def count(base: str) -> int:
    """Return the number of messages."""
    return json.loads(send(base, "GET", "/messages?%24limit=0").text)["total"]
