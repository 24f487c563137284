"""`alula openapi` and `alula asyncapi`: print the descriptions of an application."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from alula._cli.application import ApplicationTarget, load_application
from alula._cli.terminal import print_result, reporting_errors, stdout_to_stderr

if TYPE_CHECKING:
    from alula._cli.application import Application

__all__ = ["asyncapi", "describe_as_json", "openapi"]


def openapi(application: ApplicationTarget = "app:app") -> None:
    """Print the OpenAPI description of an application as JSON."""
    with reporting_errors(), stdout_to_stderr():
        description = describe_as_json(load_application(application))
    print_result(description)


def asyncapi(application: ApplicationTarget = "app:app") -> None:
    """Print the AsyncAPI description of the events that clients get as JSON."""
    with reporting_errors(), stdout_to_stderr():
        description = describe_as_json(load_application(application), events=True)
    print_result(description)


def describe_as_json(app: Application, *, events: bool = False) -> str:
    """Return a description of an application as JSON.

    Title and version are those of the `alula.openapi` plugin, if the application configures it.

    Args:
        app: The application.
        events: Whether to describe the events, in AsyncAPI, in place of the services.
    """
    from alula.openapi import describe, describe_events  # noqa: PLC0415  # for these commands alone

    options: dict[str, Any] = app.settings.get("openapi") or {}
    describe_all = describe_events if events else describe
    return json.dumps(describe_all(app, **options), indent=2, ensure_ascii=False)
