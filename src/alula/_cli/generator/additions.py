"""What `alula generate` adds to an application: new files, and the lines that register them."""

from __future__ import annotations

import ast
import re
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from alula._cli.generator import names
from alula._cli.generator.fields import (
    DEFAULT_FIELDS,
    Field,
    column_imports,
    example_record,
    parse_fields,
)
from alula._cli.generator.insertion import (
    add_after,
    add_argument,
    add_extra,
    add_field,
    add_import,
    add_line,
    add_literal,
    add_statement,
    add_whole_import,
    append_lines,
    import_lines,
    replace_line,
)
from alula._cli.generator.plan import Plan, carry_out
from alula._cli.generator.project import Choices, Project, find_project
from alula._cli.generator.sign_in import SignInProvider, parse_providers
from alula._cli.terminal import UsageError, print_result

__all__ = [
    "HOOK_KINDS",
    "add_accounts",
    "add_authentication",
    "add_hook",
    "add_middleware",
    "add_service",
    "authentication_paths",
    "create_authentication",
    "create_service",
    "create_uploads",
    "registered_path",
]

HOOK_KINDS: Final = {
    "around": ("around", ""),
    "before": ("before", "context.data and context.params can be changed, or an error raised."),
    "after": ("after", "context.result can be changed."),
    "error": ("after the failure of", "context.error is the exception, and can be replaced."),
}
"""When each kind of hook runs, and what it can do; both go into its template."""

_SECRET: Final = "AUTHENTICATION_SECRET"  # noqa: S105  # the name of a variable
_SERVICES: Final = ("services/__init__.py", "add_services")
_AUTHENTICATION_ADDED: Final = """
Users can register and sign in. Install what that needs: pip install '.[dev]'

To require users to be signed in, add this hook to a service:

  from alula.authentication import authenticate
  app.service("...").hooks(around=[authenticate("jwt")])"""
_ACCOUNTS_ADDED: Final = """
People confirm their address by a mail, and set a new password if they forget it. The page is at
http://localhost:3030/account, and `alula dev` prints the mails. Install what that needs:
pip install '.[dev]'
{existing}

In production, set these variables:

  {prefix}BASE_URL=https://api.example    # how browsers reach the application
  {prefix}MAIL=smtp
  {prefix}MAIL_SENDER=no-reply@example.com
  {prefix}SMTP_HOST, {prefix}SMTP_USERNAME, {prefix}SMTP_PASSWORD"""
_NEW_COLUMNS: Final = """

If the application has run already, its table of users needs a migration, or the start fails:

  alula generate migration add-accounts
  alula migrate"""
