"""TypedDicts of the standard library, which Pydantic takes only from Python 3.12 on."""

from __future__ import annotations

import sys
import typing
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import typing_extensions

from alula.schema._failures import SchemaError

__all__ = ["as_pydantic_knows"]


class _Plain(typing.TypedDict):
    """A TypedDict of the standard library, for its class."""


_PLAIN: Final[Any] = type(_Plain)
# These make types from values, which type checkers cannot see.
_annotated: Any = Annotated
_union: Any = Union
_made_typed_dict: Any = typing_extensions.TypedDict


def as_pydantic_knows(type_: Any) -> Any:
    """Return a type in which each ``TypedDict`` is one that Pydantic takes in this Python.

    Raises:
        SchemaError: A ``TypedDict`` of the standard library contains itself.
    """
    return type_ if sys.version_info >= (3, 12) else _converted(type_, ())


def _converted(type_: Any, outer: tuple[Any, ...]) -> Any:
    if isinstance(type_, _PLAIN):
        return _typed_dict(type_, outer)
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return _annotated[(_converted(arguments[0], outer), *type_.__metadata__)]
    if origin is None or origin is typing.Literal:
        return type_
    converted = tuple(map(_converted, arguments, [outer] * len(arguments)))
    if all(one is another for one, another in zip(converted, arguments, strict=True)):
        return type_
    return _union[converted] if origin in {Union, UnionType} else origin[converted]


def _typed_dict(type_: Any, outer: tuple[Any, ...]) -> Any:
    if type_ in outer:
        raise SchemaError(
            f"{type_.__name__} contains itself; take TypedDict from typing_extensions for it"
        )
    hints = get_type_hints(type_, include_extras=True)
    fields: dict[str, Any] = {}
    for name, hint in hints.items():
        made = _converted(hint, (*outer, type_))
        is_qualified = get_origin(hint) in {typing.Required, typing.NotRequired}
        is_required = name in type_.__required_keys__
        if not is_qualified:
            made = typing.Required[made] if is_required else typing.NotRequired[made]
        fields[name] = made
    converted = _made_typed_dict(type_.__name__, fields)
    converted.__doc__, converted.__module__ = type_.__doc__, type_.__module__
    if hasattr(type_, "__pydantic_config__"):
        converted.__pydantic_config__ = type_.__pydantic_config__
    return converted
