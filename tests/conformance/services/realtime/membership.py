"""A service by which clients join and leave channels, and see who is in them."""

from __future__ import annotations

from typing import Any

METHODS = ["find", "create", "leaveNamed", "sizes", "joinTwice", "joinNothing", "noName"]


class Membership:
    """Joins and leaves channels with the connection of the caller.

    Args:
        app: The application.
    """

    def __init__(self, app: Any) -> None:
        self.app = app

    async def find(self, params):
        return {"mine": _channels_of(params), "channels": sorted(self.app.channels)}

    async def create(self, data, params):
        if data.get("join"):
            self.app.channel(*data["join"]).join(params.connection)
        if data.get("leave"):
            self.app.channel(*data["leave"]).leave(params.connection)
        return {"mine": _channels_of(params)}

    async def leaveNamed(self, data, params):  # the name that clients call
        name = data["name"]
        self.app.channel(*data["channels"]).leave(lambda connection: connection.get("name") == name)
        return {"left": name}

    async def sizes(self, data, params):
        return {name: len(self.app.channel(name)) for name in data["channels"]}

    async def joinTwice(self, data, params):
        channel = self.app.channel(data["channel"])
        channel.join(params.connection).join(params.connection)
        return {"length": len(channel)}

    async def joinNothing(self, data, params):
        self.app.channel("rooms/none").join(None, None)
        return {"length": len(self.app.channel("rooms/none"))}

    async def noName(self, data, params):
        return self.app.channel()


def _channels_of(params):
    """Return the channels of the caller; a call over REST has no connection."""
    return [] if params.connection is None else sorted(params.connection.channels)


def membership(app: Any) -> None:
    """Register the service."""
    app.use("membership", Membership(app), methods=METHODS)
