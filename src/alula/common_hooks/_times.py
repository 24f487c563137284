"""When records were created, updated and deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from alula._context import HookContext, Params
from alula._service_object import check_multi, multi_check
from alula.common_hooks._call import (
    change_data,
    check_properties,
    has_operators,
    keep_stored,
    narrow,
    own_service,
    split_changes,
    write_kept,
)
from alula.hooks import Hook, Next, annotate_hook, hook_factory
from alula.outgoing._text import now_as_in_json
from alula.types import METHODS_WITHOUT_DATA, UNSET

__all__ = ["soft_delete", "timestamps", "unix_milliseconds", "utc_now"]

_KINDS: Final = ("before", "around")
_CHANGES: Final = frozenset({"update", "patch"})
_HIDING: Final = frozenset({"find", "get", "update", "patch", "remove"})

# `service.find(with_deleted=True)` of the application's own code.
Params.declare("with_deleted")


def unix_milliseconds() -> int:
    """Return the current time as milliseconds since 1970 in UTC, as ``Date.now()`` does."""
    return int(time.time() * 1000)


def utc_now() -> datetime:
    """Return the current time as a datetime in UTC, for stores that have a type for it.

    It has milliseconds, as JSON has, so that clients can find records by the times they receive.
    """
    return now_as_in_json()


@hook_factory("timestamps()")
def timestamps(
    created: str | None = "createdAt",
    updated: str | None = "updatedAt",
    *,
    now: Callable[[], object] = unix_milliseconds,
) -> Hook:
    """Return a hook that sets when a record was created, and when it was last changed.

    The server's clock sets these properties in every call, also in calls of the application. What
    the data says about them is ignored. All records of a list get the same time. An `update` keeps
    the stored time of creation, which it reads first and makes a condition of the write.

    Register it as an around hook where a schema requires the properties: its checks run behind all
    around hooks.

    Args:
        created: The property for the time of creation; None for none.
        updated: The property for the time of the last change; None for none.
        now: Returns the value for the current time: `unix_milliseconds`, `utc_now`, or a function
            of your own.

    Raises:
        TypeError: There is no property, a name is not a string, or ``now`` is not a function.
        ValueError: A name is not that of a property.
        BadRequest: By the hook: the data is not an object.
        Conflict: By the hook: other calls change the time of creation during an `update`.

    Examples:
        >>> import asyncio
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("notes", MemoryService())
        >>> notes = app.service("notes").hooks(around=[timestamps(now=lambda: 1234)])
        >>> asyncio.run(notes.create({"text": "Hello", "createdAt": 0}))
        {'text': 'Hello', 'createdAt': 1234, 'updatedAt': 1234, 'id': 0}
    """
    names = tuple(name for name in (created, updated) if name is not None)
    check_properties("timestamps", *names)
    _check_clock("timestamps", now)

    async def stamp(context: HookContext, next: Next | None = None) -> None:
        method = context.method
        if method == "create":
            times = dict.fromkeys(names, now())
            change_data(context, lambda data: {**data, **times})
        elif method == "patch":
            moment = now()
            times = {} if updated is None else {updated: moment}
            change_data(context, lambda data: {**split_changes(data, names)[0], **times})
        elif method == "update":
            stamp_update(context)
        if next is not None:
            await next()

    def stamp_update(context: HookContext) -> None:
        moment = now()
        times = {} if updated is None else {updated: moment}
        change_data(context, lambda data: split_changes(data, names)[0])
        if created is not None:
            keep_stored(context, (created,))
        data = context.data
        if has_operators(data):
            given = data.get("$set", {})
            if isinstance(given, Mapping):  # else the adapter refuses it
                context.data = {**data, "$set": {**given, **times}}
        elif created is None:
            context.data = {**data, **times}
        else:  # for schemas, and for an update that creates the record
            context.data = {**data, created: moment, **times}

    return annotate_hook(
        stamp,
        kinds=_KINDS,
        sets=names,
        ignores=METHODS_WITHOUT_DATA,
        completes={"update": write_kept},
    )


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
    _check_clock("soft_delete", now)

    def hide(context: HookContext, next: Next | None = None) -> object:
        method, params = context.method, context.params
        if params.provider is not None and (method == "create" or method in _CHANGES):
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


def _check_clock(hook: str, now: object) -> None:
    if not callable(now):
        raise TypeError(
            f"{hook}: now is {now!r}; give a function that returns the time, without brackets:"
            f" {hook}(now=utc_now)"
        )
