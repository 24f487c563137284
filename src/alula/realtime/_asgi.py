"""The ASGI application of socket.io: polling requests and websockets of all sessions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from alula._json_encoding import dumps, dumps_with_attachments
from alula._wire import MESSAGES_EXTENSION, VERSION
from alula.realtime._engine import POLLING, WEBSOCKET, EngineSession, Refusal, Transport
from alula.realtime._handshake import Handshake, Origins, headers_of, read_query
from alula.realtime._polling import Polling, UnsupportedBody, read_body
from alula.realtime._sockets import PacketHandler, SocketServer
from alula.realtime._websocket import WebSocket

if TYPE_CHECKING:
    from alula.express._http1.websocket import WebSocketProtocol

__all__ = ["Admit", "SocketIOApplication"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

Admit: TypeAlias = Callable[[Handshake], Any]
"""``(handshake)``, plain or asynchronous: returns None, or the reason to refuse the handshake."""

_log: Final = logging.getLogger("alula.realtime")

_NO_STORE: Final = (b"cache-control", b"no-store")
_JSON: Final = (b"content-type", b"application/json")
_TEXT: Final = (b"content-type", b"text/plain; charset=UTF-8")


class SocketIOApplication:
    """The ASGI application of one transport.

    Args:
        server: Has the sessions and connections.
        origins: The pages that may connect.
        admit: Decides on handshakes, None to admit all.
    """

    def __init__(self, server: SocketServer, origins: Origins, admit: Admit | None) -> None:
        self._server = server
        self._engine = server.engine
        self._origins = origins
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request or a websocket."""
        if scope["type"] == "websocket":
            await self.serve_websocket(scope, receive, send)
        else:
            await self.serve_request(scope, receive, send)

    # -- requests ------------------------------------------------------------------------------

    async def serve_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a polling request, or a preflight."""
        headers = headers_of(scope)
        cors = self._origins.cors_headers(headers)
        if self._origins.is_preflight(scope["method"], headers):
            asked = headers.get("access-control-request-headers", "").encode("latin-1")
            allowed = [(b"access-control-allow-methods", b"GET,POST")]
            allowed += [(b"access-control-allow-headers", asked)] if asked else []
            await _respond(send, 204, [*cors, *allowed], b"")
            return
        try:
            query = read_query(scope)
            sid = query.get("sid")
            self._check_transport(query, POLLING)
            if sid is None:
                if scope["method"] != "GET":
                    raise Refusal.bad_method()
                self._origins.report(headers)
                handshake = await self._handshake(scope, query, headers)
                polling = Polling(self._engine.scheduler)
                polling.session = self._start(polling, handshake)
            else:
                polling = self._polling_of(sid)
            if scope["method"] == "GET":
                body = await polling.next_payload(receive)
                head = [_TEXT]
            elif scope["method"] == "POST":
                body, head = await self._take(polling, headers, receive), []
            else:
                raise Refusal.bad_request()
        except Refusal as refusal:
            content = {"code": refusal.code, "message": refusal.message}
            await _respond(send, refusal.status, [_JSON, *cors], dumps(content))
        except UnsupportedBody as unsupported:
            # The rest of the body is not read, so no other request can follow on the connection.
            await _respond(send, unsupported.status, [(b"connection", b"close"), *cors], b"")
        else:
            await _respond(send, 200, [*head, _NO_STORE, *cors], body)

    def _check_transport(self, query: Mapping[str, str], expected: str) -> None:
        transport = query.get("transport")
        if transport not in self._engine.options.transports:
            raise Refusal.unknown_transport()
        if transport != expected:
            raise Refusal.bad_request()

    def _polling_of(self, sid: str) -> Polling:
        transport = self._engine.find(sid).transport
        if not isinstance(transport, Polling):
            raise Refusal.bad_request()
        return transport

    async def _take(self, polling: Polling, headers: Mapping[str, str], receive: Receive) -> bytes:
        """Handle the frames in the body of a polling request."""
        session = polling.session
        if headers.get("content-type", "").startswith("application/octet-stream"):
            session.close("transport error")
            raise UnsupportedBody(400)
        limit = self._engine.options.max_message
        reading = read_body(receive, limit, self._server.call_bytes, session.address)
        body = await polling.take_body(reading, self._server.spawn)
        if not session.is_open and body != ["1"]:
            raise Refusal.bad_request()
        return b"ok"

    # -- websockets ----------------------------------------------------------------------------

    async def serve_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a websocket: a new session, or one that polled until now."""
        headers = headers_of(scope)
        await receive()  # "websocket.connect"
        try:
            query = read_query(scope)
            sid = query.get("sid")
            self._check_transport(query, WEBSOCKET)
            if not self._origins.admit_websocket(headers):
                if self._may_log(scope):
                    _log.warning(
                        "a websocket of a page of %r was refused; socketio(origins=[...]) allows"
                        " it",
                        headers.get("origin", "")[:200],
                    )
                raise Refusal.forbidden("The origin is not allowed")
            opened: Handshake | EngineSession
            if sid is None:
                opened = await self._handshake(scope, query, headers)
            else:
                opened = self._engine.find(sid)
        except Refusal as refusal:
            if self._may_log(scope):
                _log.info("a websocket was refused: %s", refusal)
            await send({"type": "websocket.close", "code": 1008})  # the server responds with a 403
            return
        websocket = WebSocket(self._server, receive, send, _direct(scope, receive, send))
        if isinstance(opened, Handshake):
            await send({"type": "websocket.accept"})
            websocket.session = self._start(websocket, opened)
            await websocket.run()
            return
        await send({"type": "websocket.accept"})
        # Only one websocket for each session, because no limit would count the others.
        if opened.is_upgrading or opened.transport.name != POLLING:
            await send({"type": "websocket.close", "code": 1000})
            return
        opened.is_upgrading = True
        websocket.session = opened
        try:
            await websocket.probe(self._engine.options.upgrade_timeout)
        finally:
            opened.is_upgrading = False

    def _may_log(self, scope: Scope) -> bool:
        """Tell whether the client may cause another line in the log."""
        client = scope.get("client")
        return self._server.log_limit.take(client[0] if client else None) is not None

    # -- handshakes ----------------------------------------------------------------------------

    async def _handshake(
        self, scope: Scope, query: dict[str, str], headers: dict[str, str]
    ) -> Handshake:
        """Return the handshake of a new session.

        Raises:
            Refusal: It is refused, or has another version of engine.io.
        """
        client = scope.get("client")
        handshake = Handshake(query, headers, client[0] if client else None)
        if self._admit is not None:
            reason = self._admit(handshake)
            if hasattr(reason, "__await__"):
                reason = await reason
            if reason is not None:
                raise Refusal.forbidden(str(reason))
        if query.get("EIO") != VERSION:
            raise Refusal.unsupported_version()
        self._server.check_room(handshake.ip)
        return handshake

    def _start(self, transport: Transport, handshake: Handshake) -> EngineSession:
        session = self._engine.open(transport, handshake.ip)
        session.start(PacketHandler(self._server, session, handshake), dumps_with_attachments)
        return session


def _direct(scope: Scope, receive: Receive, send: Send) -> WebSocketProtocol | None:
    """Return the websocket of Alula's own server, unless middleware wraps its messages."""
    websocket: WebSocketProtocol | None = scope.get("extensions", {}).get(MESSAGES_EXTENSION)
    is_first = all(getattr(each, "__self__", None) is websocket for each in (receive, send))
    return websocket if is_first else None


async def _respond(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
