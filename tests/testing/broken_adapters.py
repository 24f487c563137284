"""Adapters that each break a rule, and the tests of the suite that have to notice.

Most are what somebody could write in good faith; some are what FeathersJS does by accident.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar

from alula._context import Params
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest, FrameworkError, NotFound
from alula.query import EMPTY_QUERY, Query
from alula.query._grammar import COMMON_OPERATORS

BROKEN: dict[type[MemoryService], tuple[str, ...]] = {}
"""Each broken adapter, and the names of the tests that it does not pass."""

DIRECTLY: set[type[MemoryService]] = set()
"""Those that pass when they are called through a handle, which makes params of its own."""


def breaks(*tests: str, directly: bool = False) -> Callable[[type], type]:
    def decorate(adapter):
        BROKEN[adapter] = tests
        if directly:
            DIRECTLY.add(adapter)
        return adapter

    return decorate


def query_of(params):
    return (params or {}).get("query") or {}


# -- reading -----------------------------------------------------------------------------------


@breaks(
    "get_answers_the_record", "get_takes_the_id_as_a_url_carries_it", "missing_ids_are_not_found"
)
class GetsTheFirst(MemoryService):
    async def _get(self, id, query, params, options):
        return next(iter(self._store.values())).copy()


@breaks("get_takes_the_id_as_a_url_carries_it")
class WantsTheRightType(MemoryService):
    async def _get(self, id, query, params, options):
        record = await super()._get(id, query, params, options)
        return record if record and record[self.id] == id else None


@breaks("get_of_none_asks_for_an_id")
class GetsNone(MemoryService):
    async def get(self, id, params=None):
        return await super().get("None" if id is None else id, params)


@breaks("missing_ids_are_not_found", "the_query_has_to_match_too")
class KeepsTheIdToItself(MemoryService):
    async def get(self, id, params=None):
        try:
            return await super().get(id, params)
        except NotFound:
            raise NotFound("No such record") from None


@breaks("ids_of_no_form_are_not_found")
class HashesIds(MemoryService):
    async def remove(self, id, params=None):
        hash(id)
        return await super().remove(id, params)


@breaks("the_query_has_to_match_too", "the_query_may_have_the_id", "a_change_may_leave_the_query")
class IgnoresTheQueryOfOne(MemoryService):
    async def _get(self, id, query, params, options):
        return await super()._get(id, EMPTY_QUERY, params, options)

    def _selected_records(self, id, query):
        return super()._selected_records(id, query if id is None else EMPTY_QUERY)


@breaks("limit_and_skip_mean_nothing_for_one")
class LimitsOne(MemoryService):
    async def get(self, id, params=None):
        if query_of(params).get("$limit") == 0:
            raise NotFound
        return await super().get(id, params)


@breaks("limit_and_skip_mean_nothing_for_one", "limit_and_skip_do_not_narrow_several")
class DropsLimitUnread(MemoryService):
    def _read(self, params, options):
        query = {k: v for k, v in params.query.items() if k not in {"$limit", "$skip"}}
        return super()._read(params.copy(query=query), options)


@breaks("find_answers_all_records", "without_pages_find_answers_a_list", "criteria_select")
class ForgetsTheLast(MemoryService):
    async def find(self, params=None):
        result = await super().find(params)
        return result[:-1] if isinstance(result, list) else result


@breaks("params_may_be_left_out", directly=True)
class WantsParams(MemoryService):
    async def find(self, params):
        return await super().find(params)


@breaks("params_may_be_left_out", directly=True)
class WantsAQuery(MemoryService):
    async def find(self, params=None):
        return await super().find({"query": (params or {})["query"]})


@breaks("the_id_property_has_any_name", "events_are_declared")
class IgnoresItsOptions(MemoryService):
    def __init__(self, id="id", events=(), **options):
        super().__init__(**options)


# -- writing one -------------------------------------------------------------------------------


@breaks("create_answers_the_new_record", "select_works_with_every_method")
class AnswersTheData(MemoryService):
    async def create(self, data, params=None):
        await super().create(data, params)
        return data


@breaks("ids_are_not_given_again")
class FillsGaps(MemoryService):
    def _add(self, records):
        self._next_id = 0
        return super()._add(records)


@breaks("a_record_has_its_own_fields")
class FillsWithNull(MemoryService):
    def _new_record(self, data, params, options):
        return {"age": None, **super()._new_record(data, params, options)}


@breaks("no_field_is_dropped")
class DropsUnknownFields(MemoryService):
    """What FeathersJS does on update, where the store is a table."""

    async def update(self, id, data, params=None):
        data = {k: v for k, v in data.items() if k != "undeclared"}
        return await super().update(id, data, params)

    async def create(self, data, params=None):
        if "undeclared" in data:
            raise BadRequest('There is no column "undeclared"')
        return await super().create(data, params)


@breaks("no_field_is_dropped", "names_from_javascript_are_names")
class DropsNewFields(MemoryService):
    def _new_record(self, data, params, options):
        record = super()._new_record(data, params, options)
        return {k: v for k, v in record.items() if k in {self.id, "name"}}


@breaks("create_takes_null_for_no_id")
class StoresNullIds(MemoryService):
    def _new_record(self, data, params, options):
        record = super()._new_record(data, params, options)
        return {**record, self.id: data[self.id]} if self.id in data else record


@breaks("create_ignores_the_query")
class ReadsTheQueryOfCreate(MemoryService):
    async def create(self, data, params=None):
        self._read(Params(params), self.options)
        return await super().create(data, params)


@breaks("create_takes_objects_only", "changes_are_objects", "patch_takes_no_list")
class TakesAnything(MemoryService):
    def _read_data(self, method, data, params, options):
        return super()._read_data(method, data if isinstance(data, dict) else {}, params, options)


@breaks("create_keeps_an_id_that_is_brought", "create_stores_all_or_none")
class Overwrites(MemoryService):
    """What FeathersJS does."""

    def _add(self, records):
        for record in records:
            self._store.pop(str(record.get(self.id)), None)
        return [super(Overwrites, self)._add([record])[0] for record in records]


@breaks("create_stores_all_or_none")
class StoresOneByOne(MemoryService):
    def _add(self, records):
        return [super(StoresOneByOne, self)._add([record])[0] for record in records]


@breaks("create_refuses_ids_that_are_none")
class TakesAnyId(MemoryService):
    def _new_record(self, data, params, options):
        given = data.get(self.id) if isinstance(data, dict) else None
        record = super()._new_record(
            {**data, self.id: str(given)} if given else data, params, options
        )
        return {**record, self.id: given} if given else record


@breaks("update_replaces_the_record", "params_may_be_left_out")
class MergesOnUpdate(MemoryService):
    async def update(self, id, data, params=None):
        if id is None or isinstance(data, list):
            return await super().update(id, data, params)
        return await self.patch(id, data, params)


@breaks("an_id_never_changes", "the_id_property_has_any_name", "patch_leaves_every_id")
class PatchesTheId(MemoryService):
    async def patch(self, id, data, params=None):
        self.given = data
        return await super().patch(id, data, params)

    async def _patch(self, id, data, query, params, options):
        return await super()._patch(id, {**data, **self.given}, query, params, options)


@breaks("an_id_never_changes")
class StoresTheIdOfTheUrl(MemoryService):
    async def _update(self, id, data, query, params, options):
        record = await super()._update(id, data, query, params, options)
        return record and {**record, self.id: id}


@breaks("update_has_no_form_for_several")
class ReplacesMany(MemoryService):
    async def update(self, id, data, params=None):
        return await super().update(0 if id is None else id, data, params)


@breaks("update_has_no_form_for_several")
class TakesTheFirstOfAList(MemoryService):
    async def update(self, id, data, params=None):
        return await super().update(id, data[0] if isinstance(data, list) else data, params)


@breaks("patch_merges_into_the_record")
class SkipsNull(MemoryService):
    def _replace(self, old, new):
        return super()._replace(old, {k: v for k, v in new.items() if v is not None})


@breaks("patch_replaces_objects_inside")
class MergesDeeply(MemoryService):
    def _replace(self, old, new):
        for name, value in new.items():
            if isinstance(value, dict) and isinstance(old.get(name), dict):
                new[name] = {**old[name], **value}
        return super()._replace(old, new)


@breaks("a_change_may_leave_the_query", "patch_may_change_what_the_query_is_about")
class ReadsAgainWithTheQuery(MemoryService):
    """What FeathersJS does on update."""

    async def _update(self, id, data, query, params, options):
        await super()._update(id, data, query, params, options)
        return await super()._get(id, query, params, options)

    async def _patch(self, id, data, query, params, options):
        await super()._patch(id, data, query, params, options)
        if id is None:
            return (await super()._find(query, params, options))[0]
        record = await super()._get(id, query, params, options)
        return [record] if record else []


@breaks("remove_answers_what_is_gone", "remove_takes_what_the_query_selects")
class RemovesNothing(MemoryService):
    async def _remove(self, id, query, params, options):
        return [record.copy() for record in self._selected_records(id, query)]


@breaks("remove_answers_what_is_gone", "remove_takes_what_the_query_selects")
class AnswersIdsOnly(MemoryService):
    async def _remove(self, id, query, params, options):
        return [{self.id: r[self.id]} for r in await super()._remove(id, query, params, options)]


# -- several at once ---------------------------------------------------------------------------


@breaks("what_multi_does_not_allow", "an_empty_list_is_several", "multi_for_one_call")
class AlwaysMulti(MemoryService):
    def options_for(self, params):
        multi = frozenset({"create", "patch", "remove"})
        return replace(super().options_for(params), multi=multi)


@breaks("what_multi_allows", "none_selected_is_no_error", "several_are_never_a_page")
class NeverMulti(MemoryService):
    def options_for(self, params):
        return replace(super().options_for(params), multi=frozenset())


@breaks("an_empty_list_is_several")
class TakesAnEmptyList(MemoryService):
    async def create(self, data, params=None):
        return [] if data == [] else await super().create(data, params)


@breaks("multi_for_one_call", "pages_for_one_call", "pages_of_the_adapter_for_one_call")
class IgnoresParams(MemoryService):
    def options_for(self, params):
        return self.options


@breaks("multi_for_one_call", "pages_for_one_call")
class KeepsOptionsOfACall(MemoryService):
    def options_for(self, params):
        self.options = super().options_for(params)
        return self.options


@breaks("create_answers_in_order", "select_works_with_several")
class SortsNewRecords(MemoryService):
    async def _create(self, records, query, params, options):
        created = await super()._create(records, query, params, options)
        return sorted(created, key=str)

    def _selected(self, records, query, options):
        return records if len(records) > 1 else super()._selected(records, query, options)


@breaks("none_selected_is_no_error")
class MissesSeveral(MemoryService):
    def _one_or_all(self, id, records, query, options):
        if not records:
            raise NotFound
        return super()._one_or_all(id, records, query, options)


@breaks("several_come_in_the_order_of_the_query", "remove_takes_what_the_query_selects")
class SortsFindOnly(MemoryService):
    """What FeathersJS does."""

    def _selected_records(self, id, query):
        return super()._selected_records(id, Query(query.criteria))


@breaks("limit_and_skip_do_not_narrow_several")
class LimitsSeveral(MemoryService):
    def _one_or_all(self, id, records, query, options):
        return super()._one_or_all(id, records[:1], query, options)


@breaks("patch_changes_what_the_query_selects", "remove_takes_what_the_query_selects")
class TakesAll(MemoryService):
    def _selected_records(self, id, query):
        return super()._selected_records(id, Query(sort=query.sort) if id is None else query)


@breaks("several_are_never_a_page", "patch_changes_what_the_query_selects")
class AnswersPages(MemoryService):
    def _one_or_all(self, id, records, query, options):
        result = super()._one_or_all(id, records, query, options)
        return {"total": len(result), "data": result} if id is None else result


@breaks("pages_are_for_find_only")
class AnswersAPageOfOne(MemoryService):
    async def get(self, id, params=None):
        record = await super().get(id, params)
        return {"total": 1, "data": [record]} if self.options.pagination else record


# -- queries -----------------------------------------------------------------------------------


@breaks(
    "a_wrong_query_changes_nothing", "a_wrong_query_is_refused", "a_query_can_not_turn_pages_off"
)
class DropsWhatItDoesNotKnow(MemoryService):
    def __init__(self, **options):
        super().__init__(**options)
        read = self.options.grammar.read

        def lenient(raw):
            try:
                return read(raw)
            except BadRequest:
                return EMPTY_QUERY

        self.options.grammar.read = lenient


@breaks("a_query_can_not_turn_pages_off")
class LetsQueriesTurnPagesOff(MemoryService):
    async def find(self, params=None):
        paginate = query_of(params).get("paginate")
        return await super().find(params if paginate is None else {"paginate": paginate})


@breaks("criteria_select", "the_query_moves_the_page", "remove_takes_what_the_query_selects")
class MixesUpLessAndGreater(MemoryService):
    def __init__(self, **options):
        super().__init__(**options)
        readers = self.options.grammar._operators
        assert readers.keys() == COMMON_OPERATORS
        readers["$lt"] = lambda name, value, depth: value - 1000

    # `$lt` now asks for something that nobody is below.


@breaks("regular_expressions_select")
class TakesExpressionsForText(MemoryService):
    async def find(self, params=None):
        query = {k: getattr(v, "pattern", v) for k, v in query_of(params).items()}
        return await super().find({**(params or {}), "query": query})


@breaks("sort_orders", "several_come_in_the_order_of_the_query", "a_page_has_four_parts")
class SortsTheWrongWay(MemoryService):
    def _sorted(self, query):
        return super()._sorted(Query(sort=tuple((name, -way) for name, way in query.sort)))


@breaks("sort_orders")
class SortsByOneField(MemoryService):
    def _sorted(self, query):
        return super()._sorted(Query(sort=query.sort[:1]))


@breaks("sort_sees_every_write")
class KeepsOrders(MemoryService):
    def _sorted(self, query):
        if len(self._store) == 3:
            self._kept = list(super()._sorted(query))
        return getattr(self, "_kept", None) or super()._sorted(query)


@breaks("a_missing_field_is_null")
class TellsNullFromMissing(MemoryService):
    async def _find(self, query, params, options):
        records, total = await super()._find(query, params, options)
        return [record for record in records if "v" in record], total


@breaks("types_are_told_apart")
class ComparesText(MemoryService):
    async def find(self, params=None):
        query = dict(query_of(params))
        if query.get("v") == 25:
            query = {"v": {"$in": [25, "25"]}}
        return await super().find({**(params or {}), "query": query})


@breaks("lists_match_by_their_elements")
class KnowsNoLists(MemoryService):
    async def _find(self, query, params, options):
        records, total = await super()._find(query, params, options)
        lists = [r for r in records if isinstance(r.get("v"), list) and query.criteria.parts]
        return [record for record in records if record not in lists], total


@breaks("dotted_names_lead_into_objects", "select_keeps_parts_of_objects")
class KnowsNoDots(MemoryService):
    async def find(self, params=None):
        query = query_of(params)
        names = [*query, *query.get("$select", ()), *query.get("$sort", ())]
        return [] if any("." in name for name in names) else await super().find(params)


# -- $select -----------------------------------------------------------------------------------


@breaks("select_works_with_every_method", "select_works_with_several")
class SelectsNothing(MemoryService):
    selects = True


@breaks("select_works_with_every_method", "the_id_property_has_any_name")
class SelectsTheIdOnRequest(MemoryService):
    def _selected(self, records, query, options):
        chosen = super()._selected(records, query, options)
        if query.select is not None and self.id not in query.select:
            for record in chosen:
                del record[self.id]
        return chosen

    async def get(self, id, params=None):
        record = await super().get(id, params)
        names = query_of(params).get("$select")
        if isinstance(names, list) and self.id not in names:
            del record[self.id]
        return record


@breaks("select_is_about_the_answer_only")
class StoresWhatIsSelected(MemoryService):
    async def create(self, data, params=None):
        names = query_of(params).get("$select")
        if isinstance(data, dict) and isinstance(names, list):
            data = {name: data[name] for name in names if name in data}
        return await super().create(data, params)


@breaks("select_is_a_list_of_names")
class SelectsAnything(MemoryService):
    async def create(self, data, params=None):
        try:
            return await super().create(data, params)
        except BadRequest:
            return await super().create(data)


# -- pages -------------------------------------------------------------------------------------


@breaks("a_page_has_four_parts", "the_query_moves_the_page")
class CountsThePage(MemoryService):
    async def _find(self, query, params, options):
        records, _ = await super()._find(query, params, options)
        return records, len(records)


@breaks("the_query_moves_the_page", "one_of_the_sizes_is_enough")
class KnowsNoMaximum(MemoryService):
    async def find(self, params=None):
        result = await super().find(params)
        limit = query_of(params).get("$limit")
        return {**result, "limit": limit} if limit and isinstance(result, dict) else result


@breaks("without_pages_find_answers_a_list")
class TakesZeroForAll(MemoryService):
    async def find(self, params=None):
        query = {k: v for k, v in query_of(params).items() if (k, v) != ("$limit", 0)}
        return await super().find({**(params or {}), "query": query})


@breaks("one_of_the_sizes_is_enough")
class NeedsADefault(MemoryService):
    """What FeathersJS does: no records where nothing is asked for."""

    def __init__(self, paginate=None, **options):
        if paginate and "default" not in paginate:
            paginate = None
        super().__init__(paginate=paginate, **options)


@breaks("pages_of_the_adapter_for_one_call")
class PrefersParams(MemoryService):
    async def find(self, params=None):
        params = Params(params)
        if params.paginate is not None and params.adapter:
            params.adapter = None
        return await super().find(params)


@breaks("a_call_has_a_bound_of_records")
class BoundsOnlyTheBytes(MemoryService):
    async def _measure(self, query, params, options, bound):
        _, size = await super()._measure(query, params, options, bound)
        return 0, size


@breaks("a_call_has_a_bound_of_bytes")
class BoundsOnlyTheRecords(MemoryService):
    async def _measure(self, query, params, options, bound):
        number, _ = await super()._measure(query, params, options, bound)
        return number, 0


# -- safety ------------------------------------------------------------------------------------


@breaks("nothing_of_the_caller_changes", "data_may_change_after_the_call")
class WritesIntoTheData(MemoryService):
    async def create(self, data, params=None):
        if isinstance(data, dict):
            data["created"] = True
        elif isinstance(data, list):
            data.append({})
        return await super().create(data, params)

    async def patch(self, id, data, params=None):
        self._shared = data
        return await super().patch(id, data, params)

    async def get(self, id, params=None):
        record = await super().get(id, params)
        return {**record, **getattr(self, "_shared", {})}


@breaks("nothing_of_the_caller_changes", "params_of_the_caller_do_not_change", directly=True)
class WritesIntoTheParams(MemoryService):
    async def find(self, params=None):
        result = await super().find(params)
        if params:
            query_of(params).pop("$limit", None)
        return result


@breaks("answers_may_be_changed")
class AnswersWhatIsStored(MemoryService):
    async def _get(self, id, query, params, options):
        return self._get_matching(id, query)


@breaks("answers_may_be_changed")
class CopiesTheOutside(MemoryService):
    async def _find(self, query, params, options):
        records, total = await super()._find(query, params, options)
        return [dict(self._store[str(record[self.id])]) for record in records], total


@breaks("operators_in_changes_are_refused")
class StoresOperators(MemoryService):
    dollar_keys: ClassVar = {"create": "plain", "update": "plain", "patch": "plain"}


@breaks("operators_in_changes_are_refused", "operators_in_new_records_mean_nothing")
class DropsOperators(MemoryService):
    def _read_data(self, method, data, params, options):
        if isinstance(data, dict):
            data = {k: v for k, v in data.items() if k[0] != "$"}
        return super()._read_data(method, data, params, options)


@breaks("operators_in_new_records_mean_nothing")
class StoresBeforeItLooks(MemoryService):
    async def create(self, data, params=None):
        record = await super().create(data, params)
        if "$" in str(data):
            raise BadRequest("Invalid key")
        return record


@breaks("data_has_a_hundred_levels")
class CopiesBeforeItLooks(MemoryService):
    def _read_data(self, method, data, params, options):
        try:
            deepcopy(data)
        except RecursionError as error:
            raise FrameworkError(error) from error
        return super()._read_data(method, data, params, options)


@breaks("names_from_javascript_are_names")
class KnowsJavaScript(MemoryService):
    def _new_record(self, data, params, options):
        record = super()._new_record(data, params, options)
        record.pop("__proto__", None)
        return record


@breaks("methods_do_not_call_each_other")
class GetsBeforeItRemoves(MemoryService):
    async def remove(self, id, params=None):
        if id is not None:
            await self.get(id, params)
        return await super().remove(id, params)
