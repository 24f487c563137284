"""A statement with its parameters, and who can run one."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, overload

__all__ = ["Executor", "RepeatedStatement", "Row", "Statement"]


class Row(Protocol):
    """One row by position: an ``asyncpg.Record``, or a tuple of sqlite3."""

    @overload
    def __getitem__(self, position: int, /) -> Any: ...
    @overload
    def __getitem__(self, positions: slice, /) -> tuple[Any, ...]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...


class Statement(NamedTuple):
    """The text of a statement, made of known names only, and the values it refers to.

    Parameters are written ``$1``, ``$2`` on PostgreSQL and ``?1``, ``?2`` on SQLite.
    """

    text: str
    parameters: tuple[object, ...] = ()


class RepeatedStatement(Statement):
    """A statement that PostgreSQL executes several times, in one round trip.

    ``parameters`` has a tuple of values for each time. It is executed in their order, and all of it
    takes effect or nothing. The rows of all times come back in one list.
    """

    __slots__ = ()


class Executor(Protocol):
    """Runs statements: a database, or one transaction in it."""

    def run(
        self,
        statement: Statement,
        seconds: float | None,
        *,
        writes: bool = False,
        primary: bool = True,
    ) -> Awaitable[Sequence[Row]]:
        """Run one statement and return its rows.

        Args:
            statement: The text and its parameters.
            seconds: How long it may run; None sets no limit.
            writes: Whether it changes records.
            primary: Whether only the primary may answer, even where there are read replicas.
        """
        ...
