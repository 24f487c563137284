"""Compressed responses for clients that accept gzip."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alula.express._chain import Middleware, NextFunction, ignores_body
from alula.express._headers import quality_of
from alula.express._request import Request
from alula.express._response import Response

__all__ = ["compression"]


def compression(*, minimum_size: int = 1024, level: int = 6) -> Middleware:
    """Return middleware that compresses responses with gzip for clients that accept it.

    What is compressed already (images, archives, responses with a Content-Encoding), parts of
    files, event streams, and responses with ``Cache-Control: no-transform`` are sent as they are.

    Examples:
        >>> from alula.express import compression, express
        >>> web = express().use(compression())

    Args:
        minimum_size: Smaller responses are sent as they are, in bytes. Streams are always
            compressed.
        level: 1 (fast) to 9 (small).

    Raises:
        ValueError: ``level`` or ``minimum_size`` is out of range.
    """
    if level not in range(1, 10) or minimum_size < 0:
        raise ValueError(
            f"compression(minimum_size={minimum_size!r}, level={level!r}): the level is 1 to 9,"
            " the size 0 or more"
        )

    def compress(res: Response, response: ASGIApp) -> ASGIApp:
        if "no-transform" in str(res.get("cache-control")):
            return response

        async def with_weak_etag(scope: Scope, receive: Receive, send: Send) -> None:
            async def weaken(message: Message) -> None:
                # By a strong ETag, clients would join compressed parts of a file with plain ones.
                if message["type"] == "http.response.start" and message["status"] == 200:
                    headers = MutableHeaders(scope=message)
                    etag = headers.get("etag", "")
                    if etag.startswith('"') and "content-encoding" not in headers:
                        headers["etag"] = f"W/{etag}"
                await send(message)

            await response(scope, receive, weaken)

        return GZipMiddleware(with_weak_etag, minimum_size, level)

    @ignores_body
    def middleware(req: Request, res: Response, next: NextFunction) -> Awaitable[None]:
        res.vary("Accept-Encoding")
        if quality_of(req.headers.get("accept-encoding") or "", ("gzip", "x-gzip")) > 0:
            res.wrap(partial(compress, res))
        return next()

    return middleware
