"""Sending with httpx2, by its asynchronous or its synchronous client."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from alula.client._abort import AbortSignal
from alula.client._codec import Request, Response
from alula.client._transport import (
    READS,
    AsyncTransport,
    SendOptions,
    SyncTransport,
    aborted_error,
    connection_failed,
    timed_out,
    too_large,
)
from alula.errors import FrameworkError

try:
    import httpx2
except ImportError as error:
    raise ImportError(
        "connection.httpx() needs httpx2, which is not installed;"
        " install it with: pip install 'alula[httpx]'"
    ) from error

__all__ = ["AsyncHttpxTransport", "SyncHttpxTransport"]

_FAILURES = (httpx2.TransportError, httpx2.DecodingError)
_LOST = (httpx2.ReadError, httpx2.RemoteProtocolError, httpx2.WriteError)


class AsyncHttpxTransport(AsyncTransport[Request, Response]):
    """Sends with an ``httpx2.AsyncClient``.

    Args:
        client: The user's own, which stays open; None creates one with the first request.

    Raises:
        TypeError: It is not an ``httpx2.AsyncClient``.
    """

    def __init__(self, client: object = None) -> None:
        if client is not None and not isinstance(client, httpx2.AsyncClient):
            raise TypeError(f"httpx(client) takes an httpx2.AsyncClient here, not {client!r}")
        self._users_client: httpx2.AsyncClient | None = client
        self._client: httpx2.AsyncClient | None = None
        # Before the first response no connection can have been idle, so nothing is sent twice.
        self._had_response = False

    async def exchange(self, request: Request, options: SendOptions) -> Response:
        """Send a request and return the response."""
        client = self._users_client or self._client
        if client is None:
            # No timeout here, since `send` has one for the whole exchange.
            client = self._client = httpx2.AsyncClient(timeout=None)
        retry = self._had_response and request.method in READS
        while True:
            began = False
            try:
                async with client.stream(**_arguments(request, options)) as response:
                    began = self._had_response = True
                    chunks: list[bytes] = []
                    size = 0
                    async for chunk in response.aiter_bytes():
                        chunks.append(chunk)
                        size += len(chunk)
                        if size > options.max_size:
                            raise too_large(request, options.max_size)
                    return Response(response.status_code, response.headers, b"".join(chunks))
            except _FAILURES as error:
                if began or not retry or not isinstance(error, _LOST):
                    failure = _failure(request, error, None)
                    raise failure from failure.__cause__
                retry = False

    async def close(self) -> None:
        """Close the client, unless it is the user's."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()


class SyncHttpxTransport(SyncTransport[Request, Response]):
    """Sends with an ``httpx2.Client``.

    httpx2 has a timeout for each read, which a server that sends a byte now and then never exceeds.
    So a thread closes the connection when the time of a request is over. httpx2 does not tell
    which of its idle connections a request uses: requests with a signal get a connection of their
    own, and a timeout closes all connections of the client. All but one of them are idle, because a
    client serves one thread at a time. The user's own client may serve other threads as well;
    there only httpx2's timeouts apply.

    Args:
        client: The user's own, which stays open; None creates one with the first request.

    Raises:
        TypeError: It is not an ``httpx2.Client``.
    """

    def __init__(self, client: object = None) -> None:
        if client is not None and not isinstance(client, httpx2.Client):
            raise TypeError(f"httpx(client) takes an httpx2.Client here, not {client!r}")
        self._users_client: httpx2.Client | None = client
        self._client: httpx2.Client | None = None
        self._client_for_signals: httpx2.Client | None = None
        self._connections = _Connections()
        self._deadlines = _Deadlines()
        # Before the first response no connection can have been idle, so nothing is sent twice.
        self._had_response = False

    async def send(self, request: Request, options: SendOptions) -> Response:
        """Send a request and return the response."""
        if options.signal is not None:
            return self._send_with_signal(request, options, options.signal)
        retry = self._had_response and request.method in READS
        if self._users_client is not None:
            arguments = _arguments(request, options)
            return self._exchange(self._users_client, request, options, arguments, retry=retry)
        if self._client is None:
            self._client = httpx2.Client()
        return self._send_in_time(self._client, request, options, self._connections, retry=retry)

    def _send_with_signal(
        self, request: Request, options: SendOptions, signal: AbortSignal
    ) -> Response:
        if self._users_client is not None:
            raise TypeError(
                "a signal cannot abort a blocking call of an httpx2.Client of your own;"
                " use httpx() without one, fetch(), or the asynchronous client"
            )
        if signal.aborted:
            raise aborted_error(request)
        if self._client_for_signals is None:
            # Without idle connections, each request opens one, which the trace hook sees.
            limits = httpx2.Limits(max_keepalive_connections=0)
            self._client_for_signals = httpx2.Client(limits=limits)
        connections = _Connections()
        forget = signal.listen(connections.abort)
        try:
            response = self._send_in_time(self._client_for_signals, request, options, connections)
        except FrameworkError:
            if not connections.aborted:
                raise
            failure = aborted_error(request)
            raise failure from failure.__cause__
        finally:
            forget()
        # A body without a length that ends with its connection looks complete.
        if connections.aborted:
            raise aborted_error(request)
        return response

    def _send_in_time(
        self,
        client: httpx2.Client,
        request: Request,
        options: SendOptions,
        connections: _Connections,
        *,
        retry: bool = False,
    ) -> Response:
        """Send a request; close its connection when its time is over."""
        arguments = _arguments(request, options)
        arguments["extensions"] = {**arguments.get("extensions", {}), "trace": connections.trace}
        if options.timeout is None:
            return self._exchange(client, request, options, arguments, retry=retry)
        deadline = _Deadline(options.timeout, connections)
        self._deadlines.add(deadline)
        try:
            response = self._exchange(
                client, request, options, arguments, retry=retry, deadline=deadline
            )
        except FrameworkError:
            if not deadline.expired:
                raise
            failure = timed_out(request, options.timeout)
            raise failure from failure.__cause__
        finally:
            self._deadlines.remove(deadline)
        # As above: an interrupted body may look complete.
        if deadline.expired:
            raise timed_out(request, options.timeout)
        return response

    def _exchange(
        self,
        client: httpx2.Client,
        request: Request,
        options: SendOptions,
        arguments: dict[str, Any],
        *,
        retry: bool = False,
        deadline: _Deadline | None = None,
    ) -> Response:
        while True:
            began = False
            try:
                with client.stream(**arguments, timeout=options.timeout) as response:
                    began = self._had_response = True
                    chunks: list[bytes] = []
                    size = 0
                    for chunk in response.iter_bytes():
                        chunks.append(chunk)
                        size += len(chunk)
                        if size > options.max_size:
                            raise too_large(request, options.max_size)
                    return Response(response.status_code, response.headers, b"".join(chunks))
            except _FAILURES as error:
                late = deadline is not None and deadline.expired
                if began or late or not retry or not isinstance(error, _LOST):
                    failure = _failure(request, error, options.timeout)
                    raise failure from failure.__cause__
                retry = False

    async def close(self) -> None:
        """Close the clients that it has created, and end its thread."""
        for client in (self._client, self._client_for_signals):
            if client is not None:
                client.close()
        self._client = self._client_for_signals = None
        self._deadlines.close()


