"""The application that something is added to: where it is, and what was chosen for it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from alula._cli.terminal import UsageError

__all__ = ["DATABASES", "Choices", "Database", "Project", "find_project"]

Database = Literal["memory", "mongodb"]

DATABASES: Final[tuple[Database, ...]] = ("memory", "mongodb")


@dataclass(frozen=True)
class Choices:
    """What was chosen for an application, as its templates need to know it.

    Attributes:
        database: Where its services keep their records.
        authentication: Whether users sign in.
        prefix: What the names of its variables begin with.
    """

    database: Database
    authentication: bool
    prefix: str

    @property
    def mongodb(self) -> bool:
        """Whether it is on MongoDB."""
        return self.database == "mongodb"

    def values(self) -> dict[str, Any]:
        """Return what every template may ask for."""
        return {
            "database": self.database,
            "mongodb": self.mongodb,
            "authentication": self.authentication,
            "prefix": self.prefix,
            "id": "_id" if self.mongodb else "id",
        }


@dataclass(frozen=True)
class Project:
    """An application that is there.

    Attributes:
        folder: Where its ``pyproject.toml`` is.
        name: As that says.
        choices: As its table ``tool.alula`` says.
    """

    folder: Path
    name: str
    choices: Choices

    def own_modules(self) -> set[str]:
        """Return the modules and packages at the top of its folder."""
        packages = {path.parent.name for path in self.folder.glob("*/__init__.py")}
        return packages | {path.stem for path in self.folder.glob("*.py")}


def find_project(start: Path) -> Project:
    """Return the application that a folder belongs to.

    Raises:
        UsageError: There is none, or what was chosen for it can not be read.
    """
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            found = _read(path)
            chosen = found.get("tool", {}).get("alula")
            if isinstance(chosen, Mapping):
                name = found.get("project", {}).get("name", folder.name)
                return Project(folder, str(name), _choices(path, chosen))
    raise UsageError(
        f"there is no application in {start}: no pyproject.toml with a table [tool.alula] is there"
        " or above; go to the folder that `alula new` has made"
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can not be read: {error}") from None


def _choices(path: Path, chosen: Mapping[str, Any]) -> Choices:
    database = chosen.get("database", "memory")
    if database not in DATABASES:
        raise UsageError(
            f"{path}: tool.alula.database is {database!r}; it may be {' or '.join(DATABASES)}"
        )
    authentication = chosen.get("authentication", False)
    if not isinstance(authentication, bool):
        raise UsageError(
            f"{path}: tool.alula.authentication is {authentication!r}, not true or false"
        )
    return Choices(database, authentication, str(chosen.get("prefix", "")))
