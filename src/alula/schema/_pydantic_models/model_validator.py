"""`ModelValidator`: checks values against a Pydantic model, and returns plain data for a store.

Pydantic knows many more types than a database. Each value becomes what Pydantic writes into JSON,
except datetimes, bytes and the types of the database itself, which a store knows.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import (
    Annotated,
    Any,
    Final,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Secret,
    SecretBytes,
    SecretStr,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.errors import (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaValidator, to_jsonable_python
from pydantic_core import SchemaError as CoreSchemaError
from pydantic_core.core_schema import (
    DataclassArgsSchema,
    DataclassField,
    ModelField,
    ModelFieldsSchema,
    TypedDictField,
)
from typing_extensions import ReadOnly

from alula.errors import BadRequest
from alula.schema._failures import SchemaError, failures_of_model, refusal
from alula.schema._pydantic_models.failure_limit import FEW_ENTRIES, check_failures
from alula.schema._pydantic_models.recursive_unions import UnionLimit
from alula.schema._pydantic_models.typed_dicts import as_pydantic_knows
from alula.types import SCALAR_TYPES, is_array, is_dict

__all__ = [
    "MOST_MODELS",
    "ModelValidator",
    "adapter_of",
    "check_hashes",
    "closed_validator",
    "model_of_typed_dict",
    "record_schema",
    "storable",
    "stored_names",
    "with_computed",
]

MOST_MODELS: Final = 200
"""How many models are remembered, with what was made of them."""

MANY: Final = 1000
"""Lists and objects with more entries have the numbers in their texts checked."""

MOST_OF_ONE_HASH: Final = 100
"""How many different texts in one of them may mean numbers or UUIDs of the same hash."""

_ATOMS: Final = SCALAR_TYPES | {datetime, bytes}
_KEPT: Final = (str, int, float, datetime, bytes, Decimal)
_CONTAINERS: Final = frozenset({dict, list})
_TEXT: Final = frozenset({str})
# `Any`, so that a type checker does not take what they hold for unknown.
_ADAPTER: Final[Any] = TypeAdapter
_OBJECTS: Final[Any] = (dict, Mapping)  # most are dicts, and the test of a Mapping takes time
_LISTS: Final[Any] = (list, tuple, deque)
_SETS: Final[Any] = (set, frozenset)
_SECRETS: Final = (Secret, SecretStr, SecretBytes)
_QUALIFIERS: Final = (Required, NotRequired, ReadOnly)
_annotated: Any = Annotated  # makes a type from values, which type checkers cannot see

_HINT: Final = (
    "an annotation has to say what it is in JSON. An object id is"
    " Annotated[ObjectId, ObjectIdSchema], with ObjectIdSchema from alula.adapters.mongodb"
)


class ModelValidator:
    """Checks values against a model, and returns them as plain data that can be stored.

    Args:
        model: A model, a dataclass, a ``TypedDict``, an annotated type, or a ``TypeAdapter``.
        defaults: Whether absent fields get their defaults. False for partial records.
        omitted: Fields whose defaults are always left out, since a resolver makes them later.
        fallback: Validates where a validator of the model fails because of an omitted field.
        before: Gives data the names that the model reads.

    Attributes:
        operators: Empty: the model of a query comes from `query_syntax`, which knows them.
        filters: Empty, too.

    Raises:
        SchemaError: Pydantic cannot describe the model; the text says why.
    """

    operators: frozenset[str] = frozenset()
    filters: frozenset[str] = frozenset()

    def __init__(
        self,
        model: object,
        *,
        defaults: bool = True,
        omitted: Collection[str] = (),
        fallback: ModelValidator | None = None,
        before: Callable[[Any], Any] | None = None,
    ) -> None:
        self._adapter = adapter_of(model)
        self._validator = closed_validator(self._adapter)
        self._union_limit = UnionLimit(self._adapter.core_schema)
        self._defaults = defaults
        self._omitted = frozenset(omitted)
        self._fallback = fallback
        self._before = before

    def validate(self, value: Any) -> Any:
        """Return the value as plain data: a dict, whose keys are the aliases of the fields.

        Computed fields and those of ``Field(exclude=True)`` are left out.

        Raises:
            BadRequest: The value is not valid; ``data`` lists every failure in the same form as
                for JSON Schemas. Or a validator of a field needs a field that a partial record
                does not have.
        """
        if self._before is not None:
            value = self._before(value)
        try:
            validated = self.read(value)
        except (AttributeError, LookupError, TypeError) as error:
            # A validator of the application has used a field that is absent here.
            if self._fallback is not None:
                return self._fallback.validate(value)
            if self._defaults:
                raise
            raise BadRequest("these fields cannot be checked without the others") from error
        try:
            dumped = self._adapter.serializer.to_python(
                validated,
                by_alias=True,
                exclude=self._omitted - validated.model_fields_set if self._omitted else None,
                # A patch must not overwrite stored values with the defaults of fields that it
                # lacks.
                exclude_unset=not self._defaults,
                exclude_computed_fields=True,
                # Pydantic would warn of each value whose type a validator of the application has
                # changed.
                warnings=False,
            )
            return storable(dumped)
        except RecursionError:
            raise BadRequest("The data is nested too deeply") from None

    def read(self, value: Any) -> Any:
        """Return what the model makes of a value: an instance of it.

        Raises:
            BadRequest: The value is not valid; ``data`` lists every failure.
        """
        if type(value) in _CONTAINERS:
            # Before Pydantic, which makes sets and dicts of them.
            entries = check_hashes(value)
            self._union_limit.check(value)
            if entries > FEW_ENTRIES:
                check_failures(self._validator.validate_python, value)
        try:
            # The methods of the adapter would pass ten defaults (a POST of 1 kB: -2 % bytecodes).
            return self._validator.validate_python(value)
        except ValidationError as error:
            raise refusal(failures_of_model(error, value)) from None

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of valid values."""
        return self._adapter.json_schema()


