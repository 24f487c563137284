"""Real-time connections without a network, and calls over them."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.authentication.building import add_user, make_app

from alula import App, Params
from alula._connection import Connection, Event
from alula._context import HookContext, connection_params
from alula.adapters.memory import MemoryService
from alula.authentication import authenticate


class FakeLink:
    """Remembers what a transport would send, and closes as one does."""

    queued = 0

    def __init__(self, app: Any) -> None:
        self.app = app
        self.connection: Connection
        self.sent: list[Event] = []
        self.reason: str | None = None

    def deliver(self, event: Event) -> None:
        self.sent.append(event)

    async def close(self, reason: str = "", *, reconnect: bool = True) -> None:
        assert reconnect  # the client comes back, and notices that it is signed out
        self.reason = reason
        self.app.remove_connection(self.connection)


class Notes:
    """Tells who calls, and waits where a test asks it to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def find(self, params: Params) -> dict[str, Any]:
        return who(params)

    async def create(self, data: Any, params: Params) -> dict[str, Any]:
        await self.go_on.wait()
        return who(params)


def who(params: Params) -> dict[str, Any]:
    user = params.user
    return {"user": user and user["email"], "authenticated": params.get("authenticated", False)}


def open_connection(app: Any, added: bool = True, **attributes: Any) -> Connection:
    """Return a new connection, which has joined `everyone` if it is added."""
    link = FakeLink(app)
    headers = attributes.pop("headers", {})
    connection = Connection(link, provider="socketio", headers=headers, ip="1.2.3.4", **attributes)
    link.connection = connection
    if added:
        app.add_connection(connection)
    return connection


def link_of(connection: Connection) -> Any:
    return connection._link


async def call(
    connection: Connection, app: Any, path: str, method: str, id: Any = None, data: Any = None
) -> Any:
    """Call a service over a connection, as a transport does."""
    handle = app.service(path)
    params = connection_params(connection, {}, {})
    context = HookContext(handle.app, handle, method, params, id, data)
    # In a task of its own, as each call of a client: what the context keeps ends with the task.
    await asyncio.create_task(handle.run(context))
    return context.result


async def sign_in(connection: Connection, app: Any, email: str = "ada@example.com") -> Any:
    """Sign in by a password."""
    data = {"strategy": "local", "email": email, "password": "right"}
    return await call(connection, app, "authentication", "create", None, data)


async def sign_out(connection: Connection, app: Any) -> Any:
    return await call(connection, app, "authentication", "remove")


def token_for(app: Any, user_id: int = 1, path: str = "authentication", **claims: Any) -> str:
    """Return an access token."""
    token: str = app.service(path).service.create_access_token(claims, str(user_id))
    return token


async def sign_in_by_token(connection: Connection, app: Any, token: str) -> Any:
    data = {"strategy": "jwt", "accessToken": token}
    return await call(connection, app, "authentication", "create", None, data)


def follow_the_book(app: Any) -> list[tuple[Any, ...]]:
    """Join channels as the documentation shows, and return a list of what the app is told."""
    told: list[tuple[Any, ...]] = []

    @app.on("connection")
    def connected(connection: Connection) -> None:
        app.channel("everyone").join(connection)
        if connection.user is None:
            app.channel("anonymous").join(connection)

    @app.on("login")
    def logged_in(result: Any, params: Params, context: HookContext) -> None:
        connection = params.get("connection")
        told.append(("login", result["user"]["email"], connection and connection.user["email"]))
        if connection is not None:
            app.channel("anonymous").leave(connection)
            app.channel("signed in", f"users/{connection.user['id']}").join(connection)

    @app.on("logout")
    def logged_out(result: Any, params: Params, context: HookContext) -> None:
        connection = params.get("connection")
        told.append(("logout", result["user"]["email"], connection and connection.user))
        if connection is not None:
            app.channel("anonymous").join(connection)

    @app.on("disconnect")
    def disconnected(connection: Connection) -> None:
        told.append(("disconnect", connection.user and connection.user["email"]))

    return told


async def make_live_app(**options: Any) -> App:
    """Return an application with two users and `notes`, open and behind `authenticate`, set up."""
    app = make_app(**options)
    app.use("notes", Notes())
    app.use("private", Notes())
    app.use("sessions", MemoryService(), methods=[])
    app.service("private").hooks(around=[authenticate("jwt")])
    await app.setup()
    await add_user(app)
    await add_user(app, "bob@example.com")
    return app


async def settle() -> None:
    """Let background tasks run."""
    for _ in range(20):
        await asyncio.sleep(0)


def session_of(connection: Connection) -> Any:
    """Return the id of the session by which somebody is signed in on a connection."""
    return dict(connection.sign_in.keys)["session"]


def is_signed_out(connection: Connection) -> bool:
    return connection.user is None and connection.sign_in is None


async def is_closed(connection: Connection) -> bool:
    """Tell whether the server closes a connection soon because its user was signed out."""
    await asyncio.sleep(0.03)
    await settle()
    return (connection.is_open, link_of(connection).reason) == (False, "signed out")
