"""`alula new` and `alula generate`, as they are typed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from alula._cli.terminal import reporting_errors

__all__ = ["DryRun", "Force", "generate"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be written.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")]


def _kinds() -> list[str]:
    return ["around", "before", "after", "error"]


generate = typer.Typer(
    name="generate",
    help="Add to an application: services, hooks, middleware, users who sign in.",
    no_args_is_help=True,
)


@generate.command()
def service(
    name: Annotated[str, typer.Argument(help="Its name, such as messages.")],
    path: Annotated[
        str | None, typer.Option(help="Where it is reached; at its name unless given.")
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:TYPE,...",
            help="Its records: types are str, int, float, bool and id, the id of another record; a"
            " question mark behind the type lets the field be absent. Unless given, text:str.",
        ),
    ] = None,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Add a service: schema, hooks, the service itself, and tests."""
    _add("service", name, path=path, fields=fields, force=force, dry_run=dry_run)


@generate.command()
def hook(
    name: Annotated[str, typer.Argument(help="Its name, such as check-quota.")],
    kind: Annotated[
        str,
        typer.Option(
            metavar="around|before|after|error", autocompletion=_kinds, help="When it runs."
        ),
    ] = "around",
    service: Annotated[
        str | None, typer.Option(help="The service that it is for; all of them unless given.")
    ] = None,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Add a hook, around one service or around all of them."""
    _add("hook", name, kind=kind, service=service, force=force, dry_run=dry_run)


@generate.command()
def middleware(
    name: Annotated[str, typer.Argument(help="Its name, such as count-visits.")],
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Add middleware, which every request passes."""
    _add("middleware", name, force=force, dry_run=dry_run)


@generate.command()
def authentication(force: Force = False, dry_run: DryRun = False) -> None:
    """Add users who register and sign in."""
    _add("authentication", force=force, dry_run=dry_run)


def _add(what: str, *arguments: str, **options: Any) -> None:
    from alula._cli.generator import making  # noqa: PLC0415  # other commands need no templates

    with reporting_errors():
        getattr(making, f"add_{what}")(Path.cwd(), *arguments, **options)
