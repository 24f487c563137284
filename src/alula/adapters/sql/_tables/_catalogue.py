"""Reads tables and constraints from a database's catalogue, without an engine of SQLAlchemy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy
from sqlalchemy import types
from sqlalchemy.dialects import postgresql

from alula.adapters.sql._columns._sqlalchemy_types import ForeignType
from alula.adapters.sql._statement import Row, Statement
from alula.adapters.sql._tables._constraints import CATALOGUE_SECONDS, Catalogue
from alula.adapters.sql._tables._foreign_keys import FOREIGN_KEYS, ForeignKey, is_action

__all__ = ["read_same", "read_sequence", "read_table"]

# A name alone is looked up along the search path, as in any statement.
_PG_TABLE: Final = """
select c.oid, n.nspname, c.relname, pg_table_is_visible(c.oid)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f')
and (c.relname = $1 and pg_table_is_visible(c.oid) or n.nspname || '.' || c.relname = $1)
order by 4 desc limit 1"""

_PG_OID: Final = """
(select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f')
and (c.relname = {0} and pg_table_is_visible(c.oid) or n.nspname || '.' || c.relname = {0})
order by pg_table_is_visible(c.oid) desc limit 1)"""
_PG_SAME: Final = (
    f"select name from unnest($1::text[]) as name where {_PG_OID.format('name')}"
    f" = {_PG_OID.format('$2::text')}"
)

# A domain counts as its base type; v is that of the elements of an array.
_PG_COLUMNS: Final = """
select a.attname, a.attnotnull, a.attidentity::text, a.attgenerated::text, a.atthasdef,
  b.typcategory = 'A' and b.typelem <> 0, a.attndims, nv.nspname, v.typname,
  case when t.typtype = 'd' then t.typtypmod else a.atttypmod end,
  format_type(v.oid, case when t.typtype = 'd' then t.typtypmod else a.atttypmod end),
  array(select enumlabel::text from pg_enum where enumtypid = v.oid order by enumsortorder),
  v.typtype in ('r', 'm') or exists (select from pg_opclass o join pg_am m on m.oid = o.opcmethod
    where m.amname = 'btree' and o.opcintype = v.oid),
  coalesce((select array_position(i.indkey::int2[], a.attnum) from pg_index i
    where i.indrelid = a.attrelid and i.indisprimary), -1),
  case when a.attcollation not in (t.typcollation, 0) then a.attcollation::regcollation::text end
from pg_attribute a join pg_type t on t.oid = a.atttypid
join pg_type b on b.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
join pg_type v on v.oid = case when b.typcategory = 'A' and b.typelem <> 0
  then b.typelem else b.oid end
join pg_namespace nv on nv.oid = v.typnamespace
where a.attrelid = $1::oid and a.attnum > 0 and not a.attisdropped order by a.attnum"""

# A table that a name alone finds has no schema, as in _PG_TABLE.
_PG_FOREIGN_KEYS: Final = """
select
  array(select a.attname from unnest(k.conkey) with ordinality u(n, o)
    join pg_attribute a on a.attrelid = k.conrelid and a.attnum = u.n order by u.o),
  case when pg_table_is_visible(c.oid) then c.relname else n.nspname || '.' || c.relname end,
  array(select a.attname from unnest(k.confkey) with ordinality u(n, o)
    join pg_attribute a on a.attrelid = k.confrelid and a.attnum = u.n order by u.o),
  k.confdeltype::text not in ('a', 'r') or k.confupdtype::text not in ('a', 'r')
