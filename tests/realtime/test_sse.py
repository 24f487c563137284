"""Server-sent events: who may listen, what arrives, and what a client gets that comes back."""

import asyncio
import gc
import json
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from bson import ObjectId
from tests.authentication.building import add_authentication, add_user, login
from tests.waiting import eventually

from alula import App
from alula._channels import Event
from alula.adapters import mongodb  # noqa: F401  # knows how an ObjectId is sent
from alula.adapters.memory import MemoryService
from alula.authentication import authenticate
from alula.common_hooks import soft_delete
from alula.errors import Forbidden, NotAuthenticated
from alula.express import express, rest
from alula.express import json as json_parser
from alula.hooks import Next
from alula.outgoing import RedactedRecord
from alula.query import Grammar
from alula.realtime import _event_stream, _limits, socketio, sse
from alula.realtime._event_ids import EventIds
from alula.realtime._event_log import EventLog
from alula.realtime._event_stream import EventStream, Subscription
from alula.schema import query_syntax, validate_query


class Stream:
    """A request to an ASGI application, and the events of its response."""

    def __init__(
        self,
        app,
        url,
        *,
        last=None,
        method="GET",
        headers=(),
        reads=True,
        accept="text/event-stream",
        ip="127.0.0.1",
    ):
        path, _, query = url.partition("?")
        given = [("accept", accept), *headers]
        if last is not None:
            given.append(("last-event-id", last))
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given],
            "client": (ip, 5000),
            "http_version": "1.1",
        }
        self.status, self.headers, self.body, self.ended = None, {}, b"", False
        self.reading = asyncio.Event()
        if reads:
            self.reading.set()
        self._changed = asyncio.Event()
        self._closed = asyncio.Event()
        self._requested = False
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self):
        if not self._requested:
            self._requested = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        await self.reading.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]
            self.ended = not message.get("more_body", False)
        self._changed.set()

    @property
    def blocks(self):
        """The events, those without data (ids, comments) left out."""
        found = []
        for block in self.body.decode().split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if "data" in fields:
                found.append((fields["event"], json.loads(fields["data"]), fields.get("id")))
        return found

    @property
    def events(self):
        return [(event, data) for event, data, _ in self.blocks]

    @property
    def last_id(self):
        lines = self.body.decode().split("\n")
        return [line[4:] for line in lines if line.startswith("id: ")][-1]

    async def until(self, condition):
        async with asyncio.timeout(30):
            while not condition():
                self._changed.clear()
                await self._changed.wait()
        return self

    async def started(self):
        """Wait until it is open; raise what the server refused it with."""
        await self.until(lambda: b"\n\n" in self.body or self.ended)
        return self

    async def have(self, count):
        await self.until(lambda: len(self.events) >= count)
        return self.events

    async def error(self):
        await self.until(lambda: self.ended)
        return self.status, json.loads(self.body)["message"]

    async def leave(self):
        self._closed.set()
        await self.task


class Plain:
    async def create(self, data, params):
        return data


def build(**options):
    app = express(App()).use(json_parser()).configure(rest()).configure(sse(**options))
    app.use("messages", MemoryService(start_id=1, multi=True), events=["typing"])
    app.use("users", MemoryService(start_id=1)).use("plain", Plain())

    @app.on("connection")
    def join(connection):
        app.channel("everyone").join(connection)

    app.publish(lambda data, context: app.channel("everyone"))
    return app


@pytest.fixture
async def app():
    app = build()
    yield app
    await asyncio.sleep(0)
    assert app.channel_registry.connections == {}, "a stream was left open"


@pytest.fixture
async def connect(app):
    streams = []

    async def connect(url, **options):
        stream = Stream(options.pop("app", app), url, **options)
        streams.append(stream)
        return await stream.started() if options.get("reads", True) else stream

    yield connect
    for stream in streams:
        await stream.leave()


