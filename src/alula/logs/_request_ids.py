"""The id of the current request: it joins log lines, here and on other servers.

It is a context variable, so hooks, services and adapters know it without knowing the transport.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Final

__all__ = [
    "REQUEST_ID_HEADER",
    "begin_request",
    "current_request_id",
    "end_request",
    "new_request_id",
    "request_scope",
    "trace_id_of",
    "valid_request_id",
]

REQUEST_ID_HEADER: Final = "x-request-id"
"""The header that carries the id from server to server."""

# What clients send ends up in logs: no spaces, quotes or control characters, and a bound length.
_VALID: Final = re.compile(r"[A-Za-z0-9._:@=+/-]{1,128}")
_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_NO_TRACE: Final = "0" * 32  # W3C Trace Context: all zeros is not a valid trace id

_current: ContextVar[str | None] = ContextVar("alula_request_id", default=None)


def current_request_id() -> str | None:
    """Return the id of the current request, None outside of requests.

    Examples:
        >>> with request_scope("job-7"):
        ...     current_request_id()
        'job-7'
    """
    return _current.get()


@contextmanager
def request_scope(request_id: str | None = None) -> Generator[str]:
    """Give a request id to work outside of requests, such as a job.

    Args:
        request_id: The id; None for a new one.

    Raises:
        ValueError: The id is not up to 128 letters, digits and ``._:@=+/-``.

    Examples:
        >>> with request_scope() as request_id:
        ...     len(request_id)
        32
    """
    valid = new_request_id() if request_id is None else valid_request_id(request_id)
    if valid is None:
        raise ValueError(
            f"{request_id!r} is not a request id; use up to 128 letters, digits and ._:@=+/-"
        )
    token = begin_request(valid)
    try:
        yield valid
    finally:
        end_request(token)


def new_request_id() -> str:
    """Return a new id: 32 random hexadecimal digits."""
    return os.urandom(16).hex()


def valid_request_id(text: str | None) -> str | None:
    """Return an id that a client sent, None unless it is safe in logs.

    Safe are up to 128 letters, digits and ``._:@=+/-``.
    """
    return text if text is not None and _VALID.fullmatch(text) else None


def trace_id_of(traceparent: str | None) -> str | None:
    """Return the trace id of a W3C header ``traceparent``, None without a valid one."""
    match = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    return match[1] if match and match[1] != _NO_TRACE else None


def begin_request(request_id: str) -> Token[str | None]:
    """Set the id of the current request; pass the result to `end_request`."""
    return _current.set(request_id)


def end_request(token: Token[str | None]) -> None:
    """Restore the id from before `begin_request`.

    Raises:
        ValueError: The request began in another context.
        RuntimeError: The token was used before.
    """
    _current.reset(token)
