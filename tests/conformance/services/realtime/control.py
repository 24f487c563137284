"""A service by which tests make the server act by itself; it is called over REST."""

from __future__ import annotations

from typing import Any

from tests.conformance.services.accounts import SECRET

from alula.authentication import AuthenticationService
from alula.errors import BadRequest
from alula.outgoing import HiddenValue


def with_hidden(record):
    """Return a plain copy of a record, with what clients may not see: it is sent on purpose."""
    return {
        name: str(value) if isinstance(value, HiddenValue) else value  # hidden here is only text
        for name, value in record.items()
    }


class Registered:
    """A service that comes and goes while the server runs.

    Args:
        path: Where it is registered.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    async def find(self, params):
        return {"registered": self.path}

    async def create(self, data, params):
        return data

    async def late(self, data, params):
        return {"late": data}


class Control:
    """Does what ``data["action"]`` says.

    Args:
        app: The application.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        self.registered: list[str] = []

    async def create(self, data, params):
        action = ACTIONS.get(data["action"])
        if action is None:
            raise BadRequest(f"no action {data['action']}")
        return await action(self, data)

    async def reset(self) -> None:
        """Take away the services that were registered."""
        while self.registered:
            await self.app.unuse(self.registered.pop())

    def connections(self, name):
        """Return the connections of a name."""
        known = self.app.channel(*self.app.channels).connections
        return [connection for connection in known if connection.get("name") == name]

    async def disconnect(self, data):
        """Close a connection by the event of the application."""
        for connection in self.connections(data["name"]):
            self.app.emit("disconnect", connection)
        return {"done": True}

    async def drop(self, data):
        """Close what carries a connection."""
        for connection in self.connections(data["name"]):
            await connection.close()
        return {"done": True}

    async def emit(self, data):
        """Emit an event of a service."""
        self.app.service(data["path"]).emit(data["event"], data.get("data"))
        return {"done": True}

    async def call(self, data):
        """Call a service inside of the server."""
        method = getattr(self.app.service(data["path"]), data["method"])
        result = await method(*data.get("args", ()))
        return {"result": with_hidden(result) if isinstance(result, dict) else result}

    async def token(self, data):
        """Create an access token that expires soon."""
        short_lived = AuthenticationService(
            self.app, secret=SECRET, expires_in=data.get("expiresIn")
        )
        return {"accessToken": short_lived.create_access_token({}, str(data["user"]))}

    async def register(self, data):
        """Add a service to the running application."""
        path = data["path"]
        self.app.use(path, Registered(path), methods=["find", "create", "late"])
        self.app.service(path).publish(lambda data, context: self.app.channel("everyone"))
        self.registered.append(path)
        return {"done": True}

    async def unregister(self, data):
        """Remove a service from the running application."""
        await self.app.unuse(data["path"])
        self.registered.remove(data["path"])
        return {"done": True}

    async def channel(self, data):
        """Put connections into a channel."""
        found = self.connections(data["name"])
        self.app.channel(data["data"]).join(*found)
        return {"joined": len(found)}


ACTIONS = {
    "disconnect": Control.disconnect,
    "drop": Control.drop,
    "emit": Control.emit,
    "call": Control.call,
    "token": Control.token,
    "register": Control.register,
    "unregister": Control.unregister,
    "channel": Control.channel,
}


def control(app: Any) -> None:
    """Register the service."""
    app.use("control", Control(app), methods=["create"])
