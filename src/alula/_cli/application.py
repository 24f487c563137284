"""Loads the application that a command works on."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, cast

import typer

from alula._app import App
from alula._cli.terminal import UsageError
from alula.configuration import environment_name

if TYPE_CHECKING:
    from alula.express import ExpressApplication

__all__ = ["Application", "ApplicationTarget", "load_application", "load_object", "set_up"]

Application: TypeAlias = "App | ExpressApplication"

_MAKERS: Final = frozenset({"api", "express", "make_app", "create_app"})
"""Names of functions that return an application."""

_MOST_FILES: Final = 50

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


async def set_up(app: Application) -> None:
    """Set an application up for a command that calls it in this process.

    As with `alula dev`, it runs in debug mode in development, unless ALULA_DEBUG says otherwise. So
    what development needs is there: a mailer that prints its mails, for example.

    Raises:
        Exception: Whatever the setup raises.
    """
    if environment_name(folder=Path.cwd()) == "development" and "ALULA_DEBUG" not in os.environ:
        app.debug = True
    await app.setup()


def load_object(target: str) -> object:
    """Import the object at ``module:name``, also from the current folder.

    A function with that name is called and returns the object.

    Raises:
        UsageError: The module or the name does not exist.
        Exception: Whatever the module raises.
    """
    folder = Path.cwd()
    module_name, colon, name = target.partition(":")
    if module_name.endswith(".py"):  # the name of a file, as the shell completes it
        module_name = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise UsageError(
            f"{target!r} names a file; write MODULE:NAME"
            f"{_suggestion(folder, module_name, name) or f', such as {module_name}:app'}"
        )
    if not module_name or not colon or not name:
        raise UsageError(
            f"{target!r} is not the name of an application; write MODULE:NAME, such as app:app"
            f"{_suggestion(folder, module_name)}"
        )
    # A console script has its own folder on `sys.path` instead of the current one.
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        value: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # Only the target itself, or a package above it, is a usage error. A missing module that
        # the target imports is an error in its code, with a traceback.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UsageError(
            f"cannot find the module {module_name!r} in {folder}{_suggestion(folder)}"
        ) from None
    for part in name.split("."):
        if not hasattr(value, part):
            raise UsageError(
                f"the module {module_name!r} has no {name!r}{_suggestion(folder, module_name)}"
            )
        value = getattr(value, part)
    # Not `callable`: ASGI applications are callable as well.
    return value() if inspect.isroutine(value) else value


def _suggestion(folder: Path, module: str = "", name: str = "") -> str:
    """Return the end of a message that names the applications of a folder; empty without any.

    Args:
        folder: The folder.
        module: The only module to look at, if there is such a file.
        name: The name that was given, which counts most.
    """
    own = folder / f"{module.replace('.', '/')}.py"
    paths = [own] if module and own.is_file() else sorted(folder.glob("*.py"))[:_MOST_FILES]
    targets = [
        f"{path.relative_to(folder).with_suffix('').as_posix().replace('/', '.')}:{each}"
        for path in paths
        for each in _applications_in(path)
    ]
    targets = [target for target in targets if name and target.endswith(f":{name}")] or targets
    return f"; did you mean {' or '.join(targets[:3])}?" if targets else ""


def _applications_in(path: Path) -> list[str]:
    """Return the names of a module that hold an application, without running it."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return []
    found: list[str] = []
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value)
            ) if any(isinstance(part, ast.Name) and part.id in _MAKERS for part in ast.walk(value)):
                found.append(name)
            case ast.FunctionDef(name) if name in _MAKERS:
                found.append(name)
            case _:
                pass
    # What a function of the module made, such as `make_app`, is the application itself.
    return sorted(found, key=lambda name: name in _MAKERS)
