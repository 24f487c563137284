"""`alula new`: creates an application."""

from __future__ import annotations

from typing import Annotated

import typer

from alula._cli.commands.generate import DryRun, Force
from alula._cli.terminal import reporting_errors

__all__ = ["new"]


def _databases() -> list[str]:
    return ["memory", "mongodb"]


def new(
    name: Annotated[str, typer.Argument(help="Its name, which is that of the new folder.")],
    database: Annotated[
        str | None,
        typer.Option(
            metavar="memory|mongodb",
            autocompletion=_databases,
            help="Where services keep their records.",
        ),
    ] = None,
    authentication: Annotated[
        bool | None, typer.Option(help="Whether users register and sign in.")
    ] = None,
    service: Annotated[
        str | None, typer.Option(help="The name of a first service; messages unless given.")
    ] = None,
    no_service: Annotated[bool, typer.Option("--no-service", help="No service yet.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, take defaults.")] = False,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Make a new application: a folder with code, tests and settings, ready to run.

    It asks for what no option says, if it can.
    """
    from alula._cli.generator import making  # noqa: PLC0415  # other commands need no templates

    with reporting_errors():
        making.new(
            name,
            database=database,
            authentication=authentication,
            service=service,
            no_service=no_service,
            ask=not yes,
            force=force,
            dry_run=dry_run,
        )
