"""What is particular to records in memory; what all adapters share is in the suite."""

# ruff: noqa: A001  # `id` is the word of the interface

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import ClassVar
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest, Conflict, NotFound

PEOPLE = [{"name": "Ada", "age": 36}, {"name": "Bela", "age": 25}, {"name": "Cleo", "age": 19}]


def ids(records):
    return [record["id"] for record in records]


class TestIds:
    async def test_they_count_up_from_the_first(self):
        service = MemoryService(start_id=7)
        assert [(await service.create({}))["id"] for _ in range(3)] == [7, 8, 9]

    async def test_an_id_that_was_given_is_not_given_again(self):
        service = MemoryService(PEOPLE, multi=True)
        await service.remove(None)
        assert (await service.create({}))["id"] == 3

    async def test_ids_that_were_brought_are_stepped_over(self):
        service = MemoryService(multi=True)
        await service.create([{"id": 1}, {"id": "2"}])
        assert ids(await service.create([{}, {}, {}])) == [0, 3, 4]

    async def test_also_those_that_come_later_in_the_same_list(self):
        service = MemoryService(multi=True)
        assert ids(await service.create([{}, {"id": 0}, {}, {"id": "1"}])) == [2, 0, 3, "1"]

    async def test_a_list_that_fails_uses_up_no_id(self):
        service = MemoryService([{"id": "x"}], multi=True)
        with pytest.raises(Conflict):
            await service.create([{}, {}, {"id": "x"}])
        assert (await service.create({}))["id"] == 0

    async def test_zero_is_an_id(self):
        service = MemoryService(start_id=5)
        assert (await service.create({"id": 0}))["id"] == 0
        assert await service.get(0) == {"id": 0}

    @pytest.mark.parametrize(
        ("stored", "same", "others"),
        [
            (5, [5, "5"], ["5.0", 5.0, "05", " 5", "+5", "५", True, "0x5", "5e0"]),
            ("5", [5, "5"], [5.0]),
            ("a", ["a"], ["A", "a ", "a\0", "\0a"]),
            (-1, [-1, "-1"], [1, "\u22121"]),
            (
                UUID(int=1),
                [UUID(int=1), "00000000-0000-0000-0000-000000000001"],
                [1, "1"],
            ),
            ("ü", ["ü"], ["u\u0308", "%C3%BC"]),
        ],
    )
    async def test_the_text_of_an_id_counts(self, stored, same, others):
        service = MemoryService([{"id": stored}])
        for id in same:
            assert await service.get(id) == {"id": stored}
            with pytest.raises(Conflict):
                await service.create({"id": id})
        for id in others:
            with pytest.raises(NotFound):
                await service.get(id)

    async def test_a_conflict_names_the_id(self):
        service = MemoryService([{"key": 5}], id="key")
        with pytest.raises(Conflict) as caught:
            await service.create({"key": "5"})
        assert caught.value.message == "There is a record with the key '5' already"
        assert caught.value.code == 409
        assert caught.value.errors == {"key": "is taken"}

    @pytest.mark.parametrize("id", [1.5, 2.0, float("nan"), float("inf"), True, False, [], {}])
    async def test_what_is_no_id(self, id):
        service = MemoryService(multi=True)
        with pytest.raises(BadRequest, match="'id' is"):
            await service.create([{}, {"id": id}])
        assert await service.find() == []

    @pytest.mark.parametrize("id", [5, 6])
    async def test_a_query_that_is_not_valid_is_refused_whether_the_record_exists(self, id):
        service = MemoryService([{"id": 5}], operators=["$size"])
        invalid = {"query": {"tags": {"$size": "many"}}}
        for call in (
            service.get(id, invalid),
            service.update(id, {}, invalid),
            service.patch(id, {}, invalid),
            service.remove(id, invalid),
        ):
            with pytest.raises(BadRequest, match=r"\$size"):
                await call
        with pytest.raises(NotFound):
            await service.get(6, {"query": {"tags": {"$size": 1}}})

    async def test_an_update_leaves_id_and_place(self):
        service = MemoryService(PEOPLE)
        updated = await service.update("1", {"name": "Eve"})
        assert list(updated.items()) == [("name", "Eve"), ("id", 1)], "as create has them"
        assert (await service.patch("1", {"id": "9", "age": 1}))["id"] == 1
        assert ids(await service.find()) == [0, 1, 2]


