"""Live lists over socket.io, by ASGI messages."""

from __future__ import annotations

import json

import pytest
from tests.authentication.building import add_authentication, add_user, login
from tests.realtime.asgi_peer import Peer, request, settle
from tests.realtime.test_polling import PollingPeer
from tests.waiting import eventually

from alula import App
from alula._live import _lists
from alula.adapters.memory import MemoryService
from alula.authentication import authenticate, protect
from alula.errors import Forbidden
from alula.express import express, rest
from alula.express import json as json_parser
from alula.realtime import _limits, socketio


def make(**options):
    app = express(App()).use(json_parser()).configure(rest()).configure(socketio(**options))
    app.use("todos", MemoryService(start_id=1, multi=True))
    app.use("others", MemoryService())
    app.service("todos").live(pause=0.001)
    return app


@pytest.fixture
async def app():
    app = make()
    await app.setup()
    yield app
    await app.teardown()


@pytest.fixture
async def connect(app):
    peers = []

    async def connect(headers=None, app=app, auth=None):
        peers.append(Peer(app, headers=headers))
        await peers[-1].join(auth)
        return peers[-1]

    yield connect
    for peer in peers:
        if not peer.closed.is_set():
            await peer.leave()


def lists_of(app):
    return app.settings["live lists"]


async def event(peer):
    """Return the name of the next event and its value."""
    head, body = await peer.next()
    assert head == "42", (head, body)
    return body[0], {name: value for name, value in body[1].items() if name != "have"}


async def test_a_list_follows_the_records(app, connect):
    todos = app.service("todos")
    await todos.create([{"text": "a"}, {"text": "b"}])
    peer = await connect()
    error, page = await peer.call("live", "todos", {"list": "a1"}, {"text": "a"})
    assert error is None
    assert page.pop("have").startswith("L.")
    assert page == {"rows": [{"text": "a", "id": 1}]}
    await todos.patch(2, {"text": "a"})
    entered = {"list": "a1", "kind": "entered", "at": 1, "data": {"text": "a", "id": 2}}
    assert await event(peer) == ("todos live", entered)
    await todos.remove(None, {"query": {}})
    head, body = await peer.next()
    assert body[1] == {"list": "a1", "kind": "left", "id": 1, "more": True}
    head, body = await peer.next()
    assert body[1].pop("have").startswith("L.")
    assert (head, body[1]) == ("42", {"list": "a1", "kind": "left", "id": 2})
    assert await peer.call("unlive", "todos", {"list": "a1"}, {}) == [None, {"list": "a1"}]
    assert await peer.call("unlive", "todos", {"list": "a1"}) == [None, {"list": "a1"}]
    assert lists_of(app)._groups == {}
    await todos.create({"text": "a"})
    assert await peer.call("find", "others") == [None, []]  # nothing came in between


async def test_a_name_is_for_one_list_of_a_service(app, connect):
    app.use("more", MemoryService())
    app.service("more").live()
    peer = await connect()
    page = {"rows": []}
    assert (await peer.call("live", "todos", {"list": "a"}))[1].items() >= page.items()
    assert (await peer.call("live", "more", {"list": "a"}))[1].items() >= page.items()
    error, *_ = await peer.call("live", "todos", {"list": "a"}, {"text": "b"})
    assert (error["code"], error["message"]) == (409, "a list called 'a' of 'todos' is open")
    await peer.call("unlive", "todos", {"list": "a"})
    assert (await peer.call("live", "todos", {"list": "a"}, {"text": "b"}))[0] is None


async def test_the_path_is_that_of_the_call(app, connect):
    app.use("rooms/:room/notes", MemoryService())
    app.service("rooms/:room/notes").live(pause=0.001)
    peer = await connect()
    await peer.call("live", "rooms/a%/notes", {"list": "n"})
    await app.service("rooms/:room/notes").create({"text": "x"}, {"route": {"room": "b"}})
    name, told = await event(peer)
    assert (name, told["kind"]) == ("rooms/a%/notes live", "entered")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["todos"], 400, "'live' needs the name of a list"),
        (["todos", {"list": ""}], 400, "'live' needs the name of a list"),
        (["todos", {"list": "x" * 101}], 400, "'live' needs the name of a list"),
        (["todos", {"list": 1}], 400, "'live' needs the name of a list"),
        (["todos", {"list": "a", "have": 1}], 400, "`have` is the text that came with"),
        (["todos", {"list": "a"}, []], 400, "A query has to be an object"),
        (["todos", {"list": "a"}, {}, 1], 400, "Too many arguments for 'live' method"),
        (["todos", {"list": "a"}, {"$limit": "x"}], 400, "$limit"),
        (["others", {"list": "a"}], 405, "Method 'live' not allowed on service 'others'"),
        (["none", {"list": "a"}], 404, "Service 'none' not found"),
    ],
)
async def test_what_cannot_be_a_list_is_refused(app, connect, arguments, code, message):
    peer = await connect()
    error, *_ = await peer.call("live", *arguments)
    assert error["code"] == code
    assert message in error["message"]
    assert lists_of(app)._lists_of == {}
    if code == 400:  # the name is free again
        assert (await peer.call("live", "todos", {"list": "a"}))[0] is None


