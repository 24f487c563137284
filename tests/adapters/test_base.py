"""What the six methods of a store get, and what becomes of what they return.

The rules that callers see stand in the suite; here is the side of somebody who writes an adapter.
"""

# ruff: noqa: A001  # `id` is the word of the interface

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

import pytest
from tests.adapters.caller import names_of_caller

from alula import Params
from alula.adapters._options import Pagination
from alula.adapters.base import AdapterService
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest, MethodNotAllowed, NotFound
from alula.outgoing import RedactedRecord
from alula.query import EMPTY_QUERY, And, Query, Where

RECORD = {"id": 5, "name": "Ada", "age": 36}


class Recorder(AdapterService):
    """Writes down what its store is asked, and answers the same every time."""

    def __init__(self, records=(RECORD,), total=1, **options):
        super().__init__(**options)
        self.records = [dict(record) for record in records]
        self.total = total
        self.calls = []

    async def _find(self, query, params, options):
        self.calls.append(("find", query, params, options.pagination))
        return self.records, self.total

    async def _get(self, id, query, params, options):
        self.calls.append(("get", id, query, params))
        return self.records[0] if self.records else None

    async def _create(self, records, query, params, options):
        self.calls.append(("create", records, query, params))
        return [{"id": n, **record} for n, record in enumerate(records)]

    async def _update(self, id, data, query, params, options):
        self.calls.append(("update", id, data, query, params))
        return self.records[0] if self.records else None

    async def _patch(self, id, data, query, params, options):
        self.calls.append(("patch", id, data, query, params))
        return self.records

    async def _remove(self, id, query, params, options):
        self.calls.append(("remove", id, query, params))
        return self.records


CRITERIA = And((Where("name", (("$eq", "Ada"),)),))


def test_all_six_methods_are_needed():
    for name in ("find", "get", "create", "update", "patch", "remove"):
        six = {key: value for key, value in vars(Recorder).items() if key != f"_{name}"}
        with pytest.raises(TypeError, match=f"_{name}"):
            type("Incomplete", (AdapterService,), six)()


class TestOptions:
    def test_what_is_set_when_nothing_is_given(self):
        service = Recorder()
        assert (service.id, service.events) == ("id", ())
        assert service.options.pagination is None
        assert (service.options.multi, service.options.adapter) == (frozenset(), {})

    def test_what_is_given(self):
        service = Recorder(
            id="_id", paginate={"default": 1, "max": 2}, multi=["patch"], events=["seen"]
        )
        assert (service.id, service.events) == ("_id", ("seen",))
        assert service.options.id == "_id"
        assert service.options.pagination == Pagination(1, 2)
        assert service.options.multi == {"patch"}

    @pytest.mark.parametrize(
        ("option", "text"),
        [
            ({"id": ""}, "id is ''; give the name of the property"),
            ({"id": 5}, "id is 5; give"),
            ({"paginate": {"default": 0}}, "'default' is 0"),
            ({"paginate": {"count": "none"}}, "paginate has 'count'; it may have default, max"),
            ({"multi": "all"}, "multi is 'all'"),
            ({"operators": ["regex"]}, "regex"),
            ({"operators": ["$where"]}, r"\$where"),
            ({"filters": {"$limit": True}}, r"\$limit"),
            ({"update_operators": ["inc"]}, r"update_operators lists 'inc'; .* begin with '\$'"),
            ({"update_operators": "$inc"}, r"update_operators is one string; .* \['\$inc'\]"),
            ({"operators": "$regex"}, r"operators is one string; give a list: \['\$regex'\]"),
        ],
    )
    def test_wrong_options_say_so_at_once(self, option, text):
        with pytest.raises(ValueError, match=text):
            Recorder(**option)

    def test_a_call_without_options_uses_the_very_same(self):
        service = Recorder(multi=True)
        assert service.options_for(Params(query={"a": 1})) is service.options

    def test_options_of_a_call(self):
        service = Recorder(multi=True, paginate={"max": 9})
        of_call = service.options_for
        unpaged = of_call(Params(paginate=False))
        assert unpaged == replace(service.options, pagination=None)
        assert of_call(Params(paginate={"max": 3})).pagination == Pagination(3, 3)
        assert of_call(Params(adapter={"multi": []})).multi == frozenset()
        assert of_call(Params(adapter={"multi": None})).multi == service.options.multi
        assert of_call(Params(adapter={"paginate": None})).pagination == Pagination(9, 9)
        assert of_call(Params(adapter={"paginate": None}, paginate=False)).pagination is None
        assert of_call(Params(adapter={"paginate": False}, paginate={"max": 1})).pagination is None
        assert of_call(Params(adapter={})) == service.options

    @pytest.mark.parametrize(
        ("params", "text"),
        [
            (
                {"adapter": {"modle": 1}},
                "params.adapter has 'modle'; Recorder reads filters, max_result, multi, operators",
            ),
            ({"adapter": {"multi": "patch"}}, "multi is 'patch'"),
            ({"paginate": {"default": 5, "max": 1}}, "greater than"),
            ({"paginate": True}, "paginate is True"),
        ],
    )
    async def test_wrong_options_of_a_call(self, params, text):
        with pytest.raises(ValueError, match=text):
            await Recorder().find(params)

    async def test_an_adapter_reads_more(self):
        class Counting(Recorder):
            paginate_options = AdapterService.paginate_options | {"count"}
            call_options = AdapterService.call_options | {"model"}

        service = Counting(paginate={"max": 5, "count": "none"}, total=None)
        assert (await service.find())["total"] is None
        assert service.calls[0][3].more == {"count": "none"}
        options = service.options_for(Params(adapter={"model": "other", "multi": True}))
        assert options.adapter == {"model": "other"}
        assert options.pagination.more == {"count": "none"}


