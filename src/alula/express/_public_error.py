"""What a client may know of an exception: an error of the interface, a status, headers."""

from __future__ import annotations

import http
from collections.abc import Iterable
from typing import Final

from starlette.exceptions import HTTPException

from alula.errors import FrameworkError, GeneralError, error_for_status

__all__ = ["ERROR_HEADERS", "public_error", "read_error_headers", "status_of"]

ERROR_HEADERS: Final = frozenset({
    "accept-encoding", "allow", "content-range", "retry-after", "www-authenticate",
})  # fmt: skip
"""The headers that an error may set, in lower case; `error_handler` can allow more.

An error may come from anywhere, also from another server's response, so a header is sent only where
somebody has said that it may be.
"""

_NEVER: Final = frozenset({
    "connection", "content-encoding", "content-length", "content-type", "date", "keep-alive",
    "proxy-authenticate", "proxy-authorization", "proxy-connection", "server", "te", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip
"""The headers of one connection or one body, which an error knows nothing of."""

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


def read_error_headers(names: Iterable[str]) -> frozenset[str]:
    """Return the names of all headers that errors may set, in lower case.

    Args:
        names: Those to allow beside `ERROR_HEADERS`.

    Raises:
        TypeError: It is one string, or has something other than strings.
        ValueError: A header belongs to the connection or describes the body.
    """
    if isinstance(names, str):
        raise TypeError(f"error_handler(headers={names!r}): give a list: [{names!r}]")
    given = [*names]
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"error_handler(headers=...): {name!r} is not the name of a header")
        if name.lower() in _NEVER:
            raise ValueError(
                f"error_handler(headers=...): errors cannot set {name!r}, since it belongs to the"
                " connection or describes the body"
            )
    return ERROR_HEADERS.union(name.lower() for name in given)


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
