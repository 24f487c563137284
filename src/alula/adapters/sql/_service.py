"""`SQLService`: a service on a table of PostgreSQL or SQLite.

What holds in this file:

- The database gets statements whose text was built from known names, and parameters.
- A call is one statement; only lists with different fields, and changes of many records on SQLite,
  are two or more, in one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final, Literal, Unpack

from alula._context import Params
from alula._events import is_in_transaction
from alula._public_error import log_text
from alula._service_object import RecordFields
from alula.adapters._database_options import MAX_CONDITIONS, MaxTime, in_time, read_max_time
from alula.adapters._records import selector
from alula.adapters._result_bounds import ResultBound
from alula.adapters._totals import Totals
from alula.adapters.base import AdapterService, CommonOptions, DollarKeys, Options
from alula.adapters.relations import how_to_name_key
from alula.adapters.sql._batches import Batches
from alula.adapters.sql._database import Database
from alula.adapters.sql._errors import raise_translated, translated
from alula.adapters.sql._operation import EXACT_UP_TO, Operation
from alula.adapters.sql._options import Nulls, SQLOptions, call_options, seconds_of
from alula.adapters.sql._own_sql import compiled_condition
from alula.adapters.sql._statements._criteria import Operand, joined_operand
from alula.adapters.sql._statements._shapes import Shapes
from alula.adapters.sql._statements._writes import (
    delete_many,
    delete_one,
    insert_one,
    replace_one,
    update_many,
    update_one,
)
from alula.adapters.sql._tables._drift import check_columns, check_fields
from alula.adapters.sql._tables._foreign_keys import foreign_keys_of
from alula.adapters.sql._tables._tables import Model, Table, TableSource, keys_between, table_of
from alula.errors import Unavailable
from alula.query import Query
from alula.types import Id, Record

__all__ = ["SQLService"]

_log = logging.getLogger("alula.sql")

_MAX_SHAPES: Final = 32
_TABLE: Final = "The database's table"


class SQLService(AdapterService[SQLOptions]):
    """A service whose records are the rows of a table.

    Args:
        model: The table: SQLAlchemy's ``Table``, a mapped class, the name of a table (its columns
            are read from the database), a pair of a Pydantic model and a table's name, or a
            function or an awaitable of one of these.
        database: The database.
        id: Name of the id property; the primary key unless it is named.
        share: Whether concurrent gets, creates, patches, finds and counts share round trips:
            ``{"get": False, "patch": False}`` turns each off. On SQLite, only gets do.
        nulls: Where an ascending order puts null: ``"first"``, as the other adapters do,
            ``"last"``, or ``"native"`` for the database's own way, which plain indexes serve.
        extra: A JSON column for properties without a column of their own. Without it, data with
            such a property is a `BadRequest`.
        paths: JSON paths that queries may name, with the type of their values:
            ``{"data.color": str}``.
        search: Text columns in which the filter ``$search`` looks for words, "phrases in quotes",
            ``-words`` to leave out, and ``or``; or one column of the type ``tsvector``. SQLite
            needs the index that `Database.create` makes.
        max_time_ms: The time limit of an operation in milliseconds. Exceeding it is a 408. False
            for no limit. None uses the application's setting ``sql_max_time_ms``, and without that
            10,000.
        max_conditions: How many conditions a query may have; more is a 400. False for no limit.
        options: As of `AdapterService`: ``operators`` such as ``["$like", "$ilike", "$notlike",
            "$contains"]``, and ``update_operators`` such as ``["$inc", "$push"]``. Of ``paginate``,
            ``"count"`` says what ``total`` is: ``"exact"``, ``"estimated"`` (the size in the
            database's statistics; with criteria, PostgreSQL's plan tells totals over 1,000, and
            SQLite counts), ``"most"`` (1,001 stands for more than 1,000), or ``"none"``.
            ``relations`` between tables of one database may be declared without a key, which
            `setup` then reads from the one foreign key between them, and queries may name the
            properties that their ``filter`` lists: ``author.name``.

    Attributes:
        database: As given.

    Raises:
        TypeError: ``database`` is not a `Database`.
        ValueError: An option is not valid.

    Examples:
        >>> from sqlalchemy import Column, Integer, MetaData, Table, Text
        >>> messages = Table(
        ...     "messages",
        ...     MetaData(),
        ...     Column("id", Integer, primary_key=True),
        ...     Column("text", Text, nullable=False),
        ... )
        >>> service = SQLService(messages, Database("sqlite://"), paginate={"max": 50})
        >>> service.id
        'id'
    """

    options_type: ClassVar[type[Options]] = SQLOptions
    paginate_options: ClassVar[frozenset[str]] = AdapterService.paginate_options | {"count"}
    call_options: ClassVar[frozenset[str]] = AdapterService.call_options | {
        "id",
        "model",
        "update_operators",
        "dotted_names",
        "share",
        "max_conditions",
        "max_time_ms",
    }
    selects: ClassVar[bool] = True
    measures: ClassVar[bool] = True
    joins: ClassVar[bool] = True
    converts_queries: ClassVar[bool] = True  # `with_schema` leaves ids to the types of columns
    dollar_keys: ClassVar[Mapping[str, DollarKeys]] = {
        "create": "never",
        "update": "never",
        "patch": "internal",
    }

    def __init__(
        self,
        model: Model,
        database: Database,
        *,
        id: str | None = None,
        share: bool | Mapping[str, bool] = True,
        nulls: Nulls = "first",
        extra: str | None = None,
        paths: Mapping[str, type] | None = None,
        search: Iterable[str] | None = None,
        max_time_ms: MaxTime = None,
        max_conditions: int | Literal[False] = MAX_CONDITIONS,
        **options: Unpack[CommonOptions],
    ) -> None:
        if not isinstance(database, Database):
            raise TypeError(
                f"SQLService takes a table and a database, not {database!r}: SQLService(messages,"
                ' Database("sqlite:///chat.sqlite"))'
            )
        if search is not None:
            options["filters"] = {"$search": True, **(options.get("filters") or {})}
        super().__init__(id="id" if id is None else id, **options)
        given = {
            "share": share,
            "nulls": nulls,
            "paths": paths,
            "search": search,
            "max_time_ms": max_time_ms,
            "max_conditions": max_conditions,
        }
        self.options = self.options.changed(given, self.paginate_options)
        self.database = database
        # In SQLite, which has no round trips, each statement would still go through all hooks.
        self.shares_finds = database.dialect == "postgresql" and "find" in self.options.shared
        self._holds_database = False
        self._source = TableSource(model, database.dialect, id=id, extra=extra)
        self._registered = database.register(self, self._source)
        self._extra = extra
        self._names_id = id is not None
        self._expected: list[RecordFields] = []
        self._reads_max_time_setting = max_time_ms is None
        self._shapes: dict[tuple[object, ...], Shapes] = {}
        self._plain_options: SQLOptions | None = None
        self._plain: Operation | None = None
        self._batches = Batches(database)
        self._totals = Totals()
        if self._source.table is not None:
            self._take_id(self._source.table)

    async def setup(self, app: Any, path: str) -> None:
        """Open the database and resolve the table; if that fails, the next call tries again.

        Relations without a key get theirs here.

        Raises:
            ValueError: The setting ``sql_max_time_ms`` is not valid, or no single foreign key is
                that of a relation, or another service declares the same table in a way that
                contradicts this one, or a schema of the records or the table in the database has
                other columns.
            Exception: A relation needs its key from a table that could not be read.
        """
        await super().setup(app, path)
        if self._reads_max_time_setting and app is not None:
            seconds = read_max_time(app.get("sql_max_time_ms"), "the setting 'sql_max_time_ms'")
            self.options = replace(self.options, seconds=seconds)
        try:
            await self.database.acquire()
            self._holds_database = True
            self._take_id(await self._source.resolve(self.database))
        except Exception as error:  # noqa: BLE001  # the model may be a function of the user
            text = "the table of the service %r could not be read; its next call tries again%s"
            is_away = isinstance(error, Unavailable)
            reason = f": {log_text(error)}" if is_away else ""
            _log.error(text, path, reason, exc_info=None if is_away else error)
        try:
            self._registered.path = path
            self.database.check_declarations()
            await self._check_fields(app, path)
            await self._read_keys()
        except BaseException:
            await self.teardown(app, path)  # nothing else tears down what was not set up
            raise

    def expect_fields(self, fields: RecordFields) -> None:
        """Have `setup` check that the table can store what a schema says of its records."""
        self._expected.append(fields)

    async def _check_fields(self, app: Any, path: str) -> None:
        """Compare the table with schemas of its records, and with what the database has.

        Raises:
            ValueError: One of them has a property or a column that the other lacks.
        """
        source = self._source
        if source.table is None:
            return
        creates = app is None or "create" in app.service(path).methods
        for fields in self._expected:
            check_fields(source.table, fields, creates=creates)
        if source.is_resolved:
            await check_columns(source.table, self.database, path, creates=creates)

    async def teardown(self, app: Any, path: str) -> None:  # noqa: ARG002  # teardown gets both
        """Close the database, unless other services still use it."""
        self._registered.path = None
        if self._holds_database:
            self._holds_database = False
            await self.database.release()

    def store(self) -> Hashable:
        """Return what tells this table from others: services on one table hear each other."""
        table = self._source.table
        return id(self) if table is None else ("sql", id(self.database), table.name)

    def changed_with(self) -> frozenset[Hashable]:
        """Return the tables whose rows take some of this one with them, as `store` tells them."""
        table = self._source.table
        keys = [] if table is None else foreign_keys_of(table.source)
        names = [key.table.rpartition(".")[2] for key in keys if key.acts]  # without schemas
        return frozenset(("sql", id(self.database), name) for name in names)

    def ask_primary(self, params: Params) -> None:
        """Have the primary answer a call: a replica may not know of the last change yet."""
        if self.database.has_replicas:
            params.sql = {**(params.sql or {}), "primary": True}

    @property
    def searched_columns(self) -> tuple[str, ...]:
        """The columns in which ``$search`` looks, for which `Database.create` makes an index."""
        return self.options.search

    async def get_model(self, params: Params | None = None) -> Table:
        """Return the table; ``params.adapter["model"]`` wins over the service's.

        Raises:
            Timeout: It took longer than an operation may.
            Exception: Whatever the model raises.
        """
        return await self._table(self.options_for(params or Params()))

    async def _table(self, options: SQLOptions) -> Table:
        if options.model is not None:
            given = table_of(options.model, self.database, id=options.id, extra=self._extra)
            return await in_time(given, options.seconds, _TABLE)
        table = await in_time(self._source.resolve(self.database), options.seconds, _TABLE)
        if table.id.name != options.id:
            self._take_id(table)
            raise RuntimeError(
                f"the primary key of {table.name!r} is {table.id.name!r}, which was not known when"
                f" this call began; await app.setup() first, or say id={table.id.name!r}"
            )
        return table

    def _take_id(self, table: Table) -> None:
        if not self._names_id and table.id.name != self.id:
            self.id = table.id.name
            self.options = replace(self.options, id=self.id)

    def _known(self, params: Params, options: SQLOptions) -> Operation | None:
        """Return what runs the statements of a call without options, None if that is not known."""
        # By the dict: attributes of params take four times as long.
        is_plain = options is self._plain_options and not params.__dict__.get("sql")
        return self._plain if is_plain else None

    async def _operation(self, params: Params, options: SQLOptions) -> Operation:
        """Return what runs the statements of one call."""
        source = self._source
        if source.is_resolved and source.table is not None and options.model is None:
            table = source.table
        else:
            table = await self._table(options)
        # Most changed options (`paginate=False`) make the same statements.
        key = (table, options.id, options.max_conditions, options.nulls)
        shapes = self._shapes.get(key)
        if shapes is None:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            joined = await self._joined(table)
            shapes = self._shapes[key] = Shapes(table, options, joined)
        if not params.sql:
            operation = Operation(self.database, shapes, options.seconds)
            if options is self.options:
                self._plain_options, self._plain = options, operation
            return operation
        call = call_options(params)
        where = (
            None if call.where is None else compiled_condition(call.where, self.database.dialect)
        )
        seconds = seconds_of(params, options.seconds)
        return Operation(self.database, shapes, seconds, call, where)

    async def _joined(self, table: Table) -> Mapping[str, Operand]:
        """Return the properties of related records that queries may name.

        Raises:
            RuntimeError: A related record is in another database, or nowhere.
        """
        joined: dict[str, Operand] = {}
        for name, (first, field) in self.relations.filters.items():
            relation = self.relations[first]
            other = self.relations.service(relation)
            if not isinstance(other, SQLService) or other.database is not self.database:
                raise RuntimeError(
                    f"relations: {name!r} needs {relation.service!r} to be a SQLService on the same"
                    f" database; leave {field!r} out of its filter"
                )
            joined[name] = joined_operand(name, relation.key, table, field, await other.get_model())
        return joined

    async def _read_keys(self) -> None:
        """Set the keys of relations that were declared without one, by the foreign keys.

        Raises:
            ValueError: No foreign key connects the tables, or several do.
            Exception: A table could not be read.
        """
        for name, relation in self.relations.without_key.items():
            other = self.relations.service(relation)
            if not isinstance(other, SQLService) or other.database is not self.database:
                raise ValueError(
                    f"relations: {name!r}: {relation.service!r} is not a SQLService on the same"
                    " database, so no foreign key can connect them;"
                    f" {how_to_name_key(name, relation)}"
                )
            services = (other, self) if relation.many else (self, other)
            # What is declared needs no database, which may be down at the start.
            table, target = [
                each._source.table or await each._source.resolve(self.database)  # noqa: SLF001  # of the same class
                for each in services
            ]
            keys = await keys_between(table, target, self.database)
            if len(keys) != 1:
                between = f"from {table.name!r} to {target.id.name!r} of {target.name!r}"
                problem = (
                    f"{len(keys)} foreign keys lead {between}: {', '.join(map(repr, keys))}"
                    if keys
                    else f"no foreign key leads {between}"
                )
                how = how_to_name_key(name, relation, keys[0] if keys else None)
                raise ValueError(f"relations: {name!r}: {problem}; {how}")
            self.relations.set_key(name, keys[0])

    # -- the six methods of the store ----------------------------------------------------------

    async def _find(
        self, query: Query, params: Params, options: SQLOptions
    ) -> tuple[list[Record], int | None]:
        counting = options.counting
        with translated(self._source.table):
            operation = self._known(params, options) or await self._operation(params, options)
            shared = None
            if query.limit is not None and _is_shared("find", operation, options):
                shared = partial(self._batches.page, operation)
            page = partial(operation.page, query, shared)
            count = partial(self._count, operation, query, options)
            if query.limit == 0:
                return [], await count() if counting != "none" else None
            if options.pagination is None or counting == "none":
                return await page(), None
            combined = None
            if counting == "exact" and operation.call.lock is None:
                combined = partial(operation.page_and_total, query, shared)
            return await self._totals.with_page(
                query, page, count, combined=combined, combines_always=True, concurrent=False
            )

    async def _get(
        self, id: Id, query: Query, params: Params, options: SQLOptions
    ) -> Record | None:
        try:
            operation = self._known(params, options) or await self._operation(params, options)
            key = operation.shapes.id_value(id)
            if key is None:
                return None
            if _is_shared("get", operation, options):
                return await self._batches.get(operation, key, query)
            return await operation.get(key, query)
        except Exception as error:
            raise_translated(error, self._source.table)
            raise

    async def _create(
        self, records: list[Record], query: Query, params: Params, options: SQLOptions
    ) -> list[Record]:
        try:
            operation = self._known(params, options) or await self._operation(params, options)
            shapes, select = operation.shapes, query.select
            if params.provider is not None:
                shapes.writer.check_ids_from_client(records)
            rows = list(map(shapes.writer.new_row, records))
            if len(rows) == 1 and operation.is_plain:
                if shapes.shares_inserts and _is_shared("create", operation, options):
                    record = await self._batches.create(operation, rows[0])
                    return [record if select is None else selector(select, options.id)(record)]
            elif operation.call.upsert:
                return await operation.upsert(rows, select)
            elif len(rows) > 1:
                return await operation.create_many(rows, select)
            return await operation.create([insert_one(shapes, rows[0], select)], select)
        except Exception as error:
            raise_translated(error, self._source.table)
            raise

    async def _update(
        self, id: Id, data: Record, query: Query, params: Params, options: SQLOptions
    ) -> Record | None:
        with translated(self._source.table):
            operation = self._known(params, options) or await self._operation(params, options)
            key = operation.shapes.id_value(id)
            if key is None:
                return None
            statement = replace_one(operation.shapes, key, data, query, where=operation.where)
            return await operation.change(statement, query)

    async def _patch(
        self, id: Id | None, data: Record, query: Query, params: Params, options: SQLOptions
    ) -> list[Record]:
        try:
            operation = self._known(params, options) or await self._operation(params, options)
            shapes, where = operation.shapes, operation.where
            if id is None:
                if not data:
                    return await operation.page(query)
                return await operation.change_many(
                    update_many(shapes, data, query, where=where), query
                )
            key = shapes.id_value(id)
            if key is None:
                return []
            if not data:
                record = await operation.get(key, query)
            elif _is_shared("patch", operation, options):
                record = await self._batches.patch(operation, key, data, query)
            else:
                statement = update_one(shapes, key, data, query, where=where)
                record = await operation.change(statement, query)
            return [] if record is None else [record]
        except Exception as error:
            raise_translated(error, self._source.table)
            raise

    async def _remove(
        self, id: Id | None, query: Query, params: Params, options: SQLOptions
    ) -> list[Record]:
        with translated(self._source.table, removes=True):
            operation = self._known(params, options) or await self._operation(params, options)
            shapes, where = operation.shapes, operation.where
            if id is None:
                return await operation.change_many(delete_many(shapes, query, where=where), query)
            key = shapes.id_value(id)
            if key is None:
                return []
            record = await operation.change(delete_one(shapes, key, query, where=where), query)
            return [] if record is None else [record]

    async def _measure(
        self, query: Query, params: Params, options: SQLOptions, bound: ResultBound
    ) -> tuple[int, int]:
        del bound
        with translated(self._source.table):
            operation = self._known(params, options) or await self._operation(params, options)
            return await operation.measure(query)

    async def _count(self, operation: Operation, query: Query, options: SQLOptions) -> int:
        if options.counting == "most":
            return await operation.count(query, EXACT_UP_TO + 1)
        if options.counting == "estimated":
            estimate = await operation.estimate(query)
            if estimate is not None:
                return estimate
        if _is_shared("count", operation, options):
            return await self._batches.count(operation, query)
        return await operation.count(query)


def _is_shared(name: str, operation: Operation, options: SQLOptions) -> bool:
    """Return whether a call may share a statement with others.

    Within a transaction no call does, even one that does not take part: another call of the batch
    could wait for this transaction, which waits for its call.
    """
    return name in options.shared and operation.is_plain and not is_in_transaction()
