"""Translates the criteria of a query into conditions and their parameters.

Equal lists of conditions are equal shapes, and the text of a shape is made once (`Shapes`). An
operand is what a condition tests: a column, a value at a JSON path, a property of a related record.
It turns one test of a query into a condition. The text of a test that compares is made once for
each operand, so a call only converts the value.

Null is a value of queries: ``$ne``, ``$nin`` and ``$notlike`` are met by null, as in every other
adapter.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from alula.adapters._database_options import check_conditions
from alula.adapters.sql._columns._column_types import ColumnType, is_unicode
from alula.adapters.sql._drivers._sqlite_functions import fold
from alula.adapters.sql._names import Dialect
from alula.adapters.sql._statements._search import search_condition
from alula.adapters.sql._statements._text import (
    PLACE,
    all_of,
    any_of,
    json_list,
    json_value,
    literal,
    negated,
)
from alula.adapters.sql._tables._tables import Column, Table
from alula.errors import BadRequest, shown_name
from alula.query import And, Query, Where
from alula.query._operators import truth_of
from alula.query._query import Budget, Criterion
from alula.types import JSONValue, is_list, is_mapping

if TYPE_CHECKING:
    from alula.adapters.sql._options import SQLOptions
    from alula.adapters.sql._own_sql import Condition

__all__ = ["Criteria", "Operand", "joined_operand", "json_path", "unknown_field"]

_COMPARING: Final = frozenset({"$eq", "$ne", "$lt", "$lte", "$gt", "$gte"})
"""The operators that compare with one value: one condition each."""

_MAX_PATTERN: Final = 1_000
"""How long a pattern may be, in characters.

