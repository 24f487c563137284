"""The grammar of the common query syntax: a raw mapping goes in, a frozen `Query` comes out.

Guarantees of this module:

- The grammar is closed. A name that starts with ``$`` is listed here, or opened by a service, or
  an error that names it. Nothing passes through unread.
- The same rules apply at every level, through objects and lists alike, down to `MAX_DEPTH` levels.
- Values stay as they are (dates, ids, bytes). Containers are copied: a `Query` does not change
  with the mapping that it was read from.
- Every fault of a query is a `BadRequest` that names the part; its texts for unknown names are
  part of the wire contract. Every fault of what a service opens is a `ValueError` when the service
  is created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from alula._context import Params
from alula._user_code import unknown_name_note
from alula.errors import BadRequest, shown_name
from alula.outgoing._redaction import shown_value
from alula.query._query import (
    EMPTY,
    EMPTY_QUERY,
    And,
    Budget,
    Criterion,
    Or,
    Query,
    ValidatedQuery,
    Where,
    query_of,
)
from alula.types import COLLECTION_TYPES, SCALAR_TYPES, JSONValue, is_mapping

__all__ = [
    "COMMON_FILTERS",
    "COMMON_OPERATORS",
    "MAX_NUMBER",
    "MAX_SORT_FIELDS",
    "SELECT_ALONE",
    "FilterOption",
    "Grammar",
    "Operand",
    "as_list",
    "copy_value",
    "operand_types",
    "read_select",
]

T = TypeVar("T")

COMMON_FILTERS: Final = frozenset({"$limit", "$skip", "$sort", "$select", "$or", "$and"})
"""Names at the top level that every adapter knows."""

COMMON_OPERATORS: Final = frozenset({"$in", "$nin", "$lt", "$lte", "$gt", "$gte", "$ne"})
"""Names below a field that every adapter knows."""

Operand: TypeAlias = Literal["value", "list", "text", "flag", "count", "any"]
"""What an operator compares a property with: a value of the property's type, a list of these, text,
true or false, a number of items, or anything that only the store knows."""

OPERANDS: Final[Mapping[str, Operand]] = MappingProxyType(
    {
        **dict.fromkeys(("$gt", "$gte", "$lt", "$lte", "$ne", "$eq"), "value"),
        **dict.fromkeys(("$in", "$nin", "$all", "$contains", "$overlaps"), "list"),
        **dict.fromkeys(("$regex", "$options", "$like", "$notlike", "$ilike"), "text"),
        **dict.fromkeys(("$exists", "$null"), "flag"),
        "$size": "count",
    }
)
"""By operator: the common ones, and those of them that a service may open. Others take anything."""

MAX_DEPTH: Final = 32
"""The largest number of levels in a query, and of parts in a dotted name."""

FORBIDDEN: Final = frozenset({"$where", "$function", "$accumulator", "$expr"})
"""Names that run code or arbitrary expressions in a database; no service can open them."""

MAX_SORT_FIELDS: Final = 32
"""The largest number of fields in ``$sort`` (as in MongoDB)."""

MAX_NUMBER: Final = 2**53 - 1
"""The largest ``$limit`` and ``$skip``: JavaScript's largest exact integer."""

_DIGITS_OF_MAX_NUMBER: Final = len(str(MAX_NUMBER))
_EVERYTHING: Final = EMPTY_QUERY.criteria
SELECT_ALONE: Final = dict.fromkeys(["$select"]).keys()
"""The names in a query that only selects fields."""

_DIRECTIONS: Final[dict[object, int]] = {"1": 1, "-1": -1, 1: 1, -1: -1}

FilterOption: TypeAlias = bool | Callable[[Any], Any]
"""True passes the value of a filter on, False ignores it, a callable converts it."""

_Reader: TypeAlias = Callable[[str, Any, int], Any]
"""Reads the value of an operator, given its name, the value and its level."""


