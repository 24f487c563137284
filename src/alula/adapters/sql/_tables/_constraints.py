"""The constraints of a table, so that errors can name fields."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from typing import Final, Protocol

from alula.adapters.sql._names import Dialect
from alula.adapters.sql._statement import Executor, Statement

__all__ = ["CATALOGUE_SECONDS", "Catalogue", "Constraint", "Constraints", "read_constraints"]

CATALOGUE_SECONDS: Final = 30
"""How long one query of the catalogue may take."""

_PG_CONSTRAINTS: Final = """
select conname, contype::text, array(select a.attname from unnest(conkey) with ordinality k(n, o)
  join pg_attribute a on a.attrelid = conrelid and a.attnum = k.n order by k.o)
from pg_constraint where conrelid = to_regclass($1) and contype in ('c', 'f', 'p', 'u', 'x')
union all
select c.relname, 'u', array(select a.attname from unnest(i.indkey::int2[]) with ordinality k(n, o)
  join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.n order by k.o)
from pg_index i join pg_class c on c.oid = i.indexrelid
where i.indrelid = to_regclass($1) and i.indisunique
and not exists (select from pg_constraint where conindid = i.indexrelid and conrelid = i.indrelid)
"""

_KINDS: Final[Mapping[str, str]] = {"c": "check", "f": "foreign"}


class Catalogue(Executor, Protocol):
    """A database whose catalogue can be read."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of the database."""
        ...

    @property
    def code_point_order(self) -> bool:
        """Whether PostgreSQL sorts text by code point."""
        ...


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint of a table.

    Attributes:
        kind: "unique", "foreign" or "check".
        columns: The names of its columns.
    """

    kind: str
    columns: tuple[str, ...]


class Constraints:
    """The constraints of a table, for errors that name fields.

    Args:
        properties: By name of a column: the property of records.
        by_name: The constraints by their names.
        foreign_keys: The columns of each foreign key.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        by_name: Mapping[str, Constraint],
        foreign_keys: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        self.properties = properties
        self.foreign_keys = foreign_keys
        self._by_name = dict(by_name)
        self._read: Callable[[], Awaitable[Mapping[str, Constraint]]] | None = None
        self._task: asyncio.Task[None] | None = None

    def read_by(self, read: Callable[[], Awaitable[Mapping[str, Constraint]]]) -> None:
        """Set what reads the constraints from the catalogue."""
        self._read = read

    async def load(self) -> None:
        """Read the constraints from the catalogue; SQLite names columns in its errors."""
        if self._read is not None:
            self._by_name.update(await self._read())

    def get(self, name: str) -> Constraint | None:
        """Return a constraint by its name, None if it is not known.

        One that is not known came with a migration. The catalogue is then read once more in the
        background, so that the next error can name its fields.
        """
        # Not awaited: an error leaves `with translated(...)`, which cannot wait.
        constraint = self._by_name.get(name)
        if constraint is None and self._read is not None and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._reload(), context=Context())
        return constraint

    async def _reload(self) -> None:
        try:
            await self.load()
        except Exception:  # noqa: BLE001, S110  # the error at hand matters, not that of its details
            pass
        finally:
            self._task = None

    def fields(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the properties of some columns."""
        return tuple(self.properties[name] for name in columns if name in self.properties)


async def read_constraints(database: Catalogue, table_sql: str) -> dict[str, Constraint]:
    """Return the constraints and unique indexes of a table of PostgreSQL by their names.

    Args:
        database: The database.
        table_sql: The table, quoted. One that is not there has no constraints.
    """
    rows = await database.run(Statement(_PG_CONSTRAINTS, (table_sql,)), CATALOGUE_SECONDS)
    return {
        name: Constraint(_KINDS.get(kind, "unique"), tuple(columns)) for name, kind, columns in rows
    }