SQLite cannot be interrupted within one comparison, which takes the length of the pattern times that
of the text: with 5,000 and a million characters, 11 seconds in which a thread reads nothing else.
"""

_Test: TypeAlias = Callable[[Any, list[object]], str]
"""Makes the condition of one operator from its value; appends parameters to the list."""

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


def unknown_field(name: str) -> BadRequest:
    """Return the error for a name that is neither a column nor a declared path."""
    return BadRequest(f"Invalid query parameter {shown_name(name)}: there is no such field")


class Criteria:
    """Translates the criteria of queries for one table under the options of a service.

    Args:
        table: The table.
        options: ``paths`` names the JSON paths that queries may test; ``max_conditions`` bounds
            the conditions.
        joined: Operands of other tables, by the names that queries have for them.

    Raises:
        ValueError: A path does not begin with a JSON column.
    """

    def __init__(
        self, table: Table, options: SQLOptions, joined: Mapping[str, Operand] | None = None
    ) -> None:
        self._max_conditions = options.max_conditions
        self._search = search_condition(table, options.search) if options.search else None
        self._operands: dict[str, Operand] = {
            name: _column_operand(column, table)
            for name, column in table.columns.items()
            if column is not table.extra
        }
        for path, type_ in options.paths.items():
            self._operands[path] = _path_operand(path, type_, table)
        self._operands.update(joined or {})

    def operand(self, field: str) -> Operand:
        """Return what a query means by the name of a field.

        Raises:
            BadRequest: There is no such field.
        """
        operand = self._operands.get(field)
        if operand is None:
            raise unknown_field(field)
        return operand

    def conditions(
        self, query: Query, parameters: list[object], where: Condition | None = None
    ) -> tuple[str, ...]:
        """Return the conditions of a query, all of which must hold.

        Args:
            query: Its criteria and its filter ``$search``.
            parameters: Where to append the parameters, in the order of their places.
            where: A condition of the application beside the query.

        Raises:
            BadRequest: A field does not exist, a value cannot be of its type, an operator does not
                go with it, or there are too many conditions.
        """
        parts = query.criteria.parts
        if not parts and not query.filters and where is None:
            return ()
        conditions: list[str] = []
        many = False
        for part in parts:
            if not isinstance(part, Where):
                many = True
                conditions.append(self._condition(part, parameters, query.budget))
                continue
            operand = self._operands.get(part.field)
            if operand is None:
                raise unknown_field(part.field)
            for operator, value in part.tests:
                if operator not in _COMPARING:
                    many = True
                    _spend(operator, value, query.budget)
                conditions.append(operand.test(operator, value, parameters))
        # Most queries have a few plain tests: counting them again would take as long as the rest.
        if self._max_conditions is not None and (many or len(conditions) > self._max_conditions):
            check_conditions(query.criteria, self._max_conditions)
        if "$search" in query.filters:
            if self._search is None:
                raise BadRequest("Invalid filter value $search: there is nothing to search in")
            conditions.append(self._search(query.filters["$search"], parameters))
        if where is not None:
            parameters.extend(where.parameters)
            conditions.append(f"({PLACE.join(where.parts)})")
        return tuple(conditions)

    def _condition(self, part: Criterion, parameters: list[object], budget: Budget | None) -> str:
        """Return a part of the criteria as one condition."""
        if isinstance(part, Where):
            operand = self.operand(part.field)
            inner: list[str] = []
            for operator, value in part.tests:
                _spend(operator, value, budget)
                inner.append(operand.test(operator, value, parameters))
            return all_of(inner)
        # Text in text: nested parts are rare, and the shape stays one flat list for a fast key.
        inner = [self._condition(each, parameters, budget) for each in part.parts]
        return all_of(inner) if isinstance(part, And) else any_of(inner)


def _spend(operator: str, value: JSONValue, budget: Budget | None) -> None:
    """Count the values of a list: each is converted, and nothing else runs meanwhile."""
    if budget is not None and isinstance(value, list):
        budget.spend(len(value), f"{operator} has too many values")


# -- operands --------------------------------------------------------------------------------------


class Operand:
    """A value that queries test.

    Args:
        field: Its name in queries.
        sql: Its text.
        type: The type of its values.
        nullable: Whether it may be null.
        dialect: That of the texts.
        indexed: What an index may be on in its place. It is equal where the value is not null.

    Attributes:
        field: As given.
        sql: As given.
        type: As given.
        nullable: As given.
    """

    def __init__(
        self,
        field: str,
        sql: str,
        type: ColumnType,
        nullable: bool,
        dialect: Dialect,
        indexed: str = "",
    ) -> None:
        self.field = field
        self.sql = sql
        self.type = type
        self.nullable = nullable
        self._dialect: Dialect = dialect
        self._is_null = f"{sql} is null" if nullable else "false"
        self._is_not_null = f"{sql} is not null" if nullable else "true"
        place = f"{PLACE}::{type.cast}" if type.cast else PLACE
        equal, ranged = f"{sql}{type.equality}", f"{sql}{type.collation}"
        # `is distinct from` would be shorter, but no index serves it.
        self._compared = {
            "=": f"{equal} = {place}",
            "<>": self._or_null(f"{equal} <> {place}"),
            **{name: f"{ranged} {name} {place}" for name in ("<", "<=", ">", ">=")},
        }
        self._indexed = indexed
        if indexed:
            self._compared["="] = f"({indexed} = {place} and {self._is_not_null})"
        # Null is equal to itself, and neither less nor greater than anything.
        self._compared_to_null = dict.fromkeys(("$eq", "$lte", "$gte"), self._is_null) | {
            "$ne": self._is_not_null,
            "$lt": "false",
            "$gt": "false",
        }
        self._others: dict[str, _Test] = {
            "$in": self.is_in,
            "$nin": self.is_not_in,
            "$not": self.meets_not,
            "$all": self.has_all,
            "$null": self.is_null,
            "$like": self.is_like,
            "$notlike": self.is_not_like,
            "$ilike": self.is_like_in_any_case,
            "$regex": self.matches,
        }

    def test(self, operator: str, value: Any, parameters: list[object]) -> str:
        """Return the condition for one test.

        Args:
            operator: That of the test.
            value: Its value in the query.
            parameters: Where to append the parameters of the condition.

        Raises:
            BadRequest: The value cannot be of the type, or the operator does not go with it.
        """
        if operator not in _COMPARING:
            return self.test_of(operator)(value, parameters)
        if value is None:
            return self._compared_to_null[operator]
        outcome = self.type.comparison(operator, value, self.field)
        if outcome is True:
            # Null is not equal to any value either, but neither less nor greater.
            return "true" if operator == "$ne" else self._is_not_null
        if outcome is False:
            return "false"
        name, parameter = outcome
        parameters.append(parameter)
        return self._compared[name]

    def test_of(self, operator: str) -> _Test:
        """Return what makes the condition of an operator that does not compare with one value.

        Raises:
            BadRequest: The operator does not go with the operand.
        """
        test = self._others.get(operator)
        if test is None:
            raise BadRequest(
                f"Invalid query parameter {operator}: {self.field!r} cannot be tested for it"
            )
        return test

    def _or_null(self, condition: str) -> str:
        return f"({condition} or {self.sql} is null)" if self.nullable else condition

    def is_in(self, wanted: list[Any], parameters: list[object]) -> str:
        """Return the condition of ``$in``."""
        values = self.driver_values(wanted)
        has_null = None in wanted
        if not values:
            return self._is_null if has_null else "false"
        parameters.append(json_list(values) if self._dialect == "sqlite" else values)
        condition = self._among("in", "= any")
        return self._or_null(condition) if has_null else condition

    def is_not_in(self, unwanted: list[Any], parameters: list[object]) -> str:
        """Return the condition of ``$nin``, which null meets unless it is in the list."""
        values = self.driver_values(unwanted)
        has_null = None in unwanted
        if not values:
            return self._is_not_null if has_null else "true"
        parameters.append(json_list(values) if self._dialect == "sqlite" else values)
        condition = self._among("not in", "<> all")
        # Null is not in the list: neither true nor false without this.
        return condition if has_null else self._or_null(condition)

    def driver_values(self, given: list[Any]) -> list[object]:
        """Return the driver's values of a list, without null and what the type never has."""
        compare, field = self.type.comparison, self.field
        values: list[object] = []
        for item in given:
            if item is not None:
                outcome = compare("$eq", item, field)
                if not isinstance(outcome, bool):
                    values.append(outcome[1])
        return values

    def _among(self, sqlite: str, postgresql: str) -> str:
        value = f"{self.sql}{self.type.equality}"
        if self._dialect == "sqlite":
            return f"{value} {sqlite} (select {json_value(self.type)} from json_each({PLACE}))"
        if self._indexed and postgresql == "= any":
            return (
                f"({self._indexed} = any({PLACE}::{self.type.array_cast}) and {self._is_not_null})"
            )
        return f"{value} {postgresql}({PLACE}::{self.type.array_cast})"

    def meets_not(self, tests: tuple[tuple[str, Any], ...], parameters: list[object]) -> str:
        """Return the condition of ``$not``."""
        return negated(all_of([self.test(*test, parameters) for test in tests]))

    def has_all(self, wanted: list[Any], parameters: list[object]) -> str:
        """Return the condition of ``$all``."""
        # Nothing has all of no values, as in MongoDB.
        tests = [self.test("$eq", item, parameters) for item in wanted]
        return all_of(tests) if tests else "false"

    def is_null(self, wanted: object, _parameters: list[object]) -> str:
        """Return the condition of ``$null``."""
        return self._is_null if truth_of(wanted, "$null") else self._is_not_null

    def is_like(self, pattern: object, parameters: list[object]) -> str:
        """Return the condition of ``$like``."""
        parameters.append(self._pattern("$like", pattern))
        return f"{self._text} like {PLACE} escape '\\'"

    def is_not_like(self, pattern: object, parameters: list[object]) -> str:
        """Return the condition of ``$notlike``, which null meets."""
        parameters.append(self._pattern("$notlike", pattern))
        return self._or_null(f"{self._text} not like {PLACE} escape '\\'")

    def is_like_in_any_case(self, pattern: object, parameters: list[object]) -> str:
        """Return the condition of ``$ilike``."""
        text = self._pattern("$ilike", pattern)
        if self._dialect == "sqlite":
            parameters.append(fold(text))
            return f"alula_fold({self.sql}) like {PLACE} escape '\\'"
        parameters.append(text)
        return f"{self._text} ilike {PLACE} escape '\\'"

    def matches(self, pattern: object, parameters: list[object]) -> str:
        """Return the condition of ``$regex``.

        Raises:
            BadRequest: The database is SQLite, or the pattern is not text.
        """
        if self._dialect == "sqlite":
            raise BadRequest("Invalid query parameter $regex: SQLite cannot test for it")
        text = self._checked_text("$regex", pattern)
        parameters.append(text)
        return f"{self._text} ~ {PLACE}"

    @property
    def _text(self) -> str:
        # An enumeration of PostgreSQL is not text by itself.
        return f"{self.sql}::text" if self._dialect == "postgresql" else self.sql

    def _pattern(self, operator: str, pattern: object) -> str:
        """Return the pattern of an operator such as ``$like``.

        Raises:
            BadRequest: It is not a valid pattern, or the values are not text.
        """
        text = self._checked_text(operator, pattern)
        # PostgreSQL refuses it only if a text is compared up to there; SQLite never does.
        if (len(text) - len(text.rstrip("\\"))) % 2:
            raise BadRequest(
                f"Invalid value for {operator}: the backslash at the end quotes nothing; write two"
            )
        return text

    def _checked_text(self, operator: str, pattern: object) -> str:
        if self.type.name not in ("text", "enum"):
            raise BadRequest(f"Invalid query parameter {operator}: {self.field!r} is not text")
        if not isinstance(pattern, str) or len(pattern) > _MAX_PATTERN:
            raise BadRequest(
                f"Invalid value for {operator}: expected text of at most {_MAX_PATTERN} characters"
            )
        if "\0" in pattern or not is_unicode(pattern):
            raise BadRequest(f"Invalid value for {operator}: the text is not valid")
        return pattern


