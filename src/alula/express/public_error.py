"""What a client may know of an exception, as an error of the interface."""

from __future__ import annotations

import http
from typing import Final

from starlette.exceptions import HTTPException

from alula.errors import FrameworkError, GeneralError, error_for_status

__all__ = ["public_error", "status_of"]

_KNOWN_STATUSES: Final = frozenset(http.HTTPStatus)


def public_error(error: Exception, *, debug: bool) -> FrameworkError:
    """Return what a client may see of an error; of unexpected ones that is next to nothing.

    Args:
        error: Errors of the interface stay as they are, Starlette's `HTTPException` turns into
            one of them, and all others into a `GeneralError` with the exception as its cause.
        debug: Whether clients see the message of an unexpected one.
    """
    if isinstance(error, FrameworkError):
        return error
    if isinstance(error, HTTPException):
        shown = _from_starlette(error)
    elif debug:
        shown = GeneralError(str(error) or type(error).__name__)
    else:
        shown = GeneralError("The server failed; its log says why")
    shown.__cause__ = error
    return shown


def _from_starlette(error: HTTPException) -> FrameworkError:
    status, detail = error.status_code, error.detail
    phrase = http.HTTPStatus(status).phrase if status in _KNOWN_STATUSES else f"Status {status}"
    # FastAPI's errors may have any JSON for a detail.
    text, data = (detail, None) if isinstance(detail, str) else (phrase, detail)
    kind = error_for_status(status)
    if kind is FrameworkError:
        words = phrase.replace("'", "").replace("-", " ").split()
        shown = FrameworkError(
            text,
            data,
            name="".join(word[0].upper() + word[1:] for word in words),
            code=status,
            class_name="-".join(words).lower(),
        )
    else:
        shown = kind(text, data)
    shown.headers = error.headers
    return shown


def status_of(error: FrameworkError) -> int:
    """Return the status to answer an error with; what can be none becomes 500."""
    return error.code if isinstance(error.code, int) and 300 <= error.code < 600 else 500
