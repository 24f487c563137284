"""What the log gets to know of errors, and what it must not: query strings may hold tokens."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from alula.express.request import Request
from alula.logs.text import short_line
from alula.routes import decode_segment

__all__ = ["Report", "log", "reporter"]

Report: TypeAlias = Callable[[Exception, int, Request], Awaitable[None]]
"""Gets an error, the status it is answered with, and the request."""

log: Final = logging.getLogger("alula.express")


def reporter(logger: Any) -> Report:
    """Return the function that reports errors to a logger.

    Args:
        logger: As in `error_handler`.

    Raises:
        TypeError: It is nothing that errors could be reported to.
    """
    if logger is None:
        return _log_error
    if logger is False:
        return _silence
    tell = getattr(logger, "error", logger)
    if not callable(tell):
        raise TypeError(f"error_handler(logger={logger!r}): it has no method error(error)")
    with_stack = isinstance(logger, logging.Logger | logging.LoggerAdapter)

    async def report(error: Exception, status: int, _: Request) -> None:
        try:
            more = {"exc_info": error} if with_stack and status >= 500 else {}
            result: Any = tell(error, **more)
            if hasattr(result, "__await__"):
                await result
        except Exception:  # whatever a logger does, the client gets its answer
            log.exception("the logger of error_handler failed")

    return report


async def _silence(error: Exception, status: int, req: Request) -> None:
    """Report nothing."""


async def _log_error(error: Exception, status: int, req: Request) -> None:
    # The path alone: a query string may hold a token.
    where = short_line(f"{req.method} {req.shown_path}")
    if status >= 500:
        log.error("%s failed", where, exc_info=error)
        return
    text = str(error)
    for url in (req.url, req.shown_url):
        text = text.replace(url, req.path)
    if req.hides_id:
        segment = req.path.rstrip("/").rpartition("/")[2]
        for secret in filter(None, (segment, decode_segment(segment))):
            text = text.replace(secret, "...")
    log.info("%s: %s: %s", where, type(error).__name__, short_line(text))
