"""Alula over socket.io: `items` tells nobody, `feed` everybody; neither keeps anything."""

from __future__ import annotations

from typing import Any

from alula import App, HookContext, Params
from alula.express import express, rest
from alula.realtime import Channel, Connection, socketio


class Items:
    """Answers the data with an id."""

    async def create(self, data: dict[str, Any], params: Params) -> dict[str, Any]:
        """Return the record."""
        return {"id": 1, **data}


app = express(App()).configure(rest()).configure(socketio())
app.use("items", Items()).use("feed", Items())


@app.on("connection")
def join(connection: Connection) -> None:
    """Let everybody hear everything."""
    app.channel("everyone").join(connection)


@app.service("feed").publish
def to_everyone(data: object, context: HookContext) -> Channel:
    """Name the channel of all."""
    return app.channel("everyone")
