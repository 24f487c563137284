"""The common query syntax for the records that a Pydantic model describes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
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

from alula.query._query import as_list, is_mapping
from alula.schema._failures import SchemaError, failures_of_model, refusal
from alula.schema._json_schema.query_schema import (
    LEVELS,
    LISTED,
    ORDERED,
    Extensions,
    beside_the_common,
    check_extensions,
)
from alula.schema._pydantic_models.model_validator import adapter_of, storable, stored_names

__all__ = ["QueryModel"]

_QUALIFIERS = (Required, NotRequired, ReadOnly)
_LISTS = (list, tuple, set, frozenset)

# The forms by which types are made that are only known here.
_annotated: Any = Annotated
_literal: Any = Literal
_union: Any = Union
_list: Any = list
_dict: Any = dict
_typed_dict: Any = TypedDict


class QueryModel:
    """Checks and converts the queries of the records that a model describes.

    Args:
        model: A model, a dataclass or a ``TypedDict``.
        extensions: As `query_syntax` takes them, with types in place of schemas.
        without: Names of fields that queries must not mention.

    Attributes:
        operators: The operators that the extensions name.
        filters: The filters that the extensions name.
        adapter: What validates: Pydantic's adapter of the type of a query.

    Raises:
        SchemaError: It is not a model, or it cannot be described, or an extension is for no field.
    """

    def __init__(
        self, model: Any, extensions: Extensions, *, without: Collection[str] = ()
    ) -> None:
        if _model_in(model) is not model:
            raise SchemaError(
                f"query_syntax: {model!r} is not the model of a record; give a Pydantic model, a"
                " dataclass or a TypedDict"
            )
        fields = {
            name: kind for name, kind in _flat(model) if name.partition(".")[0] not in without
        }
        filters = check_extensions(extensions, fields)
        self.operators = beside_the_common(
            each for name in fields for each in extensions.get(name, ())
        )
        self.filters = beside_the_common(filters)
        self.adapter: TypeAdapter[Any] = adapter_of(_query_type(fields, filters, extensions))

    def validate(self, value: Any) -> Any:
        """Return the query with all values converted, as those of the records in the store.

        Raises:
            BadRequest: It does not fit; ``data`` lists every failure.
        """
        try:
            return storable(self.adapter.validate_python(value))
        except ValidationError as error:
            raise refusal(failures_of_model(error, value)) from None

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of queries."""
        return self.adapter.json_schema()


def _query_type(fields: Mapping[str, Any], filters: Mapping[str, Any], more: Extensions) -> Any:
    """Return the type of a query."""
    criteria = {name: _field(name, each, more.get(name, {})) for name, each in fields.items()}
    again = _listed(_list["QueryCriteria"])  # by its name, since it is made of itself
    branches = _annotated[again, Field(min_length=1)]
    name, size = _one_of(tuple(fields)), _annotated[int, Field(ge=0)]
    parts = _closed("QueryCriteria", {**criteria, "$or": branches, "$and": branches})
    branches = _annotated[_listed(_list[parts]), Field(min_length=1)]
    beside = {
        "$limit": size,
        "$skip": size,
        # A mapping keeps the order of its names, which counts here; a TypedDict does not.
        "$sort": _dict[name, _spelled(Literal[1, -1])],
        "$select": _listed(_list[name]),
        "$or": branches,
        "$and": branches,
    }
    return _closed("Query", {**beside, **filters, **criteria})


def _one_of(names: tuple[str, ...]) -> Any:
    """Return the type of one of these names; where there are none, no text is one."""
    return _literal[names] if names else _annotated[str, Field(pattern=r"^\b$")]


def _closed(name: str, fields: Mapping[str, Any]) -> Any:
    """Return the type of objects that may have these names and no others, and no ``NaN`` in them.

    Pydantic takes the texts ``NaN`` and ``Infinity`` for numbers, JSON Schema does not.
    """
    kind = _typed_dict(name, dict(fields), total=False)
    kind.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
    return kind


def _listed(kind: Any) -> Any:
    """Return the type of a list that an object with index keys may stand for."""
    return _annotated[kind, BeforeValidator(_list_meant)]


def _list_meant(value: Any) -> Any:
    items = as_list(value) if is_mapping(value) and value else None
    return value if items is None else items


