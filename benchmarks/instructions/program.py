"""The program whose instructions are counted: requests to an application, without sockets.

What a socket costs depends on the kernel and on what else arrives, so requests are ASGI calls. The
application is whole: middleware, routing, hooks, service, response.

Each request is measured in blocks of equal length. A mark before and behind each block tells
Callgrind where it is (`benchmarks.instructions.callgrind`). At the end the program prints as JSON
which blocks there were, and which functions one request of each kind calls.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from json import dumps
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, authenticate
from alula.express import (
    HTTPProtocol,
    error_handler,
    express,
    json,
    not_found,
    rest,
    urlencoded,
)
from alula.schema import with_schema
from benchmarks.contenders import SIGNED_IN
from benchmarks.records import records
from benchmarks.servers.alula_sign_in import SECRET
from benchmarks.servers.bare_app import app as bare_app
from benchmarks.servers.messages import Message

TURNS = 50
BLOCKS = 3
# The interpreter specializes its code in the first calls, and caches fill up.
WARM_UP = 100

Turn = Callable[[], Awaitable[object]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

HEADERS = [
    (b"host", b"127.0.0.1:3030"),
    (b"user-agent", b"curl/8.5.0"),
    (b"accept", b"*/*"),
]
PAGES = {"default": 10, "max": 50}
BODY = dumps({"text": "x" * 960, "room": "room 5", "read": False}).encode()


@dataclass(frozen=True)
class Request:
    """A request, and the status that it must get."""

    method: str
    path: str
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    status: int = 200

    def to(self, app: Application) -> Turn:
        """Return what sends the request to an ASGI application, and checks the status."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": ("127.0.0.1", 3030),
            "client": ("127.0.0.1", 5000),
            "scheme": "http",
            "method": self.method,
            "root_path": "",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query,
        }
        message = {"type": "http.request", "body": self.body, "more_body": False}

        async def receive() -> dict[str, object]:
            return message

        async def send(event: dict[str, Any]) -> None:
            if event["type"] == "http.response.start" and event["status"] != self.status:
                raise AssertionError(f"{self.method} {self.path}: {event}")

        async def send_request() -> None:
            # A server makes both anew for each request.
            headers = [*HEADERS, *self.headers]
            await app({**scope, "headers": headers, "state": {}}, receive, send)

        return send_request

    def through_server(self, app: Application) -> Turn:
        """Return what sends the request through uvicorn's protocol, as `app.run` uses it."""
        config = uvicorn.Config(app, http=HTTPProtocol, lifespan="off", log_config=None)
        config.load()
        state = ServerState()
        state.default_headers = [(b"date", b"Mon, 01 Jan 2024 00:00:00 GMT")]
        of_uvicorn: Any = HTTPProtocol
        protocol = of_uvicorn(config=config, server_state=state, app_state={})
        transport = Transport()
        protocol.connection_made(transport)
        lines = b"".join(b"%s: %s\r\n" % pair for pair in HEADERS)
        head = b"%s %s HTTP/1.1\r\n%s\r\n" % (self.method.encode(), self.path.encode(), lines)
        expected = b"HTTP/1.1 %d " % self.status

        async def send_request() -> None:
            transport.written = b""
            protocol.data_received(head)
            await asyncio.sleep(0)
            if not transport.written.startswith(expected):
                raise AssertionError(f"{self.method} {self.path}: {transport.written!r}")

        return send_request


class Transport(asyncio.Transport):
    """A connection whose client reads at once."""

    written = b""

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        raise AssertionError("no request asks for an upgrade")


async def application() -> Any:
    """Return the application of the five requests, with what an application of its kind has."""
    app = express(App())
    app.use(json(), urlencoded())
    app.configure(rest())
    app.use("users", MemoryService(start_id=1))
    app.use("authentication", AuthenticationService(app, secret=SECRET))
    for path in ("memory", "own"):
        app.use(path, MemoryService(multi=True, paginate=PAGES))
        await app.service(path).create(records())
    app.service("own").hooks(around=[authenticate("jwt")])
    app.use("messages", with_schema(MemoryService(), Message))
    app.use(not_found(), error_handler())
    await app.service("users").create({"email": "ada@example.com"})
    await app.setup()
    return app


def requests() -> dict[str, Request]:
    """Return the five requests by name."""
    token = SIGNED_IN[0].rpartition(" ")[2].encode()
    json_type = (b"content-type", b"application/json")
    length = (b"content-length", b"%d" % len(BODY))
    return {
        "get": Request("GET", "/memory/5"),
        "find": Request("GET", "/memory", b"$limit=10&$sort[createdAt]=-1"),
        "post": Request("POST", "/messages", headers=(json_type, length), body=BODY, status=201),
        "get, signed in": Request(
            "GET", "/own/5", headers=((b"authorization", b"Bearer " + token),)
        ),
        "error 404": Request("GET", "/memory/5000", status=404),
    }


async def turns() -> dict[str, Turn]:
    """Return the turns of the five requests by name, and those that split `get` by part."""
    app = await application()
    five = requests()
    get = five["get"]
    memory = app.service("memory")
    return {
        **{name: request.to(app) for name, request in five.items()},
        "get: service call": lambda: memory.get("5"),
        "get: with server": get.through_server(app),
        "bare": get.to(bare_app),
        "bare: with server": get.through_server(bare_app),
    }


async def measure(turns: dict[str, Turn]) -> dict[str, Any]:
    """Run marked blocks of each; return their names in order, and the calls of one turn each."""
    blocks = []
    # Collections would fall into some blocks and not into others.
    gc.disable()
    for name, run in turns.items():
        for _ in range(WARM_UP):
            await run()
        for _ in range(BLOCKS):
            blocks.append(name)
            os.sched_yield()  # the mark
            for _ in range(TURNS):
                await run()
            os.sched_yield()
    calls = {name: await calls_of(run) for name, run in turns.items()}
    return {"blocks": blocks, "turns": TURNS, "calls": calls}


async def calls_of(run: Turn) -> dict[str, int]:
    """Return how often one turn calls each function, as ``module:name``."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            calls[f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}"] += 1
        elif event == "c_call":
            calls[f"{argument.__module__ or 'builtins'}:{argument.__qualname__}"] += 1

    sys.setprofile(note)
    try:
        await run()
    finally:
        sys.setprofile(None)
    del calls["builtins:setprofile"], calls["sys:setprofile"]
    return dict(sorted(calls.items()))


async def main(names: list[str]) -> None:
    """Measure the turns of these names, or all of them."""
    known = await turns()
    print(dumps(await measure({name: known[name] for name in names or known})))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
