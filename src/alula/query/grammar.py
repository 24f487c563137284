"""The grammar of the common query syntax: a raw mapping goes in, a frozen `Query` comes out.

What holds in this file:

- The grammar is closed: a name that starts with ``$`` is one of those listed here, or one that a
  service opened, or an error that names it. Nothing passes through unread.
- It is recursive, and the recursion is bounded: `MAX_DEPTH` levels, whatever the input.
- Values stay as they are (dates, ids, bytes); containers are copied, so that a `Query` shares
  nothing that can change with the mapping it was read from.
- All that can go wrong with a query is a `BadRequest` that names the part; its texts for unknown
  names are part of the wire contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from alula.errors import BadRequest
from alula.query.criteria import EMPTY, EMPTY_QUERY, And, Criterion, Or, Query, Where

__all__ = [
    "COMMON_FILTERS",
    "COMMON_OPERATORS",
    "EMPTY",
    "EMPTY_QUERY",
    "FORBIDDEN",
    "MAX_DEPTH",
    "MAX_NUMBER",
    "MAX_SORT_FIELDS",
    "And",
    "Criterion",
    "FilterOption",
    "Grammar",
    "Or",
    "Query",
    "Where",
]

COMMON_FILTERS = frozenset({"$limit", "$skip", "$sort", "$select", "$or", "$and"})
"""Names at the top level that every adapter knows."""
COMMON_OPERATORS = frozenset({"$in", "$nin", "$lt", "$lte", "$gt", "$gte", "$ne"})
"""Names below a field that every adapter knows."""
FORBIDDEN = frozenset({"$where", "$function", "$accumulator", "$expr"})
"""Names that run code or arbitrary expressions in a database: they never pass from a query."""
MAX_DEPTH = 32
"""How many levels a query may have; also how many parts a dotted name may have."""
MAX_SORT_FIELDS = 32
"""How many fields ``$sort`` may name (as MongoDB)."""
MAX_NUMBER = 2**53 - 1
"""The greatest ``$limit`` and ``$skip``: the last whole number that JavaScript holds exactly."""

FilterOption = bool | Callable[[Any], Any]
"""True passes a filter's value on, False accepts and drops it, a callable converts it."""


Reader = Callable[[str, Any, int], Any]
"""Reads the value of one operator: its name, the value, the depth."""

_ATOMS = frozenset({str, int, float, bool, type(None)})
_LISTS = (list, tuple, set, frozenset)
_DIRECTIONS = {1: 1, -1: -1, "1": 1, "-1": -1}


