"""Bounds for the head of a request, and error JSON for clients that send no HTTP at all.

uvicorn itself reads heads of any length and answers plain text to what it can not parse.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, cast

from alula.errors import BadRequest, FrameworkError
from alula.express.encoding import dumps
from alula.express.joined_writes import JoinedWrites
from alula.express.own_context import OwnContext
from alula.express.patience import Patience

__all__ = ["MAX_HEADERS", "guarded", "head_too_large"]

MAX_HEADERS = 500
"""A request with more header lines is refused."""

MAX_HEAD = 64 * 1024
"""A request whose first line and headers have more bytes is refused.

So is one that has more bytes between or behind the chunks of its body: trailers, and what may
follow the size of a chunk. The parser keeps a trailer whole, and copies it with each piece.
"""

_PIECE = 16 * 1024  # heads are measured between pieces, so this much may be read beyond the bound


def head_too_large(message: str) -> FrameworkError:
    """Return the 431 for a head that is over a bound."""
    return FrameworkError(
        message,
        name="RequestHeaderFieldsTooLarge",
        code=431,
        class_name="request-header-fields-too-large",
    )


def guarded(protocol: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    """Return one of uvicorn's HTTP/1 protocols with bounds and error JSON, others as they are."""
    if not hasattr(protocol, "send_400_response"):
        return protocol
    kinds = OwnContext, _Guard, protocol
    return cast("type[asyncio.Protocol]", type(protocol.__name__, kinds, {}))


def _announces_body(header: tuple[bytes, bytes]) -> bool:
    name, value = header
    return name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")


class _Guard(Patience):
    """What comes before uvicorn's protocol in the order of method resolution."""

    server_state: Any
    parser: Any = None  # of httptools; h11 has bounds of its own for what follows the head
    headers: Any  # those of the head that is read, as pairs of bytes
    _reason: str = ""  # why a request is refused, where the protocol does not know
    _read: Any = None  # the head that is being counted, by its scope
    _head = 0
    _beside = 0  # bytes that have come since the head, or since the last of the body

    def data_received(self, data: bytes) -> None:
        if len(data) <= _PIECE:
            self._feed(data)
            return
        for at in range(0, len(data), _PIECE):
            if not self.transport.is_closing():
                self._feed(data[at : at + _PIECE])

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers, behind a body in chunks, come here too. They are no headers of the request:
        # they could name a method or bring what a proxy in front has taken out.
        if self.cycle is None or self.cycle.scope is not self.scope:
            super().on_header(name, value)  # type: ignore[misc]  # of the protocol behind

    def on_headers_complete(self) -> None:
        # Where an upgrade is asked for, the parser ends the request at its head. A body would be
        # lost, and its bytes read as the next request.
        if self.parser.should_upgrade() and any(map(_announces_body, self.headers)):
            self._reason = "A request with a body can not ask for an upgrade; send it without one"
            raise ValueError(self._reason)  # ends the parsing; the protocol then answers a 400
        super().on_headers_complete()  # type: ignore[misc]  # as above
        self._beside = 0
        cycle, scope = self.cycle, self.scope
        if cycle is not None and cycle.scope is scope and scope["method"] != "HEAD":
            cycle.transport = JoinedWrites(self.transport)

    def on_body(self, body: bytes) -> None:
        self._beside = 0
        super().on_body(body)  # type: ignore[misc]  # as above

    def send_400_response(self, msg: str) -> None:
        self.refuse(BadRequest(self._reason or msg))

    def _feed(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        scope, cycle = self.scope, self.cycle
        if cycle is not None and cycle.scope is scope:
            self._count_beside(len(data))
        elif scope is not None:
            self._count_head(len(data))

    def _count_head(self, count: int) -> None:
        if self.scope is not self._read:
            self._read, self._head = self.scope, 0
        self._head += count
        if self._head > MAX_HEAD and not self.transport.is_closing():
            self.refuse(head_too_large(f"The head of the request has over {MAX_HEAD} bytes"))

    def _count_beside(self, count: int) -> None:
        """Count what comes of a request behind its head and is not its body."""
        self._beside += count
        if self._beside <= MAX_HEAD or self.parser is None or self.transport.is_closing():
            return
        if self.cycle.response_started:
            self.transport.close()
        else:
            self.refuse(head_too_large(f"The trailers of the request have over {MAX_HEAD} bytes"))

    def refuse(self, error: FrameworkError) -> None:
        body = dumps(error.to_dict())
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        status = b"HTTP/1.1 %d %s\r\n" % (error.code, HTTPStatus(error.code).phrase.encode())
        lines = b"".join(b"%s: %s\r\n" % pair for pair in headers)
        self.transport.write(status + lines + b"\r\n" + body)
        self.transport.close()
