"""Results that are kept until the service changes."""

from __future__ import annotations

import asyncio

import pytest
from tests.common_hooks.conftest import ADA, BOB, app_of
from tests.waiting import settle

from alula import App, Page
from alula._events import HeldEvents
from alula.adapters.memory import MemoryService
from alula.adapters.relations import belongs_to
from alula.authentication import protect
from alula.common_hooks import Cache, allow, cache, only_own, soft_delete
from alula.errors import Forbidden, NotFound, Unavailable
from alula.outgoing import RedactedRecord, public_part
from alula.types import STANDARD_METHODS


class Counting:
    """Counts its calls, and waits until it may go on."""

    def __init__(self):
        self.calls = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.failing = 0

    async def find(self, params):
        self.calls += 1
        await self.go_on.wait()
        if self.failing:
            self.failing -= 1
            raise Unavailable("away")
        return [{"n": self.calls, "tags": ["a"]}]

    async def get(self, id, params):
        self.calls += 1
        return {"id": id, "n": self.calls}

    async def create(self, data, params):
        return data

    async def patch(self, id, data, params):
        return data


class Clock:
    time = 0.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def counting():
    return Counting()


@pytest.fixture
def kept(clock):
    return cache(60, by=None, capacity=3, clock=clock)


@pytest.fixture
def notes(counting, kept):
    return app_of(counting, around=[kept])


async def test_a_result_is_kept(notes, counting, kept):
    assert await notes.get(1) == await notes.get(1)
    assert await notes.find(query={"a": 1}) == await notes.find(query={"a": 1})
    assert (counting.calls, len(kept)) == (2, 2)


async def test_it_ends_after_its_time(notes, counting, clock):
    await notes.get(1)
    clock.time = 59.9
    await notes.get(1)
    assert counting.calls == 1
    clock.time = 60
    await notes.get(1)
    assert counting.calls == 2


@pytest.mark.parametrize("change", ["create", "patch", "emit", "clear"])
async def test_it_ends_with_a_change(notes, counting, kept, change):
    await notes.get(1)
    if change == "create":
        await notes.create({})
    elif change == "patch":
        await notes.patch(5, {})
    elif change == "emit":
        notes.emit("removed", {})
    else:
        kept.clear()
    await notes.get(1)
    assert counting.calls == 2


def without_event(context):
    context.event = None


@pytest.mark.parametrize("methods", [["find", "get"], ["all"]])
@pytest.mark.parametrize("change", ["create", "update", "patch", "remove", "archive"])
@pytest.mark.parametrize("level", ["service", "app"])
async def test_it_ends_with_a_change_without_an_event(kept, methods, change, level):
    class Archive(Counting):
        async def archive(self, data, params):
            return data

        async def update(self, id, data, params):
            return data

        async def remove(self, id, params):
            return {}

    app = App().use("notes", Archive(), methods=[*STANDARD_METHODS, "archive"])
    notes = app.service("notes").hooks(before=[without_event])
    owner = notes if level == "service" else app
    owner.hooks(around={method: [kept] for method in methods})
    await notes.get(1)
    assert len(kept) == 1
    await notes.call(change, None if change in {"create", "archive"} else 5, {})
    assert len(kept) == 0
    await notes.get(1)
    assert len(kept) == 1


async def test_a_change_that_fails_ends_it(counting, kept):
    async def half(id, data, params):
        raise Unavailable("the answer was lost")

    counting.patch = half
    notes = app_of(counting, around={"get": [kept]})
    await notes.get(1)
    with pytest.raises(Unavailable):
        await notes.patch(1, {})
    assert len(kept) == 0


@pytest.mark.parametrize("level", ["service", "app"])
async def test_a_removal_in_place_of_the_method_ends_it(memory, kept, level):
    app = App().use("notes", memory)
    notes = app.service("notes").hooks(before=[without_event])
    (notes if level == "service" else app).hooks(around={"find": [kept]})
    (app if level == "service" else notes).hooks(before=[soft_delete()])
    assert len(await notes.find()) == 3
    await notes.remove(1)
    assert len(await notes.find()) == 2


