"""`alula routes`: lists the services of an application, their methods and their hooks."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from alula._cli.application import ApplicationTarget, load_application
from alula._cli.service_listing import MethodListing, list_services
from alula._cli.terminal import print_result, reporting_errors, stdout_to_stderr, style
from alula._http import METHOD_HEADER

__all__ = ["routes"]

_HEAD: Final = ("SERVICE", "METHOD", "REQUEST", "SCOPE", "HOOKS")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]


def routes(application: ApplicationTarget = "app:app", as_json: AsJson = False) -> None:
    """List the services of an application: methods, requests, and hooks in their order.

    Where services accept API keys, a column has the scopes that these need.
    """
    with reporting_errors(), stdout_to_stderr():
        app = load_application(application)
        services = list_services(app.services)
        transports = {server.path: server.title for server in app.channel_registry.servers}
    if as_json:
        listing = [
            {
                "path": service.path,
                "methods": [
                    {**method._asdict(), "hooks": [hook._asdict() for hook in method.hooks]}
                    for method in service.methods
                ],
            }
            for service in services
        ]
        print_result(json.dumps(listing, indent=2, ensure_ascii=False))
    elif services:
        rows: list[tuple[str, ...]] = [
            _HEAD,
            *(
                (service.path, *_cells(method))
                for service in services
                for method in service.methods
            ),
        ]
        if not any(method.scopes for service in services for method in service.methods):
            place = _HEAD.index("SCOPE")
            rows = [row[:place] + row[place + 1 :] for row in rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        # The style comes last: its escape codes would count as width.
        if transports:
            width = max(map(len, transports))
            lines += ["", *(f"{path:<{width}}  {text}" for path, text in transports.items())]
        print_result("\n".join([style(lines[0], bold=True), *lines[1:]]))
    else:
        print_result("the application has no services")


def short_hook_name(name: str) -> str:
    """Return the last part of a hook's name; for a closure, the name of its factory.

    Alula's own hooks are shown without a leading underscore, which means nothing to the reader.
    """
    factory, _, closure = name.partition(".<locals>.")
    short = factory.rpartition(".")[2]
    if closure and short.startswith("_"):
        short = closure.rpartition(".")[2]
    return short.lstrip("_") if name.startswith("alula.") else short


def _cells(method: MethodListing) -> tuple[str, str, str, str]:
    """Return the cells of a method; its hooks are ``before check, hash; after hide``."""
    request = "(internal)"
    if method.verb is not None:
        header = f" ({METHOD_HEADER.title()}: {method.header})" if method.header else ""
        request = f"{method.verb:<6} {method.path}{header}"
    names: dict[str, list[str]] = {}
    for hook in method.hooks:
        names.setdefault(hook.kind, []).append(short_hook_name(hook.name))
    hooks = "; ".join(f"{kind} {', '.join(group)}" for kind, group in names.items())
    return method.name, request, " ".join(method.scopes), hooks