class _JSONOperand(Operand):
    """A JSON column.

    Text, numbers and booleans are compared with the column and with the elements of a list in it,
    as in MongoDB; objects and lists with the column as a whole.
    """

    def __init__(
        self, field: str, sql: str, type: ColumnType, nullable: bool, dialect: Dialect
    ) -> None:
        super().__init__(field, sql, type, nullable, dialect)
        self._others |= {"$contains": self.contains, "$overlaps": self.overlaps}
        if dialect == "sqlite":  # as text, [1] and [1.0] differ
            equal = f"alula_json_equal({sql}, {PLACE})"
            self._compared |= {"=": equal, "<>": negated(equal)}

    def test(self, operator: str, value: Any, parameters: list[object]) -> str:
        """Return the condition for one test.

        Raises:
            BadRequest: As for other operands.
        """
        if value is None or operator not in ("$eq", "$ne") or isinstance(value, list | Mapping):
            return super().test(operator, value, parameters)
        condition = self.contains(value, parameters)
        return negated(condition) if operator == "$ne" else condition

    def is_in(self, wanted: list[Any], parameters: list[object]) -> str:
        """Return the condition of ``$in``."""
        whole = [item for item in wanted if is_list(item) or is_mapping(item)]
        tests = [self.test("$eq", item, parameters) for item in whole]
        if None in wanted:
            tests.append(self._is_null)
        plain = [item for item in wanted if not (item is None or isinstance(item, list | Mapping))]
        if plain and self._dialect == "sqlite":
            parameters.append(self.type.store(plain, self.field))
            tests.append(f"alula_json_contains_one({self.sql}, {PLACE})")
        elif plain:
            parameters.append([self.type.store(item, self.field) for item in plain])
            tests.append(f"{self.sql}::jsonb @> any({PLACE}::jsonb[])")
        return any_of(tests) if tests else "false"

    def is_not_in(self, unwanted: list[Any], parameters: list[object]) -> str:
        """Return the condition of ``$nin``, which null meets unless it is in the list."""
        return negated(self.is_in(unwanted, parameters))

    def contains(self, wanted: object, parameters: list[object]) -> str:
        """Return the condition of ``$contains``."""
        parameters.append(self.type.store(wanted, self.field))
        if self._dialect == "sqlite":
            return f"alula_json_contains({self.sql}, {PLACE})"
        return f"{self.sql}::jsonb @> {PLACE}::jsonb"

    def overlaps(self, wanted: object, parameters: list[object]) -> str:
        """Return the condition of ``$overlaps``."""
        items = wanted if is_list(wanted) else [wanted]
        if self._dialect == "sqlite":
            parameters.append(self.type.store(items, self.field))
            return f"alula_json_overlaps({self.sql}, {PLACE})"
        null = ["null"] if None in items else []
        values = [self.type.store(item, self.field) for item in items if item is not None]
        parameters.append(values + null)
        # The function fails for what is not a list.
        return (
            f"exists (select 1 from jsonb_array_elements(case jsonb_typeof({self.sql}::jsonb)"
            f" when 'array' then {self.sql}::jsonb else '[]' end) as alula_element(alula_value)"
            f" where alula_element.alula_value = any({PLACE}::jsonb[]))"
        )


