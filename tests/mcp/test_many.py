"""Many workers behind one address, and many calls at once."""

from __future__ import annotations

import asyncio
import itertools

import pytest
import uvicorn
from tests.express.serving import living
from tests.mcp.speaking import HOST, LEGACY, MODERN, call_tool, send
from tests.waiting import eventually

from alula.express import api
from alula.mcp import mcp
from mcp import Client

CALLS = 1_000


class Counter:
    """Counts the calls under way; `wait` and `drip` end when they may."""

    def __init__(self, name="one"):
        self.name = name
        self.calls = 0
        self.open = 0
        self.may_end = asyncio.Event()

    async def who(self, data: None, params):
        self.calls += 1
        return self.name

    async def wait(self, data: None, params):
        self.open += 1
        await self.may_end.wait()
        self.open -= 1
        return "x"

    async def drip(self, data: None, params):
        self.open += 1
        try:
            for at in range(4):
                self.calls += 1
                yield {"at": at}
            await self.may_end.wait()
        finally:
            self.open -= 1


METHODS = ["who", "wait", "drip"]


def make_app(service):
    app = api().use("c", service, methods=METHODS)
    return app.configure(mcp({"c": METHODS}, hosts=[HOST, "127.0.0.1:*"]))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_any_of_two_workers_answers_a_client(mode):
    services = Counter("one"), Counter("two")
    workers = [make_app(service) for service in services]
    for service in services:
        service.may_end.set()
    turns, seen = itertools.cycle(workers), []

    async def proxy(scope, receive, send):
        await next(turns)(scope, receive, send)

    async def see(progress, total, message):
        seen.append(message)

    config = uvicorn.Config(proxy, port=0, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    async with living(workers[0]), living(workers[1]):
        serving = asyncio.create_task(server.serve())
        await eventually(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with Client(f"http://127.0.0.1:{port}/mcp", mode=mode) as client:
            for _ in range(4):
                assert len((await client.list_tools()).tools) == len(METHODS)
                assert not (await client.call_tool("c_who")).is_error
                await client.call_tool("c_drip", progress_callback=see)
        server.should_exit = True
        await serving
    assert all(service.calls for service in services)
    assert seen == [f'{{"at":{at}}}' for at in range(4)] * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "version"), [("c_wait", LEGACY), ("c_wait", MODERN), ("c_drip", MODERN)]
)
async def test_a_thousand_calls_in_flight(tool, version):
    """All of them are under way at once, one more is answered meanwhile, and all of them end."""
    service = Counter()
    app = make_app(service)
    params = {"name": tool, "_meta": {"progressToken": 1}}
    async with living(app):
        calls = [
            asyncio.create_task(send(app, "tools/call", params, version=version))
            for _ in range(CALLS)
        ]
        await eventually(lambda: service.open == CALLS)
        assert await call_tool(app, "c_who", version=version) == (False, "one")
        service.may_end.set()
        answers = await asyncio.gather(*calls)
    assert {answer.status for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert service.open == 0


@pytest.mark.slow
@pytest.mark.parametrize(("version", "count"), [(LEGACY, 100), (MODERN, CALLS)])
async def test_many_clients_that_leave_leave_no_generator(version, count):
    service = Counter()
    app = make_app(service)
    async with living(app):
        calls = [
            asyncio.create_task(send(app, "tools/call", {"name": "c_drip"}, version=version))
            for _ in range(count)
        ]
        await eventually(lambda: service.open == count)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await eventually(lambda: service.open == 0)
        assert await call_tool(app, "c_who", version=version) == (False, "one")
