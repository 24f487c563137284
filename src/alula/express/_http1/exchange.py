"""One request and its response over HTTP/1: the two functions that an ASGI application gets.

The head of a response is checked as a whole, and written together with the first part of the body.
ASGI asks for the second: "the server must not start sending before it has received at least one
body event".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, Protocol

from starlette.types import ASGIApp, Message, Scope

from alula._http import EXCHANGE_EXTENSION
from alula.express._headers import LINE_BEGINNINGS, check_value, line_beginning

__all__ = ["Exchange", "ExchangeConnection", "status_line"]

_MAX_COPIED_BYTES: Final = 64 * 1024  # longer parts of a body are written without a copy
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_WITHOUT_BODY: Final = frozenset({204, 304})
_ERROR: Final = b"Internal Server Error"
_PLAIN_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")

_NO_SCOPE: Final[Scope] = {}
"""The scope of an exchange that has ended. Its connection may stay idle for a minute, and the scope
would take 2 KiB of memory meanwhile."""

_SILENT: Final = logging.Logger("alula.silent")
_SILENT.disabled = True


def status_line(status: int) -> bytes:
    """Return the first line of a response, with its line break."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


class ExchangeConnection(Protocol):
    """What an exchange needs of its connection.

    Attributes:
        transport: Takes the bytes of the response.
        tasks: All tasks of the server that run the application.
        logger: Gets the errors of the application.
        access_log: Whether `log_response` is wanted.
        written: The bytes of all responses so far.
    """

    transport: asyncio.Transport
    tasks: set[asyncio.Task[None]]
    logger: logging.Logger
    access_log: bool
    written: int

    @property
    def default_headers(self) -> Sequence[tuple[bytes, bytes]]:
        """The headers that the server adds to each response, such as the date."""
        ...

    @property
    def write_paused(self) -> bool:
        """Whether the client does not read what was written."""
        ...

    @property
    def lingers(self) -> bool:
        """Whether the connection ends, and what the client still sends is dropped."""
        ...

    async def drain(self) -> None:
        """Wait until the client reads again, or has gone."""

    def resume_reading(self) -> None:
        """Read on, if that was paused."""

    def log_response(self, scope: Scope, status: int) -> None:
        """Write a line into the access log of uvicorn."""

    def on_response_complete(self, exchange: Exchange) -> None:
        """Go on: the response is written."""