class _ArrayOperand(Operand):
    """An array: a test is met if the array meets it, or one of its elements, as in MongoDB."""

    def __init__(
        self, field: str, sql: str, type: ColumnType, nullable: bool, dialect: Dialect
    ) -> None:
        super().__init__(field, sql, type, nullable, dialect)
        element = cast("ColumnType", type.element)
        # The columns of json_each() have names of their own.
        value = f"alula_element.{'value' if dialect == 'sqlite' else 'alula_value'}"
        self._element = Operand(field, value, element, True, dialect)
        self._elements = (
            f"json_each({sql}) as alula_element"
            if dialect == "sqlite"
            else f"unnest({sql}) as alula_element(alula_value)"
        )
        for name in ("$like", "$ilike", "$regex"):
            self._others[name] = partial(self.any_element, name)
        self._others |= {
            "$contains": self.contains,
            "$overlaps": self.overlaps,
            "$elemMatch": self.has_element,
            "$size": self.has_size,
        }

    def test(self, operator: str, value: Any, parameters: list[object]) -> str:
        """Return the condition for one test.

        Raises:
            BadRequest: As for other operands.
        """
        if operator not in _COMPARING:
            return self.test_of(operator)(value, parameters)
        if operator == "$ne":  # no element is equal, not: one element is another
            return negated(self.test("$eq", value, parameters))
        if isinstance(value, list | tuple):
            return super().test(operator, value, parameters)
        condition = self.any_element(operator, value, parameters)
        return any_of([self._is_null, condition]) if value is None else condition

    def _exists(self, condition: str) -> str:
        return f"exists (select 1 from {self._elements} where {condition})"

    def any_element(self, operator: str, value: Any, parameters: list[object]) -> str:
        """Return the condition that an element meets a test."""
        return self._exists(self._element.test(operator, value, parameters))

    def is_in(self, wanted: list[Any], parameters: list[object]) -> str:
        """Return the condition of ``$in``."""
        tests = [self.test("$eq", item, parameters) for item in wanted if isinstance(item, list)]
        items = [item for item in wanted if not isinstance(item, list)]
        if None in items:
            tests.append(self._is_null)
        if items:
            tests.append(self.any_element("$in", items, parameters))
        return any_of(tests) if tests else "false"

    def is_not_in(self, unwanted: list[Any], parameters: list[object]) -> str:
        """Return the condition of ``$nin``, which null meets unless it is in the list."""
        return negated(self.is_in(unwanted, parameters))

    def is_not_like(self, pattern: object, parameters: list[object]) -> str:
        """Return the condition of ``$notlike``, which null meets."""
        return negated(self._others["$like"](pattern, parameters))

    def contains(self, wanted: object, parameters: list[object]) -> str:
        """Return the condition of ``$contains``."""
        items = wanted if is_list(wanted) else [wanted]
        values = self._element.driver_values(items)
        if len(values) < len(items):  # null, or what no element can be
            return "false"
        if self._dialect == "postgresql":  # the operators that an index serves
            parameters.append(values)
            return f"{self.sql} @> {PLACE}::{self.type.cast}"
        parameters.append(json_list(values))
        value = json_value(self._element.type, "alula_wanted.value")
        equal = f"alula_element.value{self._element.type.equality} = {value}"
        every = (
            f"not exists (select 1 from json_each({PLACE}) as alula_wanted"
            f" where not {self._exists(equal)})"
        )
        return all_of([f"{self.sql} is not null", every])

    def overlaps(self, wanted: object, parameters: list[object]) -> str:
        """Return the condition of ``$overlaps``."""
        items = wanted if is_list(wanted) else [wanted]
        values = self._element.driver_values(items)
        if not values:
            return "false"
        if self._dialect == "postgresql":
            parameters.append(values)
            return f"{self.sql} && {PLACE}::{self.type.cast}"
        # As the operator of PostgreSQL, for which null is in no list.
        some = [item for item in items if item is not None]
        return self.any_element("$in", some, parameters)

    def has_element(self, tests: JSONValue, parameters: list[object]) -> str:
        """Return the condition of ``$elemMatch``.

        Raises:
            BadRequest: It names fields, which elements of arrays do not have.
        """
        if not isinstance(tests, tuple):
            raise BadRequest(
                f"Invalid value for $elemMatch: the elements of {self.field!r} have no fields"
            )
        inner = [self._element.test(name, value, parameters) for name, value in tests]
        return self._exists(all_of(inner))

    def has_size(self, wanted: object, parameters: list[object]) -> str:
        """Return the condition of ``$size``.

        Raises:
            BadRequest: The size is not a whole number of 0 or more.
        """
        size = int(wanted) if isinstance(wanted, str) and wanted.isdecimal() else wanted
        if type(size) is not int or not 0 <= size < 2**31:
            raise BadRequest("Invalid value for $size: expected a whole number, 0 or more")
        parameters.append(size)
        if self._dialect == "sqlite":
            return f"json_array_length({self.sql}) = {PLACE}"
        return f"cardinality({self.sql}) = {PLACE}::int8"


