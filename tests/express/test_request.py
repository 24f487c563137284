"""The request as middleware sees it."""

from __future__ import annotations

import pytest
from tests.express.asgi_client import Sender, call, fake_app, request, scope_of

from alula._context import Params
from alula.errors import BadRequest
from alula.express import Request
from alula.express._request import Headers
from alula.types import UNSET


class Untouchable:
    """What stands in a scope and nobody may read."""

    def __iter__(self):
        raise AssertionError("somebody read it")

    decode = __iter__


def test_parses_nothing_before_someone_asks():
    scope = {**scope_of("GET", "/a?b=c"), "headers": [(b"host", Untouchable())]}
    req = Request(Untouchable(), scope, Sender())
    assert (req.method, req.path, req.body) == ("GET", "/a", UNSET)
    assert req.framework.headers is req.headers
    assert req.framework.provider == "rest"


def test_starts_without_anybody():
    req = request()
    assert (req.user, req.authentication, req.params, req.base_url) == (None, None, {}, "")


# -- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/", "/"),
        ("/messages/1", "/messages/1"),
        ("/a//b/", "/a//b/"),
        ("/a%2Fb/%C3%BC", "/a%2Fb/%C3%BC"),
        ("/100%25", "/100%25"),
        ("/%zz", "/%zz"),
        ("/a?b=%2F", "/a"),
    ],
)
def test_the_path_is_the_one_that_was_sent(url, path):
    assert request("GET", url).path == path


def test_a_path_without_a_raw_one_is_not_decoded_twice():
    scope = scope_of("GET", "/%2541/100%25")
    assert scope["path"] == "/%41/100%"
    del scope["raw_path"]
    assert Request(fake_app(), scope, Sender()).path == "/%2541/100%25"
    scope["raw_path"] = None
    assert Request(fake_app(), scope, Sender()).path == "/%2541/100%25"


ROOTS = {
    "below": ("/api", "/api/messages", "/messages"),
    "at": ("/api", "/api", "/"),
    "with a slash": ("/api", "/api/", "/"),
    "root with a slash": ("/api/", "/api/messages", "/messages"),
    "beside": ("/api", "/apis/messages", "/apis/messages"),
    "elsewhere": ("/api", "/messages", "/messages"),
    "encoded": ("/my api", "/my%20api/a%2Fb", "/a%2Fb"),
    "decoded, with escapes behind": ("/api", "/api/a%2Fb", "/a%2Fb"),
    "none": ("", "/messages", "/messages"),
    "a slash only": ("/", "/messages", "/messages"),
}


@pytest.mark.parametrize(("root", "url", "path"), ROOTS.values(), ids=ROOTS)
def test_a_root_path_is_taken_away(root, url, path):
    req = request("GET", url + "?a=1", root_path=root)
    assert req.path == path
    assert req.url == path + "?a=1"
    assert req.original_url in {url + "?a=1", url + "/?a=1"}


def test_urls():
    req = request("GET", "/a/%C3%BC?b=1&c=%20")
    assert req.url == req.original_url == "/a/%C3%BC?b=1&c=%20"
    req.base_url, req.path = "/a", "/%C3%BC"
    assert req.url == "/%C3%BC?b=1&c=%20"
    assert req.original_url == "/a/%C3%BC?b=1&c=%20"
    assert request("GET", "/a").url == "/a"


def test_its_repr_leaves_the_query_string_out():
    req = request("POST", "/b?access_token=secret")
    req.base_url = "/a"
    assert repr(req) == "<Request POST /a/b>"


@pytest.mark.parametrize(
    "name",
    [
        "access_token",
        "accessToken",
        "api_key",
        "apiKey",
        "APIKEY",
        "code",
        "feathers_token",
        "id_token",
        "password",
        "refresh_token",
        "refreshToken",
        "signature",
        "state",
        "ticket",
        "token",
    ],
)
def test_the_shown_url_has_no_secrets(name):
    req = request("GET", f"/a?page=2&{name}=secret&postcode=1&b_{name}=3")
    assert req.shown_url == f"/a?page=2&{name}=...&postcode=1&b_{name}=3"
    assert request("GET", f"/a?{name}=s%26ecret").shown_url == f"/a?{name}=..."