_NOT_CONFIRMED: Final = """

The addresses of users who are there already count as not confirmed."""
_MAIL_SETTINGS: Final = (
    'base_url: str = "http://localhost:3030"  # how browsers reach the application',
    'mail: Literal["console", "memory", "smtp"] = "console"',
    'mail_sender: str = "no-reply@localhost"',
    'smtp_host: str = ""',
    "smtp_username: str | None = None",
    "smtp_password: SecretStr | None = None",
)
_MAIL_VARIABLES: Final = (
    ("BASE_URL", "https://api.example"),
    ("MAIL", "smtp"),
    ("MAIL_SENDER", "no-reply@example.com"),
    ("SMTP_HOST", ""),
    ("SMTP_USERNAME", ""),
    ("SMTP_PASSWORD", ""),
)
"""What production sets of them, with examples."""
_PROVIDERS_ADDED: Final = """

The sign-in with others needs what each provider gives you. Register the application there, with the
redirect URI http://localhost:3030/oauth/NAME/callback, and set in .env:

{lines}

Until then, development leaves the provider out, and says so. Production does not start without."""
_OLD_INDEX: Final = """

If there are users already, drop the old index, so that some may have no address:
db.users.dropIndex("email_1")"""
_UNIQUE_ADDRESS: Final = re.compile(r'await users\.create_index\("email", unique=True\)')
_UNIQUE_ADDRESS_IF_ANY: Final = """\
# Some people who sign in with others have no address.
any_ = {"email": {"$gt": ""}}
await users.create_index("email", name="address", unique=True, partialFilterExpression=any_)"""
_IN_PRODUCTION: Final = re.compile(r"ALULA_ENV: production")
_CHEAP_HASHES: Final = """\
# A hash of a password takes 0.1 seconds on purpose. Tests need not wait for that.
passwords = Passwords(time_cost=1, memory_cost=8, parallelism=1, least_floor=0)
app.service("authentication").service.strategy("local").passwords = passwords"""
_EVENTS_ARE_OPEN: Final = """
Events still go to everyone who is connected, also those of services that require a sign-in.
Change that in channels.py, so that only users who are signed in join a channel:

    from alula import HookContext, Params

    @app.on("connection")
    def connected(connection: Connection) -> None:
        join(connection)

    @app.on("login")
    def signed_in(result: Any, params: Params, context: HookContext) -> None:
        if params.connection is not None:  # a sign-in over REST has none
            join(params.connection)

    def join(connection: Connection) -> None:
        if connection.user is not None:
            user = connection.user["{id}"]
            app.channel("everyone", f"users/{{user}}").join(connection)"""


def add_service(
    here: Path, name: str, *, path: str | None, fields: str | None, force: bool, dry_run: bool
) -> None:
    """Add a service to the application of a folder.

    Args:
        here: A folder of the application.
        name: The name of the service.
        path: The path to register it at, None for its name.
        fields: The fields of its records as in `parse_fields`, None for `DEFAULT_FIELDS`.
        force: Whether existing files may be overwritten.
        dry_run: Whether only to print what would be written.

    Raises:
        UsageError: The folder is not part of an application, a name is not valid, or a file would
            be overwritten.
        typer.Exit: A change is left to the user.
    """
    names.check_service(name)
    path = names.check_path(name if path is None else path)
    project = find_project(here)
    plan = Plan(project.folder)
    parsed = parse_fields(fields or DEFAULT_FIELDS, references=project.choices.mongodb)
    create_service(plan, name, path, parsed, project.choices)
    _register_service(plan, project, name.replace("-", "_"))
    _add_paths(plan, path)
    carry_out(plan, force=force, dry_run=dry_run)


def add_hook(
    here: Path, name: str, *, kind: str, service: str | None, force: bool, dry_run: bool
) -> None:
    """Add a hook to the application of a folder.

    Args:
        here: A folder of the application.
        name: The name of the hook.
        kind: One of `HOOK_KINDS`.
        service: The name of the service to register it for, None for all services.
        force: As in `add_service`.
        dry_run: As in `add_service`.

    Raises:
        UsageError: As in `add_service`, or the service or the kind of hook does not exist.
        typer.Exit: A change is left to the user.
    """
    function = names.check_function("a hook", name)
    if kind not in HOOK_KINDS:
        raise UsageError(f"{kind!r} is not a kind of hook; use {', '.join(HOOK_KINDS)}")
    project = find_project(here)
    plan = Plan(project.folder)
    when, hint = HOOK_KINDS[kind]
    values = {"hook": function, "kind": kind, "when": when, "hint": hint}
    plan.create_from_templates("hook", values, {"HOOK": function})
    place, target = ("hooks/__init__.py", "add_hooks"), "app"
    if service is not None:
        module = names.check_service(service).replace("-", "_")
        folder = project.folder / "services" / module
        if not folder.is_dir():
            raise UsageError(f"cannot find the service {service!r}: {folder} does not exist")
        place = (f"services/{module}/service.py", f"add_{module}")
        target = f'app.service("{registered_path(project.folder / place[0]) or service}")'
    statement = f"{target}.hooks({kind}=[{function}])"
    _register(plan, project, place, f"hooks.{function}", function, statement)
    carry_out(plan, force=force, dry_run=dry_run)


