"""Measurements of connections, channels and events."""

from __future__ import annotations

from alula import App
from alula._channels import Connection
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