from pg_constraint k join pg_class c on c.oid = k.confrelid
join pg_namespace n on n.oid = c.relnamespace
where k.conrelid = $1::oid and k.contype = 'f'"""

_PG_SEQUENCE: Final = """
select to_regclass($1) is not null,
  case when to_regclass($1) is not null then pg_get_serial_sequence($1, $2) end,
  exists (select 1 from pg_trigger where tgrelid = to_regclass($1) and not tgisinternal
    and (tgtype & 7 = 7 or tgtype & 68 = 68))"""
"""The last one: triggers for each row (1), before (2) or in place of (64) inserts (4)."""

_SQLITE_COLUMNS: Final = """
select name, type, "notnull", dflt_value, pk, hidden from pragma_table_xinfo(?1)"""
_SQLITE_FOREIGN_KEYS: Final = """
select id, "from", "table", "to", on_delete, on_update
from pragma_foreign_key_list(?1) order by id, seq"""


async def read_sequence(
    database: Catalogue, table_sql: str, column: str
) -> tuple[bool, str | None, bool]:
    """Return whether a table of PostgreSQL is there, a column's sequence, and more of new rows.

    The last one is whether a trigger can change them before they are stored.

    Args:
        database: The database.
        table_sql: The table, quoted.
        column: The name of the column.
    """
    rows = await database.run(Statement(_PG_SEQUENCE, (table_sql, column)), CATALOGUE_SECONDS)
    is_there, sequence, has_trigger = rows[0]
    return is_there, sequence, has_trigger


async def read_same(database: Catalogue, names: Sequence[str], table: str) -> list[str]:
    """Return those of some names by which PostgreSQL finds the same table as by another one.

    Args:
        database: The database.
        names: Names of tables, with or without a schema.
        table: The other name, as these.
    """
    rows = await database.run(Statement(_PG_SAME, ([*names], table)), CATALOGUE_SECONDS)
    return [row[0] for row in rows]


async def read_table(database: Catalogue, name: str) -> sqlalchemy.Table:
    """Return a table or view as the database has it.

    Args:
        database: The database.
        name: The name of a table; a schema may come before it: ``"sales.orders"``.

    Raises:
        LookupError: There is no such table.
    """
    read = postgresql_table if database.dialect == "postgresql" else sqlite_table
    table = await read(database, name)
    if table is None:
        raise LookupError(
            f"the database has no table {name!r}; create it, or give a Table of SQLAlchemy and"
            " `await database.create()`"
        )
    return table


# -- PostgreSQL ------------------------------------------------------------------------------------


async def postgresql_table(database: Catalogue, name: str) -> sqlalchemy.Table | None:
    tables = await database.run(Statement(_PG_TABLE, (name,)), CATALOGUE_SECONDS)
    if not tables:
        return None
    oid, schema, table_name, is_visible = tables[0]
    rows = await database.run(Statement(_PG_COLUMNS, (oid,)), CATALOGUE_SECONDS)
    keys = await database.run(Statement(_PG_FOREIGN_KEYS, (oid,)), CATALOGUE_SECONDS)
    return sqlalchemy.Table(
        table_name,
        sqlalchemy.MetaData(),
        *map(postgresql_column, rows),
        schema=None if is_visible else schema,
        info={
            FOREIGN_KEYS: [
                ForeignKey(tuple(columns), target, tuple(targets), acts)
                for columns, target, targets, acts in keys
            ]
        },
    )


def postgresql_column(row: Row) -> sqlalchemy.Column[Any]:
    name, not_null, identity, generated, has_default, is_array, dimensions = row[:7]
    key_position, collation = row[13:15]
    type_ = postgresql_type(row[7:13], collation)
    if is_array:
        type_ = postgresql.ARRAY(type_, dimensions=max(dimensions, 1))
    # What the defaults are does not matter, only that there are some.
    made_by: list[Any] = []
    if identity:
        made_by.append(sqlalchemy.Identity(always=identity == "a"))
    elif generated:
        made_by.append(sqlalchemy.Computed(""))
    elif has_default:
        made_by.append(sqlalchemy.FetchedValue())
    return sqlalchemy.Column(
        name, type_, *made_by, primary_key=key_position >= 0, nullable=not not_null
    )


def postgresql_type(row: Row, collation: str | None) -> types.TypeEngine[Any]:
    schema, name, modifier, sql, labels, has_order = row
    if labels:  # only enums have some
        return types.Enum(*labels, name=name, schema=schema)
    has_modifier = modifier > 4  # the size of its header
    if name in _PG_TEXTS and (schema == "pg_catalog" or name == "citext"):
        length = modifier - 4 if has_modifier else None
        return _PG_TEXTS[name](length, collation)
    if schema != "pg_catalog" or name not in _PG_TYPES:
        return ForeignType(sql, has_order=has_order)
    if name == "numeric" and has_modifier:
        # 16 bits of precision, 11 bits of scale, which may be negative since PostgreSQL 15.
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        return types.Numeric(precision, scale - 0x800 if scale > 0x3FF else scale)
    return _PG_TYPES[name]


_PG_TEXTS: Final[Mapping[str, Callable[[int | None, str | None], types.TypeEngine[Any]]]] = {
    "varchar": types.VARCHAR,
    "bpchar": types.CHAR,
    "text": types.Text,
    "citext": lambda _length, collation: postgresql.CITEXT(collation=collation),
}
_PG_TYPES: Final[Mapping[str, types.TypeEngine[Any]]] = {
    "int2": types.SmallInteger(),
    "int4": types.Integer(),
    "int8": types.BigInteger(),
    "float4": types.REAL(),
    "float8": types.Double(),
    "numeric": types.Numeric(),
    "money": postgresql.MONEY(),
    "bool": types.Boolean(),
    "timestamptz": types.DateTime(timezone=True),
    "timestamp": types.DateTime(),
    "date": types.Date(),
    "time": types.Time(),
    "interval": postgresql.INTERVAL(),
    "uuid": types.Uuid(),
    "json": types.JSON(),
    "jsonb": postgresql.JSONB(),
    "bytea": types.LargeBinary(),
}


# -- SQLite ----------------------------------------------------------------------------------------

_DECLARED: Final = re.compile(r"\s*([\w ]*?)\s*(?:\(\s*(\d{1,9})\s*(?:,\s*(\d{1,9})\s*)?\))?\s*")
_SQLITE_TYPES: Final[Mapping[str, types.TypeEngine[Any]]] = {
    **dict.fromkeys(["BOOLEAN", "BOOL"], types.Boolean()),
    **dict.fromkeys(["DATETIME", "TIMESTAMP"], types.DateTime()),
    "DATE": types.Date(),
    "TIME": types.Time(),
    **dict.fromkeys(["JSON", "JSONB"], types.JSON()),
    "UUID": types.Uuid(),
}
_AFFINITIES: Final[tuple[tuple[str, types.TypeEngine[Any]], ...]] = (
    ("INT", types.BigInteger()),
    ("CHAR", types.Text()),
    ("CLOB", types.Text()),
    ("TEXT", types.Text()),
    ("BLOB", types.LargeBinary()),
    ("REAL", types.Double()),
    ("FLOA", types.Double()),
    ("DOUB", types.Double()),
)
"""By part of a declared type, the first that fits: SQLite's own rules."""


