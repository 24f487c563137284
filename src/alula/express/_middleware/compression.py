"""Compressed responses for clients that accept gzip."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable
from functools import lru_cache, partial
from typing import Final

import anyio.to_thread
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alula.express._chain import Middleware, goes_on
from alula.express._headers import quality_of
from alula.express._request import Request
from alula.express._response import Response, with_one_vary

__all__ = ["compression"]

_MAX_HEADER: Final = 1000
"""Characters of Accept-Encoding that are read: its values are remembered, so they are bounded."""

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

    compress_whole = partial(_compress_whole, minimum_size, level)

    def compress(res: Response, response: ASGIApp) -> ASGIApp:
        if _is_kept(res):
            return response
        packed = GZipMiddleware(partial(_send_adjusted, response), minimum_size, level)
        return partial(_send_with_one_vary, packed)

    @goes_on
    def middleware(req: Request, res: Response) -> None:
        res.vary("Accept-Encoding")
        accepted = req.headers.get("accept-encoding")
        if accepted and _accepts_gzip(accepted[:_MAX_HEADER]):
            res.wrap(partial(compress, res), compress_whole)

    return middleware


def _compress_whole(minimum_size: int, level: int, res: Response) -> Awaitable[None] | None:
    body, etag = res.whole_body, res.get("etag")
    is_short = not body or len(body) < minimum_size
    if (is_short and etag is None) or _is_kept(res) or res.get("content-encoding") is not None:
        return None
    if res.status_code == 200 and _is_strong(etag):
        res.set("etag", f"W/{etag}")
    if is_short or _is_excluded(res.get("content-type")):
        return None
    res.set("content-encoding", "gzip")
    pack = partial(gzip.compress, body, level, mtime=0)
    if len(body) >= _THREAD_BYTES:
        return _replace_body(res, anyio.to_thread.run_sync(pack))
    res.whole_body = pack()
    return None


async def _replace_body(res: Response, packing: Awaitable[bytes]) -> None:
    res.whole_body = await packing


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


@lru_cache(maxsize=64)  # browsers have a handful of values, and to parse one takes 4 µs
def _accepts_gzip(accepted: str) -> bool:
    return quality_of(accepted, ("gzip", "x-gzip")) > 0


def _is_kept(res: Response) -> bool:
    return "no-transform" in str(res.get("cache-control")) or res.status_code in {204, 206, 304}


def _is_strong(etag: object) -> bool:
    # A strong ETag lets clients join parts of a file, and compressed parts do not fit plain ones.
    return isinstance(etag, str) and etag.startswith('"')


def _is_excluded(content_type: object) -> bool:
    """Tell whether it is a type that Starlette does not compress."""
    name = str(content_type or "").partition(";")[0].strip().lower()
    names = {name, f"{name.partition('/')[0]}/*"}
    return not names.isdisjoint(DEFAULT_EXCLUDED_CONTENT_TYPES) or name.startswith(
        "application/grpc"
    )
