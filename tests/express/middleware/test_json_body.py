"""Bodies in JSON."""

from __future__ import annotations

import codecs
import gzip
import json as stdlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.express.asgi_client import Receiver, call, post_json, scope_of

from alula import App
from alula.express import express, json, rest

KIND = {"content-type": "application/json"}


def app_with(*middleware, **settings):
    """Return an application that answers what the parsers made of a body."""
    app = express()
    for name, value in settings.items():
        app.set(name, value)
    app.use(list(middleware))
    app.all("*", lambda req, res: res.json({"body": req.body}))
    return app


@pytest.fixture
def app():
    return app_with(json())


GOOD = {
    "object": (b'{"a":1}', {"a": 1}),
    "list": (b'[1,{"a":2}]', [1, {"a": 2}]),
    "empty": (b"", {}),
    "white space around": (b' \n {"a":1}\t', {"a": 1}),
    "byte order mark": (codecs.BOM_UTF8 + b'{"a":1}', {"a": 1}),
    "byte order mark alone": (codecs.BOM_UTF8, {}),
    "unicode": ('{"a":"ü🐢"}'.encode(), {"a": "ü🐢"}),
    "escapes": (rb'{"a":"\u00fc\ud83d\udc22"}', {"a": "ü🐢"}),
    "names of JavaScript": (
        b'{"__proto__":{"x":1},"constructor":1}',
        {"__proto__": {"x": 1}, "constructor": 1},
    ),
    "several keys": (b'{"a":1,"a":2}', {"a": 2}),
    "huge integer": (
        b'{"a":123456789012345678901234567890}',
        {"a": 123456789012345678901234567890},
    ),
    "floats": (b'{"a":[1.0,1e2,-0.0,0.1]}', {"a": [1.0, 100.0, -0.0, 0.1]}),
    "254 levels": (b"[" * 254 + b"]" * 254, stdlib.loads("[" * 254 + "]" * 254)),
}


@pytest.mark.parametrize(("raw", "value"), GOOD.values(), ids=GOOD)
async def test_parses(app, raw, value):
    answer = await call(app, "POST", "/", [raw], KIND)
    assert (answer.status, answer.json) == (200, {"body": value})


BAD = {
    "cut off": b'{"a":',
    "single quotes": b"{'a':1}",
    "trailing comma": b'{"a":1,}',
    "text": b"hello",
    "white space only": b"   ",
    "two values": b"{}{}",
    "NaN": b'{"a":NaN}',
    "infinity": b'{"a":Infinity}',
    "number over all floats": b'{"a":1e400}',
    "integer over all floats": b'{"a":' + b"7" * 400 + b"}",
    "lone surrogate": rb'{"a":"\ud800"}',
    "lone surrogate beside a huge integer": rb'[123456789012345678901234567890,"\udfff"]',
    "invalid UTF-8": b'{"a":"\xff"}',
    "overlong UTF-8": b'{"a":"\xc0\xaf"}',
    "NUL byte": b'{"a":"\x00"}',
    "255 levels": b"[" * 255 + b"]" * 255,
    "1,000 levels": b'{"a":' * 1000 + b"1" + b"}" * 1000,
    "100,000 levels": b"[" * 100_000,
}


@pytest.mark.parametrize("raw", BAD.values(), ids=BAD)
async def test_what_is_no_json_is_a_bad_request(app, raw):
    answer = await post_json(app, raw)
    assert (answer.status, answer.json["className"]) == (400, "bad-request")
    assert answer.json["message"].startswith("The body is not valid JSON: ")


SCALARS = [b'"text"', b"42", b"null", b"true", b"1.5"]


@pytest.mark.parametrize("raw", SCALARS)
async def test_strict_takes_objects_and_lists_only(app, raw):
    answer = await post_json(app, raw)
    assert (answer.status, answer.json["message"]) == (
        400,
        "The body must be a JSON object or array",
    )


@pytest.mark.parametrize("raw", SCALARS)
async def test_not_strict_takes_any_value(raw):
    answer = await post_json(app_with(json(strict=False)), raw)
    assert answer.json == {"body": stdlib.loads(raw)}