class TestAStream:
    async def test_has_the_events_of_a_service(self, app, connect):
        stream = await connect("/messages")
        messages = app.service("messages")
        await messages.create([{"n": 1}, {"n": 2}])
        await messages.patch(1, {"n": 3})
        await messages.remove(2)
        messages.emit("typing", "ada")
        await app.service("users").create({"n": 9})
        assert await stream.have(5) == [
            ("created", {"n": 1, "id": 1}),
            ("created", {"n": 2, "id": 2}),
            ("patched", {"n": 3, "id": 1}),
            ("removed", {"n": 2, "id": 2}),
            ("typing", "ada"),
        ]

    async def test_has_headers_for_proxies(self, connect):
        stream = await connect("/messages")
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.headers["cache-control"] == "no-cache, no-transform"
        assert stream.headers["x-accel-buffering"] == "no"
        assert stream.headers["vary"] == "Accept"
        assert stream.body.startswith(b"retry: 3000\nid: ")

    async def test_of_several_services(self, app, connect):
        stream = await connect("/events?services=messages,users")
        await app.service("users").create({"n": 1})
        await app.service("messages").create({"n": 2})
        await app.service("plain").create({"n": 3})
        assert await stream.have(2) == [
            ("users created", {"n": 1, "id": 1}),
            ("messages created", {"n": 2, "id": 1}),
        ]

    async def test_is_a_connection(self, app, connect):
        told = []
        app.on("connection", told.append)
        app.on("disconnect", lambda connection: told.append(connection.channels))
        stream = await connect("/messages", headers=[("x-name", "ada")])
        connection = told[0]
        assert (connection.provider, connection.ip, connection.queued) == ("sse", "127.0.0.1", 0)
        assert connection.headers["x-name"] == "ada"
        assert app.channels == ["everyone"]
        await stream.leave()
        assert told[1] == ["everyone"]
        assert app.channels == []

    @pytest.mark.parametrize("accept", ["application/json", "*/*", "text/html, */*"])
    async def test_is_for_those_who_ask_for_it(self, app, accept):
        plain = Stream(app, "/messages", accept=accept)
        await plain.until(lambda: plain.ended)
        assert plain.body == b"[]"

    async def test_is_not_that_of_one_record(self, app):
        assert (await Stream(app, "/messages/1").error())[0] == 404

    async def test_comes_with_middleware_around_the_service(self, connect):
        app = build()
        behind = []

        async def before(req, res, next):
            await next()

        def after(req, res, next):
            behind.append(res.headers_sent)
            return next()

        app.use("around", before, MemoryService(), after)
        await connect("/around", app=app)
        assert behind in ([], [True])

    async def test_comes_with_a_formatter(self, connect):
        formatted = []
        app = express(App()).configure(rest(lambda req, res: formatted.append(1)))
        await connect("/notes", app=app.configure(sse()).use("notes", MemoryService()))
        assert formatted == []

    async def test_ends_with_its_connection(self, app, connect):
        connections = []
        app.on("connection", connections.append)
        stream = await connect("/messages")
        await connections[0].close()
        await connections[0].close()
        await stream.until(lambda: stream.ended)
        assert app.channel_registry.connections == {}

    async def test_of_a_connection_that_the_app_disconnects(self, app, connect):
        connections = []
        app.on("connection", connections.append)
        stream = await connect("/messages")
        app.emit("disconnect", connections[0])
        await stream.until(lambda: stream.ended)

    async def test_ends_when_the_server_stops(self, app, connect):
        streams = [await connect("/messages"), await connect("/events?services=users")]
        app.endpoints.close()
        for stream in streams:
            await stream.until(lambda stream=stream: stream.ended)

    async def test_has_heartbeats(self):
        app = build(heartbeat=0.01)
        stream = await Stream(app, "/messages").started()
        first = stream.last_id
        app.service("messages").publish(lambda data, context: None)
        await app.service("messages").create({})
        await stream.until(lambda: stream.body.count(b"\n:\nid: ") > 1)
        assert stream.last_id != first
        assert stream.events == []
        await stream.leave()

    async def test_sends_what_channels_send(self, app, connect):
        stream = await connect("/messages")
        app.service("messages").publish(
            lambda data, context: app.channel("everyone").send({"only": data["n"]})
        )
        await app.service("messages").create({"n": 1})
        assert await stream.have(1) == [("created", {"only": 1})]

    async def test_sends_the_public_part(self, app, connect):
        stream = await connect("/messages?secret=x")

        def redact(context):
            context.result = RedactedRecord(context.result, {"n": context.result["n"]})

        app.service("messages").hooks(after={"create": [redact]})
        await app.service("messages").create({"n": 1, "secret": "y"})
        await app.service("messages").create({"n": 2, "secret": "x"})
        assert await stream.have(1) == [("created", {"n": 2})]

    async def test_survives_data_without_a_json_form(self, app, connect, caplog):
        stream = await connect("/messages")
        app.service("messages").emit("typing", object())
        app.service("messages").emit("typing", 1)
        assert await stream.have(1) == [("typing", 1)]
        assert "cannot be sent as JSON" in caplog.text

    async def test_responds_to_head(self, app, connect):
        stream = Stream(app, "/events?services=messages", method="HEAD")
        await stream.until(lambda: stream.ended)
        assert (stream.status, stream.body) == (200, b"")
        await stream.leave()

    async def test_of_a_slow_connection_listener(self, app, connect):
        released = asyncio.Event()

        @app.on("connection")
        async def later(connection):
            await released.wait()
            app.channel("late").join(connection)

        app.publish(lambda data, context: app.channel("late"))
        stream = Stream(app, "/messages", reads=True)
        asyncio.get_running_loop().call_later(0.01, released.set)
        await stream.started()
        await app.service("messages").create({"n": 1})
        assert await stream.have(1) == [("created", {"n": 1, "id": 1})]
        await stream.leave()


