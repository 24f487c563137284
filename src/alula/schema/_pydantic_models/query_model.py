"""`QueryModel`: checks and converts the queries for the records that a Pydantic model describes.

It builds the type of a query, of which Pydantic makes the validator, once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum
from inspect import isclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    WrapValidator,
)
from typing_extensions import ReadOnly, TypedDict, is_typeddict

from alula.query._grammar import Operand, as_list, operand_types
from alula.schema._failures import SchemaError, failures_of_model, refusal
from alula.schema._json_schema.query_schema import (
    LEVELS,
    NOTHING_OPENED,
    Extensions,
    Opened,
    beside_the_common,
    check_extensions,
)
from alula.schema._pydantic_models.model_validator import adapter_of, storable, stored_names
from alula.types import COLLECTION_TYPES, JSONValue, is_mapping

__all__ = ["QueryModel"]

TypeForm: TypeAlias = Any
"""A type or an annotation: Python has no static type for both."""

# For an argument of the alias, mypy picks the overload of a ParamSpec.
_origin_of: Callable[[object], Any] = get_origin

_QUALIFIERS = (Required, NotRequired, ReadOnly)

# These make types from values that type checkers cannot see.
_annotated: Any = Annotated
_literal: Any = Literal
_union: Any = Union
_list: Any = list
_dict: Any = dict
_typed_dict: Any = TypedDict

_SIZE: TypeForm = _annotated[int, Field(ge=0)]
_ANY: TypeForm = _annotated[Any, AfterValidator(storable)]
_OPERANDS: Mapping[Operand, TypeForm] = {"text": str, "flag": bool, "count": _SIZE, "any": _ANY}

_STORED_AS_THEY_ARE = frozenset({str, int, float, bool, NoneType, datetime, bytes})
"""Types whose valid values are those of stored records."""


class QueryModel:
    """Checks and converts the queries of the records that a model describes.

    Args:
        model: A model, a dataclass or a ``TypedDict``.
        extensions: As `query_syntax` takes them, with types in place of schemas.
        without: Names of fields that queries must not name.
        opened: What the service itself opens.

    Attributes:
        operators: The operators that the extensions name.
        filters: The filters that the extensions name.
        adapter: Pydantic's adapter of the type of a query.

    Raises:
        SchemaError: It is not a model, or Pydantic cannot describe it, or an extension is for an
            unknown field.
    """

    def __init__(
        self,
        model: TypeForm,
        extensions: Extensions,
        *,
        without: Collection[str] = (),
        opened: Opened = NOTHING_OPENED,
    ) -> None:
        if _model_in(model) is not model:
            raise SchemaError(
                f"query_syntax: {model!r} is not the model of a record; give a Pydantic model, a"
                " dataclass or a TypedDict"
            )
        fields = {
            name: type_ for name, type_ in _flat(model) if name.partition(".")[0] not in without
        }
        for path, type_ in opened.paths:
            if path.partition(".")[0] in fields:
                fields.setdefault(path, type_)
        filters = dict.fromkeys(opened.filters, _ANY)
        for name, extension in check_extensions(extensions, fields).items():
            filters[name] = _stored(extension)
        self.operators = beside_the_common(
            operator for name in fields for operator in extensions.get(name, ())
        )
        self.filters = beside_the_common(filters)
        criteria = {
            name: _criterion(name, type_, extensions.get(name, {}), opened.operators)
            for name, type_ in fields.items()
        }
        again = _list_form(_list["QueryCriteria"])  # by its name, since it contains itself
        branches = _annotated[again, Field(min_length=1)]
        inner = _closed("QueryCriteria", {**criteria, "$or": branches, "$and": branches})
        branches = _annotated[_list_form(_list[inner]), Field(min_length=1)]
        # Without fields there is no name: a pattern that no text matches.
        names = _literal[tuple(criteria)] if criteria else _annotated[str, Field(pattern=r"^\b$")]
        parts = {
            "$limit": _SIZE,
            "$skip": _SIZE,
            # A dict keeps the order of its names, which counts here; a TypedDict does not.
            "$sort": _dict[names, _text_form(Literal[1, -1])],
            "$select": _list_form(_list[names], of_one=True),
            "$or": branches,
            "$and": branches,
        }
        query = _closed("Query", {**parts, **filters, **criteria})
        self.adapter: TypeAdapter[Any] = adapter_of(query)

    def validate(self, value: object) -> Any:
        """Return the query with all values converted to the types of stored records.

        Raises:
            BadRequest: The query is not valid; ``data`` lists every failure.
        """
        try:
            return self.adapter.validator.validate_python(value)
        except ValidationError as error:
            raise refusal(failures_of_model(error, value)) from None

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of queries."""
        return self.adapter.json_schema()


def _closed(name: str, fields: Mapping[str, TypeForm]) -> TypeForm:
    """Return the type of objects that may have these names and no others."""
    type_ = _typed_dict(name, dict(fields), total=False)
    # Pydantic takes the texts "NaN" and "Infinity" for numbers, JSON Schema does not.
    type_.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
    return type_


def _criterion(
    name: str, type_: TypeForm, extension: Mapping[str, TypeForm], opened: Collection[str]
) -> TypeForm:
    """Return the type of the condition on one field: a value, or operators."""
    value = _value(type_)
    some = _list_form(_list[value], of_one=True)
    kinds: dict[Operand, TypeForm] = {**_OPERANDS, "value": value, "list": some}
    tests: dict[str, TypeForm] = operand_types(kinds, opened)
    if "$not" in opened:
        tests["$not"] = _closed(f"{name} not", {n: t for n, t in tests.items() if n != "$not"})
    operators = {**tests, **{name: _stored(given) for name, given in extension.items()}}

    def tag(given: object) -> str:
        # So a failure is reported for the one that is meant, not for both.
        is_operators = is_mapping(given) and any(str(key)[:1] == "$" for key in given)
        return "operators" if is_operators else "value"

    tested = _annotated[_closed(f"{name} operators", operators), Tag("operators")]
    return _annotated[_union[_annotated[value, Tag("value")], tested], Discriminator(tag)]