def add_middleware(here: Path, name: str, *, force: bool, dry_run: bool) -> None:
    """Add middleware to the application of a folder.

    Args:
        here: A folder of the application.
        name: The name of the middleware.
        force: As in `add_service`.
        dry_run: As in `add_service`.

    Raises:
        UsageError: As in `add_service`.
        typer.Exit: A change is left to the user.
    """
    function = names.check_function("middleware", name)
    project = find_project(here)
    plan = Plan(project.folder)
    plan.create_from_templates("middleware", {"middleware": function}, {"MIDDLEWARE": function})
    place = ("middleware/__init__.py", "add_middleware")
    _register(plan, project, place, f"middleware.{function}", function, f"app.use({function})")
    carry_out(plan, force=force, dry_run=dry_run)


def add_authentication(here: Path, *, force: bool, dry_run: bool) -> None:
    """Add users who sign in to the application of a folder.

    Args:
        here: A folder of the application.
        force: As in `add_service`.
        dry_run: As in `add_service`.

    Raises:
        UsageError: As in `add_service`.
        typer.Exit: A change is left to the user.
    """
    project = find_project(here)
    plan = Plan(project.folder)
    create_authentication(plan, project.name, project.choices)
    for module in ("users", "authentication"):
        _register_service(plan, project, module)
    _add_paths(plan, *authentication_paths(project.choices))
    field = "authentication_secret: SecretStr = Field(min_length=32)"
    plan.change(
        "configuration.py",
        lambda code: add_field(
            add_import(add_import(code, "pydantic", "Field"), "pydantic", "SecretStr"),
            "Settings",
            field,
        ),
        where="in the class Settings",
        code=f"from pydantic import Field, SecretStr\n\n{field}",
    )
    _add_secret_variable(plan, f"{project.choices.prefix}{_SECRET}")
    _hash_cheaply_in_tests(plan)
    choice = "authentication = true"
    old = re.compile(r"authentication\s*=\s*(?:true|false)\b")
    plan.change(
        "pyproject.toml",
        partial(replace_line, line=old, new=choice),
        where="[tool.alula]",
        code=choice,
    )
    plan.change(
        "pyproject.toml", partial(add_extra, extra="auth"), where="dependencies", code="alula[auth]"
    )
    carry_out(plan, force=force, dry_run=dry_run)
    if dry_run:
        return
    print_result(_AUTHENTICATION_ADDED)
    if project.choices.realtime and not project.choices.authentication:
        print_result(_EVENTS_ARE_OPEN.format(id=project.choices.values()["id"]))


def add_accounts(
    here: Path,
    *,
    totp: bool,
    passkeys: bool,
    api_keys: bool,
    sign_in: str | None,
    force: bool,
    dry_run: bool,
) -> None:
    """Add accounts to the application of a folder: confirmed addresses, new passwords, and more.

    Args:
        here: A folder of the application.
        totp: Whether people may have a second factor.
        passkeys: Whether people may have passkeys.
        api_keys: Whether people may have API keys.
        sign_in: The providers with whom people sign in, as in `parse_providers`; None for none.
        force: As in `add_service`.
        dry_run: As in `add_service`.

    Raises:
        UsageError: As in `add_service`, or the application has no users who sign in, or there is
            no such provider.
        typer.Exit: A change is left to the user.
    """
    providers = [] if sign_in is None else parse_providers(sign_in)
    project = find_project(here)
    if not project.choices.authentication:
        raise UsageError("accounts need users who sign in; run: alula generate authentication")
    plan = Plan(project.folder)
    features = {"totp": totp, "passkeys": passkeys, "api_keys": api_keys}
    create_accounts(plan, project, providers, features)
    carry_out(plan, force=force, dry_run=dry_run)
    if not dry_run:
        print_result(accounts_added(project.choices, providers))


