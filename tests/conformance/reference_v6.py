"""The application that exchanges with FeathersJS 6 were recorded from, built with Alula.

``python -m tests.conformance.reference_v6 --port N`` serves it until SIGINT or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

from tests.conformance.services.echo import Echo

from alula import App, errors
from alula.adapters.memory import MemoryService
from alula.express import error_handler, express, json, not_found, rest, urlencoded
from alula.files import file_body, multipart
from alula.realtime import sse

METHODS = ["find", "get", "create", "update", "patch", "remove"]


class Shouting(Echo):
    """Has a custom method, and a method that clients cannot call."""

    async def shout(self, data, params):
        return self.reply("shout", params, data=data)

    async def hidden(self, data, params):
        raise AssertionError("clients cannot call it")


RESULTS: dict[str, Any] = {
    "zero": 0,
    "false": False,
    "empty": "",
    "text": "hello",
    "number": 7,
    "true": True,
    "list": [],
    "object": {},
    "nested": {"a": [1, {"b": None}]},
}


class Results:
    """Returns what is no object."""

    async def get(self, id, params):
        return RESULTS.get(id)


class Status:
    """Hooks change its answers."""

    async def get(self, id, params):
        return {"id": id}

    async def create(self, data, params):
        return data

    async def remove(self, id, params):
        return {"id": id}


class Failing:
    """Fails in every way."""

    async def get(self, id, params):
        if id == "plain":
            raise RuntimeError("Error: Plain failure")
        if id == "data":
            details = {"field": "email", "errors": [{"path": "email"}]}
            raise errors.BadRequest("with data", details)
        if id == "list":
            raise errors.BadRequest("with a list", [1, 2])
        # Python has a NotImplemented of its own.
        name = "NotImplementedMethod" if id == "NotImplemented" else id
        raise getattr(errors, name)(f"this is {id}")


class Tokens:
    """Methods that stream.

    Attributes:
        probe: How many streams are open and closed, and how many items were made.
    """

    def __init__(self):
        self.reset()

    def reset(self):
        self.probe = {"open": 0, "closed": 0, "produced": 0}

    async def words(self, items, pause=0.0):
        self.probe["open"] += 1
        try:
            for item in items:
                self.probe["produced"] += 1
                yield item
                await asyncio.sleep(pause)
        finally:
            self.probe["open"] -= 1
            self.probe["closed"] += 1

    def tokens(self, *words):
        return self.words([{"token": word} for word in words])

    async def find(self, params) -> AsyncIterator[Any]:
        return self.tokens(*params.query.get("words", "Hello,live,world").split(","))

    async def get(self, id, params) -> AsyncIterator[Any]:
        return self.tokens(f"get {id}", "b")

    async def create(self, data, params) -> AsyncIterator[Any]:
        return self.tokens(data["text"], "created")

    async def update(self, id, data, params) -> AsyncIterator[Any]:
        return self.tokens(f"update {id}", data["text"])

    async def patch(self, id, data, params) -> AsyncIterator[Any]:
        return self.tokens(f"patch {id}", data["text"])

    async def remove(self, id, params) -> AsyncIterator[Any]:
        return self.tokens(f"remove {id}")

    async def ask(self, data, params) -> AsyncIterator[Any]:
        return self.tokens("a", "b", data.get("q", "none"))

    async def empty(self, data, params) -> AsyncIterator[Any]:
        return self.tokens()

    async def values(self, data, params) -> AsyncIterator[Any]:
        return self.words([1, "two", None, [3], {"text": "a\nb\r\nc"}, "é€𝄞"])

    async def endless(self, data, params) -> AsyncIterator[Any]:
        return self.words(({"n": n} for n in range(500)), 0.02)

    async def refused(self, data, params) -> AsyncIterator[Any]:
        raise errors.Forbidden("not you")

    async def big(self, data, params) -> AsyncIterator[Any]:
        return self.words({"n": n, "text": "x" * 70_000} for n in range(3))


class Uploads:
    """Takes forms as objects: a list where a name comes twice, and what is in the files."""

    takes_uploads = True

    async def create(self, data, params):
        if "upload" not in data:
            return data
        values = {}
        async for part in data["upload"]:
            values.setdefault(part.name, []).append(await self.shown(part))
        return {name: one[0] if len(one) == 1 else one for name, one in values.items()}

    async def update(self, id, data, params):
        return {"id": id, **await self.create(data, params)}

    async def patch(self, id, data, params):
        return {"id": id, **await self.create(data, params)}

    async def shown(self, part):
        if not part.is_file:
            return await part.text()
        text = await text_of(part)
        return {"name": part.file_name, "type": part.type, "size": part.size, "text": text}


class Streaming:
    """Takes bodies as they come."""

    takes_uploads = True

    async def create(self, data, params):
        if "upload" not in data:
            return {"kind": "object", "data": data}
        text = "".join([await text_of(part) async for part in data["upload"]])
        sent_type = params.headers.get("content-type")
        return {"kind": "stream", "text": text, "contentType": sent_type}


async def text_of(part):
    """Return the text in a file."""
    return b"".join([piece async for piece in part]).decode()


def make_app() -> Any:
    """Return the application."""
    app = express(App())
    tokens = Tokens()

    async def reset(_, res):
        app.service("todos").service.reset([])
        tokens.reset()
        for connection in [*app.channel_registry.connections.values()]:
            await connection.close()
        res.status(204).end()

    async def probe(_, res):
        res.json(tokens.probe)

    app.post("/__reset", reset).get("/__probe", probe)
    app.use(json()).use(urlencoded()).use(multipart())
    app.configure(rest()).configure(sse(feathers6="sse"))
    app.use("todos", MemoryService(multi=True, start_id=1))
    app.use("echo", Shouting(), methods=[*METHODS, "shout"])
    app.use("users/:userId/notes", Echo())
    app.use("results", Results())
    app.use("status", Status())
    app.use("failing", Failing())
    more = ["ask", "empty", "values", "endless", "refused", "big"]
    app.use("tokens", tokens, methods=[*METHODS, *more])
    app.use("uploads", Uploads())
    app.use("streaming", file_body(), Streaming())
    hooks = {"get": [with_status], "create": [with_location], "remove": [with_dispatch]}
    app.service("status").hooks(after=hooks)
    app.service("todos").publish(to_room_or_everyone)

    @app.on("connection")
    def join(connection):
        app.channel("everyone").join(connection)
        if "room" in connection.query:
            app.channel(f"room/{connection.query['room']}").join(connection)

    return app.use(not_found()).use(error_handler(logger=False))


async def with_status(context):
    """Set a status and a header."""
    context.http = {"status": 218, "headers": {"X-Custom": "yes"}}


async def with_location(context):
    """Redirect."""
    context.http = {"location": "/status/7"}


async def with_dispatch(context):
    """Show clients something else."""
    context.dispatch = {"id": context.result["id"], "shown": True}


def to_room_or_everyone(data, context):
    """Publish to the room of a record, or without its secret to everyone."""
    if "room" in data:
        return context.app.channel(f"room/{data['room']}")
    shown = {name: value for name, value in data.items() if name != "secret"}
    return context.app.channel("everyone").send(shown)


async def serve(port: int) -> None:
    """Serve until a signal comes."""
    server = await make_app().listen(port)
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    print(f"reference app on {server.url}", flush=True)
    await stop.wait()
    await server.close()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="The app of exchanges with FeathersJS 6.")
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
