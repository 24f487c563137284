"""`RealtimeClient`: it sees what a client over a network would."""

from __future__ import annotations

import asyncio
import datetime

import pytest
from tests.waiting import settle

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import Forbidden, FrameworkError, NotFound, Unavailable
from alula.express import express
from alula.realtime import socketio
from alula.testing import RealtimeClient, ReceivedEvent


class Echo:
    async def find(self, params):
        return {"name": params.get("name"), "ip": params.ip, "provider": params.provider}

    async def create(self, data, params):
        return {**data, "at": datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)}


class Slow:
    async def create(self, data, params):
        await asyncio.sleep(10)


@pytest.fixture
def app():
    transport = socketio()

    @transport.use
    async def name(connection, handshake, next):
        if "refuse" in handshake.query:
            raise FrameworkError("no entry", {"why": "because"})
        connection.name = handshake.auth.get("name")
        await next()

    app = express(App()).configure(transport)
    app.use("echo", Echo()).use("slow", Slow()).use("messages", MemoryService(start_id=1))
    app.on("connection", lambda connection: app.channel("all").join(connection))
    app.publish(lambda data, context: app.channel("all"))
    return app


async def test_it_calls_and_hears_in_the_form_that_clients_get(app):
    async with RealtimeClient(app, auth={"name": "Ada"}) as ada, RealtimeClient(app) as bob:
        assert await ada.call("find", "echo") == {
            "name": "Ada",
            "ip": "127.0.0.1",
            "provider": "socketio",
        }
        record = {"text": "Hello", "at": "2026-01-31T00:00:00.000Z"}
        assert await ada.call("create", "echo", {"text": "Hello"}) == record
        assert await bob.next_event() == ReceivedEvent("echo created", record)
        assert bob.events == []


async def test_bytes_travel_as_attachments(app):
    async with RealtimeClient(app) as client:
        created = await client.call("create", "messages", {"file": b"\x00\xff"})
        assert created == {"id": 1, "file": b"\x00\xff"}
        assert (await client.next_event()).data == created


async def test_an_event_of_another_name_stays(app):
    async with RealtimeClient(app) as client:
        await client.call("create", "messages", {"text": "Hi"})
        await client.call("patch", "messages", 1, {"text": "Hello"})
        assert (await client.next_event("messages patched")).data["text"] == "Hello"
        assert [event.name for event in client.events] == ["messages created"]
        with pytest.raises(TimeoutError, match=r"no event messages removed .*messages created"):
            await client.next_event("messages removed", within=0.01)
        waiting = asyncio.create_task(client.next_event("messages removed"))
        await client.call("remove", "messages", 1)
        assert (await waiting).data["id"] == 1


async def test_the_error_of_a_call_is_raised(app):
    async with RealtimeClient(app) as client:
        with pytest.raises(NotFound, match="7"):
            await client.call("get", "messages", 7)


async def test_a_refused_join_raises_what_the_client_is_sent(app):
    with pytest.raises(FrameworkError, match="no entry") as caught:
        await RealtimeClient(app, query={"refuse": "1"}).connect()
    assert caught.value.data == {"why": "because"}
    assert app.channels == []


async def test_a_refused_handshake_raises(app):
    stranger = RealtimeClient(app, headers={"origin": "https://evil.example", "cookie": "a=b"})
    with pytest.raises(Forbidden, match="handshake"):
        await stranger.connect()


async def test_an_application_without_the_transport_is_refused(app):
    with pytest.raises(RuntimeError, match=r"'/live/'.*app\.configure\(socketio\(\)\)"):
        await RealtimeClient(app, path="/live/").connect()
    with pytest.raises(TypeError, match=r"write app = express\(App\(\)\)"):
        RealtimeClient(App())


async def test_it_has_to_be_connected(app):
    client = RealtimeClient(app)
    with pytest.raises(RuntimeError, match=r"call.*`async with RealtimeClient"):
        await client.call("find", "echo")
    with pytest.raises(RuntimeError, match=r"next_event.*`async with RealtimeClient"):
        await client.next_event()


async def test_any_asgi_application_may_refuse():
    async def refusing(scope, receive, send):
        await send({"type": "websocket.close", "code": 1000})

    with pytest.raises(Forbidden, match="handshake"):
        await RealtimeClient(refusing).connect()


async def test_when_the_server_closes_calls_fail(app):
    async with RealtimeClient(app) as client:
        assert client.is_connected
        connection = next(iter(app.channel("all").connections))
        call = asyncio.create_task(client.call("create", "slow", {}))
        await asyncio.sleep(0)
        await connection.close()  # tells the client to stay away
        await settle()
        await client.close()
        assert not client.is_connected
        with pytest.raises(Unavailable, match="closed the connection"):
            await call
        with pytest.raises(Unavailable, match="is closed"):
            await client.call("find", "echo")


async def test_it_connects_once(app):
    client = RealtimeClient(app)
    assert not client.is_connected
    await client.close()  # nothing to close
    await client.connect()
    with pytest.raises(RuntimeError, match="connected already"):
        await client.connect()
    await client.close()
    assert app.channels == []


async def test_it_answers_heartbeats():
    app = express(App()).configure(socketio(ping_interval=0.02, ping_timeout=1.5))
    app.use("echo", Echo())
    async with RealtimeClient(app) as client:
        await asyncio.sleep(1.8)  # longer than both
        assert (await client.call("find", "echo"))["provider"] == "socketio"


async def test_an_application_that_fails_ends_the_client():
    async def app(scope, receive, send):
        await receive()
        raise RuntimeError("broken")

    with pytest.raises((Unavailable, RuntimeError), match=r"closed|broken"):
        await RealtimeClient(app).connect()


@pytest.mark.parametrize("origin", ["http://[", "null", "", "://"])
async def test_an_origin_that_is_no_address_is_that_of_a_stranger(app, origin):
    with pytest.raises(Forbidden, match="handshake"):
        await RealtimeClient(app, headers={"origin": origin, "cookie": "a=b"}).connect()