def create_accounts(
    plan: Plan,
    project: Project,
    providers: Sequence[SignInProvider],
    features: Mapping[str, bool],
) -> None:
    """Add the files and changes of accounts to a plan.

    Args:
        plan: Gets them.
        project: The application, which has users.
        providers: The providers with whom people sign in.
        features: Whether it has ``totp``, ``passkeys`` and ``api_keys``.
    """
    names = {provider.name for provider in providers}
    makers = ["openid" if name == "oidc" else name for name in names]
    values = {
        **project.choices.values(),
        **features,
        "providers": providers,
        "apple": "apple" in names,
        "oidc": "oidc" in names,
        "provider_import": "\n".join(import_lines("alula.accounts", ["Provider", *makers])),
    }
    plan.create_from_templates("accounts", values)
    _register_service(plan, project, "accounts")
    _add_paths(plan, "account/credentials")
    _confirm_users(plan, sql=project.choices.sql)
    _add_mail_settings(plan, project.choices.prefix)
    if providers:
        _admit_users_without_password(plan, project.choices)
        _add_provider_settings(plan, project.choices.prefix, providers)
    extras = [name for name in ("totp", "passkeys") if features[name]]
    for extra in [*extras, *(["oauth"] if providers else [])]:
        plan.change(
            "pyproject.toml",
            partial(add_extra, extra=extra),
            where="dependencies",
            code=f"alula[{extra}]",
        )


def accounts_added(
    choices: Choices, providers: Sequence[SignInProvider], *, is_new: bool = False
) -> str:
    """Return what to do after accounts were added; a new application has no users yet."""
    # Without a database, users end with the process.
    is_stored = not is_new and choices.database != "memory"
    existing = (_NEW_COLUMNS if choices.sql else "") + _NOT_CONFIRMED if is_stored else ""
    said = _ACCOUNTS_ADDED.format(prefix=choices.prefix, existing=existing)
    if not providers:
        return said
    lines = [
        f"  {provider.name:<9} {', '.join(provider.variables(choices.prefix))}"
        for provider in providers
    ]
    said += _PROVIDERS_ADDED.format(lines="\n".join(lines))
    return said + (_OLD_INDEX if choices.mongodb and not is_new else "")


def _admit_users_without_password(plan: Plan, choices: Choices) -> None:
    """Let users have no password and no address: providers vouch for them."""
    path, line = "services/users/schema.py", replace_line
    name = "name: str | None = Field(None, max_length=320)"
    edits: list[tuple[re.Pattern[str], str]] = [
        (re.compile(r"email: Address"), "email: Address | None = None"),
        (
            re.compile(r"password: SecretStr = Field\(min_length=8, max_length=200\)"),
            "password: SecretStr | None = Field(None, min_length=8, max_length=200)",
        ),
    ]
    if choices.sql:
        edits += [
            (
                re.compile(r'Column\("email", Text, nullable=False, unique=True\),'),
                'Column("email", Text, unique=True),',
            ),
            (
                re.compile(r'Column\("password", Text, nullable=False\),'),
                'Column("password", Text),',
            ),
        ]
    for old, new in edits:
        plan.change(path, partial(line, line=old, new=new), where="in its place", code=new)
    plan.change(
        path, partial(add_field, owner="User", field=name), where="in the class User", code=name
    )
    if choices.sql:
        column = 'Column("name", Text)'
        plan.change(
            path,
            partial(add_argument, variable="table", argument=column),
            where="in the table",
            code=f"{column},",
        )
    if choices.mongodb:
        plan.change(
            "services/users/service.py",
            partial(replace_line, line=_UNIQUE_ADDRESS, new=_UNIQUE_ADDRESS_IF_ANY),
            where="in place of the index of email",
            code=_UNIQUE_ADDRESS_IF_ANY,
        )


