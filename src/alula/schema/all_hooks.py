"""All resolvers of a service in one hook."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from alula.context import HookContext
from alula.schema.resolver import Resolver
from alula.schema.resolver_hooks import Hook, check_resolvers, resolve_data, resolve_query
from alula.schema.result_hooks import resolve_external, resolve_result

__all__ = ["resolve_all"]

DATA_METHODS: Final = ("create", "update", "patch")


def resolve_all(
    *,
    query: Resolver | None = None,
    data: Resolver | Mapping[str, Resolver] | None = None,
    result: Resolver | None = None,
    external: Resolver | None = None,
) -> Hook:
    """Return one around hook that runs resolvers in the order in which they belong.

    Args:
        query: As for `resolve_query`.
        data: As for `resolve_data`: one for create, update and patch, or one for each by name.
        result: As for `resolve_result`.
        external: As for `resolve_external`.

    Raises:
        TypeError: Something is no resolver, or there is none at all.
        ValueError: ``data`` names a method without data.
    """
    hooks: list[Hook] = []
    if external is not None:
        hooks.append(resolve_external(external))
    if result is not None:
        hooks.append(resolve_result(result))
    if query is not None:
        hooks.append(resolve_query(query))
    if data is not None:
        hooks.append(_by_method(data))
    if not hooks:
        raise TypeError("resolve_all needs at least one of query, data, result and external")

    async def resolve_all_hook(context: HookContext, next: Any) -> None:
        inner = next
        for hook in reversed(hooks):
            inner = partial(hook, context, inner)
        await inner()

    return resolve_all_hook


def _by_method(data: Resolver | Mapping[str, Resolver]) -> Hook:
    """Return a hook that resolves data by the resolver of the method."""
    by_name = dict(data) if isinstance(data, Mapping) else dict.fromkeys(DATA_METHODS, data)
    for name, resolver in by_name.items():
        if name not in DATA_METHODS:
            raise ValueError(f"resolve_all: data has {name!r}; it may have create, update, patch")
        check_resolvers("resolve_all", [resolver])
    hooks = {name: resolve_data(resolver) for name, resolver in by_name.items()}

    async def resolve_data_by_method(context: HookContext, next: Any) -> None:
        hook = hooks.get(context.method)
        await (next() if hook is None else hook(context, next))

    return resolve_data_by_method
