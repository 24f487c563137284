"""The stream of all events, as FeathersJS 6 reads it."""

from __future__ import annotations

import pytest
from tests.authentication.building import add_authentication, add_user, login
from tests.conformance.test_recorded_v6 import items_of
from tests.realtime.test_sse import Stream, build

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import protect
from alula.realtime import sse


class Events(Stream):
    @property
    def events(self):
        return items_of(self.body.decode().removesuffix("data: the end\n\n"))


@pytest.fixture
async def app():
    app = build(feathers6="/live/", heartbeat=0.05)
    app.use("todos", MemoryService(start_id=1))
    app.on("connection", lambda connection: app.channel("all").join(connection))
    app.service("todos").publish(lambda *_: app.channel("all"))
    await app.setup()
    yield app
    await app.teardown()


CONNECTED = {"path": "live", "event": "connected", "data": {}}


async def test_all_events_come_without_any_hook_of_find(app):
    async def refuse(context):
        raise AssertionError("no list is found")

    app.service("todos").hooks(before={"find": [refuse]})
    stream = await Events(app, "/live", accept="application/json").started()
    created = await app.service("todos").create({"text": "a\nb"})
    await app.service("todos").patch(1, {"text": "c"})
    assert await stream.have(3) == [
        CONNECTED,
        {"path": "todos", "event": "created", "data": created},
        {"path": "todos", "event": "patched", "data": {"text": "c", "id": 1}},
    ]
    assert stream.headers["content-type"] == "text/event-stream"
    await stream.leave()
    assert app.channel_registry.connections == {}


async def test_a_value_without_a_json_form_is_left_out(app, caplog):
    stream = await Events(app, "/live").started()
    app.service("todos").emit("created", {"at": object()})
    await app.service("todos").create({"n": 1})
    assert [event["data"] for event in await stream.have(2)] == [{}, {"n": 1, "id": 1}]
    assert "cannot be sent as JSON" in caplog.text
    await stream.leave()


async def test_a_client_that_comes_back_with_an_id_gets_what_it_has_missed(app):
    stream = await Events(app, "/live").started()
    last = stream.last_id
    await stream.leave()
    await app.service("todos").create({"n": 1})
    stream = await Events(app, "/live", last=last).started()
    assert [event["event"] for event in await stream.have(2)] == ["connected", "created"]
    await stream.leave()
    stream = await Events(app, "/live", last="of another server").started()
    assert [event["event"] for event in await stream.have(2)] == ["connected", "reset"]
    await stream.leave()


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/live"), ("GET", "/live/1"), ("DELETE", "/live/1")]
)
async def test_it_can_only_be_read(app, method, path):
    status, message = await Events(app, path, method=method).error()
    assert (status, message) == (405, "/live is a stream of events: read it with GET /live")


async def test_the_head_alone(app):
    stream = Events(app, "/live", method="HEAD")
    await stream.until(lambda: stream.ended)
    assert (stream.status, stream.body) == (200, b"")


async def test_it_ends_with_the_sign_in(app):
    add_authentication(app)
    await add_user(app)
    token = (await app.service("authentication").create(login()))["accessToken"]
    headers = [("authorization", f"Bearer {token}")]
    status, message = await Events(app, "/live", headers=[("authorization", "Bearer x")]).error()
    assert (status, message) == (401, "jwt malformed")
    stream = await Events(app, "/live", headers=headers).started()
    for connection in [*app.channel_registry.connections.values()]:
        await connection.close("expired")
    await stream.until(lambda: stream.ended)
    assert [event["event"] for event in stream.events] == ["connected", "expired"]
    assert stream.body.endswith(b"data: the end\n\n")  # else its client stays away


async def test_a_ticket_opens_one_stream(app):
    add_authentication(app)
    await add_user(app)
    token = (await app.service("authentication").create(login()))["accessToken"]
    params = {"provider": "rest", "authentication": {"strategy": "jwt", "accessToken": token}}
    tickets = app.service("authentication/tickets")
    ticket = (await tickets.create({}, **params))["ticket"]
    stream = await Events(app, f"/live?ticket={ticket}&room=a").started()
    assert (await stream.have(1))[0]["data"] == {"room": "a"}  # and no ticket
    [connection] = app.channel_registry.connections.values()
    assert connection.user["email"]
    await stream.leave()
    assert (await Events(app, f"/live?ticket={ticket}").error())[0] == 401


async def test_it_counts_as_a_stream():
    app = build(feathers6="live", max_streams=1)
    first = await Events(app, "/live").started()
    assert await Events(app, "/live").error() == (503, "Too many streams")
    await first.leave()
    again = await Events(app, "/live").started()
    await again.leave()


async def test_hidden_properties_and_mounted_services(app):
    inner = App().use("users", MemoryService(start_id=1))
    inner.service("users").hooks(around=[protect("password")])
    app.use("inner", inner)
    app.service("inner/users").publish(lambda *_: app.channel("all"))
    stream = await Events(app, "/live").started()
    await inner.service("users").create({"name": "Ada", "password": "secret"})
    event = (await stream.have(2))[1]
    assert event == {"path": "inner/users", "event": "created", "data": {"name": "Ada", "id": 1}}
    await stream.leave()


def test_paths_that_cannot_be():
    with pytest.raises(TypeError, match="feathers6 is True; name a path"):
        sse(feathers6=True)
    with pytest.raises(TypeError, match="feathers6 is '/'; name a path"):
        sse(feathers6="/")
    with pytest.raises(ValueError, match="'/events' is the path of events_path, too"):
        sse(feathers6="/events")
