"""Calls whose client goes away: they run to their end, or are cancelled where that is asked for."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from alula import App
from alula.express import access_log, error_handler, express, json, rest

SECONDS = 30


class Slow:
    """A service that notes what becomes of its calls."""

    def __init__(self):
        self.log = []
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.go_on = asyncio.Event()

    async def _call(self, result):
        self.begun.set()
        try:
            await self.go_on.wait()
            self.log.append("done")
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        finally:
            self.ended.set()
        return result

    async def get(self, id, params):
        return await self._call({"id": id})

    async def create(self, data, params):
        return await self._call(data)


@asynccontextmanager
async def served(formatter=None, **options):
    app = express(App())
    app.use(access_log(), json())
    app.configure(rest(formatter, **options))
    slow = Slow()
    app.use("slow", slow)
    app.use(error_handler())
    async with await app.listen(0) as server:
        yield slow, server


async def send(server, request):
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(request)
    return reader, writer


GET = b"GET /slow/1 HTTP/1.1\r\nhost: a\r\n\r\n"
POST = (
    b"POST /slow HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
    b'content-length: 7\r\n\r\n{"a":1}'
)


async def ends_with_its_client(slow, server, request):
    async with asyncio.timeout(SECONDS):
        _, writer = await send(server, request)
        await slow.begun.wait()
        writer.transport.abort()
        await slow.ended.wait()


@pytest.mark.parametrize("request_", [GET, POST])
async def test_a_call_is_cancelled_where_that_is_asked_for(request_, caplog):
    with caplog.at_level(logging.INFO):
        async with served(cancel_on_disconnect=True) as (slow, server):
            await ends_with_its_client(slow, server, request_)
            assert slow.log == ["cancelled"]
    text = "BadRequest: The client closed the connection; its call was cancelled"
    assert text in caplog.text
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("cancels", [(False, True), (True, False)])
async def test_each_application_says_it_for_its_own_services(cancels):
    outer, inner = (express(App()).configure(rest(cancel_on_disconnect=each)) for each in cancels)
    own, mounted = Slow(), Slow()
    outer.use("/in", inner.use("slow", mounted))
    outer.use("slow", own)
    async with await outer.listen(0) as server:
        requests = GET, GET.replace(b"/slow", b"/in/slow")
        for slow, request, is_cancelled in zip((own, mounted), requests, cancels, strict=True):
            if not is_cancelled:  # later than a cancellation would come
                asyncio.get_running_loop().call_later(0.3, slow.go_on.set)
            await ends_with_its_client(slow, server, request)
            assert slow.log == ["cancelled" if is_cancelled else "done"]


async def test_with_a_formatter_too():
    async with served(formatter=lambda req, res: res.json(res.data), cancel_on_disconnect=True) as (
        slow,
        server,
    ):
        await ends_with_its_client(slow, server, GET)
        assert slow.log == ["cancelled"]


async def test_a_call_runs_to_its_end_otherwise():
    async with served() as (slow, server):
        _, writer = await send(server, POST)
        await slow.begun.wait()
        writer.transport.abort()
        await asyncio.sleep(0.1)
        assert slow.log == []
        slow.go_on.set()
        await slow.ended.wait()
    assert slow.log == ["done"]


@pytest.mark.parametrize("request_", [GET, POST])
async def test_a_client_that_waits_gets_its_answer(request_):
    async with served(cancel_on_disconnect=True) as (slow, server):
        slow.go_on.set()
        reader, writer = await send(server, request_ + request_)
        for _ in range(2):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 20")
            await reader.readuntil(b"}")
        writer.close()


async def test_a_call_that_ends_with_its_client_is_not_cancelled_behind_its_end():
    async with served(cancel_on_disconnect=True) as (slow, server):
        _, writer = await send(server, GET)
        await slow.begun.wait()
        (connection,) = server._http_server.state.connections
        slow.go_on.set()
        connection._exchange.disconnect()
        await slow.ended.wait()
        await asyncio.sleep(0.05)
        writer.close()
    assert slow.log == ["done"]


async def test_the_end_of_the_server_is_not_taken_for_it():
    async with served(cancel_on_disconnect=True) as (slow, server):
        server._http_server.config.timeout_graceful_shutdown = 0.1
        reader, writer = await send(server, GET)
        await slow.begun.wait()
        await server.close()
        assert slow.log == ["cancelled"]
        assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
        writer.close()
