"""Rules for queries: what each filter and operator selects, and which fields $select returns."""
# ruff: noqa: A001, S101  # `id` is the word of the interface; tests assert

from __future__ import annotations

import re
from typing import Any, TypeAlias

import pytest

from alula.errors import BadRequest
from alula.testing._rules.subject import CREW, Make, Rules, Subject, feature, names, seeded
from alula.types import Record

__all__ = ["QueryRules", "SelectRules"]

METHODS = ["find", "get", "create", "update", "patch", "remove"]
DATA = {"name": "Eve", "age": 1, "town": "Rome"}

SELECTED: list[tuple[Any, list[str]]] = [
    ({}, ["Ada", "Bela", "Cleo"]),
    ({"name": "Cleo"}, ["Cleo"]),
    ({"name": "cleo"}, []),
    ({"name": "Cleo", "age": 19}, ["Cleo"]),
    ({"name": "Cleo", "age": 20}, []),
    ({"name": {"$in": ["Ada", "Cleo", "Eve"]}}, ["Ada", "Cleo"]),
    ({"name": {"$in": []}}, []),
    ({"name": {"$nin": ["Ada", "Cleo"]}}, ["Bela"]),
    ({"name": {"$nin": []}}, ["Ada", "Bela", "Cleo"]),
    ({"name": {"$ne": "Ada"}}, ["Bela", "Cleo"]),
    ({"age": {"$lt": 25}}, ["Cleo"]),
    ({"age": {"$lte": 25}}, ["Bela", "Cleo"]),
    ({"age": {"$gt": 25}}, ["Ada"]),
    ({"age": {"$gte": 25}}, ["Ada", "Bela"]),
    ({"age": {"$gt": 19, "$lt": 36}}, ["Bela"]),
    ({"age": {"$gt": 19, "$ne": 25}}, ["Ada"]),
    ({"age": {"$gt": 24.5}}, ["Ada", "Bela"]),
    ({"name": {"$gte": "Bela"}}, ["Bela", "Cleo"]),
    ({"name": {"$lt": "Bela"}}, ["Ada"]),
    ({"$or": [{"name": "Cleo"}, {"name": "Ada"}]}, ["Ada", "Cleo"]),
    ({"$or": [{"name": "Ada"}, {"age": {"$gte": 18, "$lt": 25}}]}, ["Ada", "Cleo"]),
    ({"$or": [{"name": "Ada"}, {"age": 36}]}, ["Ada"]),
    ({"$or": [{"name": "Ada"}, {"name": "Bela"}], "age": 25}, ["Bela"]),
    ({"$or": [{"name": "Ada", "age": 25}]}, []),
    ({"$and": [{"age": 19}]}, ["Cleo"]),
    ({"$and": [{"age": {"$gt": 19}}, {"age": {"$lt": 36}}]}, ["Bela"]),
    ({"$and": [{"name": "Ada"}, {"name": "Bela"}]}, []),
    ({"$and": [{"$or": [{"name": "Ada"}, {"name": "Cleo"}]}, {"age": 19}]}, ["Cleo"]),
    ({"$or": [{"$and": [{"name": "Ada"}, {"age": 36}]}, {"name": "Bela"}]}, ["Ada", "Bela"]),
    # Objects with index keys: beyond 20 items, a query string in brackets has lists in this form.
    ({"$or": {"0": {"name": "Cleo"}, "1": {"name": "Ada"}}}, ["Ada", "Cleo"]),
    ({"name": {"$in": {str(i): f"x{i}" for i in range(25)} | {"25": "Ada"}}}, ["Ada"]),
    ({"name": {"$nin": {str(i): f"x{i}" for i in range(25)} | {"25": "Ada"}}}, ["Bela", "Cleo"]),
    # A query string with one item does not show that it is a list: name[$in]=Ada.
    ({"name": {"$in": "Ada"}}, ["Ada"]),
    ({"nothing": "Ada"}, []),
    ({"nothing": {"$gt": 1}}, []),
]
# Only code of the server can have these: JSON has no regular expressions.
BY_EXPRESSION: list[tuple[Any, list[str]]] = [
    ({"name": re.compile("^[ab]", re.IGNORECASE)}, ["Ada", "Bela"]),
    ({"name": re.compile("^[ab]")}, []),
    ({"name": {"$in": [re.compile("^A"), "Cleo"]}}, ["Ada", "Cleo"]),
    ({"name": {"$ne": re.compile("^A")}}, ["Bela", "Cleo"]),
    ({"name": {"$nin": [re.compile("^A"), "Cleo"]}}, ["Bela"]),
    ({"name": {"$ne": re.compile("^A"), "$nin": ["Cleo"]}}, ["Bela"]),
    ({"$or": [{"name": re.compile("o$")}, {"age": re.compile("3")}]}, ["Cleo"]),
]

