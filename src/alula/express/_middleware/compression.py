"""Packed answers for clients that take gzip."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware

from alula.express._chain import ignores_body
from alula.express._request import Request, quality_of
from alula.express._response import ASGIApp, Response

__all__ = ["compression"]


def compression(*, minimum_size: int = 1024, level: int = 6) -> Any:
    """Return middleware that packs answers with gzip where the client takes it.

    What is packed already (images, archives, answers with a Content-Encoding), parts of files,
    event streams, and answers with ``Cache-Control: no-transform`` go out as they are.

    Args:
        minimum_size: Smaller answers go out as they are, in bytes. Streams are always packed.
        level: 1 (fast) to 9 (small).

    Raises:
        ValueError: ``level`` or ``minimum_size`` is out of range.
    """
    if level not in range(1, 10) or minimum_size < 0:
        raise ValueError(
            f"compression(minimum_size={minimum_size!r}, level={level!r}): the level is 1 to 9,"
            " the size 0 or more"
        )

    def packed(res: Response, answer: ASGIApp) -> ASGIApp:
        if "no-transform" in str(res.get("cache-control")):
            return answer
        return GZipMiddleware(_with_weak_tag(answer), minimum_size, level)

    @ignores_body
    def middleware(req: Request, res: Response, next: Any) -> Any:
        res.vary("Accept-Encoding")
        if quality_of(req.headers.get("accept-encoding") or "", ("gzip", "x-gzip")) > 0:
            res.wrap(partial(packed, res))
        return next()

    return middleware


def _with_weak_tag(answer: ASGIApp) -> ASGIApp:
    """Make the ETag weak: by a strong one, clients would join packed parts with plain ones."""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        async def weaken(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                headers = MutableHeaders(scope=message)
                tag = headers.get("etag", "")
                if tag.startswith('"') and "content-encoding" not in headers:
                    headers["etag"] = f"W/{tag}"
            await send(message)

        await answer(scope, receive, weaken)

    return run
