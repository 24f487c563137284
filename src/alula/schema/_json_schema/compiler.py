"""Compiles a JSON Schema to one function that checks and converts a value.

`jsonschema` walks a schema again for every value, and it cannot return a converted value. Here each
keyword is compiled once. `alula.schema._json_schema.validator` has the table of the keywords.

What holds for every check:

- It takes a value, the JSON pointer to it, and the list of failures so far, which it extends.
- It returns the value to go on with: the same object unless something in it was converted.
- It never changes the value that it gets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from alula._user_code import did_you_mean
from alula.errors import BadRequest
from alula.query._query import MAX_STEPS
from alula.schema._failures import Failures, SchemaError, failure
from alula.schema._json_schema.json_types import coercion, type_test
from alula.types import UNSET, SchemaKeyword, is_mapping

__all__ = [
    "DRAFT",
    "KEYWORDS",
    "Check",
    "Compiler",
    "Maker",
    "Schema",
    "SchemaLocation",
    "Settings",
    "WorkLimit",
    "accept",
    "in_sequence",
    "passes",
    "path_part",
    "work_limit",
]

Schema: TypeAlias = Mapping[str, Any]

Check: TypeAlias = Callable[[Any, str, Failures], Any]
"""Takes a value, its JSON pointer and the failures so far; returns the value to go on with."""

Maker: TypeAlias = Callable[["SchemaLocation", Schema], Check | None]
"""Makes the check of a keyword; None where the keyword asserts nothing."""

DRAFT: Final = "https://json-schema.org/draft/2020-12/"

_REPLACEMENTS: Final = {
    "unevaluatedProperties": "name all properties in one schema, with 'additionalProperties'",
    "unevaluatedItems": "use 'prefixItems' and 'items'",
    "$dynamicRef": "use '$ref'",
    "$dynamicAnchor": "use '$anchor'",
    "$recursiveRef": "use '$ref'",
    "$recursiveAnchor": "use '$anchor'",
    "$vocabulary": "all keywords are always known",
    "additionalItems": "use 'prefixItems' and 'items'",
    "dependencies": "use 'dependentRequired' and 'dependentSchemas'",
}
"""Keywords of JSON Schema that are not supported, and what to write instead. They are always
refused: a schema must never look stricter than its validator is."""

KEYWORDS: Final = frozenset(
    (
        "$anchor",
        "$comment",
        "$defs",
        "$id",
        "$ref",
        "$schema",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "contains",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "default",
        "definitions",
        "dependentRequired",
        "dependentSchemas",
        "deprecated",
        "description",
        "else",
        "enum",
        "examples",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "if",
        "items",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "oneOf",
        "pattern",
        "patternProperties",
        "prefixItems",
        "properties",
        "propertyNames",
        "readOnly",
        "required",
        "then",
        "title",
        "type",
        "uniqueItems",
        "writeOnly",
    )
)
"""The supported keywords of draft 2020-12, and the old name of ``$defs``."""

_CONTAINERS: Final = frozenset({dict, list})

# OpenAPI adds these to JSON Schema. They assert nothing, so a schema can serve both.
_OPENAPI_ANNOTATIONS: Final = frozenset({"discriminator", "example", "externalDocs", "xml"})

_IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}
)
"""Keywords whose subschemas apply to the same value as the schema itself."""

_STEPS_OF_A_VISIT: Final = 120


def accept(value: object, _path: str, _failures: Failures) -> object:
    """Accept every value."""
    return value


def passes(check: Check, value: object, path: str = "") -> bool:
    """Return whether a check reports no failure."""
    failures: Failures = []
    check(value, path, failures)
    return not failures


def in_sequence(checks: Sequence[Check]) -> Check:
    """Return a check that runs all of these, each with the value that the one before returned."""
    if not checks:
        return accept
    # Without the loop: most schemas have one check.
    if len(checks) == 1:
        return checks[0]

    def all_of(value: object, path: str, failures: Failures) -> object:
        for check in checks:
            value = check(value, path, failures)
        return value

    return all_of


class WorkLimit(threading.local):
    """Limits the work of one validation, which blocks the event loop.

    Work that is linear in the size of the value is not counted: the size of bodies is limited.
    Work that multiplies two things that a client chooses is counted. A validation never waits, so
    one counter per thread is enough.

    Attributes:
        steps_left: How many steps the validation has left; None outside a validation.
    """

    steps_left: int | None = None

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()

    def begin(self) -> int | None:
        """Begin a validation; a nested one shares the steps. Returns the argument of `end`."""
        before = self.steps_left
        if before is None:
            self.steps_left = MAX_STEPS
        return before

    def end(self, before: int | None) -> None:
        """End it."""
        if before is None:
            self.steps_left = None
            # Later values may have the ids of these, which may be gone then.
            self._seen.clear()

    def visit(self, value: object, reference: int) -> None:
        """Count each repeated visit of a container by the same reference.

        Where several branches lead to one reference, each level of the value doubles the work.

        Raises:
            BadRequest: The limit is reached.
        """
        # A scalar is checked in one step. Only containers multiply the work of what is in them.
        if self.steps_left is not None and type(value) in _CONTAINERS:
            visit = id(value), reference
            if visit in self._seen:
                self.spend(_STEPS_OF_A_VISIT)
            self._seen.add(visit)

    def spend(self, steps: int) -> None:
        """Count work.

        Raises:
            BadRequest: The limit is reached.
        """
        if self.steps_left is not None:
            self.steps_left -= steps
            if self.steps_left < 0:
                raise BadRequest("The data takes too long to check; send less at a time")


work_limit = WorkLimit()
"""The limit of the validation that runs in this thread."""


class Settings(NamedTuple):
    """Options that apply to a whole schema.

    Attributes:
        coerce: Whether values are converted to the types that the schema names.
        defaults: Whether absent properties get their defaults.
        strict: Whether unknown keywords are errors.
        formats: Tests by the name of the format; None if ``format`` is an annotation.
        keywords: Keywords of the application, by name.
    """

    coerce: bool
    defaults: bool
    strict: bool
    formats: Mapping[str, Callable[[Any], bool]] | None
    keywords: Mapping[str, SchemaKeyword]


class SchemaLocation(NamedTuple):
    """The place in a schema that is being compiled.

    Attributes:
        path: The place, as ``schemaPath`` names it.
        settings: The options of the schema.
        resolver: Resolves references from here; of the package `referencing`.
        fills_defaults: Whether defaults are filled in here. False in branches that may not apply.
        compiler: Compiles subschemas.
        references: The references that led here without a step into the value.
    """

    path: str
    settings: Settings
    resolver: Any
    fills_defaults: bool
    compiler: Callable[[Any, SchemaLocation], Check]
    references: tuple[Any, ...] = ()

    def path_to(self, *names: object) -> str:
        """Return the path of something below."""
        return "/".join((self.path, *map(path_part, names)))

    def compile(self, schema: Any, *names: object, branch: bool = False) -> Check:
        """Return the check of a subschema.

        Args:
            schema: The subschema.
            names: The way to it from here.
            branch: Whether it may not apply.
        """
        resolver = self.resolver
        if is_mapping(schema) and "$id" in schema:
            from referencing.jsonschema import DRAFT202012  # noqa: PLC0415  # late, see `validator`

            resolver = resolver.in_subresource(DRAFT202012.create_resource(schema))
        inner = self._replace(
            resolver=resolver,
            path=self.path_to(*names),
            fills_defaults=self.fills_defaults and not branch,
            # A step into the value ends a chain: data is finite, so such recursion is fine.
            references=self.references if names[0] in _IN_PLACE else (),
        )
        return self.compiler(schema, inner)

    def error(self, message: str, *names: object) -> SchemaError:
        """Return the error for a mistake in the schema below here."""
        return SchemaError(f"schema at {unquote(self.path_to(*names))}: {message}")


def path_part(name: object) -> str:
    """Return a name as one part of a ``schemaPath``."""
    # As Ajv writes it: a part of a JSON pointer, and what `encodeURIComponent` makes of it.
    text = str(name).replace("~", "~0").replace("/", "~1")
    return quote(text, safe="~!'()*")


# For all schemas together: a nested validation shares the visits of the outer one, and two
# references of the same number would count as one.
_REFERENCE_NUMBERS = count()


class Compiler:
    """Compiles one schema, and each target of its references once.

    Args:
        makers: Keywords, and what makes their check, in the order in which the checks run.
    """

    def __init__(self, makers: Sequence[tuple[Sequence[str], Maker]]) -> None:
        self._makers = makers
        self._targets: dict[Any, Check] = {}

    def __call__(self, schema: Any, location: SchemaLocation) -> Check:
        """Return the check of a schema.

        Raises:
            SchemaError: A keyword is unknown or not supported, or its value is not valid.
        """
        if schema is True:
            return accept
        if schema is False:
            where, message = f"{location.path}/false schema", "boolean schema is false"

            def refuse(value: object, path: str, failures: Failures) -> object:
                failures.append(failure(path, where, "false schema", {}, message))
                return value

            return refuse
        _check_keywords(schema, location)
        # The keywords beside `$ref` count, too; only up to draft-07 they were ignored.
        checks = [self._reference(location, schema)] if "$ref" in schema else []
        for names, make in self._makers:
            if any(name in schema for name in names):
                check = make(location, schema)
                # What accepts everything is left out, so that it costs no call for each value.
                if check is not None and check is not accept:
                    checks.append(check)
        keywords = location.settings.keywords
        # After all checks: what a conversion makes, such as a date, has neither pattern nor
        # format.
        conversions = [
            _conversion(location, keywords[name], schema[name])
            for name in schema
            if name in keywords
        ]
        if "type" in schema:
            return _typed(location, schema, checks, conversions)
        return in_sequence([*checks, *conversions])

    def _reference(self, location: SchemaLocation, schema: Schema) -> Check:
        """Return the check of the target of ``$ref``."""
        from referencing.exceptions import Unresolvable  # noqa: PLC0415  # late, see `validator`

        reference = schema["$ref"]
        try:
            target = location.resolver.lookup(reference)
            document = target.resolver.lookup("").contents
        except Unresolvable as error:
            raise location.error(f"{reference!r} leads nowhere", "$ref") from error
        # By identity: the resolver keeps the documents, and comparing schemas takes long.
        key = id(target.contents), id(document), location.fills_defaults
        if key in location.references:
            raise location.error(f"{reference!r} leads back to itself without end", "$ref")
        made = self._targets
        if key not in made:
            number = next(_REFERENCE_NUMBERS)

            def follow(value: object, path: str, failures: Failures) -> object:
                work_limit.visit(value, number)
                return made[key](value, path, failures)

            # Without this, a schema that contains itself would be compiled without end.
            made[key] = follow  # for references to the target from within it
            inner = location._replace(
                path=reference,
                resolver=target.resolver,
                references=(*location.references, key),
            )
            made[key] = self(target.contents, inner)
        return made[key]


def _check_keywords(schema: Schema, location: SchemaLocation) -> None:
    """Refuse keywords that are not supported and, if strict, unknown ones.

    Raises:
        SchemaError: There is one; the text says what to use instead.
    """
    keywords = location.settings.keywords
    for name in schema:
        # A keyword of the application has the meaning that the application gives it.
        if name in _REPLACEMENTS and name not in keywords:
            raise location.error(f"{name!r} is not supported; {_REPLACEMENTS[name]}")
    if not location.settings.strict:
        return
    allowed = KEYWORDS | _OPENAPI_ANNOTATIONS | keywords.keys()
    for name in schema:
        if name not in allowed and name[:2] != "x-":
            hint = did_you_mean(name, allowed) or "; names of your own begin with 'x-'"
            raise location.error(f"unknown keyword {name!r}{hint}")
    # No reference need lead to these, so that nothing else compiles them.
    for name, definition in schema.get("$defs", {}).items():
        location.compile(definition, "$defs", name)


LIST_OF_ONE: Final = "x-list-of-one"
"""In the schema of a query: a list that may be sent as its only item."""


def _typed(
    location: SchemaLocation,
    schema: Mapping[str, Any],
    checks: Sequence[Check],
    conversions: Sequence[Check],
) -> Check:
    """Return the check of ``type`` and of all others; a value of a wrong type is not converted."""
    types: str | Sequence[str] = schema["type"]
    names = [types] if isinstance(types, str) else types
    # A query string cannot say that one value is a list.
    is_list_of_one = schema.get(LIST_OF_ONE) is True and location.settings.coerce
    rest, all_checks = in_sequence(checks), in_sequence([*checks, *conversions])
    matches = type_test(names)
    coerce = coercion(names) if location.settings.coerce else None
    where, params = location.path_to("type"), {"type": types}
    message = f"must be {','.join(names)}"

    def check(value: object, path: str, failures: Failures) -> object:
        # As Ajv, all other checks run on a value of a wrong type, too.
        if not matches(value):
            # As in Ajv, only a value of a wrong type is coerced: "5" stays a text where texts are
            # allowed.
            new = UNSET if coerce is None else coerce(value)
            if new is UNSET and is_list_of_one and not isinstance(value, Mapping):
                new = [value]
            if new is UNSET:
                failures.append(failure(path, where, "type", params, message))
                return rest(value, path, failures)
            value = new
        return value if all_checks is accept else all_checks(value, path, failures)

    return check


def _conversion(location: SchemaLocation, keyword: SchemaKeyword, argument: object) -> Check:
    where, params = location.path_to(keyword.name), {"keyword": keyword.name}

    def check(value: object, path: str, failures: Failures) -> object:
        try:
            return keyword.convert(value, argument)
        except (TypeError, ValueError):  # other errors are bugs of the keyword
            failures.append(failure(path, where, keyword.name, params, keyword.message))
            return value

    return check
