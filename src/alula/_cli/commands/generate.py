"""`alula generate`: adds services, hooks, authentication, migrations... to an application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alula._cli.application import ApplicationTarget
from alula._cli.commands.migrate import open_migrations, run_on_database
from alula._cli.terminal import UsageError, print_error, print_result, reporting_errors, style

__all__ = ["DryRun", "Force", "SignIn", "generate"]

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
Totp = Annotated[bool, typer.Option("--totp", help="Codes of an authenticator app.")]
Passkeys = Annotated[bool, typer.Option("--passkeys", help="Passkeys.")]
ApiKeys = Annotated[bool, typer.Option("--api-keys", help="API keys for programs.")]
SignIn = Annotated[
    str | None,
    typer.Option(
        "--sign-in",
        metavar="NAME,...",
        help="The providers with whom people sign in: google, github, gitlab, microsoft, apple,"
        " and oidc for any that speaks OpenID Connect.",
    ),
]
MigrationName = Annotated[str, typer.Argument(help="What it does, such as add-room.")]

generate = typer.Typer(
    name="generate",
    help="Add to an application: services, hooks, middleware, users, accounts, migrations.",
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


@generate.command()
def accounts(
    totp: Totp = False,
    passkeys: Passkeys = False,
    api_keys: ApiKeys = False,
    sign_in: SignIn = None,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Add accounts: confirmed addresses, forgotten passwords, and a page for them."""
    from alula._cli.generator import additions  # noqa: PLC0415  # imports the templates

    with reporting_errors():
        additions.add_accounts(
            Path.cwd(),
            totp=totp,
            passkeys=passkeys,
            api_keys=api_keys,
            sign_in=sign_in,
            force=force,
            dry_run=dry_run,
        )


@generate.command()
def migration(name: MigrationName, application: ApplicationTarget = "app:app") -> None:
    """Write the migration from the last one to the models: what `alula migrate` then runs."""
    with reporting_errors():
        migrations = open_migrations(application)
        words = name.replace("-", " ").replace("_", " ").strip()
        if not words:
            raise UsageError("a migration needs a name, such as add-room")
        written = run_on_database(migrations, migrations.generate(words))
        if written is None:
            raise UsageError(
                "nothing has changed: the migrations make the tables of the models already"
            )
        path, lacking = written
        print_result(f"{style('   create', fg='green')}  migrations/{path.name}")
        for column in lacking:
            print_error(
                f"{column} may not be null and has no server_default: alula migrate fails if there"
                " are records. Give it a server_default in the model and in the migration"
            )
        print_result("Look through it; then run: alula migrate")
