"""`soft_delete`: removed records stay, marked, and nobody sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from alula._context import HookContext, Params
from alula._service_object import check_multi, multi_check
from alula.common_hooks._call import (
    change_data,
    check_properties,
    narrow,
    own_service,
    split_changes,
)
from alula.common_hooks._timestamps import check_clock, unix_milliseconds
from alula.hooks import Hook, Next, annotate_hook, hook_factory
from alula.types import UNSET

__all__ = ["soft_delete"]

_KINDS: Final = ("before", "around")
_CHANGES: Final = frozenset({"create", "update", "patch"})
_HIDING: Final = frozenset({"find", "get", "update", "patch", "remove"})

# `service.find(with_deleted=True)` of the application's own code.
Params.declare("with_deleted")


@hook_factory("soft_delete()")
def soft_delete(field: str = "deletedAt", *, now: Callable[[], object] = unix_milliseconds) -> Hook:
    """Return a hook by which `remove` marks records as deleted, and other methods do not see them.

    Deleted records are a `NotFound`. The mark is a condition of each query, so of two concurrent
    removals one succeeds. `remove` returns the marked record, and emits ``removed``. Clients cannot
    set the mark. Register the hook for all methods: ``before=[soft_delete()]``.

    Calls of the application see deleted records with ``with_deleted=True``. Such a `patch` that
    sets the property to None restores a record; such a `remove` removes for good.

    Args:
        field: The property for the time of the removal. Other records have None there, or none.
        now: As for `timestamps`.

    Raises:
        TypeError: The name is not a string, or ``now`` is not a function.
        ValueError: The name is not that of a property.
        RuntimeError: By the hook: the service has no `patch`, or belongs to another application.

    Examples:
        >>> import asyncio
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("notes", MemoryService([{"id": 1}]))
        >>> notes = app.service("notes").hooks(before=[soft_delete(now=lambda: 1234)])
        >>> asyncio.run(notes.remove(1))
        {'id': 1, 'deletedAt': 1234}
        >>> asyncio.run(notes.find())
        []
        >>> asyncio.run(notes.find(with_deleted=True))
        [{'id': 1, 'deletedAt': 1234}]
    """
    check_properties("soft_delete", field)
    check_clock("soft_delete", now)

    def hide(context: HookContext, next: Next | None = None) -> object:
        method, params = context.method, context.params
        if params.provider is not None and method in _CHANGES:
            change_data(context, unmarked)
        if method in _HIDING and params.get("with_deleted") is not True:
            narrow(context, field, None)
        return None if next is None else next()

    def unmarked(data: Mapping[str, Any]) -> Mapping[str, Any]:
        return split_changes(data, (field,))[0]

    async def mark(context: HookContext, next: Next) -> None:
        params = context.params
        # A hook may have set the result already.
        if params.get("with_deleted") is True or context.result is not UNSET:
            await next()
            return
        service = own_service(context, "soft_delete")
        patch: Any = getattr(service, "patch", None)
        if not callable(patch):
            raise RuntimeError(f"soft_delete needs a `patch` of {context.service!r}; it has none")
        if context.id is None:
            check_multi(context)
        params = params.copy()
        if multi_check(service) is not None:  # whose `remove` may have several records is checked
            params.adapter = {**(params.adapter or {}), "multi": ["patch"]}
        result: Any = patch(context.id, {field: now()}, params)
        context.result = await result if hasattr(result, "__await__") else result

    return annotate_hook(hide, kinds=_KINDS, innermost={"remove": mark})
