"""What may stand under a name in a query: numbers, fields to sort by, lists, copies of values.

What holds in this file:

- Values stay as they are (dates, ids, bytes); containers are copied, so that nothing of a query
  can change with the mapping that it was read from.
- The recursion is bounded: `MAX_DEPTH` levels, whatever the input.
- What is wrong is a `BadRequest` that names the part; its texts for unknown names are part of
  the wire contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

from alula.errors import BadRequest
from alula.types import SCALAR_TYPES

__all__ = [
    "FORBIDDEN",
    "MAX_DEPTH",
    "MAX_NUMBER",
    "MAX_SORT_FIELDS",
    "as_list",
    "check_depth",
    "check_name",
    "check_open_name",
    "copy_value",
    "is_mapping",
    "read_list",
    "read_number",
    "read_select",
    "read_sort",
    "refused",
]

FORBIDDEN = frozenset({"$where", "$function", "$accumulator", "$expr"})
"""Names that run code or arbitrary expressions in a database: they never pass from a query."""
MAX_DEPTH = 32
"""How many levels a query may have; also how many parts a dotted name may have."""
MAX_SORT_FIELDS = 32
"""How many fields ``$sort`` may name (as MongoDB)."""
MAX_NUMBER = 2**53 - 1
"""The greatest ``$limit`` and ``$skip``: the last whole number that JavaScript holds exactly."""

_LISTS = (list, tuple, set, frozenset)
_DIRECTIONS = {"1": 1, "-1": -1, 1: 1, -1: -1}


def refused(message: str, data: Mapping[str, Any] | None = None) -> BadRequest:
    """Return the error; `data` arrives as it is, even with keys that an error would take out."""
    error = BadRequest(message)
    error.data = None if data is None else dict(data)
    return error


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Say whether this is an object; plain dicts are most, and the general test is slow."""
    return type(value) is dict or isinstance(value, Mapping)


def check_depth(depth: int) -> None:
    """Raise where the query has too many levels."""
    if depth > MAX_DEPTH:
        raise refused(f"The query is nested too deeply: at most {MAX_DEPTH} levels are allowed")


def check_name(name: Any, holder: Mapping[str, Any]) -> None:
    """Raise unless this can be the name of a field, dotted or not.

    Args:
        name: The key.
        holder: The mapping with that key, for the client to see what is wrong.
    """
    _check_string(name, holder)
    if not name:
        raise refused("Invalid query parameter '': a name can not be empty", holder)
    if name[0] == "$" or ".$" in name:
        raise refused(f"Invalid query parameter {name}", holder)
    if name.count(".") >= MAX_DEPTH:
        raise refused(f"A field name has too many parts: at most {MAX_DEPTH} are allowed")


def check_open_name(name: Any, holder: Mapping[str, Any]) -> None:
    """Raise unless this can be a name in the value of an operator or filter that was opened."""
    _check_string(name, holder)
    if name in FORBIDDEN:
        raise refused(f"Invalid query parameter {name}", holder)


def _check_string(name: Any, holder: Mapping[str, Any]) -> None:
    if not isinstance(name, str):
        raise refused(f"Invalid query parameter {name!r}: a name must be a string")
    if "\0" in name:  # a driver would refuse it with an error of its own
        raise refused(f"Invalid query parameter {name!r}: a name can not hold NUL", holder)


def copy_value(
    value: Any, depth: int, check: Callable[[Any, Mapping[str, Any]], None] = check_name
) -> Any:
    """Return the value with copied containers.

    Args:
        value: Any value.
        depth: At which level of the query it stands.
        check: What each name in it has to pass.

    Raises:
        BadRequest: A name did not pass, or the levels are too many.
    """
    if type(value) in SCALAR_TYPES:
        return value
    if is_mapping(value):
        check_depth(depth + 1)
        copied = {}
        for name, inner in value.items():
            check(name, value)
            copied[name] = copy_value(inner, depth + 1, check)
        return copied
    if isinstance(value, _LISTS):
        check_depth(depth + 1)
        return [copy_value(inner, depth + 1, check) for inner in value]
    return value


def as_list(value: Any) -> Iterable[Any] | None:
    """Return the list that is meant, None where an object that is none stands in its place.

    A query string with more items than the array limit arrives as an object with index keys,
    and one with a single item as that item.
    """
    if isinstance(value, _LISTS):
        return value
    if not is_mapping(value):
        return (value,)
    if not value or not all(map(_is_index, value)):
        return None
    return [value[name] for name in sorted(value, key=lambda name: (len(name), name))]


def _is_index(name: Any) -> bool:
    if not isinstance(name, str) or not name.isascii() or not name.isdigit():
        return False
    return name == "0" or name[0] != "0"


def read_list(name: str, value: Any, depth: int) -> list[Any]:
    """Return the value of an operator that takes a list, such as ``$in``."""
    items = as_list(value)
    if items is None:
        raise refused(f"Invalid value for {name}: expected a list")
    return [copy_value(item, depth + 1) for item in items]


def read_number(name: str, value: Any) -> int:
    """Return the value of ``$limit`` or ``$skip``."""
    number: int | None = None
    if isinstance(value, str):
        # The length comes first: Python refuses to convert very long strings of digits.
        if len(value) <= 16 and value.isascii() and value.isdigit():
            number = int(value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0:
        number = int(value)
    if number is None or not 0 <= number <= MAX_NUMBER:
        raise refused(f"Invalid value for {name}: expected a whole number from 0 to {MAX_NUMBER}")
    return number


def read_sort(value: Any) -> tuple[tuple[str, int], ...]:
    """Return the value of ``$sort``."""
    if not is_mapping(value):
        raise refused("Invalid value for $sort: expected an object of fields with 1 or -1")
    if len(value) > MAX_SORT_FIELDS:
        raise refused(f"Invalid value for $sort: at most {MAX_SORT_FIELDS} fields are allowed")
    fields = []
    for name, given in value.items():
        _check_path("$sort", name)
        # True is equal to 1, so that it would be found; False is not.
        number = isinstance(given, (str, int, float)) and given is not True
        direction = _DIRECTIONS.get(given) if number else None
        if direction is None:
            raise refused(f"Invalid value for $sort: {name!r} must be 1 or -1")
        fields.append((name, direction))
    return tuple(fields)


def read_select(value: Any) -> tuple[str, ...]:
    """Return the value of ``$select``."""
    names = as_list(value)
    if names is None:
        raise refused("Invalid value for $select: expected a list of field names")
    chosen = tuple(names)
    for name in chosen:
        _check_path("$select", name)
    return chosen


def _check_path(where: str, name: Any) -> None:
    """Raise unless this names a field in ``$sort`` or ``$select``, where no part may be empty."""
    if type(name) is str and name.isidentifier():
        return  # most names, at once: none of the characters below can be in them
    parts = name.split(".") if isinstance(name, str) and "\0" not in name else [""]
    if len(parts) > MAX_DEPTH or not all(part and part[0] != "$" for part in parts):
        raise refused(f"Invalid value for {where}: {name!r} is no name of a field")
