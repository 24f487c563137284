"""Calls of related services: what `$include` adds, and ids for queries that name related records.

What holds in this file:

- Related records are what `find` of the other service gives the same caller, so its hooks decide.
- An error of such a call is never an error of the request; see `inner_error`.
- A batch gives what one find for each record gives, or it is not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol

from alula._context import HookContext, Params
from alula.adapters._options import Options
from alula.adapters._records import is_scalar, refers
from alula.errors import (
    BadRequest,
    Forbidden,
    FrameworkError,
    GeneralError,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
)
from alula.outgoing import RedactedRecord, public_part
from alula.outgoing._redaction import shown_value
from alula.query import And, Or, Where
from alula.query._query import Criterion
from alula.types import UNSET, JSONValue, Record, is_dict, is_list, is_mapping, is_page

__all__ = [
    "INCLUDE",
    "Handle",
    "Inclusion",
    "add_many",
    "add_one",
    "bounded",
    "count_calls",
    "find_ids",
    "find_related",
    "find_values",
    "gather_all",
    "keep_transaction",
    "tests_of",
]

INCLUDE: Final = "$include"
"""The filter of a query that names relations; a service opens it by its option ``relations``."""

_MOST_IDS: Final = 1_000
"""How many related records may meet a test of a query where the store cannot join."""

_MAX_CALLS: Final = 2_000
"""How many related services' calls one request of a client may cause, on all levels together.

A batch counts as the calls that it replaces: the records that it may return are as many.
"""

_MAX_PARENTS: Final = 100
"""How many records one batch is for."""

MAX_BATCH: Final = 1_000
"""How many related records one batch may return."""

_NOT_OF_THE_QUERY: Final = frozenset({408, 429})

_MAX_ROUNDS: Final = 3
"""How often a batch is followed by one for the records that it left incomplete."""


class Handle(Protocol):
    """The handle of a related service."""

    app: Any
    service: Any

    async def run(self, context: HookContext, /) -> None:
        """Run a call whose context is made."""

    async def find(self, params: Params, /) -> Any:
        """Return the records that a query selects."""


class Inclusion(NamedTuple):
    """What one name of `$include` asks for.

    Attributes:
        handle: The other service.
        name: The property that gets the related records.
        key: The property that holds ids: one of the records; for `add_many`, of the related ones.
        params: The params of the call that includes.
        query: What the calls of the other service have in their queries beside the ids.
    """

    handle: Handle
    name: str
    key: str
    params: Params
    query: Mapping[str, Any]

    def inner_params(self, query: Mapping[str, Any]) -> Params:
        """Return params for a call in the name of the same caller, in the same transaction."""
        params = self.params
        inner = params.copy()
        inner.query = {**self.query, **query}
        inner.paginate = inner.adapter = inner.pipeline = inner.collation = None
        keep_transaction(inner)
        return inner


def keep_transaction(params: Params) -> None:
    """Reduce the database's options in params to the transaction that the call is in."""
    for place, name in (("docdb", "session"), ("sql", "connection")):
        if (options := params.get(place)) is not None:
            params[place] = {name: options[name]} if options.get(name) is not None else None


def tests_of(part: Criterion, names: Container[str]) -> tuple[Where, ...]:
    """Return the tests of some properties in criteria, at any depth."""
    if isinstance(part, And | Or):
        return tuple([test for inner in part.parts for test in tests_of(inner, names)])
    return (part,) if part.field in names else ()


async def find_ids(handle: Handle, path: str, criteria: Mapping[str, Any]) -> list[Any]:
    """Return the ids of the records of a service that meet criteria, by an internal call.

    Args:
        handle: The service.
        path: Its path, for the error.
        criteria: The query, without ``$limit`` and ``$select``.

    Raises:
        BadRequest: They are too many.
    """
    id_name: str = handle.service.id
    query = {**criteria, "$select": [id_name], "$limit": _MOST_IDS + 1}
    try:
        found = await handle.find(Params(query=query, paginate=False))
    except FrameworkError as error:
        names = ", ".join(criteria)
        # The value is the client's.
        raise inner_error(error, f"what meets {names!r}", handle, of_client=True) from error
    if len(found) > _MOST_IDS:
        raise BadRequest(f"More than {_MOST_IDS} records of {path!r} meet the query; narrow it")
    return [record[id_name] for record in found]


