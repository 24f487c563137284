"""Hooks that run resolvers on what goes out: the result of a call, and what of it may leave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from alula._context import HookContext
from alula.errors import FrameworkError
from alula.hooks import hook_factory
from alula.outgoing import RedactedRecord, map_records, public_part, without_properties
from alula.schema._call_query import query_of, selected_by, set_query, with_select, without_select
from alula.schema._resolvers.incoming_hooks import Hook, Resolvers, resolvers_of, run_all
from alula.schema._resolvers.resolver import Resolver
from alula.types import STANDARD_METHODS, UNSET, Page

__all__ = ["resolve_external", "resolve_result"]


@hook_factory("resolve_result(resolve({...}))")
def resolve_result(*resolvers: Resolvers) -> Hook:
    """Return an around hook that resolves the records of a result, those of a page included.

    With ``$select`` only what it names is resolved. Where it names a virtual property the service
    is asked for whole records, since nobody knows what that property is computed from.

    Args:
        resolvers: What `resolve` returns, or mappings of methods to these.

    Raises:
        TypeError: Something is not a resolver.
        ValueError: A method has nearly the name of a standard method.
        BadRequest: By the hook: functions raised errors of the interface.
    """
    of_method = resolvers_of("resolve_result", resolvers)

    async def resolve_result_hook(context: HookContext, next: Any) -> None:
        if not (chosen := of_method(context.method)):
            await next()
            return
        names = await _go_on(chosen, context, next)
        records = _records_of(context.result, context.method)
        resolved = map(_as_before, records, await _resolved(chosen, records, context, names))
        context.result = await _replaced(chosen, context.result, list(resolved), context)

    return resolve_result_hook


@hook_factory("resolve_external(resolve({...}))")
def resolve_external(*resolvers: Resolvers) -> Hook:
    """Return an around hook that resolves what may leave: `UNSET` hides a property.

    The application itself goes on with the whole record. It is bound to its outside form, so that
    nothing hidden leaves with another record, an event or an error that it becomes a part of. What
    `hidden` resolves is left out of the results of custom methods at any depth.

    Args:
        resolvers: What `resolve` returns, or mappings of methods to these.

    Raises:
        TypeError: Something is not a resolver.
        ValueError: A method has nearly the name of a standard method.
        BadRequest: By the hook: functions raised errors of the interface.
    """
    of_method = resolvers_of("resolve_external", resolvers)

    async def resolve_external_hook(context: HookContext, next: Any) -> None:
        if not (chosen := of_method(context.method)):
            await next()
            return
        try:
            names = await _go_on(chosen, context, next)
        except FrameworkError as error:
            await _guard_error(chosen, context, error)
            raise
        await _guard(chosen, context, names, resolve_external_hook)

    return resolve_external_hook


async def _go_on(
    resolvers: Sequence[Resolver], context: HookContext, next: Callable[[], Any]
) -> Collection[str] | None:
    """Make the call, for whole records where that is needed; return the properties wanted."""
    names = selected_by(context)
    if names is None or not any(resolver.virtual_names & set(names) for resolver in resolvers):
        await next()
        return names
    select = query_of(context)["$select"]
    set_query(context, without_select(query_of(context)))
    try:
        await next()
    finally:  # hooks further in may have changed the rest of the query
        set_query(context, with_select(query_of(context), select))
    return names


async def _resolved(
    resolvers: Sequence[Resolver],
    records: Sequence[Any],
    context: HookContext,
    names: Collection[str] | None,
) -> list[Any]:
    resolved = await run_all(resolvers, records, context, names=names)
    if names is None:
        return resolved
    return [_only(names, record) for record in resolved]


def _only(names: Collection[str], record: Any) -> Any:
    if not isinstance(record, Mapping):
        return record
    return {name: record[name] for name in record if name in names}


async def _guard(
    resolvers: Sequence[Resolver],
    context: HookContext,
    names: Collection[str] | None,
    by: object,
) -> None:
    """Set ``context.dispatch``, and bind each record of the result to what may leave of it."""
    hidden = {name for resolver in resolvers for name in resolver.hidden_names}
    anywhere = bool(hidden) and context.method not in STANDARD_METHODS

    def view_of(resolved: Any) -> Any:
        view = public_part(resolved)
        return without_properties(view, hidden) if anywhere else view

    async def views(records: Sequence[Any]) -> list[Any]:
        if not any(isinstance(each, RedactedRecord) for each in records):
            return list(map(view_of, await _resolved(resolvers, records, context, names)))
        new = [public_part(each) for each in records if not _is_guarded(each, by)]
        fresh = iter(await _resolved(resolvers, new, context, names))
        return [each.public if _is_guarded(each, by) else view_of(next(fresh)) for each in records]

    result = context.result
    visible = result if context.dispatch is UNSET else context.dispatch
    seen = await views(_records_of(visible, context.method))
    context.dispatch = await _replaced(resolvers, visible, seen, context, public_part)
    records = _records_of(result, context.method)
    if visible is not result:
        seen = await views(records)
    guarded = [
        RedactedRecord(record, view, by) if isinstance(record, Mapping) else record
        for record, view in zip(records, seen, strict=True)
    ]
    context.result = await _replaced(resolvers, result, guarded, context, public_part, redact=True)


async def _guard_error(
    resolvers: Sequence[Resolver], context: HookContext, error: FrameworkError
) -> None:
    """Guard what an error tells of the result, which hooks inside have seen without a guard."""
    if context.result is UNSET or (error.data is None and error.errors is None):
        return
    records = [
        each
        for each in (context.result, *_records_of(context.result, context.method))
        if isinstance(each, Mapping) and not isinstance(each, RedactedRecord | Page)
    ]
    views = map(public_part, await run_all(resolvers, records, context))
    guarded = [RedactedRecord(*each) for each in zip(records, views, strict=True)]
    error.data = _with_guards(error.data, guarded)
    error.errors = _with_guards(error.errors, guarded)


def _with_guards(value: Any, guarded: Sequence[RedactedRecord]) -> Any:
    """Return a value in which records, and copies of them, are guarded at any depth."""
    if isinstance(value, RedactedRecord):
        return value
    if isinstance(value, Mapping):
        same = next((record for record in guarded if record == value), None)
        inner = {name: _with_guards(each, guarded) for name, each in value.items()}
        return inner if same is None else same
    if isinstance(value, list | tuple):
        return [_with_guards(each, guarded) for each in value]
    return value


def _as_before(record: Any, resolved: Any) -> Any:
    """Return a resolved record, guarded where it came from a service that guards it."""
    return record.changed(resolved) if isinstance(record, RedactedRecord) else resolved


def _is_guarded(record: Any, by: object) -> bool:
    """Tell whether this very hook has seen the record, on its way through another call."""
    return isinstance(record, RedactedRecord) and record.redacted_by is by


def _records_of(result: Any, method: str) -> list[Any]:
    """Return the records of a result, as `map_records` finds them."""
    records: list[Any] = []
    map_records(result, method, records.append, lambda rest: rest)
    return records


async def _replaced(
    resolvers: Sequence[Resolver],
    result: Any,
    records: Sequence[Any],
    context: HookContext,
    view: Callable[[Any], Any] = list,
    *,
    redact: bool = False,
) -> Any:
    """Return a result with these records in place of its own.

    What stands beside those of a page may be properties of a record: of these, the ones that are
    there are resolved, and none is added.
    """
    rests: list[dict[str, Any]] = []

    def note(rest: dict[str, Any]) -> dict[str, Any]:
        rests.append(rest)
        return rest

    def with_rests(change_extras: Callable[[dict[str, Any]], Any]) -> Any:
        new = iter(records)
        return map_records(
            result, context.method, lambda _: next(new), change_extras, redact=redact
        )

    made = with_rests(note)
    if not rests:
        return made
    kept = [(await run_all(resolvers, [rest], context, names=rest.keys()))[0] for rest in rests]
    remaining = iter(view(kept))
    return with_rests(lambda _: next(remaining))
