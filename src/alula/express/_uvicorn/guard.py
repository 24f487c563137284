"""What all guards of uvicorn's HTTP/1 protocols have in common.

A guard comes before the class of uvicorn in the method resolution order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Set
from contextvars import Context, copy_context
from http import HTTPStatus
from typing import Any, ClassVar, Final

from starlette.types import Scope

from alula._json_encoding import dumps
from alula.errors import BadRequest, FrameworkError, Timeout
from alula.express._connection_limits import (
    MAX_HEAD_BYTES,
    SECONDS_FOR_THE_REST,
    SECONDS_OF_SILENCE,
    ConnectionLimits,
    StallTimeout,
)

__all__ = ["HEAD_TOO_LARGE", "PIECE_BYTES", "SERVED", "TRAILERS_TOO_LARGE", "Guard"]

PIECE_BYTES: Final = 16 * 1024
"""Bytes that are fed to the parser at a time, so that counting can stop it."""

HEAD_TOO_LARGE: Final = f"The head of the request has over {MAX_HEAD_BYTES} bytes"
TRAILERS_TOO_LARGE: Final = f"The trailers of the request have over {MAX_HEAD_BYTES} bytes"

_CHECKS_PER_TIMEOUT: Final = 4  # how often the progress of a connection is checked
SERVED: Final[Scope] = {}
"""The scope of all requests that have their response.

