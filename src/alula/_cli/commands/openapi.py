"""`alula openapi` and `alula asyncapi`: print the descriptions of an application."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alula._cli.application import ApplicationTarget, load_application
from alula._cli.terminal import print_result, reporting_errors, stdout_to_stderr

if TYPE_CHECKING:
    from alula._cli.application import Application

__all__ = ["asyncapi", "describe_as_json", "openapi"]


ServerURL = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="The URL of the application, which generated clients call: https://host/prefix.",
    ),
]


def openapi(application: ApplicationTarget = "app:app", server: ServerURL = None) -> None:
    """Print the OpenAPI description of an application as JSON."""
    with reporting_errors(), stdout_to_stderr():
        description = describe_as_json(load_application(application), server=server)
    print_result(description)


def asyncapi(application: ApplicationTarget = "app:app") -> None:
    """Print the AsyncAPI description of the events that clients get as JSON."""
    with reporting_errors(), stdout_to_stderr():
        description = describe_as_json(load_application(application), events=True)
    print_result(description)


def describe_as_json(app: Application, *, events: bool = False, server: str | None = None) -> str:
    """Return a description of an application as JSON.

    Title and version are those of the `alula.openapi` plugin, if the application configures it.

    Args:
        app: The application.
        events: Whether to describe the events, in AsyncAPI, instead of the services.
        server: The URL of the application, None for that of the plugin.
    """
    from alula.openapi import describe, describe_events  # noqa: PLC0415  # for these commands alone

    options: dict[str, Any] = app.settings.get("openapi") or {}
    if events:
        description = describe_events(app, **options)
    else:
        server = server or app.settings.get("openapi server")
        error = app.settings.get("openapi error")
        description = describe(app, **options, server=server, error=error)
    return json.dumps(description, indent=2, ensure_ascii=False)
