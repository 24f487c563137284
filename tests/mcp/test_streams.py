"""Methods that stream as tools: progress, one result, limits, and clients that leave."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import TypedDict

import httpx2
import pytest
from pydantic import BaseModel
from tests.authentication.building import add_authentication
from tests.express.asgi_client import scope_of
from tests.express.serving import living
from tests.mcp.speaking import HOST, VERSIONS, call_tool, message_of, send
from tests.waiting import eventually

import alula.mcp._endpoint as endpoint
from alula.adapters.memory import MemoryService
from alula.authentication import authenticate
from alula.errors import Forbidden, NotAuthenticated, PayloadTooLarge
from alula.express import access_log, api
from alula.mcp import mcp
from alula.mcp._items import CollectedItems
from alula.schema import hidden, resolve, resolve_external
from mcp import Client


class Token(TypedDict):
    text: str


class Work(BaseModel):
    words: list[str] = []


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("canary-3")


class Assistant:
    """Streams, and tells whether its generators are open."""

    def __init__(self):
        self.open = 0
        self.made = 0

    async def ask(self, data: Work, params) -> AsyncIterator[Token]:
        """Answer a question."""
        for word in data.words:
            yield {"text": word}

    async def count(self, data: Work, params):
        for at, word in enumerate(data.words, 1):
            yield {"progress": at, "total": len(data.words), "message": word}

    async def list(self, data: Work, params):
        for word in data.words:
            if word == "fail":
                raise RuntimeError("canary-1")
            if word == "sign in":
                raise NotAuthenticated("Sign in again")
            if word == "refuse":
                raise Forbidden("no more", {"why": "a limit"})
            if word == "odd":
                raise Forbidden("no more", object())
            if word == "odder":
                raise Unspeakable
            yield {"word": word, "secret": "canary-2"}

    async def pour(self, data: Work, params):
        self.open += 1
        try:
            while True:
                self.made += 1
                yield "x" * 9
                if data.words:
                    await asyncio.sleep(3600)
        finally:
            self.open -= 1


METHODS = ["ask", "count", "list", "pour"]


def make_app(service=None, **options):
    app = api().use("a", service or Assistant(), methods=METHODS).use(access_log())
    hide = resolve_external(resolve({"secret": hidden}))
    app.service("a").hooks(around={"list": [hide]})
    return app.configure(mcp({"a": METHODS}, hosts=[HOST, "127.0.0.1:*"], **options))


async def events_of(app, name, words, *, version, headers=None):
    """Call a tool with a progress token; return the content type, the progress and the result."""
    answer = await send(
        app,
        "tools/call",
        {"name": name, "arguments": {"data": {"words": words}}, "_meta": {"progressToken": "t"}},
        version=version,
        headers=headers,
    )
    assert answer.status == 200, answer.text
    kind = answer.get("content-type")
    if kind == "application/json":
        return kind, [], answer.json["result"]
    events = answer.text.split("\r\n\r\n")
    assert events.pop() == ""
    messages = [json.loads(event.removeprefix("event: message\r\ndata: ")) for event in events]
    for message in messages[:-1]:
        assert (message["jsonrpc"], message["method"]) == ("2.0", "notifications/progress")
        assert message["params"].pop("progressToken") == "t"
    return kind, [message["params"] for message in messages[:-1]], messages[-1]["result"]


# -- items -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "progress", "text"),
    [
        ([], [], "[]"),
        ([{"text": "a"}, {"text": ""}], [(1, None, "a"), (2, None, "")], "a"),
        (
            [{"text": "a"}, {"text": "b", "end": True}],
            [(1, None, "a"), (2, None, '{"text":"b","end":true}')],
            '[{"text":"a"},{"text":"b","end":true}]',
        ),
        ([{"text": 1}, "ä"], [(1, None, '{"text":1}'), (2, None, "ä")], '[{"text":1},"ä"]'),
        (["a", {"text": "b"}], [(1, None, "a"), (2, None, "b")], '["a",{"text":"b"}]'),
        ([{"word": "a"}], [(1, None, '{"word":"a"}')], '[{"word":"a"}]'),
        (
            [{"progress": 0.5}, {"progress": 7, "total": 9, "message": "m"}],
            [(0.5, None, None), (7, 9, "m")],
            '[{"progress":0.5},{"progress":7,"total":9,"message":"m"}]',
        ),
    ],
)
def test_each_item_is_progress_and_all_of_them_are_one_text(items, progress, text):
    collected = CollectedItems(1000)
    assert [tuple(collected.add(item)) for item in items] == progress
    assert collected.text() == text


@pytest.mark.parametrize(
    "item",
    [
        {"progress": "7"},
        {"progress": True},
        {"progress": None, "message": "m"},
        {"progress": 1, "total": "9"},
        {"progress": 1, "message": 7},
        {"progress": 1, "more": 1},
        {"message": "m"},
        {},
    ],
)
def test_what_only_looks_like_progress_is_counted(item):
    assert CollectedItems(1000).add(item).progress == 1


async def test_items_are_bounded_in_number_and_in_characters():
    collected = CollectedItems(10)
    collected.add({"text": "0123456789"})
    with pytest.raises(PayloadTooLarge, match="more than 10 characters"):
        collected.add({"text": "x"})
    collected = CollectedItems(10)
    collected.add([1, 2, 3])
    with pytest.raises(PayloadTooLarge, match="more than 10 characters"):
        collected.add(4)
    collected = CollectedItems(1_000_000)
    for _ in range(10_000):
        collected.add({"text": ""})
    with pytest.raises(PayloadTooLarge, match="more than 10000 items"):
        collected.add({"text": ""})


# -- calls -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_with_a_token_gets_progress_and_then_the_result(version):
    app = make_app()
    async with living(app):
        kind, progress, result = await events_of(app, "a_count", ["x", "y"], version=version)
        assert kind == "text/event-stream"
        assert progress == [
            {"progress": 1, "total": 2, "message": "x"},
            {"progress": 2, "total": 2, "message": "y"},
        ]
        assert json.loads(result["content"][0]["text"]) == progress
        kind, progress, result = await events_of(app, "a_ask", ["be", "\n"], version=version)
        assert [each["message"] for each in progress] == ["be", "\n"]
        assert result["content"][0]["text"] == "be\n"


@pytest.mark.parametrize("version", VERSIONS)
async def test_without_token_or_event_stream_the_response_is_json(version):
    app = make_app()
    async with living(app):
        answer = await send(
            app, "tools/call", {"name": "a_list", "arguments": {"data": {"words": ["x"]}}}
        )
        assert answer.get("content-type") == "application/json"
        text = answer.json["result"]["content"][0]["text"]
        assert text == '[{"word":"x"}]'
        headers = {"accept": "application/json"}
        kind, _, result = await events_of(app, "a_ask", ["x"], version=version, headers=headers)
        assert (kind, result["content"][0]["text"]) == ("application/json", "x")
        kind, _, result = await events_of(app, "a_ask", [], version=version)
        assert (kind, result["content"][0]["text"]) == ("application/json", "[]")


@pytest.mark.parametrize(
    ("length", "kind"), [(1000, "text/event-stream"), (1001, "application/json")]
)
async def test_a_long_token_is_not_repeated(length, kind):
    app = make_app()
    params = {"name": "a_ask", "arguments": {"data": {"words": ["x"]}}}
    params["_meta"] = {"progressToken": "t" * length}
    async with living(app):
        answer = await send(app, "tools/call", params)
    assert (answer.status, answer.get("content-type")) == (200, kind)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_gets_progress(mode):
    app, seen = make_app(), []

    async def see(progress, total, message):
        seen.append((progress, total, message))

    async with await app.listen(0) as server, Client(f"{server.url}/mcp", mode=mode) as client:
        result = await client.call_tool(
            "a_count", {"data": {"words": ["x", "y"]}}, progress_callback=see
        )
        assert not result.is_error
    assert seen == [(1.0, 2.0, "x"), (2.0, 2.0, "y")]


@pytest.mark.parametrize("version", VERSIONS)
async def test_hidden_properties_are_in_no_progress(version):
    app = make_app()
    async with living(app):
        _, progress, result = await events_of(app, "a_list", ["x"], version=version)
    assert progress == [{"progress": 1, "message": '{"word":"x"}'}]
    assert "canary" not in str(result)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("word", "code", "message"),
    [
        ("fail", 500, "The server failed; its log says why"),
        ("refuse", 403, "no more"),
        ("sign in", 401, "Sign in again"),
        ("odd", 403, "no more"),
        ("odder", 500, "The server failed; its log says why"),
    ],
)
async def test_an_error_behind_the_first_item_is_the_result(version, word, code, message, caplog):
    caplog.set_level(logging.INFO, "alula")
    app = make_app()
    async with living(app):
        kind, progress, result = await events_of(app, "a_list", ["x", word], version=version)
    assert (kind, len(progress)) == ("text/event-stream", 1)
    assert result["isError"] is True
    error = json.loads(result["content"][0]["text"])
    assert (error["code"], error["message"]) == (code, message)
    assert "canary" not in str(result)
    line = [record for record in caplog.records if record.name == "alula.express"][-1]
    assert line.levelno == (logging.ERROR if code == 500 or word == "odd" else logging.INFO)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_refusal_before_the_first_item_is_an_ordinary_one(version):
    app = make_app().use("users", MemoryService())
    add_authentication(app)
    app.service("a").hooks(before=[authenticate("jwt")])
    meta = {"name": "a_ask", "arguments": {"data": {}}, "_meta": {"progressToken": 1}}
    async with living(app):
        answer = await send(app, "tools/call", meta, version=version)
    assert (answer.status, answer.get("www-authenticate")) == (401, "Bearer")


async def test_wrong_arguments_are_an_ordinary_error():
    app = make_app()
    async with living(app):
        assert await call_tool(app, "a_ask", {"words": []}) == (
            True,
            {"code": 400, "message": "unknown argument 'words'; this tool takes data"},
        )


async def test_a_stream_is_bounded_in_characters_and_in_seconds():
    service = Assistant()
    app = make_app(service)
    async with living(app):
        failed, error = await call_tool(app, "a_pour", {"data": {}})
    assert (failed, error["code"]) == (True, 413)
    assert "more than 100000 characters" in error["message"]
    assert (service.open, service.made) == (0, 8334)
    app = make_app(service, timeout=0.05)
    async with living(app):
        failed, error = await call_tool(app, "a_pour", {"data": {"words": ["wait"]}})
    assert (failed, error["code"]) == (True, 408)
    assert service.open == 0


async def test_a_stream_without_items_for_long_sends_comments(monkeypatch):
    monkeypatch.setattr(endpoint, "_HEARTBEAT", 0.01)
    app = make_app(timeout=0.2)
    params = {"name": "a_pour", "arguments": {"data": {"words": ["wait"]}}}
    async with living(app):
        answer = await send(app, "tools/call", {**params, "_meta": {"progressToken": 1}})
    events = answer.text.split("\r\n\r\n")
    assert events[1] == ":"
    assert '"code\\":408' in events[-2]


# -- clients that leave ----------------------------------------------------------------------------


@pytest.mark.parametrize("token", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_generator_ends_when_its_client_leaves(version, token):
    service = Assistant()
    app = make_app(service)
    async with await app.listen(0) as server:
        params = {"name": "a_pour", "arguments": {"data": {"words": ["wait"]}}}
        if token:
            params["_meta"] = {"progressToken": 1}
        message, headers = message_of("tools/call", params, version)
        headers["host"] = server.url.removeprefix("http://")
        async with httpx2.AsyncClient(trust_env=False) as client:
            calling = asyncio.create_task(
                client.post(f"{server.url}/mcp", json=message, headers=headers)
            )
            await eventually(lambda: service.open)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
        await eventually(lambda: not service.open)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_generator_ends_when_the_official_client_cancels(mode):
    """In 2025-11-25 it posts a notice, which names no client; so its call ends when it leaves."""
    service = Assistant()
    app = make_app(service)

    async def see(progress, total, message):
        pass

    async with await app.listen(0) as server:
        async with Client(f"{server.url}/mcp", mode=mode) as client:
            calling = asyncio.create_task(
                client.call_tool("a_pour", {"data": {"words": ["wait"]}}, progress_callback=see)
            )
            await eventually(lambda: service.open)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            if mode == "auto":
                await eventually(lambda: not service.open)
        await eventually(lambda: not service.open)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_that_does_not_read_holds_the_generator(version, caplog):
    """The next item is made only when the last progress was sent; then the client leaves."""
    service = Assistant()
    app = make_app(service)
    message, headers = message_of(
        "tools/call",
        {"name": "a_pour", "arguments": {"data": {}}, "_meta": {"progressToken": 1}},
        version,
    )
    body = json.dumps(message).encode()
    scope = scope_of("POST", "/mcp", {**headers, "content-length": str(len(body))})
    parts = [{"type": "http.request", "body": body}]
    leaves, is_sent = asyncio.Event(), asyncio.Event()

    async def receive():
        if parts:
            return parts.pop()
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def stuck(message):
        if message["type"] == "http.response.body":
            is_sent.set()
            await asyncio.Event().wait()

    async with living(app):
        calling = asyncio.create_task(app(scope, receive, stuck))
        await is_sent.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        assert service.made < 5
        leaves.set()
        await calling
        await eventually(lambda: not service.open)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
