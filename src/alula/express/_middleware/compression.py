"""Compressed responses for clients that accept gzip."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable
from functools import partial
from typing import Final

import anyio.to_thread
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alula.express._chain import Middleware, NextFunction, ignores_body
from alula.express._headers import quality_of
from alula.express._request import Request
from alula.express._response import Response, with_one_vary

__all__ = ["compression"]

_THREAD_BYTES: Final = 128 * 1024  # larger bodies would block the event loop


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
        if _is_kept(res):
            return response
        packed = GZipMiddleware(partial(_send_adjusted, response), minimum_size, level)
        return partial(_send_with_one_vary, packed)

    async def compress_whole(res: Response) -> None:
        if _is_kept(res) or res.get("content-encoding") is not None:
            return
        etag = res.get("etag")
        if res.status_code == 200 and _is_strong(etag):
            res.set("etag", f"W/{etag}")
        body = res.whole_body
        if body and len(body) >= minimum_size and not _is_excluded(res.get("content-type")):
            pack = partial(gzip.compress, body, level, mtime=0)
            is_long = len(body) >= _THREAD_BYTES
            res.whole_body = await anyio.to_thread.run_sync(pack) if is_long else pack()
            res.set("content-encoding", "gzip")

    @ignores_body
    def middleware(req: Request, res: Response, next: NextFunction) -> Awaitable[None]:
        res.vary("Accept-Encoding")
        if quality_of(req.headers.get("accept-encoding") or "", ("gzip", "x-gzip")) > 0:
            res.wrap(partial(compress, res), compress_whole)
        return next()

    return middleware


async def _send_adjusted(response: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a response with the headers that it must have if it is compressed behind."""

    async def adjust(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if "content-encoding" not in headers:
                if message["status"] == 200 and _is_strong(headers.get("etag")):
                    headers["etag"] = f"W/{headers['etag']}"
                if scope["method"] == "HEAD" and not _is_excluded(headers.get("content-type")):
                    del headers["content-length"]  # that of a GET is another one
        await send(message)

    await response(scope, receive, adjust)


async def _send_with_one_vary(
    response: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Send a response to whose ``Vary`` Starlette has added what was in it already."""

    async def send_one_vary(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = with_one_vary(message["headers"])
        await send(message)

    await response(scope, receive, send_one_vary)


def _is_kept(res: Response) -> bool:
    return "no-transform" in str(res.get("cache-control")) or res.status_code in {204, 206, 304}


def _is_strong(etag: object) -> bool:
    # By a strong ETag, clients would join compressed parts of a file with plain ones.
    return isinstance(etag, str) and etag.startswith('"')


def _is_excluded(content_type: object) -> bool:
    """Tell whether it is a type that Starlette does not compress."""
    name = str(content_type or "").partition(";")[0].strip().lower()
    names = {name, f"{name.partition('/')[0]}/*"}
    return not names.isdisjoint(DEFAULT_EXCLUDED_CONTENT_TYPES) or name.startswith(
        "application/grpc"
    )
