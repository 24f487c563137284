"""The types of columns for numbers."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from functools import cache, partial
from typing import Final

from alula.adapters.sql._columns._column_types import SQL_OPERATORS, ColumnType, Comparison, next_to
from alula.adapters.sql._names import Dialect
from alula.query._order import is_nan

__all__ = ["DECIMAL_COLLATION", "DecimalType", "IntegerType", "NumberType", "compare_decimals"]

DECIMAL_COLLATION: Final = "alula_decimal"
"""The name under which each SQLite connection knows `compare_decimals`."""

_NUMBER: Final = re.compile(r"[-+]?[0-9]{1,1000}(?:\.[0-9]{0,1000})?(?:[eE][-+]?[0-9]{1,4})?")
_SHORT_DIGITS: Final = 18
"""How many digits no number beyond 64 bits has."""

_MAX_EXPONENT: Final = 1000
"""The digits of a decimal on each side of the point; a client could send ``1e100000``."""


def _known_for_all(operator: str, *, is_above: bool) -> bool:
    """Return the outcome of a comparison with what is above or below all values of a column."""
    return operator == "$ne" or operator in (("$lt", "$lte") if is_above else ("$gt", "$gte"))


def _number(value: object) -> int | float | Decimal | None:
    """Return a number of a query, or a text that is one, None for anything else."""
    # Bounded digits: int() takes quadratic time. No "NaN", "1_000" or " 5 ", as Python takes.
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value) if value.isdecimal() else Decimal(value)
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return value if is_number else None  # type: ignore[return-value]  # is_number narrows it, unseen by mypy


class IntegerType(ColumnType):
    """Whole numbers of 16, 32 or 64 bits, the same on SQLite.

    Attributes:
        end: The first number that is too large; its opposite is the smallest one.
    """

    name, expected, _casts = "integer", "a whole number", ("int8",)
    is_key = True
    plain = int

    def __init__(self, dialect: Dialect, bits: int = 64) -> None:
        super().__init__(dialect)
        self.end = 1 << (bits - 1)
        self.are_valid = _are_below(self.end)
        self.exact = f"int{bits // 8}"

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        # Most ids of a URL: no pattern, and no look at what only other numbers can be.
        if (
            type(value) is str
            and len(value) <= _SHORT_DIGITS
            and value.isascii()
            and value.isdecimal()
        ):
            return SQL_OPERATORS[operator], int(value)
        number = _number(value)
        if number is None:
            raise self.refusal(field)
        if type(number) is not int and is_nan(number):
            return operator == "$ne"
        # Neither driver takes larger ones. Smaller columns need no cast for these.
        if not -(1 << 63) <= number < 1 << 63:
            return _known_for_all(operator, is_above=number > 0)
        lower = math.floor(number)
        return (SQL_OPERATORS[operator], lower) if lower == number else next_to(operator, lower)

    def store(self, value: object, field: str) -> object:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JavaScript has one type of numbers
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.refusal(field)
        if not -self.end <= value < self.end:
            raise self.refusal(field, f"a whole number from {-self.end} to {self.end - 1}")
        return value


@cache
def _are_below(end: int) -> Callable[[Sequence[int]], bool]:
    return lambda numbers: -end <= min(numbers) and max(numbers) < end


class NumberType(ColumnType):
    """Floating-point numbers of double precision, or single precision."""

    name, expected, _casts = "number", "a number", ("float8",)

    def __init__(self, dialect: Dialect, *, is_single: bool = False) -> None:
        super().__init__(dialect)
        self._is_single = is_single
        self.exact = "float4" if is_single else "float8"
        # RETURNING has the integer as which SQLite keeps a whole number in its pages.
        self.from_driver = read_float if dialect == "sqlite" else None
        if is_single:
            self.from_driver = read_single

    def _rounded(self, number: float | Decimal) -> float:
        try:
            exact = float(number)
            # Otherwise 0.1 would not equal itself, as PostgreSQL compares both as float8.
            return struct.unpack("f", struct.pack("f", exact))[0] if self._is_single else exact
        except OverflowError:
            return math.inf if number > 0 else -math.inf

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        number = _number(value)
        if number is None:
            raise self.refusal(field)
        rounded = self._rounded(number)
        if is_nan(rounded):  # it is never stored
            return operator == "$ne"
        # Fractions are meant as the column rounds them; a whole number is exact.
        if isinstance(number, int) and rounded != number:
            return next_to(
                operator, rounded if rounded < number else math.nextafter(rounded, -math.inf)
            )
        return SQL_OPERATORS[operator], rounded

    def store(self, value: object, field: str) -> object:
        if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
            raise self.refusal(field)
        rounded = self._rounded(value)
        # SQLite would store null in place of NaN, and JSON has no infinity.
        if not math.isfinite(rounded):
            raise self.refusal(field, "a finite number")
        return rounded


def read_float(value: object) -> object:
    return float(value) if isinstance(value, int) else value


def read_single(value: object) -> object:
    """Return the shortest number that a column of single precision rounds to the same value.

    The driver has 3.0999999046325684 for 3.1, as its double precision shows the rounding. A whole
    number stays as it is, since queries compare it exactly: 58459032 must not become 58459030.
    """
    if not isinstance(value, int | float) or not math.isfinite(value):
        return value
    if value == math.trunc(value):
        return float(value)
    for digits in range(6, 9):  # 9 digits always suffice
        shortest = float(f"{value:.{digits}g}")
        if struct.pack("f", shortest) == struct.pack("f", value):
            return shortest
    return float(f"{value:.9g}")


class DecimalType(ColumnType):
    """Exact decimal numbers; SQLite keeps them as text, compared by `compare_decimals`."""

    name, expected, _casts = "decimal", "a decimal number", ("numeric",)

    def __init__(
        self,
        dialect: Dialect,
        precision: int | None = None,
        scale: int | None = None,
        *casts: str,
        as_float: bool = False,
    ) -> None:
        super().__init__(dialect, *casts)
        self._whole_digits = _MAX_EXPONENT if precision is None else precision - (scale or 0)
        self._scale = 0 if scale is None and precision is not None else scale
        self._unit = None if self._scale is None else Decimal(1).scaleb(-self._scale)
        if dialect == "sqlite":
            self.equality = self.collation = f" COLLATE {DECIMAL_COLLATION}"
            self.from_driver = partial(read_decimal, unit=self._unit)
        if as_float:
            self.from_driver = float

    @property
    def digits(self) -> tuple[int, int | None]:
        """How many digits are before and after the point; None for any number after it."""
        return self._whole_digits, self._scale

    def _decimal(self, value: object, field: str) -> Decimal:
        number = _number(value)
        # The repr: Decimal(0.1) has the 55 digits of the binary fraction.
        number = Decimal(repr(number)) if isinstance(number, float) else number
        if number is None or is_nan(number):
            raise self.refusal(field)
        number = Decimal(number)
        if number.is_finite() and number and abs(number.adjusted()) > _MAX_EXPONENT:
            raise self.refusal(field, f"a decimal number of at most {_MAX_EXPONENT} digits")
        return number

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        number = self._decimal(value, field)
        if number.is_infinite():
            return _known_for_all(operator, is_above=number > 0)
        return SQL_OPERATORS[operator], self._for_driver(number)

    def store(self, value: object, field: str) -> object:
        number = self._decimal(value, field)
        if not number.is_finite():
            raise self.refusal(field)
        if number and number.adjusted() >= self._whole_digits:
            raise self.refusal(field, f"a number of at most {self._whole_digits} digits")
        if self._unit is not None:
            # PostgreSQL would round without a word.
            if number % self._unit:
                raise self.refusal(field, f"a number of at most {self._scale} decimal places")
            number = number.quantize(self._unit)
        return self._for_driver(number)

    def _for_driver(self, number: Decimal) -> object:
        number = number or abs(number)  # PostgreSQL has no -0
        return number if self.dialect == "postgresql" else f"{number:f}"


def read_decimal(value: object, unit: Decimal | None) -> object:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return value
    # A column that is not strict may hold numbers: 12.5 is 12.50 there.
    return number if unit is None or isinstance(value, str) else number.quantize(unit)


def compare_decimals(left: str, right: str) -> int:
    """Compare two decimals as SQLite keeps them; the collation ``alula_decimal``.

    Texts that are not numbers come after all numbers, in the order of their code points.

    Returns:
        -1, 0 or 1.
    """
    if left == right:
        return 0
    first, second = _decimal_key(left), _decimal_key(right)
    return (first > second) - (first < second)


def _decimal_key(text: str) -> tuple[bool, Decimal, str]:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return True, Decimal(0), text
    return (True, Decimal(0), text) if number.is_nan() else (False, number, "")
