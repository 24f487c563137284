"""Channels, publishers and connections, without a transport."""

import asyncio
import gc
import json
import logging
import os

import pytest

from alula import App, HookContext, Params
from alula._channels import Connection, Event
from alula._context import connection_params
from alula._events import HeldEvents
from alula.adapters.memory import MemoryService
from alula.express import express
from alula.outgoing import RedactedRecord


class Client:
    """What a transport would send to its client."""

    queued = 0

    def __init__(self):
        self.messages = []
        self.reasons = []

    def deliver(self, message):
        self.messages.append(message)

    async def close(self, reason="", *, reconnect=True):
        self.reasons.append(reason if reconnect else f"{reason} for good")

    @property
    def events(self):
        return [(f"{each.path} {each.name}", each.data) for each in self.messages]


def connect(app, *channels, **attributes):
    """Return the client and the connection of a client that joined channels."""
    client = Client()
    connection = Connection(client, provider="test", headers={}, ip=None, **attributes)
    app.add_connection(connection)
    if channels:
        app.channel(*channels).join(connection)
    return client, connection


class Echo:
    async def find(self, params):
        return []

    async def create(self, data, params):
        return data

    async def patch(self, id, data, params):
        return {"id": id, **data}

    async def remove(self, id, params):
        return {"id": id}


@pytest.fixture
def app():
    return App().use("echo", Echo(), events=["status"]).use("other", Echo())


@pytest.fixture
def echo(app):
    return app.service("echo")


class TestChannel:
    def test_has_the_connections_that_joined(self, app):
        _, a = connect(app, "rooms/a")
        _, b = connect(app, "rooms/a", "rooms/b")
        assert app.channel("rooms/a").connections == [a, b]
        assert app.channel("rooms/a", "rooms/b").connections == [a, b]
        assert len(app.channel(["rooms/b", ["none"][0]])) == 1
        assert app.channels == ["rooms/a", "rooms/b"]
        assert b.channels == ["rooms/a", "rooms/b"]

    def test_joins_once(self, app):
        _, a = connect(app)
        channel = app.channel("x").join(a).join(a, None)
        assert len(channel) == 1

    def test_of_nothing_does_nothing(self, app):
        app.channel("x").join(None, None)
        app.channel("x").leave(None)
        app.channel([]).join(connect(app)[1])
        assert app.channels == []

    def test_leaves(self, app):
        _, a = connect(app, "x", "y", "z")
        _, b = connect(app, "x")
        app.channel("x", "y", "none").leave(a)
        assert a.channels == ["z"]
        assert app.channel("x").connections == [b]
        assert app.channels == ["x", "z"]

    def test_leaves_by_a_function(self, app):
        _, a = connect(app, "x", name="a")
        _, b = connect(app, "x", name="b")
        app.channel("x").leave(lambda connection: connection.name == "b")
        assert app.channel("x").connections == [a]
        assert b.channels == []

    def test_filters(self, app):
        _, a = connect(app, "x", name="a")
        _, b = connect(app, "x", name="b")
        only_a = app.channel("x").filter(lambda connection: connection.name == "a")
        assert only_a.connections == [a]
        assert a in only_a
        assert b not in only_a
        assert "a" not in only_a
        assert only_a.filter(lambda connection: False).connections == []

    def test_is_a_view(self, app):
        room = app.channel("rooms/a")
        _, a = connect(app, "rooms/a")
        assert room.connections == [a]
        assert repr(room) == "app.channel('rooms/a')"

    def test_a_closed_connection_joins_nothing(self, app):
        _, a = connect(app, "x")
        app.remove_connection(a)
        app.channel("x").join(a)
        assert a.channels == app.channels == []

    def test_names_of_python_objects_are_names_like_others(self, app):
        connect(app, "__class__", "constructor")
        assert app.channels == ["__class__", "constructor"]

    @pytest.mark.parametrize("names", [(), (5,), (None,), (["a", 5],)])
    def test_needs_names(self, app, names):
        with pytest.raises(TypeError):
            app.channel(*names)

    @pytest.mark.parametrize("wrong", [{"id": 1}, "name", 5])
    def test_takes_connections(self, app, wrong):
        with pytest.raises(TypeError, match="only connections join"):
            app.channel("x").join(wrong)
        with pytest.raises(TypeError, match="takes connections"):
            app.channel("x").leave(wrong)
        with pytest.raises(TypeError, match="takes a function"):
            app.channel("x").filter(wrong)

    def test_leaves_no_trace(self, app):
        gc.collect()
        before = len(gc.get_objects())
        for number in range(2_000):
            connection = Connection(Client(), provider="test", headers={}, ip=None)
            app.add_connection(connection)
            app.channel("everyone", f"users/{number}").join(connection)
            app.remove_connection(connection)
        del connection
        gc.collect()
        assert app.channels == []
        assert app.channel_registry.connections == {}
        assert len(gc.get_objects()) - before < 100


