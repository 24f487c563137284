"""HTTP over the standard library, blocking, with connections that are used again."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from alula.client._codec import Request, Response
from alula.client._transport import (
    REPEATABLE,
    aborted_error,
    connection_failed,
    timed_out,
    too_large,
)
from alula.errors import Unavailable

__all__ = ["ConnectionPool", "Exchange"]

_CHUNK = 65_536
_KEPT = 16  # idle connections to one server
_FIRST_FINAL = 200  # what is below comes before an answer
_HINTS = 10

Origin = tuple[str, str]


class Exchange:
    """One request on its way; another thread can give it up.

    Args:
        pool: Where connections come from.
        request: What to send.
        timeout: Seconds for all of it, None for no limit.
        limit: The bytes that the answer may have.
    """

    def __init__(
        self, pool: ConnectionPool, request: Request, timeout: float | None, limit: int
    ) -> None:
        self._pool = pool
        self._request = request
        self._timeout = timeout
        self._limit = limit
        self._until = None if timeout is None else time.monotonic() + timeout
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._aborted = False
        self._answered = False

    def abort(self) -> None:
        """Close the connection under the request, from any thread."""
        with self._lock:
            self._aborted = True
            if self._socket is not None:
                with suppress(OSError):  # it may be closed already
                    self._socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> Response:
        """Send the request and return the answer.

        Raises:
            Unavailable: There was no connection, or it was lost.
            Timeout: It took too long.
            BadGateway: The answer is too large, or no HTTP.
            Aborted: It was given up.
        """
        origin = urlsplit(self._request.url)[:2]
        idle = self._pool.take(origin)
        if idle is not None:
            try:
                return self._run_on(idle, origin)
            except Unavailable as error:
                if not self._was_idle_too_long(error):
                    raise
        return self._run_on(self._pool.new(origin), origin)

    def _was_idle_too_long(self, error: Unavailable) -> bool:
        """Tell whether the server may have closed a connection just when this went out on it."""
        reason = error.__cause__ and error.__cause__.__cause__
        lost = isinstance(reason, ConnectionError)  # and not an answer that broke off
        return lost and not self._answered and self._request.method in REPEATABLE

    def _run_on(self, connection: http.client.HTTPConnection, origin: Origin) -> Response:
        request = self._request
        parts = urlsplit(request.url)
        response: http.client.HTTPResponse | None = None
        whole = False
        try:
            self._watch(connection)
            path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
            connection.request(request.method, path, request.body, request.headers)
            response = connection.getresponse()
            self._answered = True
            body = self._read(response)
            whole = not response.will_close and response.status >= _FIRST_FINAL
            headers: Any = response.headers  # a mapping in all but name
            return Response(response.status, headers, body)
        except (OSError, http.client.HTTPException) as error:
            failure = self._failure(error)
            raise failure from failure.__cause__
        finally:
            if response is not None:
                response.close()  # it may hold the socket open on its own
            with self._lock:
                self._socket = None
                whole = whole and not self._aborted
            if whole:
                self._pool.give_back(origin, connection)
            else:
                connection.close()

    def _failure(self, error: Exception) -> Exception:
        if self._aborted:
            return aborted_error(self._request)
        if isinstance(error, TimeoutError):
            return timed_out(self._request, self._timeout)
        return connection_failed(self._request, error)

    def _watch(self, connection: http.client.HTTPConnection) -> None:
        """Connect where that was not done, and let the socket be closed from elsewhere."""
        timed: Any = partial(_Answer, left=self._left)
        connection.response_class = timed
        connection.timeout = self._left()
        if connection.sock is None:
            connection.connect()
        opened: Any = connection.sock
        connected: socket.socket = opened
        connected.settimeout(self._left())
        with self._lock:
            self._socket = connected
            if self._aborted:
                raise ConnectionAbortedError

    def _left(self) -> float | None:
        if self._until is None:
            return None
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        if response.length is not None and response.length > self._limit:
            raise too_large(self._request, self._limit)
        parts: list[bytes] = []
        size = 0
        while part := response.read1(_CHUNK):
            parts.append(part)
            size += len(part)
            if size > self._limit:
                raise too_large(self._request, self._limit)
        if self._aborted:  # what ends with its connection looks whole then
            raise ConnectionAbortedError
        if response.length:  # read1 takes an early end for the end
            raise http.client.IncompleteRead(b"", response.length)
        if response.length is None and not response.chunked and not parts:
            # So does the reading of a head; what has no length has not ended well without a body.
            raise http.client.RemoteDisconnected("the answer ended before its body")
        return b"".join(parts)


class _TimedReader(io.RawIOBase):
    """What a socket receives, each part within what is left of a time limit.

    The timeout of a socket is that of one step, so a server that sends a byte now and then, as in a
    head without an end, would never exceed it.
    """

    def __init__(self, raw: Any, sock: socket.socket, left: Callable[[], float | None]) -> None:
        self._raw = raw
        self._sock = sock
        self._left = left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._left()
        with suppress(OSError):  # closed meanwhile, which reading tells
            self._sock.settimeout(left)
        size: int | None = self._raw.readinto(buffer)
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """Passes over what servers say before they answer, such as 103 Early Hints.

    Args:
        sock: The connection.
        left: Returns the seconds that are left, None for no limit; raises `TimeoutError`.
        given: What else a connection gives its responses.
    """

    def __init__(
        self, sock: Any, *given: Any, left: Callable[[], float | None], **more: Any
    ) -> None:
        super().__init__(sock, *given, **more)
        raw: Any = self.fp
        self.fp = io.BufferedReader(_TimedReader(raw.detach(), sock, left))

    def begin(self) -> None:
        super().begin()
        for _ in range(_HINTS):
            if self.status < _FIRST_FINAL and self.status != http.client.SWITCHING_PROTOCOLS:
                nothing: Any = None  # by which the head is read anew
                self.headers = nothing
                super().begin()


class ConnectionPool:
    """Open connections, by the origin they lead to; safe to use from several threads."""

    def __init__(self) -> None:
        self._idle: dict[Origin, list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._closed = False

    def take(self, origin: Origin) -> http.client.HTTPConnection | None:
        """Return an idle connection that is still open, None where there is none."""
        with self._lock:
            idle = self._idle.get(origin, [])
            while idle:
                connection = idle.pop()
                if _is_silent(connection):
                    return connection
                connection.close()
        return None

    def new(self, origin: Origin) -> http.client.HTTPConnection:
        """Return a connection that is not open yet."""
        scheme, netloc = origin
        if scheme == "http":
            connection = http.client.HTTPConnection(netloc)
        else:
            if self._context is None:
                self._context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(netloc, context=self._context)
        return connection

    def give_back(self, origin: Origin, connection: http.client.HTTPConnection) -> None:
        """Keep a connection for the next request."""
        with self._lock:
            idle = self._idle.setdefault(origin, [])
            if len(idle) < _KEPT and not self._closed:
                idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close all that is idle, and keep nothing from now on."""
        with self._lock:
            every, self._idle, self._closed = self._idle, {}, True
        for connection in (each for idle in every.values() for each in idle):
            connection.close()


def _is_silent(connection: Any) -> bool:
    """Tell whether the server neither closed an idle connection nor said anything on it."""
    sock = connection.sock
    sock.settimeout(0)
    try:
        # A TLS connection can not be peeked at; reading from it takes what should not be there.
        sock.recv(1) if isinstance(sock, ssl.SSLSocket) else sock.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False
    return False
