"""A worker hands requests for the sessions of another worker over to it."""

from __future__ import annotations

import asyncio
import os

import pytest
from tests.waiting import eventually

from alula._hub import WorkerDirectory, WorkerPlace, current_worker, frame
from alula.realtime import _handover
from alula.realtime._handover import Handover, name_sessions


class Transport:
    """An ASGI application that tells what it was asked.

    Attributes:
        scopes: The scopes that it got.
        received: The messages that it got.
        wait: What it waits for before it responds, None for nothing.
    """

    def __init__(self, name):
        self.name = name
        self.scopes = []
        self.received = []
        self.wait = None

    async def __call__(self, scope, receive, send):
        self.scopes.append(scope)
        if scope["type"] == "websocket":
            await self._echo(receive, send)
            return
        body = b""
        while True:
            message = await receive()
            self.received.append(message)
            body += message["body"]
            if not message.get("more_body"):
                break
        if self.wait is not None:
            await self.wait.wait()
        headers = [(b"x-name", self.name.encode()), (b"x-latin", b"\xe9")]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": body[:1], "more_body": True})
        await send({"type": "http.response.body", "body": body[1:]})

    async def _echo(self, receive, send):
        self.received.append(await receive())
        await send({"type": "websocket.accept", "subprotocol": None, "headers": []})
        while True:
            message = await receive()
            self.received.append(message)
            if message["type"] == "websocket.disconnect":
                return
            if message.get("text") == "close":
                await send({"type": "websocket.close", "code": 1000})
                return
            await send({"type": "websocket.send", "text": None, "bytes": None, **echo_of(message)})


def echo_of(message):
    return {name: message[name] for name in ("text", "bytes") if message.get(name) is not None}


class Exchange:
    """One ASGI connection as its server sees it."""

    def __init__(self, app, kind="http", sid="w2.x", **values):
        self.sent = asyncio.Queue()
        self.messages = asyncio.Queue()
        self.scope = {
            "type": kind,
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/socket.io/",
            "raw_path": b"/socket.io/",
            "root_path": "",
            "query_string": f"EIO=4&transport=polling&sid={sid}".encode(),
            "headers": [(b"host", b"here"), (b"x-latin", b"\xe9")],
            "client": ("192.0.2.1", 1234),
            "server": None,
            "state": {"of": object()},
            **values,
        }
        self.task = asyncio.create_task(
            app(self.scope, self.messages.get, self.sent.put), name="exchange"
        )

    def send(self, **message):
        self.messages.put_nowait(message)

    async def next(self):
        async with asyncio.timeout(30):
            return await self.sent.get()

    async def response(self):
        async with asyncio.timeout(30):
            await self.task
        messages = [self.sent.get_nowait() for _ in range(self.sent.qsize())]
        body = b"".join(message.get("body", b"") for message in messages[1:])
        return messages[0]["status"], dict(messages[0]["headers"]), body


@pytest.fixture
async def workers():
    """Two workers, each with its transport."""
    directory = WorkerDirectory()
    transports = [Transport("one"), Transport("two")]
    handovers = [
        Handover(transport, WorkerPlace(directory.path, f"w{number}"))
        for number, transport in enumerate(transports, 1)
    ]
    for handover in handovers:
        await handover.start()
    yield [*handovers, *transports]
    for handover in handovers:
        await handover.stop()
    directory.close()


async def test_a_request_reaches_the_worker_of_its_session(workers):
    first, _, one, two = workers
    exchange = Exchange(first)
    exchange.send(type="http.request", body=b"he", more_body=True)
    exchange.send(type="http.request", body=b"llo")
    assert await exchange.response() == (201, {b"x-name": b"two", b"x-latin": b"\xe9"}, b"hello")
    assert one.scopes == []
    expected = {name: value for name, value in exchange.scope.items() if name != "state"}
    assert two.scopes == [expected]