# -- the names of operands -------------------------------------------------------------------------


def _column_operand(column: Column, table: Table) -> Operand:
    """Return the operand of a column of a table."""
    makes: dict[str, builtins.type[Operand]] = {"array": _ArrayOperand, "json": _JSONOperand}
    # In `json_each("value")`, a name alone is that of a column of json_each.
    is_ambiguous = table.dialect == "sqlite" and column.type.name == "array"
    sql = f"{table.sql}.{column.sql}" if is_ambiguous else column.sql
    return makes.get(column.type.name, Operand)(
        column.name, sql, column.type, column.nullable, table.dialect
    )


def _path_operand(path: str, type: builtins.type, table: Table) -> Operand:
    """Return the operand of a value in a JSON column.

    A value of another type than the declared one counts as null, so that a query never fails for
    what a record holds.

    Args:
        path: A column and keys below it: ``"address.city"``. A first part that is not a column is
            a key in the column of the option ``extra``.
        type: str, int, float or bool.
        table: That of the column.

    Raises:
        ValueError: The path does not lead into a JSON column, or a key has a quote.
    """
    column, keys = json_path(path, table)
    # An index on data->>'key', as people make it, is one of the plain path.
    dialect = table.dialect
    text = _path_text(column, keys, type, dialect)
    indexed = _plain_path(column, keys) if type is str and dialect == "postgresql" else ""
    return Operand(path, text, table.scalars[type], True, dialect, indexed)