async def test_a_list_needs_an_acknowledgement_and_a_connection(app, connect, caplog):
    caplog.set_level("INFO")
    peer = await connect()
    peer.send('42["live","todos",{"list":"a"},{}]')
    await eventually(lambda: "needs an acknowledgement" in caplog.text)
    assert lists_of(app)._groups == {}
    headers = {"x-service-method": "live", "content-type": "application/json"}
    response = await request(app, "/todos", "POST", b"{}", headers)
    assert response.status == 400
    assert "a live list needs a connection" in response.json["message"]
    response = await request(app, "/others", "POST", b"{}", headers)
    assert response.status == 405


async def test_who_comes_back_gets_only_what_differs(app, connect):
    todos = app.service("todos")
    await todos.create({"text": "a"})
    peer = await connect()
    _, first = await peer.call("live", "todos", {"list": "a"}, {})
    await peer.leave()
    back = await connect()
    _, page = await back.call("live", "todos", {"list": "a", "have": first["have"]}, {})
    assert page == {"unchanged": True, "have": first["have"]}
    _, page = await back.call("live", "todos", {"list": "b", "have": first["have"]}, {"text": "a"})
    assert page["rows"] == [{"text": "a", "id": 1}]  # another query
    await todos.create({"text": "b"})
    await event(back)
    again = await connect()
    _, page = await again.call("live", "todos", {"list": "a", "have": first["have"]}, {})
    assert len(page["rows"]) == 2


async def test_a_connection_has_a_number_of_lists(app, connect, monkeypatch):
    monkeypatch.setattr(_lists, "MAX_LISTS_OF_CONNECTION", 2)
    peer = await connect()
    await peer.call("live", "todos", {"list": "a"})
    await peer.call("live", "todos", {"list": "b"})
    error, *_ = await peer.call("live", "todos", {"list": "c"})
    assert error["code"] == 429


@pytest.mark.parametrize(("name", "limit"), [("MAX_QUEUED", 5), ("MAX_QUEUED_BYTES", 400)])
async def test_a_slow_reader_gets_the_list_when_it_reads_again(
    app, connect, monkeypatch, name, limit
):
    monkeypatch.setattr(_limits, name, limit)
    todos = app.service("todos")
    peer, other = await connect(), await connect()
    for each in (peer, other):
        await each.call("live", "todos", {"list": "a"}, {})
    peer.reads.clear()
    for _ in range(3):
        await todos.create([{"text": "x"}] * 5)
        await settle()
        await eventually(lambda: all(g.is_at_rest() for g in lists_of(app)._groups.values()))
    for _ in range(15):
        assert (await event(other))[1]["kind"] == "entered"  # also more at once than may wait
    peer.send('429["live","todos",{"settled":true}]')
    await settle()
    peer.reads.set()
    told = []
    while not told or told[-1]["kind"] != "reset":
        told.append((await event(peer))[1])
    assert len(told) <= 8
    assert told[-1]["why"] == "slow"
    assert len(told[-1]["rows"]) == 15
    assert (await peer.next())[0] == "439"  # settled, behind the list
    await todos.create({"text": "y"})
    assert (await event(peer))[1]["kind"] == "entered"


async def test_a_polling_client_has_lists_too(app):
    peer = await PollingPeer(app).join()
    await peer.post('421["live","todos",{"list":"a"},{}]')
    assert '"rows":[]' in (await peer.get()).frames[0]
    # More than may wait: the client gets some of them, and then the list.
    await app.service("todos").create([{"text": "x"}] * 150)
    (group,) = lists_of(app)._groups.values()
    await eventually(lambda: group.page)
    assert len((await peer.get()).frames) == 100
    assert '"kind":"reset"' in (await peer.get()).frames[0]


