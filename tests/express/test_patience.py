"""Clients that owe the rest of a request and stay silent lose their connection, others do not."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from alula.express import express, patience
from alula.express import json as json_parser

LOOK = 0.1
HEAD = (
    b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n"
)
GET = b"GET /x HTTP/1.1\r\nhost: a\r\n\r\n"


@pytest.fixture(params=["httptools", "h11"])
async def server(request, monkeypatch):
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", LOOK)

    async def slow(req, res):
        await asyncio.sleep(5 * LOOK)
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
    async with await app.listen(0, http=request.param) as server:
        yield server


@asynccontextmanager
async def connected(server):
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def end_of(reader) -> bytes:
    """Return all that comes until the server closes the connection."""
    return await asyncio.wait_for(reader.read(), 30 * LOOK)


@pytest.mark.parametrize("sent", [GET[:20], HEAD, HEAD + b'{"a":'])
async def test_who_does_not_go_on_gets_a_408(server, sent):
    async with connected(server) as (reader, writer):
        writer.write(sent)
        head, _, body = (await end_of(reader)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert json.loads(body)["message"] == "The request did not arrive in time"


async def test_who_never_says_anything_hears_nothing(server):
    async with connected(server) as (reader, _):
        assert await end_of(reader) == b""


async def test_a_head_that_trickles_in_has_an_end(server):
    async with connected(server) as (reader, writer):
        answer = asyncio.create_task(end_of(reader))
        for byte in GET[:-1]:
            if answer.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(LOOK / 4)
        assert (await answer).startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_comes_slowly_is_waited_for(server):
    async with connected(server) as (reader, writer):
        writer.write(HEAD)
        for byte in b'{"a":1234}':
            writer.write(bytes([byte]))
            await asyncio.sleep(LOOK / 2)
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
            await asyncio.sleep(4 * LOOK)


async def test_who_owes_the_rest_of_a_body_that_nobody_wants(server):
    async with connected(server) as (reader, writer):
        writer.write(HEAD.replace(b"/x", b"/unread"))
        await asyncio.sleep(LOOK / 2)
        writer.write(b"{")
        assert (await end_of(reader)).endswith(b"unread")


async def test_an_answer_that_has_begun_is_cut_off(server):
    async with connected(server) as (reader, writer):
        writer.write(HEAD.replace(b"/x", b"/stream"))
        answer = await end_of(reader)
    assert b"begun" in answer
    assert b"408" not in answer


async def test_a_connection_that_became_a_websocket_is_left_alone():
    protocol = patience.Patience()
    protocol.connections = set()
    protocol._look()
    assert not hasattr(protocol, "_look_later")
