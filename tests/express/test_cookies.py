"""Cookies of requests and responses; their text is tested in `tests/test_cookies.py`."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.express.asgi_client import call, request, response

from alula import App
from alula.express import error_handler, express, json, rest

SECRET = "thirty-two random bytes at least"
SAFE = "Secure; HttpOnly; SameSite=Lax"


def test_reads_the_cookies_of_all_headers_once():
    req = request(headers=[("cookie", "a=1; b=2"), ("cookie", "a=3; c=4")])
    assert req.cookies == {"a": "1", "b": "2", "c": "4"}
    assert req.cookies is req.cookies


def test_a_request_without_cookies_has_none():
    assert request().cookies == {}


def test_several_cookies_have_a_header_each():
    res = response()
    assert res.cookie("a", "1").cookie("b", "é; c").clear_cookie("d", path="/d") is res
    assert res.get("Set-Cookie") == [
        f"a=1; Path=/; {SAFE}",
        f"b=%C3%A9%3B%20c; Path=/; {SAFE}",
        f"d=; Path=/d; Max-Age=0; {SAFE}",
    ]


def test_append_keeps_what_was_set():
    res = response().set("Link", "</a>").append("link", "</b>").append("Link", ["</c>", "</d>"])
    assert res.get("link") == ["</a>", "</b>", "</c>", "</d>"]
    assert response().append("Age", 7).get("age") == ["7"]
    with pytest.raises(ValueError, match="cannot be sent"):
        res.append("link", "a\r\nb")


async def test_every_option_arrives():
    app = express()

    def set_all(req, res):
        options = {"path": "/x", "domain": "app.example", "same_site": "none", "partitioned": True}
        res.cookie("a", "1", max_age=timedelta(days=1), http_only=False, **options)
        res.clear_cookie("b", **options)
        res.clear_cookie("c", secure=False)
        res.end()

    app.get("/", set_all)
    answer = await call(app)
    assert answer.all("set-cookie") == [
        "a=1; Path=/x; Domain=app.example; Max-Age=86400; Secure; SameSite=None; Partitioned",
        "b=; Path=/x; Domain=app.example; Max-Age=0; Secure; HttpOnly; SameSite=None; Partitioned",
        "c=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax",
    ]


async def test_signed_cookies_come_back():
    app = express().set("cookie secret", ["another secret of thirty-two bytes", SECRET])
    app.get("/set", lambda req, res: res.cookie("seen", "7.1", signed=True).end())
    app.get("/get", lambda req, res: res.json(req.signed_cookies))
    (line,) = (await call(app, url="/set")).all("set-cookie")
    signed = line.partition(";")[0].partition("=")[2]
    sent = f"seen={signed}; forged=7.{signed.rpartition('.')[2]}; plain=1"
    answer = await call(app, url="/get", headers=[("cookie", sent)])
    assert answer.json == {"seen": "7.1"}


async def test_signed_cookies_need_a_secret():
    app = express().use(error_handler(logger=False))
    with pytest.raises(LookupError, match="cookie secret"):
        _ = request(app=app).signed_cookies
    with pytest.raises(LookupError, match="cookie secret"):
        response(request(app=app)).cookie("a", "1", signed=True)


def test_the_secret_is_checked_when_it_is_set():
    with pytest.raises(ValueError, match="at least 32 bytes"):
        express().set("cookie secret", "short")
    with pytest.raises(TypeError, match="a text or bytes"):
        express().set("cookie secret", 7)


async def test_cookies_of_middleware_and_hooks_are_both_sent():
    app = express(App()).use(json())

    async def remember(req, res, next):
        res.cookie("a", "1")
        res.set("Cache-Control", "private")
        await next()

    class Notes:
        async def find(self, params):
            return []

    def set_headers(context):
        context.http["headers"] = {"Set-Cookie": ["b=2", "c=3"], "Cache-Control": "no-store"}

    app.use(remember).configure(rest()).use("notes", Notes())
    app.service("notes").hooks(after={"find": [set_headers]})
    answer = await call(app, url="/notes")
    assert answer.all("set-cookie") == [f"a=1; Path=/; {SAFE}", "b=2", "c=3"]
    assert answer.all("cache-control") == ["no-store"]
