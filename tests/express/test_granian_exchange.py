"""Whole responses without messages of ASGI, as they are sent on granian."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import ClassVar

from tests.express.test_granian import (
    GET,
    POST,
    SECONDS,
    application,
    body,
    exchange,
    length,
    sends,
    start,
    statuses,
)

from alula import App
from alula._http import EXCHANGE_EXTENSION
from alula.adapters.memory import MemoryService
from alula.express import error_handler, express, json, rest
from alula.express._connection_limits import ConnectionLimits
from alula.express._granian import sendable
from alula.express._granian.guard import GuardedApplication

TEXT = ((b"content-type", b"text/plain"),)


def responds(content, *, status=200, headers=TEXT, told=None):
    """Return an application that sends one whole response, by messages if that is refused."""

    async def app(scope, receive, send):
        server = scope["extensions"][EXCHANGE_EXTENSION]
        assert server.send == send
        assert server.receive == receive
        assert server.whole_body() is None
        was_sent = server.respond(status, headers, content)
        if told is not None:
            told.append(was_sent)
        if not was_sent:
            await sends(start(*headers, status=status), body(content))(scope, receive, send)

    return app


def undated(received):
    """Return the lines of responses but the date, sorted: the order of headers means nothing."""
    return sorted(line for line in received.split(b"\r\n") if not line.startswith(b"date: "))


@asynccontextmanager
async def asking():
    """Serve applications in turn, by one server: its end takes a second."""
    served = []

    async def app(scope, receive, send):
        await served[-1](scope, receive, send)

    async with await application().add_endpoint("/app", app).listen(0) as server:

        async def ask(app, method=b"GET"):
            """Return what comes for a request to an application, and for another one behind it."""
            served.append(app)
            head = GET.replace(b"GET /echo", method + b" /app")
            return await asyncio.wait_for(exchange(server, head + GET, 2), SECONDS)

        yield ask


async def test_a_whole_response_is_what_its_messages_are():
    told = []
    async with asking() as ask:
        for method, content in (
            (b"GET", b""),
            (b"GET", b"ok"),
            (b"GET", b"x" * 200_000),
            (b"HEAD", b"ok"),
        ):
            by_messages = sends(start(*TEXT, length(len(content))), body(content))
            whole = await ask(responds(content, told=told), method)
            assert undated(whole) == undated(await ask(by_messages, method))
            assert statuses(whole) == [200, 200]
    assert told == [True] * 4


async def test_what_has_a_framing_of_its_own_is_refused():
    told = []
    async with asking() as ask:
        for status, content, headers in (
            (204, b"", TEXT),
            (304, b"", TEXT),
            (200, b"ok", ((b"Content-Length", b"2"),)),
            (200, b"ok", ((b"transfer-encoding", b"chunked"),)),
            (200, b"ok", ((b"Content-Type", b"text/event-stream; charset=utf-8"),)),
        ):
            app = responds(content, status=status, headers=headers, told=told)
            assert statuses(await ask(app)) == [status, 200]
    assert told == [False] * 5


async def test_what_cannot_be_sent_is_a_500(caplog):
    async with asking() as ask:
        assert statuses(await ask(responds(b"ok"))) == [200, 200]  # a head that is known
        for status in (0, 99, 1000, "200", 200.0):
            assert statuses(await ask(responds(b"ok", status=status))) == [500, 200]
            assert f"the status {status!r} cannot be sent" in caplog.text
        for header in ((b"x", b"a\r\nb: c"), (b"x y", b"a")):
            assert statuses(await ask(responds(b"ok", headers=(header,)))) == [500, 200]
    assert "Invalid HTTP header name" in caplog.text
    assert "Invalid HTTP header value" in caplog.text


async def test_a_status_that_is_no_plain_number_is_sent_by_messages():
    told = []
    async with asking() as ask:
        received = await ask(responds(b"ok", status=HTTPStatus.OK, told=told))
    assert statuses(received) == [200, 200]
    assert told == [False]


async def test_a_post_without_a_response_is_a_500_at_once():
    async with asking() as ask:
        assert statuses(await ask(sends(), b"POST")) == [500, 200]


async def test_few_heads_are_remembered(monkeypatch):
    monkeypatch.setattr(sendable, "KNOWN_HEADS", {})
    for number in range(250):
        assert sendable.know_head(200, ((b"x", b"%d" % number),))
        assert len(sendable.KNOWN_HEADS) <= 100


async def test_a_response_that_has_begun_or_ended_is_not_sent_again():
    told = []

    async def app(scope, receive, send):
        server = scope["extensions"][EXCHANGE_EXTENSION]
        await send(start(length(2)))
        told.append(server.respond(200, TEXT, b"no"))
        await send(body(b"ok"))
        told.append(server.respond(200, TEXT, b"no"))

    async def again(scope, receive, send):
        server = scope["extensions"][EXCHANGE_EXTENSION]
        assert server.respond(200, TEXT, b"ok")
        told.append(server.respond(200, TEXT, b"no"))
        try:
            await send(start())
        except RuntimeError as error:
            told.append(str(error))

    async with asking() as ask:
        for each in (app, again):
            received = await ask(each)
            assert statuses(received) == [200, 200]
            assert b"no" not in received
    out_of_turn = "the ASGI message 'http.response.start' is out of turn"
    assert told == [False, False, False, out_of_turn]


async def test_results_of_services_are_sent_whole(monkeypatch):
    known = {}
    monkeypatch.setattr("alula.express._granian.guard.KNOWN_HEADS", known)
    monkeypatch.setattr(sendable, "KNOWN_HEADS", known)
    app = express(App()).use(json()).configure(rest()).use("messages", MemoryService())
    app.use(error_handler(logger=False))
    async with await app.listen(0, server="granian") as server:
        create = POST.replace(b"/echo", b"/messages") + b'content-length: 8\r\n\r\n{"a": 1}'
        get = GET.replace(b"/echo", b"/messages/0")
        received = await exchange(server, create + get + get.replace(b"GET", b"HEAD"), 3)
    assert statuses(received) == [201, 200, 200]
    assert received.count(b'{"a":1,"id":0}') == 2
    assert {status for status, _ in known} == {200, 201}


async def test_at_the_end_of_the_server_whole_responses_close_their_connections():
    begun, may_end = asyncio.Event(), asyncio.Event()

    class Slow:
        async def find(self, params):
            begun.set()
            await may_end.wait()
            return []

    app = express(App()).configure(rest()).use("slow", Slow())
    server = await app.listen(0, server="granian")
    receiving = asyncio.create_task(exchange(server, GET.replace(b"/echo", b"/slow")))
    await asyncio.wait_for(begun.wait(), SECONDS)
    closing = asyncio.ensure_future(server.close())
    while not server._backend._guard.is_closing:  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.01)
    may_end.set()
    assert b"connection: close\r\n" in await asyncio.wait_for(receiving, SECONDS)
    await asyncio.wait_for(closing, SECONDS)


async def test_a_request_that_has_not_begun_is_ended_with_the_others():
    sent, told = [], []

    class Proto:
        async def send(self, message):
            sent.append(message)

    class Watcher:
        proto = Proto()
        scope: ClassVar = {
            "type": "http",
            "method": "GET",
            "http_version": "1.1",
            "client": ("127.0.0.1", "1"),
            "server": ("127.0.0.1", "2"),
        }

        def done(self):
            told.append("done")

        err = done

    async def app(scope, receive, send):
        raise AssertionError("it must not begin")

    guard = GuardedApplication(app, ConnectionLimits(), None, 1)
    guard.begin(Watcher())
    assert guard.peers() == {("127.0.0.1", 1)}
    tasks = await guard.cut_all()
    await asyncio.wait(tasks)
    assert sent[0]["status"] == 503
    assert guard.peers() == set()
    assert told == []
