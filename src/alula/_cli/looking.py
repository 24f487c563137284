"""`alula routes`: a look at the services of an application."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import typer

from alula._cli.application import load_application
from alula._cli.describing import Target
from alula._cli.listing import MethodListing, ServiceListing, services_of
from alula._cli.terminal import print_result, reporting_errors, stdout_to_stderr, style
from alula._http import METHOD_HEADER

__all__ = ["routes"]

_HEAD: Final = ("SERVICE", "METHOD", "REQUEST", "HOOKS")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]


def routes(application: Target = "app:app", as_json: AsJson = False) -> None:
    """List the services of an application: methods, requests, and hooks in their order."""
    with reporting_errors(), stdout_to_stderr():
        services = services_of(load_application(application))
    if as_json:
        print_result(json.dumps(list(map(_mapping, services)), indent=2, ensure_ascii=False))
    elif services:
        print_result("\n".join(_table([_HEAD, *_rows(services)])))
    else:
        print_result("there are no services")


def _mapping(service: ServiceListing) -> dict[str, Any]:
    methods = [
        {**method._asdict(), "hooks": [hook._asdict() for hook in method.hooks]}
        for method in service.methods
    ]
    return {"path": service.path, "methods": methods}


def _rows(services: Sequence[ServiceListing]) -> Iterator[tuple[str, ...]]:
    for service in services:
        for method in service.methods:
            yield service.path, method.name, _request(method), _hooks(method)


def _request(method: MethodListing) -> str:
    if method.verb is None:
        return "(internal)"
    header = f" ({METHOD_HEADER.title()}: {method.header})" if method.header else ""
    return f"{method.verb:<6} {method.path}{header}"


def _hooks(method: MethodListing) -> str:
    """Return the hooks by type, such as ``before check, hash; after hide``."""
    groups: dict[str, list[str]] = {}
    for hook in method.hooks:
        groups.setdefault(hook.kind, []).append(_short(hook.name))
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in groups.items())


def _short(name: str) -> str:
    """Return the end of a name; of a hook that a function has made, the name of that function.

    Of Alula's own, it shows no underscores: that they are private says nothing of what they do.
    """
    maker, _, made = name.partition(".<locals>.")
    shown = maker.rpartition(".")[2]
    if made and shown.startswith("_"):
        shown = made.rpartition(".")[2]
    return shown.lstrip("_") if name.startswith("alula.") else shown


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table whose first row is its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for at, row in enumerate(rows):
        line = "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        yield line if at else style(line, bold=True)
