"""Live lists on one process: limits, errors, rights, and what is told to other processes."""

from __future__ import annotations

import asyncio

import pytest
from tests.waiting import eventually, settle

from alula import App
from alula._connection import Connection
from alula._live import LiveList, live_lists_of
from alula._live import _lists as lists_module
from alula._live import _notices as notices_module
from alula.adapters.memory import MemoryService
from alula.adapters.relations import belongs_to
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


@pytest.fixture
def reads(todos):
    """The calls of `find` for lists."""
    reads = []

    async def note(context):
        if context.params.live:
            reads.append(context)

    todos.hooks(before={"find": [note]})
    return reads


def page_of(client):
    """Return the rows that the client has, by what it was told."""
    rows = []
    for kind, body in client.told:
        if kind in {"snapshot", "reset"}:
            rows = [*body["rows"]]
            continue
        row_id = body["id"] if kind == "left" else body["data"]["id"]
        rows = [row for row in rows if row["id"] != row_id]
        if kind != "left":
            rows.insert(body["at"], body["data"])
    return rows


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
    with pytest.raises(MethodNotAllowed, match="does not return a list"):
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
    first = await Client(lists, todos, n={"$gt": 1}).open()
    with pytest.raises(TooManyRequests, match=r"add one to the query, such as 'n'$"):
        await Client(lists, todos, n={"$gt": 2}).open()
    with pytest.raises(TooManyRequests, match=r"add one to the query$"):
        await Client(lists, todos).open()
    await Client(lists, todos, owner="ann").open()
    with pytest.raises(TooManyRequests, match=r"such as 'owner'$"):
        await Client(lists, todos, n={"$gt": 2}).open()
    await todos.create({"n": 2})
    assert await first.rest() == ["snapshot", "entered"]


async def test_a_process_has_a_limited_number_of_rows(todos, lists, monkeypatch):
    monkeypatch.setattr(lists_module, "MAX_ROWS", 3)
    await todos.create([{"n": 1}, {"n": 1}])
    first = await Client(lists, todos, n=1).open()
    with pytest.raises(Unavailable, match="Too many rows"):
        await Client(lists, todos, m=None).open()
    await todos.create([{"n": 1}, {"n": 1}])  # a list that is open may grow
    assert await first.rest() == ["snapshot", "entered", "entered"]
    lists.close(first.list)
    await todos.remove(1)
    await Client(lists, todos, m=None).open()


async def test_the_log_says_once_why_each_change_looks_at_a_list(todos, lists, caplog, monkeypatch):
    caplog.set_level("INFO", "alula.live")
    monkeypatch.setattr(lists_module, "MAX_EXPLAINED", 2)
    for query in [{"n": {"$gt": 1}}, {"n": {"$gt": 2}}, {"$limit": 1}, {"m": {"$lt": 1}}, {"n": 1}]:
        await Client(lists, todos, **query).open()
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "no value of n is certain; a list is found faster by a property that is equal to a value",
        "it has no conditions; a list is found faster by a property that is equal to a value",
    ]


async def test_figures_for_metrics(app, todos, lists):
    figures = app.channel_registry.list_figures
    clients = [await Client(lists, todos, n=1).open() for _ in range(2)]
    third = await Client(lists, todos, n=2, m=1).open()
    await todos.create({"n": 2, "m": 2})
    assert (figures.lists, figures.groups, figures.dismissed) == (3, 2, 1)
    for client in [*clients, third]:
        lists.close(client.list)
    assert (figures.lists, figures.groups) == (0, 0)


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


async def test_records_that_lists_share_leave_each_at_its_time(todos, lists):
    ones = await Client(lists, todos, n=1).open()
    everything = await Client(lists, todos).open()
    await todos.create({"n": 1})
    await ones.rest()
    await everything.rest()
    await todos.patch(1, {"n": 2})
    assert await ones.rest() == ["snapshot", "entered", "left"]
    assert await everything.rest() == ["snapshot", "entered", "changed"]
    await todos.remove(1)
    assert await everything.rest() == ["snapshot", "entered", "changed", "left"]
    assert await ones.rest() == ["snapshot", "entered", "left"]


