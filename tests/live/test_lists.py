"""Live lists on one process: limits, errors, rights, and what is told to other processes."""

from __future__ import annotations

import asyncio

import pytest
from tests.waiting import eventually

from alula import App
from alula._connection import Connection
from alula._live import LiveList, live_lists_of
from alula._live import _lists as lists_module
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest, MethodNotAllowed, NotFound, TooManyRequests, Unavailable


class Link:
    queued = 0

    def deliver(self, message):
        raise AssertionError("lists need no events")

    async def close(self, reason="", *, reconnect=True):
        raise AssertionError("nothing closes it")


def connection(**attributes):
    return Connection(Link(), provider="sse", headers={}, ip=None, **attributes)


class Client:
    """A list, and what it was told."""

    def __init__(self, lists, handle, of=None, **query):
        self.lists = lists
        self.connection = of or connection()
        self.told = []
        self.list = LiveList(handle, self.connection, {}, query, self.told.extend)

    async def open(self):
        await self.lists.open(self.list)
        return self

    @property
    def kinds(self):
        return [message.kind for message in self.told]

    async def rest(self):
        for _ in range(3):
            await asyncio.sleep(0)
            await self.lists.settled(self.connection)
        return self.kinds


@pytest.fixture
async def app():
    app = App().use("todos", MemoryService(start_id=1, multi=True))
    app.service("todos").live(pause=0.001)
    live_lists_of(app)
    await app.setup()
    yield app
    await app.teardown()


@pytest.fixture
def lists(app):
    return live_lists_of(app)


@pytest.fixture
def todos(app):
    return app.service("todos")


async def test_an_application_has_its_lists_once(app, lists):
    assert live_lists_of(app) is lists


async def test_a_service_without_live_is_refused(app, lists):
    app.use("others", MemoryService())
    with pytest.raises(MethodNotAllowed, match="has no live lists"):
        await Client(lists, app.service("others")).open()


async def test_a_service_that_offers_no_find_is_refused(app, lists):
    app.use("others", MemoryService(), methods=["get"])
    app.service("others").live()
    with pytest.raises(MethodNotAllowed, match="has no live lists"):
        await Client(lists, app.service("others")).open()


async def test_a_hook_that_responds_in_place_of_the_method_is_refused(todos, lists):
    async def respond(context):
        context.result = []

    todos.hooks(before={"find": [respond]})
    with pytest.raises(MethodNotAllowed, match="responds in its place"):
        await Client(lists, todos).open()


async def test_a_result_that_is_no_list_is_refused(todos, lists):
    async def count(context):
        context.result = 5

    todos.hooks(after={"find": [count]})
    with pytest.raises(MethodNotAllowed, match="is no list"):
        await Client(lists, todos).open()


async def test_records_without_an_id_are_refused(todos, lists):
    async def hide(context):
        context.result = [{"text": "x"}]

    todos.hooks(after={"find": [hide]})
    with pytest.raises(MethodNotAllowed, match="without 'id'"):
        await Client(lists, todos).open()


async def test_a_list_may_not_have_too_many_rows(app, lists):
    app.use("others", MemoryService(multi=True))
    others = app.service("others").live(max_rows=2, pause=0.001)
    await others.create([{}, {}])
    client = await Client(lists, others).open()
    await others.create({})
    assert await client.rest() == ["snapshot", "closed"]
    assert client.told[1].body["error"]["code"] == 400
    with pytest.raises(BadRequest, match=r"at most 2 rows; add `\$limit`"):
        await Client(lists, others).open()


async def test_a_connection_has_a_limited_number_of_lists(todos, lists, monkeypatch):
    monkeypatch.setattr(lists_module, "MAX_LISTS_OF_CONNECTION", 1)
    first = await Client(lists, todos).open()
    with pytest.raises(TooManyRequests, match="at most 1 lists"):
        await Client(lists, todos, first.connection).open()
    lists.close(first.list)
    lists.close(first.list)
    await Client(lists, todos, first.connection).open()


