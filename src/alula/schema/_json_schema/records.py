"""`JsonRecords`: the validators for the records of a JSON Schema, whole and in part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from alula.schema._changes import Changes
from alula.schema._failures import SchemaError, check_id_default
from alula.schema._hidden_and_queryable import field_names, without_fields
from alula.schema._json_schema.compiler import Schema
from alula.schema._json_schema.formats import keyword_date
from alula.schema._json_schema.places import RECORD_URI, JsonPlaces
from alula.schema._json_schema.query_schema import (
    NOTHING_OPENED,
    Extensions,
    Opened,
    query_schema,
)
from alula.schema._json_schema.validator import Validator, plain
from alula.types import SchemaKeyword, is_array, is_mapping

__all__ = ["JsonRecords"]

_OPEN: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties")
"""Keywords that may describe more properties than ``properties`` does."""


class JsonRecords:
    """Makes the validators for the records that a JSON Schema describes.

    Args:
        schema: The schema of a record.
        id: Name of the id property.
        keywords: The keywords of the service.
        text_ids: Whether an id in a query stays the text that it is, unless the schema has the id.

    Attributes:
        schema: The schema, with the id.
        as_stored: None: data has each property under its stored name alone.

    Raises:
        SchemaError: The schema has no properties, or requires one that it does not have.
    """

    as_stored: Callable[[Any], Any] | None = None

    def __init__(
        self,
        schema: Mapping[str, Any],
        id: str,
        keywords: tuple[SchemaKeyword, ...],
        *,
        text_ids: bool,
    ) -> None:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            raise SchemaError("with_schema: the schema has no properties; give that of a record")
        self.schema: dict[str, Any] = {"type": "object", **schema}
        self._id = id
        self._keywords = (*keywords, keyword_date)
        if id in properties:
            given: Any = properties[id]  # pyright: ignore[reportUnknownVariableType]  # of JSON
            check_id_default(id, given.get("default") if isinstance(given, Mapping) else None)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # as above
        else:
            types: list[Schema] = [{keyword.name: True} for keyword in keywords]
            types = types or [{"type": "integer"}]
            # The first that fits counts, and every id in a URL is a text.
            types.insert(0 if text_ids else len(types), {"type": "string"})
            id_schema = {"anyOf": types}
            self.schema["properties"] = {id: id_schema, **properties}
        self._given = schema
        declared, required = field_names(self.schema), schema.get("required")
        for name in required if is_array(required) else ():
            # Nobody could create a record: without the property it is refused, and with it.
            if declared is not None and name not in declared:
                raise SchemaError(
                    f"with_schema: {name!r} is required, but is not among the properties:"
                    f" {', '.join(declared)}"
                )

    def query(
        self,
        extensions: Extensions,
        without: Collection[str] = (),
        opened: Opened = NOTHING_OPENED,
    ) -> Validator:
        """Return the validator of queries, which must not name the fields ``without``."""
        schema = query_schema(without_fields(self.schema, without), extensions, opened)
        return Validator(schema, coerce=True, keywords=self._keywords)

    def required(self) -> set[str]:
        """Return the names that a new record must have."""
        return set(self._given.get("required", ())) - {self._id}

    def filled(self) -> set[str]:
        """Return the names that a new record has even if nobody gives them."""
        properties: Mapping[str, Any] = self._given["properties"]
        return {name for name, of in properties.items() if is_mapping(of) and "default" in of}

    def whole(self, later: Collection[str], made: Collection[str] = ()) -> Validator:
        """Return the validator of new records, in which the id is optional.

        Args:
            later: Names that may be absent, since a resolver may make them afterwards.
            made: Names that a resolver makes in any case.
        """
        return Validator(self._data((*later, *made, self._id)), keywords=self._keywords)

    def part(self) -> Validator:
        """Return the validator of the data of a patch: nothing is required, nothing is added."""
        schema = self._data(self._given.get("required", ()))
        return Validator(schema, defaults=False, keywords=self._keywords)

    def changes(self) -> Changes:
        """Return the validator of changes, which may have update operators and paths."""
        schema: dict[str, Any] = plain(self._data(()))
        # A name of its own would be the base of the references in it.
        schema.pop("$id", None)

        def compiled(reference: Mapping[str, Any]) -> Callable[[Any], Any]:
            return Validator(
                reference,
                defaults=False,
                keywords=self._keywords,
                schemas={RECORD_URI: schema},
            ).validate

        root = JsonPlaces(schema, compiled).root
        return Changes(self.part().validate, root, lambda: self.query({}).validate, self._id)

    def _data(self, optional: Collection[str]) -> dict[str, Any]:
        """Return the schema of data. It is closed, unless it says something else itself."""
        schema: dict[str, Any] = {"type": "object", **self._given}
        # Closed, it would refuse the properties that those keywords describe.
        if not any(name in schema for name in _OPEN):
            schema.setdefault("additionalProperties", False)
        required = [name for name in schema.pop("required", ()) if name not in optional]
        return {**schema, "required": required} if required else schema
