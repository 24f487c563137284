"""One suite over socket.io, for both kinds of client, on Alula's server and that of FeathersJS."""

from __future__ import annotations

import asyncio
import queue
from contextlib import asynccontextmanager

import pytest
from tests.client.kinds import settled
from tests.client.test_both_servers import ADA, TestErrors, messages, room

from alula import errors
from alula.client import (
    EventsLost,
    authentication,
    create_client,
    create_sync_client,
    socketio,
)
from alula.client import _retries as retries_module

__all__ = ["messages", "room"]

SECONDS = 30


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(retries_module, "_FIRST_DELAY", 0.002)


@pytest.fixture(params=["alula", "feathers"])
def url(request):
    """The address of each server in turn."""
    return request.getfixturevalue(f"{request.param}_realtime_url")


@asynccontextmanager
async def connected(url, create=create_client, **given):
    client = create().configure(socketio(url, **given))
    try:
        yield client
    finally:
        await settled(client.close())


@pytest.fixture(params=[create_client, create_sync_client], ids=["async", "sync"])
async def client(url, request):
    """A client of each kind for each server."""
    async with connected(url, request.param) as client:
        yield client


async def next_of(stream):
    if hasattr(stream, "__anext__"):
        async with asyncio.timeout(SECONDS):
            return await anext(stream)
    return await asyncio.to_thread(stream.get, SECONDS)


class TestMethods:
    async def test_records_go_through_their_life(self, messages, room):
        made = await settled(messages.create({"text": "hällo \U0001f600", "room": room, "n": 1.5}))
        assert made == {"text": "hällo \U0001f600", "room": room, "n": 1.5, "id": made["id"]}
        assert await settled(messages.get(made["id"])) == made
        replaced = await settled(messages.update(made["id"], {"text": "new", "room": room}))
        assert replaced == {"text": "new", "room": room, "id": made["id"]}
        patched = await settled(messages.patch(made["id"], {"n": None}))
        assert patched == {**replaced, "n": None}
        assert await settled(messages.remove(made["id"])) == patched
        with pytest.raises(errors.NotFound, match="No record found"):
            await settled(messages.get(made["id"]))

    async def test_queries_keep_their_types(self, messages, room):
        await settled(messages.create([{"room": room, "n": n} for n in range(5)]))
        query = {"room": room, "$sort": {"n": -1}, "$limit": 2, "$select": ["n"]}
        page = await settled(messages.find(query={**query, "n": {"$in": [1, 2, 3]}}))
        assert page["total"] == 3
        assert [each["n"] for each in page["data"]] == [3, 2]
        page = await settled(messages.find(query={"room": room, "n": {"$in": []}}))
        assert page["total"] == 0

    async def test_many_at_once(self, messages, room):
        made = await settled(messages.create([{"room": room, "n": n} for n in range(3)]))
        assert [each["n"] for each in made] == [0, 1, 2]
        removed = await settled(messages.remove(None, query={"room": room}))
        assert {each["id"] for each in removed} == {each["id"] for each in made}

    async def test_custom_methods(self, client):
        calc = client.service("calc", methods=["sum", "noop", "fail"])
        answer = await settled(calc.sum({"values": [1, 2]}, query={"a": "b"}))
        assert answer == {"sum": 3, "query": {"a": "b"}, "provider": "socketio"}
        assert await settled(calc.noop({})) is None
        with pytest.raises(errors.Unprocessable, match="Can not process") as caught:
            await settled(calc.fail({"x": 1}))
        assert caught.value.data == {"given": {"x": 1}}
        with pytest.raises(errors.MethodNotAllowed):
            await settled(calc.get(1))

    async def test_binary_data(self, client):
        data = bytes(range(256))
        answer = await settled(client.service("bytes").create({"data": data}))
        assert answer == {"size": 256, "data": data}


class TestErrorsOverSockets(TestErrors):
    test_an_answer_that_is_no_json = None  # there is none but JSON here


del TestErrors


class TestEvents:
    async def test_of_calls_and_custom_ones(self, client):
        feed = client.service("feed", methods=["ping"])
        stream = feed.events()
        heard = queue.Queue()
        feed.on("created", heard.put)
        await settled(client.open())
        made = await settled(feed.create([{"n": 1}, {"n": 2}]))
        await settled(feed.patch(made[0]["id"], {"n": 3}))
        await settled(feed.ping({"p": 1}))
        events = [await next_of(stream) for _ in range(4)]
        assert [(event.event, event.data) for event in events] == [
            ("created", made[0]),
            ("created", made[1]),
            ("patched", {**made[0], "n": 3}),
            ("pinged", {"p": 1}),
        ]
        assert await asyncio.to_thread(heard.get, True, SECONDS) == made[0]

    async def test_after_a_break(self, client, url):
        told = queue.Queue()
        client.on("connect", told.put)
        feed = client.service("feed")
        stream = feed.events("created")
        await settled(client.open())
        async with connected(url) as other:
            with pytest.raises(errors.Unavailable):
                await other.service("cut").create({})
        assert await asyncio.to_thread(told.get, True, SECONDS) is False
        is_recovered = await asyncio.to_thread(told.get, True, SECONDS)
        if not is_recovered:
            with pytest.raises(EventsLost):
                await next_of(stream)
        made = await settled(feed.create({"n": 1}))
        assert (await next_of(stream)).data == made


class TestSigningIn:
    async def test_in_and_out(self, client):
        client.configure(authentication())
        secrets, whoami = client.service("secrets"), client.service("whoami")
        with pytest.raises(errors.NotAuthenticated):
            await settled(secrets.find())
        answer = await settled(client.login(ADA))
        assert answer["user"]["email"] == "ada@example.com"
        await settled(secrets.find())
        assert await settled(whoami.find()) == {"email": "ada@example.com", "provider": "socketio"}
        assert (await settled(client.re_authenticate(force=True)))["user"] == answer["user"]
        gone = await settled(client.logout())
        assert gone["user"]["id"] == answer["user"]["id"]
        assert client.authentication.storage == {}
        with pytest.raises(errors.NotAuthenticated):
            await settled(secrets.find())

    async def test_is_renewed_after_a_break(self, client, url):
        client.configure(authentication())
        await settled(client.login(ADA))
        told = queue.Queue()
        client.on("connect", told.put)
        async with connected(url) as other:
            with pytest.raises(errors.Unavailable):
                await other.service("cut").create({})
        await asyncio.to_thread(told.get, True, SECONDS)
        await settled(client.service("secrets").find())

    async def test_a_token_is_enough(self, client, url):
        client.configure(authentication())
        storage = {"alula-jwt": (await settled(client.login(ADA)))["accessToken"]}
        async with connected(url) as other:
            other.configure(authentication(storage=storage))
            assert (await other.service("whoami").find())["email"] == "ada@example.com"
            assert other.authentication.authenticated

    async def test_a_wrong_password(self, client):
        client.configure(authentication())
        with pytest.raises(errors.NotAuthenticated, match="Invalid login"):
            await settled(client.login(strategy="local", email="ada@example.com", password="x"))
        assert client.authentication.access_token is None


class TestTheHandshake:
    async def test_refused(self, url):
        async with connected(url, auth={"refuse": "because"}) as client:
            with pytest.raises(errors.Forbidden, match="no entry") as caught:
                await client.service("feed").find()
            assert caught.value.data == {"why": "because"}

    async def test_another_path(self, url):
        async with connected(url, path="/nowhere/", connect_timeout=0.5) as client:
            with pytest.raises(errors.FrameworkError) as caught:
                await client.open()
        assert caught.value.code in {403, 404, 503}