class Grammar:
    """Reads the queries of one service.

    It knows ``$limit``, ``$skip``, ``$sort``, ``$select``, ``$or`` and ``$and``, and below a field
    ``$in``, ``$nin``, ``$lt``, ``$lte``, ``$gt``, ``$gte`` and ``$ne``.

    Args:
        operators: Further operators below a field, such as ``$regex``.
        filters: Further names at the top level. True passes the value on in `Query.filters`,
            False ignores it, a callable converts it (a value that it cannot convert, such as
            ``int("x")``, is a 400).

    Raises:
        ValueError: A name does not start with ``$``, is part of the common syntax already, or is
            never allowed in a query.

    Examples:
        >>> Grammar().read({"age": {"$gt": 17}, "$limit": 2}).limit
        2
    """

    def __init__(
        self,
        *,
        operators: Iterable[str] = (),
        filters: Mapping[str, FilterOption] | None = None,
    ) -> None:
        # Operators whose values have a form; the values of others are free.
        readers: dict[str, _Reader] = {
            "$eq": _read_value,
            "$all": read_list,
            "$not": self._read_not,
            "$elemMatch": self._read_element,
        }
        self._operators: dict[str, _Reader] = dict.fromkeys(COMMON_OPERATORS, _read_value)
        self._operators.update({"$in": read_list, "$nin": read_list})
        for name in operators:
            _check_opened(name, "operators")
            # Values of others go to the database as they are, and may hold operators of its own:
            # `$near: {"$geometry": ...}`. Only what runs code is refused in them.
            self._operators[name] = readers.get(
                name, lambda _name, value, depth: copy_value(value, depth, _check_open_name)
            )
        self._filters = dict(filters or {})
        self._wider: dict[tuple[frozenset[str], frozenset[str]], Grammar] = {}
        for name, option in self._filters.items():
            _check_opened(name, "filters")
            if not (isinstance(option, bool) or callable(option)):
                raise ValueError(
                    f"filters: the option of {name!r} is {option!r}; give True (pass the value on),"
                    " False (drop it) or a function that converts it"
                )

    @property
    def operators(self) -> frozenset[str]:
        """The operators that a service opened beside the common ones."""
        return frozenset(self._operators) - COMMON_OPERATORS

    @property
    def filters(self) -> frozenset[str]:
        """The filters that a service opened beside the common ones."""
        return frozenset(self._filters)

    def read(  # noqa: C901, PLR0912  # one pass: a call for each name would cost as much
        self, raw: Mapping[str, Any], max_steps: int | None = None
    ) -> Query:
        """Return the query that a raw mapping describes.

        Args:
            raw: The value of ``params.query``. It is not changed. A `ValidatedQuery` opens what
                its schema names.
            max_steps: The work limit of the call, None for no limit; see `Budget`.

        Returns:
            A frozen query; `EMPTY_QUERY` itself for an empty mapping.

        Raises:
            BadRequest: The query breaks the grammar; the message names the part.
            TypeError: It is None, which only code of the application can set.
        """
        query_type = type(raw)  # in a variable, or a type checker forgets what is in a dict
        if query_type is dict:
            if raw.keys() == SELECT_ALONE:  # nothing else to look for
                return query_of(
                    (_EVERYTHING, None, 0, (), read_select(raw["$select"]), EMPTY, None)
                )
        elif type(raw) is ValidatedQuery:
            if raw and (raw.operators or raw.filters):
                return self._opened_for(raw).read(dict(raw), max_steps)
        elif not is_mapping(raw):
            if raw is None:  # pyright: ignore[reportUnnecessaryComparison]  # such as the result of a function that forgot its `return`
                raise TypeError(
                    "params.query is None; a query is a mapping, and {} selects everything"
                )
            raise _invalid("Invalid query: expected an object")
        if not raw:
            return EMPTY_QUERY
        parts: list[Criterion] = []
        limit: int | None = None
        skip = 0
        sort: tuple[tuple[str, int], ...] = ()
        select: tuple[str, ...] | None = None
        filters: Mapping[str, Any] = EMPTY
        for name, value in raw.items():
            if name not in COMMON_FILTERS:
                if isinstance(name, str) and name[:1] == "$":
                    filters = self._read_filter(filters, name, value)
                else:
                    self._read_field(parts, name, value, raw, 1)
            elif name == "$limit":
                limit = read_number(name, value)
            elif name == "$sort":
                sort = read_sort(value)
            elif name == "$select":
                select = read_select(value)
            elif name == "$skip":
                skip = read_number(name, value)
            else:
                parts.append(self._read_branches(name, value, 1))
        criteria = And(tuple(parts)) if parts else _EVERYTHING
        budget = Budget(max_steps) if (parts or sort) and max_steps is not None else None
        return query_of((criteria, limit, skip, sort, select, filters, budget))

    def opened(
        self,
        operators: Iterable[str] | None = None,
        filters: Mapping[str, FilterOption] | None = None,
    ) -> Grammar:
        """Return a grammar with other operators or filters opened; None leaves them as they are.

        Raises:
            ValueError: As for a new one.
        """
        return Grammar(
            operators=self.operators if operators is None else operators,
            filters=self._filters if filters is None else filters,
        )

    def read_select(self, raw: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the fields in ``$select``, None without it.

        The rest of the mapping is ignored, as ``create`` does.

        Raises:
            BadRequest: ``$select`` is not a list of names.
        """
        return read_select(raw["$select"]) if raw and "$select" in raw else None

    def _opened_for(self, raw: ValidatedQuery) -> Grammar:
        """Return a grammar that also opens what the schema of a query names; cached by schema."""
        # Schemas are set up once; what a client sends never makes a new key here.
        key = raw.operators, raw.filters
        wider = self._wider.get(key)
        if wider is None:
            wider = self._wider[key] = Grammar(
                operators=self.operators | raw.operators,
                # The options of the service take precedence: it may drop or convert what a schema
                # names.
                filters={**dict.fromkeys(raw.filters, True), **self._filters},
            )
        return wider

    def _read_filter(
        self, filters: Mapping[str, Any], name: str, value: object
    ) -> Mapping[str, Any]:
        """Return the filters with one more."""
        option = self._filters.get(name)
        if option is None:
            raise _invalid(f"Invalid filter value {shown_name(name)}")
        if option is False:
            return filters
        value = copy_value(value, 1, _check_open_name)
        if option is not True:
            try:
                value = option(value)
            except (TypeError, ValueError, ArithmeticError, LookupError) as error:
                raise _invalid(f"Invalid value for {name}") from error
        return MappingProxyType({**filters, name: value})

    def _read_branches(self, name: str, value: object, depth: int) -> And | Or:
        """Return the criteria in ``$or`` or ``$and``."""
        entries = as_list(value)
        if not entries or not all(map(is_mapping, entries)):
            raise _invalid(
                f"Invalid value for {name}: expected a list of objects with at least one entry"
            )
        parts: list[Criterion] = []
        for entry in entries:
            inner = self._read_criteria(entry, depth + 1)
            parts.append(inner[0] if len(inner) == 1 else And(tuple(inner)))
        return Or(tuple(parts)) if name == "$or" else And(tuple(parts))

    def _read_criteria(self, raw: Mapping[str, Any], depth: int) -> list[Criterion]:
        """Return the criteria in an object below the top level, where filters are not allowed."""
        _check_depth(depth)
        parts: list[Criterion] = []
        for name, value in raw.items():
            if name in ("$or", "$and"):
                parts.append(self._read_branches(name, value, depth))
            else:
                self._read_field(parts, name, value, raw, depth)
        return parts

    def _read_field(
        self,
        parts: list[Criterion],
        name: str,
        value: object,
        holder: Mapping[str, Any],
        depth: int,
    ) -> None:
        """Append the criteria of one entry of ``holder``; a nested one may have several fields."""
        # Identifiers, which most names are, pass every check below.
        if type(name) is not str or not name.isidentifier():
            _check_name(name, holder)
        if type(value) in SCALAR_TYPES:
            parts.append(Where(name, (("$eq", value),)))
        elif not is_mapping(value):
            parts.append(Where(name, (("$eq", copy_value(value, depth)),)))
        elif _is_operators(value):
            parts.append(Where(name, self._read_tests(value, depth + 1)))
        elif _holds_operators(value, depth + 1):
            for key, inner in value.items():
                _check_name(key, value)
                self._read_field(parts, f"{name}.{key}", inner, value, depth + 1)
        else:
            parts.append(Where(name, (("$eq", copy_value(value, depth)),)))

    def _read_tests(self, raw: Mapping[str, Any], depth: int) -> tuple[tuple[str, Any], ...]:
        """Return the tests in an object of operators."""
        _check_depth(depth)
        tests: list[tuple[str, Any]] = []
        for name, value in raw.items():
            reader = self._operators.get(name)
            if reader is None:
                try:
                    _check_name(name, raw)
                    raise _invalid(
                        f"Invalid query parameter {shown_name(name)}: expected an operator", raw
                    )
                except BadRequest as error:
                    error.add_note(unknown_name_note(str(name), self._operators))
                    raise
            tests.append((name, reader(name, value, depth)))
        return tuple(tests)

    def _read_not(self, name: str, value: object, depth: int) -> tuple[tuple[str, Any], ...]:
        if not is_mapping(value) or not value:
            raise _invalid(f"Invalid value for {name}: expected an object of operators")
        return self._read_tests(value, depth + 1)

    def _read_element(
        self, name: str, value: object, depth: int
    ) -> And | tuple[tuple[str, Any], ...]:
        if not is_mapping(value):
            raise _invalid(f"Invalid value for {name}: expected an object")
        if _is_operators(value) and "$or" not in value and "$and" not in value:
            return self._read_tests(value, depth + 1)
        return And(tuple(self._read_criteria(value, depth + 1)))


def operand_types(kinds: Mapping[Operand, T], opened: Iterable[str] = ()) -> dict[str, T]:
    """Return the type of the operand of each operator below one property.

    Args:
        kinds: The types of operands, for this property: JSON Schemas, or types for Pydantic.
        opened: The operators that a service opens beside the common ones.
    """
    common = [name for name in OPERANDS if name in COMMON_OPERATORS]
    return {name: kinds[OPERANDS.get(name, "any")] for name in (*common, *sorted(opened))}


def _check_opened(name: object, where: str) -> None:
    """Raise ValueError unless a service may open this name."""
    if not isinstance(name, str) or len(name) < 2 or name[0] != "$":
        raise ValueError(f"{where}: {name!r} is not a query name; those start with '$'")
    if name in FORBIDDEN:
        raise ValueError(f"{where}: {name!r} runs code or expressions and never passes; remove it")
    if name in COMMON_OPERATORS or name in COMMON_FILTERS:
        raise ValueError(f"{where}: {name!r} is part of the common syntax already; remove it")


def _read_value(_name: str, value: object, depth: int) -> object:
    return value if type(value) in SCALAR_TYPES else copy_value(value, depth)


def _is_operators(value: Mapping[str, Any]) -> bool:
    """Tell whether an object holds operators: one name with ``$`` is enough."""
    for name in value:  # noqa: SIM110  # a generator costs more than the loop
        if isinstance(name, str) and name[:1] == "$":
            return True
    return False


def _holds_operators(value: Mapping[str, Any], depth: int) -> bool:
    """Tell whether the objects inside this one hold operators, at any depth."""
    _check_depth(depth)
    inside = filter(is_mapping, value.values())
    return any(_is_operators(inner) or _holds_operators(inner, depth + 1) for inner in inside)


def read_list(name: str, value: object, depth: int) -> list[Any]:
    """Return the value of an operator that takes a list, such as ``$in``."""
    items = as_list(value)
    if items is None:
        raise _invalid(f"Invalid value for {name}: expected a list")
    return [copy_value(item, depth + 1) for item in items]


def read_number(name: str, value: object) -> int:
    """Return the value of ``$limit`` or ``$skip``."""
    number: int | None = None
    if isinstance(value, str):
        if value.isdigit() and value.isascii():
            # The length first: int() refuses very long strings of digits with a ValueError.
            if len(value) < _DIGITS_OF_MAX_NUMBER:
                return int(value)
            if len(value) == _DIGITS_OF_MAX_NUMBER:
                number = int(value)
    elif type(value) is int:
        number = value
    # Infinity and NaN fail this as well: their remainder is NaN.
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0:
        number = int(value)
    if number is None or not 0 <= number <= MAX_NUMBER:
        raise _invalid(f"Invalid value for {name}: expected a whole number from 0 to {MAX_NUMBER}")
    return number


def read_sort(value: object) -> tuple[tuple[str, int], ...]:
    """Return the value of ``$sort``."""
    if not is_mapping(value):
        raise _invalid("Invalid value for $sort: expected an object of fields with 1 or -1")
    if len(value) > MAX_SORT_FIELDS:
        raise _invalid(f"Invalid value for $sort: at most {MAX_SORT_FIELDS} fields are allowed")
    fields: list[tuple[str, int]] = []
    for name, given in value.items():
        if type(name) is not str or not name.isidentifier():
            _check_path("$sort", name)
        # True == 1, so a lookup would accept it.
        number = isinstance(given, (str, int, float)) and given is not True
        direction = _DIRECTIONS.get(given) if number else None
        if direction is None:
            raise _invalid(f"Invalid value for $sort: {shown_name(name)!r} must be 1 or -1")
        fields.append((name, direction))
    return tuple(fields)


def read_select(value: JSONValue) -> tuple[str, ...]:
    """Return the value of ``$select``."""
    if type(value) is list:
        try:
            # Most names are identifiers. What is one when joined has none of the characters that
            # `_check_path` looks for.
            if "_".join(value).isidentifier() and all(value):
                return tuple(value)
        except TypeError:  # a name is not a string
            pass
    names = as_list(value)
    if names is None:
        raise _invalid("Invalid value for $select: expected a list of field names")
    chosen = tuple(names)
    for name in chosen:
        _check_path("$select", name)
    return chosen


def _check_path(where: str, name: object) -> None:
    """Refuse what is not a field in ``$sort`` or ``$select``, where no part may be empty."""
    if not isinstance(name, str):  # not shown: clients do not know how Python writes it
        raise _invalid(f"Invalid value for {where}: a name of a field must be a string")
    parts = name.split(".") if "\0" not in name else [""]
    if len(parts) > MAX_DEPTH or not all(part and part[0] != "$" for part in parts):
        raise _invalid(f"Invalid value for {where}: {shown_name(name)!r} is not a name of a field")


# -- names and values ------------------------------------------------------------------------------


def _invalid(message: str, data: Mapping[str, Any] | None = None) -> BadRequest:
    """Return a 400 whose ``data`` is a part of the query.

    `BadRequest` itself would move the keys ``message`` and ``errors`` out of the data.
    """
    error = BadRequest(message)
    error.data = None if data is None else dict(data)
    return error


def _check_depth(depth: int) -> None:
    """Refuse a query with too many levels.

    Raises:
        BadRequest: There are more than `MAX_DEPTH`.
    """
    if depth > MAX_DEPTH:
        raise _invalid(f"The query is nested too deeply: at most {MAX_DEPTH} levels are allowed")


def _check_name(name: Any, holder: Mapping[str, Any]) -> None:
    """Refuse a key that cannot be the name of a field, dotted or not.

    Args:
        name: The key.
        holder: The mapping with that key, shown to the client.

    Raises:
        BadRequest: The key is not a name.
    """
    _check_string(name)
    if not name:
        raise _invalid("Invalid query parameter '': a name cannot be empty", holder)
    if name[0] == "$" or ".$" in name:
        raise _invalid_name(name, holder)
    if name.count(".") >= MAX_DEPTH:
        raise _invalid(f"A field name has too many parts: at most {MAX_DEPTH} are allowed")


def _check_open_name(name: object, holder: Mapping[str, Any]) -> None:
    """Refuse a key that is not allowed in the value of an opened operator or filter.

    Raises:
        BadRequest: It is not allowed.
    """
    _check_string(name)
    if name in FORBIDDEN:
        raise _invalid_name(str(name), holder)


def _invalid_name(name: str, holder: Mapping[str, Any]) -> BadRequest:
    shown = shown_name(name)
    # The data of an error is logged by applications that print errors.
    return _invalid(f"Invalid query parameter {shown}", holder if shown == name else None)


def _check_string(name: object) -> None:
    if not isinstance(name, str):
        raise _invalid(f"Invalid query parameter {name!r}: a name must be a string")
    if "\0" in name:  # a driver would fail on it: a 500
        raise _invalid(f"Invalid query parameter {shown_name(name)!r}: a name cannot hold NUL")


def copy_value(
    value: Any, depth: int, check: Callable[[Any, Mapping[str, Any]], None] = _check_name
) -> object:
    """Return the value with its containers copied.

    Args:
        value: Any value.
        depth: Its level in the query.
        check: Checks each name in it.

    Raises:
        BadRequest: A name is not allowed, or there are too many levels.
    """
    if type(value) in SCALAR_TYPES:
        return value
    if is_mapping(value):
        _check_depth(depth + 1)
        copied: dict[str, Any] = {}
        for name, inner in value.items():
            check(name, value)
            copied[name] = copy_value(inner, depth + 1, check)
        return copied
    if isinstance(value, COLLECTION_TYPES):
        _check_depth(depth + 1)
        return [copy_value(inner, depth + 1, check) for inner in value]
    return shown_value(value)  # a query is no output: it may compare with what is hidden


def as_list(value: Any) -> Iterable[Any] | None:
    """Return a value that should be a list as a list, None for an object that cannot be one.

    A query string with more items than the array limit arrives as an object with index keys, and
    one with a single item as that item.
    """
    if isinstance(value, COLLECTION_TYPES):
        items: Iterable[Any] = value
        return items
    if type(value) in SCALAR_TYPES or not is_mapping(value):
        return (value,)
    if not value or not all(
        isinstance(name, str)
        and name.isascii()
        and name.isdigit()
        and (name == "0" or name[0] != "0")
        for name in value
    ):
        return None
    # By length, then text: the order of the numbers, without int(), which refuses very long text.
    return [value[name] for name in sorted(value, key=lambda name: (len(name), name))]


@runtime_checkable
class QueriedService(Protocol):
    """A service that reads queries by a grammar of its own, as those of the adapters."""

    def query_grammar(self, params: Params, /) -> Grammar:
        """Return the grammar for a call with these params.

        Raises:
            ValueError: An option in the params is not valid.
        """
        ...
