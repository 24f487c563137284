"""Streams of another server that an application passes on to its own clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.waiting import eventually

from alula import App, Params
from alula.authentication import protect
from alula.client import create_client, rest, socketio
from alula.errors import Conflict
from alula.express import error_handler, express, json
from alula.express import rest as rest_of_server
from alula.realtime import socketio as socketio_of_server


def over_rest(url):
    return rest(url).fetch()


class Assistant:
    def __init__(self):
        self.open = 0

    async def ask(self, data: Any, params: Params):
        self.open += 1
        try:
            for word in data:
                if word == "wait":
                    await asyncio.Event().wait()
                if word == "conflict":
                    raise Conflict("taken")
                yield {"text": word, "password": "canary"}
        finally:
            self.open -= 1

    async def plain(self, data, params):
        return data


METHODS = ["ask", "plain"]


@pytest.fixture
async def origin():
    service = Assistant()
    app = express(App()).use(json()).configure(rest_of_server()).configure(socketio_of_server())
    app.use("assistant", service, methods=METHODS).use(error_handler())
    async with await app.listen(0) as server:
        yield service, server.url


def front(service, connection, is_mounted):
    app = express(App()).use(json()).configure(rest_of_server()).configure(socketio_of_server())
    if is_mounted:
        client = create_client().configure(connection)
        app.use("assistant", client.service("assistant", methods=METHODS), methods=METHODS)
    else:
        remote = connection.service("assistant", methods=METHODS)
        app.use("assistant", remote, methods=METHODS)
    app.service("assistant").hooks(around={"ask": [protect("password")]})
    return app.use(error_handler())


@pytest.fixture(params=[over_rest, socketio], ids=["rest", "socketio"])
async def behind(request, origin):
    connection = request.param(origin[1])
    yield connection
    await connection.close()


@pytest.fixture(params=[over_rest, socketio], ids=["to rest", "to socketio"])
def ahead(request):
    return request.param


@pytest.mark.parametrize("is_mounted", [False, True])
async def test_a_stream_is_passed_on(origin, behind, ahead, is_mounted):
    service, _ = origin
    app = front(service, behind, is_mounted)
    async with (
        await app.listen(0) as server,
        create_client().configure(ahead(server.url)) as client,
    ):
        assistant = client.service("assistant", methods=METHODS)
        assert await assistant.plain([1]) == [1]
        items = [item async for item in await assistant.ask(["a", "b"])]
        assert items == [{"text": "a"}, {"text": "b"}]
        with pytest.raises(Conflict):
            await assistant.ask(["conflict"])
        stream = await assistant.ask(["a", "conflict"])
        assert await anext(stream) == {"text": "a"}
        with pytest.raises(Conflict):
            await anext(stream)
        stream = await assistant.ask(["a", "wait"])
        assert await anext(stream) == {"text": "a"}
        assert service.open == 1
        await stream.aclose()
        await eventually(lambda: service.open == 0)


async def test_a_hook_that_fails_closes_the_stream(origin, behind, ahead):
    service, _ = origin
    app = front(service, behind, is_mounted=False)

    def fail(context):
        raise Conflict("not now")

    app.service("assistant").hooks(after={"ask": [fail]})
    async with (
        await app.listen(0) as server,
        create_client().configure(ahead(server.url)) as client,
    ):
        with pytest.raises(Conflict, match="not now"):
            await client.service("assistant", methods=METHODS).ask(["a", "wait"])
        await eventually(lambda: service.open == 0)


async def test_a_client_that_has_left_before_the_answer(origin, behind):
    service, _ = origin
    app = front(service, behind, is_mounted=False)
    waits, gate = asyncio.Event(), asyncio.Event()

    async def wait(context):
        waits.set()
        await gate.wait()

    app.service("assistant").hooks(after={"ask": [wait]})
    async with await app.listen(0) as server:
        async with create_client().configure(socketio(server.url)) as client:
            call = asyncio.ensure_future(
                client.service("assistant", methods=METHODS).ask(["a", "wait"])
            )
            await waits.wait()
            call.cancel()
        await eventually(lambda: not app.channel_registry.connections)
        assert service.open == 1
        gate.set()
        await eventually(lambda: service.open == 0)
