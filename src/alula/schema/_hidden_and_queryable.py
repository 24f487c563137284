"""Which properties a record can have, as far as its schema says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

__all__ = ["names_in", "stored_names"]

_OPEN = ("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas")
"""Keywords by which further properties may be described elsewhere."""


def stored_names(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by the names under which records have them.

    These are the names that Pydantic writes. Where a field has another name to be read by
    (``validation_alias``), no record has that one.
    """
    fields = model.model_fields.items()
    return {field.serialization_alias or name: field for name, field in fields}


def names_in(schema: Any) -> Collection[str] | None:
    """Return the names of all properties, None where the schema leaves open which there are.

    Args:
        schema: A JSON Schema, a Pydantic model, or a validator of either (its ``schema`` counts).

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        if schema.model_config.get("extra") == "allow":
            return None
        return list(stored_names(schema))
    schema = getattr(schema, "schema", schema)
    if not isinstance(schema, Mapping):
        raise TypeError(f"{schema!r} is neither a JSON Schema nor a Pydantic model")
    properties = schema.get("properties")
    if (
        not isinstance(properties, Mapping)
        or schema.get("additionalProperties", False) is not False
        or any(name in schema for name in _OPEN)
    ):
        return None
    return list(properties)