async def test_records_that_are_touched_are_read(todos, lists):
    client = await Client(lists, todos, n=1).open()
    await todos.service.create({"n": 1}, {})
    todos.touch(1)
    assert await client.rest() == ["snapshot", "entered"]


async def test_a_record_that_only_one_condition_fits_reads_nothing(todos, lists, reads):
    client = await Client(lists, todos, n=1, m=1).open()
    await todos.create({"n": 1, "m": 2})
    await client.rest()
    assert len(reads) == 1


@pytest.mark.parametrize(("event", "count"), [("created", 1), ("patched", 2), (None, 2)])
async def test_a_create_that_may_have_changed_a_record_concerns_lists_that_skip(
    todos, lists, reads, event, count
):
    """A record that was there before may have been among those that the list skips."""

    async def name_event(context):
        context.event = event

    todos.hooks(before={"create": [name_event]})
    client = await Client(lists, todos, **{"n": 1, "$skip": 1}).open()
    await todos.create({"n": 2})
    await client.rest()
    assert len(reads) == count


@pytest.mark.parametrize(
    ("query", "write", "count"),
    [
        ({"n": 1}, lambda todos: todos.touch(), 2),
        ({"n": 1}, lambda todos: todos.touch(2), 2),
        ({"n": 1}, lambda todos: todos.patch(1, {"n": 2}), 2),
        ({"n": 1}, lambda todos: todos.patch(2, {"n": 1}), 2),
        ({"n": 1}, lambda todos: todos.patch(2, {"m": 1}), 1),
        ({"n": 1}, lambda todos: todos.create({"n": 1}), 2),
        ({"n": 1}, lambda todos: todos.create({"n": 2}), 1),
        ({"n": 1}, lambda todos: todos.remove(1), 2),
        ({"n": 1}, lambda todos: todos.remove(2), 1),
        ({"n": 1, "$skip": 1}, lambda todos: todos.remove(2), 2),
        ({"n": 1, "$skip": 1}, lambda todos: todos.create({"n": 2}), 1),
    ],
)
async def test_what_changes_during_a_read_is_compared_with_its_page(
    todos, lists, reads, query, write, count
):
    await todos.create([{"n": 1}, {"n": 2}])
    writes = [write]

    async def meanwhile(context):
        while writes:
            writing = writes.pop()(todos)
            if writing is not None:
                await writing

    todos.hooks(after={"find": [meanwhile]})
    client = await Client(lists, todos, **query).open()
    await client.rest()
    assert len(reads) == count
    assert page_of(client) == await todos.find(query=query)


async def test_many_records_are_one_change_of_all_lists(todos, lists, monkeypatch):
    monkeypatch.setattr(notices_module, "MAX_IDS", 1)
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
    assert caplog.text.count("could not be read") == 1


async def test_an_outage_is_logged_once_for_all_lists_of_a_service(todos, lists, caplog):
    clients = [await Client(lists, todos, n=n).open() for n in range(5)]
    is_away = True

    async def fail(context):
        if is_away:
            raise Unavailable("away")

    todos.hooks(before={"find": [fail]})
    for outage in [1, 2]:
        is_away = True
        todos.touch()
        await eventually(lambda: all(client.list.group.failures > 1 for client in clients))
        is_away = False
        await eventually(lambda: not any(client.list.group.failures for client in clients))
        assert caplog.text.count("could not be read") == outage


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


async def test_one_list_of_a_connection_is_closed_alone(todos, lists):
    first = await Client(lists, todos, n=1).open()
    second = await Client(lists, todos, first.connection).open()
    equal = await Client(lists, todos, first.connection).open()
    lists.close(first.list)
    lists.close(equal.list)
    await todos.create({"n": 1})
    assert await second.rest() == ["snapshot", "entered"]
    assert first.kinds == equal.kinds == ["snapshot"]
    lists.close_all(first.connection)
    assert lists._groups == lists._lists_of == {}


