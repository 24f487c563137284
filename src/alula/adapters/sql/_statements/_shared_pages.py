"""One statement of PostgreSQL for several pages that differ in their parameters only.

The parameters of all pages go as one JSON text, and a lateral join runs the statement of a page for
each of its elements::

    select given.number, page.* from json_array_elements($1::json) with ordinality
        as given (value, number)
    cross join lateral (select row_number() over () as place, * from (<the statement>)) as page
    order by given.number, page.place

All these names have the prefix that no table and no column of the application has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Final
from uuid import UUID

from alula.adapters.sql._statement import Row, Statement

__all__ = ["pages_of", "shared_pages"]

_PLACE: Final = re.compile(r"\$(\d+)")
_NOT_SHARED: Final = re.compile(r"\$\d+(?!::|\d)|\$\d+::[^\s,)]*\[\]")
"""A place whose type is not written, or that of a list: JSON would not say what it is."""

_AS_JSON: Final = frozenset({str, int, bool, type(None)})
_AS_TEXT: Final = frozenset({Decimal, datetime, date, UUID})


def shared_pages(statements: Sequence[Statement]) -> Statement | None:
    """Return a statement for the rows of all of these, None if they cannot share one.

    Args:
        statements: All have the same text, in which a dollar sign is always that of a place.
    """
    text = statements[0].text
    if _NOT_SHARED.search(text):
        return None
    values = []
    for statement in statements:
        row = _json_values(statement.parameters)
        if row is None:
            return None
        values.append(row)
    one = _PLACE.sub(lambda place: f"(alula_given.alula_value->>{int(place[1]) - 1})", text)
    return Statement(
        "select alula_given.alula_number, alula_page.* from json_array_elements($1::json)"
        " with ordinality as alula_given (alula_value, alula_number) cross join lateral"
        f" (select row_number() over () as alula_place, alula_one.* from ({one}) as alula_one)"
        " as alula_page order by alula_given.alula_number, alula_page.alula_place",
        (json.dumps(values, ensure_ascii=False),),
    )


def _json_values(parameters: Sequence[object]) -> list[object] | None:
    values: list[object] = []
    for value in parameters:
        if type(value) in _AS_JSON:
            values.append(value)
        elif isinstance(value, float) and isfinite(value):
            values.append(repr(value))
        elif type(value) in _AS_TEXT or isinstance(value, UUID):
            values.append(str(value))
        else:
            return None
    return values


def pages_of(rows: Sequence[Row], count: int) -> list[list[Row]]:
    """Return the rows of each statement, without the columns that `shared_pages` has added."""
    pages: list[list[Row]] = [[] for _ in range(count)]
    for row in rows:
        pages[row[0] - 1].append(row[2:])
    return pages
