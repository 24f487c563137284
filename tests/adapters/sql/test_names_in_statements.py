"""Names that statements give to parts of their own never meet those of a user's table."""

from __future__ import annotations

import asyncio
import re

import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
    Column,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from alula import App
from alula.adapters.sql import SQLService, belongs_to, has_many
from alula.adapters.sql._names import RESERVED

# What statements of this or another time call their parts, and what databases call theirs.
TEXTS = [
    "c0",
    "c1",
    "c2",
    "sort0",
    "sort1",
    "record_id",
    "stored_id",
    "place",
    "position",
    "number",
    "total",
    "row_number",
    "count",
    "ordinality",
    "item",
    "given",
    "stored",
    "changing",
    "one",
    "changed",
    "page",
    "counted",
    "related",
    "element",
    "wanted",
    "key",
    "type",
    "root",
    "json",
    "oid",
    "excluded",
    "old",
    "new",
    "other",
    "search",
    "select",
    "order",
]
OPERATORS = ["$contains", "$overlaps", "$elemMatch", "$size", "$like", "$ilike", "$not", "$eq"]
TABLES = [
    "related",
    "given",
    "item",
    "page",
    "one",
    "counted",
    "changing",
    "changed",
    "stored",
    "element",
    "wanted",
    "excluded",
    "value",
    "number",
    "place",
    "old",
    "new",
    "order",
]


def model(name, id="id"):
    return Table(
        name,
        MetaData(),
        Column(id, Integer, primary_key=True),
        Column("parent", ForeignKey(f"{name}.{id}")),
        *(Column(text, Text) for text in TEXTS if text != id),
        Column("value", ARRAY(Text)),
        Column("atom", JSON(none_as_null=True)),
        Column("fullkey", JSON(none_as_null=True)),
        UniqueConstraint("place", *(["position"] if id != "position" else [])),
    )


def record(number, id="id"):
    values = {text: f"{text} {number % 3}" for text in TEXTS if text != id}
    values |= {"place": f"{number:02}", "value": ["a", str(number)]}
    values |= {} if id == "position" else {"position": "x"}
    return values | {"atom": [number], "at": number, "parent": 1 if number else None}


async def calls_of(service, *calls):
    """Make calls at the same time."""
    return await asyncio.gather(*(getattr(service, name)(*given) for name, *given in calls))


def ids(records, id="id"):
    return [record[id] for record in (records["data"] if isinstance(records, dict) else records)]


@pytest.fixture
async def make(database):
    """Return a function that makes a service on a table of a given name, with 12 records."""
    app = App()

    async def made(name="notes", id="id"):
        service = SQLService(
            model(name, id), database, multi=True, paginate={"default": 20}, extra="fullkey",
            operators=OPERATORS, update_operators=["$inc", "$push", "$max"],
            paths={"atom.at": int, "at": int}, search=["place", "total"],
            relations={
                "parent_record": belongs_to("notes", "parent", filter=["place", "record_id"]),
                "children": has_many("notes", "parent", sort={"place": -1}),
            },
        )  # fmt: skip
        app.use("notes", service)
        await database.create(service)
        await app.setup()
        notes = app.service("notes")
        await notes.create(record(0, id))
        # Some at once, each with a statement of its own or a shared one, the rest as a list.
        await calls_of(notes, *(("create", record(number, id)) for number in range(1, 6)))
        await notes.create([record(number, id) for number in range(6, 12)])
        return notes

    yield made
    await app.teardown()