async def test_a_list_is_closed_while_it_is_read(todos, lists):
    client = await Client(lists, todos).open()
    is_read, may_end = asyncio.Event(), asyncio.Event()

    async def wait(context):
        is_read.set()
        await may_end.wait()

    todos.hooks(before={"find": [wait]})
    await todos.create({"n": 1})
    await is_read.wait()
    lists.close(client.list)
    may_end.set()
    await settle()
    assert client.kinds == ["snapshot"]


async def test_a_list_is_closed_while_it_rests(app, lists):
    app.use("others", MemoryService())
    others = app.service("others").live(pause=60)
    client = await Client(lists, others).open()
    await others.create({"n": 1})
    await eventually(lambda: client.list.group.timer is not None)
    timer = client.list.group.timer
    lists.close(client.list)
    assert timer.cancelled()
    assert client.kinds == ["snapshot"]


async def test_who_could_not_be_told_gets_the_list_whole(todos, lists):
    client = await Client(lists, todos).open()
    await todos.create({"n": 1})
    await client.rest()
    lists.catch_up(client.list)
    assert await client.rest() == ["snapshot", "entered", "reset"]
    assert client.told[2].body == {"rows": [{"n": 1, "id": 1}], "why": "slow"}
    lists.close(client.list)
    lists.catch_up(client.list)
    assert await client.rest() == ["snapshot", "entered", "reset"]


async def test_a_gap_in_what_other_processes_tell_reads_all_lists(app, todos, lists):
    client = await Client(lists, todos, n=1).open()
    await todos.service.create({"n": 1}, {})
    assert await client.rest() == ["snapshot"]
    app.channel_registry.report_gap()
    assert await client.rest() == ["snapshot", "entered"]


@pytest.mark.parametrize(
    ("given", "expected"), [({"n": -1}, {"n": -1, "id": 1}), ({"id": -1}, {"id": -1})]
)
async def test_records_with_equal_values_keep_their_order(todos, lists, given, expected):
    client = await Client(lists, todos, **{"$sort": given}).open()
    assert client.list.group.behind == {"$sort": expected}


async def test_a_page_says_which_it_is(app, lists):
    app.use("others", MemoryService(start_id=1, multi=True, paginate={"default": 2}))
    others = app.service("others").live(pause=0.001)
    await others.create([{}, {}, {}])
    client = await Client(lists, others, **{"$skip": 1}).open()
    assert client.told[0].body == {"rows": [{"id": 2}, {"id": 3}], "limit": 2, "skip": 1}
    await others.remove(1)
    assert await client.rest() == ["snapshot", "left"]


@pytest.fixture
async def posts(app):
    """A service whose records show the name of their author, a user."""
    users, posts = MemoryService(start_id=1), MemoryService(start_id=1)
    app.use("users", users).use("posts", posts)

    async def show_author(context):
        for post in context.result:
            post["author"] = (await app.service("users").get(1))["name"]

    posts = app.service("posts").live(depends_on=["users"], pause=0.001)
    posts.hooks(after={"find": [show_author]})
    await app.service("users").create({"name": "Ann"})
    await posts.create({"n": 1})
    return posts


async def test_lists_follow_the_services_that_they_depend_on(app, posts, lists):
    first = await Client(lists, posts).open()
    second = await Client(lists, posts, n=1).open()
    lists.close(first.list)
    await app.service("users").patch(1, {"name": "Bea"})
    assert await second.rest() == ["snapshot", "changed"]
    assert second.told[1].body["data"]["author"] == "Bea"
    assert first.kinds == ["snapshot"]


async def test_a_read_during_which_another_service_changes_is_not_sent(app, posts, lists):
    async def rename(context):
        if context.result[0]["author"] == "Ann":
            await app.service("users").patch(1, {"name": "Bea"})

    posts.hooks(after={"find": [rename]})
    client = await Client(lists, posts).open()
    assert await client.rest() == ["snapshot"]
    assert client.told[0].body["rows"] == [{"n": 1, "id": 1, "author": "Bea"}]


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
    await todos.create([{"long": "y" * 1_000} for _ in range(70)])
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
        ([*range(3, 73)], [None] * 70),  # too much text
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
    client = await Client(lists, todos).open()
    await app.teardown()
    assert lists._groups == lists._lists_of == lists._dependents == {}
    lists.close(client.list)  # as its transport does


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