async def test_a_client_that_leaves_at_once_has_no_list(app):
    peer = await PollingPeer(app).join()
    await peer.post('421["live","todos",{"list":"a"},{}]\x1e41')
    await settle()
    assert '"code":503' in (await peer.get()).frames[0]
    assert lists_of(app)._lists_of == {}


async def test_the_lists_end_with_the_connection(app, connect):
    peer = await connect()
    await peer.call("live", "todos", {"list": "a"})
    await peer.leave()
    await eventually(lambda: lists_of(app)._lists_of == {} and lists_of(app)._groups == {})
    assert await app.service("todos").create({"text": "x"})


async def test_settled_is_behind_the_writes_of_the_connection(app, connect):
    app.service("todos").live(pause=0.1)
    peer = await connect()
    await peer.call("live", "todos", {"list": "a"})
    for number in range(3):
        peer.send(f'421["create","todos",{{"n":{number}}},{{}}]')
        head, _ = await peer.next()
        while head != "421" and head != "431":
            head, _ = await peer.next()
    peer.send('429["live","todos",{"settled":true}]')
    heads = [await peer.next()]
    while heads[-1][0] != "439":
        heads.append(await peer.next())
    assert heads[-1] == ("439", [None, {}])
    told = [body[1]["kind"] for head, body in heads[:-1]]
    assert set(told) <= {"entered"}
    (group,) = lists_of(app)._groups.values()
    assert len(group.page) == 3


async def test_settled_ends_with_the_connection(app, connect):
    peer = await connect()
    await peer.call("live", "todos", {"list": "a"})
    link = next(iter(app.channel_registry.connections.values()))._link
    for each in link.lists._open.values():
        each.is_behind = True
    peer.send('429["live","todos",{"settled":true}]')
    await settle()
    await peer.leave()
    await eventually(lambda: lists_of(app)._lists_of == {})


async def test_a_list_that_is_closed_before_it_is_read_is_an_error(app, connect):
    peer = await connect()
    peer.send('421["live","todos",{"list":"a"},{}]', '422["unlive","todos",{"list":"a"},{}]')
    answers = dict([await peer.next(), await peer.next()])
    assert answers["432"] == [None, {"list": "a"}]
    assert answers["431"][0] is None or answers["431"][0]["code"] == 503
    assert lists_of(app)._groups == {}


