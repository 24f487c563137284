"""Methods that stream, read by every kind of client, over REST and socket.io."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from contextlib import aclosing, closing
from types import ModuleType, SimpleNamespace
from typing import Any

import aiohttp
import httpx2
import pytest
from tests.client.faking import FakeFetch
from tests.client.kinds import KINDS, SOCKETS, WAITING, all_of, settled
from tests.client.raw_server import CLOSE, RESET, STALL, answer, raw_server
from tests.client.realtime_app import serve_in_thread
from tests.waiting import settle

from alula import App, Params
from alula.client import (
    AbortController,
    Aborted,
    SyncItemStream,
    create_client,
    create_sync_client,
    rest,
)
from alula.client._pool import ConnectionPool
from alula.client._send_options import SendOptions
from alula.errors import BadGateway, Conflict, Timeout, Unavailable
from alula.express import error_handler, express, json
from alula.express import rest as rest_of_server
from alula.realtime import socketio

SECONDS = 30
HEAD = b"HTTP/1.1 200 Told\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(text):
    return b"%x\r\n%b\r\n" % (len(text), text.encode())


class Assistant:
    """Streams words; some of them do something else."""

    def __init__(self):
        self.closed = threading.Event()

    async def ask(self, data: Any, params: Params):
        try:
            for word in data:
                if word == "conflict":
                    raise Conflict("taken", {"n": 1})
                if word == "wait":
                    await asyncio.Event().wait()
                yield {"text": word}
        finally:
            self.closed.set()

    async def find(self, params: Params):
        for word in params.query["words"].split():
            yield word

    async def create(self, data: Any, params: Params):
        yield data

    async def closes(self):
        return await asyncio.to_thread(self.closed.wait, SECONDS)


@pytest.fixture(scope="module")
def served():
    service = Assistant()
    app = express(App()).use(json()).configure(rest_of_server()).configure(socketio())
    app.use("assistant", service, methods=["ask", "find", "create"]).use(error_handler())
    with serve_in_thread(app) as url:
        yield service, url


@pytest.fixture
def service(served):
    served[0].closed.clear()
    return served[0]


@pytest.fixture(params=[*KINDS, *SOCKETS], ids=str)
def kind(request):
    return request.param


@pytest.fixture
async def assistant(served, kind):
    async with kind.client(served[1]) as client:
        yield client.service("assistant", methods=["ask"])


async def next_of(items):
    return await anext(items) if hasattr(items, "__anext__") else next(items)


async def close(items):
    await settled(items.aclose() if hasattr(items, "aclose") else items.close())


async def test_any_method_yields_its_items(assistant):
    assert await all_of(await settled(assistant.ask(["a", "b"]))) == [{"text": "a"}, {"text": "b"}]
    assert await all_of(await settled(assistant.find(query={"words": "c d"}))) == ["c", "d"]
    heard = []
    assistant.on("created", lambda *values: heard.append(values))
    assert await all_of(await settled(assistant.create({"a": 1}))) == [{"a": 1}]
    assert heard == []


async def test_an_error_before_the_first_item_is_that_of_the_call(assistant):
    with pytest.raises(Conflict, match="taken") as caught:
        await settled(assistant.ask(["conflict"]))
    assert (caught.value.code, caught.value.data) == (409, {"n": 1})


async def test_a_later_error_comes_behind_the_items(assistant):
    items = await settled(assistant.ask(["a", "conflict"]))
    assert await next_of(items) == {"text": "a"}
    with pytest.raises(Conflict, match="taken") as caught:
        await next_of(items)
    assert (caught.value.code, caught.value.data) == (409, {"n": 1})


async def test_closing_ends_the_method(assistant, service):
    items = await settled(assistant.ask(["a", "wait"]))
    assert await next_of(items) == {"text": "a"}
    await close(items)
    assert await service.closes()
    await close(items)
    assert await all_of(items) == []


async def test_leaving_the_loop_ends_the_method(assistant, service):
    items = await settled(assistant.ask(["a", "wait"]))
    assert await next_of(items) == {"text": "a"}
    del items
    gc.collect()
    assert await service.closes()


async def test_a_hook_may_wrap_the_stream(assistant):
    async def shouted(items):
        async for item in items:
            yield item["text"].upper()

    def shout(context):
        context.result = shouted(context.result)

    assistant.hooks(after={"ask": [shout]})
    assert await all_of(await settled(assistant.ask(["a", "b"]))) == ["A", "B"]


async def test_a_stream_that_a_hook_has_replaced_need_not_close():
    class Words:
        def __aiter__(self):
            return self

        async def __anext__(self):
            return "word"

    with closing(SyncItemStream(Words())) as words:
        assert next(words) == "word"


@pytest.mark.parametrize("kind", [*WAITING, SOCKETS[0]], ids=str)
async def test_cancelling_the_reader_ends_the_method(assistant, service):
    items = await assistant.ask(["a", "wait"])
    assert await anext(items) == {"text": "a"}
    reading = asyncio.ensure_future(anext(items))
    await settle()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await items.aclose()
    assert await service.closes()


@pytest.mark.parametrize("kind", [*KINDS[3:], SOCKETS[1]], ids=str)
def test_an_interrupt_ends_the_method(kind, served, service):
    reads = threading.Event()

    def interrupt():
        reads.wait(SECONDS)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with create_sync_client().configure(kind.connection(served[1])) as client:
        items = client.service("assistant", methods=["ask"]).ask(["a", "wait"])
        assert next(items) == {"text": "a"}
        with pytest.raises(KeyboardInterrupt):  # it comes at any time after `set`
            reads.set()
            next(items)
        thread.join()
        items.close()
        assert service.closed.wait(SECONDS)


async def test_a_signal_aborts_the_stream(assistant, service):
    controller = AbortController()
    connection = {"signal": controller.signal}
    assert len(await all_of(await settled(assistant.ask(["a"], connection=connection)))) == 1
    items = await settled(assistant.ask(["a", "wait"], connection=connection))
    assert await next_of(items) == {"text": "a"}
    threading.Timer(0.05, controller.abort).start()
    with pytest.raises(Aborted):
        await next_of(items)
    assert await service.closes()
    with pytest.raises(Aborted):
        await settled(assistant.ask(["a"], connection=connection))


@pytest.mark.parametrize("kind", [*WAITING, SOCKETS[0]], ids=str)
async def test_a_signal_also_ends_a_stream_that_nobody_reads(assistant, service):
    controller = AbortController()
    items = await assistant.ask(["a", "b", "wait"], connection={"signal": controller.signal})
    assert await anext(items) == {"text": "a"}
    controller.abort()
    assert await service.closes()
    with pytest.raises(Aborted):
        await all_of(items)


async def test_a_silence_ends_it(assistant, service, monkeypatch):
    monkeypatch.setattr(SendOptions, "silence", 0.2)
    items = await settled(assistant.ask(["a", "wait"]))
    with pytest.raises(Timeout, match="longer than"):
        await all_of(items)
    assert await service.closes()


def test_a_short_time_limit_is_none_of_silences():
    assert SendOptions(timeout=0.5).silence == 60
    assert SendOptions(timeout=90).silence == 90
    assert SendOptions(timeout=None).silence is None


@pytest.mark.parametrize("kind", [*WAITING, *KINDS[4:], *SOCKETS], ids=str)
async def test_closing_the_client_ends_its_streams(kind, served, service):
    async with kind.client(served[1]) as client:
        assistant = client.service("assistant", methods=["ask"])
        items = await settled(assistant.ask(["a", "wait"]))
        assert await next_of(items) == {"text": "a"}
        await settled(client.close())
        assert await service.closes()
        with pytest.raises(Unavailable, match="the client was closed"):
            await all_of(items)


@pytest.mark.parametrize("kind", [*WAITING, SOCKETS[0]], ids=str)
async def test_closing_the_client_tells_who_reads(kind, served, service):
    async with kind.client(served[1]) as client:
        items = await client.service("assistant", methods=["ask"]).ask(["a", "wait"])
        assert await anext(items) == {"text": "a"}
        reading = asyncio.ensure_future(anext(items))
        await settle()
        await client.close()
        with pytest.raises(Unavailable):
            await reading
        assert await service.closes()


@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_a_stream_that_was_read_leaves_its_connection_usable(kind):
    stream = (HEAD, chunk("data: 1\n\nda"), chunk("ta: 2\n\n"), END)
    with raw_server(stream, stream, answer([])) as server:
        async with kind.client(server.url) as client:
            words = client.service("words", methods=["say"])
            assert await all_of(await settled(words.find())) == [1, 2]
            assert await all_of(await settled(words.say())) == [1, 2]
            assert await settled(words.find()) == []
        assert server.connections == 1


async def test_the_connection_of_a_stream_is_idle_once_its_end_is_told(monkeypatch):
    give_back = ConnectionPool.give_back

    def late(pool, origin, connection):
        time.sleep(0.2)  # as on a busy machine
        give_back(pool, origin, connection)

    monkeypatch.setattr(ConnectionPool, "give_back", late)
    stream = (HEAD, chunk("data: 1\n\n"), END)
    with raw_server(stream, answer([])) as server:
        async with KINDS[0].client(server.url) as client:
            words = client.service("words")
            assert await all_of(await words.find()) == [1]
            assert await words.find() == []
        assert server.connections == 1


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("fault", [CLOSE, RESET])
async def test_a_connection_that_breaks_is_an_error(kind, fault):
    with raw_server((HEAD, chunk("data: 1\n\n"), fault)) as server:
        async with kind.client(server.url, retries=3) as client:
            with pytest.raises(Unavailable):
                await all_of(await settled(client.service("words").find()))
        assert server.connections == 1


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ("data: {\n\n", "an item that is not JSON"),
        (f"data: {'x' * 400}\n\n", "too large"),
        ("event: error\ndata: {\n\n", "an item that is not JSON"),
        ("event: error\ndata: 1\n\n", "responded with 502"),
    ],
)
async def test_what_is_no_item_is_an_error(kind, sent, message):
    with raw_server((HEAD, chunk(sent), STALL)) as server:
        async with kind.client(server.url, max_response_size=300) as client:
            items = await settled(client.service("words").find())
            with pytest.raises(BadGateway, match=message):
                await next_of(items)
            assert server.disconnected.wait(SECONDS)


def test_an_httpx_client_of_ones_own(served, service):
    with httpx2.Client() as own:
        client = create_sync_client().configure(rest(served[1]).httpx(own))
        assistant = client.service("assistant", methods=["ask"])
        assert list(assistant.ask(["a", "b"])) == [{"text": "a"}, {"text": "b"}]
        with assistant.ask(["a", "wait"]) as items:
            assert next(items) == {"text": "a"}
        assert service.closed.wait(SECONDS)
        with pytest.raises(Timeout):
            list(assistant.ask(["a", "wait"], connection={"timeout": 1}))


def test_an_httpx_client_of_ones_own_whose_connection_breaks():
    with raw_server((HEAD, chunk("data: 1\n\n"), CLOSE)) as server, httpx2.Client() as own:
        client = create_sync_client().configure(rest(server.url).httpx(own))
        items = client.service("words").find()
        assert next(items) == 1
        with pytest.raises(Unavailable):
            next(items)


@pytest.mark.parametrize("kind", WAITING[2:], ids=str)
async def test_the_time_limit_of_a_library_is_a_timeout(assistant, service, monkeypatch):
    async def late(_):
        raise aiohttp.SocketTimeoutError

    items = await assistant.ask(["a", "wait"])
    assert await anext(items) == {"text": "a"}
    monkeypatch.setattr(aiohttp.StreamReader, "readany", late)
    with pytest.raises(Timeout, match="too long"):
        await anext(items)
    assert await service.closes()


async def test_a_fetch_function_of_ones_own_reads_whole_responses():
    fetch = FakeFetch((200, b"", {"Content-Type": "text/event-stream"}))
    client = create_client().configure(rest("http://here").fetch(fetch))
    with pytest.raises(TypeError, match="returns whole responses alone"):
        await client.service("words").find(query={"a": 1})


class Reader:
    """The reader of a body in a browser."""

    def __init__(self, *parts):
        self.parts = [*parts]
        self.cancelled = 0

    async def read(self):
        part = self.parts.pop(0)
        if isinstance(part, Exception):
            raise part
        return SimpleNamespace(done=not part, value=SimpleNamespace(to_bytes=lambda: part))

    async def cancel(self):
        self.cancelled += 1


@pytest.fixture
def browser(monkeypatch):
    """Let a client run as in a browser, with a body that a reader reads."""

    def open_client(reader):
        async def fetch(url, **given):
            body = SimpleNamespace(getReader=lambda: reader)
            return SimpleNamespace(
                status=200,
                headers={"Content-Type": "text/event-stream"},
                js_response=SimpleNamespace(body=body),
            )

        controller = SimpleNamespace(new=lambda: SimpleNamespace(signal=None))
        location = SimpleNamespace(origin="https://page")
        modules = {
            "js": SimpleNamespace(AbortController=controller, location=location),
            "pyodide": ModuleType("pyodide"),
            "pyodide.http": SimpleNamespace(pyfetch=fetch),
        }
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(sys, "platform", "emscripten")
        return create_client().configure(rest())

    return open_client


async def test_a_browser_reads_the_body_as_it_arrives(browser):
    reader = Reader(b"data: 1\n\n", b"data: 2\n\n", b"")
    async with browser(reader) as client:
        assert await all_of(await client.service("words").find()) == [1, 2]
    assert reader.cancelled == 1


async def test_a_browser_tells_of_a_connection_that_breaks(browser):
    async with browser(Reader(b"data: 1\n\n", RuntimeError("network error"))) as client:
        items = await client.service("words").find()
        assert await anext(items) == 1
        with pytest.raises(Unavailable):
            await anext(items)


async def test_leaving_a_stream_ends_the_request_of_a_browser(browser):
    reader = Reader(b"data: 1\n\n", b"data: 2\n\n")
    async with browser(reader) as client:
        async with aclosing(await client.service("words").find()) as items:
            assert await anext(items) == 1
        assert reader.cancelled == 1
        await client.service("words").find()
    assert reader.cancelled == 2
