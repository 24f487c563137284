"""Bodies that are broken, too large, of the wrong kind, or strange."""

from __future__ import annotations

import functools
import gzip
import json
import zlib

import pytest
from tests.conformance.wire import send
from tests.robustness.raw import assert_refused, exchange, head

JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
LIMIT = 100 * 1024
packed = functools.partial(gzip.compress, mtime=0)  # the same bytes at any time

MALFORMED = {
    "cut off": b'{"a":',
    "single quotes": b"{'a':1}",
    "trailing comma": b'{"a":1,}',
    "two values": b'{"a":1}{"b":2}',
    "a word": b"hello",
    "spaces": b"   ",
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":-Infinity}',
    "over the range": b'{"a":1e400}',
    "leading zero": b'{"a":01}',
    "hexadecimal": b'{"a":0x10}',
    "a comment": b'{"a":1} // b',
    "raw line break": b'{"a":"b\nc"}',
    "raw NUL": b'{"a":"b\x00c"}',
    "NUL behind it": b'{"a":1}\x00',
    "invalid UTF-8": b'{"a":"\xff\xfe"}',
    "invalid UTF-8 in a key": b'{"\xc3":1}',
    "overlong UTF-8": b'{"a":"\xc0\xaf"}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "a string": b'"text"',
    "a number": b"42",
    "null": b"null",
    "depth of 1,000": b'{"a":' * 1000 + b"1" + b"}" * 1000,
    "depth of 1,000 in lists": b"[" * 1000 + b"]" * 1000,
    "depth of 50,000": b"[" * 50_000 + b"]" * 50_000,
    "never closed": b"[" * 50_000,
}


@pytest.mark.parametrize("path", ["/echo", "/people", "/nope", "/calc"])
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_refuses_malformed_json(base, path, body):
    assert_refused(send(base, "POST", path, JSON, body), 404 if path == "/nope" else 400)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1e308}',
        b'{"a":-0}',
        b'{"a":-0.0}',
        b'{"a":12345678901234567890}',
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":-' + b"9" * 400 + b"}",
        b'{"a":0.' + b"1" * 5000 + b"}",
        b'{"a":1e-400}',
        b'{"a":"\\u0000"}',
        b'{"a":"\\ud800"}',
        b'{"\\udfff":1}',
        b'{"__proto__":{"x":1},"constructor":{"prototype":1}}',
        b'{"":{"":[]}}',
        b'{"a":1,"a":2}',
        b'{"a.b":1,"$set":{"c":1}}',
        b'{"id":"__proto__"}',
        b'{"id":{"$gt":""}}',
        b'{"id":[1]}',
        b'{"id":1e300}',
        b'{"id":-1}',
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/echo"), ("POST", "/people"), ("PUT", "/people/1"), ("PATCH", "/people/1")],
)
def test_takes_or_refuses_strange_json(base, method, path, body):
    reply = send(base, method, path, JSON, body)
    if reply.status >= 300:
        assert_refused(reply, 400, 409)
        return
    reply.json()
    # What was taken in can also be found and sent.
    assert send(base, "GET", "/people").status == 200
    assert send(base, "GET", "/people?%24sort%5Ba%5D=1&%24sort%5Bid%5D=-1").status == 200
    send(base, "POST", "/__reset")


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/vnd.api+json",
        "application/xml",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        "application/octet-stream",
        "application/jsonx",
        "json",
        "/",
        ";",
        ";;;===",
        "application/json, text/plain",
        "a" * 5000,
        "\xff\xfe",
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/echo"), ("PUT", "/people/1"), ("PATCH", "/messages")]
)
def test_refuses_a_body_that_no_parser_takes(base, method, path, kind):
    assert_refused(send(base, method, path, {"content-type": kind}, b'{"a":1}'), 415)


def test_refuses_a_body_without_a_content_type(base):
    assert_refused(send(base, "POST", "/echo", {}, b'{"a":1}'), 415)


@pytest.mark.parametrize(
    "kind",
    [
        "application/json; charset=foo",
        "application/json; charset=latin-1",
        "application/json; charset=hex",
        "application/json; charset=utf-99",
        "application/json; charset=\x00",
    ],
)
def test_refuses_an_unknown_charset(base, kind):
    if "\x00" in kind:
        reply = exchange(base, head("/echo", f"content-type: {kind}".encode(), method="POST"))
        assert_refused(reply, 400)
        return
    assert_refused(send(base, "POST", "/echo", {"content-type": kind}, b'{"a":1}'), 415)


@pytest.mark.parametrize("path", ["/echo", "/people", "/nope"])
@pytest.mark.parametrize("headers", [JSON, FORM], ids=["json", "form"])
@pytest.mark.parametrize("size", [LIMIT + 1, 20 * LIMIT])
def test_refuses_a_body_over_the_limit(base, path, headers, size):
    body = b'{"a":"' + b"x" * (size - 8) + b'"}'
    assert_refused(send(base, "POST", path, headers, body), 404 if path == "/nope" else 413)


