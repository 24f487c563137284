"""Live lists of clients, over sockets and over event streams by each library."""

from __future__ import annotations

import asyncio
import threading

import httpx2
import pytest
from tests.client.faking import FakeFetch
from tests.client.realtime_app import serve_in_thread
from tests.waiting import eventually

from alula import App
from alula.adapters.memory import MemoryService
from alula.client import (
    LiveChange,
    RestService,
    create_client,
    create_sync_client,
    rest,
    socketio,
)
from alula.client import _live_list as live_list_module
from alula.client import _live_stream as live_stream_module
from alula.client import _retries as retries_module
from alula.errors import (
    BadGateway,
    BadRequest,
    Forbidden,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    Timeout,
    Unavailable,
)
from alula.express import api, express
from alula.realtime import socketio as socketio_of_server
from alula.realtime import sse

KINDS = {
    "socketio": socketio,
    "fetch": rest,
    "httpx": lambda url: rest(url).httpx(),
    "aiohttp": lambda url: rest(url).aiohttp(),
}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(retries_module, "_FIRST_DELAY", 0.002)
    monkeypatch.setattr(retries_module, "_LONGEST_DELAY", 0.02)


class Store(MemoryService):
    """Todos that other applications may share."""


def make_app(store=None, recover=None):
    app = api()
    app.configure(socketio_of_server(recover=recover)).configure(sse())
    app.use("todos", Store(start_id=1, multi=True) if store is None else store)
    app.use("others", MemoryService())
    app.service("todos").live(pause=0.001)
    return app


@pytest.fixture
def app():
    return make_app()


@pytest.fixture
async def server(app):
    server = await app.listen(0)
    yield server
    await server.close()


@pytest.fixture(params=KINDS)
async def client(request, server):
    async with create_client().configure(KINDS[request.param](server.url)) as client:
        yield client


async def cut(app, reason=""):
    """End all connections, as a network does."""
    for connection in [*app.channel_registry.connections.values()]:
        await connection.close(reason)


async def next_of(changes):
    async with asyncio.timeout(30):
        return await anext(changes)


async def test_a_list_follows_the_records(app, client):
    todos = app.service("todos")
    await todos.create([{"text": "a", "state": "open"}, {"text": "b", "state": "done"}])
    async with client.service("todos").live({"state": "open", "$limit": 2}) as open_todos:
        assert open_todos.rows == [{"text": "a", "state": "open", "id": 1}]
        await todos.patch(2, {"state": "open"})
        record = {"text": "b", "state": "open", "id": 2}
        assert await next_of(open_todos) == LiveChange("entered", 2, 1, record)
        assert len(open_todos.rows) == 2
        await todos.remove(1)
        assert await next_of(open_todos) == LiveChange("left", 1, None, None)
        assert open_todos.rows == [record]
        await todos.patch(None, {"text": "c"}, {"query": {}})
        (changed,) = await next_of(open_todos.batches())
        assert changed.record["text"] == "c"
        await todos.remove(None)
        await todos.create([{"state": "open"}, {"state": "open"}])
        kinds = []
        async for change in open_todos:
            kinds.append(change.kind)
            if len(kinds) == 3:
                break
        assert kinds == ["left", "entered", "entered"]
        waiting = asyncio.ensure_future(anext(open_todos, None))
        await asyncio.sleep(0)
    assert await waiting is None
    assert [changes async for changes in open_todos.batches()] == []
    await eventually(lambda: app.settings["live lists"]._groups == {})


async def test_settled_has_what_the_client_wrote(client):
    todos = client.service("todos")
    async with todos.live({"$sort": {"id": -1}}) as newest:
        for number in range(3):
            await todos.create({"n": number})
            await newest.settled()
            assert [row["n"] for row in newest.rows] == [*range(number, -1, -1)]
        await next_of(newest)
        await todos.create({"n": 3})
        await newest.settled()
        assert len(newest.rows) == 4


async def test_a_list_opens_itself_again(app, client):
    todos = app.service("todos")
    await todos.create({"n": 1})
    async with client.service("todos").live() as rows:
        for number in range(2, 5):
            await cut(app)
            if number == 3:  # before it comes back, or just behind
                await todos.create({"n": 0})
            await todos.create({"n": number})
            await eventually(lambda: app.channel_registry.connections)
            await rows.settled()
            assert [row["n"] for row in rows.rows][-1] == number
        kinds = []
        while len(kinds) < 6 and rows._sink.is_ready():
            kinds.append((await next_of(rows)).kind)
        assert set(kinds) <= {"reset", "entered"}


