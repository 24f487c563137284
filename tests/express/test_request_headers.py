"""Request headers as a mapping."""

from __future__ import annotations

import pytest

from alula.express._http1 import protocol
from alula.express._http1.protocol import LINE_BEGINNINGS, check_value, line_beginning
from alula.express._request import Headers

RAW = [
    (b"host", b"alula.example"),
    (b"accept", b"text/html"),
    (b"x-empty", b""),
    (b"accept", b"application/json"),
    (b"cookie", b"a=1"),
    (b"cookie", b"b=2"),
    (b"x-name", "Zoë".encode("latin-1")),
]


@pytest.fixture
def headers():
    return Headers(RAW)


@pytest.mark.parametrize("name", ["host", "Host", "HOST"])
def test_takes_names_in_any_case(headers, name):
    assert headers[name] == "alula.example"
    assert headers.get(name) == "alula.example"
    assert name in headers


def test_knows_what_was_not_sent(headers):
    assert headers.get("origin") is None
    assert headers.get("origin", "none") == "none"
    assert "origin" not in headers
    assert 1 not in headers
    with pytest.raises(KeyError):
        headers["origin"]


def test_middleware_may_set_and_delete_them(headers):
    headers["Host"] = "other.example"
    headers["X-New"] = "1"
    assert (headers["host"], headers["x-new"]) == ("other.example", "1")
    del headers["x-new"]
    assert "x-new" not in headers


@pytest.mark.parametrize(("name", "value"), [("x-a", 1), ("x-a", None), (1, "a"), ("x-a", b"a")])
def test_what_is_set_is_text(headers, name, value):
    with pytest.raises(TypeError, match=r"a header is text: req\.headers\["):
        headers[name] = value


def test_tells_empty_from_absent(headers):
    assert headers["x-empty"] == ""
    assert headers.get("x-empty", "other") == ""


def test_joins_what_is_sent_several_times(headers):
    assert headers["accept"] == "text/html, application/json"
    assert headers["cookie"] == "a=1; b=2"


@pytest.mark.parametrize(
    "name", ["authorization", "content-length", "content-type", "host", "x-service-method"]
)
def test_takes_the_first_of_what_can_stand_once_only(name):
    assert Headers([(name.encode(), b"1"), (name.encode(), b"2")])[name] == "1"


def test_reads_bytes_as_latin_1(headers):
    assert headers["x-name"] == "Zoë"


def test_leaves_out_the_space_around_a_value():
    assert Headers([(b"x", b" \ta b\xa0 \t")])["x"] == "a b\xa0"


def test_is_a_mapping_in_the_order_of_the_request(headers):
    assert list(headers) == ["host", "accept", "x-empty", "cookie", "x-name"]
    assert len(headers) == 5
    assert dict(headers)["x-empty"] == ""
    assert headers == dict(headers)


def test_decodes_nothing_before_someone_asks_and_then_once():
    class Value(bytes):
        def strip(self, *_):
            read.append(1)
            return b"a"

    read = []
    headers = Headers([(b"host", Value())])
    assert read == []
    assert headers["host"] == headers["Host"] == "a"
    assert read == [1]


def test_keeps_values_out_of_its_repr():
    headers = Headers([(b"authorization", b"Bearer secret"), (b"host", b"a")])
    assert repr(headers) == "<Headers authorization, host>"


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ([], (b"", "")),
        ([(b"content-type", b"a/b; x=1")], (b"a/b; x=1", "")),
        ([(b"content-encoding", b"gzip ")], (b"", "gzip")),
        ([(b"content-type", b"a/b"), (b"content-encoding", b"gzip")], (b"a/b", "gzip")),
        ([(b"content-type", b"a/b"), (b"content-type", b"c/d")], (b"a/b", "")),
        ([(b"x", b"1"), (b"content-type", b"a/b"), (b"x", b"2")], (b"a/b", "")),
    ],
)
def test_what_describes_a_body(raw, found):
    assert Headers(raw).of_body() == found


@pytest.mark.parametrize("look", [lambda headers: headers.get("host"), len])
def test_what_middleware_sets_holds_for_every_look(look):
    headers = Headers([(b"content-type", b"a/b"), (b"host", b"a")])
    look(headers)
    headers["content-type"], headers["content-encoding"] = "c/d", "gzip"
    look(headers)
    assert headers.of_body() == (b"c/d", "gzip")
    assert headers.get("Content-Type") == headers["content-type"] == "c/d"
    del headers["content-type"], headers["content-encoding"]
    look(headers)
    assert headers.of_body() == (b"", "")
    assert headers.get("content-type") is None
    assert headers.sent == {b"content-type": b"a/b", b"host": b"a"}


# -- what is sent ----------------------------------------------------------------------------------


def test_a_name_that_is_sent_is_in_lower_case(monkeypatch):
    monkeypatch.setattr(protocol, "_MAX_NAMES", len(LINE_BEGINNINGS) + 1)
    assert line_beginning(b"X-Name_1") == b"x-name_1: "
    assert LINE_BEGINNINGS[b"X-Name_1"] == b"x-name_1: "


@pytest.mark.parametrize(
    "character", sorted({*range(0x21), 0x7F, 0x80, 0xFF} | {*b'"(),/:;<=>?@[\\]{}'})
)
def test_names_are_tokens(character):
    name = b"x%cy" % character
    with pytest.raises(RuntimeError, match="Invalid HTTP header name"):
        line_beginning(name)
    assert name not in LINE_BEGINNINGS


def test_a_name_is_not_empty():
    with pytest.raises(RuntimeError, match="Invalid HTTP header name"):
        line_beginning(b"")


@pytest.mark.parametrize("character", [*range(0x20), 0x7F])
def test_values_have_no_control_characters_but_tabs(character):
    value = b"a%cb" % character
    if character == ord("\t"):
        check_value(value)
    else:
        with pytest.raises(RuntimeError, match="Invalid HTTP header value"):
            check_value(value)


def test_values_have_other_bytes():
    check_value(bytes({*range(0x20, 0x100)} - {0x7F}))
