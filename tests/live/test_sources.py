"""What changes a list without its own records: foreign keys, and databases with secondaries."""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa
from pymongo import AsyncMongoClient, ReadPreference
from tests.live.test_lists import Client, connection
from tests.waiting import eventually

from alula import App, Params
from alula._live import live_lists_of
from alula._live._notices import Notice
from alula._live._sources import concerned_users, related_to
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.adapters.relations import belongs_to
from alula.adapters.sql import Database, SQLService

metadata = sa.MetaData()
users = sa.Table("users", metadata, sa.Column("id", sa.Integer, primary_key=True))
rooms = sa.Table(
    "rooms",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("owner", sa.ForeignKey("users.id", ondelete="CASCADE")),
    sa.Column("name", sa.Text),
)
notes = sa.Table(
    "notes",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("room", sa.ForeignKey("rooms.id", ondelete="cascade")),
    sa.Column("author", sa.ForeignKey("users.id", ondelete="RESTRICT")),
    sa.Column("above", sa.ForeignKey("notes.id", ondelete="CASCADE")),
)
TABLES = [users, rooms, notes]


@pytest.mark.parametrize("names", [False, True])
async def test_records_that_go_with_others_leave(sql_url, names):
    """Whether the tables are declared, or read from the database."""
    database = Database(sql_url)
    app = App()
    await database.acquire()
    try:
        SQLService(notes, database)
        for table in TABLES:
            await database.execute(str(sa.schema.CreateTable(table)).strip())
        for table in TABLES:
            app.use(table.name, SQLService(table.name if names else table, database))
        service = app.service("notes").live(pause=0.001)
        lists = live_lists_of(app)
        await app.setup()
        for number in (1, 2):
            await app.service("users").create({"id": number})
            await app.service("rooms").create({"id": number, "owner": number})
        for number, room, above in [(1, 1, None), (2, 2, None), (3, 2, 2), (4, 2, 3)]:
            await service.create({"id": number, "room": room, "above": above})
        client = await Client(lists, service, id={"$ne": 2}).open()
        figures = app.channel_registry.list_figures
        before = figures.reads
        await app.service("rooms").patch(1, {"name": "tea"})
        assert await client.rest() == ["snapshot"]
        assert figures.reads == before  # only what is removed there takes notes with it
        await app.service("notes").remove(2)  # the one on which 3 and so 4 stand
        assert await client.rest() == ["snapshot", "left", "left"]
        await app.service("users").remove(1)  # with its room, and so with its notes
        assert await client.rest() == ["snapshot", "left", "left", "left"]
        await app.teardown()
    finally:
        await database.release()


async def test_a_service_whose_table_is_not_known_stands_on_no_other():
    assert SQLService("notes", Database("sqlite://")).changed_with() == frozenset()


def test_replicas_are_not_asked():
    url = "postgresql://localhost/alula"
    params = Params(sql={"max_time_ms": 5})
    SQLService(notes, Database(url)).ask_primary(params)
    assert params.sql == {"max_time_ms": 5}
    SQLService(notes, Database(url, read=url)).ask_primary(params)
    assert params.sql == {"max_time_ms": 5, "primary": True}
    params = Params()
    SQLService(notes, Database(url, read=url)).ask_primary(params)
    assert params.sql == {"primary": True}


@pytest.mark.parametrize(
    ("url", "given", "expected"),
    [
        ("mongodb://x", None, None),
        ("mongodb://x", {"comment": "c"}, {"comment": "c"}),
        ("mongodb://x", {"session": 1}, {"session": 1}),
        ("mongodb://x", {"read_preference": 1}, {"read_preference": ReadPreference.PRIMARY}),
        (
            "mongodb://x/?readPreference=secondary",
            None,
            {"read_preference": ReadPreference.PRIMARY},
        ),
    ],
)
def test_secondaries_are_not_asked(url, given, expected):
    client = AsyncMongoClient(url, connect=False)
    params = Params(docdb=given)
    MongoDBService(client["alula"]["notes"]).ask_primary(params)
    assert params.docdb == expected


def test_a_collection_that_is_not_known_may_prefer_secondaries():
    params = Params()
    MongoDBService(lambda: None).ask_primary(params)
    assert params.docdb == {"read_preference": ReadPreference.PRIMARY}