# -- what is parsed -------------------------------------------------------------------------------


def test_the_query_is_parsed_once_by_the_parser_of_the_application():
    def parser(text):
        parsed.append(text)
        return {"a": text}

    parsed = []
    app = fake_app()
    app.settings["query parser"] = parser
    req = request("GET", "/?b[c]=%201", app=app)
    assert parsed == []
    assert req.query is req.query
    assert req.query == {"a": "b[c]=%201"}
    assert parsed == ["b[c]=%201"]


def test_no_query_string_needs_no_parser():
    app = fake_app()
    app.settings["query parser"] = None
    req = request(app=app)
    assert req.query == {}
    req.query["a"] = 1
    assert request(app=app).query == {}, "requests share a query"


def test_a_query_may_be_set():
    req = request("GET", "/?a=1")
    req.query = {"b": 2}
    assert req.query == {"b": 2}


def test_a_query_over_the_limits_is_a_bad_request():
    req = request("GET", "/?" + "&".join("a" * 1001))
    for _ in range(2):  # again, in place of an empty query
        with pytest.raises(BadRequest):
            req.query  # noqa: B018  # reading it is the test


def test_headers_and_get():
    req = request("GET", "/", {"Accept": "text/html", "X-A": "1"})
    assert req.headers is req.headers
    assert req.headers["X-a"] == req.get("X-A") == "1"
    assert req.get("x-b") is None


@pytest.mark.parametrize("reads_all_first", [False, True])
def test_a_look_up_gives_what_the_mapping_has(reads_all_first):
    sent = [
        (b"accept", b"text/html"), (b"x-a", b"1 \t"), (b"x-b", b"\xe9"), (b"x-c", b"1"),
        (b"x-c", b"2"), (b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"host", b"one"),
        (b"host", b"two"),
    ]  # fmt: skip
    for raw in (sent, sent[:3]):
        headers = Headers(raw)
        if reads_all_first:
            assert len(headers) == len({name for name, _ in raw})
        for name in ("Accept", "x-A", "X-B", "x-c", "Cookie", "host", "x-none", "\u20ac"):
            assert headers.get(name, "none") == dict(Headers(raw)).get(name.lower(), "none")
    assert (headers.get("x-a"), headers.get("x-b")) == ("1", "\xe9")


def test_a_header_that_is_set_is_what_a_look_up_gives():
    headers = Headers([(b"x-a", b"1"), (b"x-b", b"2")])
    assert headers.get("x-a") == "1"
    headers["X-A"] = "3"
    del headers["x-b"]
    assert (headers.get("x-a"), headers.get("x-b")) == ("3", None)


def test_accepts():
    req = request("GET", "/", {"accept": "text/html"})
    assert req.accepts("json", "html") == "html"
    assert req.accepts("json") is None
    assert request().accepts("json", "html") == "json"


def test_peer_and_protocol():
    req = request()
    assert (req.ip, req.protocol) == ("192.0.2.7", "http")
    assert request(client=None, scheme="https").ip is None
    assert request(scheme="https").protocol == "https"
    scope = scope_of()
    del scope["client"], scope["scheme"]
    assert Request(fake_app(), scope, Sender()).ip is None
    assert Request(fake_app(), scope, Sender()).protocol == "http"


# -- params for the service -----------------------------------------------------------------------


def test_framework_takes_properties_one_by_one():
    req = request("GET", "/", {"x-a": "1"})
    req.framework.tenant = "acme"
    req.framework["user"] = {"id": 1}
    assert req.framework.tenant == "acme"
    assert Params({**req.framework}).user == {"id": 1}
    assert req.framework.headers["x-a"] == "1"


def test_framework_has_no_query_before_a_middleware_sets_one():
    req = request("GET", "/?a=1")
    assert "query" not in req.framework
    req.framework.query = {"b": 1}
    assert req.framework.query == {"b": 1}


