"""What `alula dev` prints once the application has started."""

from __future__ import annotations

from typing import Any

import typer

from alula._cli.listing import DOCS_SETTING, services_of
from alula._cli.terminal import style

__all__ = ["announce"]


def announce(app: Any, server: Any) -> None:
    """Print where an application is, its services, and where its documentation is.

    Without services, only the former: such a one may be there to say why no other is.
    """
    services = services_of(app) if hasattr(app, "services") else []
    if not services:
        typer.echo(f"  {server.url}")
        return
    width = max(len(service.path) for service in services)
    lines = [
        f"    /{service.path:<{width}}  {style(', '.join(service.open), dim=True)}"
        for service in services
    ]
    page = app.settings.get(DOCS_SETTING)
    if page:
        lines += ["", f"  Documentation: {style(server.url + page, fg='cyan')}"]
    head = style(server.url, fg="green", bold=True)
    typer.echo("\n".join(["", f"  {head}", "", *lines, ""]))