async def test_an_after_hook_reads_what_was_changed(memory, kept):
    async def count(context):
        context.result = len(await context.service.find())

    notes = app_of(memory, around={"find": [kept]}, after={"create": [count]})
    await notes.find()
    assert await notes.create({"text": "new"}) == 4


async def test_a_transaction_ends_it_when_it_has_committed(kept):
    seen = []

    async def in_transaction(context, next):
        with HeldEvents(lambda _: True) as held:
            await next()
            seen.append(len(kept))
        held.release()

    notes = app_of(MemoryService([{"id": 1}]), around={"find": [kept], "patch": [in_transaction]})
    notes.hooks(before=[without_event])
    await notes.find()
    await notes.patch(1, {"a": 1})
    assert (seen, len(kept)) == ([1], 0)


DIFFERENT = [
    ("get", 1, {}),
    ("get", "1", {}),
    ("get", True, {}),
    ("get", 1.0, {}),
    ("get", [1, {"a": 1}, None, None], {}),
    ("get", 1, {"query": {"a": 1}}),
    ("get", 1, {"query": {"a": "1"}}),
    ("get", 1, {"query": {"a": [1]}}),
    ("get", 1, {"query": {"a": {"0": 1}}}),
    ("get", 1, {"route": {"room": "1"}}),
    ("get", 1, {"provider": "rest"}),
    ("find", None, {}),
]


async def test_different_calls_have_different_results(counting):
    notes = app_of(counting, around=[cache(60, by=None)])
    for number, (method, key, params) in enumerate(DIFFERENT, 1):
        await notes.call(method, key, params=params)
        assert counting.calls == number
    for method, key, params in DIFFERENT:
        await notes.call(method, key, params=params)
    assert counting.calls == len(DIFFERENT)


@pytest.mark.parametrize(
    ("id", "params"),
    [
        (1, {"paginate": False}),
        (1, {"adapter": {"multi": True}}),
        (1, {"sql": {"connection": 1}}),
        (1, {"docdb": {"session": 1}}),
        (1, {"query": {"$include": ["author"]}}),
        (1, {"query": {"id": {"$in": list(range(300))}}}),
        (1, {"query": {"text": "x" * 2_000}}),
        ("x" * 2_000, {}),
        (1, {"query": {"unhashable": bytearray()}}),
        ({"a": {1}}, {}),
    ],
)
async def test_some_results_are_not_kept(notes, counting, kept, id, params):
    await notes.get(id, params)
    await notes.get(id, params)
    assert (counting.calls, len(kept)) == (2, 0)


async def test_an_option_that_is_none_is_none(notes, counting):
    await notes.get(1, sql=None)
    await notes.get(1, sql=None)
    assert counting.calls == 1


async def test_the_least_recently_used_goes_first(notes, counting, kept):
    for key in (1, 2, 3, 1, 4):
        await notes.get(key)
    assert (counting.calls, len(kept)) == (4, 3)
    await notes.get(1)
    assert counting.calls == 4
    await notes.get(2)
    assert counting.calls == 5


async def test_changed_results_do_not_reach_others(notes, counting):
    for _ in range(3):
        (record,) = await notes.find()
        assert record == {"n": 1, "tags": ["a"]}
        record["tags"].append("b")
    assert counting.calls == 1