async def test_an_opening_ends_with_the_application():
    app = App().use("todos", MemoryService())
    todos = app.service("todos").live()
    lists = live_lists_of(app)
    reached = asyncio.Event()

    async def wait(context):
        reached.set()
        await asyncio.Event().wait()

    todos.hooks(before={"find": [wait]})
    await app.setup()
    opening = asyncio.ensure_future(Client(lists, todos).open())
    await reached.wait()
    await app.teardown()
    with pytest.raises(Unavailable, match="closed before it was read"):
        async with asyncio.timeout(30):
            await opening
    assert lists._groups == lists._lists_of == {}


async def test_what_ends_twice_leaves_its_successor_alone(todos, lists):
    first = await Client(lists, todos).open()
    ended = first.list.group
    lists.close(first.list)
    second = await Client(lists, todos, first.connection).open()
    lists._drop(ended)
    await todos.create({"n": 1})
    assert await second.rest() == ["snapshot", "entered"]


async def test_a_related_service_tells_without_being_live(app, lists):
    people = MemoryService(start_id=1)
    author = belongs_to("people", "person")
    app.use("people", people).use("posts", MemoryService(start_id=1, relations={"author": author}))
    posts = app.service("posts").live(pause=0.001)
    await app.service("people").create({"name": "Ada"})
    await posts.create({"person": 1})
    client = await Client(lists, posts, **{"$include": ["author"]}).open()
    await app.service("people").patch(1, {"name": "Eve"})
    assert await client.rest() == ["snapshot", "changed"]
    assert client.told[1].body["data"]["author"]["name"] == "Eve"


async def test_a_custom_method_may_have_changed_anything(app, lists):
    class Todos(MemoryService):
        async def tidy(self, data, params):
            await self.remove(None, {})
            return None if data is None else data

    app.use("tasks", Todos(multi=True), methods=["find", "create", "tidy"])
    tasks = app.service("tasks").live(pause=0.001)
    await tasks.create({"n": 1})
    client = await Client(lists, tasks, n=1).open()
    await tasks.tidy({})
    assert await client.rest() == ["snapshot", "left"]


async def test_a_value_without_a_json_form_fails_the_opening_and_is_tried_again(todos, lists):
    await todos.create({"n": object()})
    with pytest.raises(TypeError):
        await Client(lists, todos).open()
    await todos.remove(1)
    client = await Client(lists, todos).open()
    await todos.create({"n": object()})
    await eventually(lambda: client.list.group.failures > 0)
    await todos.patch(2, {"n": 2})
    await eventually(lambda: client.kinds == ["snapshot", "entered"])


async def test_an_unexpected_error_is_never_sent(app, todos, lists):
    client = await Client(lists, todos).open()
    is_broken = True

    async def fail(context):
        if is_broken:
            raise RuntimeError("the password is secret")

    todos.hooks(before={"find": [fail]})
    client.connection.seat = 5
    app.emit("user_changed", client.connection, None)  # into a group that nobody has read
    await eventually(lambda: client.list.group.failures > 0)
    assert client.kinds == ["snapshot"]
    is_broken = False
    await todos.create({"n": 1})
    await eventually(lambda: client.kinds == ["snapshot", "reset"])


async def test_services_of_mounted_applications_are_told_apart(lists, app):
    inner, other = (App().use("todos", MemoryService(start_id=1)) for _ in range(2))
    app.use("one", inner).use("two", other)
    one = app.service("one/todos").live(pause=0.001)
    two = app.service("two/todos").live(pause=0.001)
    first, second = await Client(lists, one).open(), await Client(lists, two).open()
    sent = []
    app.channel_registry.forward = sent.append
    await two.create({"n": 1})
    assert await first.rest() == ["snapshot"]
    assert await second.rest() == ["snapshot", "entered"]
    assert [event.record["path"] for event in sent] == ["two/todos"]