class TestStore:
    def test_a_mapping_or_a_list(self):
        for store in (
            {5: {"a": 1}, "x": {"a": 2}},
            {"5": {"id": 5, "a": 1}, "x": {"id": "x", "a": 2}},
            [{"id": 5, "a": 1}, {"id": "x", "a": 2}],
            ({"id": id, "a": n} for n, id in ((1, 5), (2, "x"))),
            MappingProxyType({5: MappingProxyType({"a": 1}), "x": {"a": 2}}),
        ):
            service = MemoryService(store)
            assert list(service._store.values()) == [{"id": 5, "a": 1}, {"id": "x", "a": 2}]

    @pytest.mark.parametrize("store", [None, [], {}, ()])
    async def test_an_empty_one(self, store):
        assert await MemoryService(store).find() == []

    async def test_ids_that_are_missing_are_given(self):
        service = MemoryService([{"n": 1}, {"n": 2, "id": 5}, {"n": 3}], start_id=5)
        assert ids(await service.find()) == [6, 5, 7]
        assert (await service.create({}))["id"] == 8

    async def test_it_is_copied(self):
        record = {"id": 1, "list": [1]}
        store = {1: record}
        service = MemoryService(store)
        await service.patch(1, {"a": 1})
        await service.create({})
        record["list"].append(2)
        assert store == {1: {"id": 1, "list": [1, 2]}}
        assert await service.get(1) == {"id": 1, "list": [1], "a": 1}

    @pytest.mark.parametrize(
        ("store", "error", "text"),
        [
            ({1: {"id": 2}}, ValueError, "store has under 1 a record whose 'id' is 2"),
            ({1: "Ada"}, BadRequest, "must be an object, not a string"),
            ([None], BadRequest, "must be an object, not null"),
            ([{"id": 1}, {"id": "1"}], Conflict, "the id '1' already"),
            ([{"id": [1]}], BadRequest, "'id' is a list"),
            ([{"id": 1.5}], BadRequest, "'id' is a fraction"),
        ],
    )
    async def test_one_that_is_not_in_order(self, store, error, text):
        with pytest.raises(error, match=text):
            MemoryService(store)
        service = MemoryService(PEOPLE)
        before = await service.find()
        with pytest.raises(error, match=text):
            service.reset(store)
        assert await service.find() == before
        assert (await service.create({}))["id"] == 3

    async def test_reset_begins_again(self):
        service = MemoryService(PEOPLE, start_id=1)
        await service.find({"query": {"$sort": {"age": 1}}})
        service.reset([{"age": 2}, {"age": 1}])
        assert ids(await service.find({"query": {"$sort": {"age": 1}}})) == [2, 1]
        assert ids(await service.find()) == [1, 2]
        service.reset()
        assert await service.find() == []
        assert (await service.create({}))["id"] == 1
        service.reset({"x": {}})
        assert await service.find() == [{"id": "x"}]

    async def test_records_stay_in_the_order_in_which_they_came(self):
        service = MemoryService([{"id": "b"}, {"id": "10"}, {"id": "a"}, {"id": 2}])
        await service.patch("10", {"n": 1})
        await service.update("b", {"n": 2})
        assert ids(await service.find()) == ["b", "10", "a", 2]


