"""Pages, and the iteration over all of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.faking import faked

from alula import Page
from alula.errors import BadGateway, BadRequest


class Pages:
    """Answers pages of a collection, as servers do."""

    def __init__(self, count: int, most: int = 3) -> None:
        self.records = list(range(count))
        self.most = most
        self.queries: list[Any] = []

    async def __call__(self, context):
        query = dict(context.params.query)
        self.queries.append(query)
        skip, limit = int(query.get("$skip", 0)), min(int(query.get("$limit", 99)), self.most)
        data = self.records[skip : skip + limit]
        total = len(self.records)
        context.result = {"total": total, "limit": limit, "skip": skip, "data": data}


@pytest.mark.parametrize(
    "page",
    [
        {"total": 1, "limit": 2, "skip": 0, "data": [{"id": 1}]},
        {"data": [], "skip": 0, "limit": 2, "total": 0, "self": "link", "cursor": "x"},
    ],
)
async def test_a_page_of_the_server_is_a_page(page):
    client, _ = faked(page)
    found = await client.service("items").find()
    assert type(found) is Page
    assert found == page


@pytest.mark.parametrize("found", [[{"id": 1}], {"total": 1, "data": []}, {"ok": True}, 5])
async def test_what_is_no_page_stays_as_it_is(found):
    client, _ = faked(found)
    result = await client.service("items").find()
    assert result == found
    assert type(result) is type(found)


async def test_only_find_returns_pages():
    record = {"total": 1, "limit": 2, "skip": 0, "data": []}
    client, _ = faked(record)
    assert type(await client.service("items").get(1)) is dict


def test_events_of_the_server_may_have_any_name_but_a_slip():
    client, _ = faked()
    items, seen = client.service("items"), []
    items.on("shouted", lambda *given: seen.append(given))
    items.emit("shouted", 1, None)
    assert seen == [(1, None)]
    with pytest.raises(ValueError, match="created"):
        items.on("craeted", lambda item, context: None)


@pytest.fixture
def service_of():
    def service_of(pages):
        client, _ = faked()
        service = client.service("items")
        service.hooks(before={"find": [pages]})
        return service

    return service_of


async def everything(service, *given, **more):
    return [each async for each in service.iterate(*given, **more)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6, 7])
async def test_every_record_comes_once(service_of, count):
    pages = Pages(count)
    assert await everything(service_of(pages)) == list(range(count))
    assert len(pages.queries) == max(1, -(-count // 3))
    assert pages.queries[0] == {"$skip": 0}


async def test_the_query_goes_along_with_every_page(service_of):
    pages = Pages(5)
    await everything(service_of(pages), {"a": 1, "$sort": {"id": 1}}, {"query": {"b": 2}})
    kept = {"a": 1, "b": 2, "$sort": {"id": 1}}
    assert pages.queries == [{**kept, "$skip": 0}, {**kept, "$skip": 3}]


async def test_params_go_along_and_stay_as_they_are(service_of):
    seen = []
    service = service_of(Pages(5))
    service.hooks(after=[lambda context: seen.append(context.params.headers)])
    params = {"headers": {"a": "b"}, "query": {"$limit": 4}}
    assert await everything(service, params=params) == [0, 1, 2, 3]
    assert seen == [{"a": "b"}] * 2
    assert params == {"headers": {"a": "b"}, "query": {"$limit": 4}}


@pytest.mark.parametrize(
    ("query", "expected", "asked"),
    [
        ({"$limit": 0}, [], []),
        ({"$limit": 2}, [0, 1], [2]),
        ({"$limit": 3}, [0, 1, 2], [3]),
        ({"$limit": "5"}, [0, 1, 2, 3, 4], [5, 2]),
        ({"$limit": 9, "$skip": "4"}, [4, 5, 6], [9]),
        ({"$limit": 2, "$skip": 6}, [6], [2]),
        ({"$skip": 9}, [], [None]),
    ],
)
async def test_limit_and_skip_are_those_of_the_whole(service_of, query, expected, asked):
    pages = Pages(7)
    assert await everything(service_of(pages), query) == expected
    assert [each.get("$limit") for each in pages.queries] == asked


async def test_pages_have_the_size_that_is_asked_for(service_of):
    pages = Pages(7, most=50)
    assert await everything(service_of(pages), {"$limit": 5}, page_size=2) == [0, 1, 2, 3, 4]
    assert [each["$limit"] for each in pages.queries] == [2, 2, 1]


async def test_a_service_without_pages():
    client, fetch = faked([1, 2, 3])
    told = []
    records = client.service("items").iterate(progress=lambda *each: told.append(each))
    assert [each async for each in records] == [1, 2, 3]
    assert told == [(3, None)]
    assert len(fetch.calls) == 1


class Lists(Pages):
    """Answers lists, as services without pages do."""

    async def __call__(self, context):
        await super().__call__(context)
        context.result = context.result["data"]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6, 7])
async def test_every_record_of_a_service_without_pages_comes_once(service_of, count):
    lists = Lists(count, most=99)
    assert await everything(service_of(lists), page_size=3) == list(range(count))
    assert [each["$skip"] for each in lists.queries] == list(range(0, count + 1, 3))
    assert await everything(service_of(lists), {"$limit": 5}, page_size=2) == [*range(count)][:5]


@pytest.mark.parametrize("count", [2, 3, 4])
async def test_a_service_that_knows_no_limit_answers_once(count):
    client, _ = faked([{"id": n} for n in range(count)])
    records = client.service("items").iterate(page_size=3)
    assert [record.pop("id") async for record in records] == list(range(count))


@pytest.mark.parametrize("name", ["$limit", "$skip"])
@pytest.mark.parametrize("value", [-1, "x", 1.5, True, [1]])
async def test_a_number_that_is_none(service_of, name, value):
    pages = Pages(3)
    with pytest.raises(BadRequest, match=rf"\{name} is .*whole number from 0"):
        await everything(service_of(pages), {name: value})
    assert pages.queries == []


@pytest.mark.parametrize("size", [0, -1, "3", 1.5, True])
async def test_a_page_size_that_is_none(service_of, size):
    with pytest.raises(ValueError, match="page_size is a whole number from 1"):
        await everything(service_of(Pages(3)), page_size=size)


async def test_records_that_vanish_meanwhile_end_it(service_of):
    pages = Pages(7)
    service = service_of(pages)
    found = []
    async for each in service.iterate():
        found.append(each)
        del pages.records[3:]
    assert found == [0, 1, 2]


async def test_progress_tells_of_what_will_come(service_of):
    told = []
    given = {"progress": lambda *each: told.append(each)}
    await everything(service_of(Pages(7)), {"$skip": 1}, **given)
    assert told == [(3, 6), (6, 6)]
    told.clear()
    await everything(service_of(Pages(7)), {"$limit": 4}, **given)
    assert told == [(3, 4), (4, 4)]


@pytest.mark.parametrize("options", [{}, {"page_size": 2}], ids=["", "pages"])
@pytest.mark.parametrize("paged", [True, False], ids=["page", "list"])
async def test_a_limit_holds_whatever_a_server_sends(paged, options):
    many = [{"id": n} for n in range(100_000)]
    page = {"total": 10**9, "limit": 3, "skip": 0, "data": many}
    client, fetch = faked(page if paged else many)
    found = await everything(client.service("items"), {"$limit": 3}, **options)
    assert found == many[:3]
    assert len(fetch.calls) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"total": 1},
        {"data": [1]} | {"total": "1"},
        {"data": {}, "total": 1},
        {"data": [1], "total": True},
        {},
        "abc",
        5,
        None,
    ],
)
async def test_a_page_that_is_none(answer):
    client, _ = faked(answer)
    with pytest.raises(BadGateway, match="neither a list nor a page"):
        await everything(client.service("items"))


async def test_a_server_that_does_not_count():
    client, _ = faked({"total": None, "limit": 2, "skip": 0, "data": [1, 2]}, {"data": []})
    assert await everything(client.service("items"), page_size=2) == [1, 2]