async def find_values(
    handle: Handle, keys: Sequence[Any], fields: Sequence[str]
) -> list[Record | None]:
    """Return properties of the record that each key refers to, by internal calls.

    Args:
        handle: The service.
        keys: Ids of its records; what is not an id refers to nothing.
        fields: The properties.

    Returns:
        For each key a record with these properties at least, None where there is none.
    """
    id_name: str = handle.service.id
    wanted = list(dict.fromkeys(filter(refers, keys)))
    select = [id_name, *{field.partition(".")[0]: None for field in fields}]
    found: Record = {}
    for at in range(0, len(wanted), _MOST_IDS):
        query = {id_name: {"$in": wanted[at : at + _MOST_IDS]}, "$select": select}
        try:
            records = await handle.find(Params(query=query, paginate=False))
        except FrameworkError as error:
            names = ", ".join(fields)
            raise inner_error(error, f"{names!r} to sort by", handle, of_client=False) from error
        found |= {record[id_name]: record for record in records}
    return [found.get(key) if refers(key) else None for key in keys]


# -- one related record for each record ------------------------------------------------------------


async def add_one(inclusion: Inclusion, records: Sequence[Record], id: str) -> None:
    """Add to each record the one that it refers to, by one `find` for all of them.

    Args:
        inclusion: What to add.
        records: The records. One whose related record the caller may not find gets None.
        id: The name of the other service's id property.

    Raises:
        BadRequest: The request causes too many calls.
        Exception: As `find_related`.
    """
    keys: list[Any] = [shown_value(record.get(inclusion.key)) for record in records]
    # The type is part of the key: for Python, 1.0 and True equal 1.
    distinct: dict[object, Any] = {(type(key), key): key for key in keys if refers(key)}
    wanted = [*distinct.values()]
    count_calls(len(wanted))
    chunks = [wanted[at : at + MAX_BATCH] for at in range(0, len(wanted), MAX_BATCH)]

    async def find(chunk: Sequence[Any]) -> list[Record]:
        params = inclusion.inner_params({id: {"$in": [*chunk]}, "$limit": len(chunk)})
        params.paginate = False
        try:
            return await find_related(inclusion, params)
        except RelatedError as error:
            if not error.is_about(id):
                raise
            # A client may have stored what no id can be: it must not keep the others away.
            half = len(chunk) // 2
            return [*await find(chunk[:half]), *await find(chunk[half:])] if half else []

    # Compared as text: a key may be stored as the text of an id, such as an ObjectId.
    found = {
        str(related.get(id)): related
        for page in await gather_all(map(find, chunks))
        for related in page
        if is_mapping(related)  # a hook may have put something else in its place
    }
    for record, key in zip(records, keys, strict=True):
        record[inclusion.name] = found.get(str(key)) if refers(key) else None


# -- several related records for each record -------------------------------------------------------


async def add_many(
    inclusion: Inclusion,
    records: Sequence[Record],
    id: str,
    limit: int,
    sort: Sequence[tuple[str, int]],
) -> None:
    """Add to each record those that refer to it.

    Where the other service's store does not answer concurrent finds together, a batch finds those
    of many records. What a batch leaves open is found for each record alone.

    Args:
        inclusion: What to add.
        records: The records.
        id: The name of their id property.
        limit: How many to add to each one at most.
        sort: The order of the related records.

    Raises:
        BadRequest: The request causes too many calls.
        Exception: As `find_related`.
    """
    order = {"$sort": dict(sort)} if sort else {}

    async def find(parent: Record) -> list[Record]:
        criteria = {inclusion.key: parent[id], "$limit": limit}
        return await find_related(inclusion, inclusion.inner_params({**criteria, **order}))

    parents = [record for record in records if id in record]
    count_calls(len(parents))
    ids = [parent[id] for parent in parents]
    complete = await _find_in_batches(inclusion, ids, limit, order)
    others: list[Record] = []
    for parent in parents:
        if complete and parent[id] in complete:
            parent[inclusion.name] = complete[parent[id]]
        else:
            others.append(parent)
    for parent, related in zip(others, await gather_all(map(find, others)), strict=True):
        parent[inclusion.name] = related


