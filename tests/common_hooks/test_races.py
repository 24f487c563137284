"""Two users at once: what an update keeps is what is stored, whoever changes it meanwhile."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    Uuid,
)
from tests.common_hooks.conftest import ADA, BOB, app_of

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.sql import Database, SQLService
from alula.common_hooks import (
    discard,
    iff,
    is_external,
    only_own,
    prevent_changes,
    set_owner,
    timestamps,
)
from alula.errors import BadRequest, Conflict, NotFound
from alula.schema import with_schema

HOOKS = {
    "set_owner": lambda: {"around": [set_owner()]},
    "prevent_changes": lambda: {"before": [prevent_changes("userId")]},
    "under a condition": lambda: {"before": [iff(is_external(), prevent_changes("userId"))]},
}


def meanwhile(*changes):
    """Return a before hook that makes these patches of the application, one for each update."""
    waiting = list(changes)

    async def change(context):
        if context.method == "update" and waiting:
            await context.service.patch(context.id, waiting.pop(0))

    return change


class Busy(MemoryService):
    """A store in which others change the owner before each of the first updates."""

    def __init__(self, times, **options):
        super().__init__([{"id": 1, "userId": 7}], **options)
        self.times = times

    async def update(self, id, data, params=None):
        if self.times:
            self.times -= 1
            await self.patch(id, {"userId": 100 + self.times})
        return await super().update(id, data, params)


@pytest.mark.parametrize("hooks", HOOKS)
class TestEachStore:
    async def test_the_owner_that_another_sets_meanwhile_stays(self, notes, hooks):
        await notes.create({"id": 1, "text": "x", "userId": 7})
        notes.hooks(**HOOKS[hooks]()).hooks(before=[meanwhile({"userId": 9, "votes": 5})])
        note = await notes.update(1, {"text": "y"}, ADA)
        assert (note["userId"], note["text"]) == (9, "y")
        assert note.get("votes") is None  # which is not kept
        assert (await notes.get(1))["userId"] == 9

    async def test_an_owner_that_is_new_stays(self, notes, hooks):
        await notes.create({"id": 1, "text": "x"})
        notes.hooks(**HOOKS[hooks]()).hooks(before=[meanwhile({"userId": 9})])
        assert (await notes.update(1, {"text": "y"}, ADA))["userId"] == 9

    async def test_an_owner_that_is_gone_stays_gone(self, notes, hooks):
        await notes.create({"id": 1, "text": "x", "userId": 7})
        notes.hooks(**HOOKS[hooks]()).hooks(before=[meanwhile({"userId": None})])
        assert (await notes.update(1, {"text": "y"}, ADA))["userId"] is None

    async def test_two_users_at_once(self, notes, hooks):
        await notes.create({"id": 1, "text": "x", "userId": 0})
        notes.hooks(**HOOKS[hooks]())

        async def hand_over():
            for owner in range(1, 21):
                await notes.patch(1, {"userId": owner})
                note = await notes.get(1)
                assert note["userId"] == owner  # no update has taken it back

        async def write(user):
            for number in range(20):
                try:
                    await notes.update(1, {"text": str(number)}, user)
                except Conflict:
                    assert number >= 0  # refused rather than written over the new owner

        await asyncio.gather(hand_over(), write(ADA), write(BOB))
        assert (await notes.get(1))["userId"] == 20


class TestTries:
    async def test_an_update_is_tried_five_times(self):
        notes = app_of(Busy(4), around=[set_owner()])
        assert await notes.update(1, {"text": "y"}, ADA) == {"id": 1, "text": "y", "userId": 100}

    async def test_and_then_refused(self):
        notes = app_of(Busy(5), around=[set_owner()])
        with pytest.raises(Conflict, match="send the update again"):
            await notes.update(1, {"text": "y"}, ADA)
        assert await notes.get(1) == {"id": 1, "userId": 100}

    async def test_hooks_of_application_and_service_try_together(self):
        service = Busy(5)
        app = App().use("notes", service).hooks(around=[timestamps(now=lambda: 1)])
        await service.patch(1, {"createdAt": 0})
        notes = app.service("notes").hooks(around=[set_owner()])
        with pytest.raises(Conflict):
            await notes.update(1, {"text": "y"}, ADA)
        service.times = 4
        note = await notes.update(1, {"text": "y"}, ADA)
        assert note == {"id": 1, "text": "y", "userId": 100, "createdAt": 0, "updatedAt": 1}

    async def test_the_query_of_the_call_stays(self):
        queries = []
        notes = app_of(Busy(1), around=[set_owner()])
        notes.hooks(after={"update": [lambda context: queries.append(context.params.query)]})
        await notes.update(1, {"text": "y"}, query={"$select": ["text"]}, **ADA)
        assert queries == [{"$select": ["text"]}]

    async def test_one_event_is_emitted(self):
        events = []
        notes = app_of(Busy(2), around=[set_owner()])
        notes.on("updated", lambda note, context: events.append(note["userId"]))
        await notes.update(1, {"text": "y"}, ADA)
        assert events == [100]

    async def test_a_call_that_is_tried_again_by_another_hook(self):
        async def again(context, next):
            await next()
            await next()

        service = Busy(2)
        notes = app_of(service, around=[set_owner(), again])
        assert (await notes.update(1, {"text": "y"}, ADA))["userId"] == 100
        notes = app_of(Busy(2), around=[again, set_owner()])
        assert (await notes.update(1, {"text": "y"}, ADA))["userId"] == 100


class TestWhatIsRead:
    async def test_a_record_that_others_remove_is_not_found(self, memory):
        async def remove(context):
            await context.service.remove(context.id)

        notes = app_of(memory, before={"update": [prevent_changes("userId"), remove]})
        with pytest.raises(NotFound):
            await notes.update(1, {"text": "y"}, ADA)

    async def test_a_record_that_goes_to_another_owner_is_not_found(self, memory):
        notes = app_of(memory, around=[set_owner()], before=[only_own()])
        notes.hooks(before=[meanwhile({"userId": 8})])
        with pytest.raises(NotFound):
            await notes.update(1, {"text": "y"}, ADA)
        assert (await notes.get(1))["text"] == "Hello"

    async def test_a_value_that_is_other_than_sent_is_refused(self, memory):
        notes = app_of(memory, before=[prevent_changes("userId"), meanwhile({"userId": 9})])
        with pytest.raises(BadRequest, match="changes userId"):
            await notes.update(1, {"text": "y", "userId": 7}, ADA)
        assert await notes.get(1) == {"id": 1, "text": "Hello", "userId": 9}

    async def test_hooks_that_reduce_results_lose_nothing(self, memory):
        notes = app_of(memory, around=[set_owner()], after={"get": [discard("userId")]})
        await notes.update(1, {"text": "y"}, ADA)
        assert (await memory.get(1))["userId"] == 7

    async def test_a_service_of_another_application(self, memory):
        inner = App().use("notes", memory)
        notes = App().use("notes", inner.service("notes")).service("notes")
        notes.hooks(around=[set_owner()]).hooks(before=[meanwhile({"userId": 9})])
        assert (await notes.update(1, {"text": "y"}, ADA))["userId"] == 9

    async def test_a_plain_service(self):
        class Own:
            def get(self, id, params):
                return {"id": id, "userId": 9 if params.query else 7}

            def update(self, id, data, params):
                if params.query["userId"] != 9:
                    raise NotFound("no such record")
                return {"id": id, **data}

        notes = app_of(Own(), around=[set_owner()])
        note = await notes.update(1, {"text": "y"}, query={"text": "x"}, **ADA)
        assert note == {"id": 1, "text": "y", "userId": 9}

    async def test_a_hook_that_takes_the_data_away(self, memory):
        def spoil(context):
            context.data = "text"

        notes = app_of(memory, before={"update": [set_owner(), spoil]})
        with pytest.raises(BadRequest):
            await notes.update(1, {"text": "y"}, ADA)

    async def test_a_schema_sees_the_stored_owner_and_no_condition(self, memory):
        schema = {
            "properties": {"text": {"type": "string"}, "userId": {"type": "integer"}},
            "required": ["text", "userId"],
        }
        notes = app_of(with_schema(memory, schema, hidden=["userId"]), around=[set_owner()])
        notes.hooks(before=[meanwhile({"userId": 9})])
        assert await notes.update(1, {"text": "y"}, ADA)
        assert (await memory.get(1))["userId"] == 9


async def test_the_time_of_creation_that_is_stored_stays(notes):
    async def change(context):  # past the hooks, as another program would
        await context.service.service.patch(1, {"createdAt": 7})

    await notes.create({"id": 1, "text": "x", "createdAt": 5})
    notes.hooks(around=[timestamps(now=lambda: 100)], before={"update": [change]})
    note = await notes.update(1, {"text": "y"})
    assert (note["createdAt"], note["updatedAt"]) == (7, 100)


VALUES = {
    "text": (Text, "x", "y"),
    "flag": (Boolean, True, False),
    "float": (Float, 0.1 + 0.2, 2.5),
    "bytes": (LargeBinary, b"\0x", b"y"),
    "json": (JSON, {"a": [1, {"b": None}]}, {"a": []}),
    "list": (JSON, [1, "two", [3]], [1]),
    "empty": (JSON, {}, []),
    "decimal": (Numeric(10, 2), Decimal("1.10"), Decimal("2.20")),
    "moment": (
        DateTime(timezone=True),
        datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        datetime(2026, 1, 2, tzinfo=UTC),
    ),
    "uuid": (Uuid, UUID(int=1), UUID(int=2)),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("is_changed", [False, True])
async def test_values_of_every_type_are_compared_by_sqlite(kind, is_changed, tmp_path):
    column, before, after = VALUES[kind]
    table = Table(
        "kept",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("text", Text) if kind != "text" else Column("other", Text),
        Column("kept", column),
    )
    database = Database(f"sqlite:///{tmp_path}/kept.sqlite")
    handle = app_of(SQLService(table, database))
    await database.create()
    try:
        await handle.create({"id": 1, "kept": before})
        stored = (await handle.get(1))["kept"]
        changes = [{"kept": after}] if is_changed else []
        handle.hooks(before=[prevent_changes("kept"), meanwhile(*changes)])
        note = await handle.update(1, {}, ADA)
        assert (note["kept"] == stored) is not is_changed
    finally:
        await database.close()


@pytest.mark.parametrize("kind", ["text", "flag", "float", "json", "list", "empty", "moment"])
@pytest.mark.parametrize("is_changed", [False, True])
async def test_values_of_every_type_are_compared_by_other_stores(notes, kind, is_changed, request):
    if "sqlite" in request.node.name:
        return  # above, with a column of each type
    _, before, after = VALUES[kind]
    await notes.create({"id": 1, "kept": before})
    stored = (await notes.get(1))["kept"]
    changes = [{"kept": after}] if is_changed else []
    notes.hooks(before=[prevent_changes("kept"), meanwhile(*changes)])
    note = await notes.update(1, {"text": "y"}, ADA)
    assert (note["kept"] == stored) is not is_changed
