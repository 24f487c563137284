"""The headers of requests, and which of them win."""

from __future__ import annotations

import pytest

from alula import Params
from alula.client._codec import DefaultHeaders, merge_headers, request_for

BASE = "http://here/messages"
ACCEPT = {"Accept": "application/json, text/event-stream;q=0.9"}
TYPED = {**ACCEPT, "Content-Type": "application/json"}


def headers_of(method, standing=None, **params):
    headers = DefaultHeaders(standing)
    return request_for(BASE, method, 1, None, Params(params), headers).headers


def test_of_every_origin():
    sent = headers_of(
        "find",
        {"One": "every", "three": "every"},
        headers={"one": "call", "two": "call"},
        connection={"headers": {"TWO": "connection", "Accept": "text/x"}},
    )
    assert sent == {"Accept": "text/x", "one": "call", "three": "every", "TWO": "connection"}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("find", ACCEPT),
        ("get", ACCEPT),
        ("remove", ACCEPT),
        ("create", TYPED),
        ("update", TYPED),
        ("patch", TYPED),
        ("archive", {**TYPED, "X-Service-Method": "archive"}),
    ],
)
def test_of_each_method(method, expected):
    assert headers_of(method) == expected
    assert headers_of(method, {"accept": "a/b"}) == {
        **{name: value for name, value in expected.items() if name != "Accept"},
        "accept": "a/b",
    }


@pytest.mark.parametrize("connection", [None, {}, {"timeout": 1}, {"headers": None}])
def test_a_connection_without_headers(connection):
    assert headers_of("get", connection=connection) == ACCEPT


def test_those_of_one_call_are_its_own():
    headers = DefaultHeaders({"a": "b"})
    headers.for_call("get", Params())["more"] = "by a library"
    assert headers.for_call("get", Params()) == {**ACCEPT, "a": "b"}


def test_latin_letters_pass():
    assert merge_headers({"a": "ÿ"}) == {"a": "ÿ"}


@pytest.mark.parametrize("header", [{"a": "b\r\nc"}, {"a\n": "b"}, {"a": "\0"}, {"a": "Ā"}])
def test_none_can_begin_another(header):
    with pytest.raises(ValueError, match="line break"):
        merge_headers(header)
    with pytest.raises(ValueError, match="line break"):
        headers_of("get", headers=header)


def test_values_are_strings():
    with pytest.raises(TypeError, match="header a is 5; give a string"):
        merge_headers({"a": 5})
