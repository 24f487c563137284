"""`RealtimeClient`: a client over socket.io for tests, without a network.

It calls the application as an ASGI server would, so that a test sees what a client gets: its
handshake, middleware, limits, errors and JSON.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias
from urllib.parse import urlencode

from alula._json_encoding import dumps_with_attachments, loads
from alula._wire import (
    MESSAGE,
    OPEN,
    PONG,
    VERSION,
    Decoder,
    Frame,
    Packet,
    PacketType,
    encode_packet,
)
from alula.errors import Forbidden, FrameworkError, GeneralError, Unavailable
from alula.types import is_dict

__all__ = ["RealtimeClient", "ReceivedEvent"]

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
"""An ASGI application, such as ``express(App())``."""

CALL_SECONDS: Final = 10.0
"""How long the client waits for the result of a call, or to be connected."""


class ReceivedEvent(NamedTuple):
    """An event that a client received.

    Attributes:
        name: The path of the service and the event, such as ``"messages created"``.
        data: What the server sent, as parsed from JSON.
    """

    name: str
    data: Any


class RealtimeClient:
    """A client over socket.io, for tests of an application in the same process.

    Args:
        app: The web application; `socketio` is configured.
        path: The path of the transport.
        headers: Headers of the handshake, such as ``{"authorization": "Bearer ..."}``.
        query: The query of the handshake.
        auth: What the client sends to join; `alula.realtime.Handshake` has it as ``auth``.

    Attributes:
        events: The events received so far, in order. Tests may clear it.

    Raises:
        TypeError: ``app`` is not an ASGI application.

    Examples:
        >>> import asyncio
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.express import express
        >>> from alula.realtime import socketio
        >>> app = express(App()).configure(socketio())
        >>> _ = app.use("messages", MemoryService())
        >>> _ = app.on("connection", lambda connection: app.channel("all").join(connection))
        >>> _ = app.service("messages").publish(lambda data, context: app.channel("all"))
        >>> async def test():
        ...     async with RealtimeClient(app) as client:
        ...         await client.call("create", "messages", {"text": "Hello"})
        ...         return await client.next_event()
        >>> asyncio.run(test())
        ReceivedEvent(name='messages created', data={'text': 'Hello', 'id': 0})
    """

    def __init__(
        self,
        app: Application,
        *,
        path: str = "/socket.io/",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        auth: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(app):
            raise TypeError(
                f"RealtimeClient(app) takes a web application, not {app!r}: write"
                " app = express(App()), with `from alula.express import express`"
            )
        self.events: list[ReceivedEvent] = []
        self._app = app
        self._auth = auth
        fields = {"EIO": VERSION, "transport": "websocket", **(query or {})}
        self._scope = {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": urlencode(fields).encode(),
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in {"host": "testserver", **(headers or {})}.items()
            ],
            "client": ("127.0.0.1", 50000),
            "server": ("testserver", 80),
            "subprotocols": [],
        }
        self._to_server: asyncio.Queue[Message] = asyncio.Queue()
        self._decoder = Decoder(lambda text: loads(text.encode()))
        self._calls: dict[int, asyncio.Future[list[Any]]] = {}
        self._last_call = 0
        self._has_news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def is_connected(self) -> bool:
        """Whether the server has not closed the connection."""
        return self._task is not None and not self._task.done() and self._joined.done()

    async def connect(self) -> Self:
        """Connect and join.

        Raises:
            Forbidden: The server refuses the handshake, or serves no real time at the path.
            FrameworkError: It refuses the join: with the message and the data that a client gets.
            RuntimeError: The client is connected, or the application has no `socketio`.
        """
        if self._task is not None:
            raise RuntimeError("the client is connected already; make another one")
        endpoints = getattr(self._app, "endpoints", None)  # other ASGI applications have none
        if endpoints is not None and endpoints.find(self._scope) is None:
            path = self._scope["path"]
            raise RuntimeError(
                f"the application has no socket.io at {path!r}: write app.configure(socketio()),"
                " with `from alula.realtime import socketio`; if it is served elsewhere:"
                " RealtimeClient(app, path=...)"
            )
        self._joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._to_server.put_nowait({"type": "websocket.connect"})
        self._task = asyncio.create_task(self._serve(), name="a RealtimeClient")
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._joined
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Close the connection, and wait until the server has let go of it."""
        if self._task is not None:
            self._to_server.put_nowait({"type": "websocket.disconnect", "code": 1000})
            async with asyncio.timeout(CALL_SECONDS):
                await self._task

    async def call(self, method: str, path: str, *arguments: Any) -> Any:
        """Call a method of a service; return its result as a client gets it.

        Args:
            method: The name of the method.
            path: The path of the service.
            arguments: The id, the data and the query, those that the method takes.

        Raises:
            FrameworkError: The error that the server sends.
            Unavailable: The connection is closed.
            RuntimeError: The client was not connected.

        Examples:
            ``await client.call("patch", "messages", 1, {"text": "Hi"}, {"room": "a"})``
        """
        self._check_connected("call")
        if not self.is_connected:
            raise Unavailable("The connection is closed")
        self._last_call = number = self._last_call + 1
        answer = self._calls[number] = asyncio.get_running_loop().create_future()
        self._send(Packet(PacketType.EVENT, [method, path, *arguments], number))
        try:
            async with asyncio.timeout(CALL_SECONDS):
                error, *results = await answer
        finally:
            self._calls.pop(number, None)
        if error is not None:
            raise FrameworkError.from_dict(error)
        return results[0] if results else None

    async def next_event(self, name: str | None = None, within: float = 1.0) -> ReceivedEvent:
        """Take the first event out of ``events``; wait for it if there is none.

        Args:
            name: Skip events of other names, such as ``"messages created"``; None takes any.
            within: Seconds to wait.

        Raises:
            TimeoutError: There is no such event; the message lists those that were received.
            RuntimeError: The client was not connected.
        """
        self._check_connected("next_event")
        try:
            async with asyncio.timeout(within):
                while True:
                    for at, event in enumerate(self.events):
                        if name is None or event.name == name:
                            return self.events.pop(at)
                    self._has_news.clear()
                    await self._has_news.wait()
        except TimeoutError:
            raise TimeoutError(
                f"no event {name or ''} within {within:g} s; received: {self.events}"
            ) from None

    def _check_connected(self, method: str) -> None:
        if self._task is None:
            raise RuntimeError(
                f"{method}() before the client is connected: write"
                " `async with RealtimeClient(app) as client:`, or `await client.connect()`"
            )

    def _send(self, packet: Packet) -> None:
        for frame in encode_packet(packet, dumps_with_attachments):
            self._send_frame(frame)

    def _send_frame(self, frame: Frame) -> None:
        kind = "text" if isinstance(frame, str) else "bytes"
        self._to_server.put_nowait({"type": "websocket.receive", kind: frame})

    async def _serve(self) -> None:
        """Run the application for this connection; then fail what still waits."""
        try:
            await self._app(self._scope, self._to_server.get, self._receive)
        finally:
            closed = Unavailable("The server closed the connection")
            if not self._joined.done():
                self._joined.set_exception(closed)
            for answer in self._calls.values():
                answer.set_exception(closed)
            self._calls.clear()

    async def _receive(self, message: Message) -> None:
        """Take an ASGI message of the application."""
        if message["type"] == "websocket.close" and not self._joined.done():
            self._joined.set_exception(Forbidden("The server refused the handshake"))
        if message["type"] != "websocket.send":
            return
        frame: Frame = message.get("text") or message["bytes"]
        if isinstance(frame, bytes) or frame.startswith(MESSAGE):
            packet = self._decoder.decode(frame)
            if packet is not None:
                self._take(packet)
        elif frame.startswith(OPEN):
            self._send(Packet(PacketType.CONNECT, self._auth and dict(self._auth)))
        else:  # a ping: over a websocket a server sends nothing else
            self._send_frame(PONG)

    def _take(self, packet: Packet) -> None:
        if packet.type is PacketType.EVENT:
            self.events.append(ReceivedEvent(packet.data[0], packet.data[1]))
            self._has_news.set()
        elif packet.type is PacketType.ACK and packet.id in self._calls:
            self._calls.pop(packet.id).set_result(packet.data)
        elif packet.type is PacketType.CONNECT:
            self._joined.set_result(None)
        elif packet.type is PacketType.CONNECT_ERROR:
            data = packet.data if is_dict(packet.data) else {"message": packet.data}
            self._joined.set_exception(GeneralError(data.get("message"), data.get("data")))