def _value(type_: TypeForm) -> TypeForm:
    """Return the type that values of a field are compared as, in the types of stored records."""
    item = _item_of(type_)
    if item is not None:  # a list matches by one of its elements, too
        compared = _annotated[_list_form(_union[_value(item), type_]), AfterValidator(_plain)]
    elif _model_in(type_) is not None:
        compared = _annotated[type_, AfterValidator(_plain)]
    else:
        compared = _text_form(type_)
    compared = _stored(compared)
    bare = _without_annotations(type_)
    if _origin_of(bare) not in (Union, UnionType) or NoneType not in get_args(bare):
        return compared

    def null_from_empty(value: object, validate: Callable[[Any], Any]) -> object:
        # Query strings write null as an empty text; it is null only if the type has no such text.
        try:
            return validate(value)
        except ValidationError:
            if value == "":
                return None
            raise

    return _annotated[compared, WrapValidator(null_from_empty)]


def _stored(type_: TypeForm) -> TypeForm:
    """Return the type whose values are turned into those of stored records."""
    members = get_args(type_) if _origin_of(type_) in (Union, UnionType) else (type_,)
    # Most fields: the validator does not call Python for their values.
    if _STORED_AS_THEY_ARE.issuperset(members):
        return type_
    return _annotated[type_, AfterValidator(storable)]


def _list_form(type_: TypeForm, *, of_one: bool = False) -> TypeForm:
    """Return the type of a list, which also accepts an object with index keys.

    Args:
        type_: The type.
        of_one: Whether it also accepts one value: a query string cannot say that it is a list.
    """

    def to_list(value: object) -> object:
        if not is_mapping(value):
            if of_one and not isinstance(value, COLLECTION_TYPES):
                return [value]
            return value
        items = as_list(value) if value else None
        return value if items is None else items

    return _annotated[type_, BeforeValidator(to_list)]


def _text_form(type_: TypeForm) -> TypeForm:
    """Return a type that also accepts the texts of the numbers and booleans that it lists.

    A query string has texts only. Pydantic accepts none of them for a ``Literal`` or for a member
    of an enumeration that is not a text.
    """
    bare = _unwrapped(type_)
    if isclass(bare) and issubclass(bare, Enum):
        values = [member.value for member in bare]
    else:
        values = list(get_args(bare)) if _origin_of(bare) is Literal else []
    texts = {str(value).lower(): value for value in values if isinstance(value, int | float)}
    # A text that the type lists itself keeps its meaning.
    meant = {text: value for text, value in texts.items() if text not in values}
    if not meant:
        return type_
    from_text = BeforeValidator(
        lambda given: meant.get(given, given) if type(given) is str else given
    )
    return _annotated[type_, from_text]


def _plain(value: JSONValue | set[Any] | frozenset[Any] | BaseModel) -> object:
    """Return models and dataclasses as dicts, at any depth of lists."""
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if is_dataclass(type(value)) or isinstance(value, BaseModel):
        return TypeAdapter(type(value)).dump_python(value, by_alias=True, exclude_unset=True)
    return value


def _item_of(type_: TypeForm) -> TypeForm:
    """Return the type of the items of a list type, None for other types."""
    bare = _unwrapped(type_)
    arguments = get_args(bare)
    return arguments[0] if arguments and _origin_of(bare) in COLLECTION_TYPES else None


def _without_annotations(type_: TypeForm) -> TypeForm:
    while _origin_of(type_) in (Annotated, *_QUALIFIERS):
        type_ = get_args(type_)[0]
    return type_


def _unwrapped(type_: TypeForm) -> TypeForm:
    """Return a type without its annotations, and without None."""
    bare = _without_annotations(type_)
    if _origin_of(bare) in (Union, UnionType):
        some = [member for member in get_args(bare) if member is not NoneType]
        return _unwrapped(some[0]) if len(some) == 1 else bare
    return bare


def _model_in(type_: TypeForm) -> TypeForm:
    """Return the model that a type is, or is a list of; None for other types."""
    bare = _unwrapped(type_)
    bare = _unwrapped(_item_of(bare) or bare)
    is_model = isclass(bare) and (issubclass(bare, BaseModel) or is_dataclass(bare))
    return bare if is_model or is_typeddict(bare) else None


def _flat(model: TypeForm, before: str = "", level: int = 1) -> Iterator[tuple[str, TypeForm]]:
    """Yield each field with its type, and those of models inside by dotted names."""
    fields: dict[str, TypeForm] = {}
    if isclass(model) and issubclass(model, BaseModel):
        for name, field in stored_names(model).items():
            fields[name] = field.annotation
            # Pydantic moves the constraints of `Annotated` out of the annotation.
            for metadata in field.metadata:
                fields[name] = _annotated[fields[name], metadata]
    else:
        for name, hint in get_type_hints(model, include_extras=True).items():
            fields[name] = get_args(hint)[0] if _origin_of(hint) in _QUALIFIERS else hint
    for name, type_ in fields.items():
        yield before + name, type_
        inner = _model_in(type_) if level < LEVELS else None
        if inner is not None:
            yield from _flat(inner, f"{before}{name}.", level + 1)
