"""`alula openapi` and `alula client`: what an application offers, for other programs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from alula._cli.application import load_application
from alula._cli.client_code import client_code
from alula._cli.description import description_at, description_of
from alula._cli.terminal import print_result, reporting_errors, stdout_to_stderr

__all__ = ["client", "openapi"]

Target = Annotated[
    str, typer.Argument(metavar="[MODULE:NAME]", help="The application.", show_default=True)
]
Server = Annotated[
    str,
    typer.Argument(
        metavar="[MODULE:NAME|URL]", help="The application, or the address of a running server."
    ),
]


def openapi(application: Target = "app:app") -> None:
    """Print the OpenAPI description of an application as JSON."""
    with reporting_errors(), stdout_to_stderr():
        description = description_of(load_application(application))
    print_result(description)


def client(server: Server = "app:app") -> None:
    """Print a Python module with the services of an application or server, and their types."""
    remote = server.startswith(("http://", "https://"))
    with reporting_errors(), stdout_to_stderr():
        found = description_at(server) if remote else load_application(server)
        code = client_code(found if remote else json.loads(description_of(found)))
    print_result(code, newline=False)
