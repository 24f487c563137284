"""The settings of an application: files by environment, then environment variables, validated.

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
from typing import Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin

try:
    from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
except ImportError as error:
    raise ImportError(
        f"alula.configuration needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[schema]'"
    ) from error

__all__ = ["ENVIRONMENT", "ConfigurationError", "environment_name", "load_settings"]

ENVIRONMENT: Final = "ALULA_ENV"
"""The variable with the name of the environment; ``development`` if it is not set."""

_DEVELOPMENT: Final = "development"
_SEPARATOR: Final = "__"
# In `.env`, a comment needs a space in front of it: `#fff` and `a#b` are values.
_COMMENT: Final = re.compile(r"\s#.*")
_QUOTED: Final = re.compile(r"""\s*(["'])(.*?)\1\s*(?:#.*)?""")

Settings = TypeVar("Settings", bound=BaseModel)

SettingPath: TypeAlias = tuple[str, ...]
"""The name of a setting, after the names of the tables that it is in."""


class ConfigurationError(ValueError):
    """Settings that are not valid; the text names each of them and what to do."""


def environment_name(environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of the environment that the application runs in.

    Examples:
        >>> environment_name({}), environment_name({"ALULA_ENV": "production"})
        ('development', 'production')
    """
    return environ.get(ENVIRONMENT) or _DEVELOPMENT


def load_settings(
    model: type[Settings],
    folder: Path | str,
    *,
    prefix: str = "",
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Return the settings of an application.

    Later sources take precedence: ``config/default.toml``, ``config/<environment>.toml``, in
    development the file ``.env``, environment variables. The variable of ``port`` is the prefix and
    ``PORT``; that of ``max`` in the table ``paginate`` is ``PAGINATE__MAX``. In a variable, a list
    is separated by commas.

    Secrets (fields of the type ``SecretStr`` or ``SecretBytes``) come from variables only: secrets
    in files end up in repositories.

    Args:
        model: Names, types and defaults of the settings.
        folder: The folder of the application.
        prefix: The start of the names of variables.
        environ: The environment variables.

    Raises:
        ConfigurationError: A setting is missing, unknown or not valid, or a file cannot be read;
            the text lists all problems.

    Examples:
        >>> class Settings(BaseModel):
        ...     port: int = 3030
        >>> load_settings(Settings, ".", environ={"PORT": "8080"}).port
        8080
    """
    loading = _Loading(model, Path(folder), prefix, environ)
    loading.read_files()
    loading.read_variables()
    settings: Settings | None = None
    try:
        settings = model.model_validate(loading.values)
    except ValidationError as error:
        loading.problems.extend(map(loading.problem, error.errors()))
    if settings is None or loading.problems:
        lines = "\n".join(f"  - {problem}" for problem in dict.fromkeys(loading.problems))
        environment = environment_name(environ)
        raise ConfigurationError(
            f"the settings are not valid ({ENVIRONMENT} is {environment!r}):\n{lines}"
        )
    return settings


class _Loading:
    """Settings while they are read, with the source of each.

    Args:
        model: Names and types of the settings.
        folder: The folder of the application.
        prefix: The start of the names of variables.
        environ: The environment variables.

    Attributes:
        values: The settings so far.
        problems: What is wrong so far, a line each.
    """

    def __init__(
        self, model: type[BaseModel], folder: Path, prefix: str, environ: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self._prefix = prefix
        self._environ = environ
        self._environment = environment_name(environ)
        self._fields = dict(_fields_of(model))
        self._origins: dict[SettingPath, str] = {}
        self.values: dict[str, Any] = {}
        self.problems: list[str] = []

    def read_files(self) -> None:
        """Read ``default.toml`` and the file of the environment."""
        config = self._folder / "config"
        of_environment = config / f"{self._environment}.toml"
        if self._environment != _DEVELOPMENT and not of_environment.is_file():
            names = sorted(path.stem for path in config.glob("*.toml"))
            choices = ", ".join(dict.fromkeys([_DEVELOPMENT, *names])).replace("default, ", "")
            raise ConfigurationError(
                f"{ENVIRONMENT} is {self._environment!r}, but there is no {of_environment};"
                f" make the file, or set it to one of: {choices}"
            )
        for file in (config / "default.toml", of_environment):
            if not file.is_file():
                continue
            try:
                table = tomllib.loads(file.read_text(encoding="utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"{file} is not valid TOML: {error}") from None
            origin = f"{config.name}/{file.name}"
            for path, value in _leaves_of(table):
                if self._is_secret(path):
                    self.problems.append(
                        f"{origin}: {'.'.join(path)} is a secret, and must not be in a file of the"
                        f" repository; take it out and set {self._variable(path)}"
                    )
                else:
                    self._put(path, value, origin)

    def read_variables(self) -> None:
        """Read the environment variables, in development also those of ``.env``."""
        file = self._folder / ".env"
        in_file = file.is_file() and self._environment == _DEVELOPMENT
        for origin, variables in (
            (".env", _read_env_file(file) if in_file else {}),
            ("the environment", self._environ),
        ):
            for path, type_ in self._fields.items():
                text = variables.get(self._variable(path))
                # An empty variable is a value: it can clear a default.
                if text is None:
                    continue
                value: object = text  # the model converts what is not a list
                if get_origin(type_) in {list, set, tuple}:
                    value = [item.strip() for item in text.split(",") if item.strip()]
                self._put(path, value, f"{self._variable(path)} of {origin}")

    def _put(self, path: SettingPath, value: object, origin: str) -> None:
        table = self.values
        for name in path[:-1]:
            inner = table.get(name)
            table[name] = table = inner if isinstance(inner, dict) else {}
        table[path[-1]] = value
        self._origins[path] = origin

    def _variable(self, path: SettingPath) -> str:
        return f"{self._prefix}{_SEPARATOR.join(path)}".upper()

    def problem(self, error: Mapping[str, Any]) -> str:
        """Return a line about an error of validation: which setting, what is wrong, what to do."""
        path = tuple(map(str, error["loc"]))
        name = ".".join(path)
        if error["type"] == "missing":
            variable = self._variable(path)
            # Stricter than for settings: the environment is full of the names of other programs.
            near = get_close_matches(variable, self._environ, 1, 0.85)
            remedy = f"set it in config/{self._environment}.toml, or {variable} in the environment"
            if near:
                remedy = f"there is a variable {near[0]}: did you mean {variable}?"
            elif self._is_secret(path):
                where = " or in .env" if self._environment == _DEVELOPMENT else ""
                remedy = f"it is a secret: set {variable} in the environment{where}"
            return f"{name} is missing; {remedy}"
        if error["type"] == "extra_forbidden":
            near = get_close_matches(name, map(".".join, self._fields), 1)
            hint = f'; did you mean "{near[0]}"?' if near else "; take it out"
            return f'{self._origin(path)}unknown setting "{name}"{hint}'
        text: str = error["msg"].removeprefix("Value error, ").rstrip(".")
        if not text[1:2].isupper():
            text = text[:1].lower() + text[1:]
        if not name:
            return text
        # The value is shown unless it may be secret: tables may hold secrets, URLs passwords.
        value = error["input"]
        is_field = path in self._fields or path[:-1] in self._fields  # it, or an item of it
        is_hidden = self._is_secret(path) or not self._origin(path) or "@" in str(value)
        if is_field and not is_hidden and isinstance(value, str | int | float):
            text += f", not {value!r}"
        return f"{self._origin(path)}{name}: {text}"

    def _is_secret(self, path: SettingPath) -> bool:
        lengths = range(1, len(path) + 1)
        return any(_is_secret_type(self._fields.get(path[:length])) for length in lengths)

    def _origin(self, path: SettingPath) -> str:
        """Return the source of a value with a colon, "" for a default.

        Items of a list have the source of the list, a table that of its settings.
        """
        for other, origin in self._origins.items():
            if path[: len(other)] == other[: len(path)]:
                return f"{origin}: "
        return ""


def _fields_of(
    model: type[BaseModel], within: SettingPath = ()
) -> Iterator[tuple[SettingPath, object]]:
    """Yield each setting with its type; models in models are tables."""
    for name, field in model.model_fields.items():
        type_: Any = field.annotation
        if get_origin(type_) in {Union, UnionType}:  # X | None is X
            members = [member for member in get_args(type_) if member is not NoneType]
            type_ = members[0] if len(members) == 1 else type_
        if isinstance(type_, type) and issubclass(type_, BaseModel):
            yield from _fields_of(type_, (*within, name))
        else:
            yield (*within, name), type_


def _leaves_of(
    table: Mapping[str, Any], within: SettingPath = ()
) -> Iterator[tuple[SettingPath, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves_of(value, (*within, name))
        else:
            yield (*within, name), value


def _is_secret_type(type_: object) -> bool:
    """Tell whether a type is secret, or contains one that is: ``list[SecretStr]``."""
    return type_ in (SecretStr, SecretBytes) or any(map(_is_secret_type, get_args(type_)))


def _read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file with lines such as ``NAME=value`` or ``NAME="value"``.

    A comment may follow a value, with a space in front of its ``#``. In quotes, a ``#`` is part of
    the value.
    """
    variables: dict[str, str] = {}
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals:
            # The line is not shown: it may be the second line of a private key.
            raise ConfigurationError(f"{path}, line {number} is not NAME=value, nor a comment")
        quoted = _QUOTED.fullmatch(value)
        variables[name.strip()] = quoted[2] if quoted else _COMMENT.sub("", value).strip()
    return variables
