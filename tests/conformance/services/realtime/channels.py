"""Which channels a connection is in, and the log of what connections do."""

from __future__ import annotations

from typing import Any


class Log:
    """Lists what connections did since the last reset."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    async def find(self, params):
        return list(self.entries)


def user_id(connection):
    """Return the id of a connection's user, None where it has none."""
    user = connection.get("user") if connection is not None else None
    return None if user is None else user["id"]


def channels(app: Any) -> None:
    """Register the log, and what joins and leaves channels."""
    log = Log()
    app.use("log", log)

    @app.on("connection")
    def connected(connection):
        note(connection, "connection")
        app.channel("everyone", *connection.first_channels).join(connection)
        if connection.user is None:
            app.channel("anonymous").join(connection)

    @app.on("disconnect")
    def disconnected(connection):
        note(connection, "disconnect")

    @app.on("login")
    def signed_in(result, params, context):
        connection = params.connection
        note_account("login", result, params)
        if connection is not None:
            app.channel("anonymous").leave(connection)
            app.channel("authenticated", f"users/{connection.user['id']}").join(connection)

    @app.on("logout")
    def signed_out(result, params, context):
        note_account("logout", result, params)
        app.channel("anonymous").join(params.connection)  # a call over REST has none: no effect

    def note(connection, event):
        log.entries.append(
            {"event": event, "name": connection.get("name"), "user": user_id(connection)}
        )

    def note_account(event, result, params):
        log.entries.append(
            {
                "event": event,
                "strategy": result["authentication"]["strategy"],
                "provider": params.provider,
                "user": result["user"]["id"],
                "connection": user_id(params.connection),
            }
        )