def joined_operand(name: str, key: str, table: Table, field: str, other: Table) -> Operand:
    """Return the operand of a column of the row that a row refers to; null where there is none.

    Args:
        name: Its name in queries: ``author.name``.
        key: The property of ``table`` that holds the id of the other row.
        table: The table of the service.
        field: The property of the other row.
        other: The table of the other row.

    Raises:
        ValueError: A column is not there.
    """
    for property_name, where in ((key, table), (field, other)):
        if property_name not in where.columns:
            raise ValueError(f"relations: {where.name!r} has no column {property_name!r}")
    column = other.columns[field]
    # With an alias of its own: a table may refer to itself.
    sql = (
        f"(select alula_related.{column.sql} from {other.sql} as alula_related"
        f" where alula_related.{other.id.sql} = {table.sql}.{table.columns[key].sql})"
    )
    return Operand(name, sql, column.type, nullable=True, dialect=table.dialect)


# -- JSON paths ------------------------------------------------------------------------------------


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


def _path_text(column: Column, keys: list[str], type: builtins.type, dialect: Dialect) -> str:
    """Return the text that reads a value; one of another type than the given one is null."""
    if dialect == "sqlite":
        path = literal("$" + "".join(f'."{key}"' for key in keys))
        return _SQLITE_PATHS[type].format(arguments=f"{column.sql}, {path}")
    steps = "".join(f"->{literal(key)}" for key in keys)
    return _POSTGRESQL_PATHS[type].format(
        json=f"({column.sql}::jsonb{steps})", text=_plain_path(column, keys)
    )


def _plain_path(column: Column, keys: list[str]) -> str:
    """Return the text by which PostgreSQL reads any value at a path as text."""
    *above, last = map(literal, keys)
    return f"({column.sql}::jsonb{''.join(f'->{key}' for key in above)}->>{last})"
