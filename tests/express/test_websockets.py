"""Websockets on the servers of `listen`: whole messages, all others, limits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

import pytest
from tests.waiting import eventually
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from alula._wire import MESSAGES_EXTENSION
from alula.express import express
from alula.express._http1 import websocket as protocol


async def echo(scope, receive, send):
    """Send everything back; "many" is answered by many messages, "end" by a close."""
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") == "many":
            for number in range(1000):
                await send({"type": "websocket.send", "text": f"{number}" * 1000})
        elif message.get("text") == "end":
            await send({"type": "websocket.close"})
            return
        else:
            kinds = {kind: message[kind] for kind in ("text", "bytes") if kind in message}
            await send({"type": "websocket.send", **kinds})


@contextlib.asynccontextmanager
async def served(app=echo, max_message=200_000, **options):
    web = express().add_endpoint("/ws", app, max_message=max_message)
    async with await web.listen(0, **options) as server:
        yield f"ws://127.0.0.1:{server.port}/ws"


def frame(payload, first=0x81, mask=b"\1\2\3\4"):
    size = len(payload)
    if size < 126:
        head = bytes([first, 0x80 | size])
    elif size < 0x10000:
        head = bytes([first, 0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([first, 0x80 | 127]) + size.to_bytes(8, "big")
    return head + mask + bytes(b ^ mask[at % 4] for at, b in enumerate(payload))


class Raw:
    """A client that writes bytes."""

    @classmethod
    async def open(cls, url, headers=""):
        self = cls()
        host, port = url[5:].split("/")[0].split(":")
        self.reader, self.writer = await asyncio.open_connection(host, int(port))
        self.writer.write(
            b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            + headers.encode()
            + b"\r\n"
        )
        self.head = await self.reader.readuntil(b"\r\n\r\n")
        return self

    async def next(self):
        """Return opcode and payload of the next frame."""
        first, size = await self.reader.readexactly(2)
        if size == 126:
            size = int.from_bytes(await self.reader.readexactly(2), "big")
        return first, await self.reader.readexactly(size)

    async def close(self):
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
async def test_what_may_be_secret_is_in_no_log(caplog, level):
    caplog.set_level("WARNING", "websockets.client")
    caplog.set_level(level)
    secret = {"Authorization": "Bearer one-secret"}
    async with served() as url:
        async with connect(f"{url}?access_token=another-secret", additional_headers=secret) as ws:
            for message in ("a secret", ["a ", "secret"]):  # whole, and in fragments
                await ws.send(message)
                assert await ws.recv() == "a secret"
        with pytest.raises(InvalidStatus):
            await connect(f"{url[:-2]}none?access_token=another-secret")
    assert "secret" not in caplog.text


SIZES = [0, 1, 125, 126, 65535, 65536, 200_000]


@pytest.mark.parametrize("size", SIZES)
async def test_messages_of_any_size(size):
    async with served() as url, connect(url, max_size=None) as client:
        for message in ("x" * size, os.urandom(size), "é" * (size // 2)):
            await client.send(message)
            assert await client.recv() == message


async def test_frames_may_arrive_in_any_pieces():
    async with served() as url:
        client = await Raw.open(url)
        data = frame("é".encode()) + frame(b"\0\1", 0x82) + frame(b"x" * 300)
        for at in range(len(data)):
            client.writer.write(data[at : at + 1])
            await asyncio.sleep(0)
        assert await client.next() == (0x81, "é".encode())
        assert await client.next() == (0x82, b"\0\1")
        assert await client.next() == (0x81, b"x" * 300)
        client.writer.write(data * 20)
        for _ in range(20):
            assert await client.next() == (0x81, "é".encode())
            assert await client.next() == (0x82, b"\0\1")
            assert await client.next() == (0x81, b"x" * 300)
        client.writer.write(frame(b"whole") + frame(b"split")[:1])
        assert await client.next() == (0x81, b"whole")  # so the first byte has arrived alone
        client.writer.write(frame(b"split")[1:])
        assert await client.next() == (0x81, b"split")
        await client.close()


async def test_a_large_frame_in_many_pieces_is_looked_at_when_it_is_whole(monkeypatch):
    looks = []
    read = protocol.WebSocketProtocol._end_of_frame
    monkeypatch.setattr(
        protocol.WebSocketProtocol,
        "_end_of_frame",
        lambda self, data, at: looks.append(len(data)) or read(self, data, at),
    )
    async with served() as url:
        client = await Raw.open(url)
        data = frame(b"x" * 1000)
        for at in range(0, len(data), 10):
            client.writer.write(data[at : at + 10])
            await asyncio.sleep(0.0005)
        client.writer.write(frame(b"end"))
        assert await client.next() == (0x81, b"x" * 1000)
        await client.close()
    assert len(looks) <= 8  # else a client makes the server copy the frame for each byte of it


async def test_fragments_and_pings_between_them():
    async with served() as url:
        client = await Raw.open(url)
        client.writer.write(frame(b"ab", 0x01) + frame(b"p", 0x89) + frame(b"cd", 0x80))
        assert await client.next() == (0x8A, b"p")
        assert await client.next() == (0x81, b"abcd")
        client.writer.write(frame(b"e"))
        assert await client.next() == (0x81, b"e")
        await client.close()


@pytest.mark.parametrize("deflate", [False, True])
async def test_a_message_may_have_many_fragments_but_not_any_number(deflate):
    async with served(ws_per_message_deflate=deflate) as url:
        client = await Raw.open(url, "Sec-WebSocket-Extensions: permessage-deflate\r\n" * deflate)
        client.writer.write(frame(b"", 0x02) + frame(b"x", 0x00) * 998 + frame(b"x", 0x80))
        first, payload = await client.next()
        assert deflate or (first, payload) == (0x82, b"x" * 999)
        client.writer.write(frame(b"", 0x02) + frame(b"", 0x00) * 3000)
        assert await client.next() == (0x88, b"\x03\xf1too many fragments")
        assert await client.reader.read() == b""
        await client.close()


WRONG = [
    (frame(b"\xff"), 1007),
    (b"\x81\x01x", 1002),  # not masked
    (frame(b"x", 0x01) + frame(b"x"), 1002),
    (frame(b"x", 0x83), 1002),
    (frame(b"x", 0xC1), 1002),
    (b"\x81\xfe\xff\xff", 1009),
    (frame(b"x", 0x01) + frame(b"", 0x00) * 1500, 1009),
]


@pytest.mark.parametrize(("data", "code"), WRONG)
async def test_what_is_not_valid_closes_the_websocket(data, code):
    async with served(max_message=1000) as url:
        client = await Raw.open(url)
        client.writer.write(data)
        first, payload = await client.next()
        assert (first, int.from_bytes(payload[:2], "big")) == (0x88, code)
        await client.close()


async def test_compression_is_off_and_may_be_turned_on():
    async with served() as url, connect(url) as client:
        assert client.protocol.extensions == []
    async with served(ws_per_message_deflate=True) as url, connect(url) as client:
        assert len(client.protocol.extensions) == 1
        for message in ("x" * 1000, b"y" * 1000):
            await client.send(message)
            assert await client.recv() == message


async def test_a_client_that_sends_before_its_head_is_answered():
    async with served() as url:
        client = await Raw.open(url)
        client.writer.write(frame(b"a"))
        assert await client.next() == (0x81, b"a")
        await client.close()

    async def slow(scope, receive, send):
        await asyncio.sleep(0.05)
        await echo(scope, receive, send)

    async with served(slow) as url:
        host, port = url[5:].split("/")[0].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await asyncio.sleep(0.02)
        writer.write(frame(b"early"))
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(7) == b"\x81\x05early"
        writer.write(frame(b"late"))
        assert await reader.readexactly(6) == b"\x81\x04late"
        writer.close()


async def test_a_client_that_reads_slowly_gets_all():
    async with served() as url, connect(url, max_queue=1) as client:
        await client.send("many")
        for number in range(1000):
            assert await client.recv() == f"{number}" * 1000
        await client.send("end")
        with pytest.raises(ConnectionClosed):
            await client.recv()


async def test_a_client_that_reads_nothing_at_the_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(protocol, "CLOSE_SECONDS", 0.05)
    ended = asyncio.Event()

    async def flood(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        for _ in range(20):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(send({"type": "websocket.send", "text": "x" * 10**6}), 0.01)
        ended.set()

    async with served(flood) as url:
        client = await Raw.open(url)
        await ended.wait()
        await asyncio.sleep(0.1)
        with contextlib.suppress(ConnectionResetError):
            assert len(await client.reader.read(10**9)) < 20 * 10**6
        await client.close()


@pytest.fixture
def made(monkeypatch):
    """Collect the server's ends of the connections."""
    ends = []
    connect = protocol.WebSocketProtocol.connection_made
    monkeypatch.setattr(
        protocol.WebSocketProtocol,
        "connection_made",
        lambda self, transport: ends.append(self) or connect(self, transport),
    )
    return ends