class TestRights:
    async def test_a_channel_that_it_joins_counts_for_find(self, app, connect):
        async def restrict(context):
            if context.params.provider:
                channels = context.params.connection.channels
                context.params.query["team"] = channels[0] if channels else "none"

        todos = app.service("todos")
        todos.hooks(before={"find": [restrict]})
        await todos.create({"team": "red"})
        peer = await connect()
        (connection,) = app.channel_registry.connections.values()
        await peer.call("live", "todos", {"list": "a"}, {})
        app.channel("red").join(connection)
        reset = {"list": "a", "kind": "reset", "rows": [{"team": "red", "id": 1}], "why": "rights"}
        assert await event(peer) == ("todos live", reset)
        app.channel("red").leave(connection)
        assert (await event(peer))[1]["rows"] == []

    async def test_a_right_that_ends_closes_the_list(self, app, connect):
        todos = app.service("todos")
        peer = await connect()
        await peer.call("live", "todos", {"list": "a"}, {})

        async def refuse(context):
            raise Forbidden("not any more")

        todos.hooks(before={"find": [refuse]})
        await todos.create({"text": "canary"})
        _, told = await event(peer)
        assert (told["kind"], told["error"]["code"]) == ("closed", 403)
        error, *_ = await peer.call("live", "todos", {"list": "a"}, {})
        assert error["code"] == 403  # and the name is free

    async def test_sign_in_and_sign_out_read_the_lists_again(self, app, connect):
        app.use("users", MemoryService(start_id=1))
        add_authentication(app)
        todos = app.service("todos")

        def own(context):
            if context.params.provider:
                context.params.query["userId"] = context.params.user["id"]

        todos.hooks(before={"find": [authenticate("jwt"), own]})
        await app.setup()
        await add_user(app)
        await add_user(app, "bob@example.com")
        await todos.create([{"userId": 1, "text": "of ada"}, {"userId": 2, "text": "of bob"}])
        peer = await connect()
        assert (await peer.call("live", "todos", {"list": "a"}, {}))[0]["code"] == 401
        await peer.call("create", "authentication", login())
        _, page = await peer.call("live", "todos", {"list": "a"}, {})
        assert [row["text"] for row in page["rows"]] == ["of ada"]
        peer.send(f'428["create","authentication",{json.dumps(login("bob@example.com"))},{{}}]')
        told = [await peer.next(), await peer.next()]
        (reset,) = [body[1] for head, body in told if head == "42"]
        assert [row["text"] for row in reset["rows"]] == ["of bob"]
        peer.send('429["remove","authentication",null,{}]')
        told = [await peer.next(), await peer.next()]
        (closed,) = [body[1] for head, body in told if head == "42"]
        assert (closed["kind"], closed["error"]["code"]) == ("closed", 401)

    async def test_nobody_gets_rows_or_hidden_properties_of_others(self, app, connect):
        todos = app.service("todos")

        async def own(context):
            if context.params.provider:
                context.params.query["owner"] = context.params.headers["x-user"]

        todos.hooks(before={"find": [own]}, after={"all": [protect("secret")]})
        peers = {name: await connect({"x-user": name}) for name in ("ann", "bob")}
        frames = {name: [] for name in peers}
        for peer in peers.values():
            await peer.call("live", "todos", {"list": "a"}, {})
            await peer.call("live", "todos", {"list": "b"}, {"$limit": 1, "$sort": {"n": -1}})
        for number in range(4):
            for name in peers:
                record = {"owner": name, "n": number, "secret": f"canary-{name}"}
                await todos.create({"id": f"id-{name}-{number}", **record})
            moved = {"owner": "bob" if number % 2 else "ann"}
            await todos.patch(f"id-ann-{number}", moved)
        await todos.remove(None, {"query": {"n": 1}})
        for name, peer in peers.items():
            peer.send('429["live","todos",{"settled":true}]')
            while not frames[name] or not frames[name][-1].startswith("439"):
                frames[name].append(await peer.from_server.get())
        text = {name: "".join(told) for name, told in frames.items()}
        assert "id-ann-0" in text["ann"]
        assert "id-bob-0" in text["bob"]
        assert "canary" not in text["ann"] + text["bob"]
        assert "id-bob" not in text["ann"]
        assert "id-ann-0" not in text["bob"]


class TestRecovery:
    @pytest.fixture
    async def app(self):
        app = make(recover=60)
        await app.setup()
        yield app
        await app.teardown()

    async def test_who_was_away_gets_the_lists_whole(self, app, connect):
        todos = app.service("todos")
        peer = Peer(app)
        joined = await peer.join()
        await peer.call("live", "todos", {"list": "a"}, {})
        await peer.leave()
        await todos.create({"text": "x"})
        (group,) = lists_of(app)._groups.values()
        await eventually(lambda: group.page)
        back = await connect(auth={"pid": joined["pid"]})
        _, reset = await event(back)
        assert reset["rows"] == [{"text": "x", "id": 1}]
        await todos.create({"text": "y"})
        assert (await event(back))[1]["kind"] == "entered"

    async def test_a_list_that_ended_meanwhile_is_told(self, app, connect):
        todos = app.service("todos")
        peer = Peer(app)
        joined = await peer.join()
        await peer.call("live", "todos", {"list": "a"}, {})
        await peer.leave()

        async def refuse(context):
            raise Forbidden("not any more")

        todos.hooks(before={"find": [refuse]})
        await todos.create({"text": "x"})
        await eventually(lambda: lists_of(app)._groups == {})
        back = await connect(auth={"pid": joined["pid"]})
        assert (await event(back))[1]["kind"] == "closed"


async def test_binary_values_are_attachments(app, connect):
    todos = app.service("todos")
    peer = await connect()
    await peer.call("live", "todos", {"list": "a"}, {})
    await todos.create({"bytes": b"\x00\x01"})
    head, _ = await peer.next()
    assert head.startswith("451-")
    assert await peer.next() == b"\x00\x01"


async def test_clients_that_do_not_ask_see_nothing(app, connect):
    todos = app.service("todos")
    quiet, peer = await connect(), await connect()
    await peer.call("live", "todos", {"list": "a"}, {})
    await todos.create({"text": "x"})
    await event(peer)
    assert quiet.from_server.empty()
