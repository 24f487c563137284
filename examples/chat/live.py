"""Real time: who gets which events, who is here, and who is typing."""

from typing import Any

from alula import HookContext, Params
from alula.express import ExpressApplication
from alula.realtime import Channel, Connection, sse


class Presence:
    """How many pages are open."""

    def __init__(self, app: ExpressApplication) -> None:
        self.app = app

    async def find(self, _: Params) -> dict[str, int]:
        """Return their number."""
        return {"people": len(self.app.channel("everyone"))}


def add_events(app: ExpressApplication) -> None:
    """Send the events of messages to everyone, as server-sent events."""
    app.configure(sse())
    app.use("presence", Presence(app), events=["changed"])

    @app.on("connection")
    def connected(connection: Connection) -> None:
        tell(len(app.channel("everyone").join(connection)))

    @app.on("disconnect")
    def disconnected(_: Connection) -> None:
        tell(len(app.channel("everyone")) - 1)  # the connection is still in its channels

    def tell(people: int) -> None:
        app.service("presence").emit("changed", {"people": people})

    def everyone(_: Any, __: HookContext) -> Channel:
        return app.channel("everyone")

    app.service("messages").publish(everyone)
    app.service("presence").publish(everyone)
