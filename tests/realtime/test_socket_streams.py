"""Methods that stream, over socket.io: what clients get, and what ends a generator."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel
from tests.authentication.building import add_authentication, add_user, login
from tests.realtime.asgi_peer import Peer, settle
from tests.realtime.test_polling import PollingPeer
from tests.waiting import eventually

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.authentication import authenticate, protect
from alula.errors import Conflict
from alula.express import express
from alula.realtime import _limits, _socket_streams, socketio
from alula.schema import hidden, resolve, resolve_external

CANARY = "never-leaves"
SECONDS = 30


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """Let names be ``k1``, ``k2`` and so on; return the function that makes real ones."""
    numbers = itertools.count(1)
    real = _socket_streams.new_name
    monkeypatch.setattr(_socket_streams, "new_name", lambda: f"k{next(numbers)}")
    return real


def test_nobody_guesses_a_name(names):
    made = {names() for _ in range(100)}
    assert len(made) == 100
    assert min(map(len, made)) > 20


class Item(BaseModel):
    n: int


class Assistant:
    """Streams words; some of them do something else."""

    def __init__(self):
        self.begun = self.open = self.made = 0
        self.gate = asyncio.Event()
        self.cleaned_up = asyncio.Event()

    async def ask(self, data: Any, params: Params) -> AsyncIterator[Any]:
        self.begun += 1
        self.open += 1
        try:
            for word in data:
                match word:
                    case "wait":
                        await self.gate.wait()
                    case "conflict":
                        raise Conflict("taken", {"n": 1})
                    case "strange":
                        raise Conflict("taken", {"n": object()})
                    case "fail":
                        raise ValueError(CANARY)
                    case "timeout":
                        raise TimeoutError
                    case "object":
                        yield object()
                    case "bytes":
                        yield b"\x00\x01"
                    case _:
                        yield word
        finally:
            self.open -= 1

    async def pour(self, data: Any, params: Params) -> AsyncIterator[Any]:
        self.open += 1
        try:
            while True:
                self.made += 1
                yield data
        finally:
            self.open -= 1

    async def count(self, data: Any, params: Params) -> AsyncIterator[Item]:
        for n in range(data):
            yield {"n": n, "secret": CANARY}

    async def find(self, params: Params):
        yield {"id": 1, "password": CANARY, "note": CANARY}
        yield [{"id": 2, "password": CANARY, "note": CANARY}]

    async def tidy(self, data: Any, params: Params) -> AsyncIterator[int]:
        try:
            yield 1
            await self.gate.wait()
        finally:
            await asyncio.sleep(0.05)
            self.cleaned_up.set()

    async def plain(self, data, params):
        return data


METHODS = ["ask", "pour", "count", "find", "tidy", "plain"]


def make(debug=False, **options):
    app = express(App(debug=debug)).configure(socketio(**options))
    return app.use("assistant", Assistant(), methods=METHODS)


def service_of(app):
    return app.service("assistant").service


class Connect:
    """Connects clients to applications, and ends what is left of both."""

    def __init__(self):
        self.apps, self.peers = [], []

    async def __call__(self, app=None, *, auth=None, **options):
        app = app or make(**options)
        if app not in self.apps:
            self.apps.append(app)
            await app.setup()
        peer = Peer(app)
        self.peers.append(peer)
        await peer.join(auth)
        return app, peer


@pytest.fixture
async def connect(has_extension):
    connect = Connect()
    yield connect
    for peer in connect.peers:
        if not peer.closed.is_set():
            await peer.leave()
    for app in connect.apps:
        await eventually(lambda app=app: service_of(app).open == 0)
        await app.teardown()


async def stream_event(peer):
    """Return the arguments of the next event, which is one of a stream."""
    head, body = await peer.next()
    assert (head, body[0]) == ("42", "stream"), (head, body)
    return body[1:]


async def items_of(peer, key, ask_for_more=True):
    """Return the items up to the end, and what the end tells."""
    items = []
    while True:
        name, batch, *error = await stream_event(peer)
        assert name == key
        if batch is None:
            return items, error
        items += batch
        if ask_for_more:
            peer.send(f'42["stream:more","{key}",{len(batch)}]')


def handler_of(app):
    """Return what handles the packets of the only client."""
    (connection,) = app.channel_registry.connections.values()
    return connection._link.handler


def under_way(handler):
    """Return how many calls a client has under way."""
    return handler._under_way._count


async def test_the_items_of_a_stream_are_events(connect):
    app, peer = await connect()
    assert await peer.call("ask", "assistant", ["a", "b"]) == [None, {"$stream": "k1"}]
    assert await stream_event(peer) == ["k1", ["a"]]
    assert await stream_event(peer) == ["k1", ["b"]]
    assert await stream_event(peer) == ["k1", None]
    assert await peer.call("ask", "assistant", []) == [None, {"$stream": "k2"}]
    assert await items_of(peer, "k2") == ([], [])
    assert await peer.call("count", "assistant", 2) == [None, {"$stream": "k3"}]
    assert await items_of(peer, "k3") == ([{"n": 0}, {"n": 1}], [])
    await eventually(lambda: under_way(handler_of(app)) == 0)


async def test_a_hundred_items_come_in_order(connect):
    _, peer = await connect()
    await peer.call("count", "assistant", 100)
    items, error = await items_of(peer, "k1")
    assert ([item["n"] for item in items], error) == ([*range(100)], [])


async def test_two_streams_of_one_client(connect):
    app, peer = await connect()
    await peer.call("ask", "assistant", ["a", "wait", "b"])
    assert await stream_event(peer) == ["k1", ["a"]]
    assert await peer.call("ask", "assistant", ["c"]) == [None, {"$stream": "k2"}]
    assert await items_of(peer, "k2") == (["c"], [])
    service_of(app).gate.set()
    assert await items_of(peer, "k1") == (["b"], [])


async def test_binary_items_are_attachments(connect):
    _, peer = await connect()
    await peer.call("ask", "assistant", ["bytes"])
    head, body = await peer.next()
    assert (head, body) == ("451-", ["stream", "k1", [{"_placeholder": True, "num": 0}]])
    assert await peer.next() == b"\x00\x01"
    assert await stream_event(peer) == ["k1", None]


async def test_hidden_properties_are_in_no_item(connect):
    app = make()
    app.service("assistant").hooks(
        around={"find": [protect("password"), resolve_external(resolve({"note": hidden}))]}
    )
    _, peer = await connect(app)
    await peer.call("find", "assistant", {})
    items, _ = await items_of(peer, "k1")
    assert items == [{"id": 1}, [{"id": 2}]]
    assert await peer.call("count", "assistant", 1)
    assert CANARY not in json.dumps(await items_of(peer, "k2"))


# -- errors ----------------------------------------------------------------------------------------


async def test_an_error_before_the_first_item_is_that_of_the_call(connect, caplog):
    caplog.set_level("INFO")
    app, peer = await connect()
    error, *_ = await peer.call("ask", "assistant", ["conflict"])
    assert (error["code"], error["data"]) == (409, {"n": 1})
    assert "ask assistant over socket.io: Conflict: taken" in caplog.text
    error, *_ = await peer.call("ask", "assistant", ["object"])
    assert error["code"] == 500
    error, *_ = await peer.call("ask", "assistant", ["timeout"])
    assert error["code"] == 500
    await eventually(lambda: under_way(handler_of(app)) == 0)
    assert await peer.call("plain", "assistant", 1) == [None, 1]


async def test_a_later_error_is_that_of_the_stream(connect, caplog):
    caplog.set_level("INFO")
    app, peer = await connect()
    await peer.call("ask", "assistant", ["a", "conflict"])
    items, (error,) = await items_of(peer, "k1")
    assert (items, error["name"], error["code"], error["data"]) == (
        ["a"],
        "Conflict",
        409,
        {"n": 1},
    )
    lines = [r.getMessage() for r in caplog.records if "over socket.io" in r.getMessage()]
    assert lines == ["the stream of ask assistant over socket.io: Conflict: taken"]
    await peer.call("ask", "assistant", ["a", "strange"])
    _, (error,) = await items_of(peer, "k2")
    assert (error["code"], "data" in error) == (409, False)
    await eventually(lambda: under_way(handler_of(app)) == 0)


@pytest.mark.parametrize("words", [["a", "fail"], ["a", "object"]])
async def test_an_unexpected_error_has_no_text(connect, caplog, words):
    _, peer = await connect()
    await peer.call("ask", "assistant", words)
    _, (error,) = await items_of(peer, "k1")
    assert (error["name"], error["code"]) == ("GeneralError", 500)
    assert CANARY not in json.dumps(error)
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.getMessage() == "the stream of ask assistant over socket.io failed"


async def test_strangers_get_no_item(connect):
    app = make()
    app.use("users", MemoryService(start_id=1))
    add_authentication(app)
    app.service("assistant").hooks(before={"all": [authenticate("jwt")]})
    _, peer = await connect(app)
    error, *_ = await peer.call("ask", "assistant", ["a"])
    assert error["code"] == 401
    await add_user(app)
    assert (await peer.call("create", "authentication", login(), {}))[0] is None
    assert await peer.call("ask", "assistant", ["a"]) == [None, {"$stream": "k2"}]
    assert await items_of(peer, "k2") == (["a"], [])


async def test_a_stream_ends_when_its_user_signs_out(connect):
    app = make()
    app.use("users", MemoryService(start_id=1))
    add_authentication(app)
    app.service("assistant").hooks(before={"all": [authenticate("jwt")]})
    _, peer = await connect(app)
    await add_user(app)
    await peer.call("create", "authentication", login(), {})
    await peer.call("ask", "assistant", ["a", "wait", "b"])
    assert await stream_event(peer) == ["k1", ["a"]]
    assert (await peer.call("remove", "authentication", None, {}))[0] is None
    service_of(app).gate.set()
    items, (error,) = await items_of(peer, "k1")
    assert (items, error["code"]) == ([], 401)
    await eventually(lambda: service_of(app).open == 0)


async def test_a_stream_needs_an_acknowledgement(connect, caplog):
    caplog.set_level("INFO")
    app, peer = await connect()
    peer.send('42["ask","assistant",["a"],{}]')
    await eventually(lambda: "it needs an acknowledgement" in caplog.text)
    assert service_of(app).begun == 0
    assert await peer.call("plain", "assistant", 1) == [None, 1]  # nothing came in between


@pytest.mark.parametrize("debug", [False, True])
async def test_a_result_that_looks_like_a_stream(connect, caplog, debug):
    _, peer = await connect(debug=debug)
    looks = {"$stream": "k1"}
    assert await peer.call("plain", "assistant", looks) == [None, looks]
    assert ("has a result with $stream" in caplog.text) is debug


# -- back-pressure ---------------------------------------------------------------------------------


async def test_a_client_that_does_not_go_on_holds_the_method(connect):
    app, peer = await connect()
    await peer.call("pour", "assistant", "x")
    for _ in range(32):
        assert await stream_event(peer) == ["k1", ["x"]]
    await settle()
    assert (service_of(app).made, peer.from_server.empty()) == (33, True)
    peer.send('42["stream:more","k1",2]')
    await stream_event(peer)
    await stream_event(peer)
    await settle()
    assert (service_of(app).made, peer.from_server.empty()) == (35, True)
    assert under_way(handler_of(app)) == 1


async def test_large_items_wait_earlier(connect):
    app, peer = await connect()
    await peer.call("pour", "assistant", "x" * 100_000)
    for _ in range(3):
        await stream_event(peer)
    await settle()
    assert (service_of(app).made, peer.from_server.empty()) == (4, True)
    peer.send('42["stream:more","k1",1]')
    await stream_event(peer)
    await settle()
    assert service_of(app).made == 5


async def test_a_client_that_does_not_read_is_not_disconnected(connect, monkeypatch):
    monkeypatch.setattr(_limits, "MAX_QUEUED", 3)
    app, peer = await connect(backlog=20)
    peer.reads.clear()
    for number in range(10):
        peer.send(f'42{number}["ask","assistant",["a","b","c"],{{}}]')
    await settle()
    peer.reads.set()
    ends = 0
    while ends < 10:
        head, body = await peer.next()
        ends += head == "42" and body[2:] == [None]
    assert not peer.closed.is_set()
    await eventually(lambda: under_way(handler_of(app)) == 0)


async def test_a_stream_that_nobody_continues_ends(connect, caplog):
    caplog.set_level("INFO")
    app, peer = await connect(stream_timeout=0.05)
    await peer.call("pour", "assistant", "x")
    items, (error,) = await items_of(peer, "k1", ask_for_more=False)
    assert (len(items), error["code"]) == (32, 408)
    assert "asked for no more items" in error["message"]
    assert not [each for each in caplog.records if each.levelno > logging.INFO]
    await eventually(lambda: (service_of(app).open, under_way(handler_of(app))) == (0, 0))


async def test_reading_other_events_does_not_continue_a_stream(connect):
    app, peer = await connect(stream_timeout=0.3)
    await peer.call("pour", "assistant", "x")
    for _ in range(32):
        await stream_event(peer)
    for _ in range(1_000):
        handler_of(app).drained()
        if not peer.from_server.empty():
            break
        await asyncio.sleep(0.01)
    assert (await stream_event(peer))[1] is None


async def test_a_whole_stream_has_a_limit(connect):
    _, peer = await connect(stream_timeout=None, stream_duration=0.05)
    await peer.call("ask", "assistant", ["a", "wait"])
    _, (error,) = await items_of(peer, "k1")
    assert (error["code"], error["message"]) == (503, "The stream took longer than 0.05 seconds")
    await peer.call("pour", "assistant", "x")
    items, (error,) = await items_of(peer, "k2", ask_for_more=False)
    assert (len(items), error["code"]) == (32, 408)


async def test_a_stream_may_wait_for_any_time(connect):
    app, peer = await connect(stream_timeout=None)
    await peer.call("pour", "assistant", "x")
    for _ in range(32):
        await stream_event(peer)
    await settle()
    assert service_of(app).open == 1


async def test_the_next_item_may_not_take_for_ever(connect):
    app, peer = await connect(stream_timeout=0.05)
    error, *_ = await peer.call("ask", "assistant", ["wait"])
    assert (error["code"], error["message"]) == (503, "The stream had no item for 0.05 seconds")
    await peer.call("ask", "assistant", ["a", "wait"])
    _, (error,) = await items_of(peer, "k2")
    assert error["code"] == 503
    await eventually(lambda: service_of(app).open == 0)


@pytest.mark.parametrize("name", ["stream_timeout", "stream_duration"])
def test_limits_are_positive(name):
    with pytest.raises(ValueError, match=rf"socketio\({name}=0\): give a number"):
        socketio(**{name: 0})


async def test_streams_are_calls_under_way(connect):
    _, peer = await connect(max_calls=2)
    await peer.call("pour", "assistant", "x")
    for _ in range(32):
        await stream_event(peer)
    peer.send('422["ask","assistant",["wait"],{}]')
    error, *_ = await peer.call("plain", "assistant", 1, number=3)
    assert error["code"] == 429
    # They can be read and left all the same.
    peer.send('42["stream:more","k1",1]')
    assert await stream_event(peer) == ["k1", ["x"]]
    peer.send('42["stream:end","k1"]')
    await settle()
    assert await peer.call("plain", "assistant", 1, number=4) == [None, 1]


# -- ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["a", "wait"], ["wait"]])
@pytest.mark.parametrize("how", ["leave", "disconnect", "server"])
async def test_a_stream_ends_with_its_connection(connect, words, how):
    app, peer = await connect()
    peer.send(f'421["ask","assistant",{json.dumps(words)},{{}}]')
    await eventually(lambda: service_of(app).open == 1)
    await settle()
    handler = handler_of(app)
    if how == "leave":
        await peer.leave()
    elif how == "disconnect":
        peer.send("41")
    else:
        await handler.link.close(reconnect=False)
    await settle()
    assert (service_of(app).open, under_way(handler)) == (0, 0)


async def test_a_client_that_comes_back_has_no_streams(connect):
    app, peer = await connect(recover=True)
    await peer.call("ask", "assistant", ["a", "wait"])
    await settle()
    await peer.leave()
    await settle()
    assert service_of(app).open == 0


async def test_a_client_ends_a_stream(connect):
    app, peer = await connect()
    await peer.call("ask", "assistant", ["a", "wait"])
    assert await stream_event(peer) == ["k1", ["a"]]
    peer.send('42["stream:end","k1"]', '42["stream:end","k1"]')
    await settle()
    assert (service_of(app).open, under_way(handler_of(app))) == (0, 0)
    assert await peer.call("plain", "assistant", 1) == [None, 1]  # nothing came in between


async def test_a_call_whose_task_has_not_begun_ends_as_well(connect):
    app, peer = await connect()
    handler = handler_of(app)
    peer.send('421["ask","assistant",["a"],{}]', "41")
    await settle()
    assert (service_of(app).begun, under_way(handler)) == (0, 0)


async def test_a_server_that_stops_waits_for_what_cleans_up(connect):
    app, peer = await connect()
    await peer.call("tidy", "assistant", None)
    assert await stream_event(peer) == ["k1", [1]]
    await app.teardown()
    connect.apps.clear()
    assert service_of(app).cleaned_up.is_set()
    await peer.wait_closed()


async def test_polling_clients_have_streams_too():
    app = make()
    await app.setup()
    peer = await PollingPeer(app).join()
    await peer.post('421["pour","assistant","x",{}]')
    frames = []
    while len(frames) < 33:
        frames += (await peer.get()).frames
    assert frames[0] == '431[null,{"$stream":"k1"}]'
    await peer.post('42["stream:more","k1",1]')
    assert (await peer.get()).frames == ['42["stream","k1",["x"]]']
    await peer.post('42["stream:end","k1"]')
    await eventually(lambda: service_of(app).open == 0)
    await app.teardown()


# -- hostile clients -------------------------------------------------------------------------------

SIGNALS = [
    '["stream:more"]',
    '["stream:more","k1"]',
    '["stream:more","k1",null]',
    '["stream:more","k1",-1]',
    '["stream:more","k1",0]',
    '["stream:more","k1",0.5]',
    '["stream:more","k1",true]',
    '["stream:more","k1","9"]',
    '["stream:more","k1",[9]]',
    '["stream:more","k1",1e400]',
    f'["stream:more","k1",{"9" * 1000}]',
    '["stream:more","k2",9]',
    '["stream:more",["k1"],9]',
    '["stream:more",{"k1":1},9]',
    '["stream:end"]',
    '["stream:end","k2"]',
    '["stream:end",["k1"]]',
    '["stream:end",null,"k1"]',
]


@pytest.mark.parametrize("signal", SIGNALS)
async def test_signals_without_a_meaning_do_nothing(connect, caplog, signal):
    caplog.set_level("INFO")
    app, peer = await connect()
    await peer.call("pour", "assistant", "x")
    for _ in range(32):
        await stream_event(peer)
    caplog.clear()
    peer.send(*[f"42{signal}"] * 100)
    await settle()
    assert peer.from_server.empty()
    assert (service_of(app).made, service_of(app).open) == (33, 1)
    assert not caplog.records


async def test_a_huge_number_is_a_bounded_one(connect, monkeypatch):
    monkeypatch.setattr(_socket_streams, "MAX_CREDIT", 40)
    app, peer = await connect()
    await peer.call("pour", "assistant", "x")
    for _ in range(32):
        await stream_event(peer)
    for _ in range(3):
        peer.send(f'42["stream:more","k1",{2**53}]')
    for _ in range(40):
        await stream_event(peer)
    await settle()
    assert (service_of(app).made, peer.from_server.empty()) == (73, True)


async def test_a_signal_may_ask_for_an_acknowledgement(connect):
    _, peer = await connect()
    await peer.call("ask", "assistant", ["a"])
    assert await items_of(peer, "k1") == (["a"], [])
    assert await peer.call("stream:more", "k1", 1) == [None, None]
    assert await peer.call("stream:end", "k1") == [None, None]


async def test_signals_without_any_stream_flood_no_log(connect, caplog):
    caplog.set_level("INFO")
    _, peer = await connect()
    peer.send(*['42["stream:more","k1",1]'] * 100)
    assert await peer.call("plain", "assistant", 1) == [None, 1]
    assert len(caplog.records) <= 25
