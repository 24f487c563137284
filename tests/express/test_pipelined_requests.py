"""Requests that are sent before the responses to those before them: bounds, order, and ends."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from tests.waiting import eventually

from alula.express import express
from alula.express._http1.protocol import _MAX_WAITING

SECONDS = 30
HOST = b"host: a\r\n"
SLOW = b"GET /slow HTTP/1.1\r\n" + HOST + b"\r\n"
QUICK = b"GET /quick HTTP/1.1\r\n" + HOST + b"\r\n"
BROKEN = b"POST /quick HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\nZZ\r\n"
HANDSHAKE = (
    b"GET /socket HTTP/1.1\r\n" + HOST + b"upgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@asynccontextmanager
async def served(**options):
    """Serve an application whose slow responses wait for ``app.go``."""
    app = express()
    app.go, app.ends = asyncio.Event(), []

    async def parts():
        yield b"begun,"
        await app.go.wait()
        yield b"ended"

    async def slow(req, res):
        try:
            await app.go.wait()
        finally:
            app.ends.append("slow")
        res.json("slow")

    async def until_gone(req, res):
        while (await req.receive())["type"] != "http.disconnect":
            pass
        app.ends.append("gone")

    app.get("/slow", slow)
    app.get("/quick", lambda req, res: res.json("quick"))
    app.get("/stream", lambda req, res: res.set("content-length", 11).send(parts()))
    app.get("/until-gone", until_gone)
    async with await app.listen(0, **options) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        try:
            async with asyncio.timeout(SECONDS):
                yield app, server, reader, writer
        finally:
            app.go.set()
            writer.close()


def connection_of(server):
    (connection,) = server._http_server.state.connections
    return connection


def bodies(answer):
    """Return status and body of each response."""
    found = []
    while answer:
        head, _, answer = answer.partition(b"\r\n\r\n")
        (length,) = (
            int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")
        )
        found.append((int(head[9:12]), answer[:length]))
        answer = answer[length:]
    return found


async def test_no_more_than_some_wait_and_the_connection_ends_behind_them():
    async with served() as (app, server, reader, writer):
        writer.write(SLOW + QUICK * 1000)
        await eventually(lambda: server._http_server.state.connections)
        connection = connection_of(server)
        await eventually(lambda: len(connection._waiting) == _MAX_WAITING)
        app.go.set()
        answer = bodies(await reader.read())
    assert answer == [(200, b'"slow"'), *[(200, b'"quick"')] * _MAX_WAITING]


async def test_nothing_is_read_until_all_that_wait_have_run():
    async with served() as (app, server, reader, writer):
        writer.write(SLOW + QUICK)
        await eventually(lambda: server._http_server.state.connections)
        connection = connection_of(server)
        await eventually(lambda: connection._reading_paused)
        app.go.set()
        assert (await reader.readuntil(b'"quick"')).count(b"HTTP/1.1 200") == 2
        await eventually(lambda: not connection._reading_paused)
        writer.write(QUICK)
        await reader.readuntil(b'"quick"')


async def test_who_leaves_ends_the_request_that_runs():
    async with served() as (app, server, _, writer):
        writer.write(SLOW.replace(b"slow", b"until-gone") + QUICK * 2)
        await eventually(lambda: server._http_server.state.connections)
        writer.close()
        await eventually(lambda: app.ends == ["gone"])
        await eventually(lambda: not server._http_server.state.connections)


async def body_first(req, res):
    await req.receive()  # has the server read on
    await req.app.go.wait()
    req.app.ends.append("body first")
    res.json("late")


async def test_who_leaves_while_others_wait_ends_none_that_does_not_look():
    async with served() as (app, server, _, writer):
        app.get("/body-first", body_first)
        writer.write(SLOW.replace(b"slow", b"body-first") + QUICK * 2)
        await eventually(lambda: server._http_server.state.connections)
        writer.close()
        await eventually(lambda: not server._http_server.state.connections)
        assert app.ends == []
        app.go.set()
        await eventually(lambda: app.ends == ["body first"])


async def test_the_path_of_a_mount_comes_before_that_of_the_request():
    async with served(root_path="/mount") as (_, _, reader, writer):
        writer.write(QUICK)
        await reader.readuntil(b'"quick"')


@pytest.mark.parametrize("pieces", [1, 2])
async def test_an_error_behind_a_response_comes_after_it(pieces):
    async with served() as (app, _, reader, writer):
        first = SLOW.replace(b"slow", b"stream")
        if pieces == 1:
            writer.write(first + BROKEN)
            begun = await reader.readuntil(b"begun,")
        else:
            writer.write(first)
            begun = await reader.readuntil(b"begun,")
            writer.write(BROKEN)
            await asyncio.sleep(0.05)
        app.go.set()
        (first, second) = bodies(begun + await reader.read())
    assert first == (200, b"begun,ended")
    assert (second[0], json.loads(second[1])["name"]) == (400, "BadRequest")


async def test_what_is_no_request_behind_others_lets_them_end():
    async with served() as (app, _, reader, writer):
        writer.write(SLOW + QUICK + b"NO REQUEST\r\n\r\n")
        await asyncio.sleep(0.05)
        app.go.set()
        assert bodies(await reader.read()) == [(200, b'"slow"'), (200, b'"quick"')]


async def test_the_end_of_the_server_breaks_off_the_response_that_runs():
    options = {"timeout_graceful_shutdown": 0.1}
    async with served(**options) as (_, server, reader, writer):
        writer.write(SLOW.replace(b"slow", b"stream"))
        begun = await reader.readuntil(b"begun,")
        writer.write(QUICK)
        await eventually(lambda: connection_of(server)._reading_paused)
        await server.close()
        assert (begun + await reader.read()).endswith(b"\r\n\r\nbegun,")


async def test_an_upgrade_does_not_overtake_the_response_before_it():
    async with served() as (app, server, reader, writer):
        app.add_endpoint("/socket", app)
        writer.write(SLOW + HANDSHAKE)
        await eventually(lambda: server._http_server.state.connections)
        app.go.set()
        assert bodies(await reader.read()) == [(200, b'"slow"')]


async def test_what_follows_an_upgrade_that_is_ignored_is_read():
    async with served() as (_, _, reader, writer):
        upgrade = QUICK.replace(HOST, HOST + b"upgrade: h2c\r\nconnection: upgrade\r\n")
        writer.write(upgrade * 3 + QUICK)
        answer = b""
        while answer.count(b'"quick"') < 4:
            answer += await reader.read(1000)


@pytest.mark.parametrize("version", [b"2.0", b"0.9", b"1.2"])
async def test_other_versions_of_http_are_refused(version):
    async with served() as (_, _, reader, writer):
        writer.write(QUICK.replace(b"1.1", version))
        assert bodies(await reader.read())[0][0] == 400


async def test_a_client_of_http_1_0_gets_no_chunks_and_no_100():
    async with served() as (app, _, reader, writer):
        app.get("/parts", lambda req, res: res.send(parts()))

        async def parts():
            yield b"one,"
            yield b"two"

        writer.write(b"GET /parts HTTP/1.0\r\nexpect: 100-continue\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"chunked" not in head
    assert body == b"one,two"


@pytest.mark.parametrize("path", [b"/result", b"/with-header", b"/missing"])
async def test_a_response_to_who_waits_for_a_100_closes_the_connection(path):
    """It may keep its body then, and the next request would be taken for that."""
    async with served() as (app, _, reader, writer):
        app.get("/result", lambda req, res: res.send_result("at once"))
        app.get("/with-header", lambda req, res: res.set("x-a", "b").json("by messages of ASGI"))
        writer.write(
            b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"content-length: 5\r\n"
            b"expect: 100-continue\r\n\r\n"
        )
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(QUICK)
        rest = await reader.read()
    assert head.lower().count(b"connection: close") == 1
    assert b"HTTP/1.1" not in rest


async def test_a_head_that_stalls_on_a_kept_connection_gets_a_408():
    limits = {"read_timeout": 0.4, "timeout_keep_alive": 5}
    async with served(**limits) as (_, _, reader, writer):
        writer.write(QUICK + QUICK[:10])
        assert [status for status, _ in bodies(await reader.read())] == [200, 408]