async def reads(notes, id):
    every = {text: f"{text} 1" for text in TEXTS if text not in {"place", "position", id}}
    order = {**dict.fromkeys(TEXTS[:10], -1), "parent_record.record_id": 1, id: 1}
    # Twice the same in different words, at once: pages, totals and gets share round trips.
    pages = await calls_of(
        notes,
        *(("find", {"query": {"position": text, "$sort": order}}) for text in ("x", "y", "x")),
        *(("find", {"query": {**every, "$sort": order}}) for _ in range(2)),
        *(("find", {"query": {"place": {"$gt": text}, "$limit": 3}}) for text in ("01", "04")),
        *(("find", {"query": {"place": text}, "paginate": False}) for text in ("01", "04")),
    )
    assert [page["total"] for page in pages[:7]] == [12, 0, 12, 4, 4, 10, 7]
    everything = sorted(ids(pages[0], id))
    assert [len(page) for page in pages[7:]] == [1, 1]
    got = await calls_of(notes, *(("get", key) for key in everything))
    assert ids(got, id) == everything
    selects = {"query": {"$select": ["place", "record_id"]}}
    got = await calls_of(notes, *(("get", key, selects) for key in everything))
    assert sorted(one["place"] for one in got) == [f"{number:02}" for number in range(12)]
    for query, count in [
        ({"value": "a"}, 12),
        ({"value": {"$contains": ["a", "3"]}}, 1),
        ({"value": {"$overlaps": ["4", "3"]}}, 2),
        ({"value": {"$elemMatch": {"$like": "1%"}}}, 3),
        ({"value": {"$in": ["4", "3"]}}, 2),
        ({"value": {"$ne": "3"}}, 11),
        ({"value": {"$size": 2}}, 12),
        ({"atom": {"$contains": [3]}}, 1),
        ({"atom": {"$overlaps": [3, 4]}}, 2),
        ({"at": {"$in": [3, 4]}}, 2),
        ({"place": {"$in": ["03", "04"]}, "total": {"$nin": ["x"]}}, 2),
        ({"$search": "total 03"}, 1),
        ({"parent_record.place": "00"}, 11),
        ({"parent_record.record_id": {"$ne": None}, "place": {"$lt": "02"}}, 1),
        ({"$or": [{"parent_record.place": {"$in": ["00"]}}, {"place": "00"}]}, 12),
    ]:
        found, count_alone = await calls_of(
            notes, ("find", {"query": query}), ("find", {"query": {**query, "$limit": 0}})
        )
        assert (len(found["data"]), found["total"], count_alone["total"]) == (count,) * 3, query


async def writes(notes, id):
    everything = ids(await notes.find({"query": {"$sort": {"place": 1}}}), id)
    first, *others = everything
    # With and without a query: the conditions are in the same statement.
    query = {"query": {"place": {"$gt": ""}, "parent_record.place": "00"}}
    for params in ({}, query):
        data = [{"place": f"p{number}", "total": str(number)} for number in range(len(others))]
        patched = await calls_of(
            notes, *(("patch", key, one, params) for key, one in zip(others, data, strict=True))
        )
        assert [(one[id], one["place"], one["total"]) for one in patched] == [
            (key, one["place"], one["total"]) for key, one in zip(others, data, strict=True)
        ]
    order = {"sort0": 1, "record_id": -1, "parent_record.place": 1, "place": -1}
    query = {"parent_record.place": "00", "value": "a", "$sort": order, "$select": ["place"]}
    expected = ids(await notes.find({"query": query}), id)
    changed = await notes.patch(None, {"sort0": "s", "record_id": "r"}, {"query": query})
    assert ids(changed, id) == expected
    assert len(expected) == 11
    await notes.patch(others[0], {"$push": {"value": "z", "atom": 1}, "$max": {"total": "z"}})
    changed = await notes.patch(None, {"atom.at": 7, "odd": 1, "$push": {"value": "y"}})
    assert [(one["atom"]["at"], one["odd"], one["value"][-1]) for one in changed] == [
        (7, 1, "y")
    ] * 12
    whole = {"place": "u", "position": "x", "total": "t"}
    assert (await notes.update(others[0], whole))["total"] == "t"
    for name in ("one", "two"):
        data = {"place": "u", "position": "x", "excluded": name, "stored": name}
        upserted = await notes.create(data, {"sql": {"upsert": ["place", "position"]}})
        assert (upserted[id], upserted["excluded"], upserted["total"]) == (others[0], name, "t")
    assert (await notes.remove(others[0]))["place"] == "u"
    removed = await notes.remove(None, {"query": {**query, "$limit": 20}})
    assert len(removed) == 10
    assert ids(await notes.find(), id) == [first]


async def relations(notes, id):
    found = await notes.find({"query": {"$include": ["parent_record", "children"], "place": "01"}})
    assert found["data"][0]["parent_record"]["place"] == "00"
    got = await notes.get(found["data"][0]["parent"], {"query": {"$include": ["children"]}})
    assert [one["place"] for one in got["children"]] == [f"{at:02}" for at in range(11, 0, -1)]


async def test_of_columns(make):
    notes = await make()
    await reads(notes, "id")
    await relations(notes, "id")
    await writes(notes, "id")


QUOTED = re.compile(r"""(["`'])(?:(?!\1).)*\1""")
# The row that an insert was refused for, as both databases call it.
NOT_GIVEN = {"materialized", "excluded"}


