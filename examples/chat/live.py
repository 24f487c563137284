"""Real time: live lists of the messages and of who is here, and who is typing."""

from itertools import count
from pathlib import Path
from typing import Any

from alula import HookContext, Params
from alula.express import ExpressApplication, serve_static
from alula.realtime import Channel, Connection, socketio

ALULA_LIVE = Path(__file__).parents[2] / "packages" / "alula-live"


class Presence:
    """Who has the page open: a record for each connection."""

    id = "id"

    def __init__(self) -> None:
        self.people: dict[Connection, int] = {}

    async def find(self, _: Params) -> list[dict[str, Any]]:
        """Return them, those who came first in front. Guests have no name."""
        return [
            {"id": number, "name": connection.user["name"] if connection.user else None}
            for connection, number in self.people.items()
        ]


def add_real_time(app: ExpressApplication) -> None:
    """Let pages connect by socket.io, and watch messages and people as live lists."""
    app.configure(socketio())
    app.use("/alula-live", serve_static(ALULA_LIVE))  # what pages import
    app.service("messages").live()
    presence, numbers = Presence(), count(1)
    app.use("presence", presence)
    app.service("presence").live()

    @app.on("connection")
    def connected(connection: Connection) -> None:
        app.channel("everyone").join(connection)
        presence.people[connection] = next(numbers)
        people_changed()

    @app.on("disconnect")
    def disconnected(connection: Connection) -> None:
        presence.people.pop(connection, None)
        people_changed()

    @app.on("login")
    @app.on("logout")
    def people_changed(*_: Any) -> None:
        app.service("presence").touch()

    @app.service("messages").publish("typing")
    def everyone(_: Any, __: HookContext) -> Channel:
        return app.channel("everyone")