class TestCopies:
    VALUES = (
        [1, [2]],
        {"a": {"b": 1}},
        ({"a": 1}, [1]),
        {1, 2},
        bytearray(b"x"),
    )

    @pytest.mark.parametrize("value", VALUES)
    async def test_nothing_that_can_change_is_shared(self, value):
        data = {"value": value}
        service = MemoryService(multi=True)
        created = await service.create(data)
        await service.create([data])
        stored = service._store["0"]["value"]
        answers = [
            created,
            await service.get(0),
            (await service.find())[0],
            await service.patch(0, data),
            await service.update(0, data),
            (await service.patch(None, {"n": 1}))[0],
            (await service.remove(None))[0],
        ]
        seen = [value, stored, *(answer["value"] for answer in answers)]
        assert all(one == value for one in seen)
        assert len({id(one) for one in seen}) == len(seen)

    async def test_nested_values_are_not_shared_either(self):
        service = MemoryService([{"a": {"b": [{"c": 1}]}, "t": ({"d": []},)}])
        record = await service.get(0)
        record["a"]["b"][0]["c"] = 2
        record["t"][0]["d"].append(1)
        assert await service.get(0) == {"id": 0, "a": {"b": [{"c": 1}]}, "t": ({"d": []},)}

    async def test_records_that_change_their_shape(self):
        service = MemoryService([{"a": 1}])
        await service.patch(0, {"a": [1]})
        (await service.get(0))["a"].append(2)
        assert await service.get(0) == {"id": 0, "a": [1]}
        await service.patch(0, {"a": 5})
        assert await service.get(0) == {"id": 0, "a": 5}

    async def test_answers_are_plain_dicts(self):
        inner = MappingProxyType({"b": MappingProxyType({})})
        service = MemoryService([MappingProxyType({"a": inner})])
        for record in (await service.get(0), (await service.find())[0], await service.patch(0, {})):
            assert type(record) is dict
            assert type(record["a"]) is dict
            assert type(record["a"]["b"]) is dict

    @pytest.mark.parametrize(
        "value",
        [b"x", date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.5"), UUID(int=5), 1j],
    )
    async def test_values_of_other_types_stay(self, value):
        service = MemoryService([{"v": value}])
        assert (await service.get(0))["v"] is value
        assert len(await service.find({"query": {"v": value}})) == 1

    async def test_several_records_share_nothing_that_shows(self):
        service = MemoryService(PEOPLE, multi=True)
        first, second, _ = await service.patch(None, {"tags": ["x"]})
        first["tags"].append("y")
        assert second["tags"] == ["x"]
        await service.patch(0, {"tags": ["z"]})
        assert (await service.get(1))["tags"] == ["x"]


class TestDollarKeys:
    @pytest.mark.parametrize("params", [None, {"provider": "rest"}])
    async def test_create_keeps_them_as_data(self, params):
        service = MemoryService()
        data = {"$set": {"x": 1}, "a.b": 1}
        assert await service.create(data, params) == {"id": 0, **data}

    @pytest.mark.parametrize("params", [None, {"provider": "rest"}])
    @pytest.mark.parametrize("method", ["update", "patch"])
    async def test_changes_have_none(self, method, params):
        service = MemoryService(PEOPLE)
        with pytest.raises(BadRequest, match="\\$inc"):
            await getattr(service, method)(0, {"$inc": {"age": 1}}, params)
        assert await service.get(0) == {"id": 0, **PEOPLE[0]}


class TestNamesWithDots:
    """In the data of a patch they mean what they mean in MongoDB."""

    RECORD: ClassVar = {"a": {"b": 1, "c": 2}, "list": [1, {"x": 1}], "text": "x", "none": None}

    @pytest.mark.parametrize(
        ("changes", "changed"),
        [
            ({"a.b": 2}, {"a": {"b": 2, "c": 2}}),
            (
                {"a.b": 2, "a.d.e": 3, "text": "y"},
                {"a": {"b": 2, "c": 2, "d": {"e": 3}}, "text": "y"},
            ),
            ({"new.in": 1}, {"new": {"in": 1}}),
            ({"list.0": 5}, {"list": [5, {"x": 1}]}),
            ({"list.1.x": 5}, {"list": [1, {"x": 5}]}),
            ({"list.3": 5}, {"list": [1, {"x": 1}, None, 5]}),
        ],
    )
    async def test_lead_into_objects_and_lists(self, changes, changed):
        service = MemoryService([self.RECORD])
        assert await service.patch(0, changes) == {"id": 0, **self.RECORD, **changed}
        assert await service.get(0) == {"id": 0, **self.RECORD, **changed}
        assert self.RECORD["list"] == [1, {"x": 1}]

    @pytest.mark.parametrize(
        "changes",
        [
            {"text.x": 1},
            {"none.x": 1},
            {"list.x": 1},
            {"list.01": 1},
            {"list.1503": 1},
            {"list.0.x": 1},
            {"a": {}, "a.b": 1},
            {"a.b": 1, "a.b.c": 1},
            {"a..b": 1},
            {"a.": 1},
            {".a": 1},
            {"list.$[]": 1},
            {"id.x": 1},
        ],
    )
    async def test_that_lead_nowhere_change_nothing(self, changes):
        service = MemoryService([{}, self.RECORD], multi=True)
        for id in (1, None):
            with pytest.raises(BadRequest):
                await service.patch(id, {**changes, "more": 1})
        assert await service.get(1) == {"id": 1, **self.RECORD}

    @pytest.mark.parametrize("name", ["a.b", "new.in", "list.0"])
    async def test_are_refused_from_outside(self, name):
        service = MemoryService([self.RECORD], multi=True)
        for id in (0, None):
            with pytest.raises(BadRequest, match="name with dots"):
                await service.patch(id, {name: 2}, {"provider": "rest"})
        assert await service.patch(0, {"a": {"x.y": 1}}, {"provider": "rest"})

    async def test_are_opened_by_name(self):
        service = MemoryService([{"a": {"b": 1, "c": 2}}], dotted_names=True)
        patched = await service.patch(0, {"a.b": 3}, {"provider": "rest"})
        assert patched["a"] == {"b": 3, "c": 2}


class TestOperators:
    async def test_what_is_open(self):
        service = MemoryService(
            [{"a": [1, 2]}, {"a": [1]}, {}], operators=iter(["$size", "$exists"])
        )
        assert ids(await service.find({"query": {"a": {"$size": 2}}})) == [0]
        assert ids(await service.find({"query": {"a": {"$exists": False}}})) == [2]

    def test_what_is_not_known(self):
        with pytest.raises(ValueError, match=r"operators lists '\$near'; .* for \$all, .*\$size"):
            MemoryService(operators=["$size", "$near"])

    async def test_filters_select_nothing(self):
        service = MemoryService(PEOPLE, filters={"$dropped": False, "$kept": True})
        assert len(await service.find({"query": {"$dropped": 1, "$kept": 2}})) == 3

    async def test_a_pattern_that_is_none(self):
        service = MemoryService(PEOPLE, operators=["$regex"], multi=True)
        params = {"query": {"name": {"$regex": "("}}}
        for call in (service.find(params), service.get(0, params), service.remove(None, params)):
            with pytest.raises(BadRequest, match="regex"):
                await call


class TestOrders:
    async def test_more_orders_than_are_kept(self):
        service = MemoryService([{f"f{n}": -i for n in range(20)} for i in range(3)])
        for _ in range(2):
            for n in range(20):
                for way, expected in ((1, [2, 1, 0]), (-1, [0, 1, 2])):
                    query = {"$sort": {f"f{n}": way}}
                    assert ids(await service.find({"query": query})) == expected
                    assert len(service._sorted_lists) <= 8

    async def test_the_answer_is_not_the_order_that_is_kept(self):
        service = MemoryService(PEOPLE)
        for query in ({}, {"$sort": {"age": 1}}):
            (await service.find({"query": query})).clear()
            assert len(await service.find({"query": query})) == 3

    async def test_a_removal_while_an_order_is_read(self):
        service = MemoryService(PEOPLE, multi=True)
        assert ids(await service.remove(None, {"query": {"$sort": {"age": 1}}})) == [2, 1, 0]
        assert await service.find({"query": {"$sort": {"age": 1}}}) == []

    async def test_a_page_far_away(self):
        service = MemoryService(PEOPLE, paginate={"default": 2})
        query = {"$skip": 2**53 - 1, "$limit": 2**53 - 1}
        assert (await service.find({"query": query}))["data"] == []
        assert await service.find({"query": query, "paginate": False}) == []
        assert await service.find({"query": {**query, "age": 25}, "paginate": False}) == []

    async def test_without_a_number_it_stops_at_the_last_one(self, monkeypatch):
        looked_at = []

        def predicate(criteria, max_steps):
            return lambda record: looked_at.append(record["id"]) or True

        module = sys.modules[MemoryService.__module__]
        monkeypatch.setattr(module, "predicate", predicate)
        service = MemoryService([{}] * 100)
        found = await service.find({"query": {"a": 1, "$skip": 1, "$limit": 2}})
        assert ids(found) == [1, 2]
        assert looked_at == [0, 1, 2]
        await service.find({"query": {"a": 1, "$limit": 2}, "paginate": {"max": 5}})
        assert len(looked_at) == 103


class TestLongLists:
    """One short request can not keep the event loop busy for long."""

    CONDITIONS: ClassVar = {"$or": [{"a.x": number} for number in range(30)]}

    @pytest.fixture
    def service(self, monkeypatch):
        monkeypatch.setattr("alula.adapters.base.MAX_STEPS", 50_000)
        return MemoryService([{"id": 1, "a": [{}] * 1000}], multi=True)

    async def test_many_conditions_on_one_are_refused_to_others(self, service):
        outside = {"query": self.CONDITIONS, "provider": "rest"}
        for call in (
            service.find(outside),
            service.find({**outside, "paginate": {"max": 5}}),
            service.get(1, outside),
            service.update(1, {"b": 1}, outside),
            service.patch(1, {"b": 1}, outside),
            service.patch(None, {"b": 1}, outside),
            service.remove(1, outside),
            service.remove(None, outside),
        ):
            with pytest.raises(BadRequest, match="too many conditions for these records"):
                await call
        assert len(await service.find()) == 1

    async def test_a_few_conditions_are_answered(self, service):
        query = {"$or": [{"a.x": 1}, {"a.x": None}]}
        assert len(await service.find({"query": query, "provider": "rest"})) == 1

    async def test_calls_of_the_application_itself_have_no_limit(self, service):
        assert await service.find({"query": self.CONDITIONS}) == []

    async def test_the_limit_is_some_tenths_of_a_second(self):
        service = MemoryService([{"id": 1, "a": ["x"] * 100_000}])
        query = {"$or": [{"a": str(number)} for number in range(10)]}
        assert await service.find({"query": query, "provider": "rest"}) == []
        query["$or"].append({"a": "y"})
        with pytest.raises(BadRequest):
            await service.find({"query": query, "provider": "rest"})


NAMES = st.sampled_from("abc")
DATA = st.dictionaries(NAMES, st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2))


