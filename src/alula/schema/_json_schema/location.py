"""A place in a schema while it is compiled, and the settings that hold for all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from referencing.jsonschema import DRAFT202012

from alula.schema._failures import Check, SchemaError
from alula.types import SchemaKeyword

__all__ = ["Schema", "Settings", "Spot", "token"]

Schema: TypeAlias = Mapping[str, Any]

_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""Keywords whose subschemas look at the very value that the schema looks at."""


@dataclass(frozen=True)
class Settings:
    """What holds for the whole of a schema.

    Attributes:
        coerce: Whether values are converted to the types that the schema names.
        defaults: Whether absent properties get their defaults.
        strict: Whether keywords that nobody knows are errors.
        formats: Tests of strings and numbers by the name of the format, None to take formats for
            mere remarks.
        keywords: Keywords that convert, by name.
    """

    coerce: bool
    defaults: bool
    strict: bool
    formats: Mapping[str, Callable[[Any], bool]] | None
    keywords: Mapping[str, SchemaKeyword]


@dataclass(frozen=True)
class Spot:
    """Where in a schema the compiler is.

    Attributes:
        path: The place, as ``schemaPath`` names it.
        settings: What holds everywhere.
        resolver: Finds what a reference means here; one of the package `referencing`.
        fills: Whether defaults are filled in here; not in branches that may not apply.
        ignored: Keywords without meaning here, since the schema's own vocabularies lack them.
        compile: The compiler of subschemas.
        chain: The references that led here without a step into the value.
    """

    path: str
    settings: Settings
    resolver: Any
    fills: bool
    ignored: frozenset[str]
    compile: Callable[[Any, Spot], Check]
    chain: tuple[Any, ...] = ()

    def at(self, *names: object) -> str:
        """Return the path of something below."""
        return "/".join((self.path, *map(token, names)))

    def check(self, schema: Any, *names: object, branch: bool = False) -> Check:
        """Return the check of a subschema.

        Args:
            schema: The subschema.
            names: The way to it from here.
            branch: Whether it is one that may not apply.
        """
        return self.compile(schema, self.below(schema, *names, branch=branch))

    def below(self, schema: Any, *names: object, branch: bool = False) -> Spot:
        """Return the spot of a subschema; the arguments are those of `check`."""
        resolver = self.resolver
        if isinstance(schema, Mapping) and "$id" in schema:
            resolver = resolver.in_subresource(DRAFT202012.create_resource(schema))
        return replace(
            self,
            resolver=resolver,
            path=self.at(*names),
            fills=self.fills and not branch,
            chain=self.chain if names[0] in _IN_PLACE else (),
        )

    def error(self, message: str, *names: object) -> SchemaError:
        """Return the error for something wrong with the schema below here."""
        return SchemaError(f"schema at {unquote(self.at(*names))}: {message}")


def token(name: object) -> str:
    """Return a name as one part of a path."""
    text = str(name).replace("~", "~0").replace("/", "~1")
    return quote(text, safe="~!'()*")
