"""Bodies as bytes, within a limit."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.express.asgi_client import Sender, call, fake_app, request

from alula import UNSET
from alula.errors import BadRequest, FrameworkError, PayloadTooLarge, UnsupportedMediaType
from alula.express import express, urlencoded
from alula.express import json as json_parser
from alula.express._body_parsing import ContentType, content_type_of, joined_parsers, read_body
from alula.express._settings import DEFAULT_BODY_LIMIT_BYTES, parse_size

SIZES = {
    0: 0,
    100: 100,
    "100": 100,
    "0": 0,
    "100b": 100,
    "100kb": 102_400,
    "100KB": 102_400,
    " 1.5 mb ": 1_572_864,
    "2Gb": 2 * 1024**3,
}


@pytest.mark.parametrize(("size", "number"), SIZES.items())
def test_sizes(size, number):
    assert parse_size(size) == number


@pytest.mark.parametrize(
    "size", [-1, True, 1.5, None, "", "kb", "-1", "1tb", "1 000", "1e3", "٣", "0x10", b"10", "1.kb"]
)
def test_what_is_no_size(size):
    with pytest.raises(ValueError, match=r"not a size; .*'100kb'"):
        parse_size(size)


CONTENT_TYPES = {
    "none": (None, ("", "utf-8")),
    "plain": ("application/json", ("application/json", "utf-8")),
    "charset": ("application/json; charset=UTF-16", ("application/json", "utf-16")),
    "quoted": ('Text/HTML;Charset="latin-1"', ("text/html", "latin-1")),
    "spaces": ("a/b ; charset = utf-8 ; x=1", ("a/b", "utf-8")),
    "after others": ("a/b;x=1;charset=latin-1", ("a/b", "latin-1")),
    "part of a name": ("a/b; xcharset=latin-1", ("a/b", "utf-8")),
    "part of a type": ("charset=latin-1", ("charset=latin-1", "utf-8")),
    "empty": ("a/b; charset=", ("a/b", "utf-8")),
    "the first": ("a/b; charset=a; charset=b", ("a/b", "a")),
}


@pytest.mark.parametrize(("header", "found"), CONTENT_TYPES.values(), ids=CONTENT_TYPES)
def test_content_types(header, found):
    headers = {} if header is None else {"content-type": header}
    assert content_type_of(request("POST", "/", headers)) == ContentType(*found)


def sent(*parts, headers=(), leaves=False, **settings):
    """Return a request with a body in parts."""
    app = fake_app(**settings)
    return request("POST", "/", headers, app=app, sender=Sender(parts, leaves=leaves))


@pytest.mark.parametrize("parts", [[b"abc"], [b"a", b"", b"bc"], [b"abc", b""], []])
async def test_reads_the_whole_body_in_whatever_parts_it_comes(parts):
    assert await read_body(sent(*parts), 10) == b"".join(parts)


async def test_takes_as_much_as_the_limit():
    assert await read_body(sent(b"abc", headers={"content-length": "3"}), 3) == b"abc"
    assert await read_body(sent(headers={"content-length": "0"}), 0) == b""


@pytest.mark.parametrize("headers", [{"content-length": "4"}, {}])
@pytest.mark.parametrize("parts", [[b"abcd"], [b"abc", b"d"], [b"a", b"b", b"c", b"d", b"e"]])
async def test_more_than_the_limit_is_too_large(parts, headers):
    with pytest.raises(PayloadTooLarge, match="too large; the limit is 3 bytes"):
        await read_body(sent(*parts, headers=headers), 3)


async def test_nothing_is_taken_at_a_limit_of_0():
    with pytest.raises(PayloadTooLarge):
        await read_body(sent(b"a"), 0)


class Unread:
    """A ``receive`` that nobody may call."""

    async def __call__(self):
        raise AssertionError("the body was read")


@pytest.mark.parametrize("length", ["4", "9" * 30, "9" * 5000, "0" * 30 + "4"])
async def test_a_length_over_the_limit_is_enough_to_refuse_it(length):
    req = request("POST", "/", {"content-length": length}, sender=Unread())
    with pytest.raises(PayloadTooLarge):
        await read_body(req, 3)


@pytest.mark.parametrize("length", ["-1", "abc", "²", "+4", ""])
async def test_a_length_that_is_none_is_not_believed(length):
    assert await read_body(sent(b"abc", headers={"content-length": length}), 3) == b"abc"


async def test_stops_reading_at_the_limit():
    async def endless():
        parts.append(1)
        return {"type": "http.request", "body": b"x" * 10, "more_body": True}

    parts = []
    with pytest.raises(PayloadTooLarge):
        await read_body(request("POST", "/", sender=endless), 100)
    assert len(parts) == 11


@pytest.mark.parametrize(
    ("setting", "limit"),
    [({}, DEFAULT_BODY_LIMIT_BYTES), ({"body limit": 10}, 10), ({"body limit": "1kb"}, 1024)],
)
async def test_the_limit_is_a_setting(setting, limit):
    assert len(await read_body(sent(b"x" * limit, **setting), None)) == limit
    with pytest.raises(PayloadTooLarge, match=f"the limit is {limit} bytes"):
        await read_body(sent(b"x" * (limit + 1), **setting), None)


async def test_an_invalid_size_is_an_error():
    with pytest.raises(ValueError, match="'much' is not a size"):
        await read_body(sent(b"a", **{"body limit": "much"}), None)


async def test_the_own_limit_comes_before_the_setting():
    assert await read_body(sent(b"abc", **{"body limit": 1}), 3) == b"abc"


@pytest.mark.parametrize("parts", [[], [b"a"], [b"a", b"b"]])
async def test_a_client_that_goes_away_sent_no_body(parts):
    with pytest.raises(BadRequest, match="before the whole body had arrived"):
        await read_body(sent(*parts, leaves=True), 10)


async def test_the_body_stays_readable():
    packed = gzip.compress(b"abc")
    req = sent(packed, headers={"content-encoding": "gzip"})
    assert await read_body(req, 100) == b"abc"
    assert await req.receive_part() == (packed, False)


# -- packed bodies --------------------------------------------------------------------------------

PACKERS = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress}


def packed(encoding, raw):
    return sent(raw, headers={"content-encoding": encoding})


@pytest.mark.parametrize(("encoding", "pack"), PACKERS.items())
@given(body=st.binary(max_size=200))
async def test_unpacks(encoding, pack, body):
    assert await read_body(packed(encoding, pack(body)), 300) == body


@pytest.mark.parametrize("encoding", ["GZIP", " gzip "])
async def test_names_of_encodings_count_in_any_case(encoding):
    assert await read_body(packed(encoding, gzip.compress(b"a")), 100) == b"a"


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
async def test_identity_is_no_encoding(encoding):
    assert await read_body(packed(encoding, b"abc"), 100) == b"abc"


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_an_empty_body_is_packed_in_no_way(encoding):
    assert await read_body(packed(encoding, b""), 100) == b""


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, deflate", "gzip,gzip", "foo"])
async def test_other_encodings_are_refused_with_those_that_are_known(encoding):
    with pytest.raises(UnsupportedMediaType, match="is not supported; use gzip") as caught:
        await read_body(packed(encoding, b"abc"), 100)
    assert caught.value.headers == {"Accept-Encoding": "gzip, deflate"}


@pytest.mark.parametrize(("encoding", "pack"), PACKERS.items())
async def test_a_limit_holds_for_what_is_unpacked(encoding, pack):
    assert await read_body(packed(encoding, pack(b"x" * 1000)), 1000) == b"x" * 1000
    with pytest.raises(PayloadTooLarge):
        await read_body(packed(encoding, pack(b"x" * 1001)), 1000)


async def test_a_bomb_is_never_unpacked(monkeypatch):
    class Watched:
        def __init__(self, bits):
            self.inner = real(bits)

        def decompress(self, raw, most):
            found = self.inner.decompress(raw, most)
            made.append(len(found))
            return found

    made, real = [], zlib.decompressobj
    monkeypatch.setattr("alula.express._body_parsing.zlib.decompressobj", Watched)
    bomb = zlib.compress(b"\0" * 1_000_000)
    with pytest.raises(PayloadTooLarge):
        await read_body(packed("deflate", bomb), 5000)
    assert made == [5001]


BROKEN = {
    "no gzip": (b"{}", "The body is not valid gzip$"),
    "cut off": (gzip.compress(b"abc" * 50)[:-9], "it ends too early"),
    "without its checksum": (gzip.compress(b"abc")[:-4], "it ends too early"),
    "a single byte": (b"\x1f", "it ends too early"),
    "with a wrong checksum": (gzip.compress(b"abc")[:-8] + b"\0" * 8, "not valid gzip$"),
    "with something behind": (gzip.compress(b"abc") + b"x", "something follows its end"),
    "twice": (gzip.compress(b"abc") * 2, "something follows its end"),
    "deflate": (zlib.compress(b"abc"), "not valid gzip$"),
}


@pytest.mark.parametrize(("raw", "message"), BROKEN.values(), ids=BROKEN)
async def test_broken_gzip_is_a_bad_request(raw, message):
    with pytest.raises(BadRequest, match=message):
        await read_body(packed("gzip", raw), 1000)


@given(st.binary(max_size=100), st.sampled_from(["gzip", "deflate", "identity", "br"]))
async def test_any_bytes_are_read_or_refused(raw, encoding):
    try:
        found = await read_body(packed(encoding, raw), 50)
    except FrameworkError as error:
        found = error.code
    assert found in {400, 413, 415} or len(found) <= 50


@pytest.mark.parametrize(("body", "found"), [(b'{"a": 1}', {"a": 1}), (None, "none")])
async def test_middleware_of_ones_own_can_call_a_parser(body, found):
    parser = json_parser()

    async def parse_and_look(req, res, next):
        await parser(req, res, next)
        res.json("none" if req.body is UNSET else req.body)

    app = express().use(parse_and_look, lambda req, res: None)
    answer = await call(app, "POST", "/", body, {"content-type": "application/json"})
    assert answer.json == found


@pytest.mark.parametrize("most", [0, -1, 1.5, True, None])
def test_the_number_of_containers_is_a_whole_number_over_0(most):
    with pytest.raises(ValueError, match="max_containers is "):
        json_parser(max_containers=most)


BOTH = {
    "a form": ("application/x-www-form-urlencoded", b"a[b]=1", {"a": {"b": "1"}}),
    "JSON": ("application/json; charset=utf-8", b'{"a":1}', {"a": 1}),
    "neither": ("text/plain", b"a", None),
}


@pytest.mark.parametrize(("kind", "body", "found"), BOTH.values(), ids=BOTH)
@pytest.mark.parametrize("parsers", [(json_parser(), urlencoded()), (urlencoded(), json_parser())])
async def test_parsers_that_follow_one_another_are_one_step(parsers, kind, body, found):
    def look(req, res):
        res.json(None if req.body is UNSET else req.body)

    app = express().use([*parsers], look)
    assert repr(app) == repr(express().use(json_parser(), look))
    assert (await call(app, "POST", "/", body, {"content-type": kind})).json == found
    apart = express().use(parsers[0]).use(parsers[1], look)
    assert (await call(apart, "POST", "/", body, {"content-type": kind})).json == found


def test_only_neighbours_are_joined():
    def between(req, res, next):
        return next()

    items = [json_parser(), between, json_parser(), urlencoded(), json_parser(limit=1)]
    first, middle, second = joined_parsers(items)
    assert (first, middle) == (items[0], between)
    kinds = ["application/x-www-form-urlencoded", "application/json"]
    assert sorted(second.by_type) == sorted(kinds)
    # As in a chain: the first parser of a type takes its bodies.
    assert second.by_type[kinds[1]] == items[2].by_type[kinds[1]]
    assert [*items[3].by_type] == kinds[:1]


async def test_clients_do_not_fill_the_memory_with_content_types():
    parser = json_parser()
    app = express().use(parser, lambda req, res: res.json(req.body))
    kinds = [f"application/json; x={number}" for number in range(300)]
    for kind in ("application/json; x=" + "1" * 500, *kinds, "application/json"):
        answer = await call(app, "POST", "/", b'{"a":1}', {"content-type": kind})
        assert answer.json == {"a": 1}
    remembered = parser._by_content_type
    assert 1 < len(remembered) <= 100
    assert max(map(len, remembered)) < 100
