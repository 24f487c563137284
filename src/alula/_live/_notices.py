"""What a change tells the lists, here and in other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from alula._context import HookContext
from alula.types import is_dict, is_list, is_mapping

__all__ = ["ANYTHING", "Notice", "id_of", "notice_of"]

MAX_TEXT: Final = 1_000
"""Longer texts of a record stay in their process: a list may have such a record, or not."""

MAX_CHARACTERS: Final = 64 * 1024
"""Of more text, other processes get the ids alone."""

MAX_IDS: Final = 1_000
"""A change of more records concerns all lists of the service."""

_WRITES: Final = frozenset({"create", "update", "patch", "remove"})
_EVENTS: Final = {"create": "created", "remove": "removed"}


class Notice(NamedTuple):
    """A change of a store.

    Attributes:
        event: ``created``, ``removed``, or anything else for other changes.
        ids: Of the records, None for any.
        records: What was stored, each None where that is not known.
    """

    event: str
    ids: Sequence[object] | None
    records: Sequence[Mapping[str, Any] | None] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it for other processes: of the records, what lists are found by."""
        ids = None
        if self.ids is not None:
            ids = [each if isinstance(each, int) else str(each) for each in self.ids]
        records = [*map(_plain_part, self.records)]
        if sum(map(_size, records)) > MAX_CHARACTERS:
            records = [None] * len(records)
        return {"event": self.event, "ids": ids, "records": records}


ANYTHING: Final = Notice("changed", None)
"""Nobody knows what has changed."""


def id_of(row: object, name: str) -> object:
    """Return the id of a record."""
    return row.get(name) if is_mapping(row) else getattr(row, name, None)


def notice_of(context: HookContext) -> Notice:
    """Return what a call has changed."""
    id_name = getattr(context.service.service, "id", None)
    result: object = context.result
    if not isinstance(id_name, str) or context.method not in _WRITES:
        return ANYTHING  # nobody knows what its results are
    event = _EVENTS.get(context.method, "changed")
    if context.method == "create" and (context.event != "created" or context.result_events):
        event = "changed"
    is_whole = "$select" not in context.params.query
    if is_whole and is_dict(result):  # most writes
        record_id = result.get(id_name)
        return Notice(event, None if record_id is None else (record_id,), (result.copy(),))
    records = result if is_list(result) else [result]
    ids = [id_of(record, id_name) for record in records]
    if len(ids) > MAX_IDS or None in ids:
        return Notice(event, None)
    stored = [{**record} if is_whole and is_mapping(record) else None for record in records]
    return Notice(event, ids, stored)


def _plain_part(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the short texts, numbers and truth values of a record: what lists are found by."""
    if record is None:
        return None
    return {
        name: value
        for name, value in record.items()
        if type(value) in {bool, int, float} or (type(value) is str and len(value) <= MAX_TEXT)
    }


def _size(record: Mapping[str, Any] | None) -> int:
    """Return about how many characters a record has."""
    texts = () if record is None else (name + str(value) for name, value in record.items())
    return sum(map(len, texts))