class Grammar:
    """Reads the queries of one service.

    Args:
        operators: Further operators below a field, such as ``$regex``.
        filters: Further names at the top level. True passes the value on in `Query.filters`,
            False accepts and drops it, a callable gets the value and returns what is passed on
            (a `ValueError` or `TypeError` that it raises is a 400).

    Raises:
        ValueError: A name does not start with ``$``, is part of the common syntax already, or
            never passes from a query.
    """

    def __init__(
        self,
        *,
        operators: Iterable[str] = (),
        filters: Mapping[str, FilterOption] | None = None,
    ) -> None:
        readers: dict[str, Reader] = {
            "$eq": _read_value,
            "$all": _read_list,
            "$not": self._read_not,
            "$elemMatch": self._read_element,
        }
        self._operators: dict[str, Reader] = dict.fromkeys(COMMON_OPERATORS, _read_value)
        self._operators.update({"$in": _read_list, "$nin": _read_list})
        for name in operators:
            _check_opened(name, "operators")
            self._operators[name] = readers.get(name, _read_open)
        self._filters = dict(filters or {})
        for name, option in self._filters.items():
            _check_opened(name, "filters")
            if not (isinstance(option, bool) or callable(option)):
                raise ValueError(
                    f"filters: the option of {name!r} is {option!r}; give True (pass the value on),"
                    " False (drop it) or a function that converts it"
                )

    def read(self, raw: Mapping[str, Any]) -> Query:
        """Return the query that a raw mapping describes.

        Args:
            raw: What came in as ``params.query``. It is not changed.

        Returns:
            A frozen query; `EMPTY_QUERY` itself where the mapping is empty.

        Raises:
            BadRequest: The query breaks the grammar; the message names the part.
        """
        if not raw:
            return EMPTY_QUERY
        if not isinstance(raw, Mapping):
            raise _refused("Invalid query: expected an object")
        parts: list[Criterion] = []
        limit: int | None = None
        skip = 0
        sort: tuple[tuple[str, int], ...] = ()
        select: tuple[str, ...] | None = None
        filters: Mapping[str, Any] = EMPTY
        for name, value in raw.items():
            if not isinstance(name, str) or name[:1] != "$":
                self._read_field(parts, name, value, raw, 1)
            elif name == "$limit":
                limit = _read_number(name, value)
            elif name == "$skip":
                skip = _read_number(name, value)
            elif name == "$sort":
                sort = _read_sort(value)
            elif name == "$select":
                select = _read_select(value)
            elif name in ("$or", "$and"):
                parts.append(self._read_branches(name, value, 1))
            else:
                filters = self._read_filter(filters, name, value)
        return Query(
            And(tuple(parts)) if parts else EMPTY_QUERY.criteria, limit, skip, sort, select, filters
        )

    def read_select(self, raw: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the fields that ``$select`` names, None where it is not there.

        Nothing else in the mapping is looked at: ``create`` ignores the rest of a query.

        Raises:
            BadRequest: ``$select`` is not a list of names.
        """
        return _read_select(raw["$select"]) if raw and "$select" in raw else None

    def _read_filter(self, filters: Mapping[str, Any], name: str, value: Any) -> Mapping[str, Any]:
        option = self._filters.get(name)
        if option is None:
            raise _refused(f"Invalid filter value {name}")
        if option is False:
            return filters
        value = _copy(value, 1, _check_open_name)
        if option is not True:
            try:
                value = option(value)
            except (TypeError, ValueError) as error:
                raise _refused(f"Invalid value for {name}") from error
        return MappingProxyType({**filters, name: value})

    def _read_branches(self, name: str, value: Any, depth: int) -> And | Or:
        """Return what ``$or`` or ``$and`` holds."""
        entries = _as_list(value)
        if not entries or not all(isinstance(entry, Mapping) for entry in entries):
            raise _refused(
                f"Invalid value for {name}: expected a list of objects with at least one entry"
            )
        parts = []
        for entry in entries:
            found = self._read_criteria(entry, depth + 1)
            parts.append(found[0] if len(found) == 1 else And(tuple(found)))
        return Or(tuple(parts)) if name == "$or" else And(tuple(parts))

    def _read_criteria(self, raw: Mapping[str, Any], depth: int) -> list[Criterion]:
        """Return the criteria in an object below the top level, where filters have no meaning."""
        _check_depth(depth)
        parts: list[Criterion] = []
        for name, value in raw.items():
            if name in ("$or", "$and"):
                parts.append(self._read_branches(name, value, depth))
            else:
                self._read_field(parts, name, value, raw, depth)
        return parts

    def _read_field(
        self, parts: list[Criterion], name: str, value: Any, holder: Mapping[str, Any], depth: int
    ) -> None:
        """Append what one entry of `holder` asks for; a nested one may ask for several fields."""
        if type(name) is not str or not name or "$" in name or "." in name or "\0" in name:
            _check_name(name, holder)
        if type(value) in _ATOMS:
            parts.append(Where(name, (("$eq", value),)))
        elif not isinstance(value, Mapping):
            parts.append(Where(name, (("$eq", _copy(value, depth, _check_name)),)))
        elif _is_operators(value):
            parts.append(Where(name, self._read_tests(value, depth + 1)))
        elif _holds_operators(value, depth + 1):
            for key, inner in value.items():
                _check_name(key, value)
                self._read_field(parts, f"{name}.{key}", inner, value, depth + 1)
        else:
            parts.append(Where(name, (("$eq", _copy(value, depth, _check_name)),)))

    def _read_tests(self, raw: Mapping[str, Any], depth: int) -> tuple[tuple[str, Any], ...]:
        _check_depth(depth)
        tests = []
        for name, value in raw.items():
            reader = self._operators.get(name)
            if reader is None:
                _check_name(name, raw)
                raise _refused(f"Invalid query parameter {name}: expected an operator", raw)
            tests.append((name, reader(name, value, depth)))
        return tuple(tests)

    def _read_not(self, name: str, value: Any, depth: int) -> tuple[tuple[str, Any], ...]:
        if not isinstance(value, Mapping) or not value:
            raise _refused(f"Invalid value for {name}: expected an object of operators")
        return self._read_tests(value, depth + 1)

    def _read_element(self, name: str, value: Any, depth: int) -> tuple[tuple[str, Any], ...] | And:
        if not isinstance(value, Mapping):
            raise _refused(f"Invalid value for {name}: expected an object")
        if _is_operators(value) and not ("$or" in value or "$and" in value):
            return self._read_tests(value, depth + 1)
        return And(tuple(self._read_criteria(value, depth + 1)))


def _refused(message: str, data: Mapping[str, Any] | None = None) -> BadRequest:
    """Return the error; `data` arrives as it is, even with keys that an error would take out."""
    error = BadRequest(message)
    error.data = data
    return error


def _check_opened(name: Any, where: str) -> None:
    """Raise ValueError unless a service may open this name."""
    if not isinstance(name, str) or len(name) < 2 or name[0] != "$":
        raise ValueError(f"{where}: {name!r} is no name of the query syntax; those start with '$'")
    if name in FORBIDDEN:
        raise ValueError(f"{where}: {name!r} runs code or expressions and never passes; remove it")
    if name in COMMON_OPERATORS or name in COMMON_FILTERS:
        raise ValueError(f"{where}: {name!r} is part of the common syntax already; remove it")


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _refused(f"The query is nested too deeply: at most {MAX_DEPTH} levels are allowed")


def _check_string(name: Any, holder: Mapping[str, Any]) -> None:
    # A driver would refuse both with an error of its own.
    if not isinstance(name, str):
        raise _refused(f"Invalid query parameter {name!r}: a name must be a string")
    if "\0" in name:
        raise _refused(f"Invalid query parameter {name!r}: a name can not hold NUL", holder)


def _check_name(name: Any, holder: Mapping[str, Any]) -> None:
    """Raise unless this can be the name of a field, dotted or not."""
    _check_string(name, holder)
    if not name:
        raise _refused("Invalid query parameter '': a name can not be empty", holder)
    if name[0] == "$" or ".$" in name:
        raise _refused(f"Invalid query parameter {name}", holder)
    if name.count(".") >= MAX_DEPTH:
        raise _refused(f"A field name has too many parts: at most {MAX_DEPTH} are allowed")


def _check_open_name(name: Any, holder: Mapping[str, Any]) -> None:
    """Raise unless this can be a name in the value of an operator or filter that was opened."""
    _check_string(name, holder)
    if name in FORBIDDEN:
        raise _refused(f"Invalid query parameter {name}", holder)


def _copy(value: Any, depth: int, check: Callable[[Any, Mapping[str, Any]], None]) -> Any:
    """Return the value with copied containers, all of whose names passed the check."""
    if type(value) in _ATOMS:
        return value
    if isinstance(value, Mapping):
        _check_depth(depth + 1)
        copied = {}
        for name, inner in value.items():
            check(name, value)
            copied[name] = _copy(inner, depth + 1, check)
        return copied
    if isinstance(value, _LISTS):
        _check_depth(depth + 1)
        return [_copy(inner, depth + 1, check) for inner in value]
    return value


def _is_operators(value: Mapping[str, Any]) -> bool:
    return any(isinstance(name, str) and name[:1] == "$" for name in value)


def _holds_operators(value: Mapping[str, Any], depth: int) -> bool:
    """Say whether operators stand somewhere in the objects inside this one."""
    _check_depth(depth)
    for inner in value.values():
        if isinstance(inner, Mapping) and (
            _is_operators(inner) or _holds_operators(inner, depth + 1)
        ):
            return True
    return False


def _as_list(value: Any) -> Iterable[Any] | None:
    """Return the list that is meant, None where an object that is none stands in its place.

    A query string with more items than the array limit arrives as an object with index keys,
    and one with a single item as that item.
    """
    if isinstance(value, _LISTS):
        return value
    if not isinstance(value, Mapping):
        return (value,)
    if not value or not all(_is_index(name) for name in value):
        return None
    return [value[name] for name in sorted(value, key=lambda name: (len(name), name))]


def _is_index(name: Any) -> bool:
    if not isinstance(name, str) or not name.isascii() or not name.isdigit():
        return False
    return name == "0" or name[0] != "0"


def _read_value(_name: str, value: Any, depth: int) -> Any:
    return _copy(value, depth, _check_name)


def _read_open(_name: str, value: Any, depth: int) -> Any:
    return _copy(value, depth, _check_open_name)


def _read_list(name: str, value: Any, depth: int) -> list[Any]:
    items = _as_list(value)
    if items is None:
        raise _refused(f"Invalid value for {name}: expected a list")
    return [_copy(item, depth, _check_name) for item in items]


def _read_number(name: str, value: Any) -> int:
    """Return the value of ``$limit`` or ``$skip``."""
    number: int | None = None
    if isinstance(value, str):
        # The length comes first: Python refuses to convert very long strings of digits.
        if len(value) <= 16 and value.isascii() and value.isdigit():
            number = int(value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0:
        number = int(value)
    if number is None or not 0 <= number <= MAX_NUMBER:
        raise _refused(f"Invalid value for {name}: expected a whole number from 0 to {MAX_NUMBER}")
    return number


def _read_sort(value: Any) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, Mapping):
        raise _refused("Invalid value for $sort: expected an object of fields with 1 or -1")
    if len(value) > MAX_SORT_FIELDS:
        raise _refused(f"Invalid value for $sort: at most {MAX_SORT_FIELDS} fields are allowed")
    fields = []
    for name, given in value.items():
        _check_path("$sort", name)
        wanted = isinstance(given, (str, int, float)) and not isinstance(given, bool)
        direction = _DIRECTIONS.get(given) if wanted else None
        if direction is None:
            raise _refused(f"Invalid value for $sort: {name!r} must be 1 or -1")
        fields.append((name, direction))
    return tuple(fields)


def _read_select(value: Any) -> tuple[str, ...]:
    names = _as_list(value)
    if names is None:
        raise _refused("Invalid value for $select: expected a list of field names")
    chosen = tuple(names)
    for name in chosen:
        _check_path("$select", name)
    return chosen


def _check_path(where: str, name: Any) -> None:
    """Raise unless this names a field in ``$sort`` or ``$select``, where no part may be empty."""
    parts = name.split(".") if isinstance(name, str) and "\0" not in name else [""]
    if len(parts) > MAX_DEPTH or not all(part and part[0] != "$" for part in parts):
        raise _refused(f"Invalid value for {where}: {name!r} is no name of a field")