# -- content types and charsets -------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON",
        "application/json ;charset=utf-8",
        "application/json;",
    ],
)
async def test_takes_application_json(app, kind):
    answer = await call(app, "POST", "/", b'{"a":1}', {"content-type": kind})
    assert answer.json == {"body": {"a": 1}}


@pytest.mark.parametrize(
    "kind", ["application/vnd.api+json", "text/plain", "text/json", "application/jsonp", "", "json"]
)
async def test_leaves_other_types_to_others(kind):
    def see(req, res, next):
        seen.append(repr(req.body))
        res.end()

    seen = []
    await call(app_with(json(), see), "POST", "/", b'{"a":1}', {"content-type": kind})
    assert seen == ["UNSET"]


async def test_leaves_a_body_without_a_type_to_others():
    async def see(req, res):
        seen.append((await req.receive_part(), repr(req.body)))
        res.end()

    seen = []
    await call(app_with(json(), see), "POST", "/", b"{}")
    assert seen == [((b"{}", False), "UNSET")]


@pytest.mark.parametrize(
    ("charset", "encoding"),
    [
        ("utf-8", "utf-8"),
        ("UTF8", "utf-8"),
        ("utf-16", "utf-16"),
        ("utf-16le", "utf-16-le"),
        ("utf-16be", "utf-16-be"),
        ("utf-16be", "utf-16-be with a mark"),
        ("utf-32", "utf-32"),
        ('"utf-16"', "utf-16"),
    ],
)
async def test_charsets(app, charset, encoding):
    text = '{"a":"ü🐢"}'
    if encoding.endswith("mark"):
        text, encoding = "\ufeff" + text, "utf-16-be"
    kind = f"application/json; charset={charset}"
    answer = await call(app, "POST", "/", text.encode(encoding), {"content-type": kind})
    assert answer.json == {"body": {"a": "ü🐢"}}


async def test_ascii_is_utf_8(app):
    kind = {"content-type": "application/json; charset=us-ascii"}
    assert (await call(app, "POST", "/", b'{"a":1}', kind)).json == {"body": {"a": 1}}


@pytest.mark.parametrize(
    "charset", ["foo", "latin-1", "iso-8859-1", "utf-7", "cp1252", "idna", "hex"]
)
async def test_other_charsets_are_not_supported(app, charset):
    kind = {"content-type": f"application/json; charset={charset}"}
    answer = await call(app, "POST", "/", b'{"a":1}', kind)
    assert (answer.status, answer.json["className"]) == (415, "unsupported-media-type")
    assert answer.json["message"] == f"JSON in the charset {charset} is not supported; send utf-8"


@pytest.mark.parametrize("raw", [b"\x00", b"\x00\xd8", b"{\x00}"])
async def test_bytes_that_the_charset_does_not_know_are_a_bad_request(app, raw):
    kind = {"content-type": "application/json; charset=utf-16le"}
    assert (await call(app, "POST", "/", raw, kind)).status == 400


# -- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "setting", "most"),
    [
        (None, None, 1024 * 1024),
        (None, 50, 50),
        (None, "1kb", 1024),
        (50, None, 50),
        ("50b", None, 50),
        ("1kb", 10, 1024),
    ],
)
async def test_limits(limit, setting, most):
    app = app_with(json() if limit is None else json(limit=limit))
    if setting is not None:
        app.set("body limit", setting)
    body = b'"' + b"x" * (most - 4) + b'"'
    for sent in (b"[" + body + b"]", [b"[", body, b"]"]):
        assert (await call(app, "POST", "/", sent, KIND)).status == 200
    for sent in (b"[" + body + b"] ", [b"[", body, b"] "]):
        answer = await call(app, "POST", "/", sent, KIND)
        assert (answer.status, answer.json["className"]) == (413, "payload-too-large")
        assert answer.json["message"] == f"The body is too large; the limit is {most} bytes"


async def test_a_limit_of_0_takes_no_body_at_all():
    app = app_with(json(limit=0))
    assert (await call(app, "POST", "/", [b""], KIND)).status == 200
    assert (await call(app, "POST", "/", b"{}", KIND)).status == 413


