"""An application with live lists, for the JavaScript packages in ``packages``."""

from __future__ import annotations

from pathlib import Path

from alula import App, HookContext, Params
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest, Forbidden, NotAuthenticated
from alula.express import (
    ExpressApplication,
    error_handler,
    express,
    json,
    not_found,
    rest,
    serve_static,
)
from alula.realtime import socketio, sse

KEY = "a key"


class Connections:
    """Ends connections, as a restart of the server does."""

    def __init__(self, app: ExpressApplication) -> None:
        self.app = app

    async def create(self, data: object, params: Params) -> dict[str, object]:
        """Close all connections, and tell how many there were."""
        connections = [*self.app.channel_registry.connections.values()]
        for connection in connections:
            await connection.close("restart")
        return {"id": "all", "closed": len(connections)}


def make_app(public: Path | None = None) -> ExpressApplication:
    """Return an application with three services that have live lists.

    Args:
        public: A folder with pages to serve.
    """
    app = express(App(debug=True))  # which has a page of each service
    app.use(json())
    app.configure(rest())
    app.configure(sse())
    app.configure(socketio())
    app.use("todos", MemoryService(start_id=1, multi=True))
    app.use("notes", MemoryService(id="_id", start_id=1, multi=True))
    app.use("secrets", MemoryService(start_id=1))
    for path in ("todos", "notes", "secrets"):
        app.service(path).live(pause=0.005)
    app.service("secrets").hooks(before={"find": [check_key]})
    app.service("todos").hooks(before={"create": [check_text]})
    app.use("connections", Connections(app))
    if public is not None:
        app.use(serve_static(public))
    app.use(not_found(), error_handler(logger=False))
    return app


async def check_key(context: HookContext) -> None:
    """Let only callers with the key find the secrets, until there is a lock."""
    if not context.params.provider:
        return
    if context.params.headers.get("authorization") != KEY:
        raise NotAuthenticated("no key")
    if await context.service.find(query={"text": "lock"}):
        raise Forbidden("there is a lock")


def check_text(context: HookContext) -> None:
    """Refuse one text, for clients that show a record before it is there."""
    records = context.data if isinstance(context.data, list) else [context.data]
    if any(record.get("text") == "refused" for record in records):
        raise BadRequest("this text is refused")
