"""Methods that stream over HTTP: what is sent, and what becomes of a stream whose client leaves."""

from __future__ import annotations

import asyncio
import json as json_text
import logging
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from tests.express.asgi_client import call, post_json, scope_of
from tests.waiting import eventually

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, JWTStrategy, authenticate, protect
from alula.errors import Conflict, Forbidden
from alula.express import access_log, compression, error_handler, express, json, rest
from alula.express._stream import StreamCutError
from alula.realtime import sse

SECONDS = 30
EVENTS = {"accept": "text/event-stream"}
LINES = {"accept": "application/jsonl"}


class Assistant:
    """Streams words; some of them do something else."""

    def __init__(self):
        self.open = 0
        self.begun = 0
        self.made = 0
        self.gate = asyncio.Event()

    async def words(self, words):
        self.open += 1
        self.begun += 1
        try:
            for word in words:
                if word == "wait":
                    await self.gate.wait()
                elif word == "conflict":
                    raise Conflict("taken", {"n": object()} if "odd" in words else None)
                elif word == "timeout":
                    raise TimeoutError("of another server")
                elif word == "object":
                    yield {"word": object()}
                elif word != "odd":
                    self.made += 1
                    yield word
        finally:
            self.open -= 1

    async def ask(self, data: Any, params: Params) -> AsyncIterator[Any]:
        async for word in self.words(data):
            yield word

    async def find(self, params: Params):
        async for word in self.words(params.query.get("words", "").split()):
            yield {"word": word, "secret": "never-leaves"}

    async def create(self, data: Any, params: Params) -> AsyncIterator[Any]:
        yield data

    async def pour(self, data: Any, params: Params):
        self.open += 1
        try:
            while True:
                self.made += 1
                yield "x" * 65_536
        finally:
            self.open -= 1


def application(service=None, *around, plugins=(), **options):
    app = express(App()).use(access_log(), compression(), json()).configure(rest(**options))
    for plugin in plugins:
        app.configure(plugin)
    methods = ["ask", "find", "create", "pour"]
    app.use("assistant", *around[:1], service or Assistant(), *around[1:], methods=methods)
    return app.use(error_handler())


async def ask(app, *words, headers=EVENTS):
    return await post_json(app, [*words], "/assistant/ask", headers)


def keeping_streams(app):
    """Return an application and its streams, which nothing closes by forgetting them."""
    kept = []
    app.service("assistant").hooks(after=[lambda context: kept.append(context.result)])
    return app, kept


async def sent_to(send, app, *words, headers):
    """Call `ask` with a function that gets the messages of the response."""
    body = json_text.dumps(words).encode()
    pairs = [("content-type", "application/json"), ("content-length", str(len(body)))]
    scope = scope_of("POST", "/assistant/ask", [*pairs, *headers.items()])
    messages = iter([{"type": "http.request", "body": body}])

    async def receive():
        return next(messages, None) or await asyncio.Event().wait()

    await app(scope, receive, send)


async def test_the_head_of_a_stream():
    answer = await ask(application(), "a", "b")
    assert (answer.status, answer.text) == (200, 'data: "a"\n\ndata: "b"\n\n')
    assert answer.get("content-type") == "text/event-stream"
    assert answer.get("cache-control") == "no-cache"
    assert answer.get("x-accel-buffering") == "no"
    assert "Accept" in answer.vary
    assert answer.get("connection") is None


@pytest.mark.parametrize("kind", ["application/jsonl", "application/x-ndjson"])
async def test_json_lines(kind):
    headers = {"accept": kind, "accept-encoding": "gzip"}
    answer = await ask(application(), "a", "b", headers=headers)
    assert (answer.text, answer.get("content-type")) == ('"a"\n"b"\n', kind)
    assert answer.get("cache-control") == "no-cache, no-transform"


@pytest.mark.parametrize("accept", ["application/json", "*/*", "text/html"])
async def test_events_are_sent_unless_lines_are_wanted(accept):
    answer = await ask(application(), "a", headers={"accept": accept})
    assert answer.get("content-type") == "text/event-stream"


async def test_a_create_that_streams():
    app = application()
    assert (await post_json(app, {"a": 1}, "/assistant")).status == 200

    def made(context):
        context.http = {"status": 201, "headers": {"Cache-Control": "no-store"}}

    app.service("assistant").hooks(before=[made])
    answer = await post_json(app, {"a": 1}, "/assistant")
    assert (answer.status, answer.get("cache-control")) == (201, "no-store")


