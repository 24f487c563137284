"""Validators of Pydantic models, and of all else that Pydantic can validate."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError, create_model
from pydantic.errors import (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
)
from pydantic_core import SchemaError as CoreSchemaError

from alula.errors import BadRequest
from alula.schema._failures import SchemaError, refusal
from alula.schema._json_schema.equality import check_hashes
from alula.schema._pydantic_models.failures import failures_of
from alula.schema._pydantic_models.storable import storable

__all__ = ["ModelValidator", "adapter_of", "record_schema"]


_WAY_OUT: Final = (
    "an annotation has to say what it is in JSON. An object id is"
    " Annotated[ObjectId, ObjectIdSchema], with ObjectIdSchema from alula.adapters.mongodb"
)


class ModelValidator:
    """Checks values against a model, and returns them as plain data that can be stored.

    Args:
        model: A model, a dataclass, a ``TypedDict``, an annotated type, or a ``TypeAdapter``.
        defaults: Whether absent fields get their defaults. Without them it is for parts of
            records.
        omitted: Fields whose defaults are left out in any case: others make them later.
        otherwise: What validates where a validator of the model falls over what is omitted.

    Attributes:
        operators: None; a query's model comes from `query_syntax`, which knows them.
        filters: None, as above.

    Raises:
        SchemaError: Pydantic can not describe the model; the text says why.
    """

    operators: frozenset[str] = frozenset()
    filters: frozenset[str] = frozenset()

    def __init__(
        self,
        model: Any,
        *,
        defaults: bool = True,
        omitted: Collection[str] = (),
        otherwise: ModelValidator | None = None,
    ) -> None:
        self._adapter = adapter_of(model)
        self._defaults = defaults
        self._omitted = frozenset(omitted)
        self._otherwise = otherwise

    def validate(self, value: Any) -> Any:
        """Return the value as the model describes it: a dict, under the names of the wire.

        Computed fields and those of ``Field(exclude=True)`` are not in it.

        Raises:
            BadRequest: It does not fit; ``data`` lists every failure in the shape of those of
                JSON Schemas. Or it is a part of a record, and a validator of a field fell over
                what is not in it.
        """
        if type(value) is dict or type(value) is list:
            check_hashes(value)
        try:
            found = self._adapter.validate_python(value)
        except ValidationError as error:
            raise refusal(failures_of(error, value)) from None
        except (AttributeError, LookupError, TypeError) as error:
            if self._otherwise is not None:
                return self._otherwise.validate(value)
            if self._defaults:
                raise
            raise BadRequest("these fields can not be checked without the others") from error
        try:
            return storable(self._dumped(found))
        except RecursionError:
            raise BadRequest("The data is nested too deeply") from None

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what fits."""
        return self._adapter.json_schema()

    def _dumped(self, found: Any) -> Any:
        return self._adapter.dump_python(
            found,
            by_alias=True,
            exclude=self._omitted - found.model_fields_set if self._omitted else None,
            exclude_unset=not self._defaults,
            exclude_computed_fields=True,
            warnings=False,
        )


def adapter_of(model: Any) -> TypeAdapter[Any]:
    """Return what validates by a model.

    Raises:
        SchemaError: Pydantic can not describe it.
    """
    try:
        adapter = model if isinstance(model, TypeAdapter) else TypeAdapter(model)
        if not adapter.pydantic_complete:
            adapter.rebuild(raise_errors=True)
        return adapter
    except (
        CoreSchemaError,
        PydanticSchemaGenerationError,
        PydanticUndefinedAnnotation,
        PydanticUserError,
        TypeError,
    ) as error:
        name = getattr(model, "__name__", None) or repr(model)
        reason = str(error).partition("\n")[0]
        if isinstance(error, PydanticSchemaGenerationError):
            reason = f"{reason.partition('. ')[0]}; {_WAY_OUT}"
        raise SchemaError(f"{name} is no JSON Schema and no model of Pydantic: {reason}") from error


def record_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of the records of a model, without computed fields.

    Raises:
        SchemaError: The type of a field has none, so that it can neither be stored nor sent.
    """
    try:
        schema = model.model_json_schema(mode="serialization")
    except PydanticInvalidForJsonSchema as error:
        raise SchemaError(_unknown_type(model, error)) from error
    if "$ref" in schema:  # the model is made of itself, so Pydantic describes it among others
        own = schema["$defs"][schema.pop("$ref").rpartition("/")[2]]
        schema = {**schema, **own, "properties": dict(own["properties"])}
    for name, field in model.model_computed_fields.items():
        schema["properties"].pop(field.alias or name)
    required = [name for name in schema.pop("required", ()) if name in schema["properties"]]
    return {**schema, "required": required} if required else schema


def _unknown_type(model: type[BaseModel], error: Exception) -> str:
    """Return what is wrong, with the first field whose type has no JSON Schema."""
    for name, field in model.model_fields.items():
        alone: dict[str, Any] = {name: (field.annotation, field)}
        try:
            create_model(name, __config__=model.model_config, **alone).model_json_schema()
        except PydanticInvalidForJsonSchema:
            kind = getattr(field.annotation, "__qualname__", None) or repr(field.annotation)
            return (
                f"{model.__name__}.{name} is of the type {kind}, which has no JSON Schema;"
                f" {_WAY_OUT}"
            )
    return f"{model.__name__} has no JSON Schema: {error}"
