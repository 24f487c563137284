"""Sending with httpx2, by its asynchronous client, or by a blocking one of the user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from typing import Any

from alula.client._codec import Request, Response
from alula.client._failures import connection_failed, timed_out, too_large
from alula.client._portal import transport_for
from alula.client._response_stream import (
    AsyncResponseStream,
    BlockingResponseStream,
    Received,
    is_event_stream,
)
from alula.client._send_options import SendOptions
from alula.client._transport import READS, AsyncTransport, BlockingTransport, Transport

try:
    import httpx2
except ImportError as error:
    raise ImportError(
        "connection.httpx() needs httpx2, which is not installed;"
        " install it with: pip install 'alula[httpx]'"
    ) from error

__all__ = ["BlockingHttpxTransport", "HttpxTransport", "make_httpx_transport"]

_FAILURES = (httpx2.TransportError, httpx2.DecodingError)
_LOST = (httpx2.ReadError, httpx2.RemoteProtocolError, httpx2.WriteError)


def make_httpx_transport(client: object, *, synchronous: bool) -> Transport[Request, Received]:
    """Return the transport for a client of httpx2.

    Args:
        client: The user's own; None for one that the transport creates.
        synchronous: Whether the transport belongs to a synchronous client.

    Raises:
        TypeError: ``client`` is not of httpx2, or blocks although the client is asynchronous.
    """
    if synchronous and isinstance(client, httpx2.Client):
        return BlockingHttpxTransport(client)
    if client is not None and not isinstance(client, httpx2.AsyncClient):
        wanted = "an httpx2.Client or" if synchronous else "an"
        raise TypeError(f"httpx(client) takes {wanted} httpx2.AsyncClient here, not {client!r}")
    make = partial(HttpxTransport, client, closes_users_client=synchronous)
    return transport_for(make, synchronous=synchronous)


class _Received:
    """The part of a response that has arrived.

    Args:
        request: The request, for errors.
        limit: The largest body, in bytes.
    """

    def __init__(self, request: Request, limit: int) -> None:
        self._request = request
        self._limit = limit
        self._chunks: list[bytes] = []
        self._size = 0
        self.head: httpx2.Response | None = None

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > self._limit:
            raise too_large(self._request, self._limit)

    def whole(self, head: httpx2.Response) -> Response:
        return Response(head.status_code, head.headers, b"".join(self._chunks))


class _Exchange(ABC):
    """What both transports have in common: when a request is sent once more.

    Attributes:
        passes_timeout: Whether the time limit of a call is that of httpx2 for each of its steps.
    """

    passes_timeout = False

    def __init__(self) -> None:
        # Before the first response no connection can have been idle, so nothing is sent twice.
        self._had_response = False

    @abstractmethod
    async def receive(
        self, received: _Received, request: Request, options: SendOptions
    ) -> Received:
        """Send a request once and return the response."""

    async def exchange(self, request: Request, options: SendOptions) -> Received:
        """Send a request and return the response."""
        retry = self._had_response and request.method in READS
        while True:
            received = _Received(request, options.max_size)
            try:
                return await self.receive(received, request, options)
            except _FAILURES as error:
                if received.head is not None or not retry or not isinstance(error, _LOST):
                    failure = _failure(
                        request, error, options.timeout if self.passes_timeout else None
                    )
                    raise failure from failure.__cause__
                retry = False
            finally:
                self._had_response |= received.head is not None


class HttpxTransport(_Exchange, AsyncTransport[Request, Received]):
    """Sends with an ``httpx2.AsyncClient``.

    Args:
        client: The user's own; None creates one with the first request.
        closes_users_client: Whether `close` also closes the user's own: its connections belong to
            the event loop of a synchronous client, which ends then.
    """

    def __init__(
        self, client: httpx2.AsyncClient | None = None, *, closes_users_client: bool = False
    ) -> None:
        super().__init__()
        self._users_client = client
        self._closes_users_client = closes_users_client
        self._client: httpx2.AsyncClient | None = None

    async def receive(
        self, received: _Received, request: Request, options: SendOptions
    ) -> Received:
        """Send a request once and return the response."""
        async with AsyncExitStack() as stack:
            arguments = _arguments(request, options)
            head = await stack.enter_async_context(self._opened().stream(**arguments))
            received.head = head
            if is_event_stream(head.status_code, head.headers):
                chunks = head.aiter_bytes()
                read = partial(_next_chunk, request, chunks)
                close = stack.pop_all().aclose
                return self.watch(
                    AsyncResponseStream(
                        request, head.status_code, head.headers, options, read, close
                    )
                )
            async for chunk in head.aiter_bytes():
                received.add(chunk)
            return received.whole(head)

    def _opened(self) -> httpx2.AsyncClient:
        client = self._users_client or self._client
        if client is None:
            # No timeout here, since `send` has one for the whole exchange.
            client = self._client = httpx2.AsyncClient(timeout=None)
        return client

    async def close(self) -> None:
        """Close the client; see ``closes_users_client``."""
        await self.end_streams()
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()
        if self._users_client is not None and self._closes_users_client:
            await self._users_client.aclose()


class BlockingHttpxTransport(_Exchange, BlockingTransport[Request, Received]):
    """Sends with an ``httpx2.Client`` of the user, in the thread that calls.

    Only httpx2's own timeouts end such a request.

    Args:
        client: The client, which stays open.
    """

    passes_timeout = True

    def __init__(self, client: httpx2.Client) -> None:
        super().__init__()
        self._client = client

    async def send(self, request: Request, options: SendOptions) -> Received:
        """Send a request and return the response.

        Raises:
            TypeError: The call has a signal.
        """
        if options.signal is not None:
            raise TypeError(
                "a signal cannot abort a call of an httpx2.Client of your own; use httpx() without"
                " one, an httpx2.AsyncClient, or fetch()"
            )
        return await self.exchange(request, options)

    async def receive(
        self, received: _Received, request: Request, options: SendOptions
    ) -> Received:
        """Send a request once and return the response, without waiting in an event loop."""
        arguments = _arguments(request, options)
        with ExitStack() as stack:
            opened = self._client.stream(**arguments, timeout=options.timeout)
            head = stack.enter_context(opened)
            received.head = head
            if is_event_stream(head.status_code, head.headers):
                read = partial(_next_chunk_now, request, options, head.iter_bytes())
                close = stack.pop_all().close
                return BlockingResponseStream(head.status_code, head.headers, options, read, close)
            for chunk in head.iter_bytes():
                received.add(chunk)
            return received.whole(head)


async def _next_chunk(request: Request, chunks: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(chunks, b"")
    except _FAILURES as error:
        failure = _failure(request, error, None)
        raise failure from failure.__cause__


def _next_chunk_now(request: Request, options: SendOptions, chunks: Iterator[bytes]) -> bytes:
    try:
        return next(chunks, b"")
    except _FAILURES as error:
        failure = _failure(request, error, options.timeout)
        raise failure from failure.__cause__


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