async def test_reads_of_lists_say_so(tmp_path):
    class Asked(SQLService):
        asked = 0

        def ask_primary(self, params):
            self.asked += 1

    database = Database(f"sqlite:///{tmp_path / 'notes.sqlite'}")
    service = Asked(users, database)
    await database.acquire()
    await database.execute(str(sa.schema.CreateTable(users)).strip())
    app = App().use("users", service)
    app.service("users").live(pause=0.001)
    lists = live_lists_of(app)
    await app.setup()
    await app.service("users").find()
    assert service.asked == 0
    await Client(lists, app.service("users")).open()
    assert service.asked == 1
    await app.teardown()
    await database.release()


async def test_services_that_are_related_to_each_other_are_found_once():
    people = MemoryService(relations={"post": belongs_to("posts", "postId")})
    posts = MemoryService(relations={"author": belongs_to("people", "authorId")})
    app = App().use("people", people).use("posts", posts)
    found = [source.handle for source in related_to(app.service("posts"))]
    assert found == [app.service("people"), app.service("posts")]


@pytest.fixture
async def memberships():
    """Todos of the teams of their caller, and the calls of `find` for lists."""
    app = App()
    app.use("members", MemoryService([{"id": 1, "user": "ann", "team": "red"}], start_id=2))
    app.use("todos", MemoryService([{"id": 1, "team": "red"}, {"id": 2, "team": "blue"}]))
    app.use("teams", MemoryService())
    dependencies = {"teams": lambda team: team["users"], "/members": lambda each: [each["user"]]}
    todos = app.service("todos").live(depends_on=dependencies, pause=0.001)
    readers = []

    async def of_own_teams(context):
        user = context.params.user["id"]
        readers.append(user)
        found = await app.service("members").find(query={"user": user})
        context.params.query["team"] = {"$in": [member["team"] for member in found]}

    todos.hooks(before={"find": [of_own_teams]})
    lists = live_lists_of(app)
    await app.setup()
    clients = [
        await Client(lists, todos, connection(user={"id": user})).open() for user in ("ann", "bob")
    ]
    readers.clear()
    yield app.service("members"), clients, readers
    await app.teardown()


async def test_only_the_lists_of_users_whom_a_new_record_names_are_read(memberships):
    members, (ann, bob), readers = memberships
    created = await members.create({"user": "bob", "team": "blue"})
    await eventually(lambda: bob.kinds == ["snapshot", "entered"])
    await members.remove(created["id"])
    await eventually(lambda: bob.kinds == ["snapshot", "entered", "left"])
    assert readers == ["bob", "bob"]
    await members.patch(1, {"user": "bob"})  # whom it named before is not known
    await eventually(lambda: ann.kinds == ["snapshot", "left"])
    await eventually(lambda: bob.kinds == ["snapshot", "entered", "left", "entered"])


async def test_many_changes_of_a_dependency_read_a_list_once_a_second(memberships):
    members, (ann, _), readers = memberships
    await members.create({"user": "ann", "team": "green"})
    await ann.rest()
    assert readers == ["ann"]  # at once
    begun = time.monotonic()
    for team in ("white", "blue"):
        await members.create({"user": "ann", "team": team})
    await eventually(lambda: ann.kinds == ["snapshot", "entered"])
    assert readers == ["ann", "ann"]
    assert time.monotonic() - begun > 0.9


@pytest.mark.parametrize(
    ("notice", "users"),
    [
        (Notice("created", [1], [{"user": 7}]), {"7"}),
        (Notice("removed", [1, 2], [{"user": 7}, {"user": 8}]), {"7", "8"}),
        (Notice("patched", [1], [{"user": 7}]), None),
        (Notice("created", [1, 2], [{"user": 7}, None]), None),
        (Notice("created", [1], []), None),
        (Notice("touched", None), None),
        (Notice("created", [1], [{"team": "a text too long for other processes"}]), None),
    ],
)
def test_whose_lists_a_change_concerns(notice, users):
    assert concerned_users(lambda record: [record["user"]], notice) == users
    assert concerned_users(None, notice) is None


@pytest.mark.parametrize("wrong", ["members", {"members": "user"}])
def test_dependencies_that_are_none(wrong):
    app = App().use("todos", MemoryService())
    with pytest.raises(
        TypeError, match=r"live\(depends_on=.*\) takes a list of paths, or a mapping"
    ):
        app.service("todos").live(depends_on=wrong)
