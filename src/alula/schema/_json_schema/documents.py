"""Schemas as documents: which keywords there are, where references lead, what is malformed.

The schema for schemas comes from `jsonschema`, the look-up of references from `referencing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn
from urllib.parse import unquote

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it brings no types
from jsonschema.exceptions import best_match  # type: ignore[import-untyped]  # it brings no types
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # it brings no types
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from alula.schema._failures import SchemaError
from alula.schema._json_schema.location import token

__all__ = [
    "KEYWORDS",
    "META_SCHEMA",
    "check_keywords",
    "explain",
    "ignored_keywords",
    "plain",
    "resolver_of",
]

_DRAFT = "https://json-schema.org/draft/2020-12/"
_REGISTRY: Registry[Any] = REGISTRY
_VOCABULARIES = {
    f"{_DRAFT}vocab/{name}": frozenset(_REGISTRY.contents(f"{_DRAFT}meta/{name}")["properties"])
    for name in ("core", "applicator", "unevaluated", "validation", "meta-data", "content")
} | {
    f"{_DRAFT}vocab/{name}": frozenset({"format"})
    for name in ("format-annotation", "format-assertion")
}

META_SCHEMA: Any = Draft202012Validator.META_SCHEMA
"""The schema for schemas."""

KEYWORDS = frozenset().union(*_VOCABULARIES.values(), {"definitions"})
"""All keywords of draft 2020-12, and the old name of ``$defs``."""

_OF_OPENAPI = frozenset({"discriminator", "example", "externalDocs", "xml"})
"""Remarks that OpenAPI adds to schemas."""


def plain(schema: Any) -> Any:
    """Return a copy of a schema that is made of dicts and lists only.

    Raises:
        SchemaError: It is no JSON: a name is no string, or the objects go in a circle.
    """
    try:
        return _copied(schema, "#")
    except RecursionError:
        raise SchemaError("schema at #: its objects go in a circle; use $ref") from None


def _copied(value: Any, path: str) -> Any:
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise SchemaError(f"schema at {unquote(path)}: the name {name!r} is no string")
        return {name: _copied(below, f"{path}/{token(name)}") for name, below in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(below, f"{path}/{index}") for index, below in enumerate(value)]
    return value


def explain(schema: Any) -> NoReturn:
    """Tell what is wrong with a schema that is malformed.

    Raises:
        SchemaError: Always; the text says where.
    """
    error = best_match(Draft202012Validator(META_SCHEMA).iter_errors(schema))
    path = "/".join(["#", *map(token, error.absolute_path)])
    raise SchemaError(f"schema at {unquote(path)}: {error.message}")


def check_keywords(schema: Mapping[str, Any], path: str, own: Iterable[str]) -> None:
    """Find out whether all keywords at one place are known.

    Raises:
        SchemaError: One is not; the text says which one may be meant.
    """
    known = KEYWORDS | _OF_OPENAPI | frozenset(own)
    for name in schema:
        if name not in known and name[:2] != "x-":
            raise SchemaError(f"schema at {unquote(path)}: {_unknown(name, known)}")


def _unknown(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]!r}?" if close else "names of your own begin with 'x-'"
    return f"unknown keyword {name!r}; {hint}"


def resolver_of(schema: Any, others: Mapping[str, Any]) -> Any:
    """Return what finds the targets of references in a schema.

    Args:
        schema: The schema.
        others: Further schemas by their URIs.
    """
    registry = _REGISTRY.with_contents(others.items(), default_specification=DRAFT202012)
    return registry.resolver_with_root(DRAFT202012.create_resource(schema))


def ignored_keywords(schema: Any, others: Mapping[str, Any]) -> frozenset[str]:
    """Return the keywords that mean nothing in a schema, by the vocabularies of its dialect.

    Raises:
        SchemaError: ``$schema`` names a dialect that is neither draft 2020-12 nor in `others`.
    """
    dialect = schema.get("$schema") if isinstance(schema, Mapping) else None
    if dialect is None or dialect.rstrip("#") == f"{_DRAFT}schema":
        return frozenset()
    if dialect not in others:
        raise SchemaError(f"schema at #/$schema: {dialect!r} is not known; use {_DRAFT}schema")
    spoken = others[dialect].get("$vocabulary", _VOCABULARIES)
    return KEYWORDS.difference(*(_VOCABULARIES.get(uri, ()) for uri in spoken), {"definitions"})
