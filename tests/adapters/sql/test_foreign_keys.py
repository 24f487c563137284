"""Relations without a key: it is that of the one foreign key between two tables."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, ForeignKey, ForeignKeyConstraint, Integer, MetaData, Table, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.sql import Database, SQLService, belongs_to, has_many
from alula.adapters.sql._tables import _foreign_keys
from alula.adapters.sql._tables._catalogue import read_table

metadata = MetaData()
users = Table(
    "users",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text),
    Column("boss_id", ForeignKey("users.id"), key="bossId"),
)
posts = Table(
    "posts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("author_id", ForeignKey("users.id"), key="authorId"),
)


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]
    bossId: Mapped[int | None] = mapped_column("boss_id", ForeignKey("users.id"))  # noqa: N815  # the name of a property in JSON


class Post(Base):
    __tablename__ = "posts"

    id: Mapped[int] = mapped_column(primary_key=True)
    authorId: Mapped[int | None] = mapped_column("author_id", ForeignKey(User.id))  # noqa: N815  # the name of a property in JSON


undeclared = Table(
    "posts",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("author_id", Integer, ForeignKey("users.id"), key="authorId"),
)


@pytest.fixture
async def database(sql_url):
    database = Database(sql_url)
    yield database
    await database.close()


@pytest.fixture
async def start(database):
    """Return a function that sets up services on two tables, and its application."""
    app = App()

    async def begin(users, posts, *, author=None, **options):
        author = author or belongs_to("users", filter=["name"])
        options = {"database": database, **options}
        relations = {"boss": belongs_to("users"), "posts": has_many("posts", sort={"id": 1})}
        app.use("posts", SQLService(posts, relations={"author": author}, **options))
        app.use("users", SQLService(users, relations=relations, **options))
        await app.setup()
        return app

    yield begin
    await app.teardown()


async def make(database, *statements):
    for statement in statements:
        await database.execute(statement)


PLAIN = (
    "create table users (id integer primary key, name text, boss_id integer references users (id))",
    "create table posts (id integer primary key, author_id integer references users (id))",
    "insert into users (id, name, boss_id) values (1, 'Ada', null), (2, 'Bob', 1)",
    "insert into posts (id, author_id) values (1, 2), (2, 1), (3, 2)",
)


@pytest.mark.parametrize(
    ("users", "posts", "keys"),
    [
        (users, posts, ("bossId", "authorId")),
        (User, Post, ("bossId", "authorId")),
        ("users", "posts", ("boss_id", "author_id")),
        ("users", undeclared, ("boss_id", "authorId")),
        (lambda: users, "posts", ("bossId", "author_id")),
    ],
    ids=["tables", "mapped classes", "names", "a name and a table", "a function and a name"],
)
async def test_keys_come_from_the_foreign_keys(start, database, users, posts, keys):
    await make(database, *PLAIN)
    app = await start(users, posts)
    relations = app.service("users").service.relations
    assert (relations["boss"].key, relations["posts"].key) == keys
    assert app.service("posts").service.relations["author"].key == keys[1]
    found = await app.service("posts").find(
        query={"$include": ["author.boss"], "author.name": "Bob", "$sort": {"id": 1}}
    )
    assert [post["id"] for post in found] == [1, 3]
    assert [post["author"]["boss"]["name"] for post in found] == ["Ada"] * 2
    bob = await app.service("users").get(2, query={"$include": ["posts"]})
    assert [post["id"] for post in bob["posts"]] == [1, 3]


async def test_two_foreign_keys_leave_it_open(start, database):
    await make(
        database,
        PLAIN[0],
        "create table posts (id integer primary key, writer integer references users (id),"
        " editor integer references users (id))",
    )
    expected = (
        "relations: 'author': 2 foreign keys lead from 'posts' to 'id' of 'users':"
        r" '(writer|editor)', '(writer|editor)'; name the property:"
        r" belongs_to\('users', '(writer|editor)'\)"
    )
    with pytest.raises(ValueError, match=expected):
        await start("users", "posts")


async def test_the_same_foreign_key_twice_is_one(start, database):
    await make(
        database,
        PLAIN[0],
        "create table posts (id integer primary key, author_id integer references users (id),"
        " foreign key (author_id) references users (id))",
    )
    app = await start("users", "posts")
    assert app.service("posts").service.relations["author"].key == "author_id"


@pytest.mark.parametrize(
    "columns",
    [
        "author_id integer",
        "author_id integer references users (number)",
        "author_id integer references other (id)",
    ],
    ids=["none", "to another column", "to another table"],
)
async def test_no_foreign_key(start, database, columns):
    await make(
        database,
        "create table users (id integer primary key, number integer unique, unique (id, number))",
        "create table other (id integer primary key)",
        f"create table posts (id integer primary key, {columns})",
    )
    with pytest.raises(ValueError, match="no foreign key leads from 'posts' to 'id'"):
        await start("users", "posts")


async def test_none_to_a_declared_table(start):
    to_another = Table(
        "posts", MetaData(), Column("id", Integer, primary_key=True),
        Column("a", Integer, ForeignKey("users.boss_id")),
    )  # fmt: skip
    expected = (
        r"^relations: 'author': no foreign key leads from 'posts' to 'id' of 'users';"
        r" name the property: belongs_to\('users', 'authorId'\)$"
    )
    with pytest.raises(ValueError, match=expected):
        await start(users, to_another)


async def test_none_for_records_that_refer_to_this_one(database):
    app = App()
    relations = {"comments": has_many("comments")}
    app.use("posts", SQLService(posts, database, relations=relations))
    app.use("comments", SQLService(users, database))
    expected = (
        "'comments': no foreign key leads from 'users' to 'id' of 'posts'; name the"
        r" property: has_many\('comments', '…Id'\)$"
    )
    with pytest.raises(ValueError, match=expected):
        await app.setup()


@pytest.mark.parametrize("where", ["another database", "memory"])
async def test_no_foreign_key_leads_out_of_a_database(database, where):
    app = App()
    other = Database("sqlite://")
    app.use("posts", SQLService(posts, database, relations={"author": belongs_to("users")}))
    app.use("users", MemoryService() if where == "memory" else SQLService(users, other))
    expected = (
        "relations: 'author': 'users' is not a SQLService on the same database, so no foreign key"
        r" can connect them; name the property: belongs_to\('users', 'authorId'\)"
    )
    with pytest.raises(ValueError, match=expected):
        await app.setup()


async def test_a_service_that_is_not_there(database):
    app = App()
    app.use("posts", SQLService(posts, database, relations={"author": belongs_to("users")}))
    with pytest.raises(LookupError, match="there is no service at 'users'"):
        await app.setup()


async def test_a_table_that_is_not_there_ends_the_setup(database, monkeypatch):
    closed = []
    close = database.close

    async def noting():
        closed.append(True)
        await close()

    monkeypatch.setattr(database, "close", noting)
    app = App()
    app.use("posts", SQLService("posts", database, relations={"author": belongs_to("users")}))
    app.use("users", SQLService("users", database))
    with pytest.raises(LookupError, match="the database has no table 'posts'"):
        await app.setup()
    assert closed == [True]
    await make(database, *PLAIN)
    await app.setup()
    assert app.service("posts").service.relations["author"].key == "author_id"
    await app.teardown()


async def test_declared_tables_need_no_database(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/missing/chat.sqlite")
    app = App()
    app.use("posts", SQLService(posts, database, relations={"author": belongs_to("users")}))
    app.use("users", SQLService(users, database))
    await app.setup()
    assert app.service("posts").service.relations["author"].key == "authorId"
    await app.teardown()
    await database.close()


async def test_calls_before_the_setup(database):
    app = App()
    author = belongs_to("users", filter=["name"])
    app.use("posts", SQLService(posts, database, relations={"author": author}))
    expected = r"the key of 'author' is not known yet; await app\.setup\(\) first"
    for query in ({"$include": ["author"]}, {"author.name": "Ada"}, {}):
        with pytest.raises(RuntimeError, match=expected):
            await app.service("posts").find(query=query)


async def test_a_key_that_is_named_is_used_as_it_is(start, database):
    await make(
        database,
        PLAIN[0],
        "create table posts (id integer primary key, writer integer references users (id),"
        " author_id integer references users (id))",
        "insert into users (id, name) values (1, 'Ada')",
        "insert into posts (id, writer) values (1, 1)",
    )
    app = App()
    author = belongs_to("users", "writer")
    app.use("posts", SQLService("posts", database, relations={"author": author}))
    app.use("users", SQLService("users", database))
    await app.setup()
    post = await app.service("posts").get(1, query={"$include": ["author"]})
    assert post["author"]["name"] == "Ada"
    await app.teardown()


# -- the catalogue ---------------------------------------------------------------------------------


async def test_foreign_keys_are_read_with_what_they_refer_to(database):
    await make(
        database,
        "create table users (id integer primary key, a integer, b integer, unique (a, b))",
        "create table posts (id integer primary key, x integer references users,"
        " y integer, z integer, foreign key (z, y) references users (b, a))"
        if database.dialect == "sqlite"
        else "create table posts (id integer primary key, x integer references users,"
        " y integer, z integer, foreign key (z, y) references users (a, b))",
    )
    keys = (await read_table(database, "posts")).info[_foreign_keys.FOREIGN_KEYS]
    # SQLite leaves the primary key unnamed, and allows every order of columns.
    implicit = () if database.dialect == "sqlite" else ("id",)
    of_two = ("b", "a") if database.dialect == "sqlite" else ("a", "b")
    assert sorted(keys, key=lambda key: key.columns) == [
        _foreign_keys.ForeignKey(("x",), "users", implicit),
        _foreign_keys.ForeignKey(("z", "y"), "users", of_two),
    ]
    assert (await read_table(database, "users")).info[_foreign_keys.FOREIGN_KEYS] == []


@pytest.mark.parametrize(
    ("number", "target"),
    [("id", "Users (ID)"), ("number", "users")],
    ids=["in another case", "a primary key without a name"],
)
async def test_what_sqlite_takes_for_the_same(number, target):
    database = Database("sqlite://")
    await make(
        database,
        f"create table users ({number} integer primary key, name text)",
        f"create table posts (id integer primary key, author_id integer references {target})",
    )
    app = App()
    app.use("posts", SQLService("posts", database, relations={"author": belongs_to("users")}))
    app.use("users", SQLService("users", database))
    await app.setup()
    assert app.service("posts").service.relations["author"].key == "author_id"
    await app.teardown()


async def test_postgresql_has_tables_of_one_name_in_several_schemas(postgresql_schema):
    database = Database(postgresql_schema)
    schema = (await database.fetch("select current_schema() as name"))[0]["name"]
    other = f"{schema}_other"
    await make(
        database,
        f"create schema {other}",
        "create table users (id integer primary key)",
        f"create table {other}.users (id integer primary key)",
        "create table posts (id integer primary key, owner integer references users,"
        f" author integer references {other}.users)",
    )
    try:
        for name, key in (("users", "owner"), (f"{other}.users", "author")):
            app = App()
            relations = {"author": belongs_to("users")}
            app.use("posts", SQLService("posts", database, relations=relations))
            app.use("users", SQLService(name, database))
            await app.setup()
            assert app.service("posts").service.relations["author"].key == key
            await app.teardown()
    finally:
        await make(database, f"drop schema {other} cascade")
        await database.close()


def declared(schema, refers_to, posts_schema=None):
    """Return tables of users and posts; the foreign key names a table of its own words."""
    users = Table("users", MetaData(), Column("id", Integer, primary_key=True), schema=schema)
    owner = Column("owner", Integer, ForeignKey(f"{refers_to}.id"))
    id_column = Column("id", Integer, primary_key=True)
    return users, Table("posts", MetaData(), id_column, owner, schema=posts_schema)


async def test_a_schema_on_the_search_path_may_be_named_or_not(postgresql_schema):
    database = Database(postgresql_schema)
    schema = (await database.fetch("select current_schema() as name"))[0]["name"]
    await make(
        database,
        "create table users (id integer primary key)",
        "create table posts (id integer primary key, owner integer references users)",
        f"create schema {schema}_other",
        f"create table {schema}_other.users (id integer primary key)",
    )
    models = [
        declared(None, f"{schema}.users"),
        declared(schema, "users"),
        declared(schema, "users", posts_schema=schema),
        ("users", declared(None, f"{schema}.users")[1]),
        (declared(schema, "users")[0], "posts"),
    ]
    try:
        for users, posts in models:
            app = App()
            relations = {"author": belongs_to("users")}
            app.use("posts", SQLService(posts, database, relations=relations))
            app.use("users", SQLService(users, database))
            await app.setup()
            assert app.service("posts").service.relations["author"].key == "owner"
            await app.teardown()
        app = App()
        posts = declared(None, f"{schema}_other.users")[1]
        app.use("posts", SQLService(posts, database, relations={"author": belongs_to("users")}))
        app.use("users", SQLService("users", database))
        with pytest.raises(ValueError, match="no foreign key leads"):
            await app.setup()
    finally:
        await make(database, f"drop schema {schema}_other cascade")
        await database.close()


@pytest.mark.parametrize("is_declared", [True, False])
async def test_the_column_for_the_id_counts_in_a_key_of_several(database, is_declared):
    await make(
        database,
        "create table users (tenant integer, id integer, name text, primary key (tenant, id))",
        "create table posts (id integer primary key, tenant integer, author integer,"
        " foreign key (author, tenant) references users (id, tenant))",
        "insert into users (tenant, id, name) values (1, 1, 'Ada'), (1, 2, 'Bob')",
        "insert into posts (id, tenant, author) values (1, 1, 2), (2, 1, null), (3, 1, 1)",
    )
    tables = MetaData()
    users = Table(
        "users",
        tables,
        Column("tenant", Integer, primary_key=True),
        Column("id", Integer, primary_key=True),
        Column("name", Text),
    )
    posts = Table(
        "posts",
        tables,
        Column("id", Integer, primary_key=True),
        Column("tenant", Integer),
        Column("author", Integer, key="by"),
        ForeignKeyConstraint(["tenant", "by"], ["users.tenant", "users.id"]),
    )
    app = App()
    with pytest.raises(ValueError, match="has the columns 'tenant', 'id', and an id is one value"):
        SQLService(users, database)
    relations = {"user": belongs_to("users", filter=["name"])}
    app.use("posts", SQLService(posts if is_declared else "posts", database, relations=relations))
    model = users if is_declared else "users"
    written = {"posts": has_many("posts", sort={"id": 1})}
    app.use("users", SQLService(model, database, id="id", relations=written))
    await app.setup()
    assert app.service("posts").service.relations["user"].key == ("by" if is_declared else "author")
    found = await app.service("posts").find(
        query={"$include": ["user"], "$sort": {"user.name": -1}}
    )
    names = [post["user"] and post["user"]["name"] for post in found]
    assert [name for name in names if name] == ["Bob", "Ada"]
    ada = await app.service("users").get(1, query={"$include": ["posts"]})
    assert [post["id"] for post in ada["posts"]] == [3]
    await app.teardown()


async def test_a_key_to_a_primary_key_of_several_columns_that_names_none_is_left_open():
    database = Database("sqlite://")
    await make(
        database,
        "create table users (id integer, tenant integer, primary key (tenant, id))",
        "create table posts (id integer primary key, tenant integer, author integer,"
        " foreign key (tenant, author) references users)",
    )
    app = App()
    app.use("posts", SQLService("posts", database, relations={"author": belongs_to("users")}))
    app.use("users", SQLService("users", database, id="id"))
    with pytest.raises(ValueError, match="no foreign key leads from 'posts' to 'id' of 'users'"):
        await app.setup()
    await database.close()
