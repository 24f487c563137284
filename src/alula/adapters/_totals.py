"""How `find` gets ``total``: from a short page, in the same query, or by a separate count.

A page that is not full gives the total. Whether it will be full is not known before the query, but
for the same criteria it usually is as it was the last time. So the last totals are kept as hints:
they decide how a page and its total are queried, and never what they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from alula.query import Query
from alula.types import Record

__all__ = ["MAX_COMBINED", "PageAndTotal", "Totals"]

PageAndTotal: TypeAlias = tuple[list[Record], int]

_MAX_HINTS: Final = 1000

MAX_COMBINED: Final = 200
"""Up to this total, page and total are queried together.

The database reads all matching records for that, even if the page could come from an index, so it
pays only where they are few.
"""


class Totals:
    """The hints of one service."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    async def with_page(
        self,
        query: Query,
        page: Callable[[], Awaitable[list[Record]]],
        count: Callable[[], Awaitable[int]],
        *,
        combined: Callable[[], Awaitable[PageAndTotal | None]] | None = None,
        combines_always: bool = False,
        short_page_is_total: bool = True,
        concurrent: bool = True,
    ) -> PageAndTotal:
        """Return the records of a page and the total.

        Args:
            query: Its limit is the page size, from 1 on.
            page: Queries the page.
            count: Queries the total.
            combined: Queries both in one round trip; its result is None if that did not work.
            combines_always: Whether that costs no more than a count of its own, however large the
                total is. Then only a page that is expected to be short is queried without it.
            short_page_is_total: Whether a page that is not full gives the total. False if further
                stages change the number of records.
            concurrent: Whether page and count may be queried at the same time. False in a session.
        """
        try:
            hint = hash(query.criteria)
        except TypeError:  # they contain a list or an object; then all such queries share a hint
            hint = 0
        last = self._last.get(hint) if short_page_is_total else None
        needs_count = not short_page_is_total or (
            combines_always if last is None else _total_from_page(query, last - query.skip) is None
        )
        both: PageAndTotal | None = None
        few = last is not None and last <= MAX_COMBINED
        if needs_count and combined is not None and (few or combines_always):
            both = await combined()
        if both is None and needs_count and concurrent:
            # Both are awaited even if one fails: no query of a call goes on after the call.
            results = await asyncio.gather(page(), count(), return_exceptions=True)
            if isinstance(results[0], BaseException):
                raise results[0]
            if isinstance(results[1], BaseException):
                raise results[1]
            both = results[0], results[1]
        records, total = both or (await page(), None)
        if short_page_is_total:
            # The page wins over a count: a record may have come or gone between the two.
            from_page = _total_from_page(query, len(records))
            total = total if from_page is None else from_page
        if total is None:
            total = await count()
        if len(self._last) >= _MAX_HINTS:
            self._last.clear()
        self._last[hint] = total
        return records, total


def _total_from_page(query: Query, size: int) -> int | None:
    """Return the total if a page of this size gives it: it is not full and not beyond the end."""
    if size < (query.limit or 0) and (size > 0 or not query.skip):
        return query.skip + size
    return None
