"""An application that offers the service of another server: what of a request goes there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from alula import Params
from alula.client import create_client, rest
from alula.client._codec import DefaultHeaders
from alula.express import api

JSON = {"Content-Type": "application/json"}


class Echo:
    """Tells the headers of its call."""

    async def ask(self, data: Any, params: Params):
        return {"headers": dict(params.headers)}


class Words:
    async def ask(self, data: Any, params: Params):
        for word in data:
            yield {"text": word}


@asynccontextmanager
async def front_of(service: Any, methods: list[str], offered: Any = None) -> AsyncIterator[Any]:
    """Yield a session, and the address of an application in front of one with the service."""
    origin = api().use("words", service, methods=methods)
    async with (
        await origin.listen(0) as server,
        create_client().configure(rest(server.url).fetch()) as client,
    ):
        remote = client.service("words", methods=["ask"])
        front = api().use("words", offered(remote) if offered else remote, methods=["ask"])
        async with await front.listen(0) as listening, aiohttp.ClientSession() as session:
            yield session, f"{listening.url}/words/ask"


@pytest.mark.parametrize(
    ("sent", "is_passed"),
    [
        ({"Authorization": "Bearer a"}, True),
        ({"Accept-Language": "de"}, True),
        ({"X-Tenant": "1"}, True),
        ({"Cookie": "session=1"}, False),
        ({"Accept": "application/jsonl, */*"}, False),
        ({"Accept-Encoding": "gzip, br"}, False),
        ({"Range": "bytes=0-1"}, False),
        ({"If-None-Match": "1"}, False),
        ({"Sec-Fetch-Site": "same-origin"}, False),
        ({"X-Forwarded-For": "10.0.0.1"}, False),
        ({"Origin": "https://app.example"}, False),
    ],
)
async def test_which_headers_go_on(sent, is_passed):
    async with (
        front_of(Echo(), ["ask"]) as (session, url),
        session.post(url, data=b'{ "a" :   1,  "b": 2 }', headers={**JSON, **sent}) as answer,
    ):
        assert answer.status in {200, 201}
        got = (await answer.json())["headers"]
    ((name, value),) = sent.items()
    assert (got.get(name.lower()) == value) is is_passed
    assert got["host"] not in url  # that of the other server


@pytest.mark.parametrize("provider", ["rest", "socketio", "mcp"])
def test_no_header_chooses_another_method(provider):
    # Those of a websocket are the headers of its handshake, whatever the client calls.
    params = Params({"provider": provider, "headers": {"x-service-method": "secret"}})
    made = DefaultHeaders()
    assert made.for_call("ask", params)["X-Service-Method"] == "ask"
    names = [name.lower() for name in made.for_call("create", params)]
    assert "x-service-method" not in names
    assert [*map(str.lower, made.for_call("ask", params))].count("x-service-method") == 1


async def test_a_stream_goes_on_by_a_method_of_ones_own():
    class Passing:
        def __init__(self, remote):
            self.remote = remote

        async def ask(self, data: Any, params: Params):
            async for word in await self.remote.ask(data):
                yield word

    async with (
        front_of(Words(), ["ask"], Passing) as (session, url),
        session.post(url, json=["a", "b"]) as answer,
    ):
        assert await answer.text() == 'data: {"text":"a"}\n\ndata: {"text":"b"}\n\n'


async def test_a_stream_that_is_offered_as_it_is_is_an_error(caplog):
    async with (
        front_of(Words(), ["ask"]) as (session, url),
        session.post(url, json=["a", "b"]) as answer,
    ):
        assert answer.status == 500
    assert "`ask` of 'words' streams, and clients of this application" in caplog.text