def _spelled(kind: Any) -> Any:
    """Return a type that takes its numbers, true and false as texts, too, where it lists values.

    A query string has nothing but texts. Pydantic takes none of them for a ``Literal`` or a member
    of an enumeration that is no text.
    """
    values = _listed_in(_unwrapped(kind))
    texts = {str(value).lower(): value for value in values if isinstance(value, int | float)}
    meant = {text: value for text, value in texts.items() if text not in values}
    if not meant:
        return kind
    spelled = BeforeValidator(
        lambda given: meant.get(given, given) if type(given) is str else given
    )
    return _annotated[kind, spelled]


def _listed_in(kind: Any) -> Sequence[Any]:
    """Return the values that a ``Literal`` or an enumeration lists; nothing for other types."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [member.value for member in kind]
    return get_args(kind) if get_origin(kind) is Literal else ()


def _field(name: str, kind: Any, extension: Mapping[str, Any]) -> Any:
    """Return the type of what a query may ask of one field: a value, or operators."""
    value = _value(kind)
    some = _listed(_list[value])
    operators = {**dict.fromkeys(ORDERED, value), **dict.fromkeys(LISTED, some), **extension}
    tested = _annotated[_closed(f"{name} operators", operators), Tag("operators")]
    either = _union[_annotated[value, Tag("value")], tested]
    return _annotated[either, Discriminator(_tag)]


def _tag(value: Any) -> str:
    """Say whether a value is an object of operators; so no failure is tried against both."""
    operators = is_mapping(value) and any(str(name)[:1] == "$" for name in value)
    return "operators" if operators else "value"


def _value(kind: Any) -> Any:
    """Return the type that values of a field are compared as, as plain data."""
    compared = _compared(kind)
    return _annotated[compared, WrapValidator(_null_meant)] if _may_be_none(kind) else compared


def _null_meant(value: Any, validate: Callable[[Any], Any]) -> Any:
    """Take an empty text for None, as query strings write it, where the type has no such text."""
    try:
        return validate(value)
    except ValidationError:
        if value == "":
            return None
        raise


def _may_be_none(kind: Any) -> bool:
    while get_origin(kind) in (Annotated, *_QUALIFIERS):
        kind = get_args(kind)[0]
    return get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)


def _compared(kind: Any) -> Any:
    item = _item_of(kind)
    if item is None:
        return (
            _spelled(kind) if _model_in(kind) is None else _annotated[kind, AfterValidator(_plain)]
        )
    # A list matches by one of its elements, too.
    return _annotated[_listed(_union[_value(item), kind]), AfterValidator(_plain)]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return _dumped(value) if is_dataclass(type(value)) or isinstance(value, BaseModel) else value


def _dumped(value: Any) -> Any:
    return TypeAdapter(type(value)).dump_python(value, by_alias=True, exclude_unset=True)


def _item_of(kind: Any) -> Any:
    """Return the type of the items of a list's type, None where it is none."""
    inner = _unwrapped(kind)
    arguments = get_args(inner)
    return arguments[0] if arguments and get_origin(inner) in _LISTS else None


def _unwrapped(kind: Any) -> Any:
    """Return a type without its annotations, and without None."""
    while get_origin(kind) in (Annotated, *_QUALIFIERS):
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        some = [each for each in get_args(kind) if each is not NoneType]
        return _unwrapped(some[0]) if len(some) == 1 else kind
    return kind


def _model_in(kind: Any) -> Any:
    """Return the model that a type is, or is a list of; None where it is none."""
    inner = _unwrapped(kind)
    inner = _unwrapped(_item_of(inner) or inner)
    described = isinstance(inner, type) and (issubclass(inner, BaseModel) or is_dataclass(inner))
    return inner if described or is_typeddict(inner) else None


def _flat(model: Any, before: str = "", level: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield each field with its type, and those of models inside by dotted names."""
    for name, kind in _fields(model):
        yield before + name, kind
        inner = _model_in(kind) if level < LEVELS else None
        yield from () if inner is None else _flat(inner, f"{before}{name}.", level + 1)


def _fields(model: Any) -> Iterable[tuple[str, Any]]:
    """Return the fields of a model under the names that records have, with their types."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        for name, field in stored_names(model).items():
            kind: Any = field.annotation
            for extra in field.metadata:
                kind = _annotated[kind, extra]
            yield name, kind
    else:
        for name, kind in get_type_hints(model, include_extras=True).items():
            yield name, _without_qualifier(kind)


def _without_qualifier(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) in _QUALIFIERS else kind