def adapter_of(model: Any) -> TypeAdapter[Any]:
    """Return what validates by a model.

    Raises:
        SchemaError: Pydantic cannot describe it.
    """
    try:
        adapter: TypeAdapter[Any] = (
            model if isinstance(model, _ADAPTER) else TypeAdapter(as_pydantic_knows(model))
        )
        # Forward references: the classes that they name may exist by now.
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
            reason = f"{reason.partition('. ')[0]}; {_HINT}"
        raise SchemaError(
            f"{name} is neither a JSON Schema nor a model of Pydantic: {reason}"
        ) from error


def closed_validator(adapter: TypeAdapter[Any]) -> Any:
    """Return the validator of an adapter, in which each ``TypedDict`` takes its own keys alone.

    One whose ``__pydantic_config__`` says something about others keeps that.
    """
    closed: Any = _closed(adapter.core_schema)
    return adapter.validator if closed is adapter.core_schema else SchemaValidator(closed)


def _closed(schema: Any) -> Any:
    """Return a part of a core schema with closed TypedDicts; the part itself if it has none."""
    if is_array(schema):
        items = [_closed(item) for item in schema]
        is_same = all(one is another for one, another in zip(items, schema, strict=True))
        # The choices of a union are tuples.
        return schema if is_same else type(schema)(items)
    if not is_dict(schema):
        return schema
    parts: dict[str, Any] = {key: _closed(value) for key, value in schema.items()}
    if parts.get("type") == "typed-dict" and "cls" in parts:
        config: ConfigDict = getattr(parts["cls"], "__pydantic_config__", ConfigDict())
        if "extra" not in config:
            return {**parts, "extra_behavior": "forbid"}
    is_same = all(parts[key] is value for key, value in schema.items())
    return schema if is_same else parts


