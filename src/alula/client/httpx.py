"""Sending with httpx2, whose clients exist in an asynchronous and a synchronous kind."""

from __future__ import annotations

from typing import Any

from alula.client.codec import Request, Response
from alula.client.driving import (
    REPEATABLE,
    AsyncDriver,
    SyncDriver,
    Wish,
    connection_failed,
    timed_out,
    too_large,
)

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
    """

    def __init__(self, client: Any = None) -> None:
        if client is not None and not isinstance(client, httpx2.AsyncClient):
            raise TypeError(f"httpx(client) takes an httpx2.AsyncClient here, not {client!r}")
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
                    raise _failure(request, error, None) from error
                again = False

    async def close(self) -> None:
        """Close the client, where it is not the user's."""
        if self._own is not None:
            client, self._own = self._own, None
            await client.aclose()


class SyncHttpxDriver(SyncDriver):
    """Sends with an ``httpx2.Client``.

    Args:
        client: One of the user's own, which stays open; None makes one when it is needed.
    """

    def __init__(self, client: Any = None) -> None:
        if client is not None and not isinstance(client, httpx2.Client):
            raise TypeError(f"httpx(client) takes an httpx2.Client here, not {client!r}")
        self._given: httpx2.Client | None = client
        self._own: httpx2.Client | None = None
        self._answered = False  # as above

    async def send(self, request: Request, wish: Wish) -> Response:
        """Send a request and return the answer; the limit of time counts for each step of it."""
        if wish.signal is not None:
            raise TypeError(
                "a blocking call of httpx2 can not be given up by a signal; use fetch() or the"
                " asynchronous client"
            )
        client = self._given or self._own
        if client is None:
            client = self._own = httpx2.Client()
        again = self._answered and request.method in REPEATABLE
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
                if begun or not again or not isinstance(error, _LOST):
                    raise _failure(request, error, wish.timeout) from error
                again = False

    async def close(self) -> None:
        """Close the client, where it is not the user's."""
        if self._own is not None:
            client, self._own = self._own, None
            client.close()


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
