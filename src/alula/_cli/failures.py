"""What goes wrong in a command: what is not there, and what fails in the code of the user."""

from __future__ import annotations

import traceback
from pathlib import Path

from alula._stacks import is_user_code, keep_user_frames

__all__ = ["Missing", "report"]


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
    own = (folder or Path.cwd()).resolve()
    keep_user_frames(told, lambda name: Path(name).is_relative_to(own) and is_user_code(name))
    return "".join(told.format()).rstrip()