@pytest.mark.parametrize("ws_per_message_deflate", [False, True])
async def test_pongs_for_a_client_that_does_not_read_do_not_pile_up(made, ws_per_message_deflate):
    async with served(ws_per_message_deflate=ws_per_message_deflate) as url:
        client = await Raw.open(
            url, "Sec-WebSocket-Extensions: permessage-deflate\r\n" * ws_per_message_deflate
        )
        server = made[-1]  # others were only tried
        server.pause_writing()  # as the transport does
        for number in range(5):
            client.writer.write(frame(b"%d" % number, 0x89) * 1000)
            await client.writer.drain()
            await asyncio.sleep(0.02)
        assert server.transport.get_write_buffer_size() == 0
        server.resume_writing()
        client.writer.write(frame(b"now", 0x89))
        pongs = []
        while (pong := await client.next()) != (0x8A, b"now"):
            pongs.append(pong)
        assert pongs[-1] == (0x8A, b"4")
        assert len(pongs) == (1000 if ws_per_message_deflate else 1)
        await client.close()


async def test_a_late_pong_is_not_sent_after_the_end(made):
    async with served() as url:
        client = await Raw.open(url)
        server = made[-1]  # others were only tried
        server.pause_writing()
        client.writer.write(frame(b"p", 0x89))
        await asyncio.sleep(0.02)
        server.transport.close()
        server.resume_writing()
        assert await client.reader.read() == b""
        await client.close()


