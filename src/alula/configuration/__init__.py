"""The settings of an application: files by environment, then environment variables, validated.

The files are TOML, or the JSON of FeathersJS applications.

Needs the extra ``schema``.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin

try:
    from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
    from pydantic.fields import FieldInfo
except ImportError as error:
    raise ImportError(
        f"alula.configuration needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[schema]'"
    ) from error

from alula.configuration._files import (
    ConfigurationError,
    Places,
    Setting,
    SettingPath,
    leaves_of,
    read_env_file,
    read_json,
    read_toml,
)

__all__ = ["ENVIRONMENT", "ConfigurationError", "environment_name", "load_settings"]

ENVIRONMENT: Final = "ALULA_ENV"
"""The variable with the name of the environment; ``development`` if it is not set."""

_NODE_ENVIRONMENT: Final = "NODE_ENV"
_DEVELOPMENT: Final = "development"
_MAPPING: Final = "custom-environment-variables"
# By FeathersJS' generator there is no file for production.
_WITHOUT_JSON: Final = frozenset({_DEVELOPMENT, "production"})
# The formats that the mapping can ask for, with the types of their values.
_FORMATS: Final[Mapping[str, tuple[type, ...]]] = {
    "boolean": (bool,),
    "number": (int, float),
    "json": (dict, list, str, int, float, bool, NoneType),
}
_SEPARATOR: Final = "__"

Settings = TypeVar("Settings", bound=BaseModel)

_log = logging.getLogger("alula.configuration")


def environment_name(
    environ: Mapping[str, str] = os.environ, folder: Path | str | None = None
) -> str:
    """Return the name of the environment that the application runs in.

    Args:
        environ: The environment variables.
        folder: The folder of the application. If its settings are JSON, ``NODE_ENV`` counts where
            ``ALULA_ENV`` is not set.

    Examples:
        >>> environment_name({}), environment_name({"ALULA_ENV": "production"})
        ('development', 'production')
    """
    name = environ.get(ENVIRONMENT)
    if not name and folder is not None and _has_json(Path(folder), environ):
        name = environ.get(_NODE_ENVIRONMENT)
    return name or _DEVELOPMENT


def load_settings(
    model: type[Settings],
    folder: Path | str,
    *,
    prefix: str = "",
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Return the settings of an application.

    A variable that sets nothing, and is close to that of a setting, is logged as a warning.

    Later sources take precedence: ``config/default.toml``, ``config/<environment>.toml``, in
    development the file ``.env``, environment variables. The variable of ``port`` is the prefix and
    ``PORT``; that of ``max`` in the table ``paginate`` is ``PAGINATE__MAX``. In a variable, a list
    is separated by commas.

    The JSON of a FeathersJS application is read in place of TOML: ``default.json``,
    ``<environment>.json``, ``local.json`` and ``local-<environment>.json``. Objects are merged,
    lists replaced. ``custom-environment-variables.json`` names the variables of settings.

    Secrets (fields of the type ``SecretStr`` or ``SecretBytes``) come from variables only: secrets
    in files end up in repositories.

    Args:
        model: Names, types and defaults of the settings.
        folder: The folder of the application.
        prefix: The start of the names of variables.
        environ: The environment variables.

    Raises:
        TypeError: ``model`` is not a Pydantic model.
        ConfigurationError: A setting is missing, unknown or not valid, or a file cannot be read;
            the text lists all problems.

    Examples:
        >>> class Settings(BaseModel):
        ...     port: int = 3030
        >>> load_settings(Settings, ".", environ={"PORT": "8080"}).port
        8080
    """
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        # Without the object: its repr may have secrets.
        shown = (
            model.__name__ if isinstance(model, type) else f"an object of {type(model).__name__}"
        )
        raise TypeError(f"load_settings takes a Pydantic model, the class itself, not {shown}")
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
        raise ConfigurationError(f"the settings are not valid ({loading.environment}):\n{lines}")
    loading.warn_of_misspelt_variables()
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
        environment: The variable with the name of the environment, and that name.
        reads_json: Whether the files are JSON.
    """

    def __init__(
        self, model: type[BaseModel], folder: Path, prefix: str, environ: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self._config = folder / "config"
        self._prefix = prefix
        self._environ = environ
        self._environment = environment_name(environ, folder)
        self.reads_json = _has_json(folder, environ)
        is_of_node = self.reads_json and not environ.get(ENVIRONMENT)
        variable = _NODE_ENVIRONMENT if is_of_node else ENVIRONMENT
        self.environment = f"{variable} is {self._environment!r}"
        self._forbids_extra = model.model_config.get("extra") == "forbid"
        self._fields = dict(_fields_of(model))
        # By `custom-environment-variables.json`: the name of a variable, and its format.
        self._mapped: dict[SettingPath, tuple[str, str | None]] = {}
        self._origins: dict[SettingPath, str] = {}
        self._sources: list[tuple[str, Mapping[str, str]]] = []
        self.values: dict[str, Any] = {}
        self.problems: list[str] = []

    def read_files(self) -> None:
        """Read the files, of TOML or of JSON.

        Raises:
            ConfigurationError: There are both, there is none for the environment, or one is not
                valid.
        """
        kind, read, names = "toml", read_toml, ["default", self._environment]
        if self.reads_json:
            kind, read = "json", read_json
            names += ["local", f"local-{self._environment}"]
            toml = min(self._config.glob("*.toml"), default=None)
            if toml is not None:
                raise ConfigurationError(
                    f"{self._config} has {toml.name} and JSON files; keep one kind, since it is"
                    " not clear which of them counts"
                )
        file = self._config / f"{self._environment}.{kind}"
        without = _WITHOUT_JSON if self.reads_json else {_DEVELOPMENT}
        if self._environment not in without and not file.is_file():
            present = {path.stem for path in self._config.glob(f"*.{kind}")}
            present -= {"default", "local", _MAPPING, _DEVELOPMENT}
            raise ConfigurationError(
                f"{self.environment}, but there is no {file}; make the file, or set it to one of:"
                f" {', '.join([_DEVELOPMENT, *sorted(present)])}"
            )
        if self.reads_json:
            self._read_mapping()  # first: messages name the variables
        for name in dict.fromkeys(names):
            file = self._config / f"{name}.{kind}"
            self._put_all(*read(file), f"{self._config.name}/{file.name}")

    def _read_mapping(self) -> None:
        """Read which variables set which settings."""
        table, places = read_json(self._config / f"{_MAPPING}.json")
        leaves = dict(leaves_of(table))
        for path, variable in leaves.items():
            setting, format_ = path, None
            if path[-1] in {"__name", "__format"}:
                setting = path[:-1]
                format_ = leaves.get((*setting, "__format"))
                if path[-1] == "__format" and (*setting, "__name") in leaves:
                    continue
            name = ".".join(setting)
            is_named = isinstance(variable, str) and variable and setting
            if path[-1] == "__format" or not is_named:
                problem = f'{name} needs the name of a variable: "PORT", or {{"__name": "PORT"}}'
            elif format_ is not None and (not isinstance(format_, str) or format_ not in _FORMATS):
                problem = f"{name} has the __format {format_!r}; use boolean, number or json"
            elif self._forbids_extra and not any(
                field[: len(setting)] == setting[: len(field)] for field in self._fields
            ):
                problem = self._unknown(name)
            else:
                self._mapped[setting] = str(variable), format_
                continue
            self.problems.append(f"{places[path]}: {problem}")

    def _put_all(self, table: Mapping[str, Any], places: Places, file: str) -> None:
        """Take the settings of a file, apart from secrets.

        Args:
            table: The settings.
            places: Where each is, if that is known.
            file: The name of the file.
        """
        self._origins.update(places)
        for path, value in leaves_of(table):
            origin = places.get(path, file)
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
        self._sources = [
            (".env", read_env_file(file) if in_file else {}),
            ("the environment", self._environ),
        ]
        for origin, variables in self._sources:
            for path in dict.fromkeys([*self._fields, *self._mapped]):
                name, format_ = self._mapped.get(path, (self._variable(path), None))
                text = variables.get(name)
                # An empty variable is a value: it can clear a default. One of a mapping is not, as
                # in Node.
                if text is None or (not text and path in self._mapped):
                    continue
                value: Setting = text  # the model converts what is not a list
                if format_ is not None:
                    try:
                        value = json.loads(text)
                        is_valid = type(value) in _FORMATS[format_]
                    except ValueError:
                        is_valid = False
                    if not is_valid:  # the value is not shown: it may be a secret
                        problem = f"{'.'.join(path)}: the value is not a valid {format_}"
                        self.problems.append(f"{name} of {origin}: {problem}")
                        continue
                elif get_origin(self._fields.get(path)) in {list, set, tuple}:
                    value = [item.strip() for item in text.split(",") if item.strip()]
                leaves = dict(leaves_of(value, path)) if isinstance(value, dict) else {path: value}
                for inner, item in leaves.items():
                    self._put(inner, item, f"{name} of {origin}")

    def warn_of_misspelt_variables(self) -> None:
        """Log which variables look like those of settings that have none.

        Otherwise an optional setting, such as the URL of a database, silently keeps its default.
        They are not an error: other programs may read them.
        """
        prefix = self._prefix.upper()
        if not prefix:  # the environment is full of the names of other programs
            return
        names = {self._variable(path) for path in [*self._fields, *self._mapped]}
        given = {name: origin for origin, variables in self._sources for name in variables}
        # Without the prefix, which would make any two names close.
        unset = sorted(
            name.removeprefix(prefix) for name in names - given.keys() if name.startswith(prefix)
        )
        for name, origin in given.items():
            if name not in names and name.startswith(prefix):
                near = get_close_matches(name.removeprefix(prefix), unset, 1, 0.8)
                if near:
                    _log.warning(
                        "%s of %s sets nothing; did you mean %s?", name, origin, prefix + near[0]
                    )

    def _put(self, path: SettingPath, value: object, origin: str) -> None:
        table = self.values
        for name in path[:-1]:
            inner: Setting = table.get(name)
            table[name] = table = inner if isinstance(inner, dict) else {}
        table[path[-1]] = value
        self._origins[path] = origin

    def _variable(self, path: SettingPath) -> str:
        if path in self._mapped:
            return self._mapped[path][0]
        return f"{self._prefix}{_SEPARATOR.join(path)}".upper()

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name, map(".".join, self._fields), 1)
        return f'unknown setting "{name}"' + (
            f'; did you mean "{near[0]}"?' if near else "; take it out"
        )

    def problem(self, error: Mapping[str, Any]) -> str:
        """Return a line about an error of validation: which setting, what is wrong, what to do."""
        path = tuple(map(str, error["loc"]))
        name = ".".join(path)
        if error["type"] == "missing":
            variable = self._variable(path)
            # Stricter than for settings: the environment is full of the names of other programs.
            near = get_close_matches(variable, self._environ, 1, 0.85)
            file = (
                f"{self._config.name}/{self._environment}.{'json' if self.reads_json else 'toml'}"
            )
            remedy = f"set it in {file}, or {variable} in the environment"
            if near:
                remedy = f"there is a variable {near[0]}: did you mean {variable}?"
            elif self._is_secret(path):
                where = " or in .env" if self._environment == _DEVELOPMENT else ""
                remedy = f"it is a secret: set {variable} in the environment{where}"
            return f"{name} is missing; {remedy}"
        if error["type"] == "extra_forbidden":
            return f"{self._origin(path)}{self._unknown(name)}"
        text: str = error["msg"].removeprefix("Value error, ").rstrip(".")
        if not text[1:2].isupper():
            text = text[:1].lower() + text[1:]
        if isinstance(error["input"], str):  # Pydantic counts the characters of a secret as items
            text = text.replace("items after validation", "characters")
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
        around = [path[:length] for length in range(len(path), 0, -1)]
        inside = (other for other in self._origins if other[: len(path)] == path)
        for other in (*around, *inside):
            if other in self._origins:
                return f"{self._origins[other]}: "
        return ""


def _fields_of(
    model: type[BaseModel], within: SettingPath = ()
) -> Iterator[tuple[SettingPath, object]]:
    """Yield each setting with its type; models in models are tables.

    A setting is named by its alias, and by its own name as well if the model takes both.
    """
    config = model.model_config
    takes_names = config.get("populate_by_name") or config.get("validate_by_name")
    named: list[tuple[str, FieldInfo]] = []
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        names = {alias if isinstance(alias, str) else name, *((name,) if takes_names else ())}
        named += [(each, field) for each in sorted(names)]
    for name, field in named:
        type_: Any = field.annotation
        if get_origin(type_) in {Union, UnionType}:  # X | None is X
            members = [member for member in get_args(type_) if member is not NoneType]
            type_ = members[0] if len(members) == 1 else type_
        if isinstance(type_, type) and issubclass(type_, BaseModel):
            yield from _fields_of(type_, (*within, name))
        else:
            yield (*within, name), type_


def _has_json(folder: Path, environ: Mapping[str, str]) -> bool:
    """Tell whether an application has the JSON files of the package `config` of Node."""
    environment = environ.get(ENVIRONMENT) or environ.get(_NODE_ENVIRONMENT) or _DEVELOPMENT
    names = ("default", environment, "local", _MAPPING)
    return any((folder / "config" / f"{name}.json").is_file() for name in names)


def _is_secret_type(type_: object) -> bool:
    """Tell whether a type is secret, or contains one that is: ``list[SecretStr]``."""
    return type_ is SecretStr or type_ is SecretBytes or any(map(_is_secret_type, get_args(type_)))
