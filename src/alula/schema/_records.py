"""What a service needs to know of its records, from a JSON Schema or from a Pydantic model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, RootModel, create_model, model_validator

from alula.schema._dates import keyword_date
from alula.schema._failures import SchemaError
from alula.schema._hidden_and_queryable import stored_names
from alula.schema._json_schema.validator import Validator
from alula.schema._pydantic_models.model_validator import ModelValidator, adapter_of, record_schema
from alula.schema._pydantic_models.query_model import QueryModel
from alula.schema._syntax import query_syntax
from alula.schema._validators import AnyValidator
from alula.types import SchemaKeyword

__all__ = ["Records", "records_of", "without_names", "write_only"]

Extensions = Mapping[str, Mapping[str, Any]]

_ELSEWHERE = ("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "unevaluatedProperties")
"""Keywords by which there may be more properties than ``properties`` has."""


def records_of(model: Any, id: str, keywords: Iterable[SchemaKeyword]) -> Records:
    """Return what is known of the records of a service.

    Args:
        model: A JSON Schema of type ``object``, or a Pydantic model.
        id: Name of the id property.
        keywords: What the service's schemas know beside the keywords of JSON Schema.

    Raises:
        SchemaError: It is neither, or it has no properties, as a ``RootModel`` has none.
    """
    own = tuple(keywords)
    if isinstance(model, Mapping):
        return JsonRecords(model, id, own)
    fields = isinstance(model, type) and issubclass(model, BaseModel)
    if fields and not issubclass(model, RootModel):
        return ModelRecords(model, id, own)
    raise SchemaError(
        f"with_schema takes a JSON Schema or a Pydantic model with fields, not {model!r}"
    )


def write_only(schema: Mapping[str, Any]) -> set[str]:
    """Return the names of the properties that a schema says are never sent (``writeOnly``)."""
    return {name for name, each in schema["properties"].items() if _is_write_only(each)}


def without_names(schema: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the schema of a record without some of its properties."""
    left = {name: each for name, each in schema["properties"].items() if name not in names}
    required = [name for name in schema.get("required", ()) if name not in names]
    return {**schema, "properties": left, "required": required}


