"""Blocking HTTP over the standard library, with a pool of connections."""

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
    READS,
    aborted_error,
    connection_failed,
    timed_out,
    too_large,
)
from alula.errors import Unavailable

__all__ = ["ConnectionPool", "Exchange"]

_CHUNK = 65_536  # bytes
_MAX_IDLE = 16  # connections to one server
_OK = 200
_FIRST_FINAL_STATUS = 200  # 1xx responses are interim (RFC 9110, 15.2)
_MAX_INTERIM_RESPONSES = 10

Origin = tuple[str, str]


class Exchange:
    """One request in progress; another thread can abort it.

    Args:
        pool: The pool of connections.
        request: The request.
        timeout: Seconds for the whole exchange, None for no limit.
        limit: The largest body of the response, in bytes.
        take: Called with each part of a response with status 200, which is not kept then.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        request: Request,
        timeout: float | None,
        limit: int,
        take: Callable[[bytes], object] | None = None,
    ) -> None:
        self._pool = pool
        self._request = request
        self._timeout = timeout
        self._limit = limit
        self._take = take
        self._until = None if timeout is None else time.monotonic() + timeout
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._aborted = False
        self._has_response = False

    def abort(self) -> None:
        """Close the connection under the request, from any thread."""
        with self._lock:
            self._aborted = True
            if self._socket is not None:
                with suppress(OSError):  # it may be closed already
                    self._socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> Response:
        """Send the request and return the response.

        Raises:
            Unavailable: No connection could be made, or it broke.
            Timeout: It took too long.
            BadGateway: The response is too large.
            Aborted: It was aborted.
        """
        origin = urlsplit(self._request.url)[:2]
        idle = self._pool.take(origin)
        if idle is not None:
            try:
                return self._run_on(idle, origin)
            except Unavailable as error:
                # The server may have closed the idle connection just when the request went out.
                reason = error.__cause__ and error.__cause__.__cause__
                # A response that broke off is an HTTPException: the server had begun to work.
                lost = isinstance(reason, ConnectionError)
                reads = self._request.method in READS
                if not lost or self._has_response or not reads:
                    raise
        return self._run_on(self._pool.new(origin), origin)

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
            self._has_response = True
            body = self._read(response)
            whole = not response.will_close and response.status >= _FIRST_FINAL_STATUS
            headers: Any = response.headers  # a mapping in all but name
            return Response(response.status, headers, body)
        except (OSError, http.client.HTTPException) as error:
            if self._aborted:
                failure = aborted_error(request)
            elif isinstance(error, TimeoutError):
                failure = timed_out(request, self._timeout)
            else:
                failure = connection_failed(request, error)
            raise failure from failure.__cause__
        finally:
            if response is not None:
                # The response may hold the socket open on its own.
                response.close()
            with self._lock:
                self._socket = None
                whole = whole and not self._aborted
            if whole:
                self._pool.give_back(origin, connection)
            else:
                connection.close()

    def _watch(self, connection: http.client.HTTPConnection) -> None:
        """Connect where that was not done, and let the socket be closed from elsewhere."""
        timed: Any = partial(_FinalResponse, remaining=self._remaining)
        connection.response_class = timed
        connection.timeout = self._remaining()
        if connection.sock is None:
            connection.connect()
        opened: Any = connection.sock
        connected: socket.socket = opened
        connected.settimeout(self._remaining())
        with self._lock:
            self._socket = connected
            if self._aborted:
                raise ConnectionAbortedError

    def _remaining(self) -> float | None:
        if self._until is None:
            return None
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        if response.length is not None and response.length > self._limit:
            raise too_large(self._request, self._limit)
        parts: list[bytes] = []
        size = 0
        take = self._take if response.status == _OK else None
        while part := response.read1(_CHUNK):
            if take is not None:
                take(part)
                continue
            parts.append(part)
            size += len(part)
            if size > self._limit:
                raise too_large(self._request, self._limit)
        # A body without a length that ends with its connection looks complete.
        if self._aborted:
            raise ConnectionAbortedError
        # read1 takes an early end of the body for its end.
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        if response.length is None and not response.chunked and not parts and take is None:
            # An early end of the head looks the same as such an empty body, so it is an error.
            raise http.client.RemoteDisconnected("the response ended before its body")
        return b"".join(parts)


class _TimedReader(io.RawIOBase):
    """Reads from a socket, with the remaining time of the request as the timeout of each read.

    The timeout of a socket bounds one read, so a server that sends a byte now and then, as in an
    endless head, would never exceed it.
    """

    def __init__(
        self, raw: Any, sock: socket.socket, remaining: Callable[[], float | None]
    ) -> None:
        self._raw = raw
        self._sock = sock
        self._remaining = remaining

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        seconds = self._remaining()
        with suppress(OSError):  # closed meanwhile, which reading tells
            self._sock.settimeout(seconds)
        size: int | None = self._raw.readinto(buffer)
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


class _FinalResponse(http.client.HTTPResponse):
    """Skips interim responses, such as 103 Early Hints.

    Args:
        sock: The connection.
        remaining: Returns the remaining seconds, None for no limit; raises `TimeoutError`.
        args: Further arguments of a response.
    """

    def __init__(
        self, sock: Any, *args: Any, remaining: Callable[[], float | None], **kwargs: Any
    ) -> None:
        super().__init__(sock, *args, **kwargs)
        raw: Any = self.fp
        self.fp = io.BufferedReader(_TimedReader(raw.detach(), sock, remaining))

    def begin(self) -> None:
        super().begin()
        for _ in range(_MAX_INTERIM_RESPONSES):
            if self.status < _FIRST_FINAL_STATUS and self.status != http.client.SWITCHING_PROTOCOLS:
                nothing: Any = None  # makes `begin` read the next head
                self.headers = nothing
                super().begin()


class ConnectionPool:
    """Idle connections by origin, for several threads."""

    def __init__(self) -> None:
        self._idle: dict[Origin, list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._closed = False

    def take(self, origin: Origin) -> http.client.HTTPConnection | None:
        """Take an idle connection that is still open, None without one."""
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
        """Keep a connection for a later request."""
        with self._lock:
            idle = self._idle.setdefault(origin, [])
            if len(idle) < _MAX_IDLE and not self._closed:
                idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the idle connections; those that are given back later are closed, too."""
        with self._lock:
            idle_by_origin, self._idle, self._closed = self._idle, {}, True
        for connection in (one for idle in idle_by_origin.values() for one in idle):
            connection.close()


def _is_silent(connection: http.client.HTTPConnection) -> bool:
    """Return whether the server neither closed an idle connection nor sent anything on it."""
    sock: socket.socket = connection.sock
    # Ask without waiting: a silent connection has nothing to read.
    sock.settimeout(0)
    try:
        # A TLS connection cannot be peeked at, but there must be nothing to read on an idle one.
        sock.recv(1) if isinstance(sock, ssl.SSLSocket) else sock.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False
    return False