# Directions as text, since that is all that a query string carries.
SORTED: list[tuple[Any, list[str]]] = [
    ({"$sort": {"name": 1}}, ["Ada", "Bela", "Cleo", "Dan"]),
    ({"$sort": {"name": -1}}, ["Dan", "Cleo", "Bela", "Ada"]),
    ({"$sort": {"name": "1"}}, ["Ada", "Bela", "Cleo", "Dan"]),
    ({"$sort": {"name": "-1"}}, ["Dan", "Cleo", "Bela", "Ada"]),
    ({"$sort": {"age": 1, "name": 1}}, ["Cleo", "Bela", "Dan", "Ada"]),
    ({"$sort": {"age": 1, "name": -1}}, ["Cleo", "Dan", "Bela", "Ada"]),
    ({"$sort": {"age": -1, "name": 1}}, ["Ada", "Bela", "Dan", "Cleo"]),
    ({"$sort": {"name": 1}, "age": {"$gt": 19}}, ["Ada", "Bela", "Dan"]),
    ({"$sort": {"name": 1}, "$skip": 1}, ["Bela", "Cleo", "Dan"]),
    ({"$sort": {"name": 1}, "$limit": 2}, ["Ada", "Bela"]),
    ({"$sort": {"name": 1}, "$skip": "1", "$limit": "2"}, ["Bela", "Cleo"]),
    ({"$sort": {"name": 1}, "$skip": 9}, []),
    ({"$sort": {"name": 1}, "$limit": 0}, []),
]

# A filter that is dropped in silence selects more than was asked for: too much for a remove.
REFUSED: list[Any] = [
    {"$foo": 1},
    # MongoDB runs it as code.
    {"$where": "1"},
    {"name": {"$foo": 1}},
    {"name": {"$ne": "x", "$foo": 1}},
    {"name": {"$where": "1"}},
    # An operator of MongoDB that FeathersJS does not have.
    {"name": {"$eq": "Ada"}},
    {"name": {"$not": {"$eq": "Ada"}}},
    {"name": {"$in": [{"$foo": 1}]}},
    {"a": {"b": {"$foo": 1}}},
    {"$or": [{"$foo": 1}]},
    {"$or": [{"$limit": 1}]},
    {"$or": [{"$and": [{"$where": "1"}]}]},
    {"$or": "name"},
    {"$or": []},
    {"$and": {"name": "Ada"}},
    {"name": {"$and": [{"name": "Ada"}]}},
    {"name": {"$in": {"a": 1}}},
    {"$limit": -1},
    {"$limit": "ten"},
    {"$limit": 1.5},
    {"$limit": None},
    {"$skip": -1},
    {"$skip": [1]},
    {"$sort": "name"},
    {"$sort": {"name": 2}},
    {"$sort": {"name": "up"}},
    {"$sort": {"$where": 1}},
]

Table: TypeAlias = tuple[list[Record], list[tuple[Any, list[int]]]]

