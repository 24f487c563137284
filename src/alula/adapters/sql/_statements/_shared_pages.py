"""One statement of PostgreSQL for several pages that differ in their parameters only.

Each parameter of a page becomes a list of those of all pages, and a lateral join runs the statement
of a page for each row of these lists::

    select given.number, page.* from unnest($1::text[]::int8[], ...) with ordinality
        as given (value1, ..., number)
    cross join lateral (select row_number() over () as place, * from (<the statement>)) as page
    order by given.number, page.place

All these names have the prefix that no table and no column of the application has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Final
from uuid import UUID

from alula.adapters.sql._statement import Row, Statement

__all__ = ["pages_of", "shared_pages"]

_NOT_SHARED: Final = re.compile(r"\$\d+(?!::|\d)|\$\d+::[^\s,)]*\[\]")
"""A place whose type is not written, or that of a list: a text would not say what it is."""

_PLACE: Final = re.compile(
    r"\$(\d+)((?:::(?:text|int8|numeric|float8|bool|uuid|date|time|timestamp|timestamptz|jsonb)"
    r"(?!\w|[(.]| with))*)"
)
"""A place, with those of its casts that a list can have as well; others stay where they are."""

_AS_TEXT: Final = frozenset({bool, int, float, Decimal, datetime, date})


def shared_pages(statements: Sequence[Statement]) -> Statement | None:
    """Return a statement for the rows of all of these, None if they cannot share one.

    Args:
        statements: All have the same text, in which a dollar sign is always that of a place.
    """
    shared = _shared_text(statements[0].text)
    if shared is None:
        return None
    text, positions = shared
    rows: list[list[str | None]] = []
    for statement in statements:
        row: list[str | None] = []
        for value in statement.parameters:
            if value is None or type(value) is str:
                row.append(value)
            elif type(value) in _AS_TEXT or isinstance(value, UUID):
                row.append(str(value))
            else:
                return None
        rows.append(row)
    lists = [*zip(*rows, strict=True)]
    return Statement(text, tuple([lists[position] for position in positions]))


@lru_cache(maxsize=1000)
def _shared_text(text: str) -> tuple[str, tuple[int, ...]] | None:
    """Return the text for many pages, and the position of the parameter of each of its lists."""
    if _NOT_SHARED.search(text):
        return None
    names: dict[tuple[int, str], str] = {}

    def name_of(place: re.Match[str]) -> str:
        return names.setdefault((int(place[1]), place[2]), f"alula_given.alula_value{len(names)}")

    # The casts go to the lists: in the statement of a page, they would be evaluated for each row.
    one = _PLACE.sub(name_of, text)
    lists = [
        f"${at}::text[]"
        + "".join(f"::{cast}[]" for cast in casts.split("::")[1:] if cast != "text")
        for at, (_, casts) in enumerate(names, 1)
    ]
    columns = [name.rpartition(".")[2] for name in names.values()]
    return (
        f"select alula_given.alula_number, alula_page.* from unnest({', '.join(lists)})"
        f" with ordinality as alula_given ({', '.join(columns)}, alula_number) cross join lateral"
        f" (select row_number() over () as alula_place, alula_one.* from ({one}) as alula_one)"
        " as alula_page order by alula_given.alula_number, alula_page.alula_place",
        tuple(position - 1 for position, _ in names),
    )


def pages_of(rows: Sequence[Row], count: int) -> list[list[Row]]:
    """Return the rows of each statement, without the columns that `shared_pages` has added."""
    # They come page by page. No step in Python for each row: bytecodes of a page: -6 %.
    sizes = Counter(map(itemgetter(0), rows))
    remaining = map(itemgetter(slice(2, None)), rows)
    return [list(islice(remaining, sizes[number])) for number in range(1, count + 1)]
