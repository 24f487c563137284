"""`MemoryService`: records in the memory of the process, for tests and prototypes.

What holds in this file:

- A stored record never changes: a write replaces it by a new one, and what goes in or out is a
  copy. So sorted lists can be kept until the next write, and a new record may share values with the
  old one.
- No method awaits anything, so each is atomic for all other tasks.
"""
# ruff: noqa: ARG002  # the six methods have the same arguments for every adapter

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from operator import methodcaller
from typing import Any, ClassVar, Self, Unpack

from alula._context import Params
from alula.adapters._options import read_names
from alula.adapters._records import (
    IMMUTABLE,
    are_immutable,
    copied,
    dotted_names,
    is_plain,
    merged,
    size_of_patch,
)
from alula.adapters._unique_values import UniqueValues
from alula.adapters.base import AdapterService, CommonOptions, DollarKeys, Options
from alula.errors import BadRequest, Conflict
from alula.query import SUPPORTED_OPERATORS, Query, ordered, predicate
from alula.query._query import EMPTY_QUERY, MAX_STEPS, Budget
from alula.types import Id, Record, is_mapping

__all__ = ["MemoryService"]

_MAX_SORTED_LISTS = 8
# `map` calls it without a step in Python for each record (bench rest find of ten: -3 %).
_copy: Callable[[Record], Record] = methodcaller("copy")


class _MemoryOptions(Options):  # no dataclass of its own: it has no other fields
    """The options of a call, whose operators are those that Python can test."""

    def changed(self, given: Mapping[str, Any], paginate_names: Collection[str]) -> Self:
        for name in read_names("operators", given.get("operators") or ()):
            if name not in SUPPORTED_OPERATORS:
                raise ValueError(
                    f"operators lists {name!r}; records in memory can be tested for"
                    f" {', '.join(sorted(SUPPORTED_OPERATORS))}"
                )
        return super().changed(given, paginate_names)