class TestConcurrentCalls:
    async def test_they_share_one(self, notes, counting):
        counting.go_on.clear()
        calls = [asyncio.create_task(notes.find()) for _ in range(5)]
        await settle()
        counting.go_on.set()
        results = await asyncio.gather(*calls)
        assert (counting.calls, results) == (1, [[{"n": 1, "tags": ["a"]}]] * 5)
        assert len({id(result[0]) for result in results}) == 5

    async def test_a_failure_is_that_of_one_call(self, notes, counting):
        counting.failing = 1
        counting.go_on.clear()
        calls = [asyncio.create_task(notes.find()) for _ in range(3)]
        await settle()
        counting.go_on.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(results[0], Unavailable)
        assert [len(result) for result in results[1:]] == [1, 1]

    @pytest.mark.parametrize("cancelled", [0, 1])
    async def test_a_cancelled_call_cancels_no_other(self, notes, counting, cancelled):
        counting.go_on.clear()
        calls = [asyncio.create_task(notes.find()) for _ in range(3)]
        await settle()
        calls.pop(cancelled).cancel()
        await settle()
        counting.go_on.set()
        assert [len(result) for result in await asyncio.gather(*calls)] == [1, 1]

    async def test_who_reads_behind_a_change_gets_it(self, notes, counting, kept):
        counting.go_on.clear()
        early = asyncio.create_task(notes.find())
        await settle()
        await notes.create({})
        late = asyncio.create_task(notes.find())
        await settle()
        counting.go_on.set()
        assert await late == await early
        assert counting.calls == 2
        assert len(kept) == 1


class TestPermissions:
    async def test_every_call_is_checked(self, memory):
        hooks = {"before": [allow("writer")], "around": [cache(60, by=None)]}
        notes = app_of(memory, **hooks)
        await notes.find(ADA)
        with pytest.raises(Forbidden):
            await notes.find(BOB)

    async def test_hooks_of_the_application_are_inside_too(self, memory):
        app = App().use("notes", memory).hooks(around=[cache(60, by=None)])
        notes = app.service("notes").hooks(before=[allow("writer")])
        await notes.find(ADA)
        with pytest.raises(Forbidden):
            await notes.find(BOB)

    async def test_each_user_gets_their_own_records(self, memory):
        notes = app_of(memory, around=[cache(60, by=None)], before=[only_own()])
        for _ in range(2):
            assert [note["id"] for note in await notes.find(ADA)] == [1]
            assert [note["id"] for note in await notes.find(BOB)] == [2]
            assert len(await notes.find()) == 3
            with pytest.raises(NotFound):
                await notes.get(1, BOB)
            assert (await notes.get(1, ADA))["id"] == 1

    async def test_redaction_runs_for_each_caller(self, memory):
        notes = app_of(memory, around=[cache(60, by=None), protect("text")])
        for caller in (None, ADA, None):
            note = await notes.get(1, caller)
            assert "text" in note
            assert "text" not in public_part(note)

    async def test_redacted_records_stay_redacted(self):
        class Own:
            async def get(self, id, params):
                return RedactedRecord({"pin": 1, "a": 2}, {"a": 2})

        own = app_of(Own(), around=[cache(60, by=None)])
        for _ in range(2):
            assert public_part(await own.get(1)) == {"a": 2}

    async def test_what_a_service_reads_is_named(self):
        class Own:
            async def get(self, id, params):
                return {"for": params.user["id"]}

        own = app_of(Own(), around=[cache(60, by=lambda context: context.params.user["id"])])
        for _ in range(2):
            assert await own.get(1, ADA) == {"for": 7}
            assert await own.get(1, BOB) == {"for": 8}

    @pytest.mark.parametrize("first", [True, False])
    async def test_deleted_records_are_of_their_own(self, memory, first):
        hooks = {"around": [cache(60, by=None)], "before": [soft_delete()]}
        notes = app_of(memory, **hooks)
        await notes.remove(1)
        for with_deleted in (first, not first):
            params = {"with_deleted": True} if with_deleted else {}
            assert len(await notes.find(**params)) == (3 if with_deleted else 2)

    async def test_a_result_of_a_hook_is_not_kept(self, memory, kept):
        def replace(context):
            context.result = "replaced"

        notes = app_of(memory, around=[kept], before={"get": [replace]})
        assert await notes.get(1) == "replaced"
        assert len(kept) == 0


