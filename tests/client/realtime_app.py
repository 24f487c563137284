"""The services of ``feathers.mjs`` that real time is tried on, in Alula."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conformance.services import accounts, calc

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import Forbidden
from alula.express import express, rest
from alula.realtime import socketio


class Feed(MemoryService):
    async def ping(self, data, params):
        self.app.service("feed").emit("pinged", data)
        return {"pinged": data}

    async def setup(self, app, path):
        self.app = app


class Cut:
    """Ends every connection of real time, without a word."""

    async def setup(self, app, path):
        self.app = app

    async def create(self, data, params):
        for connection in self.app.channel("everyone").connections:
            await connection.close()


class WhoAmI:
    async def find(self, params):
        return {"email": (params.get("user") or {}).get("email"), "provider": params.provider}


class Bytes:
    async def create(self, data, params):
        return {"size": len(data["data"]), "data": data["data"]}


def realtime_app(seed: Path) -> Any:
    """Return the application."""
    app = express(App())
    app.configure(rest())
    transport = socketio(recover=True)

    @transport.use
    async def admit(connection, handshake, next):
        if refused := (handshake.auth or {}).get("refuse"):
            raise Forbidden("no entry", {"why": refused})
        await next()

    app.configure(transport)
    app.on("connection", lambda connection: app.channel("everyone").join(connection))
    app.publish(lambda data, context: app.channel("everyone"))
    messages = MemoryService(start_id=1, multi=True, paginate={"default": 10, "max": 50})
    app.use("messages", messages)
    methods = ["find", "get", "create", "update", "patch", "remove", "ping"]
    app.use("feed", Feed(start_id=1, multi=True), events=["pinged"], methods=methods)
    app.use("cut", Cut())
    app.use("whoami", WhoAmI())
    app.use("bytes", Bytes())
    calc.calc(app)
    accounts.accounts(app)
    users = json.loads(seed.read_text(encoding="utf-8"))["users"]
    numbered = {n: {**user, "id": n} for n, user in enumerate(users, 1)}
    app.service("users").service.reset(numbered)
    return app


@contextmanager
def serve_in_thread(app: Any) -> Iterator[str]:
    """Serve an application in a thread while the context lasts; yield its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def listen():
        return await app.listen(0)

    async def close():
        await server.close()

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result()
    try:
        yield server.url
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
