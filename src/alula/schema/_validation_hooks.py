"""Hooks that check and convert what comes in: the query and the data of a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from alula._context import HookContext
from alula.errors import BadRequest
from alula.hooks import annotate_hook, hook_factory
from alula.query import Grammar, ValidatedQuery
from alula.schema._call_query import query_of, set_query
from alula.schema._failures import MOST_TOLD, Failures, SchemaError, refusal
from alula.schema._validators import AnyValidator, get_validator
from alula.types import METHODS_WITHOUT_DATA, STANDARD_METHODS

__all__ = ["validate_data", "validate_query"]

Hook: TypeAlias = Callable[..., Awaitable[None]]

MAX_RECORDS: Final = 5_000
"""How many records a call from outside may bring that are checked: some 50 microseconds each."""

_WITH_DATA = frozenset(STANDARD_METHODS) - METHODS_WITHOUT_DATA


@hook_factory("validate_query(query_syntax(...))")
def validate_query(validator: Any) -> Hook:
    """Return a hook that checks and converts the query: a before or an around hook.

    What the schema names beside the common operators and filters is open at the adapter for this
    query. Page sizes hold as ever.

    Args:
        validator: What `get_validator` returns or takes; a schema is compiled with coercion.

    Raises:
        SchemaError: The schema is malformed, or names what never passes from a query.
        BadRequest: By the hook, with every failure in ``data``.
    """
    checker = get_validator(validator, coerce=True)
    operators, filters = checker.operators, checker.filters
    try:
        Grammar(operators=operators, filters=dict.fromkeys(filters, True))
    except ValueError as error:
        raise SchemaError(f"the schema of a query opens what can not be opened: {error}") from error

    async def validate_query_hook(context: HookContext, next: Any = None) -> None:
        query = checker.validate(query_of(context))
        set_query(context, ValidatedQuery(query, operators, filters))
        if next is not None:
            await next()

    return annotate_hook(validate_query_hook, query=checker, kinds=("before", "around"))


@hook_factory("validate_data(...)")
def validate_data(validator: Any) -> Hook:
    """Return a hook that checks and converts data: a before or an around hook.

    It does nothing for methods without data. With a list, every record in it is checked, and the
    failures of all are told. From outside the list may have `MAX_RECORDS` records.

    Args:
        validator: What `get_validator` returns or takes, or a mapping of methods to these:
            ``{"create": ..., "patch": ...}``; other methods are not checked then.

    Raises:
        SchemaError: A schema is malformed.
        BadRequest: By the hook, with every failure in ``data``.
    """
    find = _by_method(validator)

    async def validate_data_hook(context: HookContext, next: Any = None) -> None:
        checker = None if context.method in METHODS_WITHOUT_DATA else find(context.method)
        if checker is not None:
            _check_number(context)
            context.data = _checked(checker, context.data)
        if next is not None:
            await next()

    return annotate_hook(validate_data_hook, data=find, kinds=("before", "around"))


def _by_method(validator: Any) -> Callable[[str], AnyValidator | None]:
    if isinstance(validator, Mapping) and validator and validator.keys() <= _WITH_DATA:
        return {method: get_validator(each) for method, each in validator.items()}.get
    checker = get_validator(validator)
    return lambda _method: checker


def _check_number(context: HookContext) -> None:
    """Refuse more records at once than the process can check without holding up others.

    Raises:
        BadRequest: A call from outside brings more than `MAX_RECORDS`.
    """
    data, provider = context.data, context.params.get("provider")
    if isinstance(data, list | tuple) and len(data) > MAX_RECORDS and provider is not None:
        raise BadRequest(f"The data has more than {MAX_RECORDS} records; send fewer at a time")


def _checked(checker: AnyValidator, data: Any) -> Any:
    if not isinstance(data, list | tuple):
        return checker.validate(data)
    records: list[Any] = []
    failures: Failures = []
    for record in data:
        try:
            records.append(checker.validate(record))
        except BadRequest as error:
            if not isinstance(error.data, list):
                raise  # not a failed validation, but no record that could be checked
            failures += error.data
        if len(failures) >= MOST_TOLD:
            break
    if failures:
        raise refusal(failures)
    return records
