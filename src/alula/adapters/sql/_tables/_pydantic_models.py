"""Makes the table of a Pydantic model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin
from uuid import UUID

import sqlalchemy
from sqlalchemy import types
from sqlalchemy.dialects import postgresql

from alula.adapters.sql._tables._declarations import MODEL

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

__all__ = ["is_pydantic_model", "pydantic_table"]

_SQL_TYPES: Final[Mapping[type, types.TypeEngine[Any]]] = {
    bool: types.Boolean(),
    int: types.BigInteger(),
    float: types.Double(),
    datetime: types.DateTime(timezone=True),
    date: types.Date(),
    time: types.Time(),
    timedelta: types.Interval(),
    UUID: types.Uuid(),
    bytes: types.LargeBinary(),
}
"""Without str and Decimal, whose limits are part of the type."""

_NESTED: Final[Any] = (types.JSON, types.ARRAY)  # `Any`: their items would be unknown
_JSON: Final = types.JSON().with_variant(postgresql.JSONB(), "postgresql")


def is_pydantic_model(model: object) -> bool:
    """Tell whether something is a class of Pydantic."""
    # Without an import: what is not loaded cannot have made the model.
    pydantic: Any = sys.modules.get("pydantic")
    return (
        pydantic is not None and isinstance(model, type) and issubclass(model, pydantic.BaseModel)
    )


def pydantic_table(model: type[BaseModel], name: str, id: str | None) -> sqlalchemy.Table:
    """Return a table with a column for each field of a Pydantic model.

    Columns are called as the fields are on the wire, by their aliases. Without a field for the id,
    the table numbers its records.

    Args:
        model: The model.
        name: The name of the table.
        id: Name of the id property, None for ``"id"``.
    """
    id_name = id or "id"
    columns = {
        column_name: column_of(column_name, field, is_id=column_name == id_name)
        for field_name, field in model.model_fields.items()
        for column_name in (field.serialization_alias or field.alias or field_name,)
        if not field.exclude
    }
    if id_name not in columns:
        number = sqlalchemy.Column(
            id_name, types.BigInteger(), sqlalchemy.Identity(), primary_key=True
        )
        columns = {id_name: number, **columns}
    return sqlalchemy.Table(name, sqlalchemy.MetaData(), *columns.values(), info={MODEL: model})


def column_of(name: str, field: FieldInfo, *, is_id: bool) -> sqlalchemy.Column[Any]:
    annotation, is_optional = _without_none(field.annotation)
    type_ = sql_type_of(annotation, field.metadata)
    # A schema fills defaults in before; these are for data from inside the application.
    default: Any = field.default_factory or field.default
    has_default = not field.is_required() and default is not None
    return sqlalchemy.Column(
        name,
        type_,
        default=default if has_default and not (is_id and callable(default)) else None,
        primary_key=is_id,
        nullable=is_optional and not is_id,
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """Return an annotation without None, and whether None was in it."""
    if get_origin(annotation) in (Union, UnionType):
        members = [member for member in get_args(annotation) if member is not NoneType]
        has_none = len(members) < len(get_args(annotation))
        return (members[0] if len(members) == 1 else Any), has_none
    return annotation, annotation is NoneType


def sql_type_of(annotation: Any, metadata: list[Any]) -> types.TypeEngine[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return sql_type_of(annotation.__origin__, [*annotation.__metadata__, *metadata])
    if origin is Literal:
        return type_of_one(get_args(annotation))
    if origin is list:
        element, is_optional = _without_none(get_args(annotation)[0])
        element_type = sql_type_of(element, [])
        # A list of lists may have several lengths, which arrays of PostgreSQL cannot.
        is_plain = not isinstance(element_type, _NESTED) and not is_optional
        return types.ARRAY(element_type) if is_plain else _JSON
    if isinstance(annotation, type):
        if issubclass(annotation, Enum):
            return enum_type(annotation)
        if issubclass(annotation, Decimal):
            return types.Numeric(_limit(metadata, "max_digits"), _limit(metadata, "decimal_places"))
        if annotation in _SQL_TYPES:
            return _SQL_TYPES[annotation]
        if issubclass(annotation, str):
            length = _limit(metadata, "max_length")
            return types.Text() if length is None else types.String(length)
    return _JSON


def enum_type(enum: type[Enum]) -> types.TypeEngine[Any]:
    values = [member.value for member in enum]
    if not all(isinstance(value, str) for value in values):
        return type_of_one(values)
    return types.Enum(
        enum,
        values_callable=lambda _: values,  # pyright: ignore[reportUnknownLambdaType]  # without a type in SQLAlchemy
        native_enum=False,
        create_constraint=True,
    )


def type_of_one(values: Sequence[Any]) -> types.TypeEngine[Any]:
    if all(isinstance(value, str) for value in values):
        return types.Enum(*values, native_enum=False, create_constraint=True)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return types.BigInteger()
    return _JSON


def _limit(metadata: list[Any], name: str) -> int | None:
    limits = (getattr(item, name, None) for item in metadata)
    return next((limit for limit in limits if limit is not None), None)