# Each line of these tables has a query and the positions of the records that it selects.
NOTHING_IS_NULL: Table = (
    [{"v": None}, {}, {"v": 0}, {"v": 5}, {"v": -1}],
    [
        ({"v": None}, [0, 1]),
        ({"v": {"$ne": None}}, [2, 3, 4]),
        ({"v": {"$in": [None, 0]}}, [0, 1, 2]),
        ({"v": {"$nin": [None, 0]}}, [3, 4]),
        ({"v": {"$ne": 0}}, [0, 1, 3, 4]),
        ({"v": {"$nin": [0, 5]}}, [0, 1, 4]),
        ({"v": {"$gte": 0}}, [2, 3]),
        ({"v": {"$lt": 5}}, [2, 4]),
        ({"v": {"$lte": None}}, [0, 1]),
        ({"$or": [{"v": {"$gt": 0}}, {"v": None}]}, [0, 1, 3]),
    ],
)
NOTHING_IS_NULL_AMONG_TYPES: Table = (
    [{"v": None}, {}, {"v": 0}, {"v": ""}, {"v": False}],
    [
        ({"v": None}, [0, 1]),
        ({"v": {"$ne": None}}, [2, 3, 4]),
        ({"v": {"$in": [None, 0]}}, [0, 1, 2]),
        ({"v": {"$nin": [None, 0]}}, [3, 4]),
        ({"v": {"$ne": 0}}, [0, 1, 3, 4]),
        # As in MongoDB, null and what is missing are equal.
        ({"v": {"$lte": None}}, [0, 1]),
    ],
)
MIXED_TYPES: Table = (
    [{"v": 25}, {"v": "25"}, {"v": True}, {"v": 1}, {"v": 0}, {"v": ""}],
    [
        ({"v": 25}, [0]),
        ({"v": "25"}, [1]),
        # JSON has one type of numbers.
        ({"v": 25.0}, [0]),
        ({"v": True}, [2]),
        ({"v": 1}, [3]),
        ({"v": {"$in": [1, "25"]}}, [1, 3]),
        ({"v": {"$gt": 0}}, [0, 3]),
        ({"v": {"$gt": "0"}}, [1]),
        ({"v": {"$lte": "25"}}, [1, 5]),
        ({"v": {"$ne": 25}}, [1, 2, 3, 4, 5]),
    ],
)
LISTS: Table = (
    [{"v": ["a", "b"]}, {"v": "a"}, {"v": []}, {"v": ["c"]}, {}, {"v": [{"x": 1}, {"x": 5}]}],
    [
        ({"v": "a"}, [0, 1]),
        ({"v": ["a", "b"]}, [0]),
        ({"v": ["b", "a"]}, []),
        ({"v": {"$in": ["b", "c"]}}, [0, 3]),
        ({"v": {"$ne": "a"}}, [2, 3, 4, 5]),
        ({"v": {"$nin": ["a", "c"]}}, [2, 4, 5]),
        ({"v": {"$gt": "b"}}, [3]),
        # As in MongoDB, another element may meet each of the tests.
        ({"v": {"$gte": "b", "$lt": "b"}}, [0]),
        ({"v.x": 5}, [5]),
        ({"v.x": {"$lt": 5}}, [5]),
        ({"v.x": {"$ne": 5}}, [0, 1, 2, 3, 4]),
    ],
)
DOTTED_NAMES: Table = (
    [{"a": {"b": 1}}, {"a": {"b": 2, "c": {"d": "x"}}}, {"a": 1}, {}],
    [
        ({"a.b": 1}, [0]),
        ({"a.c.d": "x"}, [1]),
        ({"a.b": {"$gt": 1}}, [1]),
        ({"a.b": {"$in": [1, 2]}}, [0, 1]),
        ({"a.b": {"$ne": 1}}, [1, 2, 3]),
        # So a query string in brackets is read: a[b][$gte]=1.
        ({"a": {"b": {"$gte": 1}}}, [0, 1]),
        ({"a": {"b": 1}}, [0]),
        ({"a": {"b": 2}}, []),
        ({"$or": [{"a.b": 1}, {"a.c.d": "x"}]}, [0, 1]),
    ],
)


async def check_table(make: Make, table: Table) -> None:
    """Check which records each query of a table selects."""
    records, lines = table
    people = await seeded(make, [{"n": n, **record} for n, record in enumerate(records)])
    for query, positions in lines:
        assert await positions_of(people, query) == positions, f"wrong selection by {query}"