async def test_a_response_arrives_that_did_not_wait_for_the_body(workers):
    first, second, _, _ = workers

    async def respond_at_once(scope, receive, send):
        waiting = asyncio.ensure_future(receive())  # left behind, as by a transport that polls
        await asyncio.sleep(0.02)
        waiting.cancel()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"early"})

    second._app = respond_at_once
    exchange = Exchange(first)
    for _ in range(100):
        exchange.send(type="http.request", body=b"x" * 10_000, more_body=True)
    assert await exchange.response() == (200, {}, b"early")


@pytest.mark.parametrize("sid", ["w1.x", "unknown", "w.x", "w2x", "../w2.x", "w2-.x", ""])
async def test_all_else_is_served_here(workers, sid):
    first, _, _, two = workers
    exchange = Exchange(first, sid=sid)
    exchange.send(type="http.request", body=b"")
    assert (await exchange.response())[1][b"x-name"] == b"one"
    assert two.scopes == []


@pytest.mark.parametrize(
    ("own", "sid", "owner"),
    [
        ("w1", "w2.x", "w2"),
        ("w1", "w1-1.x", None),
        ("w1", "w2-1.x", None),
        ("w1", "w2-0.x", None),
        ("w1-1", "w2-1.x", "w2-1"),
        ("w1-1", "w2.x", None),
        ("w1-1", "w1-2.x", None),
        ("w1-1", "w1-1.x", None),
    ],
)
def test_requests_do_not_reach_other_transports(tmp_path, own, sid, owner):
    assert Handover(Transport("one"), WorkerPlace(tmp_path, own)).owner_of(sid) == owner


async def test_a_session_of_a_worker_that_has_ended_is_unknown_here(workers):
    first, second, one, _ = workers
    await second.stop()
    for sid in ("w2.x", "w17.x", "w2-1.x"):
        exchange = Exchange(first, sid=sid)
        exchange.send(type="http.request", body=b"")
        assert (await exchange.response())[1][b"x-name"] == b"one"
    assert len(one.scopes) == 3


async def test_a_worker_that_dies_before_its_response_leaves_an_unknown_session(workers):
    first, second, one, two = workers
    two.wait = asyncio.Event()
    exchange = Exchange(first)
    exchange.send(type="http.request", body=b"hello")
    await eventually(lambda: two.received)
    await second.stop()
    # Its body is gone. For a session that is unknown it does not matter.
    assert await exchange.response() == (201, {b"x-name": b"one", b"x-latin": b"\xe9"}, b"")
    websocket = Exchange(first, "websocket", sid="w2.x")
    websocket.send(type="websocket.connect")
    assert (await websocket.next())["type"] == "websocket.accept"
    assert one.received[-1] == {"type": "websocket.connect"}
    websocket.send(type="websocket.receive", text="close")
    await websocket.task


async def test_a_worker_that_dies_before_it_accepts_a_websocket(workers):
    first, _, one, _ = workers

    async def accept_and_die(reader, writer):
        writer.write(frame(b""))
        await reader.read(1)
        writer.close()

    server = await asyncio.start_unix_server(accept_and_die, first.path.with_name("w9.sock"))
    websocket = Exchange(first, "websocket", sid="w9.x")
    websocket.send(type="websocket.connect")
    assert (await websocket.next())["type"] == "websocket.accept"
    assert one.received == [{"type": "websocket.connect"}]
    websocket.send(type="websocket.receive", text="close")
    await websocket.next()
    await websocket.task
    server.close()