async def test_a_service_that_is_not_there_is_an_error(app):
    app.service("todos").live(depends_on=["members"])
    with pytest.raises(LookupError, match=r"depends_on=\['members'\].* names no service"):
        live_lists_of(app).watch()


async def test_touching_a_service_without_lists_tells_nobody(app):
    sent = []
    app.channel_registry.forward = sent.append
    app.use("others", MemoryService())
    app.service("others").touch(1)
    assert sent == []


async def test_a_live_service_that_includes_another_one_keeps_its_own_query(app, lists):
    """The inner `find` is a read of the same caller, and not the page of the list."""
    people = MemoryService(start_id=1)
    author = belongs_to("people", "person")
    app.use("people", people).use("posts", MemoryService(start_id=1, relations={"author": author}))
    app.service("people").live()
    posts = app.service("posts").live(pause=0.001)
    await app.service("people").create({"name": "Ada"})
    await posts.create({"person": 1, "n": 1})
    client = await Client(lists, posts, **{"$include": ["author"], "n": 1}).open()
    assert client.list.group.behind == {"$include": ["author"], "n": 1, "$sort": {"id": 1}}
    await posts.create({"person": 1, "n": 1})
    assert await client.rest() == ["snapshot", "entered"]


async def test_a_hook_may_find_in_the_service_itself(todos, lists):
    """Its calls are no pages of the list."""

    async def count(context):
        if context.params.query.get("n") == 1:
            await todos.find(context.params, query={"n": 2})

    todos.hooks(before={"find": [count]}, after={"find": [count]})
    client = await Client(lists, todos, n=1).open()
    assert client.list.group.behind["n"] == 1
    await todos.create({"n": 1})
    assert await client.rest() == ["snapshot", "entered"]


async def test_only_queries_that_name_related_records_depend_on_them(app, lists):
    people = MemoryService(start_id=1)
    author = belongs_to("people", "person", filter=["name"])
    app.use("people", people).use("posts", MemoryService(start_id=1, relations={"author": author}))
    posts = app.service("posts").live(pause=0.001)
    await app.service("people").create({"name": "Ada"})
    await posts.create({"person": 1})
    names = {"author.name": "Eve"}
    plain = await Client(lists, posts).open()
    named = await Client(lists, posts, **{"$or": [names, {"n": 5}]}).open()
    figures = app.channel_registry.list_figures
    before = figures.reads
    await app.service("people").patch(1, {"name": "Eve"})
    assert await plain.rest() == ["snapshot"]
    assert await named.rest() == ["snapshot", "entered"]
    assert figures.reads == before + 1


async def test_a_query_that_begins_to_include_is_read_once_more(app, lists):
    people = MemoryService(start_id=1)
    author = belongs_to("people", "person")
    app.use("people", people).use("posts", MemoryService(start_id=1, relations={"author": author}))
    posts = app.service("posts").live(pause=0.001)
    includes = False

    async def include(context):
        if includes and context.params.live:
            context.params.query["$include"] = ["author"]

    posts.hooks(before={"find": [include]})
    await app.service("people").create({"name": "Ada"})
    client = await Client(lists, posts).open()
    includes = True
    figures = app.channel_registry.list_figures
    before = figures.reads
    await posts.create({"person": 1})
    assert await client.rest() == ["snapshot", "entered"]
    assert figures.reads == before + 2
    await app.service("people").patch(1, {"name": "Eve"})
    assert await client.rest() == ["snapshot", "entered", "changed"]


async def test_the_store_of_a_service_may_be_known_later(app, lists):
    """A database that was away at the start: the collection was not known then."""

    class Late(MemoryService):
        where = None

        def store(self):
            return self.where or id(self)

    app.use("late", Late(start_id=1))
    late = app.service("late").live(pause=0.001)
    client = await Client(lists, late).open()
    late.service.where = "table"
    await app.service("todos").create({"n": 1})  # of another table
    await late.create({"n": 1})
    assert await client.rest() == ["snapshot", "entered"]


