"""The real-time part of the second app: every event goes to everyone."""

from __future__ import annotations

from typing import Any


class Text:
    """Answers texts of any length."""

    async def get(self, id, params):
        return {"text": "z" * int(id)}

    async def create(self, data, params):
        return {"length": len(data["text"])}


def text(app: Any) -> None:
    """Register the service, the channel of all connections, and the publisher of all events."""
    app.use("text", Text())
    app.publish(lambda data, context: app.channel("everyone"))

    @app.on("connection")
    def connected(connection):
        app.channel("everyone").join(connection)