async def positions_of(people: Subject, query: object) -> list[int]:
    """Return the positions of the records that a query selects."""
    return sorted(record["n"] for record in await people.find(query))


class QueryRules(Rules):
    """What holds for queries."""

    @pytest.mark.parametrize(("query", "selected"), SELECTED)
    async def test_criteria_select(self, make: Make, query: object, selected: list[str]) -> None:
        """Criteria select the records that meet all of them."""
        people = await seeded(make)
        try:
            records = await people.find(query)
        except BadRequest:
            # A store whose fields have one type each may refuse another one.
            if self.has("mixed types") or query != {"nothing": {"$gt": 1}}:
                raise
        else:
            assert sorted(names(records)) == selected

    @feature("regular expressions")
    async def test_regular_expressions_select(self, make: Make) -> None:
        """A compiled expression matches text in which it is found, and no other value."""
        people = await seeded(make)
        for query, selected in BY_EXPRESSION:
            assert sorted(names(await people.find(query))) == selected, query

    @pytest.mark.parametrize(("query", "in_order"), SORTED)
    async def test_sort_orders(self, make: Make, query: object, in_order: list[str]) -> None:
        """$sort orders by its fields, the first counting most; then $skip, then $limit."""
        people = await seeded(make, [*CREW, {"name": "Dan", "age": 25}])
        assert names(await people.find(query)) == in_order

    async def test_sort_sees_every_write(self, make: Make) -> None:
        """A sort that was used before is right after every kind of write."""
        people = await seeded(make)
        query = {"$sort": {"age": 1}}
        assert names(await people.find(query)) == ["Cleo", "Bela", "Ada"]
        dan = (await people.create({"name": "Dan", "age": 30}))[people.id]
        assert names(await people.find(query)) == ["Cleo", "Bela", "Dan", "Ada"]
        await people.patch(dan, {"age": 1})
        assert names(await people.find(query)) == ["Dan", "Cleo", "Bela", "Ada"]
        await people.update(dan, {"name": "Dan", "age": 99})
        assert names(await people.find(query)) == ["Cleo", "Bela", "Ada", "Dan"]
        await people.remove(dan)
        assert names(await people.find(query)) == ["Cleo", "Bela", "Ada"]

    @pytest.mark.parametrize("query", REFUSED)
    async def test_a_wrong_query_is_refused(self, make: Make, query: object) -> None:
        """What the grammar does not have is a BadRequest in every method, and changes nothing."""
        people = await seeded(make)
        before = await people.all()
        with pytest.raises(BadRequest):
            await people.find(query)
        for method in ("get", "update", "patch", "remove"):
            with pytest.raises(BadRequest):
                await people.with_id(method, before[0][people.id], query)
        assert await people.all() == before

    @feature("nothing is null")
    async def test_a_missing_field_is_null(self, make: Make) -> None:
        """Null asks for what is null or missing; both come first in an order."""
        await check_table(make, NOTHING_IS_NULL)
        if self.has("mixed types"):
            await check_table(make, NOTHING_IS_NULL_AMONG_TYPES)
        people = await seeded(make, [{"n": 0, "v": 2}, {"n": 1}, {"n": 2, "v": None}])
        records = await people.find({"$sort": {"v": 1, "n": 1}})
        assert [record["n"] for record in records] == [1, 2, 0]

    @feature("mixed types")
    async def test_types_are_told_apart(self, make: Make) -> None:
        """Values of different types are never equal, greater or less; their order is by type."""
        await check_table(make, MIXED_TYPES)
        values: list[Any] = [True, "b", 2, None, {"x": 1}, 1.5, "a", False]
        people = await seeded(make, [{"v": value} for value in values])
        in_order = [None, 1.5, 2, "a", "b", {"x": 1}, False, True]
        assert [record["v"] for record in await people.find({"$sort": {"v": 1}})] == in_order
        records = await people.find({"$sort": {"v": -1}})
        assert [record["v"] for record in records] == in_order[::-1]

    @feature("lists")
    async def test_lists_match_by_their_elements(self, make: Make) -> None:
        """A list meets a test if it or one of its elements does; $ne and $nin are the opposite."""
        await check_table(make, LISTS)

    @feature("dotted names")
    async def test_dotted_names_lead_into_objects(self, make: Make) -> None:
        """A name with dots names a field inside; an object as a whole must be equal."""
        await check_table(make, DOTTED_NAMES)
        people = await seeded(make, [{"n": n, "a": {"b": -n}} for n in range(3)])
        records = await people.find({"$sort": {"a.b": 1}})
        assert [record["n"] for record in records] == [2, 1, 0]


