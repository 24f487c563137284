"""The filter ``$search`` finds the same records on both databases, whatever a client sends."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import Column, Computed, Integer, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import TSVECTOR

from alula.adapters.sql import Database, SQLService
from alula.adapters.sql._statements._search import fts5_expressions
from alula.errors import BadRequest

TEXTS = [
    "Milk and brown bread",
    "White bread, no milk",
    "Tea from Zürich",
    "bread brown",
    None,
    "well-known tea",
]


def notes(*more):
    return Table(
        "notes",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("title", Text),
        Column("text", Text),
        *more,
    )


@pytest.fixture
async def service(database):
    service = SQLService(notes(), database, search=["title", "text"], multi=True)
    await database.create(service)
    await service.create([{"text": text, "title": "x"} for text in TEXTS])
    return service


async def found(service, search):
    return [record["id"] for record in await service.find({"query": {"$search": search}})]


CASES = [
    ("milk", [1, 2]),
    ("MILK bread", [1, 2]),
    ('"brown bread"', [1]),
    ("bread -white", [1, 4]),
    ("tea or milk", [1, 2, 3, 6]),
    ('zürich or "white bread"', [2, 3]),
    ("zurich", []),
    ("x tea", [3, 6]),
    ("well-known", [6]),
    ("", []),
    ("  -  ", []),
    ('"', []),
    ('""', []),
    ("or", []),
    ('"tea', [3, 6]),
    ("text:milk", []),
    ("mil*", []),
    ("' or 1=1 --", []),
    ("-milk", [3, 4, 5, 6]),
    ("-milk -tea", [4, 5]),
    ('-"brown bread"', [2, 3, 4, 5, 6]),
    ("tea or -bread", [3, 5, 6]),
    ("-milk or -tea", [1, 2, 3, 4, 5, 6]),
    ("-x", []),
    ("-_", []),
    ("_ -milk", [3, 4, 5, 6]),
    ("-x or white", [2]),
    ("-milk or -bread -x or zürich", [3, 4, 5, 6]),
    ("NEAR(milk bread)", []),
]


@pytest.mark.parametrize(("search", "expected"), CASES)
def test_every_word_is_quoted(search, expected):
    for expression in fts5_expressions(search):
        outside = "".join(expression.split('"')[::2])
        assert set(re.sub("OR|NOT|AND", "", outside)) <= set(" ()")


async def test_search(service):
    results = {search: await found(service, search) for search, _ in CASES}
    assert results == dict(CASES)


async def test_the_index_follows_the_records(service):
    await service.patch(1, {"text": "coffee"})
    await service.remove(2)
    assert await found(service, "milk") == []
    assert await found(service, "coffee") == [1]
    page = await service.find({"query": {"$search": "bread", "title": "x"}, "paginate": {"max": 5}})
    assert page["total"] == 1
    assert await service.remove(None, {"query": {"$search": "tea"}})
    assert await found(service, "tea") == []


async def test_an_index_takes_in_the_records_that_are_there(database):
    plain = SQLService(notes(), database)
    await database.create(plain)
    await plain.create({"text": "milk"})
    service = SQLService(notes(), database, search=["text"])
    await database.create(service)
    await database.create(service)
    assert await found(service, "milk") == [1]


@pytest.mark.parametrize("search", [5, None, ["milk"], {"a": 1}, "a" * 1001, "a\0b", "\ud800"])
async def test_values_that_are_no_search(service, search):
    with pytest.raises(BadRequest, match=r"\$search"):
        await found(service, search)


async def test_a_column_of_vectors(postgresql_schema):
    database = Database(postgresql_schema)
    vectors = Column("words", TSVECTOR, Computed("to_tsvector('english', text)", persisted=True))
    service = SQLService(notes(vectors), database, search=["words"])
    await database.create(service)
    await service.create({"text": "Cats are running"})
    assert [record["id"] for record in await service.find({"query": {"$search": "cats"}})] == [1]
    await database.close()


async def test_columns_that_are_not_there(database):
    service = SQLService(notes(), database, search=["nme"])
    with pytest.raises(ValueError, match="search has 'nme'"):
        await database.create(service)