async def test_a_process_has_a_limited_number_of_lists(todos, lists, monkeypatch):
    monkeypatch.setattr(lists_module, "MAX_GROUPS", 1)
    await Client(lists, todos, n=1).open()
    with pytest.raises(Unavailable):
        await Client(lists, todos, n=2).open()


async def test_lists_that_each_change_looks_at_are_limited(todos, lists, monkeypatch):
    monkeypatch.setattr(lists_module, "MAX_SCANNED", 1)
    await Client(lists, todos, n={"$gt": 1}).open()
    with pytest.raises(TooManyRequests, match="equal to something"):
        await Client(lists, todos, n={"$gt": 2}).open()


async def test_equal_lists_share_their_reads(todos, lists):
    reads = []

    async def count(context):
        reads.append(context.params.live)

    todos.hooks(before={"find": [count]})
    clients = [await Client(lists, todos, n=1).open() for _ in range(3)]
    assert len(lists._groups) == 1
    del reads[:]
    await todos.create({"n": 1})
    for client in clients:
        assert (await client.rest())[-1] == "entered"
    assert len(reads) == 1
    assert reads[0]
    await todos.find()
    assert reads[1] is None


async def test_callers_who_cannot_be_compared_share_nothing(todos, lists):
    for _ in range(2):
        await Client(lists, todos, connection(friends={1}), n=[1]).open()
    assert len(lists._groups) == 2


async def test_a_change_that_concerns_nobody_reads_nothing(todos, lists):
    client = await Client(lists, todos, n=1).open()
    reads = []

    async def count(context):
        reads.append(context)

    todos.hooks(before={"find": [count]})
    await todos.create({"n": 2})
    await todos.patch(1, {"n": 3})
    await todos.remove(1)
    with pytest.raises(NotFound):
        await todos.remove(1)
    assert await client.rest() == ["snapshot"]
    assert reads == []


async def test_many_records_are_one_change_of_all_lists(todos, lists, monkeypatch):
    monkeypatch.setattr(lists_module, "MAX_IDS", 1)
    client = await Client(lists, todos).open()
    await todos.create([{"n": 1}, {"n": 2}])
    assert await client.rest() == ["snapshot", "entered", "entered"]
    assert [message.body.get("more") for message in client.told[1:]] == [True, None]


@pytest.mark.parametrize("error", [RuntimeError("broken"), Unavailable("away"), KeyboardInterrupt])
async def test_a_write_that_fails_may_have_been_carried_out(todos, lists, error):
    client = await Client(lists, todos).open()

    async def write_and_fail(context, next):
        await next()
        raise error

    todos.add_innermost(write_and_fail, ["create"])
    with pytest.raises(type(error) if isinstance(error, Exception) else error):
        await todos.create({"n": 1})
    assert await client.rest() == ["snapshot", "entered"]


async def test_a_service_that_is_no_adapter_is_read_after_each_change(app, lists):
    class Numbers:
        def __init__(self):
            self.numbers = [1]

        async def find(self, params):
            return [{"id": number} for number in self.numbers]

        async def create(self, data, params):
            self.numbers.append(data["n"])

    app.use("numbers", Numbers())
    numbers = app.service("numbers").live(pause=0.001)
    client = await Client(lists, numbers).open()
    await numbers.create({"n": 2})
    assert await client.rest() == ["snapshot", "entered"]


async def test_a_read_that_fails_on_our_side_is_tried_again(todos, lists, caplog):
    client = await Client(lists, todos).open()
    failures = [Unavailable("away"), RuntimeError("broken")]

    async def fail(context):
        if failures:
            raise failures.pop()

    todos.hooks(before={"find": [fail]})
    await todos.create({"n": 1})
    await eventually(lambda: client.kinds == ["snapshot", "entered"])
    assert caplog.text.count("could not be read; it is tried again") == 1


