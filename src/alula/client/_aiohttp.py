"""Sending with aiohttp, which is asynchronous alone."""

from __future__ import annotations

import io
from typing import Any, Final

from alula.client._codec import Request, Response
from alula.client._transport import AsyncTransport, SendOptions, connection_failed, too_large

try:
    import aiohttp
    from yarl import URL
except ImportError as error:
    raise ImportError(
        "connection.aiohttp() needs aiohttp, which is not installed;"
        " install it with: pip install 'alula[aiohttp]'"
    ) from error

__all__ = ["AiohttpTransport"]

_NO_LIMIT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)  # beside that of the call
_AT_ONCE: Final = 2**20  # bytes; the library's own bound


class AiohttpTransport(AsyncTransport):
    """Sends with an ``aiohttp.ClientSession``.

    Args:
        session: One of the user's own, which stays open; None makes one when it is needed.

    Raises:
        TypeError: ``session`` is not an ``aiohttp.ClientSession``.
    """

    def __init__(self, session: Any = None) -> None:
        if session is not None and not isinstance(session, aiohttp.ClientSession):
            raise TypeError(f"aiohttp(session) takes an aiohttp.ClientSession, not {session!r}")
        super().__init__()
        self._given: aiohttp.ClientSession | None = session
        self._own: aiohttp.ClientSession | None = None

    async def exchange(self, request: Request, options: SendOptions) -> Response:
        """Send a request and return the answer."""
        session = self._given or self._own
        if session is None:
            session = self._own = aiohttp.ClientSession(timeout=_NO_LIMIT)
        try:
            answer = await session.request(
                request.method,
                URL(request.url, encoded=True),  # as it is; it would unquote brackets
                data=_sent_in_parts(request.body),
                headers=request.headers,
                allow_redirects=False,
                **options.extra,
            )
            return Response(
                answer.status, answer.headers, await _read(request, answer, options.max_size)
            )
        except TimeoutError:  # some of the library's are connection errors, too
            raise
        except (aiohttp.ClientError, ConnectionError) as error:
            failure = connection_failed(request, error)
            raise failure from failure.__cause__

    async def close(self) -> None:
        """Close the session, where it is not the user's."""
        await super().close()
        if self._own is not None:
            session, self._own = self._own, None
            await session.close()


def _sent_in_parts(body: bytes | None) -> bytes | io.BytesIO | None:
    """Return a large body as a file: the library warns of bytes that hold up the event loop."""
    return body if body is None or len(body) <= _AT_ONCE else io.BytesIO(body)


async def _read(request: Request, answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the whole body; its end gives the connection back, anything else closes it.

    The library's own way, ``async with``, looks after that once more, for a tenth of a call's time.
    """
    content = answer.content
    parts: list[bytes] = []
    size = 0
    try:
        while True:
            part = await content.readany()  # what is there, which most often is all
            size += len(part)
            if size > limit:
                raise too_large(request, limit)
            parts.append(part)
            if content.at_eof():
                break
    except BaseException:
        answer.close()
        raise
    if request.body is not None:  # the answer may have come before all of it was sent
        await answer.wait_for_close()
    return part if len(parts) == 1 else b"".join(parts)
