"""How a service finds its collection."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar

import pytest
from pymongo import AsyncMongoClient, MongoClient

from alula import App
from alula._context import Params
from alula.adapters.mongodb import MongoDBService
from alula.adapters.mongodb._model import ModelSource, resolved
from alula.errors import Timeout

CALL = ContextVar("call", default="none")


async def given(collection):
    return collection


class Flaky:
    """A model that fails at first."""

    def __init__(self, collection, failures):
        self.collection = collection
        self.failures = failures
        self.calls = 0

    async def __call__(self):
        self.calls += 1
        await asyncio.sleep(0)
        if self.calls <= self.failures:
            raise RuntimeError(f"failure {self.calls}")
        return self.collection


async def test_a_collection_is_there_at_once(offline):
    source = ModelSource(offline)
    assert source.collection == offline
    assert await source.resolve() == offline


@pytest.mark.parametrize("kind", ["awaitable", "function", "async function"])
async def test_a_model_has_several_forms(kind, offline):
    forms = {
        "awaitable": given(offline),
        "function": lambda: offline,
        "async function": lambda: given(offline),
    }
    source = ModelSource(forms.pop(kind))
    for left in forms.values():
        getattr(left, "close", lambda: None)()
    assert source.collection is None
    assert await source.resolve() == offline
    assert source.collection == offline
    assert await source.resolve() == offline


async def test_callers_share_one_attempt(offline):
    model = Flaky(offline, 0)
    source = ModelSource(model)
    assert await asyncio.gather(*(source.resolve() for _ in range(3))) == [offline] * 3
    assert model.calls == 1


async def test_a_failure_reaches_all_who_wait_and_the_next_call_tries_again(offline):
    model = Flaky(offline, 1)
    source = ModelSource(model)
    answers = await asyncio.gather(*(source.resolve() for _ in range(2)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["failure 1"] * 2
    assert await source.resolve() == offline
    assert model.calls == 2


async def test_a_caller_that_gives_up_does_not_end_the_attempt(offline):
    go = asyncio.Event()

    async def model():
        await go.wait()
        return offline

    source = ModelSource(model)
    first = asyncio.ensure_future(source.resolve())
    second = asyncio.ensure_future(source.resolve())
    await asyncio.sleep(0)
    first.cancel()
    go.set()
    assert await second == offline
    assert first.cancelled()


@pytest.mark.parametrize("awaitable", [True, False])
async def test_an_attempt_is_part_of_no_call(awaitable, offline):
    """A time limit of the first call would end the making of an index."""
    seen = []

    async def model():
        seen.append(CALL.get())
        return offline

    CALL.set("a call with a time limit")
    await ModelSource(model() if awaitable else model).resolve()
    assert seen == ["none"]


async def test_a_failure_that_nobody_waited_for_is_forgotten(offline):
    model = Flaky(offline, 1)
    source = ModelSource(model)
    caller = asyncio.ensure_future(source.resolve())
    await asyncio.sleep(0)
    caller.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert model.calls == 1
    assert await source.resolve() == offline


async def test_an_attempt_that_was_cancelled_is_made_again(offline):
    calls = []

    async def model():
        calls.append(1)
        if len(calls) == 1:
            raise asyncio.CancelledError
        return offline

    source = ModelSource(model)
    with pytest.raises(asyncio.CancelledError):
        await source.resolve()
    assert await source.resolve() == offline


async def test_an_awaitable_that_failed_fails_again():
    async def model():
        raise RuntimeError("no database")

    source = ModelSource(model())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no database"):
            await source.resolve()


@pytest.mark.parametrize("wrong", [None, "messages", lambda: {"a": 1}])
async def test_something_else_is_no_model(wrong):
    with pytest.raises(TypeError, match="give a collection of PyMongo's AsyncMongoClient"):
        await resolved(wrong)


async def test_a_failure_is_reported_at_the_start_and_tried_again(offline, caplog):
    model = Flaky(offline, 1)
    service = MongoDBService(model)
    app = App().use("notes", service)
    with caplog.at_level(logging.ERROR, "alula.mongodb"):
        await app.setup()
    assert "the model of the service 'notes' failed; its next call tries again" in caplog.text
    assert "failure 1" in caplog.text
    assert await service.get_model() == offline


async def test_a_database_that_is_not_there_is_one_line_at_the_start(caplog):
    options = {"serverSelectionTimeoutMS": 100}
    async with AsyncMongoClient("mongodb://127.0.0.1:1,127.0.0.1:2/x", **options) as client:

        async def model():
            await client["x"]["notes"].create_index("text")
            raise AssertionError

        app = App().use("notes", MongoDBService(model))
        await app.setup()
    (record,) = [record for record in caplog.records if record.name == "alula.mongodb"]
    assert record.exc_info is None
    text = record.getMessage()
    assert "'notes' failed; its next call tries again: The database cannot be reached" in text
    assert "127.0.0.1:1: [Errno" in text
    assert "127.0.0.1:2: [Errno" in text
    assert "Topology" not in text
    assert "configured timeouts" not in text


async def test_the_start_waits_for_the_model(offline):
    model = Flaky(offline, 0)
    await App().use("notes", MongoDBService(model)).setup()
    assert model.calls == 1


async def test_a_call_may_have_a_model_of_its_own(offline):
    own = offline.database["own"]
    service = MongoDBService(offline)
    for model in (own, lambda: own, lambda: given(own)):
        assert await service.get_model(Params(adapter={"model": model})) == own
    assert await service.get_model(Params(adapter={"multi": True})) == offline
    assert await service.get_model(Params()) == offline
    assert await service.get_model() == offline


async def test_waiting_for_a_model_is_bounded_and_the_model_is_not(offline):
    go = asyncio.Event()

    async def model():
        await go.wait()
        return offline

    service = MongoDBService(model, max_time_ms=20)
    for _ in range(2):
        with pytest.raises(Timeout, match="not there in time"):
            await service.get(1)
    with pytest.raises(Timeout):
        await service.get_model(Params(adapter={"max_time_ms": 10}))
    go.set()
    assert await service.get_model() == offline


async def test_waiting_for_the_model_of_a_call_is_bounded(offline):
    service = MongoDBService(offline, max_time_ms=20)
    with pytest.raises(Timeout):
        await service.get_model(Params(adapter={"model": lambda: asyncio.Event().wait()}))


async def test_a_collection_of_the_blocking_client():
    with (
        MongoClient(connect=False) as client,
        pytest.raises(TypeError, match=r"is Collection .*; give a .* AsyncMongoClient"),
    ):
        await resolved(client["chat"]["messages"])


async def test_an_address_is_not_shown_with_its_password():
    with pytest.raises(TypeError, match="is a string; give a collection") as caught:
        await resolved("mongodb://ann:secret@localhost/chat")
    assert "secret" not in str(caught.value)


async def test_only_a_function_is_asked_again_after_a_teardown(offline):
    asked = []

    def model():
        asked.append(offline)
        return offline

    async def awaitable():
        return offline

    for given, times in ((model, 2), (offline, 0), (awaitable(), 0)):
        asked.clear()
        app = App()
        app.use("notes", MongoDBService(given))
        for _ in range(2):
            await app.setup()
            await app.teardown()
        assert len(asked) == times
