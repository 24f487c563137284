"""The filter ``$search``: full-text search in columns of a table, on both databases.

A search has words, "phrases in quotes", ``-words`` to leave out, and ``or``. PostgreSQL reads them
itself (``websearch_to_tsquery``). For SQLite they are translated into an expression of FTS5 in
which every word is quoted, so that nothing of FTS5's own syntax gets in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Final, TypeAlias

from alula.adapters.sql._columns._column_types import is_unicode
from alula.adapters.sql._names import quoted
from alula.adapters.sql._statements._text import PLACE, any_of, literal
from alula.adapters.sql._tables._tables import Column, Table, column_name_of
from alula.errors import BadRequest

__all__ = ["SearchCondition", "fts5_expressions", "search_condition", "search_indexes"]

SearchCondition: TypeAlias = Callable[[object, list[object]], str]

_MAX_LENGTH: Final = 1000
"""How long a search may be, in characters."""

_TERM: Final = re.compile(r'(-?)(?:"([^"]*)"?|([^\s"]+))')
_WORD: Final = re.compile(r"[^\W_]")


def search_condition(table: Table, names: Sequence[str]) -> SearchCondition:
    """Return the function that makes the condition of a search.

    Args:
        table: The table of a service.
        names: Its text columns to search in, or one column of the type ``tsvector``. On SQLite
            their index is the FTS5 table with ``_search`` after the table's name.

    Raises:
        ValueError: There is no column with one of the names, or FTS5 cannot have it.
        BadRequest: By the function, if the search is not text of at most 1,000 characters.
    """
    columns = _columns(table, names)
    if table.dialect == "sqlite":
        # By the rowid: the id of a table may be text.
        index = quoted(f"{table.name}_search")
        matches = f"(select rowid from {index} where {index} match {PLACE})"
        tests = [f"{_rowid(table)} in {matches}", f"{_rowid(table)} not in {matches}"]
    else:
        document = _document(columns)
        # A column of the type tsvector may have words of any configuration.
        config = "" if document == columns[0].sql else "'simple', "
        tests = [f"{document} @@ websearch_to_tsquery({config}{PLACE}::text)"]

    def search(value: object, parameters: list[object]) -> str:
        if not isinstance(value, str) or len(value) > _MAX_LENGTH:
            raise BadRequest(
                f"Invalid value for $search: expected text of at most {_MAX_LENGTH} characters"
            )
        if "\0" in value or not is_unicode(value):
            raise BadRequest("Invalid value for $search: the text is not valid")
        # FTS5 refuses an empty expression; PostgreSQL finds nothing by an empty search.
        given = fts5_expressions(value) if table.dialect == "sqlite" else (value,)
        parameters.extend(filter(None, given))
        return any_of(list(compress(tests, given)) or ["false"])

    return search


def fts5_expressions(search: str) -> tuple[str, str]:
    """Return a search as two expressions of FTS5: it finds what meets the first or not the second.

    FTS5 cannot look for what is not there alone, hence the second. An empty one counts for nothing.

    Examples:
        >>> fts5_expressions('milk "brown bread" -white or tea')
        ('("milk" "brown bread" NOT "white") OR ("tea")', '')
        >>> fts5_expressions("tea or -white -brown")
        ('("tea")', '("white" OR "brown")')
    """
    alternatives: list[tuple[list[str], list[str]]] = [([], [])]
    for minus, phrase, word in _TERM.findall(search):
        if word.lower() == "or" and not minus:
            alternatives.append(([], []))
        elif _WORD.search(phrase or word):
            term = '"' + (phrase or word).replace('"', '""') + '"'
            alternatives[-1][1 if minus else 0].append(term)
    return " OR ".join(
        "(" + " NOT ".join([" ".join(wanted), *unwanted]) + ")"
        for wanted, unwanted in alternatives
        if wanted
    ), " AND ".join(
        "(" + " OR ".join(unwanted) + ")"
        for wanted, unwanted in alternatives
        if unwanted and not wanted
    )


def search_indexes(table: Table, names: Sequence[str]) -> list[str]:
    """Return the statements that make the index of a search if it is not there.

    Args:
        table: The table of a service.
        names: As for `search_condition`.

    Raises:
        ValueError: As for `search_condition`.
    """
    columns = _columns(table, names)
    index = quoted(f"{table.name}_search")
    if table.dialect == "postgresql":
        return [
            f"create index if not exists {index} on {table.sql} using gin ({_document(columns)})"
        ]
    listed, new, old = (
        ", ".join(f"{row}{column.sql}" for column in columns) for row in ("", "new.", "old.")
    )
    rowid = _rowid(table)
    add = f"insert into {index} (rowid, {listed}) values (new.{rowid}, {new});"
    drop = f"insert into {index} ({index}, rowid, {listed}) values ('delete', old.{rowid}, {old});"
    triggers = {"insert": add, "update": f"{drop} {add}", "delete": drop}
    sizes = quoted(f"{table.name}_search_docsize")  # one of FTS5's own tables
    return [
        # As PostgreSQL's "simple": letters keep their accents.
        f"create virtual table if not exists {index} using fts5({listed},"
        f" content={literal(table.name)}, content_rowid='{rowid}',"
        " tokenize='unicode61 remove_diacritics 0')",
        *(
            f"create trigger if not exists {quoted(f'{table.name}_search_{event}')}"
            f" after {event} on {table.sql} begin {body} end"
            for event, body in triggers.items()
        ),
        f"insert into {index} ({index}) select 'rebuild'"
        f" where not exists (select 1 from {sizes}) and exists (select 1 from {table.sql})",
    ]


def _columns(table: Table, names: Sequence[str]) -> list[Column]:
    # FTS5 has columns of its own.
    reserved = {"rank", "rowid", f"{table.name}_search".lower()}
    for name in names:
        if name not in table.columns:
            raise ValueError(f"search has {name!r}; {table.name!r} has no such column")
        if table.dialect == "sqlite" and column_name_of(name, table).lower() in reserved:
            raise ValueError(
                f"search has {name!r}; SQLite cannot search in a column of that name; rename it"
            )
    return [table.columns[name] for name in names]


def _rowid(table: Table) -> str:
    """Return the name of the rowid of a table of SQLite that no column of the table hides."""
    hidden = {column.name.lower() for column in table.source.columns}
    return next((name for name in ("rowid", "_rowid_") if name not in hidden), "oid")


def _document(columns: Sequence[Column]) -> str:
    """Return the text of the ``tsvector`` of a record."""
    if len(columns) == 1 and columns[0].type.name == "other":
        return columns[0].sql
    text = " || ' ' || ".join(f"coalesce({column.sql}::text, '')" for column in columns)
    return f"to_tsvector('simple', {text})"
