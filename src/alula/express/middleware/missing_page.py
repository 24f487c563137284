"""404 for what nobody answered."""

from __future__ import annotations

from typing import Any

from alula.errors import NotFound
from alula.express.request import Request
from alula.express.response import Response

__all__ = ["not_found"]


def not_found(*, verbose: bool = False) -> Any:
    """Return middleware that raises `NotFound`; it goes last, before the error handler.

    An ``access_token`` in the URL is left out of the error, which loggers get as it is.

    Args:
        verbose: Name the URL in the message.
    """

    def middleware(req: Request, _: Response, next: Any) -> Any:
        url = req.shown_url
        message = f"Page not found: {url}" if verbose else "Page not found"
        return next(NotFound(message, {"url": url}))

    return middleware