class TestConnection:
    def test_has_attributes_like_params(self, app):
        _, a = connect(app, name="a")
        a.tenant = "acme"
        a["room"] = 5
        assert (a.name, a["tenant"], a.room) == ("a", "acme", 5)
        assert (a.get("none"), a.get("user", 0), a.get("ip", "?")) == (None, 0, "?")
        assert "tenant" in a
        assert "user" in a
        assert "none" not in a
        assert list(a)[-3:] == ["name", "tenant", "room"]
        with pytest.raises(AttributeError, match=r"the connection has no 'none'; it has headers, "):
            a.none  # noqa: B018  # reading it raises
        with pytest.raises(KeyError):
            a["none"]
        assert "headers" not in repr(a)

    def test_is_in_the_params_of_its_calls(self, app):
        _, a = connect(app, tenant="acme")
        a.user = {"id": 1}
        params = connection_params(a, {"x": 1}, {"room": "5"})
        assert isinstance(params, Params)
        assert params.connection is a
        assert (params.query, params.route, params.provider) == ({"x": 1}, {"room": "5"}, "test")
        assert (params.tenant, params.user, params.ip) == ("acme", {"id": 1}, None)
        assert params.authentication is None

    async def test_of_a_call_can_be_given(self, app, echo):
        _, a = connect(app)
        seen = []
        echo.hooks(before={"find": [lambda context: seen.append(context.params.connection)]})
        await echo.find(connection=a)
        await echo.find()
        assert seen == [a, None]

    async def test_gets_nothing_once_it_is_closed(self, app, echo):
        client, a = connect(app, "x")
        echo.publish(lambda data, context: app.channel("x"))
        await a.close("done")
        await echo.create({})
        assert client.events == []
        assert client.reasons == ["done"]

    def test_is_told_to_listeners(self, app):
        told = []
        app.on("connection", lambda connection: told.append(("on", connection.channels)))
        app.on("disconnect", lambda connection: told.append(("off", connection.channels)))
        _, a = connect(app, "x")
        assert list(app.channel_registry.connections.values()) == [a]
        app.remove_connection(a)
        app.remove_connection(a)
        assert told == [("on", []), ("off", ["x"])]
        assert not a.is_open

    def test_that_was_refused_is_not_told(self, app):
        told = []
        app.on("disconnect", told.append)
        refused = Connection(Client(), provider="test", headers={}, ip=None)
        app.channel("x").join(refused)
        app.remove_connection(refused)
        assert told == app.channels == []

    async def test_is_closed_by_the_event_disconnect(self, app):
        told = []
        client, a = connect(app, "x")
        assert app.emit("disconnect", a) is False
        app.on("disconnect", told.append)
        client, a = connect(app, "x")
        assert app.emit("disconnect", a) is True
        app.emit("disconnect", a)
        assert app.channels == []
        await app.wait_for_listeners()
        assert client.reasons == ["disconnect for good"]
        app.remove_connection(a)  # as the transport does
        assert told == [a]

    def test_other_values_of_disconnect_are_only_told(self, app):
        told = []
        app.on("disconnect", told.append)
        assert app.emit("disconnect", "x") is True
        assert told == ["x"]


