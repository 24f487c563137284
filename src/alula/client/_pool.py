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
from alula.client._failures import aborted_error, connection_failed, timed_out, too_large
from alula.client._response_stream import (
    BlockingResponseStream,
    Received,
    is_event_stream,
)
from alula.client._send_options import SendOptions
from alula.client._transport import READS
from alula.errors import FrameworkError, Unavailable

__all__ = ["ConnectionPool", "Exchange"]

_CHUNK = 65_536  # bytes
_MAX_IDLE = 16  # connections to one server
_FIRST_FINAL_STATUS = 200  # 1xx responses are interim (RFC 9110, 15.2)
_MAX_INTERIM_RESPONSES = 10

Origin = tuple[str, str]


class Exchange:
    """One request in progress; another thread can abort it.

    Args:
        pool: The pool of connections.
        request: The request.
        options: How it is sent.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        request: Request,
        options: SendOptions,
    ) -> None:
        self._pool = pool
        self._request = request
        self._options = options
        self._until: float | None = None
        self._begin_time_limit(options.timeout)
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._aborted = False
        self._has_response = False
        # Of a stream: its connection, and where to keep it once the stream was read.
        self._streamed: tuple[http.client.HTTPResponse, http.client.HTTPConnection, Origin] | None
        self._streamed = None
        self._is_whole = False

    def abort(self) -> None:
        """Close the connection under the request, from any thread."""
        with self._lock:
            self._aborted = True
            if self._socket is not None:
                with suppress(OSError):  # it may be closed already
                    self._socket.shutdown(socket.SHUT_RDWR)

    def abort_stream(self) -> None:
        """Do the same as `abort`, unless the stream was read to its end."""
        if not self._is_whole:
            self.abort()

    def run(self) -> Received:
        """Send the request and return the response; of a stream, when its head is there.

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

    def _run_on(self, connection: http.client.HTTPConnection, origin: Origin) -> Received:
        request = self._request
        parts = urlsplit(request.url)
        response: http.client.HTTPResponse | None = None
        try:
            self._watch(connection)
            path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
            connection.request(request.method, path, request.body, request.headers)
            response = connection.getresponse()
            self._has_response = True
            headers: Any = response.headers  # a mapping in all but name
            if is_event_stream(response.status, headers):
                self._streamed = response, connection, origin
                return BlockingResponseStream(
                    response.status, headers, self._options, self.read_part, self.close
                )
            body = self._read(response)
            self._is_whole = _is_reusable(response)
            return Response(response.status, headers, body)
        except (OSError, http.client.HTTPException) as error:
            failure = self._failure(error)
            raise failure from failure.__cause__
        finally:
            if self._streamed is None:
                self._release(response, connection, origin)

    def _failure(self, error: Exception) -> FrameworkError:
        if self._aborted:
            return aborted_error(self._request)
        if isinstance(error, TimeoutError):
            return timed_out(self._request, self._options.timeout)
        return connection_failed(self._request, error)

    def _release(
        self,
        response: http.client.HTTPResponse | None,
        connection: http.client.HTTPConnection,
        origin: Origin,
    ) -> None:
        """Keep the connection for a later request if the response is whole, or close it."""
        if response is not None:
            # The response may hold the socket open on its own.
            response.close()
        with self._lock:
            self._socket = None
            whole = self._is_whole and not self._aborted
        if whole:
            self._pool.give_back(origin, connection)
        else:
            connection.close()

    def read_part(self) -> bytes:
        """Return the next part of a stream, an empty one at its end.

        Raises:
            Unavailable: The connection broke.
            Timeout: It took too long.
            Aborted: It was aborted.
        """
        assert self._streamed is not None  # noqa: S101  # for type checkers
        response = self._streamed[0]
        self._begin_time_limit(self._options.silence)
        try:
            part = response.read1(_CHUNK)
            if not part:
                self._check_end(response)
                self._is_whole = _is_reusable(response)
            return part
        except (OSError, http.client.HTTPException) as error:
            failure = self._failure(error)
            raise failure from failure.__cause__

    def close(self) -> None:
        """End a stream."""
        if self._streamed is not None:
            streamed, self._streamed = self._streamed, None
            self._release(*streamed)

    def _begin_time_limit(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds

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
        limit = self._options.max_size
        if response.length is not None and response.length > limit:
            raise too_large(self._request, limit)
        parts: list[bytes] = []
        size = 0
        while part := response.read1(_CHUNK):
            parts.append(part)
            size += len(part)
            if size > limit:
                raise too_large(self._request, limit)
        self._check_end(response)
        if response.length is None and not response.chunked and not parts:
            # An early end of the head looks the same as such an empty body, so it is an error.
            raise http.client.RemoteDisconnected("the response ended before its body")
        return b"".join(parts)

    def _check_end(self, response: http.client.HTTPResponse) -> None:
        # A body without a length that ends with its connection looks complete.
        if self._aborted:
            raise ConnectionAbortedError
        # read1 takes an early end of the body for its end.
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)


def _is_reusable(response: http.client.HTTPResponse) -> bool:
    """Tell whether the connection can be used again after the whole response."""
    return not response.will_close and response.status >= _FIRST_FINAL_STATUS


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
