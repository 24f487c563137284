"""Hooks that run resolvers on what comes in: the query and the data of a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, TypeAlias

from alula._context import HookContext
from alula.errors import BadRequest, FrameworkError, MethodNotAllowed
from alula.hooks import annotate_hook, hook_factory
from alula.query._values import as_list
from alula.schema._call_query import query_like, query_of, set_query
from alula.schema._resolvers.resolver import Resolver
from alula.types import METHODS_WITHOUT_DATA, STANDARD_METHODS

__all__ = [
    "Hook",
    "Resolvers",
    "check_methods",
    "resolve_data",
    "resolve_query",
    "resolved_data",
    "resolved_query",
    "resolvers_of",
    "run_all",
]

Hook: TypeAlias = Callable[..., Awaitable[None]]
Resolvers: TypeAlias = Resolver | Mapping[str, Resolver]
"""One resolver for all methods, or one for each by the name of the method."""

FROM_OUTSIDE: Final = (FrameworkError, ValueError)
"""What a function raises about a value that was sent: a 400 then, and no failure of the server."""


@hook_factory("resolve_query(resolve({...}))")
def resolve_query(*resolvers: Resolvers) -> Hook:
    """Return a hook that resolves the query: an around or a before hook.

    Functions get the query as their record, and below ``$or`` and ``$and`` each of its parts; there
    only properties that are present are resolved, so that one which is always set (to keep callers
    to their own records) is set once.

    Args:
        resolvers: What `resolve` returns, or mappings of methods to these:
            ``{"find": ..., "remove": ...}``.

    Raises:
        TypeError: Something is not a resolver.
        ValueError: A method has nearly the name of a standard method.
        BadRequest: By the hook: functions raised a ValueError or an error of the interface.
    """
    of_method = resolvers_of("resolve_query", resolvers)

    async def resolve_query_hook(context: HookContext, next: Any = None) -> None:
        if chosen := of_method(context.method):
            set_query(context, await resolved_query(chosen, query_of(context), context))
        if next is not None:
            await next()

    return annotate_hook(resolve_query_hook, kinds=("before", "around"))


async def resolved_query(
    resolvers: Sequence[Resolver], query: Mapping[str, Any], context: HookContext
) -> dict[str, Any]:
    """Return a query with its properties resolved, its branches included."""
    resolved = (await run_all(resolvers, [query], context, faults=FROM_OUTSIDE))[0]
    await _resolve_branches(resolvers, resolved, context)
    return query_like(query, resolved)


@hook_factory("resolve_data(resolve({...}))")
def resolve_data(*resolvers: Resolvers) -> Hook:
    """Return a hook that resolves the data of create, update, patch and custom methods.

    It is a before or an around hook; with a list, every record in it is resolved.

    Args:
        resolvers: What `resolve` returns, or mappings of methods to these:
            ``{"create": ..., "patch": ...}``.

    Raises:
        TypeError: Something is not a resolver.
        ValueError: A method has no data, or nearly the name of a standard method.
        BadRequest: By the hook: the data is not an object, or functions raised a ValueError or an
            error of the interface.
        MethodNotAllowed: By the hook, for a list where the service takes none. A method of its
            own may always get one.
    """
    of_method = resolvers_of("resolve_data", resolvers, without=METHODS_WITHOUT_DATA)

    async def resolve_data_hook(context: HookContext, next: Any = None) -> None:
        if context.data is not None and (chosen := of_method(context.method)):
            context.data = await resolved_data(chosen, context.data, context)
        if next is not None:
            await next()

    return annotate_hook(resolve_data_hook, kinds=("before", "around"))


async def resolved_data(
    resolvers: Sequence[Resolver],
    data: Any,
    context: HookContext,
    required: Collection[str] = (),
) -> Any:
    """Return the data of a call with its properties resolved: a record, or a list of records.

    Raises:
        BadRequest: The data is not an object, a property of ``required`` is missing afterwards, or
            functions raised a ValueError or an error of the interface.
        MethodNotAllowed: It is a list, and the service takes none.
    """
    several = isinstance(data, list | tuple)
    if several:
        _check_several(context)
    records = data if several else [data]
    for record in records:
        if not isinstance(record, Mapping):
            raise BadRequest(f"The data of {context.method} must be an object")
    resolved = await run_all(resolvers, records, context, faults=FROM_OUTSIDE, required=required)
    return resolved if several else resolved[0]


def _check_several(context: HookContext) -> None:
    """Refuse a list that the service would refuse: its functions may take long, as hashing does."""
    options_for: Any = getattr(context.service.service, "options_for", None)
    standard = context.method in STANDARD_METHODS
    if standard and options_for and context.method not in options_for(context.params).multi:
        raise MethodNotAllowed(f"Can not {context.method} multiple entries")


async def _resolve_branches(
    resolvers: Sequence[Resolver], query: dict[str, Any], context: HookContext
) -> None:
    """Resolve what is present in the parts of ``$or`` and ``$and``, in place."""
    for name in ("$or", "$and"):
        branches = as_list(query[name]) if name in query else None
        if branches is not None:
            query[name] = [await _branch(resolvers, branch, context) for branch in branches]


async def _branch(resolvers: Sequence[Resolver], branch: Any, context: HookContext) -> Any:
    if not isinstance(branch, Mapping):
        return branch  # the reader of the query says what is wrong with it
    resolved = dict(branch)
    for resolver in resolvers:
        present = [name for name in resolver.names if name in resolved]
        if present:
            resolved = await resolver.resolve(resolved, context, names=present, faults=FROM_OUTSIDE)
    await _resolve_branches(resolvers, resolved, context)
    return resolved


async def run_all(
    resolvers: Sequence[Resolver], records: Sequence[Any], context: HookContext, **options: Any
) -> list[Any]:
    """Return the records after one resolver after the other."""
    resolved = list(records)
    for resolver in resolvers:
        resolved = await resolver.resolve_many(resolved, context, **options)
    return resolved


def resolvers_of(
    hook: str, resolvers: Sequence[Any], *, without: Collection[str] = ()
) -> Callable[[str], tuple[Resolver, ...]]:
    """Return what gives the resolvers for a method.

    Args:
        hook: The hook or the argument that they were given to, for messages.
        resolvers: Resolvers, and mappings of methods to these.
        without: Methods for which there can be none.

    Raises:
        TypeError: Something is neither, or there is nothing at all.
        ValueError: A method is among ``without``, or has nearly the name of a standard method.
    """
    if not resolvers:
        raise TypeError(f"{hook} needs a resolver: {hook}(resolve({{...}}))")
    for each in resolvers:
        if isinstance(each, Resolver):
            continue
        if not isinstance(each, Mapping) or not all(
            isinstance(resolver, Resolver) for resolver in each.values()
        ):
            raise TypeError(
                f"{hook} takes what resolve({{...}}) returns, or a mapping of methods to these"
                f' such as {{"create": resolve({{...}})}}, not {each!r}'
            )
        check_methods(hook, each, without)

    @cache
    def of_method(method: str) -> tuple[Resolver, ...]:
        found = (each if isinstance(each, Resolver) else each.get(method) for each in resolvers)
        return tuple(resolver for resolver in found if resolver is not None)

    return of_method


def check_methods(hook: str, names: Collection[Any], without: Collection[str] = ()) -> None:
    """Refuse names of methods that would never be called: a hook for them would do nothing.

    Raises:
        TypeError: One is not a string.
        ValueError: One is among ``without``, or nearly the name of a standard method.
    """
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{hook}: {name!r} is not the name of a method")
        if name in without:
            raise ValueError(f"{hook}: {name} has no data; use create, update or patch")
        near = get_close_matches(name, STANDARD_METHODS, 1, 0.75)
        if near and name not in STANDARD_METHODS:
            raise ValueError(f"{hook}: there is no method {name!r}; did you mean {near[0]!r}?")
