"""Statements that read: pages, totals, counts and records by their ids.

``where`` is a condition of the application beside the query. An id is one that `Shapes.id_value`
has returned. What the table cannot have is a `BadRequest` that names the field.

Several pages that differ in their parameters only can be one statement of PostgreSQL. Each
parameter of a page becomes a list of those of all pages, and a lateral join runs the statement of a
page for each row of these lists::

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
from typing import TYPE_CHECKING, Final
from uuid import UUID

from alula.adapters.sql._statement import Row, Statement
from alula.adapters.sql._statements._shapes import Selection, Shapes
from alula.adapters.sql._statements._text import where_of
from alula.adapters.sql._tables._tables import Column
from alula.query import EMPTY_QUERY, Query
from alula.types import Record

if TYPE_CHECKING:
    from alula.adapters.sql._options import Lock
    from alula.adapters.sql._own_sql import Condition

__all__ = [
    "page_records",
    "pages_of",
    "select_by_id",
    "select_by_ids",
    "select_count",
    "select_page",
    "select_page_and_total",
    "select_plan",
    "select_size",
    "shared_pages",
]

_OF_FIXED_SIZE: Final = frozenset({"boolean", "integer", "number"})
"""Types of columns that are not measured."""


def select_page(
    shapes: Shapes, query: Query, *, where: Condition | None = None, lock: Lock | None = None
) -> Statement:
    """Return the statement for the records of a page.

    Records that are equal in all fields of ``$sort`` come in the order of their ids.
    """
    parameters: list[object] = []
    conditions = shapes.criteria.conditions(query, parameters, where)
    _, limit, skip, sort, select, _, _ = query
    shape = ("page", conditions, sort, select, limit is None, skip == 0, lock)
    text = shapes.texts.get(shape)
    if text is None:
        names = shapes.selection(select).names
        text = shapes.keep(
            shape, _page(shapes, query, names, where_of(conditions)) + _locked(shapes, lock)
        )
    _append_range(query, parameters)
    return Statement(text, tuple(parameters))


def select_page_and_total(
    shapes: Shapes, query: Query, *, where: Condition | None = None
) -> Statement:
    """Return the statement for a page and how many records there are on all pages.

    Its rows are the columns, then the total. If the page is empty, there is one row, whose columns
    are null; `page_records` reads the rows.
    """
    parameters: list[object] = []
    conditions = shapes.criteria.conditions(query, parameters, where)
    _, limit, skip, sort, select, _, _ = query
    shape = ("total", conditions, sort, select, limit is None, skip == 0)
    text = shapes.texts.get(shape)
    if text is None:
        # Both parts have the same conditions with the same parameters. A window function in
        # place of the count takes four times as long, and has no row for an empty page.
        condition = shapes.numbered(where_of(conditions))
        selection = shapes.selection(select)
        page = _page(shapes, query, selection.aliased, condition, is_subquery=True)
        text = shapes.keep(
            shape,
            f"select {selection.names_in('alula_page')}, alula_counted.alula_total"
            f" from (select count(*) as alula_total from {shapes.table.sql}{condition})"
            f" as alula_counted left join ({page}) as alula_page on true",
            len(parameters) + 1,
        )
    _append_range(query, parameters)
    return Statement(text, tuple(parameters))


def page_records(selection: Selection, rows: Sequence[Row]) -> list[Record]:
    """Return the records in the rows of `select_page_and_total`."""
    # An empty page is one row with the total and nulls.
    return [] if rows[0][selection.id_position] is None else selection.read(rows)


def select_count(
    shapes: Shapes, query: Query, at_most: int | None = None, *, where: Condition | None = None
) -> Statement:
    """Return the statement for the number of records, or with a bound for the lesser one."""
    parameters: list[object] = []
    conditions = shapes.criteria.conditions(query, parameters, where)
    shape = ("count", conditions, at_most is None)
    text = shapes.texts.get(shape)
    if text is None:
        matching = f"from {shapes.table.sql}{where_of(conditions)}"
        text = shapes.keep(
            shape,
            f"select count(*) {matching}"
            if at_most is None
            else f"select count(*) from (select 1 {matching} limit {shapes.number})"
            " as alula_counted",
        )
    if at_most is not None:
        parameters.append(at_most)
    return Statement(text, tuple(parameters))


def select_size(shapes: Shapes, query: Query, *, where: Condition | None = None) -> Statement:
    """Return the statement for the number of records of a page, and that of their bytes."""
    parameters: list[object] = []
    conditions = shapes.criteria.conditions(query, parameters, where)
    shape = ("size", conditions, query.sort, query.select, query.skip == 0)
    text = shapes.texts.get(shape)
    if text is None:
        sizes = [_size_of(column) for column in shapes.selection(query.select).columns]
        page = _page(shapes, query, f"{' + '.join(sizes)} as alula_size", where_of(conditions))
        text = shapes.keep(
            shape,
            "select count(*), cast(coalesce(sum(alula_size), 0) as bigint)"
            f" from ({page}) as alula_measured",
        )
    _append_range(query, parameters)
    return Statement(text, tuple(parameters))


def _size_of(column: Column) -> str:
    """Return the expression for the bytes of a column's value."""
    if column.type.name in _OF_FIXED_SIZE:
        return "8"
    if column.type.dialect == "sqlite":
        return f"coalesce(length(cast({column.sql} as blob)), 0)"
    # Of a text, PostgreSQL knows the length without reading it.
    cast = "" if column.type.name in {"text", "bytes"} else "::text"
    return f"coalesce(octet_length({column.sql}{cast}), 0)::int8"