class TestFind:
    async def test_without_pages(self):
        service = Recorder()
        params = Params(query={"name": "Ada", "$limit": 5, "$skip": 2, "$sort": {"a": -1}})
        assert await service.find(params) == [RECORD]
        _, query, given, pagination = service.calls[0]
        assert query == Query(CRITERIA, 5, 2, (("a", -1),))
        assert given is params
        assert pagination is None

    async def test_with_pages(self):
        service = Recorder(paginate={"default": 3, "max": 7}, total=9)
        page = await service.find({"query": {"name": "Ada", "$skip": "2"}})
        assert page == {"total": 9, "limit": 3, "skip": 2, "data": [RECORD]}
        _, query, _, pagination = service.calls[0]
        assert query == Query(CRITERIA, 3, 2)
        assert pagination == Pagination(3, 7)

    @pytest.mark.parametrize(("asked", "limit"), [(5, 5), (7, 7), (8, 7), (0, 0), ("99", 7)])
    async def test_the_store_gets_the_limit_that_counts(self, asked, limit):
        service = Recorder(paginate={"default": 3, "max": 7})
        page = await service.find({"query": {"$limit": asked, "$select": ["x"], "$sort": {"a": 1}}})
        assert page["limit"] == limit
        assert service.calls[0][1] == Query(limit=limit, select=("x",), sort=(("a", 1),))

    async def test_a_limit_of_0_without_pages_asks_nobody(self):
        service = Recorder()
        assert await service.find({"query": {"$limit": 0}}) == []
        assert service.calls == []

    async def test_filters_that_are_open_reach_the_store(self):
        service = Recorder(filters={"$text": True, "$old": False}, paginate={"default": 1})
        await service.find({"query": {"$text": "ada", "$old": 1}})
        assert service.calls[0][1].filters == {"$text": "ada"}
        with pytest.raises(BadRequest, match="Invalid filter value \\$new"):
            await service.find({"query": {"$new": 1}})

    async def test_operators_that_are_open_reach_the_store(self):
        service = Recorder(operators=["$regex"])
        await service.find({"query": {"name": {"$regex": "^A"}}})
        assert service.calls[0][1].criteria == And((Where("name", (("$regex", "^A"),)),))
        with pytest.raises(BadRequest, match="Invalid query parameter \\$exists"):
            await service.find({"query": {"name": {"$exists": True}}})


