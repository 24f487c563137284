"""The files of settings: TOML, the JSON of FeathersJS applications, and ``.env``.

Editors on Windows write a byte order mark in front of UTF-8, which is not part of the text.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, time
from pathlib import Path
from typing import Any, Final, TypeAlias

__all__ = [
    "ConfigurationError",
    "Places",
    "Setting",
    "SettingPath",
    "leaves_of",
    "read_env_file",
    "read_json",
    "read_toml",
]

_SPACE: Final = re.compile(r"\s*")
_JSON: Final = json.JSONDecoder()
# In `.env`, a comment needs a space in front of it: `#fff` and `a#b` are values.
_COMMENT: Final = re.compile(r"\s#.*")
_QUOTED: Final = re.compile(r"""\s*(["'])(.*?)\1\s*(?:#.*)?""")

SettingPath: TypeAlias = tuple[str, ...]
"""The name of a setting, after the names of the tables that it is in."""

Setting: TypeAlias = "dict[str, Any] | list[Any] | str | float | date | time | None"
"""A value of TOML or JSON. By this type, checkers know what is in a table; of `Any` they do not."""

Places: TypeAlias = Mapping[SettingPath, str]
"""Where the names of a file are, for messages; of TOML nothing is known."""


class ConfigurationError(ValueError):
    """Settings that are not valid; the text names each of them and what to do."""


def read_toml(file: Path) -> tuple[dict[str, Any], Places]:
    """Return the table in a TOML file, without places; an empty one for no file.

    Raises:
        ConfigurationError: The file is not valid.
    """
    if not file.is_file():
        return {}, {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig")), {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}") from None


def read_json(file: Path) -> tuple[dict[str, Any], Places]:
    """Return the object in a JSON file, and the places of its names; an empty one for no file.

    Raises:
        ConfigurationError: The file is not valid.
    """
    if not file.is_file():
        return {}, {}
    try:
        text = file.read_text(encoding="utf-8-sig")
        table: Setting = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"{file}, line {error.lineno}, column {error.colno} is not valid JSON: {error.msg}"
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is not UTF-8 text; save it as UTF-8") from None
    if not isinstance(table, dict):
        raise ConfigurationError(f"{file} is not an object of settings: {{...}}")
    offsets: dict[SettingPath, int] = {}
    _read_offsets(text, _end_of_space(text, 0), (), offsets)
    places: dict[SettingPath, str] = {}
    for path, offset in offsets.items():
        line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
        places[path] = f"{file.parent.name}/{file.name}, line {line}, column {column}"
    return table, places


def leaves_of(
    table: Mapping[str, Setting], within: SettingPath = ()
) -> Iterator[tuple[SettingPath, object]]:
    """Yield each value of a table that is not a table itself."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from leaves_of(value, (*within, name))
        else:
            yield (*within, name), value


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file with lines such as ``NAME=value`` or ``NAME="value"``.

    A comment may follow a value, with a space in front of its ``#``. In quotes, a ``#`` is part of
    the value.

    Raises:
        ConfigurationError: It is not UTF-8 text, or has another line.
    """
    variables: dict[str, str] = {}
    try:
        text = path.read_text(encoding="utf-8-sig")
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


def _read_offsets(text: str, at: int, within: SettingPath, offsets: dict[SettingPath, int]) -> int:
    """Note where each name in an object of valid JSON begins; return where the object ends."""
    at = _end_of_space(text, at + 1)
    while text[at] != "}":
        name, end = _JSON.raw_decode(text, at)
        path = (*within, name)
        offsets[path] = at
        at = _end_of_space(text, _end_of_space(text, end) + 1)  # behind the colon
        if text[at] == "{":
            at = _read_offsets(text, at, path, offsets)
        else:
            _, at = _JSON.raw_decode(text, at)
        at = _end_of_space(text, at)
        if text[at] == ",":
            at = _end_of_space(text, at + 1)
    return at + 1


def _end_of_space(text: str, at: int) -> int:
    return at + len(_SPACE.match(text, at)[0])  # type: ignore[index]  # no space matches, too
