"""From calls to requests, and from answers to results."""

from __future__ import annotations

import codecs
import json
import uuid
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula import Params, errors
from alula.client._codec import (
    Request,
    Response,
    fill_route,
    read_response,
    request_for,
)
from alula.client._json import body_of
from alula.outgoing import register_json_encoder
from alula.outgoing._encoders import JSON_ENCODERS

BASE = "http://here/messages"
ACCEPT = {"Accept": "application/json, text/event-stream;q=0.9"}
TYPED = {**ACCEPT, "Content-Type": "application/json"}


def made(method, id=None, data=None, **params):
    return request_for(BASE, method, id, data, Params(params))


class TestRequests:
    @pytest.mark.parametrize(
        ("method", "id", "data", "expected"),
        [
            ("find", None, None, ("GET", BASE, ACCEPT, None)),
            ("get", 5, None, ("GET", f"{BASE}/5", ACCEPT, None)),
            ("create", None, {"a": 1}, ("POST", BASE, TYPED, b'{"a":1}')),
            ("create", None, [], ("POST", BASE, TYPED, b"[]")),
            ("create", None, None, ("POST", BASE, TYPED, None)),
            ("update", 5, {}, ("PUT", f"{BASE}/5", TYPED, b"{}")),
            ("update", None, {}, ("PUT", BASE, TYPED, b"{}")),
            ("patch", "x", {}, ("PATCH", f"{BASE}/x", TYPED, b"{}")),
            ("patch", None, {}, ("PATCH", BASE, TYPED, b"{}")),
            ("remove", 0, None, ("DELETE", f"{BASE}/0", ACCEPT, None)),
            ("remove", None, None, ("DELETE", BASE, ACCEPT, None)),
        ],
    )
    def test_of_the_six_methods(self, method, id, data, expected):
        assert made(method, id, data) == Request(*expected)

    def test_of_custom_methods(self):
        request = made("archive", None, {"a": 1})
        assert (request.method, request.url) == ("POST", BASE)
        assert request.headers == {**TYPED, "X-Service-Method": "archive"}

    def test_the_query_is_percent_encoded(self):
        request = made("find", query={"$sort": {"a": -1}, "in": ["x", "y z"]})
        assert request.url == f"{BASE}?%24sort%5Ba%5D=-1&in%5B0%5D=x&in%5B1%5D=y%20z"
        assert made("get", 1, query={"a": None}).url == f"{BASE}/1?a="

    @pytest.mark.parametrize(
        ("id", "segment"),
        [
            ("a/b", "a%2Fb"),
            ("ü", "%C3%BC"),
            ("!~*'()-_.", "!~*'()-_."),
            (True, "true"),
            (False, "false"),
            (1.5, "1.5"),
            (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ],
    )
    def test_ids_are_encoded_as_javascript_does(self, id, segment):
        assert made("get", id).url == f"{BASE}/{segment}"

    @pytest.mark.parametrize("method", ["get", "update", "patch", "remove"])
    def test_an_empty_id_is_refused(self, method):
        with pytest.raises(errors.BadRequest, match=rf"^id for \.{method} is required$"):
            made(method, "")

    def test_get_needs_an_id(self):
        with pytest.raises(errors.BadRequest, match=r"^id for \.get is required$"):
            made("get", None)

    @pytest.mark.parametrize("id", [{"$ne": 1}, [1], (1,), {1}, b"x"])
    def test_an_id_is_a_single_value(self, id):
        with pytest.raises(errors.BadRequest, match="has to be a single value"):
            made("get", id)

    @pytest.mark.parametrize("id", [".", "..", "\ud800"])
    def test_an_id_that_is_a_step_in_a_path_or_half_a_character(self, id):
        with pytest.raises(errors.BadRequest, match="which no address can carry"):
            made("get", id)

    @pytest.mark.parametrize(
        ("query", "name"),
        [
            ({"id": {"$in": []}}, "id[$in]"),
            ({"a": 1, "$or": ()}, "$or"),
            ({"$or": [{"a": 1}, {"b": {}}]}, "$or[1][b]"),
        ],
    )
    @pytest.mark.parametrize("method", ["update", "patch", "remove"])
    def test_records_are_not_changed_by_a_part_of_a_query(self, method, query, name):
        with pytest.raises(errors.BadRequest) as caught:
            made(method, query=query)
        assert f"the query of .{method}(None) has nothing in {name}, and" in caught.value.message
        assert made(method, 1, query=query).url.startswith(f"{BASE}/1")
        assert made("find", query=query).method == "GET"

    @pytest.mark.parametrize("method", ["update", "patch", "remove"])
    def test_a_whole_query_selects_what_is_changed(self, method):
        query = {"a": None, "b": "", "c": {"$in": [0]}}
        assert made(method, query=query).url == f"{BASE}?a=&b=&c%5B%24in%5D%5B0%5D=0"
        assert made(method, query={}).url == BASE

    @given(st.text(min_size=1).filter(lambda text: text not in {".", ".."}))
    def test_no_id_leaves_its_segment(self, text):
        text = text.encode("utf-8", "replace").decode()
        segment = made("get", text).url.removeprefix(f"{BASE}/")
        assert segment.isascii()
        assert not set("/?# \r\n") & set(segment)


class TestRoutes:
    def test_values_take_their_places(self):
        route = {"a": "x/y", "ab": 5, "more": "unused"}
        assert fill_route("http://h:80/:a/s/:ab/t", route) == "http://h:80/x%2Fy/s/5/t"

    @pytest.mark.parametrize("route", [{}, {"a": None}, {"a": ""}])
    def test_a_value_that_is_missing(self, route):
        with pytest.raises(errors.BadRequest, match=r"placeholder :a; give route=\{'a': ...\}"):
            fill_route("http://h/:a/s", route)


class Money:
    pass


class TestBodies:
    def test_dates_as_javascript_writes_them(self):
        moment = datetime(2026, 1, 2, 3, 4, 5, 6789, timezone(timedelta(hours=1)))
        naive = datetime(2026, 1, 2)
        text = b'["2026-01-02T02:04:05.006Z","2026-01-02T00:00:00.000Z"]'
        assert body_of([moment, naive]) == text

    def test_unicode_stays_and_half_characters_are_escaped(self):
        assert body_of("ü\U0001f600") == '"ü\U0001f600"'.encode()
        assert body_of("ü\ud800") == b'"\\u00fc\\ud800"'

    def test_types_that_have_a_form(self, monkeypatch):
        monkeypatch.setitem(JSON_ENCODERS, Money, lambda _: {"amount": 1})

        class Euro(Money):
            pass

        assert body_of([Money(), Euro()]) == b'[{"amount":1},{"amount":1}]'
        assert register_json_encoder

    def test_types_that_have_none(self):
        with pytest.raises(TypeError, match="of type Money, which has no form"):
            body_of({"a": [Money()]})

    def test_numbers_that_are_not_finite(self):
        with pytest.raises(ValueError, match="not JSON compliant"):
            body_of(float("nan"))

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
    def test_json_comes_out_as_it_went_in(self, value):
        assert json.loads(body_of(value)) == value


REQUEST = Request("GET", "http://here/x", {})


def told(status, value=None, **headers):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Response(status, {name.replace("_", "-"): each for name, each in headers.items()}, body)


class CaseInsensitive(dict):
    """Headers as libraries have them: found in any case, and with names as they came."""

    def __contains__(self, name):
        return any(name.lower() == each.lower() for each in self)

    def __getitem__(self, name):
        return next(value for each, value in self.items() if each.lower() == name.lower())

    def get(self, name, default=None):
        return next((self[each] for each in self if each.lower() == name.lower()), default)


class TestResponses:
    @pytest.mark.parametrize("value", [[], {}, 0, False, "x", None, {"name": "BadRequest"}])
    @pytest.mark.parametrize("status", [200, 201, 299])
    def test_results(self, status, value):
        assert read_response(REQUEST, told(status, value)) == value

    @pytest.mark.parametrize("value", [{"a": 1}, {"name": "BadRequest"}])
    def test_a_byte_order_mark_is_not_part_of_them(self, value):
        body = codecs.BOM_UTF8 + json.dumps(value).encode()
        assert read_response(REQUEST, Response(200, {}, body)) == value

    def test_nor_of_an_error(self):
        body = codecs.BOM_UTF8 + json.dumps(errors.Conflict("taken").to_dict()).encode()
        with pytest.raises(errors.Conflict, match="taken"):
            read_response(REQUEST, Response(409, {}, body))

    @pytest.mark.parametrize(("status", "body"), [(204, b""), (204, b"x"), (200, b"")])
    def test_nothing(self, status, body):
        assert read_response(REQUEST, told(status, body)) is None

    def test_an_error(self):
        sent = errors.Conflict("taken", {"key": "a"}, errors={"a": "b"})
        with pytest.raises(errors.Conflict, match="taken") as caught:
            read_response(REQUEST, told(409, sent.to_dict(), retry_after="5"))
        assert caught.value.to_dict() == sent.to_dict()
        assert caught.value.headers == {"retry-after": "5"}

    @pytest.mark.parametrize("code", [200, 204, 304, 399, 600, -1, True])
    def test_a_code_that_is_not_an_errors_is_that_of_the_response(self, code):
        with pytest.raises(errors.Conflict) as caught:
            read_response(REQUEST, told(409, {"name": "Conflict", "code": code}))
        assert caught.value.code == 409

    def test_headers_of_others_do_not_pass(self):
        passing = {"Retry-After": "5", "ALLOW": "GET", "www-authenticate": "Basic"}
        upstream = {**passing, "Set-Cookie": "a=b", "transfer-encoding": "chunked"}
        for status, body in ((401, b'{"name": "NotAuthenticated"}'), (502, b"<p>"), (200, b"<p>")):
            response = Response(status, CaseInsensitive(upstream), body)
            with pytest.raises(errors.FrameworkError) as caught:
                read_response(REQUEST, response)
            assert set(caught.value.headers) == {"retry-after", "allow", "www-authenticate"}
            assert caught.value.__cause__.headers["set-cookie"] == "a=b"
            assert (caught.value.__cause__.status, caught.value.__cause__.body) == (status, body)

    def test_the_cause_keeps_the_beginning_of_a_long_body(self):
        with pytest.raises(errors.FrameworkError) as caught:
            read_response(REQUEST, told(500, b"x" * 1_000_000))
        assert caught.value.__cause__.body == b"x" * 65_536

    @pytest.mark.parametrize("status", [200, 302, 400, 500])
    def test_texts_have_no_query_string(self, status):
        request = Request("GET", "http://here/x?apiKey=secret", {})
        with pytest.raises(errors.FrameworkError) as caught:
            read_response(request, told(status, b"<p>", location="http://there/?apiKey=secret"))
        error = caught.value
        assert "secret" not in f"{error} {error.to_dict()} {error.__cause__}"
        assert "http" not in error.message
        assert "http://here/x?... got status" in str(error)
        assert (error.__cause__.method, error.__cause__.url) == (request.method, request.url)

    def test_an_error_without_a_code(self):
        with pytest.raises(errors.Gone, match="over"):
            read_response(REQUEST, told(410, {"name": "Gone", "message": "over"}))

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({"oops": 1}, "the server responded with 409"),
            ({"message": "taken"}, "taken"),
            ({"message": {"text": "taken"}}, "the server responded with 409"),
            ([1], "the server responded with 409"),
        ],
    )
    def test_an_error_in_another_form(self, value, message):
        with pytest.raises(errors.Conflict, match=message) as caught:
            read_response(REQUEST, told(409, value))
        assert caught.value.data is None
        assert json.loads(caught.value.__cause__.body) == value

    def test_a_status_that_has_no_class(self):
        with pytest.raises(errors.FrameworkError, match="418") as caught:
            read_response(REQUEST, told(418, {}))
        assert caught.value.code == 418

    @pytest.mark.parametrize("status", [300, 304, 399])
    def test_redirects(self, status):
        with pytest.raises(errors.BadGateway, match=f"status {status} with the location nowhere"):
            read_response(REQUEST, told(status, {}))

    def test_what_is_no_json(self):
        with pytest.raises(errors.GeneralError) as caught:
            read_response(REQUEST, told(500, b"\xff<b>" + b"x" * 900))
        error = caught.value
        assert str(error).startswith("GET http://here/x got status 500 with no content type")
        assert len(str(error)) < 320
        assert error.message == "the called server responded with 500, not JSON"
        assert error.data is None

    @pytest.mark.parametrize("status", [200, 500])
    def test_what_is_nested_beyond_measure(self, status):
        with pytest.raises(errors.FrameworkError, match="instead of JSON"):
            read_response(REQUEST, told(status, b"[" * 200_000))

    def test_an_empty_error(self):
        with pytest.raises(errors.NotFound, match="instead of JSON: nothing") as caught:
            read_response(REQUEST, told(404, b""))
        assert caught.value.code == 404
