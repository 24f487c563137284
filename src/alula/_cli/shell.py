"""`alula shell`: a prompt with the application, set up as it is when it serves."""

from __future__ import annotations

import typer

from alula._cli.application import load_application
from alula._cli.describing import Target
from alula._cli.terminal import EXIT_FAILURE, reporting_errors

__all__ = ["shell"]


def shell(application: Target = "app:app") -> None:
    """Open a prompt where `app` and the services are there, and `await` works.

    Services have their paths as names: `await messages.find()`. Calls from here are internal ones.
    Where the input is no terminal, its lines are run, and a line that fails makes the exit code 1.
    """
    from alula._cli.console import open_console  # noqa: PLC0415  # only this command needs it

    with reporting_errors():
        if not open_console(load_application(application)):
            raise typer.Exit(EXIT_FAILURE)