def _add_provider_settings(plan: Plan, prefix: str, providers: Sequence[SignInProvider]) -> None:
    """Add the settings of the providers, and their variables."""
    fields = [field for provider in providers for field in provider.fields]

    def add_fields(code: str) -> str:
        for field in fields:
            code = add_field(code, "Settings", field)
        return code

    plan.change(
        "configuration.py", add_fields, where="in the class Settings", code="\n".join(fields)
    )
    for provider in providers:
        remark = (
            f"Signing in with {provider.label}. The redirect URI is"
            f" http://localhost:3030/oauth/{provider.name}/callback"
        )
        _add_variables(plan, remark, dict.fromkeys(provider.variables(prefix), ""))


def _confirm_users(plan: Plan, *, sql: bool) -> None:
    """Let the records of users say whether their address is confirmed."""
    path = "services/users/schema.py"
    field = 'is_verified: bool = Field(False, alias="isVerified")'
    plan.change(
        path, partial(add_field, owner="User", field=field), where="in the class User", code=field
    )
    if not sql:
        return
    column = (
        'Column("is_verified", Boolean, key="isVerified", nullable=False, server_default=false())'
    )

    def add_column(code: str) -> str:
        for name in ("Boolean", "false"):
            code = add_import(code, "sqlalchemy", name)
        return add_argument(code, "table", column)

    plan.change(
        path,
        add_column,
        where="in the table",
        code=f"from sqlalchemy import Boolean, false\n\n{column},",
    )


def _add_mail_settings(plan: Plan, prefix: str) -> None:
    """Add the settings of mails: where links lead, and what sends them; and their variables."""

    def add_fields(code: str) -> str:
        for module, name in (("typing", "Literal"), ("pydantic", "SecretStr")):
            code = add_import(code, module, name)
        for field in _MAIL_SETTINGS:
            code = add_field(code, "Settings", field)
        return code

    plan.change(
        "configuration.py",
        add_fields,
        where="in the class Settings",
        code="from typing import Literal\n\n" + "\n".join(_MAIL_SETTINGS),
    )
    line = 'mail = "memory"  # a list, which tests read'
    plan.change(
        "config/test.toml",
        partial(append_lines, lines=[line]),
        where="at the end",
        code=line,
    )
    _add_variables(
        plan,
        "Outside of development: how browsers reach the application, and what sends its mails",
        {f"{prefix}{name}": example for name, example in _MAIL_VARIABLES},
    )


def _add_variables(plan: Plan, remark: str, examples: Mapping[str, str]) -> None:
    """Add variables, with examples, to `.env.example`, and to the container, which needs them."""
    lines = [f"# {remark}", *(f"# {name}={example}" for name, example in examples.items())]
    plan.change(
        ".env.example",
        partial(append_lines, lines=lines),
        where="at the end",
        code="\n".join(lines),
        optional=True,
    )
    for variable in reversed([*examples]):
        _add_to_compose(plan, variable)


def _add_to_compose(plan: Plan, variable: str) -> None:
    """Plan that compose.yaml passes a variable on, and demands it."""
    line = f"{variable}: ${{{variable}:?set it in .env, see .env.example}}"
    plan.change(
        "compose.yaml",
        partial(add_line, behind=_IN_PRODUCTION, new=line),
        where="in the environment of the application",
        code=line,
        optional=True,
    )


def create_service(
    plan: Plan, name: str, path: str, fields: Sequence[Field], choices: Choices
) -> None:
    """Add the files of a service to a plan."""
    record = names.singular(name)
    words = record.replace("_", " ")
    module = name.replace("-", "_")
    values = {
        **choices.values(),
        "service": name,
        "module": module,
        "path": path,
        "words": words,
        # Without "u": a user, a unit.
        "article": "an" if words[0] in "aeio" else "a",
        "model": names.class_name(record),
        "fields": fields,
        "references": any(field.type_name == "Reference" for field in fields),
        "example": example_record(fields),
        "imports": column_imports(fields, choices.authentication),
    }
    plan.create_from_templates("service", values, {"SERVICE": module})