class TestAQuery:
    async def test_selects_events(self, app, connect):
        stream = await connect("/messages?room=a&n[$gt]=1")
        app.service("messages").hooks(before={"find": [lambda context: None]})
        await app.service("messages").create(
            [{"room": "a", "n": "1"}, {"room": "b", "n": "2"}, {"room": "a", "n": "3"}]
        )
        app.service("messages").emit("typing", "not a record")
        assert await stream.have(1) == [("created", {"room": "a", "n": "3", "id": 3})]

    async def test_narrows_data(self, app, connect):
        stream = await connect("/messages?$select[]=n")
        await app.service("messages").create({"n": 1, "text": "long"})
        app.service("messages").emit("typing", "ada")
        assert await stream.have(2) == [("created", {"n": 1, "id": 1}), ("typing", "ada")]

    def test_adds_nothing_to_the_events_of_the_log(self):
        # Otherwise each `$select` that a stranger makes up keeps all events once more.
        event = Event("messages", "created", {}, {"n": 1, "more": 2})
        for number in range(3):
            query = {"$select": ["n", f"made_up_{number}"]}
            stream = Subscription(query, Grammar(), {}, names_path=False)
            assert stream.encode(event) == b'event: created\ndata: {"n":1}\n:'
        plain = [Subscription({}, Grammar(), {}, names_path=False) for _ in range(3)]
        blocks = [stream.encode(event) for stream in plain]
        assert blocks[0] is blocks[1] is blocks[2]
        assert list(event.frames.values()) == blocks[:1]

    async def test_compares_ids_of_databases_as_text(self, app, connect):
        room, other = ObjectId(), uuid.uuid4()
        stream = await connect(f"/messages?room={room}&tags={room}")
        await app.service("messages").create({"room": other})
        await app.service("messages").create({"room": room, "tags": [room]})
        assert (await stream.have(1))[0][1]["room"] == str(room)

    async def test_of_a_hook_counts(self, app, connect):
        moment = datetime(2026, 1, 1, tzinfo=UTC)

        def mine(context):
            context.params.query["at"] = moment

        app.service("messages").hooks(before={"find": [mine]})
        stream = await connect("/messages")
        await app.service("messages").create([{"n": 1}, {"n": 2, "at": moment}])
        assert [data["n"] for _, data in await stream.have(1)] == [2]

    async def test_opens_operators_of_the_service(self, app, connect):
        app.use("texts", MemoryService(operators=["$regex"]))
        stream = await connect("/texts?text[$regex]=^a")
        await app.service("texts").create({"text": "ba"})
        await app.service("texts").create({"text": "ab"})
        assert [data["text"] for _, data in await stream.have(1)] == ["ab"]

    async def test_is_validated_by_the_schema_of_the_service(self, app, connect):
        app.use("rated", MemoryService(multi=True))
        query = validate_query(query_syntax({"stars": {"type": "integer"}}))
        app.service("rated").hooks(before={"find": [query]})
        stream = await connect("/rated?stars[$gt]=3")
        assert (await Stream(app, "/rated?stars=many").error())[0] == 400
        await app.service("rated").create([{"stars": 3}, {"stars": 4}])
        assert [data["stars"] for _, data in await stream.have(1)] == [4]

    async def test_that_takes_too_long_selects_nothing(self, app, connect, monkeypatch):
        monkeypatch.setattr(_event_stream, "MATCH_STEPS", 100)
        stream = await connect("/messages?tags[$ne]=x")
        await app.service("messages").create([{"tags": ["y"] * 1000}, {"tags": ["y"]}])
        assert [data["id"] for _, data in await stream.have(1)] == [2]

    async def test_that_does_not_fit_a_record_fails_no_call(self, app, connect):
        stream = await connect("/messages?by[$gt][a]=x")
        await app.service("messages").create([{"by": {2024: "y"}}, {"by": {"b": "y"}}])
        assert [data["id"] for _, data in await stream.have(1)] == [2]

    async def test_that_takes_too_much_work_over_time_ends_the_streams(
        self, app, connect, monkeypatch
    ):
        monkeypatch.setattr(_limits, "MAX_STEPS", 2_500)
        monkeypatch.setattr(_limits, "STEPS_A_SECOND", 0)
        expensive = [await connect("/messages?tags[$ne]=x") for _ in range(2)]
        cheap = await connect("/messages?n[$ne]=8")
        other = await connect("/messages?tags[$ne]=x", ip="10.0.0.2")
        for _ in range(3):  # 1,000 steps for each of the expensive streams
            await app.service("messages").create({"tags": ["y"] * 1_000})
        for stream in expensive:
            await stream.until(lambda stream=stream: stream.ended)
        events = [event for stream in expensive for event in stream.events]
        assert [event for event, _ in events].count("created") == 3
        errors = [data for event, data in events if event == "error"]
        assert [error["code"] for error in errors] == [429, 429]
        assert "takes too much work" in errors[0]["message"]
        assert [event for event, _ in await cheap.have(3)] == ["created"] * 3
        assert [event for event, _ in await other.have(3)] == ["created", "created", "created"]
        # To open it again does not help.
        again = await connect("/messages?tags[$ne]=x", last=expensive[0].last_id)
        assert (await again.have(1))[0][0] == "error"

    @pytest.mark.parametrize("name", ["$limit", "$skip", "$sort"])
    async def test_has_no_pages(self, app, name):
        status, message = await Stream(app, f"/messages?{name}=1").error()
        assert (status, message) == (
            400,
            f"a stream has no pages: {name} is for `find` without a stream",
        )

    async def test_must_be_valid(self, app):
        assert (await Stream(app, "/messages?$where=1").error())[0] == 400
        assert (await Stream(app, "/messages?ticket[]=1").error())[0] == 400

    @pytest.mark.parametrize(
        ("url", "status"),
        [
            ("/events", 400),
            ("/events?services=", 404),
            ("/events?services=messages&room=a", 400),
            ("/events?services[a]=messages", 400),
            ("/events?services=none", 404),
            ("/events?services=messages/1", 404),
            ("/events?services=closed", 404),
            ("/events?services=plain", 405),
            ("/plain", 405),
        ],
    )
    async def test_of_several_services(self, app, url, status):
        app.use("closed", Plain(), methods=[])
        assert (await Stream(app, url).error())[0] == status

    async def test_of_a_service_behind_middleware_is_for_itself(self, app, connect):
        async def guard(req, res, next):
            if req.get("x-key") != "right":
                raise NotAuthenticated("no entry")
            await next()

        async def behind(req, res, next):
            await next()

        app.use("guarded", guard, MemoryService()).use("watched", MemoryService(), behind)
        assert (await Stream(app, "/guarded").error())[0] == 401
        status, message = await Stream(app, "/events?services=watched,guarded").error()
        assert (status, message) == (
            405,
            "the service at 'guarded' has middleware of its own, which only runs for a stream of"
            " this service alone: /guarded",
        )
        await connect("/events?services=watched")

    async def test_what_hooks_of_one_service_set_is_not_for_those_of_another(self, app, connect):
        connections, deleted = [], {"deletedAt": 5}
        app.on("connection", connections.append)
        app.use("archive", MemoryService()).use("notes", MemoryService())

        def show_deleted(context):
            context.params.with_deleted = True

        app.service("archive").hooks(before={"find": [show_deleted]})
        app.service("notes").hooks(before={"find": [soft_delete()]})
        stream = await connect("/events?services=archive,notes")
        assert connections[-1].get("with_deleted") is True  # for publishers
        await app.service("notes").create({"n": 1, **deleted})
        await app.service("archive").create({"n": 2, **deleted})
        assert [data["n"] for _, data in await stream.have(1)] == [2]

    async def test_of_placeholders(self, app, connect):
        app.use("boxes/:box/items", MemoryService())
        stream = await connect("/boxes/5/items")
        several = await connect("/events?services=boxes/5/items")
        items = app.service("boxes/:box/items")
        await items.create({"n": 1}, route={"box": "4"})
        await items.create({"n": 2}, route={"box": "5"})
        await items.create({"n": 3})
        assert [data["n"] for _, data in await stream.have(2)] == [2, 3]
        assert [event for event, _ in await several.have(2)] == ["boxes/:box/items created"] * 2
        # Only one of the two could be in the stream.
        status, error = await Stream(app, "/events?services=boxes/4/items,boxes/5/items").error()
        assert status == 400
        assert "one value of each placeholder; open another one for 'boxes/5/items'" in error
        await connect("/events?services=boxes/5/items,/boxes/5/items")


