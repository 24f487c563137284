"""The questions that `alula new` asks on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from alula._cli.generator.project import DATABASES, Database
from alula._cli.terminal import UsageError

__all__ = ["ask_authentication", "ask_database", "ask_service", "can_ask"]


def can_ask() -> bool:
    """Tell whether somebody sits there who can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask_database() -> Database:
    """Ask where services keep their records."""
    typer.echo("Where do services keep their records?")
    typer.echo("  memory   gone when the application ends; nothing to install")
    typer.echo("  mongodb  MongoDB; on Linux, one for development comes along")
    while True:
        answer = typer.prompt("Database", default=DATABASES[0]).strip().lower()
        for database in DATABASES:
            if answer and database.startswith(answer):
                return database
        typer.echo(f"There are {' and '.join(DATABASES)}.")


def ask_authentication() -> bool:
    """Ask whether users sign in."""
    return typer.confirm("Do users sign in, with an address and a password?", default=False)


def ask_service(default: str, check: Callable[[str], None]) -> str | None:
    """Ask for the name of a first service until there is a good one; None for no service.

    Args:
        default: What is proposed.
        check: Raises `UsageError` for a name that can not be one; its text is shown.
    """
    while True:
        answer: str = typer.prompt("First service (- for none)", default=default).strip()
        if answer in {"-", ""}:
            return None
        try:
            check(answer)
        except UsageError as error:
            typer.echo(f"{error.message}.")
        else:
            return answer