class TestPublishers:
    async def test_without_one_nothing_is_sent(self, app, echo):
        client, _ = connect(app, "x")
        await echo.create({})
        echo.emit("status", {})
        assert client.events == []

    async def test_all_forms(self, app, echo):
        client, _ = connect(app, "x")

        @echo.publish("created")
        def created(data, context):
            return app.channel("x").send("created")

        @echo.publish
        def other(data, context):
            return app.channel("x").send("other")

        assert echo.publish("removed", created) is created
        await echo.create({})
        await echo.patch(1, {})
        await echo.remove(1)
        assert [data for _, data in client.events] == ["created", "other", "created"]

    async def test_the_first_of_service_and_app_counts(self, app, echo):
        client, _ = connect(app, "x")

        def sends(text):
            return lambda data, context: app.channel("x").send(text)

        async def heard():
            client.messages.clear()
            await echo.create({})
            return client.messages[0].data

        app.publish(sends("app"))
        assert await heard() == "app"
        app.publish("created", sends("app, created"))
        assert await heard() == "app, created"
        echo.publish(sends("service"))
        assert await heard() == "service"
        echo.publish("created", sends("service, created"))
        assert await heard() == "service, created"
        echo.publish("created", sends("the last one"))
        assert await heard() == "the last one"

    async def test_of_the_app_count_for_later_services(self, app):
        client, _ = connect(app, "x")
        app.publish(lambda data, context: app.channel("x"))
        await app.use("late", Echo()).service("late").create({"n": 1})
        assert client.events == [("late created", {"n": 1})]

    async def test_return_channels_in_any_depth(self, app, echo):
        a, _ = connect(app, "a")
        b, _ = connect(app, "b", "a")
        echo.publish(
            lambda data, context: [None, (app.channel("a"), [False, app.channel("b")]), set()]
        )
        await echo.create({"n": 1})
        assert a.events == b.events == [("echo created", {"n": 1})]

    @pytest.mark.parametrize("returned", [None, False, [], (None, [False])])
    async def test_may_return_nothing(self, app, echo, returned, caplog):
        client, _ = connect(app, "x")
        echo.publish(lambda data, context: returned)
        await echo.create({})
        assert client.events == []
        assert caplog.text == ""

    @pytest.mark.parametrize("returned", [True, "x", {"x": 1}, ["x"]])
    async def test_that_return_something_else_reach_nobody(self, app, echo, returned, caplog):
        client, _ = connect(app, "x")
        echo.publish(lambda data, context: [app.channel("x"), returned])
        await echo.create({})
        assert client.events == []
        text = (
            "return app.channel(...), a list of channels, or None; nobody gets the event 'created'"
        )
        assert f"{text} of 'echo'" in caplog.text

    async def test_that_fail_are_logged(self, app, echo, caplog):
        client, _ = connect(app, "x")

        @echo.publish("created")
        def plain(data, context):
            raise KeyError("plain")

        @echo.publish("patched")
        async def later(data, context):
            raise KeyError("later")

        @echo.publish("removed")
        def by_filter(data, context):
            return [app.channel("x"), app.channel("x").filter(lambda connection: 1 / 0)]

        assert await echo.create({"n": 1}) == {"n": 1}
        assert await echo.patch(1, {}) == {"id": 1}
        assert await echo.remove(1) == {"id": 1}
        await app.wait_for_listeners()
        assert client.events == []
        events = {"plain": "created", "later": "patched", "by_filter": "removed"}
        for name, event in events.items():
            text = f"{name} failed; nobody gets the event '{event}' of 'echo'"
            assert text in caplog.text

    @pytest.mark.parametrize("wrong", [lambda: None, lambda data: None, 5, None])
    def test_take_data_and_context(self, app, echo, wrong):
        for owner in (app, echo):
            with pytest.raises(TypeError, match=r"\(data, context\)"):
                owner.publish("created", wrong)(5) if wrong is None else owner.publish(
                    "created", wrong
                )

    def test_are_for_events_that_exist(self, app, echo):
        with pytest.raises(ValueError, match="did you mean 'created'"):
            echo.publish("create", lambda data, context: None)
        app.publish("custom", lambda data, context: None)

    async def test_asynchronous_ones_keep_the_order(self, app, echo):
        client, _ = connect(app, "x")
        released = asyncio.Event()

        @echo.publish("created")
        async def slow(data, context):
            await released.wait()
            return app.channel("x")

        echo.publish("patched", lambda data, context: app.channel("x"))
        app.service("other").publish(lambda data, context: app.channel("x"))
        await echo.create({"n": 1})
        await echo.patch(2, {})
        await app.service("other").create({"n": 3})
        assert client.events == []
        released.set()
        await app.wait_for_listeners()
        await echo.patch(4, {})
        assert [event for event, _ in client.events] == [
            "echo created",
            "echo patched",
            "other created",
            "echo patched",
        ]

    async def test_that_take_too_long_are_given_up(self, app, echo, caplog, monkeypatch):
        monkeypatch.setattr("alula._channels._channels.PUBLISHER_SECONDS", 0.01)
        client, _ = connect(app, "x")

        @echo.publish("created")
        async def endless(data, context):
            await asyncio.Event().wait()

        echo.publish("patched", lambda data, context: app.channel("x"))
        await echo.create({})
        await echo.patch(1, {})
        await app.wait_for_listeners()
        assert client.events == [("echo patched", {"id": 1})]
        assert "endless failed" in caplog.text

    async def test_that_await_what_is_cancelled_hold_nobody_up(self, app, echo, caplog):
        client, _ = connect(app, "x")

        @echo.publish("created")
        async def cancelled(data, context):
            raise asyncio.CancelledError  # as of a task that it awaits

        echo.publish("patched", lambda data, context: app.channel("x"))
        await echo.create({})
        await echo.patch(1, {})
        await app.wait_for_listeners()
        assert client.events == [("echo patched", {"id": 1})]
        assert "cancelled failed; nobody gets the event 'created'" in caplog.text

    async def test_that_wait_end_with_their_task(self, app, echo, caplog):
        @echo.publish("created")
        async def endless(data, context):
            await asyncio.Event().wait()

        connect(app, "x")
        await echo.create({})
        [waiting] = (task for task in asyncio.all_tasks() if "wait for pub" in task.get_name())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert caplog.text == ""

    async def test_that_are_too_slow_lose_events(self, app, echo, caplog, monkeypatch):
        monkeypatch.setattr("alula._channels._channels.MAX_WAITING", 2)
        client, _ = connect(app, "x")
        released = asyncio.Event()

        @echo.publish("created")
        async def slow(data, context):
            await released.wait()
            return app.channel("x")

        echo.publish("patched", lambda data, context: app.channel("x"))
        for number in range(3):
            await echo.create({"n": number})
        await echo.patch(3, {})
        released.set()
        await app.wait_for_listeners()
        assert [data["n"] for _, data in client.events] == [0, 1]
        released.clear()
        for number in range(2):  # there is room again
            await echo.create({"n": number})
        released.set()
        await app.wait_for_listeners()
        assert len(client.events) == 4
        for event in ("created", "patched"):
            text = f"too many events wait for publishers; nobody gets '{event}' of 'echo'"
            assert caplog.text.count(text) == 1

    async def test_a_flood_of_one_client_loses_only_its_own_events(
        self, app, echo, caplog, monkeypatch
    ):
        monkeypatch.setattr("alula._channels._channels.MAX_WAITING", 8)
        client, _ = connect(app, "x")
        released = asyncio.Event()

        @echo.publish("created")
        async def slow(data, context):
            await released.wait()
            return app.channel("x")

        for number in range(20):
            await echo.create({"n": number}, provider="rest", user={"id": 1})
        for number in range(20, 22):
            await echo.create({"n": number}, provider="rest", ip="192.0.2.1")
        await echo.create({"n": 22})  # of the server itself
        released.set()
        await app.wait_for_listeners()
        assert [data["n"] for _, data in client.events] == [0, 1, 2, 3, 20, 21, 22]

    async def test_a_publisher_may_publish_more_than_may_wait(self, app, echo, monkeypatch):
        monkeypatch.setattr("alula._channels._channels.MAX_WAITING", 2)
        client, _ = connect(app, "x")
        released = asyncio.Event()

        @echo.publish("created")
        async def slow(data, context):
            await released.wait()
            return app.channel("x")

        @echo.publish("patched")
        def nested(data, context):
            echo.emit("status", 1)
            return app.channel("x")

        echo.publish("status", lambda data, context: app.channel("x"))
        await echo.create({})
        await echo.patch(1, {})
        released.set()
        await app.wait_for_listeners()
        assert [name for name, _ in client.events] == [
            "echo created",
            "echo status",
            "echo patched",
        ]

    def test_asynchronous_ones_need_a_loop(self, app, echo, caplog):
        client, _ = connect(app, "x")

        @echo.publish("status")
        async def later(data, context):
            raise AssertionError

        class Awaitable:
            def __await__(self):
                raise AssertionError

        echo.emit("status", 1)
        echo.publish("status", lambda data, context: Awaitable())
        echo.emit("status", 1)
        assert client.events == []
        assert caplog.text.count("emit 'status' of 'echo' where an event loop is") == 2

    async def test_without_anybody_are_not_called(self, app, echo):
        called = []
        echo.publish(lambda data, context: called.append(data))
        await echo.create({})
        assert called == []


