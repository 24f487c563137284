"""The program whose instructions are counted: requests to an application, without sockets.

What a socket costs depends on the kernel and on what else arrives, so requests are ASGI calls. One
application is what `alula new` writes, untouched: users, real time, the log of requests. Its
records are in memory, since how often a database is waited for depends on the machine. The other
one has services and next to nothing else. A process has one of them, as that of a user: with both,
the interpreter specializes the code that they share now for one and now for the other, which moved
the figures of a `get` by 3 %.

Each request is measured in blocks of equal length. A mark before and behind each block tells
Callgrind where it is (`benchmarks.instructions.callgrind`). At the end the program prints as JSON
which blocks there were, and which functions one request of each kind calls.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from importlib import import_module
from json import dumps
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from alula import App
from alula.adapters.memory import MemoryService
from alula.express import (
    HTTPProtocol,
    error_handler,
    express,
    json,
    not_found,
    rest,
    urlencoded,
)
from alula.logs import configure_logging
from alula.schema import with_schema
from benchmarks.records import records
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
ACCOUNT = {"email": "ada@example.com", "password": "correct horse"}
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
            "client": None,  # turns of clients depend on the clock, which is slow under Callgrind
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
        config = uvicorn.Config(
            app, http=HTTPProtocol, lifespan="off", log_config=None, access_log=False
        )
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


async def bare_application() -> Any:
    """Return an application with two services, and with what every application has."""
    app = express(App())
    app.use(json(), urlencoded())
    app.configure(rest())
    app.use("memory", MemoryService(multi=True, paginate=PAGES))
    app.use("messages", with_schema(MemoryService(), Message))
    app.use(not_found(), error_handler())
    await app.service("memory").create(records())
    await app.setup()
    return app


def requests() -> dict[str, Request]:
    """Return the two requests to the application above by name."""
    return {
        "get": Request("GET", "/memory/5"),
        "post": Request("POST", "/messages", headers=headers_of(BODY), body=BODY, status=201),
    }


def headers_of(body: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of a body."""
    return (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))


def write_application(folder: Path) -> Path:
    """Let `alula new` write an application; return its folder."""
    new = "import sys; from alula._cli import main; sys.argv[0] = 'alula'; main()"
    answers = ("--yes", "--authentication", "--database", "memory", "--realtime")
    subprocess.run(
        [sys.executable, "-c", new, "new", "shop", *answers],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder / "shop"


async def generated_application(folder: Path) -> tuple[Any, str]:
    """Return the application of a folder, and the token of a user who has signed in."""
    os.environ |= {"ALULA_ENV": "production", "SHOP_AUTHENTICATION_SECRET": "s" * 48}
    sys.path.insert(0, str(folder))
    module: Any = import_module("app")
    configure_logging()  # as `alula serve` does
    app = module.app
    await app.setup()
    await app.service("users").create(ACCOUNT)
    signed_in = await app.service("authentication").create({"strategy": "local", **ACCOUNT})
    return app, signed_in["accessToken"]


def generated_requests(token: str) -> dict[str, Request]:
    """Return the three requests to the generated application by name, and what fills it."""
    signed_in = (b"authorization", b"Bearer " + token.encode())
    body = dumps({"text": "Changed"}).encode()
    with_body = (signed_in, *headers_of(body))
    return {
        "generated get": Request("GET", "/messages/{id}", headers=(signed_in,)),
        "generated find": Request("GET", "/messages", b"$limit=10", (signed_in,)),
        "generated patch": Request("PATCH", "/messages/{id}", headers=with_body, body=body),
    }


async def generated_turns(folder: Path) -> dict[str, Turn]:
    """Return the turns of the requests to the generated application by name."""
    app, token = await generated_application(folder)
    found = generated_requests(token)
    create = replace(found["generated patch"], method="POST", path="/messages", status=201)
    for _ in range(40):
        await create.to(app)()
    page = await app.service("messages").find(query={"$limit": 1})
    key = page["data"][0]["id"]
    return {
        name: replace(request, path=request.path.format(id=key)).to(app)
        for name, request in found.items()
    }


async def bare_turns() -> dict[str, Turn]:
    """Return the turns of the two requests by name, and those that split `get` by part."""
    app = await bare_application()
    two = requests()
    get = two["get"]
    memory = app.service("memory")
    return {
        **{name: request.to(app) for name, request in two.items()},
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


async def main(application: str, names: list[str]) -> None:
    """Measure the turns of these names, or all that the application has."""
    with tempfile.TemporaryDirectory() as parent:
        if application == "generated":
            known = await generated_turns(write_application(Path(parent)))
        else:
            known = await bare_turns()
        print(dumps(await measure({name: known[name] for name in names or known})))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
