"""How `find` comes by its total: told by the page, with the page, or counted beside it.

A page that is not full tells the total. Whether one will be full nobody knows before; but for the
same criteria it is mostly as it was the last time. So the last totals are kept as a hint, which
decides how a page and its total are asked for, and never what they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias, get_args

from pymongo import errors

from alula.adapters._options import Pagination
from alula.adapters.mongodb._pipeline import sorts_in_facet
from alula.query import Query
from alula.types import Record

__all__ = ["FEW", "Counting", "Totals", "read_counting"]

Counting: TypeAlias = Literal["exact", "estimated", "none"]

_WAYS: Final = get_args(Counting)
_KEPT: Final = 1000
_TOO_LARGE: Final = frozenset({10334, 17419, 17420})
"""Codes for a document of more than 16 MB, into which a page must fit to come with its total."""

FEW: Final = 200
"""Up to so many records that meet the criteria, page and total come in one round trip."""


def read_counting(pagination: Pagination | None, otherwise: Counting) -> Counting:
    """Return how a paginated `find` counts.

    Args:
        pagination: The page sizes, with ``"count"`` or without.
        otherwise: What holds where they do not say.

    Raises:
        ValueError: ``"count"`` is none of the ways.
    """
    way: Counting = (pagination.more if pagination else {}).get("count", otherwise)
    if way not in _WAYS:
        raise ValueError(f"paginate: 'count' is {way!r}; give {', '.join(map(repr, _WAYS))}")
    return way


class Totals:
    """The totals of one service."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    async def with_page(
        self,
        query: Query,
        page: Callable[[], Awaitable[list[Record]]],
        count: Callable[[], Awaitable[int]],
        *,
        at_once: Callable[[], Awaitable[tuple[list[Record], int]]] | None = None,
        telling: bool = True,
        beside: bool = True,
    ) -> tuple[list[Record], int]:
        """Return the records of a page and the total.

        Args:
            query: Has the size of the page as its limit, from 1 on.
            page: Asks for the page.
            count: Asks for the total.
            at_once: Asks for both in one round trip, which reads all that meet the criteria;
                None where that can not be.
            telling: Whether the page can tell the total; not where other stages change it.
            beside: Whether two may be under way at once; not in a session.
        """
        last = self._last.get(_hint(query)) if telling else None
        needed = not telling or (last is not None and _told(query, last - query.skip) is None)
        found = None
        if needed and at_once is not None and last is not None and last <= FEW:
            found = await _unless_too_large(at_once) if sorts_in_facet(query) else None
        if found is None and needed and beside:
            found = await _both(page(), count())
        records, total = found or (await page(), None)
        told = _told(query, len(records)) if telling else None
        if told is not None:
            total = told
        elif total is None:
            total = await count()
        if len(self._last) >= _KEPT:
            self._last.clear()
        self._last[_hint(query)] = total
        return records, total


def _hint(query: Query) -> int:
    try:
        return hash(query.criteria)
    except TypeError:  # a list or an object in it
        return 0


def _told(query: Query, size: int) -> int | None:
    """Return the total that a page of so many records tells.

    None where it is full, or beyond the end.
    """
    if size < (query.limit or 0) and (size > 0 or not query.skip):
        return query.skip + size
    return None


async def _unless_too_large(
    at_once: Callable[[], Awaitable[tuple[list[Record], int]]],
) -> tuple[list[Record], int] | None:
    try:
        return await at_once()
    except errors.OperationFailure as error:
        if error.code in _TOO_LARGE:
            return None
        raise


async def _both(page: Awaitable[list[Record]], count: Awaitable[int]) -> tuple[list[Record], int]:
    """Wait for both, also where one fails: nothing of a call goes on after it."""
    found = await asyncio.gather(page, count, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    records, total = found
    return records, total  # type: ignore[return-value]  # told by the branch above
