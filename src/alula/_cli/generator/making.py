"""What the commands do: check what was typed, make a plan, carry it out, tell what was done."""

from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import typer

from alula._cli.generator import names, questions
from alula._cli.generator.additions import (
    KINDS,
    plan_authentication,
    plan_hook,
    plan_middleware,
    plan_service,
)
from alula._cli.generator.fields import DEFAULT_FIELDS
from alula._cli.generator.new_application import plan_application
from alula._cli.generator.plan import Plan
from alula._cli.generator.project import DATABASES, Choices, Database, find_project
from alula._cli.terminal import EXIT_FAILURE, UsageError, print_error, print_result, style

__all__ = ["add_authentication", "add_hook", "add_middleware", "add_service", "new"]

_SERVICE: Final = "messages"
_WIDTH: Final = 9  # of the longest word for what was done


def new(
    name: str,
    *,
    database: str | None,
    authentication: bool | None,
    service: str | None,
    no_service: bool,
    ask: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Make an application in a folder of its name; what is None is asked for, or a default.

    Raises:
        UsageError: A name is none, or there is something in the folder.
        typer.Exit: Something was left to the user.
    """
    names.check_application(name)
    folder = Path.cwd() / name
    if not force and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} is there already and not empty; choose another name, or --force"
        )
    ask = ask and questions.can_ask()
    kept = _database(database, ask)
    if authentication is None:
        authentication = questions.ask_authentication() if ask else False
    first = _first_service(service, no_service, ask, authentication)
    choices = Choices(kept, authentication, f"{name.replace('-', '_').upper()}_")
    _carry_out(plan_application(folder, name, choices, first), force=force, dry_run=dry_run)
    if not dry_run:
        print_result(_NEXT.format(name=name, install=_install_command()))


def add_service(
    here: Path, name: str, *, path: str | None, fields: str | None, force: bool, dry_run: bool
) -> None:
    """Add a service to the application that a folder belongs to.

    Raises:
        UsageError: There is no application, a name is none, or a file would be overwritten.
        typer.Exit: Something was left to the user.
    """
    names.check_service(name)
    path = names.check_path(name if path is None else path)
    plan = plan_service(find_project(here), name, path, fields or DEFAULT_FIELDS)
    _carry_out(plan, force=force, dry_run=dry_run)


def add_hook(
    here: Path, name: str, *, kind: str, service: str | None, force: bool, dry_run: bool
) -> None:
    """Add a hook to the application that a folder belongs to.

    Raises:
        UsageError: As `add_service`, or there is no such service or kind of hook.
        typer.Exit: Something was left to the user.
    """
    function = names.check_function("a hook", name)
    if kind not in KINDS:
        raise UsageError(f"{kind!r} is no kind of hook; there are {', '.join(KINDS)}")
    project = find_project(here)
    if service is not None:
        folder = project.folder / "services" / names.check_service(service).replace("-", "_")
        if not folder.is_dir():
            raise UsageError(f"there is no service {service!r}: no folder {folder}")
    _carry_out(plan_hook(project, function, kind, service), force=force, dry_run=dry_run)


def add_middleware(here: Path, name: str, *, force: bool, dry_run: bool) -> None:
    """Add middleware to the application that a folder belongs to.

    Raises:
        UsageError: As `add_service`.
        typer.Exit: Something was left to the user.
    """
    function = names.check_function("middleware", name)
    _carry_out(plan_middleware(find_project(here), function), force=force, dry_run=dry_run)


def add_authentication(here: Path, *, force: bool, dry_run: bool) -> None:
    """Add users who sign in to the application that a folder belongs to.

    Raises:
        UsageError: As `add_service`.
        typer.Exit: Something was left to the user.
    """
    _carry_out(plan_authentication(find_project(here)), force=force, dry_run=dry_run)
    print_result(_PROTECT)


def _database(given: str | None, ask: bool) -> Database:
    if given is None:
        return questions.ask_database() if ask else DATABASES[0]
    for database in DATABASES:
        if given == database:
            return database
    raise UsageError(f"{given!r} is no database; there are {' and '.join(DATABASES)}")


def _first_service(given: str | None, none: bool, ask: bool, authentication: bool) -> str | None:
    """Return the name of the first service, None for no service."""
    if none and given is not None:
        raise UsageError("--service and --no-service can not both be")
    if none:
        return None

    def check(name: str) -> None:
        names.check_path(names.check_service(name))
        if authentication and name in {"users", "authentication"}:
            raise UsageError(
                f"the service {name!r} comes with --authentication; choose another name"
            )

    if given is None and ask:
        return questions.ask_service(_SERVICE, check)
    first = _SERVICE if given is None else given
    check(first)
    return first


def _carry_out(plan: Plan, *, force: bool, dry_run: bool) -> None:
    """Write, and tell of each file; in the end, of what is left to do.

    Raises:
        UsageError: A file would be overwritten.
        typer.Exit: Something could not be added.
    """
    for deed, path in plan.apply(force=force, dry_run=dry_run):
        colour = _COLOURS[deed]
        print_result(f"{style(f'{deed:>{_WIDTH}}', fg=colour)}  {path}")
    if dry_run:
        print_result("Nothing was written: this was a dry run.")
    for todo in plan.todos:
        print_error(f"{todo.path} is as it was: {todo.reason}. Add {todo.where}:\n\n{todo.code}\n")
    if plan.todos:
        raise typer.Exit(EXIT_FAILURE)


def _install_command() -> str:
    """Return what installs an application with the Alula that made it.

    A copy that came from a folder, a file or a repository may be on no index.
    """
    source = json.loads(distribution("alula").read_text("direct_url.json") or "{}")
    url, repository = source.get("url"), source.get("vcs_info")
    if repository:
        url = f"{repository['vcs']}+{url}@{repository['commit_id']}"
    return f"pip install 'alula @ {url}' '.[dev]'" if url else "pip install '.[dev]'"


_COLOURS: Final = {
    "create": "green",
    "change": "yellow",
    "overwrite": "red",
    "same": "bright_black",
}

_NEXT: Final = """
Go on with:

  cd {name}
  {install}    what it needs; in a virtual environment
  pytest    its tests
  alula dev    run it, and again when a file changes

README.md says where everything is."""

_PROTECT: Final = """
Users can register and sign in. Install what that needs: pip install '.[dev]'

A service is for those who are signed in where its hooks say so:

  from alula.authentication import authenticate
  app.service("...").hooks(around=[authenticate("jwt")])"""
