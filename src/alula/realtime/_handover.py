"""Hands requests over to the worker that has their session.

Workers share a listening socket, so any of them may get the requests of a session. The id of a
session begins with the name of its worker. Another worker that gets a request of the session passes
the ASGI messages in both directions through a Unix socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from alula._hub import FrameReader, UnixServer, WorkerPlace, current_worker, write_frame

__all__ = ["Handover", "name_sessions"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

_ACCEPT_SECONDS: Final = 3.0
"""How long a worker may take to accept a request. The sessions of a hanging worker are lost."""

_CLOSE_SECONDS: Final = 5.0
"""How long the other side may take to close the connection after a request."""

_MAX_QUEUED: Final = 16
"""How many messages of a client may wait for the application."""

_SESSION: Final = re.compile(rb"(?:^|&)sid=(w[^&]*)")
_WORKER: Final = re.compile(r"(w[0-9]{1,9}(?:-[0-9]{1,3})?)\.", re.ASCII)
_SCOPE_KEYS: Final = (
    "type",
    "asgi",
    "http_version",
    "method",
    "scheme",
    "path",
    "raw_path",
    "root_path",
    "query_string",
    "headers",
    "client",
    "server",
    "subprotocols",
)
_DENIAL: Final = "websocket.http.response"
_PAYLOADS: Final = ("body", "bytes", "text")
_END: Final = b""
_ACCEPTED: Final = b""

_numbers: Final = itertools.count()


def name_sessions(place: WorkerPlace | None = None) -> WorkerPlace | None:
    """Return the place of a new transport in this worker, None if there are no other workers.

    The ids of its sessions begin with the ``worker_id`` of the place, and a dot.

    Args:
        place: The place of this worker, None to find it.
    """
    place = place or current_worker()
    if place is None:
        return None
    number = next(_numbers)  # each transport of a worker has its own socket
    return place._replace(worker_id=f"{place.worker_id}-{number}") if number else place


class Handover(UnixServer):
    """An ASGI application that wraps a transport, for the workers of `alula serve`.

    Args:
        app: The transport. It gets the requests of its own sessions, of new sessions, and of
            sessions whose worker has ended, which it refuses.
        place: The result of `name_sessions`.
    """

    def __init__(self, app: ASGIApp, place: WorkerPlace) -> None:
        super().__init__(place.directory / f"{place.worker_id}.sock")
        self._app = app
        self._worker_id = place.worker_id

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a request here, or hand it over."""
        match = _SESSION.search(scope["query_string"])
        owner = None if match is None else self.owner_of(match[1].decode("latin-1"))
        if owner is not None:
            await self.hand_over(owner, scope, receive, send, self._app)
        else:
            await self._app(scope, receive, send)

    def owner_of(self, session_id: str) -> str | None:
        """Return the other worker that has a session, None if there is none.

        Ids of other transports do not count: their clients must use the path of that transport.
        """
        match = _WORKER.match(session_id)
        if match is None or match[1] == self._worker_id:
            return None
        number = self._worker_id.partition("-")[2]
        return match[1] if match[1].partition("-")[2] == number else None

    async def hand_over(
        self, owner: str, scope: Message, receive: Receive, send: Send, otherwise: ASGIApp
    ) -> None:
        """Pass a request to another worker.

        Args:
            owner: The name of that worker.
            scope: The request.
            receive: Returns the messages of the client.
            send: Sends messages to the client.
            otherwise: Serves the request if that worker has ended, or ends before its response.
        """
        try:
            reader, writer = await _connect(self.path.with_name(f"{owner}.sock"), scope)
        except (OSError, TimeoutError):
            await otherwise(scope, receive, send)
            return
        last = ""
        passing = asyncio.create_task(_pass_on(receive, writer), name="requests handed over")
        try:
            # Errors of reading mean that the worker has ended. Those of `send` are raised.
            while (data := await _read_or_end(reader)) is not None:
                if data == _END:
                    return
                message = _decode(data)
                last = message["type"]
                await send(message)
        finally:
            passing.cancel()
            await asyncio.wait({passing})
            writer.close()
        # The other worker has ended.
        if not last:
            # It may have received the first message already, so that message is repeated here.
            first: Message = {"type": "http.request", "body": b"", "more_body": False}
            if scope["type"] == "websocket":
                first = {"type": "websocket.connect"}
            messages = [first]

            async def receive_again() -> Message:
                return messages.pop() if messages else await receive()

            await otherwise(scope, receive_again, send)
        elif scope["type"] == "websocket" and last != "websocket.close":
            with contextlib.suppress(OSError, RuntimeError):  # the client may have left, too
                await send({"type": "websocket.close", "code": 1012})  # service restart

    async def serve(self, reader: FrameReader, writer: asyncio.StreamWriter) -> None:
        """Run the transport for a request from another worker."""
        scope = _decode(await reader.read())
        write_frame(writer, _ACCEPTED)
        # A task reads them, because the application may cancel its `receive`.
        messages: asyncio.Queue[Message] = asyncio.Queue(_MAX_QUEUED)

        async def read_messages() -> None:
            while (data := await _read_or_end(reader)) is not None:
                await messages.put(_decode(data))
            await messages.put({"type": f"{scope['type']}.disconnect", "code": 1006})

        async def send(message: Message) -> None:
            write_frame(writer, _encode(message))
            await writer.drain()  # raises if the worker that handed the request over is gone

        reading = asyncio.create_task(read_messages(), name="messages handed over")
        try:
            await self._app(scope, messages.get, send)
            write_frame(writer, _END)
            # The other side must close first. If this side closed while messages are unread, such
            # as the rest of a request's body, the response would be lost.
            while not messages.empty():
                messages.get_nowait()
            await asyncio.wait({reading}, timeout=_CLOSE_SECONDS)
        finally:
            reading.cancel()


