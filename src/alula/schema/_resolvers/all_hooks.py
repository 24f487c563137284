"""All resolvers of a service in one hook."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from alula._context import HookContext
from alula.hooks import hook_factory
from alula.schema._resolvers.incoming_hooks import Hook, Resolvers, resolve_data, resolve_query
from alula.schema._resolvers.resolver import Resolver
from alula.schema._resolvers.result_hooks import resolve_external, resolve_result

__all__ = ["resolve_all"]

DATA_METHODS: Final = ("create", "update", "patch")


@hook_factory("resolve_all(...)")
def resolve_all(
    *,
    query: Resolvers | None = None,
    data: Resolvers | None = None,
    result: Resolvers | None = None,
    external: Resolvers | None = None,
) -> Hook:
    """Return one around hook that runs resolvers in the order in which they belong.

    It runs where it is registered: register `authenticate` in front of it.

    Args:
        query: As for `resolve_query`.
        data: As for `resolve_data`; one resolver is for create, update and patch.
        result: As for `resolve_result`.
        external: As for `resolve_external`.

    Raises:
        TypeError: Something is not a resolver, or there is none at all.
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
        if isinstance(data, Resolver):
            data = {name: data for name in DATA_METHODS}  # noqa: C420  # typed by str
        hooks.append(resolve_data(data))
    if not hooks:
        raise TypeError("resolve_all needs at least one of query, data, result and external")

    async def resolve_all_hook(context: HookContext, next: Any) -> None:
        inner = next
        for hook in reversed(hooks):
            inner = partial(hook, context, inner)
        await inner()

    return resolve_all_hook
