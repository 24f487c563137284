"""The types of columns: how a value is compared, stored and read in each dialect.

What holds in this file:

- A query's text is converted to the type of the column ("25", "true", ISO dates); data must be of
  the type as it is, in Python's form or the one that JSON has for it.
- Both dialects take and refuse the same values, and records have the same Python values. Where a
  database would round, cut or guess, the value is refused.
- PostgreSQL reads and writes rarer types as text, so that asyncpg need not ask for their codecs on
  each connection (behind a pooler, it would ask the wrong one).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final, TypeAlias
from uuid import UUID

from alula.adapters.sql._names import Dialect
from alula.errors import BadRequest

__all__ = [
    "SQL_OPERATORS",
    "BooleanType",
    "BytesType",
    "ColumnType",
    "Comparison",
    "EnumType",
    "OtherType",
    "TextType",
    "UuidType",
    "next_to",
]

SQL_OPERATORS: Final = {
    "$eq": "=",
    "$ne": "<>",
    "$lt": "<",
    "$lte": "<=",
    "$gt": ">",
    "$gte": ">=",
}
_UUID: Final = re.compile("[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-fA-F]{32}")
"""UUIDs as text. Python also takes blanks, signs and the digits of all scripts in them."""

Comparison: TypeAlias = tuple[str, object] | bool
"""The SQL operator and the value for the driver, or the outcome for every value but null."""


class ColumnType(ABC):
    """The type of one column in one dialect.

    Attributes:
        name: "integer", "number", "decimal", "text", "boolean", "timestamp", "local_timestamp",
            "date", "time", "interval", "uuid", "enum", "json", "array", "bytes" or "other".
        expected: What values are, for errors.
        cast: PostgreSQL: the type of a parameter, written ``$1::<cast>``; "" on SQLite.
        array_cast: PostgreSQL: the type of a parameter that is a list of values.
        element: The type of the elements of an array, None for other types.
        equality: Text to append to the column where it is tested for equality.
        collation: Text to append to the column where it is sorted, or compared by a range.
        from_driver: Turns the driver's value (never None) into that of a record; None: they are
            the same.
        read_cast: PostgreSQL: the type that a column is selected as, "" for its own.
        exact: PostgreSQL: the type of the column, where parameters are cast to a wider one. Of
            arrays, only those of the same type can be compared.
        is_key: Whether the values that the driver reads equal those that it takes, so that rows can
            be looked up by them.
        plain: Values of exactly this type are stored as they are, if ``are_valid`` says so of them;
            None: `store` looks at each value.
        are_valid: Tells whether `store` would take all values of some columns; columns with the
            same function share a call. None: it takes every value of the type ``plain``.
    """

    name: str
    expected: str
    dialect: Dialect
    element: ColumnType | None = None
    equality: str = ""
    collation: str = ""
    from_driver: Callable[[Any], Any] | None = None
    read_cast: str = ""
    exact: str = ""
    is_key: bool = False
    plain: type | None = None
    are_valid: Callable[[Sequence[Any]], bool] | None = None
    _casts: ClassVar[tuple[str, ...]] = ()
    """PostgreSQL: the types to cast a parameter to, one after the other."""

    def __init__(self, dialect: Dialect, *casts: str) -> None:
        casts = casts or self._casts
        self.dialect = dialect
        is_postgresql = dialect == "postgresql"
        self.cast = "::".join(casts) if is_postgresql else ""
        self.array_cast = "::".join(f"{cast}[]" for cast in casts) if is_postgresql else ""

    @property
    def select(self) -> Callable[[str], str] | None:
        """What to select in place of a quoted column; None: the column itself."""
        return (lambda column: f"{column}::{self.read_cast}") if self.read_cast else None

    @abstractmethod
    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        """Return the SQL operator and the driver's value for a comparison in a query.

        Args:
            operator: ``$eq``, ``$ne``, ``$lt``, ``$lte``, ``$gt`` or ``$gte``.
            value: What the query compares with, never None. Text is converted to the type.
            field: The property, for the error.

        Returns:
            A bool where the outcome is the same for every value that is not null.

        Raises:
            BadRequest: The value cannot be of this type.
        """

    @abstractmethod
    def store(self, value: object, field: str) -> object:
        """Return the driver's value for data, which must be of this type as it is.

        Args:
            value: The value in the data, never None.
            field: The property, for the error.

        Raises:
            BadRequest: The value is not of this type.
        """

    def refusal(self, field: str, expected: str = "") -> BadRequest:
        """Return the error for a value that is not of this type."""
        expected = expected or self.expected
        return BadRequest(
            f"Invalid value for {field}: expected {expected}",
            errors={field: f"must be {expected}"},
        )


def next_to(operator: str, lower: object) -> Comparison:
    """Return the comparison with what lies between ``lower`` and the next value of a column."""
    if operator in ("$eq", "$ne"):
        return operator == "$ne"
    return ("<=" if operator in ("$lt", "$lte") else ">"), lower


class TextType(ColumnType):
    """Text, perhaps of a limited length."""

    name, expected, _casts = "text", "text", ("text",)

    def __init__(
        self,
        dialect: Dialect,
        max_length: int | None = None,
        *,
        code_point_order: bool = True,
        casts: Sequence[str] = (),
        exact: str = "",
    ) -> None:
        super().__init__(dialect, *casts)
        self._max_length = max_length
        self.plain = str
        self.are_valid = are_valid_texts if max_length is None else _are_texts_up_to(max_length)
        self.exact = exact
        self.is_key = not casts  # citext equals text of another case
        if dialect == "postgresql":
            self.collation = "" if code_point_order else ' COLLATE "C"'
            # char(5) is filled up with blanks, which its text has not.
            self.read_cast = "text" if self.cast == "bpchar" else ""

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        return SQL_OPERATORS[operator], valid_text(self, value, field)

    def store(self, value: object, field: str) -> object:
        text = valid_text(self, value, field)
        if self._max_length is not None and len(text) > self._max_length:
            raise self.refusal(field, f"text of at most {self._max_length} characters")
        return text


def valid_text(column_type: ColumnType, value: object, field: str) -> str:
    """Return a value that is text which both databases can store."""
    if not isinstance(value, str):
        raise column_type.refusal(field)
    # Most text is ASCII, which needs no second look (a flag of the string itself).
    if not value.isascii() and not is_unicode(value):
        raise column_type.refusal(field, "valid Unicode (it has half a pair)")
    if "\x00" in value:
        raise column_type.refusal(field, "text without the character NUL")
    return value


def are_valid_texts(texts: Sequence[str]) -> bool:
    """Tell whether `valid_text` takes all of these texts."""
    text = "".join(texts)
    return (text.isascii() or is_unicode(text)) and "\x00" not in text


def is_unicode(text: str) -> bool:
    """Tell whether a text has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def _are_texts_up_to(max_length: int) -> Callable[[Sequence[str]], bool]:
    return lambda texts: max(map(len, texts)) <= max_length and are_valid_texts(texts)