def select_plan(shapes: Shapes, query: Query, *, where: Condition | None = None) -> Statement:
    """Return the statement for PostgreSQL's plan of a query, as JSON text; it reads no row."""
    parameters: list[object] = []
    conditions = shapes.criteria.conditions(query, parameters, where)
    shape = ("plan", conditions)
    text = shapes.texts.get(shape) or shapes.keep(
        shape, f"explain (format json) select 1 from {shapes.table.sql}{where_of(conditions)}"
    )
    return Statement(text, tuple(parameters))


def select_by_id(
    shapes: Shapes,
    id: object,
    query: Query,
    *,
    where: Condition | None = None,
    lock: Lock | None = None,
) -> Statement:
    """Return the statement for the record with an id if it meets a query."""
    # Most gets: neither a shape nor a look-up of the text (0.4 µs instead of 1.5).
    if query is EMPTY_QUERY and where is None and lock is None:
        return Statement(shapes.whole_by_id, (id,))
    return _selected_by_id(shapes, shapes.by_id, id, query, where, lock)


def select_by_ids(
    shapes: Shapes, ids: Sequence[object], query: Query, *, where: Condition | None = None
) -> Statement:
    """Return the statement for the records that have one of the ids and meet a query."""
    return _selected_by_id(shapes, shapes.by_ids, shapes.id_list(ids), query, where, None)


def _selected_by_id(
    shapes: Shapes,
    by_id: str,
    id: object,
    query: Query,
    where: Condition | None,
    lock: Lock | None,
) -> Statement:
    parameters = [id]
    conditions = shapes.criteria.conditions(query, parameters, where)
    shape = (by_id, conditions, query.select, lock)
    text = shapes.texts.get(shape)
    if text is None:
        text = shapes.keep(
            shape,
            f"select {shapes.selection(query.select).names} from {shapes.table.sql}"
            f"{where_of((by_id, *conditions))}{_locked(shapes, lock)}",
        )
    return Statement(text, tuple(parameters))


def _page(
    shapes: Shapes, query: Query, names: str, where: str, *, is_subquery: bool = False
) -> str:
    """Return the text that selects names from the rows of a page."""
    text = f"select {names} from {shapes.table.sql}{where} order by {shapes.order_by(query.sort)}"
    if query.limit is not None:
        text += f" limit {shapes.number}"
    elif (query.skip or is_subquery) and not shapes.is_postgresql:
        # SQLite has no offset without it, and drops the order of a subquery.
        text += " limit -1"
    if query.skip:
        text += f" offset {shapes.number}"
    return text


def _append_range(query: Query, parameters: list[object]) -> None:
    """Append the parameters of `_page`."""
    if query.limit is not None:
        parameters.append(query.limit)
    if query.skip:
        parameters.append(query.skip)


def _locked(shapes: Shapes, lock: Lock | None) -> str:
    # In SQLite, a transaction that writes has locked everything.
    return f" for {lock}" if lock is not None and shapes.is_postgresql else ""


# -- several pages in one statement ----------------------------------------------------------------

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
