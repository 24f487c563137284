"""What conditions test in columns that hold lists: arrays, and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from alula.adapters.sql._columns._column_types import ColumnType
from alula.adapters.sql._names import Dialect
from alula.adapters.sql._statements._list_parameters import json_list, json_value
from alula.adapters.sql._statements._operands import (
    COMPARING,
    PLACE,
    Operand,
    all_of,
    any_of,
    negated,
)
from alula.errors import BadRequest
from alula.types import JSONValue, is_list, is_mapping

__all__ = ["ArrayOperand", "JSONOperand"]


class JSONOperand(Operand):
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


class ArrayOperand(Operand):
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
        if operator not in COMPARING:
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
