"""`timestamps`: when records were created, and last changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from alula._context import HookContext
from alula.common_hooks._call import (
    change_data,
    check_properties,
    has_operators,
    keep_stored,
    split_changes,
    write_kept,
)
from alula.hooks import Hook, Next, annotate_hook, hook_factory
from alula.outgoing._text import now_as_in_json
from alula.types import METHODS_WITHOUT_DATA

__all__ = ["check_clock", "timestamps", "unix_milliseconds", "utc_now"]

_KINDS: Final = ("before", "around")


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

    Register it as an around hook where a schema requires the properties: the checks of the schema
    run after all around hooks have begun.

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
    check_clock("timestamps", now)

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


def check_clock(hook: str, now: object) -> None:
    """Refuse what is not a function that returns the time.

    Raises:
        TypeError: It is not.
    """
    if not callable(now):
        raise TypeError(
            f"{hook}: now is {now!r}; give a function that returns the time, without brackets:"
            f" {hook}(now=utc_now)"
        )
