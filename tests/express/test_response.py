"""The response: what middleware says, and what is sent of it."""

from __future__ import annotations

import asyncio
import http
import json

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.express.asgi_client import Receiver, call, finish, request, response, scope_of

from alula.errors import NotAcceptable
from alula.express import express
from alula.express._response import Response

JSON = "application/json; charset=utf-8"
HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"


async def stream(*parts):
    for part in parts:
        yield part


# -- answers --------------------------------------------------------------------------------------

ANSWERS = {
    "json": (lambda res: res.json({"a": 1}), 200, JSON, '{"a":1}'),
    "json of a scalar": (lambda res: res.json(None), 200, JSON, "null"),
    "text": (lambda res: res.send("<b>ü"), 200, HTML, "<b>ü"),
    "bytes": (lambda res: res.send(b"ab"), 200, BYTES, "ab"),
    "bytearray": (lambda res: res.send(bytearray(b"ab")), 200, BYTES, "ab"),
    "memoryview": (lambda res: res.send(memoryview(b"ab")), 200, BYTES, "ab"),
    "stream": (lambda res: res.send(stream(b"a", "ü")), 200, BYTES, "aü"),
    "empty stream": (lambda res: res.send(stream()), 200, BYTES, ""),
    "mapping": (lambda res: res.send({"a": 1}), 200, JSON, '{"a":1}'),
    "list": (lambda res: res.send([1]), 200, JSON, "[1]"),
    "text of a type": (lambda res: res.type("text").send("a"), 200, TEXT, "a"),
    "json of a type": (lambda res: res.type("text/x").json({}), 200, "text/x; charset=utf-8", "{}"),
    "stream of a type": (lambda res: res.type("text").send(stream("a")), 200, TEXT, "a"),
    "status": (lambda res: res.status(404).json({}), 404, JSON, "{}"),
    "status of the standard library": (
        lambda res: res.status(http.HTTPStatus.CREATED).json({}), 201, JSON, "{}",
    ),
    "end": (lambda res: res.end(), 200, None, ""),
    "end with text": (lambda res: res.status(202).end("ü"), 202, None, "ü"),
    "end with bytes": (lambda res: res.end(b"ab"), 200, None, "ab"),
    "end of a type": (lambda res: res.type("text").end("a"), 200, TEXT, "a"),
    "no content of a value": (lambda res: res.status(204).json({"a": 1}), 204, None, ""),
    "not modified": (lambda res: res.status(304).send(stream(b"a")), 304, None, ""),
    "no content": (lambda res: res.set("content-length", 3).status(204).end(), 204, None, ""),
    "redirect": (lambda res: res.redirect("/a"), 302, TEXT, "See /a"),
    "redirect, permanent": (lambda res: res.redirect("/a", 308), 308, TEXT, "See /a"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "status", "kind", "text"), ANSWERS.values(), ids=ANSWERS)
async def test_answers(answer, status, kind, text):
    res = response()
    answer(res)
    assert res.headers_sent
    sent = await finish(res)
    assert (sent.status, sent.get("content-type"), sent.text) == (status, kind, text)


@pytest.mark.parametrize(("answer", "status", "kind", "text"), ANSWERS.values(), ids=ANSWERS)
async def test_head_has_the_headers_of_get_and_no_body(answer, status, kind, text):
    plain, head = response(), response("HEAD")
    answer(plain)
    answer(head)
    sent = await finish(head)
    assert sent.body == b""
    assert sent.status == status
    assert sent.headers == (await finish(plain)).headers


async def test_a_stream_is_not_read_for_head():
    async def endless():
        while True:
            read.append(1)
            yield b"x"

    read = []
    res = response("HEAD")
    res.send(endless())
    assert (await finish(res)).body == b""
    assert read == []


async def test_a_length_is_measured():
    res = response()
    res.set("Content-Length", "999").send("ü")
    assert (await finish(res)).get("content-length") == "2"


