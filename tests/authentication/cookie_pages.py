"""An application with tokens in cookies, and another site whose pages attack it.

``python -m tests.authentication.cookie_pages`` prints the addresses of both, in a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.authentication.building import add_authentication, add_user

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import TokenCookie, authenticate
from alula.express import cors, error_handler, express, not_found, rest, urlencoded
from alula.express import json as json_body
from alula.realtime import socketio, sse

PAGE = "<!doctype html><title>A page</title><link rel=icon href=data:,>"


def make_page() -> Any:
    """Return the other site."""
    app = express()
    app.get("/", lambda req, res: res.send(PAGE))
    return app


async def make_app(other: str) -> Any:
    """Return the application.

    Args:
        other: The origin of the other site, which may read everything (CORS) and open websockets.
    """
    app = express(App())
    app.use(cors(origins=[other], credentials=True)).use(json_body(), urlencoded())
    app.get("/", lambda req, res: res.send(PAGE))
    app.configure(rest()).configure(socketio(origins=[other])).configure(sse())
    app.use("users", MemoryService(start_id=1), methods=[])
    app.use("sessions", MemoryService(), methods=[])
    app.use("notes", MemoryService())
    app.service("notes").hooks(around=[authenticate("jwt")])
    add_authentication(app, sessions="sessions", cookie=TokenCookie(tokens_in_body=False))
    app.use(not_found(), error_handler(logger=False))
    await add_user(app)
    return app


async def serve() -> None:
    other = await make_page().listen(0, host="localhost")
    other_origin = f"http://localhost:{other.port}"
    own = await (await make_app(other_origin)).listen(0, host="localhost")
    addresses = {"own": f"http://localhost:{own.port}", "other": other_origin}
    print(json.dumps(addresses), flush=True)
    await own.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve())
