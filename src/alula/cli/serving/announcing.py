"""What `alula dev` prints once the application has started."""

from __future__ import annotations

from typing import Any

import typer

from alula.cli.listing import DOCS_SETTING, services_of
from alula.cli.terminal import paint

__all__ = ["announce"]


def announce(app: Any, server: Any) -> None:
    """Print where the application is, its services, and where its documentation is."""
    lines = ["", f"  {paint(server.url, fg='green', bold=True)}", ""]
    services = services_of(app) if hasattr(app, "services") else []
    width = max((len(service.path) for service in services), default=0)
    lines += [
        f"    /{service.path:<{width}}  {paint(', '.join(service.open), dim=True)}"
        for service in services
    ]
    page = app.settings.get(DOCS_SETTING)
    if page:
        lines += ["", f"  Documentation: {paint(server.url + page, fg='cyan')}"]
    typer.echo("\n".join([*lines, ""]))
