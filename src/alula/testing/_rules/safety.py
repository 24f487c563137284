"""Rules for safety: objects of the caller stay as they are, and hostile data does no harm."""
# ruff: noqa: A001, S101  # `id` is the word of the interface; tests assert

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from alula._context import Params
from alula.errors import BadRequest
from alula.testing._rules.subject import Make, Rules, feature, seeded
from alula.types import Record

__all__ = ["SafetyRules"]

# Keys that a database takes for operators: the data of a client must never become an update.
HOSTILE: list[Any] = [
    {"$set": {"age": 1}},
    {"$where": "1"},
    {"name": "x", "$inc": {"age": 1}},
    {"home": {"$set": 1}},
    {"list": [{"deep": [{"$push": 1}]}]},
    {"$": 1},
]
METHODS = ["find", "get", "create", "update", "patch", "remove"]


def nested(levels: int) -> dict[str, Any]:
    """Return data with this many levels of objects."""
    data: dict[str, Any] = {}
    for _ in range(levels - 1):
        data = {"a": data}
    return data


class SafetyRules(Rules):
    """What holds however a service is called."""

    @pytest.mark.parametrize("method", METHODS)
    async def test_nothing_of_the_caller_changes(self, make: Make, method: str) -> None:
        """Data, query and params stay as they were."""
        people = await seeded(make, paginate={"default": 2, "max": 5})
        id = (await people.all())[0][people.id]
        data = {people.id: id, "name": "Eve", "list": [{"a": 1}]}
        query = {"name": {"$ne": "x"}, "$limit": "9", "$sort": {"age": "1"}, "$select": ["name"]}
        params = {"query": query, "adapter": {"multi": True}, "user": {"name": "u"}}
        arguments: list[Any] = [] if method in {"find", "create"} else [id]
        if method in {"create", "update", "patch"}:
            arguments.append([{"name": "Eve", "list": [1]}] if method == "create" else data)
        # A hook after the call, or a retry, works with the same objects.
        before = deepcopy((arguments, params))
        await people.bare(method, *arguments, params)
        assert (arguments, params) == before

    @pytest.mark.parametrize("method", METHODS)
    async def test_params_of_the_caller_do_not_change(self, make: Make, method: str) -> None:
        """`Params` stay as they were, too."""
        people = await seeded(make)
        id = (await people.all())[0][people.id]
        params = Params(query={"name": "Ada", "$limit": 1}, adapter={"multi": True})
        params.mine = [1]
        before = deepcopy(params)
        data = [{"name": "Eve"}] if method in {"create", "update", "patch"} else []
        await people.bare(method, *([] if method in {"find", "create"} else [id]), *data, params)
        assert params == before

    async def test_data_may_change_after_the_call(self, make: Make) -> None:
        """What is stored has nothing in common with the data that came in."""
        people = await make()
        data: dict[str, Any] = {"name": "Ada", "list": [{"a": 1}], "home": {"town": "Rome"}}
        id = (await people.create(data))[people.id]
        for change in (None, people.update, people.patch):
            if change is not None:
                await change(id, data)
            stored = deepcopy(await people.get(id))
            data["list"][0]["a"] += 1
            data["home"]["zip"] = "1"
            data["name"] += "!"
            assert await people.get(id) == stored

    @pytest.mark.parametrize("method", ["find", "get", "create", "update", "patch"])
    async def test_answers_may_be_changed(self, make: Make, method: str) -> None:
        """What comes out has nothing in common with what is stored."""
        people = await seeded(make, [{"name": "Ada", "list": [{"a": 1}], "home": {"town": "Rome"}}])
        data = {"name": "Eve", "list": [{"a": 2}], "home": {"town": "Oslo"}}
        id = (await people.all())[0][people.id]
        if method == "find":
            record = (await people.find())[0]
        elif method == "create":
            record = await people.create(data)
        else:
            arguments = [] if method == "get" else [data]
            record = await people.bare(method, id, *arguments)
        before = deepcopy(await people.get(record[people.id]))
        # Hooks change results in place, as resolvers do.
        record["list"][0]["a"] = 99
        record["list"].append(1)
        record["home"]["town"] = "Bonn"
        record["name"] = "Changed"
        assert await people.get(record[people.id]) == before

    @pytest.mark.parametrize("data", HOSTILE)
    @pytest.mark.parametrize("method", ["update", "patch"])
    async def test_operators_in_changes_are_refused(
        self, make: Make, method: str, data: object
    ) -> None:
        """From outside, data of update and patch has no key that begins with $, at any depth."""
        people = await seeded(make, multi=True)
        before = await people.all()
        params = {"provider": "rest"}
        with pytest.raises(BadRequest, match=r"Invalid key \$"):
            await people.bare(method, before[0][people.id], data, params)
        if method == "patch":
            with pytest.raises(BadRequest, match=r"Invalid key \$"):
                await people.patch(None, data, **params)
        assert await people.all() == before

    @pytest.mark.parametrize("data", HOSTILE)
    async def test_operators_in_new_records_mean_nothing(self, make: Make, data: Record) -> None:
        """From outside, create refuses such keys, or stores them like any other key."""
        people = await make(multi=True)
        try:
            record = await people.create(data, provider="rest")
        except BadRequest:
            assert await people.all() == []
            with pytest.raises(BadRequest):
                await people.create([{"name": "Ada"}, data], provider="rest")
            assert await people.all() == []
        else:
            assert people.given(record) == {**data, people.id: record[people.id]}
            assert await people.get(record[people.id]) == record

    @pytest.mark.parametrize("method", ["create", "update", "patch"])
    async def test_data_has_a_hundred_levels(self, make: Make, method: str) -> None:
        """Data that is nested more deeply is a BadRequest, however deep it is."""
        people = await seeded(make)
        before = await people.all()
        arguments = [] if method == "create" else [before[0][people.id]]
        # 50,000 levels fit into 300 kB of JSON, and end a recursion of Python by an error.
        for levels in (101, 1_000, 50_000):
            with pytest.raises(BadRequest, match="levels"):
                await people.bare(method, *arguments, nested(levels))
        assert await people.all() == before
        await people.bare(method, *arguments, nested(90))

    @feature("free names")
    async def test_names_from_javascript_are_names(self, make: Make) -> None:
        """`__proto__`, `constructor` and the like are keys like any other."""
        people = await make()
        # Clients in JavaScript send them, and stores written in it once took them for code.
        data = {"__proto__": 1, "constructor": "x", "prototype": True, "toString": None}
        record = await people.create(data)
        assert people.given(record) == people.given({**data, people.id: record[people.id]})
        assert await people.find({"__proto__": 1, "constructor": "x"}) == [record]
        assert await people.find({"constructor": "y"}) == []

    async def test_methods_do_not_call_each_other(self, make: Make) -> None:
        """A public method calls no other public method, whose overriding would then count twice."""
        people = await seeded(make)
        id = (await people.all())[0][people.id]
        adapter = people.adapter

        async def must_not_run(*_: object) -> None:
            pytest.fail("a public method called another one")

        for method in METHODS:
            bound = getattr(adapter, method)
            for other in METHODS:
                setattr(adapter, other, must_not_run)
            data = [{"name": "Eve"}] if method in {"create", "update", "patch"} else []
            await bound(*([] if method in {"find", "create"} else [id]), *data)
            for other in METHODS:
                delattr(adapter, other)
