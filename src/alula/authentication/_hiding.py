"""The hook that keeps fields of records from leaving, with answers and by the way one asks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from weakref import WeakSet

from alula._context import HookContext
from alula.authentication._entities import check_property, without
from alula.errors import BadRequest
from alula.external import GuardedRecord, map_records, outside_of, without_at_any_depth
from alula.hook_notes import maker, note
from alula.types import STANDARD_METHODS, UNSET

__all__ = ["protect"]


@maker('protect("password")')
def protect(*fields: str) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return a hook that keeps fields of a service's records from leaving.

    Nobody outside can find their values out, either: a query from outside that mentions such a
    field is a 400, whatever it asks of it, at any depth of ``$or`` and the like. ``$select`` may
    name it; the record comes without. Internal calls get whole records. These are bound to what
    may leave of them, so that nothing hidden leaves with what they become a part of. In results of
    custom methods the fields are left out at any depth, since records may be anywhere in these.

    A hook that itself adds such a field to the query, to keep callers to their own records, is a
    before hook, or an around hook that is registered after this one.

    Args:
        fields: Names of properties.

    Raises:
        TypeError: No field is named.
        ValueError: A field lies inside another property.
        BadRequest: By the hook, for such a query.
        RuntimeError: By the hook, where it is neither an after nor an around hook.
    """
    hidden = _names_of(fields)

    checked: WeakSet[HookContext] = WeakSet()

    async def check(context: HookContext, next: Any) -> None:
        if context.params.get("provider") is not None:
            _check_asked(context, hidden)
            checked.add(context)
        await next()

    async def hide(context: HookContext, next: Any = None) -> None:
        external = context.params.get("provider") is not None
        if next is None and context.type != "after":
            raise RuntimeError("protect(...) is an after or an around hook")
        if external and context not in checked:  # as an after hook it was, unless it is wrapped
            _check_asked(context, hidden)
        if next is not None:
            await next()
        result, method = context.result, context.method
        visible = result if context.dispatch is UNSET else context.dispatch
        shown = shown_of_record if method in STANDARD_METHODS else shown_of_anything
        context.dispatch = map_records(visible, method, shown, shown)
        if external:
            context.result = context.dispatch  # events too are for those outside
            return

        def guarded(record: Any) -> Any:
            if not isinstance(record, Mapping):
                return record
            return GuardedRecord(record, shown(record), getattr(record, "by", None))

        context.result = map_records(result, method, guarded, shown, whole=True)

    def shown_of_record(record: Any) -> Any:
        return without(outside_of(record), hidden)

    def shown_of_anything(result: Any) -> Any:
        return without_at_any_depth(outside_of(result), hidden)

    return note(hide, kinds=("after", "around"), around=check)


def _names_of(fields: tuple[str, ...]) -> frozenset[str]:
    if not fields:
        raise TypeError("protect() needs the names of the fields to hide: protect('password')")
    for field in fields:
        check_property(field, f"protect({field!r})")
    return frozenset(fields)


def _check_asked(context: HookContext, hidden: frozenset[str]) -> None:
    """Refuse a call whose answers would show a hidden field by and by.

    Raises:
        BadRequest: Its query mentions one, or its data copies one with an operator.
    """
    query, data = context.params["query"], context.data
    name = _mention_in(query, hidden)
    if name is None and isinstance(data, Mapping) and isinstance(data.get("$rename"), Mapping):
        name = _mention_in(data["$rename"], hidden)
    if name is not None:
        raise BadRequest(
            f"Invalid query: {name} cannot be asked for, since it is hidden; remove it from the"
            " query"
        )


def _mention_in(query: Any, hidden: frozenset[str], *, names: bool = False) -> str | None:
    """Return the first name of a hidden field in a query, None where there is none.

    Args:
        query: A query, or what stands in it below a name that begins with ``$``.
        hidden: The fields.
        names: Whether texts are names of fields here, too.
    """
    waiting = [(query, names)]  # a loop and no recursion: the depth is what somebody sent
    while waiting:
        value, names = waiting.pop()
        if isinstance(value, Mapping):
            for name, inner in value.items():
                text = str(name)
                if text.partition(".")[0] in hidden:
                    return text
                if text[:1] == "$":
                    if text != "$select":
                        waiting.append((inner, text == "$sort"))
                elif names or text.isdecimal():  # an object with index keys stands for a list
                    waiting.append((inner, names))
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += ((each, names) for each in value)
        elif names and isinstance(value, str) and value.lstrip("+-").partition(".")[0] in hidden:
            return value
    return None
