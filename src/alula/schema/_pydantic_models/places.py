"""Places in a record that a path such as ``items.0.price`` leads to, by the record's model.

There are as many places as fields, however long the path of a client is: a field of a model is one
place, and so are all items of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import is_dataclass
from inspect import isclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError
from typing_extensions import ReadOnly, is_typeddict

from alula.errors import BadRequest
from alula.schema._failures import pointer, without_prefix
from alula.schema._flat_schemas import alternatives, index_of
from alula.schema._pydantic_models.field_names import ReadPath, put_at, read_paths
from alula.schema._pydantic_models.model_validator import ModelValidator, stored_names

__all__ = ["ModelPlace", "ModelPlaces"]

TypeForm: TypeAlias = Any
"""A type or an annotation: Python has no static type for both."""

_annotated: Any = Annotated  # makes a type from values, which type checkers cannot see
_origin_of: Callable[[object], Any] = get_origin  # mypy picks the overload of a ParamSpec
_QUALIFIERS: Final = (Required, NotRequired, ReadOnly)
_UNSTATED: Final = (Any, object)
_NOT_LISTS: Final[Any] = (str, bytes, Mapping)


class ModelPlaces:
    """Finds places in the records that a Pydantic model describes.

    Args:
        model: The model.
        part: Makes the model of a partial record, in which no field is required.
    """

    def __init__(
        self, model: type[BaseModel], part: Callable[[type[BaseModel]], ModelValidator]
    ) -> None:
        self.part = part
        self.fields: dict[tuple[type[Any], str], ModelPlace] = {}
        self.root = ModelPlace(self, model)


class ModelPlace:
    """A place in a record; see `alula.schema._changes.Place`.

    Args:
        places: All places of these records.
        type_: The type of its values.
        owner: The model that has it as a field, None for an item of a list and the like.
        name: The name of that field in records.
    """

    def __init__(
        self,
        places: ModelPlaces,
        type_: TypeForm,
        owner: type[BaseModel] | None = None,
        name: str = "",
    ) -> None:
        self._places = places
        self._type = type_
        self._owner = owner
        self._name = name
        self._validator: ModelValidator | None = None
        self._alternatives: Sequence[Mapping[str, Any]] | None = None
        self._items: dict[TypeForm, ModelPlace] = {}

    @property
    def alternatives(self) -> Sequence[Mapping[str, Any]]:
        """Flat JSON Schemas, of which a value in the data meets one."""
        if self._alternatives is None:
            try:
                schema: dict[str, Any] = TypeAdapter(self._type).json_schema(mode="validation")
            except PydanticUserError:  # a type of the database, which has no schema of data
                schema = {"not": {}, "type": []}
            definitions = schema.get("$defs", {})
            self._alternatives = alternatives(
                schema, lambda pointer: definitions.get(pointer.rpartition("/")[2], True)
            )
        return self._alternatives

    def validate(self, value: object) -> Any:
        """Return a value of this place as plain data.

        Raises:
            BadRequest: It is not valid, or it is the value of a field that is never stored.
        """
        if self._owner is None:
            if self._validator is None:
                # As in all changes, nothing is added to what was sent.
                self._validator = ModelValidator(self._type, defaults=False)
            return self._validator.validate(value)
        if self._validator is None:
            self._validator = self._places.part(self._owner)
        path = read_paths(self._owner)[self._name][0]
        try:
            data = self._validator.validate(_record_with(path, value))
        except BadRequest as error:
            raise without_prefix(error, "".join(map(pointer, path))) from error
        if self._name not in data:
            raise BadRequest(f"{self._name!r} is never stored, so nothing can change it")
        return data[self._name]

    def below(self, name: str) -> tuple[str, ModelPlace] | None:
        """Return the stored name and the place of a property or an item, None if there is none."""
        for type_ in members_of(self._type):
            found = self._below(type_, name)
            if found is not None:
                return found
        return None

    def _below(self, type_: TypeForm, name: str) -> tuple[str, ModelPlace] | None:
        if type_ in _UNSTATED:
            return name, self._of(Any)
        if isclass(type_) and issubclass(type_, BaseModel):
            return self._field(type_, name)
        if (isclass(type_) and is_dataclass(type_)) or is_typeddict(type_):
            hints = get_type_hints(type_, include_extras=True)
            return (name, self._of(hints[name])) if name in hints else None
        if (item := item_of(type_)) is not None:
            return None if index_of(name) is None else (name, self._of(item))
        origin, arguments = _origin_of(type_) or type_, get_args(type_)
        if isclass(origin) and issubclass(origin, Mapping):
            return name, self._of(arguments[1] if len(arguments) == 2 else Any)
        return None

    def _field(self, model: type[BaseModel], name: str) -> tuple[str, ModelPlace] | None:
        stored = stored_names(model)
        if name not in stored:
            paths = read_paths(model).items()
            name = next((each for each, read in paths if (name,) in read), name)
        if name not in stored:
            is_open = model.model_config.get("extra") == "allow"
            return (name, self._of(Any)) if is_open else None
        place = self._places.fields.get((model, name))
        if place is None:
            field = stored[name]
            type_ = field.annotation
            # Pydantic moves the constraints of `Annotated` out of the annotation.
            for metadata in field.metadata:
                type_ = _annotated[type_, metadata]
            place = ModelPlace(self._places, type_, model, name)
            self._places.fields[model, name] = place
        return name, place

    def _of(self, type_: TypeForm) -> ModelPlace:
        """Return the place of values of a type below this one."""
        return self._items.setdefault(type_, ModelPlace(self._places, type_))

    def has_to_have(self, name: str) -> bool:
        """Tell whether every value of this place has a property."""
        for type_ in members_of(self._type):
            if isclass(type_) and issubclass(type_, BaseModel) and name in stored_names(type_):
                return stored_names(type_)[name].is_required()
            if is_typeddict(type_):
                required: frozenset[str] = getattr(type_, "__required_keys__", frozenset[str]())
                return name in required
            if isclass(type_) and is_dataclass(type_):
                return True
        return False

    def item(self) -> ModelPlace | None:
        """Return the place of new items, None if values of this place are not lists."""
        for type_ in members_of(self._type):
            if type_ in _UNSTATED:
                return self._of(Any)
            if (item := item_of(type_)) is not None:
                return self._of(item)
        return None


def members_of(type_: TypeForm) -> list[TypeForm]:
    """Return the types that a union lists, but None, without their annotations."""
    while _origin_of(type_) in (Annotated, *_QUALIFIERS) or hasattr(type_, "__value__"):
        # `type Name = ...` has its type as its value.
        type_ = type_.__value__ if hasattr(type_, "__value__") else get_args(type_)[0]
    if _origin_of(type_) in (Union, UnionType):
        return [member for each in get_args(type_) for member in members_of(each)]
    return [] if type_ is NoneType else [type_]


def item_of(type_: TypeForm) -> TypeForm | None:
    """Return the type of the items of a list type, None for other types."""
    origin, arguments = _origin_of(type_) or type_, get_args(type_)
    if not isclass(origin) or not issubclass(origin, Collection) or issubclass(origin, _NOT_LISTS):
        return None
    if origin is tuple:
        return arguments[0] if arguments[1:] == (...,) else None
    return arguments[0] if arguments else Any


def _record_with(path: ReadPath, value: object) -> dict[str, Any]:
    record: dict[str, Any] = {}
    put_at(record, path, value)
    return record
