"""`alula openapi`: prints the OpenAPI description of an application."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from alula._cli.application import ApplicationTarget, load_application
from alula._cli.terminal import print_result, reporting_errors, stdout_to_stderr

if TYPE_CHECKING:
    from alula._cli.application import Application

__all__ = ["describe_as_json", "openapi"]


def openapi(application: ApplicationTarget = "app:app") -> None:
    """Print the OpenAPI description of an application as JSON."""
    with reporting_errors(), stdout_to_stderr():
        description = describe_as_json(load_application(application))
    print_result(description)


def describe_as_json(app: Application) -> str:
    """Return the OpenAPI description of an application as JSON.

    Title and version are those of the `alula.openapi` plugin, if the application configures it.
    """
    from alula.openapi._document import describe  # noqa: PLC0415  # only this command needs it

    options = app.settings.get("openapi") or {}
    return json.dumps(describe(app, **options), indent=2, ensure_ascii=False)
