"""JSON Schemas as descriptions of an application read them: references and alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from alula.types import is_list, is_mapping

__all__ = ["Schema", "choices_of", "definition_of", "resolved"]

Schema: TypeAlias = Mapping[str, Any]

_LONGEST_CHAIN: Final = 10


def choices_of(schema: object, whole: Schema) -> Iterator[Schema]:
    """Yield the alternatives that a schema allows.

    Args:
        schema: The schema.
        whole: The schema around it, which has the definitions.
    """
    target = resolved(schema, whole)
    inner = target.get("anyOf") or target.get("oneOf")
    if is_list(inner):
        for alternative in inner:
            yield from choices_of(alternative, whole)
    else:
        yield target


def resolved(schema: object, whole: Schema) -> Schema:
    """Return the target of a reference to a definition, or the schema itself.

    It is ``{}`` where a reference leads nowhere, or back to itself.

    Args:
        schema: The schema.
        whole: The schema around it, which has the definitions.
    """
    for _ in range(_LONGEST_CHAIN):
        reference = schema.get("$ref") if is_mapping(schema) else None
        if not isinstance(reference, str):
            return schema if is_mapping(schema) else {}
        schema = definition_of(reference, whole)
    return {}


def definition_of(reference: str, whole: Schema) -> Any:
    """Return what a reference leads to, None if that is not within the schema."""
    if not reference.startswith("#"):
        return None
    target: Any = whole
    for key in reference.removeprefix("#").split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        target = target.get(name) if is_mapping(target) else None
    return target