class Model(RuleBasedStateMachine):
    """The service does what a plain dict does, whatever comes after what."""

    @initialize()
    def begin(self):
        self.service = MemoryService(multi=True)
        self.model = {}
        self.next_id = 0

    def run(self, call):
        """Run a call of the service, which never waits for anything."""
        try:
            call.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("it waited")

    def some_id(self, pick):
        return list(self.model)[pick % len(self.model)] if self.model else None

    @rule(data=DATA)
    def create(self, data):
        record = self.run(self.service.create(data))
        assert record == {"id": self.next_id, **data}
        self.model[self.next_id] = record
        self.next_id += 1

    @rule(pick=st.integers(0, 9), data=DATA)
    def patch(self, pick, data):
        id = self.some_id(pick)
        if id is not None:
            self.model[id] = {**self.model[id], **data}
            assert self.run(self.service.patch(str(id), data)) == self.model[id]

    @rule(pick=st.integers(0, 9), data=DATA)
    def update(self, pick, data):
        id = self.some_id(pick)
        if id is not None:
            self.model[id] = {"id": id, **data}
            assert self.run(self.service.update(id, data)) == self.model[id]

    @rule(pick=st.integers(0, 9))
    def remove(self, pick):
        id = self.some_id(pick)
        if id is not None:
            assert self.run(self.service.remove(id)) == self.model.pop(id)

    @rule(name=NAMES, value=st.integers(0, 3), data=DATA)
    def patch_several(self, name, value, data):
        chosen = [id for id, record in self.model.items() if record.get(name) == value]
        lists = [r for r in self.model.values() if isinstance(r.get(name), list)]
        if not lists:
            for id in chosen:
                self.model[id] = {**self.model[id], **data}
            patched = self.run(self.service.patch(None, data, {"query": {name: value}}))
            assert patched == [self.model[id] for id in chosen]

    @invariant()
    def all_records_are_there(self):
        assert self.run(self.service.find()) == list(self.model.values())

    @invariant()
    def orders_are_right(self):
        found = self.run(self.service.find({"query": {"$sort": {"id": -1}, "$limit": 2}}))
        assert ids(found) == sorted(self.model, reverse=True)[:2]