# -- the extension that passes messages by `receive` ---------------------------------------------


class Direct:
    """An application that answers what it takes with capitals, and what it receives as it is."""

    def __init__(self):
        self.extension = None
        self.taken = []
        self.written = []
        self.woken = asyncio.Event()

    async def __call__(self, scope, receive, send):
        await receive()
        self.extension = scope["extensions"].get(MESSAGES_EXTENSION)
        await send({"type": "websocket.accept"})
        if self.extension is not None:
            self.extension.attach(self.take, lambda: self.written.append("writable"))
        while (message := await receive())["type"] != "websocket.disconnect":
            if message["type"] == MESSAGES_EXTENSION:
                self.woken.set()
            else:
                await send({"type": "websocket.send", "text": message.get("text", "bytes")})

    def take(self, message):
        self.taken.append(message)
        if message == "no":
            return False
        answer = message.upper()
        self.written.append(self.extension.write(answer))
        return True


async def test_messages_are_offered_to_the_application_before_they_are_queued():
    app = Direct()
    async with served(app) as url, connect(url) as client:
        for message, answer in (("a", "A"), (b"b", b"B"), ("no", "no"), ("é" * 99, "É" * 99)):
            await client.send(message)
            assert await client.recv() == answer
        assert app.taken == ["a", b"b", "no", "é" * 99]
        assert app.written == [True] * 3
        assert not app.woken.is_set()
        app.extension.wake()
        await asyncio.wait_for(app.woken.wait(), 30)
    assert app.extension.write("late") is False


@pytest.mark.parametrize("size", SIZES)
async def test_messages_of_any_size_are_offered(size):
    app = Direct()
    async with served(app) as url, connect(url, max_size=None) as client:
        for message in ("x", "x" * size, b"x" * size):  # the first one shows how frames are read
            await client.send(message)
            assert await client.recv() == message.upper()
        assert app.taken == ["x", "x" * size, b"x" * size]


