"""The id of the request that is served: what joins the lines of logs, here and on other servers.

It lives in a context variable, so that hooks, adapters and whatever they call know it, and knows
no transport: who begins a request says its id, and who wants it asks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Final

__all__ = [
    "HEADER",
    "begin_request",
    "current_request_id",
    "end_request",
    "new_request_id",
    "request_scope",
    "trace_id_of",
    "well_formed_id",
]

HEADER: Final = "x-request-id"
"""The header by which servers tell each other."""

_WELL_FORMED: Final = re.compile(r"[A-Za-z0-9._:@=+/-]{1,128}")
_TRACE_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
_NO_TRACE: Final = "0" * 32

_current: ContextVar[str | None] = ContextVar("alula_request_id", default=None)


def current_request_id() -> str | None:
    """Return the id of the request that is served here, None outside of requests."""
    return _current.get()


def new_request_id() -> str:
    """Return a new id: 32 random hexadecimal digits."""
    return os.urandom(16).hex()


def well_formed_id(text: str | None) -> str | None:
    """Return an id that somebody sent, None where it is not one that a log can take.

    That is one of up to 128 letters, digits and ``._:@=+/-``.
    """
    return text if text is not None and _WELL_FORMED.fullmatch(text) else None


def trace_id_of(traceparent: str | None) -> str | None:
    """Return the trace that a ``traceparent`` header of the W3C names, None for none."""
    found = _TRACE_PARENT.fullmatch(traceparent) if traceparent else None
    return found[1] if found and found[1] != _NO_TRACE else None


def begin_request(request_id: str) -> Token[str | None]:
    """Say whose work begins here; `end_request` wants what this returns."""
    return _current.set(request_id)


def end_request(token: Token[str | None]) -> None:
    """Say that the work of a request is over.

    Raises:
        ValueError: It began in another context.
        RuntimeError: It was ended before.
    """
    _current.reset(token)


@contextmanager
def request_scope(request_id: str | None = None) -> Iterator[str]:
    """Give an id to work that no request began, such as a job.

    ``with request_scope(): await run_job()``

    Args:
        request_id: The id; None for a new one.

    Raises:
        ValueError: It is not one that a log can take.
    """
    known = new_request_id() if request_id is None else well_formed_id(request_id)
    if known is None:
        raise ValueError(
            f"{request_id!r} is no request id: these are up to 128 letters, digits and ._:@=+/-"
        )
    token = begin_request(known)
    try:
        yield known
    finally:
        end_request(token)
