"""`alula new`: creates an application."""

from __future__ import annotations

from typing import Annotated

import typer

from alula._cli.commands.generate import DryRun, Force, SignIn
from alula._cli.terminal import reporting_errors

__all__ = ["new"]


def complete_database() -> list[str]:
    """Return the databases for shell completion, which must not import the templates."""
    return ["sqlite", "postgresql", "mongodb", "memory"]


Name = Annotated[str, typer.Argument(help="Its name, which is also the name of the new folder.")]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="sqlite|postgresql|mongodb|memory",
        autocompletion=complete_database,
        help="Where services keep their records; sqlite if unset.",
    ),
]
Authentication = Annotated[
    bool | None,
    typer.Option("--authentication/--no-authentication", help="Whether users sign in."),
]
Realtime = Annotated[
    bool | None,
    typer.Option("--realtime/--no-realtime", help="Whether clients get events as they happen."),
]
Cookies = Annotated[
    bool | None,
    typer.Option(
        "--cookies/--no-cookies", help="Whether browsers keep the tokens of users in cookies."
    ),
]
Files = Annotated[
    bool | None, typer.Option("--files/--no-files", help="Whether clients upload files.")
]
FirstService = Annotated[
    str | None, typer.Option("--service", help="The name of the first service; messages if unset.")
]
NoService = Annotated[bool, typer.Option("--no-service", help="Create no service yet.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Ask no questions, use the defaults.")]


def new(
    name: Name,
    database: DatabaseOption = None,
    authentication: Authentication = None,
    sign_in: SignIn = None,
    cookies: Cookies = None,
    realtime: Realtime = None,
    files: Files = None,
    service: FirstService = None,
    no_service: NoService = False,
    yes: Yes = False,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Create an application: a folder with code, tests and settings, ready to run.

    On a terminal, it asks for what no option says.
    """
    from alula._cli.generator.new_application import (  # noqa: PLC0415  # imports the templates
        create_application,
    )

    with reporting_errors():
        create_application(
            name,
            database=database,
            authentication=authentication,
            sign_in=sign_in,
            cookies=cookies,
            realtime=realtime,
            files=files,
            service=service,
            no_service=no_service,
            ask=not yes,
            force=force,
            dry_run=dry_run,
        )
