"""A chat whose records are in the memory of each process; its events are everybody's."""

from __future__ import annotations

import os

from alula import App
from alula.express import express, json, rest
from alula.realtime import RedisBus, socketio


class Messages:
    """Creates messages that nobody keeps."""

    async def create(self, data, params):
        return {**data, "pid": os.getpid()}


url = os.environ.get("CHAT_REDIS_URL")
bus = RedisBus(url, stream=os.environ["CHAT_STREAM"]) if url else None

app = express(App()).use(json()).configure(rest()).configure(socketio(bus=bus, recover=True))
app.use("messages", Messages())
app.on("connection", lambda connection: app.channel("everyone").join(connection))
app.publish(lambda data, context: app.channel("everyone"))
