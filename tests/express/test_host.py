"""A request has one valid Host, and one way to tell the length of its body (RFC 9112, 3.2, 6.1)."""

from __future__ import annotations

import asyncio
import json as stdlib

import pytest

from alula.express import error_handler, express, json

ONE_HOST = "one header Host"
VALID_HOST = "Host is not valid"


@pytest.fixture
async def server():
    app = express().use(json())
    app.all("/", lambda req, res: res.json({"host": req.get("host"), "body": req.body or None}))
    app.use(error_handler(logger=False))
    async with await app.listen(0) as server:
        yield server


async def ask(server, data):
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(data)
    writer.write_eof()
    async with asyncio.timeout(20):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), stdlib.loads(body), head.lower()


HOSTS = [
    b"",
    b"a",
    b"example.com",
    b"example.com:80",
    b"example.com:",
    b"a_b.example-1.com",
    b"127.0.0.1:3030",
    b"[::1]:3030",
    b"[fe80::1%25eth0]",
    b"xn--bcher-kva.example",
    b"a%41b",
]
WRONG = [
    b"user@a",
    b"a/path",
    b"a, b",
    b"a,b",
    b"a b",
    b"a:b",
    b"a:80:80",
    b"::1",
    b"[::1",
    b"[]",
    b"a%4",
    b"a?x",
    b"a#x",
    b"a\\b",
    b"http://a",
    b"b\xc3\xbccher.example",
    b'"a"',
    b"<a>",
]


@pytest.mark.parametrize("host", HOSTS)
async def test_valid_hosts(server, host):
    request = b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host
    status, body, _ = await ask(server, request)
    assert (status, body["host"]) == (200, host.decode())


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("host", WRONG)
async def test_other_hosts_are_refused(server, host, version):
    request = b"GET / HTTP/%s\r\nHost: %s\r\n\r\n" % (version, host)
    status, body, head = await ask(server, request)
    assert status == 400
    assert VALID_HOST in body["message"]
    assert b"connection: close" in head


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("second", [b"Host: a", b"host: b", b"HOST:"])
async def test_two_hosts_are_refused(server, second, version):
    request = b"GET / HTTP/%s\r\nHost: a\r\n%s\r\n\r\n" % (version, second)
    status, body, _ = await ask(server, request)
    assert (status, body["code"]) == (400, 400)


async def test_no_host_is_refused_except_for_http_1_0(server):
    status, body, _ = await ask(server, b"GET / HTTP/1.1\r\n\r\n")
    assert (status, body["code"]) == (400, 400)
    status, body, _ = await ask(server, b"GET / HTTP/1.0\r\n\r\n")
    assert (status, body["host"]) == (200, None)


async def test_the_second_request_of_a_connection_is_looked_at_as_well(server):
    good = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    reader, writer = await asyncio.open_connection(server.host, server.port)
    async with asyncio.timeout(20):
        writer.write(good)
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        writer.write(good.replace(b"Host: a", b"Host: user@a"))
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_a_websocket_needs_a_valid_host_as_well(server):
    request = (
        b"GET / HTTP/1.1\r\nHost: user@a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    status, body, _ = await ask(server, request)
    assert status == 400
    assert VALID_HOST in body["message"]


async def test_chunks_are_refused_for_http_1_0(server):
    request = (
        b"POST / HTTP/1.0\r\nHost: a\r\nContent-Type: application/json\r\n"
        b'Transfer-Encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n0\r\n\r\n'
    )
    status, body, _ = await ask(server, request)
    assert status == 400
    assert "HTTP/1.0" in body["message"]
    status, body, _ = await ask(server, request.replace(b"HTTP/1.0", b"HTTP/1.1"))
    assert (status, body["body"]) == (200, {"a": 1})
