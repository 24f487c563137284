"""get and find: which record an id names, and what a query has to do with it."""
# ruff: noqa: A001, S101  # `id` is the word of the interface; tests assert

from __future__ import annotations

from typing import Any

import pytest

from alula.errors import BadRequest, NotFound
from alula.testing._rules.subject import CREW, Make, Rules, feature, names, seeded

__all__ = ["ID_METHODS", "ReadingRules"]

ID_METHODS = ["get", "update", "patch", "remove"]
NO_IDS: list[Any] = [
    {"$ne": None}, {"$gt": ""}, {}, [], ["a"], ("a",), "", "\0", "$where", "a.b", "ü", "x" * 999,
]  # fmt: skip


class ReadingRules(Rules):
    """What holds for reading, and for the ids of all methods that take one."""

    async def test_get_answers_the_record(self, make: Make) -> None:
        """Get answers the record as it was created, with its id."""
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

    @pytest.mark.parametrize("id", NO_IDS)
    async def test_ids_of_no_form_are_not_found(self, make: Make, id: Any) -> None:
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
        for query in ({"name": "Ada"}, {"age": {"$gt": 30}}, {"$or": [{"age": 19}]}):
            with pytest.raises(NotFound, match=f"No record found for id '{id}'"):
                await people.with_id(method, id, query)
        assert await people.all() == before
        found = await people.with_id(method, id, {"name": "Bela", "age": {"$lt": 30}})
        assert found[people.id] == id

    @pytest.mark.parametrize("method", ID_METHODS)
    async def test_the_query_may_have_the_id(self, make: Make, method: str) -> None:
        """With another id in the query nothing is found; with the same one, the record is."""
        people = await seeded(make)
        first, second, _ = await people.all()
        with pytest.raises(NotFound):
            await people.with_id(method, first[people.id], {people.id: second[people.id]})
        assert await people.all() == await people.find({people.id: {"$ne": None}})
        found = await people.with_id(method, first[people.id], {people.id: first[people.id]})
        assert found[people.id] == first[people.id]

    @pytest.mark.parametrize("method", ID_METHODS)
    async def test_limit_and_skip_mean_nothing_for_one(self, make: Make, method: str) -> None:
        """$limit and $skip are read, so that a wrong one is an error, and then ignored."""
        people = await seeded(make)
        id = (await people.all())[0][people.id]
        with pytest.raises(BadRequest):
            await people.with_id(method, id, {"$limit": -1})
        found = await people.with_id(method, id, {"$limit": 0, "$skip": 5})
        assert found[people.id] == id

    async def test_find_answers_all_records(self, make: Make) -> None:
        """Find without a query answers a list of all records; of an empty store, an empty one."""
        people = await make()
        assert await people.find() == []
        people = await seeded(make)
        found = await people.find()
        assert isinstance(found, list)
        assert sorted(names(found)) == sorted(names(CREW))
        assert len({str(record[people.id]) for record in found}) == len(CREW)

    async def test_params_may_be_left_out(self, make: Make) -> None:
        """Every method works without params, and without a query in them."""
        people = await make()
        record = await people.bare("create", {"name": "Ada"})
        id = record[people.id]
        assert names(await people.bare("find")) == ["Ada"]
        assert names(await people.bare("find", {})) == ["Ada"]
        assert await people.bare("get", id) == record
        assert (await people.bare("patch", id, {"age": 1}))["age"] == 1
        assert "age" not in await people.bare("update", id, {"name": "Eve"})
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
