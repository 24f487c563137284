"""Rules for get and find: ids, queries beside an id, and pages."""
# ruff: noqa: A001, S101  # `id` is the word of the interface; tests assert

from __future__ import annotations

from typing import Any

import pytest

from alula.errors import BadRequest, NotFound
from alula.testing._rules.subject import CREW, Make, Rules, feature, names, seeded
from alula.types import Record, is_list

__all__ = ["ID_METHODS", "PageRules", "ReadingRules"]

ID_METHODS = ["get", "update", "patch", "remove"]
# What may arrive as an id from a URL or a JSON body, and must not reach a database as a query.
NOT_IDS: list[Any] = [
    {"$ne": None},
    {"$gt": ""},
    {},
    [],
    ["a"],
    ("a",),
    "",
    "\0",
    "$where",
    "a.b",
    "ü",
    "x" * 999,
]
BY_NAME = {"$sort": {"name": 1}}
SIZES = {"default": 1, "max": 2}


class ReadingRules(Rules):
    """What holds for reading, and for the ids of all methods that take one."""

    async def test_get_answers_the_record(self, make: Make) -> None:
        """Get returns the record as it was created, with its id."""
        people = await seeded(make)
        for record in await people.all():
            assert await people.get(record[people.id]) == record
        assert await people.get((await people.all())[1][people.id]) != (await people.all())[0]

    async def test_get_takes_the_id_as_a_url_carries_it(self, make: Make) -> None:
        """An id in the form of text names the same record."""
        people = await seeded(make)
        record = (await people.all())[1]
        assert await people.get(self.id_in_url(record[people.id])) == record

    async def test_get_of_none_asks_for_an_id(self, make: Make) -> None:
        """Get has no form for several records."""
        people = await seeded(make)
        with pytest.raises(BadRequest, match="id"):
            await people.get(None)

    @pytest.mark.parametrize("method", ID_METHODS)
    async def test_missing_ids_are_not_found(self, make: Make, method: str) -> None:
        """An id that no record has is a NotFound that names it, and nothing changes."""
        people = await seeded(make)
        before = await people.all()
        for id in self.missing_ids:
            with pytest.raises(NotFound, match=f"No record found for id '{id}'"):
                await people.with_id(method, id)
        assert await people.all() == before

    @pytest.mark.parametrize("id", NOT_IDS)
    async def test_ids_of_no_form_are_not_found(self, make: Make, id: object) -> None:
        """Operators, lists, NUL bytes and other oddities are ids that no record has."""
        people = await seeded(make)
        before = await people.all()
        for method in ID_METHODS:
            with pytest.raises(NotFound):
                await people.with_id(method, id)
        assert await people.all() == before

    @pytest.mark.parametrize("method", ID_METHODS)
    async def test_the_query_has_to_match_too(self, make: Make, method: str) -> None:
        """A record that has the id but does not meet the query is not found, nor changed."""
        people = await seeded(make)
        before = await people.all()
        id = before[1][people.id]
        # Not a Forbidden: a caller who may not see a record must not learn that it exists.
        for query in ({"name": "Ada"}, {"age": {"$gt": 30}}, {"$or": [{"age": 19}]}):
            with pytest.raises(NotFound, match=f"No record found for id '{id}'"):
                await people.with_id(method, id, query)
        assert await people.all() == before
        record = await people.with_id(method, id, {"name": "Bela", "age": {"$lt": 30}})
        assert record[people.id] == id

    @pytest.mark.parametrize("method", ID_METHODS)
    async def test_the_query_may_have_the_id(self, make: Make, method: str) -> None:
        """With another id in the query nothing is found; with the same one, the record is."""
        people = await seeded(make)
        first, second, _ = await people.all()
        with pytest.raises(NotFound):
            await people.with_id(method, first[people.id], {people.id: second[people.id]})
        assert await people.all() == await people.find({people.id: {"$ne": None}})
        record = await people.with_id(method, first[people.id], {people.id: first[people.id]})
        assert record[people.id] == first[people.id]

    @pytest.mark.parametrize("method", ID_METHODS)
    async def test_limit_and_skip_mean_nothing_for_one(self, make: Make, method: str) -> None:
        """$limit and $skip are read, so that a wrong one is an error, and then ignored."""
        people = await seeded(make)
        id = (await people.all())[0][people.id]
        with pytest.raises(BadRequest):
            await people.with_id(method, id, {"$limit": -1})
        record = await people.with_id(method, id, {"$limit": 0, "$skip": 5})
        assert record[people.id] == id

    async def test_find_answers_all_records(self, make: Make) -> None:
        """Find without a query returns a list of all records; of an empty store, an empty one."""
        people = await make()
        assert await people.find() == []
        people = await seeded(make)
        records = await people.find()
        assert is_list(records)
        assert sorted(names(records)) == sorted(names(CREW))
        assert len({str(record[people.id]) for record in records}) == len(CREW)

    async def test_params_may_be_left_out(self, make: Make) -> None:
        """Every method works without params, and without a query in them."""
        people = await make()
        record = await people.bare("create", {"name": "Ada"})
        id = record[people.id]
        assert names(await people.bare("find")) == ["Ada"]
        assert names(await people.bare("find", {})) == ["Ada"]
        assert await people.bare("get", id) == record
        assert (await people.bare("patch", id, {"age": 1}))["age"] == 1
        assert "age" not in people.given(await people.bare("update", id, {"name": "Eve"}))
        assert (await people.bare("remove", id, None))["name"] == "Eve"

    @feature("id property")
    async def test_the_id_property_has_any_name(self, make: Make) -> None:
        """The option `id` names the property that holds the id, in records and in queries."""
        people = await seeded(make, id="number")
        assert people.id == "number"
        record = (await people.find({"name": "Bela"}))[0]
        assert record["number"] is not None
        assert await people.get(record["number"]) == record
        assert await people.find({"number": record["number"]}) == [record]
        selected = await people.get(record["number"], {"$select": ["age"]})
        assert selected == {"number": record["number"], "age": 25}
        patched = await people.patch(record["number"], {"number": "other", "age": 1})
        assert patched == {**record, "age": 1}

    async def test_events_are_declared(self, make: Make) -> None:
        """The option `events` is there to be read by the application."""
        people = await make(events=["testing"])
        assert "testing" in people.adapter.events


