"""What is true for every adapter, once: pages, ids, multi, ``$select``, queries, data from outside.

An adapter derives from `AdapterService`, and says in six methods how its store finds, gets,
creates, updates, patches and removes. What these get has been read and checked; what they return
is finished here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, TypeAlias

from alula._context import Params, RequestParams
from alula.adapters._options import Options, Pagination, read_multi, read_pagination
from alula.adapters._records import (
    check_data,
    check_new_id,
    check_undotted,
    hide_nested,
    is_scalar,
    read_data,
    selector,
)
from alula.errors import BadRequest, MethodNotAllowed, NotFound
from alula.query import EMPTY_QUERY, Grammar, Query
from alula.query._budget import MAX_STEPS, Budget
from alula.types import Id, Page, Record

__all__ = ["AdapterService", "DollarKeys", "Options", "Pagination", "Query"]

Given: TypeAlias = Params | Mapping[str, Any] | None

DollarKeys: TypeAlias = Literal["internal", "plain", "never"]
"""Who may send data with keys that begin with ``$``: ``"internal"``, internal calls, and others
for the keys that ``update_operators`` opens; ``"plain"``, everyone, since they are stored like any
other key; ``"never"``, nobody."""

_NO_REPLACING_OF_MANY = "You can not replace multiple instances. Did you mean 'patch'?"


class AdapterService(ABC):
    """A service that keeps records in a store.

    Args:
        id: Name of the property that holds the id of a record.
        paginate: ``{"default", "max"}``: `find` answers pages of this size.
        multi: Whether create takes a list and patch and remove the id None; or the methods that
            may.
        operators: Operators of the store that queries may use beside the common ones.
        filters: Names at the top level of a query that are accepted beside the common ones: True
            passes the value to the store, False drops it, a callable converts it.
        dotted_names: Whether the data of a patch from outside may have names with dots, which lead
            into objects. Hooks and checks that look at ``data["address"]`` do not see
            ``{"address.town": ...}``.
        update_operators: Keys that begin with ``$`` that data of update and patch may have when
            it comes from outside.
        events: Names of events that the service emits beside the standard ones.

    Attributes:
        id: Name of the id property.
        events: Names of further events.
        options: The options of every call that overrides none of them.

    Raises:
        ValueError: An option is not in order; the text says what.
    """

    paginate_options: ClassVar[frozenset[str]] = frozenset({"default", "max"})
    """What ``paginate`` may have; an adapter that reads more of it names it here."""

    call_options: ClassVar[frozenset[str]] = frozenset(
        {"paginate", "multi", "operators", "filters"}
    )
    """What ``params.adapter`` may have; an adapter that reads more of it names it here."""

    dollar_keys: ClassVar[Mapping[str, DollarKeys]] = {
        "create": "internal",
        "update": "internal",
        "patch": "internal",
    }
    """Which data may have keys that begin with ``$``, by method."""

    process_local: ClassVar[bool] = False
    """Whether the records are in this process alone; `alula serve` with several workers warns of
    it. A service that derives from nothing says the same by an attribute of this name."""

    selects: ClassVar[bool] = False
    """Whether the store itself reduces records to the fields of ``query.select`` and the id."""

    def __init__(
        self,
        *,
        id: str = "id",
        paginate: Mapping[str, Any] | bool | None = None,
        multi: bool | Iterable[str] = False,
        operators: Iterable[str] = (),
        filters: Mapping[str, Any] | None = None,
        update_operators: Iterable[str] = (),
        dotted_names: bool = False,
        events: Iterable[str] = (),
    ) -> None:
        if not isinstance(id, str) or not id:
            raise ValueError(f"id is {id!r}; give the name of the property that holds the id")
        self.id = id
        self.events = tuple(events)
        self.options = Options(read_pagination(paginate, self.paginate_options), read_multi(multi))
        self._grammar = Grammar(operators=operators, filters=filters)
        self._dotted_names = dotted_names
        self._opened = frozenset(update_operators)
        for name in self._opened:
            if name[:1] != "$":
                raise ValueError(f"update_operators lists {name!r}; their names begin with '$'")

    # -- what the store does -------------------------------------------------------------------

    @abstractmethod
    async def _find(
        self, query: Query, params: Params, pagination: Pagination | None
    ) -> tuple[list[Record], int | None]:
        """Return the records of a query, and how many there are without ``limit`` and ``skip``.

        Args:
            query: The limit in it is the one that counts; with 0 only the number is wanted.
            params: The params of the call.
            pagination: The page sizes, None where the number is not wanted.
        """

    @abstractmethod
    async def _get(self, id: Id, query: Query, params: Params) -> Record | None:
        """Return the record with an id if it meets ``query.criteria``, None otherwise."""

    @abstractmethod
    async def _create(self, records: list[Record], query: Query, params: Params) -> list[Record]:
        """Store all records or none, and return them with their ids, in the same order.

        Args:
            records: Those that bring an id have it; the store gives the others one.
            query: Has nothing but ``select``.
            params: The params of the call.

        Raises:
            Conflict: There is a record with one of the ids already.
        """

    @abstractmethod
    async def _update(self, id: Id, data: Record, query: Query, params: Params) -> Record | None:
        """Put ``data``, which has no id, in place of a record that meets the criteria.

        Returns:
            The new record with its id as it was, None where no record has the id and meets them.
        """

    @abstractmethod
    async def _patch(
        self, id: Id | None, data: Record, query: Query, params: Params
    ) -> list[Record]:
        """Merge ``data``, which has no id, into the record with an id, or with None into all.

        Returns:
            The changed records: those that met the criteria before, in the order of the query.
        """

    @abstractmethod
    async def _remove(self, id: Id | None, query: Query, params: Params) -> list[Record]:
        """Remove the record with an id, or with None all records, and return what was removed.

        Returns:
            The removed records: those that met the criteria, in the order of the query.
        """

    # -- what callers see ----------------------------------------------------------------------

    async def find(self, params: Given = None) -> list[Record] | Page:
        """Return the records that the query selects: a list, or a page where pages are on.

        Raises:
            BadRequest: The query is not in order.
        """
        params = read_params(params)
        if params.adapter and (own := self._set_up_for(params)) is not None:
            return await AdapterService.find(own, params)
        query = self._grammar_for(params).read(params.query, _budget_of(params))
        pagination = self.options_for(params).pagination
        if pagination is None:
            if query.limit == 0:
                return []
            return self._selected((await self._find(query, params, None))[0], query)
        limit = pagination.limit(query.limit)
        if limit != query.limit:
            query = _with_range(query, limit, query.skip)
        records, total = await self._find(query, params, pagination)
        return Page(
            total=total,  # type: ignore[arg-type]  # an adapter may leave it open
            limit=limit,
            skip=query.skip,
            data=self._selected(records, query),
        )

    async def get(self, id: Id, params: Given = None) -> Record:
        """Return one record.

        Raises:
            BadRequest: The id is None, or the query is not in order.
            NotFound: No record has the id and meets the query.
        """
        if not isinstance(params, Params):
            params = read_params(params)
        if params.adapter and (own := self._set_up_for(params)) is not None:
            return await AdapterService.get(own, id, params)
        query = EMPTY_QUERY if params.query == {} else self._read(params)
        if id is None:
            raise BadRequest("get needs an id")
        known = type(id) is str or is_scalar(id)
        record = await self._get(id, query, params) if known else None
        if record is None:
            raise _not_found(id)
        return record if query.select is None else self._selected([record], query)[0]

    async def create(self, data: Any, params: Given = None) -> Any:
        """Store one record from a mapping, or several from a list of them, and return them.

        Of the query only ``$select`` counts.

        Raises:
            BadRequest: The data is not in order.
            Conflict: There is a record with this id already.
            MethodNotAllowed: The data is a list, and ``multi`` does not allow that.
        """
        params = read_params(params)
        if params.adapter and (own := self._set_up_for(params)) is not None:
            return await AdapterService.create(own, data, params)
        several = isinstance(data, list | tuple)
        if several:
            self._check_multi("create", params)
        query = EMPTY_QUERY
        if params.query and (select := self._grammar.read_select(params.query)) is not None:
            query = Query(select=select)
        new = [self._new_record(each, params) for each in (data if several else (data,))]
        records = self._selected(await self._create(new, query, params) if new else [], query)
        return records if several else records[0]

    async def update(self, id: Id, data: Any, params: Given = None) -> Record:
        """Put ``data`` in place of a record, whose id stays, and return the new one.

        Raises:
            BadRequest: The id is None, or data or query are not in order.
            NotFound: No record has the id and meets the query.
        """
        params = read_params(params)
        if params.adapter and (own := self._set_up_for(params)) is not None:
            return await AdapterService.update(own, id, data, params)
        query = self._read(params)
        if id is None or isinstance(data, list | tuple):
            raise BadRequest(_NO_REPLACING_OF_MANY)
        changes = self._read_changes("update", data, params)
        record = await self._update(id, changes, query, params) if is_scalar(id) else None
        if record is None:
            raise _not_found(id)
        return self._selected([record], query)[0]

    async def patch(self, id: Id, data: Any, params: Given = None) -> Any:
        """Merge ``data`` into a record, whose id stays; with id None into all of the query.

        Returns:
            The changed record; with id None a list of them, which may be empty.

        Raises:
            BadRequest: Data or query are not in order.
            MethodNotAllowed: The id is None, and ``multi`` does not allow that.
            NotFound: No record has the id and meets the query.
        """
        params = read_params(params)
        if params.adapter and (own := self._set_up_for(params)) is not None:
            return await AdapterService.patch(own, id, data, params)
        query = self._read(params)
        if id is None:
            self._check_multi("patch", params)
        changes = self._read_changes("patch", data, params)
        if params.provider is not None and not self._dotted_names:
            check_undotted(changes)
        found = id is None or is_scalar(id)
        records = await self._patch(id, changes, query, params) if found else []
        return self._one_or_all(id, records, query)

    async def remove(self, id: Id, params: Given = None) -> Any:
        """Remove a record, with id None all of the query, and return what was removed.

        Raises:
            BadRequest: The query is not in order.
            MethodNotAllowed: The id is None, and ``multi`` does not allow that.
            NotFound: No record has the id and meets the query.
        """
        params = read_params(params)
        if params.adapter and (own := self._set_up_for(params)) is not None:
            return await AdapterService.remove(own, id, params)
        query = self._read(params)
        if id is None:
            self._check_multi("remove", params)
        found = id is None or is_scalar(id)
        records = await self._remove(id, query, params) if found else []
        return self._one_or_all(id, records, query)

    def options_for(self, params: Params) -> Options:
        """Return the options of a call: the service's, and over them what its params bring.

        Raises:
            ValueError: What they bring is not in order, or no option of this adapter.
        """
        if params.paginate is None and params.adapter is None:
            return self.options
        own: Mapping[str, Any] = params.adapter or {}
        for name in own:
            if name not in self.call_options:
                known = ", ".join(sorted(self.call_options))
                raise ValueError(
                    f"params.adapter has {name!r}; {type(self).__name__} reads {known} from it"
                )
        pagination, multi, _ = self.options
        paginate = own.get("paginate")
        if paginate is None:
            paginate = params.paginate
        if paginate is not None:
            pagination = read_pagination(paginate, self.paginate_options)
        if own.get("multi") is not None:
            multi = read_multi(own["multi"])
        more = {name: value for name, value in own.items() if name not in {"paginate", "multi"}}
        return Options(pagination, multi, MappingProxyType(more))

    def _set_up_for(self, params: Params) -> Self | None:  # noqa: ARG002  # for those who derive
        """Return this service with the options that ``params.adapter`` brings for a call.

        None where it brings none but those of `options_for`. An adapter that reads others, such as
        another id property, says here how it is set up with them.

        Raises:
            ValueError: One of them is not in order.
        """
        return None

    def _grammar_for(self, params: Params) -> Grammar:
        """Return what reads the query of a call: ``params.adapter`` may open it for others.

        Raises:
            ValueError: It opens what can not be opened.
        """
        own = params.adapter
        if not own or ("operators" not in own and "filters" not in own):
            return self._grammar
        return self._grammar.opened(own.get("operators"), own.get("filters"))

    # -- reading and checking ------------------------------------------------------------------

    def _read(self, params: Params) -> Query:
        """Return the query of a method for which ``$limit`` and ``$skip`` mean nothing."""
        raw = params.query
        if type(raw) is dict and not raw:
            return EMPTY_QUERY
        query = self._grammar_for(params).read(raw, _budget_of(params))
        if query.limit is None and query.skip == 0:
            return query
        return _with_range(query, None, 0)

    def _check_multi(self, method: str, params: Params) -> None:
        if method not in self.options_for(params).multi:
            raise MethodNotAllowed(f"Can not {method} multiple entries")

    def _new_record(self, data: Any, params: Params) -> Record:
        record = self._read_data("create", data, params)
        given = record.get(self.id)
        if given is None or given == "":
            record.pop(self.id, None)
        elif type(given) is not str and type(given) is not int:
            check_new_id(self.id, given)
        return record

    def _read_changes(self, method: str, data: Any, params: Params) -> Record:
        changes = self._read_data(method, data, params)
        changes.pop(self.id, None)
        return changes

    def _read_data(self, method: str, data: Any, params: Params) -> Record:
        record = read_data(method, data)
        self._check_keys(method, record, params)
        hide_nested(record)
        return record

    def _check_keys(self, method: str, data: Record, params: Params) -> None:
        rule = self.dollar_keys[method]
        opened: frozenset[str] | None = frozenset()
        if rule == "plain" or (rule == "internal" and params.provider is None):
            opened = None
        elif rule == "internal" and method != "create":
            opened = self._opened
        check_data(data, opened)

    def _selected(self, records: list[Record], query: Query) -> list[Record]:
        if query.select is None or self.selects:
            return records
        select = selector(query.select, self.id)
        return [select(record) for record in records]

    def _one_or_all(self, id: Id | None, records: list[Record], query: Query) -> Any:
        if id is not None and not records:
            raise _not_found(id)
        records = self._selected(records, query)
        return records if id is None else records[0]


def read_params(params: Given, values: Mapping[str, Any] | None = None) -> Params:
    """Return the params of a call that goes to the adapter itself, not through a handle.

    Raises:
        TypeError: They are neither `Params` nor a mapping, or have names that nobody declared.
    """
    if isinstance(params, Params) and not values:
        if type(params) is not RequestParams:  # those of a transport; nobody gave them by hand
            params.check_names("the adapter")
        return params
    read = Params(params, **(values or {}))
    read.check_names("the adapter")
    return read


def _with_range(query: Query, limit: int | None, skip: int) -> Query:
    return Query(query.criteria, limit, skip, query.sort, query.select, query.filters, query.budget)


def _budget_of(params: Params) -> Budget | None:
    """Return what a call may make the process do; the application itself may do all it likes."""
    return None if params.provider is None else Budget(MAX_STEPS)


def _not_found(id: Id) -> NotFound:
    message = f"No record found for id '{id}'"
    if isinstance(id, Mapping | list):  # by code alone: from outside, an id is text
        message += "; an id is a single value, and what selects records is query={...}"
    return NotFound(message)
