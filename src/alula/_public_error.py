"""What a client may know of an error."""

from __future__ import annotations

import os
import sys
from traceback import TracebackException
from types import FrameType
from typing import Any, Final

from alula._user_code import keep_user_frames, place_of
from alula.errors import FrameworkError, GeneralError, error_for_status

__all__ = ["HINTS", "debug_text", "error_json", "log_text", "public_error"]

HINTS: Final = "ALULA_HINTS"
"""The variable that turns hints in JSON on. Only ``alula dev`` sets it, for the developer."""


def public_error(error: Exception, *, debug: bool) -> FrameworkError:
    """Return what a client may know of an error; of unexpected ones that is next to nothing.

    Args:
        error: Errors of `alula.errors` stay as they are, Starlette's `HTTPException` turns into
            one of them, and all others into a `GeneralError` with the exception as its cause.
        debug: Whether clients see the message of an unexpected one, with its type.
    """
    if isinstance(error, FrameworkError):
        return error
    # The core has no dependencies. Who raises Starlette's exception has imported it.
    starlette = sys.modules.get("starlette.exceptions")
    if starlette is not None and isinstance(error, starlette.HTTPException):
        shown = _from_starlette(error)
    elif debug:
        shown = GeneralError(_with_type(error))
    else:
        shown = GeneralError("The server failed; its log says why")
    shown.__cause__ = error
    return shown


def _with_type(error: Exception) -> str:
    """Return the message of an unexpected error, with its type if that says something."""
    name, text = type(error).__name__, str(error)
    if not text:
        return name
    # Classes of applications, and these two, are raised with a text for people. Python's own are
    # not: the text of a KeyError is a key.
    is_of_python = type(error).__module__ == "builtins"
    says_all = not is_of_python or type(error) in {Exception, RuntimeError}
    return text if says_all else f"{name}: {text}"


def debug_text(error: Exception) -> str:
    """Return what debug mode shows of an unexpected error: its type, where it was, and own code.

    Args:
        error: The error, with its traceback.
    """
    frames: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.insert(0, trace.tb_frame)
        trace = trace.tb_next
    summary = TracebackException.from_exception(error)
    keep_user_frames(summary)
    what = f"in {place_of(frames).what}\n" if frames else ""
    name = type(error).__name__
    return f"{name}: {error}\n{what}\n{''.join(summary.format()).rstrip()}"


def log_text(error: Exception) -> str:
    """Return what the log gets of an expected error: its message and its notes.

    Adapters add notes about what clients must not know, such as the address of a database.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    return f"{error} ({'; '.join(notes)})" if notes else str(error)


def error_json(error: FrameworkError) -> dict[str, Any]:
    """Return the JSON of an error; under ``alula dev`` its notes are there as ``hint``.

    Debug mode alone does not add them: programs compare these responses with those of FeathersJS.
    """
    body = error.to_dict()
    notes: list[str] = getattr(error, "__notes__", [])
    if notes and os.environ.get(HINTS) == "1":
        body["hint"] = "; ".join(notes)
    return body


def _from_starlette(error: Any) -> FrameworkError:
    status, detail = error.status_code, error.detail
    phrase = _reason_phrase(status)
    # FastAPI's errors may have any JSON for a detail.
    text, data = (detail, None) if isinstance(detail, str) else (phrase, detail)
    error_class = error_for_status(status)
    if error_class is FrameworkError:
        words = phrase.replace("'", "").replace("-", " ").split()
        shown = FrameworkError(
            text,
            data,
            name="".join(word[0].upper() + word[1:] for word in words),
            code=status,
            class_name="-".join(words).lower(),
        )
    else:
        shown = error_class(text, data)
    shown.headers = error.headers
    return shown


def _reason_phrase(status: int) -> str:
    from http import HTTPStatus  # noqa: PLC0415  # 0.3 % of an import; only Starlette's errors need it

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"Status {status}"
