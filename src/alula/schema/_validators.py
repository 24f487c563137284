"""Validators from a JSON Schema or a Pydantic model: of any value, of queries, of records.

All code that has to choose between the two kinds of schema is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, overload, runtime_checkable

from pydantic import BaseModel
from typing_extensions import is_typeddict

from alula.schema._failures import SchemaError
from alula.schema._json_schema.query_schema import Extensions, query_schema
from alula.schema._pydantic_models.model_validator import ModelValidator, model_of_typed_dict
from alula.schema._pydantic_models.query_model import QueryModel
from alula.schema._pydantic_models.records import ModelRecords, records_of_model
from alula.types import SchemaKeyword, is_mapping

if TYPE_CHECKING:
    from alula.schema._json_schema.records import JsonRecords

__all__ = ["AnyValidator", "Records", "get_validator", "query_syntax", "records_of"]

Records: TypeAlias = "JsonRecords | ModelRecords"
"""What makes the validators for the records of a service."""


@runtime_checkable
class AnyValidator(Protocol):
    """Checks and converts values.

    Attributes:
        operators: The operators of the query syntax that it names, beside the common ones.
        filters: The names at the top level of a query that it names, beside the common ones.
    """

    operators: frozenset[str]
    filters: frozenset[str]

    def validate(self, value: Any) -> Any:
        """Return the value with all conversions made.

        Raises:
            BadRequest: The value is not valid; ``data`` lists every failure.
        """


def get_validator(
    schema_or_model: object,
    *,
    coerce: bool = False,
    defaults: bool = True,
    keywords: Iterable[SchemaKeyword] = (),
) -> AnyValidator:
    """Return the validator for a schema or a model. A validator is returned as it is.

    Examples:
        >>> get_validator({"type": "integer"}, coerce=True).validate("5")
        5

    Args:
        schema_or_model: A JSON Schema, or a type that Pydantic can validate: a model, a dataclass,
            a ``TypedDict``, an annotated type, a ``TypeAdapter``.
        coerce: For JSON Schemas, as in `Validator`. A model itself says how strict it is.
        defaults: Whether absent properties get their defaults.
        keywords: For JSON Schemas, as in `Validator`.

    Raises:
        SchemaError: The schema is malformed, or Pydantic cannot describe the model.
    """
    # The protocol last: its attributes are looked for one by one (3 % of the tests that
    # `alula new` generates).
    if isinstance(schema_or_model, ModelValidator | QueryModel | AnyValidator):
        return schema_or_model
    if isinstance(schema_or_model, bool) or is_mapping(schema_or_model):
        # Applications whose schemas are models need none of the modules for JSON Schema.
        from alula.schema._json_schema.validator import Validator  # noqa: PLC0415  # 2 % of a start

        return Validator(schema_or_model, coerce=coerce, defaults=defaults, keywords=keywords)
    return ModelValidator(schema_or_model, defaults=defaults)


@overload
def query_syntax(
    properties: Mapping[str, Any], extensions: Extensions | None = None
) -> dict[str, Any]: ...
@overload
def query_syntax(properties: type, extensions: Extensions | None = None) -> QueryModel: ...
def query_syntax(
    properties: object, extensions: Extensions | None = None
) -> dict[str, Any] | QueryModel:
    """Return the schema of the queries for the records that a schema or a model describes.

    It types all values: of the properties, under operators, in ``$or`` and ``$and`` at any depth,
    in lists and under dotted names. It is closed: everything else is a failure that names it.

    Examples:
        >>> schema = query_syntax({"age": {"type": "integer"}})
        >>> get_validator(schema, coerce=True).validate({"age": {"$gt": "17"}})
        {'age': {'$gt': 17}}

    Args:
        properties: The properties of a record as JSON Schemas by name, or the JSON Schema of a
            record (of type ``object``), or a Pydantic model, a dataclass or a ``TypedDict``.
        extensions: Further operators by property, each with the schema or type of its value:
            ``{"name": {"$regex": {"type": "string"}}}``. A name that begins with ``$`` is a filter
            at the top level: ``{"$text": {"type": "object"}}``. The adapter accepts them in
            queries that were checked.

    Returns:
        A JSON Schema for JSON Schemas, a `QueryModel` for models; `validate_query` and
        `get_validator` take both.

    Raises:
        SchemaError: It is not the schema of a record, or an extension is for a property that it
            lacks.
    """
    if is_mapping(properties):
        return query_schema(properties, extensions or {})
    return QueryModel(properties, extensions or {})


def records_of(model: object, service: object) -> Records:
    """Return what makes the validators for the records of a service.

    Args:
        model: A JSON Schema of type ``object``, a Pydantic model, or a ``TypedDict``.
        service: The service. If it has them, these count: ``id``, the name of the id property;
            ``schema_keywords``, what its schemas know beside the keywords of JSON Schema; and
            ``converts_queries``, whether an id in a query may stay the text that it is.

    Raises:
        SchemaError: The model is neither, or has no properties, such as a ``RootModel``.
    """
    # The `id` of a service that is not an adapter may be anything else, such as a method.
    id_name = given if isinstance(given := getattr(service, "id", None), str) else "id"
    keywords: tuple[SchemaKeyword, ...] = tuple(getattr(service, "schema_keywords", ()))
    text_ids: bool = getattr(service, "converts_queries", False)
    if is_mapping(model):
        from alula.schema._json_schema.records import JsonRecords  # noqa: PLC0415  # as above

        return JsonRecords(model, id_name, keywords, text_ids=text_ids)
    if is_typeddict(model):
        model = model_of_typed_dict(model)
    if (
        isinstance(model, type)
        and issubclass(model, BaseModel)
        and not model.__pydantic_root_model__
    ):
        return records_of_model(model, id_name, keywords, text_ids)
    raise SchemaError(
        "with_schema takes a JSON Schema, or a TypedDict or Pydantic model with fields,"
        f" not {model!r}"
    )