class BooleanType(ColumnType):
    """True and false; SQLite keeps 1 and 0."""

    name, expected, _casts = "boolean", "true or false", ("bool",)
    _TEXTS: ClassVar[Mapping[str, bool]] = {"true": True, "1": True, "false": False, "0": False}

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.from_driver = bool if dialect == "sqlite" else None
        self.plain = bool if dialect == "postgresql" else None

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        if isinstance(value, str):
            value = self._TEXTS.get(value)
        return SQL_OPERATORS[operator], self.store(value, field)

    def store(self, value: object, field: str) -> object:
        if not isinstance(value, bool):
            raise self.refusal(field)
        return value if self.dialect == "postgresql" else int(value)


class UuidType(ColumnType):
    """UUIDs. SQLite has them as SQLAlchemy writes them: 32 digits."""

    name, expected, _casts = "uuid", "a UUID", ("uuid",)

    def __init__(self, dialect: Dialect, *, as_text: bool = False) -> None:
        super().__init__(dialect)
        if dialect == "sqlite":
            self.from_driver = (lambda value: str(read_uuid(value))) if as_text else read_uuid
            self.is_key = True
        else:
            self.read_cast = "text" if as_text else ""
            self.is_key = not as_text

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        return SQL_OPERATORS[operator], self.store(value, field)

    def store(self, value: object, field: str) -> object:
        # asyncpg's own UUID is a subclass.
        if not isinstance(value, UUID):
            if not isinstance(value, str) or not _UUID.fullmatch(value):
                raise self.refusal(field)
            value = UUID(value)
        return value if self.dialect == "postgresql" else value.hex