class TestHooks:
    async def test_refuse_a_stream(self, app):
        def refuse(context):
            raise NotAuthenticated("no entry")

        app.service("messages").hooks(before={"find": [refuse]})
        told = []
        app.on("connection", told.append)
        for url in ("/messages", "/events?services=users,messages"):
            assert await Stream(app, url).error() == (401, "no entry")
        assert told == []

    async def test_of_the_app_refuse_a_stream(self, app):
        def refuse(context):
            raise NotAuthenticated("no entry")

        app.hooks(before={"find": [refuse]})
        assert await Stream(app, "/messages").error() == (401, "no entry")

    async def test_run_up_to_the_method(self, app, connect):
        ran = []

        async def around(context, next: Next):
            async with asyncio.TaskGroup():
                await next()
            ran.append("never")

        class Service:
            async def find(self, params):
                ran.append("never")

        app.use("own", Service())
        app.service("own").hooks(
            around={"find": [around]},
            before={"find": [lambda context: ran.append(context.params.provider)]},
            after={"find": [lambda context: ran.append("never")]},
            error={"find": [lambda context: ran.append("never")]},
        )
        await connect("/own")
        assert ran == ["sse"]

    async def test_that_respond_themselves_allow_no_stream(self, app):
        async def cached(context, next: Next):
            context.result = []

        app.service("messages").hooks(around={"find": [cached]})
        assert (await Stream(app, "/messages").error())[0] == 405

    async def test_set_attributes_of_the_connection(self, app, connect):
        def sign_in(context):
            context.params.user = {"id": 7}
            context.params.tenant = "acme"

        app.service("messages").hooks(before={"find": [sign_in]})

        def name(req, res, next):
            req.framework.name = "ada"
            return next()

        app.prepend_middleware(name)
        seen = []
        app.on("connection", lambda c: seen.append((c.user, c.tenant, c.name)))
        await connect("/messages")
        assert seen == [({"id": 7}, "acme", "ada")]

    async def test_of_a_mounted_application_run_too(self, connect):
        inner = App().use("notes", MemoryService(start_id=1))

        def only_mine(context):
            context.params.query["mine"] = True

        inner.service("notes").hooks(before={"find": [only_mine]})
        outer = build().use("in", inner)
        stream = await connect("/in/notes?a=1", app=outer)
        await inner.service("notes").create({"a": "1"})
        await outer.service("in/notes").create({"a": "1", "mine": True})
        assert [data["id"] for _, data in await stream.have(1)] == [2]

    async def test_of_a_service_that_is_set_up_late(self, app, connect):
        await app.setup()

        class Late(Plain):
            is_up = False

            async def setup(self, app, path):
                await asyncio.sleep(0.01)
                self.is_up = True

            async def find(self, params): ...

        late = Late()
        app.use("late", late)
        await connect("/late")
        assert late.is_up
        await app.teardown()