@pytest.mark.parametrize("limit", [100, 300])
async def test_messages_that_are_offered_are_limited(limit):
    app = Direct()
    async with served(app, max_message=limit) as url, connect(url) as client:
        for _ in range(2):
            await client.send("x" * limit)
            assert await client.recv() == "X" * limit
        await client.send("x" * (limit + 1))
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd.code == 1009
    assert app.taken == ["x" * limit] * 2


@pytest.mark.parametrize(
    ("data", "taken"),
    [
        (frame(b"a") + frame(b"b"), ["a", "b"]),
        (b"\x81\xfe\0\1" + frame(b"a")[2:], ["a"]),  # a long head before a short text
        (b"\x81\xff" + b"\0" * 6 + b"\0\x7f" + frame(b"x" * 127)[4:], ["x" * 127]),
        (frame(b"a", 0x01) + frame(b"b", 0x80), []),  # fragments are queued
    ],
)
async def test_frames_that_are_not_one_short_text_are_offered_as_well(data, taken):
    app = Direct()
    async with served(app) as url:
        client = await Raw.open(url)
        client.writer.write(frame(b"first"))
        await client.next()
        client.writer.write(data)
        await client.next()
        assert app.taken == ["first", *taken]
        await client.close()


async def test_what_is_not_utf_8_is_not_offered():
    app = Direct()
    async with served(app) as url:
        client = await Raw.open(url)
        client.writer.write(frame(b"first"))
        assert await client.next() == (0x81, b"FIRST")
        client.writer.write(frame(b"\xff"))
        first, payload = await client.next()
        assert (first, payload[:2]) == (0x88, (1007).to_bytes(2, "big"))
        assert app.taken == ["first"]
        await client.close()


async def test_what_waits_for_the_application_comes_first():
    app = Direct()
    async with served(app) as url:
        client = await Raw.open(url)
        # The second is queued, so the third must not overtake it.
        client.writer.write(frame(b"a") + frame(b"no") + frame(b"b") + frame(b"c", 0x01))
        client.writer.write(frame(b"d", 0x80))
        answers = [(await client.next())[1] for _ in range(4)]
        assert answers == [b"A", b"no", b"b", b"cd"]
        client.writer.write(frame(b"e"))
        assert await client.next() == (0x81, b"E")
        client.writer.write(b"".join(frame(b"x") for _ in range(500)))
        answers = [(await client.next())[1] for _ in range(500)]
        most = answers.index(b"x")
        assert answers == [b"X"] * most + [b"x"] * (500 - most)
        assert most <= 64
        await client.close()


async def test_the_application_learns_that_a_client_reads_again(made):
    app = Direct()
    async with served(app) as url:
        client = await Raw.open(url)
        made[-1].pause_writing()  # as the transport does
        client.writer.write(frame(b"a"))
        assert await client.next() == (0x81, b"A")
        assert app.written == [False]
        made[-1].resume_writing()
        assert app.written == [False, "writable"]
        await client.close()


async def test_a_websocket_with_compression_has_no_extension():
    app = Direct()
    async with served(app, ws_per_message_deflate=True) as url, connect(url) as client:
        await client.send("a")
        assert await client.recv() == "a"
    assert app.extension is None


async def test_a_head_that_is_no_handshake_is_refused():
    async with served() as url:
        host, port = url[5:].split("/")[0].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        assert (await reader.read()).startswith(b"HTTP/1.1 4")
        writer.close()


async def test_connections_are_limited():
    async with served(limit_concurrency=1) as url, connect(url):
        with pytest.raises(InvalidStatus, match="503"):
            async with connect(url):
                pass


async def test_a_head_with_too_many_headers_gets_a_response():
    async with served() as url:
        client = await Raw.open(url, "".join(f"X-{number}: 1\r\n" for number in range(200)))
        assert client.head.startswith(b"HTTP/1.1 431 ")
        await client.close()


