"""Sending with httpx2, whose clients exist in an asynchronous and a synchronous kind."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from alula.client._abort import AbortSignal
from alula.client._codec import Request, Response
from alula.client._transport import (
    REPEATABLE,
    AsyncDriver,
    SyncDriver,
    Wish,
    connection_failed,
    given_up,
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

__all__ = ["AsyncHttpxDriver", "SyncHttpxDriver"]

_FAILURES = (httpx2.TransportError, httpx2.DecodingError)
_LOST = (httpx2.ReadError, httpx2.RemoteProtocolError, httpx2.WriteError)


class AsyncHttpxDriver(AsyncDriver):
    """Sends with an ``httpx2.AsyncClient``.

    Args:
        client: One of the user's own, which stays open; None makes one when it is needed.

    Raises:
        TypeError: ``client`` is not an ``httpx2.AsyncClient``.
    """

    def __init__(self, client: Any = None) -> None:
        if client is not None and not isinstance(client, httpx2.AsyncClient):
            raise TypeError(f"httpx(client) takes an httpx2.AsyncClient here, not {client!r}")
        super().__init__()
        self._given: httpx2.AsyncClient | None = client
        self._own: httpx2.AsyncClient | None = None
        self._answered = False  # so that no connection can have been idle

    async def exchange(self, request: Request, wish: Wish) -> Response:
        """Send a request and return the answer."""
        client = self._given or self._own
        if client is None:
            client = self._own = httpx2.AsyncClient(timeout=None)  # `send` has one
        again = self._answered and request.method in REPEATABLE
        while True:
            begun = False
            try:
                async with client.stream(**_arguments(request, wish)) as answer:
                    begun = self._answered = True
                    parts: list[bytes] = []
                    size = 0
                    async for part in answer.aiter_bytes():
                        parts.append(part)
                        size += len(part)
                        if size > wish.limit:
                            raise too_large(request, wish.limit)
                    return Response(answer.status_code, answer.headers, b"".join(parts))
            except _FAILURES as error:
                if begun or not again or not isinstance(error, _LOST):
                    failure = _failure(request, error, None)
                    raise failure from failure.__cause__
                again = False

    async def close(self) -> None:
        """Close the client, where it is not the user's."""
        await super().close()
        if self._own is not None:
            client, self._own = self._own, None
            await client.aclose()