async def test_an_empty_answer_has_the_length_0():
    res = response()
    res.set("Content-Length", 5).end()
    assert (await finish(res)).get("content-length") == "0"


async def test_a_length_given_for_head_stays():
    res = response("HEAD")
    res.set("Content-Length", 12345).end()
    assert (await finish(res)).get("content-length") == "12345"


async def test_a_length_given_for_a_stream_stays():
    res = response()
    res.set("Content-Length", 2).send(stream(b"a", b"b"))
    assert (await finish(res)).get("content-length") == "2"


def test_what_has_no_json_form_is_no_answer():
    res = response()
    with pytest.raises(TypeError, match="has no JSON form"):
        res.send(object())
    assert not res.headers_sent
    assert res.get("content-type") is None


@pytest.mark.parametrize("status", [0, 100, 199, 600, 1000, -1, "404", None])
def test_a_status_that_cannot_be_sent_is_an_error(status):
    res = response()
    with pytest.raises(ValueError, match=r"the status .* must be 200 to 599"):
        res.status(status).json({})
    assert not res.headers_sent


@pytest.mark.parametrize(
    "again",
    [
        lambda res: res.json({}),
        lambda res: res.send("b"),
        lambda res: res.send(stream()),
        lambda res: res.end(),
        lambda res: res.redirect("/"),
        lambda res: res.delegate(None),
    ],
)
async def test_a_second_response_is_an_error(again):
    res = response("GET", "/a?token=secret")
    res.type("text").send("first")
    with pytest.raises(RuntimeError, match="<Request GET /a> has a response") as caught:
        again(res)
    assert "secret" not in str(caught.value)
    assert (await finish(res)).text == "first"


def test_its_repr_shows_whether_it_has_a_response():
    res = response().status(404)
    assert repr(res) == "<Response 404>"
    res.end()
    assert repr(res) == "<Response 404 set>"


# -- headers --------------------------------------------------------------------------------------


async def test_headers_are_set_read_and_removed_in_any_case():
    res = response()
    assert res.set("X-A", "1").set("X-B", 2).set("X-C", "3").remove("x-c").remove("x-d") is res
    assert (res.get("x-a"), res.get("X-B"), res.get("x-c")) == ("1", "2", None)
    res.set("x-a", "Zoë")
    res.end()
    sent = await finish(res)
    assert (sent.get("x-a"), sent.get("x-b"), sent.get("x-c")) == ("Zoë", "2", None)


async def test_a_list_is_several_headers():
    res = response().set("Set-Cookie", ["a=1; Path=/", "b=2"])
    assert res.get("set-cookie") == ["a=1; Path=/", "b=2"]
    res.end()
    assert (await finish(res)).all("set-cookie") == ["a=1; Path=/", "b=2"]


def test_a_list_is_kept_as_it_was():
    cookies = ["a=1"]
    res = response().set("Set-Cookie", cookies)
    cookies.append("b=2\r\nX: 1")
    assert res.get("set-cookie") == ["a=1"]


@pytest.mark.parametrize(
    "value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "\x00", "a\x7f", "Ω", "\ud800"]
)
@pytest.mark.parametrize("wrap", [str, lambda value: ["fine", value], lambda value: (value,)])
def test_a_value_that_would_break_the_head_is_refused(value, wrap):
    res = response()
    with pytest.raises(ValueError, match="'X-A' cannot be sent with the value"):
        res.set("X-A", wrap(value))
    assert res.get("x-a") is None


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\nb", "ü", "a\n", 'a"'])
def test_a_name_that_would_break_the_head_is_refused(name):
    res = response()
    with pytest.raises(ValueError):
        res.set(name, "1")
    with pytest.raises(ValueError, match="not the name of a header"):
        res.vary(name)


@pytest.mark.parametrize("value", [None, b"a", 1.5, {"a": 1}, [None]])
def test_a_value_of_another_type_is_refused(value):
    with pytest.raises(TypeError, match="'x-a' takes text or a number"):
        response().set("x-a", value)