class TestOneRecord:
    @pytest.mark.parametrize("method", ["get", "update", "patch", "remove"])
    async def test_what_the_store_gets(self, method):
        service = Recorder()
        data = [{"name": "Eve", "id": 9}] if method in {"update", "patch"} else []
        params = Params(query={"name": "Ada", "$limit": 5, "$skip": 1, "$sort": {"a": 1}})
        record = await getattr(service, method)("5", *data, params)
        assert record == RECORD
        name, id, *changes, query, given = service.calls[0]
        assert (name, id) == (method, "5")
        assert changes == ([{"name": "Eve"}] if data else [])
        assert query == Query(CRITERIA, sort=(("a", 1),))
        assert given is params

    @pytest.mark.parametrize("method", ["get", "update", "patch", "remove"])
    async def test_no_query_is_the_empty_query(self, method):
        service = Recorder()
        data = [{}] if method in {"update", "patch"} else []
        for params in (None, {}, {"query": {}}, {"query": None}, Params()):
            await getattr(service, method)(5, *data, params)
            assert service.calls.pop()[-2] is EMPTY_QUERY

    @pytest.mark.parametrize("method", ["get", "update", "patch", "remove"])
    async def test_no_record(self, method):
        service = Recorder(records=())
        data = [{}] if method in {"update", "patch"} else []
        with pytest.raises(NotFound) as caught:
            await getattr(service, method)(0, *data)
        assert caught.value.message == "No record found for id '0'"
        assert len(service.calls) == 1

    @pytest.mark.parametrize("method", ["get", "update", "patch", "remove"])
    @pytest.mark.parametrize("id", [{"$gt": ""}, [5], (), {5}])
    async def test_the_store_gets_scalars_only(self, method, id):
        service = Recorder()
        data = [{}] if method in {"update", "patch"} else []
        with pytest.raises(NotFound):
            await getattr(service, method)(id, *data)
        assert service.calls == []

    @pytest.mark.parametrize("method", ["get", "update", "patch", "remove"])
    async def test_fields_are_selected_here(self, method):
        service = Recorder()
        data = [{}] if method in {"update", "patch"} else []
        params = {"query": {"$select": ["age"]}}
        assert await getattr(service, method)(5, *data, params) == {"id": 5, "age": 36}

    @pytest.mark.parametrize("method", ["get", "update", "patch", "remove"])
    async def test_or_by_a_store_that_can(self, method):
        class Selecting(Recorder):
            selects = True

        service = Selecting()
        data = [{}] if method in {"update", "patch"} else []
        params = {"query": {"$select": ["age"]}}
        assert await getattr(service, method)(5, *data, params) == RECORD
        assert service.calls[0][-2].select == ("age",)

    async def test_other_ids_than_the_usual(self):
        service = Recorder(id="_id")
        await service.patch(5, {"_id": 9, "id": 8})
        assert service.calls[0][2] == {"id": 8}


class TestCreate:
    async def test_what_the_store_gets(self):
        service = Recorder()
        params = Params(query={"name": "Eve", "$foo": 1, "$limit": 3})
        data = MappingProxyType({"name": "Ada"})
        assert await service.create(data, params) == {"id": 0, "name": "Ada"}
        _, records, query, given = service.calls[0]
        assert records == [{"name": "Ada"}]
        assert type(records[0]) is dict
        assert query is EMPTY_QUERY
        assert given is params

    async def test_several(self):
        service = Recorder(multi=["create"])
        for data in ([{"a": 1}, {"a": 2}], ({"a": 1}, {"a": 2})):
            assert await service.create(data) == [{"id": 0, "a": 1}, {"id": 1, "a": 2}]
            assert service.calls.pop()[1] == [{"a": 1}, {"a": 2}]

    async def test_none_of_several_asks_nobody(self):
        service = Recorder(multi=True)
        assert await service.create([]) == []
        assert service.calls == []

    async def test_selected_fields(self):
        service = Recorder()
        created = await service.create({"a": 1, "b": 2}, {"query": {"$select": ["a"], "c": 1}})
        assert created == {"id": 0, "a": 1}
        assert service.calls[0][2] == Query(select=("a",))

    @pytest.mark.parametrize(
        ("data", "stored"),
        [
            ({"id": None, "a": 1}, {"a": 1}),
            ({"id": "", "a": 1}, {"a": 1}),
            ({"id": 0}, {"id": 0}),
            ({"id": "x"}, {"id": "x"}),
            ({"id": 1.5}, {"id": 1.5}),
        ],
    )
    async def test_ids_that_are_brought(self, data, stored):
        service = Recorder()
        await service.create(data)
        assert service.calls[0][1] == [stored]

    async def test_the_multi_check_comes_first(self):
        with pytest.raises(MethodNotAllowed):
            await Recorder().create([None], {"query": {"$select": {"a": 1}}})