class _Connections:
    """The connections that requests have opened; any thread can close them.

    Attributes:
        aborted: Whether connections that are opened later are closed as well.
    """

    def __init__(self) -> None:
        self.aborted = False
        self._lock = threading.Lock()
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Note a new connection, and its TLS connection; httpx2 calls this as its trace hook."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._lock:
                self._sockets.add(info["return_value"].get_extra_info("socket"))
                aborted = self.aborted
            if aborted:
                self.shut_down()

    def abort(self) -> None:
        """Close the connections, and those that are opened later."""
        with self._lock:
            self.aborted = True
        self.shut_down()

    def shut_down(self) -> None:
        """Close the connections."""
        with self._lock:
            for connected in self._sockets:
                with suppress(OSError):  # it may be closed already
                    connected.shutdown(socket.SHUT_RDWR)
            self._sockets.clear()


class _Deadline:
    """When the time of one request is over, and which connections are closed then."""

    __slots__ = ("at", "connections", "expired")

    def __init__(self, seconds: float, connections: _Connections) -> None:
        self.at = time.monotonic() + seconds
        self.connections = connections
        self.expired = False


class _Deadlines:
    """Closes the connections of requests whose time is over, from one thread per transport.

    The thread sleeps until the earliest deadline that it knew when it fell asleep, and only a
    request with an earlier one wakes it. It ends if it wakes up and no request is on its way.
    """

    # A `threading.Timer` starts a thread for each request: calls took 1.6 times the processor time
    # (`make bench only=client`, "httpx2, blocking").

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: set[_Deadline] = set()
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None

    def add(self, deadline: _Deadline) -> None:
        """Watch a request that begins now."""
        with self._changed:
            self._pending.add(deadline)
            # `is_alive` also finds out that this process is a fork, which has no such thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="alula-deadlines", daemon=True
                )
                self._wakes_at = 0.0
                self._thread.start()
            elif deadline.at < self._wakes_at:
                self._changed.notify()

    def remove(self, deadline: _Deadline) -> None:
        """Forget a request that has ended; from now on it cannot expire."""
        with self._changed:
            self._pending.discard(deadline)

    def close(self) -> None:
        """Wake the thread, which ends unless a request is on its way."""
        with self._changed:
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while self._pending:
                self._wakes_at = min(deadline.at for deadline in self._pending)
                self._changed.wait(max(0.0, self._wakes_at - time.monotonic()))
                now = time.monotonic()
                for deadline in [due for due in self._pending if due.at <= now]:
                    self._pending.remove(deadline)
                    deadline.expired = True
                    # Under the lock: so it never meets the next request of the client.
                    deadline.connections.shut_down()
            self._thread = None


def _arguments(request: Request, options: SendOptions) -> dict[str, Any]:
    # The codec has encoded the URL and the body; httpx2 sends both as they are.
    return {
        "method": request.method,
        "url": request.url,
        "headers": request.headers,
        "content": request.body,
        **options.extra,
    }


def _failure(request: Request, error: Exception, seconds: float | None) -> Exception:
    if isinstance(error, httpx2.TimeoutException):
        return timed_out(request, seconds)
    return connection_failed(request, error)