async def test_a_page_stays_one(kept):
    notes = app_of(MemoryService([{"id": 1}], paginate={"default": 5}), around=[kept])
    for _ in range(2):
        assert type(await notes.find()) is Page
    assert len(kept) == 1


async def test_related_records_are_not_kept(kept):
    app = App().use("users", MemoryService([{"id": 1}]))
    app.use("posts", MemoryService([{"id": 1, "a": 1}], relations={"u": belongs_to("users", "a")}))
    await app.setup()
    posts = app.service("posts").hooks(around=[kept])
    assert (await posts.get(1, query={"$include": ["u"]}))["u"] == {"id": 1}
    assert len(kept) == 0


async def test_services_share_a_cache_not_results(kept):
    app = App().use("a", Counting()).use("b", Counting()).hooks(around=[kept])
    await app.service("a").get(1)
    await app.service("b").get(1)
    assert len(kept) == 2


async def test_it_belongs_to_the_application_of_the_service(memory, kept):
    inner = App().use("notes", memory)
    notes = app_of(inner.service("notes"), around=[kept])
    with pytest.raises(RuntimeError, match=r"cache is registered for .* another application"):
        await notes.find()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ttl": 0}, "ttl is 0"),
        ({"ttl": float("nan")}, "ttl is nan"),
        ({"by": "user"}, "by is 'user'"),
        ({"capacity": 0}, "capacity is 0"),
        ({"capacity": 1.5}, "capacity is 1.5"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        cache(**{"ttl": 60, "by": None, **options})


def test_it_is_an_around_hook(memory):
    assert isinstance(cache(60, by=None), Cache)
    with pytest.raises(TypeError, match="register it as around hook"):
        app_of(memory, before=[cache(60, by=None)])


class TestBytes:
    """What is kept is bounded by its memory, too."""

    class Texts:
        async def get(self, id, params):
            return {"id": id, "text": "x" * params.query.get("size", 1_000)}

        async def patch(self, id, data, params):
            return data

    @pytest.fixture
    def kept(self, clock):
        return cache(60, by=None, max_bytes=30_000, clock=clock)

    @pytest.fixture
    def texts(self, kept):
        return app_of(self.Texts(), around=[kept])

    async def test_the_least_recently_used_go_first(self, texts, kept):
        for key in range(50):
            await texts.get(key)
            await texts.get(0)
        assert 10 < len(kept) < 20
        assert 20_000 < kept.size <= 30_000
        size = kept.size
        await texts.get(0)
        assert kept.size == size

    async def test_a_large_result_is_not_kept(self, texts, kept):
        await texts.get(1)
        size = kept.size
        await texts.get(2, query={"size": 3_000})
        assert (len(kept), kept.size) == (1, size)

    async def test_a_long_query_counts(self, texts, kept):
        await texts.get(1, query={"size": 1, "a": ["x" * 900] * 4})
        assert len(kept) == 0

    async def test_a_result_whose_time_is_over_is_replaced(self, texts, kept, clock):
        await texts.get(1)
        size = kept.size
        clock.time = 61
        await texts.get(1)
        assert (len(kept), kept.size) == (1, size)

    async def test_a_change_forgets_all(self, texts, kept):
        await texts.get(1)
        await texts.patch(1, {})
        assert kept.size == 0

    async def test_lists_of_records_count_whole(self, clock):
        class Lists:
            async def find(self, params):
                return Page(total=100, limit=100, skip=0, data=[{"n": n} for n in range(100)])

        kept = cache(60, by=None, max_bytes=1_000_000, clock=clock)
        await app_of(Lists(), around=[kept]).find()
        assert 100 * 60 < kept.size < 100 * 500

    @pytest.mark.parametrize("value", [0, -1, 1.5, True, None])
    def test_a_bound_that_is_none(self, value):
        with pytest.raises(ValueError, match=r"max_bytes is .*; give a whole number from 1 on"):
            cache(60, by=None, max_bytes=value)
