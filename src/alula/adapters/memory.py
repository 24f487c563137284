"""Records in the memory of the process: for tests, prototypes, and data that may be lost.

What holds in this file:

- A stored record is never changed: a write puts a new one in its place, and what goes in or out
  is a copy. So orders can be kept until the next write, and new records may share what they have
  in common with old ones.
- No method waits for anything, so each is one step for all other tasks.
"""
# ruff: noqa: ARG002  # the six methods have the same arguments for every adapter

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, ClassVar

from alula._context import Params
from alula.adapters._records import IMMUTABLE, copied, merged
from alula.adapters.base import AdapterService, DollarKeys, Pagination
from alula.errors import BadRequest, Conflict
from alula.query import SUPPORTED_OPERATORS, Grammar, Query, ordered, predicate
from alula.query._budget import MAX_STEPS, Budget
from alula.types import Id, Record

__all__ = ["MemoryService"]

_KEPT_ORDERS = 8


class MemoryService(AdapterService):
    """A service whose records live in a dict.

    Ids that it gives count up; one that was given is not given again. A record is found by the
    text of its id, so that ``5`` and ``"5"``, which is what a URL has, are one id.

    Args:
        store: Records to begin with, which are copied: a mapping of id to record, or a list.
        id: Name of the id property.
        start_id: The first id to give.
        paginate: ``{"default", "max"}``: `find` answers pages of this size.
        multi: Whether create takes a list and patch and remove the id None; or the methods that
            may.
        operators: Operators that queries may use beside the common ones, out of those that
            `alula.query.predicate` knows.
        filters: Names at the top level of a query that are accepted; they select nothing here.
        update_operators: None can be opened here; the option is there as in every adapter.
        dotted_names: As in `AdapterService`.
        events: Names of events that the service emits beside the standard ones.
        unique: Names of properties of which no two records have the same value, as a unique index
            of a database holds it: the second is a `Conflict`, however many write at once. Records
            without the property, or with None, are not compared.

    Raises:
        TypeError: ``unique`` is one string in place of a list of names.
        ValueError: An option is not in order, or the key of a record is not its id.
        BadRequest: A record to begin with is not in order.
        Conflict: Two records to begin with have the same id, or the same unique value.
    """

    process_local: ClassVar[bool] = True

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
        paginate: Mapping[str, Any] | bool | None = None,
        multi: bool | Iterable[str] = False,
        operators: Iterable[str] = (),
        filters: Mapping[str, Any] | None = None,
        update_operators: Iterable[str] = (),
        dotted_names: bool = False,
        events: Iterable[str] = (),
        unique: Iterable[str] = (),
    ) -> None:
        if isinstance(unique, str):
            raise TypeError(f"unique is a list of names of properties: unique=[{unique!r}]")
        if tuple(update_operators):
            raise ValueError("update_operators: records in memory know none; leave it out")
        operators = _known(operators)
        super().__init__(
            id=id, paginate=paginate, multi=multi, operators=operators, filters=filters,
            dotted_names=dotted_names, events=events,
        )  # fmt: skip
        self._start_id = self._next_id = start_id
        self._store: dict[str, Record] = {}
        self._owners: dict[str, dict[Any, str]] = {name: {} for name in unique}
        self._orders: dict[tuple[tuple[str, int], ...], list[Record]] = {}
        self.reset(store)

    def reset(
        self, store: Mapping[Any, Mapping[str, Any]] | Iterable[Mapping[str, Any]] | None = None
    ) -> None:
        """Forget all records, give ids from the first on again, and take these records in.

        Args:
            store: As in the constructor; None leaves the service empty.

        Raises:
            BadRequest: A record is not in order. Nothing has changed then.
            Conflict: Two records have the same id or unique value. Nothing has changed then.
            ValueError: A record has another id than its key. Nothing has changed then.
        """
        records = list(self._with_keys(store) if isinstance(store, Mapping) else store or ())
        new = [self._new_record(record, Params()) for record in records]
        before = self._store, self._next_id, self._owners
        self._store, self._next_id = {}, self._start_id
        self._owners = {name: {} for name in before[2]}
        try:
            self._add(new)
        except Exception:
            self._store, self._next_id, self._owners = before
            raise

    def _with_keys(self, store: Mapping[Any, Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
        for key, record in store.items():
            if isinstance(record, Mapping) and str(record.get(self.id, key)) != str(key):
                raise ValueError(
                    f"store has under {key!r} a record whose {self.id!r} is {record[self.id]!r}"
                )
            yield {self.id: key, **record} if isinstance(record, Mapping) else record

    def _grammar_for(self, params: Params) -> Grammar:
        if not params.adapter:
            return self._grammar
        _known(params.adapter.get("operators") or ())
        return super()._grammar_for(params)

    # -- the six methods of the store ----------------------------------------------------------

    async def _find(
        self, query: Query, params: Params, pagination: Pagination | None
    ) -> tuple[list[Record], int | None]:
        records = self._ordered(query)
        start, limit = query.skip, query.limit
        end = None if limit is None else start + limit
        if not query.criteria.parts:
            total = len(records)
            chosen = records[start:end]
        elif pagination is None:  # nobody wants the number, so stop at the last one
            total = None
            chosen = list(islice(filter(_test(query), records), start, end))
        else:
            matching = list(filter(_test(query), records))
            total = len(matching)
            chosen = matching[start:end]
        return [record.copy() for record in chosen], total

    async def _get(self, id: Id, query: Query, params: Params) -> Record | None:
        record = self._match(id, query) if query.criteria.parts else self._store.get(str(id))
        return None if record is None else record.copy()

    async def _create(self, records: list[Record], query: Query, params: Params) -> list[Record]:
        return [record.copy() for record in self._add(records)]

    async def _update(self, id: Id, data: Record, query: Query, params: Params) -> Record | None:
        record = self._match(id, query)
        if record is None:
            return None
        return self._replace(record, {**copied(data), self.id: record[self.id]})

    async def _patch(
        self, id: Id | None, data: Record, query: Query, params: Params
    ) -> list[Record]:
        changes = copied(data)
        records = self._chosen(id, query)
        if params.provider is not None and len(records) > 1:
            budget = Budget(MAX_STEPS) if query.budget is None else query.budget
            budget.spend(len(records) * _values_in(changes), "The data has too many values")
        if any(name.startswith(f"{self.id}.") for name in changes):
            raise BadRequest(f"'{self.id}' of a record never changes, nor a part of it")
        new = [merged(record, changes) for record in records]  # all or none
        if self._owners:
            self._refuse_taken({str(record[self.id]): record for record in new})
        return [self._replace(*each) for each in zip(records, new, strict=True)]

    async def _remove(self, id: Id | None, query: Query, params: Params) -> list[Record]:
        records = self._chosen(id, query)
        for record in records:
            del self._store[str(record[self.id])]
            self._disown(record)
        self._orders.clear()
        return [record.copy() for record in records]

    # -- the store -----------------------------------------------------------------------------

    def _match(self, id: Id, query: Query) -> Record | None:
        """Return the stored record with an id, None where it does not meet the query."""
        record = self._store.get(str(id))
        if record is None or not query.criteria.parts or _test(query)(record):
            return record
        return None

    def _chosen(self, id: Id | None, query: Query) -> list[Record]:
        """Return the stored records that one id, or with None a query, selects."""
        if id is None:
            return list(filter(_test(query), self._ordered(query)))
        record = self._match(id, query)
        return [] if record is None else [record]

    def _ordered(self, query: Query) -> list[Record]:
        """Return all stored records in the order of a query, which is kept until the next write."""
        records = self._orders.get(query.sort)
        if records is None:
            if len(self._orders) == _KEPT_ORDERS:
                self._orders.clear()
            records = self._orders[query.sort] = ordered(
                self._store.values(), query.sort, query.budget
            )
        return records

    def _replace(self, old: Record, new: Record) -> Record:
        """Put a record in the place of an old one, and return a copy of it."""
        key = str(old[self.id])
        if self._owners:
            self._refuse_taken({key: new})
            self._disown(old)
            self._own({key: new})
        stored = self._store[key] = _storable(new)
        self._orders.clear()
        return stored.copy()

    def _add(self, records: list[Record]) -> list[Record]:
        """Store all of the new records or none, and return what is stored."""
        brought = {str(record[self.id]) for record in records if self.id in record}
        next_id = self._next_id
        added: dict[str, Record] = {}
        for record in records:
            if self.id not in record:
                while str(next_id) in self._store or str(next_id) in brought:
                    next_id += 1
                record[self.id] = next_id
                next_id += 1
            elif type(record[self.id]) is float:
                raise BadRequest(f"'{self.id}' is a fraction; an id is a string or a whole number")
            key = str(record[self.id])
            if key in self._store or key in added:
                raise Conflict(f"There is a record with the {self.id} '{key}' already")
            added[key] = _storable(copied(record))
        self._refuse_taken(added)
        self._store.update(added)
        self._own(added)
        self._next_id = next_id
        self._orders.clear()
        return list(added.values())

    # -- unique values -------------------------------------------------------------------------

    def _refuse_taken(self, records: Mapping[str, Record]) -> None:
        """Refuse records, by their keys, whose unique values others have.

        Raises:
            Conflict: One is taken.
        """
        for name, owners in self._owners.items():
            wanted: dict[Any, str] = {}
            for key, value in _values(name, records):
                if wanted.setdefault(value, owners.get(value, key)) != key:
                    raise Conflict(
                        f"There is a record with this {name} already", errors={name: "is taken"}
                    )

    def _own(self, records: Mapping[str, Record]) -> None:
        for name, owners in self._owners.items():
            owners.update((value, key) for key, value in _values(name, records))

    def _disown(self, record: Record) -> None:
        for name, owners in self._owners.items():
            for _, value in _values(name, {"": record}):
                owners.pop(value, None)


def _known(operators: Iterable[str]) -> tuple[str, ...]:
    """Return operators that records in memory can be tested for.

    Raises:
        ValueError: One is not among them.
    """
    names = tuple(operators)
    for name in names:
        if name not in SUPPORTED_OPERATORS:
            raise ValueError(
                f"operators lists {name!r}; records in memory can be tested for"
                f" {', '.join(sorted(SUPPORTED_OPERATORS))}"
            )
    return names


class _Nested(Record):
    """A record that holds something which can be changed: its copy copies that, too."""

    def copy(self) -> Record:
        return {name: copied(value) for name, value in self.items()}


def _values(name: str, records: Mapping[str, Record]) -> Iterable[tuple[str, Any]]:
    """Return the values of a property by the keys of their records, in a form to look them up."""
    for key, record in records.items():
        value = record.get(name)
        if value is not None:
            # 1 == True, and lists cannot be looked up.
            plain = isinstance(value, str | int | float) and not isinstance(value, bool)
            yield key, value if plain else (type(value).__name__, repr(value))


def _test(query: Query) -> Callable[[Record], bool]:
    """Return what says whether a record meets a query, within the budget of the call."""
    return predicate(query.criteria, query.budget)


def _storable(record: Record) -> Record:
    flat = all(type(value) in IMMUTABLE for value in record.values())
    return record if flat else _Nested(record)


def _values_in(value: Any) -> int:
    """Return how many values there are in data, itself included."""
    if isinstance(value, Mapping):
        return 1 + sum(map(_values_in, value.values()))
    return 1 + sum(map(_values_in, value)) if type(value) is list else 1
