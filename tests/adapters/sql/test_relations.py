"""Relations between tables: few statements for a page, and queries that name related rows."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from sqlalchemy import Column, ForeignKey, Integer, MetaData, Table, Text, Uuid

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.sql import Database, SQLService, belongs_to, has_many
from alula.errors import BadRequest, NotFound

metadata = MetaData()
users = Table(
    "users",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("bossId", ForeignKey("users.id")),
)
posts = Table(
    "posts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("text", Text),
    Column("authorId", ForeignKey("users.id")),
)

ONE, TWO = UUID(int=1), UUID(int=2)
USERS = [{"name": "Ada"}, {"name": "Bob", "bossId": 1}, {"name": "Cleo", "bossId": 2}]
POSTS = [{"text": f"post {n}", "authorId": n % 3 + 1 if n else None} for n in range(12)]


@pytest.fixture
async def app(sql_url):
    database = Database(sql_url)
    app = App()
    boss = belongs_to("users", "bossId", filter=["name"])
    written = has_many("posts", "authorId", limit=2, sort={"id": -1})
    app.use(
        "users", SQLService(users, database, multi=True, relations={"boss": boss, "posts": written})
    )
    author = belongs_to("users", "authorId", filter=["name"])
    app.use(
        "posts",
        SQLService(
            posts, database, multi=True, paginate={"default": 20}, relations={"author": author}
        ),
    )
    await database.create()
    await app.setup()
    await app.service("users").create(USERS)
    await app.service("posts").create(POSTS)
    yield app
    await app.teardown()


@pytest.fixture
async def in_memory():
    database = Database("sqlite://")
    yield database
    await database.close()


async def test_a_page_includes_the_records_that_it_refers_to(app):
    page = await app.service("posts").find(query={"$include": ["author"], "$sort": {"id": 1}})
    assert page["total"] == 12
    names = [post["author"] and post["author"]["name"] for post in page["data"]]
    assert names == [None, *["Bob", "Cleo", "Ada"] * 4][:12]


async def test_and_what_refers_to_a_record(app):
    user = await app.service("users").get(1, query={"$include": ["posts", "boss"]})
    assert [post["text"] for post in user["posts"]] == ["post 9", "post 6"]
    assert user["boss"] is None


@pytest.mark.parametrize("select", [["author"], ["text", "author"], ["author.name"]])
async def test_a_relation_that_is_included_may_be_selected_by_its_name(app, select):
    query = {"$include": ["author"], "$select": select}
    post = await app.service("posts").get(2, query=query)
    assert post == {"id": 2, "author": {"id": 2, "name": "Bob", "bossId": 1}} | (
        {"text": "post 1"} if "text" in select else {}
    )
    user = await app.service("users").get(1, query={"$include": ["posts"], "$select": ["posts"]})
    assert [user.keys(), len(user["posts"])] == [{"id", "posts"}, 2]
    with pytest.raises(BadRequest, match="author"):
        await app.service("posts").get(2, query={"$select": select})


async def test_in_two_statements(app, watched):
    texts = watched(app.service("posts").service.database)
    await app.service("posts").find(query={"$include": ["author"], "$limit": 12})
    assert len(texts) == 2


@pytest.mark.parametrize(
    ("type_", "new", "asked", "again"),
    [
        (Text(), ["a", "b"], ["a", "c", "b", "a"], []),
        (Text(), ["a", "b"], ["a", "A", "b"], ["A"]),
        (Text(collation="NOCASE"), ["a", "B"], ["A", "a", "b", "c", "B"], ["A", "b"]),
        (Uuid(), [ONE, TWO], [str(ONE), TWO, UUID(int=3)], []),
        (Uuid(as_uuid=False), [str(ONE), str(TWO)], [str(ONE), str(TWO)], []),
    ],
)
async def test_gets_on_sqlite_find_what_each_finds_alone(
    in_memory, watched, type_, new, asked, again
):
    things = Table("things", MetaData(), Column("id", type_, primary_key=True), Column("n", Text))
    service = SQLService(things, in_memory, multi=True)
    await in_memory.create(service)
    await service.create([{"id": key, "n": str(key)} for key in new])
    alone = {"adapter": {"share": False}, "query": {"$select": ["n"]}}
    calls = [service.get(key, alone) for key in asked]
    expected = [str(each) for each in await asyncio.gather(*calls, return_exceptions=True)]
    texts = watched(in_memory)
    calls = [service.get(key, {"query": {"$select": ["n"]}}) for key in asked]
    together = [str(each) for each in await asyncio.gather(*calls, return_exceptions=True)]
    assert together == expected
    # Only a text that is like the id of a record, but not the same, is looked up again.
    assert len(texts) == 1 + len(again)


async def test_what_refers_to_the_records_of_a_page_takes_two_statements(app, watched):
    texts = watched(app.service("users").service.database)
    users = await app.service("users").find(query={"$include": ["posts"], "$sort": {"id": 1}})
    assert len(users) == 3
    assert [post["text"] for post in users[0]["posts"]] == ["post 9", "post 6"]
    assert len(texts) == 2


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({"author.name": "Ada"}, [4, 7, 10]),
        ({"author.name": {"$ne": "Ada"}, "id": {"$lt": 6}}, [1, 2, 3, 5]),
        ({"author.name": {"$in": ["Ada", "Bob"]}, "id": {"$lt": 6}}, [2, 4, 5]),
        ({"$or": [{"author.name": "Cleo"}, {"id": 1}], "id": {"$lt": 7}}, [1, 3, 6]),
        ({"author.name": None}, [1]),
        ({"author.name": {"$gt": "Ada", "$lt": "C"}}, [2, 5, 8, 11]),
    ],
)
async def test_a_query_names_a_related_row(app, query, ids):
    page = await app.service("posts").find(query={**query, "$sort": {"id": 1}})
    assert [post["id"] for post in page["data"]] == ids
    assert page["total"] == len(ids)


async def test_an_order_does_too(app):
    query = {"$sort": {"author.name": -1, "id": -1}, "$limit": 5}
    page = await app.service("posts").find(query=query)
    assert [post["id"] for post in page["data"]] == [12, 9, 6, 3, 11]
    assert page["total"] == 12


async def test_a_table_may_refer_to_itself(app):
    users = await app.service("users").find(query={"boss.name": "Bob"})
    assert [user["name"] for user in users] == ["Cleo"]


async def test_changes_have_the_same_conditions(app):
    posts, query = app.service("posts"), {"author.name": "Ada"}
    with pytest.raises(NotFound):
        await posts.patch(2, {"text": "x"}, query=query)
    assert (await posts.patch(4, {"text": "x"}, query=query))["text"] == "x"
    changed = await posts.patch(None, {"text": "y"}, query={**query, "$sort": {"id": -1}})
    assert [post["id"] for post in changed] == [10, 7, 4]
    assert len(await posts.remove(None, query=query)) == 3
    assert (await posts.find(query=query))["total"] == 0


async def test_what_was_not_opened_is_no_field(app):
    with pytest.raises(BadRequest, match=r"author\.bossId"):
        await app.service("posts").find(query={"author.bossId": 1})


async def test_a_related_row_in_another_store_is_refused(sql_url):
    database = Database(sql_url)
    app = App()
    relations = {"author": belongs_to("people", "authorId", filter=["name"])}
    app.use("people", MemoryService())
    app.use("posts", SQLService(posts, database, relations=relations))
    await database.create()
    await app.setup()
    with pytest.raises(RuntimeError, match="needs 'people' to be a SQLService on the same"):
        await app.service("posts").find(query={"author.name": "Ada"})
    await app.teardown()


async def test_a_relation_by_a_column_that_is_not_there(sql_url):
    database = Database(sql_url)
    app = App()
    relations = {"author": belongs_to("users", "writer", filter=["name"])}
    app.use("users", SQLService(users, database))
    app.use("posts", SQLService(posts, database, relations=relations))
    await database.create()
    await app.setup()
    with pytest.raises(ValueError, match="relations: 'posts' has no column 'writer'"):
        await app.service("posts").find()
    await app.teardown()
