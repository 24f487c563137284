"""The schema of the whole common query syntax, from what describes a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alula.schema._json_schema.query_schema import query_schema
from alula.schema._pydantic_models.query_model import QueryModel

__all__ = ["query_syntax"]


def query_syntax(properties: Any, extensions: Mapping[str, Mapping[str, Any]] | None = None) -> Any:
    """Return the schema of the queries that a record's properties allow.

    It types all values: of the properties, under operators, in ``$or`` and ``$and`` at any depth,
    in lists and under dotted names. It is closed: all else is a failure that names it.

    Args:
        properties: The properties of a record as JSON Schemas by name, or the JSON Schema of a
            record (of type ``object``), or a Pydantic model, a dataclass or a ``TypedDict``.
        extensions: Further operators by property, each with the schema or type of its value:
            ``{"name": {"$regex": {"type": "string"}}}``. A name that begins with ``$`` is a filter
            at the top level: ``{"$text": {"type": "object"}}``. They are open at the adapter for
            queries that were checked.

    Returns:
        A JSON Schema for JSON Schemas, a `QueryModel` for models; `validate_query` and
        `get_validator` take both.

    Raises:
        SchemaError: Something is not a record's schema, or an extension is for none of its
            properties.
    """
    if isinstance(properties, Mapping):
        return query_schema(properties, extensions or {})
    return QueryModel(properties, extensions or {})