@pytest.mark.parametrize("error", [RuntimeError("broken"), Unavailable("away")])
async def test_a_first_read_that_fails_is_the_error_of_the_opening(todos, lists, error, caplog):
    async def fail(context):
        raise error

    todos.hooks(before={"find": [fail]})
    with pytest.raises(type(error)):
        await Client(lists, todos).open()
    assert lists._groups == lists._lists_of == {}


async def test_a_change_of_rights_is_a_reset_with_the_reason(todos, lists, app):
    async def restrict(context):
        if context.params.provider:
            context.params.query["owner"] = context.params.user["id"]

    todos.hooks(before={"find": [restrict]})
    await todos.create([{"owner": "ann"}, {"owner": "bob"}])
    client = await Client(lists, todos, connection(user={"id": "ann"})).open()
    app.emit("user_changed", client.connection, None)
    assert await client.rest() == ["snapshot"]  # it is as it was
    client.connection.user = {"id": "bob"}
    app.emit("user_changed", client.connection, None)
    assert await client.rest() == ["snapshot", "reset"]
    assert client.told[1].body == {"rows": [{"owner": "bob", "id": 2}], "why": "rights"}


async def test_recheck_reads_without_a_change(app, lists):
    service = MemoryService()
    app.use("others", service)
    client = await Client(lists, app.service("others").live(recheck=0.01, pause=0.001)).open()
    await service.create({"n": 1}, {})
    await eventually(lambda: client.kinds == ["snapshot", "entered"])
    lists.close(client.list)


async def test_other_processes_are_told(app, lists, todos):
    sent = []
    app.channel_registry.forward = sent.append
    await todos.create({"n": 1, "text": "x", "long": "y" * 2_000, "list": [1], "none": None})
    await todos.create({"n": 2}, query={"$select": ["n"]})
    todos.touch(5)
    todos.touch(["a", "b"])
    todos.touch()
    data = [publication.data for publication in sent if publication.path == ""]
    assert data[0] == {
        "path": "todos",
        "event": "created",
        "ids": [1],
        "records": [{"id": 1, "n": 1, "text": "x"}],
    }
    assert [(each["ids"], each["records"]) for each in data[1:]] == [
        ([2], [None]),
        ([5], [None]),
        (["a", "b"], [None, None]),
        (None, []),
    ]


async def test_what_other_processes_tell_is_read(app, lists, todos):
    client = await Client(lists, todos, n=1).open()
    service = todos.service
    await service.create({"n": 1}, {})
    hear = app.channel_registry._signal_listeners["live/notice"][0]
    hear({"path": "gone", "event": "created", "ids": [1], "records": [None]})
    hear({"path": "todos", "event": "created", "ids": [1], "records": [{"n": 2}]})
    assert await client.rest() == ["snapshot"]
    hear({"path": "todos", "event": "created", "ids": [1], "records": [{"n": 1}]})
    assert await client.rest() == ["snapshot", "entered"]


async def test_touching_without_lists_does_nothing():
    app = App().use("todos", MemoryService())
    app.service("todos").touch(1)


async def test_lists_end_with_the_application():
    app = App().use("todos", MemoryService())
    todos = app.service("todos").live(depends_on=["/todos/"])
    lists = live_lists_of(app)
    await app.setup()
    await Client(lists, todos).open()
    await app.teardown()
    assert lists._groups == lists._lists_of == lists._dependents == {}


@pytest.mark.parametrize(
    ("service", "options", "message"),
    [
        (type("Plain", (), {"get": lambda self, key, params: None}), {}, "has no `find`"),
        (MemoryService, {"pause": 0}, r"live\(pause=0\) takes a number above 0"),
        (MemoryService, {"max_rows": -1}, r"live\(max_rows=-1\)"),
        (lambda: MemoryService(events=["live"]), {}, "has 'live' of its own"),
        (
            type("Secret", (MemoryService,), {"secret_events": True}),
            {},
            "keeps its events secret",
        ),
    ],
)
def test_what_cannot_be_live_is_refused(service, options, message):
    app = App().use("todos", service())
    with pytest.raises(ValueError, match=message):
        app.service("todos").live(**options)