class TestData:
    async def test_of_a_channel_comes_first(self, app, echo):
        a, _ = connect(app, "a")
        b, _ = connect(app, "b")
        c, _ = connect(app, "c", "a")
        echo.publish(
            lambda data, context: [
                app.channel("a").send({"room": "a"}),
                app.channel("a").send({"never": True}),
                app.channel("b").send({"room": "b"}),
                app.channel("c"),
            ]
        )
        await echo.create({"n": 1})
        assert [data for _, data in a.events + b.events + c.events] == [
            {"room": "a"},
            {"room": "b"},
            {"room": "a"},
        ]

    async def test_of_the_first_channel_counts_though_it_is_plain(self, app, echo):
        client, _ = connect(app, "a", "b")
        echo.publish(lambda data, context: [app.channel("a"), app.channel("b").send(2)])
        await echo.create({"n": 1})
        assert client.events == [("echo created", {"n": 1})]

    @pytest.mark.parametrize("value", [0, "", False, [1, 2], []])
    async def test_may_be_anything(self, app, echo, value):
        client, _ = connect(app, "x")
        echo.publish(lambda data, context: app.channel("x").send(value))
        await echo.create({"n": 1})
        assert client.events == [("echo created", value)]

    async def test_of_none_is_the_record(self, app, echo):
        client, _ = connect(app, "x")
        echo.publish(lambda data, context: app.channel("x").send(None))
        await echo.create({"n": 1})
        assert client.events == [("echo created", {"n": 1})]

    async def test_goes_with_a_filter_in_any_order(self, app, echo):
        a, _ = connect(app, "x", name="a")
        b, _ = connect(app, "x", name="b")

        def is_a(connection):
            return connection.name == "a"

        echo.publish("created", lambda data, context: app.channel("x").filter(is_a).send(1))
        echo.publish("patched", lambda data, context: app.channel("x").send(2).filter(is_a))
        await echo.create({})
        await echo.patch(1, {})
        assert [data for _, data in a.events] == [1, 2]
        assert b.events == []

    @pytest.mark.parametrize("dispatch", [None, False, 0, "", {"masked": True}])
    async def test_is_what_the_hooks_dispatch(self, app, echo, dispatch):
        client, _ = connect(app, "x")
        echo.publish(lambda data, context: app.channel("x"))

        def hide(context):
            context.dispatch = dispatch

        echo.hooks(after={"create": [hide]})
        await echo.create({"secret": 1})
        assert client.events == [("echo created", dispatch)]

    async def test_of_several_records_is_one_event_each(self, app, echo):
        client, _ = connect(app, "x")
        echo.publish(lambda data, context: app.channel("x") if data["n"] < 3 else None)
        await echo.create([{"n": 1}, {"n": 2}, {"n": 3}])
        assert client.events == [("echo created", {"n": 1}), ("echo created", {"n": 2})]

    async def test_of_several_records_is_what_each_may_show(self, app, echo):
        client, _ = connect(app, "x")
        echo.publish(lambda data, context: app.channel(data["secret"]))

        def redact(context):
            context.result = [RedactedRecord(r, {"n": r["n"]}) for r in context.result]

        echo.hooks(after={"create": [redact]})
        await echo.create([{"n": 1, "secret": "x"}, {"n": 2, "secret": "x"}])
        assert client.events == [("echo created", {"n": 1}), ("echo created", {"n": 2})]
        assert [message.record["secret"] for message in client.messages] == ["x", "x"]

    @pytest.mark.parametrize(
        ("dispatch", "sent"), [([1, 2], [1, 2]), ([1], [[1], [1]]), (None, [None, None])]
    )
    async def test_of_several_records_with_dispatch(self, app, echo, dispatch, sent):
        client, _ = connect(app, "x")
        echo.publish(lambda data, context: app.channel("x"))

        def hide(context):
            context.dispatch = dispatch

        echo.hooks(after={"create": [hide]})
        await echo.create([{"n": 1}, {"n": 2}])
        assert [data for _, data in client.events] == sent

    async def test_that_is_sent_is_redacted(self, app, echo):
        client, _ = connect(app, "x")
        user = RedactedRecord({"name": "Ada", "password": "hash"}, {"name": "Ada"})
        echo.publish(lambda data, context: app.channel("x").send({"by": user}))
        await echo.create({})
        assert client.events == [("echo created", {"by": {"name": "Ada"}})]

    async def test_is_encoded_once(self, app, echo):
        clients = [connect(app, "x")[0] for _ in range(3)]
        echo.publish(lambda data, context: app.channel("x"))
        await echo.create({"n": 1})
        encoded = []

        def encode(message):
            encoded.append(message)
            return json.dumps(message.data)

        assert [client.messages[0].encoded(encode) for client in clients] == ['{"n": 1}'] * 3
        assert len(encoded) == 1
        assert clients[0].messages[0].encoded(repr) == "<Event echo created>"