async def test_every_name_that_is_given_is_reserved(make, watched):
    notes = await make()
    texts = watched(notes.service.database)
    await reads(notes, "id")
    await relations(notes, "id")
    await writes(notes, "id")
    given = set()
    for text in texts:
        words = QUOTED.sub("''", text)
        given |= {*re.findall(r"\bas (\w+)", words), *re.findall(r"(?<![:\w])([a-z]\w*)\.", words)}
        for columns in re.findall(r"\bas \w+ ?\(([\w, ]*)\)", words):
            given |= {*columns.split(", ")}
    names = given - NOT_GIVEN
    assert len(names) > 3
    assert {name for name in names if not name.startswith(RESERVED)} == set()


@pytest.mark.parametrize("id", ["record_id", "position", "sort0", "c0", "value_id"])
async def test_of_the_id(make, id):
    notes = await make(id=id)
    query = {"$sort": {"number": 1, "place": -1}}
    before = ids(await notes.find({"query": query}), id)
    assert len(before) == 12
    assert sorted(ids(await calls_of(notes, *(("get", key) for key in before)), id)) == sorted(
        before
    )
    patched = await calls_of(notes, *(("patch", key, {"number": "n"}) for key in before))
    assert ids(patched, id) == before
    assert ids(await notes.patch(None, {"number": "m"}, {"query": {"$sort": {id: -1}}}), id) == (
        sorted(before, reverse=True)
    )


@pytest.mark.parametrize("name", TABLES)
async def test_of_tables(make, name):
    notes = await make(name)
    await reads(notes, "id")
    await relations(notes, "id")
    await writes(notes, "id")


def table_of(name, *columns):
    return Table(name, MetaData(), Column("id", Integer, primary_key=True), *columns)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (table_of("alula_page"), "^the table 'alula_page' cannot have this name: names that begin"),
        (table_of("ALULA_x"), "^the table 'ALULA_x' cannot have this name"),
        (
            table_of("notes", Column("Alula_c0", Text)),
            "^the column 'Alula_c0' of the table 'notes' cannot have this name",
        ),
        (
            table_of("notes", Column("alula_c0", Text, key="fine")),
            "^the column 'alula_c0' of the table 'notes' .* rename it$",
        ),
    ],
)
async def test_reserved_names_are_refused(database, table, message):
    with pytest.raises(ValueError, match=message):
        SQLService(table, database)


async def test_a_property_may_have_any_name(database):
    service = SQLService(table_of("alulas", Column("c", Text, key="alula_c0")), database)
    assert service.id == "id"


async def test_a_table_that_is_read_is_refused_too(database, caplog):
    app = App()
    await database.execute("create table notes (id integer primary key, alula_page text)")
    app.use("notes", SQLService("notes", database))
    await app.setup()
    assert "the column 'alula_page' of the table 'notes' cannot have this name" in caplog.text
    await app.teardown()


async def test_a_table_that_hides_a_function(database):
    if database.dialect == "sqlite":
        with pytest.raises(
            ValueError, match=r"^the table 'json_each' cannot have this name: state"
        ):
            SQLService(table_of("json_each"), database)
        return
    service = SQLService(table_of("json_each"), database)
    await database.create(service)
    created = [await service.create({}) for _ in range(2)]
    assert await service.find({"query": {"id": {"$in": [1, 2]}}}) == created


@pytest.mark.parametrize("names", [["rowid"], ["RowId", "_rowid_"]])
async def test_a_search_in_a_table_that_hides_its_row_numbers(database, names):
    columns = [Column(name, Text) for name in (*names, "text")]
    service = SQLService(table_of("notes", *columns), database, search=["text"], multi=True)
    await database.create(service)
    hidden = dict.fromkeys(names, "5")
    await service.create([{"text": text, **hidden} for text in ("tea", "milk", "tea with milk")])
    await service.patch(1, {"text": "water"})
    assert ids(await service.find({"query": {"$search": "tea"}})) == [3]
    await service.remove(3)
    assert ids(await service.find({"query": {"$search": "milk"}})) == [2]


@pytest.mark.parametrize("name", ["rank", "rowid", "Notes_search"])
async def test_columns_that_cannot_be_searched(database, name):
    service = SQLService(table_of("notes", Column(name, Text)), database, search=[name])
    if database.dialect == "sqlite":
        with pytest.raises(ValueError, match=f"^search has '{name}'; SQLite cannot search in a"):
            await database.create(service)
    else:
        await database.create(service)
        created = await service.create({name: "tea"})
        assert await service.find({"query": {"$search": "tea"}}) == [created]