class TestSeveral:
    @pytest.mark.parametrize("method", ["patch", "remove"])
    async def test_what_the_store_gets(self, method):
        records = [{"id": 1, "a": 1}, {"id": 2, "a": 2}]
        service = Recorder(records=records, multi=True, paginate={"default": 1, "max": 1})
        data = [{"x": 1}] if method == "patch" else []
        params = {"query": {"name": "Ada", "$limit": 1, "$skip": 1, "$sort": {"a": 1}}}
        assert await getattr(service, method)(None, *data, params) == records
        assert service.calls[0][1] is None
        assert service.calls[0][-2] == Query(CRITERIA, sort=(("a", 1),))

    @pytest.mark.parametrize("method", ["patch", "remove"])
    async def test_no_match_is_an_empty_list(self, method):
        service = Recorder(records=(), multi=True)
        assert await getattr(service, method)(None, *([{}] if method == "patch" else [])) == []

    @pytest.mark.parametrize("method", ["patch", "remove"])
    async def test_a_wrong_query_comes_before_the_multi_check(self, method):
        data = [{}] if method == "patch" else []
        with pytest.raises(BadRequest, match="Invalid filter value \\$foo"):
            await getattr(Recorder(), method)(None, *data, {"query": {"$foo": 1}})
        with pytest.raises(MethodNotAllowed, match=f"Can not {method} multiple entries"):
            await getattr(Recorder(), method)(None, *data)


OPERATORS = {"$inc": {"age": 1}, "name": "x"}


class TestDollarKeys:
    """Who may send keys that begin with $ is declared by method."""

    @pytest.mark.parametrize("method", ["create", "update", "patch"])
    async def test_internal_calls_may(self, method):
        service = Recorder()
        await getattr(service, method)(*([] if method == "create" else [5]), OPERATORS)
        assert len(service.calls) == 1

    @pytest.mark.parametrize("method", ["create", "update", "patch"])
    async def test_others_may_not(self, method):
        service = Recorder(multi=True)
        arguments = [] if method == "create" else [5]
        for data in (OPERATORS, {"a": [{"$inc": 1}]}):
            with pytest.raises(BadRequest) as caught:
                await getattr(service, method)(*arguments, data, {"provider": "rest"})
            assert caught.value.message == (
                "Invalid key $inc in the data: keys cannot begin with '$' here"
            )
        assert service.calls == []

    async def test_unless_they_are_opened(self):
        options = {"update_operators": ["$inc", "$each"], "multi": True}
        service = Recorder(**options, max_result=False)  # which would be measured by a find
        outside = {"provider": "rest"}
        for data in (OPERATORS, {"$inc": {"a": {"$each": 1}}}):
            await service.update(5, data, outside)
            await service.patch(None, data, outside)
            assert [call[2] for call in service.calls[-2:]] == [data, data]
        with pytest.raises(BadRequest, match="\\$set"):
            await service.patch(5, {**OPERATORS, "$set": {}}, outside)
        with pytest.raises(BadRequest, match="\\$inc"):
            await service.create(OPERATORS, outside)
        with pytest.raises(BadRequest, match="\\$inc"):
            await service.create([{}, OPERATORS], outside)

    async def test_plain_keys_and_none_at_all(self):
        class Plain(Recorder):
            dollar_keys: ClassVar = {"create": "plain", "update": "never", "patch": "never"}

        service = Plain(update_operators=["$inc"])
        for params in (None, {"provider": "rest"}):
            await service.create(OPERATORS, params)
            assert service.calls.pop()[1] == [OPERATORS]
            for method in (service.update, service.patch):
                with pytest.raises(BadRequest, match="\\$inc"):
                    await method(5, OPERATORS, params)
        assert service.calls == []


class TestGuardedRecords:
    """What a service hides of its records stays hidden where another service stores them."""

    USER = RedactedRecord({"id": 7, "name": "Ada", "password": "hash"}, {"id": 7, "name": "Ada"})
    SEEN: ClassVar = {"id": 7, "name": "Ada"}

    @pytest.fixture
    def notes(self):
        return MemoryService(start_id=1, multi=True)

    async def test_within_data_are_stored_as_they_may_leave(self, notes):
        await notes.create({"by": self.USER})
        await notes.create([{"readers": [self.USER]}])
        await notes.update(1, {"owner": {"was": self.USER}})
        await notes.patch(2, {"by": self.USER})
        assert await notes.find() == [
            {"id": 1, "owner": {"was": self.SEEN}},
            {"id": 2, "readers": [self.SEEN], "by": self.SEEN},
        ]

    async def test_as_data_are_stored_whole(self, notes):
        assert (await notes.create(self.USER))["password"] == "hash"
        assert (await notes.update(7, self.USER))["password"] == "hash"
        assert (await notes.patch(7, self.USER))["password"] == "hash"


async def test_who_states_to_ignore_the_caller_does():
    class Curious(MemoryService):
        async def get(self, id, params):
            return {**await super().get(id, params), "ip": params.ip}

    assert await names_of_caller(MemoryService([RECORD]), 5) == set()
    assert await names_of_caller(Curious([RECORD]), 5) == {"ip"}