@given(st.text(), st.text())
def test_whatever_is_taken_can_be_sent(name, value):
    res = response()
    try:
        res.set(name, value)
    except ValueError:
        return
    res.end()
    sent = asyncio.run(finish(res))
    assert (name.lower(), value) in sent.headers


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("json", JSON),
        ("html", HTML),
        ("text/css", "text/css; charset=utf-8"),
        ("text/html; charset=latin-1", "text/html; charset=latin-1"),
        ("image/png", "image/png"),
    ],
)
def test_type(name, kind):
    assert response().type(name).get("content-type") == kind


def test_an_unknown_short_type_is_an_error():
    with pytest.raises(ValueError, match="not a media type"):
        response().type("png")


@pytest.mark.parametrize(
    ("before", "added", "after"),
    [
        (None, "Accept", "Accept"),
        ("Accept", "accept", "Accept"),
        ("Accept-Encoding", "Accept", "Accept-Encoding, Accept"),
        ("Origin,Accept", "Accept", "Origin,Accept"),
        (["Origin", "X-A"], "Accept", "Origin, X-A, Accept"),
        (["Origin", "Accept"], "Accept", ["Origin", "Accept"]),
        ("Accept", "*", "Accept, *"),
    ],
)
def test_vary(before, added, after):
    res = response()
    if before is not None:
        res.set("Vary", before)
    assert res.vary(added).get("vary") == after


LOCATIONS = {
    "path": ("/echo/1?name=ü&x=a b", "/echo/1?name=%C3%BC&x=a%20b"),
    "escapes stay": ("/a%20b?c=%2F", "/a%20b?c=%2F"),
    "address": ("https://a.example:8/b[1]#c", "https://a.example:8/b[1]#c"),
    "line break": ("/a\r\nSet-Cookie: b=1", "/a%0D%0ASet-Cookie:%20b=1"),
    "backslash": ("/\\evil.example", "/%5Cevil.example"),
    "markup": ("/<script>", "/%3Cscript%3E"),
}


@pytest.mark.parametrize(("url", "location"), LOCATIONS.values(), ids=LOCATIONS)
async def test_a_redirect_goes_where_it_should(url, location):
    res = response().type("html")
    res.redirect(url)
    sent = await finish(res)
    assert sent.get("location") == location
    assert sent.text == f"See {location}"
    assert sent.get("content-type") == TEXT, "what somebody wrote into an address is no page"


# -- format ---------------------------------------------------------------------------------------


def formats(res):
    return {
        "json": lambda: res.json([1]),
        "csv": lambda: res.send("1"),
        "text/x-own": lambda: res.send("one"),
    }


@pytest.mark.parametrize(
    ("accept", "kind", "text"),
    [
        (None, JSON, "[1]"),
        ("*/*", JSON, "[1]"),
        ("text/csv", "text/csv; charset=utf-8", "1"),
        ("text/csv;q=0.5, text/x-own", "text/x-own; charset=utf-8", "one"),
    ],
)
async def test_format_calls_what_the_client_likes_best(accept, kind, text):
    res = response("GET", "/", {"accept": accept} if accept else {})
    res.type("html").format(formats(res))
    sent = await finish(res)
    assert (sent.get("content-type"), sent.text) == (kind, text)
    assert sent.vary == {"Accept"}


def test_format_without_a_fitting_type_is_not_acceptable():
    res = response("GET", "/", {"accept": "image/png"})
    with pytest.raises(NotAcceptable, match="comes as json, csv, text/x-own"):
        res.format(formats(res))
    assert res.get("vary") == "Accept"


async def test_format_has_a_default():
    res = response("GET", "/", {"accept": "image/png"})
    res.format({**formats(res), "default": lambda: res.type("image/png").send(b"png")})
    assert (await finish(res)).get("content-type") == "image/png"


def test_the_default_is_no_type():
    res = response("GET", "/")
    res.format({"default": res.end, "json": lambda: res.json([1])})
    assert res.get("content-type") == JSON