TestModel = Model.TestCase


@given(
    st.lists(st.fixed_dictionaries({"a": st.integers(0, 5), "b": st.integers(0, 5)}), max_size=12),
    st.integers(0, 14), st.integers(0, 14), st.integers(0, 5), st.sampled_from([1, -1]),
)  # fmt: skip
def test_pages_are_slices_of_what_matches(records, skip, limit, least, way):
    service = MemoryService(records, paginate={"default": 5})
    query = {"a": {"$gte": least}, "$sort": {"b": way}, "$skip": skip, "$limit": limit}
    try:
        service.find({"query": query}).send(None)
    except StopIteration as done:
        page = done.value
    matching = [{"id": n, **record} for n, record in enumerate(records) if record["a"] >= least]
    matching.sort(key=lambda record: record["b"] * way)
    assert page["total"] == len(matching)
    assert page["data"] == matching[skip : skip + limit]


def test_operators_are_a_list():
    with pytest.raises(ValueError, match=r"operators is one string; give a list: \['\$regex'\]"):
        MemoryService(operators="$regex")


def test_the_first_id_is_a_number():
    with pytest.raises(TypeError, match="start_id is '1'; give a whole number"):
        MemoryService(start_id="1")


def test_there_are_no_update_operators_to_open():
    assert MemoryService(update_operators=[]).options
    with pytest.raises(ValueError, match="records in memory have none"):
        MemoryService(update_operators=["$inc"])


