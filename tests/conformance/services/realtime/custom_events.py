"""Services with events of their own, with other events than usual, or with none."""

from __future__ import annotations

from typing import Any

from tests.conformance.services.javascript import spread

from alula.errors import Conflict


class Emitting:
    """A service that emits events by itself."""

    async def setup(self, app, path):
        self.emit = app.service(path).emit


class Ticker(Emitting):
    """Emits custom events."""

    async def create(self, data, params):
        fields = data if isinstance(data, dict) else {}
        count = fields.get("count", 0)
        self.emit("status", {"state": "started"})
        self.tick(count)
        if fields.get("unlisted"):
            self.emit("unlisted", {"never": "published"})
        return {"count": count}

    async def burst(self, data, params):
        if "count" not in data:
            return {}
        self.tick(data["count"])
        return {"sent": data["count"]}

    def tick(self, count):
        for i in range(1, count + 1):
            self.emit("tick", {"i": i})


class OwnEvents(Emitting):
    """Emits `created` itself, so that the framework does not."""

    async def create(self, data, params):
        self.emit("created", {"own": data})
        return data

    async def patch(self, id, data, params):
        return {"id": id, **spread(data)}


class Quiet:
    """Fails where it is asked to."""

    async def create(self, data, params):
        if isinstance(data, dict) and data.get("fail") == "service":
            raise Conflict("failed in service")
        return data


def fail_in(place):
    """Return a hook that fails where the data names its place."""

    def fail(context):
        if isinstance(context.data, dict) and context.data.get("fail") == place:
            raise Conflict(f"failed in {place}")

    return fail


async def choose_event(context, next):
    """Emit the event that the data names, and fail where it asks for that."""
    await next()
    if "event" in context.data:
        context.event = context.data["event"]
    fail_in("around")(context)


def rescue(context):
    """Turn an error into a result."""
    if isinstance(context.data, dict) and context.data.get("rescue"):
        context.result = {"rescued": str(context.error)}


def emit_status(context):
    """Emit a custom event from a hook."""
    if isinstance(context.data, dict) and context.data.get("after"):
        context.service.emit("status", {"state": context.data["after"]})


def custom_events(app: Any) -> None:
    """Register `ticker`, `own-events` and `quiet`."""

    def to_everyone(data, context):
        return app.channel("everyone")

    def status_to_everyone(data, context):
        about = {"path": context.path, "method": context.method or None, "result": context.result}
        return app.channel("everyone").send({**data, **about})

    app.use("ticker", Ticker(), methods=["create", "burst"], events=["tick", "status"])
    ticker = app.service("ticker").hooks(after={"create": [emit_status]})
    ticker.publish("tick", to_everyone)
    ticker.publish("status", status_to_everyone)

    app.use("own-events", OwnEvents(), events=["created"])
    app.service("own-events").publish(to_everyone)

    app.use("quiet", Quiet())
    quiet = app.service("quiet").hooks(
        around={"create": [choose_event]},
        before={"create": [fail_in("before")]},
        after={"create": [fail_in("after")]},
        error={"create": [rescue]},
    )
    quiet.publish(to_everyone)