@lru_cache(MOST_MODELS)
def model_of_typed_dict(typed_dict: Any) -> type[BaseModel]:
    """Return a model for the same records as a ``TypedDict``, which takes no other keys.

    Raises:
        SchemaError: One of its annotations cannot be evaluated.
    """
    try:
        hints = get_type_hints(typed_dict, include_extras=True)
    except (NameError, SyntaxError, TypeError) as error:
        raise SchemaError(f"{typed_dict.__name__}: an annotation is not a type: {error}") from error
    fields: dict[str, Any] = {}
    for at, (name, hint) in enumerate(hints.items()):
        type_, required = hint, name in typed_dict.__required_keys__
        metadata: tuple[object, ...] = ()
        while (origin := get_origin(type_)) in _QUALIFIERS or origin is Annotated:
            if origin is Annotated:
                metadata = (*type_.__metadata__, *metadata)
            elif origin is not ReadOnly:  # with annotations as texts, the class does not know it
                required = origin is Required
            type_ = get_args(type_)[0]
        if metadata:
            type_ = _annotated[(type_, *metadata)]
        # Keys may be names that models refuse, such as "_id" and "copy".
        absent = Field(
            alias=name, default_factory=_Absent, exclude_if=lambda value: isinstance(value, _Absent)
        )
        fields[f"field_{at}"] = (type_, Field(alias=name) if required else absent)
    given: ConfigDict = getattr(typed_dict, "__pydantic_config__", ConfigDict())
    # Deferred: `adapter_of` reports what Pydantic cannot describe.
    config: ConfigDict = {"extra": "forbid", **given, "defer_build": True}
    return create_model(
        typed_dict.__name__,
        __config__=config,
        __doc__=typed_dict.__doc__,
        __module__=typed_dict.__module__,
        **fields,
    )


class _Absent:
    """The value of a key that a record does not have."""