class TestEvents:
    async def test_that_a_service_emits(self, app, echo):
        client, _ = connect(app, "x")
        contexts = []

        @echo.publish("status")
        def everyone(data, context):
            contexts.append(context)
            return app.channel("x")

        echo.emit("status", {"n": 1})
        echo.emit("status")
        assert client.events == [("echo status", {"n": 1}), ("echo status", None)]
        context = contexts[0]
        assert (context.app, context.service, context.path) == (app, echo, "echo")
        assert (context.method, context.event, context.result) == ("", "status", {"n": 1})
        assert context.params.query == {}

    async def test_that_a_service_emits_with_a_context(self, app, echo):
        contexts = []
        connect(app)
        echo.publish(lambda data, context: contexts.append(context))
        given = HookContext(app, echo, "create", Params())
        echo.emit("created", {"n": 1}, given)
        assert contexts == [given]

    async def test_that_are_not_listed_reach_nobody(self, app, echo, caplog):
        client, _ = connect(app, "x")
        app.publish(lambda data, context: app.channel("x"))
        assert echo.emit("unlisted", {}) is False
        assert "events=['unlisted']" in caplog.text
        assert client.events == []

    async def test_that_a_service_lists_are_emitted_by_itself(self, app):
        client, _ = connect(app, "x")

        class Own(Echo):
            async def create(self, data, params):
                app.service("own").emit("created", {"own": data})
                return data

        own = app.use("own", Own(), events=["created"]).service("own")
        own.publish(lambda data, context: app.channel("x"))
        await own.create({"n": 1})
        await own.patch(1, {})
        assert client.events == [("own created", {"own": {"n": 1}}), ("own patched", {"id": 1})]

    async def test_that_a_hook_changes(self, app, echo):
        client, _ = connect(app, "x")
        echo.publish(lambda data, context: app.channel("x").send(context.event))

        def change(context):
            context.event = context.data["event"]

        echo.hooks(after={"create": [change]})
        for event in (None, "status", "patched", "unlisted"):
            await echo.create({"event": event})
        assert [data for _, data in client.events] == ["status", "patched"]

    async def test_that_are_held_back(self, app, echo):
        client, _ = connect(app, "x")
        echo.publish(lambda data, context: app.channel("x"))
        with HeldEvents(lambda context: True) as held:
            await echo.create({"n": 1})
            assert client.events == []
            held.release()
            await echo.create({"n": 2})
            held.drop()
        assert client.events == [("echo created", {"n": 1})]

    async def test_of_a_mounted_application(self):
        inner = App().use("echo", Echo(), events=["status"])
        outer = App().use("in", inner)
        client, _ = connect(outer, "x")
        inside, _ = connect(inner, "x")
        outer.publish(lambda data, context: outer.channel("x"))
        inner.publish(lambda data, context: inner.channel("x"))
        await inner.service("echo").create({"n": 1})
        await outer.service("in/echo").create({"n": 2})
        inner.service("echo").emit("status", 3)
        assert client.events == [
            ("in/echo created", {"n": 1}),
            ("in/echo created", {"n": 2}),
            ("in/echo status", 3),
        ]
        assert [data for _, data in inside.events] == [{"n": 1}, {"n": 2}, 3]

    async def test_the_web_application_has_the_same_interface(self):
        web = express(App()).use("echo", Echo())
        client, connection = connect(web, "x")

        @web.publish
        def everyone(data, context):
            assert context.app is web
            return web.channel("x")

        await web.service("echo").create({"n": 1})
        assert client.events == [("echo created", {"n": 1})]
        assert web.channels == ["x"]
        web.remove_connection(connection)
        assert web.channel_registry.connections == {}


