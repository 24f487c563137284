"""One request and its response over HTTP/1: the two functions that an ASGI application gets.

It takes the place of uvicorn's own cycle, at a third of its processor time (`make bench
only=rest`). The head of a response is checked once as a whole, and written with the first part of
its body. ASGI asks for the second: "the server must not start sending before it has received at
least one body event".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from starlette.types import ASGIApp, Message, Scope

from alula._http import EXCHANGE_EXTENSION
from alula.express._headers import LINE_BEGINNINGS, check_value, line_beginning
from alula.express._uvicorn.guard import SERVED

__all__ = ["Cycle"]

_MAX_COPIED_BYTES: Final = 64 * 1024  # longer parts of a body are written without a copy
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_OF_FRAMING: Final = frozenset({b"content-length: ", b"transfer-encoding: ", b"connection: "})
_OF_FEW_VALUES: Final = frozenset({b"content-type: ", b"vary: ", b"date: "})
_MAX_LINES: Final = 100
_WITHOUT_BODY: Final = frozenset({204, 304})
_ERROR: Final = b"Internal Server Error"
_PLAIN_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")

_Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

_lines: dict[tuple[bytes, bytes], bytes] = {}
"""Names and values of headers that most responses share, and that are no secrets, to lines."""

_heads: dict[tuple[int, int, _Headers], tuple[bytes, _Headers]] = {}
"""The id of a server's own headers, status and headers of a whole response to the beginning of its
head. The server's headers are kept, so that no others have their id; uvicorn makes new ones each
second."""


class Cycle:
    """A request, and its response.

    uvicorn's protocol sets the attributes of the request, and reads those of the response. What
    makes news sets ``has_news``, and ``event`` if there is one.

    Args:
        connection: The protocol of the connection.
        scope: The ASGI scope.
        keep_alive: Whether the connection stays open behind the response.
    """

    __slots__ = (
        "_chunked",
        "_connection",
        "_head",
        "_left",
        "_was_received",
        "body",
        "disconnected",
        "event",
        "has_news",
        "keep_alive",
        "logger",
        "more_body",
        "response_complete",
        "response_started",
        "scope",
        "task",
    )

    _connection: Any
    task: asyncio.Task[None] | None  # the protocol sets it
    logger: logging.Logger  # another one than that of the connection, where it is set
    _chunked: bool
    _left: int | None  # bytes of the body that are to come; None until the connection ends

    def __init__(self, connection: Any, scope: Scope, keep_alive: bool) -> None:
        self._connection = connection
        self.scope = scope
        scope["extensions"] = {EXCHANGE_EXTENSION: self}
        self.keep_alive = keep_alive
        self.disconnected = False
        # What has arrived, and the application has not received.
        self.body: bytes | bytearray = b""
        self.more_body = True
        self.response_started = self.response_complete = False
        self.has_news = self._was_received = False  # for the next `receive`; ever
        self.event: asyncio.Event | None = None
        self._head: list[bytes] | None = None  # waits for the first part of the body

    @property
    def message_event(self) -> asyncio.Event:
        """What uvicorn sets when something has arrived, or the connection is gone."""
        if self.event is None:  # few applications wait for anything
            self.event = asyncio.Event()
            if self.has_news:
                self.event.set()
        return self.event

    # -- the application -----------------------------------------------------------------------

    async def run(self, app: ASGIApp) -> None:
        """Run the application; without a complete response, the connection is closed."""
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001  # a cancellation too: it has to respond
            self._fail("Exception in ASGI application\n", error)
        else:
            if not self.response_complete and not self.disconnected:
                missing = "completing" if self.response_started else "starting"
                self._fail(f"ASGI callable returned without {missing} response.")
        finally:
            self._connection.tasks.discard(self.task)
            # Memory should not wait for the gc: all of them have this object. And the connection
            # may stay idle for a minute, when the scope would take 2 KiB.
            self._connection = self.task = None
            self.scope = SERVED

    def _fail(self, message: str, error: BaseException | None = None) -> None:
        connection = self._connection
        getattr(self, "logger", connection.logger).error(message, exc_info=error)
        if self.disconnected:
            return
        if not self.response_complete and (self._head is not None or not self.response_started):
            self.keep_alive = False
            self.response_started = True
            length = (b"content-length", b"%d" % len(_ERROR))
            self._head = self._head_of(500, (_PLAIN_TEXT, length))
            self._write_part(_ERROR, more=False)
        elif not connection.lingers:
            connection.transport.close()

    def whole_body(self) -> bytes | None:
        """Return the body without receiving it, as `ExchangeExtension` says."""
        if self.more_body or self._was_received or self.disconnected or self.response_complete:
            return None
        return bytes(self.body)

    async def receive(self) -> Message:
        """Return the next part of the body, or that the client has gone: ASGI's ``receive``."""
        waits, self._was_received = self._waits_for_100(), True
        connection = self._connection
        if connection is not None and not self.disconnected and not self.response_complete:
            if waits and not connection.transport.is_closing():
                connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.flow.resume_reading()
            if not self.has_news:
                await self.message_event.wait()
            self.has_news = False
            if self.event is not None:
                self.event.clear()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), b""
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Message) -> None:
        """Send the head, or a part of the body: ASGI's ``send``.

        Raises:
            RuntimeError: The message is out of turn, the length of the body is not the announced
                one, or a header cannot be sent.
        """
        connection, kind = self._connection, message["type"]
        if self.response_complete:
            raise RuntimeError(
                f"Unexpected ASGI message '{kind}' sent, after response already completed."
            )
        if connection is not None and connection.flow.write_paused:
            await connection.flow.drain()
        if self.disconnected or connection is None:
            return
        if not self.response_started:
            if kind != "http.response.start":
                raise RuntimeError(
                    f"Expected ASGI message 'http.response.start', but got '{kind}'."
                )
            if self._waits_for_100():
                self.keep_alive = False
            self._head = self._head_of(message["status"], message.get("headers", ()))
            self.response_started = True
        elif kind == "http.response.body":
            self._write_part(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise RuntimeError(f"Expected ASGI message 'http.response.body', but got '{kind}'.")

    def respond(self, status: int, headers: tuple[tuple[bytes, bytes], ...], body: bytes) -> bool:
        """Send a whole response, as `ExchangeExtension` says.

        Raises:
            RuntimeError: A header cannot be sent.
        """
        connection = self._connection
        if connection is None or self.response_started or self.disconnected:
            return False
        own = connection.server_state.default_headers
        beginning, _ = _heads.get((id(own), status, headers)) or _know_head(own, status, headers)
        if not beginning or connection.flow.write_paused:
            return False
        self.response_started = True
        if self.more_body and self._waits_for_100():
            self.keep_alive = False
        if connection.access_log:
            connection.log_response(self.scope, status)
        end = b"\r\n\r\n" if self.keep_alive else b"\r\nconnection: close\r\n\r\n"
        length = len(body)
        if self.scope["method"] == "HEAD":
            body = b""
        if length > _MAX_COPIED_BYTES:
            self._write(connection, b"%b%d%b" % (beginning, length, end), body)
        else:
            whole = b"%b%d%b%b" % (beginning, length, end, body)
            connection.written += len(whole)
            connection.transport.write(whole)
        self._complete(connection)
        return True

    # -- the response --------------------------------------------------------------------------

    def _waits_for_100(self) -> bool:
        """Tell whether the client waits for a 100 before it sends its body.

        It may keep the body if it gets a response instead. The next request would be taken for it.
        """
        # RFC 9110, 10.1.1: the expectation of a client of HTTP/1.0 is ignored.
        return (
            self.more_body
            and not self._was_received
            and self.scope.get("http_version") == "1.1"
            and any(
                name == b"expect" and value.lower() == b"100-continue"
                for name, value in self.scope["headers"]
            )
        )

    def _head_of(  # noqa: C901, PLR0912  # one loop: a call for each header would cost as much
        self, status: int, headers: Sequence[tuple[bytes, bytes]]
    ) -> list[bytes]:
        connection = self._connection
        if not 200 <= status <= 999:  # what is below is no response to a request
            raise RuntimeError(f"The status {status} cannot be sent; it must be 200 to 999.")
        head = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        values: list[bytes] = []
        closes, length = False, None
        for name, value in (*connection.server_state.default_headers, *headers):
            if (line := _lines.get((name, value))) is not None:
                head.append(line)
                continue
            begin = LINE_BEGINNINGS.get(name) or line_beginning(name)
            if begin == b"content-length: ":
                if not value.isdigit() or length not in {None, int(value)}:
                    raise RuntimeError(f"{value!r} is not the length of a body, or is a second.")
                if length is not None:
                    continue
                length = int(value)
            elif begin == b"transfer-encoding: ":
                continue  # ASGI: the server chooses it
            elif begin == b"connection: ":
                closes = closes or b"close" in map(bytes.strip, value.lower().split(b","))
            elif begin in _OF_FEW_VALUES:
                head.append(_line_of(name, begin, value))
                continue
            head += (begin, value, b"\r\n")
            values.append(value)
        # One look at all of them. A line break would end the header, and begin another.
        check_value(b" ".join(values))
        if closes:
            self.keep_alive = False
        elif not self.keep_alive:
            head.append(b"connection: close\r\n")
        has_body = self.scope["method"] != "HEAD" and status not in _WITHOUT_BODY
        # RFC 9112, 6.1: clients of HTTP/1.0 know no chunks.
        self._chunked = has_body and length is None and self.scope["http_version"] != "1.0"
        if self._chunked:
            head.append(b"transfer-encoding: chunked\r\n")
        self._left = length if has_body else 0
        head.append(b"\r\n")
        if connection.access_log:
            connection.log_response(self.scope, status)
        return head

    def _write_part(self, body: bytes, *, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            body, self._left = b"", 0
        elif self._chunked:
            end = b"" if more else b"0\r\n\r\n"
            body = b"%x\r\n%b\r\n%b" % (len(body), body, end) if body else end
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0:
                raise RuntimeError("Response content longer than Content-Length")
            if self._left and not more:
                raise RuntimeError("Response content shorter than Content-Length")
        head = self._head
        if head is not None:
            self._head = None
            self._write(self._connection, b"".join(head), body)
        elif body:
            self._write(self._connection, b"", body)
        if not more:
            self._complete(self._connection)

    def _write(self, connection: Any, head: bytes, body: bytes) -> None:
        connection.written += len(head) + len(body)
        if len(body) > _MAX_COPIED_BYTES:
            if head:
                connection.transport.write(head)
            connection.transport.write(body)
        else:
            connection.transport.write(head + body)

    def _complete(self, connection: Any) -> None:
        self.response_complete = self.has_news = True
        self.body = b""  # it is not read any more, and the connection may stay idle
        if self.event is not None:
            self.event.set()
        if self.keep_alive:
            connection.on_response_complete()
        else:
            connection.on_last_response(self)


def _know_head(own: _Headers, status: int, headers: _Headers) -> tuple[bytes, _Headers]:
    """Return the head of a whole response up to the length of its body, and remember it.

    Args:
        own: The headers that the server adds to each response.
        status: The status.
        headers: The headers of the response.

    Returns:
        The bytes, empty if it cannot be the head of such a response; and ``own``.

    Raises:
        RuntimeError: A header cannot be sent.
    """
    lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
    is_whole = status not in _WITHOUT_BODY
    for name, value in (*own, *headers):
        beginning = LINE_BEGINNINGS.get(name) or line_beginning(name)
        is_whole = is_whole and beginning not in _OF_FRAMING
        check_value(value)
        lines += (beginning, value, b"\r\n")
    if len(_heads) >= _MAX_LINES:  # the date is in them
        _heads.clear()
    head = b"".join((*lines, b"content-length: ")) * is_whole
    known = _heads[id(own), status, headers] = (head, own)
    return known


def _line_of(name: bytes, beginning: bytes, value: bytes) -> bytes:
    """Return the line of a header, and remember it.

    Raises:
        RuntimeError: Its value cannot be sent.
    """
    check_value(value)
    if len(_lines) >= _MAX_LINES:
        _lines.clear()
    line = _lines[name, value] = b"%b%b\r\n" % (beginning, value)
    return line
