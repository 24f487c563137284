"""Services that answer who calls them, and by what."""

from __future__ import annotations

from typing import Any

from tests.conformance.services.javascript import spread
from tests.conformance.services.realtime.channels import user_id

from alula.authentication import authenticate

METHODS = ["find", "get", "create", "update", "patch", "remove", "check"]


def describe(params):
    """Return what the params say of the caller."""
    user, connection, authentication = (
        params.get(name) for name in ("user", "connection", "authentication")
    )
    return {
        "provider": params.provider,
        "name": params.get("name"),
        "query": params.query,
        "route": params.route,
        "header": params.headers.get("x-test"),
        "user": None if user is None else {name: user[name] for name in ("id", "email")},
        "authenticated": params.get("authenticated", False),
        "strategy": None if authentication is None else authentication["strategy"],
        "connection": None if connection is None else {
            "provider": connection.provider,
            "name": connection.get("name"),
            "user": user_id(connection),
        },
    }  # fmt: skip


class Whoami:
    """Answers the params of each call."""

    async def find(self, params):
        return describe(params)

    async def get(self, id, params):
        return {"id": id, **describe(params)}

    async def create(self, data, params):
        return {"data": data, **describe(params)}

    async def update(self, id, data, params):
        return {"id": id, "data": data, **describe(params)}

    async def patch(self, id, data, params):
        return {"id": id, "data": data, **describe(params)}

    async def remove(self, id, params):
        return {"id": id, **describe(params)}

    async def check(self, data, params):
        return {"data": data, **describe(params)}


class Items:
    """Is called at a path with a placeholder."""

    async def find(self, params):
        return describe(params)

    async def create(self, data, params):
        return {**spread(data), "boxId": params.route["boxId"]}


def callers(app: Any) -> None:
    """Register the services."""
    app.use("whoami", Whoami(), methods=METHODS)
    app.use("private", Whoami(), methods=METHODS)
    private = app.service("private").hooks(around=[authenticate("jwt")])

    @private.publish("created")
    def to_authenticated(data, context):
        return app.channel("authenticated").send({"data": data["data"], "by": data["user"]["id"]})

    app.use("boxes/:boxId/items", Items())
    app.service("boxes/:boxId/items").publish(lambda data, context: app.channel("everyone"))