def read_uuid(value: Any) -> object:
    try:
        return UUID(value)
    except (AttributeError, ValueError):
        return value


class EnumType(ColumnType):
    """One of a few texts.

    They are sorted as text, but have no ranges: PostgreSQL orders them as they were declared.

    Args:
        dialect: The dialect.
        labels: By member of the Python enum, or by itself: the text that is stored.
        casts: PostgreSQL: the types to cast a parameter to.
    """

    name, _casts = "enum", ("text",)

    def __init__(self, dialect: Dialect, labels: Mapping[object, str], *casts: str) -> None:
        super().__init__(dialect, *casts)
        self._labels = labels
        self.expected = f"one of {', '.join(map(repr, dict.fromkeys(labels.values())))}"
        if dialect == "postgresql":
            self.read_cast = "text"  # asyncpg would ask for the type on each connection
            self.collation = '::text COLLATE "C"'

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        if operator not in ("$eq", "$ne"):
            raise BadRequest(f"Invalid operator {operator} for {field}: its values have no order")
        # A text that is no label is not wrong, as it is no label in any record.
        if isinstance(value, str) and value not in self._labels:
            return operator == "$ne"
        return SQL_OPERATORS[operator], self.store(value, field)

    def store(self, value: object, field: str) -> object:
        try:
            return self._labels[value]
        except (KeyError, TypeError):
            raise self.refusal(field) from None


class BytesType(ColumnType):
    """Binary data, which JSON has as text in base64."""

    name, expected, _casts = "bytes", "binary data in base64", ("bytea",)

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        # Lists of them are JSON on SQLite.
        self.from_driver = read_bytes if dialect == "sqlite" else None

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        return SQL_OPERATORS[operator], self.store(value, field)

    def store(self, value: object, field: str) -> object:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)  # pyright: ignore[reportUnknownArgumentType]  # a memoryview of anything
        # validate: otherwise, characters that are not base64 would be dropped silently.
        try:
            return b64decode(value, validate=True)  # type: ignore[arg-type]  # a TypeError is refused
        except (TypeError, ValueError):
            raise self.refusal(field) from None


def read_inet(value: str) -> str:
    return value.removesuffix("/128" if ":" in value else "/32")


def read_bytes(value: Any) -> object:
    try:
        return b64decode(value, validate=True) if isinstance(value, str) else value
    except ValueError:
        return value


class OtherType(ColumnType):
    """Any other type of PostgreSQL (inet, ranges, tsvector), as its text; on SQLite any value.

    Args:
        dialect: The dialect.
        type_name: PostgreSQL: the type as SQL.
        has_order: Whether values can be compared; PostgreSQL has no equality of points or XML.
    """

    name, expected = "other", "text"

    def __init__(self, dialect: Dialect, type_name: str = "text", *, has_order: bool) -> None:
        super().__init__(dialect, "text", type_name)
        self._has_order = has_order
        if dialect == "postgresql":
            self.read_cast = "text"
            # The cast to text adds the mask of a single address.
            self.from_driver = read_inet if type_name == "inet" else None
            self.collation = "" if has_order else '::text COLLATE "C"'

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        if not self._has_order:
            raise BadRequest(f"Invalid operator {operator} for {field}: it cannot be compared")
        return SQL_OPERATORS[operator], self.store(value, field)

    def store(self, value: object, field: str) -> object:
        is_native = isinstance(value, int | float | bytes) and not isinstance(value, bool)
        if self.dialect == "sqlite" and is_native:
            return value
        return valid_text(self, value, field)
