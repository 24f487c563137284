"""Bodies as HTML forms send them."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.express.asgi_client import call

from alula.express import express, json, urlencoded

FORM = {"content-type": "application/x-www-form-urlencoded"}


def app_with(*middleware):
    app = express()
    app.use(list(middleware))
    app.all("*", lambda req, res: res.json({"body": req.body}))
    return app


async def post(app, text, headers=FORM):
    raw = text if isinstance(text, bytes | list) else text.encode()
    return await call(app, "POST", "/", raw, headers)


BOTH = {
    "fields": ("a=1&b=two", {"a": "1", "b": "two"}),
    "empty": ("", {}),
    "several of a name": ("a=1&a=2&a=3&b=4", {"a": ["1", "2", "3"], "b": "4"}),
    "no value": ("a&b=", {"a": "", "b": ""}),
    "spaces": ("a+b=c+d%20e", {"a b": "c d e"}),
    "unicode": ("n%C3%BC=%F0%9F%90%A2", {"nü": "🐢"}),
    "unicode as it is": ("nü=🐢", {"nü": "🐢"}),
    "equals signs": ("a=b=c", {"a": "b=c"}),
    "names of JavaScript": ("__proto__=1&constructor=2", {"__proto__": "1", "constructor": "2"}),
    "broken escapes": ("a=%zz&b=100%", {"a": "%zz", "b": "100%"}),
    "a byte order mark": ("\ufeffa=1&b=2", {"a": "1", "b": "2"}),
    "NUL": ("a=%00", {"a": "\x00"}),
}


@pytest.mark.parametrize("extended", [True, False])
@pytest.mark.parametrize(("text", "value"), BOTH.values(), ids=BOTH)
async def test_parses(text, value, extended):
    answer = await post(app_with(urlencoded(extended=extended)), [text.encode()])
    assert answer.json == {"body": value}


NUMBERS = [str(n) for n in range(300)]

EXTENDED = {
    "objects": ("a[b]=1&a[c][d]=2", {"a": {"b": "1", "c": {"d": "2"}}}),
    "lists": ("a[]=1&a[]=2", {"a": ["1", "2"]}),
    "indexes": ("a[0]=x&a[1]=y", {"a": ["x", "y"]}),
    "encoded brackets": ("a%5Bb%5D=1", {"a": {"b": "1"}}),
    "a list of 300": ("&".join(f"a[]={n}" for n in NUMBERS), {"a": NUMBERS}),
    "indexes to 300": ("&".join(f"a[{n}]={n}" for n in NUMBERS), {"a": NUMBERS}),
    "names of JavaScript": ("a[__proto__][x]=1", {"a": {"__proto__": {"x": "1"}}}),
}


@pytest.mark.parametrize(("text", "value"), EXTENDED.values(), ids=EXTENDED)
async def test_extended_reads_brackets(text, value):
    assert (await post(app_with(urlencoded()), text)).json == {"body": value}


async def test_not_extended_takes_names_as_they_are():
    answer = await post(app_with(urlencoded(extended=False)), "a[b]=1&a[]=2&a[]=3")
    assert answer.json == {"body": {"a[b]": "1", "a[]": ["2", "3"]}}


# -- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("extended", [True, False])
async def test_at_most_1000_fields(extended):
    app = app_with(urlencoded(extended=extended))
    answer = await post(app, "&".join(f"p{n}=" for n in range(1000)))
    assert len(answer.json["body"]) == 1000
    answer = await post(app, "&".join(f"p{n}=" for n in range(1001)))
    assert (answer.status, answer.json["message"]) == (400, "The form has more than 1000 fields")


async def test_at_most_32_levels():
    app = app_with(urlencoded())
    assert (await post(app, "a" + "[b]" * 32 + "=1")).status == 200
    answer = await post(app, "a" + "[b]" * 33 + "=1")
    assert answer.status == 400
    assert answer.json["message"] == "A name in the form has more than 32 levels"
    assert (await post(app, "a" + "[b]" * 100_000 + "=1")).status == 400


async def test_without_brackets_there_are_no_levels():
    app = app_with(urlencoded(extended=False))
    assert (await post(app, "a" + "[b]" * 100 + "=1")).status == 200


@pytest.mark.untraced
@pytest.mark.parametrize("extended", [True, False])
async def test_escapes_take_no_more_memory_than_other_characters(extended):
    size = 1_000_000
    app = app_with(urlencoded(extended=extended))
    tracemalloc.start()
    try:
        assert (await post(app, "a=" + "%" * size)).json == {"body": {"a": "%" * size}}
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50 * size


@pytest.mark.parametrize(
    ("limit", "setting"), [(10, None), ("10b", None), (None, 10), (None, "10b"), (10, 5)]
)
async def test_limits(limit, setting):
    app = app_with(urlencoded(limit=limit))
    if setting is not None:
        app.set("body limit", setting)
    assert (await post(app, "a=" + "x" * 8)).status == 200
    for text in ("a=" + "x" * 9, [b"a=", b"x" * 9]):
        answer = await post(app, text)
        assert (answer.status, answer.json["className"]) == (413, "payload-too-large")


async def test_a_limit_of_0():
    app = app_with(urlencoded(limit=0))
    assert (await post(app, [b""])).json == {"body": {}}
    assert (await post(app, "a")).status == 413


def test_a_limit_that_is_no_size_is_refused_when_it_is_registered():
    with pytest.raises(ValueError, match="is not a size"):
        urlencoded(limit="much")


# -- charsets and types ---------------------------------------------------------------------------


@pytest.mark.parametrize("charset", ["utf-8", "UTF8", "us-ascii"])
async def test_charsets(charset):
    kind = {"content-type": f"application/x-www-form-urlencoded; charset={charset}"}
    assert (await post(app_with(urlencoded()), "a=1", kind)).json == {"body": {"a": "1"}}


@pytest.mark.parametrize("charset", ["foo", "iso-8859-1", "utf-16"])
async def test_other_charsets_are_not_supported(charset):
    kind = {"content-type": f"application/x-www-form-urlencoded; charset={charset}"}
    answer = await post(app_with(urlencoded()), "a=1", kind)
    assert answer.status == 415
    assert answer.json["message"] == f"Forms in the charset {charset} are not supported; send utf-8"


@pytest.mark.parametrize("extended", [True, False])
async def test_bytes_that_are_no_utf_8_are_a_bad_request(extended):
    answer = await post(app_with(urlencoded(extended=extended)), b"a=\xff")
    assert (answer.status, answer.json["message"]) == (400, "The form is not valid UTF-8")


async def test_escapes_that_are_no_utf_8_are_not_changed_without_a_word():
    answer = await post(app_with(urlencoded(extended=False)), "a=%FF")
    assert (answer.status, answer.json["message"]) == (400, "The form is not valid UTF-8")
    assert (await post(app_with(urlencoded()), "a=%FF")).json == {"body": {"a": "%FF"}}


@pytest.mark.parametrize(
    "kind", ["application/json", "multipart/form-data; boundary=x", "text/plain"]
)
async def test_leaves_other_types_to_others(kind):
    def see(req, res, next):
        seen.append(repr(req.body))
        return next()

    seen = []
    await post(
        app_with(urlencoded(), see, lambda req, res: res.end()), "a=1", {"content-type": kind}
    )
    assert seen == ["UNSET"]


async def test_stands_beside_json():
    app = app_with(json(), urlencoded())
    assert (await post(app, "a=1")).json == {"body": {"a": "1"}}
    assert (await post(app, '{"a":1}', {"content-type": "application/json"})).json == {
        "body": {"a": 1}
    }


async def test_the_first_parser_that_takes_a_body_keeps_it():
    app = app_with(urlencoded(extended=False), urlencoded())
    assert (await post(app, "a[b]=1")).json == {"body": {"a[b]": "1"}}


async def test_packed_forms():
    headers = {**FORM, "content-encoding": "gzip"}
    answer = await post(app_with(urlencoded()), gzip.compress(b"a=1"), headers)
    assert answer.json == {"body": {"a": "1"}}


async def test_a_client_that_goes_away_calls_nothing():
    called = []
    app = app_with(urlencoded(), lambda req, res, go_on: called.append(1) or go_on())
    answer = await call(app, "POST", "/", [b"a=1&b"], FORM, leaves=True)
    assert (answer.status, called) == (400, [])


async def test_a_request_without_a_body_waits_for_none():
    async def unread():
        raise AssertionError("somebody waited for a body")

    app = express()
    app.use(urlencoded())
    app.use(lambda req, res: res.end())
    assert (await call(app, "GET", "/", headers=FORM)).status == 200


@pytest.mark.parametrize("extended", [True, False])
@given(st.text(alphabet="ab[]=&%+0F\x00ü", max_size=40).map(str.encode) | st.binary(max_size=40))
async def test_any_bytes_are_read_or_refused(extended, raw):
    answer = await post(app_with(urlencoded(extended=extended)), raw)
    assert answer.status in ({415} if raw.lstrip()[:1] in b"{[%" else set()) | {200, 400}