async def test_nothing_is_told_if_nothing_was_missed(app, client):
    await app.service("todos").create({"n": 1})
    async with client.service("todos").live() as rows:
        await cut(app, "expired")
        await eventually(lambda: app.channel_registry.connections)
        given_up = asyncio.ensure_future(rows.settled())
        await asyncio.sleep(0)
        given_up.cancel()
        await rows.settled()
        assert not rows._sink.is_ready()
        assert rows.rows == [{"n": 1, "id": 1}]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_starts_again_has_the_list(kind):
    store = Store(start_id=1)
    app = make_app(store)
    server = await app.listen(0)
    async with (
        create_client().configure(KINDS[kind](server.url)) as client,
        client.service("todos").live() as rows,
    ):
        await server.close()
        await store.create({"n": 1}, {})
        other = make_app(store)
        async with asyncio.timeout(30):
            server = await other.listen(server.port)
        assert (await next_of(rows)).kind == "reset"
        assert rows.rows == [{"n": 1, "id": 1}]
        await other.service("todos").create({"n": 2})
        assert (await next_of(rows)).kind == "entered"
    await server.close()


async def test_a_list_that_is_closed_raises_the_error(app, client):
    todos = app.service("todos")
    async with client.service("todos").live() as rows:

        def refuse(context):
            if context.params.provider:
                raise Forbidden("not any more")

        todos.hooks(before={"find": [refuse]})
        await todos.create({"n": 1})
        with pytest.raises(Forbidden, match="not any more"):
            await next_of(rows)
        assert rows.rows == []
        with pytest.raises(Forbidden):
            await rows.settled()


@pytest.mark.parametrize(
    ("path", "query", "error"),
    [
        ("todos", {"$limit": "x"}, BadRequest),
        ("others", {}, MethodNotAllowed),
        ("none", {}, NotFound),
    ],
)
async def test_a_list_that_is_refused_raises_at_once(client, path, query, error):
    with pytest.raises(error):
        await client.service(path).live(query).open()


async def test_a_list_that_may_not_be_opened_again_ends(app, client):
    todos = app.service("todos")
    async with client.service("todos").live() as rows:

        def refuse(context):
            raise NotAuthenticated("sign in")

        todos.hooks(before={"find": [refuse]})
        await cut(app)
        with pytest.raises(NotAuthenticated):
            await next_of(rows)


async def test_hooks_of_the_client_run_each_time(app, client):
    seen = []
    app.service("todos").hooks(before={"find": [lambda c: seen.append(c.params.query.get("n"))]})
    numbers = iter(range(1, 100))

    def number(context):
        context.params.query["n"] = next(numbers)

    client.service("todos").hooks(before={"find": [number]})
    async with client.service("todos").live({"state": "done"}) as rows:
        await cut(app)
        await rows.settled()
    assert len({*map(int, seen)}) > 1


async def test_a_hook_that_fails_ends_the_list(app, client):
    fails = []

    def fail(context):
        if fails:
            raise ZeroDivisionError

    client.service("todos").hooks(before={"find": [fail]})
    async with client.service("todos").live() as rows:
        fails.append(1)
        await cut(app)
        with pytest.raises(ZeroDivisionError):
            await next_of(rows)


async def test_a_hook_that_responds_leaves_no_list(client):
    def respond(context):
        context.result = []

    client.service("todos").hooks(before={"find": [respond]})
    with pytest.raises(RuntimeError, match="responds in its place"):
        await client.service("todos").live().open()


async def test_a_slow_reader_gets_one_reset(app, client, monkeypatch):
    monkeypatch.setattr(live_list_module, "MAX_WAITING_CHANGES", 5)
    todos = app.service("todos")
    async with client.service("todos").live() as rows:
        await todos.create([{"n": number} for number in range(20)])
        assert (await next_of(rows)).kind == "reset"
        assert len(rows.rows) == 20


async def test_only_services_of_a_server_have_lists(client):
    client.use("local", MemoryService())
    with pytest.raises(RuntimeError, match="no live lists here"):
        client.service("local").live()
    with pytest.raises(TypeError, match="queryy"):
        client.service("todos").live({}, {"queryy": {}})


