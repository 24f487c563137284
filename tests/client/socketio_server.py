"""A server of socket.io that does what a test tells it, in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from ssl import SSLContext
from typing import Any, Self

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from alula._wire import (
    MESSAGE,
    PING,
    PONG,
    Decoder,
    OpenPacket,
    Packet,
    PacketType,
    encode_packet,
    placeholder,
)
from alula.errors import FrameworkError, NotAuthenticated

SILENT = object()
"""The result of a call that is never acknowledged."""


def dumps(value: Any, attachments: list[bytes]) -> str:
    return json.dumps(value, default=lambda data: placeholder(data, attachments))


def frames_of(type: PacketType, data: Any = None, id: int | None = None) -> list[str | bytes]:
    return encode_packet(Packet(type, data, id), dumps)


def opening(
    ping_interval: float = 25.0, ping_timeout: float = 20.0, max_payload: int = 1_000_000
) -> str:
    return OpenPacket("engine-1", (), ping_interval, ping_timeout, max_payload).encode(dumps)


class ScriptedServer:
    """Takes connections and calls.

    Attributes:
        answers: By method and path: a result, an error to acknowledge, a function of the arguments,
            or `SILENT`. Other calls are acknowledged with None.
        status: If set, the status that handshakes are refused with.
        refusal: If set, the data of the packet that joins are refused with.
        pid: If set, the private id of connection state recovery.
        tokens: The tokens that a sign-in takes, each with its user.
        calls: The arguments of each call.
        joins: The data that each client has joined with.
        requests: The path and the headers of each handshake.
        pongs: How many pings the clients have answered.
    """

    def __init__(self, **handshake: Any) -> None:
        self.opening = opening(**handshake)
        self.answers: dict[tuple[str, str], Any] = {}
        self.status: HTTPStatus | None = None
        self.refusal: Any = None
        self.pid: str | None = None
        self.tokens: dict[str, str] = {}
        self.calls: list[list[Any]] = []
        self.joins: list[Any] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.users: dict[ServerConnection, str] = {}
        self.pongs = 0
        self.is_mute = False
        self.ssl: SSLContext | None = None
        self.port = 0
        self._open: set[ServerConnection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def listen(self) -> None:
        async def listen():
            self._server = await serve(
                self._serve,
                "127.0.0.1",
                self.port,
                process_request=self._process_request,
                ping_interval=None,
                close_timeout=0.05,
                ssl=self.ssl,
            )
            self.port = self._server.sockets[0].getsockname()[1]

        self.run(listen())

    def stop(self) -> None:
        async def stop():
            self._server.close()
            self._cut()
            await self._server.wait_closed()

        self.run(stop())

    def cut(self) -> None:
        """Break all connections, without a word."""

        async def cut():
            self._cut()

        self.run(cut())

    def _cut(self) -> None:
        for websocket in self._open:
            websocket.transport.abort()

    def send(self, *frames: str | bytes) -> None:
        async def send():
            for websocket in list(self._open):
                for frame in frames:
                    await websocket.send(frame)

        self.run(send())

    def ping(self) -> None:
        """Return once a client has answered, and so has handled all that was sent before."""
        before, end = self.pongs, time.monotonic() + 30
        self.send(PING)
        while self.pongs == before:
            assert time.monotonic() < end, "no client answers"
            time.sleep(0.002)

    def emit(self, *values: Any) -> None:
        """Send an event to all clients."""
        self.send(*frames_of(PacketType.EVENT, list(values)))

    async def _process_request(self, connection, request):
        self.requests.append((request.path, dict(request.headers.raw_items())))
        if self.status is not None:
            return connection.respond(self.status, "not today")
        return None

    async def _serve(self, websocket: ServerConnection) -> None:
        self._open.add(websocket)
        decoder = Decoder(json.loads)
        try:
            if not self.is_mute:
                await websocket.send(self.opening)
            async for frame in websocket:
                if isinstance(frame, str) and not frame.startswith(MESSAGE):
                    assert frame.startswith(PONG)
                    self.pongs += 1
                elif (packet := decoder.decode(frame)) is not None:
                    for sent in self._replies(websocket, packet):
                        await websocket.send(sent)
        except ConnectionClosed:
            pass
        finally:
            self._open.discard(websocket)
            self.users.pop(websocket, None)

    def _replies(self, websocket: ServerConnection, packet: Packet) -> list[str | bytes]:
        if packet.type is PacketType.CONNECT:
            self.joins.append(packet.data)
            if self.refusal is not None:
                return frames_of(PacketType.CONNECT_ERROR, self.refusal)
            return frames_of(
                PacketType.CONNECT, {"sid": "s", **({"pid": self.pid} if self.pid else {})}
            )
        if packet.type is not PacketType.EVENT:
            return []
        self.calls.append(packet.data)
        method, path, *arguments = packet.data
        result = self.answers.get((method, path))
        if (method, path) == ("create", "authentication") and result is None:
            result = self._sign_in(websocket, arguments[0])
        if isinstance(result, Callable):
            result = result(*arguments)
        if result is SILENT:
            return []
        if isinstance(result, FrameworkError):
            return frames_of(PacketType.ACK, [result.to_dict()], packet.id)
        return frames_of(PacketType.ACK, [None, result], packet.id)

    def _sign_in(self, websocket: ServerConnection, data: dict[str, str]) -> Any:
        token = data.get("accessToken") or data.get("password")
        if token not in self.tokens:
            return NotAuthenticated("wrong")
        self.users[websocket] = self.tokens[token]
        return {"accessToken": token, "user": {"name": self.tokens[token]}}


def breaks_of(client) -> list[str]:
    """Return the reasons of the client's breaks, a list that grows with each of them.

    Tests wait for it, since a client may be connected again before anyone looks.
    """
    reasons: list[str] = []
    client.on("disconnect", reasons.append)
    return reasons
