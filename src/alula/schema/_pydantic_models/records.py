"""`ModelRecords`: the validators for the records of a Pydantic model, whole and in part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)

from alula.schema._changes import Changes
from alula.schema._failures import check_id_default
from alula.schema._json_schema.query_schema import NOTHING_OPENED, Extensions, Opened
from alula.schema._pydantic_models.field_names import FieldNames
from alula.schema._pydantic_models.model_validator import (
    MOST_MODELS,
    ModelValidator,
    adapter_of,
    record_schema,
    stored_names,
)
from alula.schema._pydantic_models.places import ModelPlaces
from alula.schema._pydantic_models.query_model import QueryModel
from alula.types import SchemaKeyword

__all__ = ["ModelRecords", "records_of_model"]

Made = TypeVar("Made")


class ModelRecords:
    """Makes the validators for the records that a Pydantic model describes; see `JsonRecords`.

    Each validator is made once: Pydantic takes some 10 ms for the one of queries, and each
    application of a test run asks for all of them again.
    """

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
        self._made: dict[object, Any] = {}

    def query(
        self,
        extensions: Extensions,
        without: Collection[str] = (),
        opened: Opened = NOTHING_OPENED,
    ) -> QueryModel:
        """Return the validator of queries, which must not name the fields ``without``."""

        def make() -> QueryModel:
            return QueryModel(self._with_id, extensions, without=without, opened=opened)

        # Types of extensions may have no hash.
        return make() if extensions else self._once(("query", frozenset(without), opened), make)

    def required(self) -> set[str]:
        """Return the names that a new record must have."""
        fields = stored_names(self._model).items()
        return {name for name, field in fields if field.is_required() and name != self._id}

    def filled(self) -> set[str]:
        """Return the names that a new record has even if nobody gives them."""
        fields = stored_names(self._model).items()
        return {name for name, field in fields if not field.is_required() and not field.exclude}

    def whole(self, later: Collection[str], made: Collection[str] = ()) -> ModelValidator:
        """Return the validator of new records; see `JsonRecords.whole`."""
        never_sent = frozenset({*made, self._id})
        sent = self._once(("sent", never_sent), lambda: self._without(never_sent, None))
        if never_sent.issuperset(later):
            return sent
        names = never_sent.union(later)
        return self._once(("whole", never_sent, names), lambda: self._without(names, sent))

    def part(self) -> ModelValidator:
        """Return the validator of the data of a patch: nothing is required, nothing is added.

        Validators of the whole model do not run: they would see fields that are absent.
        """

        def make() -> ModelValidator:
            rules = self._model.__pydantic_decorators__.model_validators
            idle: dict[str, Any] = {
                name: model_validator(mode="after")(_unchanged) for name in rules
            }
            if self._model.model_post_init is not BaseModel.model_post_init:
                idle["model_post_init"] = _unchanged
            patch = _relaxed(self._model, "Patch", lambda _: True, idle)
            return ModelValidator(patch, defaults=False, before=self._as_read)

        return self._once("part", make)

    def changes(self) -> Changes:
        """Return the validator of changes, which may have update operators and paths."""

        def part_of(model: type[BaseModel]) -> ModelValidator:
            return ModelRecords(model, "", (), text_ids=False).part()

        root = ModelPlaces(self._model, part_of).root
        return Changes(self.part().validate, root, lambda: self.query({}).validate, self._id)

    def _once(self, key: object, make: Callable[[], Made]) -> Made:
        """Return what ``make`` returned for this key the first time."""
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

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


@lru_cache(MOST_MODELS)
def records_of_model(
    model: type[BaseModel], id: str, keywords: tuple[SchemaKeyword, ...], text_ids: bool
) -> ModelRecords:
    """Return what makes the validators for a model, the same one each time."""
    return ModelRecords(model, id, keywords, text_ids=text_ids)


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
