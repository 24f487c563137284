"""Clients without a network: ASGI messages to an application, and what comes back."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

from alula._wire import MESSAGES_EXTENSION, decode_payload

PATH = "/socket.io/?EIO=4&transport="
SECONDS_TO_ANSWER = 30
AT_ONCE = 60  # messages of one read that a server with the extension offers; ours 64


class Clock:
    """A scheduler whose time passes by `advance` alone."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def time(self):
        return self.now

    def call_later(self, delay, callback, *args):
        timer = Timer(self.now + delay, callback, args)
        self.timers.append(timer)
        return timer

    def advance(self, seconds):
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.is_due(end)]:
            timer = min(due, key=lambda timer: timer.when)
            self.timers.remove(timer)
            self.now = timer.when
            timer.callback(*timer.args)
        self.now = end


class Timer:
    def __init__(self, when, callback, args):
        self.when, self.callback, self.args = when, callback, args
        self.is_cancelled = False

    def cancel(self):
        self.is_cancelled = True

    def is_due(self, end):
        return not self.is_cancelled and self.when <= end


def scope_of(kind, url, headers, ip, method="GET"):
    parts = urlsplit(url)
    scope = {
        "type": kind,
        "path": parts.path,
        "root_path": "",
        "query_string": parts.query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": None if ip is None else (ip, 1234),
    }
    return {**scope, "method": method} if kind == "http" else scope


class Response:
    def __init__(self, messages):
        start, *bodies = messages
        self.status = start["status"]
        self.headers = {k.decode(): v.decode() for k, v in start["headers"]}
        self.body = b"".join(message.get("body", b"") for message in bodies)

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def frames(self):
        return decode_payload(self.body)


async def request(app, url, method="GET", body=b"", headers=None, ip="10.0.0.1", leave=None):
    """Return the response to a request; ``leave`` is an event for the client going away."""
    sent = []
    parts = body if isinstance(body, list) else [body]
    incoming = [
        {"type": "http.request", "body": part, "more_body": at < len(parts)}
        for at, part in enumerate(parts, 1)
    ]

    async def receive():
        if incoming:
            return incoming.pop(0)
        await (leave or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    await app(scope_of("http", url, headers or {}, ip, method), receive, send)
    return Response(sent)


class Reads(asyncio.Event):
    """Whether the client reads."""

    on_set = staticmethod(lambda: None)

    def set(self):
        super().set()
        self.on_set()


class Peer:
    """A websocket client, and the server between it and the application.

    Attributes:
        has_extension: Whether the server has the `MessagesExtension`; a fixture sets it.
        reads: Cleared while the client does not read: then the server's sends wait.
    """

    has_extension = False

    def __init__(self, app, url=f"{PATH}websocket", headers=None, ip="10.0.0.1"):
        self.to_server = asyncio.Queue()
        self.from_server = asyncio.Queue()
        self.taker = None
        self.reads = Reads()
        self.reads.set()
        self.accepted = None
        self.closed = asyncio.Event()
        self.to_server.put_nowait({"type": "websocket.connect"})
        scope = scope_of("websocket", url, headers or {}, ip)
        if self.has_extension:
            scope["extensions"] = {MESSAGES_EXTENSION: self}
        self.task = asyncio.ensure_future(app(scope, self._receive, self._take))

    async def _receive(self):
        return await self.to_server.get()

    def attach(self, take, on_writable):
        self.taker, self.reads.on_set = take, on_writable

    def write(self, frame):
        if self.closed.is_set():
            return False
        self.from_server.put_nowait(frame)
        return self.reads.is_set()

    def wake(self):
        self.to_server.put_nowait({"type": MESSAGES_EXTENSION})

    def _arrive(self, frames):
        for number, frame in enumerate(frames):
            may_take = self.taker is not None and self.to_server.empty() and number < AT_ONCE
            if not may_take or not self.taker(frame):
                kind = "text" if isinstance(frame, str) else "bytes"
                self.to_server.put_nowait({"type": "websocket.receive", kind: frame})

    async def _take(self, message):
        await self.reads.wait()
        if self.closed.is_set():
            raise OSError("the client has left")
        if message["type"] == "websocket.accept":
            self.accepted = True
        elif message["type"] == "websocket.close":
            self.accepted = bool(self.accepted)
            self.closed.set()
            self.to_server.put_nowait({"type": "websocket.disconnect", "code": 1000})
        else:
            self.from_server.put_nowait(message.get("text", message.get("bytes")))

    def send(self, *frames):
        if self.has_extension:  # a server takes them outside of any task
            asyncio.get_running_loop().call_soon(self._arrive, frames)
        else:
            self._arrive(frames)

    async def next(self):
        """Return the next frame: its head and its JSON, or bytes."""
        frame = await asyncio.wait_for(self.from_server.get(), SECONDS_TO_ANSWER)
        return frame if isinstance(frame, bytes) else split(frame)

    async def join(self, auth=None):
        """Take the handshake and join; return what the server told."""
        self.send("40" if auth is None else "40" + json.dumps(auth))
        assert (await self.next())[0] == "0"
        head, joined = await self.next()
        assert head == "40", (head, joined)
        return joined

    async def join_again(self, auth):
        """Join once more in a session that was refused."""
        self.send("40" + json.dumps(auth))
        assert (await self.next())[0] == "40"

    async def call(self, *args, number=1):
        self.send(f"42{number}{json.dumps(args)}")
        head, answer = await self.next()
        assert head == f"43{number}"
        return answer

    async def wait_closed(self):
        await asyncio.wait_for(self.closed.wait(), SECONDS_TO_ANSWER)

    async def leave(self):
        self.closed.set()
        self.to_server.put_nowait({"type": "websocket.disconnect", "code": 1006})
        self.reads.set()
        await asyncio.wait_for(self.task, SECONDS_TO_ANSWER)


def split(frame):
    """Return the head of a text frame, and the JSON behind it (None without)."""
    at = next((i for i, letter in enumerate(frame) if letter in "[{"), len(frame))
    return frame[:at], json.loads(frame[at:]) if at < len(frame) else None


async def settle():
    """Let all that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)
