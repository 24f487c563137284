"""Who decides which fields clients see, and which their queries may name.

The rules:

- A field is **hidden** if its resolver in ``external`` is `hidden`, if ``hidden=`` of `with_schema`
  names it, or if the schema says that it is never sent (``writeOnly``, ``SecretStr``). It is in no
  response and in no description, and the queries of clients must not name it.
- A field that ``result`` or ``external`` resolves is **not queryable** for clients, unless
  ``queryable=`` names it. By comparing and sorting, a client could bisect the stored value, which
  may be another one than it is shown.
- A field is **virtual** if its function takes no stored value. It is never in the data of clients.
- All other fields of the schema are queryable. Calls of the application itself may name all fields.

`with_schema` builds its hooks by these rules. How a property is hidden is in
`alula.outgoing._redaction`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import isclass
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from alula._user_code import did_you_mean
from alula.hooks import hook_factory
from alula.schema._pydantic_models.model_validator import stored_names
from alula.types import UNSET, Unset, is_mapping

__all__ = [
    "FieldVisibility",
    "Virtual",
    "field_names",
    "field_visibility",
    "hidden",
    "virtual",
    "without_fields",
]

_OPEN: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas")
"""Keywords that may describe further properties."""


def hidden() -> Unset:
    """Hide a property from clients: ``resolve({"password": hidden})``.

    `with_schema` recognizes this function, and also keeps such a property out of the queries of
    clients and out of descriptions.
    """
    return UNSET


class Virtual:
    """The resolver of a property that is computed from the record.

    Args:
        function: ``(record, context)``, or of fewer arguments.

    Attributes:
        function: As given.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


@hook_factory("virtual(function)")
def virtual(function: Callable[..., Any]) -> Virtual:
    """Return the resolver of a computed property; also as a decorator.

    In a result, no record has the property before. In data, the server makes it: a client need not
    send it, and what it sends is ignored.

    Args:
        function: ``async def (record, context)``, or a plain function, or one of fewer arguments.
            If a query has ``$select``, it is only called if its property is named there.
    """
    return Virtual(function)


class FieldVisibility(NamedTuple):
    """What clients may see and query.

    Attributes:
        hidden: Fields that are hidden for all methods.
        secret: Fields that are hidden for at least one method.
        not_queryable: Fields that the queries of clients must not name.
    """

    hidden: frozenset[str]
    secret: frozenset[str]
    not_queryable: frozenset[str]


def field_visibility(
    schema: Mapping[str, Any],
    *,
    hidden: Collection[str],
    queryable: Collection[str],
    resolved: Iterable[str],
    hidden_by_resolvers: Iterable[str],
) -> FieldVisibility:
    """Return which fields of a record clients may see and query.

    Args:
        schema: The JSON Schema of a record.
        hidden: As `with_schema` takes it.
        queryable: As `with_schema` takes it.
        resolved: The fields that ``result`` or ``external`` resolves.
        hidden_by_resolvers: Those of them whose resolver in ``external`` is `hidden`.

    Raises:
        TypeError: ``hidden`` or ``queryable`` is not a collection of names.
        ValueError: One of them names a property that the schema does not have, or both name one.
    """
    declared = field_names(schema)
    for place, names in (("hidden", hidden), ("queryable", queryable)):
        # A text would be taken for a collection of its letters.
        if isinstance(names, str) or not isinstance(names, Collection):
            raise TypeError(f"{place} takes the names of properties in a list, not {names!r}")
        for name in names:
            if declared is not None and name not in declared:
                hint = did_you_mean(name, declared) or f"; it has {', '.join(sorted(declared))}"
                raise ValueError(f"{place} names {name!r}, which the schema does not have{hint}")
    everywhere = {name for name, field in schema["properties"].items() if _is_write_only(field)}
    everywhere.update(hidden)
    secret = everywhere.union(hidden_by_resolvers)
    both = secret.intersection(queryable)
    if both:
        raise ValueError(f"with_schema: {min(both)!r} is both hidden and queryable")
    not_queryable = secret | (set(resolved) - set(queryable))
    return FieldVisibility(frozenset(everywhere), frozenset(secret), frozenset(not_queryable))


def _is_write_only(schema: object) -> bool:
    if not is_mapping(schema):
        return False
    # Pydantic writes an optional secret (`SecretStr | None`) as alternatives.
    return schema.get("writeOnly") is True or any(map(_is_write_only, schema.get("anyOf", ())))


def without_fields(schema: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the schema of a record without some of its properties."""
    kept = {name: field for name, field in schema["properties"].items() if name not in names}
    required = [name for name in schema.get("required", ()) if name not in names]
    return {**schema, "properties": kept, "required": required}


def field_names(schema: object) -> Collection[str] | None:
    """Return the names of all properties, None if the schema allows others.

    Args:
        schema: A JSON Schema, a Pydantic model, or a validator of either (its ``schema`` counts).

    Raises:
        TypeError: It is none of these.
    """
    if isclass(schema) and issubclass(schema, BaseModel):
        return None if schema.model_config.get("extra") == "allow" else list(stored_names(schema))
    schema = getattr(schema, "schema", schema)
    if not is_mapping(schema):
        raise TypeError(f"{schema!r} is neither a JSON Schema nor a Pydantic model")
    properties = schema.get("properties")
    if not is_mapping(properties):
        return None
    is_open = schema.get("additionalProperties", False) is not False or any(
        name in schema for name in _OPEN
    )
    return None if is_open else list(properties)
