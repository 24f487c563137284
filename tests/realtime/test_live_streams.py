"""Live lists as streams of server-sent events."""

from __future__ import annotations

import time

import pytest
from tests.realtime.test_sse import Stream
from tests.waiting import eventually

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import Forbidden
from alula.express import error_handler, express, rest
from alula.express import json as json_parser
from alula.realtime import _event_stream, _live_stream, sse


@pytest.fixture
async def app():
    app = express(App()).use(json_parser()).configure(rest()).configure(sse(heartbeat=0.05))
    app.use("todos", MemoryService(start_id=1, multi=True)).use(error_handler(logger=False))
    app.service("todos").live(pause=0.001)
    await app.setup()
    yield app
    await app.teardown()


@pytest.fixture
async def connect(app):
    streams = []

    async def connect(url, **options):
        streams.append(Stream(app, url, **options))
        return await streams[-1].started()

    yield connect
    for stream in streams:
        stream.reading.set()
        await stream.leave()


async def opened(connecting, count):
    """Return a stream that has so many events."""
    stream = await connecting
    await stream.have(count)
    return stream


async def test_a_list_follows_the_records(app, connect):
    todos = app.service("todos")
    await todos.create([{"text": "a"}, {"text": "b"}])
    stream = await connect("/todos?$live=true&text=a")
    await stream.have(1)
    await todos.patch(2, {"text": "a"})
    await stream.have(2)
    await todos.patch(1, {"text": "b"})
    await stream.have(3)
    first = {"text": "a", "id": 1}
    assert stream.events == [
        ("snapshot", {"rows": [first]}),
        ("entered", {"at": 1, "data": {"text": "a", "id": 2}}),
        ("left", {"id": 1}),
    ]
    assert all(have.startswith("L.") for _, _, have in stream.blocks)
    await eventually(lambda: b"\n:\n\n" in stream.body)


async def test_who_comes_back_gets_only_what_differs(app, connect):
    todos = app.service("todos")
    await todos.create({"text": "a"})
    first = await opened(connect("/todos?$live=true"), 1)
    again = await opened(connect("/todos?$live=true", last=first.last_id), 1)
    assert again.events == [("unchanged", None)]
    other = await opened(connect("/todos?$live=true&text=a", last=first.last_id), 1)
    assert other.events[0][0] == "snapshot"
    await todos.create({"text": "b"})
    later = await opened(connect("/todos?$live=true", last=first.last_id), 1)
    assert later.events[0][0] == "snapshot"


@pytest.mark.parametrize(
    ("url", "status", "message"),
    [
        ("/todos?$live=maybe", 400, "$live is true, or left out"),
        ("/todos?$live=true&$limit=x", 400, "$limit"),
        ("/others?$live=true", 405, "has no live lists"),
    ],
)
async def test_what_cannot_be_a_list_is_refused(app, url, status, message):
    app.use("others", MemoryService())
    stream = Stream(app, url)
    assert await stream.until(lambda: stream.ended)
    assert stream.status == status
    assert message.encode() in stream.body
    await stream.leave()


async def test_without_an_event_stream_live_is_an_error(app):
    stream = Stream(app, "/todos?$live=true", accept="application/json")
    await stream.until(lambda: stream.ended)
    assert stream.status == 400
    await stream.leave()


async def test_a_slow_reader_gets_the_list_when_it_reads_again(app, connect, monkeypatch):
    monkeypatch.setattr(_live_stream, "MAX_QUEUED", 3)
    todos = app.service("todos")
    stream = await opened(connect("/todos?$live=true"), 1)
    (connection,) = app.channel_registry.connections.values()
    stream.reading.clear()
    for _ in range(10):
        await todos.create({"text": "x"})
        await app.settings["live lists"].settled(connection)
    stream.reading.set()
    await stream.until(lambda: stream.events[-1][0] == "reset")
    assert len(stream.events[-1][1]["rows"]) == 10
    assert stream.events[-1][1]["why"] == "slow"
    await todos.create({"text": "y"})
    await stream.until(lambda: stream.events[-1][0] == "entered")