async def test_several_tasks_may_wait_for_messages():
    got, done = [], asyncio.Event()

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        cancelled, first, second = (asyncio.create_task(receive()) for _ in range(3))
        await asyncio.sleep(0)
        cancelled.cancel()
        await send({"type": "websocket.send", "text": "go"})
        got.extend([(await first)["text"], (await second)["text"], cancelled.cancelled()])
        done.set()

    async with served(app) as url, connect(url) as client:
        await client.recv()
        await client.send("one")
        await asyncio.sleep(0.02)
        await client.send("two")
        await asyncio.wait_for(done.wait(), 30)
    assert got == ["one", "two", True]


# -- what an application may send ------------------------------------------------------------------


async def denied(app, **options):
    """Return the response to a handshake that an application refuses."""
    async with served(app, **options) as url:
        with pytest.raises(InvalidStatus) as caught:
            await connect(url)
    return caught.value.response


def sending(*messages, then=None):
    """Return an application that sends messages, and notes the error of the last one."""

    async def app(scope, receive, send):
        await receive()
        for message in messages[:-1]:
            await send(message)
        try:
            await send(messages[-1])
        except Exception as error:
            if then is None:
                raise
            then.append(error)

    return app


START = {"type": "websocket.http.response.start", "status": 402, "headers": [(b"x-why", b"money")]}
BODY = {"type": "websocket.http.response.body", "body": b"first"}
ACCEPT = {"type": "websocket.accept", "headers": [(b"x-here", b"1")], "subprotocol": "chat"}
CLOSE = {"type": "websocket.close", "code": 4000, "reason": "enough"}


async def test_a_handshake_may_be_denied_with_a_response():
    app = sending(START, {**BODY, "more_body": True}, {**BODY, "body": b", second"})
    response = await denied(app)
    assert (response.status_code, response.body) == (402, b"first, second")
    assert response.headers["x-why"] == "money"
    assert response.headers["content-length"] == "13"


async def test_a_status_of_a_denial_needs_no_phrase():
    assert (await denied(sending({**START, "status": 599}, BODY))).status_code == 599


async def test_a_close_before_the_handshake_is_a_403():
    assert (await denied(sending({"type": "websocket.close"}))).status_code == 403


@pytest.mark.parametrize(
    "app",
    [
        sending({**START, "status": 99}),
        sending({"type": "websocket.send", "text": "too early"}),
        sending({"type": "no such message"}),
    ],
)
async def test_an_application_that_fails_before_the_handshake_is_a_500(app, caplog):
    assert (await denied(app)).status_code == 500
    assert "Exception in ASGI application" in caplog.text


async def test_an_application_that_does_not_respond_is_a_500(caplog):
    async def app(scope, receive, send):
        await receive()

    assert (await denied(app)).status_code == 500
    assert "without completing handshake" in caplog.text


async def test_headers_and_subprotocol_of_the_handshake():
    async with served(sending(ACCEPT, CLOSE)) as url:
        client = await connect(url, subprotocols=["chat"])
        assert client.response.headers["x-here"] == "1"
        assert client.subprotocol == "chat"
        with pytest.raises(ConnectionClosed) as caught:
            await client.recv()
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (4000, "enough")


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ((START, ACCEPT), "Expected ASGI message 'websocket.http.response.body'"),
        ((ACCEPT, ACCEPT), "Expected ASGI message 'websocket.send' or 'websocket.close'"),
        ((ACCEPT, CLOSE, CLOSE), "after the end of the websocket"),
    ],
)
async def test_messages_out_of_turn_are_errors(messages, text):
    errors = []
    async with served(sending(*messages, then=errors)) as url:
        with contextlib.suppress(InvalidStatus, ConnectionClosed, EOFError, OSError):
            async with connect(url, subprotocols=["chat"]) as client:
                await client.recv()
        await eventually(lambda: errors)
    assert text in str(errors[0])


@pytest.mark.parametrize("deflate", [False, True])
async def test_sending_to_a_client_that_has_gone(deflate):
    errors, done = [], asyncio.Event()

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        try:
            await send({"type": "websocket.send", "text": "late"})  # the transport is closing
            await asyncio.sleep(0.1)
            await send({"type": "websocket.send", "text": "later"})
        except OSError as error:
            errors.append(error)
            done.set()
            raise

    async with served(app, ws_per_message_deflate=deflate) as url:
        async with connect(url):
            pass
        await asyncio.wait_for(done.wait(), 30)
    assert isinstance(errors[0], protocol.ClientDisconnected)


