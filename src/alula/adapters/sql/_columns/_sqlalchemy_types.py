"""Chooses the column type for a type of SQLAlchemy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import types
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.engine import Dialect as EngineDialect
from sqlalchemy.sql.compiler import TypeCompiler

from alula.adapters.sql._columns._column_types import (
    BooleanType,
    BytesType,
    ColumnType,
    Comparison,
    EnumType,
    OtherType,
    TextType,
    UuidType,
)
from alula.adapters.sql._columns._date_types import DateType, IntervalType, TimestampType, TimeType
from alula.adapters.sql._columns._json_types import ArrayType, JsonType
from alula.adapters.sql._columns._number_types import DecimalType, IntegerType, NumberType
from alula.adapters.sql._names import Dialect
from alula.types import is_dict

__all__ = ["ENGINE_DIALECTS", "ForeignType", "column_type", "database_type", "driver_value"]

AnyType = types.TypeEngine[Any]

ENGINE_DIALECTS: Final[dict[Dialect, EngineDialect]] = {
    "postgresql": postgresql.asyncpg.dialect(),  # type: ignore[no-untyped-call]  # of SQLAlchemy
    "sqlite": sqlite_dialect.dialect(),
}
"""What SQLAlchemy needs to know which of its types a dialect has."""


class _VariantChooser(TypeCompiler):
    """Returns the variant of a type for a dialect, where other compilers return its SQL.

    `TypeEngine.dialect_impl` does not do: it replaces CHAR and REAL by types of the dialect.
    """

    def __getattr__(self, name: str) -> Callable[..., AnyType]:
        return _same_type  # for `visit_VARCHAR` and so on


def _same_type(type_: AnyType, **_options: object) -> AnyType:
    return type_


_VARIANTS: Final = {name: _VariantChooser(dialect) for name, dialect in ENGINE_DIALECTS.items()}

_INTEGER_BITS: Final = ((types.SmallInteger, 16), (types.BigInteger, 64), (types.Integer, 32))
_ORDERED: Final = (
    postgresql.INET,
    postgresql.CIDR,
    postgresql.MACADDR,
    postgresql.MACADDR8,
    postgresql.ranges.AbstractRange,
    postgresql.BIT,
    postgresql.TSVECTOR,
    postgresql.OID,
)
"""Types of PostgreSQL whose values can be compared, besides those with a column type."""


_DATES: Final = frozenset({"timestamp", "local_timestamp", "date", "time"})


class DecoratedType(ColumnType):
    """A `TypeDecorator` of the application, around the type of the database.

    Args:
        inner: The type of the database.
        decorator: Changes values on their way to the database and back.
        engine_dialect: For the decorator, which may ask for it.
    """

    def __init__(
        self, inner: ColumnType, decorator: types.TypeDecorator[Any], engine_dialect: EngineDialect
    ) -> None:
        super().__init__(inner.dialect)
        self.name, self.expected, self.element = inner.name, inner.expected, inner.element
        self.cast, self.array_cast = inner.cast, inner.array_cast
        self.equality, self.collation = inner.equality, inner.collation
        self.read_cast = inner.read_cast
        self._inner, self._decorator, self._engine_dialect = inner, decorator, engine_dialect
        self.from_driver = self._read

    def comparison(self, operator: str, value: object, field: str) -> Comparison:
        return self._inner.comparison(operator, self._bound(value, field), field)

    def store(self, value: object, field: str) -> object:
        return self._inner.store(self._bound(value, field), field)

    def _bound(self, value: object, field: str) -> object:
        read = self._inner.from_driver
        if isinstance(value, str) and read is not None and self.name in _DATES:
            value = read(value)  # decorators expect what Python has, clients send text
        try:
            return self._decorator.process_bind_param(value, self._engine_dialect)
        except NotImplementedError:  # it changes results alone
            return value
        except (TypeError, ValueError, AttributeError) as error:
            raise self.refusal(field) from error

    def _read(self, value: Any) -> object:
        if self._inner.from_driver is not None:
            value = self._inner.from_driver(value)
        try:
            return self._decorator.process_result_value(value, self._engine_dialect)
        except NotImplementedError:
            return value


def database_type(type_: AnyType, dialect: Dialect) -> AnyType:
    """Return the type that a column has in a dialect, where it has variants or a decorator."""
    if isinstance(type_, types.TypeDecorator):
        return type_.type_engine(ENGINE_DIALECTS[dialect])
    found = cast("AnyType | str", _VARIANTS[dialect].process(type_))
    # A type with a compiler of its own (`sqlalchemy.ext.compiler`) gives SQL, and has no variants.
    return type_ if isinstance(found, str) else found


class ForeignType(types.UserDefinedType[Any]):
    """A type of PostgreSQL that was read from its catalogue and has no class in SQLAlchemy.

    Args:
        sql: The type as SQL.
        has_order: Whether values can be compared.
    """

    cache_ok = True

    def __init__(self, sql: str, *, has_order: bool) -> None:
        self.sql, self.has_order = sql, has_order

    def get_col_spec(self, **_options: object) -> str:
        """Return the type as SQL."""
        return self.sql


def column_type(type_: AnyType, dialect: Dialect, *, code_point_order: bool = True) -> ColumnType:
    """Return the column type for a type of SQLAlchemy.

    Args:
        type_: The type of a column.
        dialect: The dialect of the database.
        code_point_order: Whether the database sorts text by code point.

    Raises:
        TypeError: Columns of this type cannot be read safely.
    """
    if isinstance(type_, types.PickleType):
        raise TypeError(
            "a column of type PickleType runs code when it is read; use JSON or LargeBinary"
        )
    if isinstance(type_, types.TypeDecorator) and not isinstance(type_, types.Interval):
        inner = column_type(
            database_type(type_, dialect), dialect, code_point_order=code_point_order
        )
        return DecoratedType(inner, type_, ENGINE_DIALECTS[dialect])
    native = type_ if isinstance(type_, types.Interval) else database_type(type_, dialect)
    for classes, make in _MAKERS:
        if isinstance(native, classes):
            return make(native, dialect, code_point_order)
    if dialect == "sqlite":
        return OtherType(dialect, has_order=True)
    has_order = (
        native.has_order if isinstance(native, ForeignType) else isinstance(native, _ORDERED)
    )
    name = "inet" if isinstance(native, postgresql.INET) else compiled_type(native)
    return OtherType(dialect, name, has_order=has_order)


def compiled_type(type_: AnyType) -> str:
    """Return the SQL of a type of PostgreSQL."""
    return type_.compile(dialect=ENGINE_DIALECTS["postgresql"])


def driver_value(value: object, dialect: Dialect) -> object:
    """Return a value whose column is not known as the driver takes it.

    asyncpg takes Python's values as they are, but JSON as text.
    """
    if dialect == "postgresql":
        return JsonType(dialect).store(value, "where") if is_dict(value) else value
    for class_, value_type in _SQLITE_VALUES:
        if isinstance(value, class_):
            return value_type.store(value, "where")
    return value


def make_integer(type_: Any, dialect: Dialect, _: bool) -> ColumnType:
    bits = next(bits for class_, bits in _INTEGER_BITS if isinstance(type_, class_))
    return IntegerType(dialect, bits)


def make_number(type_: Any, dialect: Dialect, _: bool) -> ColumnType:
    precision = getattr(type_, "precision", None)
    is_single = isinstance(type_, types.REAL) or (precision is not None and precision <= 24)
    return NumberType(dialect, is_single=is_single)


def make_decimal(type_: Any, dialect: Dialect, _: bool) -> ColumnType:
    return DecimalType(dialect, type_.precision, type_.scale, as_float=not type_.asdecimal)


def make_money(_type: Any, dialect: Dialect, _: bool) -> ColumnType:
    money = DecimalType(dialect, 19, 2, "numeric", "money")
    money.read_cast = "numeric" if dialect == "postgresql" else ""
    return money


def make_time(type_: Any, dialect: Dialect, _: bool) -> ColumnType:
    if type_.timezone and dialect == "postgresql":
        return OtherType(dialect, "timetz", has_order=True)
    return TimeType(dialect)


def make_text(type_: Any, dialect: Dialect, code_point_order: bool) -> ColumnType:
    casts: Sequence[str] = ()
    if isinstance(type_, postgresql.CITEXT):
        casts = ("text", "citext")
    elif isinstance(type_, types.CHAR):
        casts = ("bpchar",)
    return TextType(
        dialect,
        type_.length,
        code_point_order=code_point_order and type_.collation is None,
        casts=casts,
        exact="" if casts or isinstance(type_, types.Text) else "varchar",
    )


def make_enum(type_: Any, dialect: Dialect, _: bool) -> ColumnType:
    labels: dict[object, str] = {label: label for label in type_.enums}
    if type_.enum_class is not None:
        # Records have the text that is stored: names of members, unless values_callable says else.
        with_aliases = list(type_.enum_class.__members__.values())
        is_whole = len(with_aliases) == len(type_.enums)
        members = with_aliases if is_whole else list(type_.enum_class)
        labels |= dict(zip(members, type_.enums, strict=True))
    if dialect == "sqlite" or not type_.native_enum:
        return EnumType(dialect, labels)
    return EnumType(dialect, labels, "text", compiled_type(type_))


def make_array(type_: Any, dialect: Dialect, code_point_order: bool) -> ColumnType:
    element = column_type(type_.item_type, dialect, code_point_order=code_point_order)
    return ArrayType(dialect, element, type_.dimensions or 1)


def _simple(make: Callable[[Dialect], ColumnType]) -> Callable[[Any, Dialect, bool], ColumnType]:
    return lambda _type, dialect, _: make(dialect)


# The first that fits: a datetime is a date.
_SQLITE_VALUES: Final[tuple[tuple[Any, ColumnType], ...]] = (
    (bool, BooleanType("sqlite")),
    (datetime, TimestampType("sqlite")),
    (date, DateType("sqlite")),
    (time, TimeType("sqlite")),
    (timedelta, IntervalType("sqlite")),
    (Decimal, DecimalType("sqlite")),
    (UUID, UuidType("sqlite")),
    ((dict, list), JsonType("sqlite")),
)

# The first that fits: an Enum is a String, and a Float a Numeric.
_MAKERS: Final[tuple[tuple[Any, Callable[[Any, Dialect, bool], ColumnType]], ...]] = (
    (types.Enum, make_enum),
    (types.Boolean, _simple(BooleanType)),
    (types.Integer, make_integer),
    (types.Float, make_number),
    (types.Numeric, make_decimal),
    (types.Uuid, lambda type_, dialect, _: UuidType(dialect, as_text=not type_.as_uuid)),
    (types.DateTime, lambda type_, dialect, _: TimestampType(dialect, has_zone=type_.timezone)),
    (types.Date, _simple(DateType)),
    (types.Time, make_time),
    ((types.Interval, postgresql.INTERVAL), _simple(IntervalType)),
    (types.JSON, _simple(JsonType)),
    (types.ARRAY, make_array),
    (types.LargeBinary, _simple(BytesType)),
    (postgresql.MONEY, make_money),
    (types.String, make_text),
)