async def test_a_head_makes_no_item():
    service = Assistant()
    app = application(service)
    answer = await call(app, "HEAD", "/assistant?words=a")
    assert (answer.status, answer.get("content-type")) == (200, "text/event-stream")

    def refuse(context):
        raise Forbidden("no")

    app.service("assistant").hooks(before=[refuse])
    assert (await call(app, "HEAD", "/assistant")).status == 403
    assert service.begun == 0


async def test_hidden_properties_are_in_no_item():
    app = application()
    app.service("assistant").hooks(around={"find": [protect("secret")]})
    answer = await call(app, "GET", "/assistant?words=a%20b", headers=EVENTS)
    assert answer.text == 'data: {"word":"a"}\n\ndata: {"word":"b"}\n\n'


async def test_a_find_that_streams_comes_before_the_events_of_its_service():
    app = application(plugins=[sse()])
    answer = await call(app, "GET", "/assistant?words=a", headers=EVENTS)
    assert answer.text == 'data: {"word":"a","secret":"never-leaves"}\n\n'


async def test_strangers_get_no_item():
    service = Assistant()
    app = application(service)
    app.use("users", MemoryService())
    authentication = AuthenticationService(app, secret="s" * 32, service="users")
    authentication.register("jwt", JWTStrategy())
    app.use("authentication", authentication)
    app.service("assistant").hooks(before=[authenticate("jwt")])
    answer = await ask(app, "a")
    assert (answer.status, service.begun) == (401, 0)


# -- errors ----------------------------------------------------------------------------------------


async def test_a_first_item_without_a_json_form_is_an_ordinary_error():
    service = Assistant()
    answer = await ask(application(service), "object")
    assert (answer.status, answer.json["name"]) == (500, "GeneralError")
    await eventually(lambda: service.open == 0)


async def test_a_late_error_is_an_event(caplog):
    caplog.set_level(logging.INFO)
    answer = await ask(application(), "a", "conflict")
    first, last = answer.text.split("\n\n", 1)
    assert first == 'data: "a"'
    assert last.startswith('event: error\ndata: {"name":"Conflict","message":"taken","code":409,')
    assert "raised behind the first item of `ask` of service 'assistant'" in caplog.text


async def test_a_late_error_without_a_json_form_loses_its_data():
    answer = await ask(application(), "odd", "a", "conflict")
    assert answer.text.endswith(
        '{"name":"Conflict","message":"taken","code":409,"className":"conflict"}\n\n'
    )


@pytest.mark.parametrize("headers", [LINES, {"accept": "application/json"}, {}])
async def test_a_late_error_cuts_the_connection_of_other_clients(headers, caplog):
    caplog.set_level(logging.INFO, "alula")
    service = Assistant()
    sent = []

    async def send(message):
        sent.append(message)

    with pytest.raises(StreamCutError):
        await sent_to(send, application(service), "a", "conflict", headers=headers)
    assert len(sent) == 2
    assert sent[1]["more_body"]
    assert service.open == 0
    assert [record.aborted for record in caplog.records if hasattr(record, "bytes")] == [True]


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stream_heartbeat", "stream_timeout", "stream_duration"])
def test_limits_are_positive(name):
    with pytest.raises(
        ValueError, match=rf"rest\({name}=0\): give a number of seconds above 0, or None"
    ):
        rest(**{name: 0})


async def test_a_comment_breaks_the_silence():
    service, sent = Assistant(), []

    async def send(message):
        sent.append(message.get("body"))
        if sent.count(b":\n\n") == 2:
            service.gate.set()

    app = application(service, stream_heartbeat=0.01, stream_duration=SECONDS)
    await sent_to(send, app, "a", "wait", headers=EVENTS)
    assert sent[1:4] == [b'data: "a"\n\n', b":\n\n", b":\n\n"]
    assert service.open == 0


async def test_a_stream_may_not_take_for_ever():
    service = Assistant()
    app, kept = keeping_streams(application(service, stream_heartbeat=None, stream_duration=0.02))
    answer = await ask(app, "a", "wait")
    assert "The stream took longer than 0.02 seconds" in answer.text
    assert kept
    assert service.open == 0


async def test_lines_have_no_comments():
    app = application(stream_heartbeat=0.001, stream_timeout=None)
    service = app.service("assistant").service
    asyncio.get_running_loop().call_later(0.05, service.gate.set)
    answer = await ask(app, "a", "wait", "b", headers=LINES)
    assert answer.text == '"a"\n"b"\n'