async def test_closing_the_client_ends_its_lists(client):
    rows = client.service("todos").live()
    await rows.open()
    await client.close()
    assert await anext(rows, None) is None
    await rows.aclose()


class TestOverASocket:
    @pytest.fixture
    async def client(self, server):
        async with create_client().configure(socketio(server.url)) as client:
            yield client

    async def test_streams_of_events_do_not_see_it(self, app, client):
        app.on("connection", lambda c: app.channel("all").join(c))
        app.service("todos").publish(lambda data, context: app.channel("all"))
        events = client.service("todos").events()
        async with client.service("todos").live() as rows:
            await client.service("todos").create({"n": 1})
            assert (await next_of(rows)).kind == "entered"
            assert (await next_of(events)).event == "created"

    async def test_an_event_of_another_list_is_an_event(self, app, client):
        app.on("connection", lambda c: app.channel("all").join(c))
        app.use("more", MemoryService(), events=["live"])
        app.service("more").publish(lambda data, context: app.channel("all"))
        events = client.service("more").events()
        await client.open()
        app.service("more").emit("live", {"list": "foreign"})
        assert (await next_of(events)).data == {"list": "foreign"}

    async def test_the_placeholders_of_the_path_are_filled(self, app, client):
        app.use("rooms/:room/notes", MemoryService(start_id=1))
        app.service("rooms/:room/notes").live()
        notes = client.service("rooms/:room/notes")
        async with notes.live({}, {"route": {"room": "a"}}) as rows:
            await notes.create({"n": 1}, {"route": {"room": "a"}})
            assert (await next_of(rows)).kind == "entered"
        with pytest.raises(BadRequest, match="placeholder"):
            await notes.live().open()


async def test_a_connection_that_is_recovered_goes_on():
    app = make_app(recover=60)
    server = await app.listen(0)
    async with (
        create_client().configure(socketio(server.url)) as client,
        client.service("todos").live() as rows,
    ):
        link = next(iter(app.channel_registry.connections.values()))._link
        link.session.close("transport error")  # the connection sleeps
        await app.service("todos").create({"n": 1})
        assert (await next_of(rows)).kind == "reset"
        await rows.settled()
        assert len(rows.rows) == 1
    await server.close()


async def test_a_list_whose_answer_was_lost_is_opened_again(app, server):
    """The connection breaks while the list is opened again."""
    async with (
        create_client().configure(socketio(server.url)) as client,
        client.service("todos").live() as rows,
    ):
        breaks = iter([1, 1])

        async def break_it(context):
            if context.params.provider and next(breaks, None):
                await context.params.connection.close()
                await asyncio.sleep(0.05)

        app.service("todos").hooks(before={"find": [break_it]})
        await cut(app)
        await app.service("todos").create({"n": 1})
        await eventually(rows._sink.is_ready)
        assert rows.rows == [{"n": 1, "id": 1}]