class TestOperatorsOfOneCall:
    """``params.adapter`` opens the query for one call, as at every adapter."""

    async def test_are_open_for_it_alone(self):
        service = MemoryService(PEOPLE)
        found = {"query": {"age": {"$exists": True}}, "adapter": {"operators": ["$exists"]}}
        assert len(await service.find(found)) == 3
        assert (await service.get(1, found))["id"] == 1
        with pytest.raises(BadRequest, match=r"\$exists"):
            await service.find({"query": found["query"]})

    async def test_take_the_place_of_those_of_the_service(self):
        service = MemoryService(PEOPLE, operators=["$exists"], filters={"$comment": True})
        query = {"age": {"$exists": True}, "$comment": "x"}
        assert len(await service.find({"query": query})) == 3
        for adapter in ({"operators": []}, {"filters": {}}):
            with pytest.raises(BadRequest):
                await service.find({"query": query, "adapter": adapter})

    async def test_are_those_that_records_can_be_tested_for(self):
        with pytest.raises(ValueError, match=r"operators lists '\$geoWithin'"):
            await MemoryService().find(
                {"query": {"a": 1}, "adapter": {"operators": ["$geoWithin"]}}
            )


class TestPatchesOfSeveral:
    CHANGES: ClassVar = {"list": [[1, 2], {"a": 3}], "mapping": {"b": "c"}}

    async def test_count_the_values_of_the_data_for_each_record(self):
        service = App().use("people", MemoryService(PEOPLE, multi=True)).service("people")
        patched = await service.patch(None, self.CHANGES, provider="rest")
        assert [record["list"] for record in patched] == [self.CHANGES["list"]] * 3

    async def test_with_too_many_values_change_nothing(self):
        records = [{"n": number} for number in range(1_001)]
        service = App().use("numbers", MemoryService(records, multi=True)).service("numbers")
        with pytest.raises(BadRequest, match="too many values"):
            await service.patch(None, {"list": [0] * 1_000}, provider="rest")
        assert "list" not in await service.get(0)

    async def test_count_what_they_may_add_to_lists(self):
        records = [{"list": [], "by": {}} for _ in range(1_001)]
        store = MemoryService(records, multi=True, dotted_names=True)
        service = App().use("numbers", store).service("numbers")
        with pytest.raises(BadRequest, match="too many values"):
            await service.patch(None, {"list.1000": 1}, provider="rest")
        assert (await service.get(0))["list"] == []
        assert (await service.patch(None, {"by.town": "Oslo"}, provider="rest"))[0]["by"]


async def test_it_has_no_pipelines():
    store = MemoryService([{"id": 1}])
    for call in (store.find, partial(store.get, 1), partial(store.get, "1")):
        with pytest.raises(TypeError, match="MemoryService has no aggregation, so "):
            await call(Params(pipeline=[{"$match": {"a": 1}}]))
        assert await call(Params(pipeline=[]))


SELECTED = [
    ["text"],
    ["text", "id", "text"],
    ["nested"],
    ["nested.a", "text"],
    ["missing"],
    [],
    ("text",),
    "text",
    {"0": "text"},
]
NOT_NAMES = [["$text"], ["text", ""], ["a.$b"], ["a\0"], [5], [["text"]], {"text": 1}, ""]
NESTED = {"id": 1, "text": "a", "nested": {"a": [1], "b": 2}}
WITH_DOTS = {"id": 1, "nested.a": 1, "text": "a"}