class PageRules(Rules):
    """What holds for pages."""

    async def test_a_page_has_four_parts(self, make: Make) -> None:
        """A page has the number of all matching records, the limit, the skip and its records."""
        people = await seeded(make, paginate=SIZES)
        page = await people.find(BY_NAME)
        assert {**page, "data": names(page["data"])} == {
            "total": 3,
            "limit": 1,
            "skip": 0,
            "data": ["Ada"],
        }

    @pytest.mark.parametrize(
        ("query", "total", "limit", "skip", "data"),
        [
            ({"$limit": 2}, 3, 2, 0, ["Ada", "Bela"]),
            ({"$limit": 1}, 3, 1, 0, ["Ada"]),
            ({"$limit": 4}, 3, 2, 0, ["Ada", "Bela"]),
            ({"$limit": "4"}, 3, 2, 0, ["Ada", "Bela"]),
            ({"$skip": 1}, 3, 1, 1, ["Bela"]),
            ({"$skip": 2, "$limit": 2}, 3, 2, 2, ["Cleo"]),
            ({"$skip": 3}, 3, 1, 3, []),
            ({"$skip": "1000"}, 3, 1, 1000, []),
            ({"age": {"$lt": 30}}, 2, 1, 0, ["Bela"]),
            ({"age": {"$lt": 30}, "$skip": 1}, 2, 1, 1, ["Cleo"]),
            ({"name": "Nobody"}, 0, 1, 0, []),
            ({"$limit": 0}, 3, 0, 0, []),
            ({"$limit": 0, "age": {"$lt": 30}}, 2, 0, 0, []),
            ({"$limit": 0, "$skip": 2}, 3, 0, 2, []),
        ],
    )
    async def test_the_query_moves_the_page(
        self, make: Make, query: Record, total: int, limit: int, skip: int, data: list[str]
    ) -> None:
        """$limit up to the maximum, $skip and criteria say what is on it; 0 counts only."""
        people = await seeded(make, paginate=SIZES)
        page = await people.find({**BY_NAME, **query})
        assert (page["total"], page["limit"], page["skip"]) == (total, limit, skip)
        assert names(page["data"]) == data

    @pytest.mark.parametrize("off", [None, False, {}])
    async def test_without_pages_find_answers_a_list(self, make: Make, off: object) -> None:
        """None, False and an empty mapping turn pages off; $limit and $skip still work."""
        people = await seeded(make, paginate=off)
        assert names(await people.find(BY_NAME)) == ["Ada", "Bela", "Cleo"]
        assert names(await people.find({**BY_NAME, "$limit": 2})) == ["Ada", "Bela"]
        assert names(await people.find({**BY_NAME, "$skip": 1})) == ["Bela", "Cleo"]
        assert names(await people.find({**BY_NAME, "$skip": 1, "$limit": 1})) == ["Bela"]
        assert names(await people.find({**BY_NAME, "age": {"$lt": 30}, "$skip": 1})) == ["Cleo"]
        assert await people.find({"$limit": 0}) == []

    async def test_one_of_the_sizes_is_enough(self, make: Make) -> None:
        """Without a default a page has the maximum; without a maximum it has what is asked."""
        people = await seeded(make, paginate={"max": 2})
        assert (await people.find())["limit"] == 2
        assert (await people.find({"$limit": 9}))["limit"] == 2
        people = await seeded(make, paginate={"default": 2})
        assert (await people.find())["limit"] == 2
        assert len((await people.find({"$limit": 9}))["data"]) == 3

    async def test_pages_for_one_call(self, make: Make) -> None:
        """`params.paginate` has other sizes, or none, of which the next call knows nothing."""
        people = await seeded(make, paginate=SIZES)
        assert (await people.find(paginate={"default": 3}))["limit"] == 3
        assert len((await people.find(paginate={"default": 3}))["data"]) == 3
        assert len(await people.find(paginate=False)) == 3
        assert len(await people.find(paginate={})) == 3
        # None says nothing about pages, so that those of the service stay.
        assert (await people.find(paginate=None))["limit"] == 1
        assert (await people.find())["limit"] == 1
        people = await seeded(make)
        assert (await people.find(paginate=SIZES))["total"] == 3

    async def test_pages_of_the_adapter_for_one_call(self, make: Make) -> None:
        """`params.adapter` has `paginate`, too, and comes before `params.paginate`."""
        people = await seeded(make)
        page = await people.find(adapter={"paginate": {"default": 3}})
        assert (page["limit"], page["skip"], page["total"]) == (3, 0, 3)
        page = await people.find(adapter={"paginate": SIZES}, paginate=False)
        assert page["limit"] == 1
        people = await seeded(make, paginate=SIZES)
        assert len(await people.find(adapter={"paginate": False})) == 3

    @pytest.mark.parametrize("off", [False, {}])
    async def test_a_query_can_not_turn_pages_off(self, make: Make, off: object) -> None:
        """What is in the query is a query, whatever it is called."""
        people = await seeded(make, paginate=SIZES)
        # Otherwise any client could read the whole store in one request.
        try:
            page = await people.find({"paginate": off})
        except BadRequest:
            assert not self.has("free names")
        else:
            assert "total" in page
        with pytest.raises(BadRequest):
            await people.find({"$paginate": off})

    async def test_pages_are_for_find_only(self, make: Make) -> None:
        """The other methods return records, whatever the pages are."""
        people = await seeded(make, paginate=SIZES)
        record = (await people.all())[0]
        assert await people.get(record[people.id]) == record
        assert await people.remove(record[people.id]) == record