def test_takes_a_body_at_the_limit(base):
    body = b'{"a":"' + b"x" * (LIMIT - 8) + b'"}'
    assert len(body) == LIMIT
    assert send(base, "POST", "/echo", JSON, body).status == 201


@pytest.mark.parametrize("kind", [b"application/json", b"application/x-www-form-urlencoded"])
def test_refuses_a_streamed_body_over_the_limit(base, kind):
    """It has no length, and would never end."""
    lines = (b"content-type: " + kind, b"transfer-encoding: chunked")
    chunk = b"4000\r\n" + b"[" * 0x4000 + b"\r\n"
    reply = exchange(base, head("/echo", *lines, method="POST"), *[chunk] * 200)
    assert_refused(reply, 413)


def test_refuses_a_length_over_the_limit_before_the_body_came(base):
    lines = (b"content-type: application/json", b"content-length: 9999999999")
    assert_refused(exchange(base, head("/echo", *lines, method="POST"), b"{"), 413)


@pytest.mark.parametrize("path", ["/echo", "/nope"])
def test_refuses_what_unpacks_to_more_than_the_limit(base, path):
    body = gzip.compress(b'{"a":"' + b"x" * 50_000_000 + b'"}')
    assert len(body) < LIMIT
    answer = send(base, "POST", path, {**JSON, "content-encoding": "gzip"}, body)
    assert_refused(answer, 404 if path == "/nope" else 413)


@pytest.mark.parametrize(
    ("encoding", "body", "code"),
    [
        ("gzip", b'{"a":1}', 400),
        ("gzip", packed(b'{"a":1}')[:-6], 400),
        ("gzip", packed(b"{"), 400),
        ("deflate", b"\x00\x01", 400),
        ("deflate", zlib.compress(b'{"a":1}')[:-2], 400),
        ("br", b'{"a":1}', 415),
        ("gzip, gzip", packed(packed(b'{"a":1}')), 415),
        ("x" * 3000, b'{"a":1}', 415),
        ("\xe9", b'{"a":1}', 415),
    ],
)
def test_refuses_what_cannot_be_unpacked(base, encoding, body, code):
    assert_refused(send(base, "POST", "/echo", {**JSON, "content-encoding": encoding}, body), code)


@pytest.mark.parametrize(
    "body",
    [
        b"&".join(b"p%d=1" % i for i in range(10_000)),
        b"a" + b"[b]" * 1000 + b"=1",
        b"a=\xff\xfe",
        b"\x80=1",
    ],
    ids=["10,000 parameters", "depth of 1,000", "invalid UTF-8", "invalid UTF-8 in a key"],
)
def test_refuses_a_malformed_form(base, body):
    assert_refused(send(base, "POST", "/echo", FORM, body), 400)


@pytest.mark.parametrize(
    "body",
    [
        b"%",
        b"%zz=%zz",
        b"a=%ff%fe",
        b"a=\x00&\x00=b",
        b"=&=&==",
        b"[=1&]=2&[]=3&[[]]=4",
        b"a[999999999]=x",
        b"a[" + b"9" * 400 + b"]=x",
        b"__proto__[x]=1&constructor[prototype][y]=2",
        b"&" * 900,
        b"a[]=1&a[b]=2&a=3",
    ],
)
def test_takes_a_strange_form(base, body):
    reply = send(base, "POST", "/echo", FORM, body)
    assert reply.status == 201
    assert isinstance(reply.json()["data"], dict)


@pytest.mark.parametrize(
    "body",
    [[1], ["x"], [None], [[]], [[[]]], [{}, None], [{"id": {"a": 1}}], [{"id": 9}, {"id": 9}]],
)
def test_creates_all_or_none_of_a_list(base, body):
    send(base, "POST", "/__reset")
    reply = send(base, "POST", "/messages", JSON, json.dumps(body).encode())
    assert_refused(reply, 400, 409)
    assert send(base, "GET", "/messages?%24limit=0").json()["total"] == 55


@pytest.mark.parametrize("body", [b"[]", b"[1]", b'[{"a":1}]'])
@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/people/1"), ("PATCH", "/people/1"), ("PATCH", "/messages")]
)
def test_refuses_to_change_records_by_a_list(base, method, path, body):
    assert_refused(send(base, method, path, JSON, body), 400)


@pytest.mark.parametrize("body", [{"values": 1}, {"values": {"a": 1}}, {"values": ["a"]}, [1]])
def test_a_custom_method_refuses_what_it_cannot_use(base, body):
    headers = {**JSON, "x-service-method": "sum"}
    assert_refused(send(base, "POST", "/calc", headers, json.dumps(body).encode()), 400)
