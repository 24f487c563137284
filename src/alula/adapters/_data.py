"""What data of create, update and patch must be, whatever adapter stores it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import accumulate
from typing import Any, Final

from alula.errors import BadRequest
from alula.outgoing import public_part

__all__ = [
    "ATOMS",
    "MAX_DEPTH",
    "check_data",
    "check_new_id",
    "check_undotted",
    "hide_nested",
    "is_scalar",
    "merged",
    "read_data",
]

MAX_DEPTH: Final = 100
"""How many levels of objects and lists data may have (as MongoDB)."""

ATOMS: Final = frozenset({str, int, float, bool, type(None)})
"""The types of plain JSON values."""

_MOST_ADDED: Final = 1500
"""How many entries of None a patch may add to a list before its own (as MongoDB)."""

_CONTAINERS: Final = (Mapping, list, tuple, set, frozenset)
_WORDS: Final = {
    type(None): "null",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


def is_scalar(id: Any) -> bool:
    """Say whether this can be an id: neither None nor something that holds other values."""
    return type(id) is str or (id is not None and not isinstance(id, _CONTAINERS))


def check_new_id(name: str, id: Any) -> None:
    """Raise unless a new record can have this id.

    Raises:
        BadRequest: It holds other values, or is true or false.
    """
    if type(id) is bool or not is_scalar(id):
        raise BadRequest(f"'{name}' is {_kind(id)}; an id is a string or a number")


def read_data(method: str, data: Any) -> dict[str, Any]:
    """Return the data as a dict of its own, whose entries may be set and taken out.

    Raises:
        BadRequest: It is no object.
    """
    if not isinstance(data, Mapping):
        # Only code gives models; a client's data is JSON.
        hint = f" {type(data).__name__}; write .model_dump()" if hasattr(data, "model_dump") else ""
        raise BadRequest(f"The data of {method} must be an object, not {_kind(data)}{hint}")
    return dict(data)


def check_data(data: Mapping[str, Any], opened: Collection[str] | None) -> None:
    """Raise unless the data can be stored.

    Args:
        data: One record, or what changes in one.
        opened: The keys that may begin with ``$``, None where every key may.

    Raises:
        BadRequest: A key begins with ``$`` and is not opened, or there are too many levels.
    """
    # A loop and no recursion: the depth is what somebody sent.
    waiting: list[tuple[Any, int]] = [(data, 1)]
    while waiting:
        value, depth = waiting.pop()
        if type(value) is dict or isinstance(value, Mapping):
            if opened is not None:
                _check_keys(value, opened)
            value = value.values()
        for inner in value:
            kind = type(inner)
            if kind not in ATOMS and (
                kind is dict or kind is list or isinstance(inner, _CONTAINERS)
            ):
                if depth == MAX_DEPTH:
                    raise BadRequest(f"The data has more than {MAX_DEPTH} levels")
                if inner:
                    waiting.append((inner, depth + 1))


def check_undotted(changes: Mapping[str, Any]) -> None:
    """Raise where a name in the data of a patch from outside leads into an object.

    Hooks that look at ``data["a"]`` would be passed by with ``{"a.b": 1}``.

    Raises:
        BadRequest: A name has a dot.
    """
    for name in changes:
        if type(name) is str and "." in name:
            raise BadRequest(
                f"Invalid key {name} in the data: a name with dots is not allowed here; send"
                f" {name.partition('.')[0]!r} as a whole (the option dotted_names opens them)"
            )


def merged(record: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the changes of a patch; the record itself stays as it is.

    A name with dots leads into objects and lists, which are made where there are none, as MongoDB
    does it: ``{"address.town": "Oslo"}`` leaves the rest of the address alone.

    Raises:
        BadRequest: A name leads into a value that holds no others, or to a place that another name
            changes as well, or a part of it is empty or begins with ``$``.
    """
    made = dict(record)
    dotted = [name for name in changes if type(name) is str and "." in name]
    if not dotted:
        made.update(changes)
        return made
    for name in dotted:
        for above in accumulate(name.split(".")[:-1], "{}.{}".format):
            if above in changes:
                raise BadRequest(f"Invalid keys in the data: {above} and {name} change one place")
    made.update((name, value) for name, value in changes.items() if name not in dotted)
    for name in dotted:
        _set_inside(made, name.split("."), changes[name], name)
    return made


def _set_inside(holder: Any, path: list[str], value: Any, name: str) -> None:
    """Set a value in a record at the end of a path; what is on the way is copied first."""
    if not all(part and part[0] != "$" for part in path):
        raise BadRequest(f"Invalid key {name} in the data: a part is empty or begins with '$'")
    for part in path[:-1]:
        key = _key_in(holder, part, name)
        there = {} if not isinstance(holder, list) and key not in holder else holder[key]
        if isinstance(there, Mapping):
            there = dict(there)
        elif isinstance(there, list | tuple):
            there = list(there)
        else:
            raise BadRequest(f"Invalid key {name} in the data: {part} holds no other values")
        holder[key] = holder = there
    holder[_key_in(holder, path[-1], name)] = value


def _key_in(holder: Any, part: str, name: str) -> Any:
    """Return the key of a part of a path; a list gets as long as that takes."""
    if not isinstance(holder, list):
        return part
    index = int(part[:9]) if part.isdecimal() and part.isascii() else -1
    if str(index) != part or index > len(holder) + _MOST_ADDED:
        raise BadRequest(f"Invalid key {name} in the data: {part} is not an index of a list")
    holder += [None] * (index + 1 - len(holder))
    return index


def hide_nested(data: dict[str, Any]) -> None:
    """Replace guarded records of other services within the data by what may leave of them.

    What is stored comes back as plain records, which nothing guards. The data itself may be such a
    record, as where it is changed and written back: its own properties stay.
    """
    for name, value in data.items():
        if type(value) not in ATOMS:
            data[name] = public_part(value)


def _check_keys(value: Mapping[str, Any], opened: Collection[str]) -> None:
    for key in value:
        if isinstance(key, str) and key[:1] == "$" and key not in opened:
            raise BadRequest(f"Invalid key {key} in the data: keys can not begin with '$' here")


def _kind(value: Any) -> str:
    """Return what a value is, in the words of JSON."""
    if isinstance(value, Mapping):
        return "an object"
    return _WORDS.get(type(value), "a list" if isinstance(value, _CONTAINERS) else "a value")
