"""Validators from a JSON Schema or a Pydantic model: of any value, of queries, of records.

All code that has to choose between the two kinds of schema is here. `JsonRecords` and
`ModelRecords` have the same methods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Protocol,
    TypeAlias,
    overload,
    runtime_checkable,
)

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)
from typing_extensions import is_typeddict

from alula.schema._changes import Changes
from alula.schema._failures import SchemaError, check_id_default
from alula.schema._json_schema.query_schema import (
    NOTHING_OPENED,
    Extensions,
    Opened,
    query_schema,
)
from alula.schema._pydantic_models.field_names import FieldNames
from alula.schema._pydantic_models.model_validator import (
    ModelValidator,
    adapter_of,
    model_of_typed_dict,
    record_schema,
    stored_names,
)
from alula.schema._pydantic_models.places import ModelPlaces
from alula.schema._pydantic_models.query_model import QueryModel
from alula.types import SchemaKeyword, is_mapping

if TYPE_CHECKING:
    from alula.schema._json_schema.validator import JsonRecords

__all__ = ["AnyValidator", "Records", "get_validator", "query_syntax", "records_of"]


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
    if isinstance(schema_or_model, AnyValidator):
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
        from alula.schema._json_schema.validator import JsonRecords  # noqa: PLC0415  # as above

        return JsonRecords(model, id_name, keywords, text_ids=text_ids)
    if is_typeddict(model):
        model = model_of_typed_dict(model)
    if (
        isinstance(model, type)
        and issubclass(model, BaseModel)
        and not model.__pydantic_root_model__
    ):
        return ModelRecords(model, id_name, keywords, text_ids=text_ids)
    raise SchemaError(
        "with_schema takes a JSON Schema, or a TypedDict or Pydantic model with fields,"
        f" not {model!r}"
    )


class ModelRecords:
    """Makes the validators for the records that a Pydantic model describes; see `JsonRecords`."""

    def __init__(
        self,
        model: type[BaseModel],
        id: str,
        keywords: tuple[SchemaKeyword, ...],
        *,
        text_ids: bool,
    ) -> None:
        self._model = self._with_id = model
        self._id = id
        if id in (stored := stored_names(model)):
            check_id_default(id, stored[id].default)
        names = FieldNames(model)
        self._names = names
        self.as_stored = names.as_stored if names.differ else None
        adapter_of(model)  # to refuse what Pydantic cannot describe, with a message of ours

        def convert(value: object) -> object:
            for keyword in keywords:
                try:
                    return keyword.convert(value, True)
                except ValueError:
                    continue
            return value

        if id not in stored_names(model):
            # Left to right: Pydantic's smart union would leave the id of a URL a text.
            ordered = Field(union_mode="left_to_right")
            type_: Any = (
                Annotated[str | int, ordered] if text_ids else Annotated[int | str, ordered]
            )
            if keywords and not text_ids:
                # As in `JsonRecords`: descriptions know what clients send for a keyword.
                kinds = [*({keyword.name: True} for keyword in keywords), {"type": "string"}]
                type_ = Annotated[Any, BeforeValidator(convert), WithJsonSchema({"anyOf": kinds})]
            # Not the id itself: Pydantic refuses fields such as MongoDB's "_id".
            name = "record_id"
            while name in model.model_fields:
                name += "_"
            fields: dict[str, Any] = {name: (type_, Field(alias=id))}
            self._with_id = create_model(
                model.__name__, __base__=model, __doc__=model.__doc__, **fields
            )
        self.schema = record_schema(self._with_id)

    def query(
        self,
        extensions: Extensions,
        without: Collection[str] = (),
        opened: Opened = NOTHING_OPENED,
    ) -> AnyValidator:
        """Return the validator of queries, which must not name the fields ``without``."""
        return QueryModel(self._with_id, extensions, without=without, opened=opened)

    def required(self) -> set[str]:
        """Return the names that a new record must have."""
        fields = stored_names(self._model).items()
        return {name for name, field in fields if field.is_required() and name != self._id}

    def filled(self) -> set[str]:
        """Return the names that a new record has even if nobody gives them."""
        fields = stored_names(self._model).items()
        return {name for name, field in fields if not field.is_required() and not field.exclude}

    def whole(self, later: Collection[str], made: Collection[str] = ()) -> AnyValidator:
        """Return the validator of new records; see `JsonRecords.whole`."""
        never_sent = {*made, self._id}
        sent = self._without(never_sent, None)
        if never_sent.issuperset(later):
            return sent
        return self._without({*later, *never_sent}, sent)

    def part(self) -> ModelValidator:
        """Return the validator of the data of a patch: nothing is required, nothing is added.

        Validators of the whole model do not run: they would see fields that are absent.
        """
        rules = self._model.__pydantic_decorators__.model_validators
        idle: dict[str, Any] = {name: model_validator(mode="after")(_unchanged) for name in rules}
        if self._model.model_post_init is not BaseModel.model_post_init:
            idle["model_post_init"] = _unchanged
        patch = _relaxed(self._model, "Patch", lambda _: True, idle)
        return ModelValidator(patch, defaults=False, before=self._as_read)

    def changes(self) -> Changes:
        """Return the validator of changes, which may have update operators and paths."""

        def part_of(model: type[BaseModel]) -> ModelValidator:
            return ModelRecords(model, "", (), text_ids=False).part()

        root = ModelPlaces(self._model, part_of).root
        return Changes(self.part().validate, root, self.query({}).validate, self._id)

    def _without(self, names: Collection[str], fallback: ModelValidator | None) -> ModelValidator:
        relaxed = _relaxed(self._model, "Data", names.__contains__)
        omitted = [
            name
            for name, field in self._model.model_fields.items()
            if field.is_required() and (field.serialization_alias or name) in names
        ]
        return ModelValidator(relaxed, omitted=omitted, fallback=fallback, before=self._as_read)

    @property
    def _as_read(self) -> Callable[[Any], Any] | None:
        return self._names.as_read if self._names.are_unreadable else None


Records: TypeAlias = "JsonRecords | ModelRecords"


def _relaxed(
    model: type[BaseModel],
    suffix: str,
    optional: Callable[[str], bool],
    replaced: Mapping[str, Any] = MappingProxyType({}),
) -> type[BaseModel]:
    """Return a model in which some required fields are optional; their types stay.

    Args:
        model: The model.
        suffix: What is added to its name, for descriptions.
        optional: Called with the name of a field, as records have it.
        replaced: Methods of the model to replace.
    """
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if field.is_required() and optional(field.serialization_alias or name):
            # The field object is shared with the model of the application.
            loose = copy(field)
            loose.default, loose.validate_default = None, False
            fields[name] = (field.annotation, loose)
    if not fields and not replaced:
        return model
    name, validators = f"{model.__name__}{suffix}", dict(replaced)
    return create_model(name, __base__=model, __validators__=validators, **fields)


def _unchanged(self: object, _: object = None) -> object:
    return self