async def test_a_server_that_stops_tells_both_sides():
    seen = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        seen.append(await receive())
        await send({"type": "websocket.close"})  # nobody needs it any more

    async with served(app) as url:
        client = await connect(url)
    with pytest.raises(ConnectionClosed) as caught:
        await client.recv()
    assert caught.value.rcvd.code == 1012
    assert seen == [{"type": "websocket.disconnect", "code": 1012}]


async def test_a_server_that_stops_denies_open_handshakes():
    begun = asyncio.Event()

    async def app(scope, receive, send):
        begun.set()
        await asyncio.sleep(600)

    web = express().add_endpoint("/ws", app)
    server = await web.listen(0, timeout_graceful_shutdown=0.1)
    connecting = asyncio.ensure_future(Raw.open(f"ws://127.0.0.1:{server.port}/ws"))
    await begun.wait()
    await server.close()
    client = await connecting
    assert client.head.startswith(b"HTTP/1.1 500 ")
    await client.close()


async def test_a_server_that_stops_leaves_a_websocket_that_ends_alone():
    closing = asyncio.Event()

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close"})
        closing.set()

    async with served(app) as url:
        client = await Raw.open(url)  # it never replies to the close frame
        await closing.wait()
    assert (await client.next())[0] == 0x88
    await client.close()


# -- pings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ws_ping_timeout", [0.2, None])
async def test_a_client_that_answers_pings_stays(ws_ping_timeout):
    options = {"ws_ping_interval": 0.02, "ws_ping_timeout": ws_ping_timeout}
    async with served_without_heartbeats(options) as url:
        client = await Raw.open(url)
        for _ in range(3):
            first, payload = await client.next()
            assert first == 0x89
            client.writer.write(frame(b"none of them", 0x8A) + frame(payload, 0x8A))
        await client.close()


async def test_a_client_that_answers_no_ping_is_closed():
    async with served_without_heartbeats(
        {"ws_ping_interval": 0.02, "ws_ping_timeout": 0.05}
    ) as url:
        client = await Raw.open(url)
        assert (await client.next())[0] == 0x89
        first, payload = await client.next()
        assert (first, int.from_bytes(payload[:2], "big")) == (0x88, 1011)
        await client.close()


@contextlib.asynccontextmanager
async def served_without_heartbeats(options):
    """Serve an existing application with websockets: those of an endpoint have other pings."""
    web = express().add_endpoint("/ws", echo)
    async with await web.listen(0, **options) as server:
        yield f"ws://127.0.0.1:{server.port}/ws"


# -- fragments -------------------------------------------------------------------------------------


async def test_messages_in_fragments():
    async with served() as url:
        client = await Raw.open(url)
        client.writer.write(frame(b"one ", 0x02) + frame(b"two", 0x80))
        assert await client.next() == (0x82, b"one two")
        client.writer.write(frame(b"\xff", 0x01) + frame(b"\xff", 0x80))
        first, payload = await client.next()
        assert (first, int.from_bytes(payload[:2], "big")) == (0x88, 1007)
        await client.close()


async def test_messages_after_the_end_are_dropped():
    async with served() as url:
        client = await Raw.open(url)
        client.writer.write(frame(b"end"))
        assert (await client.next())[0] == 0x88
        client.writer.write(frame(b"late") + frame(b"\x03\xe8", 0x88))
        assert await client.reader.read() == b""
        await client.close()


async def test_a_websocket_goes_on_while_late_requests_are_served():
    web = express().add_endpoint("/ws", echo)
    sock = socket.create_server(("127.0.0.1", 0))
    server = await web.serve(sock, late_request_seconds=0.2)
    async with connect(f"ws://127.0.0.1:{server.port}/ws") as client:
        closing = asyncio.ensure_future(server.close())
        await asyncio.sleep(0.05)
        await client.send("still here")
        assert await client.recv() == "still here"
        await closing
