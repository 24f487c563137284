"""Times of creation, change and removal."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from tests.authentication.building import add_user, login, make_app
from tests.common_hooks.conftest import ADA, app_of

from alula import App
from alula.adapters.memory import MemoryService
from alula.common_hooks import iff, is_external, only_own, soft_delete, timestamps, utc_now
from alula.errors import BadRequest, MethodNotAllowed, NotFound
from alula.schema import with_schema


@pytest.fixture
def ticks():
    """A clock: 100, 101, ..."""
    return iter(range(100, 200)).__next__


class TestTimestamps:
    async def test_the_clock_of_the_server_counts(
        self, notes, ticks, has_operators, updates_by_operators
    ):
        notes.hooks(around=[timestamps(now=ticks)])

        def times(note):
            return note["createdAt"], note["updatedAt"]

        assert times(await notes.create({"id": 1, "createdAt": 1, "updatedAt": 1}, ADA)) == (
            100, 100,
        )  # fmt: skip
        assert times(await notes.patch(1, {"createdAt": 1, "updatedAt": 1, "votes": 1})) == (
            100, 101,
        )  # fmt: skip
        assert times(await notes.update(1, {"createdAt": 1, "votes": 1}, ADA)) == (100, 102)
        several = await notes.create([{"id": 2}, {"id": 3}])
        assert [*map(times, several)] == [(103, 103), (103, 103)]
        if has_operators:
            data = {"$inc": {"votes": 1, "createdAt": 1}, "$set": {"createdAt": 1}}
            assert times(await notes.patch(1, data, ADA)) == (100, 104)
        if updates_by_operators:
            assert times(await notes.update(1, data, ADA)) == (100, 105)
            data = {"$inc": {"votes": 1}}
            assert times(await notes.update(1, data, ADA)) == (100, 106)

    async def test_one_may_be_left_out(self, memory, ticks):
        notes = app_of(memory, before=[timestamps(updated=None, now=ticks)])
        await notes.create({"id": 5})
        assert await notes.patch(5, {"createdAt": 1}) == {"id": 5, "createdAt": 100}
        assert await notes.update(5, {"text": "x"}) == {"id": 5, "text": "x", "createdAt": 100}
        notes = app_of(memory, before=[timestamps(None, "changed", now=ticks)])
        assert (await notes.update(5, {}))["changed"] == 103
        assert "createdAt" not in await notes.get(5)

    async def test_in_a_condition_methods_without_data_pass(self, memory, ticks):
        notes = app_of(memory, before=[iff(is_external(), timestamps(now=ticks))])
        assert (await notes.create({"id": 5}, ADA))["createdAt"] == 100
        assert await notes.get(5, ADA) == {"id": 5, "createdAt": 100, "updatedAt": 100}

    async def test_an_update_of_a_record_without_a_time_sets_none(self, memory, ticks):
        notes = app_of(memory, before=[timestamps(updated=None, now=ticks)])
        assert await notes.update(1, {"text": "x", "createdAt": 5}) == {"id": 1, "text": "x"}

    async def test_an_update_that_creates_has_a_time(self, ticks):
        class Upserting:
            async def get(self, id, params):
                raise NotFound("none")

            async def update(self, id, data, params):
                return data

        notes = app_of(Upserting(), before=[timestamps(now=ticks)])
        assert await notes.update(1, {}) == {"createdAt": 100, "updatedAt": 100}

    async def test_an_update_of_what_is_not_a_record_sets_no_time(self, ticks):
        class Own:
            async def get(self, id, params):
                return None

            async def update(self, id, data, params):
                return data

        own = app_of(Own(), before=[timestamps(updated=None, now=ticks)])
        assert await own.update(1, {5: "x"}) == {5: "x"}

    async def test_other_methods_pass(self, memory):
        notes = app_of(memory, around=[timestamps()])
        assert len(await notes.find()) == 3

    async def test_the_default_is_in_milliseconds(self, memory):
        notes = app_of(memory, around=[timestamps()])
        created = (await notes.create({}))["createdAt"]
        assert abs(created / 1000 - datetime.now(UTC).timestamp()) < 10

    async def test_a_schema_may_require_them(self):
        schema = {
            "properties": {"text": {"type": "string"}, "at": {"type": "string", "format": "date"}},
            "required": ["text", "at"],
        }
        hook = timestamps("at", None, now=lambda: "2026-01-31")
        notes = app_of(with_schema(MemoryService(), schema), around=[hook])
        assert (await notes.create({"text": "x"}, ADA))["at"] == "2026-01-31"

    def test_it_sets_something(self):
        with pytest.raises(TypeError, match="timestamps takes names"):
            timestamps(None, None)
        with pytest.raises(ValueError, match="cannot be the name"):
            timestamps("meta.createdAt")

    def test_now_in_utc(self):
        assert utc_now().tzinfo is UTC
        # As JSON has it: a client can then find the record by the time that it received.
        assert utc_now().microsecond % 1_000 == 0


class TestSoftDelete:
    async def test_a_removed_record_is_not_found(self, notes, ticks):
        notes.hooks(before=[soft_delete(now=ticks)])
        events = []
        for event in ("removed", "patched"):
            notes.on(event, lambda data, context: events.append((context.event, data["id"])))
        await notes.create([{"id": 1, "text": "x"}, {"id": 2, "text": "y"}])
        removed = await notes.remove(1, query={"$select": ["deletedAt"]}, **ADA)
        assert removed == {"id": 1, "deletedAt": 100}
        assert events == [("removed", 1)]
        for call in (
            notes.get(1),
            notes.get(1, ADA),
            notes.patch(1, {"text": "z"}, ADA),
            notes.update(1, {"text": "z"}, ADA),
            notes.remove(1, ADA),
        ):
            with pytest.raises(NotFound):
                await call
        assert [note["id"] for note in await notes.find(ADA)] == [2]
        assert await notes.find(query={"deletedAt": {"$gt": 0}}, **ADA) == []
        assert [note["id"] for note in await notes.find(query={"deletedAt": None}, **ADA)] == [2]
        assert (await notes.get(1, with_deleted=True))["deletedAt"] == 100

    async def test_of_concurrent_removals_one_succeeds(self, notes):
        notes.hooks(before=[soft_delete()])
        await notes.create({"id": 1})
        calls = [notes.remove(1, ADA) for _ in range(5)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(result, dict) for result in results) == 1
        assert sum(isinstance(result, NotFound) for result in results) == 4

    async def test_several_are_removed(self, notes, ticks):
        notes.hooks(before=[soft_delete(now=ticks)])
        await notes.create([{"id": 1, "text": "x"}, {"id": 2, "text": "y"}, {"id": 3, "text": "y"}])
        await notes.remove(2)
        removed = await notes.remove(None, query={"text": "y"}, **ADA)
        assert [(note["id"], note["deletedAt"]) for note in removed] == [(3, 101)]
        assert len(await notes.find(with_deleted=True)) == 3

    async def test_the_application_restores_and_purges(self, notes):
        notes.hooks(before=[soft_delete()])
        await notes.create([{"id": 1}, {"id": 2}])
        await notes.remove(None)
        await notes.patch(1, {"deletedAt": None}, with_deleted=True)
        assert [note["id"] for note in await notes.find(ADA)] == [1]
        await notes.remove(2, with_deleted=True)
        assert [note["id"] for note in await notes.find(with_deleted=True)] == [1]

    async def test_clients_cannot_set_the_mark(self, notes, has_operators):
        notes.hooks(before=[soft_delete()])
        for data in ({"id": 1, "deletedAt": 5}, {"id": 2, "text": "x"}):
            await notes.create(data, ADA)
        await notes.patch(1, {"deletedAt": 5, "text": "x"}, ADA)
        await notes.update(2, {"deletedAt": 5, "text": "x"}, ADA)
        if has_operators:
            await notes.patch(1, {"$set": {"deletedAt": 5, "text": "z"}}, ADA)
        assert len(await notes.find(ADA)) == 2
        await notes.patch(1, {"deletedAt": 5})  # the application may
        assert len(await notes.find(ADA)) == 1

    async def test_clients_cannot_ask_for_deleted_ones(self, memory):
        notes = app_of(memory, before=[soft_delete()])
        await notes.remove(1)
        with pytest.raises(NotFound):
            await notes.get(1, with_deleted="yes")
        assert len(await notes.find(query={"with_deleted": True}, **ADA)) == 0

    async def test_a_removal_has_all_conditions_of_hooks(self, memory):
        for before in ([soft_delete(), only_own()], [only_own(), soft_delete()]):
            notes = app_of(memory, before=before)
            with pytest.raises(NotFound):
                await notes.remove(2, ADA)
        notes = app_of(memory, around=[soft_delete()], before=[only_own()])
        with pytest.raises(NotFound):
            await notes.remove(2, ADA)
        assert [note["id"] for note in await notes.remove(None, ADA)] == [1]

    async def test_the_option_multi_is_that_of_remove(self):
        notes = app_of(MemoryService([{"id": 1}], multi=["patch"]), before=[soft_delete()])
        with pytest.raises(MethodNotAllowed):
            await notes.remove(None)
        notes = app_of(MemoryService([{"id": 1}], multi=["remove"]), before=[soft_delete()])
        assert len(await notes.remove(None)) == 1
        with pytest.raises(MethodNotAllowed):
            await notes.patch(None, {})

    @pytest.mark.parametrize("of_app", [True, False])
    async def test_the_sessions_of_a_deleted_user_end(self, of_app):
        app = make_app(sessions="sessions")
        app.use("sessions", MemoryService(), methods=[])
        (app if of_app else app.service("users")).hooks(before=[soft_delete()])
        await app.setup()
        user = await add_user(app)
        await app.service("authentication").create(login())
        assert len(await app.service("sessions").find()) == 1
        await app.service("users").remove(user["id"])
        assert await app.service("sessions").find() == []
        assert (await app.service("users").get(user["id"], with_deleted=True))["deletedAt"]

    async def test_a_result_of_a_hook_stays(self, memory):
        def replace(context):
            context.result = "replaced"

        notes = app_of(memory, before={"remove": [soft_delete(), replace]})
        assert await notes.remove(1) == "replaced"
        assert len(await notes.find()) == 3

    async def test_for_a_service_of_ones_own(self):
        class Own:
            def patch(self, id, data, params):
                return {"id": id, **data, "query": params.query}

            async def remove(self, id, params):
                raise AssertionError("removed")

        notes = app_of(Own(), before=[soft_delete(now=lambda: 1)])
        assert await notes.remove(5) == {"id": 5, "deletedAt": 1, "query": {"deletedAt": None}}

    async def test_it_needs_patch(self):
        class Own:
            async def remove(self, id, params):
                raise AssertionError("removed")

        notes = app_of(Own(), before=[soft_delete()])
        with pytest.raises(RuntimeError, match="soft_delete needs a `patch`"):
            await notes.remove(5)

    async def test_it_belongs_to_the_application_of_the_service(self, memory):
        inner = App().use("notes", memory)
        notes = app_of(inner.service("notes"), before=[soft_delete()])
        with pytest.raises(RuntimeError, match="belongs to another application"):
            await notes.remove(1)

    async def test_hooks_of_the_application_work_as_well(self, memory):
        app = App().use("notes", memory).hooks(before=[soft_delete()])
        await app.service("notes").remove(1)
        assert len(await memory.find()) == 3
        assert len(await app.service("notes").find()) == 2

    def test_it_has_no_condition(self, memory):
        with pytest.raises(TypeError, match="runs at a place of its own, so it cannot have"):
            app_of(memory, before=[iff(is_external(), soft_delete())])

    def test_the_name_is_checked(self):
        with pytest.raises(ValueError, match="cannot be the name"):
            soft_delete("meta.deletedAt")

    async def test_data_is_an_object(self, memory):
        notes = app_of(memory, before=[soft_delete()])
        with pytest.raises(BadRequest, match="must be an object"):
            await notes.create("x", ADA)


@pytest.mark.parametrize("make", [timestamps, soft_delete])
def test_a_time_is_not_a_clock(make):
    with pytest.raises(TypeError, match=rf"{make.__name__}: now is 5; give a function"):
        make(now=5)
