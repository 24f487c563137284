"""All commands of `alula`, one module each.

A command module imports what it needs when the command runs: `alula --help` and shell completion
load neither the web server nor the templates.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from alula._cli.commands import (
    api_key,
    call,
    client,
    dev,
    generate,
    migrate,
    new,
    openapi,
    routes,
    serve,
    shell,
)
from alula._cli.terminal import print_result

__all__ = ["main"]

main = typer.Typer(
    name="alula",
    help="Create, run and inspect Alula applications.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # errors show the user's own code, see `reporting_errors`
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(requested: bool) -> None:
    """Print the version and exit, if the option was given.

    Raises:
        typer.Exit: After printing.
    """
    if requested:
        print_result(f"alula {version('alula')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=show_version, is_eager=True, help="Show the version and exit."
    ),
]


@main.callback()
def options(shows_version: Version = False) -> None:  # the option's callback does the work
    """Create, run and inspect Alula applications."""


main.command()(new.new)
main.add_typer(generate.generate)
main.command()(migrate.migrate)
main.command()(dev.dev)
main.command()(serve.serve)
main.command()(routes.routes)
main.command()(call.call)
main.command()(shell.shell)
main.command()(openapi.openapi)
main.command()(openapi.asyncapi)
main.command()(client.client)
main.add_typer(api_key.api_key)
