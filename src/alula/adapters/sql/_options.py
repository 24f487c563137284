"""Options of a call: those of the service, and what ``params.sql`` sets for one call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, TypeAlias, cast, get_args

from sqlalchemy import ColumnElement, TextClause

from alula._context import Params
from alula.adapters._database_options import BATCHED, DatabaseOptions, read_max_time
from alula.adapters.sql._database import Transaction
from alula.types import is_mapping

__all__ = [
    "NO_CALL_OPTIONS",
    "CallOptions",
    "Lock",
    "Nulls",
    "SQLOptions",
    "call_options",
    "seconds_of",
]

Nulls: TypeAlias = Literal["first", "last", "native"]
"""Where ascending orders put nulls; descending ones do the reverse. ``"native"``: the database."""

Lock: TypeAlias = Literal["update", "share"]

SHARED: Final = (*BATCHED, "find")


@dataclass(frozen=True)
class SQLOptions(DatabaseOptions):
    """The options of one call of a `SQLService`.

    Attributes:
        nulls: Where an order puts nulls.
        paths: JSON paths that queries may name, with the type of their values.
        search: The text columns in which the filter ``$search`` looks.
        model: A model for this call in place of the service's, None for that one.
    """

    nulls: Nulls = "first"
    shared: frozenset[str] = frozenset(SHARED)
    paths: Mapping[str, type] = field(default_factory=lambda: MappingProxyType({}))
    search: tuple[str, ...] = ()
    model: Any = None

    batched_operations: ClassVar[tuple[str, ...]] = SHARED
    ways_to_count: ClassVar[tuple[str, ...]] = ("exact", "estimated", "most", "none")

    def changed(self, given: Mapping[str, Any], paginate_names: Collection[str]) -> Self:
        """Return these options with others in their place; None leaves an option as it is.

        Raises:
            ValueError: An option is not valid.
        """
        options = super().changed(given, paginate_names)
        changes: dict[str, Any] = {}
        if (nulls := given.get("nulls")) is not None:
            if nulls not in get_args(Nulls):
                names = ", ".join(map(repr, get_args(Nulls)))
                raise ValueError(f"nulls is {nulls!r}; give {names}")
            changes["nulls"] = nulls
        if (paths := given.get("paths")) is not None:
            changes["paths"] = MappingProxyType(_read_paths(paths))
        if (search := given.get("search")) is not None:
            if isinstance(search, str):
                raise ValueError(f"search is one string; give a list of columns: [{search!r}]")
            changes["search"] = tuple(search)
        if given.get("model") is not None:
            changes["model"] = given["model"]
        return replace(options, **changes) if changes else options


def _read_paths(paths: Mapping[str, type]) -> dict[str, type]:
    if not isinstance(paths, Mapping):
        raise ValueError(f'paths is {paths!r}; give a mapping such as {{"data.color": str}}')
    for path, type_ in paths.items():
        if not isinstance(path, str) or not all(path.split(".")):
            raise ValueError(
                f'paths has {path!r}; a path is a column and keys, "data.color", or a property in'
                " the column of the option extra"
            )
        if type_ not in {str, int, float, bool}:
            raise ValueError(f"paths: {path!r} is {type_!r}; give str, int, float or bool")
    return dict(paths)


class CallOptions(NamedTuple):
    """What ``params.sql`` sets for one call.

    Attributes:
        connection: The transaction that the call takes part in.
        where: A condition of SQLAlchemy that records must meet, beside the query.
        settings: Settings of PostgreSQL for this call alone (``SET LOCAL``), such as the tenant
            that row-level security looks at.
        lock: Locks the records that are read until the transaction ends.
        upsert: Columns whose unique values decide whether `create` changes a record instead.
        primary: Whether the primary has to answer, where there are read replicas.
    """

    connection: Transaction | None = None
    where: ColumnElement[bool] | TextClause | None = None
    settings: Mapping[str, str] | None = None
    lock: Lock | None = None
    upsert: tuple[str, ...] = ()
    primary: bool = False


NO_CALL_OPTIONS: Final = CallOptions()

_NAMES: Final = frozenset({*CallOptions._fields, "max_time_ms"})


def call_options(params: Params) -> CallOptions:
    """Return what ``params.sql`` sets.

    Raises:
        ValueError: A name or a value in it is not valid.
    """
    given = params.sql or {}
    for name in given:
        if name not in _NAMES:
            raise ValueError(
                f"params.sql has {name!r}; SQLService reads {', '.join(sorted(_NAMES))} from it"
            )
    connection = given.get("connection")
    if connection is not None and not isinstance(connection, Transaction):
        raise ValueError(
            f"params.sql: 'connection' is {connection!r}; give what `database.transaction()` or"
            " `transaction()` provides"
        )
    where = given.get("where")
    if where is not None and not isinstance(where, ColumnElement | TextClause):
        raise ValueError(
            f"params.sql: 'where' is {where!r}; give a condition of SQLAlchemy, such as"
            " messages.c.room == 5"
        )
    lock = given.get("lock")
    if lock is not None and lock not in get_args(Lock):
        raise ValueError(f"params.sql: 'lock' is {lock!r}; give 'update' or 'share'")
    if lock is not None and connection is None:
        raise ValueError("params.sql: 'lock' needs 'connection', a transaction that holds the lock")
    return CallOptions(
        connection,
        cast("ColumnElement[bool] | TextClause | None", where),
        _read_settings(given.get("settings"), connection),
        lock,
        _read_upsert(given.get("upsert")),
        bool(given.get("primary", False)),
    )


def _read_settings(settings: object, connection: object) -> Mapping[str, str] | None:
    if not settings:
        return None
    if not is_mapping(settings) or not all(
        isinstance(text, str) for pair in settings.items() for text in pair
    ):
        raise ValueError(
            f'params.sql: \'settings\' is {settings!r}; give names and text: {{"app.tenant": "5"}}'
        )
    if connection is not None:
        raise ValueError(
            "params.sql: 'settings' beside 'connection' would hold for the whole transaction; give"
            " them to it: database.transaction(settings={...})"
        )
    return dict(settings)


def _read_upsert(columns: Iterable[str] | None) -> tuple[str, ...]:
    if columns is None:
        return ()
    if isinstance(columns, str) or not isinstance(columns, Iterable) or not (names := [*columns]):
        raise ValueError(f"params.sql: 'upsert' is {columns!r}; give a list of columns: ['email']")
    return tuple(names)


def seconds_of(params: Params, seconds: float | None) -> float | None:
    """Return the time limit of a call: ``params.sql["max_time_ms"]``, or else the service's.

    Raises:
        ValueError: It is not valid.
    """
    given = params.sql.get("max_time_ms") if params.sql else None
    return seconds if given is None else read_max_time(given, "params.sql: 'max_time_ms'")
