"""Creates an application: asks what no option says, and writes its files."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Final

import typer

from alula._cli.generator.additions import (
    accounts_added,
    authentication_paths,
    create_accounts,
    create_authentication,
    create_service,
    create_uploads,
)
from alula._cli.generator.fields import DEFAULT_FIELDS, parse_fields
from alula._cli.generator.insertion import literal_alias
from alula._cli.generator.names import check_application, check_path, check_service
from alula._cli.generator.plan import Plan, carry_out
from alula._cli.generator.project import DATABASES, Choices, Database, Project
from alula._cli.generator.sign_in import PROVIDERS, SignInProvider, parse_providers
from alula._cli.terminal import UsageError, print_result

__all__ = [
    "can_ask",
    "compatible_versions",
    "create_application",
    "install_command",
    "plan_application",
]

_DEFAULT_SERVICE: Final = "messages"
_EXTRAS: Final = ("server", "schema", "cli")
_DATABASE_EXTRAS: Final = {
    "sqlite": ("sql", "migrations"),
    "postgresql": ("postgresql", "migrations"),
    "mongodb": ("mongodb",),
    "memory": (),
}
_NEXT_STEPS: Final = """
Next steps:

  cd {name}
  {install}    its dependencies, in a virtual environment
  pytest    its tests
  alula dev    run it, with a restart when a file changes

README.md says where everything is."""


def create_application(
    name: str,
    *,
    database: str | None,
    authentication: bool | None,
    sign_in: str | None,
    cookies: bool | None,
    realtime: bool | None,
    files: bool | None,
    service: str | None,
    no_service: bool,
    ask: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Create an application in a folder of its name.

    Args:
        name: Its name.
        database: Where services keep their records; None to ask, or for the default.
        authentication: Whether users sign in; None as for ``database``.
        sign_in: The providers with whom they may sign in, as in `parse_providers`; None as for
            ``database``.
        cookies: Whether browsers keep the tokens of users in cookies; None as for ``database``.
        realtime: Whether clients get events as they happen; None as for ``database``.
        files: Whether clients upload files; None as for ``database``.
        service: The name of the first service; None as for ``database``.
        no_service: Whether to create no service.
        ask: Whether questions may be asked, if there is a terminal.
        force: Whether existing files may be overwritten.
        dry_run: Whether only to print what would be written.

    Raises:
        UsageError: A name is not valid, the folder is not empty, or there are no users to have
            cookies or to sign in.
        typer.Exit: A change is left to the user.
    """
    check_application(name)
    folder = Path.cwd() / name
    if not force and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} exists already and is not empty; choose another name, or --force"
        )
    ask = ask and can_ask()
    providers = [] if sign_in is None else parse_providers(sign_in)
    if cookies and authentication is False:
        raise UsageError("--cookies has no users whose tokens they keep; add --authentication")
    if providers and authentication is False:
        raise UsageError("--sign-in has no users who sign in; add --authentication")
    chosen_database = _choose_database(database, ask)

    def choose(option: bool | None, question: str) -> bool:
        return ask and typer.confirm(question, default=False) if option is None else option

    if not cookies and not providers:
        question = "Do users sign in, with an email address and a password?"
        authentication = choose(authentication, question)
    if authentication is not False:
        if ask and sign_in is None:
            providers = _ask_for_providers()
        cookies = choose(cookies, "Do browsers keep the tokens of users in cookies?")
    realtime = choose(realtime, "Do clients get events as they happen, over socket.io?")
    files = choose(files, "Do clients upload files?")
    choices = Choices(
        database=chosen_database,
        authentication=authentication is not False,
        prefix=f"{name.replace('-', '_').upper()}_",
        realtime=realtime,
        cookies=bool(cookies),
        files=files,
    )
    parts = {
        "users": ("--authentication", choices.authentication),
        "authentication": ("--authentication", choices.authentication),
        "accounts": ("--sign-in", bool(providers)),
        "uploads": ("--files", choices.files),
    }
    taken = {name: part for name, (part, is_chosen) in parts.items() if is_chosen}
    first_service = _choose_service(service, no_service, ask, taken)
    plan = plan_application(folder, name, choices, first_service, providers)
    carry_out(plan, force=force, dry_run=dry_run)
    if not dry_run:
        print_result(_NEXT_STEPS.format(name=name, install=install_command()))
        if providers:
            print_result(accounts_added(choices, providers, is_new=True))


