"""create, patch and remove of several records at once, where `multi` allows it."""
# ruff: noqa: S101  # tests assert

from __future__ import annotations

import pytest

from alula.errors import BadRequest, Conflict, MethodNotAllowed
from alula.testing._rules.subject import Make, Result, Rules, Subject, feature, names, seeded
from alula.types import is_list

__all__ = ["SeveralRules"]

MANY = 14
"""More records than the pages of these tests have: a page must not bound a write."""


async def call(people: Subject, method: str, query: object = None, **params: object) -> Result:
    """Call a method in the form that is about several records."""
    if method == "create":
        return await people.create([{"name": "Eve"}, {"name": "Finn"}], query, **params)
    return await people.with_id(method, None, query, **params)


class SeveralRules(Rules):
    """What holds where one call is about several records."""

    @pytest.mark.parametrize("method", ["create", "patch", "remove"])
    @pytest.mark.parametrize("multi", [False, "others"])
    async def test_what_multi_does_not_allow(self, make: Make, method: str, multi: object) -> None:
        """Without the option, or with one that lists other methods, it is a MethodNotAllowed."""
        if multi == "others":
            multi = [name for name in ("create", "patch", "remove") if name != method]
        people = await seeded(make, multi=multi)
        before = await people.all()
        with pytest.raises(MethodNotAllowed) as caught:
            await call(people, method)
        # The words of FeathersJS, which clients may compare.
        assert caught.value.message == f"Can not {method} multiple entries"
        assert await people.all() == before

    async def test_an_empty_list_is_several(self, make: Make) -> None:
        """Create with an empty list needs `multi` too, and returns an empty list then."""
        people = await make()
        # The form of the data decides, not its length, which a client chooses.
        with pytest.raises(MethodNotAllowed, match="Can not create multiple entries"):
            await people.create([])
        assert await (await make(multi=True)).create([]) == []

    @pytest.mark.parametrize("method", ["create", "patch", "remove"])
    @pytest.mark.parametrize("multi", [True, "listed"])
    async def test_what_multi_allows(self, make: Make, method: str, multi: object) -> None:
        """With True, or a list that has the method, the result is a list of the records."""
        people = await seeded(make, multi=[method] if multi == "listed" else True)
        records = await call(people, method)
        assert is_list(records)
        assert len(records) == (2 if method == "create" else 3)

    async def test_multi_for_one_call(self, make: Make) -> None:
        """`params.adapter` has `multi` for one call, of which the next knows nothing."""
        people = await make()
        adapter = {"multi": ["create"]}
        assert len(await people.create([{"name": "A"}, {"name": "B"}], adapter=adapter)) == 2
        with pytest.raises(MethodNotAllowed, match="Can not patch multiple entries"):
            await people.patch(None, {"age": 2}, adapter=adapter)
        with pytest.raises(MethodNotAllowed):
            await people.create([{"name": "A"}])
        people = await make(multi=True)
        with pytest.raises(MethodNotAllowed):
            await people.create([{"name": "A"}], adapter={"multi": False})

    @pytest.mark.parametrize("provider", [None, "rest"])
    @pytest.mark.parametrize("method", ["find", "create", "patch", "remove"])
    async def test_a_call_has_a_bound_of_records(
        self, make: Make, method: str, provider: str | None
    ) -> None:
        """More records than `max_result` allows are a BadRequest, and nothing is changed."""
        people = await seeded(make, multi=True)
        before = await people.all()

        async def bounded(most: int) -> Result:
            params = {"provider": provider, "adapter": {"max_result": {"records": most}}}
            if method == "find":
                return await people.find({}, **params)
            return await call(people, method, **params)

        number = 2 if method == "create" else 3
        with pytest.raises(BadRequest, match=f"more than {number - 1} records"):
            await bounded(number - 1)
        assert await people.all() == before
        assert len(await bounded(number)) == number

    @pytest.mark.parametrize("provider", [None, "rest"])
    @pytest.mark.parametrize("method", ["find", "patch", "remove"])
    async def test_a_call_has_a_bound_of_bytes(
        self, make: Make, method: str, provider: str | None
    ) -> None:
        """More bytes than `max_result` allows are a BadRequest, and nothing is changed."""
        people = await make(multi=True)
        await people.create([{"name": "x" * 1_000, "age": n} for n in range(5)])
        before = await people.all()

        async def call(query: object, size: int) -> Result:
            params = {"provider": provider, "adapter": {"max_result": {"bytes": size}}}
            if method == "patch":
                return await people.patch(None, {"town": "y" * 1_000}, query, **params)
            return await getattr(people, method)(*[None] * (method == "remove"), query, **params)

        for query, size in (({}, 4_000), ({"age": {"$gt": 2}}, 1_900)):
            with pytest.raises(BadRequest, match=f"more than {size} bytes"):
                await call(query, size)
            assert await people.all() == before
        assert len(await call({}, 20_000)) == 5

    async def test_create_answers_in_order(self, make: Make) -> None:
        """Create returns the new records in the order of the data, each with its id."""
        people = await make(multi=True)
        data = [{"name": name} for name in ("Cleo", "Ada", "Bela")]
        records = await people.create(data)
        assert names(records) == ["Cleo", "Ada", "Bela"]
        assert [await people.get(record[people.id]) for record in records] == records

    @feature("atomic create")
    async def test_create_stores_all_or_none(self, make: Make) -> None:
        """If one record cannot be stored, none is."""
        people = await make(multi=True)
        kept = await people.create({people.id: self.own_id(1), "name": "Ada"})
        twice = [{people.id: self.own_id(2)}, {people.id: self.own_id(2)}]
        for data in ([{"name": "Eve"}, {people.id: self.own_id(1)}], twice):
            with pytest.raises(Conflict):
                await people.create(data)
            assert await people.all() == [kept]

    async def test_patch_changes_what_the_query_selects(self, make: Make) -> None:
        """Patch without an id changes the records of the query, and returns these."""
        people = await seeded(make, multi=True)
        patched = await people.patch(None, {"town": "Rome"}, {"age": {"$lt": 30}})
        assert sorted(names(patched)) == ["Bela", "Cleo"]
        assert {record["town"] for record in patched} == {"Rome"}
        for record in patched:
            assert await people.get(record[people.id]) == record
        assert "town" not in people.given((await people.find({"name": "Ada"}))[0])

    async def test_patch_may_change_what_the_query_is_about(self, make: Make) -> None:
        """Patch returns the records that met the query before, whether they still do or not."""
        people = await seeded(make, multi=True)
        assert [r["age"] for r in await people.patch(None, {"age": 9}, {"age": 19})] == [9]
        # A store has to note the ids first: afterwards, the query selects other records.
        same = await people.patch(None, {"age": 8}, {"age": {"$lt": 30}})
        assert [record["age"] for record in same] == [8, 8]

    async def test_patch_leaves_every_id(self, make: Make) -> None:
        """An id in the data does not make all records one."""
        people = await seeded(make, multi=True)
        before = {record[people.id] for record in await people.all()}
        patched = await people.patch(None, {people.id: self.own_id(1), "age": 1})
        assert {record[people.id] for record in patched} == before
        assert {record[people.id] for record in await people.all()} == before

    async def test_remove_takes_what_the_query_selects(self, make: Make) -> None:
        """Remove without an id removes the records of the query; without a query, all."""
        people = await seeded(make, multi=True)
        before = await people.find({"$sort": {"age": 1}})
        removed = await people.remove(None, {"age": {"$lt": 30}, "$sort": {"age": 1}})
        assert removed == before[:2]
        assert names(await people.all()) == ["Ada"]
        assert names(await people.remove(None)) == ["Ada"]
        assert await people.all() == []

    @pytest.mark.parametrize("method", ["patch", "remove"])
    async def test_none_selected_is_no_error(self, make: Make, method: str) -> None:
        """A query that selects nothing gives an empty list, and nothing changes."""
        people = await seeded(make, multi=True)
        before = await people.all()
        assert await call(people, method, {"name": "Nobody"}) == []
        assert await people.all() == before

    @pytest.mark.parametrize("method", ["patch", "remove"])
    async def test_several_come_in_the_order_of_the_query(self, make: Make, method: str) -> None:
        """$sort says in which order the records come back."""
        for direction in (1, -1):
            data = [{"name": "x"}] if method == "patch" else []
            ages = [36, 25, 19][::-direction]
            people = await seeded(make, multi=True)
            query = {"$sort": {"age": direction}}
            records = await people.bare(method, None, *data, {"query": query})
            assert [record["age"] for record in records] == ages

    @pytest.mark.parametrize("method", ["patch", "remove"])
    async def test_limit_and_skip_do_not_narrow_several(self, make: Make, method: str) -> None:
        """$limit and $skip are read, so that a wrong one is an error, and then ignored."""
        people = await seeded(make, multi=True)
        with pytest.raises(BadRequest):
            await call(people, method, {"$skip": -1})
        # A page that bounds a write would leave some records as they were, without an error.
        assert len(await call(people, method, {"$limit": 1, "$skip": 1})) == 3

    @pytest.mark.parametrize("method", ["patch", "remove"])
    async def test_a_wrong_query_changes_nothing(self, make: Make, method: str) -> None:
        """A filter or operator that does not exist is not ignored."""
        people = await seeded(make, multi=True)
        before = await people.all()
        for query in ({"$foo": 1}, {"name": {"$foo": 1}}, {"$or": [{"$where": "1"}]}):
            with pytest.raises(BadRequest):
                await call(people, method, query)
        assert await people.all() == before

    async def test_several_are_never_a_page(self, make: Make) -> None:
        """Pages are for find: create, patch and remove return all records in a list."""
        people = await make(multi=True, paginate={"default": 10, "max": 100})
        created = await people.create([{"name": f"n{i}", "age": 3} for i in range(MANY)])
        assert len(created) == MANY
        assert len((await people.find())["data"]) == 10
        assert len(await people.patch(None, {"age": 4}, {"age": 3})) == MANY
        assert len(await people.remove(None, {"age": 4})) == MANY
        assert await people.all() == []