class Handler:
    def method(self, req, res):
        res.json([req.method])

    def __call__(self, req, res):
        res.json([req.method])


@pytest.mark.parametrize(
    "handler",
    [
        lambda req, res: res.json([req.method]),
        lambda req, res, value=1: res.json([req.method]),
        Handler(),
        Handler().method,
    ],
)
async def test_format_gives_a_handler_what_it_takes(handler):
    res = response()
    res.format({"json": handler})
    assert (await finish(res)).json == ["GET"]


async def test_format_leaves_what_has_a_value_of_its_own():
    res = response()
    value = [1, 2]
    res.format({"json": lambda value=value, *args, key=1, **more: res.json([value, args, more])})
    assert (await finish(res)).json == [[1, 2], [], {}]


async def test_format_returns_what_the_handler_returns():
    async def handler():
        res.json([1])

    res = response()
    await res.format({"json": handler})
    assert (await finish(res)).json == [1]


# -- other applications, and what is around -------------------------------------------------------


def application(status=200, headers=(), body=b"theirs"):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": [*headers]})
        await send({"type": "http.response.body", "body": body})

    return app


async def test_another_application_answers_with_its_own_headers_and_ours():
    res = response().status(500)
    res.set("x-ours", "1").set("X-Both", "ours").set("set-cookie", ["a=1"]).vary("Accept")
    theirs = [
        (b"X-both", b"theirs"),
        (b"set-cookie", b"b=2"),
        (b"vary", b"Origin"),
    ]
    res.delegate(lower(application(201, theirs)))
    sent = await finish(res)
    assert (sent.status, sent.text) == (201, "theirs")
    assert (sent.get("x-ours"), sent.get("x-both")) == ("1", "theirs")
    assert sorted(sent.all("set-cookie")) == ["a=1", "b=2"]
    assert sent.vary == {"Accept", "Origin"}


def lower(app):
    """Return an application that sends the names of its headers in lower case at last."""

    async def run(scope, receive, send):
        async def lowered(message):
            if "headers" in message:
                pairs = [(name.lower(), value) for name, value in message["headers"]]
                message = {**message, "headers": pairs}
            await send(message)

        await app(scope, receive, lowered)

    return run


async def test_names_of_another_application_count_in_any_case():
    async def send(message):
        messages.append(message)

    messages = []
    res = response().set("x-both", "ours")
    res.delegate(application(200, [(b"X-Both", b"theirs")]))
    await res.finish(res.req.scope, res.req.receive, send)
    assert messages[0]["headers"] == [(b"X-Both", b"theirs")]


def wrapper(name, order):
    def wrap(answer):
        async def run(scope, receive, send):
            order.append(name)
            await answer(scope, receive, send)

        return run

    return wrap


@pytest.mark.parametrize("delegated", [False, True])
async def test_the_first_wrapper_is_the_outermost(delegated):
    order = []
    res = response()
    res.wrap(wrapper("first", order))
    res.wrap(wrapper("second", order))
    if delegated:
        res.delegate(application())
    else:
        res.send("ours")
    assert (await finish(res)).text == ("theirs" if delegated else "ours")
    assert order == ["first", "second"]


@pytest.mark.parametrize("error", [None, asyncio.CancelledError()])
async def test_functions_hear_of_the_end_the_last_one_first(error):
    told = []
    res = response()
    res.on_end(lambda error: told.append(("first", error)))
    res.on_end(lambda error: told.append(("last", error)))
    res.ended(error)
    assert told == [("last", error), ("first", error)]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.parametrize("is_stream", [False, True])
async def test_it_tells_what_was_sent(method, is_wrapped, is_stream):
    res = response(method).status(201)
    assert (res.sent_status, res.sent_bytes, res.is_sent) == (None, 0, False)
    if is_wrapped:
        res.wrap(wrapper("outer", []))
    res.send(stream(b"abc", b"de") if is_stream else b"abcde")
    await finish(res)
    assert (res.sent_status, res.is_sent) == (201, True)
    assert res.sent_bytes == (0 if method == "HEAD" else 5)


