"""The names under which a model reads its fields, and the one under which records have them.

Hooks know the stored names alone. Clients may use every name that the model reads. So their data
gets the stored names before any hook runs, and names that the model reads when it is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any, TypeAlias

from pydantic import AliasChoices, AliasPath, BaseModel

from alula.schema._failures import SchemaError
from alula.types import UNSET, JSONValue, is_list, is_mapping

__all__ = ["FieldNames", "ReadPath", "put_at", "read_paths"]

ReadPath: TypeAlias = tuple[str | int, ...]
"""Where in data a model looks for a field: a name, or the steps of an `AliasPath`."""


class FieldNames:
    """Gives fields the names that records have, and back.

    A name that several fields read stays as it is: which one it means is for Pydantic to say.

    Args:
        model: The model.

    Attributes:
        differ: Whether data may have a field under a name that records do not have.
        are_unreadable: Whether the model does not read some stored names.

    Raises:
        SchemaError: A field has several names, and one of them is an item of a list, which nothing
            can move.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        read = read_paths(model)
        uses = Counter(chain.from_iterable(read.values()))
        self._moved: dict[str, list[ReadPath]] = {}
        self._read_under: dict[str, ReadPath] = {}
        for stored, paths in read.items():
            others = [
                path
                for path in paths
                if path != (stored,)
                and uses[path] == 1
                and (len(path) > 1 or next(iter(path)) not in read)
            ]
            is_readable = (stored,) in paths
            if not others or uses[stored,] > int(is_readable):
                continue
            if any(isinstance(path[len(path) - 1], int) for path in others):
                if is_readable or len(others) > 1:
                    raise SchemaError(
                        f"{model.__name__}: {stored!r} is also read from an item of a list, where"
                        " hooks do not see it; give it names, or an AliasPath that ends in a name"
                    )
                continue
            # In the order of the model: the first one that data has counts.
            self._moved[stored] = [p for p in paths if p in others or p == (stored,)]
            if not is_readable:
                plain = (path for path in others if all(isinstance(step, str) for step in path))
                self._read_under[stored] = next(plain, others[0])
        # The first steps of all paths: most data has none of them.
        self._firsts = frozenset(str(p[0]) for paths in self._moved.values() for p in paths)
        self._stored = {
            str(path[0]): stored
            for stored, paths in self._moved.items()
            for path in paths
            if len(path) == 1 and path != (stored,)
        }
        self.differ = bool(self._moved)
        self.are_unreadable = bool(self._read_under)

    def as_stored(self, data: JSONValue) -> Any:
        """Return data of a client with the names of records, also in the operands of operators."""
        if is_list(data):
            return [self.as_stored(record) for record in data]
        if not is_mapping(data) or not self._may_differ(data):
            return data
        renamed: dict[str, Any] = {}
        for name, value in data.items():
            if str(name)[:1] == "$" and is_mapping(value):
                renamed[name] = self._operands_as_stored(name, value)
            else:
                renamed[self._path_as_stored(name) if "." in str(name) else name] = value
        for stored, paths in self._moved.items():
            found = [value for path in paths if (value := _taken(renamed, path)) is not UNSET]
            if found:
                renamed[stored] = found[0]
        return renamed

    def as_read(self, data: JSONValue) -> Any:
        """Return one record with names that the model reads."""
        if not is_mapping(data) or self._read_under.keys().isdisjoint(data):
            return data
        renamed = dict(data)
        for stored, path in self._read_under.items():
            if stored in renamed:
                put_at(renamed, path, renamed.pop(stored))
        return renamed

    def _may_differ(self, data: Mapping[str, Any]) -> bool:
        return not self._firsts.isdisjoint(data) or any(
            str(name)[:1] == "$" or "." in str(name) for name in data
        )

    def _path_as_stored(self, path: object) -> str:
        first, dot, rest = str(path).partition(".")
        return f"{self._stored.get(first, first)}{dot}{rest}"

    def _operands_as_stored(self, operator: str, operands: Mapping[str, Any]) -> dict[str, Any]:
        return {
            self._path_as_stored(path): (
                # It writes to the property that is its operand.
                self._path_as_stored(operand) if operator == "$rename" else operand
            )
            for path, operand in operands.items()
        }


def read_paths(model: type[BaseModel]) -> dict[str, list[ReadPath]]:
    """Return the places in data from which a model reads its fields, by their stored names.

    ``populate_by_name``, ``AliasChoices`` and ``AliasPath`` give a field several; Pydantic takes
    the first one that data has.
    """
    config = model.model_config
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    read: dict[str, list[ReadPath]] = {}
    for name, field in model.model_fields.items():
        alias = field.validation_alias or name
        aliases = alias.choices if isinstance(alias, AliasChoices) else [alias]
        if config.get("validate_by_alias") is False:
            aliases = []
        every = (*aliases, name) if by_name or not aliases else aliases
        paths = (tuple(each.path) if isinstance(each, AliasPath) else (each,) for each in every)
        read[field.serialization_alias or name] = list(dict.fromkeys(paths))
    return read


def put_at(data: dict[str, Any], path: ReadPath, value: object) -> None:
    """Put a value into data at a path; containers on the way are copied or made."""
    holder: Any = data
    for at, step in enumerate(path[:-1]):
        below = _entry(holder, step)
        is_for_list = isinstance(path[at + 1], int)
        copied: Any = [*below] if is_list(below) else {**below} if is_mapping(below) else None
        if copied is None or isinstance(copied, list) is not is_for_list:
            copied = [] if is_for_list else {}
        _set(holder, step, copied)
        holder = copied
    _set(holder, path[-1], value)


def _taken(data: dict[str, Any], path: ReadPath) -> Any:
    """Remove the value at a path and return it, `UNSET` without one; containers are copied."""
    value: Any = data
    for step in path:
        value = _entry(value, step)
    if value is UNSET:
        return UNSET
    holder: Any = data
    for step in path[:-1]:
        below = _entry(holder, step)
        copied: Any = [*below] if is_list(below) else {**below}
        holder[step] = copied
        holder = copied
    del holder[path[-1]]
    return value


def _entry(holder: JSONValue, step: str | int) -> Any:
    if isinstance(step, str):
        return holder.get(step, UNSET) if is_mapping(holder) else UNSET
    items: list[Any] = holder if is_list(holder) else []
    return items[step] if -len(items) <= step < len(items) else UNSET


def _set(holder: Any, step: str | int, value: object) -> None:
    if is_list(holder):
        holder += [None] * (int(step) + 1 - len(holder))
    holder[step] = value
