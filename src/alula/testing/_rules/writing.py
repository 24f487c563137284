"""create, update, patch and remove of one record."""
# ruff: noqa: A001, S101  # `id` is the word of the interface; tests assert

from __future__ import annotations

from typing import Any

import pytest

from alula.errors import BadRequest, Conflict, NotFound
from alula.testing._rules.subject import CREW, Make, Rules, feature, names, seeded

__all__ = ["WritingRules"]

# The words of FeathersJS.
REPLACING_MANY = "You can not replace multiple instances. Did you mean 'patch'?"
NOT_OBJECTS: list[Any] = [None, "text", 5, True]


class WritingRules(Rules):
    """What holds for writing one record."""

    async def test_create_answers_the_new_record(self, make: Make) -> None:
        """Create stores the data and returns it with a new id."""
        people = await make()
        data = {"name": "Ada", "age": 36}
        first, second = await people.create(data), await people.create(data)
        assert people.given(first) == {**data, people.id: first[people.id]}
        assert first[people.id] is not None
        assert first[people.id] != second[people.id]
        assert await people.get(first[people.id]) == first
        assert await people.get(second[people.id]) == second

    @feature("own fields")
    async def test_a_record_has_its_own_fields(self, make: Make) -> None:
        """A field that a record was never given is missing, and not null."""
        people = await make()
        record = await people.create({"name": "Ada", "town": None})
        assert record == {people.id: record[people.id], "name": "Ada", "town": None}
        assert await people.get(record[people.id]) == record
        assert await people.find() == [record]

    async def test_no_field_is_dropped(self, make: Make) -> None:
        """A field that the store does not know is stored like any other, or is a BadRequest."""
        people = await make()
        # In a store with declared fields, most such names are typing errors.
        data = {"name": "Ada", "undeclared": 1}
        try:
            record = await people.create(data)
        except BadRequest as error:
            assert "undeclared" in str(error)  # noqa: PT017  # one of two right answers
            record = await people.create({"name": "Ada"})
            for method in ("update", "patch"):
                with pytest.raises(BadRequest, match="undeclared"):
                    await people.bare(method, record[people.id], {"undeclared": 1})
            assert await people.all() == [record]
        else:
            assert people.given(record) == {**data, people.id: record[people.id]}

    @pytest.mark.parametrize("nothing", [None, ""])
    async def test_create_takes_null_for_no_id(self, make: Make, nothing: object) -> None:
        """An id that is null or empty is replaced by one of the store's."""
        people = await make()
        record = await people.create({people.id: nothing, "name": "Ada"})
        assert record[people.id] not in (None, "")
        assert await people.get(record[people.id]) == record

    async def test_create_ignores_the_query(self, make: Make) -> None:
        """Of the query of create only $select counts, and the rest may be anything."""
        people = await make()
        # Hooks that keep callers to their own records set a condition for all methods.
        for query in ({"name": "Bela"}, {"$foo": 1}, {"name": {"$foo": 1}}, {"$limit": "x"}):
            assert (await people.create({"name": "Ada"}, query))["name"] == "Ada"

    @pytest.mark.parametrize("data", NOT_OBJECTS)
    async def test_create_takes_objects_only(self, make: Make, data: object) -> None:
        """Data that is not an object is a BadRequest."""
        people = await make(multi=True)
        with pytest.raises(BadRequest, match="must be an object"):
            await people.create(data)
        with pytest.raises(BadRequest, match="must be an object"):
            await people.create([{"name": "Ada"}, data])
        assert await people.all() == []

    @feature("own ids")
    async def test_create_keeps_an_id_that_is_brought(self, make: Make) -> None:
        """A new record may bring its id; a second one with the same id is a Conflict."""
        people = await make()
        id = self.own_id(1)
        record = await people.create({people.id: id, "name": "Ada"})
        assert people.given(record) == {people.id: id, "name": "Ada"}
        assert await people.get(id) == record
        with pytest.raises(Conflict):
            await people.create({people.id: id, "name": "Bela"})
        assert await people.all() == [record]
        assert (await people.create({people.id: self.own_id(2)}))[people.id] == self.own_id(2)

    # In Python, True would be the id 1.
    @pytest.mark.parametrize("id", [{"$gt": ""}, {}, ["a"], True])
    async def test_create_refuses_ids_that_are_none(self, make: Make, id: object) -> None:
        """An id holds no other values, and is neither true nor false."""
        people = await make()
        with pytest.raises(BadRequest):
            await people.create({people.id: id, "name": "Ada"})
        assert await people.all() == []

    async def test_update_replaces_the_record(self, make: Make) -> None:
        """Update puts the data in place of all that was there, except the id."""
        people = await seeded(make)
        before = await people.all()
        id = before[1][people.id]
        record = await people.update(id, {"name": "Eve", "town": "Rome"})
        assert people.given(record) == {people.id: id, "name": "Eve", "town": "Rome"}
        assert await people.get(id) == record
        others = [other for other in await people.all() if other[people.id] != id]
        assert others == [before[0], before[2]]

    @pytest.mark.parametrize("method", ["update", "patch"])
    async def test_an_id_never_changes(self, make: Make, method: str) -> None:
        """The id in the data of update and patch is ignored; the stored one keeps its type."""
        people = await seeded(make)
        before = await people.all()
        id, other = before[0][people.id], before[1][people.id]
        for data in ({people.id: other}, {people.id: self.own_id(1)}, {people.id: None}):
            record = await people.bare(method, self.id_in_url(id), {**data, "name": "Eve"})
            assert record[people.id] == id
            # The text of the URL must not replace the number or the object id that is stored.
            assert type(record[people.id]) is type(id)
        assert len(await people.all()) == len(CREW)
        assert await people.get(other) == before[1]

    async def test_update_has_no_form_for_several(self, make: Make) -> None:
        """Update without an id, or with a list, says what else to do; multi changes nothing."""
        people = await seeded(make, multi=True)
        before = await people.all()
        for id, data in ((None, {"name": "Eve"}), (before[0][people.id], [{"name": "Eve"}])):
            with pytest.raises(BadRequest) as caught:
                await people.update(id, data)
            assert caught.value.message == REPLACING_MANY
        assert await people.all() == before

    async def test_patch_merges_into_the_record(self, make: Make) -> None:
        """Patch sets what the data has and keeps the rest; null is a value like any other."""
        people = await seeded(make)
        before = await people.all()
        record = await people.patch(before[1][people.id], {"age": None, "town": "Rome"})
        assert record == {**before[1], "age": None, "town": "Rome"}
        assert await people.get(before[1][people.id]) == record
        assert await people.patch(before[1][people.id], {}) == record
        assert await people.get(before[0][people.id]) == before[0]

    # Without such names a store may still keep objects: a column of JSON does.
    @feature("dotted names", strict=False)
    async def test_patch_replaces_objects_inside(self, make: Make) -> None:
        """Patch merges at the top level only."""
        people = await seeded(make, [{"name": "Ada", "home": {"town": "Rome", "zip": "1"}}])
        record = (await people.all())[0]
        patched = await people.patch(record[people.id], {"home": {"zip": "2"}})
        assert patched == {**record, "home": {"zip": "2"}}
        assert await people.all() == [patched]

    @pytest.mark.parametrize("method", ["update", "patch"])
    async def test_a_change_may_leave_the_query(self, make: Make, method: str) -> None:
        """The query is about the record before the change, which may end that."""
        people = await seeded(make)
        id = (await people.find({"name": "Bela"}))[0][people.id]
        record = await people.bare(method, id, {"name": "Eve"}, {"query": {"name": "Bela"}})
        assert record["name"] == "Eve"
        assert await people.get(id) == record
        with pytest.raises(NotFound):
            await people.bare(method, id, {"name": "Bela"}, {"query": {"name": "Bela"}})
        assert await people.get(id) == record

    @pytest.mark.parametrize("method", ["update", "patch"])
    @pytest.mark.parametrize("data", NOT_OBJECTS)
    async def test_changes_are_objects(self, make: Make, method: str, data: object) -> None:
        """Data of update and patch that is not an object is a BadRequest."""
        people = await seeded(make)
        before = await people.all()
        with pytest.raises(BadRequest, match="must be an object"):
            await people.bare(method, before[0][people.id], data)
        assert await people.all() == before

    async def test_patch_takes_no_list(self, make: Make) -> None:
        """Patch has one set of changes."""
        people = await seeded(make, multi=True)
        before = await people.all()
        for id in (before[0][people.id], None):
            with pytest.raises(BadRequest, match="must be an object"):
                await people.patch(id, [{"name": "Eve"}])
        assert await people.all() == before

    async def test_remove_answers_what_is_gone(self, make: Make) -> None:
        """Remove returns the record; after that it does not exist, and the others do."""
        people = await seeded(make)
        record = (await people.find({"name": "Bela"}))[0]
        assert await people.remove(self.id_in_url(record[people.id])) == record
        assert names(await people.find({"$sort": {"name": 1}})) == ["Ada", "Cleo"]
        with pytest.raises(NotFound):
            await people.remove(record[people.id])
        with pytest.raises(NotFound):
            await people.get(record[people.id])

    async def test_ids_are_not_given_again(self, make: Make) -> None:
        """A new record never gets the id of one that was removed."""
        people = await seeded(make)
        ids = [record[people.id] for record in await people.all()]
        await people.remove(ids[-1])
        assert (await people.create({"name": "Eve"}))[people.id] not in ids