def create_authentication(plan: Plan, name: str, choices: Choices) -> None:
    """Add the files of the services `users` and `authentication` to a plan."""
    plan.create_from_templates("authentication", {**choices.values(), "name": name})


def create_uploads(plan: Plan, choices: Choices) -> None:
    """Add the files of the service `uploads` to a plan."""
    plan.create_from_templates("uploads", choices.values())


def authentication_paths(choices: Choices) -> list[str]:
    """Return the paths of the services that `create_authentication` adds."""
    stored = ["authentication/attempts"] if choices.mongodb or choices.sql else []
    return ["users", "authentication", "authentication/sessions", *stored]


def _register_service(plan: Plan, project: Project, module: str) -> None:
    function = f"add_{module}"
    source = f"services.{module}.service"
    _register(plan, project, _SERVICES, source, function, f"app.configure({function})")


def _add_paths(plan: Plan, *paths: str) -> None:
    for path in paths:
        plan.change(
            "paths.py",
            partial(add_literal, alias="ServicePath", value=path),
            where="in ServicePath",
            code=f'"{path}"',
        )


def _register(
    plan: Plan, project: Project, place: tuple[str, str], source: str, name: str, statement: str
) -> None:
    """Add a change that imports a function and puts a statement at the end of another function.

    Args:
        plan: Gets the change.
        project: The application.
        place: The path of a file, and a function in it.
        source: The module to import from.
        name: The function to import.
        statement: The statement that registers it.
    """
    path, function = place
    # A folder that only this plan creates is not among the modules of the project yet.
    modules = project.own_modules() | {path.partition("/")[0], source.partition(".")[0]}
    plan.change(
        path,
        lambda code: add_import(add_statement(code, function, statement), source, name, modules),
        where=f"at the end of {function}",
        code=f"from {source} import {name}\n\n{statement}",
    )


def _hash_cheaply_in_tests(plan: Plan) -> None:
    """Let the tests of the application hash passwords as `alula new` does."""
    plan.change(
        "conftest.py",
        lambda code: add_import(
            add_after(code, "app = make_app(settings)", _CHEAP_HASHES),
            "alula.authentication",
            "Passwords",
        ),
        where="in the fixture app, after app = make_app(settings)",
        code=f"from alula.authentication import Passwords\n\n{_CHEAP_HASHES}",
        optional=True,
    )


def _add_secret_variable(plan: Plan, variable: str) -> None:
    """Set the secret in development, in tests and in the container."""
    plan.change(
        ".env.example",
        partial(append_lines, lines=["# The key that signs access tokens", f"{variable}="]),
        where="at the end",
        code=f"{variable}=",
        optional=True,
    )
    line = f"{variable}={secrets.token_urlsafe(48)}"
    # An existing secret is kept: a new one would invalidate all tokens.
    if (plan.folder / ".env").exists():
        append = partial(append_lines, lines=[line], unless=f"{variable}=")
        plan.change(".env", append, where="at the end", code=line)
    else:
        plan.create(".env", f"{line}\n", private=True)
    # Each test run makes its own secret, so that tests do not depend on an .env file.
    anchor = 'os.environ["ALULA_ENV"] = "test"'
    statement = f'os.environ["{variable}"] = secrets.token_urlsafe(48)'
    plan.change(
        "conftest.py",
        lambda code: add_whole_import(add_after(code, anchor, statement), "secrets"),
        where=f"after {anchor}",
        code=f"import secrets\n\n{statement}",
    )
    _add_to_compose(plan, variable)


def registered_path(file: Path) -> str | None:
    """Return the path at which the code of a service registers it, None if it cannot be found."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError):
        return None
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name("app"), attr="use"),
                args=[ast.Constant(str(path)), *_],
            ):
                return path
            case _:
                pass
    return None
