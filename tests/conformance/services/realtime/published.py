"""A service whose publisher returns everything that a publisher can return, by ``data["to"]``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.conformance.services.javascript import spread


class Published:
    """Answers what it got."""

    async def create(self, data, params):
        return data

    async def patch(self, id, data, params):
        return {"id": id, **spread(data)}

    async def update(self, id, data, params):
        return {"id": id, **spread(data)}

    async def remove(self, id, params):
        return {"id": id, **params.query}


def published(app: Any) -> None:
    """Register the service."""
    publishers = {**channels_of(app), **data_of(app), **filters_of(app), **contexts_of(app)}

    async def fail_later(data, context):
        raise RuntimeError("publisher failed later")

    async def everyone_later(data, context):
        await asyncio.sleep(0.03)
        return app.channel("everyone")

    publishers |= {"reject": fail_later, "async": everyone_later}
    service = app.use("published", Published()).service("published")

    @service.publish
    def publish(data, context):
        publisher = publishers.get(data.get("to", "undefined"))
        return app.channel("everyone") if publisher is None else publisher(data, context)


Publishers = dict[str, Callable[[Any, Any], Any]]


def channels_of(app: Any) -> Publishers:
    """Return publishers that differ in the channels they return."""
    channel = app.channel

    def fail(data, context):
        raise RuntimeError("publisher failed")

    return {
        "null": lambda data, context: None,
        "undefined": lambda data, context: None,
        "false": lambda data, context: None,
        "emptyList": lambda data, context: [],
        "throw": fail,
        "two": lambda data, context: [channel("rooms/a"), channel("rooms/b")],
        "nested": lambda data, context: [None, [channel("rooms/a"), [None, channel("rooms/b")]]],
        "combined": lambda data, context: channel("rooms/a", "rooms/b"),
        "names": lambda data, context: channel(*["rooms/a", "rooms/b"]),
        "all": lambda data, context: channel(*app.channels),
        "nobody": lambda data, context: channel("nobody"),
    }


def data_of(app: Any) -> Publishers:
    """Return publishers that send other data than the record."""
    channel = app.channel

    def everyone(data):
        return lambda _, context: channel("everyone").send(data)

    def each(data, context):
        rooms = [channel(f"rooms/{name}").send({"room": name}) for name in "ab"]
        return [*rooms, channel("everyone")]

    def twice(data, context):
        return [channel("rooms/a").send({"first": True}), channel("rooms/a").send({"second": True})]

    def plain_first(data, context):
        return [channel("rooms/a"), channel("rooms/a").send({"second": True})]

    return {
        "send": everyone({"replaced": True}),
        "sendEach": each,
        "sendTwice": twice,
        "plainFirst": plain_first,
        "sendList": everyone([1, 2]),
        "sendNull": everyone(None),
        "sendZero": everyone(0),
        "sendEmpty": everyone(""),
        "sendFalse": everyone(False),
    }


def filters_of(app: Any) -> Publishers:
    """Return publishers that select connections."""

    def everyone():
        return app.channel("everyone")

    def named(data):
        return lambda connection: connection.get("name") == data.get("name")

    return {
        "filter": lambda data, context: everyone().filter(named(data)),
        "sendFilter": lambda data, context: (
            everyone().send({"filtered": data.get("name")}).filter(named(data))
        ),
        "filterSend": lambda data, context: (
            everyone().filter(named(data)).send({"filtered": data.get("name")})
        ),
        "others": lambda data, context: everyone().filter(
            lambda connection: connection is not context.params.connection
        ),
        "caller": lambda data, context: everyone().filter(
            lambda connection: connection is context.params.connection
        ),
        "user": lambda data, context: app.channel(f"users/{data.get('user')}"),
    }


def contexts_of(app: Any) -> Publishers:
    """Return publishers that send what they know of the call and of the channels."""
    channel = app.channel

    def anonymous(data, context):
        return channel("anonymous").send({"audience": "anonymous"})

    def both(data, context):
        return [
            channel(audience).send({"audience": audience})
            for audience in ("anonymous", "authenticated")
        ]

    def of_call(data, context):
        return channel("everyone").send(
            {
                "path": context.path,
                "method": context.method,
                "event": context.event,
                "id": "undefined" if context.method == "create" else context.id,
                "provider": context.params.provider,
                "name": context.params.get("name"),
                "query": context.params.query,
            }
        )

    def sizes(data, context):
        return channel("everyone").send(
            {
                "everyone": len(channel("everyone")),
                "a": len(channel("rooms/a")),
                "both": len(channel("rooms/a", "rooms/b")),
            }
        )

    return {"anonymous": anonymous, "both": both, "context": of_call, "length": sizes}