@pytest.mark.parametrize("ends", ["sent", "fails", "is cancelled"])
async def test_the_application_says_when_a_request_has_ended(ends):
    told = []

    async def middleware(req, res, next):
        res.on_end(lambda error: told.append((type(error), res.is_sent)))
        await next()

    async def handle(req, res):
        if ends == "is cancelled":
            raise asyncio.CancelledError
        res.send(failing_stream() if ends == "fails" else "ok")

    async def failing_stream():
        yield "a"
        raise LookupError

    app = express().use(middleware).get("/", handle)
    if ends == "sent":
        await call(app)
    else:
        with pytest.raises((LookupError, asyncio.CancelledError)):
            await call(app)
    error = {"sent": type(None), "fails": LookupError, "is cancelled": asyncio.CancelledError}[ends]
    assert told == [(error, ends == "sent")]


# -- an error after an answer ---------------------------------------------------------------------


async def test_reset_forgets_the_answer_and_what_belongs_to_its_body():
    res = response().set("x-request-id", "7").set("cache-control", "no-store")
    res.type("csv").set("Content-Encoding", "br").set("ETag", '"1"').set("Content-Length", 9)
    res.set("Content-Disposition", "attachment").set("Last-Modified", "x").send(stream("a"))
    assert res.reset() is res
    assert not res.headers_sent
    res.status(500).json({"name": "GeneralError"})
    sent = await finish(res)
    assert dict(sent.headers) == {
        "x-request-id": "7",
        "cache-control": "no-store",
        "content-type": JSON,
        "content-length": "23",
    }


CACHING = {
    "public, max-age=86400": "no-store",
    "Private, Max-Age=60": "no-store",
    "s-maxage=60": "no-store",
    "private": "private",
    "no-cache, no-transform": "no-cache, no-transform",
    ("public", "immutable"): "no-store",
}


@pytest.mark.parametrize(("given", "left"), CACHING.items())
async def test_reset_lets_no_cache_keep_the_error(given, left):
    res = response().set("cache-control", given if isinstance(given, str) else [*given])
    assert res.reset().get("cache-control") == left


async def test_reset_forgets_another_application():
    res = response()
    res.wrap(wrapper("kept", order := []))
    res.delegate(application())
    res.reset().send("ours")
    assert (await finish(res)).text == "ours"
    assert order == ["kept"]


# -- streams --------------------------------------------------------------------------------------


async def test_a_stream_is_sent_part_by_part():
    res = response()
    res.send(stream(b"a", "b", b"c"))
    assert (await finish(res)).parts == [b"a", b"b", b"c", b""]


class Endless:
    """A stream without an end, which tells when it was closed."""

    def __init__(self):
        self.closed = asyncio.Event()

    async def parts(self):
        try:
            while True:
                yield b"x"
                await anyio.sleep(0.001)
        finally:
            self.closed.set()


async def test_an_endless_stream_ends_with_its_client():
    async def receive():
        await anyio.sleep(0.02)
        return {"type": "http.disconnect"}

    endless = Endless()
    res = Response(request())
    res.send(endless.parts())
    with anyio.fail_after(30):
        await res.finish(scope_of(), receive, Receiver())
    assert endless.closed.is_set()


async def test_a_client_that_left_is_no_error():
    async def send(message):
        if message["type"] == "http.response.body":
            raise OSError("gone")

    endless = Endless()
    res = Response(request(asgi={"version": "3.0", "spec_version": "2.4"}))
    res.send(endless.parts())
    with anyio.fail_after(30):
        await res.finish(res.req.scope, res.req.receive, send)
    assert endless.closed.is_set()


