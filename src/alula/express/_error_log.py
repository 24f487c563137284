"""What the log gets to know of errors, and what it must not: query strings may hold tokens."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from alula._routes import decode_segment
from alula.errors import FrameworkError
from alula.express._request import Request
from alula.logs._formatters import short_line

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
            more = {"exc_info": error} if with_stack and _needs_stack(error, status) else {}
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
    if _needs_stack(error, status):
        log.error("%s failed", where, exc_info=error)
        return
    text = str(error)
    for url in (req.url, req.shown_url):
        text = text.replace(url, req.path)
    if req.hides_id:
        segment = req.path.rstrip("/").rpartition("/")[2]
        for secret in filter(None, (segment, decode_segment(segment))):
            text = text.replace(secret, "...")
    kind, level = type(error).__name__, logging.INFO
    if status >= 500:
        level = logging.ERROR
        if error.__cause__ is not None:  # its class alone: texts of drivers may hold secrets
            kind += f" from {type(error.__cause__).__name__}"
    log.log(level, "%s: %s: %s", where, kind, short_line(text))


def _needs_stack(error: Exception, status: int) -> bool:
    """Tell whether the log gets the stack: of what nobody expected, not of every 503 of a storm."""
    if status < 500:
        return False
    is_expected = isinstance(error, FrameworkError) and error.code == status > 500
    return not is_expected or log.isEnabledFor(logging.DEBUG)
