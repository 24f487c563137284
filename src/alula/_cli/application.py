"""Loads the application that a command works on."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

import typer

from alula._app import App
from alula._cli.terminal import UsageError

if TYPE_CHECKING:
    from alula.express import ExpressApplication

__all__ = ["Application", "ApplicationTarget", "load_application", "load_object"]

Application: TypeAlias = "App | ExpressApplication"

ApplicationTarget = Annotated[
    str, typer.Argument(metavar="MODULE:NAME", help="The application.", show_default=True)
]


def load_application(target: str) -> Application:
    """Import the application at ``module:name``.

    Raises:
        UsageError: The application does not exist; the message says what is missing.
        Exception: Whatever the module raises.
    """
    app = load_object(target)
    if not hasattr(app, "services"):
        raise UsageError(f"{target!r} is {app!r}, not an Alula application such as express(App())")
    return cast("Application", app)


def load_object(target: str) -> object:
    """Import the object at ``module:name``, also from the current folder.

    A function with that name is called and returns the object.

    Raises:
        UsageError: The module or the name does not exist.
        Exception: Whatever the module raises.
    """
    module_name, colon, name = target.partition(":")
    if not module_name or not colon or not name:
        raise UsageError(
            f"{target!r} is not the name of an application; write MODULE:NAME, such as app:app"
        )
    # A console script has its own folder on `sys.path` instead of the current one.
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        value: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # Only the target itself, or a package above it, is a usage error. A missing module that
        # the target imports is an error in its code, with a traceback.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"cannot find the module {module_name!r} in {folder}") from None
    for part in name.split("."):
        if not hasattr(value, part):
            raise UsageError(f"the module {module_name!r} has no {name!r}")
        value = getattr(value, part)
    # Not `callable`: ASGI applications are callable as well.
    return value() if inspect.isroutine(value) else value
