"""What is added to an application: files of its own, and the lines that register them."""

from __future__ import annotations

import ast
import re
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Final

from alula._cli.generator.fields import Field, example_of, fields_of
from alula._cli.generator.insertion import (
    add_after,
    add_field,
    add_import,
    add_statement,
    add_whole_import,
)
from alula._cli.generator.lines import add_extra, add_line, append_lines, replace_line
from alula._cli.generator.names import class_name, one_of
from alula._cli.generator.plan import Plan
from alula._cli.generator.project import Choices, Project
from alula._cli.generator.templates import rendered

__all__ = [
    "KINDS",
    "create_authentication",
    "create_service",
    "plan_authentication",
    "plan_hook",
    "plan_middleware",
    "plan_service",
]

KINDS: Final = {
    "around": ("around", ""),
    "before": ("before", "context.data and context.params can be changed, or an error raised."),
    "after": ("after", "context.result can be changed."),
    "error": ("after the failure of", "context.error says what went wrong, and can be replaced."),
}
"""For each kind of hook when it runs, and what it can do."""

_SECRET: Final = "AUTHENTICATION_SECRET"  # noqa: S105  # the name of a variable
_SERVICES: Final = ("services/__init__.py", "add_services")


def plan_service(project: Project, name: str, path: str, fields: str) -> Plan:
    """Return the plan of a further service.

    Args:
        project: The application.
        name: What it is called.
        path: Where it is reached.
        fields: Those of its records, as `fields_of` takes them.

    Raises:
        UsageError: A field can not be one.
    """
    plan = Plan(project.folder)
    found = fields_of(fields, references=project.choices.mongodb)
    create_service(plan, name, path, found, project.choices)
    _register_service(plan, project, name.replace("-", "_"))
    return plan


def plan_hook(project: Project, name: str, kind: str, service: str | None) -> Plan:
    """Return the plan of a hook, for one service or for all.

    Args:
        project: The application.
        name: Of the function.
        kind: One of `KINDS`.
        service: The name of a service, None for all of them.
    """
    plan = Plan(project.folder)
    when, hint = KINDS[kind]
    values = {"hook": name, "kind": kind, "when": when, "hint": hint}
    for path, text in rendered("hook", values, {"HOOK": name}):
        plan.create(path, text)
    place, on = ("hooks/__init__.py", "add_hooks"), "app"
    if service is not None:
        module = service.replace("-", "_")
        place = (f"services/{module}/service.py", f"add_{module}")
        on = f'app.service("{_path_of(project, place[0]) or service}")'
    _register(plan, project, place, f"hooks.{name}", name, f"{on}.hooks({kind}=[{name}])")
    return plan


def plan_middleware(project: Project, name: str) -> Plan:
    """Return the plan of middleware."""
    plan = Plan(project.folder)
    for path, text in rendered("middleware", {"middleware": name}, {"MIDDLEWARE": name}):
        plan.create(path, text)
    place = ("middleware/__init__.py", "add_middleware")
    _register(plan, project, place, f"middleware.{name}", name, f"app.use({name})")
    return plan


def plan_authentication(project: Project) -> Plan:
    """Return the plan of users who sign in."""
    plan = Plan(project.folder)
    create_authentication(plan, project.name, project.choices)
    for module in ("users", "authentication"):
        _register_service(plan, project, module)
    _add_secret_setting(plan)
    _add_secret_variable(plan, f"{project.choices.prefix}{_SECRET}")
    chosen = "authentication = true"
    old = re.compile(r"authentication\s*=\s*(?:true|false)\b")
    plan.change(
        "pyproject.toml",
        partial(replace_line, line=old, new=chosen),
        where="[tool.alula]",
        code=chosen,
    )
    plan.change(
        "pyproject.toml", partial(add_extra, extra="auth"), where="dependencies", code="alula[auth]"
    )
    return plan


def create_service(
    plan: Plan, name: str, path: str, fields: Sequence[Field], choices: Choices
) -> None:
    """Add the files of a service to a plan."""
    record = one_of(name)
    words = record.replace("_", " ")
    values = {
        **choices.values(),
        "service": name,
        "module": name.replace("-", "_"),
        "path": path,
        "record": record,
        "words": words,
        "article": "an" if words[0] in "aeio" else "a",
        "model": class_name(record),
        "fields": fields,
        "references": any(field.kind == "Reference" for field in fields),
        "example": example_of(fields),
    }
    for target, text in rendered("service", values, {"SERVICE": values["module"]}):
        plan.create(target, text)


def create_authentication(plan: Plan, name: str, choices: Choices) -> None:
    """Add the files of the services `users` and `authentication` to a plan."""
    for target, text in rendered("authentication", {**choices.values(), "name": name}, {}):
        plan.create(target, text)


def _register_service(plan: Plan, project: Project, module: str) -> None:
    function = f"add_{module}"
    source = f"services.{module}.service"
    _register(plan, project, _SERVICES, source, function, f"app.configure({function})")


def _register(
    plan: Plan, project: Project, place: tuple[str, str], source: str, name: str, statement: str
) -> None:
    """Have a function imported, and a statement put at the end of another function."""
    path, function = place

    def edit(code: str) -> str:
        code = add_statement(code, function, statement)
        return add_import(
            code,
            source,
            name,
            project.own_modules() | {place[0].partition("/")[0], source.partition(".")[0]},
        )

    code = f"from {source} import {name}\n\n{statement}"
    plan.change(path, edit, where=f"at the end of {function}", code=code)


def _add_secret_setting(plan: Plan) -> None:
    field = "authentication_secret: SecretStr = Field(min_length=32)"

    def edit(code: str) -> str:
        for name in ("Field", "SecretStr"):
            code = add_import(code, "pydantic", name)
        return add_field(code, "Settings", field)

    code = f"from pydantic import Field, SecretStr\n\n{field}"
    plan.change("configuration.py", edit, where="in the class Settings", code=code)


def _add_secret_variable(plan: Plan, variable: str) -> None:
    """Have the secret where it is read: in development, in tests, in a container."""
    plan.change(
        ".env.example",
        partial(append_lines, lines=["# The key of the access tokens", f"{variable}="]),
        where="at the end",
        code=f"{variable}=",
        optional=True,
    )
    own = f"{variable}={secrets.token_urlsafe(48)}"
    if (plan.folder / ".env").exists():
        add = partial(append_lines, lines=[own], unless=f"{variable}=")
        plan.change(".env", add, where="at the end", code=own)
    else:
        plan.create(".env", f"{own}\n", private=True)
    anchor = 'os.environ["ALULA_ENV"] = "test"'
    statement = f'os.environ["{variable}"] = secrets.token_urlsafe(48)'
    plan.change(
        "conftest.py",
        lambda code: add_whole_import(add_after(code, anchor, statement), "secrets"),
        where=f"behind {anchor}",
        code=f"import secrets\n\n{statement}",
    )
    line = f"{variable}: ${{{variable}:?set it in .env, see .env.example}}"
    plan.change(
        "compose.yaml",
        partial(add_line, behind=re.compile(r"ALULA_ENV: production"), new=line),
        where="in the environment of the application",
        code=line,
        optional=True,
    )


def _path_of(project: Project, file: str) -> str | None:
    """Return the path at which the code of a service registers it."""
    try:
        tree = ast.parse((project.folder / file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return None
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name("app"), attr="use"),
                args=[ast.Constant(str(path)), *_],
            ):
                return path
    return None
