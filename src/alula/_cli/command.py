"""The command `alula`: which commands there are. What they do is in modules of their own.

Those modules load what they need when they run, so that `alula --help` and the completion of a
shell are quick.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from alula._cli.calling import call
from alula._cli.describing import client, openapi
from alula._cli.generator.command import generate, new
from alula._cli.looking import routes
from alula._cli.running import dev, serve
from alula._cli.shell import shell
from alula._cli.terminal import print_result

__all__ = ["main"]

main = typer.Typer(
    name="alula",
    help="Make, run and look at applications of Alula.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # errors show the user's own code, see alula._cli.failures
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        print_result(f"alula {version('alula')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
]


@main.callback()
def begin(shows_version: Version = False) -> None:  # its callback does the work
    """Make, run and look at applications of Alula."""


# Make.
main.command()(new)
main.add_typer(generate)

# Run and look.
main.command()(dev)
main.command()(serve)
main.command()(routes)
main.command()(call)
main.command()(shell)

# For other programs.
main.command()(openapi)
main.command()(client)
