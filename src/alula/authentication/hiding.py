"""The hook that keeps fields of records from leaving, with answers and by the way one asks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from alula.authentication.entity import check_property, without
from alula.context import HookContext
from alula.errors import BadRequest
from alula.external import GuardedRecord, map_records, outside_of
from alula.hook_notes import note
from alula.types import UNSET

__all__ = ["protect"]

_WHOLE: Final = frozenset({"$in", "$nin", "$ne"})  # operators that compare whole values


def protect(*fields: str) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return a hook that keeps fields of a service's records from leaving.

    As an around hook it also refuses queries from outside that would find a value out step by step:
    that sort by such a field, or compare it other than as a whole. Internal calls get whole
    records. These are bound to what may leave of them, so that nothing
    hidden leaves with what they become a part of.

    Args:
        fields: Names of properties.

    Raises:
        TypeError: No field is named.
        ValueError: A field lies inside another property.
        BadRequest: By the hook, for such a query.
        RuntimeError: By the hook, where it is neither an after nor an around hook.
    """
    hidden = frozenset(fields)
    if not hidden:
        raise TypeError("protect() needs the names of the fields to hide: protect('password')")
    for field in fields:
        check_property(field, f"protect({field!r})")

    async def hide(context: HookContext, next: Any = None) -> None:
        external = context.params.get("provider") is not None
        if next is not None:
            if external:
                _check_query(context.params["query"], hidden)
            await next()
        elif context.type != "after":
            raise RuntimeError("protect(...) is an after or an around hook")
        result = context.result
        visible = result if context.dispatch is UNSET else context.dispatch
        context.dispatch = map_records(visible, context.method, shown, shown)
        if external:
            context.result = context.dispatch  # events too are for those outside
        else:
            context.result = map_records(result, context.method, guarded, shown, whole=True)

    def shown(record: Any) -> Any:
        return without(outside_of(record), hidden)

    def guarded(record: Any) -> Any:
        if not isinstance(record, Mapping):
            return record
        return GuardedRecord(record, shown(record), getattr(record, "by", None))

    return note(hide, kinds=("after", "around"))


def _check_query(query: Mapping[str, Any], hidden: frozenset[str]) -> None:
    """Refuse a query whose answers show a hidden field by and by."""
    for name, value in query.items():
        if name == "$sort":
            asked = set(map(_field, value)) if isinstance(value, Mapping) else set()
        elif name[:1] == "$":  # $or, $and: criteria within it
            for part in value if isinstance(value, list) else _values(value):
                if isinstance(part, Mapping):
                    _check_query(part, hidden)
            continue
        else:
            asked = {_field(name)} if _values(value) and not value.keys() <= _WHOLE else set()
        if asked & hidden:
            raise BadRequest(f"Invalid query: {name} can not be asked for in this way")


def _field(name: str) -> str:
    return name.split(".", 1)[0]


def _values(value: Any) -> list[Any]:
    """Return the values of a mapping, nothing for anything else."""
    return list(value.values()) if isinstance(value, Mapping) else []
