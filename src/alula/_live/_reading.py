"""One read of a list, and the last row of its page."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from alula._context import HookContext
from alula._json_encoding import dumps
from alula._live._notices import id_of
from alula._service import ServiceHandle, owning_handle
from alula.errors import MethodNotAllowed
from alula.hooks import Next
from alula.outgoing import public_part
from alula.types import UNSET, is_list, is_mapping

__all__ = ["LastRow", "Reading", "is_behind", "skips"]

_NUMBERS: Final = frozenset({int, float})


class LastRow(NamedTuple):
    """The last row of a full page.

    Attributes:
        order: The fields by which the page is sorted, with 1 or -1.
        values: Those of the row, in that order.
        has_texts: Whether the adapter sorts texts by their code points, as Python does.
    """

    order: Sequence[tuple[str, int]]
    values: Sequence[object]
    has_texts: bool


class Reading:
    """One read of a list. As ``params.live``, it notes what happens at the method of `find`.

    Args:
        handle: The service.

    Attributes:
        seen: What hooks have looked at besides the attributes of the caller.
        context: That of the call.
        query: The query behind the hooks, None until the method is reached.
        beyond: Keys of records that the method returned and that hooks have dropped.
        last_row: That of the page as the method returned it, if it is full and this is known.
        expires: When the token of the caller expires, None for never.
        limits: ``limit`` and ``skip`` of the page, where the result is one.
        rows: The records behind the hooks, by their ids, without what is hidden.
        digests: Their digests.
        odd_ids: Ids that cannot be keys, by what stands for them.
    """

    def __init__(self, handle: ServiceHandle) -> None:
        self._owner = owning_handle(handle)
        self._is_direct = self._owner is handle
        self.id_name: str = getattr(self._owner.service, "id", "id")
        self.seen: set[str] = set()
        self.context: HookContext | None = None
        self.query: Mapping[str, Any] | None = None
        self.beyond: frozenset[str] = frozenset()
        self.last_row: LastRow | None = None
        self.limits: Mapping[str, Any] = {}
        self.expires: float | None = None
        self.rows: dict[Hashable, Any] = {}
        self.digests: dict[Hashable, bytes] = {}
        self.odd_ids: dict[Hashable, object] = {}
        self._returned: frozenset[str] = frozenset()
        self._is_inside = False

    def is_of(self, context: HookContext) -> bool:
        """Tell whether a call is this read, and not one of a hook or for related records."""
        if self._is_inside or context.service is not self._owner:
            return False
        return context is self.context or not self._is_direct

    async def note(self, context: HookContext, next: Next) -> None:
        """Run the method of `find`, and note its query and its page."""
        query = context.params.query
        sort: object = query.get("$sort")
        if sort is None:
            query["$sort"] = {self.id_name: 1}
        elif is_mapping(sort) and self.id_name not in sort:
            query["$sort"] = {**sort, self.id_name: 1}
        if context.result is not UNSET:
            return
        self.query = {**query}
        authentication: object = context.params.get("authentication")
        payload = authentication.get("payload") if is_mapping(authentication) else None
        self.expires = payload.get("exp") if is_mapping(payload) else None
        self._is_inside = True
        try:
            await next()
        finally:
            self._is_inside = False
        # Also those that hooks drop: when they leave the page, others may move up.
        rows = rows_of(context.result)
        self._returned = frozenset(str(id_of(row, self.id_name)) for row in rows)
        sorts_texts = bool(getattr(context.service.service, "sorts_by_code_points", False))
        self.last_row = _last_row(context.result, self.query, sorts_texts)

    def take(self, result: object) -> None:
        """Note what `find` returned to the caller.

        Raises:
            MethodNotAllowed: It is not a list of records with ids.
            TypeError: A record has no JSON form.
        """
        if is_mapping(result):
            self.limits = {name: result[name] for name in ("limit", "skip") if name in result}
        for row in rows_of(result):
            record_id = id_of(row, self.id_name)
            if record_id is None:
                raise MethodNotAllowed(
                    f"`find` returns records without {self.id_name!r}, so they cannot be a list"
                )
            shown = public_part(row)
            key = record_id
            if not isinstance(key, Hashable):  # a document of MongoDB
                key = str(record_id)
                self.odd_ids[key] = record_id
            self.rows[key] = shown
            self.digests[key] = blake2b(dumps(shown), digest_size=16).digest()
        self.beyond = self._returned - {*map(str, self.rows)}


def rows_of(result: object) -> Sequence[Any]:
    """Return the records that `find` returned.

    Raises:
        MethodNotAllowed: The result is not a list.
    """
    if is_mapping(result) and is_list(result.get("data")):
        rows: Sequence[Any] = result["data"]
        return rows
    if is_list(result):
        return result
    raise MethodNotAllowed("`find` does not return a list here, so it cannot be watched")


def skips(query: Mapping[str, Any]) -> bool:
    """Tell whether records stand in front of a page."""
    return query.get("$skip") not in {None, 0, "0"}


def _last_row(result: Any, query: Mapping[str, Any], has_texts: bool) -> LastRow | None:
    """Return the last row of a page that is full; a record behind it is on a later page."""
    rows = rows_of(result)
    limit = result.get("limit") if is_mapping(result) else query.get("$limit")
    try:
        order = [(name, int(direction)) for name, direction in query["$sort"].items()]
        is_full = limit is not None and 0 < int(limit) <= len(rows)
    except (AttributeError, TypeError, ValueError):  # of an adapter with an order of its own
        return None
    # A property that `$select` leaves out may have any value.
    if not is_full or not all(is_mapping(rows[-1]) and name in rows[-1] for name, _ in order):
        return None
    return LastRow(order, [rows[-1][name] for name, _ in order], has_texts)


def is_behind(record: Mapping[str, Any], last: LastRow) -> bool:
    """Tell whether a record certainly sorts behind the last row of a page."""
    for (name, direction), value in zip(last.order, last.values, strict=True):
        other = record.get(name)
        if other is None and value is None and name in record:
            continue
        if not _are_comparable(value, other, last.has_texts):
            return False
        first: Any = value if direction > 0 else other
        second: Any = other if direction > 0 else value
        if first != second:
            return bool(first < second)
    return False


def _are_comparable(one: Any, other: Any, has_texts: bool) -> bool:
    kinds: set[type] = {type(one), type(other)}
    if kinds <= _NUMBERS:
        return bool(one == one and other == other)  # noqa: PLR0124  # not NaN, which has no place
    return kinds == {bool} or (has_texts and kinds == {str})