def can_ask() -> bool:
    """Tell whether a user at a terminal can answer questions."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def compatible_versions(version: str) -> str:
    """Return the requirement for versions of Alula that work with an application of this one.

    A minor version before 1.0 may change the interface; from then on, only a major version may.
    """
    major, minor, *_ = map(int, version.split(".")[:2])
    limit = f"0.{minor + 1}" if major == 0 else str(major + 1)
    return f">={major}.{minor},<{limit}"


def _choose_database(option: str | None, ask: bool) -> Database:
    if option is not None:
        for database in DATABASES:
            if option == database:
                return database
        raise UsageError(f"{option!r} is not a database; use {', '.join(DATABASES)}")
    if not ask:
        return DATABASES[0]
    typer.echo("Where do services keep their records?")
    typer.echo("  sqlite      a file; nothing to install")
    typer.echo("  postgresql  PostgreSQL; a server for development is included")
    typer.echo("  mongodb     MongoDB; on Linux, a server for development is included")
    typer.echo("  memory      lost when the application ends; nothing to install")
    while True:
        answer = typer.prompt("Database", default=DATABASES[0]).strip().lower()
        for database in DATABASES:
            if answer and database.startswith(answer):
                return database
        typer.echo(f"Enter {', '.join(DATABASES)}.")


def _ask_for_providers() -> list[SignInProvider]:
    typer.echo(f"With whom may they sign in, too: {', '.join(PROVIDERS)}?")
    typer.echo("  oidc is any other that speaks OpenID Connect, such as Keycloak or Okta")
    while True:
        answer: str = typer.prompt("Some of them, with commas (- for none)", default="-").strip()
        if answer in {"-", ""}:
            return []
        try:
            return parse_providers(answer)
        except UsageError as error:
            typer.echo(f"{error.message}.")


def _choose_service(
    option: str | None, no_service: bool, ask: bool, taken: Mapping[str, str]
) -> str | None:
    """Return the name of the first service, None for no service.

    Names that are taken have the option that takes them.
    """
    if no_service and option is not None:
        raise UsageError("--service and --no-service cannot be used together")
    if no_service:
        return None

    def check(name: str) -> None:
        check_path(check_service(name))
        if name in taken:
            raise UsageError(f"the service {name!r} is part of {taken[name]}; choose another name")

    if option is not None or not ask:
        name = _DEFAULT_SERVICE if option is None else option
        check(name)
        return name
    while True:
        answer: str = typer.prompt("First service (- for none)", default=_DEFAULT_SERVICE).strip()
        if answer in {"-", ""}:
            return None
        try:
            check(answer)
        except UsageError as error:
            typer.echo(f"{error.message}.")
        else:
            return answer


def plan_application(
    folder: Path,
    name: str,
    choices: Choices,
    service: str | None,
    providers: Sequence[SignInProvider] = (),
) -> Plan:
    """Return the plan of a new application.

    Args:
        folder: Where.
        name: Its name.
        choices: What was chosen.
        service: The name of its first service, None for none.
        providers: With whom people sign in; with some, the application has accounts.
    """
    plan = Plan(folder)
    extras = [
        *_EXTRAS,
        *_DATABASE_EXTRAS[choices.database],
        *(["auth"] if choices.authentication else []),
        *(["realtime"] if choices.realtime else []),
        *(["files"] if choices.files else []),
    ]
    services = [
        *(["users", "authentication"] if choices.authentication else []),
        *(["uploads"] if choices.files else []),
        *([service] if service is not None else []),
    ]
    values = {
        **choices.values(),
        "name": name,
        "module": name.replace("-", "_"),
        "title": name.replace("-", " ").replace("_", " ").capitalize(),
        "services": [path.replace("-", "_") for path in services],
        "service": service,
        "service_path": literal_alias(
            "ServicePath",
            [
                *(authentication_paths(choices) if choices.authentication else ()),
                *(["uploads"] if choices.files else ()),
                *([service] if service is not None else []),
            ],
        ),
        "paths": ", ".join(f'"/{path}"' for path in services),
        "extras": ",".join(extras),
        "versions": compatible_versions(version("alula")),
        "secret": secrets.token_urlsafe(48),
    }
    plan.create_from_templates("application", values)
    if choices.authentication:
        create_authentication(plan, name, choices)
    if providers:
        features = {"totp": False, "passkeys": False, "api_keys": False}
        create_accounts(plan, Project(folder, name, choices), providers, features)
    if choices.files:
        create_uploads(plan, choices)
    if service is not None:
        fields = parse_fields(DEFAULT_FIELDS, references=choices.mongodb)
        create_service(plan, service, service, fields, choices)
    return plan


def install_command() -> str:
    """Return the command that installs an application with the Alula that has created it.

    An Alula that was installed from a folder, a file or a repository may not be on any index.
    """
    # The record of the origin of an installed package, see PEP 610.
    source = json.loads(distribution("alula").read_text("direct_url.json") or "{}")
    url, repository = source.get("url"), source.get("vcs_info")
    if repository:
        url = f"{repository['vcs']}+{url}@{repository['commit_id']}"
    return f"pip install 'alula @ {url}' '.[dev]'" if url else "pip install '.[dev]'"
