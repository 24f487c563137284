"""Finds the application of the current folder, and what was chosen when it was created."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from alula._cli.terminal import UsageError
from alula.types import is_mapping

__all__ = ["DATABASES", "Choices", "Database", "Project", "find_project"]

Database = Literal["sqlite", "postgresql", "mongodb", "memory"]

DATABASES: Final[tuple[Database, ...]] = ("sqlite", "postgresql", "mongodb", "memory")
"""The databases; the first one is the default."""


@dataclass(frozen=True)
class Choices:
    """What was chosen for an application, as its templates need it.

    Attributes:
        database: Where its services keep their records.
        authentication: Whether users sign in.
        prefix: The prefix of its environment variables.
        realtime: Whether clients get events as they happen.
        cookies: Whether browsers keep the tokens of users in cookies.
        files: Whether clients upload files.
    """

    database: Database
    authentication: bool
    prefix: str
    realtime: bool = False
    cookies: bool = False
    files: bool = False

    @classmethod
    def from_table(cls, path: Path, table: Mapping[str, Any]) -> Self:
        """Return the choices in the table ``tool.alula`` of a ``pyproject.toml``.

        Raises:
            UsageError: A value is not valid.
        """
        database = table.get("database", "memory")
        if database not in DATABASES:
            raise UsageError(
                f"{path}: tool.alula.database is {database!r}; use {', '.join(DATABASES)}"
            )
        booleans: dict[str, Any] = {}
        for name in ("authentication", "realtime", "cookies", "files"):
            booleans[name] = table.get(name, False)
            if not isinstance(booleans[name], bool):
                raise UsageError(
                    f"{path}: tool.alula.{name} is {booleans[name]!r}; use true or false"
                )
        return cls(database=database, prefix=str(table.get("prefix", "")), **booleans)

    @property
    def mongodb(self) -> bool:
        """Whether its database is MongoDB."""
        return self.database == "mongodb"

    @property
    def sql(self) -> bool:
        """Whether its records are rows of tables."""
        return self.database in {"sqlite", "postgresql"}

    def values(self) -> dict[str, object]:
        """Return the values that all templates can use."""
        return {
            "database": self.database,
            "mongodb": self.mongodb,
            "sql": self.sql,
            "sqlite": self.database == "sqlite",
            "postgresql": self.database == "postgresql",
            "authentication": self.authentication,
            "prefix": self.prefix,
            "realtime": self.realtime,
            "cookies": self.cookies,
            "files": self.files,
            "id": "_id" if self.mongodb else "id",
        }


@dataclass(frozen=True)
class Project:
    """An existing application.

    Attributes:
        folder: The folder of its ``pyproject.toml``.
        name: The name in that file.
        choices: The choices in its table ``tool.alula``.
    """

    folder: Path
    name: str
    choices: Choices

    def own_modules(self) -> set[str]:
        """Return the top-level modules and packages of the application."""
        packages = {path.parent.name for path in self.folder.glob("*/__init__.py")}
        return packages | {path.stem for path in self.folder.glob("*.py")}


def find_project(start: Path) -> Project:
    """Return the application in a folder or in a folder above it.

    Raises:
        UsageError: The folder is not part of an application, or its ``pyproject.toml`` is not
            valid.
    """
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if not path.is_file():
            continue
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
        table = document.get("tool", {}).get("alula")
        if is_mapping(table):
            name = document.get("project", {}).get("name", folder.name)
            return Project(folder, str(name), Choices.from_table(path, table))
    raise UsageError(
        f"{start} is not part of an application: neither it nor a folder above has a pyproject.toml"
        " with a table [tool.alula]; change to the folder that `alula new` has created"
    )
