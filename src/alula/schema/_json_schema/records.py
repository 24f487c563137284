"""`JsonRecords`: the validators for the records that a JSON Schema describes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from alula.schema._failures import SchemaError
from alula.schema._hidden_and_queryable import field_names, without_fields
from alula.schema._json_schema.compiler import Schema
from alula.schema._json_schema.formats import keyword_date
from alula.schema._json_schema.query_schema import Extensions, query_schema
from alula.schema._json_schema.validator import Validator
from alula.types import SchemaKeyword, is_array

__all__ = ["JsonRecords"]

_OPEN: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties")
"""Keywords that may describe more properties than ``properties`` does."""


class JsonRecords:
    """Makes the validators for the records that a JSON Schema describes.

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
            types: list[Schema] = [{keyword.name: True} for keyword in keywords]
            types = types or [{"type": "integer"}]
            # The text last: the first that fits counts, and every id in a URL is a text.
            id_schema = {"anyOf": [*types, {"type": "string"}]}
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

    def query(self, extensions: Extensions, without: Collection[str] = ()) -> Validator:
        """Return the validator of queries, which must not name the fields ``without``."""
        schema = query_schema(without_fields(self.schema, without), extensions)
        return Validator(schema, coerce=True, keywords=self._keywords)

    def required(self) -> set[str]:
        """Return the names that a new record must have."""
        return set(self._given.get("required", ())) - {self._id}

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

    def _data(self, optional: Collection[str]) -> dict[str, Any]:
        """Return the schema of data. It is closed, unless it says something else itself."""
        schema: dict[str, Any] = {"type": "object", **self._given}
        # Closed, it would refuse the properties that those keywords describe.
        if not any(name in schema for name in _OPEN):
            schema.setdefault("additionalProperties", False)
        required = [name for name in schema.pop("required", ()) if name not in optional]
        return {**schema, "required": required} if required else schema
