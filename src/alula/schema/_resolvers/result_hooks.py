"""Hooks that run resolvers on results, and redact what clients get; `resolve_all`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final

from alula._context import HookContext
from alula.errors import FrameworkError
from alula.hooks import annotate_hook, hook_factory
from alula.outgoing import RedactedRecord, public_part
from alula.outgoing._redaction import (
    check_hidden,
    records_of,
    redact_error,
    redact_result,
    with_records,
    without_properties,
)
from alula.query import Grammar
from alula.schema._resolvers.incoming_hooks import (
    METHODS_WITH_DATA,
    Hook,
    Next,
    Resolvers,
    by_method,
    query_like,
    resolve_data,
    resolve_query,
    resolvers_of,
    run_all,
)
from alula.schema._resolvers.resolver import Resolver
from alula.types import STANDARD_METHODS, is_mapping

__all__ = ["external_hook", "resolve_all", "resolve_external", "resolve_result", "result_hook"]

_GRAMMAR: Final = Grammar()


@hook_factory("resolve_result(resolve({...}))")
def resolve_result(*resolvers: Resolvers) -> Hook:
    """Return an around hook that resolves the records of a result, also those of a page.

    With ``$select`` only the selected properties are resolved. If it names a virtual property, or
    one whose function takes the record, the service is asked for whole records, since the function
    may need any property.

    Examples:
        >>> from alula.schema import resolve, virtual
        >>> size = resolve({"size": virtual(lambda message: len(message["text"]))})
        >>> hooks = {"around": [resolve_result(size)]}

    Args:
        resolvers: What `resolve` returns, or mappings of methods to these.

    Raises:
        TypeError: An argument is not a resolver.
        ValueError: The name of a method is nearly that of a standard method.
        BadRequest: By the hook: functions raised errors of the interface.
    """
    return result_hook(resolvers)


def result_hook(resolvers: Sequence[Resolvers], closed: Collection[str] = ()) -> Hook:
    """Return the hook of `resolve_result`.

    Args:
        resolvers: As it takes them.
        closed: Properties that clients must not select: a check further in refuses them, so it has
            to see the selection.

    Raises:
        TypeError: An argument is not a resolver.
        ValueError: As `resolve_result`.
    """
    of_method = resolvers_of("resolve_result", resolvers)

    async def resolve_result_hook(context: HookContext, next: Next) -> None:
        if not (chosen := of_method(context.method)):
            await next()
            return
        names = await _run_with_whole_records(chosen, context, next, closed)
        records = records_of(context.result, context.method)
        resolved = [
            # A record that its service redacted stays redacted.
            record.changed(new) if isinstance(record, RedactedRecord) else new
            for record, new in zip(
                records, await _resolved(chosen, records, context, names), strict=True
            )
        ]
        context.result = await with_records(
            context.result, context.method, resolved, partial(_resolved_extras, chosen, context)
        )

    return resolve_result_hook


@hook_factory("resolve_external(resolve({...}))")
def resolve_external(*resolvers: Resolvers) -> Hook:
    """Return an around hook that resolves what clients get: `UNSET` hides a property.

    The application itself goes on with the whole record. The record becomes a `RedactedRecord`, so
    that nothing hidden leaves with another record, an event or an error that contains it. `hidden`
    properties are left out of the results of custom methods at any depth, and the queries of
    clients cannot name them: that is a 400.

    Examples:
        >>> from alula.schema import hidden, resolve
        >>> hooks = {"around": [resolve_external(resolve({"password": hidden}))]}

    Args:
        resolvers: What `resolve` returns, or mappings of methods to these.

    Raises:
        TypeError: An argument is not a resolver.
        ValueError: The name of a method is nearly that of a standard method.
        BadRequest: By the hook: functions raised errors of the interface, or the query of a client
            names a hidden property.
    """
    return external_hook(resolvers)


def external_hook(resolvers: Sequence[Resolvers], closed: Collection[str] | None = None) -> Hook:
    """Return the hook of `resolve_external`.

    Args:
        resolvers: As it takes them.
        closed: As for `result_hook`; None if no check further in refuses queries that name hidden
            properties.

    Raises:
        TypeError: An argument is not a resolver.
        ValueError: As `resolve_external`.
    """
    of_method = resolvers_of("resolve_external", resolvers)
    protected = {name for of in resolvers if isinstance(of, Resolver) for name in of.hidden_names}

    async def resolve_external_hook(context: HookContext, next: Next) -> None:
        if not (chosen := of_method(context.method)):
            await next()
            return
        hidden = {name for resolver in chosen for name in resolver.hidden_names}
        if hidden and closed is None:
            check_hidden(context, hidden)
        names: Collection[str] | None = None

        async def views_of(records: Sequence[Any]) -> list[Any]:
            resolved = await _resolved(chosen, records, context, names)
            views = [public_part(record) for record in resolved]
            if hidden and context.method not in STANDARD_METHODS:
                return [without_properties(view, hidden) for view in views]
            return views

        async def views_of_extras(extras: Sequence[Any]) -> list[Any]:
            return [public_part(each) for each in await _resolved_extras(chosen, context, extras)]

        try:
            names = await _run_with_whole_records(chosen, context, next, closed or ())
        except FrameworkError as error:
            await redact_error(error, context, views_of)
            raise
        await redact_result(context, views_of, views_of_extras, resolve_external_hook)

    return annotate_hook(resolve_external_hook, protects=protected)


@hook_factory("resolve_all(...)")
def resolve_all(
    *,
    query: Resolvers | None = None,
    data: Resolvers | None = None,
    result: Resolvers | None = None,
    external: Resolvers | None = None,
) -> Hook:
    """Return one around hook that runs all resolvers of a service in the right order.

    Register `authenticate` before it.

    Examples:
        >>> from alula.schema import hidden, resolve
        >>> hooks = {"around": [resolve_all(external=resolve({"password": hidden}))]}

    Args:
        query: As for `resolve_query`.
        data: As for `resolve_data`; a single resolver is for create, update and patch.
        result: As for `resolve_result`.
        external: As for `resolve_external`.

    Raises:
        TypeError: An argument is not a resolver, or there is none at all.
        ValueError: ``data`` names a method without data, or a name is nearly that of a method.
    """
    hooks: list[Hook] = []
    if external is not None:
        hooks.append(resolve_external(external))
    if result is not None:
        hooks.append(resolve_result(result))
    if query is not None:
        hooks.append(resolve_query(query))
    if data is not None:
        hooks.append(resolve_data(by_method(data, METHODS_WITH_DATA)))
    if not hooks:
        raise TypeError("resolve_all needs at least one of query, data, result and external")

    async def resolve_all_hook(context: HookContext, next: Next) -> None:
        inner = next
        for hook in reversed(hooks):
            inner = partial(hook, context, inner)
        await inner()

    return resolve_all_hook


async def _run_with_whole_records(
    resolvers: Sequence[Resolver], context: HookContext, next: Next, closed: Collection[str]
) -> Collection[str] | None:
    """Run the rest of the call, for whole records if needed; return the selected properties."""
    params = context.params
    names = _GRAMMAR.read_select(params.query)
    if names is None:
        await next()
        return None
    # A resolver makes a whole property, also where a dotted name selects a part of it.
    selected = dict.fromkeys(name.partition(".")[0] for name in names)
    id_name = getattr(context.service.service, "id", None)
    if isinstance(id_name, str):
        selected[id_name] = None  # services return the id in any case
    # A function that reads the record must see all of it: otherwise a client could hide from it, by
    # what is not selected, why a property must not be shown.
    is_refused = params.provider is not None and not selected.keys().isdisjoint(closed)
    if is_refused or not any(resolver.record_names & selected.keys() for resolver in resolvers):
        await next()
        return selected.keys()
    query = params.query
    select = query["$select"]
    params.query = query_like(query, {name: query[name] for name in query if name != "$select"})
    try:
        await next()
    finally:  # inner hooks may have changed the rest of the query
        query = context.params.query
        context.params.query = query_like(query, {**query, "$select": select})
    return selected.keys()


async def _resolved(
    resolvers: Sequence[Resolver],
    records: Sequence[Any],
    context: HookContext,
    names: Collection[str] | None,
) -> list[Any]:
    resolved = await run_all(resolvers, records, context, names=names)
    if names is None:
        return resolved
    return [
        {name: record[name] for name in record if name in names} if is_mapping(record) else record
        for record in resolved
    ]


async def _resolved_extras(
    resolvers: Sequence[Resolver], context: HookContext, extras: Sequence[Any]
) -> list[Any]:
    """Resolve the further entries of pages that may be properties of a record; add none."""
    return [
        (await run_all(resolvers, [entries], context, names=entries.keys()))[0]
        for entries in extras
    ]