async def test_a_worker_that_hangs_leaves_an_unknown_session(workers, monkeypatch):
    monkeypatch.setattr(_handover, "_ACCEPT_SECONDS", 0.1)
    first, _, _, _ = workers

    async def hang(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(hang, first.path.with_name("w9.sock"))
    exchange = Exchange(first, sid="w9.x")
    exchange.send(type="http.request", body=b"")
    assert (await exchange.response())[1][b"x-name"] == b"one"
    server.close()


async def test_a_websocket_is_tunnelled(workers):
    first, _, one, two = workers
    websocket = Exchange(
        first, "websocket", extensions={"websocket.http.response": {}, "tls": object()}
    )
    websocket.send(type="websocket.connect")
    assert (await websocket.next())["type"] == "websocket.accept"
    websocket.send(type="websocket.receive", text="Grüße", bytes=None)
    assert (await websocket.next())["text"] == "Grüße"
    websocket.send(type="websocket.receive", bytes=b"\x00\n\xff")
    assert (await websocket.next())["bytes"] == b"\x00\n\xff"
    websocket.send(type="websocket.receive", text="")
    assert (await websocket.next())["text"] == ""
    assert two.scopes[0]["extensions"] == {"websocket.http.response": {}}
    websocket.send(type="websocket.disconnect", code=1001)
    await websocket.task
    assert two.received[-1] == {"type": "websocket.disconnect", "code": 1001}
    assert one.scopes == []


async def test_a_websocket_closes_with_its_worker(workers):
    first, second, _, _ = workers
    websocket = Exchange(first, "websocket")
    websocket.send(type="websocket.connect")
    await websocket.next()
    await second.stop()
    assert await websocket.next() == {"type": "websocket.close", "code": 1012}
    await websocket.task


async def test_a_websocket_that_its_worker_closes_is_closed_once(workers):
    first, _, _, _ = workers
    websocket = Exchange(first, "websocket")
    websocket.send(type="websocket.connect")
    await websocket.next()
    websocket.send(type="websocket.receive", text="close")
    assert await websocket.next() == {"type": "websocket.close", "code": 1000}
    await websocket.task
    assert websocket.sent.empty()


async def test_a_worker_that_dies_after_its_close_is_not_told_of(workers):
    first, _, _, _ = workers

    async def close_and_die(reader, writer):
        message = _handover._encode({"type": "websocket.close", "code": 1000})
        writer.write(frame(b"") + frame(message))
        writer.close()

    server = await asyncio.start_unix_server(close_and_die, first.path.with_name("w9.sock"))
    websocket = Exchange(first, "websocket", sid="w9.x")
    assert await websocket.next() == {"type": "websocket.close", "code": 1000}
    await websocket.task
    assert websocket.sent.empty()
    server.close()


async def test_the_rest_of_a_response_is_lost_with_its_worker(workers):
    first, _, one, _ = workers

    async def begin_and_die(reader, writer):
        message = {"type": "http.response.start", "status": 200, "headers": []}
        writer.write(frame(b"") + frame(_handover._encode(message)))
        writer.close()

    server = await asyncio.start_unix_server(begin_and_die, first.path.with_name("w9.sock"))
    exchange = Exchange(first, sid="w9.x")
    await exchange.task  # the server sees that the response is not complete
    assert one.scopes == []
    server.close()


async def test_a_client_that_leaves_ends_the_request_there(workers):
    first, _, _, two = workers
    websocket = Exchange(first, "websocket")
    websocket.send(type="websocket.connect")
    await websocket.next()
    websocket.task.cancel()
    await asyncio.wait({websocket.task})
    await eventually(lambda: two.received[-1]["type"] == "websocket.disconnect")
    assert two.received[-1]["code"] == 1006


async def test_what_is_sent_to_a_worker_that_is_gone_is_an_error(workers):
    first, second, _, _ = workers
    begun, failed = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def late(scope, receive, send):
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 100_000})
        except OSError as error:
            failed.set_result(error)
            raise

    second._app = late
    exchange = Exchange(first)
    async with asyncio.timeout(30):
        await begun.wait()
        exchange.task.cancel()
        assert isinstance(await failed, ConnectionError)


def test_sessions_are_named_after_their_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(_handover, "_numbers", iter([0, 1]))
    assert name_sessions() is None
    place = WorkerPlace(tmp_path, "w3")
    assert name_sessions(place) == place
    assert name_sessions(place).worker_id == "w3-1"
    monkeypatch.setenv("ALULA_WORKER", f"{os.getppid()}:w4:{tmp_path}")
    assert current_worker().worker_id == "w4"
