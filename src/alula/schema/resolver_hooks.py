"""Hooks that run resolvers on what comes in: the query and the data of a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from alula.context import HookContext
from alula.errors import BadRequest, FrameworkError, MethodNotAllowed
from alula.query.values import as_list
from alula.schema.call_query import query_like, query_of, set_query
from alula.schema.resolver import Resolver
from alula.types import STANDARD_METHODS

__all__ = ["Hook", "check_resolvers", "resolve_data", "resolve_query", "run_all"]

Hook: TypeAlias = Callable[..., Awaitable[None]]

FROM_OUTSIDE: Final = (FrameworkError, ValueError)
"""What a function raises about a value that was sent: a 400 then, and no failure of the server."""


def resolve_query(*resolvers: Resolver) -> Hook:
    """Return a hook that resolves the query: an around or a before hook.

    Functions get the query as their record, and below ``$or`` and ``$and`` each of its parts; there
    only properties that are present are resolved, so that one which is always set (to keep callers
    to their own records) is set once.

    Raises:
        TypeError: Something is no resolver.
        BadRequest: By the hook: functions raised a ValueError or an error of the interface.
    """
    check_resolvers("resolve_query", resolvers)

    async def resolve_query_hook(context: HookContext, next: Any = None) -> None:
        query = query_of(context)
        resolved = (await run_all(resolvers, [query], context, faults=FROM_OUTSIDE))[0]
        await _resolve_branches(resolvers, resolved, context)
        set_query(context, query_like(query, resolved))
        if next is not None:
            await next()

    return resolve_query_hook


def resolve_data(*resolvers: Resolver) -> Hook:
    """Return a hook that resolves the data of create, update, patch and custom methods.

    It is a before or an around hook; with a list, every record in it is resolved.

    Raises:
        TypeError: Something is no resolver.
        BadRequest: By the hook: the data is no object, or functions raised a ValueError or an
            error of the interface.
        MethodNotAllowed: By the hook, for a list where the service takes none. A method of its
            own may always get one.
    """
    check_resolvers("resolve_data", resolvers)

    async def resolve_data_hook(context: HookContext, next: Any = None) -> None:
        data = context.data
        if data is not None:
            several = isinstance(data, list | tuple)
            if several:
                _check_several(context)
            records = data if several else [data]
            for record in records:
                if not isinstance(record, Mapping):
                    raise BadRequest(f"The data of {context.method} must be an object")
            resolved = await run_all(resolvers, records, context, faults=FROM_OUTSIDE)
            context.data = resolved if several else resolved[0]
        if next is not None:
            await next()

    return resolve_data_hook


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


def check_resolvers(hook: str, resolvers: Sequence[Any]) -> None:
    """Raise unless all are resolvers.

    Raises:
        TypeError: One is not, or there is none.
    """
    if not resolvers:
        raise TypeError(f"{hook} needs a resolver: {hook}(resolve({{...}}))")
    for resolver in resolvers:
        if not isinstance(resolver, Resolver):
            raise TypeError(f"{hook} takes what resolve({{...}}) returns, not {resolver!r}")