class MemoryService(AdapterService):
    """A service that keeps its records in a dict.

    Generated ids count up and are never used twice. Records are found by the text of their id:
    ``5`` and ``"5"``, which is how a URL spells it, are one id.

    Args:
        store: Initial records, which are copied: a mapping of id to record, or a list.
        id: Name of the id property.
        start_id: The first id to generate.
        unique: Names of properties that have a different value in each record, like a unique index
            of a database: a second record with the same value is a `Conflict`. Records without the
            property, or with None, are not compared.
        options: As of `AdapterService`. ``operators`` are those that `alula.query.predicate` tests,
            ``filters`` select nothing here, and there are no ``update_operators``.

    Raises:
        TypeError: ``unique`` is one string in place of a list of names, or ``start_id`` is not a
            number.
        ValueError: An option is not valid, or the key of a record is not its id.
        BadRequest: An initial record is not valid.
        Conflict: Two initial records have the same id, or the same unique value.

    Examples:
        >>> import asyncio
        >>> notes = MemoryService([{"id": 1, "text": "Milk"}], start_id=2)
        >>> asyncio.run(notes.create({"text": "Bread"}))
        {'text': 'Bread', 'id': 2}
    """

    options_type: ClassVar[type[Options]] = _MemoryOptions
    process_local: ClassVar[bool] = True
    sorts_by_code_points: ClassVar[bool] = True

    dollar_keys: ClassVar[Mapping[str, DollarKeys]] = {
        "create": "plain",
        "update": "never",
        "patch": "never",
    }

    def __init__(
        self,
        store: Mapping[Any, Mapping[str, Any]] | Iterable[Mapping[str, Any]] | None = None,
        *,
        id: str = "id",
        start_id: int = 0,
        unique: Iterable[str] = (),
        **options: Unpack[CommonOptions],
    ) -> None:
        if isinstance(unique, str):
            raise TypeError(f"unique must be a list of names of properties: unique=[{unique!r}]")
        if not isinstance(start_id, int):
            raise TypeError(f"start_id is {start_id!r}; give a whole number")
        if tuple(options.get("update_operators", ())):
            raise ValueError("update_operators: records in memory have none; leave it out")
        # Kept as a tuple, since it is read twice: here and by the base class.
        options["operators"] = read_names("operators", options.get("operators", ()))
        super().__init__(id=id, **options)
        self._start_id = self._next_id = start_id
        self._store: dict[str, Record] = {}
        self._unique = UniqueValues(unique)
        self._sorted_lists: dict[tuple[tuple[str, int], ...], list[Record]] = {}
        self.reset(store)

    def reset(
        self, store: Mapping[Any, Mapping[str, Any]] | Iterable[Mapping[str, Any]] | None = None
    ) -> None:
        """Replace all records by these, and start ids from the first one again.

        If it raises, nothing has changed.

        Args:
            store: As in the constructor; None leaves the service empty.

        Raises:
            BadRequest: A record is not valid.
            Conflict: Two records have the same id or unique value.
            ValueError: The key of a record is not its id.
        """
        records: list[Mapping[str, Any]] = []
        if is_mapping(store):
            for key, record in store.items():
                # What is not a mapping goes on to _new_record(), which refuses it.
                if isinstance(record, Mapping):
                    if str(record.get(self.id, key)) != str(key):
                        own_id = record[self.id]
                        raise ValueError(
                            f"store has under {key!r} a record whose {self.id!r} is {own_id!r}"
                        )
                    record = {self.id: key, **record}  # noqa: PLW2901  # not the caller's
                records.append(record)
        else:
            records.extend(store or ())
        new = [self._new_record(record, Params(), self.options) for record in records]
        before = self._store, self._next_id, self._unique
        self._store, self._next_id = {}, self._start_id
        self._unique = UniqueValues(before[2].names)
        try:
            self._add(new)
        except Exception:
            self._store, self._next_id, self._unique = before
            raise

    # -- the six methods of the store ----------------------------------------------------------

    async def _find(
        self, query: Query, params: Params, options: Options
    ) -> tuple[list[Record], int | None]:
        if params.pipeline:
            raise _no_aggregation(self)
        records = self._sorted(query)
        start, limit = query.skip, query.limit
        end = None if limit is None else start + limit
        if not query.criteria.parts:
            total = len(records)
            page = records[start:end]
        elif options.pagination is None:  # the total is not used, so stop at the last record
            total = None
            page = list(islice(filter(_test(query), records), start, end))
        else:
            matching = list(filter(_test(query), records))
            total = len(matching)
            page = matching[start:end]
        return list(map(_copy, page)), total

    async def _get(self, id: Id, query: Query, params: Params, options: Options) -> Record | None:
        if params.pipeline:
            raise _no_aggregation(self)
        record = self._store.get(str(id))
        if query is not EMPTY_QUERY and not _meets(record, query):
            return None
        return None if record is None else record.copy()

    async def _create(
        self, records: list[Record], query: Query, params: Params, options: Options
    ) -> list[Record]:
        return self._add(records)

    async def _update(
        self, id: Id, data: Record, query: Query, params: Params, options: Options
    ) -> Record | None:
        records = self._selected_records(id, query)
        if not records:
            return None
        changes = data if are_immutable(map(type, data.values())) else copied(data)
        return self._replace(records[0], {**changes, self.id: records[0][self.id]})

    async def _patch(
        self, id: Id | None, data: Record, query: Query, params: Params, options: Options
    ) -> list[Record]:
        changes, dotted = data, []
        if not is_plain(data):
            changes, dotted = copied(data), dotted_names(data)
            for name in dotted:
                if name.startswith(f"{self.id}."):
                    raise BadRequest(
                        f"'{self.id}' of a record never changes, not even a part of it"
                    )
        records = self._selected_records(id, query)
        if len(records) > 1 and params.provider is not None:
            budget = Budget(MAX_STEPS) if query.budget is None else query.budget
            values = len(records) * size_of_patch(changes, dotted)
            budget.spend(values, "The data has too many values")
        new = [merged(record, changes, dotted) for record in records]  # all or none
        if self._unique.names:
            self._unique.refuse_taken({str(record[self.id]): record for record in new})
        return list(map(self._replace, records, new))

    async def _remove(
        self, id: Id | None, query: Query, params: Params, options: Options
    ) -> list[Record]:
        records = self._selected_records(id, query)
        for record in records:
            del self._store[str(record[self.id])]
            self._unique.disown(record)
        self._sorted_lists.clear()
        return [record.copy() for record in records]

    # -- the store -----------------------------------------------------------------------------

    def _selected_records(self, id: Id | None, query: Query) -> list[Record]:
        """Return the stored record with an id, or with None those that the query selects."""
        if id is None:
            return list(filter(_test(query), self._sorted(query)))
        record = self._store.get(str(id))
        if query is not EMPTY_QUERY and not _meets(record, query):
            return []
        return [] if record is None else [record]

    def _sorted(self, query: Query) -> list[Record]:
        """Return all stored records in the order of a query."""
        records = self._sorted_lists.get(query.sort)
        if records is None:
            if len(self._sorted_lists) == _MAX_SORTED_LISTS:
                self._sorted_lists.clear()
            records = self._sorted_lists[query.sort] = ordered(
                self._store.values(), query.sort, query.budget
            )
        return records

    def _replace(self, old: Record, new: Record) -> Record:
        """Put a new record in the place of a stored one, and return a copy of it."""
        key = str(old[self.id])
        if self._unique.names:
            self._unique.refuse_taken({key: new})
            self._unique.disown(old)
            self._unique.own({key: new})
        is_flat = are_immutable(map(type, new.values()))
        stored = self._store[key] = new if is_flat else _Nested(new)
        self._sorted_lists.clear()
        return stored.copy()

    def _add(self, records: list[Record]) -> list[Record]:
        """Store all of the new records or none, and return copies of them."""
        store, name, next_id = self._store, self.id, self._next_id
        is_one = len(records) == 1  # no other one brings an id that it could be given
        given_ids = () if is_one else {str(record[name]) for record in records if name in record}
        added: dict[str, Record] = {}
        copies: list[Record] = []
        for record in records:
            new_id = record.get(name)
            if new_id is None:
                while (key := str(next_id)) in store or key in given_ids:
                    next_id += 1
                record[name] = next_id
                next_id += 1
            elif type(new_id) is float:
                raise BadRequest(f"'{name}' is a fraction; an id is a string or a whole number")
            else:
                key = str(new_id)
                if key in store or key in added:
                    raise Conflict(
                        f"There is a record with the {name} '{key}' already",
                        errors={name: "is taken"},
                    )
            is_flat = are_immutable(map(type, record.values()))
            new = added[key] = record.copy() if is_flat else _Nested(copied(record))
            copies.append(new.copy())
        if self._unique.names:
            self._unique.refuse_taken(added)
            self._unique.own(added)
        store.update(added)
        self._next_id = next_id
        self._sorted_lists.clear()
        return copies


class _Nested(Record):
    """A record with values that could be changed, which `copy` has to copy, too.

    Most records are flat: their `dict.copy`, for each one that is read, is far faster.
    """

    def copy(self) -> Record:
        return {
            name: value if type(value) in IMMUTABLE else copied(value)
            for name, value in self.items()
        }


def _no_aggregation(service: MemoryService) -> TypeError:
    # To ignore the pipeline would return other records than the call asks for.
    return TypeError(
        f"{type(service).__name__} has no aggregation, so params.pipeline would have no effect;"
        " remove it, or keep these records in a MongoDBService"
    )


def _test(query: Query) -> Callable[[Record], bool]:
    """Return a function that tells whether a record meets a query."""
    return predicate(query.criteria, query.budget)


def _meets(record: Record | None, query: Query) -> bool:
    if not query.criteria.parts:
        return record is not None
    test = _test(query)  # first: a query that is not valid is a 400, whether the record exists
    return record is not None and test(record)
