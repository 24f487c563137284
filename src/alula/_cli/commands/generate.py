"""`alula generate`: adds services, hooks, middleware and authentication to an application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alula._cli.terminal import reporting_errors

__all__ = ["DryRun", "Force", "generate"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print which files would be written.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]


def complete_hook_kind() -> list[str]:
    """Return the kinds of hooks for shell completion, which must not import the templates."""
    return ["around", "before", "after", "error"]


ServiceName = Annotated[str, typer.Argument(help="Its name, such as messages.")]
ServicePath = Annotated[
    str | None, typer.Option("--path", help="The path to register it at; its name if unset.")
]
Fields = Annotated[
    str | None,
    typer.Option(
        "--fields",
        metavar="NAME:TYPE,...",
        help="The fields of its records. Types are str, int, float, bool, and id for the id of"
        " another record; a question mark after the type makes the field optional. text:str if"
        " unset.",
    ),
]
HookName = Annotated[str, typer.Argument(help="Its name, such as check-quota.")]
HookKind = Annotated[
    str,
    typer.Option(
        "--kind",
        metavar="around|before|after|error",
        autocompletion=complete_hook_kind,
        help="When it runs.",
    ),
]
HookService = Annotated[
    str | None, typer.Option("--service", help="The service to add it to; all services if unset.")
]
MiddlewareName = Annotated[str, typer.Argument(help="Its name, such as count-visits.")]

generate = typer.Typer(
    name="generate",
    help="Add to an application: services, hooks, middleware, authentication.",
    no_args_is_help=True,
)


@generate.command()
def service(
    name: ServiceName,
    path: ServicePath = None,
    fields: Fields = None,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Add a service: its schema, its hooks, its registration and its tests."""
    from alula._cli.generator import additions  # noqa: PLC0415  # imports the templates

    with reporting_errors():
        additions.add_service(
            Path.cwd(), name, path=path, fields=fields, force=force, dry_run=dry_run
        )


@generate.command()
def hook(
    name: HookName,
    kind: HookKind = "around",
    service: HookService = None,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Add a hook to one service or to all of them."""
    from alula._cli.generator import additions  # noqa: PLC0415  # imports the templates

    with reporting_errors():
        additions.add_hook(
            Path.cwd(), name, kind=kind, service=service, force=force, dry_run=dry_run
        )


@generate.command()
def middleware(name: MiddlewareName, force: Force = False, dry_run: DryRun = False) -> None:
    """Add middleware, which runs around every request."""
    from alula._cli.generator import additions  # noqa: PLC0415  # imports the templates

    with reporting_errors():
        additions.add_middleware(Path.cwd(), name, force=force, dry_run=dry_run)


@generate.command()
def authentication(force: Force = False, dry_run: DryRun = False) -> None:
    """Add users who register and sign in."""
    from alula._cli.generator import additions  # noqa: PLC0415  # imports the templates

    with reporting_errors():
        additions.add_authentication(Path.cwd(), force=force, dry_run=dry_run)