@pytest.mark.parametrize("limit", ["much", -1, "1 parsec"])
def test_a_limit_that_is_no_size_is_refused_when_it_is_registered(limit):
    with pytest.raises(ValueError, match="is not a size"):
        json(limit=limit)


async def test_a_length_that_lies_does_not_help(app):
    app.set("body limit", 10)
    answer = await call(
        app, "POST", "/", [b'{"a":', b'"xxxxxxxxx"}'], {**KIND, "content-length": "5"}
    )
    assert answer.status == 413


async def test_packed_bodies(app):
    for encoding, pack in {"gzip": gzip.compress, "deflate": zlib.compress}.items():
        answer = await call(
            app, "POST", "/", pack(b'{"a":1}'), {**KIND, "content-encoding": encoding}
        )
        assert answer.json == {"body": {"a": 1}}
    bomb = gzip.compress(b" " * 3_000_000)
    assert (await call(app, "POST", "/", bomb, {**KIND, "content-encoding": "gzip"})).status == 413
    answer = await call(app, "POST", "/", b"{}", {**KIND, "content-encoding": "br"})
    assert (answer.status, answer.get("accept-encoding")) == (415, "gzip, deflate")


@pytest.mark.parametrize("parts", [[], [b'{"a":'], [b'{"a":1}']])
async def test_a_client_that_goes_away_calls_nothing(parts):
    called = []
    app = app_with(json(), lambda req, res, go_on: called.append(1) or go_on())
    headers = {**KIND, "content-length": "100"}
    answer = await call(app, "POST", "/", parts, headers, leaves=True)
    assert answer.status == 400
    assert called == []


# -- what it costs, and who comes after -----------------------------------------------------------


class Counted:
    """Headers that count how often somebody looks through them."""

    def __init__(self, pairs):
        self.pairs, self.times = pairs, 0

    def __iter__(self):
        self.times += 1
        return iter(self.pairs)

    def __len__(self):
        return len(self.pairs)


async def test_a_request_without_a_body_costs_one_look_at_its_headers():
    def see(req, res):
        decoded = req._headers._values
        seen.append((req.scope["headers"].times, decoded, req._framework))
        res.end()

    async def unread():
        raise AssertionError("somebody waited for a body")

    seen = []
    app = express()
    app.use([json(), json(), json()])
    app.use(see)
    scope = {**scope_of(), "headers": Counted([(b"host", b"a")])}
    await app(scope, unread, Receiver())
    assert seen == [(1, None, None)]


async def test_the_first_parser_that_takes_a_body_keeps_it():
    app = app_with(json(strict=False), json())
    assert (await post_json(app, 3)).json == {"body": 3}


async def test_an_asgi_application_behind_it_still_gets_the_body():
    async def behind(scope, receive, send):
        message = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": message["body"]})

    app = express()
    app.use(json())
    app.use("/asgi", behind)
    assert (await post_json(app, b' {"a":1}', "/asgi")).body == b' {"a":1}'


async def test_what_it_read_becomes_the_data_of_a_service():
    class Echo:
        async def create(self, data, params):
            return {"data": data}

    app = express(App())
    app.use(json(strict=False))
    app.configure(rest())
    app.use("echo", Echo())
    assert (await post_json(app, [1, 2], "/echo")).json == {"data": [1, 2]}
    assert (await post_json(app, b"", "/echo")).json == {"data": {}}
    assert (await post_json(app, b"null", "/echo")).json == {"data": None}
    assert (await call(app, "POST", "/echo")).json == {"data": {}}
    answer = await call(app, "POST", "/echo", b"a", {"content-type": "text/plain"})
    assert answer.status == 415


@given(
    st.binary(max_size=60)
    | st.text(alphabet='[]{}",:0123eE.-\\untrf ', max_size=60).map(str.encode)
)
async def test_any_bytes_are_read_or_refused(raw):
    answer = await post_json(app_with(json()), raw)
    assert answer.status in {200, 400}