def stored_names(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by the names under which records have them.

    These are the names that Pydantic writes. A name that is only read (``validation_alias``) is in
    no record.
    """
    fields = model.model_fields.items()
    return {field.serialization_alias or name: field for name, field in fields}


def record_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of the records of a model. They have all fields but computed ones.

    Raises:
        SchemaError: The type of a field has none, so that it can be neither stored nor sent.
    """
    try:
        schema = model.model_json_schema(mode="serialization", schema_generator=_RecordSchemas)
    except PydanticInvalidForJsonSchema as error:
        # Pydantic does not say which field it was: the first one that fails alone is named.
        for name, field in model.model_fields.items():
            alone: dict[str, Any] = {name: (field.annotation, field)}
            try:
                create_model(name, __config__=model.model_config, **alone).model_json_schema()
            except PydanticInvalidForJsonSchema:
                type_name = getattr(field.annotation, "__qualname__", None)
                raise SchemaError(
                    f"{model.__name__}.{name} is of the type {type_name or repr(field.annotation)},"
                    f" which has no JSON Schema; {_HINT}"
                ) from error
        raise SchemaError(f"{model.__name__} has no JSON Schema: {error}") from error
    if "$ref" in schema:  # a model that contains itself is described among the definitions
        definition = schema["$defs"][schema.pop("$ref").rpartition("/")[2]]
        schema = {**schema, **definition, "properties": dict(definition["properties"])}
    return schema


class _RecordSchemas(GenerateJsonSchema):
    """Describes what `ModelValidator` makes of data: defaults are stored, computed fields not."""

    def model_fields_schema(self, schema: ModelFieldsSchema) -> dict[str, Any]:
        return super().model_fields_schema({**schema, "computed_fields": []})

    def dataclass_args_schema(self, schema: DataclassArgsSchema) -> dict[str, Any]:
        return super().dataclass_args_schema({**schema, "computed_fields": []})

    def field_is_required(
        self, field: ModelField | DataclassField | TypedDictField, total: bool
    ) -> bool:
        # A `NotRequired` field of a TypedDict has no default.
        is_stored = field["type"] != "typed-dict-field" and "serialization_exclude_if" not in field
        return is_stored or super().field_is_required(field, total)


def with_computed(
    schema: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
) -> Mapping[str, Any]:
    """Return the JSON Schema of a record with properties that functions compute.

    What a function says it returns is required. If it does not say, the property may be anything.

    Args:
        schema: The schema of a record. What it says of a property itself stays.
        functions: The functions by property, as `virtual` takes them.
    """
    properties, required = dict(schema["properties"]), [*schema.get("required", ())]
    definitions = dict(schema.get("$defs", {}))
    for name, function in functions.items():
        if name in schema["properties"]:
            continue
        properties[name] = {}
        try:
            hint = get_type_hints(function, include_extras=True)["return"]
            described = TypeAdapter(hint).json_schema(
                mode="serialization", schema_generator=_RecordSchemas
            )
        except (AttributeError, LookupError, NameError, PydanticUserError, SyntaxError, TypeError):
            continue  # an annotation that only type checkers understand
        inner = described.pop("$defs", {})
        if "properties" in described:  # a model is a definition, too
            title = described.get("title", name)
            inner[title], described = described, {"$ref": f"#/$defs/{title}"}
        # Another model of the same name may be among the definitions.
        if all(definitions.get(key, of) == of for key, of in inner.items()):
            definitions |= inner
            properties[name] = described
            required.append(name)
    if len(properties) == len(schema["properties"]):
        return schema
    added = {"$defs": definitions} if definitions else {}
    return {**schema, "properties": properties, "required": required, **added}


def storable(value: Any) -> Any:
    """Return a value, at any depth, in the types that can be stored.

    Members of enumerations become their values, secrets their contents, sets lists in a fixed
    order. UUIDs, addresses, times, and dates without a time become text. Decimals stay numbers, so
    that a store compares them as such; they are text in JSON.
    """
    if type(value) in _ATOMS:
        return value
    # Types of inner values are looked up in place, without a call: data may have very many.
    if isinstance(value, _OBJECTS):
        # Nearly always: texts for keys, and nothing to change (a POST of 1 kB: -2 % bytecodes).
        if _ATOMS.issuperset(map(type, value.values())) and _TEXT.issuperset(map(type, value)):
            return dict(value)
        return {
            key if type(key) is str else str(storable(key)): (
                item if type(item) in _ATOMS else storable(item)
            )
            for key, item in value.items()
        }
    if isinstance(value, _LISTS):
        return [item if type(item) in _ATOMS else storable(item) for item in value]
    if isinstance(value, _SETS):
        # In a fixed order: otherwise equal sets would be stored as different lists.
        return sorted(map(storable, value), key=repr)
    if isinstance(value, Enum):
        return storable(value.value)
    # Pydantic's own JSON form of a secret is a row of asterisks.
    if isinstance(value, _SECRETS):
        return storable(value.get_secret_value())
    if isinstance(value, PurePath):
        return str(value)
    # After enumerations, whose members may be texts or numbers as well.
    if isinstance(value, _KEPT):
        return value
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        return value  # a type of the database, such as ObjectId


def check_hashes(value: dict[Any, Any] | list[Any]) -> int:
    """Return how many entries a value has at all levels; refuse many texts of one hash.

    Texts may mean numbers or UUIDs, which a model may put into a set or use as keys of a dict.
    Python compares each with all others of its hash: some ten thousand block the event loop for
    seconds.

    Raises:
        BadRequest: There are more than `MOST_OF_ONE_HASH` in one list or object.
    """
    waiting, entries = [value], 0
    while waiting:
        container = waiting.pop()
        entries += len(container)
        if len(container) > MANY:  # few texts cost little, and parsing short ones would cost most
            by_hash: defaultdict[int, set[str]] = defaultdict(set)
            for text in container:
                number = _number_of(text) if isinstance(text, str) and len(text) > 9 else None
                if number is not None:
                    by_hash[hash(number)].add(text)
                    if len(by_hash[hash(number)]) > MOST_OF_ONE_HASH:
                        raise BadRequest(
                            "The data has too many numbers of one hash; send fewer of them"
                        )
        items = container.values() if type(container) is dict else container
        if not _CONTAINERS.isdisjoint(map(type, items)):  # the loop is for the few that have some
            waiting += [item for item in items if type(item) is dict or type(item) is list]
    return entries


def _number_of(text: str) -> Decimal | UUID | None:
    for parse in (Decimal, UUID):
        with suppress(ValueError, ArithmeticError):
            number = parse(text)
            # A signaling NaN cannot be hashed, and a model refuses it anyhow.
            return None if isinstance(number, Decimal) and number.is_nan() else number
    return None
