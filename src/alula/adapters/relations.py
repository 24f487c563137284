"""Relations between services: records that refer to others, and what ``$include`` adds to a page.

What holds in this file:

- A related record comes from a call of its own service, with the provider and the user of the
  caller: its hooks decide what the caller may see, and its redaction holds.
- The related records of a page are requested together; adapters answer them in few round trips.
- ``$include`` is for `find` and `get`: what other methods return is also sent to others, as events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from alula._context import HookContext, Params
from alula.adapters._records import is_scalar, selector
from alula.errors import BadRequest, Forbidden, NotFound
from alula.outgoing import RedactedRecord, public_part
from alula.query import And, Or, Query, Where
from alula.query._query import Criterion, as_list
from alula.types import UNSET, Page, Record

__all__ = ["Relation", "belongs_to", "has_many"]

INCLUDE: Final = "$include"
"""The filter of a query that names relations; a service opens it by its option ``relations``."""

_MAX_DEPTH: Final = 3

_MOST_IDS: Final = 1_000
"""How many related records may meet a test of a query where the store cannot join."""

_MAX_CALLS: Final = 2_000
"""How many related services' calls one request of a client may cause, on all levels together."""

_left: ContextVar[list[int] | None] = ContextVar("alula_calls_left", default=None)
"""One number: the calls that the request may still cause. Those inside count it down together."""

_OPPOSITES: Final = {"$ne": "$eq", "$nin": "$in"}


@dataclass(frozen=True)
class Relation:
    """A relation; made by `belongs_to` and `has_many`.

    Attributes:
        service: The path of the other service.
        key: The property that holds the id of the other record; with ``many``, one of its own.
        many: Whether the other records refer to this one.
        limit: How many records `has_many` adds at most.
        sort: The order of these records.
        filter: Properties of the other record that queries may name: ``author.name``.
    """

    service: str
    key: str
    many: bool = False
    limit: int = 0
    sort: tuple[tuple[str, int], ...] = ()
    filter: tuple[str, ...] = ()


def belongs_to(service: str, key: str, *, filter: Iterable[str] = ()) -> Relation:
    """Say that a record refers to one of another service.

    Args:
        service: The path of the other service.
        key: The property of this record that holds the id of the other one.
        filter: Properties of the other record that queries may compare and sort by, written
            ``author.name``. Callers learn about their values, whatever hooks the other service has.

    Raises:
        ValueError: An argument is not valid.

    Examples:
        >>> from alula.adapters.memory import MemoryService
        >>> posts = MemoryService(relations={"author": belongs_to("users", "authorId")})
    """
    _check_names(service=service, key=key)
    if isinstance(filter, str):
        raise ValueError(f"filter is one string; give a list of properties: [{filter!r}]")
    return Relation(service, key, filter=tuple(filter))


def has_many(
    service: str, key: str, *, limit: int = 20, sort: Mapping[str, int] | None = None
) -> Relation:
    """Say that records of another service refer to this one.

    Args:
        service: The path of the other service.
        key: The property of the other records that holds the id of this one.
        limit: How many of them ``$include`` adds at most, from 1 on.
        sort: Their order, as ``$sort``; the first ones in it are added.

    Raises:
        ValueError: An argument is not valid.

    Examples:
        >>> from alula.adapters.memory import MemoryService
        >>> latest = has_many("comments", "postId", limit=5, sort={"id": -1})
        >>> posts = MemoryService(relations={"comments": latest})
    """
    _check_names(service=service, key=key)
    if type(limit) is not int or limit < 1:
        raise ValueError(f"limit is {limit!r}; give a whole number from 1 on")
    return Relation(service, key, many=True, limit=limit, sort=tuple((sort or {}).items()))


def _check_names(**names: object) -> None:
    for argument, name in names.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"{argument} is {name!r}; give a name")


class _Handle(Protocol):
    app: Any

    async def run(self, context: HookContext, /) -> None: ...


class _App(Protocol):
    def service(self, path: str, /) -> Any: ...


_Wanted: TypeAlias = dict[str, list[str]]
"""The names of relations, each with those to include in its own records."""