async def test_the_next_item_may_not_take_for_ever():
    answer = await ask(application(stream_heartbeat=None, stream_timeout=0.02), "a", "wait")
    assert '"code":503,' in answer.text
    assert "The stream had no item for 0.02 seconds" in answer.text


async def test_nor_may_the_first_one():
    service = Assistant()
    answer = await ask(application(service, stream_timeout=0.02), "wait")
    assert (answer.status, service.open) == (503, 0)
    assert answer.json["message"] == "The stream had no item for 0.02 seconds"


async def test_the_timeout_of_a_method_is_its_own():
    assert (await ask(application(), "timeout")).json["code"] == 500


# -- middleware behind the service -----------------------------------------------------------------


async def test_middleware_may_wrap_a_stream():
    async def doubled(items):
        async for item in items:
            yield item * 2

    async def wrap(req, res, next):
        res.data = doubled(res.data)
        await next()

    async def go_on(req, res, next):
        await next()

    service = Assistant()
    answer = await ask(application(service, go_on, wrap), "a", "b")
    assert answer.text == 'data: "aa"\n\ndata: "bb"\n\n'
    assert service.open == 0


async def test_middleware_may_replace_a_stream():
    async def replace(req, res, next):
        res.data = ["none"]
        await next()

    async def go_on(req, res, next):
        await next()

    service = Assistant()
    answer = await ask(application(service, go_on, replace), "a", "wait")
    assert answer.json == ["none"]
    await eventually(lambda: service.open == 0)


# -- clients that leave ----------------------------------------------------------------------------


async def send_request(port, *words, path="/assistant/ask"):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json_text.dumps([*words]).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return reader, writer


@pytest.mark.parametrize("words", [["wait"], ["a", "wait"]])
async def test_a_stream_closes_when_its_client_leaves(words):
    service = Assistant()
    app, kept = keeping_streams(application(service))
    async with await app.listen(0) as server:
        reader, writer = await send_request(server.port, *words)
        await eventually(lambda: service.open == 1)
        if words[0] == "a":
            await asyncio.wait_for(reader.readuntil(b'"a"\n\n'), SECONDS)
        writer.close()
        await eventually(lambda: service.open == 0)
    assert len(kept) == len(words) - 1  # without a first item, there is no result yet


async def test_a_stream_that_fails_is_cut_and_logged_once(caplog):
    async with await application().listen(0) as server:
        reader, writer = await send_request(server.port, "a", "object")
        with pytest.raises(asyncio.IncompleteReadError) as caught:
            await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), SECONDS)
        writer.close()
    assert b'data: "a"\n\n' in caught.value.partial
    failures = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.name for record in failures] == ["alula.express"]


async def test_items_wait_for_a_reader_that_does_not_read():
    service = Assistant()
    async with await application(service).listen(0) as server:
        _, writer = await send_request(server.port, path="/assistant/pour")
        made = -1
        while made != service.made:  # the buffers of the system are full then
            made = service.made
            await asyncio.sleep(0.3)
        assert 0 < service.made < 1_000
        writer.close()
        await eventually(lambda: service.open == 0)


async def test_a_server_that_stops_ends_streams_without_a_last_chunk():
    service = Assistant()
    server = await application(service).listen(0, timeout_graceful_shutdown=0)
    reader, writer = await send_request(server.port, "a", "wait")
    await asyncio.wait_for(reader.readuntil(b'"a"\n\n'), SECONDS)
    await server.close()
    assert service.open == 0
    with suppress(ConnectionError):
        assert b"0\r\n\r\n" not in await reader.read()
    writer.close()


async def test_readers_that_leave_at_random_leave_no_generator_on_uvicorn():
    service = Assistant()
    # No websockets: uvicorn 0.45 uses a deprecated part of their library for them.
    config = uvicorn.Config(
        application(service), port=0, lifespan="off", log_config=None, ws="none"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    chance = random.Random(1)

    async def read_a_while():
        count = chance.randrange(4)
        reader, writer = await send_request(port, *["a"] * count, "wait", "b")
        for _ in range(count):
            await reader.readuntil(b'"a"\n\n')
        await asyncio.sleep(chance.random() / 100)
        writer.close()
        return count > 0

    try:
        have_read = await asyncio.gather(*(read_a_while() for _ in range(100)))
        assert service.begun >= sum(have_read) > 50
        await eventually(lambda: service.open == 0)
    finally:
        server.should_exit = True
        await serving
    assert service.open == 0
