"""Finds the application that a command is about."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

from alula._cli.terminal import UsageError

__all__ = ["load_application"]


def load_application(target: str, *, plain: bool = False) -> Any:
    """Return the application that ``module:name`` leads to, looked for in this folder too.

    A function of that name is called: it makes the application.

    Args:
        target: Where it is.
        plain: Whether one without services is one, too: what ``express()`` makes.

    Raises:
        UsageError: There is none; the text says what is missing.
        Exception: Whatever the module raises.
    """
    module_name, colon, name = target.partition(":")
    if not module_name or not colon or not name:
        raise UsageError(f"{target!r} names no application; write MODULE:NAME, such as app:app")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and what it imports is not
        raise UsageError(f"there is no module {module_name!r} here ({folder})") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"the module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    if inspect.isroutine(found):
        found = found()
    if hasattr(found, "services") or (plain and hasattr(found, "listen")):
        return found
    raise UsageError(f"{target!r} is {found!r} and no application of Alula: express(App())")