@pytest.fixture
def pair():
    """Two processes that share events: what one forwards, the other receives."""
    apps = [App().use("echo", Echo()), App().use("echo", Echo())]
    for app, other in (apps, apps[::-1]):
        app.channel_registry.forward = other.channel_registry.receive
        app.service("echo").publish(lambda data, context, app=app: app.channel("x"))
    return apps


class TestSeveralProcesses:
    async def test_share_events(self, pair):
        here, there = pair
        clients = [connect(app, "x")[0] for app in pair]
        await here.service("echo").create({"n": 1})
        await there.service("echo").create({"n": 2})
        for client in clients:
            assert [data for _, data in client.events] == [{"n": 1}, {"n": 2}]

    async def test_tell_no_secrets(self, pair):
        here, there = pair
        sent, contexts = [], []
        here.channel_registry.forward = sent.append
        redacted = RedactedRecord({"n": 1, "secret": 2}, {"n": 1})
        here.service("echo").hooks(after={"patch": [lambda c: setattr(c, "result", redacted)]})
        user = {"_id": 7, "email": "ada@example.com"}
        params = {"provider": "rest", "user": user, "query": {"a": 1}, "headers": {"x": "token"}}
        await here.service("echo").patch(5, {}, params)
        registry = here.channel_registry
        expected = Event(
            path="echo",
            name="patched",
            record={"n": 1, "secret": 2},
            data={"n": 1},
            method="patch",
            id=5,
            query={"a": 1},
            provider="rest",
            user={"_id": 7},
            origin=registry.origin,
            sequence=1,
        )
        assert sent == [expected]
        client, _ = connect(there, "x")
        there.service("echo").publish(
            lambda data, context: contexts.append(context) or there.channel("x")
        )
        there.channel_registry.receive(sent[0])
        assert client.events == [("echo patched", {"n": 1})]
        context = contexts[0]
        assert (context.app, context.path, context.method) == (there, "echo", "patch")
        assert (context.event, context.id) == ("patched", 5)
        assert context.result == {"n": 1, "secret": 2}
        assert (context.params.user, context.params.provider) == ({"_id": 7}, "rest")
        assert context.params.query == {"a": 1}

    @pytest.mark.parametrize("user", [None, {"name": "x"}, object(), type("U", (), {"id": 3})()])
    async def test_users_in_other_forms(self, pair, user):
        sent = []
        pair[0].channel_registry.forward = sent.append
        await pair[0].service("echo").create({}, user=user)
        assert sent[0].user == ({"id": 3} if hasattr(user, "id") else None)

    async def test_what_comes_back_is_dropped(self, pair):
        here, _ = pair
        client, _ = connect(here, "x")
        here.channel_registry.forward = here.channel_registry.receive
        await here.service("echo").create({"n": 1})
        assert len(client.events) == 1

    async def test_services_may_differ(self, pair):
        here, there = pair
        client, _ = connect(there, "x")
        here.use("more", Echo()).service("more").publish(lambda data, context: None)
        await here.service("more").create({})
        there.use("more", Echo())  # without a publisher
        await here.service("more").create({})
        assert client.events == []

    async def test_followers_hear_of_all(self, pair, caplog):
        here, there = pair
        heard = []
        for app in pair:
            app.channel_registry.follow(
                "users", lambda event, data, context: heard.append((event, data, context.method))
            )
            app.use("users", Echo())
        there.channel_registry.follow("users", lambda event, data, context: 1 / 0)
        assert await here.service("users").patch(1, {"role": "x"}) == {"id": 1, "role": "x"}
        assert heard == [("patched", {"id": 1, "role": "x"}, "patch")] * 2
        assert "failed for an event of 'users'" in caplog.text

    async def test_events_of_each_keep_their_order(self, pair):
        here, there = pair
        client, _ = connect(there, "x")
        released = asyncio.Event()

        async def slow(data, context):
            await released.wait()
            return there.channel("x")

        there.service("echo").publish("created", slow)
        await here.service("echo").create({"n": 1})
        await here.service("echo").patch(2, {})
        assert client.events == []
        await there.service("echo").patch(3, {})
        assert client.events == [("echo patched", {"id": 3})]
        released.set()
        await there.wait_for_listeners()
        assert [data for _, data in client.events] == [{"id": 3}, {"n": 1}, {"id": 2}]