def _is_write_only(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    return schema.get("writeOnly") is True or any(map(_is_write_only, schema.get("anyOf", ())))


class JsonRecords:
    """The validators for the records that a JSON Schema describes.

    Args:
        schema: The schema of a record.
        id: Name of the id property.
        keywords: The keywords of the service.

    Attributes:
        schema: The schema, with the id.
    """

    def __init__(
        self, schema: Mapping[str, Any], id: str, keywords: tuple[SchemaKeyword, ...]
    ) -> None:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            raise SchemaError("with_schema: the schema has no properties; give that of a record")
        self.schema: dict[str, Any] = {"type": "object", **schema}
        self._id = id
        self._keywords = (*keywords, keyword_date)
        if id not in properties:
            self._id_schema: Any = {
                "anyOf": [
                    *({keyword.name: True} for keyword in keywords),
                    *([] if keywords else [{"type": "integer"}]),
                    {"type": "string"},
                ]
            }
            self.schema["properties"] = {id: self._id_schema, **properties}
        self._given = schema

    def query(self, extensions: Extensions, without: Collection[str] = ()) -> AnyValidator:
        """Return what checks queries, which must not mention the names ``without``."""
        asked = query_syntax(without_names(self.schema, without), extensions)
        return Validator(asked, coerce=True, keywords=self._keywords)

    def required(self) -> set[str]:
        """Return the names that a new record must have."""
        return set(self._given.get("required", ())) - {self._id}

    def whole(self, later: Collection[str], made: Collection[str] = ()) -> AnyValidator:
        """Return what checks new records, in which the id need not be.

        Args:
            later: Names that need not be there yet, since they may be made afterwards.
            made: Those of them that are made in any case.
        """
        return Validator(self._data((*later, *made, self._id)), keywords=self._keywords)

    def part(self) -> AnyValidator:
        """Return what checks the data of a patch: nothing has to be there, nothing is added."""
        schema = self._data(self._given.get("required", ()))
        return Validator(schema, defaults=False, keywords=self._keywords)

    def _data(self, optional: Collection[str]) -> dict[str, Any]:
        """Return the schema of data; it is closed unless it says otherwise itself."""
        schema = {"type": "object", **self._given}
        if not any(name in schema for name in _ELSEWHERE):
            schema.setdefault("additionalProperties", False)
        required = [name for name in schema.pop("required", ()) if name not in optional]
        return {**schema, "required": required} if required else schema


class ModelRecords:
    """The validators for the records that a Pydantic model describes; see `JsonRecords`."""

    def __init__(
        self, model: type[BaseModel], id: str, keywords: tuple[SchemaKeyword, ...]
    ) -> None:
        self._model = model
        self._id = id
        self._keywords = keywords
        adapter_of(model)
        self.schema = record_schema(self._with_id())

    def query(self, extensions: Extensions, without: Collection[str] = ()) -> AnyValidator:
        """Return what checks queries, which must not mention the names ``without``."""
        return QueryModel(self._with_id(), extensions, without=without)

    def required(self) -> set[str]:
        """Return the names that a new record must have."""
        fields = stored_names(self._model).items()
        return {name for name, field in fields if field.is_required() and name != self._id}

    def whole(self, later: Collection[str], made: Collection[str] = ()) -> AnyValidator:
        """Return what checks new records; see `JsonRecords.whole`."""
        first = {*made, self._id}
        sent = self._without(first, None)
        return sent if first.issuperset(later) else self._without({*later, *first}, sent)

    def _without(self, names: Collection[str], otherwise: ModelValidator | None) -> ModelValidator:
        relaxed = _relaxed(self._model, "Data", names.__contains__)
        omitted = self._python_names(names)
        return ModelValidator(relaxed, omitted=omitted, otherwise=otherwise)

    def _python_names(self, names: Collection[str]) -> list[str]:
        """Return the required fields among those that records have under these names."""
        return [
            name
            for name, field in self._model.model_fields.items()
            if field.is_required() and (field.serialization_alias or name) in names
        ]

    def part(self) -> AnyValidator:
        """Return what checks the data of a patch: nothing has to be there, nothing is added.

        Validators of the whole model do not run: they would see fields that are not there.
        """
        rules = self._model.__pydantic_decorators__.model_validators
        idle: dict[str, Any] = {name: model_validator(mode="after")(_as_it_is) for name in rules}
        if self._model.model_post_init is not BaseModel.model_post_init:
            idle["model_post_init"] = _as_it_is
        patch = _relaxed(self._model, "Patch", lambda _: True, idle)
        return ModelValidator(patch, defaults=False)

    def _with_id(self) -> type[BaseModel]:
        """Return the model with the id among its fields."""
        if self._id in stored_names(self._model):
            return self._model
        kind: Any = Annotated[int | str, Field(union_mode="left_to_right")]
        if self._keywords:
            kind = Annotated[Any, BeforeValidator(self._as_id)]
        name = "record_id"
        while name in self._model.model_fields:
            name += "_"
        own: dict[str, Any] = {name: (kind, Field(alias=self._id))}
        return create_model(self._model.__name__, __base__=self._model, **own)

    def _as_id(self, value: Any) -> Any:
        for keyword in self._keywords:
            try:
                return keyword.convert(value, True)
            except ValueError:
                continue
        return value


Records: TypeAlias = JsonRecords | ModelRecords


def _relaxed(
    model: type[BaseModel],
    suffix: str,
    optional: Callable[[str], bool],
    replaced: Mapping[str, Any] = MappingProxyType({}),
) -> type[BaseModel]:
    """Return a model in which some fields need not be there; their types stay.

    Args:
        model: The model.
        suffix: What its name gets, for descriptions.
        optional: Says of the name of a field, as records have it, whether it may be absent.
        replaced: Methods of the model that others take the place of.
    """
    own: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if field.is_required() and optional(field.serialization_alias or name):
            loose = copy(field)
            loose.default, loose.validate_default = None, False
            own[name] = (field.annotation, loose)
    if not own and not replaced:
        return model
    name, validators = f"{model.__name__}{suffix}", dict(replaced)
    return create_model(name, __base__=model, __validators__=validators, **own)


def _as_it_is(self: Any, _: Any = None) -> Any:
    return self