def test_credentials_are_in_the_framework_whichever_was_first():
    jwt, other = {"strategy": "jwt"}, {"strategy": "other"}
    req = request()
    assert req.authentication is None
    req.authentication = jwt
    assert req.authentication is jwt
    assert req.framework.authentication is jwt
    req.authentication = other
    assert req.authentication is req.framework.authentication is other
    req.framework.authentication = jwt
    assert req.authentication is jwt
    req.authentication = None
    assert req.authentication is req.framework.authentication is None
    assert "authentication" not in request().framework


def test_framework_is_not_replaced():
    req = request()
    with pytest.raises(AttributeError, match=r"set one property: req\.framework\.tenant"):
        req.framework = {"a": 1}


def test_middleware_may_add_attributes():
    req = request()
    req.tenant = "acme"
    assert req.tenant == "acme"


# -- bodies ---------------------------------------------------------------------------------------

BODIES = {
    "nothing": ([], {}, False),
    "length": ([("content-length", "2")], {}, True),
    "length 0": ([("content-length", "0")], {}, False),
    "chunked": ([("transfer-encoding", "chunked")], {}, True),
    "after others": ([("host", "a"), ("content-length", "2")], {}, True),
    "HTTP/2 POST without a length": ([], {"http_version": "2", "method": "POST"}, True),
    "HTTP/3 DELETE without a length": ([], {"http_version": "3", "method": "DELETE"}, True),
    "HTTP/2 POST, length 0": (
        [("content-length", "0")],
        {"http_version": "2", "method": "POST"},
        False,
    ),
    "HTTP/2 GET": ([], {"http_version": "2"}, False),
    "HTTP/1.1 POST": ([], {"method": "POST"}, False),
}


@pytest.mark.parametrize(("headers", "scope", "found"), BODIES.values(), ids=BODIES)
def test_has_body(headers, scope, found):
    req = Request(fake_app(), {**scope_of("GET", "/", headers), **scope}, Sender())
    assert req.has_body is found
    req.scope["headers"] = None
    assert req.has_body is found, "the headers were read again"


async def test_parts_come_as_they_are_sent():
    req = request(sender=Sender([b"a", b"b"]))
    assert await req.receive_part() == (b"a", True)
    assert await req.receive_part() == (b"b", False)


async def test_a_message_without_a_body_is_an_empty_end():
    assert await request(sender=Sender()).receive_part() == (b"", False)


async def test_a_client_that_goes_away_is_no_end():
    req = request(sender=Sender([b"a"], leaves=True))
    await req.receive_part()
    with pytest.raises(BadRequest, match="before the whole body had arrived"):
        await req.receive_part()


@pytest.mark.parametrize(
    ("parts", "found"),
    [([b"a", b"b"], True), ([b"", b"", b"b"], True), ([b"", b""], False), ([], False)],
)
async def test_has_content_reads_no_more_than_it_must_and_loses_nothing(parts, found):
    req = request(sender=Sender(parts))
    assert await req.has_content() is found
    body, more = await req.receive_part()
    while more:
        part, more = await req.receive_part()
        body += part
    assert body == b"".join(parts)


async def test_has_content_tells_an_empty_body_from_a_client_that_went_away():
    with pytest.raises(BadRequest):
        await request(sender=Sender([b""], leaves=True)).has_content()


async def test_what_is_replayed_comes_before_what_follows():
    req = request(sender=Sender([b"c"]))
    req.replay(b"b", more=True)
    req.replay(b"a", more=True)
    found = [await req.receive_part() for _ in range(3)]
    assert found == [(b"a", True), (b"b", True), (b"c", False)]


# -- in an application ----------------------------------------------------------------------------


async def test_a_handler_sees_the_request():
    from alula.express import express

    def show(req, res):
        res.json([req.method, req.path, req.query, req.params, req.get("x-a"), req.ip])

    app = express()
    app.post("/users/:id", show)
    answer = await call(app, "POST", "/users/a%20b?c[d]=1", headers={"X-A": "1"})
    assert answer.json == [
        "POST",
        "/users/a%20b",
        {"c": {"d": "1"}},
        {"id": "a b"},
        "1",
        "192.0.2.7",
    ]
