"""What an upsert has done: events, hooks, and transactions that run again."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text

from alula import App
from alula.adapters.sql import Database, SQLService, transaction
from alula.errors import BadRequest

users = Table(
    "users",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("email", Text, unique=True),
    Column("name", Text),
)
UPSERT = {"upsert": ["email"]}
EVENTS = ("created", "patched", "updated", "removed", "chosen")


@pytest.fixture
async def app(sql_url):
    app = App()
    database = Database(sql_url)
    app.set("database", database)
    app.use("users", SQLService(users, database, multi=True, events=["chosen"]))
    await database.create()
    await app.setup()
    yield app
    await app.teardown()


@pytest.fixture
def service(app):
    return app.service("users")


@pytest.fixture
def seen(app):
    seen = []
    for event in EVENTS:
        app.service("users").on(
            event, lambda user, _, event=event: seen.append((event, user["name"]))
        )
    return seen


async def test_a_single_one(service, seen):
    first = await service.create({"email": "a@b", "name": "Ada"}, sql=UPSERT)
    second = await service.create({"email": "a@b", "name": "Ann"}, sql=UPSERT)
    assert first["id"] == second["id"]
    assert seen == [("created", "Ada"), ("patched", "Ann")]


async def test_a_list_has_an_event_for_each(service, seen):
    await service.create({"email": "b@b", "name": "Bob"})
    data = [{"email": f"{name[0].lower()}@b", "name": name} for name in ("Ada", "Bea", "Cleo")]
    records = await service.create(data, sql=UPSERT, query={"$select": ["name"]})
    assert [record["name"] for record in records] == ["Ada", "Bea", "Cleo"]
    assert seen[1:] == [("created", "Ada"), ("patched", "Bea"), ("created", "Cleo")]
    seen.clear()
    await service.create(data, sql=UPSERT)
    assert seen == [("patched", "Ada"), ("patched", "Bea"), ("patched", "Cleo")]
    seen.clear()
    twice = [{"email": "z@b", "name": "Zoe"}, {"email": "z@b", "name": "Zora"}]
    await service.create(twice, sql=UPSERT)
    assert seen == [("created", "Zoe"), ("patched", "Zora")]


async def test_hooks_learn_of_it(service, seen):
    learned = []

    async def learn(context):
        learned.append((context.event, context.result_events))

    service.hooks(after={"create": [learn]})
    await service.create([{"email": "a@b", "name": "Ada"}], sql=UPSERT)
    await service.create([{"email": "a@b", "name": "Ada"}], sql=UPSERT)
    await service.create([{"email": n, "name": n} for n in ("a@b", "b@b")], sql=UPSERT)
    assert learned == [
        ("created", None),
        ("patched", None),
        ("created", ["patched", "created"]),
    ]
    assert [event for event, _ in seen] == ["created", "patched", "patched", "created"]


@pytest.mark.parametrize("event", ["chosen", None])
async def test_an_event_that_a_hook_has_chosen_stays(service, seen, event):
    await service.create({"email": "a@b", "name": "Ada"})
    seen.clear()

    async def choose(context):
        context.event = event

    service.hooks(before={"create": [choose]})
    await service.create({"email": "a@b", "name": "Ann"}, sql=UPSERT)
    await service.create([{"email": n, "name": n} for n in ("a@b", "b@b")], sql=UPSERT)
    assert [name for name, _ in seen] == [event] * (3 if event else 0)


async def test_an_event_that_a_hook_chooses_later_is_that_of_all(service, seen):
    await service.create({"email": "a@b", "name": "Ada"})
    seen.clear()

    async def choose(context):
        context.event = "chosen"

    service.hooks(after={"create": [choose]})
    await service.create([{"email": n, "name": n} for n in ("a@b", "b@b")], sql=UPSERT)
    assert [name for name, _ in seen] == ["chosen", "chosen"]


async def test_a_result_that_a_hook_has_changed(service, seen):
    await service.create({"email": "a@b", "name": "Ada"})
    seen.clear()

    async def shorten(context):
        context.result = context.result[:1]

    service.hooks(after={"create": [shorten]})
    await service.create([{"email": n, "name": n} for n in ("a@b", "b@b")], sql=UPSERT)
    assert seen == [("created", "a@b")]


async def test_of_upserts_at_the_same_time_one_creates(service, seen):
    await asyncio.gather(
        *(service.create({"email": "a@b", "name": f"{n}"}, sql=UPSERT) for n in range(10))
    )
    assert sorted(event for event, _ in seen) == ["created"] + ["patched"] * 9


async def test_in_a_transaction_that_runs_again(app, service, seen):
    attempts = []

    async def fail_once(context):
        attempts.append(context.result_events)
        if len(attempts) == 1 and app.get("database").dialect == "postgresql":
            await context.params.sql["connection"].execute(
                "do $$ begin raise sqlstate '40001'; end $$"
            )

    service.hooks(around={"create": [transaction()]}, after={"create": [fail_once]})
    await service.create([{"email": "a@b", "name": "Ada"}], sql=UPSERT)
    assert seen == [("created", "Ada")]


async def test_an_older_postgresql(service, seen, monkeypatch):
    monkeypatch.setattr("alula.adapters.sql._operation._RETURNS_OLD", (99,))
    for name in ("Ada", "Ann"):
        await service.create({"email": "a@b", "name": name}, sql=UPSERT)
    assert seen == [("created", "Ada"), ("patched", "Ann")]


async def test_a_service_around_it_passes_it_on(app, service, seen):
    class Wrapper:
        async def create(self, data, params=None):
            return await service.service.create(data, {"sql": UPSERT})

    class Other:
        async def create(self, data, params=None):
            await service.service.create(data, {"sql": UPSERT})
            return {"name": "other"}

    told = []
    for name, outer in (("wrapper", Wrapper()), ("other", Other())):
        app.use(name, outer)
        for event in EVENTS[:2]:
            app.service(name).on(event, lambda _, context: told.append(context.event))
    for _ in range(2):
        await app.service("wrapper").create({"email": "a@b", "name": "Ada"})
    await app.service("other").create({"email": "a@b", "name": "Ada"})
    assert told == ["created", "patched", "created"]


TRIGGERS = {
    "sqlite": ["create trigger refuse before insert on users begin select raise(ignore); end"],
    "postgresql": [
        "create function nothing() returns trigger language plpgsql"
        " as $$ begin return null; end $$",
        "create trigger nothing before insert on users for each row execute function nothing()",
    ],
}


async def test_one_that_a_trigger_prevents(service, app, seen):
    database = app.get("database")
    for statement in TRIGGERS[database.dialect]:
        await database.execute(statement)
    with pytest.raises(BadRequest, match="has not stored this"):
        await service.create({"email": "a@b", "name": "Ada"}, sql=UPSERT)
    assert seen == []
