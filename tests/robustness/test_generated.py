"""Hypothesis looks for a request that makes a server fail."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from http.client import HTTPException

import pytest
from examples.chat.app import make_app
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.wire import Reply, send
from tests.robustness.raw import ERROR_KEYS, answers_on, assert_no_stack, assert_serves
from tests.robustness.requests import Request, Site, requests

EXAMPLES = {5_000: 10_000, 300: 1_000, 10: 30}.get(settings.default.max_examples, 100)
search = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

# All services but `calc`, whose find fails on purpose: custom methods are tried with the others.
REFERENCE = Site(
    services=["people", "messages", "todos", "keyed", "at-memory", "echo", "Mixed/Case", "nothing",
              "users/7/messages", "orgs/a/repos/b/issues", "custom-http", "readonly", "internal",
              "after-mw", "hooked"],
    ids=["0", "1", "5", "55", "apple", "7", "null", "zero", "boom", "deny", "skip", "__proto__"],
    fields=["id", "name", "city", "age", "tags", "address", "address.geo.lat", "note", "text", "n",
            "key", "colour", "title", "done", "mode", "created"],
    methods=["poke", "sum"],
    pages=["/mw/plain", "/mw/forbidden", "/mw"],
)  # fmt: skip
CHAT = Site(
    services=["users", "messages"],
    ids=["1", "2", "99"],
    fields=["_id", "name", "text", "userId", "createdAt", "user", "reactions", "avatar"],
    methods=["react"],
    pages=["/", "/index.html", "/app.js", "/../app.py", "/%2e%2e/app.py", "/.hidden"],
)


def check(request: Request, reply: Reply) -> None:
    """Check what holds for every answer, whatever was asked."""
    assert reply.status < 500, (request, reply)
    if request.method == "HEAD" or reply.status in {204, 304}:
        assert reply.text == ""
        return
    kind = reply.headers.get("content-type", "")
    if reply.status >= 400:
        assert kind.startswith(("application/json", "text/html")), (request, reply)
        assert_no_stack(reply)
    if kind.startswith("application/json"):
        value = reply.json()
        if reply.status >= 400:
            assert {"name", "message", "code", "className"} <= value.keys() <= ERROR_KEYS
            assert value["code"] == reply.status


@search
@given(request=requests(REFERENCE))
def test_the_reference_app_never_fails(reference, request):
    send(reference.main, "POST", "/__reset")
    check(request, send(reference.main, *request))


@search
@given(request=requests(REFERENCE), edits=st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=4)), min_size=1, max_size=4
))  # fmt: skip
def test_the_reference_app_survives_damaged_bytes(reference, request, edits):
    data = serialised(request)
    for at, length, new in edits:
        data = data[:at] + new + data[at + length :]
    try:
        replies = answers_on(reference.main, data)
    except (OSError, HTTPException):
        replies = []  # the server may close the connection at once
    assert all(reply.status < 500 for reply in replies), (data, replies)
    assert_serves(reference.main)


@pytest.fixture(scope="session")
def chat():
    """The address of the example chat."""
    with served(make_app()) as base:
        yield base


@search
@given(request=requests(CHAT))
def test_the_chat_never_fails(chat, request):
    check(request, send(chat, *request))


def serialised(request: Request) -> bytes:
    """Return a request as bytes."""
    body = request.body or b""
    lines = [f"{request.method} {request.target} HTTP/1.1", "Host: x", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    if "transfer-encoding" in request.headers:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    else:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@contextmanager
def served(app):
    """Serve an application in a thread, and yield its address."""
    ready = threading.Event()
    state = {}

    async def serve():
        server = await app.listen(0)
        state.update(url=server.url, stop=asyncio.Event(), loop=asyncio.get_running_loop())
        ready.set()
        await state["stop"].wait()
        await server.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60), "the application did not start"
    try:
        yield state["url"]
    finally:
        state["loop"].call_soon_threadsafe(state["stop"].set)
        thread.join(60)
