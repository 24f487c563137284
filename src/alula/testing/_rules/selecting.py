"""$select, which every method understands."""
# ruff: noqa: A001, S101  # `id` is the word of the interface; tests assert

from __future__ import annotations

from typing import Any

import pytest

from alula.errors import BadRequest
from alula.testing._rules.subject import CREW, Make, Rules, feature, seeded

__all__ = ["SelectRules"]

METHODS = ["find", "get", "create", "update", "patch", "remove"]
DATA = {"name": "Eve", "age": 1, "town": "Rome"}


class SelectRules(Rules):
    """What holds for the fields that an answer has."""

    @pytest.mark.parametrize("method", METHODS)
    async def test_select_works_with_every_method(self, make: Make, method: str) -> None:
        """The answer has the fields that are named, and the id in any case."""
        people = await seeded(make, [DATA])
        id = (await people.all())[0][people.id]
        arguments: list[Any] = [] if method in {"find", "create"} else [id]
        data = [DATA] if method in {"create", "update", "patch"} else []
        for names, wanted in (
            (["name"], {"name": "Eve"}),
            (["name", "town"], {"name": "Eve", "town": "Rome"}),
            (["nothing"], {}),
            ([people.id, "age"], {"age": 1}),
            ({"0": "name"}, {"name": "Eve"}),
        ):
            people = await seeded(make, [DATA])
            arguments[:1] = [(await people.all())[0][people.id]] if arguments else []
            query = {"$select": names}
            result = await people.bare(method, *arguments, *data, {"query": query})
            record = result[0] if method == "find" else result
            assert record.pop(people.id) is not None
            assert record == wanted

    @pytest.mark.parametrize("method", ["create", "patch", "remove"])
    async def test_select_works_with_several(self, make: Make, method: str) -> None:
        """Every record of a list has the fields that are named."""
        people = await seeded(make, multi=True)
        query = {"$select": ["age"], "$sort": {"age": 1}}
        data: list[Any] = [{"age": 5, "name": "x"}] * 3
        arguments: list[Any] = [data] if method == "create" else [None, *data[: method == "patch"]]
        records = await people.bare(method, *arguments, {"query": query})
        assert [sorted(record) for record in records] == [sorted(["age", people.id])] * 3

    async def test_select_is_about_the_answer_only(self, make: Make) -> None:
        """Fields that are not selected are stored, and can be asked for in the same query."""
        people = await make()
        created = await people.create(DATA, {"$select": ["name"]})
        id = created[people.id]
        assert await people.get(id) == {**DATA, people.id: id}
        await people.patch(id, {"age": 2}, {"$select": ["name"]})
        assert await people.get(id) == {**DATA, "age": 2, people.id: id}
        query = {"age": 2, "$sort": {"town": 1}, "$select": ["name"]}
        assert await people.find(query) == [created]

    @pytest.mark.parametrize("wrong", [{"name": 1}, [{"name": 1}], ["$where"], [""], [5], "$a"])
    async def test_select_is_a_list_of_names(self, make: Make, wrong: Any) -> None:
        """Anything else is a BadRequest, in every method, and nothing is stored or changed."""
        people = await seeded(make)
        before = await people.all()
        id = before[0][people.id]
        for method, arguments in (
            ("find", ()), ("get", (id,)), ("create", (DATA,)),
            ("update", (id, DATA)), ("patch", (id, DATA)), ("remove", (id,)),
        ):  # fmt: skip
            with pytest.raises(BadRequest, match=r"\$select"):
                await people.bare(method, *arguments, {"query": {"$select": wrong}})
        assert await people.all() == before
        assert len(before) == len(CREW)

    @feature("parts")
    async def test_select_keeps_parts_of_objects(self, make: Make) -> None:
        """A name with dots leads into objects and lists of objects, whose structure stays."""
        whole = {"a": {"b": {"c": 1, "d": 2}, "e": 3}, "list": [{"x": 1, "y": 2}, 5, {"y": 3}]}
        people = await seeded(make, [whole])
        for names, wanted in (
            (["a.b.c"], {"a": {"b": {"c": 1}}}),
            (["a.b.c", "a.e"], {"a": {"b": {"c": 1}, "e": 3}}),
            (["a.b"], {"a": {"b": {"c": 1, "d": 2}}}),
            (["a.nothing"], {"a": {}}),
            (["nothing.at.all"], {}),
            (["a.e.f"], {"a": {}}),
            (["list.x"], {"list": [{"x": 1}, {}]}),
        ):
            record = (await people.find({"$select": names}))[0]
            assert record.pop(people.id) is not None
            assert record == wanted
