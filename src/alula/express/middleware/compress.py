"""Packed answers for clients that take gzip."""

from __future__ import annotations

from typing import Any

from starlette.middleware.gzip import GZipMiddleware

from alula.express.request import Request
from alula.express.response import Response

__all__ = ["compression"]


def compression(*, minimum_size: int = 1024, level: int = 6) -> Any:
    """Return middleware that packs answers with gzip where the client takes it.

    Args:
        minimum_size: Smaller answers go out as they are, in bytes.
        level: 1 (fast) to 9 (small).
    """

    def middleware(req: Request, res: Response, next: Any) -> Any:
        if "gzip" in (req.headers.get("accept-encoding") or ""):
            res.wrap(lambda answer: GZipMiddleware(answer, minimum_size, level))
        else:
            res.vary("Accept-Encoding")
        return next()

    return middleware