async def _find_in_batches(
    inclusion: Inclusion, ids: Sequence[Any], limit: int, order: Mapping[str, Any]
) -> dict[Any, list[Record]]:
    """Return related records by the ids that they refer to, for those ids where that is certain."""
    service = inclusion.handle.service
    options = getattr(service, "options", None)
    # Only an adapter sets this to False, and its `find` means what a batch relies on.
    if getattr(service, "shares_finds", None) is not False or not isinstance(options, Options):
        return {}
    most = limit if options.pagination is None else options.pagination.limit(limit)
    size = min(_MAX_PARENTS, MAX_BATCH // most)
    if len(ids) < 2 or size < 2 or not all(map(is_scalar, ids)):
        return {}

    async def complete(chunk: Sequence[Any]) -> dict[Any, list[Record]]:
        groups: dict[Any, list[Record]] = {}
        rest = list(chunk)
        for _ in range(_MAX_ROUNDS):
            batch = await _find_batch(inclusion, rest, most, order)
            groups |= batch
            rest = [key for key in rest if key not in groups]
            if not batch or len(rest) < 2:
                break
        return groups

    unique = list(dict.fromkeys(ids))
    chunks = [unique[at : at + size] for at in range(0, len(unique), size)]
    complete_chunks = await gather_all(map(complete, chunks))
    return {key: group for groups in complete_chunks for key, group in groups.items()}


class _BatchContext(HookContext):
    """A call that notes the ids of its first result, which is what the store returned."""

    id_name = ""
    stored_ids: list[Any] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "result" and self.stored_ids is None:
            super().__setattr__("stored_ids", _ids_in(value, self.id_name))
        super().__setattr__(name, value)

    def is_as_stored(self, limit: int, visible: Sequence[Any]) -> bool:
        """Tell whether no hook has limited the records, or changed which they are, or their order.

        Such a hook does something else to one list of all than to one list for each id.

        Args:
            limit: What ``$limit`` was before the call.
            visible: What other services see of the result.
        """
        params = self.params
        return (
            self.stored_ids is not None
            and _ids_in(self.result, self.id_name) == self.stored_ids
            and len(visible) == len(self.stored_ids)
            and params.query.get("$limit") == limit
            and not params.query.get("$skip")
            and not params.pipeline
            and not (params.docdb or {}).keys() & {"limit", "skip"}
        )


def _ids_in(records: object, id: str) -> list[Any] | None:
    """Return the ids of records, None if it is not a list of records with ids."""
    if not is_list(records):
        return None
    if not all(isinstance(record, Mapping) and id in record for record in records):
        return None
    return [record[id] for record in records]


async def _find_batch(
    inclusion: Inclusion, ids: Sequence[Any], most: int, order: Mapping[str, Any]
) -> dict[Any, list[Record]]:
    """Return the first related records of each id, without the ids where that is not certain."""
    handle, limit = inclusion.handle, len(ids) * most + 1
    params = inclusion.inner_params({inclusion.key: {"$in": [*ids]}, "$limit": limit, **order})
    params.paginate = False
    context = _BatchContext(handle.app, handle, "find", params)
    context.id_name = handle.service.id
    outer, counted = _calls.get(), _Calls(_calls.get())
    if outer is not None:
        _calls.set(counted)
    groups: dict[Any, list[Record]] = {}
    try:
        await handle.run(context)
        records = _visible(context)
        if context.is_as_stored(limit, records):
            groups = _grouped(records, inclusion.key, ids)
            if len(records) == limit:
                # Others may follow. Those before them have the same order as in a find for one id.
                groups = {key: group for key, group in groups.items() if len(group) >= most}
    except Exception:  # noqa: BLE001, S110  # the finds that follow raise it, if it is not of $in
        pass
    if not groups and outer is not None:
        outer.add(-counted.number)  # the calls in place of this one count on their own
    return {key: group[:most] for key, group in groups.items()}


def _grouped(records: Sequence[Any], name: str, ids: Iterable[Any]) -> dict[Any, list[Record]]:
    """Return records by the ids that they refer to; nothing if that is not certain for all."""
    groups: dict[Any, list[Record]] = {key: [] for key in ids}
    types = set(map(type, groups))
    for record in records:
        # A hidden key has a type of its own.
        value: JSONValue = shown_value(record.get(name))
        keys = value if isinstance(value, list) else [value]
        # What is equal for Python need not be for the store (1 and True), nor the other way round.
        if not all(type(key) in types for key in keys):
            return {}
        known = dict.fromkeys(key for key in keys if key in groups)
        # Text may be equal by a collation. Of other elements of a list, one has to be an id.
        if not known or (str in types and not all(key in groups for key in keys)):
            return {}
        for key in known:
            groups[key].append(record)
    return groups


# -- calls -----------------------------------------------------------------------------------------


class _Calls:
    """The number of calls that a request has caused, or a part of it, which counts for the whole.

    Args:
        whole: What the calls count for as well.
    """

    def __init__(self, whole: _Calls | None = None) -> None:
        self.number = 0
        self._whole = whole

    def add(self, number: int) -> None:
        """Count further calls.

        Raises:
            BadRequest: They are too many.
        """
        self.number += number
        if self._whole is not None:
            self._whole.add(number)
        elif self.number > _MAX_CALLS:
            raise TooManyCallsError(
                f"{INCLUDE} adds too many records: at most {_MAX_CALLS} lookups are allowed; ask"
                " for a shorter page, or for fewer levels"
            )


_calls: ContextVar[_Calls | None] = ContextVar("alula_related_calls", default=None)


@contextmanager
def bounded(params: Params) -> Generator[None]:
    """Bound the calls that a request of a client causes, those of inner levels included."""
    if params.provider is None or _calls.get() is not None:
        yield
        return
    token = _calls.set(_Calls())
    try:
        yield
    finally:
        _calls.reset(token)


def count_calls(number: int) -> None:
    """Count calls that the request of a client causes.

    Raises:
        BadRequest: They are too many.
    """
    calls = _calls.get()
    if calls is not None:
        calls.add(number)


class RelatedError(GeneralError):
    """A call that the framework made for a request was refused: a fault of the server, a 500.

    Args:
        error: What the other service raised.
        text: What the call was for.
    """

    def __init__(self, error: FrameworkError, text: str) -> None:
        # Clients see the text, and the log what the other service said, which is the cause.
        super().__init__(text)
        self._error = error

    def is_about(self, name: str) -> bool:
        """Tell whether a store or a schema has refused values of a property in the query."""
        error = self._error
        problems = error.data if is_list(error.data) else ()
        paths = [str(each.get("instancePath")) for each in problems if is_mapping(each)]
        is_of_schema = any(path.split("/")[1:2] == [name] for path in paths)
        return is_of_schema or (is_mapping(error.errors) and name in error.errors)


class TooManyCallsError(BadRequest):
    """A request of a client causes too many calls: its own fault, wherever it is noticed."""


async def find_related(inclusion: Inclusion, params: Params) -> list[Record]:
    """Return the records that `find` of the other service gives the caller, redacted by its hooks.

    A caller whom it refuses gets no records.

    Raises:
        BadRequest: What the client asked the other service to include is not valid.
        GeneralError: The other service refused what the framework asked it, which a client cannot
            change.
        FrameworkError: The other service took too long, is away, or has a fault.
    """
    handle = inclusion.handle
    context = HookContext(handle.app, handle, "find", params)
    try:
        await handle.run(context)
    except (NotAuthenticated, Forbidden, NotFound, MethodNotAllowed):
        return []
    except FrameworkError as error:
        raise inner_error(error, f"{inclusion.name!r}", handle, bool(inclusion.query)) from error
    records: list[Record] = _visible(context)
    return records


def inner_error(error: FrameworkError, purpose: str, handle: Handle, of_client: bool) -> Exception:
    """Return what to raise for the error of a call that the framework made for a request.

    Args:
        error: What the other service raised.
        purpose: What the call was for: the name of the relation.
        handle: The other service.
        of_client: Whether what is wrong may be what the client sent.
    """
    text = f"{purpose} could not be read from {handle!r}"
    if isinstance(error, TooManyCallsError | RelatedError):
        return error
    if error.code >= 500 or error.code in _NOT_OF_THE_QUERY:
        error.add_note(text)
        return error
    if of_client and isinstance(error, BadRequest):
        return BadRequest(f"{text}: {error.message}", error.data, errors=error.errors)
    return RelatedError(error, text)


def _visible(context: HookContext) -> Any:
    """Return the records of a `find`, redacted by the hooks of the service."""
    result, public = context.result, context.dispatch
    if public is UNSET:
        return result["data"] if is_page(result) else result
    # A hook has said what clients get. It holds wherever the record becomes part of another one.
    public = public_part(public)
    result, public = (page["data"] if is_dict(page) else page for page in (result, public))
    if len(public) != len(result):
        return public
    return [_redacted(record, view) for record, view in zip(result, public, strict=True)]


def _redacted(record: Any, public: object) -> Any:
    return RedactedRecord(record, public) if is_mapping(record) else public


async def gather_all(calls: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Await calls side by side; all have ended before the error of one is raised."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
