"""`Validator`: checks values against a JSON Schema, and converts them.

The schema for schemas comes from `jsonschema`, the lookup of references from `referencing`. Both
are imported with the first validator: an application whose schemas are models starts without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

from alula.errors import BadRequest
from alula.schema._failures import Failures, SchemaError, refusal
from alula.schema._json_schema import applicators, assertions
from alula.schema._json_schema.compiler import (
    DRAFT,
    KEYWORDS,
    Check,
    Compiler,
    Maker,
    SchemaLocation,
    Settings,
    passes,
    path_part,
    work_limit,
)
from alula.schema._json_schema.formats import FORMATS
from alula.schema._json_schema.query_schema import names_opened
from alula.types import SchemaKeyword, is_array, is_dict, is_mapping

if TYPE_CHECKING:
    from referencing import Registry

__all__ = ["MAKERS", "Validator", "plain"]

_META_SCHEMA: Final = f"{DRAFT}schema"

# FeathersJS applications have these from TypeBox: `Type.Tuple` writes the tuples of draft-07.
_TUPLE_FORM: Final = (
    "a list of schemas in 'items' is the tuple of draft-07; write the list in 'prefixItems', and"
    " 'items': false in place of 'additionalItems': false"
)

MAKERS: Final[Sequence[tuple[Sequence[str], Maker]]] = [
    (["const"], assertions.const),
    (["enum"], assertions.enum),
    (["not"], applicators.negated),
    (["anyOf"], applicators.any_of),
    (["oneOf"], applicators.one_of),
    (["allOf"], applicators.all_of),
    (["if"], applicators.conditional),
    (["properties"], applicators.defaults),
    *(([keyword], make) for keyword, make in assertions.BOUNDS.items()),
    (["multipleOf"], assertions.multiple_of),
    (["pattern"], assertions.matching),
    (["format"], assertions.formatted),
    (["contains"], applicators.contains),
    (["prefixItems", "items"], applicators.items),
    (["uniqueItems"], assertions.unique_items),
    (["required"], assertions.required),
    (["dependentRequired"], assertions.dependent_required),
    (["propertyNames"], applicators.property_names),
    (["properties", "patternProperties", "additionalProperties"], applicators.members),
    (["dependentSchemas"], applicators.dependent_schemas),
]
"""Keywords, and what makes their check. The checks run in this order, which is Ajv's."""


