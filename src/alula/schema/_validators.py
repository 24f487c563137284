"""One way to a validator, whatever says what data is: a JSON Schema or a Pydantic model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from alula.schema._json_schema.validator import Validator
from alula.schema._pydantic_models.model_validator import ModelValidator
from alula.types import SchemaKeyword

__all__ = ["AnyValidator", "get_validator"]


@runtime_checkable
class AnyValidator(Protocol):
    """What checks and converts a value.

    Attributes:
        operators: The operators of the query syntax that it names, beside the common ones.
        filters: The names at the top level of a query that it names, beside the common ones.
    """

    operators: frozenset[str]
    filters: frozenset[str]

    def validate(self, value: Any) -> Any:
        """Return the value with all conversions made.

        Raises:
            BadRequest: It does not fit; ``data`` lists every failure.
        """


def get_validator(
    schema_or_model: Any,
    *,
    coerce: bool = False,
    defaults: bool = True,
    keywords: Iterable[SchemaKeyword] = (),
) -> AnyValidator:
    """Return the validator for a schema or a model; one that is a validator is returned itself.

    Args:
        schema_or_model: A JSON Schema, or whatever Pydantic can validate: a model, a dataclass, a
            ``TypedDict``, an annotated type, a ``TypeAdapter``.
        coerce: For JSON Schemas, as in `Validator`; a model says itself how strict it is.
        defaults: Whether absent properties get their defaults.
        keywords: For JSON Schemas, as in `Validator`.

    Raises:
        SchemaError: The schema is malformed, or the model can not be described.
    """
    if isinstance(schema_or_model, AnyValidator):
        return schema_or_model
    if isinstance(schema_or_model, Mapping | bool):
        return Validator(schema_or_model, coerce=coerce, defaults=defaults, keywords=keywords)
    return ModelValidator(schema_or_model, defaults=defaults)
