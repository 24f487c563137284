"""Hooks that run resolvers on results, and redact what clients get; `resolve_all`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from alula._context import HookContext
from alula.errors import FrameworkError
from alula.hooks import hook_factory
from alula.outgoing import RedactedRecord, map_records, public_part, without_properties
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
from alula.types import STANDARD_METHODS, UNSET, JSONValue, Page, is_mapping

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
        records = _records_of(context.result, context.method)
        resolved = [
            # A record that its service redacted stays redacted.
            record.changed(new) if isinstance(record, RedactedRecord) else new
            for record, new in zip(
                records, await _resolved(chosen, records, context, names), strict=True
            )
        ]
        context.result = await _with_records(chosen, context.result, resolved, context)

    return resolve_result_hook


@hook_factory("resolve_external(resolve({...}))")
def resolve_external(*resolvers: Resolvers) -> Hook:
    """Return an around hook that resolves what clients get: `UNSET` hides a property.

    The application itself goes on with the whole record. The record becomes a `RedactedRecord`, so
    that nothing hidden leaves with another record, an event or an error that contains it. `hidden`
    properties are left out of the results of custom methods at any depth.

    Examples:
        >>> from alula.schema import hidden, resolve
        >>> hooks = {"around": [resolve_external(resolve({"password": hidden}))]}

    Args:
        resolvers: What `resolve` returns, or mappings of methods to these.

    Raises:
        TypeError: An argument is not a resolver.
        ValueError: The name of a method is nearly that of a standard method.
        BadRequest: By the hook: functions raised errors of the interface.
    """
    return external_hook(resolvers)


def external_hook(resolvers: Sequence[Resolvers], closed: Collection[str] = ()) -> Hook:
    """Return the hook of `resolve_external`.

    Args:
        resolvers: As it takes them.
        closed: As for `result_hook`.

    Raises:
        TypeError: An argument is not a resolver.
        ValueError: As `resolve_external`.
    """
    of_method = resolvers_of("resolve_external", resolvers)

    async def resolve_external_hook(context: HookContext, next: Next) -> None:
        if not (chosen := of_method(context.method)):
            await next()
            return
        try:
            names = await _run_with_whole_records(chosen, context, next, closed)
        except FrameworkError as error:
            # Inner hooks have seen the records whole, and may have put them into the error.
            if context.result is not UNSET and not (error.data is None and error.errors is None):
                records = [
                    record
                    for record in (context.result, *_records_of(context.result, context.method))
                    if is_mapping(record) and not isinstance(record, RedactedRecord | Page)
                ]
                views = map(public_part, await run_all(chosen, records, context))
                redacted = list(map(RedactedRecord, records, views))
                error.data = _with_redacted(error.data, redacted)
                error.errors = _with_redacted(error.errors, redacted)
            raise
        await _redact(chosen, context, names, resolve_external_hook)

    return resolve_external_hook


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


async def _redact(
    resolvers: Sequence[Resolver],
    context: HookContext,
    names: Collection[str] | None,
    redacted_by: object,
) -> None:
    """Set ``context.dispatch``, and make each record of the result a redacted one."""
    hidden = {name for resolver in resolvers for name in resolver.hidden_names}
    at_any_depth = bool(hidden) and context.method not in STANDARD_METHODS

    def view_of(resolved: object) -> object:
        view = public_part(resolved)
        return without_properties(view, hidden) if at_any_depth else view

    def is_done(record: object) -> bool:  # by this very hook, in another call
        return isinstance(record, RedactedRecord) and record.redacted_by is redacted_by

    async def views_of(records: Sequence[Any]) -> list[Any]:
        if not any(isinstance(record, RedactedRecord) for record in records):
            return list(map(view_of, await _resolved(resolvers, records, context, names)))
        # Functions must not see what another service hides from clients.
        new = [public_part(record) for record in records if not is_done(record)]
        resolved = iter(await _resolved(resolvers, new, context, names))
        return [record.public if is_done(record) else view_of(next(resolved)) for record in records]

    # Another hook may have set what clients get; the result itself still needs its redaction.
    result = context.result
    visible = result if context.dispatch is UNSET else context.dispatch
    views = await views_of(_records_of(visible, context.method))
    context.dispatch = await _with_records(resolvers, visible, views, context, public_part)
    records = _records_of(result, context.method)
    if visible is not result:
        views = await views_of(records)
    redacted = [
        RedactedRecord(record, view, redacted_by) if is_mapping(record) else record
        for record, view in zip(records, views, strict=True)
    ]
    context.result = await _with_records(
        resolvers, result, redacted, context, public_part, redact=True
    )


def _with_redacted(value: JSONValue, redacted: Sequence[RedactedRecord]) -> Any:
    """Return a value in which these records, and copies of them, are redacted at any depth."""
    if isinstance(value, RedactedRecord):
        return value
    if isinstance(value, Mapping):
        # By equality, since hooks copy records into the data of errors.
        same = next((record for record in redacted if record == value), None)
        if same is not None:
            return same
        return {name: _with_redacted(inner, redacted) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_redacted(inner, redacted) for inner in value]
    return value


def _records_of(result: object, method: str) -> list[Any]:
    """Return the records of a result, as `map_records` finds them."""
    records: list[Any] = []
    map_records(result, method, records.append, lambda extras: extras)
    return records


async def _with_records(
    resolvers: Sequence[Resolver],
    result: object,
    records: Sequence[Any],
    context: HookContext,
    view: Callable[[Any], Any] = list,
    *,
    redact: bool = False,
) -> object:
    """Return a result with these records in place of its own.

    The further entries of a page may be properties of a record. Those that are present are
    resolved, and none is added.
    """
    all_extras: list[dict[str, Any]] = []

    def note(extras: dict[str, Any]) -> dict[str, Any]:
        all_extras.append(extras)
        return extras

    def with_extras(change_extras: Callable[[dict[str, Any]], Any]) -> object:
        new = iter(records)
        return map_records(
            result, context.method, lambda _: next(new), change_extras, redact=redact
        )

    made = with_extras(note)
    if not all_extras:
        return made
    resolved = [
        (await run_all(resolvers, [extras], context, names=extras.keys()))[0]
        for extras in all_extras
    ]
    remaining = iter(view(resolved))
    return with_extras(lambda _: next(remaining))
