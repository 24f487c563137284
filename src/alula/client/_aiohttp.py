"""Sending with aiohttp."""

from __future__ import annotations

import io
from functools import partial
from typing import Final

from alula.client._codec import Request, Response
from alula.client._failures import connection_failed, too_large
from alula.client._response_stream import AsyncResponseStream, Received, is_event_stream
from alula.client._send_options import SendOptions
from alula.client._transport import READS, AsyncTransport

try:
    import aiohttp
    from yarl import URL
except ImportError as error:
    raise ImportError(
        "connection.aiohttp() needs aiohttp, which is not installed;"
        " install it with: pip install 'alula[aiohttp]'"
    ) from error

__all__ = ["AiohttpTransport"]

# `AsyncTransport.send` has the time limit. The library's own would raise errors of another kind.
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)
_MAX_BYTES_AT_ONCE: Final = 2**20  # the library's own bound


class _Lost(aiohttp.ClientError):
    """The connection broke before the response began."""


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send a request once: a middleware of aiohttp.

    aiohttp sends GET, PUT and DELETE again after these two errors, also on a new connection. The
    server may have carried out the first request, so a remove that succeeded would be a 404.
    """
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:  # nothing was sent, and aiohttp does not try again
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Lost(str(error)) from error


class AiohttpTransport(AsyncTransport[Request, Received]):
    """Sends with an ``aiohttp.ClientSession``.

    Args:
        session: The user's own, which stays open; None creates one with the first request. Its
            middlewares do not run: aiohttp uses those of the request instead, and has no way to add
            one. Those of ``params.connection`` run.

    Raises:
        TypeError: ``session`` is not an ``aiohttp.ClientSession``.
    """

    def __init__(self, session: object = None) -> None:
        if session is not None and not isinstance(session, aiohttp.ClientSession):
            raise TypeError(f"aiohttp(session) takes an aiohttp.ClientSession, not {session!r}")
        self._users_session: aiohttp.ClientSession | None = session
        self._session: aiohttp.ClientSession | None = None
        # Before the first response no connection can have been idle, so nothing is sent twice.
        self._had_response = False

    async def exchange(self, request: Request, options: SendOptions) -> Received:
        """Send a request and return the response."""
        session = self._opened()
        retry = self._had_response and request.method in READS
        while True:
            try:
                response = await _respond(session, request, options)
                self._had_response = True
                if is_event_stream(response.status, response.headers):
                    return self._stream(request, response, options)
                content = await _read(request, response, options.max_size)
                return Response(response.status, response.headers, content)
            # Some timeouts of the library are connection errors as well, so this comes first.
            except TimeoutError:
                raise
            except (aiohttp.ClientError, ConnectionError) as error:
                if not retry or not isinstance(error, _Lost):
                    failure = connection_failed(request, error)
                    raise failure from failure.__cause__
                retry = False

    def _stream(
        self, request: Request, response: aiohttp.ClientResponse, options: SendOptions
    ) -> AsyncResponseStream:
        async def close() -> None:
            response.close()  # of a response that was read, this keeps the connection

        read = partial(_next_part, request, response)
        return self.watch(
            AsyncResponseStream(request, response.status, response.headers, options, read, close)
        )

    def _opened(self) -> aiohttp.ClientSession:
        session = self._users_session or self._session
        if session is None:
            session = self._session = aiohttp.ClientSession(timeout=_NO_TIMEOUT)
        return session

    async def close(self) -> None:
        """Close the session, unless it is the user's."""
        await self.end_streams()
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


async def _respond(
    session: aiohttp.ClientSession, request: Request, options: SendOptions
) -> aiohttp.ClientResponse:
    body: bytes | io.BytesIO | None = request.body
    # The library warns of bytes that hold up the event loop for long; it sends files in parts.
    if request.body is not None and len(request.body) > _MAX_BYTES_AT_ONCE:
        body = io.BytesIO(request.body)
    extra = dict(options.extra)
    return await session.request(
        request.method,
        # yarl would unquote brackets and other characters of queries.
        URL(request.url, encoded=True),
        data=body,
        headers=request.headers,
        allow_redirects=False,
        middlewares=(_send_once, *extra.pop("middlewares", ())),
        **extra,
    )


async def _next_part(request: Request, response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.content.readany()
    except TimeoutError:  # as in `exchange`
        raise
    except (aiohttp.ClientError, ConnectionError) as error:
        failure = connection_failed(request, error)
        raise failure from failure.__cause__


async def _read(request: Request, response: aiohttp.ClientResponse, max_size: int) -> bytes:
    """Return the whole body. At its end the connection is reusable; any error closes it."""
    # `async with response` would take a tenth of a call's time (`make bench only=client`).
    content = response.content
    chunks: list[bytes] = []
    size = 0
    try:
        while True:
            chunk = await content.readany()  # most often all of it
            size += len(chunk)
            if size > max_size:
                raise too_large(request, max_size)
            chunks.append(chunk)
            if content.at_eof():
                break
    except BaseException:
        response.close()
        raise
    # The response may come before the body is sent, and then the connection is still in use.
    if request.body is not None:
        await response.wait_for_close()
    return chunk if len(chunks) == 1 else b"".join(chunks)
