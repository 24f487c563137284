"""The head of an answer waits for the first part of its body, and nothing else waits."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace

import pytest

from alula.express import express
from alula.express._uvicorn.h11_guard import JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Transport:
    """Notes what is written, and whether it was closed."""

    def __init__(self):
        self.written = []
        self.closed = False

    def write(self, data):
        self.written.append(data)

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


@pytest.fixture
def transport():
    return Transport()


@pytest.fixture
def writes(transport):
    cycle = SimpleNamespace(more_body=False)
    return JoinedWrites(SimpleNamespace(transport=transport, written=0, cycle=cycle))


def test_head_and_first_part_go_together(writes, transport):
    writes.write(HEAD)
    assert transport.written == []
    writes.write(b"one")
    writes.write(b"two")
    assert transport.written == [HEAD + b"one", b"two"]


def test_an_empty_body_sends_the_head(writes, transport):
    writes.write(HEAD)
    writes.write(b"")
    assert transport.written == [HEAD]


def test_a_body_that_looks_like_a_head_is_no_head(writes, transport):
    for data in (HEAD, HEAD, HEAD):
        writes.write(data)
    assert transport.written == [HEAD + HEAD, HEAD]


def test_a_long_part_is_not_copied(writes, transport):
    part = bytes(64 * 1024 + 1)
    writes.write(HEAD)
    writes.write(part)
    assert transport.written[0] == HEAD
    assert transport.written[1] is part


def test_leave_to_send_the_body_does_not_wait(writes, transport):
    leave = b"HTTP/1.1 100 Continue\r\n\r\n"
    writes.write(leave)
    assert transport.written == [leave]
    writes.write(HEAD)
    writes.write(b"body")
    assert transport.written == [leave, HEAD + b"body"]


@pytest.mark.parametrize("written", [[], [HEAD], [HEAD, b"body"]])
def test_closing_sends_what_waits_first(writes, transport, written):
    for data in written:
        writes.write(data)
    assert not writes.is_closing()
    writes.close()
    assert b"".join(transport.written) == b"".join(written)
    assert transport.closed
    assert writes.is_closing()


class TestOnARealSocket:
    @pytest.fixture
    async def server(self):
        app = express()

        async def stream():
            yield b"first"
            await asyncio.sleep(0.05)
            yield b"second"

        app.get("/text", lambda req, res: res.send("hello"))
        app.get("/stream", lambda req, res: res.send(stream()))
        app.get("/nothing", lambda req, res: res.status(204).end())
        async with await app.listen(0) as server:
            yield server

    async def _packets(self, server, request: bytes) -> list[bytes]:
        loop = asyncio.get_running_loop()
        with socket.create_connection((server.host, server.port)) as sock:
            sock.setblocking(False)
            await loop.sock_sendall(sock, request)
            packets = []
            while data := await loop.sock_recv(sock, 65536):
                packets.append(data)
            return packets

    @pytest.mark.parametrize("path", ["/text", "/nothing"])
    async def test_an_answer_is_one_packet(self, server, path):
        request = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        (packet,) = await self._packets(server, request.encode())
        assert packet.startswith(b"HTTP/1.1 20")
        assert packet.endswith(b"hello" if path == "/text" else b"\r\n\r\n")

    async def test_a_stream_does_not_wait_for_its_end(self, server):
        request = b"GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        packets = await self._packets(server, request)
        assert packets[0].startswith(b"HTTP/1.1 200")
        assert b"first" in packets[0]
        assert b"second" not in packets[0]
        assert b"second" in b"".join(packets[1:])

    async def test_requests_one_behind_the_other_are_answered_in_order(self, server):
        request = b"GET /text HTTP/1.1\r\nHost: a\r\n\r\n"
        last = request.replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n")
        answer = b"".join(await self._packets(server, request * 2 + last))
        assert answer.count(b"HTTP/1.1 200") == answer.count(b"hello") == 3