class TestAClientThatComesBack:
    async def test_gets_what_it_missed(self, app, connect):
        first = await connect("/messages?room=a")
        messages = app.service("messages")
        await messages.create({"room": "a", "n": 1})
        await first.have(1)
        await first.leave()
        await messages.create([{"room": "a", "n": 2}, {"room": "b", "n": 3}])
        await messages.create({"room": "a", "n": 4})
        second = await connect("/messages?room=a", last=first.last_id)
        await messages.create({"room": "a", "n": 5})
        assert [data["n"] for _, data in await second.have(3)] == [2, 4, 5]

    async def test_gets_what_it_missed_before_the_first_event(self, app, connect):
        first = await connect("/messages")
        await first.leave()
        await app.service("messages").create({"n": 1})
        second = await connect("/messages", last=first.last_id)
        assert [data["n"] for _, data in await second.have(1)] == [1]

    async def test_may_say_so_in_the_url(self, app, connect):
        first = await connect("/messages")
        await app.service("messages").create({"n": 1})
        second = await connect(f"/events?services=messages&lastEventId={first.last_id}")
        assert [data["n"] for _, data in await second.have(1)] == [1]

    async def test_gets_nothing_twice(self, app, connect):
        first = await connect("/messages")
        await app.service("messages").create({"n": 1})
        await first.have(1)
        released = asyncio.Event()
        app.on("connection", lambda connection: released.wait())
        second = Stream(app, "/messages", last=first.last_id)
        await asyncio.sleep(0.01)
        await app.service("messages").create({"n": 2})
        released.set()
        await second.started()
        await app.service("messages").create({"n": 3})
        assert [data["n"] for _, data in await second.have(2)] == [2, 3]
        await second.leave()

    async def test_has_seen_events_that_come_late(self, app, connect):
        # From another process, whose bus is slower than the client.
        first = await connect("/messages")
        now = int(time.time() * 1000)
        ids = app.channel_registry.log.ids
        last = f"{ids.sign(f'{now:x}~other:7')}.{ids.sign_beginning(now, '', [('everyone', 1)])}"
        registry, sent = app.channel_registry, []
        registry.log.advance("other", 5)
        registry.forward = sent.append
        await app.service("messages").create({"n": 0})
        second = await connect("/messages", last=last)
        for number in (6, 7, 8):
            data = {"n": number}
            registry.receive(
                replace(sent[0], origin="other", sequence=number, record=data, data=data)
            )
        assert [data["n"] for _, data in await first.have(4)] == [0, 6, 7, 8]
        assert [data["n"] for _, data in await second.have(2)] == [0, 8]

    async def test_gets_only_what_its_channels_get(self, app, connect):
        app.publish(lambda data, context: [app.channel("admins"), app.channel(data["to"])])
        first = await connect("/messages")
        await first.leave()
        await app.service("messages").create([{"to": "everyone", "n": 1}, {"to": "x", "n": 2}])
        second = await connect("/messages", last=first.last_id)
        assert [data["n"] for _, data in await second.have(1)] == [1]

    @pytest.mark.parametrize("last", ["5", "0~a:1", "garbage~"])
    async def test_after_too_long_is_told(self, app, connect, last):
        stream = await connect("/messages", last=last)
        await app.service("messages").create({"n": 1})
        assert await stream.have(2) == [("reset", None), ("created", {"n": 1, "id": 1})]

    async def test_made_up_ids_give_no_old_events(self, app, connect):
        await app.service("messages").create({"n": 1})
        origin, now = app.channel_registry.origin, int(time.time() * 1000)
        first = await connect("/messages")
        position, code, beginning, beginning_code = first.last_id.split(".")
        assert position.endswith(f"~{origin}:1")
        made_up = [
            f"{now:x}~{origin}:0",
            f"{now:x}~",
            f"{now:x}~{origin}:0.{code}.{beginning}.{beginning_code}",
            f"{position}.{code}.{0:x}.{beginning_code}",
            f"{position}.{code}",
            f"{position}.{code}.{beginning}.",
            f"{position}.{code}.{beginning}.é",
        ]
        for last in made_up:
            stream = await connect("/messages", last=last)
            assert await stream.have(1) == [("reset", None)], last
        stream = await connect("/messages", last=first.last_id)
        assert stream.events == []

    async def test_gets_nothing_from_before_by_the_id_of_somebody_else(self, app, connect):
        early = await connect("/messages")
        await app.service("messages").create({"n": 1})
        await asyncio.sleep(0.002)
        late = await connect("/messages")
        theirs, own = early.last_id.split("."), late.last_id.split(".")
        stream = await connect("/messages", last=".".join(theirs[:2] + own[2:]))
        assert await stream.have(1) == [("reset", None)]

    @pytest.fixture
    async def rooms(self, app):
        """Who is in the room, by name; its events go to nobody else."""
        members = {"ada"}

        def join(connection):
            name = connection.headers["x-name"]
            app.channel(f"users/{name}").join(connection)
            if name in members:
                app.channel("room").join(connection)

        app.on("connection", join)
        app.publish(lambda data, context: app.channel(data["to"]))
        return members

    async def test_gets_nothing_of_a_channel_from_before_it_joined(self, app, connect, rooms):
        ada = await connect("/messages", headers=[("x-name", "ada")])
        bob = await connect("/messages", headers=[("x-name", "bob")])
        before = bob.last_id
        await app.service("messages").create({"to": "room", "text": "before Bob"})
        await app.service("messages").create({"to": "users/bob", "text": "for Bob"})
        await bob.have(1)
        rooms.add("bob")
        for last in (before, bob.last_id):
            again = await connect("/messages", last=last, headers=[("x-name", "bob")])
            assert await again.have(1) == [("reset", None)]
            await app.service("messages").create({"to": "room", "text": "to both"})
            assert [event for event, _ in await again.have(2)] == ["reset", "created"]
            assert "before Bob" not in again.body.decode()
            await again.leave()
        assert "before Bob" in ada.body.decode()

    async def test_nor_if_it_joined_in_a_stream_that_was_open(self, app, connect, rooms):
        await connect("/messages", headers=[("x-name", "ada")])
        bob = await connect("/messages", headers=[("x-name", "bob")])
        before = bob.last_id
        await app.service("messages").create({"to": "room", "text": "before Bob"})
        await asyncio.sleep(0.002)
        (connection,) = app.channel("users/bob").connections
        app.channel("room").join(connection)
        rooms.add("bob")
        await app.service("messages").create({"to": "room", "text": "to both"})
        await bob.have(1)
        assert "before Bob" not in bob.body.decode()
        # The position from before, with the half that says that Bob is in the room.
        forged = ".".join(before.split(".")[:2] + bob.last_id.split(".")[2:])
        for last in (before, forged):
            again = await connect("/messages", last=last, headers=[("x-name", "bob")])
            assert await again.have(1) == [("reset", None)]
        # From the id that has come with an event of the room, it goes on.
        await app.service("messages").create({"to": "room", "text": "later"})
        again = await connect("/messages", last=bob.blocks[0][2], headers=[("x-name", "bob")])
        assert [data["text"] for _, data in await again.have(1)] == ["later"]

    async def test_nor_if_it_left_the_channel_and_came_back(self, app, connect, rooms):
        ada = await connect("/messages", headers=[("x-name", "ada")])
        (connection,) = app.channel("room").connections
        before = ada.last_id
        await asyncio.sleep(0.002)
        app.channel("room").leave(connection)
        await app.service("messages").create({"to": "users/ada", "text": "alone"})
        await ada.have(1)
        outside = ada.last_id
        await app.service("messages").create({"to": "room", "text": "without Ada"})
        await asyncio.sleep(0.002)
        app.channel("room").join(connection)
        await app.service("messages").create({"to": "room", "text": "with Ada"})
        await ada.have(2)
        now = ada.last_id.split(".")[2:]
        for last in (before.split(".")[:2] + now, outside.split("."), outside.split(".")[:2] + now):
            again = await connect("/messages", last=".".join(last), headers=[("x-name", "ada")])
            assert await again.have(1) == [("reset", None)]
        assert "without Ada" not in again.body.decode()

    async def test_what_waits_when_it_ends_keeps_its_place(self, app, connect, rooms):
        ada = await connect("/messages", headers=[("x-name", "ada")])
        ada.reading.clear()
        for number in range(3):
            await app.service("messages").create({"to": "room", "text": str(number)})
        (connection,) = app.channel("room").connections
        await connection.close()
        ada.reading.set()
        assert [data["text"] for _, data in await ada.have(3)] == ["0", "1", "2"]
        await app.service("messages").create({"to": "room", "text": "3"})
        again = await connect("/messages", last=ada.last_id, headers=[("x-name", "ada")])
        assert [data["text"] for _, data in await again.have(1)] == ["3"]

    async def test_keeps_the_beginning_of_its_first_stream(self, app, connect):
        first = await connect("/messages")
        second = await connect("/messages", last=first.last_id)
        assert first.last_id.split(".")[2:] == second.last_id.split(".")[2:]

    async def test_as_another_user_is_told(self, app, connect):
        def sign_in(context):
            context.params.user = {"id": int(context.params.headers["x-user"])}

        app.service("messages").hooks(before={"find": [sign_in]})
        first = await connect("/messages", headers=[("x-user", "1")])
        await app.service("messages").create({"n": 1})
        same = await connect("/messages", headers=[("x-user", "1")], last=first.last_id)
        other = await connect("/messages", headers=[("x-user", "2")], last=first.last_id)
        assert await same.have(1) == [("created", {"n": 1, "id": 1})]
        assert await other.have(1) == [("reset", None)]

    async def test_has_events_that_no_log_has(self, app, connect):
        # Of another application, whose channels the connection joined.
        connections = []
        app.on("connection", connections.append)
        stream = await connect("/messages")
        connections[0].deliver(Event("messages", "created", {}, {"n": 1}, sequence=1))
        await stream.have(1)
        assert stream.blocks == [("created", {"n": 1}, None)]
        assert b"\n:." in stream.body  # a comment in place of an id

    async def test_after_too_many_events_is_told(self):
        app = build(keep=2)
        first = await Stream(app, "/messages").started()
        await first.leave()
        await app.service("messages").create([{"n": 1}, {"n": 2}, {"n": 3}])
        second = Stream(app, "/messages", last=first.last_id)
        assert await second.have(1) == [("reset", None)]
        third = await Stream(app, "/messages", last=second.last_id).started()
        assert third.events == []
        await second.leave()
        await third.leave()

    async def test_lets_others_have_their_turn(self):
        subscription = Subscription({}, Grammar(), {}, names_path=False)
        log = EventLog(10, 60, 1_000, EventIds(lambda: None))
        stream = EventStream({"messages": subscription}.get, 15, log, lambda: asyncio.sleep(0))
        matched, had_turn = [], []

        def missed():
            for number in range(250):
                matched.append(number)
                yield Event("messages", "created", None, number, sequence=1)

        resuming = asyncio.create_task(stream.resume(missed(), {}))
        while not resuming.done():
            await asyncio.sleep(0)
            had_turn.append(len(matched))
            live = 250 + len(had_turn)
            stream.deliver(Event("messages", "created", None, live, sequence=2))
        body = b""

        async def send(message):
            nonlocal body
            body += message.get("body", b"")

        stream.end()
        await stream.run(asyncio.Event().wait, send)
        assert had_turn[:2] == [100, 200]
        sent = [int(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]
        assert sent == [*range(250), *(251 + turn for turn in range(len(had_turn)))]

    async def test_lets_others_have_their_turn_by_its_work(self, app, connect, monkeypatch):
        monkeypatch.setattr(_event_stream, "STEPS_IN_A_ROW", 150)
        ways = []
        monkeypatch.setattr(app.turns.__class__, "give_way", give_way_noted(ways))
        last = (await connect("/messages")).last_id
        await app.service("messages").create([{"n": number} for number in range(8)])

        def ask_much(context):
            context.params.query["$or"] = [{"n": number} for number in range(8, 69)]

        app.service("messages").hooks(before={"find": [ask_much]})
        await connect("/messages", last=last)  # each event takes 61 steps
        assert ways == ["127.0.0.1"] * 2

    async def test_with_an_expensive_query_is_told(self, app, connect, monkeypatch):
        monkeypatch.setattr(_event_stream, "RESUME_STEPS", 490)
        last = (await connect("/messages")).last_id
        await app.service("messages").create([{"n": number} for number in range(8)])
        await app.service("users").create({})

        def ask_much(context):
            clauses = range(8, 8 + int(context.params.query.pop("clauses")))
            context.params.query["$or"] = [{"n": number} for number in clauses]

        app.service("messages").hooks(before={"find": [ask_much]})
        # 8 events take 488 and 496 steps.
        cheap = await connect("/messages?clauses=61", last=last)
        expensive = await connect("/messages?clauses=62", last=last)
        app.service("messages").emit("created", {"n": 9})
        assert await cheap.have(1) == [("created", {"n": 9})]
        assert await expensive.have(2) == [("reset", None), ("created", {"n": 9})]

    async def test_to_too_many_bytes_is_told(self, app, connect, monkeypatch):
        monkeypatch.setattr(_event_stream, "MAX_REPLAYED_BYTES", 1_000)
        last = (await connect("/messages")).last_id
        await app.service("messages").create([{"text": "x" * 300} for _ in range(2)])
        few = await connect("/messages", last=last)
        assert [event for event, _ in await few.have(2)] == ["created"] * 2
        await app.service("messages").create([{"text": "x" * 300} for _ in range(2)])
        many = await connect("/messages", last=last)
        assert await many.have(1) == [("reset", None)]

    async def test_to_events_that_take_too_much_memory_is_told(self):
        app = build(keep_bytes=10_000)
        first = await Stream(app, "/messages").started()
        await first.leave()
        for _ in range(3):
            await app.service("messages").create({"text": "x" * 4_000})
        second = Stream(app, "/messages", last=first.last_id)
        assert await second.have(1) == [("reset", None)]
        await second.leave()

    async def test_and_is_ended_meanwhile_misses_nothing(self, app, connect):
        connections = []
        app.on("connection", connections.append)
        first = await connect("/messages?room=a")
        await first.leave()
        await app.service("messages").create({"room": "b"})
        released = asyncio.Event()
        app.on("connection", lambda connection: released.wait())
        second = Stream(app, "/messages?room=a", last=first.last_id)
        await eventually(lambda: len(connections) == 2)
        await app.service("messages").create({"room": "a"})
        await connections[1].close()
        released.set()
        await second.until(lambda: second.ended)
        assert b"id: " not in second.body
        await second.leave()


def give_way_noted(clients):
    async def give_way(turns, client):
        clients.append(client)

    return give_way


class TestASlowReader:
    @pytest.mark.parametrize("limit", ["MAX_QUEUED_EVENTS", "MAX_QUEUED_BYTES"])
    async def test_is_ended_and_resumes(self, app, connect, monkeypatch, limit):
        monkeypatch.setattr(_event_stream, limit, 3 if limit.endswith("EVENTS") else 300)
        connections = []
        app.on("connection", connections.append)
        stream = await connect("/messages")
        stream.reading.clear()
        for number in range(8):
            await app.service("messages").create({"n": number})
            await asyncio.sleep(0)
        assert app.channel_registry.connections == {}
        assert connections[0].queued == 0
        stream.reading.set()
        await stream.until(lambda: stream.ended)
        seen = [data["n"] for _, data in stream.events]
        second = await connect("/messages", last=stream.last_id)
        rest = [data["n"] for _, data in await second.have(8 - len(seen))]
        assert seen + rest == list(range(8))

    async def test_does_not_keep_a_stream_that_ends(self, app, connect, monkeypatch):
        monkeypatch.setattr(_event_stream, "END_SECONDS", 0.01)
        connections = []
        app.on("connection", connections.append)
        stream = await connect("/messages")
        stream.reading.clear()
        await app.service("messages").create({"n": 1})
        await asyncio.sleep(0)
        await connections[0].close("expired")
        await asyncio.wait_for(asyncio.shield(stream.task), 30)
        assert not stream.ended

    async def test_does_not_keep_a_stream_whose_token_expires(self, monkeypatch):
        monkeypatch.setattr(_event_stream, "END_SECONDS", 0.01)
        app = build()

        def sign_in(context):
            context.params.authentication = {"payload": {"exp": time.time() + 0.01}}

        app.service("messages").hooks(before={"find": [sign_in]})
        stream = Stream(app, "/messages", reads=False)
        await asyncio.wait_for(asyncio.shield(stream.task), 30)
        assert stream.events == []

    async def test_does_not_keep_a_stream_that_ends_before_it_begins(
        self, app, connect, monkeypatch
    ):
        monkeypatch.setattr(_event_stream, "END_SECONDS", 0.01)
        connections = []
        app.on("connection", connections.append)
        app.on("connection", lambda connection: asyncio.sleep(0.01))
        stream = await connect("/messages", reads=False)
        await asyncio.sleep(0)
        await connections[0].close()
        await asyncio.wait_for(asyncio.shield(stream.task), 30)

    async def test_is_reset_where_events_were_lost(self, app, connect):
        stream, away = await connect("/messages"), await connect("/messages")
        await away.leave()
        await asyncio.sleep(0.002)  # ids have milliseconds
        app.channel_registry.report_gap()
        await app.service("messages").create({"n": 1})
        await stream.have(2)
        assert [event for event, _ in stream.events] == ["reset", "created"]
        back = await connect("/messages", last=away.last_id)
        assert [event for event, _ in await back.have(1)] == ["reset"]
        again = await connect("/messages", last=stream.last_id)
        await app.service("messages").create({"n": 2})
        assert [event for event, _ in await again.have(1)] == ["created"]

    async def test_gets_nothing_from_before_a_reset(self, app, connect):
        stream = await connect("/messages", reads=False)
        await eventually(lambda: app.channel_registry.connections)
        await app.service("messages").create([{"n": n} for n in range(1, 6)])
        app.channel_registry.report_gap()
        app.channel_registry.report_gap()
        await app.service("messages").create({"n": 6})
        stream.reading.set()
        assert await stream.have(2) == [("reset", None), ("created", {"n": 6, "id": 6})]
        of_reset, of_event = (block[2] for block in stream.blocks)
        # A client that comes back from either id misses nothing, and gets nothing twice.
        back = await connect("/messages", last=of_reset)
        assert [data["n"] for _, data in await back.have(1)] == [6]
        assert (await connect("/messages", last=of_event)).events == []

    async def test_gets_nothing_more_of_what_it_missed_after_a_reset(self):
        subscription = Subscription({}, Grammar(), {}, names_path=False)
        log = EventLog(10, 60, 1_000, EventIds(lambda: None))
        stream = EventStream({"messages": subscription}.get, 15, log, lambda: asyncio.sleep(0))

        def missed():
            for number in range(10):
                if number == 5:
                    stream.reset()
                yield Event("messages", "created", None, number, sequence=1)

        await stream.resume(missed(), {})
        stream.deliver(Event("messages", "created", None, 10, sequence=2))
        body = []

        async def send(message):
            body.append(message.get("body", b""))

        stream.end()
        await stream.run(asyncio.Event().wait, send)
        lines = b"".join(body).decode().split("\n")
        sent = [line[6:] for line in lines if line.startswith("data: ")]
        assert sent == ["null", "10"]

    async def test_never_goes_back_where_this_process_is_behind(self, app, connect):
        registry = app.channel_registry
        messages = app.service("messages")

        def receive(*sequences):
            for n in sequences:
                data = {"n": n}
                registry.receive(
                    Event("messages", "created", data, data, origin="other", sequence=n)
                )

        receive(1, 2)
        elsewhere = await connect("/messages")
        position, _, *beginning = elsewhere.last_id.split(".")
        assert position.endswith("~other:2")
        ahead = registry.log.ids.sign(position.replace("other:2", "other:4"))
        stream = await connect("/messages", last=".".join([ahead, *beginning]))
        assert "~other:4." in stream.last_id
        await messages.create({"n": 0})
        await stream.have(1)
        assert "~other:4~" in stream.last_id
        receive(3, 4, 5)
        assert [data["n"] for _, data in await stream.have(2)] == [0, 5]
        assert "~other:5~" in stream.last_id
        receive(6)
        assert (await stream.have(3))[-1][1] == {"n": 6}

    async def test_that_leaves_meanwhile(self, app, connect):
        stream = await connect("/messages", reads=False)
        await asyncio.sleep(0.01)
        await stream.leave()
        assert app.channel_registry.connections == {}


class TestAccounts:
    @pytest.fixture
    async def app(self):
        app = build()
        await app.unuse("users")
        app.use("users", MemoryService(start_id=1))
        add_authentication(app)
        app.service("messages").hooks(before={"find": [authenticate("jwt")]})
        app.publish(lambda data, context: app.channel("users/1"))

        @app.on("login")
        def join(result, params, context):
            if params.connection is not None:
                app.channel(f"users/{params.connection.user['id']}").join(params.connection)

        await app.setup()
        await add_user(app)
        yield app
        await app.teardown()

    @pytest.fixture
    async def token(self, app):
        return (await app.service("authentication").create(login()))["accessToken"]

    async def test_a_stream_is_signed_in_by_its_header(self, app, connect, token):
        stream = await connect("/messages", headers=[("authorization", f"Bearer {token}")])
        await app.service("messages").create({"n": 1})
        assert await stream.have(1) == [("created", {"n": 1, "id": 1})]

    async def test_a_user_who_is_removed_while_the_hooks_run_gets_none(self, app, token):
        async def remove(context):
            await app.service("users").remove(1)

        app.service("messages").hooks(before={"find": [remove]})
        stream = Stream(app, "/messages", headers=[("authorization", f"Bearer {token}")])
        status, message = await stream.error()
        assert (status, message) == (
            401,
            "The sign-in ended while the stream began; sign in again",
        )
        assert app.channel_registry.connections == {}

    async def test_a_stream_is_signed_in_by_middleware(self, app, connect, token):
        async def by_cookie(req, res, next):
            req.authentication = {"strategy": "jwt", "accessToken": req.get("x-cookie")}
            await next()

        app.prepend_middleware(by_cookie)
        connections = []
        app.on("connection", connections.append)
        stream = await connect("/messages", headers=[("x-cookie", token)])
        await app.service("messages").create({"n": 1})
        assert await stream.have(1) == [("created", {"n": 1, "id": 1})]
        assert connections[0].user["email"] == "ada@example.com"

    async def test_a_stream_is_signed_in_by_a_ticket(self, app, connect, token):
        tickets = app.service("authentication/tickets")
        given = await tickets.create(
            {}, provider="rest", authentication={"strategy": "jwt", "accessToken": token}
        )
        url = f"/messages?ticket={given['ticket']}"
        stream = await connect(url)
        await app.service("messages").create({"n": 1})
        assert await stream.have(1) == [("created", {"n": 1, "id": 1})]
        assert (await Stream(app, url).error())[0] == 401
        assert (await Stream(app, "/events?services=users&ticket=x").error())[0] == 401

    async def test_nobody_else_may_listen(self, app):
        assert (await Stream(app, "/messages").error())[0] == 401
        wrong = Stream(app, "/messages", headers=[("authorization", "Bearer x.y.z")])
        assert (await wrong.error())[0] == 401
        assert app.channels == []

    async def test_a_refused_stream_leaves_the_channels_of_its_sign_in(self, app, token):
        def refuse(context):
            raise Forbidden("not you")

        app.service("messages").hooks(before={"find": [refuse]})
        stream = Stream(app, "/messages", headers=[("authorization", f"Bearer {token}")])
        assert await stream.error() == (403, "not you")
        assert app.channels == []

    async def test_a_stream_that_never_begins_leaves_them_too(self, app, token):
        def fail(req, res, next):
            raise Forbidden("too late")

        app.use("around", MemoryService(), fail)
        stream = Stream(app, "/around", headers=[("authorization", f"Bearer {token}")])
        assert await stream.error() == (403, "too late")
        await stream.leave()
        del stream
        gc.collect()
        assert app.channels == []

    async def test_a_removed_user_is_disconnected(self, app, connect, token):
        stream = await connect("/messages", headers=[("authorization", f"Bearer {token}")])
        assert app.channels == ["users/1", "everyone"]
        await app.service("users").remove(1)
        await app.wait_for_listeners()
        assert "users/1" not in app.channels
        assert stream.events == []


async def test_a_token_that_expires_ends_the_stream():
    app = build()

    def sign_in(context):
        context.params.authentication = {"payload": {"exp": time.time() + 1.5}}

    app.service("messages").hooks(before={"find": [sign_in]})
    stream = await Stream(app, "/messages").started()
    await app.service("messages").create({"n": 1})
    await stream.until(lambda: stream.ended)
    assert stream.events == [("created", {"n": 1, "id": 1}), ("expired", None)]
    assert app.channel_registry.connections == {}
    await stream.leave()


class TestThePlugin:
    @pytest.mark.parametrize("plugin", [sse, socketio])
    def test_has_brackets(self, plugin):
        with pytest.raises(TypeError, match=rf"write app.configure\({plugin.__name__}\(\)\), with"):
            express(App()).configure(rest()).configure(plugin)

    @pytest.mark.parametrize(
        ("options", "refused"),
        [
            ({"max_streams": 2}, (503, "Too many streams")),
            ({"max_streams_of_address": 2}, (429, "Too many streams of this address")),
            ({"max_streams": None}, None),
        ],
    )
    async def test_limits_streams(self, options, refused):
        app = build(**options)
        app.service("messages").hooks(before={"find": [lambda context: asyncio.sleep(0.01)]})
        assert (await Stream(app, "/messages?$where=1").error())[0] == 400  # does not count
        streams = [Stream(app, "/messages"), Stream(app, "/events?services=messages")]
        await asyncio.sleep(0)  # their hooks run
        third = Stream(app, "/messages")
        if refused is None:
            await third.started()
            assert third.status == 200
        else:
            assert await third.error() == refused
        await third.leave()
        for stream in streams:
            await stream.started()
            assert stream.status == 200
            await stream.leave()
        fourth = await Stream(app, "/messages").started()
        assert fourth.status == 200
        await fourth.leave()

    @pytest.mark.parametrize(
        "name",
        [
            "keep",
            "keep_seconds",
            "keep_bytes",
            "heartbeat",
            "max_streams",
            "max_streams_of_address",
        ],
    )
    def test_takes_positive_numbers(self, name):
        with pytest.raises(ValueError, match=rf"sse\({name}=0\): it must be greater than 0"):
            sse(**{name: 0})
        with pytest.raises(TypeError, match=rf"sse\({name}='1'\): give a number"):
            sse(**{name: "1"})

    async def test_a_service_must_not_hide_the_streams_of_several(self):
        app = build().use("events", MemoryService())
        with pytest.raises(RuntimeError, match=r"service at '/events' hides .* sse\(\"streams\"\)"):
            await app.listen(0)

    def test_needs_a_web_application(self):
        with pytest.raises(TypeError, match=r"write app = express\(App\(\)\)"):
            App().configure(sse())

    def test_needs_rest(self):
        with pytest.raises(RuntimeError, match="before sse"):
            express(App()).configure(sse())

    def test_is_configured_once(self):
        with pytest.raises(RuntimeError, match="already"):
            build().configure(sse())

    async def test_may_have_another_path(self, connect):
        app = build(events_path="/live/all/")
        stream = await connect("/live/all?services=users", app=app)
        await app.service("users").create({"n": 1})
        assert await stream.have(1) == [("users created", {"n": 1, "id": 1})]