class Relations:
    """The relations of one service.

    Args:
        relations: By the name of the property that ``$include`` adds.

    Attributes:
        app: The application that has the other services, None until the setup.

    Raises:
        ValueError: They are not relations.
    """

    def __init__(self, relations: Mapping[str, Relation]) -> None:
        for name, relation in relations.items():
            if not isinstance(relation, Relation):
                raise ValueError(
                    f"relations: {name!r} is {relation!r}; give belongs_to(...) or has_many(...)"
                )
            if not isinstance(name, str) or not name or "." in name or name[0] == "$":
                raise ValueError(f"relations: {name!r} cannot be the name of a property")
        self._relations = dict(relations)
        self._filters = {
            f"{name}.{field}": (relation, field)
            for name, relation in relations.items()
            for field in relation.filter
        }
        self.app: _App | None = None

    @property
    def names(self) -> frozenset[str]:
        """The names that queries may have because of these relations."""
        return frozenset({INCLUDE, *self._filters} if self._relations else ())

    @property
    def has_filters(self) -> bool:
        """Whether queries may name properties of related records."""
        return bool(self._filters)

    def __bool__(self) -> bool:
        return bool(self._relations)

    @property
    def filters(self) -> Mapping[str, tuple[Relation, str]]:
        """The properties of related records that queries may name, by name: ``author.name``."""
        return self._filters

    def read_include(self, value: object) -> list[str]:
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
                raise BadRequest(f"Invalid value for {INCLUDE}: {name!r} is not one of {known}")
            if name.count(".") >= _MAX_DEPTH:
                raise BadRequest(
                    f"Invalid value for {INCLUDE}: {name!r} has more than {_MAX_DEPTH} levels"
                )
        return checked

    def query_of_store(self, query: Query) -> Query:
        """Return a query without ``$include`` that selects the keys of these relations, too."""
        names = query.filters[INCLUDE]
        filters = {name: value for name, value in query.filters.items() if name != INCLUDE}
        select = query.select
        if select is not None:
            relations = [self._relations[name.partition(".")[0]] for name in names]
            keys = (relation.key for relation in relations if not relation.many)
            select = (*select, *(key for key in keys if key not in select))
        return query._replace(filters=MappingProxyType(filters), select=select)

    async def resolved(self, query: Query) -> Query:
        """Return a query in which tests of related records are tests of the keys to them.

        The other service is asked for the ids, internally: the option ``filter`` opens the
        properties. This is for stores that cannot join.

        Raises:
            BadRequest: Too many records meet a test, or the query sorts by a related record.
            RuntimeError: The service is not set up by an application.
        """
        for name, _ in query.sort:
            if name in self._filters:
                raise BadRequest(f"Invalid value for $sort: {name!r} is of another service")
        parts = tuple([await self._resolved(part) for part in query.criteria.parts])
        return query._replace(criteria=And(parts))

    async def _resolved(self, part: Criterion) -> Criterion:
        if isinstance(part, And | Or):
            return type(part)(tuple([await self._resolved(inner) for inner in part.parts]))
        filtered = self._filters.get(part.field)
        if filtered is None:
            return part
        relation, field = filtered
        tests = []
        for operator, value in part.tests:
            # The other way round where a record without a related one meets the test, too.
            asked, among = operator, "$in"
            if operator in _OPPOSITES and value is not None:
                asked, among = _OPPOSITES[operator], "$nin"
            elif operator == "$eq" and value is None:
                asked, among = "$ne", "$nin"
            ids = await self._ids(relation, {field: {asked: value}})
            tests.append((among, ids))
        return Where(relation.key, tuple(tests))

    async def _ids(self, relation: Relation, criteria: Mapping[str, Any]) -> list[Any]:
        handle = self._handle(relation)
        id_name: str = handle.service.id
        plain = {  # in a query, plain equality has no operator
            field: tests["$eq"] if "$eq" in tests else dict(tests)
            for field, tests in criteria.items()
        }
        query = {**plain, "$select": [id_name], "$limit": _MOST_IDS + 1}
        found = await handle.find(Params(query=query, paginate=False))
        if len(found) > _MOST_IDS:
            raise BadRequest(
                f"More than {_MOST_IDS} records of {relation.service!r} meet the query; narrow it"
            )
        return [record[id_name] for record in found]

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
            records: The records that the store returned for `query_of_store`; they are changed.
            query: The query of the caller.
            id: The name of the id property of the records.
            params: The params of the call.

        Raises:
            RuntimeError: The service is not set up by an application.
            Exception: What the other services raise, but for missing and forbidden records.
        """
        names = query.filters[INCLUDE]
        with _bounded(params):
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
            relation = self._relations[name]
            handle: _Handle = self._handle(relation)
            query: dict[str, Any] = {INCLUDE: inner} if inner else {}
            if relation.many:
                await _include_many(handle, relation, name, records, id, params, query)
            else:
                await _include_one(handle, relation, name, records, params, query)


async def _include_one(
    handle: _Handle,
    relation: Relation,
    name: str,
    records: Sequence[Record],
    params: Params,
    query: Mapping[str, Any],
) -> None:
    keys = [record.get(relation.key) for record in records]
    # A list, as a client may have stored it in a store without a schema, refers to nothing.
    wanted = list(dict.fromkeys(key for key in keys if key is not None and is_scalar(key)))

    async def get(key: Any) -> Any:
        try:
            return await _called(handle, "get", _inner_params(params, query), key)
        except (NotFound, Forbidden):
            return None

    found = dict(zip(wanted, await _all(map(get, wanted)), strict=True))
    for record, key in zip(records, keys, strict=True):
        record[name] = found.get(key) if is_scalar(key) else None


async def _include_many(
    handle: _Handle,
    relation: Relation,
    name: str,
    records: Sequence[Record],
    id: str,
    params: Params,
    query: Mapping[str, Any],
) -> None:
    order = {"$sort": dict(relation.sort)} if relation.sort else {}

    async def find(parent: Record) -> list[Record]:
        criteria = {relation.key: parent[id], "$limit": relation.limit}
        inner = _inner_params(params, {**query, **criteria, **order})
        found: list[Record] = await _called(handle, "find", inner)
        return found

    parents = [record for record in records if id in record]
    for record, related in zip(parents, await _all(map(find, parents)), strict=True):
        record[name] = related


@contextmanager
def _bounded(params: Params) -> Iterator[None]:
    """Bound the calls that a request of a client causes, those of inner levels included."""
    if params.provider is None or _left.get() is not None:
        yield
        return
    token = _left.set([_MAX_CALLS])
    try:
        yield
    finally:
        _left.reset(token)


async def _called(handle: _Handle, method: str, params: Params, id: Any = None) -> Any:
    """Call a service, and return the record or the list of records, redacted by its hooks."""
    context = HookContext(handle.app, handle, method, params, id)
    await handle.run(context)
    result, public = context.result, context.dispatch
    if public is UNSET:
        return result["data"] if isinstance(result, Page) else result
    # A hook has said what clients get. It holds wherever the record becomes part of another one.
    public = public_part(public)
    if method == "get":
        return _redacted(result, public)
    result, public = (page["data"] if isinstance(page, dict) else page for page in (result, public))
    if len(public) != len(result):
        return public
    return [_redacted(record, view) for record, view in zip(result, public, strict=True)]


def _redacted(record: Any, public: object) -> Any:
    return RedactedRecord(record, public) if isinstance(record, Mapping) else public


async def _all(calls: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Await calls side by side; all have ended before the error of one is raised.

    Raises:
        BadRequest: The request causes too many calls.
    """
    waiting = list(calls)
    left = _left.get()
    if left is not None:
        left[0] -= len(waiting)
        if left[0] < 0:
            for call in waiting:
                call.close()
            raise BadRequest(
                f"{INCLUDE} adds too many records: at most {_MAX_CALLS} lookups are allowed; ask"
                " for a shorter page, or for fewer levels"
            )
    results = await asyncio.gather(*waiting, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _inner_params(params: Params, query: Mapping[str, Any]) -> Params:
    """Return params for a call in the name of the same caller, in the same transaction."""
    inner = params.copy()
    inner.query = dict(query)
    inner.paginate = inner.adapter = inner.pipeline = inner.collation = None
    inner.docdb = _kept(params.docdb, "session")
    inner.sql = _kept(params.sql, "connection")
    return inner


def _kept(options: Mapping[str, Any] | None, name: str) -> Mapping[str, Any] | None:
    return {name: options[name]} if options and options.get(name) is not None else None