class TestCost:
    async def test_a_service_without_publishers_pays_nothing(self, app, echo, monkeypatch):
        connect(app, "x")
        app.service("other").publish(lambda data, context: None)

        def refuse(*args):
            raise AssertionError

        monkeypatch.setattr("alula._service._handle.event_records", refuse)
        await echo.create({})

    def test_a_client_has_no_channels(self):
        from alula.client import create_client

        with pytest.raises(AttributeError):
            create_client().channel("x")  # type: ignore[attr-defined]  # clients have none, and that is what is tested


async def test_an_event_has_no_position_without_an_event_log(app, echo):
    client, _ = connect(app, "x")
    echo.publish(lambda data, context: app.channel("x"))
    await echo.create({})
    assert client.messages[0].position is None


async def test_memory_service_publishes(caplog):
    caplog.set_level(logging.INFO)
    app = App().use("messages", MemoryService(multi=True))
    client, _ = connect(app, "x")
    app.service("messages").publish(lambda data, context: app.channel("x"))
    await app.service("messages").create([{"n": 1}, {"n": 2}])
    await app.service("messages").remove(None, query={})
    assert [event for event, _ in client.events] == ["messages created"] * 2 + [
        "messages removed"
    ] * 2


# -- signals and secrets ---------------------------------------------------------------------------


def test_signals_reach_other_processes_alone():
    here, there = App(), App()
    heard, forwarded = [], []
    for app in (here, there):
        app.channel_registry.on_signal("sessions", lambda data, app=app: heard.append((app, data)))
    here.channel_registry.signal("sessions", 0)  # without a bus
    here.channel_registry.forward = forwarded.append
    here.channel_registry.signal("sessions", [1])
    for app in (here, there):
        app.channel_registry.receive(forwarded[0])
    assert heard == [(there, [1])]
    assert forwarded[0].sequence == 1