async def test_a_list_ends_with_the_right_to_find(app, connect):
    todos = app.service("todos")
    stream = await opened(connect("/todos?$live=true"), 1)

    async def refuse(context):
        raise Forbidden("not any more")

    todos.hooks(before={"find": [refuse]})
    await todos.create({"text": "x"})
    await stream.until(lambda: stream.ended)
    assert stream.events[-1][0] == "closed"
    assert stream.events[-1][1]["error"]["code"] == 403
    assert app.settings["live lists"]._groups == {}


async def test_a_connection_that_is_closed_ends_the_list(app, connect):
    stream = await opened(connect("/todos?$live=true"), 1)
    (connection,) = app.channel_registry.connections.values()
    assert connection.queued == 0
    connection.deliver(None)  # an event of a service: the list tells more
    await connection.close("expired")
    await stream.until(lambda: stream.ended)
    assert stream.events[-1] == ("expired", None)


async def test_a_connection_that_is_closed_before_the_stream_begins(app):
    """A sign-in may have ended while the list was read."""

    async def close(context):
        await context.params.connection.close("expired")

    app.service("todos").hooks(before={"find": [close]})
    stream = Stream(app, "/todos?$live=true")
    await stream.until(lambda: stream.ended)
    assert stream.events == [("snapshot", {"rows": []}), ("expired", None)]
    await stream.leave()
    assert app.settings["live lists"]._groups == {}


async def test_lost_events_are_no_reset_but_the_list_is_read_again(app, connect):
    todos = app.service("todos")
    stream = await opened(connect("/todos?$live=true"), 1)
    await todos.service.create({"text": "a"}, {})
    app.channel_registry.report_gap()
    await stream.have(2)
    assert [kind for kind, _ in stream.events] == ["snapshot", "entered"]


async def test_channels_that_it_joins_count_for_find(app, connect):
    @app.on("connection")
    def join(connection):
        app.channel("red").join(connection)

    async def restrict(context):
        if context.params.provider:
            channels = context.params.connection.channels
            context.params.query["team"] = channels[0] if channels else "none"

    todos = app.service("todos")
    todos.hooks(before={"find": [restrict]})
    await todos.create({"team": "red"})
    stream = await opened(connect("/todos?$live=true"), 2)
    assert [kind for kind, _ in stream.events] == ["snapshot", "reset"]


async def test_a_list_ends_with_its_token(app, connect):
    def sign_in(context):
        context.params.authentication = {"payload": {"exp": time.time() + 1.5}}

    app.service("todos").hooks(before={"find": [sign_in]})
    stream = await opened(connect("/todos?$live=true"), 1)
    await stream.until(lambda: stream.ended)
    assert [kind for kind, _ in stream.events] == ["snapshot", "expired"]


async def test_callers_with_other_headers_share_nothing(app, connect):
    """A hook may know the caller by a header alone, such as a token."""

    async def own(context):
        if context.params.provider:
            context.params.query["owner"] = context.params.headers["x-user"]

    todos = app.service("todos")
    todos.hooks(before={"find": [own]})
    await todos.create([{"owner": "ann"}, {"owner": "bob"}])
    ann = await opened(connect("/todos?$live=true", headers=[("x-user", "ann")]), 1)
    bob = await opened(connect("/todos?$live=true", headers=[("x-user", "bob")]), 1)
    await todos.create([{"owner": "ann"}, {"owner": "bob"}])
    for stream, other in ((ann, "bob"), (bob, "ann")):
        await stream.have(2)
        assert other.encode() not in stream.body


async def test_a_list_that_has_ended_before_it_is_sent_tells_its_end(app, monkeypatch):
    monkeypatch.setattr(_event_stream, "END_SECONDS", 0.01)
    todos = app.service("todos")

    @app.on("connection")
    async def end(connection):
        app.service("todos").hooks(before={"find": [refuse]})
        await todos.create({"text": "x"})
        await eventually(lambda: app.settings["live lists"]._groups == {})

    async def refuse(context):
        raise Forbidden("not any more")

    stream = Stream(app, "/todos?$live=true")
    await stream.until(lambda: stream.ended)
    assert [kind for kind, _ in stream.events] == ["snapshot", "closed"]
    await stream.leave()
