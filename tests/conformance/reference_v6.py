"""The application that exchanges with FeathersJS 6 were recorded from, built with Alula.

``python -m tests.conformance.reference_v6 --port N`` serves it until SIGINT or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import Any

from tests.conformance.services.echo import Echo

from alula import App, errors
from alula.adapters.memory import MemoryService
from alula.express import error_handler, express, json, not_found, rest, urlencoded
from alula.realtime import sse


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


def make_app() -> Any:
    """Return the application."""
    app = express(App())

    async def reset(_, res):
        app.service("todos").service.reset([])
        res.status(204).end()

    app.post("/__reset", reset)
    app.use(json()).use(urlencoded()).configure(rest()).configure(sse(feathers6="sse"))
    app.use("todos", MemoryService(multi=True, start_id=1))
    app.use(
        "echo", Shouting(), methods=["find", "get", "create", "update", "patch", "remove", "shout"]
    )
    app.use("users/:userId/notes", Echo())
    app.use("results", Results())
    app.use("status", Status())
    app.use("failing", Failing())
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
