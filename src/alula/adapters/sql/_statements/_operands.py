"""What a condition tests: a column, a value at a JSON path, an element of an array.

An operand turns one test of a query into a condition. Tests that compare have their text made once
for each operand, so a call only converts the value. Null is a value of queries: ``$ne``, ``$nin``
and ``$notlike`` are met by null, as in every other adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from alula.adapters.sql._columns._column_types import ColumnType, is_unicode
from alula.adapters.sql._drivers._sqlite_functions import fold
from alula.adapters.sql._names import Dialect
from alula.adapters.sql._statements._list_parameters import json_list, json_value
from alula.adapters.sql._tables._tables import Column
from alula.errors import BadRequest
from alula.query._operators import truth_of

__all__ = [
    "COMPARING",
    "PLACE",
    "Operand",
    "Test",
    "all_of",
    "any_of",
    "negated",
    "place_of",
]

PLACE: Final = "\0"
"""A place for a parameter, until the places of a statement are numbered."""

COMPARING: Final = frozenset({"$eq", "$ne", "$lt", "$lte", "$gt", "$gte"})
"""The operators that compare with one value."""

_MAX_PATTERN: Final = 1_000
"""How long a pattern may be, in characters.

SQLite cannot be interrupted within one comparison, which takes the length of the pattern times that
of the text: with 5,000 and a million characters, 11 seconds in which a thread reads nothing else.
"""

Test: TypeAlias = Callable[[Any, list[object]], str]
"""Makes the condition of one operator from its value; appends parameters to the list."""


def all_of(conditions: Sequence[str]) -> str:
    """Return one condition that holds if all of these do."""
    if not conditions:
        return "true"
    return conditions[0] if len(conditions) == 1 else f"({' and '.join(conditions)})"


def any_of(conditions: Sequence[str]) -> str:
    """Return one condition that holds if one of these does."""
    return conditions[0] if len(conditions) == 1 else f"({' or '.join(conditions)})"


def negated(condition: str) -> str:
    """Return the condition that holds where the other does not, also where that is null."""
    return f"({condition}) is not true"


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
        self._others: dict[str, Test] = {
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
        if operator not in COMPARING:
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

    def test_of(self, operator: str) -> Test:
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


def place_of(column: Column) -> str:
    """Return the place for a value of a column."""
    return f"{PLACE}::{column.type.cast}" if column.type.cast else PLACE
