"""The comparison finds what differs: without that, no recorded case could fail."""

from __future__ import annotations

import pytest
from tests.conformance.comparison import compare, differences
from tests.conformance.wire import Reply

JSON = {"content-type": "application/json; charset=utf-8"}
OBJECT_ID = "64b0000000000000000000d1"
UUID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 1),
        (1, 1.0),
        ("a", "a"),
        (None, None),
        (True, True),
        ([], []),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"$any": "any"}, None),
        ({"$any": "objectid"}, OBJECT_ID),
        ({"$any": "integer"}, 3),
        ({"$any": "number"}, 1.5),
        ({"$any": "string"}, ""),
        ({"$any": "jwt"}, "ab.c-d.e_f"),
        ({"$any": "uuid"}, UUID),
        ({"$any": "date"}, "2024-01-01T00:00:00.000Z"),
        ({"$any": "html"}, "<!doctype html><HTML>"),
        ({"$any": "object"}, {}),
        ({"$any": "array"}, []),
        ({"$has": {"a": 1}}, {"a": 1, "b": 2}),
        ({"$has": {"a": {"$any": "string"}}}, {"a": "x"}),
        ({"$includes": [{"a": 1}, 2]}, [2, 3, {"a": 1}]),
        ({"$any": "any", "b": 1}, {"$any": "any", "b": 1}),
    ],
)
def test_equal(expected, actual):
    assert differences(expected, actual, "body") == []


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 2),
        (1, "1"),
        (1, True),
        (False, 0),
        (None, 0),
        ("a", "A"),
        ("", None),
        ([], {}),
        ({}, []),
        ([1], [1, 2]),
        ([1, 2], [2, 1]),
        ({"a": 1}, {}),
        ({}, {"a": 1}),
        ({"a": None}, {}),
        ({"a": {"b": [1]}}, {"a": {"b": [2]}}),
        ({"$any": "objectid"}, OBJECT_ID + "0"),
        ({"$any": "objectid"}, OBJECT_ID[1:] + "g"),
        ({"$any": "integer"}, 1.5),
        ({"$any": "integer"}, True),
        ({"$any": "number"}, "1"),
        ({"$any": "string"}, 1),
        ({"$any": "jwt"}, "ab.cd"),
        ({"$any": "uuid"}, UUID[1:]),
        ({"$any": "date"}, "today"),
        ({"$any": "date"}, 5),
        ({"$any": "html"}, "{}"),
        ({"$any": "object"}, []),
        ({"$any": "array"}, {}),
        ({"$has": {"a": 1}}, {"a": 2}),
        ({"$has": {"a": 1}}, {"b": 1}),
        ({"$has": {"a": 1}}, [1]),
        ({"$includes": [4]}, [2, 3]),
        ({"$includes": [4]}, {"4": 4}),
    ],
)
def test_different(expected, actual):
    assert differences(expected, actual, "body")


def test_a_difference_has_its_location():
    found = differences({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 3, "d": 4}]}, "body")
    assert found == [
        "body.a[0].b: expected 1, got 3",
        "body.a[0].c: expected 2, got nothing",
        "body.a[0].d: unexpected, got 4",
    ]


def test_compares_status_headers_and_body():
    expected = {
        "status": 200,
        "headers": {
            "content-type": "application/json",
            "vary": "Accept",
            "allow": "GET, PUT",
            "x-count": "2",
        },
        "body": {"a": 1},
    }
    headers = {**JSON, "vary": "Origin, accept", "allow": "HEAD,PUT,GET", "x-count": "2"}
    assert compare(expected, Reply(200, headers, '{"a":1}')) == []
    for wrong in (
        Reply(201, headers, '{"a":1}'),
        Reply(200, {**headers, "content-type": "text/html"}, '{"a":1}'),
        Reply(200, {**headers, "vary": "Origin"}, '{"a":1}'),
        Reply(200, {**headers, "allow": "GET"}, '{"a":1}'),
        Reply(200, {**headers, "x-count": "3"}, '{"a":1}'),
        Reply(200, {name: headers[name] for name in headers if name != "vary"}, '{"a":1}'),
        Reply(200, headers, '{"a":2}'),
        Reply(200, headers, "a"),
        Reply(200, headers, ""),
    ):
        assert len(compare(expected, wrong)) == 1, wrong


def test_a_body_is_strict_json():
    expected = {"status": 200, "body": {"$any": "any"}}
    assert compare(expected, Reply(200, JSON, "null")) == []
    for text in ("NaN", "[Infinity]", "{'a':1}"):
        assert compare(expected, Reply(200, JSON, text))


def test_compares_text():
    assert compare({"status": 204, "text": ""}, Reply(204, {}, "")) == []
    assert compare({"status": 204, "text": ""}, Reply(204, {}, "null"))
    html = {"status": 404, "text": {"$any": "html"}}
    assert compare(html, Reply(404, {}, "<html></html>")) == []
    assert compare(html, Reply(404, {}, "{}"))


def test_compares_headers_with_placeholders():
    expected = {"status": 200, "headers": {"location": {"$any": "string"}}}
    assert compare(expected, Reply(200, {"location": "/a"}, "")) == []
    assert compare(expected, Reply(200, {}, ""))