async def sqlite_table(database: Catalogue, name: str) -> sqlalchemy.Table | None:
    rows = await database.run(Statement(_SQLITE_COLUMNS, (name,)), CATALOGUE_SECONDS)
    if not rows:
        return None
    foreign_keys = await database.run(Statement(_SQLITE_FOREIGN_KEYS, (name,)), CATALOGUE_SECONDS)
    keys: dict[int, ForeignKey] = {}
    for number, column, target, target_column, *actions in foreign_keys:
        key = keys.get(number, ForeignKey((), target, (), any(map(is_action, actions))))
        targets = () if target_column is None else (*key.targets, target_column)
        keys[number] = ForeignKey((*key.columns, column), target, targets, key.acts)
    return sqlalchemy.Table(
        name,
        sqlalchemy.MetaData(),
        *map(sqlite_column, rows),
        info={FOREIGN_KEYS: [*keys.values()]},
    )


def sqlite_column(row: Row) -> sqlalchemy.Column[Any]:
    name, declared, not_null, default, key_position, hidden = row
    made_by: list[Any] = []
    if hidden:
        made_by.append(sqlalchemy.Computed(""))
    elif default is not None:
        # `update` repeats it: SQLite has no word for a default there.
        clause: sqlalchemy.ColumnClause[Any] = sqlalchemy.literal_column(default)
        made_by.append(sqlalchemy.DefaultClause(clause))
    return sqlalchemy.Column(
        name,
        sqlite_type(declared.upper()),
        *made_by,
        primary_key=key_position > 0,
        nullable=not not_null,
    )


def sqlite_type(declared: str) -> types.TypeEngine[Any]:
    match = _DECLARED.fullmatch(declared)
    if match is not None:
        name, first, second = match.groups()
        if name in _SQLITE_TYPES:
            return _SQLITE_TYPES[name]
        if name in ("NUMERIC", "DECIMAL"):
            return types.Numeric(_int(first), _int(second))
        if first and name.endswith("CHAR"):
            return types.String(int(first))
    affinity = (type_ for part, type_ in _AFFINITIES if part in declared)
    return next(affinity, types.NullType())


def _int(digits: str | None) -> int | None:
    return None if digits is None else int(digits)