class Validator:
    """Checks values against a JSON Schema (draft 2020-12), and converts them on the way.

    The schema is compiled when the validator is made. A validation never changes the value that it
    gets: where something is converted, the containers around it are new.

    Examples:
        >>> ages = Validator({"properties": {"age": {"type": "integer"}}}, coerce=True)
        >>> ages.validate({"age": "5"})
        {'age': 5}

    Args:
        schema: The schema: an object, True or False.
        coerce: Convert values to the types that the schema names, as query strings need it:
            ``"5"`` to 5, ``"true"`` to True, an object with index keys to a list.
        defaults: Fill in the ``default`` of absent properties.
        formats: True for the known formats, False to treat ``format`` as an annotation, or
            further formats by name: functions that return whether a value has the format.
        keywords: Keywords of your own, which may convert the value.
        schemas: Further schemas by the URI that ``$ref`` names.
        strict: Whether unknown keywords are errors. Names that begin with ``x-`` are always
            allowed.

    Attributes:
        schema: A copy of the schema.
        operators: The operators of the query syntax that it names, beside the common ones.
        filters: The names at the top level of a query that it names, beside the common ones.

    Raises:
        SchemaError: The schema is malformed, or it has a keyword that is not supported; the text
            says where.
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
        # A copy: later changes of the caller's schema must not differ from what is compiled.
        self.schema: Any = plain(schema)
        if not passes(_meta_check(), self.schema):
            from jsonschema import exceptions, validators  # type: ignore[import-untyped]  # noqa: PLC0415  # it has no types; late

            # `cast`, because the types of this library are incomplete.
            draft = cast("Any", validators).Draft202012Validator
            errors = draft(draft.META_SCHEMA).iter_errors(self.schema)
            error = cast("Any", exceptions).best_match(errors)
            path = "/".join(["#", *map(path_part, error.absolute_path)])
            # By the place in the meta-schema: a property may be called "items", too.
            keyword = tuple(error.absolute_schema_path)[-5:-3]
            is_tuple = isinstance(error.instance, list) and keyword == ("items", "$dynamicRef")
            message = _TUPLE_FORM if is_tuple else error.message
            raise SchemaError(f"schema at {unquote(path)}: {message}")
        dialect = self.schema.get("$schema") if is_dict(self.schema) else None
        # Other drafts give other meanings to the same names, such as `items` and `$ref`.
        if dialect is not None and dialect.rstrip("#") != _META_SCHEMA:
            raise SchemaError(
                f"schema at #/$schema: {dialect!r} is not supported; use {_META_SCHEMA}"
            )
        own_keywords = {keyword.name: keyword for keyword in keywords}
        for name in own_keywords:
            if name in KEYWORDS or not name:
                raise SchemaError(f"keywords: {name!r} has a meaning in every JSON Schema")
        known_formats = {**FORMATS, **formats} if isinstance(formats, Mapping) else FORMATS
        settings = Settings(
            coerce, defaults, strict, known_formats if formats is not False else None, own_keywords
        )
        self._check = _compiled(self.schema, plain(schemas or {}), settings)
        self.operators, self.filters = names_opened(self.schema)

    def validate(self, value: object) -> Any:
        """Return the value with all conversions made.

        Raises:
            BadRequest: The value is not valid; ``data`` lists every failure as ``instancePath``,
                ``schemaPath``, ``keyword``, ``params`` and ``message``. Or it takes too long to
                check.
        """
        failures: Failures = []
        before = work_limit.begin()
        try:
            converted = self._check(value, "", failures)
        # References to the schema itself follow the value, as deep as a client nests it.
        except RecursionError:
            raise BadRequest("The data is nested too deeply") from None
        finally:
            work_limit.end(before)
        if failures:
            raise refusal(failures)
        return converted

    def is_valid(self, value: object) -> bool:
        """Return whether a value is valid."""
        with suppress(BadRequest):
            self.validate(value)
            return True
        return False


def plain(schema: object) -> Any:
    """Return a copy of a schema that is made of dicts and lists only.

    Raises:
        SchemaError: It is not JSON: a name is not a string, or the objects form a circle.
    """
    try:
        return _copied(schema, "#")
    except RecursionError:
        raise SchemaError("schema at #: its objects form a circle; use $ref") from None


def _copied(value: object, path: str) -> object:
    if is_mapping(value):
        for name in value:
            if not isinstance(name, str):
                raise SchemaError(f"schema at {unquote(path)}: the name {name!r} is not a string")
        return {name: _copied(below, f"{path}/{path_part(name)}") for name, below in value.items()}
    if is_array(value):
        return [_copied(below, f"{path}/{index}") for index, below in enumerate(value)]
    return value


def _compiled(schema: Any, others: Mapping[str, Any], settings: Settings) -> Check:
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415  # late, as said above

    registry = _meta_schemas().with_contents(others.items(), default_specification=DRAFT202012)
    resolver = registry.resolver_with_root(DRAFT202012.create_resource(schema))
    compiler = Compiler(MAKERS)
    return compiler(schema, SchemaLocation("#", settings, resolver, True, compiler))


@cache
def _meta_check() -> Check:
    # `jsonschema` can check schemas, too. It takes 140 ms for the query schema of 12 properties,
    # of which a service has two; this takes 14 ms.
    return _compiled({"$ref": _META_SCHEMA}, {}, Settings(False, False, False, None, {}))


@cache
def _meta_schemas() -> Registry[Any]:
    """Return the schemas of the draft with static references, as nothing extends them here."""
    import jsonschema_specifications  # type: ignore[import-untyped]  # noqa: PLC0415  # as above
    from referencing import Registry  # noqa: PLC0415  # as above
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415  # as above

    specifications: Registry[Any] = jsonschema_specifications.REGISTRY
    documents: dict[str, Any] = {}
    for uri in specifications:
        if uri.startswith(DRAFT):
            document = dict(specifications.contents(uri))
            del document["$dynamicAnchor"], document["$vocabulary"]
            text = json.dumps(document)
            documents[uri] = json.loads(
                text.replace('"$dynamicRef": "#meta"', f'"$ref": "{_META_SCHEMA}"')
            )
    registry: Registry[Any] = Registry()
    return registry.with_contents(documents.items(), default_specification=DRAFT202012)
