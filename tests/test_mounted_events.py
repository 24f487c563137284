"""Events of services that are part of another application, and of those that emit themselves."""

import asyncio

import pytest

from alula import App
from alula.adapters.memory import MemoryService
from alula.client import create_client


@pytest.fixture
def inner():
    return App().use("notes", MemoryService(multi=True, start_id=1, events=["typing"]))


@pytest.fixture
def outer(inner):
    return App().use("api", inner)


def listen(handle, heard, name, *events):
    for event in events or ("created", "removed"):
        handle.on(event, lambda data, *_, event=event: heard.append((name, event, data["id"])))


class TestOfAMountedApplication:
    async def test_a_call_on_either_is_heard_on_both_and_once(self, inner, outer):
        heard = []
        listen(inner.service("notes"), heard, "inner")
        listen(outer.service("api/notes"), heard, "outer")
        await inner.service("notes").create({"a": 1})
        assert sorted(heard) == [("inner", "created", 1), ("outer", "created", 1)]
        heard.clear()
        await outer.service("api/notes").create([{"a": 1}, {"a": 2}])
        assert sorted(heard) == [
            ("inner", "created", 2),
            ("inner", "created", 3),
            ("outer", "created", 2),
            ("outer", "created", 3),
        ]

    async def test_through_several(self, inner, outer):
        heard = []
        outermost = App().use("v1", outer)
        handles = [inner.service("notes"), outer.service("api/notes")]
        handles.append(outermost.service("v1/api/notes"))
        for at, handle in enumerate(handles):
            listen(handle, heard, at)
        for handle in handles:
            record = await handle.create({})
            assert sorted(heard) == [(at, "created", record["id"]) for at in range(3)]
            heard.clear()

    async def test_on_the_outer_one_alone(self, inner, outer):
        heard = []
        listen(outer.service("api/notes"), heard, "outer")
        await inner.service("notes").create({})
        await outer.service("api/notes").create({})
        assert heard == [("outer", "created", 1), ("outer", "created", 2)]

    async def test_what_is_emitted_by_hand_is_heard_too(self, inner, outer):
        heard = []
        listen(outer.service("api/notes"), heard, "outer", "typing")
        assert inner.service("notes").emit("typing", {"id": 5}) is True
        assert heard == [("outer", "typing", 5)]

    async def test_the_outer_one_hears_its_own_calls_behind_its_own_hooks(self, inner, outer):
        heard = []
        listen(outer.service("api/notes"), heard, "outer")

        def fail(context):
            raise LookupError("an after hook of the outer application")

        outer.service("api/notes").hooks(after=[fail])
        with pytest.raises(LookupError):
            await outer.service("api/notes").create({})
        assert heard == []

    async def test_not_any_more_once_it_was_taken_away(self, inner, outer):
        heard, handle = [], outer.service("api/notes")
        listen(handle, heard, "outer")
        await outer.unuse("api/notes")
        await inner.service("notes").create({})
        assert heard == []

    async def test_of_a_client_in_another(self):
        first = create_client().use("notes", MemoryService())
        second = create_client().use("notes", first.service("notes"))
        heard = []
        listen(second.service("notes"), heard, "second")
        await first.service("notes").create({})
        assert heard == [("second", "created", 0)]


class TestMountingIsAllOrNothing:
    def test_where_one_path_is_taken_none_is_registered(self, inner):
        inner.use("todos", MemoryService())
        outer = App().use("api/todos", MemoryService())
        with pytest.raises(ValueError, match="cannot register a service at 'api/todos'"):
            outer.use("api", inner)
        assert list(outer.services) == ["api/todos"]
        assert outer.lookup("/api/notes") is None
        assert inner.service("notes").mounts == ()
        outer.use("v2", inner)
        assert list(outer.services) == ["api/todos", "v2/notes", "v2/todos"]


class Announcing:
    """A service that emits `created` itself, and says so."""

    events = ("created",)

    async def setup(self, app, path):
        self.handle = app.service(path)

    async def create(self, data, params):
        self.handle.emit("created", data, None)
        return data

    async def remove(self, id, params):
        return {"id": id}


class TestAServiceThatEmitsItself:
    @pytest.mark.parametrize("mounted", [False, True])
    async def test_is_heard_once(self, mounted):
        heard, app = [], App().use("loud", Announcing())
        await app.setup()
        outer = App().use("api", app) if mounted else app
        handle = outer.service("api/loud" if mounted else "loud")
        listen(handle, heard, "loud")
        await handle.create({"id": 1})
        await handle.remove(1)
        assert heard == [("loud", "created", 1), ("loud", "removed", 1)]


class TestOnce:
    async def test_is_heard_once(self, inner):
        heard, notes = [], inner.service("notes")

        @notes.once("created")
        async def listener(data, context):
            await asyncio.sleep(0)
            heard.append(data["id"])

        notes.on("created", lambda data, context: heard.append("on"))
        await notes.create([{}, {}])
        await notes.wait_for_listeners()
        assert sorted(map(str, heard)) == ["1", "on", "on"]
        assert notes.has_listeners("created")

    async def test_can_be_taken_back(self, inner):
        heard, notes = [], inner.service("notes")

        def listener(data, context):
            heard.append(data)

        assert notes.once("created", listener) is listener
        notes.off("created", listener)
        await notes.create({})
        assert heard == []
        assert not notes.has_listeners("created")

    async def test_is_heard_once_where_it_emits_the_same_again(self, inner):
        heard, notes = [], inner.service("notes")

        def again(data):
            heard.append(data)
            notes.emit("typing", data + 1)

        notes.once("typing", again)
        copy = tuple(notes._listeners["typing"])
        notes.emit("typing", 1)
        assert copy[0](5) is None
        assert heard == [1]

    async def test_its_failure_is_logged_by_its_name(self, inner, caplog):
        notes = inner.service("notes")

        @notes.once("created")
        def broken(data, context):
            raise LookupError("no")

        await notes.create({})
        assert "broken" in caplog.text
