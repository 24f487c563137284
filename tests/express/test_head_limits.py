"""The bounds of a request's head, byte by byte, and what those hear who send no HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time

import pytest
from tests.express.asgi_client import call
from tests.waiting import settle

from alula.express import Router, express
from alula.express import json as json_parser
from alula.express._connection_limits import MAX_HEAD_BYTES as MAX_HEAD
from alula.express._connection_limits import MAX_HEADERS

LINE = b"GET /x HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture
def web():
    async def echo(req, res):
        res.json([req.method, len(req.body or "")])

    return express().use(json_parser(limit="10mb", strict=False)).use(echo)


@pytest.fixture
async def server(web, request):
    async with await web.listen(0) as server:
        yield server


async def talk(server, *parts: bytes) -> list[bytes]:
    """Send parts one after the other; return the answers until the server closes or is quiet."""
    loop = asyncio.get_running_loop()

    def wait_for_server():
        asyncio.run_coroutine_threadsafe(settle(), loop).result()

    address = (server.host, server.port)
    received = await asyncio.to_thread(exchange, address, parts, wait_for_server)
    return [b"HTTP/1.1 " + answer for answer in received.split(b"HTTP/1.1 ")[1:]]


def exchange(address, parts, wait_for_server) -> bytes:
    received, was_quiet = b"", False
    with socket.create_connection(address) as connection:
        with contextlib.suppress(ConnectionError):  # the server may have heard enough
            for part in parts:
                connection.sendall(part)
                time.sleep(0.002)
        connection.settimeout(30)
        with contextlib.suppress(ConnectionError):
            while True:
                try:
                    chunk = connection.recv(100_000)
                except TimeoutError:
                    if was_quiet:
                        break
                    wait_for_server()  # it may have stood still
                    was_quiet = True
                    continue
                if not chunk:
                    break
                received, was_quiet = received + chunk, False
                connection.settimeout(0.1)
    return received


def refused(answers: list[bytes], code: int, class_name: str) -> str:
    """Check that the last answer is a refusal in error JSON; return its message."""
    head, _, body = answers[-1].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0].startswith(f"HTTP/1.1 {code} "), lines
    assert "content-type: application/json; charset=utf-8" in lines
    assert f"content-length: {len(body)}" in lines
    assert "connection: close" in lines
    assert any(line.startswith("date: ") for line in lines)
    error = json.loads(body)
    assert (error["code"], error["className"]) == (code, class_name)
    return error["message"]


@pytest.mark.parametrize("data", [b"hello\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n"])
async def test_what_is_no_http_is_a_400_in_error_json(server, data):
    message = refused(await talk(server, data), 400, "bad-request")
    assert message == "Invalid HTTP request received."


@pytest.mark.parametrize("size", [1000, 16_384, 50_000])
async def test_heads_below_the_bound_are_taken_however_they_come(server, size):
    head = LINE + b"x: " + b"a" * 40_000 + b"\r\n\r\n"
    (answer,) = await talk(server, *(head[at : at + size] for at in range(0, len(head), size)))
    assert answer.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "parts",
    [
        [LINE + b"x: " + b"a" * 90_000 + b"\r\n\r\n"],
        [LINE, *(b"x%d: %s\r\n" % (n, b"a" * 1000) for n in range(90))],
        [LINE, b"x: ", *([b"a" * 10_000] * 9)],
        [b"GET /", *([b"a" * 10_000] * 9)],
        [b"GET /?a=" + b"a" * 90_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n"],
    ],
    ids=["one header", "many headers", "a header without end", "a path without end", "a query"],
)
async def test_longer_heads_are_a_431_before_they_have_arrived(server, parts):
    message = refused(await talk(server, *parts), 431, "request-header-fields-too-large")
    assert message == f"The head of the request has over {MAX_HEAD} bytes"


def head_of(size: int) -> bytes:
    """Return a whole head of so many bytes."""
    empty = LINE + b"x: \r\n\r\n"
    return LINE + b"x: " + b"a" * (size - len(empty)) + b"\r\n\r\n"


@pytest.mark.parametrize("sent", [1_000, 16_384, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("before", [b"", LINE + b"\r\n"], ids=["first", "behind another"])
async def test_the_limit_is_exact_however_a_head_comes(server, sent, before):
    count = bool(before)
    for size, status in ((MAX_HEAD, b"200"), (MAX_HEAD + 1, b"431")):
        data = before + head_of(size)
        answers = await talk(server, *(data[at : at + sent] for at in range(0, len(data), sent)))
        codes = [answer.split()[1] for answer in answers]
        # Where the first one is not answered yet, that is what ends the connection.
        assert codes == [b"200"] * count + [status] or (size > MAX_HEAD and codes == [b"200"])


async def test_a_request_has_one_length(server):
    """A proxy that goes by the other one would take the body for a request, or the other way."""
    body = b"0\r\n\r\nDELETE /x HTTP/1.1\r\nhost: x\r\n\r\n"
    head = LINE.replace(b"GET", b"POST") + b"transfer-encoding: chunked\r\n"
    head += b"content-length: %d\r\n\r\n" % len(body)
    message = refused(await talk(server, head + body), 400, "bad-request")
    assert message in {
        "Invalid HTTP request received.",
        "A request cannot have both Content-Length and Transfer-Encoding",
    }


async def test_empty_lines_before_a_request_are_nothing(web):
    async with await web.listen(0) as server:
        (answer,) = await talk(server, b"\r\n", b"\r\n" + LINE, b"\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")


async def test_a_head_request_has_a_head_alone(server):
    (answer,) = await talk(server, LINE.replace(b"GET", b"HEAD") + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"\r\n\r\n")


async def test_bodies_are_not_counted(server):
    body = b'"' + b"a" * 300_000 + b'"'
    head = b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    head += b"content-length: %d\r\n\r\n"
    for parts in ([head % len(body) + body], [head % len(body), body[:5], body[5:]]):
        (answer,) = await talk(server, *parts)
        assert answer.endswith(b'["POST",300000]')


CHUNKED = LINE.replace(b"GET", b"POST") + b"transfer-encoding: chunked\r\n"
CHUNKED += b"content-type: application/json\r\n\r\n2\r\n{}\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        [b"0\r\nx: " + b"a" * 200_000],
        [b"0\r\nx: ", *([b"a" * 10_000] * 15)],
        [b"0\r\nx", *([b"a" * 10_000] * 15)],
        [b"0\r\n", *(b"x%d: %s\r\n" % (n, b"a" * 1000) for n in range(120))],
        [b"2;", *([b"a" * 10_000] * 15)],
    ],
    ids=["one trailer", "a trailer without end", "a name without end", "many", "of a chunk"],
)
async def test_longer_trailers_are_a_431_before_they_have_arrived(server, parts):
    answers = await talk(server, CHUNKED, *parts)
    message = refused(answers, 431, "request-header-fields-too-large")
    assert message == f"The trailers of the request have over {MAX_HEAD} bytes"


async def test_empty_lines_behind_an_answer_are_bounded(web):
    async with await web.listen(0) as server:
        answers = await talk(server, LINE + b"\r\n", *[b"\r\n" * 5000] * 20)
    assert answers[0].startswith(b"HTTP/1.1 200 OK")
    assert refused(answers, 431, "request-header-fields-too-large")


async def test_trailers_behind_an_answer_end_the_connection(server):
    head = CHUNKED.replace(b"application/json", b"text/plain")  # nobody reads this body
    trailers = [b"x%d: %s\r\n" % (n, b"a" * 1000) for n in range(120)]
    answers = await talk(server, head, b"0\r\n", *trailers, b"\r\n", LINE + b"\r\n")
    assert len(answers) == 1


async def test_trailers_below_the_bound_are_taken(server):
    parts = [CHUNKED, b"0\r\nx: " + b"a" * 9000, b"a" * 1000 + b"\r\n\r\n"]
    assert len(await talk(server, *(parts * 10))) == 10


async def test_a_body_in_small_chunks_is_not_counted_as_trailers(server):
    chunks = b"2;x=" + b"y" * 20 + b"\r\n  \r\n"
    (answer,) = await talk(server, CHUNKED, *([chunks * 400] * 12), b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")


async def test_every_request_of_a_connection_is_counted_anew(server):
    request = LINE + b"x: " + b"a" * 15_000 + b"\r\n\r\n"
    assert len(await talk(server, *([request] * 10))) == 10
    assert len(await talk(server, request * 10)) == 10


@pytest.mark.parametrize("bad", [b"this is not HTTP\r\n\r\n", LINE + b"x: " + b"a" * 90_000])
async def test_a_refusal_never_comes_before_the_response_to_an_earlier_request(web, server, bad):
    async def slow(req, res):
        await asyncio.sleep(0.1)
        res.send("slow")

    web.prepend_middleware(Router().get("/slow", slow))
    first, *others = await talk(server, LINE.replace(b"/x", b"/slow") + b"\r\n" + bad)
    assert first.startswith(b"HTTP/1.1 200 ")
    assert first.endswith(b"slow")
    assert all(other.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 ")) for other in others)


async def test_nothing_is_read_any_more_once_a_request_was_refused(web):
    served = []
    web.use(lambda req, res: served.append(req))
    async with await web.listen(0) as server:
        answers = await talk(server, b"hello\r\n\r\n" + b"a" * 100_000 + LINE + b"\r\n")
    assert len(answers) == 1
    assert served == []


@pytest.mark.parametrize("count", [MAX_HEADERS, MAX_HEADERS + 1])
async def test_the_number_of_headers_is_bounded_on_any_server(web, count):
    answer = await call(web, headers=[(f"x-{n}", "1") for n in range(count)])
    if count <= MAX_HEADERS:
        assert answer.status == 200
    else:
        assert answer.status == 431
        assert answer.json["className"] == "request-header-fields-too-large"
        assert answer.json["message"] == f"The request has over {MAX_HEADERS} headers"


UPGRADES = [
    b"upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABk\r\n",
    b"upgrade: websocket\r\nconnection: upgrade\r\n",
]


@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.parametrize("body", [b"content-length: 30\r\n", b"transfer-encoding: chunked\r\n"])
async def test_a_body_is_never_lost_to_an_upgrade_nor_read_as_the_next_request(web, upgrade, body):
    head = b"PUT /x HTTP/1.1\r\nhost: x\r\n" + upgrade + body + b"\r\n"
    async with await web.listen(0) as server:
        answers = await talk(server, head, b"DELETE /y HTTP/1.1\r\nhost: x\r\n\r\n")
    assert len(answers) == 1
    assert answers[0].startswith(b"HTTP/1.1 400 ")
    assert "cannot ask for an upgrade" in json.loads(answers[0].split(b"\r\n\r\n")[1])["message"]


async def test_an_upgrade_without_a_body_is_served_without_it(web):
    upgrade = b"upgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 0\r\n"
    async with await web.listen(0) as server:
        (answer,) = await talk(server, LINE + upgrade + b"\r\n")
    assert answer.endswith(b'["GET",0]')


async def test_trailers_are_no_headers(server, web):
    async def headers(req, res, next):
        res.set("x-trailer", req.get("x-late") or "none")
        await next()

    web.prepend_middleware(headers)
    head = b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    chunked = head + b"transfer-encoding: chunked\r\n\r\n1\r\n5\r\n0\r\n"
    (answer,) = await talk(server, chunked + b"x-late: yes\r\n\r\n")
    assert b"x-trailer: none" in answer
