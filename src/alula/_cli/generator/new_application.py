"""The files of a new application."""

from __future__ import annotations

import secrets
from importlib.metadata import version
from pathlib import Path
from typing import Final

from alula._cli.generator.additions import create_authentication, create_service
from alula._cli.generator.fields import DEFAULT_FIELDS, fields_of
from alula._cli.generator.plan import Plan
from alula._cli.generator.project import Choices
from alula._cli.generator.templates import rendered

__all__ = ["plan_application"]

_EXTRAS: Final = ("server", "schema", "cli")


def plan_application(folder: Path, name: str, choices: Choices, service: str | None) -> Plan:
    """Return the plan of a new application.

    Args:
        folder: Where it goes.
        name: What it is called.
        choices: What it has.
        service: The name of its first service, None for no service.
    """
    plan = Plan(folder)
    users = ["users", "authentication"] if choices.authentication else []
    own = [] if service is None else [service]
    values = {
        **choices.values(),
        "name": name,
        "module": name.replace("-", "_"),
        "title": name.replace("-", " ").replace("_", " ").capitalize(),
        "services": [each.replace("-", "_") for each in users + own],
        "service": service,
        "paths": ", ".join(f'"/{path}"' for path in users + own),
        "extras": ",".join(_extras(choices)),
        "versions": versions_like(version("alula")),
        "secret": secrets.token_urlsafe(48),
    }
    for path, text in rendered("application", values, {}):
        plan.create(path, text, private=path == ".env")
    if choices.authentication:
        create_authentication(plan, name, choices)
    for each in own:
        fields = fields_of(DEFAULT_FIELDS, references=choices.mongodb)
        create_service(plan, each, each, fields, choices)
    return plan


def versions_like(made_with: str) -> str:
    """Return what of Alula an application takes that was made with a version.

    Before 1.0 a minor version may change the interface, later a major one.
    """
    major, minor, *_ = map(int, made_with.split(".")[:2])
    following = f"0.{minor + 1}" if major == 0 else str(major + 1)
    return f">={major}.{minor},<{following}"


def _extras(choices: Choices) -> tuple[str, ...]:
    mongodb = ("mongodb",) if choices.mongodb else ()
    return (*_EXTRAS, *mongodb, *(("auth",) if choices.authentication else ()))