@pytest.mark.parametrize("version", ["2.3", "2.4"])
@pytest.mark.parametrize(("error", "raised"), [(OSError, RuntimeError), (KeyError, KeyError)])
async def test_a_stream_that_fails_is_not_taken_for_a_client_that_left(version, error, raised):
    async def failing():
        yield b"a"
        raise error("no disk")

    res = Response(request(asgi={"version": "3.0", "spec_version": version}))
    res.send(failing())
    receiver = Receiver()
    with pytest.raises(raised):
        await res.finish(res.req.scope, res.req.receive, receiver)
    assert not receiver.answer.ended, "the client must see that something is missing"


async def test_a_client_that_left_is_no_error_for_servers_that_raise_early():
    async def send(message):
        raise OSError("gone")

    endless = Endless()
    res = Response(request())
    res.send(endless.parts())
    with anyio.fail_after(30):
        await res.finish(scope_of(), anyio.sleep_forever, send)
    assert not endless.closed.is_set(), "it has not begun"


async def test_a_stream_that_waits_ends_with_its_client():
    messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"unread"}]
    closed = asyncio.Event()

    async def receive():
        await anyio.sleep(0.01)
        return messages.pop()

    async def waiting():
        try:
            yield b"a"
            await anyio.sleep_forever()
        finally:
            closed.set()

    res, receiver = Response(request()), Receiver()
    res.send(waiting())
    with anyio.fail_after(30):
        await res.finish(scope_of(), receive, receiver)
    assert closed.is_set()
    assert not messages
    assert not receiver.answer.ended


async def test_a_server_that_fails_while_a_stream_is_sent():
    async def receive():
        raise KeyError("receive")

    endless = Endless()
    res = Response(request())
    res.send(endless.parts())
    with pytest.raises(KeyError, match="receive"), anyio.fail_after(30):
        await res.finish(scope_of(), receive, Receiver())
    assert endless.closed.is_set()


@pytest.mark.parametrize("version", ["2.3", "2.4"])
async def test_a_response_that_is_cancelled_closes_its_stream(version):
    endless, left = Endless(), []
    res = Response(request())
    res.send(endless.parts())
    scope = scope_of(asgi={"version": "3.0", "spec_version": version})
    tasks = asyncio.all_tasks()
    with anyio.move_on_after(0.05):
        await res.finish(scope, anyio.sleep_forever, Receiver())
        left.append("the stream has ended")
    assert endless.closed.is_set()
    assert not left
    assert asyncio.all_tasks() == tasks


class Parts:
    """Asynchronous, and no generator."""

    def __aiter__(self):
        self.left = [b"b", b"a"]
        return self

    async def __anext__(self):
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop()


async def test_a_stream_may_be_any_asynchronous_iterable():
    res = response()
    res.send(Parts())
    assert (await finish(res)).text == "ab"


# -- in an application ----------------------------------------------------------------------------


async def test_nothing_leaves_before_the_last_middleware_returned():
    from alula.express import express

    async def late(req, res, next):
        await next()
        res.set("x-late", str(res.headers_sent))

    app = express()
    app.use(late)
    app.get("/", lambda req, res: res.json({"a": 1}))
    sent = await call(app)
    assert sent.get("x-late") == "True"
    assert json.loads(sent.body) == {"a": 1}


# -- what middleware sets behind the response ------------------------------------------------------


@pytest.mark.parametrize("status", [0, 99, 150, 600, 1000, "200", None])
@pytest.mark.parametrize("body", [b"a", {"a": 1}, stream(b"a")])
async def test_a_status_that_cannot_be_sent_is_refused_when_it_is_sent(status, body):
    res = response()
    res.send(body)
    res.status_code = status
    with pytest.raises(ValueError, match=f"the status {status!r} cannot be sent; it must be 200"):
        await finish(res)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, lambda res: res.json({"a": 1})),
        (200, lambda res: res.send(stream(b"a"))),
        (204, lambda res: res.end()),
    ],
)
async def test_the_server_alone_chooses_the_transfer_encoding(method, status, answer):
    res = response(method)
    answer(res.status(status).set("Transfer-Encoding", "chunked"))
    sent = await finish(res)
    assert sent.get("transfer-encoding") is None