class TestFieldsOfOneRecord:
    @pytest.mark.parametrize("record", [{"id": 1, "text": "a", "age": 5}, NESTED, WITH_DOTS])
    @pytest.mark.parametrize("names", SELECTED)
    async def test_are_those_that_an_id_of_another_type_gives(self, record, names):
        service = MemoryService([record])
        query = {"$select": names}
        fields = await service.get("1", Params(query=query))
        # An id that is not a text takes the way of all adapters.
        assert list(fields.items()) == list((await service.get(1, Params(query=query))).items())
        assert query == {"$select": names}

    @pytest.mark.parametrize("names", NOT_NAMES)
    @pytest.mark.parametrize("id", ["1", "9"])
    async def test_are_refused_whether_there_is_the_record(self, id, names):
        with pytest.raises(BadRequest, match=r"Invalid value for \$select"):
            await MemoryService([NESTED]).get(id, Params(query={"$select": names}))

    async def test_belong_to_the_caller(self):
        service = MemoryService([NESTED])
        for names in (["nested"], ["nested.a"]):
            fields = await service.get("1", Params(query={"$select": names}))
            fields["nested"]["a"].append(2)
            fields["more"] = 1
        assert await service.get("1") == NESTED

    async def test_of_a_missing_record_are_not_found(self):
        with pytest.raises(NotFound, match="No record found for id '9'"):
            await MemoryService([NESTED]).get("9", Params(query={"$select": ["text"]}))

    async def test_are_selected_of_what_meets_the_rest_of_the_query(self):
        service = MemoryService([NESTED])
        assert await service.get("1", Params(query={"$select": ["text"], "text": "a"})) == {
            "text": "a",
            "id": 1,
        }
        with pytest.raises(NotFound):
            await service.get("1", Params(query={"$select": ["text"], "text": "b"}))

    async def test_have_the_name_of_the_id(self):
        service = MemoryService([{"_id": 7, "text": "a", "id": 3}], id="_id")
        assert await service.get("7", Params(query={"$select": ["text"]})) == {
            "text": "a",
            "_id": 7,
        }


class TestSubclassesWithAWayOfTheirOwn:
    async def test_a_get_reads_by_their_method(self):
        class SoftDeleting(MemoryService):
            async def _get(self, id, query, params, options):
                record = await super()._get(id, query, params, options)
                return None if record is None or record.get("isDeleted") else record

        service = SoftDeleting([{"id": 1, "isDeleted": True}, {"id": 2}])
        assert await service.get("2") == {"id": 2}
        for query in ({}, {"$select": ["isDeleted"]}):
            with pytest.raises(NotFound):
                await service.get("1", Params(query=query))

    async def test_a_patch_writes_by_their_method(self):
        class Locked(MemoryService):
            async def _patch(self, id, data, query, params, options):
                raise Conflict("The record is locked")

        service = Locked([{"id": 1, "text": "a"}])
        with pytest.raises(Conflict, match="locked"):
            await service.patch("1", {"text": "b"}, Params())
        assert await service.get("1") == {"id": 1, "text": "a"}

    async def test_a_patch_reads_data_by_their_method(self):
        class Checked(MemoryService):
            def _read_data(self, method, data, params, options):
                if method == "patch":
                    raise BadRequest("The data is not valid")
                return super()._read_data(method, data, params, options)

        service = Checked([{"id": 1, "text": "a"}])
        with pytest.raises(BadRequest, match="not valid"):
            await service.patch("1", {"text": "b"}, Params())

    async def test_calls_have_their_options(self):
        class Closed(MemoryService):
            def options_for(self, params):
                raise ValueError("closed")

        service = Closed([{"id": 1}])
        for call in (service.get("1", Params()), service.patch("1", {"a": 1}, Params())):
            with pytest.raises(ValueError, match="closed"):
                await call


@pytest.mark.parametrize("given", [{"adapter": {"unknown": 1}}, {"paginate": {"defualt": 1}}])
async def test_calls_for_one_record_refuse_options_that_are_not_valid(given):
    service = MemoryService([{"id": 1}])
    for call in (service.get("1", Params(**given)), service.patch("1", {}, Params(**given))):
        with pytest.raises(ValueError, match=r"unknown|defualt"):
            await call


async def test_a_patch_of_one_record_keeps_its_id_and_takes_no_other_data():
    service = MemoryService([{"id": 1, "text": "a"}], unique=["text"])
    assert await service.patch("1", {"id": 2, "text": "b"}, Params()) == {"id": 1, "text": "b"}
    nested = [1]
    changed = await service.patch("1", {"nested": nested}, Params())
    nested.append(2)
    changed["nested"].append(3)
    assert await service.get("1", Params()) == {"id": 1, "text": "b", "nested": [1]}
    await service.create({"text": "c"})
    for data, error in (({"$set": {"a": 1}}, BadRequest), ({"text": "c"}, Conflict)):
        with pytest.raises(error):
            await service.patch("1", data, Params())
    with pytest.raises(NotFound):
        await service.patch("9", {"text": "d"}, Params())
    filtered = Params(query={"text": "z"})
    with pytest.raises(NotFound):
        await service.patch("1", {"text": "d"}, filtered)
    assert (await service.get("1", Params()))["text"] == "b"


