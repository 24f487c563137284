"""What a request leaves in context variables stays with it, on connections that serve many."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from alula.express import express
from alula.express import json as json_parser

left_behind: ContextVar[str] = ContextVar("left_behind", default="nothing")

GET = b"GET /%d HTTP/1.1\r\nhost: a\r\n\r\n"
# So much that the server stops to read, and begins again on behalf of the request.
LARGE = b'{"a": "%s"}' % (b"x" * 400_000)
POST = (
    b"POST /0 HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
)


@pytest.fixture
async def connection(request):
    def found(req, res):
        before = left_behind.get()
        left_behind.set(req.path)
        res.send(f"<{before}>")

    app = express()
    app.use(json_parser(limit="1mb"))
    app.use(found)
    token = left_behind.set("at the start")
    async with await app.listen(0) as server:
        left_behind.reset(token)
        reader, writer = await asyncio.open_connection(server.host, server.port)
        yield reader, writer
        writer.close()


async def answered(reader) -> bytes:
    head = await asyncio.wait_for(reader.readuntil(b">"), 30)
    return head[head.index(b"<") :]


async def test_requests_that_follow_a_large_body_begin_without_what_it_left(connection):
    reader, writer = connection
    writer.write(POST % len(LARGE) + LARGE)
    assert await answered(reader) == b"<at the start>"
    for number in (1, 2):
        writer.write(GET % number)
        assert await answered(reader) == b"<at the start>"


async def test_requests_sent_at_once_begin_without_what_those_before_left(connection):
    reader, writer = connection
    writer.write(b"".join(GET % number for number in range(4)))
    assert [await answered(reader) for _ in range(4)] == [b"<at the start>"] * 4


@pytest.mark.parametrize("has_factory", [False, True], ids=["the loop's own", "a factory"])
async def test_a_task_factory_of_the_loop_makes_the_tasks_of_requests(has_factory):
    class Named(asyncio.Task):
        pass

    def make(loop, coroutine, **options):
        return Named(coroutine, loop=loop, **options)

    loop = asyncio.get_running_loop()
    app = express().use(lambda req, res: res.send(f"<{type(asyncio.current_task()).__name__}>"))
    before = loop.get_task_factory()
    loop.set_task_factory(make if has_factory else None)
    try:
        async with await app.listen(0) as server:
            reader, writer = await asyncio.open_connection(server.host, server.port)
            writer.write(GET % 0)
            assert await answered(reader) == (b"<Named>" if has_factory else b"<Task>")
            writer.close()
    finally:
        loop.set_task_factory(before)
