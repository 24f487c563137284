"""Properties of records in memory of which no two have the same value."""

from __future__ import annotations

import asyncio

import pytest

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import Conflict

ADA, BELA = {"name": "Ada", "mail": "a"}, {"name": "Bela", "mail": "b"}


@pytest.fixture
def service():
    return MemoryService([ADA, BELA], unique=["name", "mail"], multi=True)


async def stored(service):
    return sorted((record["name"], record["mail"]) for record in await service.find())


async def refused(call, name):
    with pytest.raises(Conflict) as caught:
        await call
    assert caught.value.message == f"There is a record with this {name} already"
    assert caught.value.errors == {name: "is taken"}


async def test_a_second_record_is_refused(service):
    await refused(service.create({"name": "Ada", "mail": "c"}), "name")
    await refused(service.create({"name": "Cleo", "mail": "b"}), "mail")
    assert await stored(service) == [("Ada", "a"), ("Bela", "b")]
    assert (await service.create({"name": "Cleo", "mail": "c"}))["id"] == 2


async def test_so_is_a_list_with_two_of_a_value_as_a_whole(service):
    twins = [{"name": "Cleo", "mail": "c"}, {"name": "Cleo", "mail": "d"}]
    await refused(service.create(twins), "name")
    assert len(await service.find()) == 2


async def test_a_change_is_refused_too(service):
    await refused(service.patch(1, {"name": "Ada"}), "name")
    await refused(service.update(1, {"name": "Bela", "mail": "a"}), "mail")
    assert await stored(service) == [("Ada", "a"), ("Bela", "b")]


async def test_a_record_may_keep_its_value(service):
    await service.patch(1, {"name": "Bela", "mail": "c"})
    await service.update(1, {"name": "Bela", "mail": "d"})
    assert await stored(service) == [("Ada", "a"), ("Bela", "d")]


async def test_many_at_a_time_cannot_get_one_value(service):
    await refused(service.patch(None, {"name": "Same"}), "name")
    assert await stored(service) == [("Ada", "a"), ("Bela", "b")]
    await service.remove(1)
    await service.patch(None, {"name": "Same"})
    assert await stored(service) == [("Same", "a")]


async def test_what_is_given_up_is_free(service):
    await service.patch(0, {"name": "Cleo"})
    await service.create({"name": "Ada", "mail": "d"})
    await service.remove(1)
    await service.create({"name": "Bela", "mail": "b"})
    await service.patch(0, {"mail": None})
    await service.create({"name": "Dora", "mail": "a"})


async def test_records_without_the_property_are_not_compared():
    service = MemoryService(unique=["name"])
    for record in ({}, {}, {"name": None}, {"name": None}):
        await service.create(record)


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, "1"), ([1], [2]), ("a", "A")])
async def test_values_of_other_kinds_differ(one, other):
    service = MemoryService(unique=["value"])
    for value in (one, other):
        await service.create({"value": value})
        await refused(service.create({"value": value}), "value")


async def test_records_to_begin_with_are_held_to_it(service):
    with pytest.raises(Conflict):
        MemoryService([ADA, ADA], unique=["name"])
    with pytest.raises(Conflict):
        service.reset([BELA, BELA])
    assert await stored(service) == [("Ada", "a"), ("Bela", "b")]
    await refused(service.create({"name": "Ada", "mail": "c"}), "name")
    service.reset([BELA])
    await service.create(ADA)


async def test_a_hundred_at_once_make_one_record():
    app = App()
    app.use("users", MemoryService(unique=["name"]))

    @app.service("users").before("create")
    async def wait(context):
        await asyncio.sleep(0)

    creates = [app.service("users").create({"name": "Ada"}) for _ in range(100)]
    results = await asyncio.gather(*creates, return_exceptions=True)
    assert sum(isinstance(result, Conflict) for result in results) == 99
    assert len(await app.service("users").find()) == 1


def test_one_string_is_refused():
    with pytest.raises(TypeError, match=r"unique=\['name'\]"):
        MemoryService(unique="name")
