"""Names that a shell completes: services of the application in this folder, and their methods."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import typer

from alula._cli.application import load_application

__all__ = ["complete_method", "complete_service"]


def complete_service(context: typer.Context, incomplete: str) -> list[str]:
    """Return the paths of services that begin so."""
    return [path for path in _services(context) if path.startswith(incomplete)]


def complete_method(context: typer.Context, incomplete: str) -> list[str]:
    """Return the methods of the service that begin so."""
    handle = _services(context).get(context.params.get("service", ""))
    methods = () if handle is None else handle.hook_methods()
    return [name for name in methods if name.startswith(incomplete)]


def _services(context: typer.Context) -> dict[str, Any]:
    """Return the services of the application, none where it can not be loaded."""
    if context.params.get("url"):
        return {}
    quiet = io.StringIO()  # what it prints would be taken for names
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        try:
            found: dict[str, Any] = load_application(
                context.params.get("app") or "app:app"
            ).services
        except BaseException:  # noqa: BLE001  # whatever it is, there is nobody here to read it
            return {}
    return found
