"""The settings of an application: files by environment, variables above them, checked as a whole.

Needs the extra ``schema``.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin

try:
    from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
except ImportError as error:
    raise ImportError(
        f"alula.configuration needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[schema]'"
    ) from error

__all__ = ["ENVIRONMENT", "ConfigurationError", "environment_name", "load_settings"]

ENVIRONMENT: Final = "ALULA_ENV"
"""The variable that names the environment: ``development`` where it is not set."""

_DEVELOPMENT: Final = "development"
_BETWEEN: Final = "__"
_COMMENT: Final = re.compile(r"\s#.*")
"""In `.env`, the end of a line behind a value; `#fff` and `a#b` are values."""
_QUOTED: Final = re.compile(r"""\s*(["'])(.*?)\1\s*(?:#.*)?""")

Settings = TypeVar("Settings", bound=BaseModel)
Spot = tuple[str, ...]
"""Where a setting is: its name, behind those of the tables that it is in."""


class ConfigurationError(ValueError):
    """Settings that an application can not start with; the text names each and what to do."""


def environment_name(environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of the environment that the application runs in."""
    return environ.get(ENVIRONMENT) or _DEVELOPMENT


def load_settings(
    model: type[Settings],
    folder: Path | str,
    *,
    prefix: str = "",
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Return the settings of an application.

    What comes later wins: ``config/default.toml``, ``config/<environment>.toml``, in development
    the lines of ``.env``, the variables of the environment. The variable of ``port`` is its name in
    capitals behind the prefix; that of ``max`` in the table ``paginate`` is ``PAGINATE__MAX``. In a
    variable, a list is written with commas.

    Secrets (fields of the type ``SecretStr`` or ``SecretBytes``) come from variables alone: in a
    file, they would sooner or later be in a repository.

    Args:
        model: Names, types and defaults of the settings.
        folder: The folder of the application.
        prefix: What the names of the variables begin with.
        environ: The variables.

    Raises:
        ConfigurationError: A setting is missing, unknown or of a wrong value, or a file can not
            be read; the text tells all of it.
    """
    loading = _Loading(model, Path(folder), prefix, environ)
    loading.read_files()
    loading.read_variables()
    settings: Settings = loading.settings()
    return settings


class _Loading:
    """Settings on their way, with where each comes from.

    Args:
        model: What they have to be.
        folder: Where the files are.
        prefix: Of the names of variables.
        environ: The variables.
    """

    def __init__(
        self, model: type[BaseModel], folder: Path, prefix: str, environ: Mapping[str, str]
    ) -> None:
        self._model = model
        self._folder = folder
        self._prefix = prefix
        self._environ = environ
        self._environment = environment_name(environ)
        self._fields = dict(_fields_of(model))
        self._values: dict[str, Any] = {}
        self._origins: dict[Spot, str] = {}
        self._wrong: list[str] = []

    def read_files(self) -> None:
        """Take what ``default.toml`` and the file of the environment say."""
        own = self._folder / "config" / f"{self._environment}.toml"
        if self._environment != _DEVELOPMENT and not own.is_file():
            names = sorted(path.stem for path in own.parent.glob("*.toml"))
            known = ", ".join(dict.fromkeys([_DEVELOPMENT, *names])).replace("default, ", "")
            raise ConfigurationError(
                f"{ENVIRONMENT} is {self._environment!r}, but there is no {own};"
                f" make the file, or set it to one of: {known}"
            )
        for path in (own.with_name("default.toml"), own):
            if path.is_file():
                for spot, value in _leaves_of(_read_toml(path)):
                    self._take_from_file(spot, value, f"{path.parent.name}/{path.name}")

    def _take_from_file(self, spot: Spot, value: Any, origin: str) -> None:
        if self._hides(spot):
            self._wrong.append(
                f"{origin}: {'.'.join(spot)} is a secret, and does not belong into a file of the"
                f" repository; take it out and set {self._variable(spot)}"
            )
        else:
            self._put(spot, value, origin)

    def read_variables(self) -> None:
        """Take what the variables say, in development also those of ``.env``."""
        path = self._folder / ".env"
        lines = path.is_file() and self._environment == _DEVELOPMENT
        for origin, variables in (
            (".env", _read_lines(path) if lines else {}),
            ("the environment", self._environ),
        ):
            for spot, kind in self._fields.items():
                text = variables.get(self._variable(spot))
                if text is not None:
                    self._put(spot, _parsed(text, kind), f"{self._variable(spot)} of {origin}")

    def settings(self) -> Any:
        """Return the settings, checked.

        Raises:
            ConfigurationError: They are not in order.
        """
        found = None
        try:
            found = self._model.model_validate(self._values)
        except ValidationError as error:
            self._wrong.extend(map(self._complaint, error.errors()))
        if self._wrong:
            told = "\n".join(f"  - {line}" for line in dict.fromkeys(self._wrong))
            raise ConfigurationError(
                f"the settings are not in order ({ENVIRONMENT} is {self._environment!r}):\n{told}"
            )
        return found

    def _put(self, spot: Spot, value: Any, origin: str) -> None:
        table = self._values
        for name in spot[:-1]:
            below = table.get(name)
            table[name] = table = below if isinstance(below, dict) else {}
        table[spot[-1]] = value
        self._origins[spot] = origin

    def _variable(self, spot: Spot) -> str:
        return f"{self._prefix}{_BETWEEN.join(spot)}".upper()

    def _complaint(self, error: Any) -> str:
        """Return a line about a failure: which setting, what is wrong, what to do."""
        spot = tuple(map(str, error["loc"]))
        name = ".".join(spot)
        if error["type"] == "missing":
            return f"{name} is missing; {self._remedy(spot)}"
        if error["type"] == "extra_forbidden":
            near = get_close_matches(name, map(".".join, self._fields), 1)
            hint = f"; did you mean {near[0]}?" if near else "; take it out"
            return f"{self._origin(spot)}{name} is no setting{hint}"
        text: str = error["msg"].removeprefix("Value error, ").rstrip(".")
        if not text[1:2].isupper():
            text = text[:1].lower() + text[1:]
        if not name:
            return text
        return f"{self._origin(spot)}{name}: {text}{self._given(spot, error['input'])}"

    def _given(self, spot: Spot, value: Any) -> str:
        """Return the end of a complaint that shows the value, nothing where it may be a secret.

        A table may hold secrets, and an address a password.
        """
        known = spot in self._fields or spot[:-1] in self._fields  # it, or an item of it
        hidden = self._hides(spot) or not self._origin(spot)
        if not known or hidden or not isinstance(value, str | int | float) or "@" in str(value):
            return ""
        return f", not {value!r}"

    def _hides(self, spot: Spot) -> bool:
        lengths = range(1, len(spot) + 1)
        return any(_is_secret(self._fields.get(spot[:length])) for length in lengths)

    def _remedy(self, spot: Spot) -> str:
        variable = self._variable(spot)
        near = get_close_matches(variable, self._environ, 1, 0.85)
        if near:
            return f"there is a variable {near[0]}: did you mean {variable}?"
        if self._hides(spot):
            where = " or in .env" if self._environment == _DEVELOPMENT else ""
            return f"it is a secret: set {variable} in the environment{where}"
        return f"set it in config/{self._environment}.toml, or {variable} in the environment"

    def _origin(self, spot: Spot) -> str:
        """Return where a value comes from, with a colon; nothing for one that nobody has given.

        An item of a list comes with the list, a table with what is in it.
        """
        for known, origin in self._origins.items():
            if spot[: len(known)] == known[: len(spot)]:
                return f"{origin}: "
        return ""


def _fields_of(model: type[BaseModel], within: Spot = ()) -> Iterator[tuple[Spot, Any]]:
    """Yield each setting with its type; models within models are tables."""
    for name, field in model.model_fields.items():
        kind = _where_given(field.annotation)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _fields_of(kind, (*within, name))
        else:
            yield (*within, name), kind


def _leaves_of(table: Mapping[str, Any], within: Spot = ()) -> Iterator[tuple[Spot, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves_of(value, (*within, name))
        else:
            yield (*within, name), value


def _where_given(kind: Any) -> Any:
    """Return ``X`` for ``X | None``, and other types as they are."""
    if get_origin(kind) not in {Union, UnionType}:
        return kind
    kinds = [each for each in get_args(kind) if each is not NoneType]
    return kinds[0] if len(kinds) == 1 else kind


def _is_secret(kind: Any) -> bool:
    """Tell whether a type is that of secrets, or has it inside: ``list[SecretStr]``."""
    return kind in (SecretStr, SecretBytes) or any(map(_is_secret, get_args(kind)))


def _parsed(text: str, kind: Any) -> Any:
    """Return the value that a variable stands for; the model converts what is no list."""
    if get_origin(kind) in {list, set, tuple}:
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is no TOML: {error}") from None


def _read_lines(path: Path) -> dict[str, str]:
    """Return the variables of a file of lines such as ``NAME=value`` or ``NAME="value"``.

    A comment may stand behind a value, with a space in front of its ``#``. Within quotes, a ``#``
    belongs to the value.
    """
    found: dict[str, str] = {}
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is no text in UTF-8; save it as such") from None
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals:
            # Not shown, since it may be the second line of a key.
            raise ConfigurationError(f"{path}, line {number} is no NAME=value, nor a comment")
        quoted = _QUOTED.fullmatch(value)
        found[name.strip()] = quoted[2] if quoted else _COMMENT.sub("", value).strip()
    return found
