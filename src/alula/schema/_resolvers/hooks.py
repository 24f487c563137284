"""Hooks that run resolvers on the query, the data and the result of a call.

How a property is hidden is in `alula.outgoing._redaction`, which the hooks of results use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, Final, TypeAlias

from alula._context import HookContext
from alula._item_stream import change_each, is_stream
from alula._service_object import check_multi
from alula._user_code import did_you_mean
from alula.errors import BadRequest, FrameworkError
from alula.hooks import annotate_hook, hook_factory
from alula.outgoing import RedactedRecord, public_part
from alula.outgoing._redaction import (
    Call,
    ItemCall,
    check_hidden,
    is_one_record,
    is_redacted,
    item_method,
    map_records,
    records_in_error,
    records_of,
    redact_error,
    redact_record,
    redact_result,
    without_properties,
)
from alula.query import Grammar, ValidatedQuery
from alula.query._grammar import as_list
from alula.schema._resolvers.resolver import Resolver
from alula.types import METHODS_WITHOUT_DATA, STANDARD_METHODS, UNSET, is_array, is_mapping

__all__ = [
    "METHODS_WITH_DATA",
    "Hook",
    "Next",
    "Resolvers",
    "by_method",
    "external_hook",
    "query_like",
    "resolve_all",
    "resolve_data",
    "resolve_external",
    "resolve_query",
    "resolve_result",
    "resolved_data",
    "resolved_query",
    "resolvers_of",
    "result_hook",
]

Hook: TypeAlias = Callable[..., Awaitable[None]]
Next: TypeAlias = Callable[[], Awaitable[None]]
Resolvers: TypeAlias = Resolver | Mapping[str, Resolver]
"""One resolver for all methods, or one for each by the name of the method."""

METHODS_WITH_DATA: Final = ("create", "update", "patch")

_CHANGES: Final = frozenset({"update", "patch"})
_GRAMMAR: Final = Grammar()

FROM_CLIENTS: Final = (FrameworkError, ValueError)
"""The errors of functions that are about a value in the request: they become a 400, not a 500."""


@hook_factory("resolve_query(resolve({...}))")
def resolve_query(*resolvers: Resolvers) -> Hook:
    """Return a hook that resolves the query: an around or a before hook.

    The record of the functions is the query. Below ``$or`` and ``$and`` it is each branch, in which
    only present properties are resolved: a property that is always set, to keep callers to their
    own records, is set once.

    Examples:
        >>> from alula.schema import resolve
        >>> own = resolve({"userId": lambda value, query, context: context.params.user["id"]})
        >>> hooks = {"before": {"find": [resolve_query(own)]}}

    Args:
        resolvers: What `resolve` returns, or mappings of methods to these:
            ``{"find": ..., "remove": ...}``.

    Raises:
        TypeError: An argument is not a resolver.
        ValueError: The name of a method is nearly that of a standard method.
        BadRequest: By the hook: functions raised a ValueError or an error of the interface.
    """
    of_method = resolvers_of("resolve_query", resolvers)

    async def resolve_query_hook(context: HookContext, next: Next | None = None) -> None:
        if chosen := of_method(context.method):
            query = await resolved_query(chosen, context.params.query, context)
            context.params.query = query
        if next is not None:
            await next()

    return annotate_hook(resolve_query_hook, kinds=("before", "around"))


async def resolved_query(
    resolvers: Sequence[Resolver], query: Mapping[str, Any], context: HookContext
) -> dict[str, Any]:
    """Return a query with its properties resolved, also in its branches."""
    resolved = (await run_all(resolvers, [query], context, faults=FROM_CLIENTS))[0]
    await _resolve_branches(resolvers, resolved, context)
    return query_like(query, resolved)


async def _resolve_branches(
    resolvers: Sequence[Resolver], query: dict[str, Any], context: HookContext
) -> None:
    """Resolve present properties in the branches of ``$or`` and ``$and``, in place."""
    for operator in ("$or", "$and"):
        branches = as_list(query[operator]) if operator in query else None
        if branches is None:
            continue
        resolved: list[Any] = []
        for branch in branches:
            if not is_mapping(branch):
                resolved.append(branch)  # the grammar of queries refuses it
                continue
            new = dict(branch)
            for resolver in resolvers:
                present = [name for name in resolver.names if name in new]
                if present:
                    new = await resolver.resolve(new, context, names=present, faults=FROM_CLIENTS)
            await _resolve_branches(resolvers, new, context)
            resolved.append(new)
        query[operator] = resolved


@hook_factory("resolve_data(resolve({...}))")
def resolve_data(*resolvers: Resolvers) -> Hook:
    """Return a hook that resolves the data of create, update, patch and custom methods.

    It is a before or an around hook. In a list, each record is resolved.

    Examples:
        >>> from alula.schema import resolve
        >>> shorten = resolve({"text": lambda text: text[:400]})
        >>> hooks = {"before": {"create": [resolve_data(shorten)]}}

    Args:
        resolvers: What `resolve` returns, or mappings of methods to these:
            ``{"create": ..., "patch": ...}``.

    Raises:
        TypeError: An argument is not a resolver.
        ValueError: A method has no data, or nearly the name of a standard method.
        BadRequest: By the hook: the data is not an object, or functions raised a ValueError or an
            error of the interface.
        MethodNotAllowed: By the hook, for a list if the service does not accept lists. Custom
            methods always do.
    """
    of_method = resolvers_of("resolve_data", resolvers, without=METHODS_WITHOUT_DATA)

    async def resolve_data_hook(context: HookContext, next: Next | None = None) -> None:
        if context.data is not None and (chosen := of_method(context.method)):
            context.data = await resolved_data(chosen, context.data, context)
        if next is not None:
            await next()

    return annotate_hook(resolve_data_hook, kinds=("before", "around"))


async def resolved_data(
    resolvers: Sequence[Resolver],
    data: object,
    context: HookContext,
    required: Collection[str] = (),
) -> object:
    """Return the data of a call with its properties resolved: a record, or a list of records.

    Raises:
        BadRequest: The data is not an object, a property of ``required`` is missing afterwards,
            functions raised a ValueError or an error of the interface, or a client changes a
            property by an update operator.
        MethodNotAllowed: It is a list, and the service does not accept lists.
    """
    is_list = is_array(data)
    if is_list and context.method in STANDARD_METHODS:
        # The adapter refuses the list, too, but functions may take long before, as hashing does.
        check_multi(context)
    records: Sequence[Any] = data if is_array(data) else [data]
    for record in records:
        if not isinstance(record, Mapping):
            raise BadRequest(f"The data of {context.method} must be an object")
    resolved = await run_all(resolvers, records, context, faults=FROM_CLIENTS, required=required)
    if is_list:
        return resolved
    if context.method in _CHANGES and context.params.provider is not None:
        await _resolve_operands(resolvers, resolved[0], context)
    return resolved[0]


async def _resolve_operands(
    resolvers: Sequence[Resolver], data: dict[str, Any], context: HookContext
) -> None:
    """Resolve what the ``$set`` of a client has, in place, where a service takes operators.

    Otherwise it would set a property past the function that hashes it or keeps it from clients.
    Only present properties are resolved: the data itself has those that are always set.

    Raises:
        BadRequest: Another operator changes a property that is resolved.
    """
    names = {name for resolver in resolvers for name in resolver.names}
    _check_whole(names, data)
    for operator in [name for name in data if str(name)[:1] == "$"]:
        operand: Any = data[operator]
        if not is_mapping(operand):
            continue  # the service refuses it
        # `$rename` writes to the property that is its operand.
        written = [*operand, *(operand.values() if operator == "$rename" else ())]
        _check_whole(names, written)
        for resolver in resolvers:
            present = [name for name in resolver.names if name in written]
            if not present:
                continue
            if operator != "$set":
                raise BadRequest(f"{present[0]} can be set, but not changed by {operator}")
            operand = await resolver.resolve(operand, context, names=present, faults=FROM_CLIENTS)
            written = [*operand]
        data[operator] = operand


def _check_whole(names: Collection[str], paths: Iterable[object]) -> None:
    """Refuse paths into properties that are resolved: the function must see the whole value.

    Raises:
        BadRequest: There is one.
    """
    for path in paths:
        name, dot, _ = str(path).partition(".")
        if dot and name in names:
            raise BadRequest(f"{name} can be set as a whole, but not changed by {path}")


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
        resolve_value = partial(_resolved_value, chosen, context, names)
        if is_stream(context.result):
            await change_each(context, partial(resolve_value, item_method(context.method)))
        else:
            context.result = await resolve_value(context.method, context.result)

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

    @cache
    def hidden_of(method: str) -> tuple[frozenset[str], bool]:
        """Return what a method hides, and whether its resolvers do nothing else."""
        chosen = of_method(method)
        hidden = frozenset(name for resolver in chosen for name in resolver.hidden_names)
        return hidden, all(hidden.issuperset(resolver.names) for resolver in chosen)

    async def resolve_external_hook(context: HookContext, next: Next) -> None:
        if not (chosen := of_method(context.method)):
            await next()
            return
        hidden, hides_only = hidden_of(context.method)
        if hidden and closed is None:
            check_hidden(context, hidden)
        names: Collection[str] | None = None

        async def views_of(records: Sequence[Any]) -> list[Any]:
            if hides_only:  # nothing to wait for (an authenticated get: -2 % instructions)
                resolved = [_without(record, hidden, names) for record in records]
            else:
                resolved = await _resolved(chosen, records, context, names)
            views = [public_part(record) for record in resolved]
            if hidden and context.method not in STANDARD_METHODS:
                return [without_properties(view, hidden) for view in views]
            return views

        try:
            names = await _run_with_whole_records(chosen, context, next, closed or ())
        except FrameworkError as error:
            records = records_in_error(error, context)
            redact_error(error, records, await views_of(records))
            raise
        if is_one_record(context):
            [view] = await views_of([context.result])
            redact_record(context, view, resolve_external_hook)
            return
        redact = partial(_redact_result, chosen, context, views_of, resolve_external_hook)
        if is_stream(context.result):
            await change_each(context, partial(_redacted_item, context, redact))
        else:
            await redact(context)

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


def _without(record: Any, hidden: Collection[str], names: Collection[str] | None) -> Any:
    """Return a record without hidden properties, with the selected ones alone if there are any."""
    if not is_mapping(record):
        return record
    return {
        name: value
        for name, value in record.items()
        if name not in hidden and (names is None or name in names)
    }


async def _resolved_value(
    resolvers: Sequence[Resolver],
    context: HookContext,
    names: Collection[str] | None,
    method: str,
    result: Any,
) -> Any:
    """Return the result of a method, or an item of its stream, with its records resolved."""
    records, _ = records_of(result, method)
    resolved = [
        # A record that its service redacted stays redacted.
        record.changed(new) if isinstance(record, RedactedRecord) else new
        for record, new in zip(
            records, await _resolved(resolvers, records, context, names), strict=True
        )
    ]
    _, extras = records_of(result, method, resolved)
    changed, entries = iter(resolved), iter(await _resolved_extras(resolvers, extras, context))
    return map_records(result, method, lambda _: next(changed), lambda _: next(entries))


async def _redacted_item(
    context: HookContext, redact: Callable[[Call], Awaitable[None]], item: object
) -> Any:
    call = ItemCall(context, item)
    await redact(call)
    return call.item


async def _redact_result(
    resolvers: Sequence[Resolver],
    context: HookContext,
    views_of: Callable[[Sequence[Any]], Awaitable[Sequence[Any]]],
    redacted_by: object,
    call: Call,
) -> None:
    """Redact the result of a call; the views are made first, all at the same time.

    Args:
        resolvers: Those of the call.
        context: The context of the call.
        views_of: Returns the views of records.
        redacted_by: As for `redact_result`.
        call: The call, or an item of its stream.
    """
    result, dispatch = call.result, call.dispatch
    views: list[Any] = []
    entries: list[list[Any]] = []
    # What clients get comes first, if another hook has set that.
    for each in [result] if dispatch is UNSET else [dispatch, result]:
        records, _ = records_of(each, call.method)
        # What another service hides is hidden from the functions of this one, too.
        new = [
            record.public if isinstance(record, RedactedRecord) else record
            for record in records
            if not is_redacted(record, redacted_by)
        ]
        made = await views_of(new)
        views += made
        all_views = iter(made)
        shown = [
            record.public if is_redacted(record, redacted_by) else next(all_views)
            for record in records
        ]
        _, extras = records_of(each, call.method, shown)
        entries.append([*map(public_part, await _resolved_extras(resolvers, extras, context))])
    view, view_extras = iter(views), chain(entries[0], entries[-1])
    redact_result(call, lambda _: next(view), lambda _: next(view_extras), redacted_by)


async def _resolved_extras(
    resolvers: Sequence[Resolver], extras: Sequence[Mapping[str, Any]], context: HookContext
) -> list[Any]:
    """Resolve the further entries of pages that may be properties of a record; add none."""
    return [
        (await run_all(resolvers, [entries], context, names=entries.keys()))[0]
        for entries in extras
    ]


def query_like(query: Mapping[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    """Return a changed query that counts as checked if the original one does."""
    if isinstance(query, ValidatedQuery):
        return ValidatedQuery(changed, query.operators, query.filters)
    return changed


async def run_all(
    resolvers: Sequence[Resolver], records: Sequence[Any], context: HookContext, **options: Any
) -> list[Any]:
    """Return the records after all resolvers, one after the other."""
    resolved = list(records)
    for resolver in resolvers:
        resolved = await resolver.resolve_many(resolved, context, **options)
    return resolved


def by_method(resolvers: Resolvers, methods: Collection[str]) -> Mapping[str, Resolver]:
    """Return resolvers by method; a single resolver is for all of ``methods``."""
    if isinstance(resolvers, Resolver):
        return {method: resolvers for method in methods}  # noqa: C420  # typed by Resolver
    return resolvers


def resolvers_of(
    hook: str, resolvers: Sequence[Resolvers], *, without: Collection[str] = ()
) -> Callable[[str], tuple[Resolver, ...]]:
    """Return a function that returns the resolvers for a method.

    Args:
        hook: The hook or the argument that they were given to, for messages.
        resolvers: Resolvers, and mappings of methods to these.
        without: Methods that cannot have one.

    Raises:
        TypeError: An argument is neither, or there is none at all.
        ValueError: A method is among ``without``, or has nearly the name of a standard method: its
            resolver would never run.
    """
    if not resolvers:
        raise TypeError(f"{hook} needs a resolver: {hook}(resolve({{...}}))")
    for given in resolvers:
        if isinstance(given, Resolver):
            continue
        if not isinstance(given, Mapping) or not all(
            isinstance(resolver, Resolver) for resolver in given.values()
        ):
            raise TypeError(
                f"{hook} takes what resolve({{...}}) returns, or a mapping of methods to these"
                f' such as {{"create": resolve({{...}})}}, not {given!r}'
            )
        for name in given:
            if not isinstance(name, str):
                raise TypeError(f"{hook}: {name!r} is not the name of a method")
            if name in without:
                raise ValueError(f"{hook}: {name} has no data; use create, update or patch")
            if name not in STANDARD_METHODS:
                hint = did_you_mean(name, STANDARD_METHODS, 0.75)
                if hint:
                    raise ValueError(f"{hook}: there is no method {name!r}{hint}")

    # Names of methods are those that are registered, so that the cache stays small.
    @cache
    def of_method(method: str) -> tuple[Resolver, ...]:
        chosen = (
            given if isinstance(given, Resolver) else given.get(method) for given in resolvers
        )
        return tuple(resolver for resolver in chosen if resolver is not None)

    return of_method
