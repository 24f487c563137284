"""Measurements of connections, channels and events."""

from __future__ import annotations

from alula import App
from alula._channels import Connection
from alula._live import LiveList, live_lists_of
from alula.adapters.memory import MemoryService
from alula.telemetry import telemetry


class Client:
    def __init__(self, queued):
        self.queued = queued

    def deliver(self, message):
        pass

    async def close(self, reason="", *, reconnect=True):
        pass


class Messages:
    async def create(self, data, params):
        return data


def connected(app, provider, queued=0):
    connection = Connection(Client(queued), provider=provider, headers={}, ip=None)
    app.add_connection(connection)
    return connection


def app_with(recording):
    app = App().configure(telemetry(**recording.providers)).use("messages", Messages())
    app.publish(lambda data, context: [app.channel("one"), app.channel("all")])
    return app


def values(recording, name):
    return {
        point.attributes.get("alula.provider"): point.value
        for point in recording.points(f"alula.realtime.{name}")
    }


async def test_connections_and_their_queues_are_counted_by_provider(recording):
    app = app_with(recording)
    connected(app, "socketio", queued=2)
    left = connected(app, "socketio", queued=3)
    connected(app, "sse")
    assert values(recording, "connections") == {"socketio": 2, "sse": 1}
    assert values(recording, "queued_messages") == {"socketio": 5, "sse": 0}
    app.remove_connection(left)
    assert values(recording, "connections") == {"socketio": 1, "sse": 1}
    assert values(recording, "queued_messages") == {"socketio": 2, "sse": 0}


async def test_channels_events_and_messages_are_counted(recording):
    app = app_with(recording)
    first, second = connected(app, "sse"), connected(app, "sse")
    app.channel("one").join(first)
    app.channel("all").join(first, second)
    await app.service("messages").create({"text": "Hello"})
    await app.service("messages").create([{"text": "a"}, {"text": "b"}])
    assert values(recording, "channels") == {None: 2}
    assert values(recording, "events") == {None: 3}
    assert values(recording, "messages") == {None: 6}  # `first` is in both, and gets each once
    app.publish(lambda data, context: app.channel("one"))
    await app.service("messages").create({"text": "c"})
    assert values(recording, "events") == {None: 4}
    assert values(recording, "messages") == {None: 7}


async def test_names_of_channels_and_connections_are_not_exported(recording):
    app = app_with(recording)
    connection = connected(app, "socketio")
    app.channel("users/ada@example.com").join(connection)
    exported = recording.everything()
    assert "ada@example.com" not in exported
    assert connection.id not in exported


async def test_live_lists_and_their_reads_are_counted(recording):
    app = app_with(recording).use("todos", MemoryService(start_id=1))
    todos = app.service("todos").live(pause=0.001)

    def counts():
        names = ["lists", "groups", "reads", "dismissed"]
        points = [recording.points(f"alula.live.{name}") for name in names]
        return [point.value for each in points for point in each]

    assert counts() == []
    lists = live_lists_of(app)
    await app.setup()
    connection = connected(app, "sse")
    for n in [1, 1, 2]:
        query = {"n": n, "m": 1}
        await lists.open(LiveList(todos, connection, {}, query, lambda messages: None))
    await todos.create({"n": 1, "m": 2})
    assert counts() == [3, 2, 3, 1]  # the second one has its page by a read of its own
    await todos.create({"n": 1, "m": 1})
    await lists.settled(connection)
    assert counts() == [3, 2, 4, 1]
    await app.teardown()


async def test_reads_of_live_lists_are_spans_that_say_so(recording):
    """And the header of the trace that opened a list is not looked at: equal lists share reads."""
    app = app_with(recording).use("todos", MemoryService(start_id=1))
    todos = app.service("todos").live(pause=0.001)
    lists = live_lists_of(app)
    await app.setup()
    for digit in "ab":
        headers = {"traceparent": f"00-{digit * 32}-{digit * 16}-01"}
        connection = Connection(Client(0), provider="sse", headers=headers, ip=None)
        await lists.open(LiveList(todos, connection, {}, {}, lambda messages: None))
    assert app.channel_registry.list_figures.groups == 1
    await todos.find()
    spans = [span for span in recording.spans if span.name == "todos find"]
    assert [span.attributes.get("alula.live") for span in spans] == ["true", "true", None]
    assert all(span.parent is None for span in spans)
    await app.teardown()
