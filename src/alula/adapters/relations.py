"""Relations between services: records that refer to others, and what ``$include`` adds to a page.

What holds in this file:

- Related records are what `find` of their own service gives the same caller: its hooks
  decide what the caller may see, and its redaction holds.
- ``$include`` is for `find` and `get`: what other methods return is also sent to others, as events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from alula._context import Params
from alula.adapters._options import Options
from alula.adapters._records import selector
from alula.adapters._related import (
    INCLUDE,
    Inclusion,
    add_many,
    add_one,
    bounded,
    find_ids,
    find_values,
    tests_of,
)
from alula.errors import BadRequest, shown_name
from alula.hooks import hook_metadata
from alula.hooks._table import HookTable
from alula.query import And, Or, Query, Where, ordered
from alula.query._grammar import as_list
from alula.query._query import Criterion
from alula.types import Record

__all__ = ["Relation", "belongs_to", "has_many"]

OptionsT = TypeVar("OptionsT", bound=Options)

_MAX_DEPTH: Final = 3

_MOST_SORTED: Final = 10_000
"""How many records may be sorted by related ones where the store cannot join."""


@dataclass(frozen=True)
class Relation:
    """A relation; made by `belongs_to` and `has_many`.

    Attributes:
        service: The path of the other service.
        key: The property that holds the id of the other record; with ``many``, one of its own.
            Empty until it is read from the foreign keys.
        many: Whether the other records refer to this one.
        limit: How many records `has_many` adds at most.
        sort: The order of these records.
        filter: Properties of the other record that queries may name: ``author.name``.
    """

    service: str
    key: str = ""
    many: bool = False
    limit: int = 0
    sort: tuple[tuple[str, int], ...] = ()
    filter: tuple[str, ...] = ()


def belongs_to(service: str, key: str | None = None, *, filter: Iterable[str] = ()) -> Relation:
    """Say that a record refers to one of another service.

    Args:
        service: The path of the other service.
        key: The property of this record that holds the id of the other one. Between two tables of
            one database, None reads it from their foreign keys.
        filter: Properties of the other record that queries may compare and sort by, written
            ``author.name``. Callers learn about their values, whatever hooks the other service has.

    Raises:
        ValueError: An argument is not valid.

    Examples:
        >>> from alula.adapters.memory import MemoryService
        >>> posts = MemoryService(relations={"author": belongs_to("users", "authorId")})
    """
    _check_names(service, key)
    if isinstance(filter, str):
        raise ValueError(f"filter is one string; give a list of properties: [{filter!r}]")
    return Relation(service, key or "", filter=tuple(filter))


def has_many(
    service: str,
    key: str | None = None,
    *,
    limit: int = 20,
    sort: Mapping[str, int] | None = None,
) -> Relation:
    """Say that records of another service refer to this one.

    Args:
        service: The path of the other service.
        key: The property of the other records that holds the id of this one. Between two tables of
            one database, None reads it from their foreign keys.
        limit: How many of them ``$include`` adds at most, from 1 on.
        sort: Their order, as ``$sort``; the first ones in it are added.

    Raises:
        ValueError: An argument is not valid.

    Examples:
        >>> from alula.adapters.memory import MemoryService
        >>> latest = has_many("comments", "postId", limit=5, sort={"id": -1})
        >>> posts = MemoryService(relations={"comments": latest})
    """
    _check_names(service, key)
    if type(limit) is not int or limit < 1:
        raise ValueError(f"limit is {limit!r}; give a whole number from 1 on")
    order = tuple((sort or {}).items())
    return Relation(service, key or "", many=True, limit=limit, sort=order)


def _check_names(service: object, key: object) -> None:
    for argument, name in (("service", service), ("key", key)):
        if name is None and argument == "key":
            continue
        if not isinstance(name, str) or not name:
            raise ValueError(f"{argument} is {name!r}; give a name")


class _App(Protocol):
    # Any: an application may be typed with the paths that it has.
    def service(self, path: Any, /) -> Any: ...


_Wanted: TypeAlias = dict[str, list[str]]
"""The names of relations, each with those to include in its own records."""


def _hidden_by(handle: Any) -> set[str]:
    """Return the properties that the hooks of a service hide from the clients that find records."""
    tables: Sequence[HookTable] = (handle.app.hook_table, handle.hook_table)
    hooks = [
        hook for table in tables for kind in ("around", "after") for hook in table.of(kind, "find")
    ]
    hidden = {name for hook in hooks for name in hook_metadata(hook).get("protects", ())}
    # The service of another application, which is mounted in this one.
    mounted = getattr(handle.service, "hook_table", None) is not None
    return hidden | _hidden_by(handle.service) if mounted else hidden


class Relations:
    """The relations of one service.

    Args:
        relations: By the name of the property that ``$include`` adds.
        joins: Whether the store itself tests and sorts by related records. It reads keys that are
            not named, too, and sets them by `set_key`.

    Attributes:
        app: The application that has the other services, None until the setup.
        filters: The properties of related records that queries may name, ``author.name``: the name
            of the relation, and the property.

    Raises:
        ValueError: They are not relations, or a key is missing.
    """

    def __init__(self, relations: Mapping[str, Relation], *, joins: bool = False) -> None:
        for name, relation in relations.items():
            if not isinstance(relation, Relation):
                raise ValueError(
                    f"relations: {name!r} is {relation!r}; give belongs_to(...) or has_many(...)"
                )
            if not isinstance(name, str) or not name or "." in name or name[0] == "$":
                raise ValueError(f"relations: {name!r} cannot be the name of a property")
            if not relation.key and not joins:
                raise ValueError(
                    f"relations: {name!r} has no key, and this store has no foreign keys to read it"
                    f" from; {how_to_name_key(name, relation)}"
                )
        self._relations = dict(relations)
        self.filters: Mapping[str, tuple[str, str]] = MappingProxyType(
            {
                f"{name}.{field}": (name, field)
                for name, relation in relations.items()
                for field in relation.filter
            }
        )
        self.app: _App | None = None
        self._rewrites = bool(self.filters) and not joins

    def connect(self, app: _App | None) -> None:
        """Remember the application that has the other services.

        Raises:
            LookupError: It does not have one of them.
            ValueError: The option ``filter`` opens what the other service hides from clients.
        """
        self.app = app
        if app is None:
            return
        for name, relation in self._relations.items():
            handle = app.service(relation.service)
            if hidden := _hidden_by(handle).intersection(relation.filter):
                raise ValueError(
                    f"relations: the filter of {name!r} has {min(hidden)!r}, which {handle!r}"
                    " hides: clients could find out what it contains; leave it out"
                )

    def __getitem__(self, name: str) -> Relation:
        relation = self._relations[name]
        if not relation.key:
            raise RuntimeError(
                f"relations: the key of {name!r} is not known yet; await app.setup() first, which"
                f" reads the foreign keys, or {how_to_name_key(name, relation)}"
            )
        return relation

    @property
    def services(self) -> tuple[str, ...]:
        """The paths of the services whose records are related."""
        return tuple(dict.fromkeys(each.service for each in self._relations.values()))

    @property
    def without_key(self) -> Mapping[str, Relation]:
        """The relations whose keys are not known yet, by name."""
        return {name: each for name, each in self._relations.items() if not each.key}

    def set_key(self, name: str, key: str) -> None:
        """Set the key of a relation that was declared without one."""
        self._relations[name] = replace(self._relations[name], key=key)

    @property
    def names(self) -> frozenset[str]:
        """The names that queries may have because of these relations."""
        return frozenset({INCLUDE, *self.filters} if self._relations else ())

    @property
    def filters_of_query(self) -> dict[str, Callable[[object], list[str]]]:
        """The filters that the service opens because of these relations."""
        return {INCLUDE: self._read_include} if self._relations else {}

    def _read_include(self, value: object) -> list[str]:
        """Return the value of ``$include``: names of relations, dots lead to those of the other.

        Raises:
            BadRequest: A name is not a relation of this service.
        """
        names = as_list(value)
        checked = [] if names is None else [*names]
        if names is None or not all(isinstance(name, str) for name in checked):
            raise BadRequest(f"Invalid value for {INCLUDE}: expected a list of names")
        for name in checked:
            if name.partition(".")[0] not in self._relations:
                known = ", ".join(sorted(self._relations))
                raise BadRequest(
                    f"Invalid value for {INCLUDE}: {shown_name(name)!r} is not one of {known}"
                )
            if name.count(".") >= _MAX_DEPTH:
                raise BadRequest(
                    f"Invalid value for {INCLUDE}: {shown_name(name)!r} has more than"
                    f" {_MAX_DEPTH} levels"
                )
        return checked

    async def for_store(self, query: Query) -> tuple[Query, Query | None]:
        """Return what a store gets of a query, and the query if it includes related records.

        The store gets no ``$include``, and selects the keys of its relations, not their names.

        Raises:
            BadRequest: The store cannot join, and there are too many tests of related records, or
                too many records meet one.
            RuntimeError: The service is not set up by an application.
        """
        if self._rewrites and query.criteria.parts:
            from alula.adapters._database_options import (  # noqa: PLC0415  # 1 % of an import
                MAX_CONDITIONS,
                check_conditions,
            )

            # Each test is a call of the other service: a client could ask for 50,000.
            check_conditions(And(tests_of(query.criteria, self.filters)), MAX_CONDITIONS)
            # The other service is asked internally: the option `filter` opens the properties.
            parts = tuple([await self._resolved(part) for part in query.criteria.parts])
            query = query._replace(criteria=And(parts))
        if INCLUDE not in query.filters:
            return query, None
        names = query.filters[INCLUDE]
        filters = {name: value for name, value in query.filters.items() if name != INCLUDE}
        select = query.select
        if select is not None:
            relations = {first: self[first] for first in (name.partition(".")[0] for name in names)}
            keys = [relation.key for relation in relations.values() if not relation.many]
            own = [name for name in select if name.partition(".")[0] not in relations]
            select = tuple(dict.fromkeys((*own, *keys)))
        return query._replace(filters=MappingProxyType(filters), select=select), query

    def check_change(self, query: Query) -> None:
        """Check the query of a method that changes records.

        Raises:
            BadRequest: It includes related records, or sorts by them where the store cannot join.
        """
        if INCLUDE in query.filters:
            raise BadRequest(f"{INCLUDE} is for find and get")
        if self.sorts(query):
            raise BadRequest("Invalid value for $sort: properties of other services are for find")

    def sorts(self, query: Query) -> bool:
        """Tell whether `find_sorted` has to give the order of a query, since the store cannot."""
        return self._rewrites and any(name in self.filters for name, _ in query.sort)

    async def find_sorted(
        self,
        find: Callable[[Query, Params, OptionsT], Awaitable[tuple[list[Record], int | None]]],
        query: Query,
        params: Params,
        options: OptionsT,
    ) -> tuple[list[Record], int]:
        """Find records in the order of related ones, for a store that cannot join.

        All that meet the query are sorted here. A record without a related one sorts as null.

        Args:
            find: Finds records in the store.
            query: The query of `for_store`.
            params: The params of the call.
            options: The options of the call.

        Returns:
            The records of the page, and how many there are without ``limit`` and ``skip``.

        Raises:
            BadRequest: They are too many.
            RuntimeError: The service is not set up by an application.
        """
        id_name = options.id
        # The properties to sort by, of each relation.
        related: dict[str, list[str]] = {}
        select = {id_name: None}
        for path, _ in query.sort:
            name, field = self.filters.get(path, ("", ""))
            select[self[name].key if name else path.partition(".")[0]] = None
            if name:
                related.setdefault(name, []).append(field)
        every = query._replace(limit=_MOST_SORTED + 1, skip=0, sort=(), select=tuple(select))
        rows, _ = await find(every, params, options)
        if len(rows) > _MOST_SORTED:
            raise BadRequest(
                f"More than {_MOST_SORTED} records would be sorted by properties of another"
                " service; narrow the query"
            )
        for name, fields in related.items():
            relation = self[name]
            keys = [row.get(relation.key) for row in rows]
            values = await find_values(self._handle(relation), keys, fields)
            rows = [{**row, name: value} for row, value in zip(rows, values, strict=True)]
        ids = [row[id_name] for row in ordered(rows, query.sort, query.budget)]
        page = ids[query.skip :][: query.limit]
        if not page:
            return [], len(ids)
        # The criteria are tested again: a record may have changed since.
        criteria = And((*query.criteria.parts, Where(id_name, (("$in", page),))))
        selected = None if query.select is None else (*query.select, id_name)
        of_page = query._replace(
            criteria=criteria, limit=len(page), skip=0, sort=(), select=selected
        )
        found, _ = await find(of_page, params, options)
        by_id = {record[id_name]: record for record in found}
        return [by_id[key] for key in page if key in by_id], len(ids)

    async def _resolved(self, part: Criterion) -> Criterion:
        if isinstance(part, And | Or):
            return type(part)(tuple([await self._resolved(inner) for inner in part.parts]))
        if part.field not in self.filters:
            return part
        name, field = self.filters[part.field]
        tests = [await self._tested(self[name], field, test) for test in part.tests]
        return And(tuple(tests))

    async def _tested(
        self, relation: Relation, field: str, test: tuple[str, Any], negated: bool = False
    ) -> Criterion:
        """Return one test of a property of related records as a test of the key to them."""
        operator, value = test
        if operator == "$not":
            parts = [await self._tested(relation, field, inner, not negated) for inner in value]
            return And(tuple(parts)) if negated else Or(tuple(parts))
        asked, wanted, is_opposite = _without_null(operator, value)
        # Queries write plain equality without an operator.
        criteria = {field: wanted if asked == "$eq" else {asked: wanted}}
        ids = await find_ids(self._handle(relation), relation.service, criteria)
        return Where(relation.key, (("$in" if is_opposite is negated else "$nin", ids),))

    def service(self, relation: Relation) -> Any:
        """Return the object behind the service of a relation.

        Raises:
            RuntimeError: The service is not set up by an application.
        """
        return self._handle(relation).service

    def _handle(self, relation: Relation) -> Any:
        if self.app is None:
            raise RuntimeError(
                "relations call other services: register this one by app.use() and await"
                " app.setup() first; an adapter that has a setup of its own calls super().setup()"
            )
        return self.app.service(relation.service)

    async def completed(
        self, records: list[Record], query: Query, id: str, params: Params
    ) -> list[Record]:
        """Return records with the related ones that a query includes, and its ``$select`` applied.

        Args:
            records: What the store returned for the query of `for_store`; they are changed.
            query: The query of the caller.
            id: The name of the id property of the records.
            params: The params of the call.

        Raises:
            RuntimeError: The service is not set up by an application.
            Exception: As `find_related`.
        """
        names = query.filters[INCLUDE]
        with bounded(params):
            await self._include(records, names, id, params)
        if query.select is None:
            return records
        selected = (*query.select, *(name.partition(".")[0] for name in names))
        return list(map(selector(selected, id), records))

    async def _include(
        self, records: Sequence[Record], names: Iterable[str], id: str, params: Params
    ) -> None:
        wanted: _Wanted = {}
        for name in names:
            first, _, rest = name.partition(".")
            wanted.setdefault(first, []).extend([rest] if rest else [])
        for name, inner in wanted.items():
            relation = self[name]
            query: dict[str, Any] = {INCLUDE: inner} if inner else {}
            handle = self._handle(relation)
            await add_related(
                Inclusion(handle, name, relation.key, params, query), relation, records, id
            )


async def add_related(
    inclusion: Inclusion, relation: Relation, records: Sequence[Record], id: str
) -> None:
    """Add to each record what it is related to.

    Args:
        inclusion: What to add.
        relation: The relation.
        records: The records.
        id: The name of their id property.

    Raises:
        Exception: As `find_related`.
    """
    if relation.many:
        await add_many(inclusion, records, id, relation.limit, relation.sort)
    else:
        other: object = getattr(inclusion.handle.service, "id", None)
        await add_one(inclusion, records, other if isinstance(other, str) else "id")


def _without_null(operator: str, value: Any) -> tuple[str, Any, bool]:
    """Return a test that null does not meet, and whether the given one is its opposite.

    A record that refers to none has null in place of each property of the other.
    """
    if operator in ("$in", "$nin"):
        asked = "$nin" if None in value else "$in"
        return asked, value, asked != operator
    if operator in ("$eq", "$lte", "$gte") and value is None:
        return "$ne", None, True
    if operator == "$ne" and value is not None:
        return "$eq", value, True
    return operator, value, False


def how_to_name_key(name: str, relation: Relation, key: str | None = None) -> str:
    """Return the end of an error about a relation without a key: what to write.

    Args:
        name: The name of the relation.
        relation: The relation.
        key: A property that may be the key, None if none is known.
    """
    function = "has_many" if relation.many else "belongs_to"
    key = key or ("…Id" if relation.many else f"{name}Id")
    return f"name the property: {function}({relation.service!r}, {key!r})"
