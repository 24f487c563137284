"""Validators of JSON Schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from alula.errors import BadRequest
from alula.schema._failures import Check, Failures, SchemaError, passes, refusal, work
from alula.schema._json_schema.compiler import Compiler
from alula.schema._json_schema.documents import (
    KEYWORDS,
    META_SCHEMA,
    explain,
    ignored_keywords,
    plain,
    resolver_of,
)
from alula.schema._json_schema.formats import FORMATS
from alula.schema._json_schema.location import Settings, Spot
from alula.schema._json_schema.query_names import names_opened
from alula.types import SchemaKeyword

__all__ = ["Validator"]


class Validator:
    """Checks values against a JSON Schema (draft 2020-12), and converts them on the way.

    All of a schema is read and compiled when the validator is made. A call never changes the value
    that it gets: where something is converted, the containers around it are new.

    Args:
        schema: The schema, an object, True or False.
        coerce: Convert values to the types that the schema names, as query strings need it:
            ``"5"`` to 5, ``"true"`` to True, an object with index keys to a list.
        defaults: Put the ``default`` of absent properties in.
        formats: True for the formats that are known, False to take ``format`` for a mere remark,
            or further formats by name: functions that say whether a value is one.
        keywords: Keywords that may convert the value that they stand at.
        schemas: Further schemas by the URI that ``$ref`` names them with.
        strict: Whether a keyword that nobody knows is an error; names that begin with ``x-``
            never are.

    Attributes:
        schema: A copy of the schema.
        operators: The operators of the query syntax that it names, beside the common ones.
        filters: The names at the top level of a query that it names, beside the common ones.

    Raises:
        SchemaError: The schema is malformed; the text says where.
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | bool,
        *,
        coerce: bool = False,
        defaults: bool = True,
        formats: bool | Mapping[str, Callable[[Any], bool]] = True,
        keywords: Iterable[SchemaKeyword] = (),
        schemas: Mapping[str, Any] | None = None,
        strict: bool = True,
    ) -> None:
        self.schema: Any = plain(schema)
        if not _is_schema(self.schema):
            explain(self.schema)
        others = plain(schemas or {})
        known = {**FORMATS, **formats} if isinstance(formats, Mapping) else FORMATS
        settings = Settings(
            coerce, defaults, strict, known if formats is not False else None, _by_name(keywords)
        )
        self._check = _compiled(self.schema, others, settings)
        self.operators, self.filters = names_opened(self.schema)

    def validate(self, value: Any) -> Any:
        """Return the value with all conversions made.

        Raises:
            BadRequest: It does not fit; ``data`` lists every failure as ``instancePath``,
                ``schemaPath``, ``keyword``, ``params`` and ``message``. Or it takes too long to
                tell.
        """
        failures: Failures = []
        before = work.begin()
        try:
            converted = self._check(value, "", failures)
        except RecursionError:
            raise BadRequest("The data is nested too deeply") from None
        finally:
            work.end(before)
        if failures:
            raise refusal(failures)
        return converted

    def is_valid(self, value: Any) -> bool:
        """Say whether a value fits."""
        with suppress(BadRequest):
            self.validate(value)
            return True
        return False


def _compiled(schema: Any, others: Mapping[str, Any], settings: Settings) -> Check:
    spot = Spot(
        "#",
        settings,
        resolver_of(schema, others),
        fills=True,
        ignored=ignored_keywords(schema, others),
        compile=Compiler(),
    )
    return spot.compile(schema, spot)


def _is_schema(schema: Any) -> bool:
    """Say whether this is a schema, by the schema for schemas, which is compiled like any other."""
    return passes(_check_of_schemas(), schema)


@cache
def _check_of_schemas() -> Check:
    return _compiled(META_SCHEMA, {}, Settings(False, False, False, None, {}))


def _by_name(keywords: Iterable[SchemaKeyword]) -> dict[str, SchemaKeyword]:
    return {_checked_name(keyword): keyword for keyword in keywords}


def _checked_name(keyword: SchemaKeyword) -> str:
    if keyword.name in KEYWORDS or not keyword.name:
        raise SchemaError(f"keywords: {keyword.name!r} has a meaning in every JSON Schema")
    return keyword.name