class Exchange:
    """A request, and its response.

    The protocol adds what arrives of the body, and calls `notify`. It reads what became of the
    response.

    Args:
        connection: The connection.
        scope: The ASGI scope.
        keep_alive: Whether the connection stays open after the response.

    Attributes:
        body: What has arrived of the body and was not received by the application yet.
        more_body: Whether more of the body is to come.
        disconnected: Whether the client has gone.
        task: The task that runs the application.
    """

    __slots__ = (
        "_chunked",
        "_connection",
        "_event",
        "_has_news",
        "_head",
        "_is_silent",
        "_left",
        "_was_received",
        "body",
        "disconnected",
        "keep_alive",
        "more_body",
        "response_complete",
        "response_started",
        "scope",
        "task",
    )

    task: asyncio.Task[None]
    _chunked: bool
    _left: int | None  # bytes of the body that are to come; None until the connection ends

    def __init__(self, connection: ExchangeConnection, scope: Scope, *, keep_alive: bool) -> None:
        self._connection: ExchangeConnection | None = connection
        self.scope = scope
        scope["extensions"] = {EXCHANGE_EXTENSION: self}
        self.keep_alive = keep_alive
        self.disconnected = False
        self.body: bytes | bytearray = b""
        self.more_body = True
        self.response_started = self.response_complete = False
        self._was_received = self._is_silent = False
        # Whether there is something new for `receive`, and what a waiting `receive` waits for.
        self._has_news = False
        self._event: asyncio.Event | None = None
        self._head: list[bytes] | None = None  # waits for the first part of the body

    def notify(self) -> None:
        """Wake the application if it waits in `receive`."""
        self._has_news = True
        if self._event is not None:
            self._event.set()

    def add_body(self, part: bytes) -> int:
        """Add a part of the body, and return how many bytes wait for the application."""
        if not self.body:  # most bodies arrive as one part, which is not copied
            self.body = part
        else:
            if type(self.body) is bytes:
                self.body = bytearray(self.body)
            self.body += part
        self.notify()
        return len(self.body)

    def disconnect(self) -> None:
        """Tell the application that the client has gone."""
        self.disconnected = True
        self.notify()

    def silence(self) -> None:
        """Do not log how the application ends: it is about to be cancelled."""
        self._is_silent = True

    # -- the application -----------------------------------------------------------------------

    async def run(self, app: ASGIApp, connection: ExchangeConnection) -> None:
        """Run the application. If the response is not complete then, close the connection."""
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001  # a cancellation too: it has to respond
            self._fail(connection, "Exception in ASGI application\n", error)
        else:
            if not self.response_complete and not self.disconnected:
                missing = "completing" if self.response_started else "starting"
                self._fail(connection, f"ASGI callable returned without {missing} response.")
        finally:
            connection.tasks.discard(self.task)
            # References in a circle would keep the memory until the next garbage collection.
            self._connection = None
            del self.task
            self.scope = _NO_SCOPE

    def _fail(
        self, connection: ExchangeConnection, message: str, error: BaseException | None = None
    ) -> None:
        logger = _SILENT if self._is_silent else connection.logger
        logger.error(message, exc_info=error)
        if self.disconnected:
            return
        if not self.response_complete and (self._head is not None or not self.response_started):
            self.keep_alive = False
            self.response_started = True
            length = (b"content-length", b"%d" % len(_ERROR))
            self._head = self._head_of(connection, 500, (_PLAIN_TEXT, length))
            self._write_part(connection, _ERROR, more=False)
        elif not connection.lingers:
            connection.transport.close()

    async def receive(self) -> Message:
        """Return the next part of the body, or that the client has gone: ASGI's ``receive``."""
        waits, self._was_received = self._waits_for_100(), True
        connection = self._connection
        if connection is not None and not self.disconnected and not self.response_complete:
            if waits and not connection.transport.is_closing():
                connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.resume_reading()
            if not self._has_news:
                if self._event is None:  # few applications wait for anything
                    self._event = asyncio.Event()
                self._event.clear()
                await self._event.wait()
            self._has_news = False
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
        if connection is not None and connection.write_paused:
            await connection.drain()
        if self.disconnected or connection is None:
            return
        if not self.response_started:
            if kind != "http.response.start":
                raise RuntimeError(
                    f"Expected ASGI message 'http.response.start', but got '{kind}'."
                )
            if self._waits_for_100():
                self.keep_alive = False
            status, headers = message["status"], message.get("headers", ())
            self._head = self._head_of(connection, status, headers)
            self.response_started = True
        elif kind == "http.response.body":
            body, more = message.get("body", b""), message.get("more_body", False)
            self._write_part(connection, body, more=more)
        else:
            raise RuntimeError(f"Expected ASGI message 'http.response.body', but got '{kind}'.")

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole response, as `ExchangeExtension` says.

        Raises:
            RuntimeError: A header cannot be sent.
        """
        connection = self._connection
        if (
            connection is None
            or self.response_started
            or self.disconnected
            or connection.write_paused
        ):
            return False
        if self._waits_for_100():
            self.keep_alive = False
        if status not in _WITHOUT_BODY:
            headers = (*headers, (b"content-length", b"%d" % len(body)))
        self._head = self._head_of(connection, status, headers)
        self.response_started = True
        self._write_part(connection, body, more=False)
        return True

    # -- the response --------------------------------------------------------------------------

    def _waits_for_100(self) -> bool:
        """Tell whether the client waits for a 100 before it sends its body.

        If it gets a response instead, it may keep the body or send it: nobody knows whether what
        comes next is the body or the next request, so the connection has to end.
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

    def _head_of(
        self, connection: ExchangeConnection, status: int, headers: Sequence[tuple[bytes, bytes]]
    ) -> list[bytes]:
        if not 200 <= status <= 999:  # a lower one does not end a request
            raise RuntimeError(f"The status {status} cannot be sent; it must be 200 to 999.")
        head = [status_line(status)]
        values: list[bytes] = []
        closes, length = False, None
        for name, value in (*connection.default_headers, *headers):
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

    def _write_part(self, connection: ExchangeConnection, body: bytes, *, more: bool) -> None:
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
        head, self._head = self._head, None
        if head is not None:
            _write(connection, b"".join(head), body)
        elif body:
            _write(connection, b"", body)
        if not more:
            self.response_complete = True
            self.body = b""  # nobody reads it any more, and the connection may stay idle
            self.notify()
            connection.on_response_complete(self)


def _write(connection: ExchangeConnection, head: bytes, body: bytes) -> None:
    connection.written += len(head) + len(body)
    if len(body) > _MAX_COPIED_BYTES:
        if head:
            connection.transport.write(head)
        connection.transport.write(body)
    else:
        connection.transport.write(head + body)