async def test_a_patch_of_one_record_is_seen_by_later_finds_alone():
    service = MemoryService([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    query = {"$sort": {"n": 1}}
    before = await service.find(query_params := Params(query=query))
    changed = await service.patch("1", {"n": 3}, Params())
    changed["n"] = 9
    assert ids(await service.find(query_params)) == [2, 1]
    assert before == [{"id": 1, "n": 1}, {"id": 2, "n": 2}]
    assert await service.get("1") == {"id": 1, "n": 3}


async def test_a_patch_of_one_record_refuses_params_that_nobody_knows():
    service = MemoryService([{"id": 1, "text": "a"}])
    with pytest.raises(TypeError, match="'ownerId', which is not the name of a param"):
        await service.patch("1", {"text": "b"}, Params({"ownerId": 5}))
    assert await service.get("1") == {"id": 1, "text": "a"}


class TestCreationOfOneRecord:
    """What holds although a plain record goes straight into the store."""

    async def test_skips_ids_that_are_taken(self):
        service = MemoryService([{"id": 1}, {"id": "2"}], start_id=1)
        assert (await service.create({"text": "a"}, Params()))["id"] == 3
        assert (await service.create({"text": "b"}))["id"] == 4

    async def test_keeps_a_record_of_its_own(self):
        service, data = MemoryService(), {"text": "a"}
        created = await service.create(data, Params())
        assert data == {"text": "a"}
        data["text"] = created["text"] = "changed"
        assert await service.get("0") == {"text": "a", "id": 0}

    async def test_is_seen_by_later_finds(self):
        service, params = MemoryService([{"n": 2}]), Params(query={"$sort": {"n": 1}})
        assert len(await service.find(params)) == 1
        await service.create({"n": 1}, Params())
        assert [record["n"] for record in await service.find(params)] == [1, 2]

    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            ({"id": 7, "n": 1}, {"id": 7, "n": 1}),
            ({"id": None, "n": 1}, {"n": 1, "id": 0}),
            ({"id": "", "n": 1}, {"n": 1, "id": 0}),
            ({"a b": 1}, {"a b": 1, "id": 0}),
            ({"list": [1]}, {"list": [1], "id": 0}),
        ],
    )
    async def test_other_data_is_stored_as_before(self, data, expected):
        assert await MemoryService().create(data, Params()) == expected

    async def test_counts_select_and_options(self):
        service = MemoryService()
        selecting = Params(query={"$select": ["n"]})
        assert await service.create({"n": 1, "text": "a"}, selecting) == {"n": 1, "id": 0}
        with pytest.raises(ValueError, match="unknown"):
            await service.create({"n": 1}, Params(adapter={"unknown": 1}))
        with pytest.raises(TypeError, match="ownerId"):
            await service.create({"n": 1}, Params({"ownerId": 5}))
        with pytest.raises(BadRequest, match="fraction"):
            await service.create({"id": 1.5})

    async def test_refuses_values_that_are_taken(self):
        service = MemoryService([{"email": "ada"}], unique=["email"])
        with pytest.raises(Conflict, match="email"):
            await service.create({"email": "ada"}, Params())
        assert (await service.create({"email": "bela"}, Params()))["id"] == 1

    async def test_a_subclass_has_its_own_steps(self):
        class Stamped(MemoryService):
            async def _create(self, records, query, params, options):
                stamped = [{**record, "by": "me"} for record in records]
                return await super()._create(stamped, query, params, options)

        class Upper(MemoryService):
            def _new_record(self, data, params, options):
                return {key.upper(): value for key, value in data.items()}

        assert await Stamped().create({"n": 1}, Params()) == {"n": 1, "by": "me", "id": 0}
        assert await Upper().create({"n": 1}, Params()) == {"N": 1, "id": 0}

    async def test_a_subclass_has_its_own_store(self):
        class Audited(MemoryService):
            def _add(self, records):
                return super()._add([{**record, "added": True} for record in records])

            def _replace(self, old, new):
                return super()._replace(old, {**new, "replaced": True})

        service = Audited()
        assert await service.create({"n": 1}, Params()) == {"n": 1, "added": True, "id": 0}
        assert (await service.patch("0", {"n": 2}, Params()))["replaced"] is True