async def _connect(path: Path, scope: Message) -> tuple[FrameReader, asyncio.StreamWriter]:
    """Return a connection to another worker that has accepted the request.

    Raises:
        OSError: The worker has ended.
        TimeoutError: It does not respond.
    """
    # Only known keys: those that servers and middleware add may have no JSON form.
    values = {key: scope[key] for key in _SCOPE_KEYS if key in scope}
    if _DENIAL in scope.get("extensions", ()):
        values["extensions"] = {_DENIAL: {}}
    async with asyncio.timeout(_ACCEPT_SECONDS):
        stream, writer = await asyncio.open_unix_connection(path)
        reader = FrameReader(stream)
        try:
            write_frame(writer, _encode(values))
            await reader.read()
        except BaseException:
            writer.close()
            raise
    return reader, writer


async def _read_or_end(reader: FrameReader) -> bytes | None:
    try:
        return await reader.read()
    except ConnectionError:
        return None


async def _pass_on(receive: Receive, writer: asyncio.StreamWriter) -> None:
    """Pass the client's messages to the other worker, until the client leaves."""
    with contextlib.suppress(ConnectionError):
        while True:
            message = await receive()
            write_frame(writer, _encode(message))
            await writer.drain()
            if message["type"].endswith(".disconnect"):
                return


def _encode(message: Message) -> bytes:
    """Return an ASGI scope or message as a line of JSON, followed by its payload."""
    name = next((name for name in _PAYLOADS if message.get(name) is not None), "")
    payload: str | bytes = message[name] if name else b""
    values = {key: value for key, value in message.items() if key not in _PAYLOADS}
    line = json.dumps([name, values], default=lambda raw: bytes(raw).decode("latin-1"))
    return line.encode() + b"\n" + (payload.encode() if isinstance(payload, str) else payload)


def _decode(data: bytes) -> Message:
    """Return the scope or message that `_encode` has encoded."""
    line, _, payload = data.partition(b"\n")
    name: str
    message: Message
    name, message = json.loads(line)
    if name:
        message[name] = payload.decode() if name == "text" else payload
    if "headers" in message:
        message["headers"] = [
            (n.encode("latin-1"), v.encode("latin-1")) for n, v in message["headers"]
        ]
    for key in ("query_string", "raw_path"):
        if message.get(key) is not None:
            message[key] = message[key].encode("latin-1")
    for key in ("client", "server"):
        if message.get(key) is not None:
            message[key] = tuple(message[key])
    return message