async def test_an_upsert_of_several_records_may_have_changed_some(todos, lists):
    from alula._context import HookContext, Params

    context = HookContext(todos.app, todos, "create", Params())
    context.result, context.event = [{"id": 1}, {"id": 2}], "created"
    context.result_events = ["created", "patched"]
    assert notices_module.notice_of(context).event == "changed"


async def test_touch_of_a_mounted_application_reaches_the_lists_of_the_outer_one(app, lists):
    inner = App().use("todos", MemoryService(start_id=1))
    app.use("inner", inner)
    todos = app.service("inner/todos").live(pause=0.001)
    client = await Client(lists, todos).open()
    await inner.service("todos").service.create({"n": 1}, {})
    inner.service("todos").touch(1)
    assert await client.rest() == ["snapshot", "entered"]
    await inner.service("todos").service.create({"n": 1}, {})
    todos.touch([2])
    assert await client.rest() == ["snapshot", "entered", "entered"]


async def test_what_the_database_tells_each_process(app, lists):
    """Then calls tell nothing, and other processes hear the database themselves."""
    inner = App().use("todos", MemoryService(start_id=1))
    app.use("inner", inner)
    handle = inner.service("todos")
    handle.publishes_calls = False
    todos = app.service("inner/todos").live(pause=0.001)
    client = await Client(lists, todos).open()
    sent = []
    app.channel_registry.forward = sent.append
    record = await todos.create({"n": 1})
    assert await client.rest() == ["snapshot"]
    handle.tell_lists("created", [1], [record])
    assert await client.rest() == ["snapshot", "entered"]
    assert sent == []


async def test_an_end_in_the_middle_of_a_read_leaves_nothing(todos, lists):
    """A client that leaves because of a message, while a change waits."""
    client = await Client(lists, todos).open()
    deliver = client.list.deliver

    def leave(messages):
        deliver(messages)
        lists.close(client.list)

    async def touch(context):
        todos.touch()

    todos.hooks(after={"find": [touch]})
    client.list.deliver = leave
    await todos.create({"n": 1})
    await eventually(lambda: client.kinds == ["snapshot", "entered"])
    await eventually(lambda: lists._groups == {} and app_is_idle(lists))


def app_is_idle(lists):
    turns = lists._turns
    return turns._running == 0 and not turns._reads_of and not turns._ready


async def test_a_list_that_its_own_read_closes(todos, lists):
    client = await Client(lists, todos).open()
    group = client.list.group

    async def close(context):
        lists.close(client.list)

    todos.hooks(after={"find": [close]})
    await todos.create({"n": 1})
    await eventually(lambda: not group.lists)
    lists._mark(group)  # as a change does that was found before
    await settle()
    assert client.kinds == ["snapshot"]
    assert app_is_idle(lists)


async def test_who_waits_for_rest_may_leave(todos, lists):
    go_on = asyncio.Event()
    client = await Client(lists, todos).open()

    async def wait(context):
        await go_on.wait()

    todos.hooks(before={"find": [wait]})
    await todos.create({"n": 1})
    waiting = [asyncio.ensure_future(lists.settled(client.connection)) for _ in range(2)]
    await settle()
    waiting[0].cancel()
    await settle()
    go_on.set()
    await waiting[1]
    assert client.kinds == ["snapshot", "entered"]


async def test_groups_that_become_equal_end_one_by_one(todos, lists):
    """Their hooks begin to look at what only one of them knew of."""
    looks = set()

    async def look(context):
        for name in looks:
            context.params.headers.get(name)

    todos.hooks(before={"find": [look]})
    first = await Client(lists, todos).open()
    looks.add("a")
    second = await Client(lists, todos, n=1).open()  # now it is known, and first is as it was
    third = await Client(lists, todos).open()
    assert first.list.group is not third.list.group
    await todos.create({"n": 1})
    for client in [first, second, third]:
        assert await client.rest() == ["snapshot", "entered"]
    looks.add("b")
    await todos.create({"n": 1})
    for client in [first, second, third]:
        assert await client.rest() == ["snapshot", "entered", "entered"]
    for client in [first, second, third]:  # once all were read, and two have the same key
        lists.close(client.list)
    assert lists._groups == {}
