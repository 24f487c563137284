"""The base class of adapters: everything that is the same whatever the store is.

An adapter implements six methods that find, get, create, update, patch and remove records in its
store. Pages, ids, ``multi``, ``$select``, the checks and "not found" are done here, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypedDict

from alula._context import Params, RequestParams
from alula._service_object import REPLACES_SEVERAL
from alula.adapters._options import (
    Options,
    Pagination,
    ParamsLike,
    change_no_option,
    not_found,
    read_params,
    with_range,
)
from alula.adapters._records import (
    check_data,
    check_dotted,
    check_new_id,
    hide_nested,
    is_plain,
    is_scalar,
    read_data,
    selected,
    selector,
)
from alula.adapters._result_bounds import (
    SMALL_PAGE,
    MaxResult,
    ResultBound,
    measured,
    refuse_large,
    size_of_changes,
)
from alula.adapters.relations import Relation, Relations
from alula.errors import BadRequest
from alula.query import EMPTY_QUERY, Grammar, Query
from alula.query._query import MAX_STEPS, Budget
from alula.types import Id, Page, Record, is_array

if TYPE_CHECKING:
    # A default, which Python itself knows from 3.13 on: `class Mine(AdapterService)` needs no more.
    from typing_extensions import TypeVar

    OptionsT = TypeVar("OptionsT", bound=Options, default=Options)
else:
    from typing import TypeVar

    OptionsT = TypeVar("OptionsT")

__all__ = [
    "AdapterService",
    "CommonOptions",
    "DollarKeys",
    "Options",
    "Pagination",
    "Query",
]

DollarKeys: TypeAlias = Literal["internal", "plain", "never"]
"""Which data may have keys that begin with ``$``: ``"internal"``, that of internal calls, and from
clients the keys that ``update_operators`` opens; ``"plain"``, all data, in which they are keys like
any other; ``"never"``, no data."""


class CommonOptions(TypedDict, total=False):
    """Keyword arguments that every adapter passes on; `AdapterService` says what they mean."""

    paginate: Mapping[str, Any] | bool | None
    multi: bool | Iterable[str]
    operators: Iterable[str]
    filters: Mapping[str, Any] | None
    update_operators: Iterable[str]
    dotted_names: bool
    relations: Mapping[str, Relation] | None
    max_result: MaxResult
    events: Iterable[str]


class AdapterService(ABC, Generic[OptionsT]):
    """A service that keeps records in a store.

    Args:
        id: Name of the property that holds the id of a record.
        paginate: Page sizes of `find`, such as ``{"default": 10, "max": 50}``.
        multi: True, False, or which of create, patch and remove take several records at once.
        operators: Operators of the store to open for queries, beside the common ones.
        filters: Names to open at the top level of a query. True passes the value to the store,
            False drops it, a callable converts it.
        dotted_names: Whether a patch from a client may set properties of nested objects
            (``{"address.town": ...}``). Hooks that look at ``data["address"]`` do not see those.
        update_operators: Keys that begin with ``$`` that clients may send to update and patch.
        relations: Relations to records of other services, by the name under which ``$include``
            adds them: ``{"author": belongs_to("users", "authorId")}``.
        max_result: How much a call of a client may return: ``{"records": 50_000, "bytes":
            64_000_000}`` unless it is named. More is a 400, and changes nothing. False for no
            bound. Calls of your own code have none, except with ``adapter={"max_result": {...}}``.
        events: Names of events that the service emits beside the standard ones.

    Attributes:
        id: Name of the id property.
        events: Names of further events.
        options: The options of every call that overrides none of them.

    Raises:
        ValueError: An option is not valid; the message says why.
    """

    options_type: ClassVar[type[Options]] = Options
    """The class of `options`, for an adapter that has options of its own."""

    paginate_options: ClassVar[frozenset[str]] = frozenset({"default", "max"})
    """The names that ``paginate`` may have; an adapter that reads more adds them."""

    call_options: ClassVar[frozenset[str]] = frozenset(
        {"paginate", "multi", "operators", "filters", "max_result"}
    )
    """The names that ``params.adapter`` may have; an adapter that reads more adds them."""

    dollar_keys: ClassVar[Mapping[str, DollarKeys]] = {
        "create": "internal",
        "update": "internal",
        "patch": "internal",
    }
    """Which data may have keys that begin with ``$``, by method."""

    process_local: ClassVar[bool] = False
    """Whether the records exist in this process only. `alula serve` with several workers warns
    about it. A service that is not an adapter may have an attribute of this name, too."""

    joins: ClassVar[bool] = False
    """Whether the store itself tests and sorts by properties of related records."""

    shares_finds: bool = False
    """Whether the store answers concurrent finds together."""

    sorts_by_code_points: ClassVar[bool] = False
    """Whether the store certainly sorts texts by their code points, as Python does."""

    measures: ClassVar[bool] = False
    """Whether `_measure` tells the size of records without sending them."""

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
        relations: Mapping[str, Relation] | None = None,
        max_result: MaxResult = None,
        events: Iterable[str] = (),
    ) -> None:
        self.events = tuple(events)
        self.relations = Relations(relations or {}, joins=self.joins)
        filters = {**self.relations.filters_of_query, **(filters or {})}
        self.related_names = self.relations.names
        self.options: OptionsT = self.options_type()  # type: ignore[assignment]  # of the subclass
        given = {
            "id": id,
            "paginate": paginate,
            "multi": multi,
            "operators": operators,
            "filters": filters,
            "update_operators": update_operators,
            "dotted_names": dotted_names,
            "max_result": max_result,
        }
        self.options = self.options.changed(given, self.paginate_options)
        self.id = id

    async def setup(self, app: Any, path: str) -> None:  # noqa: ARG002  # setup gets it
        """Remember the application, whose services ``$include`` calls.

        An adapter that has a setup of its own calls this one.
        """
        self.relations.connect(app)

    # -- what the store does -------------------------------------------------------------------

    @abstractmethod
    async def _find(
        self, query: Query, params: Params, options: OptionsT
    ) -> tuple[list[Record], int | None]:
        """Return the records of a query, and how many there are without ``limit`` and ``skip``.

        Args:
            query: Its limit is the page size that counts; with 0 only the number is wanted.
            params: The params of the call.
            options: The options of the call. If ``pagination`` is None, the number is not used.
        """

    @abstractmethod
    async def _get(self, id: Id, query: Query, params: Params, options: OptionsT) -> Record | None:
        """Return the record with an id if it meets ``query.criteria``, None otherwise."""

    @abstractmethod
    async def _create(
        self, records: list[Record], query: Query, params: Params, options: OptionsT
    ) -> list[Record]:
        """Store all records or none, and return them with their ids, in the same order.

        Args:
            records: The store gives an id to those that have none.
            query: Has nothing but ``select``.
            params: The params of the call.
            options: The options of the call.

        Raises:
            Conflict: The store has a record with one of the ids already.
        """

    @abstractmethod
    async def _update(
        self, id: Id, data: Record, query: Query, params: Params, options: OptionsT
    ) -> Record | None:
        """Replace a record that meets the criteria by ``data``, which has no id.

        Returns:
            The new record with the id of the old one, None if no record has the id and meets them.
        """

    @abstractmethod
    async def _patch(
        self, id: Id | None, data: Record, query: Query, params: Params, options: OptionsT
    ) -> list[Record]:
        """Merge ``data``, which has no id, into the record with an id, or with None into all.

        Returns:
            The changed records: those that met the criteria before, in the order of the query.
        """

    @abstractmethod
    async def _remove(
        self, id: Id | None, query: Query, params: Params, options: OptionsT
    ) -> list[Record]:
        """Remove the record with an id, or with None all records, and return what was removed.

        Returns:
            The removed records: those that met the criteria, in the order of the query.
        """

    async def _measure(
        self, query: Query, params: Params, options: OptionsT, bound: ResultBound
    ) -> tuple[int, int]:
        """Return how many records a query selects, and how many bytes they have.

        An adapter whose store can tell without sending the records does that, and sets `measures`.

        Args:
            query: Its limit is one more than the bound, or less.
            params: The params of the call.
            options: The options of the call.
            bound: What is beyond it needs no exact number.
        """
        if query.budget is not None:  # what the call itself does has one of its own
            query = query._replace(budget=Budget(MAX_STEPS))
        records, _ = await self._find(query, params, replace(options, pagination=None))
        return measured(self._selected(records, query, options), bound)

    # -- what callers see ----------------------------------------------------------------------

    async def find(self, params: ParamsLike = None) -> list[Record] | Page:
        """Return the records that a query selects: a page if ``paginate`` is set, or else a list.

        Raises:
            BadRequest: The query is not valid.
        """
        params = params if type(params) is RequestParams else read_params(params)
        options = self.options_for(params)
        max_steps = None if params.provider is None else MAX_STEPS
        query, asked = options.grammar.read(params.query, max_steps), None
        if self.related_names:
            query, asked = await self.relations.for_store(query)
        pagination = options.pagination
        total: Any  # None where an adapter does not count
        limit = query.limit or 0
        if pagination is not None:
            limit = pagination.limit(query.limit)
            if limit != query.limit:
                query = with_range(query, limit, query.skip)
        elif query.limit == 0:
            return []
        is_large = query.limit is None or query.limit > SMALL_PAGE
        if is_large:
            query = await self._bounded(query, params, options)
        if self.related_names and self.relations.sorts(query):
            records, total = await self.relations.find_sorted(self._find, query, params, options)
        else:
            records, total = await self._find(query, params, options)
        if is_large:
            self._check_found(records, query, params, options)
        if asked is not None:
            records = await self.relations.completed(records, asked, options.id, params)
        elif query.select is not None:
            records = self._selected(records, query, options)
        if pagination is None:
            return records
        return Page(total=total, limit=limit, skip=query.skip, data=records)

    async def get(self, id: Id, params: ParamsLike = None) -> Record:
        """Return one record.

        Raises:
            BadRequest: The id is None, or the query is not valid.
            NotFound: No record has the id and meets the query.
        """
        params = params if isinstance(params, Params) else read_params(params)
        options = self.options_for(params)
        query, asked = EMPTY_QUERY, None
        raw = params.query
        if raw or not isinstance(raw, dict):  # most calls have no query (bench rest get: +0.9 %)
            query = self._read(params, options)
            if self.related_names:
                query, asked = await self.relations.for_store(query)
        if id is None:
            raise BadRequest("get needs an id")
        is_id = type(id) is str or is_scalar(id)
        record = await self._get(id, query, params, options) if is_id else None
        if record is None:
            raise not_found(id)
        if query is EMPTY_QUERY:
            return record
        if asked is not None:
            return (await self.relations.completed([record], asked, options.id, params))[0]
        if query.select is None or self.selects:
            return record
        return selected(record, query.select, options.id)

    async def create(self, data: object, params: ParamsLike = None) -> Any:
        """Store one record from a mapping, or several from a list of them, and return them.

        Only ``$select`` of the query counts.

        Raises:
            BadRequest: The data is not valid.
            Conflict: There is a record with this id already.
            MethodNotAllowed: The data is a list, and ``multi`` does not allow that.
        """
        params = params if type(params) is RequestParams else read_params(params)
        options = self.options_for(params)
        items = data if is_array(data) else (data,)
        if items is data:
            options.check_multi("create")
            if (bound := _bound_of(params, options)) is not None:
                refuse_large(len(items), 0, bound)
        query = EMPTY_QUERY
        if params.query and (select := options.grammar.read_select(params.query)) is not None:
            query = Query(select=select)
        new = [self._new_record(item, params, options) for item in items]
        records = await self._create(new, query, params, options) if new else []
        records = records if query.select is None else self._selected(records, query, options)
        return records if items is data else records[0]

    async def update(self, id: Id, data: object, params: ParamsLike = None) -> Record:
        """Replace a record by ``data`` and return it; its id stays.

        Raises:
            BadRequest: The id is None, or the data or the query is not valid.
            NotFound: No record has the id and meets the query.
        """
        params = params if type(params) is RequestParams else read_params(params)
        options = self.options_for(params)
        query = EMPTY_QUERY
        if (raw := params.query) or type(raw) is not dict:
            query = await self._read_selection(params, options)
        if id is None or is_array(data):
            raise BadRequest(REPLACES_SEVERAL)
        changes = self._read_data("update", data, params, options)
        changes.pop(options.id, None)
        is_id = type(id) is str or is_scalar(id)
        record = await self._update(id, changes, query, params, options) if is_id else None
        if record is None:
            raise not_found(id)
        return record if query.select is None else self._selected([record], query, options)[0]

    async def patch(self, id: Id, data: object, params: ParamsLike = None) -> Any:
        """Merge ``data`` into a record, whose id stays; with the id None into all of the query.

        Returns:
            The changed record; with the id None a list of them, which may be empty.

        Raises:
            BadRequest: The data or the query is not valid.
            MethodNotAllowed: The id is None, and ``multi`` does not allow that.
            NotFound: No record has the id and meets the query.
        """
        params = params if type(params) is RequestParams else read_params(params)
        options = self.options_for(params)
        query = EMPTY_QUERY
        if (raw := params.query) or type(raw) is not dict:
            query = await self._read_selection(params, options)
        if id is None:
            options.check_multi("patch")
        changes = self._read_data("patch", data, params, options)
        changes.pop(options.id, None)
        if id is None and (bound := _bound_of(params, options)) is not None:
            await self._check_size(query, params, options, bound, changes)
        is_valid = type(id) is str or id is None or is_scalar(id)
        records = await self._patch(id, changes, query, params, options) if is_valid else []
        return self._one_or_all(id, records, query, options)

    async def remove(self, id: Id, params: ParamsLike = None) -> Any:
        """Remove a record, with the id None all of the query, and return what was removed.

        Raises:
            BadRequest: The query is not valid.
            MethodNotAllowed: The id is None, and ``multi`` does not allow that.
            NotFound: No record has the id and meets the query.
        """
        params = params if type(params) is RequestParams else read_params(params)
        options = self.options_for(params)
        query = EMPTY_QUERY
        if (raw := params.query) or type(raw) is not dict:
            query = await self._read_selection(params, options)
        if id is None:
            options.check_multi("remove")
            if (bound := _bound_of(params, options)) is not None:
                await self._check_size(query, params, options, bound)
        is_valid = type(id) is str or id is None or is_scalar(id)
        records = await self._remove(id, query, params, options) if is_valid else []
        return self._one_or_all(id, records, query, options)

    def check_multi(self, method: str, params: Params) -> None:
        """Refuse a method that may not work on several records in this call.

        Raises:
            MethodNotAllowed: The option ``multi`` does not allow it.
        """
        self.options_for(params).check_multi(method)

    def query_grammar(self, params: Params) -> Grammar:
        """Return the grammar by which a call reads its query.

        Raises:
            ValueError: As `options_for`.
        """
        return self.options_for(params).grammar

    def options_for(self, params: Params) -> OptionsT:
        """Return the options of a call: those of the service, changed by its params.

        Raises:
            ValueError: An option in the params is not valid, or this adapter does not have it.
        """
        # `__dict__`, as attributes of params take four times as long.
        if change_no_option(params.__dict__):
            return self.options
        given = dict(params.adapter or {})
        for name in given:
            if name not in self.call_options:
                names = ", ".join(sorted(self.call_options))
                raise ValueError(
                    f"params.adapter has {name!r}; {type(self).__name__} reads {names} from it"
                )
        if given.get("paginate") is None:
            given["paginate"] = params.paginate
        options = self.options.changed(given, self.paginate_options)
        return (
            options if given.get("max_result") is None else replace(options, bounds_own_calls=True)
        )

    # -- the bound of a result ---------------------------------------------------------------------

    async def _bounded(self, query: Query, params: Params, options: OptionsT) -> Query:
        """Return a query that reads no more records than one beyond the bound.

        Raises:
            BadRequest: The store has measured that it is beyond the bound.
        """
        bound = _bound_of(params, options)
        if bound is None:
            return query
        if self.measures:
            await self._check_size(query, params, options, bound)
        elif query.limit is None or query.limit > bound.records:
            return with_range(query, bound.records + 1, query.skip)
        return query

    def _check_found(
        self, records: list[Record], query: Query, params: Params, options: OptionsT
    ) -> None:
        """Refuse the records of a store that has not measured them.

        Raises:
            BadRequest: They are beyond the bound.
        """
        bound = None if self.measures else _bound_of(params, options)
        if bound is not None:
            refuse_large(*measured(self._selected(records, query, options), bound), bound)

    async def _check_size(
        self,
        query: Query,
        params: Params,
        options: OptionsT,
        bound: ResultBound,
        changes: Record | None = None,
    ) -> None:
        """Refuse a call that would return too much, before it reads or changes records.

        Raises:
            BadRequest: It has more records or bytes than the bound.
        """
        limit = bound.records + 1 if query.limit is None else min(query.limit, bound.records + 1)
        sort = query.sort
        if query.limit is None or (self.related_names and self.relations.sorts(query)):
            sort = ()  # which of them does not matter, or the store cannot sort
        selection = query._replace(limit=limit, sort=sort)
        number, size = await self._measure(selection, params, options, bound)
        if changes:
            size += number * size_of_changes(changes, query.select)
        refuse_large(number, size, bound)

    # -- reading and checking ------------------------------------------------------------------

    def _read(self, params: Params, options: OptionsT) -> Query:
        """Return the query of a method for which ``$limit`` and ``$skip`` mean nothing."""
        query = options.grammar.read(params.query, None if params.provider is None else MAX_STEPS)
        return query if query.limit is None and query.skip == 0 else with_range(query, None, 0)

    async def _read_selection(self, params: Params, options: OptionsT) -> Query:
        """Return the query of a method that changes what it selects."""
        query = self._read(params, options)
        if self.related_names:
            self.relations.check_change(query)
            query, _ = await self.relations.for_store(query)
        return query

    def _new_record(self, data: object, params: Params, options: OptionsT) -> Record:
        record = self._read_data("create", data, params, options)
        new_id = record.get(options.id)
        if new_id is None or new_id == "":
            record.pop(options.id, None)
        elif type(new_id) is not str and type(new_id) is not int:
            check_new_id(options.id, new_id)
        return record

    def _read_data(self, method: str, data: Any, params: Params, options: OptionsT) -> Record:
        """Return the data of a method as a new dict, checked and without what is redacted."""
        record: Record = data.copy() if type(data) is dict else read_data(method, data)  # pyright: ignore[reportUnknownVariableType]  # narrowing calls what Any holds unknown
        if not is_plain(record):
            rule = self.dollar_keys[method]
            is_free = rule == "plain" or (rule == "internal" and params.provider is None)
            opened = options.update_operators if rule == "internal" and method != "create" else ()
            check_data(record, None if is_free else opened)
            if method == "patch":
                are_open = params.provider is None or options.dotted_names
                check_dotted((name for name in record if name != options.id), are_open=are_open)
            hide_nested(record)
        return record

    def _selected(self, records: list[Record], query: Query, options: OptionsT) -> list[Record]:
        if query.select is None or self.selects:
            return records
        return list(map(selector(query.select, options.id), records))

    def _one_or_all(
        self, id: Id | None, records: list[Record], query: Query, options: OptionsT
    ) -> Record | list[Record]:
        if id is not None and not records:
            raise not_found(id)
        records = records if query.select is None else self._selected(records, query, options)
        return records if id is None else records[0]


def _bound_of(params: Params, options: Options) -> ResultBound | None:
    """Return the bound of what a call may return, None if there is none."""
    if params.provider is None and not options.bounds_own_calls:
        return None
    return options.max_result
