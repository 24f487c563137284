"""What goes wrong in a command: what is not there, and what fails in the code of the user."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

__all__ = ["Missing", "report"]

_OURS: Final = Path(__file__).parents[1]
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


class Missing(LookupError):
    """What a command is about is not there; the text says what, and what to write instead."""


def report(error: BaseException, folder: Path | None = None) -> str:
    """Return an error with the part of its stack that is the user's own code.

    Where nothing of the stack is, all of it is shown.

    Args:
        error: The error.
        folder: Where the code of the user is, None for the current folder.
    """
    told = traceback.TracebackException.from_exception(error)
    _keep_own(told, (folder or Path.cwd()).resolve())
    return "".join(told.format()).rstrip()


def _keep_own(told: traceback.TracebackException, folder: Path) -> None:
    """Take foreign frames out of an error, of those that led to it, and of those in it."""
    own = [frame for frame in told.stack if _is_own(frame.filename, folder)]
    if own or _is_own(getattr(told, "filename", None) or "", folder):  # the latter: a syntax error
        told.stack[:] = own
    inside: list[traceback.TracebackException] = list(getattr(told, "exceptions", None) or ())
    for each in (told.__cause__, told.__context__, *inside):
        if each is not None:
            _keep_own(each, folder)


def _is_own(name: str, folder: Path) -> bool:
    path = Path(name)
    return (
        path.is_relative_to(folder)
        and not path.is_relative_to(_OURS)
        and _INSTALLED.isdisjoint(path.parts)
    )
