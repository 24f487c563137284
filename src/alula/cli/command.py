"""The commands, as they are typed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from alula.cli.application import load_application
from alula.cli.client_code import client_code
from alula.cli.description import description_at, description_of

__all__ = ["main"]

main = typer.Typer(
    help="Services, seen from the command line.", no_args_is_help=True, add_completion=False
)

Target = Annotated[
    str, typer.Argument(metavar="MODULE:NAME", help="The application, such as app:app.")
]
Server = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:NAME|URL", help="The application, such as app:app, or a running server."
    ),
]


@main.callback()
def alula() -> None:
    """Services, seen from the command line."""


@main.command()
def openapi(application: Target) -> None:
    """Print the OpenAPI description of an application as JSON."""
    with _told():
        found = load_application(application)
    typer.echo(description_of(found))


@main.command()
def client(server: Server) -> None:
    """Print a Python module with the services of an application or server, and their types."""
    remote = server.startswith(("http://", "https://"))
    with _told():
        found = description_at(server) if remote else load_application(server)
    description = found if remote else json.loads(description_of(found))
    typer.echo(client_code(description), nl=False)


@contextmanager
def _told() -> Iterator[None]:
    """Tell of what is not there on the standard error, and end."""
    try:
        yield
    except LookupError as error:
        typer.echo(f"alula: {error.args[0]}", err=True)
        raise typer.Exit(2) from None