class TestOverStreams:
    async def test_a_stream_that_is_silent_is_opened_again(self, app, server, monkeypatch):
        monkeypatch.setattr(live_stream_module, "SILENCE", 0.1)
        async with (
            create_client().configure(rest(server.url).aiohttp()) as client,
            client.service("todos").live(),
        ):
            before = {*app.channel_registry.connections}
            await eventually(lambda: {*app.channel_registry.connections} - before)

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            (b"event: snapshot\ndata: {\n\n", BadGateway),
            (b"event: moved\ndata: {}\n\n", BadGateway),
            (b'event: snapshot\ndata: {"rows":[]}\n\nevent: moved\ndata: {}\n\n', None),
            (b"[]", BadGateway),
        ],
    )
    async def test_what_is_no_list_is_an_error(self, text, error):
        app = express(App())
        app.get("/todos", lambda req, res: res.set("Content-Type", "text/event-stream").send(text))
        server = await app.listen(0)
        for library in ("fetch", "httpx", "aiohttp"):
            async with create_client().configure(KINDS[library](server.url)) as client:
                rows = client.service("todos").live()
                if error is None:
                    await rows.open()
                    await rows.aclose()
                else:
                    with pytest.raises(error):
                        await rows.open()
        await server.close()

    async def test_a_list_that_was_closed_is_settled(self, server):
        async with create_client().configure(rest(server.url)) as client:
            rows = client.service("todos").live()
            await rows.open()
            await rows.aclose()
            await rows.settled()

    async def test_nobody_listens(self):
        for library in ("fetch", "httpx", "aiohttp"):
            async with create_client().configure(KINDS[library]("http://127.0.0.1:1")) as client:
                with pytest.raises(Unavailable):
                    await client.service("todos").live().open()

    async def test_a_function_of_the_user_has_whole_responses_alone(self):
        fetch = FakeFetch((200, b"", {"content-type": "text/event-stream"}))
        connection = rest("http://127.0.0.1:1").fetch(fetch, RestService)
        async with create_client().configure(connection) as client:
            with pytest.raises(TypeError, match="whole responses alone"):
                await client.service("todos").live().open()

    async def test_two_callers_get_their_own_rows_alone(self, app, server):
        todos = app.service("todos")

        def own(context):
            if context.params.provider:
                context.params.query["owner"] = context.params.headers["x-user"]

        todos.hooks(before={"find": [own]})
        rows = {}
        for name in ("ann", "bob"):
            options = {"headers": {"x-user": name}}
            for kind in ("socketio", "httpx"):
                make = socketio if kind == "socketio" else rest(server.url).httpx
                given = [server.url] if kind == "socketio" else []
                client = create_client().configure(make(*given, options=options))
                rows[name, kind] = client.service("todos").live(), client
        for opened, _ in rows.values():
            await opened.open()
        await todos.create([{"owner": "ann", "n": 1}, {"owner": "bob", "n": 2}])
        for (name, _), (opened, client) in rows.items():
            assert (await next_of(opened)).record["owner"] == name
            await opened.settled()
            assert [row["owner"] for row in opened.rows] == [name]
            await opened.aclose()
            await client.close()


class TestTheBlockingClient:
    @pytest.fixture
    def url(self, app):
        with serve_in_thread(app) as url:
            yield url

    @pytest.fixture(params=KINDS)
    def client(self, request, url):
        with create_sync_client().configure(KINDS[request.param](url)) as client:
            yield client

    def test_a_list_follows_the_records(self, client):
        todos = client.service("todos")
        todos.create([{"n": 1}, {"n": 2}])
        with todos.live({"$sort": {"n": -1}}) as rows:
            assert [row["n"] for row in rows.rows] == [2, 1]
            todos.create({"n": 3})
            rows.settled()
            assert [row["n"] for row in rows.rows] == [3, 2, 1]
            change = rows.get(timeout=30)
            assert change.kind in {"entered", "reset"}
            todos.remove(2)
            seen = []
            for change in rows:
                seen.append(change.kind)
                if len(rows.rows) == 2:
                    break
            assert seen[-1] in {"left", "reset"}
            todos.create([{"n": 4}])
            assert len(next(rows.batches())) == 1
            todos.create([{"n": 5}, {"n": 6}])
            assert [rows.get(timeout=30).kind for _ in range(2)] == ["entered", "entered"]
            todos.create([{"n": 7}, {"n": 8}])
            reading = iter(rows)
            assert [next(reading).kind for _ in range(2)] == ["entered", "entered"]
            with pytest.raises(Timeout):
                rows.get(timeout=0.01)
            threading.Timer(0.05, rows.close).start()
            assert [*rows] == []
            assert [*rows.batches()] == []
            with pytest.raises(NotFound, match="closed"):
                rows.get()

    def test_closing_the_client_ends_its_lists(self, client):
        rows = client.service("todos").live()
        rows.open()
        client.close()
        assert [*rows] == []

    def test_errors_are_raised(self, client):
        with pytest.raises(MethodNotAllowed):
            client.service("others").live().open()
        with pytest.raises(BadRequest):
            client.service("todos").live({"$limit": "x"}).open()

    def test_an_end_by_the_server_is_raised(self, app, client):
        with client.service("todos").live() as rows:

            def refuse(context):
                if context.params.provider:
                    raise Forbidden("not any more")

            app.service("todos").hooks(before={"find": [refuse]})
            client.service("todos").create({"n": 1})
            with pytest.raises(Forbidden):
                rows.get(timeout=30)

    def test_a_client_of_the_user_that_blocks_has_no_lists(self, url):
        with httpx2.Client() as blocking:
            connection = rest(url).httpx(blocking)
            with (
                create_sync_client().configure(connection) as client,
                pytest.raises(TypeError, match="reads no live lists"),
            ):
                client.service("todos").live().open()