def test_signals_are_counted_among_the_events():
    app, forwarded = App().use("echo", Echo()), []
    app.publish(lambda data, context: None)
    app.channel_registry.forward = forwarded.append
    app.service("echo").emit("created", 1)
    app.channel_registry.signal("topic", 2)
    app.service("echo").emit("created", 3)
    assert [(each.record, each.sequence) for each in forwarded] == [(1, 1), (2, 2), (3, 3)]


def test_a_service_may_keep_its_events_from_everybody_else():
    app, forwarded = App().use("echo", Echo()), []
    app.channel_registry.forward = forwarded.append
    app.service("echo").publish(lambda data, context: None)
    app.service("echo").emit("created", 1)
    app.service("echo").never_publish()
    app.service("echo").emit("created", 2)
    assert [each.data for each in forwarded] == [1]
    with pytest.raises(ValueError, match="hold secrets"):
        app.service("echo").publish("created", lambda data, context: None)


async def test_a_service_that_is_mounted_keeps_them_as_well():
    inner = App().use("echo", Echo())
    outer, forwarded = App().use("inner", inner), []
    outer.publish(lambda data, context: None)
    outer.channel_registry.forward = forwarded.append
    inner.service("echo").never_publish()
    inner.service("echo").emit("created", 1)
    await outer.service("inner/echo").create({})
    assert forwarded == []


def test_a_connection_leaves_the_channels_of_all_applications():
    inner = App()
    outer = App().use("inner", inner)
    _, connection = connect(outer, "everyone")
    inner.channel("everyone", "rooms/a").join(connection)
    inner.channel("everyone").join(connection)
    assert connection.channels == ["everyone", "rooms/a"]
    inner.channel("everyone").leave(connection)
    assert (outer.channels, inner.channels) == (["everyone"], ["rooms/a"])
    inner.channel("everyone").leave(connection)
    assert connection.channels == ["everyone", "rooms/a"]
    inner.channel("everyone").join(connection)
    inner.channel_registry.leave_all(connection, {"rooms/a"})
    assert (outer.channels, inner.channels) == ([], ["rooms/a"])
    outer.remove_connection(connection)
    assert (inner.channels, connection.channels) == ([], [])


class TestAtTheStart:
    @pytest.fixture
    def web(self, app):
        web = express(App()).use("echo", Echo())
        web.transports += ["rest", "socketio"]
        return web

    async def test_it_is_told_once_that_nobody_gets_events(self, web, caplog):
        await (await web.setup()).setup()
        assert caplog.text.count("socketio is configured, but no service has a publisher") == 1
        assert "@app.service('echo').publish" in caplog.text

    @pytest.mark.parametrize("register", ["app", "service", "rest", "silent", "secret"])
    async def test_it_is_not_told_where(self, web, register, caplog):
        if register == "app":
            web.publish(lambda data, context: None)
        elif register == "service":
            web.service("echo").publish("removed", lambda data, context: None)
        elif register == "rest":
            web.transports.remove("socketio")
        elif register == "secret":
            web.service("echo").never_publish()
        else:
            await web.unuse("echo")
            web.use("echo", Echo(), methods=["find"])
        await web.setup()
        assert caplog.text == ""

    @pytest.mark.parametrize(("worker", "count"), [("w1", 1), ("w2", 0)])
    async def test_it_is_told_by_the_first_worker(self, web, worker, count, caplog, monkeypatch):
        monkeypatch.setenv("ALULA_WORKER", f"{os.getppid()}:{worker}:/tmp")
        await web.setup()
        assert caplog.text.count("no service has a publisher") == count

    async def test_custom_events_count(self, web, caplog):
        await web.unuse("echo")
        web.use("echo", Echo(), methods=["find"], events=["status"])
        await web.setup()
        assert "no service has a publisher" in caplog.text

    async def test_publishers_that_never_run_are_told(self, web, caplog):
        web.publish("paid", lambda data, context: None)
        web.publish("created", lambda data, context: None)
        web.publish("checked", lambda data, context: None)
        web.use("orders", Echo(), events=["checked"])
        await web.setup()
        assert "for 'paid' never runs: no service emits it" in caplog.text
        assert len(caplog.records) == 1


def test_the_name_of_a_channel_is_no_event_to_publish():
    app = App().use("messages", MemoryService())
    with pytest.raises(ValueError, match="emits no event 'everyone'"):
        app.service("messages").publish("everyone")  # not yet called with a publisher
