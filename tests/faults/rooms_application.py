"""Rooms whose events reach only those inside, and a file that tells what each worker holds."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json as plain_json
import os
from collections import Counter
from pathlib import Path

from alula import App
from alula.authentication import protect
from alula.errors import BadRequest
from alula.express import express, json, rest
from alula.realtime import MongoBus, PostgresBus, RedisBus, socketio, sse

FOLDER = Path(os.environ["ROOMS_FOLDER"])
SECONDS_BETWEEN_REPORTS = 0.2
PING_SECONDS = float(os.environ.get("ROOMS_PING", "1"))
RECOVER_SECONDS = float(os.environ.get("ROOMS_RECOVER", "30"))


class Messages:
    """Numbers the messages of each room in this process, without gaps, and keeps none."""

    def __init__(self):
        self.numbers = Counter()

    async def find(self, params):
        return []

    async def create(self, data, params):
        room = data["room"]
        self.numbers[room] += 1
        return {**data, "pid": os.getpid(), "n": self.numbers[room], "secret": "hidden"}


class Moves:
    """Brings a connection into another room."""

    async def create(self, data, params):
        connection = params.connection
        enter(connection, data["room"])
        return {"room": connection.room}


def enter(connection, room):
    """Leave the room that a connection is in, and enter another."""
    app.channel(*connection.channels or ["none"]).leave(connection)
    connection.room = room
    app.channel(f"room/{room}").join(connection)


def bus_of(url):
    """Return the bus of an engine by its URL, None for the hub of the workers."""
    if url.startswith("redis:"):
        return RedisBus(url, stream="rooms", timeout=2)
    if url.startswith("postgresql:"):
        return PostgresBus(url, timeout=2)
    if url.startswith("mongodb:"):
        from pymongo import AsyncMongoClient

        return MongoBus(AsyncMongoClient(url, serverSelectionTimeoutMS=2000).rooms.events)
    return None


transport = socketio(
    bus=bus_of(os.environ.get("ROOMS_ENGINE", "")),
    recover=RECOVER_SECONDS,
    ping_interval=PING_SECONDS,
    ping_timeout=2 * PING_SECONDS,
)


@transport.use
async def choose_room(connection, handshake, next):
    """Know the room before the connection is told."""
    connection.room = handshake.auth["room"]
    await next()


app = express(App()).use(json()).configure(rest()).configure(transport)
app.configure(sse(keep_seconds=RECOVER_SECONDS, heartbeat=1))
app.use("messages", Messages())
app.use("moves", Moves())
app.service("messages").hooks(around=[protect("secret")])


@app.service("messages").publish("created")
def to_the_room(data, context):
    """Tell those in the room of the message alone."""
    return app.channel(f"room/{data['room']}")


async def room_of_stream(context, next):
    """Let a stream be of one room, which is part of its query."""
    room = context.params.query.get("room")
    if room is None:
        raise BadRequest("name a room")
    context.params.connection.room = room
    await next()


app.service("messages").hooks(around={"find": [room_of_stream]})


@app.on("connection")
def connected(connection):
    """Enter the room that was named."""
    enter(connection, connection.room)


# -- what a worker holds ---------------------------------------------------------------------------


def report(registry, loop_lag):
    """Return the figures of this process."""
    status = Path("/proc/self/statm").read_text()
    return {
        "pid": os.getpid(),
        "connections": len(registry.connections),
        "channels": len(registry.names),
        "tasks": len(asyncio.all_tasks()),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "kib": int(status.split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024,
        "published": registry.published,
        "sent": registry.sent,
        "lag": loop_lag,
    }


async def keep_reporting():
    """Write the figures again and again; the file is replaced as a whole."""
    loop = asyncio.get_running_loop()
    path = FOLDER / f"{os.getpid()}.json"
    for number in itertools.count(1):
        before = loop.time()
        await asyncio.sleep(SECONDS_BETWEEN_REPORTS)
        if not number % 5 and not app.channel_registry.connections:
            gc.collect()
        lag = loop.time() - before - SECONDS_BETWEEN_REPORTS
        temporary = path.with_suffix(".new")
        temporary.write_text(plain_json.dumps(report(app.channel_registry, lag)))
        temporary.replace(path)


async def with_reports(context, next):
    """Report for as long as the application runs."""
    reporting = asyncio.create_task(keep_reporting())
    await next()
    app.hooks(teardown=[_end(reporting)])


def _end(task):
    async def end(context, next):
        task.cancel()
        await next()

    return end


app.hooks(setup=[with_reports])
