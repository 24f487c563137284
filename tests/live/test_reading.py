"""The last row of a full page: a record behind it changes nothing."""

from __future__ import annotations

import math

import pytest
from tests.live.test_lists import Client

from alula import App
from alula._live import live_lists_of
from alula._live._reading import LastRow, is_behind
from alula.adapters.memory import MemoryService


@pytest.mark.parametrize(
    ("order", "values", "behind", "not_behind"),
    [
        ([("n", 1)], [5], [{"n": 6}, {"n": 5.5}], [{"n": 4}, {"n": 5}, {"n": None}, {}]),
        ([("n", -1)], [5], [{"n": 4}], [{"n": 6}, {"n": True}, {"n": "4"}, {"n": math.nan}]),
        ([("n", 1), ("id", 1)], [5, 7], [{"n": 5, "id": 8}], [{"n": 5, "id": 6}, {"n": 5}]),
        ([("n", 1), ("id", 1)], [None, 7], [{"n": None, "id": 8}], [{"id": 8}, {"n": 9, "id": 8}]),
        ([("done", 1)], [False], [{"done": True}], [{"done": False}]),
        ([("text", 1)], ["a"], [{"text": "b"}], [{"text": "B"}, {"text": 5}]),
        ([("author.name", 1)], [None], [], [{"author.name": "x"}, {"author": {"name": "x"}}]),
    ],
)
def test_what_certainly_sorts_behind_a_row(order, values, behind, not_behind):
    last = LastRow(order, values, has_texts=True)
    assert all(is_behind(record, last) for record in behind)
    assert not any(is_behind(record, last) for record in not_behind)


def test_texts_count_only_where_the_order_is_ours():
    assert not is_behind({"text": "b"}, LastRow([("text", 1)], ["a"], has_texts=False))


@pytest.fixture
async def todos():
    records = [{"id": number, "n": number} for number in range(1, 6)]
    app = App().use("todos", MemoryService(records, start_id=6, paginate={"default": 3, "max": 4}))
    todos = app.service("todos").live(pause=0.001)
    live_lists_of(app)
    await app.setup()
    yield todos
    await app.teardown()


BEHIND = {"n": 9}


@pytest.mark.parametrize(
    ("query", "data", "is_read"),
    [
        ({}, BEHIND, False),  # the page of the service is full
        ({"$limit": "2", "$sort": {"n": "1"}}, BEHIND, False),
        ({"$limit": 2, "$skip": 1}, BEHIND, False),
        ({"$limit": 99, "$sort": {"n": 1}}, BEHIND, False),  # no more than the service allows
        ({"$sort": {"n": -1}}, BEHIND, True),
        ({"n": {"$gt": 3}}, BEHIND, True),  # not full
        ({"$limit": 0}, BEHIND, True),
        ({"$select": ["text"], "$sort": {"n": 1}}, BEHIND, True),  # the row does not say where
        ({"$select": ["text"], "$sort": {"n": 1}}, {"n": None}, True),
        ({"$sort": {"x": 1}}, {"n": 9, "x": 1}, True),
    ],
)
async def test_a_record_behind_a_full_page_reads_nothing(todos, query, data, is_read):
    lists = live_lists_of(todos.app)
    await Client(lists, todos, **query).open()
    figures = todos.app.channel_registry.list_figures
    before = figures.reads, figures.dismissed
    client = await Client(lists, todos, **query).open()
    await todos.create(data)
    await client.rest()
    assert (figures.reads - before[0] == 2) == is_read
    assert (figures.dismissed > before[1]) != is_read


async def test_a_record_that_moves_onto_the_page_is_read(todos):
    client = await Client(live_lists_of(todos.app), todos, **{"$sort": {"n": 1}}).open()
    await todos.patch(5, {"n": 0})
    assert await client.rest() == ["snapshot", "left", "entered"]


async def test_an_order_of_the_adapters_own_is_left_alone(todos):
    async def reorder(context, next):
        context.params.query["$sort"] = {"n": "by meaning"}
        context.result = await todos.service.find({"query": {}})

    todos.add_innermost(reorder, ["find"])
    client = await Client(live_lists_of(todos.app), todos).open()
    assert client.list.group.last_row is not None


async def test_a_page_whose_order_is_no_list_of_fields_has_no_last_row():
    class Ranked:
        id = "id"

        async def find(self, params):
            return [{"id": 1}]

    app = App().use("ranked", Ranked())
    ranked = app.service("ranked").live(pause=0.001)
    lists = live_lists_of(app)
    await app.setup()
    client = await Client(lists, ranked, **{"$sort": "rank", "$limit": 1}).open()
    assert client.list.group.last_row is None
    await app.teardown()


async def test_an_id_that_is_a_document_can_leave():
    class Documents:
        id = "id"
        rows = ({"id": {"a": 1}}, {"id": [2]})

        async def find(self, params):
            return [*self.rows]

    app = App().use("documents", Documents())
    documents = app.service("documents").live(pause=0.001)
    lists = live_lists_of(app)
    await app.setup()
    client = await Client(lists, documents).open()
    documents.service.rows = ()
    documents.touch()
    await client.rest()
    assert [message.body["id"] for message in client.told[1:]] == [{"a": 1}, [2]]
    await app.teardown()