class SelectRules(Rules):
    """What holds for the fields that a result has."""

    @pytest.mark.parametrize("method", METHODS)
    async def test_select_works_with_every_method(self, make: Make, method: str) -> None:
        """The result has the selected fields, and always the id."""
        people = await seeded(make, [DATA])
        id = (await people.all())[0][people.id]
        arguments: list[Any] = [] if method in {"find", "create"} else [id]
        data = [DATA] if method in {"create", "update", "patch"} else []
        for fields, wanted in (
            (["name"], {"name": "Eve"}),
            (["name", "town"], {"name": "Eve", "town": "Rome"}),
            (["nothing"], {}),
            ([people.id, "age"], {"age": 1}),
            ({"0": "name"}, {"name": "Eve"}),
        ):
            people = await seeded(make, [DATA])
            arguments[:1] = [(await people.all())[0][people.id]] if arguments else []
            query = {"$select": fields}
            result = await people.bare(method, *arguments, *data, {"query": query})
            record = result[0] if method == "find" else result
            assert record.pop(people.id) is not None
            assert people.given(record) == wanted

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
        assert people.given(await people.get(id)) == {**DATA, people.id: id}
        await people.patch(id, {"age": 2}, {"$select": ["name"]})
        assert people.given(await people.get(id)) == {**DATA, "age": 2, people.id: id}
        query = {"age": 2, "$sort": {"town": 1}, "$select": ["name"]}
        assert await people.find(query) == [created]

    @pytest.mark.parametrize("wrong", [{"name": 1}, [{"name": 1}], ["$where"], [""], [5], "$a"])
    async def test_select_is_a_list_of_names(self, make: Make, wrong: object) -> None:
        """Anything else is a BadRequest, in every method, and nothing is stored or changed."""
        people = await seeded(make)
        before = await people.all()
        id = before[0][people.id]
        for method, arguments in (
            ("find", ()),
            ("get", (id,)),
            ("create", (DATA,)),
            ("update", (id, DATA)),
            ("patch", (id, DATA)),
            ("remove", (id,)),
        ):
            with pytest.raises(BadRequest, match=r"\$select"):
                await people.bare(method, *arguments, {"query": {"$select": wrong}})
        assert await people.all() == before
        assert len(before) == len(CREW)

    @feature("parts")
    async def test_select_keeps_parts_of_objects(self, make: Make) -> None:
        """A name with dots leads into objects and lists of objects, whose structure stays."""
        whole = {"a": {"b": {"c": 1, "d": 2}, "e": 3}, "list": [{"x": 1, "y": 2}, 5, {"y": 3}]}
        people = await seeded(make, [whole])
        cases: list[tuple[list[str], Record]] = [
            (["a.b.c"], {"a": {"b": {"c": 1}}}),
            (["a.b.c", "a.e"], {"a": {"b": {"c": 1}, "e": 3}}),
            (["a.b"], {"a": {"b": {"c": 1, "d": 2}}}),
            (["a.nothing"], {"a": {}}),
            *([(["nothing.at.all"], {})] if self.has("free names") else []),
            (["a.e.f"], {"a": {}}),
            (["list.x"], {"list": [{"x": 1}, {}]}),
        ]
        for fields, wanted in cases:
            record = (await people.find({"$select": fields}))[0]
            assert record.pop(people.id) is not None
            assert people.given(record) == wanted