class SyncHttpxDriver(SyncDriver):
    """Sends with an ``httpx2.Client``.

    httpx2 does not tell on which of its idle connections a request goes out. Requests that a signal
    may give up get connections of their own, which can be closed. Where a time limit is over, all
    connections are closed, which are idle but for one: a client serves one thread at a time. A
    client of the user's own may serve others meanwhile, so there each step has the time limit.

    Args:
        client: One of the user's own, which stays open; None makes one when it is needed.

    Raises:
        TypeError: ``client`` is not an ``httpx2.Client``.
    """

    def __init__(self, client: Any = None) -> None:
        if client is not None and not isinstance(client, httpx2.Client):
            raise TypeError(f"httpx(client) takes an httpx2.Client here, not {client!r}")
        self._given: httpx2.Client | None = client
        self._own: httpx2.Client | None = None
        self._for_signals: httpx2.Client | None = None
        self._connections = _Watch()
        self._answered = False  # as above

    async def send(self, request: Request, wish: Wish) -> Response:
        """Send a request and return the answer."""
        if wish.signal is not None:
            return self._send_until(request, wish, wish.signal)
        again = self._answered and request.method in REPEATABLE
        if self._given is not None:
            return self._exchange(self._given, request, wish, again=again)
        if self._own is None:
            self._own = httpx2.Client()
        return self._in_time(self._own, request, wish, self._connections, again=again)

    def _send_until(self, request: Request, wish: Wish, signal: AbortSignal) -> Response:
        if self._given is not None:
            raise TypeError(
                "a blocking call of an httpx2.Client of your own can not be given up by a signal;"
                " use httpx() without one, fetch(), or the asynchronous client"
            )
        if signal.aborted:
            raise given_up(request)
        if self._for_signals is None:
            limits = httpx2.Limits(max_keepalive_connections=0)
            self._for_signals = httpx2.Client(limits=limits)
        watch = _Watch()
        forget = signal.listen(watch.abort)
        try:
            response = self._in_time(self._for_signals, request, wish, watch)
        except FrameworkError:
            if not watch.aborted:
                raise
            failure = given_up(request)
            raise failure from failure.__cause__
        finally:
            forget()
        if watch.aborted:  # what ends with its connection may look whole
            raise given_up(request)
        return response

    def _in_time(
        self,
        client: httpx2.Client,
        request: Request,
        wish: Wish,
        watch: _Watch,
        *,
        again: bool = False,
    ) -> Response:
        """Send a request; close its connection when its time is over."""
        extensions = {**wish.more.get("extensions", {}), "trace": watch.trace}
        watched = replace(wish, more={**wish.more, "extensions": extensions})
        if wish.timeout is None:
            return self._exchange(client, request, watched, again=again)
        over = threading.Event()

        def end() -> None:
            over.set()
            watch.shut_down()

        timer = threading.Timer(wish.timeout, end)
        timer.daemon = True
        timer.start()
        try:
            response = self._exchange(client, request, watched, again=again, over=over)
        except FrameworkError:
            if not over.is_set():
                raise
            failure = timed_out(request, wish.timeout)
            raise failure from failure.__cause__
        finally:
            timer.cancel()
        if over.is_set():  # what ends with its connection may look whole
            raise timed_out(request, wish.timeout)
        return response

    def _exchange(
        self,
        client: httpx2.Client,
        request: Request,
        wish: Wish,
        *,
        again: bool = False,
        over: threading.Event | None = None,
    ) -> Response:
        while True:
            begun = False
            try:
                with client.stream(**_arguments(request, wish), timeout=wish.timeout) as answer:
                    begun = self._answered = True
                    parts: list[bytes] = []
                    size = 0
                    for part in answer.iter_bytes():
                        parts.append(part)
                        size += len(part)
                        if size > wish.limit:
                            raise too_large(request, wish.limit)
                    return Response(answer.status_code, answer.headers, b"".join(parts))
            except _FAILURES as error:
                late = over is not None and over.is_set()
                if begun or late or not again or not isinstance(error, _LOST):
                    failure = _failure(request, error, wish.timeout)
                    raise failure from failure.__cause__
                again = False

    async def close(self) -> None:
        """Close the clients, but for the user's."""
        for client in (self._own, self._for_signals):
            if client is not None:
                client.close()
        self._own = self._for_signals = None


class _Watch:
    """Knows the connections that requests have opened, and closes them from any thread.

    Attributes:
        aborted: Whether every one is to be closed, also those that are opened later.
    """

    def __init__(self) -> None:
        self.aborted = False
        self._lock = threading.Lock()
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of a new connection, and of the encrypted one around it; httpx2 calls this."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._lock:
                self._sockets.add(info["return_value"].get_extra_info("socket"))
                aborted = self.aborted
            if aborted:
                self.shut_down()

    def abort(self) -> None:
        """Close what there is, now or as soon as it is there."""
        with self._lock:
            self.aborted = True
        self.shut_down()

    def shut_down(self) -> None:
        """Close what there is now."""
        with self._lock:
            for each in self._sockets:
                with suppress(OSError):  # it may be closed already
                    each.shutdown(socket.SHUT_RDWR)
            self._sockets.clear()


def _arguments(request: Request, wish: Wish) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.url,
        "headers": request.headers,
        "content": request.body,
        **wish.more,
    }


def _failure(request: Request, error: Exception, seconds: float | None) -> Exception:
    if isinstance(error, httpx2.TimeoutException):
        return timed_out(request, seconds)
    return connection_failed(request, error)
