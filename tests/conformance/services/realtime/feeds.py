"""Services whose events are published by the app, by the service, or by both."""

from __future__ import annotations

from typing import Any

from tests.conformance.services.javascript import spread

from alula.adapters.memory import MemoryService

# What each is filled with at a reset.
RECORDS: dict[str, list[dict[str, Any]]] = {
    "feed": [{"text": "one"}, {"text": "two"}, {"text": "three"}],
    "chat": [
        {"room": "a", "text": "first in a"},
        {"room": "b", "text": "first in b"},
        {"room": "a", "text": "second in a"},
    ],
}


class Feed(MemoryService):
    """Has a custom method that emits a custom event."""

    async def setup(self, app, path):
        self.handle = app.service(path)

    async def ping(self, data, params):
        self.handle.emit("pinged", data)
        return {"pinged": data}


class Precedence:
    """Answers what it got."""

    async def create(self, data, params):
        return data

    async def patch(self, id, data, params):
        return {"id": id, **spread(data)}

    async def remove(self, id, params):
        return {"id": id}


def feeds(app: Any) -> None:
    """Register `feed` with the publishers of the app, `chat` and `precedence` with their own."""
    standard = ["find", "get", "create", "update", "patch", "remove"]
    feed = Feed(start_id=1, multi=True)
    app.use("feed", feed, methods=[*standard, "ping"], events=["pinged"])

    @app.publish
    def to_everyone(data, context):
        return app.channel("everyone") if context.path == "feed" else None

    @app.publish("removed")
    def to_janitors(data, context):
        return app.channel("janitors") if context.path == "feed" else None

    chat = app.use("chat", MemoryService(start_id=1, multi=True)).service("chat")

    @chat.publish
    def to_room(data, context):
        return app.channel(f"rooms/{data.get('room')}")

    @chat.publish("removed")
    def to_room_and_janitors(data, context):
        return [app.channel(f"rooms/{data.get('room')}"), app.channel("janitors")]

    precedence = app.use("precedence", Precedence()).service("precedence")
    precedence.publish(lambda data, context: app.channel("rooms/a"))
    precedence.publish("patched", lambda data, context: app.channel("rooms/b"))
    precedence.publish("removed", lambda data, context: app.channel("rooms/b"))
    precedence.publish("removed", lambda data, context: app.channel("janitors"))