The connection may stay idle for a minute, and the request would take 2 KiB meanwhile.
"""

_SILENT: Final = logging.Logger("alula.silent")
_SILENT.disabled = True


class Guard(asyncio.Protocol):
    """What all guards have in common.

    Each request gets a copy of the context in which the connection was made. Otherwise, context
    variables that a request sets would leak into the next ones: asyncio reads on, and uvicorn
    starts the next request, in the context of the request before.
    """

    # Objects share the names of 30 attributes at most, and uvicorn has 28: +1.5 KiB without slots.
    __slots__ = (
        "_budget",
        "_closes_at",
        "_context",
        "_dropped",
        "_next_check",
        "_reads",
        "_received",
        "_writes",
        "written",
    )

    limits: ConnectionLimits
    replaces: ClassVar[Set[str]] = frozenset()
    """Methods of uvicorn's that are not called any more; a subclass must not override them."""

    # Of uvicorn's protocol.
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    connections: set[Any]
    server_state: Any
    flow: Any
    scope: Any  # of the request whose head is being read, or was read last
    headers: Any  # those of the head that is being read, as pairs of bytes
    cycle: Any  # the last request whose head is complete, and its response
    timeout_keep_alive_task: Any  # set while the connection is idle: uvicorn's own timer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.written = self._received = 0  # bytes of responses, and of requests
        self._budget = PIECE_BYTES  # bytes that may be fed before they are counted; 0 for no more
        self._closes_at: float | None = None  # when nobody waits for its client any more
        self._dropped: int | None = None  # bytes received until the last check, where that counts
        self._context: Context = copy_context()
        super().connection_made(transport)
        limits = self.limits
        self._reads = StallTimeout(limits.read_timeout, limits.read_timeout * limits.min_rate)
        self._writes = StallTimeout(limits.write_timeout, limits.write_timeout * limits.min_rate)
        self._schedule_check()

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_check.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, as JSON."""
        self.refuse_in_turn(BadRequest(msg))

    @property
    def running(self) -> Any:
        """The cycle whose application runs, or ran last; others may wait behind it."""
        return self.cycle

    @property
    def head(self) -> object:
        """What stands for the head that is being read, None while none is."""
        cycle, scope = self.cycle, self.scope
        return None if cycle is not None and scope is cycle.scope else scope

    def refuse_in_turn(self, error: FrameworkError) -> None:
        """Refuse what is being read, and read no more; responses before it are sent first."""
        cycle, self._budget = self.cycle, 0
        if cycle is None or (cycle.response_complete and not self._is_of(cycle)):
            self.refuse(error)
        elif not self._is_of(cycle):
            cycle.keep_alive = False
            self.flow.pause_reading()
        elif cycle.response_started:
            self.transport.abort()
        else:
            self.refuse(error)

    def _is_of(self, cycle: Any) -> bool:
        """Tell whether what is being read is the rest of this request."""
        return cycle.more_body and self.head is None

    def refuse(self, error: FrameworkError) -> None:
        """Respond with an error, and close the connection."""
        self._budget = 0
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
        running = self.running
        is_running = running is not None and not running.response_complete
        # Who has stalled sends nothing that could lose the response, and an application that runs
        # has to hear that the connection is gone.
        if is_running or isinstance(error, Timeout):
            self.transport.close()
        else:
            self.close_after_the_rest()

    def close_after_the_rest(self) -> None:
        """Close the connection while the client may still be sending, without a reset.

        A reset destroys what the client has not read, the response among it. So the end is sent
        first, and what still arrives is dropped until the client closes too, or has had its time
        (RFC 9112, 9.6).
        """
        self._budget = 0
        self._closes_at = self.loop.time() + SECONDS_FOR_THE_REST
        try:
            # uvloop raises another error where it is closing already.
            if self.transport.can_write_eof() and not self.transport.is_closing():
                self.transport.write_eof()
            else:  # with TLS
                self._dropped = self._received
        except OSError:  # the client has gone meanwhile
            self.transport.abort()
            return
        self.flow.resume_reading()
        self._next_check.cancel()
        self._schedule_check()

    @property
    def lingers(self) -> bool:
        """Whether all responses are sent, and what the client still sends is dropped."""
        return self._closes_at is not None

    def shutdown(self) -> None:
        """Begin to end the connection: uvicorn calls it when the server stops."""
        if self.lingers:
            self.transport.close()
        else:
            super().shutdown()  # type: ignore[misc]  # ty: ignore[missing-attribute]  # uvicorn's

    def cut_short(self, error: FrameworkError) -> None:
        """Respond with an error in place of the response that is about to be cancelled.

        uvicorn would log the cancellation with its whole stack, and send a 500 in plain text.
        """
        cycle = self.running
        if cycle is None or cycle.response_complete:
            return
        cycle.logger = _SILENT
        if not cycle.response_started:
            self.refuse(error)
            cycle.disconnected = True

    def _feed_in_pieces(self, data: bytes) -> None:
        if self.lingers:
            self._received += len(data)
            return
        if len(data) <= self._budget:  # nearly always
            self._feed(data)
            return
        at = 0
        while at < len(data) and self._budget > 0 and self in self.connections:
            piece = data[at : at + self._budget]
            at += len(piece)
            self._feed(piece)

    def _feed(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    # -- clients that stall --------------------------------------------------------------------

    def _schedule_check(self) -> None:
        seconds = min(self.limits.read_timeout, self.limits.write_timeout) / _CHECKS_PER_TIMEOUT
        if self.lingers:
            is_told = self._dropped is None
            seconds = min(seconds, SECONDS_FOR_THE_REST if is_told else SECONDS_OF_SILENCE)
        self._next_check = self.loop.call_later(seconds, self._check_progress)

    def _check_progress(self) -> None:
        """Close the connection if the client stalls. A timer costs nothing per request."""
        if self not in self.connections:  # a WebSocket has taken it over
            return
        now, pending = self.loop.time(), self.pending_request()
        unread = self.transport.get_write_buffer_size()
        if self._closes_at is not None and not unread:
            is_silent = self._dropped == self._received
            if self._dropped is not None:
                self._dropped = self._received
            if is_silent or now >= self._closes_at:
                self.transport.close()
                return
        if self._writes.has_passed(self if unread else None, self.written - unread, now):
            self.transport.abort()
        elif not self._reads.has_passed(
            pending, self._received if pending is self.cycle else 0, now
        ):
            self._schedule_check()
        elif self._received == 0:
            self.transport.abort()
        else:
            self.refuse_in_turn(Timeout("The request did not arrive in time"))
            # The client may not read this response either.
            self._schedule_check()

    @property
    def is_idle(self) -> bool:
        """Whether the connection waits for a request."""
        return self.timeout_keep_alive_task is not None

    def pending_request(self) -> object:
        """Return the request whose rest the client has not sent yet, None if there is none.

        It is what `head` is until that is complete, then the cycle. A body has to arrive at a
        minimum rate, but a head must be complete in time, however many bytes of it arrive.
        """
        if self.lingers or self.transport.is_closing():
            return None
        cycle, head = self.cycle, self.head
        if cycle is None:
            return self if head is None else head
        if cycle.response_complete:
            if head is not None:
                return head
            return None if self.is_idle else cycle
        return cycle if cycle.more_body and not self.flow.read_paused else None
