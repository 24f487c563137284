"""JSON paths that the options declare: as text that reads a value, and in changes."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from alula.adapters.sql._names import Dialect
from alula.adapters.sql._statements._operands import PLACE
from alula.adapters.sql._tables._tables import Column, Table

__all__ = [
    "Leaf",
    "Tree",
    "add_leaf",
    "json_path",
    "object_in_jsonb",
    "path_text",
    "plain_path",
    "set_in_json_text",
    "set_in_jsonb",
]

Tree: TypeAlias = dict[str, Any]
"""Changes of a JSON column by key; at the ends of its branches are `Leaf`."""

_NUMBER: Final = "(case jsonb_typeof({json}) when 'number' then {json}::numeric end)"
_POSTGRESQL_PATHS: Final[Mapping[builtins.type, str]] = {
    str: "(case jsonb_typeof({json}) when 'string' then {text} end)",
    int: _NUMBER,
    float: _NUMBER,
    bool: "(case jsonb_typeof({json}) when 'boolean' then {json}::boolean end)",
}
_SQLITE_PATH: Final = (
    "(case when json_type({{arguments}}) in ({0}) then json_extract({{arguments}}) end)"
)
_SQLITE_PATHS: Final[Mapping[builtins.type, str]] = {
    str: _SQLITE_PATH.format("'text'"),
    int: _SQLITE_PATH.format("'integer', 'real'"),
    float: _SQLITE_PATH.format("'integer', 'real'"),
    bool: _SQLITE_PATH.format("'true', 'false'"),
}


class Leaf(NamedTuple):
    """The JSON text that a path is set to."""

    text: object


def json_path(path: str, table: Table) -> tuple[Column, list[str]]:
    """Return the JSON column of a path, and the keys in it.

    Raises:
        ValueError: As `path_operand`.
    """
    name, *keys = path.split(".")
    column = table.columns.get(name)
    if column is None and table.extra is not None:
        column, keys = table.extra, [name, *keys]
    if column is None or column.type.name != "json" or not keys:
        raise ValueError(f"paths has {path!r}; it has to lead into a JSON column of {table.name!r}")
    if any(not key or '"' in key or PLACE in key for key in keys):
        raise ValueError(f"paths has {path!r}; its keys cannot be empty or have quotes")
    return column, keys


def path_text(column: Column, keys: list[str], type: builtins.type, dialect: Dialect) -> str:
    """Return the text that reads a value; one of another type than the given one is null."""
    if dialect == "sqlite":
        path = _literal("$" + "".join(f'."{key}"' for key in keys))
        return _SQLITE_PATHS[type].format(arguments=f"{column.sql}, {path}")
    steps = "".join(f"->{_literal(key)}" for key in keys)
    return _POSTGRESQL_PATHS[type].format(
        json=f"({column.sql}::jsonb{steps})", text=plain_path(column, keys)
    )


def plain_path(column: Column, keys: list[str]) -> str:
    """Return the text by which PostgreSQL reads any value at a path as text."""
    *above, last = map(_literal, keys)
    return f"({column.sql}::jsonb{''.join(f'->{key}' for key in above)}->>{last})"


def add_leaf(tree: Tree, keys: list[str], leaf: Leaf) -> bool:
    """Add what a path is set to; False if the tree has something there, or on the way."""
    level: Any = tree
    for key in keys[:-1]:
        level = level.setdefault(key, {})
        if isinstance(level, Leaf):
            return False
    return level.setdefault(keys[-1], leaf) is leaf


def set_in_jsonb(value: str, tree: Tree, parameters: list[object]) -> str:
    """Return the object that a jsonb value becomes by changes; PostgreSQL.

    What is not an object on the way to a changed value becomes one.
    """
    entries: list[str] = []
    for key, inner in tree.items():
        literal = _literal(key)
        if isinstance(inner, Leaf):
            parameters.append(inner.text)
            entries.append(f"{literal}, {PLACE}::jsonb")
        else:
            entries.append(f"{literal}, {set_in_jsonb(f'{value}->{literal}', inner, parameters)}")
    return f"({object_in_jsonb(value)} || jsonb_build_object({', '.join(entries)}))"


def object_in_jsonb(value: str) -> str:
    """Return the object that a jsonb value is, an empty one if it is none; PostgreSQL."""
    return f"(case jsonb_typeof({value}) when 'object' then {value} else '{{}}' end)"


def set_in_json_text(value: str, tree: Tree, parameters: list[object]) -> str:
    """Return the object that JSON becomes by changes, as `set_in_jsonb`; SQLite."""
    arguments = [value]
    waiting: list[tuple[list[str], Tree]] = [([], tree)]
    while waiting:
        path, level = waiting.pop()
        for key, inner in level.items():
            if isinstance(inner, Leaf):
                parameters.append(inner.text)
                arguments += [_literal(json.dumps([*path, key])), PLACE]
            else:
                waiting.append(([*path, key], inner))
    # json_set() of SQLite changes nothing where there is no object on the way.
    return f"alula_json_set({', '.join(arguments)})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
