"""The socket.io transport by ASGI messages: joining, calls, events, polling, upgrade."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging

import pytest
from tests.realtime.asgi_peer import PATH, Peer, request, settle

from alula import App, Params
from alula._connection import Event
from alula._hub import WorkerPlace
from alula._shares import Shares
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest, Forbidden, GeneralError, TooManyRequests
from alula.express import express, rest
from alula.realtime import socketio
from alula.realtime._limits import LogLimit

POLL = f"{PATH}polling"
pytestmark = pytest.mark.usefixtures("has_extension")

VARIABLE = contextvars.ContextVar("variable", default=None)


class Unsendable:
    """A model that fails while it is turned into JSON."""

    def model_dump(self, **options):
        raise ValueError("unset")


class Things:
    """Answers in many ways."""

    async def find(self, params):
        return {"query": params.query, "route": params.route, "provider": params.provider}

    async def get(self, id, params):
        return {"id": id, "name": params.get("name")}

    async def create(self, data, params):
        return data

    async def update(self, id, data, params):
        return {"id": id, **data}

    async def patch(self, id, data, params):
        return {"id": id, **data}

    async def remove(self, id, params):
        return {"id": id}

    async def wait(self, data, params):
        before = VARIABLE.get()
        VARIABLE.set(data)
        for _ in range(3):
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await gates[data].wait()
        return [before, VARIABLE.get(), data]

    async def fail(self, data, params):
        raise {
            "expected": BadRequest("no", {"a": 1}),
            "general": GeneralError("broken"),
            "unexpected": ZeroDivisionError("secret"),
            "unencodable": BadRequest("no", {"a": object()}),
        }[data]

    async def odd(self, data, params):
        return object()

    async def limit(self, data, params):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()


METHODS = ["find", "get", "create", "update", "patch", "remove", "wait", "fail", "odd", "limit"]
gates: dict = {}


def make(debug=False, **options):
    gates.clear()
    app = App(debug=debug)
    transport = socketio(**options)
    web = express(app).configure(transport)
    web.use("things", Things(), methods=METHODS)
    web.use("users/:userId/things", Things())
    web.use("feed", MemoryService(start_id=1))
    web.service("feed").publish(lambda data, context: app.channel("everyone"))

    @app.on("connection")
    def join(connection):
        app.channel("everyone").join(connection)

    web.transport = transport
    return web


@pytest.fixture
def web():
    return make()


async def joined(web, **options):
    peer = Peer(web, **options)
    await peer.join()
    return peer


# -- calls -----------------------------------------------------------------------------------------

CALLS = [
    (["find", "things"], {"query": {}, "route": {}, "provider": "socketio"}),
    (["find", "things", {"a": 1}], {"query": {"a": 1}, "route": {}, "provider": "socketio"}),
    (
        ["find", "users/a b%20/things", None],
        {"query": {}, "route": {"userId": "a b%20"}, "provider": "socketio"},
    ),
    (["get", "/things/", 1], {"id": 1, "name": None}),
    (["get", "things", "x", {}], {"id": "x", "name": None}),
    (["create", "things", [1]], [1]),
    (["create", "things"], {}),
    (["update", "things", None, {"a": 1}], {"id": None, "a": 1}),
    (["patch", "things", 1.5, {"a": 1}, {}], {"id": 1.5, "a": 1}),
    (["remove", "things", None, {}], {"id": None}),
]


@pytest.mark.parametrize(("arguments", "result"), CALLS)
async def test_a_call_is_answered(web, arguments, result):
    peer = await joined(web)
    assert await peer.call(*arguments) == [None, result]
    await peer.leave()


class Typed:
    """Says by its annotations what it takes."""

    async def get(self, id: int, params: Params, *, version: int = 1) -> list[int]:
        return [id, version]

    async def add(self, data: list[int], params: Params) -> int:
        return sum(data)


async def test_annotations_hold_for_calls(web):
    web.use("typed", Typed(), methods=["get", "add"])
    peer = await joined(web)
    assert await peer.call("get", "typed", "7", {"version": "2"}) == [None, [7, 2]]
    assert await peer.call("add", "typed", ["1", 2]) == [None, 3]
    for arguments, code in (
        (["get", "typed", "x"], 404),
        (["get", "typed", 1, {"more": 1}], 400),
        (["add", "typed", {}], 400),
    ):
        [error] = await peer.call(*arguments)
        assert error["code"] == code
    await peer.leave()


REFUSED = [
    (["find"], 404, "Invalid service path"),
    (["find", 1], 404, "Invalid service path"),
    (["find", ""], 404, "Service '' not found"),
    (["find", "%" * 5_000], 404, "Invalid service path"),
    (["find", "nowhere"], 404, "Service 'nowhere' not found"),
    (["find", "things/1"], 404, "Service 'things/1' not found"),
    (["find", "__proto__"], 404, "Service '__proto__' not found"),
    ([5, "things"], 405, "Method '5' not allowed on service 'things'"),
    (["hooks", "things"], 405, "Method 'hooks' not allowed on service 'things'"),
    (["__init__", "things"], 405, "Method '__init__' not allowed on service 'things'"),
    (["find", "things", {}, {}], 400, "Too many arguments for 'find' method"),
    (["wait", "things", {}, {}, {}], 400, "Too many arguments for 'wait' method"),
    (["update", "things", 1], 400, "Too few arguments for 'update' method: data missing"),
    (["patch", "things"], 400, "Too few arguments for 'patch' method: id and data missing"),
    (["remove", "things"], 400, "Too few arguments for 'remove' method: id missing"),
    (["get", "things", {}], 400, "An id has to be a string or a number"),
    (["get", "things", True], 400, "An id has to be a string or a number"),
    (["get", "things", None], 400, "id for 'get' can not be null"),
    (["find", "things", "ab"], 400, "A query has to be an object"),
    (["find", "things", [1]], 400, "A query has to be an object"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), REFUSED)
async def test_what_cannot_be_called_is_answered(web, arguments, code, message):
    peer = await joined(web)
    [error] = await peer.call(*arguments)
    assert (error["code"], error["message"]) == (code, message)
    peer.send(f'42["{arguments[0]}"]')  # without an acknowledgement: nothing
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    await peer.leave()


HALF_AN_EMOJI = '"\\ud83d"'
LEVELS = "[" * 300 + "]" * 300


@pytest.mark.parametrize(
    ("text", "attachments"),
    [
        (f'421["create","things",{{"text":{HALF_AN_EMOJI}}}]', []),
        (f'421["find","things",{{"text":{HALF_AN_EMOJI}}}]', []),
        (f'421["find",{HALF_AN_EMOJI}]', []),
        (f'421["create","things",{LEVELS}]', []),
        (f'421["create","things",[{",".join(["[]"] * 50_001)}]]', []),
        (
            f'451-1["create","things",{{"_placeholder":true,"num":0}},{{"a":{HALF_AN_EMOJI}}}]',
            [b"x"],
        ),
    ],
    ids=["data", "query", "path", "levels", "lists", "binary"],
)
async def test_a_call_with_json_that_rest_refuses_is_answered(web, text, attachments):
    peer = await joined(web)
    peer.send(text, *attachments)
    _, [error] = await peer.next()
    assert error["code"] == 400
    assert error["message"].startswith("The arguments are not valid JSON: ")
    peer.send(text.replace("1[", "[", 1), *attachments)  # without an acknowledgement: nothing
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    await peer.leave()


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("expected", {"name": "BadRequest", "message": "no", "data": {"a": 1}}),
        ("general", {"name": "GeneralError", "message": "broken"}),
        (
            "unexpected",
            {"name": "GeneralError", "message": "The server failed; its log says why"},
        ),
        ("unencodable", {"name": "BadRequest", "message": "no"}),
    ],
)
async def test_errors_are_those_of_rest(web, what, error, caplog):
    peer = await joined(web)
    caplog.set_level(logging.CRITICAL)
    [got] = await peer.call("fail", "things", what)
    assert {name: got.get(name) for name in error} == error
    assert got.keys() == {"name", "message", "code", "className"} | error.keys()
    peer.send(f'42["fail","things","{what}"]')
    await peer.call("get", "things", 1)
    await peer.leave()


async def test_debug_shows_the_message_of_an_unexpected_error(caplog):
    caplog.set_level(logging.CRITICAL)
    peer = await joined(make(debug=True))
    [error] = await peer.call("fail", "things", "unexpected")
    assert error["message"] == "ZeroDivisionError: secret"
    await peer.leave()


async def test_unexpected_errors_are_logged_with_their_stack_and_others_in_a_line(web, caplog):
    caplog.set_level(logging.INFO, "alula.realtime")
    peer = await joined(web)
    await peer.call("fail", "things", "unexpected")
    assert caplog.records[-1].exc_info
    await peer.call("find", "no\nwhere")
    assert "Service 'no\\nwhere' not found" in caplog.records[-1].getMessage()
    assert not caplog.records[-1].exc_info
    await peer.leave()


async def test_failing_calls_of_a_client_do_not_fill_the_log(web, caplog):
    caplog.set_level(logging.INFO, "alula.realtime")
    peer, other = await joined(web), await joined(web, ip="10.0.0.2")
    for _ in range(300):
        await peer.call("find", "nowhere")
    assert 20 <= len(caplog.records) < 60  # one more for each second
    before = len(caplog.records)
    await other.call("find", "elsewhere")
    assert "'elsewhere' not found" in caplog.records[-1].getMessage()
    assert len(caplog.records) == before + 1
    await peer.leave()
    await other.leave()


async def test_failures_that_were_left_out_are_counted(web, caplog, monkeypatch):
    monkeypatch.setattr(LogLimit, "take", lambda limit, address: 7)
    caplog.set_level(logging.INFO, "alula.realtime")
    peer = await joined(web)
    await peer.call("find", "nowhere")
    assert [record.getMessage() for record in caplog.records] == [
        "7 earlier failures of 10.0.0.1 over socket.io were not logged",
        "a call over socket.io: NotFound: Service 'nowhere' not found",
    ]
    await peer.leave()


async def test_refused_websockets_do_not_fill_the_log(web, caplog):
    caplog.set_level(logging.INFO, "alula.realtime")
    headers = {"origin": "https://evil.example", "cookie": "a=1", "host": "here"}
    for _ in range(50):
        await Peer(web, headers=headers).wait_closed()
    assert 20 <= len(caplog.records) < 40


async def test_a_result_without_a_json_form_is_an_error(web, caplog):
    peer = await joined(web)
    [error] = await peer.call("odd", "things")
    assert error["code"] == 500
    assert "has no JSON form" in caplog.text
    await peer.leave()


async def test_calls_overtake_each_other_in_contexts_of_their_own(web):
    gates.update(a=asyncio.Event(), b=asyncio.Event())
    peer = await joined(web)
    peer.send('421["wait","things","a"]', '422["wait","things","b"]')
    assert await peer.call("get", "things", 3, number=3) == [None, {"id": 3, "name": None}]
    gates["b"].set()
    assert await peer.next() == ("432", [None, [None, "b", "b"]])
    gates["a"].set()
    assert await peer.next() == ("431", [None, [None, "a", "a"]])
    assert VARIABLE.get() is None
    await peer.leave()


async def test_a_call_may_use_timeouts(web, caplog):
    caplog.set_level(logging.CRITICAL)
    peer = await joined(web)
    [error] = await peer.call("limit", "things")
    assert error["code"] == 500
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    await peer.leave()


async def test_a_call_goes_on_when_its_client_leaves(web):
    gates.update(a=asyncio.Event())
    peer = await joined(web)
    peer.send('421["wait","things","a"]')
    await settle()
    leaving = asyncio.ensure_future(peer.leave())
    await settle()
    gates["a"].set()
    await leaving


async def test_calls_under_way_are_limited():
    web = make(max_calls=2)
    gates.update(a=asyncio.Event())
    peer = await joined(web)
    peer.send('421["wait","things","a"]', '422["wait","things","a"]')
    [error] = await peer.call("get", "things", 1, number=3)
    assert (error["code"], error["message"]) == (429, "More than 2 calls are under way")
    gates["a"].set()
    assert {(await peer.next())[0], (await peer.next())[0]} == {"431", "432"}
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    await peer.leave()


def wait_call(number, size):
    return f'42{number}["wait","things","a",{{"padding":"{"x" * size}"}}]'


async def test_the_bytes_of_calls_under_way_are_limited():
    web = make(max_message=100_000)  # so 1,600,000
    gates.update(a=asyncio.Event())
    peer = await joined(web)
    peer.send(*(wait_call(number, 90_000) for number in range(100, 117)))
    [error] = await peer.call("create", "things", {"padding": "x" * 90_000}, number=3)
    assert error["code"] == 429
    assert error["message"] == "The calls under way have over 1600000 bytes"
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    gates["a"].set()
    for _ in range(17):
        await peer.next()
    assert len(await peer.call("create", "things", {"padding": "x" * 90_000})) == 2
    await peer.leave()


async def test_calls_count_beyond_the_end_of_their_connection(monkeypatch):
    monkeypatch.setattr("alula.realtime._sockets._CLIENTS_OF_CALL_BYTES", 2)
    web = make(max_message=100_000)
    gates.update(a=asyncio.Event())
    leaving = []
    for _ in range(3):
        peer = await joined(web)
        peer.send(*(wait_call(number, 90_000) for number in range(100, 110)))
        await settle()
        peer.to_server.put_nowait({"type": "websocket.disconnect", "code": 1006})
        peer.closed.set()
        leaving.append(peer.task)
    # 3,200,000 bytes altogether, of which one address has half.
    peer = Peer(web)
    peer.send('40{"padding":"' + "x" * 90_000 + '"}')
    assert (await peer.next())[0] == "0"
    assert await peer.next() == (
        "44",
        {"message": "The calls under way of all clients have too many bytes"},
    )
    other = await joined(web, ip="10.0.0.2")
    assert len(await other.call("create", "things", {"padding": "x" * 90_000})) == 2
    gates["a"].set()
    await asyncio.gather(*leaving)
    await peer.join_again({"padding": "x" * 90_000})
    await peer.leave()
    await other.leave()


async def test_binary_data_that_is_not_complete_counts(monkeypatch):
    monkeypatch.setattr("alula.realtime._sockets._CLIENTS_OF_CALL_BYTES", 1)
    web = make(max_message=100_000)  # so one address has 800,000 bytes
    head = '452-["create","things",{"_placeholder":true,"num":0}]'
    peers = [await joined(web) for _ in range(9)]
    for peer in peers:
        peer.send(head, b"x" * 90_000)
    await settle()
    assert [peer.closed.is_set() for peer in peers] == [False] * 8 + [True]
    await peers[0].leave()  # it gives its share back
    again = await joined(web)
    again.send(head, b"x" * 90_000, b"y")
    assert await again.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    for peer in (*peers[1:], again):
        await peer.leave()


async def test_binary_data_of_one_client_is_limited():
    web = make(max_message=100_000)
    gates.update(a=asyncio.Event())
    peer = await joined(web)
    peer.send(*(wait_call(number, 99_000) for number in range(100, 116)))
    peer.send('452-["create","things",{"_placeholder":true,"num":0}]', b"x" * 90_000)
    await peer.wait_closed()
    gates["a"].set()
    await peer.leave()


async def test_binary_data_before_the_join_is_not_kept(web):
    peer = Peer(web)
    peer.send('451-["create","things",{"_placeholder":true,"num":0}]')
    await peer.wait_closed()
    await peer.leave()


async def test_what_a_client_joins_with_is_not_kept(web):
    handshakes = []

    @web.transport.use
    async def remember(connection, handshake, next):
        handshakes.append(handshake)
        await next()

    peer = Peer(web)
    await peer.join({"token": "a"})
    assert handshakes[0].auth == {"token": "a"}
    peer.send("41", '40{"token":"b"}')
    assert (await peer.next())[0] == "40"
    assert [handshake.auth["token"] for handshake in handshakes] == ["a", "b"]
    await peer.leave()


async def test_a_burst_of_calls_leaves_turns_to_others(web):
    peer = await joined(web)
    peer.send(*(f'42{number}["get","things",{number}]' for number in range(1_000)))
    most = before = 0
    while before < 1_000:
        await asyncio.sleep(0)
        answered = peer.from_server.qsize()
        most, before = max(most, answered - before), answered
    assert most <= 64
    await peer.leave()


class Busy:
    """Holds up the event loop for 10 ms of a clock of its own with each call."""

    def __init__(self, web):
        self.now, self.begun = 1.0, []
        web.turns._now = lambda: self.now

    async def create(self, data, params):
        self.begun.append(data)
        self.now += 0.01
        return data

    def order(self):
        """Return the places at which the calls of others began."""
        return [at for at, data in enumerate(self.begun) if data == "other"]


async def test_long_calls_of_one_client_leave_turns_to_others(web):
    busy = Busy(web)
    web.use("busy", busy)
    peer, other = await joined(web), await joined(web, ip="10.0.0.2")
    peer.send(*(f'42{number}["create","busy",{number}]' for number in range(64)))
    other.send('421["create","busy","other"]')
    assert await other.next() == ("431", [None, "other"])
    assert [(await peer.next())[1] for _ in range(64)] == [[None, n] for n in range(64)]
    assert busy.order()[0] < 4
    await peer.leave()
    await other.leave()


async def test_connections_of_one_client_share_its_turns(web):
    busy = Busy(web)
    web.use("busy", busy)
    peers = [await joined(web) for _ in range(16)]
    other = await joined(web, ip="10.0.0.2")
    for peer in peers:
        peer.send('421["create","busy","mine"]')
    other.send('421["create","busy","other"]')
    await other.next()
    for peer in peers:
        assert await peer.next() == ("431", [None, "mine"])
    assert busy.order()[0] < 4
    for peer in (*peers, other):
        await peer.leave()


async def test_a_client_that_leaves_gives_its_turns_up(web):
    busy = Busy(web)
    web.use("busy", busy)
    peer = await joined(web)
    peer.send(*(f'42{number}["create","busy",{number}]' for number in range(64)))
    await peer.leave()
    other = await joined(web)
    assert await other.call("create", "busy", "other") == [None, "other"]
    await other.leave()


async def test_calls_count_as_long_as_they_wait(monkeypatch):
    shares = Shares(1_000_000)
    monkeypatch.setattr("alula.realtime._sockets.Shares", lambda _: shares)
    peer = await joined(make(max_calls=2))
    gates.update(a=asyncio.Event())

    def under_way():
        return not shares.has_room(None, 1_000_000)

    peer.send(*(f'42{number}["get","things",{number}]' for number in range(10)))
    assert [len((await peer.next())[1]) for _ in range(10)] == [2] * 10
    assert not under_way()
    peer.send('421["wait","things","a"]')
    await settle()
    assert under_way()
    gates["a"].set()
    await peer.next()
    assert not under_way()
    peer.send('422["fail","things","expected"]', '423["wait","things","unknown"]')
    assert [len((await peer.next())[1]) for _ in range(2)] == [1, 1]
    assert not under_way()
    await peer.leave()


async def test_joins_after_the_first_count_as_calls():
    web = make(max_call_rate=3)
    told = []
    web.on("connection", told.append)
    peer = await joined(web)
    peer.send(*["41", "40"] * 5)
    answers = [await peer.next() for _ in range(4)]
    assert [head for head, _ in answers] == ["40", "40", "40", "44"]
    assert answers[3][1] == {"message": "More than 3 calls a second"}
    await peer.wait_closed()  # it leaves once more, and is nowhere
    assert len(told) == 4
    await peer.leave()


async def test_the_rate_of_calls_is_limited():
    peer = await joined(make(max_call_rate=3))
    answers = [await peer.call("get", "things", 1) for _ in range(5)]
    assert [len(answer) for answer in answers] == [2, 2, 2, 1, 1]
    assert answers[-1][0]["code"] == TooManyRequests.code
    await peer.leave()


async def test_binary_data_goes_both_ways(web):
    peer = await joined(web)
    peer.send('451-1["create","things",{"a":{"_placeholder":true,"num":0}}]', b"\1\2")
    assert await peer.next() == ("461-1", [None, {"a": {"_placeholder": True, "num": 0}}])
    assert await peer.next() == b"\1\2"
    await peer.leave()


# -- events ----------------------------------------------------------------------------------------


async def test_events_reach_all_connections_in_order(web):
    one, two = await joined(web), await joined(web)
    for number in range(3):
        await web.service("feed").create({"n": number})
    for peer in (one, two):
        for number in range(3):
            event = ["feed created", {"n": number, "id": number + 1}]
            assert await peer.next() == ("42", event)
        await peer.leave()


@pytest.mark.parametrize("data", [object(), Unsendable()])
async def test_an_event_without_a_json_form_is_logged(web, data, caplog):
    peer = await joined(web)
    web.service("feed").emit("created", data)
    assert "its data has no JSON form" in caplog.text
    assert peer.from_server.empty()
    await peer.leave()


async def test_a_slow_reader_is_disconnected_and_hurts_nobody():
    web = make(backlog=10)
    slow, other = await joined(web), await joined(web)
    slow.reads.clear()
    connection, _ = web.channel("everyone").connections
    for number in range(11):
        await web.service("feed").create({"n": number})
    assert connection.queued == 10
    for number in range(5):
        await web.service("feed").create({"n": number})
    assert not connection.is_open
    assert connection.queued == 0
    for _ in range(16):
        assert (await other.next())[0] == "42"
    slow.reads.set()
    await slow.wait_closed()
    await other.leave()


async def test_many_large_answers_disconnect_nobody(web):
    peer = await joined(web)
    peer.reads.clear()
    text = "x" * 100_000
    for number in range(30):
        peer.send(f'42{number}["create","things",{{"text":"{text}"}}]')
    await settle()
    peer.reads.set()
    answers = dict([await peer.next() for _ in range(30)])
    assert answers == {f"43{number}": [None, {"text": text}] for number in range(30)}
    await peer.leave()


async def test_a_reader_that_catches_up_gets_all_in_order(web):
    peer = await joined(web)
    peer.reads.clear()
    for number in range(100):
        await web.service("feed").create({"n": number})
    await settle()
    peer.reads.set()
    for number in range(100):
        assert (await peer.next())[1][1]["n"] == number
    await peer.leave()


async def test_sending_to_a_client_that_has_left_is_no_error(web):
    peer, slow = await joined(web), await joined(web)
    slow.reads.clear()
    peer.closed.set()
    for number in range(3):
        await web.service("feed").create({"n": number})
    slow.closed.set()
    slow.reads.set()
    await settle()
    await peer.leave()
    await slow.leave()
    assert web.channels == []


# -- joining ---------------------------------------------------------------------------------------


async def test_middleware_gets_the_handshake_and_may_refuse(web):
    seen = []

    @web.transport.use
    async def first(connection, handshake, next):
        seen.append(handshake)
        connection.name = handshake.query["name"]
        await next()

    @web.transport.use
    async def second(connection, handshake, next):
        why = handshake.auth.get("why")
        if why == "forbidden":
            raise Forbidden("no entry", {"why": "because"})
        if why == "unexpected":
            raise ZeroDivisionError("secret")
        if why != "silence":
            await next()

    url = f"{PATH}websocket&name=a%20b"
    peer = Peer(web, url, headers={"x-test": "1", "X-Test": "2"})
    await peer.join({"token": "t"})
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": "a b"}]
    [handshake] = seen
    assert handshake.auth == {"token": "t"}
    assert (handshake.headers["x-test"], handshake.ip) == ("1, 2", "10.0.0.1")
    await peer.leave()
    for why, error in {
        "forbidden": {"message": "no entry", "data": {"why": "because"}},
        "unexpected": {"message": "The server failed; its log says why"},
        "silence": {"message": "The connection was refused"},
    }.items():
        peer = Peer(web, url)
        peer.send("40" + json.dumps({"why": why}))
        await peer.next()
        assert await peer.next() == ("44", error)
        await peer.leave()


@pytest.mark.parametrize(
    ("middleware", "text"),
    [(None, "middleware is a function"), (lambda connection: None, "expected")],
)
def test_what_is_not_middleware_is_refused(middleware, text):
    with pytest.raises(TypeError, match=text):
        socketio().use(middleware)


async def test_connections_come_and_go(web):
    told = []
    web.on("connection", lambda connection: told.append(("connection", connection.id)))
    web.on("disconnect", lambda connection: told.append(("disconnect", connection.id)))
    peer = Peer(web)
    sid = (await peer.join())["sid"]
    peer.send("41")
    await settle()
    assert told == [("connection", sid), ("disconnect", sid)]
    peer.send("40")
    assert (await peer.next())[0] == "40"
    await peer.leave()
    assert [event for event, _ in told] == ["connection", "disconnect"] * 2


async def test_a_client_that_leaves_while_it_joins_is_forgotten(web):
    reached, gate = asyncio.Event(), asyncio.Event()

    @web.transport.use
    async def wait(connection, handshake, next):
        web.channel("early").join(connection)
        reached.set()
        await gate.wait()
        await next()

    told = []
    web.on("connection", told.append)
    peer = Peer(web)
    peer.send("40")
    await reached.wait()
    leaving = asyncio.ensure_future(peer.leave())
    await settle()
    gate.set()
    await leaving
    assert told == []
    assert web.channels == []


@pytest.mark.parametrize(
    "frame",
    [
        "40",
        '42["find","things"]',
        "42/x,[1]",
        "41/x",
        '44"x"',
        "4hello",
        "42{}",
        '42abc["find","things"]',
        b"x",
        "",
        f'421["create","things",{HALF_AN_EMOJI}',
        f'421["connect",{HALF_AN_EMOJI}]',
        f'421{{"a":{HALF_AN_EMOJI}}}',
        f"421[{LEVELS},[]]",
        "421" + "[" * 200_000,
    ],
)
async def test_a_packet_that_may_not_come_closes_the_connection(web, frame):
    peer = await joined(web)
    peer.send("41" if frame == '42["find","things"]' else "3", frame)
    await peer.wait_closed()
    assert web.channels == []


async def test_a_join_that_finds_the_queue_full_is_no_connection():
    web = make(backlog=3)
    peer = await joined(web)
    [connection] = web.channel("everyone").connections
    peer.reads.clear()
    for number in range(4):  # one is being sent
        await web.service("feed").create({"n": number})
    peer.send("41", "40")
    await settle()
    assert not connection.is_open
    assert web.channels == []
    peer.reads.set()
    await peer.wait_closed()
    await peer.leave()


async def test_unknown_namespaces_are_refused_and_a_flood_of_them_is_closed(web):
    peer = await joined(web)
    for _ in range(10):
        peer.send("40/admin,")
        assert await peer.next() == ("44/admin,", {"message": "Invalid namespace"})
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    peer.send("40/admin,")
    await peer.wait_closed()


async def test_acknowledgements_of_clients_are_passed_over(web):
    peer = await joined(web)
    peer.send("4377[1]", "4378[1]")
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    await peer.leave()


async def test_a_client_that_does_not_join_is_closed():
    web = make(join_timeout=1)
    peer = Peer(web)
    await peer.wait_closed()
    other = await joined(web)
    other.send("41")  # it has left, and does not join again
    await other.wait_closed()


async def test_the_application_disconnects_a_client(web):
    peer = await joined(web)
    [connection] = web.channel("everyone").connections
    web.emit("disconnect", connection)
    assert await peer.next() == ("41", None)
    peer.send("40")  # the client may join anew over the same session
    assert (await peer.next())[0] == "40"
    [connection] = web.channel("everyone").connections
    await connection.close("expired")
    await peer.wait_closed()
    await connection.close()


# -- handshakes ------------------------------------------------------------------------------------

HANDSHAKES = [
    ("GET", "?EIO=4", 0, 400),
    ("GET", "?EIO=4&transport=flashsocket", 0, 400),
    ("GET", "?EIO=4&transport=websocket", 3, 400),
    ("GET", "?EIO=3&transport=polling", 5, 400),
    ("GET", "?transport=polling", 5, 400),
    ("POST", "?EIO=4&transport=polling", 2, 400),
    ("PUT", "?EIO=4&transport=polling", 2, 400),
    ("OPTIONS", "?EIO=4&transport=polling", 2, 400),
    ("GET", "?EIO=abc&transport=polling", 5, 400),
    ("GET", "?EIO=4&transport=polling&sid=unknown", 1, 400),
    ("GET", "?EIO=4&transport=polling" + "&a=1" * 101, 3, 400),
]


@pytest.mark.parametrize(("method", "query", "code", "status"), HANDSHAKES)
async def test_a_request_that_is_not_valid_is_refused(web, method, query, code, status):
    response = await request(web, f"/socket.io/{query}", method)
    assert (response.status, response.json["code"]) == (status, code)


@pytest.mark.parametrize(
    "query",
    ["", "?EIO=4&transport=polling", "?transport=websocket", "?EIO=4&transport=websocket&sid=x"],
)
async def test_a_websocket_that_is_not_valid_is_refused(web, query):
    peer = Peer(web, f"/socket.io/{query}")
    await peer.wait_closed()
    assert peer.accepted is False


@pytest.mark.parametrize("is_async", [True, False])
async def test_admit_refuses_handshakes(is_async):
    def admit(handshake):
        assert handshake.auth == {}
        return "not today" if "x-refuse" in handshake.headers else None

    async def admit_later(handshake):
        return admit(handshake)

    web = make(admit=admit_later if is_async else admit)
    response = await request(web, POLL, headers={"x-refuse": "1"})
    assert response.status == 403
    assert response.json == {"code": 4, "message": "not today"}
    assert (await request(web, POLL)).status == 200
    peer = Peer(web, headers={"x-refuse": "1"})
    await peer.wait_closed()
    assert peer.accepted is False


async def test_connections_are_limited():
    web = make(max_connections=2, max_connections_of_address=1)
    peer = await joined(web)
    refused = await request(web, POLL)
    assert (refused.status, refused.json["code"]) == (429, 4)
    other = await joined(web, ip=None)
    refused = await request(web, POLL, ip="10.0.0.3")
    assert (refused.status, refused.json["message"]) == (503, "Too many connections")
    await peer.leave()
    again = await joined(web)
    await again.leave()
    await other.leave()


async def test_handshakes_without_a_join_are_limited(web, monkeypatch):
    monkeypatch.setattr("alula.realtime._sockets.MAX_WITHOUT_CONNECTION", 3)
    peer = await joined(web)
    responses = [await request(web, POLL) for _ in range(5)]
    assert [response.status for response in responses] == [200] * 5
    ids = [json.loads(response.frames[0][1:])["sid"] for response in responses]
    statuses = [
        (await request(web, f"{POLL}&sid={sid}", method="POST", body=b"3")).status for sid in ids
    ]
    assert statuses == [400, 400, 200, 200, 200]  # the oldest have made room
    other = await joined(web)
    await other.leave()
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    await peer.leave()
    web.endpoints.close()
    assert (await request(web, POLL)).status == 503


OPTIONS = [
    ({"path": "x"}, "starts with a slash"),
    ({"path": "//"}, "has a name"),
    ({"transports": ["webtransport"]}, "polling"),
    ({"transports": []}, "polling"),
    ({"ping_interval": 0}, "greater than 0"),
    ({"max_calls": True}, "greater than 0"),
    ({"recover": -1}, "greater than 0"),
]


@pytest.mark.parametrize(("options", "text"), OPTIONS)
def test_options_are_checked(options, text):
    with pytest.raises(ValueError, match=text):
        socketio(**options)


TYPES = [
    ({"recover": "yes"}, r"recover='yes'\): give True, or a number of seconds"),
    ({"ping_interval": "25"}, r"ping_interval='25'\): give a number"),
    ({"bus": "redis://localhost"}, r"such as RedisBus\(url\)"),
]


@pytest.mark.parametrize(("options", "text"), TYPES)
def test_options_have_types(options, text):
    with pytest.raises(TypeError, match=text):
        socketio(**options)


def test_plain_middleware_is_refused():
    def plain(connection, handshake, next):
        raise AssertionError

    with pytest.raises(TypeError, match=r"plain is a plain function; write `async def"):
        socketio().use(plain)


async def test_a_path_is_not_shared_with_a_service():
    web = express(App()).use("live/cameras", Things()).configure(rest())
    web.configure(socketio("/live/"))
    with pytest.raises(RuntimeError, match=r"service 'live/cameras', since a transport has its"):
        await web.listen(0)
    closed = express(App()).use("live", Things(), methods=[]).configure(socketio("/live/"))
    async with await closed.listen(0):
        assert [server.path for server in closed.channel_registry.servers] == ["/live/"]


def test_what_is_not_an_application_is_refused():
    with pytest.raises(TypeError, match=r"write app = express\(App\(\)\)"):
        App().configure(socketio())
    with pytest.raises(TypeError, match="origins"):
        socketio(origins="https://app.example")
    with pytest.raises(TypeError, match="admit"):
        socketio(admit=lambda: None)
    assert repr(socketio("/ws")) == "socketio(path='/ws')"


def test_a_websocket_library_is_needed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"alula\[realtime\]"):
        socketio()
    socketio(transports="polling")


async def test_a_call_without_an_acknowledgement_is_carried_out(web):
    peer = await joined(web)
    peer.send('42["create","feed",{"n":1}]')
    assert await peer.next() == ("42", ["feed created", {"n": 1, "id": 1}])
    await peer.leave()


async def test_a_full_queue_and_a_disconnect(web):
    web = make(backlog=3)
    peer = await joined(web)
    [connection] = web.channel("everyone").connections
    peer.reads.clear()
    for number in range(4):
        await web.service("feed").create({"n": number})
    await connection.close(reconnect=False)
    connection._link.deliver(Event("feed", "created", 1, 1))  # late: nobody gets it
    peer.reads.set()
    await peer.wait_closed()
    await peer.leave()


async def test_workers_take_requests_of_each_other(tmp_path, monkeypatch):
    place = WorkerPlace(tmp_path, "w3")
    monkeypatch.setattr("alula.realtime._socketio.name_sessions", lambda: place)
    web = make()
    await web.setup()
    response = await request(web, POLL)
    assert json.loads(response.frames[0][1:])["sid"].startswith("w3.")
    assert (tmp_path / "w3.sock").exists()
    await web.teardown()
    assert not (tmp_path / "w3.sock").exists()
