"""The side of the application: what it is told of requests, and what it may take its time for.

A body that arrives too slowly gets a 408, and a request that takes too long at the end of the
server a 503. A response that breaks off has its connection reset: granian would end it as if it
were complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from typing import Any, Final, Protocol

from starlette.types import ASGIApp, Message, Scope

from alula._http import EXCHANGE_EXTENSION
from alula._json_encoding import dumps
from alula.errors import FrameworkError, Timeout, Unavailable
from alula.express._connection_limits import (
    SECONDS_FOR_THE_REST,
    SECONDS_OF_SILENCE,
    ConnectionLimits,
    StallTimeout,
)
from alula.express._granian.connections import Connections, Peer
from alula.express._granian.sendable import (
    KNOWN_HEADS,
    Proto,
    checked_head,
    checked_part,
    know_head,
)
from alula.express._granian.websockets import SERVICE_RESTART, WebSocket

__all__ = ["GuardedApplication"]

_CLOSE: Final = (b"connection", b"close")
_METHODS_WITHOUT_BODY: Final = frozenset({"GET", "HEAD"})  # RFC 9110, 9.3.1: it has no meaning


class _Watcher(Protocol):
    """How granian has something served, and is told how that has ended."""

    scope: Scope
    proto: Proto

    def done(self) -> None: ...
    def err(self, error: BaseException) -> None: ...


class GuardedApplication:
    """An ASGI application behind granian.

    Args:
        app: The application.
        limits: How slowly a body may arrive.
        connections: Those of the server.
        max_message: Bytes that a message of a websocket may have.

    Attributes:
        is_closing: Whether each response closes its connection.
        connections: As given.
    """

    def __init__(
        self, app: ASGIApp, limits: ConnectionLimits, connections: Connections, max_message: int
    ) -> None:
        self.is_closing = False
        self._app = app
        self._limits = limits
        self.connections = connections
        self._max_message = max_message
        self._exchanges: set[_Request | WebSocket] = set()
        self._addresses: dict[tuple[str, str], tuple[str, int]] = {}
        self._loop = asyncio.get_running_loop()

    def begin(self, watcher: _Watcher) -> None:
        """Begin to serve a request or a websocket, in a task of its own.

        Args:
            watcher: granian's.
        """
        # granian has ports as text, and leaves out some of what ASGI asks for.
        scope = watcher.scope
        host, port = scope["client"]
        scope["client"] = peer = host, int(port)
        server = scope["server"]  # where it listens, so there are few
        scope["server"] = self._addresses.get(server) or self._addresses.setdefault(
            server, (server[0], int(server[1]))
        )
        scope["root_path"], scope["state"] = "", {}
        exchange: _Request | WebSocket
        # granian's extensions are those of all scopes, and it would send files by itself: nothing
        # here could watch them.
        if scope["type"] == "http":
            exchange = _Request(peer, watcher.proto, scope["method"], self)
            scope["extensions"] = {EXCHANGE_EXTENSION: exchange}
            if scope["http_version"] == "1":
                scope["http_version"] = "1.0"
        else:
            exchange = WebSocket(peer, watcher.proto, self._max_message)
            scope["extensions"] = {"websocket.http.response": {}}
        self._exchanges.add(exchange)
        serving, loop = self._serve(watcher, scope, exchange), self._loop
        if loop.get_task_factory() is None:
            # As the loop does, which would number the tasks for their names.
            exchange.task = asyncio.Task(serving, loop=loop, name="request")
        else:
            exchange.task = loop.create_task(serving)

    async def _serve(self, watcher: _Watcher, scope: Scope, exchange: _Request | WebSocket) -> None:
        """Run the application, and tell granian how that has ended."""
        try:
            try:
                await self._app(scope, exchange.receive, exchange.send)
                if (rest := exchange.rest(scope)) is not None:
                    await rest
            except asyncio.CancelledError:
                if not exchange.is_cut:
                    raise
            finally:
                try:
                    if (end := exchange.end()) is not None:
                        await end
                finally:
                    self._exchanges.discard(exchange)
        except BaseException as error:  # noqa: BLE001  # granian logs it, and sends a 500 if no response has begun
            watcher.err(error)
        else:
            watcher.done()

    def peers(self) -> set[Peer]:
        """Return the clients whose requests or websockets are under way."""
        return {exchange.peer for exchange in self._exchanges}

    async def cut_slow_bodies(self, now: float) -> None:
        """End requests whose bodies arrive too slowly, with a 408 if no response has begun.

        Args:
            now: The time of the event loop.
        """
        for exchange in tuple(self._exchanges):
            # granian waits for the body although it has been responded to: until the next check,
            # the client may read the response.
            if isinstance(exchange, _Request) and exchange.is_too_slow(now, self._limits):
                had_response = exchange.has_response
                await exchange.cut(Timeout("The request did not arrive in time"))
                if had_response or exchange.breaks_off:
                    await self.connections.reset(exchange.peer)

    def drop(self, peers: Collection[Peer]) -> None:
        """Take note that connections have ended: granian would go on to take messages."""
        for exchange in self._exchanges:
            if exchange.peer in peers:
                exchange.is_cut = True

    async def close_websockets(self, seconds: float) -> None:
        """Tell the clients of websockets that the server stops.

        Args:
            seconds: How long they, and the application, may take to end them.
        """
        websockets = [each for each in self._exchanges if isinstance(each, WebSocket)]
        for websocket in websockets:
            websocket.close(SERVICE_RESTART)
        if websockets:
            await asyncio.wait({each.task for each in websockets}, timeout=seconds)

    def stop_dropping(self) -> None:
        """Wait no longer for bodies behind their responses: the server stops."""
        for exchange in self._exchanges:
            if isinstance(exchange, _Request) and exchange.is_dropping:
                exchange.is_cut = True
                exchange.task.cancel()

    async def cut_all(self) -> set[asyncio.Task[Any]]:
        """End all requests, with a 503 if no response has begun.

        Returns:
            Their tasks, which are cancelled and may still clean up.
        """
        exchanges = tuple(self._exchanges)
        for exchange in exchanges:
            await exchange.cut(Unavailable("The server is stopping, and the request took too long"))
            exchange.task.cancel()
            self._exchanges.discard(exchange)  # a task that has not begun would never do it
        return {exchange.task for exchange in exchanges}


class _Request:
    """A request under way.

    Attributes:
        peer: The client.
        task: In which the application runs.
        is_cut: Whether it was ended here; what the application sends from then on is dropped.
        is_dropping: Whether it has its response, and the rest of its body is dropped.
    """

    task: asyncio.Task[None]
    _reads: StallTimeout | None = None
    _received = 0  # bytes of the body
    _is_waiting = False  # for a part of the body
    _body_is_complete = False
    _left: int | None = None  # bytes of the response to come, None if no length is announced
    _has_begun = False  # the response
    _is_complete = False  # the response
    _was_received = False  # whether the application has asked for the body
    is_dropping = False

    def __init__(self, peer: Peer, proto: Proto, method: str, guard: GuardedApplication) -> None:
        self.peer = peer
        self._proto = proto
        self._method = method
        self._guard = guard
        self.is_cut = False
        self._head: Message | None = None

    @property
    def has_response(self) -> bool:
        """Whether its response, or the one for being cut, has been sent."""
        return self._is_complete or self.is_cut

    @property
    def breaks_off(self) -> bool:
        """Whether a part of the response was sent, and its end was not."""
        return self._has_begun and not self._is_complete

    async def receive(self) -> Message:
        """Return the next part of the body, or that the client has gone."""
        self._was_received, self._is_waiting = True, not self._body_is_complete
        try:
            message = await self._proto.receive()
        finally:
            self._is_waiting = False
        if message["type"] == "http.request" and not self.is_cut:
            self._received += len(message["body"])
            self._body_is_complete = not message["more_body"]
            return message
        self._body_is_complete = self._is_complete = True  # nobody waits for more
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take the head, which is sent with what follows, or a part of the body.

        Raises:
            RuntimeError: The message is out of turn, granian cannot send it, or the length of the
                body is not the announced one.
        """
        if self.is_cut:
            await asyncio.sleep(0)
            return
        kind, head = message["type"], self._head
        if kind != ("http.response.start" if head is None else "http.response.body"):
            raise RuntimeError(f"the ASGI message {kind!r} is out of turn")
        if head is None:
            self._head, self._left = checked_head(message, self._method != "HEAD")
            return
        part, self._left = checked_part(message, self._left)
        if not self._has_begun:
            if self._guard.is_closing:
                headers = [pair for pair in head["headers"] if pair[0].lower() != _CLOSE[0]]
                head = {**head, "headers": [*headers, _CLOSE]}
            await self._proto.send(head)
            self._has_begun = True
        self._is_complete = self._is_complete or not part["more_body"]
        await self._proto.send(part)

    def rest(self, scope: Scope) -> Awaitable[None] | None:
        """Return what takes the rest of the body behind the response, None if nothing is left."""
        if self._method in _METHODS_WITHOUT_BODY or self._body_is_complete:
            return None
        if self._guard.is_closing or not self._is_complete:
            return None
        # Who waits for a 100 sends no body any more, and may send its next request instead.
        expects = any(name == b"expect" for name, _ in scope["headers"])
        return None if expects and not self._was_received else self._drop_the_rest()

    async def _drop_the_rest(self) -> None:
        """Take what the client still sends, and drop it: granian would reset its connection."""
        self.is_dropping = True
        try:
            async with asyncio.timeout(SECONDS_FOR_THE_REST):
                while not self._body_is_complete:
                    async with asyncio.timeout(SECONDS_OF_SILENCE):
                        await self.receive()
        except TimeoutError:
            pass
        finally:
            if not self._body_is_complete:  # granian would go on waiting
                await self._guard.connections.reset(self.peer)

    def end(self) -> Awaitable[None] | None:
        """Return what ends the connection, None if it goes on."""
        return self._guard.connections.reset(self.peer) if self.breaks_off else None

    def whole_body(self) -> None:
        """Return None, as `ExchangeExtension` says: granian gives a body to `receive` alone."""

    def respond(self, status: int, headers: tuple[tuple[bytes, bytes], ...], body: bytes) -> bool:
        """Send a whole response, as `ExchangeExtension` says.

        Raises:
            RuntimeError: granian cannot send it.
        """
        if self._head is not None or self.is_cut or self._guard.is_closing:
            return False
        if type(status) is not int:  # 200.0 is equal to a status that is known
            return False
        head = KNOWN_HEADS.get((status, headers)) or know_head(status, headers)
        if head is None:
            return False
        self._head, self._has_begun = head, True
        # Nothing to wait for: granian takes both at once, and counts the body for the header.
        send = self._proto.send
        send(head)
        send({"type": "http.response.body", "body": body})
        self._is_complete = True
        return True

    def is_too_slow(self, now: float, limits: ConnectionLimits) -> bool:
        """Tell whether the body arrives too slowly."""
        if self._reads is None:
            seconds = limits.read_timeout
            self._reads = StallTimeout(seconds, seconds * limits.min_rate)
        return self._reads.has_passed(self if self._is_waiting else None, self._received, now)

    async def cut(self, error: FrameworkError) -> None:
        """End it: with an error if no response has begun."""
        if not (self._has_begun or self.has_response):
            body = dumps(error.to_dict())
            headers = [
                (b"content-type", b"application/json; charset=utf-8"),
                (b"content-length", b"%d" % len(body)),
                _CLOSE,
            ]
            self._has_begun = self._is_complete = True
            await self._proto.send(
                {"type": "http.response.start", "status": error.code, "headers": headers}
            )
            await self._proto.send({"type": "http.response.body", "body": body})
        self.is_cut = True
