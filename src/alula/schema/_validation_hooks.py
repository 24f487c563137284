"""Hooks that check and convert what comes in: the query and the data of a call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from alula._context import HookContext
from alula._user_code import unknown_name_note
from alula.errors import BadRequest
from alula.hooks import annotate_hook, hook_factory
from alula.query import Grammar, ValidatedQuery
from alula.schema._failures import MOST_LISTED, Failures, SchemaError, refusal
from alula.schema._pydantic_models.query_model import QueryModel
from alula.schema._resolvers.hooks import METHODS_WITH_DATA, Hook, Next
from alula.schema._validators import AnyValidator, get_validator
from alula.types import METHODS_WITHOUT_DATA, CheckedText, JSONValue, is_list, is_mapping

__all__ = ["name_as_stored", "validate_data", "validate_query"]

MAX_RECORDS: Final = 5_000
"""How many records a client may send in one call that checks them: some 50 microseconds each."""


@hook_factory("validate_query(query_syntax(...))")
def validate_query(validator: object) -> Hook:
    """Return a hook that checks and converts the query: a before or an around hook.

    The adapter accepts all operators and filters that the schema names in a query that was checked.
    The limits of page sizes still apply.

    Examples:
        >>> from alula.schema import query_syntax
        >>> hooks = {"around": [validate_query(query_syntax({"age": {"type": "integer"}}))]}

    Args:
        validator: What `get_validator` returns or takes; a schema is compiled with coercion.

    Raises:
        SchemaError: The schema is malformed, or names an operator that is never allowed.
        BadRequest: By the hook, with every failure in ``data``.
    """
    checker = get_validator(validator, coerce=True)
    operators, filters = frozenset(checker.operators), frozenset(checker.filters)
    try:
        # When the hook is made, not at the first call: such a schema must not reach production.
        Grammar(operators=operators, filters=dict.fromkeys(filters, True))
    except ValueError as error:
        raise SchemaError(f"the schema of a query opens what cannot be opened: {error}") from error
    accepts_empty = False  # most calls have no query; validators of applications may look at more
    if type(checker) is QueryModel:
        with suppress(BadRequest):
            accepts_empty = checker.validate({}) == {}

    def validate_query_hook(context: HookContext) -> None:
        params = context._params  # noqa: SLF001  # its property costs a call
        query = params.query
        try:
            if type(query) is dict and not query and accepts_empty:
                checked: Mapping[str, Any] = query
            elif (related := context.service.related_names) and isinstance(query, Mapping):
                checked = _with_related(query, related, checker)
            else:
                checked = checker.validate(query)
        except BadRequest as error:
            if context.app.debug:
                _explain(error, checker)
            raise
        params.query = ValidatedQuery(checked, operators, filters)

    return annotate_hook(_hook_of(validate_query_hook), query=checker, kinds=("before", "around"))


def _hook_of(check: Callable[[HookContext], None]) -> Hook:
    """Return a before or an around hook that checks something."""

    async def hook(context: HookContext, next: Next | None = None) -> None:
        check(context)
        if next is not None:
            await next()

    hook.__qualname__ = getattr(check, "__qualname__", hook.__qualname__)  # in messages
    return hook


def _explain(error: BadRequest, checker: AnyValidator) -> None:
    """Add a note about names that the schema of a query does not have, for the log."""
    failures: Any = error.data
    described: Any = getattr(checker, "json_schema", None)
    schema: object = described() if callable(described) else getattr(checker, "schema", None)
    for failure in failures if is_list(failures) else ():
        name = failure.get("params", {}).get("additionalProperty")
        if isinstance(name, str):
            error.add_note(unknown_name_note(name, _names_in(schema)))
            return  # one is enough to see what is wrong


def _names_in(schema: object) -> Iterator[str]:
    """Yield the names of all properties of a schema, at any depth."""
    if is_list(schema):
        for item in schema:
            yield from _names_in(item)
    elif is_mapping(schema):
        for keyword, value in schema.items():
            if keyword == "properties" and is_mapping(value):
                yield from value
            yield from _names_in(value)


def _with_related(
    query: Mapping[str, Any], names: Collection[str], checker: AnyValidator
) -> Mapping[str, Any]:
    """Check a query without the names that belong to other services, which the adapter checks."""
    sort: JSONValue = query.get("$sort")
    order = {**sort} if isinstance(sort, Mapping) else {}
    own = {name: value for name, value in query.items() if name not in names}
    if order:
        own["$sort"] = {name: order[name] for name in order if name not in names}
        if not own["$sort"]:
            del own["$sort"]
    checked = dict(checker.validate(own))
    related = {name: query[name] for name in query if name in names}
    if order:
        # Its fields in the order in which the client has sent them.
        checked["$sort"] = order | {**checked.get("$sort", {})}
    return {**checked, **related}


@hook_factory("validate_data(...)")
def validate_data(validator: object) -> Hook:
    """Return a hook that checks and converts data: a before or an around hook.

    It does nothing for methods without data. In a list, every record is checked, and the failures
    of all are reported. A list from a client may have `MAX_RECORDS` records.

    Examples:
        >>> schema = {"type": "object", "required": ["text"]}
        >>> hooks = {"before": {"create": [validate_data(schema)]}}

    Args:
        validator: What `get_validator` returns or takes, or a mapping of methods to these:
            ``{"create": ..., "patch": ...}``. Other methods are not checked then.

    Raises:
        SchemaError: A schema is malformed.
        BadRequest: By the hook, with every failure in ``data``.
    """
    checker_for: Callable[[str], AnyValidator | None]
    if is_mapping(validator) and validator and validator.keys() <= {*METHODS_WITH_DATA}:
        checkers = {method: get_validator(schema) for method, schema in validator.items()}
        checker_for = checkers.get
    else:
        single = get_validator(validator)
        checker_for = lambda _method: single  # noqa: E731  # the other branch has a method

    def validate_data_hook(context: HookContext) -> None:
        data: JSONValue
        checker, data = checker_for(context.method), context.data
        if checker is None or context.method in METHODS_WITHOUT_DATA:
            return
        validate = checker.validate
        if context.params.provider is None:  # clients cannot send such texts
            validate = partial(_without_checked_texts, checker, context.method)
        if not isinstance(data, list | tuple):
            context.data = validate(data)
        # The application itself may have more, such as an import.
        elif len(data) > MAX_RECORDS and context.params.provider is not None:
            raise BadRequest(f"The data has more than {MAX_RECORDS} records; send fewer at a time")
        else:
            records: list[Any] = []
            failures: Failures = []
            for record in data:
                try:
                    records.append(validate(record))
                except BadRequest as error:
                    if not is_list(error.data):
                        raise  # the record cannot be checked at all
                    failures += error.data
                # A response lists no more, so the other records need no check.
                if len(failures) >= MOST_LISTED:
                    break
            if failures:
                raise refusal(failures)
            context.data = records

    return annotate_hook(
        _hook_of(validate_data_hook),
        data=checker_for,
        kinds=("before", "around"),
        ignores=METHODS_WITHOUT_DATA,
    )


def _without_checked_texts(checker: AnyValidator, method: str, record: Any) -> Any:
    """Check a record of own code, and keep each `CheckedText` of it.

    A part of a record is checked without them: a hash may be longer than a password. A whole record
    needs them.
    """
    kept: dict[str, CheckedText] = {}
    if is_mapping(record):
        kept = {name: value for name, value in record.items() if isinstance(value, CheckedText)}
    if not kept:
        return checker.validate(record)
    if method == "patch":
        rest = {name: value for name, value in record.items() if name not in kept}
        return {**checker.validate(rest), **kept}
    checked = checker.validate(record)
    return {**checked, **{name: text for name, text in kept.items() if checked.get(name) == text}}


def name_as_stored(rename: Callable[[Any], Any]) -> Hook:
    """Return an around hook that puts the fields of clients' data under the names of records.

    Hooks that run before the check, such as one that sets the owner, know these names alone. Under
    another name that the model reads, a client could set the same field past them.

    Args:
        rename: Returns a record, or a list of them, with these names.
    """

    async def name_fields(context: HookContext, next: Next) -> None:
        if context.params.provider is not None:
            context.data = rename(context.data)
        await next()

    return annotate_hook(name_fields, kinds=("around",))
